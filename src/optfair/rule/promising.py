"""Promise a rule to new people on the people it was fitted on: search, and say what can be done where none is found."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from scipy import optimize, stats

from optfair.constraints import AnyConstraint, Constraint
from optfair.errors import PromiseError
from optfair.metrics.counts import ConfusionCounts
from optfair.metrics.noise import own_noise
from optfair.rule.certificate import Status
from optfair.rule.draft import certify, make_draft
from optfair.rule.driver import Solution
from optfair.rule.problem import FairProblem
from optfair.rule.promise import (
    Promise,
    binding_name,
    binding_row,
    people_of_rows,
    promise_table,
    row_text,
    single_tolerance,
    statement,
)
from optfair.rule.tightening import PROMISING, FittedRows, PromiseSearch, Trial
from optfair.utils.progress import stage

UNPROMISED = ("error", "mix", "loosen")
FEWEST_PEOPLE = 30  # behind a rate: with fewer, no promise about it; simulations had hundreds
FAMILY = (4.0, 3.0, 2.25, 1.5, 0.75)  # standard errors of rules to test on people held out, before the plain one
SHARE_STEP = 1e-4  # of decisions: what the share that is mixed in is rounded up by
FURTHER_SHARES = 6  # tried where people of equal rows flip together, and a constant leaves more of them undecided
LOOSER = 1.01  # by what a tolerance is loosened that is not promised yet; at most so often:
LOOSENINGS = 12
MOST_ERRORS = 20.0  # standard errors that the tolerance of a group may be suggested to have
SPARE = 1.25  # a tolerance that leaves the rule some room, by the smallest one that can be promised


@stage(PROMISING)
def promise_rule(
    problem: FairProblem, plain: Solution, people: FittedRows, confidence: float, decision: str, unpromised: str
) -> tuple[Solution, FairProblem]:
    """Return a rule of the problem that is promised to new people, with its promise, and the problem that it is for.

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
    looser = _loosened(search, fairest) if promised is None else None
    if looser is not None and unpromised == "loosen":
        search, promised, loosened = looser
    if promised is None:
        raise _refusal(search, first, fairest, unpromised, None if looser is None else looser[2])
    promise = _promise(search, promised, first, loosened)
    return _with_promise(promised.solution, promise, search.problem), search.problem


