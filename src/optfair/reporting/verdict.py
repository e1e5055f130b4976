"""Decide in three values whether what was asked for is kept: surely within, surely beyond, or it cannot be told.

Beyond, where the simultaneous interval of some row is outside its bounds: a wrong one has probability 1 − level in all.
Within, where the one-sided limits of every row are inside (intersection–union, `metrics.bounds`): these hold for people
whom the rule was not fitted on. For those fitted on, a promise that was made in fitting takes their place. Unless all
rows are, a single one is called within where its simultaneous interval is inside.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from optfair.constraints import Constraint, MinimumRate, Ratio, RowSet, compile_rows
from optfair.constraints.naming import attribute_names, name_text
from optfair.metrics.bounds import row_limits
from optfair.metrics.counts import ConfusionCounts
from optfair.metrics.group_bounds import UnknownGroupBounds
from optfair.metrics.influence import as_rates
from optfair.reporting.wording import (
    Mask,
    count_text,
    level_text,
    percent,
    points,
    sentence_case,
    size_text,
    tolerance_text,
)
from optfair.rule.promise import Promise

WITHIN, BEYOND, UNKNOWN = "within", "beyond", "unknown"
SEVERITY = (WITHIN, UNKNOWN, BEYOND)  # the worst last
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
    state, and of ratios the ratio. dropped : names of the rows that nobody is behind. attributes : names of those
    that groups are made of. proviso : of the states, where some groups are unknown. confidence : of a promise that
    they rest on, or None. is_alone : whether all people are of one group, which is compared with nobody.
    """

    rows: RowSet
    table: pd.DataFrame
    dropped: tuple[str, ...]
    attributes: tuple[Hashable, ...] = ()
    proviso: str = ""
    confidence: float | None = None
    is_alone: bool = False

    @cached_property
    def _states(self) -> dict[tuple[Any, ...], str]:
        """The worst state of (source, group, given, outcome), of all the rows that the group is part of."""
        states: dict[tuple[Any, ...], str] = {}
        for source, row in zip(self.rows.source.tolist(), self.table.itertuples(), strict=True):
            is_pair = getattr(self.rows.constraints[source], "reference", "overall") == "pairwise"
            for group in (row.group, row.against) if is_pair else (row.group,):
                key = (source, _exact(group), *self._rate(source, row.given, row.outcome))
                states[key] = max(states.get(key, row.state), row.state, key=SEVERITY.index)
        return states

    @cached_property
    def _rooms(self) -> dict[tuple[Any, ...], float]:
        """How far the worst group of (source, given, outcome) is inside its bounds."""
        table = self.table
        rooms: dict[tuple[Any, ...], float] = {}
        room = np.minimum(table["upper"] - table["value"], table["value"] - table["lower"])
        columns = self.rows.source.tolist(), table["given"], table["outcome"], room
        for source, given, outcome, size in zip(*columns, strict=True):
            key = (source, *self._rate(source, given, outcome))
            rooms[key] = min(rooms.get(key, np.inf), float(size))
        return rooms

    def _rate(self, source: int, given: Any, outcome: Any) -> tuple[Any, Any]:
        """Return what tells a rate from others; the mean criterion has two in one, named here by their class."""
        if getattr(self.rows.constraints[source], "criterion", None) == "meo":
            given = outcome
        return _exact(given), _exact(outcome)

    def state_of(self, source: int, group: Any, given: Any, outcome: Any) -> str | None:
        """Return the state of a group in one question: the worst of the rows that it is part of."""
        return self._states.get((source, _exact(group), *self._rate(source, given, outcome)))

    def cell_states(self, source: int, group: Any, given: Any) -> set[str]:
        """Return the states of all questions about the people of a group with a true class, None for all of them."""
        key = source, _exact(group), _exact(given)
        return {state for name, state in self._states.items() if name[:3] == key}

    def room_of(self, source: int, given: Any, outcome: Any) -> float:
        """Return how far the worst group of a question is inside its bounds; negative outside."""
        return self._rooms.get((source, *self._rate(source, given, outcome)), np.inf)


