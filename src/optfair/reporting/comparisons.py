"""Write single comparisons down: the rows of a document, which of them is the clearest, and which the largest.

The clearest is the one that is furthest beyond what chance gives it: of gaps the largest lower limit, of ratios the
smallest upper one. It is mostly of many people; the largest that was measured is mostly of few.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from optfair.constraints import Constraint, MinimumRate, Ratio
from optfair.constraints.naming import name_text, optional_text
from optfair.constraints.rows import TABLE_COLUMNS
from optfair.reporting.judging import BEYOND, FEW, JudgedRows, exact
from optfair.reporting.wording import Mask

MAX_GAPS = 40  # comparisons in a document, the worst first: many groups in pairs have thousands
KINDS = {Constraint: "gap", Ratio: "ratio", MinimumRate: "rate"}  # of values; of others "own"
ENDS = ("low", "high", "least", "most")


def row_kind(constraint: Any) -> str:
    """Return what the value of a row is: "gap", "ratio" (its distance from the least one), "rate" or "own"."""
    return KINDS.get(type(constraint), "own")


def comparison_line(verdicts: JudgedRows, k: int, mask: Mask) -> dict[str, Any]:
    """Return the k-th row as JSON can hold it; of very few people no number."""
    row, source = verdicts.table.iloc[k], int(verdicts.rows.source[k])
    constraint, n = verdicts.rows.constraints[source], verdicts.table["n"].iloc[k]
    people, people_against = verdicts.sides(k)
    line: dict[str, Any] = {name: optional_text(row[name], verdicts.attributes) for name in TABLE_COLUMNS}
    line |= {"asked": source, "kind": row_kind(constraint), "people": mask.headcount(people)}
    line["people_against"] = None if people_against is None else mask.headcount(people_against)
    line |= {"state": row["state"], "reason": row["reason"] or None}
    line["allowed"] = [mask.number(row["lower"]), mask.number(row["upper"])]
    line |= {name: mask.number(row[name], n) for name in ("value", *ENDS, "rate", "rate_against")}
    if isinstance(constraint, Ratio):
        names = ["ratio", *(f"ratio_{end}" for end in ENDS)]
        line |= {name: mask.number(row[name], n) for name in names}
        line["minimum"] = constraint.minimum
    return line


def comparison_lines(verdicts: JudgedRows, mask: Mask) -> list[dict[str, Any]]:
    """Return the comparisons of people enough to be shown: those surely beyond, then the others, the furthest first."""
    table = verdicts.table
    distance = np.maximum(table["value"] - table["upper"], table["lower"] - table["value"]).to_numpy(dtype=float)
    order = np.lexsort((-distance, table["state"] != BEYOND))
    places = order[~_hidden(verdicts, mask)[order]]
    return [comparison_line(verdicts, int(k), mask) for k in places[:MAX_GAPS]]


def n_hidden_comparisons(verdicts: JudgedRows, mask: Mask) -> int:
    """Return how many comparisons are of too few people to be shown."""
    return int(_hidden(verdicts, mask).sum())


def _hidden(verdicts: JudgedRows, mask: Mask) -> np.ndarray:
    return verdicts.table["n"].to_numpy(dtype=float) < mask.least


# -- headlines ---------------------------------------------------------------------------------------------------
def headline(verdicts: JudgedRows, rules: Mapping[str, JudgedRows], mask: Mask) -> dict[str, Any]:
    """Return the clearest and the largest comparison of the first kind asked for, of people enough to be shown.

    Either is None where there is none. rules : by role, whose values of the same comparison are added.
    """
    kinds = np.array([row_kind(verdicts.rows.constraints[source]) for source in verdicts.rows.source])
    kind = next(name for name in ("gap", "ratio", "rate", "own") if name in kinds)
    is_shown = (kinds == kind) & (verdicts.table["n"].to_numpy(dtype=float) >= mask.least)
    size, surplus = (np.where(is_shown, values, -np.inf) for values in _sizes(verdicts, kind))
    lines: dict[str, Any] = {}
    for name, values, least in (("clearest", surplus, 0.0), ("largest", size, -np.inf)):
        k = int(np.argmax(values))
        lines[name] = comparison_line(verdicts, k, mask) if values[k] > least else None
        if lines[name] is not None:
            lines[name]["rules"] = {role: _same_row(verdicts, k, other, mask) for role, other in rules.items()}
    return lines


def _sizes(verdicts: JudgedRows, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Return how large each row is and how far it is surely beyond chance, where nothing is asked; (K,) each."""
    table = {name: verdicts.table[name].to_numpy(dtype=float) for name in ("value", "low", "high", "lower", "upper")}
    if kind == "gap":
        return np.abs(table["value"]), np.maximum(table["low"], -table["high"])
    if kind == "ratio":
        ratio, high = (verdicts.table[name].to_numpy(dtype=float) for name in ("ratio", "ratio_high"))
        return np.nan_to_num(-ratio, nan=-np.inf), np.nan_to_num(1 - high, nan=-np.inf)
    outside, surely = (
        np.maximum(low - table["upper"], table["lower"] - high)
        for low, high in ((table["value"], table["value"]), (table["low"], table["high"]))
    )
    return outside, surely


