"""Count who a report is about, who gets which answer, who gets another one than before, and who is too few to judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from optfair.constraints.naming import attribute_names, name_text, optional_text
from optfair.metrics.counts import ConfusionCounts
from optfair.reporting.facts import Facts, PathPoint, RuleMetrics
from optfair.reporting.judging import WITHIN, JudgedRows, judge_again
from optfair.reporting.rates import EVERYBODY, all_families
from optfair.reporting.rule_words import RULE_LABELS, RULE_WORDS
from optfair.reporting.verdict import Verdict, verdict_value
from optfair.reporting.wording import Mask, percent, points_text

MAX_UNKNOWN = 15  # comparisons that depend most on unknown groups
SAME = 1e-9  # tolerances closer than this are the same


def group_lines(counts: ConfusionCounts, mask: Mask) -> list[dict[str, Any]]:
    """Return the groups with their people."""
    names, people = attribute_names(counts.groups), counts.n_people.sum(axis=1)
    return [
        {"group": name_text(label, names), "people": mask.headcount(n)}
        for label, n in zip(counts.groups.tolist(), people, strict=True)
    ]


def performance_line(metrics: RuleMetrics, verdict: Verdict | None, mask: Mask) -> dict[str, Any]:
    """Return accuracy and violation of a rule, over the gaps of people enough to be shown; hidden counts the others."""
    line: dict[str, Any] = {"rule": metrics.name, "label": RULE_LABELS.get(metrics.name, metrics.name)}
    line |= {"words": RULE_WORDS.get(metrics.name, "")}
    line |= {"accuracy": mask.number(metrics.accuracy, metrics.counts.n_people.sum())}
    line |= dict.fromkeys(("violation", "lower", "upper", "bound", "noise_floor"))
    line |= {"hidden": 0, "verdict": None if verdict is None else verdict.value}
    if metrics.interval is None:
        return line
    table = metrics.interval.table
    table = table.assign(violation=table["value"].abs())[["violation", "lower", "upper", "bound", "n"]]
    line |= _largest(table, mask)
    if metrics.rows is not None and metrics.rows.proviso:
        line |= _largest(_limits(metrics.rows), mask)
    line |= {"hidden": int((table["n"] < mask.least).sum()), "noise_floor": mask.number(metrics.floor)}
    return line


def _largest(table: pd.DataFrame, mask: Mask) -> dict[str, float | None]:
    """Return the largest of every column but n, over the rows of people enough to be shown."""
    visible = table[table["n"] >= mask.least].drop(columns="n")
    return {name: mask.number(column.max()) for name, column in visible.items()}


def _limits(rows: JudgedRows) -> pd.DataFrame:
    """Return the limits of the size of each gap where some groups are unknown, and its people."""
    table = rows.table[rows.rows.is_gap]
    return pd.DataFrame(
        {
            "lower": np.maximum(table["low"], -table["high"]).clip(lower=0),
            "upper": np.maximum(table["high"], -table["low"]),
            "bound": np.maximum(table["most"], -table["least"]),
            "n": table["n"],
        }
    )


def answer_lines(rules: Mapping[str, ConfusionCounts], mask: Mask) -> list[dict[str, Any]]:
    """Return a line per class: the share of people it is the true class of, and who get it, by each rule."""
    counts = next(iter(rules.values()))
    n = counts.n_people.sum()
    lines = []
    for j, name in enumerate(counts.classes.tolist()):
        line: dict[str, Any] = {"class": name_text(name)}
        line["people"] = mask.number(counts.prior[:, j].sum(), n) if counts.labelled else None
        lines.append(line | {role: mask.number(rule.tensor[:, :, j].sum(), n) for role, rule in rules.items()})
    return lines


def selection_lines(rules: Mapping[str, ConfusionCounts], mask: Mask) -> list[dict[str, Any]]:
    """Return a line per group of every family: P(Ŷ=j | a) of each class j, by each rule."""
    counts = next(iter(rules.values()))
    names = attribute_names(counts.groups)
    lines = []
    for k, family in enumerate(all_families(counts.groups)):
        for group in family.groups:
            members = list(group.members)
            n = int(counts.n_people[members].sum())
            line: dict[str, Any] = {"group": name_text(group.label, names), "family": k, "people": mask.headcount(n)}
            for role, rule in rules.items():
                mass = rule.tensor[members].sum(axis=(0, 1))
                shares = mass / mass.sum() if mass.sum() > 0 else np.full(len(mass), np.nan)
                line[role] = [mask.number(share, n) for share in shares]
            lines.append(line)
    return lines


def change_lines(changes: np.ndarray, counts: ConfusionCounts, mask: Mask) -> list[dict[str, Any]]:
    """Return for each group, and for everybody, how many people go from one answer to another; few are not counted."""
    names = attribute_names(counts.groups)
    groups = [*(name_text(label, names) for label in counts.groups.tolist()), EVERYBODY]
    lines = []
    for name, matrix in zip(groups, [*changes, changes.sum(axis=0)], strict=True):
        total = matrix.sum()
        n = mask.headcount(round(total))  # of a hidden group no cell is shown, not even an empty one
        people = [[n if isinstance(n, str) else mask.headcount(round(cell)) for cell in row] for row in matrix.tolist()]
        line = {"group": name, "people": n}
        lines.append({**line, "changed": mask.number(changed_share(matrix), total), "matrix": people})
    return lines


def changed_share(matrix: np.ndarray) -> float:
    """Return the share of people, by answer before and after, who get another answer; NaN of nobody."""
    total = float(matrix.sum())
    return (total - float(np.trace(matrix))) / total if total > 0 else float("nan")


def unknown_part(facts: Facts, mask: Mask) -> dict[str, Any] | None:
    """Return who has not told their group, and what each comparison could be whatever these groups are."""
    if not facts.n_unknown:
        return None
    n_unknown, bounds = facts.n_unknown, facts.unknown
    share = mask.number(n_unknown / (facts.n_rows + n_unknown), n_unknown)
    part: dict[str, Any] = {"people": mask.headcount(n_unknown), "share": share}
    part |= {"refusal": None, "sentence": "", "answers": [], "gaps": []}
    if bounds is None:
        return part
    attributes = attribute_names(facts.measured[-1].counts.groups)
    by_answer = bounds.unknown.groupby("outcome", sort=False)["n"].sum()
    part["refusal"] = None if np.isinf(bounds.refusal) else float(bounds.refusal)
    part["sentence"] = bounds.summary(mask.least)
    part["answers"] = [{"class": name_text(name), "people": mask.headcount(k)} for name, k in by_answer.items()]
    width = (bounds.table["most"] - bounds.table["least"]).sort_values(ascending=False, kind="stable")
    for k in width.index[:MAX_UNKNOWN]:
        row = bounds.table.loc[k]
        names = {name: optional_text(row[name], attributes) for name in ("criterion", "group", "against")}
        line: dict[str, Any] = names | {name: optional_text(row[name]) for name in ("given", "outcome")}
        line |= {"people": mask.headcount(row["n"]), "unknown": mask.headcount(row["unknown"]), "state": row["state"]}
        line |= {name: mask.number(row[name], row["n"]) for name in ("value", "inferred", "least", "most")}
        part["gaps"].append(line)
    return part


def commonest_part(counts: ConfusionCounts, mask: Mask) -> dict[str, Any] | None:
    """Return the class of most people, and their share: that of right answers if everybody got it."""
    if not counts.labelled:
        return None
    shares = counts.prior.sum(axis=0)
    j = int(np.argmax(shares))
    share = mask.number(shares[j], counts.n_people.sum())
    return None if share is None else {"class": name_text(counts.classes.tolist()[j]), "share": share}


# -- other tolerances ------------------------------------------------------------------------------------------
def path_lines(facts: Facts, mask: Mask) -> dict[str, Any] | None:
    """Return the path of tolerances, the loosest first, with what each of its rules does to these people."""
    if not facts.path:
        return None
    points = [_point(point, facts, mask) for point in facts.path]
    tolerances = [point["tolerance"] for point in points]
    bounds = [getattr(constraint, "tolerance", None) for constraint in facts.constraints]
    near = [
        k for k, t in enumerate(tolerances) for bound in bounds if isinstance(bound, float) and abs(t - bound) < SAME
    ]
    path = {"points": points, "chosen": near[0] if near else None, "promised": facts.promise is not None}
    return {**path, "sentence": _path_sentence(points, facts)}


def _point(point: PathPoint, facts: Facts, mask: Mask) -> dict[str, Any]:
    metrics, n = point.metrics, point.metrics.counts.n_people.sum()
    line = {"tolerance": round(point.tolerance, 6), **performance_line(metrics, None, mask), "verdict_asked": None}
    if metrics.rows is not None and not facts.is_fitted:  # those fitted on would flatter every rule
        line["verdict"] = verdict_value(metrics.rows)
        line["verdict_asked"] = verdict_value(judge_again(metrics.rows, facts.constraints))
    for name in ("rule", "label", "words"):
        del line[name]
    line |= {"price": mask.number(point.price), "undecided": mask.number(point.undecided, n)}
    line["answers"] = [mask.number(share, n) for share in metrics.counts.tensor.sum(axis=(0, 1))]
    line["changed"], line["changed_by_group"] = None, None
    if point.changes is not None:
        people = point.changes.sum(axis=(1, 2))
        line["changed"] = mask.number(changed_share(point.changes.sum(axis=0)), n)
        line["changed_by_group"] = mask.numbers([changed_share(matrix) for matrix in point.changes], people)
    return line


def _path_sentence(points: Sequence[Mapping[str, Any]], facts: Facts) -> str:
    """Say which of these rules is the most accurate that is surely within what was asked for, on these people."""
    if facts.is_fitted:
        return ""
    within = [point for point in points if point["verdict_asked"] == WITHIN]
    if not within:
        return "None of these rules is surely within what was asked for, as far as these people can tell."
    best = max(within, key=lambda point: (point["accuracy"] or 0.0, point["tolerance"]))
    right = "" if best["accuracy"] is None else f": {percent(best['accuracy'])} of its answers are right"
    size = points_text(f"{100 * best['tolerance']:.3g}")
    return (
        f"The most accurate of these rules that is surely within what was asked for has a tolerance of {size}{right}. "
        "It would be chosen by these people, whom it may suit by luck: test it on others before it is used."
    )
