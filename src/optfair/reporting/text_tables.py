"""Write tables of a document as text: who gets which answer, and whose answers are right."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from optfair.reporting.table_words import PAIRS_NOTE
from optfair.reporting.wording import count_text, p_text, percent, points

WIDTH = 110
LINES = 8  # of a table
DIGITS = 2  # of shares in per cent
MOST_GROUPS = 20  # whose answers are listed


def columns(lines: Iterable[Sequence[str]], left: int = 1, indent: str = "  ") -> list[str]:
    """Return lines of cells side by side: the first so many to the left, the others to the right."""
    rows = [list(line) for line in lines]
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return [
        indent
        + "  ".join(
            cell.ljust(width) if k < left else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def wrapped(text: str, indent: str = "") -> str:
    """Return a text in lines that fit a terminal."""
    return textwrap.fill(text, WIDTH, subsequent_indent=indent)


def impact_text(document: Mapping[str, Any]) -> str:
    """Return impact ratios, and which answers they take as favourable."""
    parts = []
    for table in document["impact"]:
        lines: list[Sequence[str]] = [("group", "people", "rate", "interval", "ratio", "interval", "p, all pairs", "")]
        for row in table["rows"]:
            ratio = "–" if row["ratio"] is None else f"{row['ratio']:.2f}"
            mark = "below 4/5" if row["below"] else "the highest" if row["is_reference"] else ""
            cells = [
                row["group"],
                count_text(row["people"]),
                percent(row["value"], DIGITS),
                _ends(row, "low", "high", 100, DIGITS),
            ]
            lines.append([*cells, ratio, _ends(row, "ratio_low", "ratio_high", 1, 2), p_text(row["p_all"]), mark])
        parts.append("\n".join([f"Who gets “{table['outcome']}”, by {table['family'] or 'group'}", *columns(lines)]))
    if parts:
        parts[-1] += f"\n{wrapped(PAIRS_NOTE)}"
    return "\n\n".join([*parts, *([wrapped(document["favourable_note"])] if document["favourable_note"] else [])])


def _ends(row: Mapping[str, Any], low: str, high: str, unit: int, digits: int) -> str:
    if row[low] is None:
        return ""
    end = "∞" if row[high] is None else f"{unit * row[high]:.{digits}f}"
    return f"{unit * row[low]:.{digits}f}–{end}"


def answers_text(document: Mapping[str, Any]) -> str:
    """Return how often each answer is given and recognised, by each rule."""
    roles = [rule["role"] for rule in document["rules"]]
    if not document["answers"] or (len(roles) == 1 and not document["labelled"]):  # those by group say it all
        return ""
    lines = document["answers"]
    lines = sorted(lines, key=lambda line: -abs((line[roles[-1]] or 0) - (line[roles[0]] or 0)))
    recalls = {
        (line["class"], role): line[role][0]
        for line in document["quality"]
        if line["rate"] == "recall" and line["group"] == "everybody"
        for role in roles
    }
    has_labels = document["labelled"]
    words = ["get it", "recognised"] if has_labels else ["get it"]
    ends = [f", {role}" if len(roles) > 1 else "" for role in roles]
    cells = [["", *(["true class"] if has_labels else []), *(f"{word}{end}" for end in ends for word in words)]]
    for line in lines[:LINES]:
        numbers = [percent(line["people"], DIGITS)] if has_labels else []
        for role in roles:
            numbers.append(percent(line[role], DIGITS))
            numbers += [percent(recalls[line["class"], role], DIGITS)] if has_labels else []
        cells.append([line["class"], *numbers])
    rest = [f"  and {len(lines) - LINES} classes whose share changes less"] if len(lines) > LINES else []
    title = "Answers: share of everybody who get each one"
    if has_labels:
        title = (
            "Answers: share of everybody whose true class it is and who get it; recognised: of those whose true class "
            "it is"
        )
    return "\n".join([wrapped(title), *columns(cells), *rest])


def selection_text(document: Mapping[str, Any]) -> str:
    """Return who gets which answer, by group and by the last rule; of many classes the most frequent."""
    if not document["selection"]:
        return ""
    role, groups = document["rules"][-1]["role"], document["selection"]
    shares = [line[role] or 0.0 for line in document["answers"]]
    columns_shown = sorted(range(len(shares)), key=lambda j: -shares[j])[:LINES]
    columns_shown.sort()
    cells = [["", "people", *(document["classes"][j] for j in columns_shown)]]
    for line in groups[:MOST_GROUPS]:
        cells.append(
            [line["group"], count_text(line["people"]), *(percent(line[role][j], DIGITS) for j in columns_shown)]
        )
    cells.append(["everybody", count_text(document["n_rows"]), *(percent(shares[j], DIGITS) for j in columns_shown)])
    rest = [f"  and {len(groups) - MOST_GROUPS} more groups"] if len(groups) > MOST_GROUPS else []
    return "\n".join([f"Answers by group ({document['rules'][-1]['name']})", *columns(cells), *rest])


def losses_text(document: Mapping[str, Any]) -> str:
    """Return the right answers of each group before and after, those who lose most first."""
    lines = [
        line
        for line in document["quality"]
        if line["rate"] == "accuracy" and "before" in line and line["after"][0] is not None
    ]
    if len(lines) < 2:
        return ""
    lines = sorted(lines, key=lambda line: line["after"][0] - line["before"][0])[:LINES]
    cells = [("", "people", "before", "after", "change")]
    for line in lines:
        before, after = line["before"][0], line["after"][0]
        people = count_text(line["people"])
        cells.append(
            (line["group"], people, percent(before, DIGITS), percent(after, DIGITS), points(after - before, DIGITS))
        )
    return "\n".join(["Right answers by group, the largest falls first", *columns(cells)])
