"""Say in a few sentences what a document of numbers shows: the paragraphs that a memo begins with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from optfair.reporting.wording import count_text, percent, points, size_text, tolerance_text


class Extreme(NamedTuple):
    """The rate of one group that is furthest from what it is compared with, by the rule of a role."""

    view: Mapping[str, Any]
    position: int
    gap: float


def summary_lines(document: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return labelled sentences, each made of numbers that the document holds too."""
    if document["kind"] == "comparison":
        parts = list(_comparison(document))
    else:
        parts = [*_gaps(document), *_cost(document), *_changes(document), *_knowledge(document)]
    return [{"label": label, "sentence": sentence} for label, sentence in parts]


# -- before and after ------------------------------------------------------------------------------------------
def _gaps(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    roles = [rule["role"] for rule in document["rules"]]
    extreme = widest_gap(document["rates"], roles[0]) if roles else None
    if extreme is not None:
        yield ("Before" if len(roles) == 2 else "Largest difference", _extreme_sentence(extreme, roles))
    by_rule = {line["rule"]: line for line in document["performance"]}
    lines = [by_rule[rule["name"]] for rule in document["rules"]]
    if not lines or lines[-1]["violation"] is None or document["tolerance"] is None:
        return
    last, size = lines[-1], lines[0]["violation"]
    before = f" (before: {size_text(size)})" if len(lines) == 2 and size is not None else ""
    reach = "" if last["bound"] is None or document["fitted_on"] else f" and at most {size_text(last['bound'])}"
    yield (
        "After" if len(roles) == 2 else "Measured",
        f"The largest gap of all comparisons is {size_text(last['violation'])} percentage points{before}; the "
        f"tolerance is {tolerance_text(document['tolerance'])}. By chance alone a rule that treats all groups alike "
        f"would show up to {size_text(last['noise_floor'])} among so many people. In the population behind them the "
        f"largest gap is at least {size_text(last['lower'])}{reach}.",
    )


def widest_gap(views: Sequence[Mapping[str, Any]], role: str) -> Extreme | None:
    """Return the group of the first family whose rate by a rule is furthest from everybody's."""
    extremes = [
        Extreme(view, k, value - view[role]["overall"])
        for view in views
        for k, value in enumerate(view[role]["value"])
        if value is not None and view[role]["overall"] is not None and view[role]["state"][k] is not None
    ]
    return max(extremes, key=lambda extreme: abs(extreme.gap), default=None)


def _extreme_sentence(extreme: Extreme, roles: Sequence[str]) -> str:
    view, k = extreme.view, extreme.position
    people = (
        f"“{view['groups'][k]}” people"
        if view["given"] is None
        else (f"“{view['groups'][k]}” people whose true class is “{view['given']}”")
    )
    action = "got a right answer" if view["outcome"] is None else f"got the answer “{view['outcome']}”"
    rates = [view[role]["value"][k] for role in roles]
    sentence = (
        f"Of {people}, {percent(rates[0])} {action}, {size_text(extreme.gap)} percentage points "
        f"{'more' if extreme.gap > 0 else 'less'} than of everybody ({percent(view[roles[0]]['overall'])})."
    )
    if len(roles) == 2:
        sentence += f" Now it is {percent(rates[1])}, and {percent(view[roles[1]]['overall'])} of everybody."
    return sentence


def _cost(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    roles = [rule["role"] for rule in document["rules"]]
    lines = [line for line in document["quality"] if line["rate"] == "accuracy" and line[roles[-1]][0] is not None]
    total = next((line for line in lines if line["group"] == "everybody"), None)
    if total is None or total.get(roles[0]) is None:
        return
    if len(roles) == 1:
        yield "Right answers", f"{percent(total[roles[0]][0])} of all answers are right."
        return
    before, after = total["before"][0], total["after"][0]
    change = points(after - before)
    if total.get("change") is not None:
        change += f" points; in the population between {points(total['change'][1])} and {points(total['change'][2])}"
    else:
        change += " points"
    sentence = f"Right answers: {percent(before)} before, {percent(after)} after ({change})."
    falls = [(line["after"][0] - line["before"][0], line) for line in lines if line is not total]
    if falls:
        change, worst = min(falls, key=lambda pair: pair[0])
        if change < 0:
            sentence += (
                f" It falls most for “{worst['group']}”: from {percent(worst['before'][0])} to "
                f"{percent(worst['after'][0])}."
            )
    yield "Cost", sentence


def _changes(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    lines = [line for line in document["changes"] or () if line["changed"] is not None]
    if lines:
        *groups, total = lines
        sentence = f"{percent(total['changed'])} of people get another answer than before"
        if groups:
            most = max(groups, key=lambda line: line["changed"])
            people = f"{percent(most['changed'])} of {count_text(most['people'])}"
            sentence += f", most of all “{most['group']}” ({people})"
        yield "Changes", f"{sentence}."


def _knowledge(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if document["determinism"] is not None and document["determinism"]["undecided"]:
        yield "By lot", document["determinism"]["sentence"]
    for label, name in (("Promise", "promise"), ("These people", "check")):
        if document[name] is not None and not (name == "check" and document["kind"] == "audit"):
            yield label, document[name]["sentence"]
    if document["certificate"] is not None:
        yield "Proof", document["certificate"]["sentence"]


# -- several rules ---------------------------------------------------------------------------------------------
def _comparison(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    lines = document["performance"]
    accurate = [line for line in lines if line["accuracy"] is not None]
    if accurate:
        best = max(accurate, key=lambda line: line["accuracy"])
        yield "Most accurate", f"“{best['rule']}”: {percent(best['accuracy'])} of its answers are right."
    measured = [line for line in lines if line["violation"] is not None]
    if measured:
        best = min(measured, key=lambda line: line["violation"])
        yield (
            "Smallest gap",
            f"“{best['rule']}”: its largest gap is {size_text(best['violation'])} percentage points, where chance "
            f"alone shows up to {size_text(best['noise_floor'])}.",
        )
