"""Say whether what was asked for is kept: surely within, surely beyond, or it cannot be told and why (`judging`)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from optfair.constraints.naming import name_text
from optfair.reporting.comparisons import row_kind
from optfair.reporting.judging import BEYOND, FEW, GROUPS, NEAR, UNKNOWN, WITHIN, JudgedRows
from optfair.reporting.wording import (
    Mask,
    bounds_text,
    counted,
    level_text,
    percent,
    points,
    sentence_case,
    sides_text,
    size_text,
)

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


def verdict_value(verdicts: JudgedRows) -> str:
    """Return the verdict over all rows: beyond where some is, within where all are."""
    states = set(verdicts.table["state"])
    return BEYOND if BEYOND in states else WITHIN if states == {WITHIN} else UNKNOWN


def verdict_of(verdicts: JudgedRows, level: float, fitted: bool, mask: Mask) -> Verdict:
    """Return the verdict over all rows, with the sentence that says what it rests on."""
    value = verdict_value(verdicts)
    sure = f"with {level_text(level)} confidence"
    bound = bounds_text(verdicts.rows.constraints, " that can be measured" if verdicts.dropped else "")
    bound = f"{bound}, {verdicts.proviso}" if verdicts.proviso else bound
    if value == BEYOND:
        sentence = f"{sure}, {_beyond_text(verdicts, mask)}"
    elif value == WITHIN:
        if verdicts.confidence is not None:
            sure = f"with {level_text(verdicts.confidence)} confidence"
        reach = "" if fitted else _reach_text(verdicts, mask, "the largest is at most")
        basis = "by the promise made in fitting" if fitted else "if the rule was not fitted on these people"
        sentence = f"{sure}, {bound}{reach} ({basis})."
    elif verdicts.is_alone:
        sentence = "All people are of one group, and there is nobody to compare with."
    elif fitted:
        sentence = (
            f"It cannot be told whether {bound} among new people, because these are the people the rule was fitted on "
            "and no promise was asked for."
        )
    else:
        sentence = _open_text(verdicts, sure, bound, mask)
    return Verdict(value, LIGHTS[value], sentence_case(sentence))


def _beyond_text(verdicts: JudgedRows, mask: Mask) -> str:
    """Say how many rows are beyond, and which the most clearly."""
    K, beyond = len(verdicts.table), int((verdicts.table["state"] == BEYOND).sum())
    count = f"{beyond:,} of {K:,} comparisons {'is' if beyond == 1 else 'are'} outside of what is allowed"
    proviso = f", {verdicts.proviso}" if verdicts.proviso else ""
    return f"{count}{proviso}; the clearest: {row_sentence(verdicts, worst_row(verdicts, mask), mask)}"


def _open_text(verdicts: JudgedRows, sure: str, bound: str, mask: Mask) -> str:
    """Say that it cannot be told, and whether few people are in the way or what was measured is near the bound."""
    reach = _reach_text(verdicts, mask, "the largest may be up to")
    reason = verdicts.table["reason"].to_numpy()
    n_few, n_near, n_groups = (int((reason == name).sum()) for name in (FEW, NEAR, GROUPS))
    if n_few and not n_near and not verdicts.proviso:
        return f"There are too few people to tell {sure} whether {bound}{reach}."
    text = f"It cannot be told {sure} whether {bound}{reach}."
    if n_groups:
        text += f" In {counted(n_groups, 'comparison')} it depends on people whose group is unknown."
    if not n_near:
        noun = "other comparison" if n_groups else "comparison"
        return text + (f" In {counted(n_few, noun)} there are too few people to tell." if n_few else "")
    n, size = (verdicts.table[name].abs().to_numpy(dtype=float) for name in ("n", "value"))
    k = max(np.flatnonzero(reason == NEAR).tolist(), key=lambda j: (n[j], size[j]))
    subject = (
        f"What was measured in {counted(n_near, 'comparison')} is so near to what is allowed that it cannot be told"
    )
    text += f" {subject}, such as {row_sentence(verdicts, k, mask)}"
    return text + (f" In {counted(n_few, 'other')} there are too few people to tell." if n_few else "")


def _reach_text(verdicts: JudgedRows, mask: Mask, words: str) -> str:
    """Say how large the largest gap may be, of people enough to be shown; nothing without gaps."""
    table = verdicts.table[verdicts.rows.is_gap]
    is_shown = table["n"].to_numpy(dtype=float) >= mask.least
    if not is_shown.any():
        return ""
    most = np.maximum(table["most"], -table["least"]).to_numpy(dtype=float)[is_shown].max()
    words = words if is_shown.all() else f"of groups of at least {mask.least} people {words}"
    return f"; {words} {size_text(most)} percentage points"


def worst_row(verdicts: JudgedRows, mask: Mask) -> int:
    """Return the row that is surely furthest outside its bounds, of people enough to be shown where there is one."""
    table = verdicts.table
    outside = np.maximum(table["low"] - table["upper"], table["lower"] - table["high"]).to_numpy(dtype=float)
    is_shown = (table["n"].to_numpy(dtype=float) >= mask.least) & (outside > 0)
    return int(np.argmax(np.where(is_shown, outside, -np.inf) if is_shown.any() else outside))


def row_place(row: Any, attributes: Sequence[Hashable]) -> str:
    """Say where a row is: group, reference, true class, answer; of a row of the user's own, its name."""
    parts = [] if row.group is None else [f"group “{name_text(row.group, attributes)}”"]
    if row.group is not None and row.against is not None:
        other = "everybody" if row.against == "overall" else f"“{name_text(row.against, attributes)}”"
        parts = [f"{parts[0]} against {other}"]
    parts += [] if row.given is None else [f"true class “{name_text(row.given)}”"]
    parts += [] if row.outcome is None else [f"answer “{name_text(row.outcome)}”"]
    return ", ".join(parts) if parts else str(row.criterion)


def row_sentence(verdicts: JudgedRows, k: int, mask: Mask) -> str:
    """Say what was measured of the k-th row; of very few people no number."""
    row, constraint = verdicts.table.iloc[k], verdicts.rows.constraints[verdicts.rows.source[k]]
    place = row_place(row, verdicts.attributes)
    if row.n < mask.least:
        return f"{place} ({mask.headcount(row.n)} people, whose numbers are not shown)."
    kind, (n, n_other) = row_kind(constraint), verdicts.sides(k)
    people = sides_text({"people": n, "people_against": n_other}) + " people"
    if kind == "ratio":
        interval = f"between {percent(row.ratio_low)} and {percent(row.ratio_high)} in the population"
        asked_for = f"where at least {percent(constraint.minimum)} is asked for"
        return f"{place}: {percent(row.ratio)} of that rate, {asked_for} ({interval}; {people})."
    if kind == "gap":
        interval = f"between {points(row.low)} and {points(row.high)} in the population"
        return f"{place}: {points(row.value)} percentage points ({interval}; {people})."
    interval = f"between {percent(row.low)} and {percent(row.high)} in the population"
    return f"{place}: {percent(row.value)} ({interval}; {people})."
