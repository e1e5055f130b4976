"""Promise a rule to new people on the people it was fitted on: search, and say what can be done where none is found."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import replace

import numpy as np
from scipy import optimize, stats

from optfair.constraints import Constraint, RowSet
from optfair.errors import PromiseError
from optfair.metrics.counts import ConfusionCounts
from optfair.metrics.influence import people_behind
from optfair.metrics.noise import own_noise
from optfair.rule.certificate import Status
from optfair.rule.draft import certify, make_draft
from optfair.rule.driver import Solution
from optfair.rule.problem import FairProblem
from optfair.rule.promise import (
    FEWEST_PEOPLE,
    SPARE,
    Promise,
    binding_name,
    binding_row,
    promise_table,
    single_tolerance,
)
from optfair.rule.tightening import People, PromiseSearch, Trial

UNPROMISED = ("error", "mix", "loosen")
FAMILY = (4.0, 3.0, 2.25, 1.5, 0.75)  # standard errors of rules to test on people held out, before the plain one
SHARE_STEP = 1e-4  # of decisions: what the share that is mixed in is rounded up by


def promise_rule(
    problem: FairProblem, plain: Solution, people: People, confidence: float, decision: str, unpromised: str
) -> Solution:
    """Return a rule of the problem that is promised to new people, with its promise.

    plain : the rule without a promise. unpromised : what to do where no rule is found; "mix" it with a constant,
    "loosen" all tolerances by what is needed, or raise PromiseError.
    """
    search = PromiseSearch(problem, people, confidence, decision)
    first = search.trial(plain)
    _refuse_few(search, first)
    promised, fairest = search.search(first)
    loosened = 1.0
    if promised is None and unpromised == "mix":
        promised = _mixed(search, fairest)
    elif promised is None and unpromised == "loosen" and np.isfinite(fairest.ratio):
        promised, loosened = fairest, math.ceil(1000 * fairest.ratio) / 1000
    if promised is None:
        raise _refusal(search, first, fairest)
    promise = _promise(search, promised, first, loosened)
    return _with_promise(promised.solution, promise)


def tightened_family(
    problem: FairProblem, plain: Solution, people: People, decision: str, n_people: np.ndarray
) -> Iterator[Solution]:
    """Yield rules tightened by what chance can do to new people of these numbers, the strictest first.

    Their numbers are all that is known of them. n_people : (A, m) by group and class, or (A, 1) by group.
    """
    search = PromiseSearch(problem, people, 0.5, decision)
    first = search.trial(plain)
    start = replace(first, se=own_noise(_expected_counts(first.counts, n_people), search.rows).scale)
    for c in FAMILY:
        trials = search.tightened(start, c)
        if trials:
            start = replace(trials[-1], se=start.se)
            yield start.solution
    yield plain


def _expected_counts(counts: ConfusionCounts, n_people: np.ndarray) -> ConfusionCounts:
    """Return the counts of so many people if they were as those counted."""
    prior = counts.prior
    if n_people.shape[1] == 1:
        n_people = n_people * prior / np.maximum(prior.sum(axis=1, keepdims=True), 1e-300)
    rates = np.divide(counts.tensor, prior[..., None], out=np.zeros_like(counts.tensor), where=prior[..., None] > 0)
    n = n_people.sum()
    tensor = rates * (n_people / n)[..., None]
    names = {"groups": counts.groups, "classes": counts.classes}
    return ConfusionCounts(tensor=tensor, n_people=n_people, hard=True, second_moment=tensor / n, **names)


def _with_promise(solution: Solution, promise: Promise) -> Solution:
    """Return the solution whose rule states its promise, and whose certificate says what it is for."""
    notes = list(solution.rule.certificate.notes)
    if promise.tightening > 0:
        notes.append(
            f"bounds tightened by {promise.tightening:.2f} standard errors for the promise; the upper bound is for "
            "rules within these"
        )
    certificate = replace(solution.rule.certificate, notes=tuple(notes))
    return replace(solution, rule=replace(solution.rule, certificate=certificate, promise=promise))


def _promise(search: PromiseSearch, trial: Trial, first: Trial, loosened: float = 1.0) -> Promise:
    """Return what is promised of a rule."""
    rows = _loosened_rows(search.rows, loosened)
    bounds = rows.upper if loosened > 1 else None
    noise = np.divide(
        np.abs(trial.draws), trial.se[:, None], out=np.zeros_like(trial.draws), where=trial.se[:, None] > 0
    )
    width = float(np.quantile(noise.max(axis=0), search.confidence)) * trial.se
    limits = trial.values - width, trial.values + width
    people = people_behind(search.rows, trial.counts.n_people)
    quantile = float(stats.norm.ppf(1 - (1 - search.confidence) / (2 * len(rows))))
    table = promise_table(rows, trial.values, trial.se, limits, people, quantile)
    ratio = search.ratio(trial.values, trial.draws, bounds)
    gaps = rows.is_gap
    return Promise(
        kept=ratio <= 1,
        confidence=search.confidence,
        tolerance=single_tolerance(rows),
        bound=search.ratio(trial.values, trial.draws, np.ones(len(rows))) if gaps.any() else math.nan,
        ratio=ratio,
        method="fitted",
        decision=search.decision,
        n_people=int(trial.counts.n_people.sum()),
        tightening=trial.tightening,
        share=trial.solution.rule.share,
        cost=first.accuracy - trial.accuracy,
        loosened=loosened,
        binding=binding_name(table, binding_row(rows, limits)),
        table=table,
    )


def _loosened_rows(rows: RowSet, factor: float) -> RowSet:
    """Return the rows with all tolerances times a factor; bounds of other rows stay."""
    return replace(
        rows,
        lower=np.where(rows.is_gap, factor * rows.lower, rows.lower),
        upper=np.where(rows.is_gap, factor * rows.upper, rows.upper),
    )


# -- mixing with a constant --------------------------------------------------------------------------------
def _mixed(search: PromiseSearch, trial: Trial) -> Trial | None:
    """Return the rule mixed with the constant that costs least of those that make it promised; None if none does.

    Gaps and their noise shrink by the same factor, since a constant treats everybody alike. By the share of correct
    answers only the uniform one does.
    """
    m = len(search.measure.classes)
    by_accuracy = search.rows.table["criterion"].isin(["oae", "oae ratio", "minimum accuracy"]).any()
    uniform = np.full(m, 1 / m)
    constants = [uniform] if by_accuracy else [*np.eye(m), uniform]
    mixtures = [mixture for q in constants if (mixture := _mixture(search, trial, q)) is not None]
    return max(mixtures, key=lambda mixture: mixture.accuracy, default=None)


def _mixture(search: PromiseSearch, trial: Trial, q: np.ndarray) -> Trial | None:
    """Return the rule mixed with the least share of the constant q that makes it promised; None if none does."""
    constant = search.rows.values(trial.counts.prior[..., None] * q)

    def excess(share: float) -> float:
        values = (1 - share) * trial.values + share * constant
        return min(search.ratio(values, (1 - share) * trial.draws) - 1, 1.0)

    if excess(1.0) > 0:
        return None
    share = min(optimize.brentq(excess, 0.0, 1.0, xtol=SHARE_STEP) + 2 * SHARE_STEP, 1.0)
    mixture = search.trial(_mix(search.problem, trial.solution, share, q), trial.tightening)
    return mixture if mixture.ratio <= 1 else None


def _mix(problem: FairProblem, solution: Solution, share: float, q: np.ndarray) -> Solution:
    """Return the certified rule (1 − s) h + s q."""
    rule, problem = solution.rule, solution.problem or problem
    total = 1 - (1 - share) * (1 - rule.share)
    constant = ((1 - share) * rule.share * rule.constant + share * q) / total
    lam = rule.multipliers["multiplier"].to_numpy() / problem.utility.scale
    mixture = certify(problem, make_draft(problem, lam, rule.temperatures.ravel(), total, constant))
    certificate = replace(mixture.certificate, status=Status.MIXED, passes=rule.certificate.passes)
    return replace(solution, rule=replace(mixture, certificate=certificate, key=rule.key))


# -- refusals ----------------------------------------------------------------------------------------------
def _refuse_few(search: PromiseSearch, first: Trial) -> None:
    """Refuse rows with so few people that no simulation supports a promise about them."""
    people = people_behind(search.rows, first.counts.n_people)
    fewest = int(np.argmin(people))
    if people[fewest] < FEWEST_PEOPLE:
        group = search.rows.table["group"].iloc[fewest]
        raise PromiseError(
            f"confidence={search.confidence:g}: nothing can be promised of {search.rows.names[fewest]}, which has "
            f"{people[fewest]} of {first.counts.n_people.sum():,} people; at least {FEWEST_PEOPLE} are needed. Leave "
            f"{group!r} out by a tolerance for each group that is meant (tolerance={{...}}), or join it with another.",
            math.inf,
            None,
            _promise(search, first, first),
        )


def _refusal(search: PromiseSearch, first: Trial, fairest: Trial) -> PromiseError:
    """Return the error that says which gap stands in the way, and what could be done."""
    promise = _promise(search, fairest, first)
    k = binding_row(search.rows, (promise.table["low"].to_numpy(), promise.table["high"].to_numpy()))
    row, n = promise.table.iloc[k], promise.n_people
    tolerance = promise.tolerance
    head = (
        f"{'confidence' if tolerance is None else f'tolerance={tolerance:g}'}: cannot be promised with confidence "
        f"{search.confidence:g} to these {n:,} people: the value of {search.rows.names[k]} ({row['people']:,} people) "
        f"is known to ±{(row['high'] - row['low']) / 2:.3f} only."
    )
    ways, smallest = [], fairest.ratio
    if np.isfinite(smallest) and tolerance is not None:
        head += f" Smallest tolerance that can be promised: {_up(smallest * tolerance)}."
    elif np.isfinite(smallest):
        head += f" All tolerances times {_up(smallest)} can be promised."
    if np.isfinite(row["people_needed"]):
        ways.append(f"about {_round(row['people_needed']):,} people where there are {row['people']:,}")
    tolerances = _group_tolerances(search, fairest)
    if tolerances is not None:
        ways.append(f"a tolerance for each group, tolerance={tolerances!r}")
    if search.decision != "argmax" and (mixture := _mixed(search, fairest)) is not None:
        ways.append(
            f"unpromised='mix' (accuracy {mixture.accuracy:.3f} instead of {first.accuracy:.3f}, "
            f"{mixture.solution.rule.share:.0%} of decisions drawn from a constant)"
        )
    if np.isfinite(smallest):
        ways.append("unpromised='loosen'")
    return PromiseError(f"{head} Ways on: {'; '.join(ways) or 'wider bounds'}.", smallest, tolerances, promise)


def _group_tolerances(search: PromiseSearch, fairest: Trial) -> dict[Hashable, float] | None:
    """Return tolerances by group that the fairest rule keeps with room to spare; None where no mapping says them."""
    constraints = search.problem.rows.constraints
    if len(constraints) != 1 or not isinstance(constraints[0], Constraint) or constraints[0].reference != "overall":
        return None
    groups = search.rows.table["group"]
    largest = _largest_errors(groups, fairest.se)
    noise = np.array([largest[group] for group in groups])

    def excess(t: float) -> float:
        return min(search.ratio(fairest.values, fairest.draws, np.maximum(search.rows.upper, t * noise)) - 1, 1.0)

    most = 20.0
    if excess(most) > 0:
        return None
    t = optimize.brentq(excess, 0.0, most, xtol=0.01) + 0.01
    bounds = np.maximum(search.rows.upper, np.where(t * noise > search.rows.upper, SPARE * t * noise, 0.0))
    return {group: _up(bound) for group, bound in zip(groups, bounds, strict=True)}


def _largest_errors(groups: Iterable[Hashable], se: np.ndarray) -> dict[Hashable, float]:
    """Return the largest standard error among the rows of each group."""
    largest: dict[Hashable, float] = {}
    for group, error in zip(groups, se, strict=True):
        largest[group] = max(largest.get(group, 0.0), float(error))
    return largest


def _up(value: float) -> float:
    """Return a tolerance rounded up to three decimals."""
    return math.ceil(round(1000 * value, 6)) / 1000


def _round(number: float) -> int:
    """Return a number of people to two digits."""
    return int(float(f"{number:.1e}"))
