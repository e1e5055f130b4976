"""Write a document of numbers as Markdown, for those who finish it by hand."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from optfair.reporting.wording import percent, points

STATES = {"within": "✓ within", "beyond": "✗ beyond", "unknown": "? cannot tell", None: "–"}
LONGEST = 20  # lines of the table of comparisons


def markdown_text(document: Mapping[str, Any]) -> str:
    """Return the Markdown of a document."""
    verdict = document["verdict"]
    parts = ["# Fairness report", escape(document["title"]), f"{document['date']}, optfair {_version(document)}"]
    if verdict is not None:
        parts += ["## Verdict", f"**{verdict['light']}.** {escape(verdict['sentence'])}"]
    parts += ["## What was asked for", bullets(item["sentence"] for item in document["asked"])]
    if document["findings"]:
        lines = [f"{item['code']} ({item['severity']}): {item['sentence']}" for item in document["findings"]]
        parts += ["## Findings", bullets(lines)]
    parts += [*_performance(document), *_rates(document), *_comparisons(document), *_people(document)]
    parts += [*_prices(document), *_proof(document)]
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
    rows = [list(head), ["---"] * len(head), *([escape(cell) for cell in line] for line in lines)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def rate_text(rate: Sequence[float | None] | None) -> str:
    """Return a rate with its interval."""
    if rate is None or rate[0] is None:
        return "–"
    return f"{percent(rate[0])} ({100 * (rate[1] or 0):.1f}–{100 * (rate[2] or 0):.1f})"


def rate_of(view: Mapping[str, Any], role: str, k: int) -> list[float | None]:
    """Return value, low and high of the k-th group of a question."""
    return [view[role][name][k] for name in ("value", "low", "high")]


def sure(document: Mapping[str, Any]) -> str:
    """Return the level of the intervals."""
    return percent(document["level"], 0) if round(document["level"], 2) == document["level"] else str(document["level"])


def gap_place(line: Mapping[str, Any]) -> str:
    """Say what a comparison is about, in a line of a table."""
    against = "" if line["against"] in (None, "overall") else f" against {line['against']}"
    parts = [] if line["group"] is None else [f"{line['group']}{against}"]
    parts += [] if line["given"] is None else [f"true class “{line['given']}”"]
    parts += [] if line["outcome"] is None else [f"answer “{line['outcome']}”"]
    parts += ["everybody's rate"] if line["kind"] == "rate" and line["group"] == "overall" else []
    return ", ".join(parts) if parts else str(line["criterion"])


def gap_cells(line: Mapping[str, Any], ends: Sequence[str] = ("low", "high")) -> tuple[str, str, str]:
    """Return what was measured, its interval and what is allowed, in the unit of its kind."""
    low, high = line["allowed"]
    if line["kind"] == "ratio":
        return percent(line["ratio"]), "", f"at least {percent(line['minimum'])}"
    text = points if line["kind"] == "gap" else percent
    bounds = f"{text(low)} to {text(high)}"
    if low is None or high is None:
        bounds = f"at least {text(low)}" if high is None else f"at most {text(high)}"
    interval = "–" if line["value"] is None else f"{text(line[ends[0]])} to {text(line[ends[1]])}"
    return text(line["value"]), interval, bounds


def _version(document: Mapping[str, Any]) -> str:
    return str(document["versions"]["optfair"])


def _performance(document: Mapping[str, Any]) -> list[str]:
    if not document["performance"]:
        return []
    lines = [
        [
            line["rule"],
            percent(line["accuracy"]),
            percent(line["violation"]),
            f"{percent(line['lower'])} to {percent(line['upper'])}",
            percent(line["noise_floor"]),
        ]
        for line in document["performance"]
    ]
    head = ("rule", "right answers", "largest gap", f"{sure(document)} interval", "by chance alone up to")
    return ["## In short", table(head, lines)]


def _rates(document: Mapping[str, Any]) -> list[str]:
    parts = ["## Rates by group"] if document["rates"] else []
    roles = list(document["rules"])
    for view in document["rates"]:
        lines = [
            [group, people, *(rate_text(rate_of(view, role, k)) for role in roles), STATES[state]]
            for k, (group, people, state) in enumerate(zip(view["groups"], view["people"], view["state"], strict=True))
        ]
        lines.append(["everybody", document["n_people"], *(percent(view[role]["overall"]) for role in roles), ""])
        parts += [f"### {escape(view['question'])}", table(["group", "people", *roles, "verdict"], lines)]
    if document["rates_left_out"]:
        parts.append(f"{document['rates_left_out']} questions with more room are left out.")
    return parts


def _comparisons(document: Mapping[str, Any]) -> list[str]:
    if not document["gaps"]:
        return []
    lines = [
        [
            gap_place(line),
            line["people"],
            *gap_cells(line),
            STATES[line["state"]],
        ]
        for line in document["gaps"][:LONGEST]
    ]
    head = ("comparison", "people", "difference", f"{sure(document)} interval, all at once", "allowed", "verdict")
    return ["## Comparisons, the furthest out first", table(head, lines)]


def _people(document: Mapping[str, Any]) -> list[str]:
    parts = []
    roles = list(document["rules"])
    if document["quality"]:
        lines = [
            [line["group"], "all" if line["class"] is None else line["class"], line["people"]]
            + [rate_text(line[role]) for role in roles]
            for line in document["quality"]
        ]
        parts += ["## Right answers by group", table(["group", "true class", "people", *roles], lines)]
    if document["changes"]:
        lines = [[line["group"], line["people"], percent(line["changed"])] for line in document["changes"]]
        parts += ["## Who gets another answer than before", table(["group", "people", "share"], lines)]
    if document["small"]:
        lines = [[cell["group"], cell["given"] or "all", cell["people"]] for cell in document["small"]]
        parts += ["## Too few people for the tolerance", table(["group", "true class", "people"], lines)]
    return parts


def _prices(document: Mapping[str, Any]) -> list[str]:
    if not document["prices"]:
        return []
    lines = [
        [line["criterion"], line["group"] or "", line["against"] or "everybody", f"{line['price']:.4f}"]
        for line in document["prices"]
    ]
    head = ("criterion", "group", "against", "accuracy gained per unit of tolerance")
    return ["## Prices", table(head, lines)]


def _proof(document: Mapping[str, Any]) -> list[str]:
    parts = []
    if document["certificate"] is not None:
        parts += ["## Proof", escape(document["certificate"]["sentence"])]
    if document["promise"] is not None:
        parts += ["## Promise", escape(document["promise"]["sentence"])]
    return parts
