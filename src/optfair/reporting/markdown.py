"""Write a document of numbers as Markdown: a model card that a person finishes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from optfair.reporting.table_words import (
    LIMITS_NOTE,
    PAIRS_NOTE,
    STATES,
    gap_cells,
    gap_place,
    hidden_gaps_text,
    hidden_text,
    shown_ends,
    small_comparisons,
    state_words,
    unasked_text,
)
from optfair.reporting.wording import commonest_text, count_text, level_text, p_text, percent, sides_text, size_text

LONGEST = 20  # lines of the table of comparisons
TO_DO = "_To be completed._"
# What no tool can write: the headings of a model card, with what the European AI Act asks for (Annex IV).
OPEN_QUESTIONS = (
    ("Intended use", "Who decides what with these answers, and who must not use them?"),
    ("Data", "Where do the people and their true classes come from; who is missing; are the true classes fair?"),
    ("Choice of criterion and tolerance", "Who chose them, why, and who was asked?"),
    (
        "Validation and testing (EU AI Act, Annex IV 2(g))",
        "Procedures, metrics for accuracy and for potentially discriminatory impacts, test logs, dates and signatures.",
    ),
    (
        "Monitoring, functioning and control (EU AI Act, Annex IV 3)",
        "Capabilities and limits, accuracy for specific persons or groups, foreseeable risks, human oversight.",
    ),
    ("Who signs", "Name, role, date."),
)


def markdown_text(document: Mapping[str, Any]) -> str:
    """Return the Markdown of a document."""
    verdict = document["verdict"]
    parts = [
        "# Fairness report",
        escape(document["subtitle"]),
        escape(document["title"]),
        f"{document['date']}, optfair {_version(document)}",
    ]
    if verdict is not None:
        parts += ["## Verdict", f"**{verdict['light']}.** {escape(verdict['sentence'])}"]
    if document["summary"]:
        lines = [f"- **{line['label']}.** {escape(line['sentence'])}" for line in document["summary"]]
        parts += ["## In short", "\n".join(lines)]
    parts += ["## What was asked for", bullets(item["sentence"] for item in document["asked"])]
    if document["findings"]:
        findings = [f"{item['code']} ({item['severity']}): {item['sentence']}" for item in document["findings"]]
        parts += ["## Findings", bullets(findings)]
    parts += [*_performance(document), *_rates(document), *_comparisons(document), *_people(document)]
    parts += [*_path(document), *_prices(document), *_impact(document), *_open_questions()]
    return "\n\n".join(part for part in parts if part) + "\n"


def escape(text: object) -> str:
    """Return a text that Markdown shows as it is.

    >>> escape("<script>|*")
    '&lt;script&gt;\\\\|\\\\*'
    """
    plain = " ".join(str(text).split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|#])", r"\\\1", plain)


def bullets(lines: Iterable[str]) -> str:
    """Return a list."""
    return "\n".join(f"- {escape(line)}" for line in lines)


def table(head: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    """Return a table."""
    rows = [[escape(cell) for cell in head], ["---"] * len(head), *([escape(cell) for cell in line] for line in lines)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def rate_text(rate: Sequence[float | None] | None) -> str:
    """Return a rate with its interval."""
    if rate is None or rate[0] is None:
        return "–"
    return f"{percent(rate[0])} ({100 * (rate[1] or 0):.1f}–{100 * (rate[2] or 0):.1f})"


def rate_of(view: Mapping[str, Any], role: str, k: int) -> list[float | None]:
    """Return value, low and high of the k-th group of a question."""
    return [view[role][name][k] for name in ("value", "low", "high")]


def roles_of(document: Mapping[str, Any]) -> list[str]:
    """Return the roles of the rules whose rates are shown."""
    return [rule["role"] for rule in document["rules"]]


def role_names(document: Mapping[str, Any]) -> list[str]:
    """Return what the rules are called in the head of a table: before and after, or their names."""
    if len(document["rules"]) == 1:
        return ["measured"]
    is_comparison = document["kind"] == "comparison"
    return [rule["name"] if is_comparison else rule["role"] for rule in document["rules"]]


def sure(document: Mapping[str, Any]) -> str:
    """Return the level of the intervals."""
    return level_text(document["level"])


def _version(document: Mapping[str, Any]) -> str:
    return str(document["versions"]["optfair"])


def _performance(document: Mapping[str, Any]) -> list[str]:
    if not document["performance"]:
        return []
    lines = [
        [
            line["label"],
            percent(line["accuracy"]),
            size_text(line["violation"]),
            f"{size_text(line['lower'])} to {size_text(line['upper'])}",
            size_text(line["bound"]),
            size_text(line["noise_floor"]),
            STATES[line["verdict"]],
        ]
        for line in document["performance"]
    ]
    interval = f"{sure(document)} interval"
    head = ("rule", "right answers", "largest gap, points", interval, "at most", "by chance alone up to", "verdict")
    remarks = [LIMITS_NOTE] if document["tolerance"] is not None and not document["fitted_on"] else []
    remarks += [f"{text}." for text in (commonest_text(document["commonest"]), hidden_text(document)) if text]
    return ["## Accuracy and fairness", table(head, lines), *map(escape, remarks)]


def _rates(document: Mapping[str, Any]) -> list[str]:
    parts = ["## Rates by group", escape(unasked_text(document))] if document["rates"] else []
    roles, names = roles_of(document), role_names(document)
    for view in document["rates"]:
        lines = [
            [group, people, *(rate_text(rate_of(view, role, k)) for role in roles), STATES[view[roles[-1]]["state"][k]]]
            for k, (group, people) in enumerate(zip(view["groups"], view["people"], strict=True))
        ]
        lines.append(["everybody", view["people_overall"], *(percent(view[role]["overall"]) for role in roles), ""])
        parts += [f"### {escape(view['question'])}", table(["group", "people", *names, "verdict"], lines)]
    if document["rates_left_out"]:
        parts.append(f"{document['rates_left_out']} questions with more room are left out.")
    return parts


def _comparisons(document: Mapping[str, Any]) -> list[str]:
    hidden = hidden_gaps_text(document)
    if not (document["gaps"] or hidden):
        return []
    ends = shown_ends(document)
    lines = [
        [gap_place(line), sides_text(line), *gap_cells(line, ends), state_words(line)]
        for line in document["gaps"][:LONGEST]
    ]
    kind = "limits, each by itself" if ends[0] == "least" else "interval, all at once"
    head = ("comparison", "people", "difference", f"{sure(document)} {kind}", "allowed", "verdict")
    title = "## Comparisons, those surely beyond and then the furthest out first"
    return [title, table(head, lines), *([f"Not listed: {hidden}."] if hidden else [])]


def _people(document: Mapping[str, Any]) -> list[str]:
    parts = []
    roles, names = roles_of(document), role_names(document)
    words = {"accuracy": "right answers", "recall": "recognised", "wrong": "wrongly given this answer"}
    for name, head in (("favourable", "Favourable answers by group"), ("quality", "Right and wrong answers by group")):
        lines = [
            [line["group"], line["class"] or "all", words.get(line["rate"], line["rate"]), line["people"]]
            + [rate_text(line[role]) for role in roles]
            for line in document[name]
        ]
        parts += [f"## {head}", table(["group", "class", "rate", "people", *names], lines)] if lines else []
    if document["changes"]:
        lines = [[line["group"], line["people"], percent(line["changed"])] for line in document["changes"]]
        parts += ["## Who gets another answer than before", table(["group", "people", "share"], lines)]
    if document["unknown"]:
        unknown = document["unknown"]
        sentence = unknown["sentence"] or f"{count_text(unknown['people'])} people."
        parts += ["## People whose group is not known", escape(sentence)]
    if document["small"]:
        lines = [
            [cell["group"], cell["given"] or "all", cell["people"], small_comparisons(cell)]
            for cell in document["small"]
        ]
        parts += ["## Too few people to tell", table(["group", "true class", "people", "comparisons"], lines)]
    return parts


def _path(document: Mapping[str, Any]) -> list[str]:
    if document["path"] is None:
        return []
    head = ["tolerance", "right answers", "largest gap, points", "price", "other answers than before", "by lot"]
    head.append("within what was asked for")
    lines = [
        [
            f"{point['tolerance']:.4g}",
            percent(point["accuracy"]),
            size_text(point["violation"]),
            "–" if point["price"] is None else f"{point['price']:.3f}",
            percent(point["changed"]),
            percent(point["undecided"]),
            STATES[point["verdict_asked"]],
        ]
        for point in document["path"]["points"]
    ]
    return ["## Other tolerances", table(head, lines), escape(document["path"]["sentence"])]


def _prices(document: Mapping[str, Any]) -> list[str]:
    if not document["prices"]:
        return []
    lines = [
        [line["criterion"], line["group"] or "", line["against"] or "everybody", f"{line['price']:.4f}"]
        for line in document["prices"]
    ]
    head = ("criterion", "group", "against", document["units"]["price"])
    return ["## Prices", table(head, lines)]


def _impact(document: Mapping[str, Any]) -> list[str]:
    parts = ["## Selection rates and impact ratios"] if document["impact"] else []
    head = (
        "group",
        "people",
        "selected",
        "rate",
        "impact ratio",
        f"{sure(document)} interval",
        "p, all pairs",
        "p, by itself",
        "",
    )
    for part in document["impact"]:
        lines = []
        for row in part["rows"]:
            interval = "–" if row["ratio_low"] is None else f"{row['ratio_low']:.2f} to {ratio_end(row)}"
            marks = [word for word, key in IMPACT_MARKS if row[key]]
            ratio = "–" if row["ratio"] is None else f"{row['ratio']:.2f}"
            p_values = [p_text(row[name]) or "–" for name in ("p_all", "p_value")]
            selected = "–" if row["selected"] is None else count_text(round(row["selected"]))
            line = [row["group"], row["people"], selected, rate_text([row["value"], row["low"], row["high"]])]
            lines.append([*line, ratio, interval, *p_values, ", ".join(marks)])
        parts += [f"### {escape(impact_title(part))}", table(head, lines)]
    return [*parts, escape(PAIRS_NOTE)] if document["impact"] else []


IMPACT_MARKS = (("highest", "is_reference"), ("< ⅘", "below"), ("< 2 %", "is_small"))


def impact_title(part: Mapping[str, Any]) -> str:
    """Name a table of impact ratios."""
    return f"Answer “{part['outcome']}”, by {part['family'] or 'group'}"


def ratio_end(row: Mapping[str, Any]) -> str:
    """Return the upper end of the interval of a ratio, which may be infinite."""
    return "∞" if row["ratio_high"] is None else f"{row['ratio_high']:.2f}"


def _open_questions() -> list[str]:
    parts = ["## To be completed by a person"]
    for head, question in OPEN_QUESTIONS:
        parts += [f"### {head}", f"{question} {TO_DO}"]
    return parts
