"""Write a document of numbers as text for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from optfair.reporting.table_words import (
    REASON_WORDS,
    gap_cells,
    gap_place,
    hidden_text,
    price_name,
    shown_ends,
    small_place,
)
from optfair.reporting.wording import (
    commonest_text,
    count_text,
    level_text,
    p_text,
    percent,
    points,
    sides_text,
    size_text,
    unknown_text,
)

WIDTH = 110
LINES = 8  # of a table
DIGITS = 2  # of shares in per cent
MOST_GROUPS = 20  # whose answers are listed
STATE_WORDS = {"within": "within", "beyond": "BEYOND", "unknown": "cannot tell", None: ""}


def plain_text(document: Mapping[str, Any], n_gaps: int = LINES) -> str:
    """Return the text of a document. n_gaps : comparisons that are listed."""
    parts = [document["title"], _verdict(document), _findings(document), _fitting(document), _prices(document)]
    parts += [_rules(document), _impact(document), _answers(document), _selection(document), _losses(document)]
    parts += [_gaps(document, n_gaps), _unknown(document), _small(document), _promises(document), _times(document)]
    return "\n\n".join(part for part in parts if part)


# -- pieces ----------------------------------------------------------------------------------------------------
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


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(text, WIDTH, subsequent_indent=indent)


def _verdict(document: Mapping[str, Any]) -> str:
    verdict = document["verdict"]
    return "" if verdict is None else _wrapped(f"{verdict['light']}: {verdict['sentence']}")


def _findings(document: Mapping[str, Any]) -> str:
    lines = [_wrapped(f"  {f['code']} {f['severity']}: {f['sentence']}", " " * 8) for f in document["findings"]]
    return "\n".join(["What you should know", *lines]) if lines else ""


# -- what is known of the rule -----------------------------------------------------------------------------------
def _fitting(document: Mapping[str, Any]) -> str:
    """Return certificate and price of determinism, or how training ended, where fitting is what is reported."""
    if document["fitting"] is None:
        return ""
    if document["training"] is not None:
        return "\n".join(["Training", *(f"  {line}" for line in document["training"].splitlines())])
    is_tightened = document["promise"] is not None and bool(document["promise"]["tightening"])
    parts = [_certificate(document["certificate"]), _determinism(document["determinism"], is_tightened)]
    return "\n\n".join(part for part in parts if part)


def _certificate(certificate: Mapping[str, Any] | None) -> str:
    if certificate is None:
        return ""
    bounds = certificate["tolerance"]
    bounds = bounds if isinstance(bounds, list) else [bounds]
    lines = [("accuracy", f"{certificate['accuracy']:.6f}")]
    lines += [("value", f"{certificate['value']:.6f}")] if certificate["has_costs"] else []
    lines += [
        ("upper bound", f"{certificate['upper_bound']:.6f}"),
        ("gap", f"{certificate['gap']:.2e}"),
        ("violation", f"{certificate['violation']:.6f}"),
        ("tolerance", ", ".join("–" if bound is None else f"{bound:g}" for bound in bounds)),
        ("excess", f"{certificate['excess']:.2e}"),
        ("status", "; ".join([certificate["status"], *certificate["notes"]])),
    ]
    head = "Certificate (on z(x), the estimates of P(A, Y | X), out of fold)"
    return "\n".join([head, *(f"  {name:<13} {text}" for name, text in lines)])


def _determinism(determinism: Mapping[str, Any] | None, is_tightened: bool) -> str:
    """Return the price of determinism. is_tightened : whether the bounds are those of a promise."""
    if determinism is None:
        return ""
    lines = [("", "accuracy", "violation")]
    for name, label in (("randomised", "as it is, drawn by lot"), ("argmax", "always the likeliest")):
        lines.append((label, f"{determinism[f'accuracy_{name}']:.6f}", f"{determinism[f'violation_{name}']:.6f}"))
    text = f"  {percent(determinism['undecided'], 2)} of people get an answer by lot"
    if determinism["excess_argmax"]:
        bounds = "bounds that were tightened for the promise" if is_tightened else "bounds"
        text += f"; the likeliest answer for all is outside the {bounds} by {determinism['excess_argmax']:.6f}"
    return "\n".join(["Price of determinism", *columns(lines), text])


def _prices(document: Mapping[str, Any]) -> str:
    if document["fitting"] is None:
        return ""
    lines = document["prices"]
    if not lines:
        if document["certificate"] is None:
            return "Prices: no constraint binds; the rule costs nothing."
        return "Prices: no constraint binds by the model's estimates; by these the rule costs nothing."
    cells = [(price_name(line), f"{line['price']:.4f}") for line in lines[:LINES]]
    rest = [f"  and {len(lines) - LINES} more"] if len(lines) > LINES else []
    return "\n".join([f"Prices ({document['units']['price']})", *columns(cells), *rest])


# -- what was measured -----------------------------------------------------------------------------------------
def _rules(document: Mapping[str, Any]) -> str:
    if not document["performance"]:
        return ""
    level = level_text(document["level"])
    is_gap = document["tolerance"] is not None
    head = (
        ["", "right"] + (["largest gap", f"{level} interval", "at most", "by chance"] if is_gap else []) + ["verdict"]
    )
    lines = [head]
    for line in document["performance"]:
        cells = [line["rule"], percent(line["accuracy"], DIGITS)]
        if is_gap:
            ends = f"{size_text(line['lower'], DIGITS)} to {size_text(line['upper'], DIGITS)}"
            cells += [
                size_text(line["violation"], DIGITS),
                ends,
                size_text(line["bound"], DIGITS),
                size_text(line["noise_floor"], DIGITS),
            ]
        lines.append([*cells, STATE_WORDS[line["verdict"]]])
    source = "With labels" if document["labelled"] else "Without labels"
    note = (
        f"{source}, {count_text(document['n_people'])} people (gaps in percentage points; a rule that treats all "
        f"groups alike stays below “by chance” in {level} of samples)"
        if is_gap
        else f"{source}, {count_text(document['n_people'])} people"
    )
    remarks = [f"{text}." for text in (commonest_text(document["commonest"], DIGITS), hidden_text(document)) if text]
    return "\n".join([_wrapped(note), *columns(lines), *map(_wrapped, remarks)])


def _impact(document: Mapping[str, Any]) -> str:
    parts = []
    for table in document["impact"]:
        lines: list[Sequence[str]] = [("group", "people", "rate", "interval", "ratio", "interval", "p", "")]
        for row in table["rows"]:
            ratio = "–" if row["ratio"] is None else f"{row['ratio']:.2f}"
            mark = "below 4/5" if row["below"] else "the highest" if row["is_reference"] else ""
            cells = [
                row["group"],
                count_text(row["people"]),
                percent(row["value"], DIGITS),
                _ends(row, "low", "high", 100, DIGITS),
            ]
            lines.append([*cells, ratio, _ends(row, "ratio_low", "ratio_high", 1, 2), p_text(row["p_value"]), mark])
        parts.append("\n".join([f"Who gets “{table['outcome']}”, by {table['family'] or 'group'}", *columns(lines)]))
    return "\n\n".join(parts)


def _ends(row: Mapping[str, Any], low: str, high: str, unit: int, digits: int) -> str:
    if row[low] is None:
        return ""
    end = "∞" if row[high] is None else f"{unit * row[high]:.{digits}f}"
    return f"{unit * row[low]:.{digits}f}–{end}"


def _answers(document: Mapping[str, Any]) -> str:
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
    head = ["", *(["true class of"] if has_labels else [])]
    cells = [
        head + [f"{word}, {role}" for role in roles for word in (["answer", "recall"] if has_labels else ["answer"])]
    ]
    for line in lines[:LINES]:
        numbers = [percent(line["people"], DIGITS)] if has_labels else []
        for role in roles:
            numbers.append(percent(line[role], DIGITS))
            numbers += [percent(recalls[line["class"], role], DIGITS)] if has_labels else []
        cells.append([line["class"], *numbers])
    rest = [f"  and {len(lines) - LINES} classes whose share changes less"] if len(lines) > LINES else []
    return "\n".join(["Answers (share of everybody, and of the people of the class)", *columns(cells), *rest])


def _selection(document: Mapping[str, Any]) -> str:
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


def _losses(document: Mapping[str, Any]) -> str:
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


def _gaps(document: Mapping[str, Any], n_gaps: int) -> str:
    if not document["gaps"] or not n_gaps:
        return ""
    states, level = document["states"], level_text(document["level"])
    ends = shown_ends(document)
    basis = f"limits of each by itself, {level}" if ends[0] == "least" else f"intervals hold for all at once, {level}"
    head = (
        f"{sum(states.values()):,} comparisons: {states['within']:,} surely within what is allowed, "
        f"{states['beyond']:,} surely beyond, {states['unknown']:,} cannot be told ({basis}); the furthest out:"
    )
    lines: list[Sequence[str]] = [("", "people", "measured", "interval", "allowed", "verdict")]
    for line in document["gaps"][:n_gaps]:
        lines.append([gap_place(line), sides_text(line), *gap_cells(line, ends, DIGITS), _state(line)])
    return "\n".join([_wrapped(head), *columns(lines)])


def _state(line: Mapping[str, Any]) -> str:
    reason = REASON_WORDS.get(line["reason"])
    return STATE_WORDS[line["state"]] + ("" if reason is None else f": {reason}")


def _unknown(document: Mapping[str, Any]) -> str:
    unknown = document["unknown"]
    if unknown is None:
        return ""
    fitted = " The rule and its certificate are of all of them." if document["fitted_on"] else ""
    sentence = unknown["sentence"] or (
        f"unknown for {unknown_text(unknown)}; what is measured with "
        f"labels is of the {count_text(document['n_people'])} others.{fitted}"
    )
    return _wrapped(f"Groups: {sentence}")


def _small(document: Mapping[str, Any]) -> str:
    cells = [f"{small_place(cell)}: {count_text(cell['people'])} people" for cell in document["small"]]
    if not cells:
        return ""
    rest = f"; and {len(cells) - LINES} more" if len(cells) > LINES else ""
    head = "Too few people to tell, since chance moves these comparisons by more than half of what is allowed"
    return _wrapped(f"{head}: {'; '.join(cells[:LINES])}{rest}")


def _promises(document: Mapping[str, Any]) -> str:
    labels = (("promise", "Promise made in fitting"), ("check", "By these people alone"))
    return "\n".join(_wrapped(f"{label}: {document[name]['sentence']}") for name, label in labels if document[name])


def _times(document: Mapping[str, Any]) -> str:
    if document["fitting"] is None:
        return ""
    seconds = ", ".join(f"{name} {value:.2f} s" for name, value in document["fitting"]["seconds"].items())
    return f"Took: {seconds} ({document['fitting']['models']} model fits)"
