"""Word the cells of tables that text, Markdown and pages share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from optfair.reporting.wording import counted, percent, points

STATES = {"within": "✓ within", "beyond": "✗ beyond", "unknown": "? cannot tell", None: "–"}
MOST_ANSWERS = 3  # that a cell names
LIMITS_NOTE = (
    "“At most” is the limit of the largest gap alone, on which the verdict “within” rests; the interval holds for all "
    "gaps at once, is therefore wider, and on it “beyond” rests."
)
PAIRS_NOTE = (
    "“p, all pairs” allows for all pairs of groups and all tables: where all groups are treated alike, any of them is "
    "below 0.05 in at most 5 % of such audits. Intervals are for each pair by itself."
)
REASON_WORDS = {  # why it cannot be told
    "few": "few people",
    "near": "near the limit",
    "unknown groups": "depends on people whose group is unknown",
}


def gap_place(line: Mapping[str, Any]) -> str:
    """Say what a comparison is about, in a line of a table; a pair is named by both of its groups."""
    against = "" if line["against"] in (None, "overall") else f" against {line['against']}"
    parts = [] if line["group"] is None else [f"{line['group']}{against}"]
    parts += [] if line["given"] is None else [f"true class “{line['given']}”"]
    parts += [] if line["outcome"] is None else [f"answer “{line['outcome']}”"]
    parts += ["everybody's rate"] if line["kind"] == "rate" and line["group"] == "overall" else []
    return ", ".join(parts) if parts else str(line["criterion"])


def shown_ends(document: Mapping[str, Any]) -> tuple[str, str]:
    """Return which limits decide: where all comparisons are within, those of each by itself, else of all at once."""
    is_within = document["verdict"] is not None and document["verdict"]["value"] == "within"
    return ("least", "most") if is_within else ("low", "high")


def gap_cells(line: Mapping[str, Any], ends: Sequence[str] = ("low", "high"), digits: int = 1) -> tuple[str, str, str]:
    """Return what was measured, its interval and what is allowed, in the unit of its kind."""
    low, high = line["allowed"]
    text = partial(points if line["kind"] == "gap" else percent, digits=digits)
    if line["kind"] == "ratio":
        interval = "–" if line["ratio"] is None else " to ".join(text(line[f"ratio_{end}"]) for end in ends)
        return text(line["ratio"]), interval, f"at least {text(line['minimum'])}"
    bounds = f"{text(low)} to {text(high)}"
    if low is None or high is None:
        bounds = f"at least {text(low)}" if high is None else f"at most {text(high)}"
    interval = "–" if line["value"] is None else f"{text(line[ends[0]])} to {text(line[ends[1]])}"
    return text(line["value"]), interval, bounds


def price_name(line: Mapping[str, Any]) -> str:
    """Name what a price is of: a criterion and a group, or both groups of a pair."""
    parts = [line["criterion"], *([] if line["group"] is None else [line["group"]])]
    return ", ".join(parts) + ("" if line["against"] is None else f" and {line['against']}")


def hidden_text(document: Mapping[str, Any]) -> str:
    """Say that the gaps of some groups are not in the numbers of a rule; nothing where all are."""
    if not any(line["hidden"] for line in document["performance"]):
        return ""
    return f"Groups of fewer than {document['min_cell']} people count in the verdict, and are in no other number"


def hidden_gaps_text(document: Mapping[str, Any]) -> str:
    """Say how many comparisons are not listed because they are of too few people; nothing where all may be."""
    n = document["gaps_hidden"]
    return f"{counted(n, 'comparison')} of fewer than {document['min_cell']} people" if n else ""


def small_place(cell: Mapping[str, Any]) -> str:
    """Name a group with too few people, its true class, and in which comparisons, unless in all of its own."""
    place = f"{cell['group']}{'' if cell['given'] is None else ', ' + cell['given']}"
    return place if cell["comparisons"] == cell["of"] else f"{place}, {small_comparisons(cell)}"


def small_comparisons(cell: Mapping[str, Any]) -> str:
    """Say in which of its comparisons a group has too few people."""
    if cell["comparisons"] == cell["of"]:
        return f"all {cell['of']}" if cell["of"] > 1 else "the only one"
    names = [f"“{name}”" for name in cell["answers"]]
    if 0 < len(names) == cell["comparisons"] <= MOST_ANSWERS:
        return f"answer {' and '.join(names)}"
    return f"{cell['comparisons']:,} of {cell['of']:,} comparisons"


def state_words(line: Mapping[str, Any]) -> str:
    """Return the verdict on a comparison, and why it cannot be told."""
    reason = REASON_WORDS.get(line["reason"])
    return STATES[line["state"]] + ("" if reason is None else f": {reason}")


def unasked_text(document: Mapping[str, Any]) -> str:
    """Say which families of groups are shown although nothing was asked for them; nothing where all are compared."""
    compared, families = document["compared"], document["families"]
    if compared is None or not compared["families"]:
        return ""
    names = [name for k, name in enumerate(families) if k not in compared["families"]]
    return (
        f"Shown too, without a verdict, since nothing was asked for them: groups of {', '.join(names)}."
        if names
        else ""
    )