def _same_row(verdicts: JudgedRows, k: int, other: JudgedRows, mask: Mask) -> dict[str, Any]:
    """Return what another rule does in the k-th comparison."""
    names, key = ("value", "rate", "rate_against", "ratio"), _place(verdicts, k)
    order = (k, *range(len(other.keys)))  # the rows of rules are mostly in the same order
    place = next((j for j in order if j < len(other.keys) and _place(other, j) == key), None)
    if place is None:
        return dict.fromkeys(names)
    row, n = other.table.iloc[place], other.table["n"].iloc[place]
    return {name: mask.number(row[name], n) for name in names}


def _place(verdicts: JudgedRows, k: int) -> tuple[Any, ...]:
    return int(verdicts.rows.source[k]), *map(exact, verdicts.keys[k])


# -- few people --------------------------------------------------------------------------------------------------
def small_lines(verdicts: JudgedRows, mask: Mask) -> list[dict[str, Any]]:
    """Return the groups, of all people or of one true class, that are the smaller side of rows with few people.

    A line has the number of these comparisons, that of all in which the group takes part, and the answers.
    """
    cells: dict[tuple[Any, ...], dict[str, Any]] = {}
    totals: dict[tuple[Any, ...], int] = {}
    reasons = verdicts.table["reason"].tolist()
    for k, (_, group, against, given, outcome) in enumerate(verdicts.keys):
        if getattr(verdicts.rows.constraints[verdicts.rows.source[k]], "criterion", None) == "meo":
            given = outcome  # two rates of one class
        for key in {(exact(side), exact(given)) for side in (group, against)}:
            totals[key] = totals.get(key, 0) + 1
        if reasons[k] != FEW:
            continue
        (people, people_against), side = verdicts.sides(k), group
        if people_against is not None and people_against < people:
            side, people = against, people_against
        key = exact(side), exact(given)
        if key not in cells:
            texts = {"group": name_text(side, verdicts.attributes), "given": optional_text(given)}
            cells[key] = {**texts, "people": people, "comparisons": 0, "of": 0, "answers": []}
        cells[key]["comparisons"] += 1
        if people_against is None and outcome is not None and name_text(outcome) not in cells[key]["answers"]:
            cells[key]["answers"].append(name_text(outcome))
    lines = [{**cell, "of": totals[key]} for key, cell in cells.items()]
    lines.sort(key=lambda cell: max(cell["people"], mask.least - 1))  # the order of hidden numbers would tell them
    return [{**cell, "people": mask.headcount(cell["people"])} for cell in lines]