def _exact(value: Any) -> tuple[type, Any]:
    """Return a key that tells 1 from True and from 1.0."""
    return type(value), value


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
        if promise is not None and len(promise.table) == len(rows):  # its limits, which allow for the fitting
            least, most = (promise.table[name].to_numpy(dtype=float) for name in ("low", "high"))
    elif ((least >= rows.lower) & (most <= rows.upper)).all():
        inside = np.ones(len(rows), dtype=bool)
    else:
        inside = (low >= rows.lower) & (high <= rows.upper)
    is_alone = int((counts.n_people.sum(axis=1) > 0).sum()) < 2
    if is_alone:
        inside &= [isinstance(rows.constraints[source], MinimumRate) for source in rows.source]
    outside = (low > rows.upper) | (high < rows.lower)
    state = np.where(outside, BEYOND, np.where(inside, WITHIN, UNKNOWN))
    ends = {"low": low, "high": high, "least": least, "most": most}
    table = table.assign(**ends, state=state, **_ratios(rows, counts, ends))
    confidence = promise.confidence if fitted and promise is not None else None
    attributes = tuple(attribute_names(counts.groups))
    return JudgedRows(rows, table, compiled.dropped, attributes, confidence=confidence, is_alone=is_alone)


def _ratios(rows: RowSet, counts: ConfusionCounts, ends: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return rate of a group / rate it is compared with for the rows of a `Ratio`, with its limits; NaN for others.

    A row is r_a − c r_b with ends such as low and high; in units of r_b as measured these are c + low / r_b and so on,
    so that the interval of the ratio is beyond c exactly where that of the row is beyond 0.
    """
    mass = rows.conditions @ counts.prior.ravel()
    rates = np.divide(rows.hits @ counts.tensor.ravel(), mass, out=np.zeros_like(mass), where=mass > 0)
    minimum = np.array([getattr(rows.constraints[source], "minimum", np.nan) for source in rows.source], dtype=float)
    is_ratio = np.array([isinstance(rows.constraints[source], Ratio) for source in rows.source], dtype=bool)
    with np.errstate(divide="ignore", invalid="ignore"):
        other = np.where(is_ratio, -(rows.combination.minimum(0) @ rates) / minimum, np.nan)
        other[other == 0] = np.nan
        value = (rows.combination.maximum(0) @ rates) / other
        limits = {f"ratio_{name}": np.maximum(minimum + end / other, 0) for name, end in ends.items()}
    return {"ratio": value, **limits}


def with_unknown(verdicts: JudgedRows, bounds: UnknownGroupBounds, counts: ConfusionCounts, mask: Mask) -> JudgedRows:
    """Return the same rows, judged so that it holds whatever the unknown groups are.

    Limits are those of the worst and the best case; what depends on the unknown groups cannot be told. counts : of
    the people whose groups are known.
    """
    table = bounds.table
    state = np.where(table["state"].isin([WITHIN, BEYOND]), table["state"], UNKNOWN)
    limits = {"least": "low", "most": "high", "low": "all_low", "high": "all_high"}
    columns = {name: table[source].to_numpy() for name, source in limits.items()}
    columns |= _ratios(verdicts.rows, counts, columns)
    people = f"{count_text(mask.headcount(bounds.n_unknown))} people"
    proviso = f"whatever the groups of {people} are"
    if bounds.refusal == 1:
        proviso = f"if the unknown groups of {people} are as is likely"
    elif np.isfinite(bounds.refusal):
        factor = f"a factor of {bounds.refusal:g} of the likely ones"
        proviso = f"if the odds of the unknown groups of {people} are within {factor}"
    return replace(verdicts, table=verdicts.table.assign(**columns, state=state), proviso=proviso)


def worst_row(verdicts: JudgedRows) -> int:
    """Return the position of the row that is surely furthest outside its bounds, or comes nearest to that."""
    table = verdicts.table
    return int(np.argmax(np.maximum(table["low"] - table["upper"], table["lower"] - table["high"])))


def verdict_of(verdicts: JudgedRows, level: float, fitted: bool, mask: Mask) -> Verdict:
    """Return the verdict over all rows, with the sentence that says what it rests on."""
    table, K = verdicts.table, len(verdicts.table)
    sure = f"with {level_text(level)} confidence"
    gaps = [constraint for constraint in verdicts.rows.constraints if isinstance(constraint, Constraint)]
    kinds = {tolerance_text(constraint.tolerance) for constraint in gaps}
    is_one = len(kinds) == 1 and len(gaps) == len(verdicts.rows.constraints)
    bound = f"every gap between groups is within {kinds.pop()}" if is_one else "every rate is within its bounds"
    beyond = int((table["state"] == BEYOND).sum())
    scope = " that can be measured" if verdicts.dropped else ""
    bound = bound.replace("every gap", f"every gap{scope}").replace("every rate", f"every rate{scope}")
    unknown = f", {verdicts.proviso}" if verdicts.proviso else ""
    if beyond:
        k = worst_row(verdicts)
        worst = row_sentence(verdicts, k, mask)
        count = f"{beyond} of {K} comparisons {'is' if beyond == 1 else 'are'} outside of what is allowed"
        sentence = f"{sure}, {count}{unknown}; the clearest: {worst}"
        return Verdict(BEYOND, LIGHTS[BEYOND], sentence_case(sentence))
    if (table["state"] == WITHIN).all():
        if verdicts.confidence is not None:
            sure = f"with {level_text(verdicts.confidence)} confidence"
        most = _largest_possible(verdicts, mask) if not fitted else None
        reach = "" if most is None else f"; the largest is at most {size_text(most)} percentage points"
        basis = "by the promise made in fitting" if fitted else "if the rule was not fitted on these people"
        return Verdict(WITHIN, LIGHTS[WITHIN], sentence_case(f"{sure}, {bound}{unknown}{reach} ({basis})."))
    if verdicts.is_alone:
        return Verdict(UNKNOWN, LIGHTS[UNKNOWN], "All people are of one group, and there is nobody to compare with.")
    most = _largest_possible(verdicts, mask)
    reach = "" if most is None else f"; the largest may be up to {size_text(most)} percentage points"
    sentence = f"There are too few people to tell {sure} whether {bound}{reach}."
    if verdicts.proviso:
        sentence = f"It cannot be told {sure} whether {bound}{unknown}{reach}."
    if fitted:
        sentence = (
            f"It cannot be told whether {bound} among new people, because these are the people the rule was fitted on "
            "and no promise was asked for."
        )
    return Verdict(UNKNOWN, LIGHTS[UNKNOWN], sentence)


def _largest_possible(verdicts: JudgedRows, mask: Mask) -> float | None:
    """Return the bound of the largest gap; None without gaps, or where it is about too few people."""
    if not verdicts.rows.is_gap.any():
        return None
    table = verdicts.table[verdicts.rows.is_gap]
    size = np.maximum(table["most"], -table["least"]).to_numpy()
    k = int(np.argmax(size))
    return mask.number(size[k], table["n"].to_numpy()[k])


def row_place(row: Any, attributes: Sequence[Hashable]) -> str:
    """Say where a row is: group, reference, true class, answer; of a row of the user's own, its name."""
    parts = [] if row.group is None else [f"group “{name_text(row.group, attributes)}”"]
    if row.group is not None and row.against is not None:
        other = "everybody" if row.against == "overall" else f"“{name_text(row.against, attributes)}”"
        parts = [f"{parts[0]} against {other}"]
    parts += [] if row.given is None else [f"true class “{name_text(row.given)}”"]
    parts += [] if row.outcome is None else [f"answer “{name_text(row.outcome)}”"]
    return ", ".join(parts) if parts else str(row.criterion)


def row_kind(constraint: Any) -> str:
    """Return what the value of a row is: "gap", "ratio" (its distance from the least one), "rate" or "own"."""
    kinds = {Constraint: "gap", Ratio: "ratio", MinimumRate: "rate"}
    return kinds.get(type(constraint), "own")


def row_sentence(verdicts: JudgedRows, k: int, mask: Mask) -> str:
    """Say what was measured of the k-th row; of very few people no number."""
    row, constraint = verdicts.table.iloc[k], verdicts.rows.constraints[verdicts.rows.source[k]]
    place = row_place(row, verdicts.attributes)
    if row.n < mask.least:
        return f"{place} ({mask.headcount(row.n)} people, whose numbers are not shown)."
    kind, people = row_kind(constraint), f"{count_text(int(row.n))} people"
    if kind == "ratio":
        return f"{place}: {percent(row.ratio)} of that rate, where at least {percent(constraint.minimum)} is asked for."
    if kind == "gap":
        interval = f"between {points(row.low)} and {points(row.high)} in the population"
        return f"{place}: {points(row.value)} percentage points ({interval}; {people})."
    interval = f"between {percent(row.low)} and {percent(row.high)} in the population"
    return f"{place}: {percent(row.value)} ({interval}; {people})."
