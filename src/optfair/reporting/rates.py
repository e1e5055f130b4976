"""Measure the rates behind every constraint: value, interval and people, by group and by rule.

A view is one question: P(hit | group, given) of every group and of everybody, with the band that the constraint allows.
The interval of a rate p is the one of Clopper and Pearson, for this rate alone.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from optfair.constraints import AnyConstraint, Constraint, MinimumRate, Ratio, Rows
from optfair.constraints.events import ALL, Event, GroupSet, criterion_events, group_families, outcome_positions
from optfair.constraints.naming import attribute_names, name_text, optional_text
from optfair.inputs.labels import MISSING
from optfair.metrics.bounds import rate_interval
from optfair.metrics.counts import ConfusionCounts
from optfair.reporting.changes import paired_change
from optfair.reporting.wording import Mask, rate_question

RATE_CRITERIA = {"recall": "eop", "selection": "dp", "accuracy": "oae"}
EVERYBODY = "everybody"


class Family(NamedTuple):
    """Groups that are compared with each other: the intersections, or the values of one attribute."""

    name: str
    groups: list[GroupSet]


NamedEvent = tuple[str, str | None, Event]  # what a rate is, of which class


class Question(NamedTuple):
    """One rate that a constraint speaks of: P(hit | given)."""

    source: int
    constraint: AnyConstraint
    given: Hashable
    outcome: Hashable
    event: Event


class RateValues(NamedTuple):
    """Rates of several groups, (G,) each, their limits and the people behind them."""

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    people: np.ndarray


# -- groups ----------------------------------------------------------------------------------------------------
def all_families(groups: pd.Index) -> list[Family]:
    """Return the intersections and, where there are several attributes, the groups of each of them."""
    names = [str(name) for name in attribute_names(groups)]
    if groups.nlevels == 1:
        return [Family("" if groups.name is None else str(groups.name), group_families(groups, "intersections")[0])]
    if any((groups.get_level_values(level) == ALL).any() for level in range(groups.nlevels)):
        return [Family(" × ".join(names), group_families(groups, "intersections")[0])]
    parts = group_families(groups, "both")
    return [Family(name, part) for name, part in zip([" × ".join(names), *names], parts, strict=True)]


def is_missing(group: GroupSet) -> bool:
    """Tell whether a group is of people who have not told it, or not one of the attributes that it is made of."""
    return MISSING in (group.label if isinstance(group.label, tuple) else (group.label,))


def judged_labels(constraint: AnyConstraint, groups: pd.Index) -> set[Hashable]:
    """Return the labels of the groups that a constraint speaks of."""
    attributes = getattr(constraint, "attributes", "intersections")
    return {group.label for family in group_families(groups, attributes) for group in family}


# -- rates -----------------------------------------------------------------------------------------------------
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
    hits = np.einsum("kai,aij,ij->k", conditions, counts.tensor, hit, optimize=True)
    value = np.divide(hits, mass, out=np.full(len(groups), np.nan), where=mass > 0)
    people = flat @ counts.n_people.ravel()
    low, high = rate_interval(np.clip(np.nan_to_num(value), 0, 1), counts.effective_people(flat), (1 - level) / 2)
    low, high = (np.where(mass > 0, limit, np.nan) for limit in (low, high))
    return RateValues(value, low, high, people)


def constraint_questions(constraints: Sequence[AnyConstraint], counts: ConfusionCounts) -> Iterator[Question]:
    """Yield each rate that constraints speak of; of the mean criterion the recalls, of rows of the user none."""
    for source, constraint in enumerate(constraints):
        if isinstance(constraint, Rows):
            continue
        if isinstance(constraint, Constraint | Ratio):
            criterion = "eop" if constraint.criterion == "meo" else constraint.criterion
        else:
            criterion = RATE_CRITERIA[constraint.rate]
        outcomes = outcome_positions(counts.classes, constraint.outcomes)
        for given, outcome, parts in criterion_events(criterion, counts.classes, outcomes):
            yield Question(source, constraint, given, outcome, parts[0][1])


def rate_view(question: Question, rules: Mapping[str, ConfusionCounts], level: float, mask: Mask) -> dict[str, Any]:
    """Return one question with its answers: rates of every group and of everybody, by each rule of {role: counts}."""
    counts = next(iter(rules.values()))
    families = all_families(counts.groups)
    groups = [group for family in families for group in family.groups]
    labels = judged_labels(question.constraint, counts.groups)
    population = GroupSet(EVERYBODY, tuple(range(len(counts.groups))))
    names = attribute_names(counts.groups)
    texts = [optional_text(name) for name in (question.given, question.outcome)]
    view: dict[str, Any] = {"asked": question.source, "question": rate_question(*texts)}
    view |= {"given": texts[0], "outcome": texts[1], "groups": [name_text(group.label, names) for group in groups]}
    view["family"] = [k for k, family in enumerate(families) for _ in family.groups]
    for role, rule in rules.items():
        rates = rate_values(rule, [*groups, population], question.event, level)
        people = rates.people[:-1]
        view["people"] = [mask.headcount(n) for n in people]
        view["people_overall"] = mask.headcount(rates.people[-1])
        values = {name: getattr(rates, name)[:-1] for name in ("value", "low", "high")}
        values["difference"] = rates.value[:-1] - rates.value[-1]
        comparable = np.where([is_missing(group) for group in groups], 0, people)
        values["ratio"] = _ratio_to_highest(values["value"], comparable, np.array(view["family"]), mask)
        numbers = {name: mask.numbers(numbers, people) for name, numbers in values.items()}
        view[role] = {**numbers, "overall": mask.number(rates.value[-1], rates.people[-1]), "bands": []}
        for k, family in enumerate(families):
            rows = np.flatnonzero(np.array(view["family"]) == k)
            is_judged = family.groups[0].label in labels
            view[role]["bands"].append(allowed_band(question.constraint, rates, rows, mask) if is_judged else None)
    return view


def _ratio_to_highest(value: np.ndarray, people: np.ndarray, family: np.ndarray, mask: Mask) -> np.ndarray:
    """Return each rate over the highest of its family, of groups that may be compared with; NaN where that is 0."""
    visible, ratio = np.where(people >= mask.least, value, np.nan), np.full(len(value), np.nan)
    for k in np.unique(family):
        top = np.nanmax(visible[family == k], initial=0.0)
        if top > 0:
            ratio[family == k] = value[family == k] / top
    return ratio


def allowed_band(
    constraint: AnyConstraint, rates: RateValues, rows: np.ndarray, mask: Mask
) -> list[float | None] | None:
    """Return where the rates of a family must be, given the rates themselves; None where that is no band.

    Each group against everybody: overall ± tolerance. Any two groups: every band as wide as the tolerance that holds
    all rates; the one in the middle of them is shown. Ratios: from minimum · the largest rate to it.
    """
    value, overall = rates.value[rows], rates.value[-1]
    value = value[np.isfinite(value) & (rates.people[rows] >= mask.least)]
    if isinstance(constraint, MinimumRate):
        return [mask.number(constraint.minimum), 1.0] if constraint.by == "group" else None
    if not len(value) or isinstance(constraint, Rows) or constraint.criterion == "meo":
        return None
    if isinstance(constraint, Ratio):
        top = overall if constraint.reference == "overall" else value.max()
        return [mask.number(constraint.minimum * top), 1.0 if constraint.reference == "overall" else mask.number(top)]
    if not isinstance(constraint.tolerance, float):
        return None
    half, middle = constraint.tolerance, overall
    if constraint.reference == "pairwise":
        half, middle = half / 2, (value.min() + value.max()) / 2
    return [mask.number(max(middle - half, 0.0)), mask.number(min(middle + half, 1.0))]


def quality_table(
    rules: Mapping[str, ConfusionCounts], level: float, mask: Mask, paired: np.ndarray | None = None
) -> list[dict[str, Any]]:
    """Return the right and wrong answers of each group and of everybody, by each rule of {role: counts}.

    accuracy P(Ŷ=Y | a), recall P(Ŷ=j | a, Y=j), and "wrong", P(Ŷ=j | a, Y≠j), of each class j. paired : see
    `rate_lines`.
    """
    names = next(iter(rules.values())).classes.tolist()
    classes = tuple(range(len(names)))
    events: list[NamedEvent] = [("accuracy", None, Event(classes, tuple((i, i) for i in classes)))]
    for j, name in enumerate(names):
        rest = tuple(i for i in classes if i != j)
        events.append(("recall", name_text(name), Event((j,), ((j, j),))))
        if rest:
            events.append(("wrong", name_text(name), Event(rest, tuple((i, j) for i in rest))))
    return rate_lines(rules, events, level, mask, paired)


def accuracy_change(
    paired: np.ndarray | None, counts: ConfusionCounts, level: float, mask: Mask
) -> list[float | None] | None:
    """Return by how much more answers are right after than before, with the interval of this number alone, or None.

    paired : see `paired_change`.
    """
    if paired is None or not counts.labelled:
        return None
    classes = tuple(range(len(counts.classes)))
    population = GroupSet(EVERYBODY, tuple(range(len(counts.groups))))
    change = paired_change(paired, counts, population, Event(classes, tuple((i, i) for i in classes)), level)
    return [mask.number(x, counts.n_people.sum()) for x in change]


def favourable_table(
    rules: Mapping[str, ConfusionCounts],
    outcomes: Sequence[Hashable],
    level: float,
    mask: Mask,
    paired: np.ndarray | None = None,
) -> list[dict[str, Any]]:
    """Return who gets each favourable answer j, and who is denied it: of those whose true class it is, and of others.

    given P(Ŷ=j | a), "denied wrongly" P(Ŷ≠j | a, Y=j), "denied rightly" P(Ŷ≠j | a, Y≠j). paired : see `rate_lines`.
    """
    counts = next(iter(rules.values()))
    classes, events = tuple(range(len(counts.classes))), list[NamedEvent]()
    for j in outcome_positions(counts.classes, outcomes):
        name, rest = name_text(counts.classes.tolist()[j]), tuple(i for i in classes if i != j)
        events.append(("given", name, Event(classes, tuple((i, j) for i in classes))))
        if counts.labelled and rest:
            events.append(("denied wrongly", name, Event((j,), tuple((j, k) for k in rest))))
            events.append(("denied rightly", name, Event(rest, tuple((i, k) for i in rest for k in rest))))
    return rate_lines(rules, events, level, mask, paired)


def rate_lines(
    rules: Mapping[str, ConfusionCounts],
    events: Sequence[NamedEvent],
    level: float,
    mask: Mask,
    paired: np.ndarray | None,
) -> list[dict[str, Any]]:
    """Return a line per event and group, and of everybody: people, and rate with interval by each rule.

    paired : see `paired_change`; then each line has the change, with intervals that hold for all lines at once.
    """
    counts = next(iter(rules.values()))
    groups = [GroupSet(label, (a,)) for a, label in enumerate(counts.groups.tolist())]
    groups.append(GroupSet(EVERYBODY, tuple(range(len(groups)))))
    names, lines = attribute_names(counts.groups), []
    sure = 1 - (1 - level) / (len(events) * len(groups))
    for rate, label, event in events:
        rates = {role: rate_values(rule, groups, event, level) for role, rule in rules.items()}
        for k, group in enumerate(groups):
            people = next(iter(rates.values())).people[k]
            headcount = (
                mask.headcount(people) if people > 0 else f"< {mask.least}"
            )  # that there is none is a number too
            line: dict[str, Any] = {"group": name_text(group.label, names), "people": headcount}
            line |= {"rate": rate, "class": label}
            for role, values in rates.items():
                line[role] = [mask.number(x[k], people) for x in (values.value, values.low, values.high)]
            if paired is not None:
                line["change"] = [mask.number(x, people) for x in paired_change(paired, counts, group, event, sure)]
            lines.append(line)
    return lines
