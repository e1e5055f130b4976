"""Write a document of numbers as text for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from optfair.reporting.table_words import (
    LIMITS_NOTE,
    REASON_WORDS,
    gap_cells,
    gap_place,
    hidden_gaps_text,
    hidden_text,
    price_name,
    shown_ends,
    small_place,
)
from optfair.reporting.text_tables import (
    DIGITS,
    LINES,
    answers_text,
    columns,
    impact_text,
    losses_text,
    selection_text,
    wrapped,
)
from optfair.reporting.wording import (
    commonest_text,
    count_text,
    level_text,
    percent,
    sides_text,
    size_text,
    unknown_text,
)

STATE_WORDS = {"within": "within", "beyond": "BEYOND", "unknown": "cannot tell", None: ""}


def plain_text(document: Mapping[str, Any], n_gaps: int = LINES) -> str:
    """Return the text of a document. n_gaps : comparisons that are listed."""
    parts = [document["title"], _verdict(document), _findings(document), _fitting(document), _prices(document)]
    parts += [_rules(document), impact_text(document), answers_text(document), selection_text(document)]
    parts += [losses_text(document), _gaps(document, n_gaps), _unknown(document), _small(document)]
    parts += [_promises(document), _times(document)]
    return "\n\n".join(part for part in parts if part)


def _verdict(document: Mapping[str, Any]) -> str:
    verdict = document["verdict"]
    return "" if verdict is None else wrapped(f"{verdict['light']}: {verdict['sentence']}")


def _findings(document: Mapping[str, Any]) -> str:
    lines = [wrapped(f"  {f['code']} {f['severity']}: {f['sentence']}", " " * 8) for f in document["findings"]]
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
    remarks = [LIMITS_NOTE] if is_gap and not document["fitted_on"] else []
    remarks += [f"{text}." for text in (commonest_text(document["commonest"], DIGITS), hidden_text(document)) if text]
    return "\n".join([wrapped(note), *columns(lines), *map(wrapped, remarks)])


def _gaps(document: Mapping[str, Any], n_gaps: int) -> str:
    hidden = hidden_gaps_text(document)
    if not (document["gaps"] or hidden) or not n_gaps:
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
    listed = columns(lines) if document["gaps"] else ["  none of people enough to be shown"]
    return "\n".join([wrapped(head), *listed, *([f"  and {hidden}"] if hidden else [])])


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
    return wrapped(f"Groups: {sentence}")


def _small(document: Mapping[str, Any]) -> str:
    cells = [f"{small_place(cell)}: {count_text(cell['people'])} people" for cell in document["small"]]
    if not cells:
        return ""
    rest = f"; and {len(cells) - LINES} more" if len(cells) > LINES else ""
    head = "Too few people to tell, since chance moves these comparisons by more than half of what is allowed"
    return wrapped(f"{head}: {'; '.join(cells[:LINES])}{rest}")


def _promises(document: Mapping[str, Any]) -> str:
    labels = (("promise", "Promise made in fitting"), ("check", "By these people alone"))
    return "\n".join(wrapped(f"{label}: {document[name]['sentence']}") for name, label in labels if document[name])


def _times(document: Mapping[str, Any]) -> str:
    if document["fitting"] is None:
        return ""
    seconds = ", ".join(f"{name} {value:.2f} s" for name, value in document["fitting"]["seconds"].items())
    return f"Took: {seconds} ({document['fitting']['models']} model fits)"