def tightened_family(
    problem: FairProblem, plain: Solution, people: FittedRows, decision: str, n_people: np.ndarray
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


def _with_promise(solution: Solution, promise: Promise, problem: FairProblem) -> Solution:
    """Return the solution whose rule states its promise, and whose certificate says what it is for."""
    notes = list(solution.rule.certificate.notes)
    if promise.tightening > 0 and promise.share == 0:
        notes.append(
            f"bounds tightened by {promise.tightening:.2f} standard errors for the promise; the upper bound is for "
            "rules within these"
        )
    certificate = replace(solution.rule.certificate, notes=tuple(notes), tolerance=problem.rows.tolerances)
    return replace(solution, rule=replace(solution.rule, certificate=certificate, promise=promise))


def _promise(search: PromiseSearch, trial: Trial, first: Trial, loosened: float = 1.0) -> Promise:
    """Return what is promised of a rule. first : the rule without a promise."""
    rows, limits = search.rows, search.limits(trial)
    quantile = float(stats.norm.ppf(1 - (1 - search.confidence) / (2 * len(rows))))
    table = promise_table(rows, trial.counts, trial.se, limits, quantile * trial.se)
    unbounded = search.ratio(trial.values, trial.draws, trial.shift, np.ones(len(rows)))
    return Promise(
        kept=trial.ratio <= 1,
        statement=statement(rows, search.measure.groups),
        confidence=search.confidence,
        tolerance=single_tolerance(rows),
        bound=unbounded if rows.is_gap.any() else math.nan,
        ratio=trial.ratio,
        method="fitted",
        decision=search.decision,
        n_people=trial.counts.n_persons,
        tightening=trial.tightening,
        share=trial.solution.rule.share,
        cost=search.problem.utility.scale * (first.gain - trial.gain),
        loosened=loosened,
        binding=binding_name(table, binding_row(rows, limits), search.attributes),
        table=table,
    )


# -- looser tolerances -------------------------------------------------------------------------------------
def _loosened(search: PromiseSearch, fairest: Trial) -> tuple[PromiseSearch, Trial, float] | None:
    """Return the search of the smallest tolerances that were promised, its rule, and their factor; None if none was."""
    factor, tolerance = 1.001 * fairest.ratio, single_tolerance(search.rows)
    for _ in range(LOOSENINGS if np.isfinite(factor) else 0):
        if tolerance is not None:  # a number that can be read
            factor = math.ceil(1e4 * factor * tolerance) / 1e4 / tolerance
        constraints = _times(search.problem.rows.constraints, factor)
        problem = search.problem.with_constraints(constraints)
        looser = PromiseSearch(problem, search.people, search.confidence, search.decision)
        promised, _ = looser.search(looser.trial(fairest.solution))
        if promised is not None:
            return looser, promised, factor
        factor *= LOOSER
    return None


def _times(constraints: Sequence[AnyConstraint], factor: float) -> list[AnyConstraint]:
    """Return the constraints with all tolerances times a factor."""

    def scaled(constraint: AnyConstraint) -> AnyConstraint:
        if not isinstance(constraint, Constraint):
            return constraint
        bound = constraint.tolerance
        if isinstance(bound, Mapping):
            return replace(constraint, tolerance={group: min(factor * t, 1.0) for group, t in bound.items()})
        return replace(constraint, tolerance=min(factor * bound, 1.0))

    return [scaled(constraint) for constraint in constraints]


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
    return max(mixtures, key=lambda mixture: mixture.gain, default=None)


def _mixture(search: PromiseSearch, trial: Trial, q: np.ndarray) -> Trial | None:
    """Return the rule mixed with the least share of the constant q that makes it promised; None if none does."""
    constant = search.rows.values(trial.counts.prior[..., None] * q)

    def excess(share: float) -> float:
        values = (1 - share) * trial.values + share * constant
        return min(search.ratio(values, (1 - share) * trial.draws, (1 - share) * trial.shift) - 1, 1.0)

    if excess(1.0) > 0:
        return None
    share = 0.0 if excess(0.0) <= 0 else optimize.brentq(excess, 0.0, 1.0, xtol=SHARE_STEP) + 2 * SHARE_STEP
    for _ in range(FURTHER_SHARES):
        share = min(share, 1.0)
        mixture = search.trial(_mix(search.problem, trial.solution, share, q), trial.tightening)
        if mixture.ratio <= 1:
            return mixture
        share += (1 - share) / 2
    return None


def _mix(problem: FairProblem, solution: Solution, share: float, q: np.ndarray) -> Solution:
    """Return the rule (1 − s) h + s q, certified for the bounds of the problem as asked for."""
    rule = solution.rule
    total = 1 - (1 - share) * (1 - rule.share)
    constant = ((1 - share) * rule.share * rule.constant + share * q) / max(total, 1e-300)
    lam = rule.multipliers["multiplier"].to_numpy() / problem.utility.scale
    mixture = certify(problem, make_draft(problem, lam, rule.temperatures.ravel(), total, constant))
    certificate = replace(mixture.certificate, status=Status.MIXED, passes=rule.certificate.passes)
    return replace(solution, rule=replace(mixture, certificate=certificate, key=rule.key))


# -- refusals ----------------------------------------------------------------------------------------------
def _refuse_few(search: PromiseSearch, first: Trial) -> None:
    """Refuse rows with so few people that no simulation supports a promise about them."""
    people = people_of_rows(search.rows, first.counts)
    fewest = int(np.argmin(people))
    if people[fewest] < FEWEST_PEOPLE:
        raise PromiseError(
            f"confidence={search.confidence:g}: nothing can be promised of "
            f"{row_text(search.rows.table, fewest, search.attributes)}, "
            f"which rests on {people[fewest]:.0f} of {first.counts.n_persons:,} people; at least {FEWEST_PEOPLE} are "
            "needed. Join its group with another, or give a tolerance to each group but this one.",
            math.inf,
            None,
            _promise(search, first, first),
        )


def _refusal(
    search: PromiseSearch, first: Trial, fairest: Trial, unpromised: str, factor: float | None
) -> PromiseError:
    """Return the error that says which row stands in the way, and what could be done. factor : of looser tolerances."""
    promise = _promise(search, fairest, first)
    k = binding_row(search.rows, (promise.table["low"].to_numpy(), promise.table["high"].to_numpy()))
    row, tolerance = promise.table.iloc[k], promise.tolerance
    name = row_text(promise.table, k, search.attributes)
    head = (
        f"{'confidence' if tolerance is None else f'tolerance={tolerance:g}'}: cannot be promised with confidence "
        f"{search.confidence:g} from these {promise.n_people:,} people; the tightest: {name}, {row['people']:,.0f} "
        "people."
    )
    if factor is not None:
        by_factor = f"with all tolerances times {math.ceil(1000 * factor) / 1000:g}"
        place = by_factor if tolerance is None else f"at {_up(factor * tolerance)}"
        head += (
            f" A promise was found {place}; the search is not exhaustive: a larger tolerance may be refused, and a "
            "smaller one promised. What is read off here was chosen on these people: confirm it on others "
            "(model.promise)."
        )
    ways = []
    if np.isfinite(row["people_needed"]):
        ways.append(f"about {_round(row['people_needed']):,} people there instead of {row['people']:,.0f}")
    tolerances = _group_tolerances(search, fairest, factor)
    if tolerances is not None:
        ways.append(f"a tolerance for each group, tolerance={tolerances!r}")
    mixture = None if search.decision == "argmax" or unpromised == "mix" else _mixed(search, fairest)
    if mixture is not None:
        ways.append(
            f"unpromised='mix', which draws {_share_text(mixture.solution.rule.share)} of decisions from a constant "
            f"(accuracy {mixture.accuracy:.3f}; without a promise {first.accuracy:.3f} at the tolerance asked for)"
        )
    elif unpromised == "mix":
        head += " No share of a constant keeps it either."
    if search.people.answering is not None and search.decision != "argmax":  # the folds do not answer yet
        ways.append("ensemble=True, which may promise less (predictions take cv times as long)")
    if factor is not None:
        ways.append("unpromised='loosen'")
    elif unpromised == "loosen":
        head += " Only tolerances of gaps above 0 can be loosened, not ratios and minimum rates."
    smallest = math.inf if factor is None else factor
    return PromiseError(f"{head} Ways on: {'; '.join(ways) or 'wider bounds'}.", smallest, tolerances, promise)


def _group_tolerances(search: PromiseSearch, fairest: Trial, factor: float | None) -> dict[Hashable, float] | None:
    """Return tolerances by group that the fairest rule keeps with room to spare; None where no mapping says them."""
    constraints = search.problem.rows.constraints
    if len(constraints) != 1 or not isinstance(constraints[0], Constraint) or constraints[0].reference != "overall":
        return None
    groups, upper = search.rows.table["group"].tolist(), search.rows.upper
    errors: dict[Hashable, float] = {}
    for group, error in zip(groups, fairest.se, strict=True):
        errors[group] = max(errors.get(group, 0.0), float(error))
    noise = np.array([errors[group] for group in groups])

    def excess(t: float, spare: float = 1.0, most: float = math.inf) -> float:
        bounds = np.maximum(upper, np.minimum(spare * t * noise, most))
        return min(search.ratio(fairest.values, fairest.draws, fairest.shift, bounds) - 1, 1.0)

    if excess(MOST_ERRORS) > 0:
        return None
    t = optimize.brentq(excess, 0.0, MOST_ERRORS, xtol=0.01) + 0.01
    most = math.inf if factor is None else SPARE * factor * float(upper.max())
    most = most if excess(t, SPARE, most) <= 0 else math.inf
    bounds = np.where(t * noise > upper, np.minimum(SPARE * t * noise, most), upper)
    return {group: _up(max(bound, least)) for group, bound, least in zip(groups, bounds, upper, strict=True)}


def _up(value: float) -> float:
    """Return a tolerance rounded up to three decimals, at most 1."""
    return min(math.ceil(round(1000 * value, 6)) / 1000, 1.0)


def _share_text(share: float) -> str:
    """Return a share of decisions in per cent; one that is not nothing does not look so."""
    return "less than 1%" if share < 0.005 else f"{share:.0%}"


def _round(number: float) -> int:
    """Return a number of people to two digits."""
    return int(float(f"{number:.1e}"))
