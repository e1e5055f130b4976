"""Decide in three values whether what was asked for is kept: surely within, surely beyond, or it cannot be told.

Beyond, where the simultaneous interval of some row is outside its bounds: a wrong one has probability 1 − level in all.
Within, where the one-sided limits of every row are inside (intersection–union, `metrics.bounds`): these hold for people
whom the rule was not fitted on. For those fitted on, a promise that was made in fitting takes their place. Unless all
rows are, a single one is called within where its simultaneous interval is inside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from optfair.constraints import Constraint, MinimumRate, Ratio, RowSet, compile_rows
from optfair.metrics.bounds import row_limits
from optfair.metrics.counts import ConfusionCounts
from optfair.metrics.influence import as_rates
from optfair.reporting.wording import MIN_CELL, headcount, name_text, number, percent, points, tolerance_text
from optfair.rule.promise import Promise

WITHIN, BEYOND, UNKNOWN = "within", "beyond", "unknown"
LIGHTS = {WITHIN: "Surely within", BEYOND: "Surely beyond", UNKNOWN: "Cannot tell"}


@dataclass(frozen=True)
class Verdict:
    """Whether what was asked for is kept in the population of these people.

    Attributes
    ----------
    value : {"within", "beyond", "unknown"}
        Surely within the bounds, surely beyond some, or it cannot be told with these people.
    light : str
        The same in two or three words.
    sentence : str
        The same in a sentence that can be quoted.

    Examples
    --------
    >>> from optfair import audit
    >>> report = audit([0, 1] * 50, [0, 0, 1, 1] * 25, sensitive_features=["A"] * 30 + ["B"] * 70, tolerance=0.1)
    >>> report.verdict.value
    'unknown'
    """

    value: str
    light: str
    sentence: str


@dataclass(frozen=True, eq=False)
class JudgedRows:
    """The rows asked for, measured, each with its state.

    rows : compiled. table : of `metrics.constraint_table`, with least and most, one-sided limits of the row alone,
    state, and of ratios the ratio. dropped : names of the rows that nobody is behind.
    """

    rows: RowSet
    table: pd.DataFrame
    dropped: tuple[str, ...]

    def state_of(self, source: int, group: Any, given: Any, outcome: Any) -> str | None:
        """Return the state of a group in one question: the worst of the rows that it is part of."""
        table, constraint = self.table, self.rows.constraints[source]
        is_member = _equal(table["group"], group)
        if getattr(constraint, "reference", "overall") == "pairwise":
            is_member |= _equal(table["against"], group)
        mask = (self.rows.source == source) & is_member
        mask &= _equal(table["given"], given) & _equal(table["outcome"], outcome)
        states = set(table["state"][mask])
        return next((state for state in (BEYOND, UNKNOWN, WITHIN) if state in states), None)

    def room_of(self, source: int, given: Any, outcome: Any) -> float:
        """Return how far the worst group of a question is inside its bounds; negative outside."""
        table = self.table
        mask = (self.rows.source == source) & _equal(table["given"], given) & _equal(table["outcome"], outcome)
        room = np.minimum(table["upper"] - table["value"], table["value"] - table["lower"])[mask]
        return float(room.min()) if len(room) else np.inf


def _equal(column: pd.Series, value: Any) -> np.ndarray:
    return np.array([cell is value or (type(cell) is type(value) and cell == value) for cell in column], dtype=bool)


def judge_rows(
    counts: ConfusionCounts,
    constraints: list[Any],
    table: pd.DataFrame,
    level: float,
    promise: Promise | None,
    fitted: bool,
) -> JudgedRows:
    """Return the state of every row of a table of constraints.

    fitted : whether the people are those fitted on, whom limits of single rows would flatter: then promise decides.
    """
    compiled = compile_rows(constraints, counts.groups, counts.classes, counts.prior)
    rows = as_rates(compiled)
    least, most = row_limits(counts, compiled, level)
    low, high = table["low"].to_numpy(), table["high"].to_numpy()
    if fitted:
        inside = np.full(len(rows), promise is not None and promise.kept)
    elif ((least >= rows.lower) & (most <= rows.upper)).all():
        inside = np.ones(len(rows), dtype=bool)
    else:
        inside = (low >= rows.lower) & (high <= rows.upper)
    outside = (low > rows.upper) | (high < rows.lower)
    state = np.where(outside, BEYOND, np.where(inside, WITHIN, UNKNOWN))
    ratio = _ratios(rows, counts)
    return JudgedRows(rows, table.assign(least=least, most=most, state=state, ratio=ratio), compiled.dropped)


def _ratios(rows: RowSet, counts: ConfusionCounts) -> np.ndarray:
    """Return rate of a group / rate it is compared with for the rows of a `Ratio`, NaN for others."""
    mass = rows.conditions @ counts.prior.ravel()
    rates = np.divide(rows.hits @ counts.tensor.ravel(), mass, out=np.zeros_like(mass), where=mass > 0)
    positive, negative = rows.combination.maximum(0) @ rates, -(rows.combination.minimum(0) @ rates)
    minimum = np.array([getattr(rows.constraints[source], "minimum", np.nan) for source in rows.source], dtype=float)
    is_ratio = np.array([isinstance(rows.constraints[source], Ratio) for source in rows.source], dtype=bool)
    ratio = np.full(len(positive), np.nan)
    np.divide(positive * minimum, negative, out=ratio, where=is_ratio & (negative > 0))
    return ratio


def worst_row(verdicts: JudgedRows) -> int:
    """Return the position of the row that is surely furthest outside its bounds, or comes nearest to that."""
    table = verdicts.table
    return int(np.argmax(np.maximum(table["low"] - table["upper"], table["lower"] - table["high"])))


def verdict_of(verdicts: JudgedRows, level: float, fitted: bool) -> Verdict:
    """Return the verdict over all rows, with the sentence that says what it rests on."""
    table, K = verdicts.table, len(verdicts.table)
    sure = f"with {percent(level, 0)} confidence"
    gaps = [constraint for constraint in verdicts.rows.constraints if isinstance(constraint, Constraint)]
    kinds = {tolerance_text(constraint.tolerance) for constraint in gaps}
    is_one = len(kinds) == 1 and len(gaps) == len(verdicts.rows.constraints)
    bound = f"every gap between groups is within {kinds.pop()}" if is_one else "every rate is within its bounds"
    beyond = int((table["state"] == BEYOND).sum())
    scope = " that can be measured" if verdicts.dropped else ""
    bound = bound.replace("every gap", f"every gap{scope}").replace("every rate", f"every rate{scope}")
    if beyond:
        k = worst_row(verdicts)
        worst = row_sentence(table.iloc[k], verdicts.rows.constraints[verdicts.rows.source[k]])
        count = f"{beyond} of {K} comparisons exceed{'s' * (beyond == 1)} what is allowed"
        sentence = f"{sure}, {count}; the clearest: {worst}"
        return Verdict(BEYOND, LIGHTS[BEYOND], _capital(sentence))
    if (table["state"] == WITHIN).all():
        most = _largest_possible(verdicts) if not fitted else None
        reach = "" if most is None else f"; the largest is at most {points(most).lstrip('+')} percentage points"
        basis = "by the promise made in fitting" if fitted else "if the rule was not fitted on these people"
        return Verdict(WITHIN, LIGHTS[WITHIN], _capital(f"{sure}, {bound}{reach} ({basis})."))
    most = _largest_possible(verdicts)
    reach = "" if most is None else f"; the largest may be up to {points(most).lstrip('+')} percentage points"
    sentence = f"There are too few people to tell {sure} whether {bound}{reach}."
    if fitted:
        sentence = (
            f"It cannot be told whether {bound} among new people, because these are the people the rule was fitted on "
            "and no promise was asked for."
        )
    return Verdict(UNKNOWN, LIGHTS[UNKNOWN], sentence)


def _largest_possible(verdicts: JudgedRows) -> float | None:
    """Return the bound of the largest gap; None without gaps, or where it is about too few people."""
    if not verdicts.rows.is_gap.any():
        return None
    table = verdicts.table[verdicts.rows.is_gap]
    size = np.maximum(table["most"], -table["least"]).to_numpy()
    k = int(np.argmax(size))
    return number(size[k], table["n"].to_numpy()[k])


def _capital(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"


def row_place(group: Any, against: Any, given: Any, outcome: Any, name: str) -> str:
    """Say where a row is: group, reference, true class, answer; of a row of the user's own, its name."""
    parts = [] if group is None else [f"group “{name_text(group)}”"]
    if group is not None and against is not None:
        parts = [f"{parts[0]} against {'everybody' if against == 'overall' else f'“{name_text(against)}”'}"]
    parts += [] if given is None else [f"true class “{name_text(given)}”"]
    parts += [] if outcome is None else [f"answer “{name_text(outcome)}”"]
    return ", ".join(parts) if parts else name


def row_kind(constraint: Any) -> str:
    """Return what the value of a row is: "gap", "ratio" (its distance from the least one), "rate" or "own"."""
    kinds = {Constraint: "gap", Ratio: "ratio", MinimumRate: "rate"}
    return kinds.get(type(constraint), "own")


def row_sentence(row: Any, constraint: Any) -> str:
    """Say what was measured of a row; of very few people no number."""
    place = row_place(row.group, row.against, row.given, row.outcome, str(row.criterion))
    if row.n < MIN_CELL:
        return f"{place} ({headcount(row.n)} people, whose numbers are not shown)."
    kind, people = row_kind(constraint), f"{int(row.n):,} people"
    if kind == "ratio":
        return f"{place}: {percent(row.ratio)} of that rate, where at least {percent(constraint.minimum)} is asked for."
    if kind == "gap":
        interval = f"between {points(row.low)} and {points(row.high)} in the population"
        return f"{place}: {points(row.value)} percentage points ({interval}; {people})."
    interval = f"between {percent(row.low)} and {percent(row.high)} in the population"
    return f"{place}: {percent(row.value)} ({interval}; {people})."
