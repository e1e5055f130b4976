"""Gather every number of a report in one document that JSON can hold; text, tables and pages are made of it."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy
import sklearn

import optfair
from optfair.constraints import AnyConstraint, Constraint, Ratio
from optfair.constraints.events import group_families
from optfair.constraints.rows import accuracy
from optfair.metrics.counts import ConfusionCounts
from optfair.metrics.intervals import ViolationInterval
from optfair.reporting.findings import Finding, finding_document, list_findings
from optfair.reporting.rates import constraint_events, quality_table, rate_view
from optfair.reporting.verdict import BEYOND, UNKNOWN, WITHIN, JudgedRows, Verdict, judge_rows, row_kind, verdict_of
from optfair.reporting.wording import (
    MIN_CELL,
    attribute_names,
    constraint_sentence,
    headcount,
    name_text,
    number,
    percent,
    points,
)
from optfair.rule.certificate import Certificate
from optfair.rule.determinism import Determinism
from optfair.rule.promise import Promise

FORMAT, VERSION = "optfair report", 1
MAX_GAPS = 40  # comparisons in a document, the worst first: many groups in pairs have thousands
MAX_RATES = 510  # rates by group in a document; of more questions those are left out that leave the most room
UNITS = {
    "rate": "share of people, from 0 to 1, with the ends low and high of its interval at `level`",
    "gap": "difference of two rates, from -1 to 1; of kind 'ratio' the rate less the minimum of the other's",
    "price": "accuracy gained per unit of tolerance",
    "people": f"number of people; fewer than {MIN_CELL} are written as '< {MIN_CELL}' and have no other numbers",
}


@dataclass(frozen=True, eq=False)
class Facts:
    """What a document is made of.

    predictions : counts of each rule, the first before, the last after. intervals : of their violations. changes :
    (A, m, m) people of each group by answer before and after, or None. multipliers : of the rule, or None.
    fitted : whether these people were fitted on. disagreement : sentence, or "".
    """

    title: str
    date: str
    constraints: Sequence[AnyConstraint]
    predictions: Mapping[str, ConfusionCounts]
    intervals: Mapping[str, ViolationInterval | None]
    table: pd.DataFrame | None
    small: pd.DataFrame
    changes: np.ndarray | None
    multipliers: pd.DataFrame | None
    certificate: Certificate | None
    determinism: Determinism | None
    promise: Promise | None
    fitted: bool
    disagreement: str
    level: float


def make_document(facts: Facts) -> tuple[dict[str, Any], Verdict | None, list[Finding]]:
    """Return the document of a report, its verdict and its findings."""
    names = list(facts.predictions)
    rules = {"before": facts.predictions[names[0]]} if len(names) > 1 else {}
    rules |= {"after": facts.predictions[names[-1]]} if names else {}
    last = rules.get("after")
    document: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "title": facts.title,
        "date": facts.date,
        "versions": _versions(),
        "units": UNITS,
        "n_people": 0 if last is None else headcount(last.n_people.sum()),
        "min_cell": MIN_CELL,
        "level": facts.level,
        "fitted_on": facts.fitted,
        "labelled": last is None or last.labelled,
        "rules": {role: names[0 if role == "before" else -1] for role in rules},
        "asked": [_asked(constraint) for constraint in facts.constraints],
        "tolerance": _single_tolerance(facts.constraints),
        "groups": [] if last is None else _groups(last),
        "classes": [] if last is None else [name_text(name) for name in last.classes.tolist()],
        "verdict": None,
        "findings": [],
        "states": {WITHIN: 0, BEYOND: 0, UNKNOWN: 0},
        "people_needed": None,
        "performance": [_performance(name, facts) for name in names],
        "rates": [],
        "rates_left_out": 0,
        "gaps": [],
        "quality": [],
        "answers": [],
        "changes": None,
        "prices": _prices(facts),
        "small": _small(facts.small),
        "certificate": _certificate(facts),
        "determinism": None if facts.determinism is None else _numbers(asdict(facts.determinism)),
        "promise": _promise(facts.promise),
    }
    verdict: Verdict | None = None
    dropped: tuple[str, ...] = ()
    if last is not None and facts.table is not None:
        verdicts = judge_rows(last, list(facts.constraints), facts.table, facts.level, facts.promise, facts.fitted)
        verdict, dropped = verdict_of(verdicts, facts.level, facts.fitted), verdicts.dropped
        document["verdict"] = asdict(verdict)
        document["states"] = {state: int((verdicts.table["state"] == state).sum()) for state in document["states"]}
        document["people_needed"] = _people_needed(facts.promise)
        document["rates"], document["rates_left_out"] = _views(facts.constraints, rules, verdicts, facts.level)
        document["gaps"] = _gaps(verdicts)
        document["answers"] = _answers(rules)
        document["quality"] = quality_table(rules, facts.level) if last.labelled else []
        document["changes"] = None if facts.changes is None else _changes(facts.changes, last)
    undecided = None if facts.determinism is None else facts.determinism.undecided
    items = (
        list_findings(document, {"dropped": dropped, "undecided": undecided, "disagreement": facts.disagreement})
        if names
        else []
    )
    document["findings"] = [finding_document(item) for item in items]
    return document, verdict, items


def _versions() -> dict[str, str]:
    modules = {"numpy": np, "pandas": pd, "scipy": scipy, "scikit-learn": sklearn}
    versions = {name: module.__version__ for name, module in modules.items()}
    return {"optfair": optfair.__version__, "python": platform.python_version(), **versions}


def _asked(constraint: AnyConstraint) -> dict[str, Any]:
    tolerance = getattr(constraint, "tolerance", None)
    if isinstance(tolerance, Mapping):
        tolerance = {name_text(group): number(bound) for group, bound in tolerance.items()}
    return {
        "kind": type(constraint).__name__,
        "criterion": getattr(constraint, "criterion", getattr(constraint, "rate", None)),
        "tolerance": tolerance,
        "minimum": getattr(constraint, "minimum", None),
        "reference": getattr(constraint, "reference", None),
        "sentence": constraint_sentence(constraint),
    }


def _single_tolerance(constraints: Sequence[AnyConstraint]) -> float | None:
    bounds = [constraint.strictest for constraint in constraints if isinstance(constraint, Constraint)]
    return min(bounds) if bounds else None


def _groups(counts: ConfusionCounts) -> list[dict[str, Any]]:
    names = attribute_names(counts.groups)
    people = counts.n_people.sum(axis=1)
    return [
        {"group": name_text(label, names), "people": headcount(n)}
        for label, n in zip(counts.groups.tolist(), people, strict=True)
    ]


def _performance(name: str, facts: Facts) -> dict[str, Any]:
    """Return accuracy and violation of a rule; numbers that rest on a few people are left out."""
    counts, interval = facts.predictions[name], facts.intervals.get(name)
    line: dict[str, Any] = {"rule": name, "accuracy": number(accuracy(counts.tensor)) if counts.labelled else None}
    line |= dict.fromkeys(("violation", "lower", "upper", "bound", "noise_floor"))
    if interval is not None:
        table = interval.table.assign(violation=interval.table["value"].abs())
        for column in ("violation", "lower", "upper", "bound"):
            row = table.iloc[int(np.argmax(table[column].to_numpy()))]
            line[column] = number(row[column], row["n"])
        line["noise_floor"] = number(interval.noise_floor)
    return line


def _views(
    constraints: Sequence[AnyConstraint], rules: dict[str, ConfusionCounts], verdicts: JudgedRows, level: float
) -> tuple[list[dict[str, Any]], int]:
    """Return the questions, as far as there is room for them, and how many are left out."""
    counts = rules["after"]
    questions = [
        (source, constraint, *event)
        for source, constraint in enumerate(constraints)
        for event in constraint_events(constraint, counts)
    ]
    room = max(MAX_RATES // max(len(counts.groups), 1), 1)
    if len(questions) > room:
        rooms = [verdicts.room_of(source, given, outcome) for source, _, given, outcome, _ in questions]
        questions = [questions[k] for k in sorted(np.argsort(rooms, kind="stable")[:room])]
        left_out = len(rooms) - room
    else:
        left_out = 0
    views = []
    for source, constraint, given, outcome, event in questions:
        view = {"asked": source, **rate_view(constraint, given, outcome, event, rules, level)}
        view["state"] = [verdicts.state_of(source, label, given, outcome) for label in _labels(constraint, counts)]
        views.append(view)
    return views, left_out


def _labels(constraint: AnyConstraint, counts: ConfusionCounts) -> list[Any]:
    attributes = getattr(constraint, "attributes", "intersections")
    return [group.label for family in group_families(counts.groups, attributes) for group in family]


def _gaps(verdicts: JudgedRows) -> list[dict[str, Any]]:
    """Return the comparisons, those first that are furthest outside or nearest to their bounds."""
    table = verdicts.table.assign(source=verdicts.rows.source)
    distance = np.maximum(table["value"] - table["upper"], table["lower"] - table["value"])
    lines = []
    for row in table.assign(distance=distance).sort_values("distance", ascending=False).head(MAX_GAPS).itertuples():
        constraint = verdicts.rows.constraints[row.source]
        texts = {name: getattr(row, name) for name in ("criterion", "group", "against", "given", "outcome")}
        line: dict[str, Any] = {name: None if text is None else name_text(text) for name, text in texts.items()}
        line |= {"kind": row_kind(constraint), "people": headcount(row.n), "state": row.state}
        line |= {"allowed": [number(row.lower), number(row.upper)]}
        line |= {name: number(getattr(row, name), row.n) for name in ("value", "low", "high", "least", "most")}
        if isinstance(constraint, Ratio):
            line |= {"ratio": number(row.ratio, row.n), "minimum": constraint.minimum}
        lines.append(line)
    return lines


def _answers(rules: dict[str, ConfusionCounts]) -> list[dict[str, Any]]:
    """Return a line per class: the share of people it is the true class of, and who get it before and after."""
    counts = rules["after"]
    lines = []
    for j, name in enumerate(counts.classes.tolist()):
        line: dict[str, Any] = {"class": name_text(name)}
        line["people"] = number(counts.prior[:, j].sum()) if counts.labelled else None
        lines.append(line | {role: number(rule.tensor[:, :, j].sum()) for role, rule in rules.items()})
    return lines


def _changes(changes: np.ndarray, counts: ConfusionCounts) -> list[dict[str, Any]]:
    """Return for each group how many people go from one answer to another; few are not counted."""
    names = attribute_names(counts.groups)
    lines = []
    for label, matrix in zip(counts.groups.tolist(), changes, strict=True):
        total = matrix.sum()
        changed = (total - np.trace(matrix)) / total if total > 0 else None
        people = [[headcount(round(cell)) for cell in row] for row in matrix.tolist()]
        line = {"group": name_text(label, names), "people": headcount(round(total))}
        lines.append({**line, "changed": number(changed, total), "matrix": people})
    return lines


def _prices(facts: Facts) -> list[dict[str, Any]]:
    """Return what each constraint costs, the dearest first; two groups that are compared share a price."""
    table = facts.multipliers
    if table is None or table.empty:
        return []
    sums: dict[tuple[Any, ...], float] = {}
    for row in table.itertuples():
        against = None if row.against == "overall" else row.against
        sums[row.criterion, row.group, against] = sums.get((row.criterion, row.group, against), 0) + abs(row.multiplier)
    lines = []
    for (criterion, group, against), price in sorted(sums.items(), key=lambda item: -item[1]):
        names = [None if name is None else name_text(name) for name in (group, against)]
        if round(price, 6) > 0:
            lines.append({"criterion": str(criterion), "group": names[0], "against": names[1], "price": number(price)})
    return lines


def _small(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [
        {
            "group": name_text(row.group),
            "given": None if row.given is None else name_text(row.given),
            "people": headcount(row.n),
        }
        for row in table.itertuples()
    ]


def _certificate(facts: Facts) -> dict[str, Any] | None:
    certificate = facts.certificate
    if certificate is None:
        return None
    unit = "value" if certificate.has_costs else "accuracy"
    sentence = (
        f"On the model's own estimates of the people fitted on, no rule within the same bounds reaches a higher {unit} "
        f"than {certificate.upper_bound:.4f}; this one reaches {certificate.value:.4f}. It is therefore at most "
        f"{certificate.gap:.4f} below the best possible."
    )
    names = ("accuracy", "value", "upper_bound", "gap", "violation", "excess")
    numbers = {name: number(getattr(certificate, name)) for name in names}
    return {"sentence": sentence, "status": str(certificate.status), **numbers}


def _promise(promise: Promise | None) -> dict[str, Any] | None:
    if promise is None:
        return None
    tolerance = "its tolerance" if promise.tolerance is None else f"{100 * promise.tolerance:.4g} percentage points"
    subject = "every rate is within its bounds" if np.isnan(promise.bound) else f"every gap is within {tolerance}"
    size = np.maximum(promise.table["high"], -promise.table["low"]).to_numpy(dtype=float)
    bound = number(promise.bound, promise.table["people"].to_numpy()[int(np.argmax(size))])
    basis = (
        "not fitted on" if promise.method == "held out" else "fitted on, each judged by models that had not seen them"
    )
    confidence = percent(promise.confidence, 0)
    if promise.kept:
        sentence = f"With {confidence} confidence, {subject} among new people from the same population. "
    else:
        reach = "" if bound is None else f"; the largest gap may be up to {points(bound).lstrip('+')} percentage points"
        sentence = f"It cannot be said with {confidence} confidence that {subject} among new people{reach}. "
    sentence += f"This rests on {promise.n_people:,} people {basis}."
    return {
        "kept": promise.kept,
        "confidence": promise.confidence,
        "tolerance": promise.tolerance,
        "bound": bound,
        "method": promise.method,
        "people": headcount(promise.n_people),
        "sentence": sentence,
    }


def _people_needed(promise: Promise | None) -> int | None:
    """Return how many people the row that needs most would need for a gap of half its tolerance, to two digits."""
    if promise is None or promise.kept:
        return None
    people = promise.table["people_needed"].to_numpy(dtype=float)
    people = people[np.isfinite(people)]
    return int(float(f"{people.max():.1e}")) if len(people) else None


def _numbers(values: Mapping[str, Any]) -> dict[str, float | None]:
    return {name: number(value) for name, value in values.items()}
