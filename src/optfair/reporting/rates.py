"""Measure the rates behind every constraint: value, interval and people, by group, before and after.

A view is one question: P(hit | group, given) of every group and of everybody, with the band that the constraint allows.
The interval of a rate p is the one of Clopper and Pearson, for this rate alone.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from optfair.constraints import AnyConstraint, Constraint, MinimumRate, Ratio, Rows
from optfair.constraints.events import Event, GroupSet, criterion_events, group_families, outcome_positions
from optfair.metrics.bounds import rate_interval
from optfair.metrics.counts import ConfusionCounts
from optfair.reporting.wording import MIN_CELL, attribute_names, headcount, name_text, number, rate_question

RATE_CRITERIA = {"recall": "eop", "selection": "dp", "accuracy": "oae"}
EVERYBODY = "everybody"


class RateValues(NamedTuple):
    """Rates of several groups, (G,) each, their limits and the people behind them."""

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    people: np.ndarray


def rate_values(counts: ConfusionCounts, groups: Sequence[GroupSet], event: Event, level: float) -> RateValues:
    """Return P(hit | group, given) of every group; NaN where nobody is."""
    A, m = counts.n_people.shape
    conditions = np.zeros((len(groups), A, m))
    for k, group in enumerate(groups):
        conditions[k][np.ix_(group.members, event.given)] = 1
    flat = conditions.reshape(len(groups), A * m)
    hit = np.zeros((m, m))
    hit[tuple(np.array(event.hits).T)] = 1
    mass = flat @ counts.prior.ravel()
    hits = np.einsum("kai,aij,ij->k", conditions, counts.tensor, hit)
    value = np.divide(hits, mass, out=np.full(len(groups), np.nan), where=mass > 0)
    people = flat @ counts.n_people.ravel()
    low, high = rate_interval(np.clip(np.nan_to_num(value), 0, 1), counts.effective_people(flat), (1 - level) / 2)
    low, high = (np.where(mass > 0, limit, np.nan) for limit in (low, high))
    return RateValues(value, low, high, people)


def rate_view(
    constraint: AnyConstraint,
    given: Hashable,
    outcome: Hashable,
    event: Event,
    rules: dict[str, ConfusionCounts],
    level: float,
) -> dict[str, Any]:
    """Return one question with its answers: rates of every group and of everybody, by each rule of {role: counts}."""
    counts = next(iter(rules.values()))
    attributes = getattr(constraint, "attributes", "intersections")
    groups = [group for family in group_families(counts.groups, attributes) for group in family]
    population = GroupSet(EVERYBODY, tuple(range(len(counts.groups))))
    names = attribute_names(counts.groups)
    texts = [None if name is None else name_text(name) for name in (given, outcome)]
    document: dict[str, Any] = {"question": rate_question(*texts), "given": texts[0], "outcome": texts[1]}
    document["groups"] = [name_text(group.label, names) for group in groups]
    for role, rule in rules.items():
        rates = rate_values(rule, [*groups, population], event, level)
        people = rates.people[:-1]
        document["people"] = [headcount(n) for n in people]
        document[role] = {
            name: [number(x, n) for x, n in zip(values[:-1], people, strict=True)]
            for name, values in (("value", rates.value), ("low", rates.low), ("high", rates.high))
        }
        document[role]["overall"] = number(rates.value[-1], rates.people[-1])
        document[role]["band"] = allowed_band(constraint, rates)
    return document


def allowed_band(constraint: AnyConstraint, rates: RateValues) -> list[float | None] | None:
    """Return where every rate must be, given the rates themselves; None where that is no band.

    Each group against everybody: overall ± tolerance. Any two groups: every band as wide as the tolerance that holds
    all rates; the one in the middle of them is shown. Ratios: from minimum · the largest rate to it.
    """
    value, overall = rates.value[:-1], rates.value[-1]
    value = value[np.isfinite(value) & (rates.people[:-1] >= MIN_CELL)]
    if isinstance(constraint, MinimumRate):
        return [number(constraint.minimum), 1.0]
    if not len(value) or isinstance(constraint, Rows) or constraint.criterion == "meo":
        return None
    if isinstance(constraint, Ratio):
        top = overall if constraint.reference == "overall" else value.max()
        return [number(constraint.minimum * top), 1.0 if constraint.reference == "overall" else number(top)]
    if not isinstance(constraint.tolerance, float):
        return None
    half, middle = constraint.tolerance, overall
    if constraint.reference == "pairwise":
        half, middle = half / 2, (value.min() + value.max()) / 2
    return [number(max(middle - half, 0.0)), number(min(middle + half, 1.0))]


def constraint_events(constraint: AnyConstraint, counts: ConfusionCounts) -> Iterator[tuple[Hashable, Hashable, Event]]:
    """Yield (given, outcome, event) of each rate that a constraint speaks of; of the mean criterion, the recalls."""
    if isinstance(constraint, Rows):
        return
    if isinstance(constraint, Constraint | Ratio):
        criterion = "eop" if constraint.criterion == "meo" else constraint.criterion
    else:
        criterion = RATE_CRITERIA[constraint.rate]
    outcomes = outcome_positions(counts.classes, constraint.outcomes)
    for given, outcome, parts in criterion_events(criterion, counts.classes, outcomes):
        yield given, outcome, parts[0][1]


def quality_table(rules: dict[str, ConfusionCounts], level: float) -> list[dict[str, Any]]:
    """Return the accuracy of each group and its recall of each class, by each rule of {role: counts}."""
    counts = next(iter(rules.values()))
    m = len(counts.classes)
    groups = [GroupSet(label, (a,)) for a, label in enumerate(counts.groups.tolist())]
    groups.append(GroupSet(EVERYBODY, tuple(range(len(groups)))))
    events = [("accuracy", Event(tuple(range(m)), tuple((i, i) for i in range(m))))]
    events += [(name_text(name), Event((i,), ((i, i),))) for i, name in enumerate(counts.classes.tolist())]
    names, lines = attribute_names(counts.groups), []
    for position, (label, event) in enumerate(events):
        rates = {role: rate_values(rule, groups, event, level) for role, rule in rules.items()}
        for k, group in enumerate(groups):
            people = next(iter(rates.values())).people[k]
            line: dict[str, Any] = {"group": name_text(group.label, names), "people": headcount(people)}
            line |= {"rate": "accuracy" if position == 0 else "recall", "class": None if position == 0 else label}
            for role, values in rates.items():
                line[role] = [number(x[k], people) for x in (values.value, values.low, values.high)]
            lines.append(line)
    return lines


def answer_changes(
    group: np.ndarray, before: np.ndarray, after: np.ndarray, n_groups: int, n_classes: int
) -> np.ndarray:
    """Return Σ_n 1[A_n=a] b_nj h_nk, (A, m, m): people of each group by answer before and after.

    before, after : codes, (n,), or probabilities, (n, m).
    """
    b, h = (x if x.ndim == 2 else np.eye(n_classes)[x] for x in (before, after))
    return np.stack([b[group == a].T @ h[group == a] for a in range(n_groups)])
