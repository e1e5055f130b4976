"""Find in a document of numbers what a reader of a report should know: the findings of `findings`, with sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from optfair.reporting.findings import SEVERITIES, Finding, finding
from optfair.reporting.impact import impact_findings
from optfair.reporting.table_words import small_place
from optfair.reporting.wording import (
    count_text,
    level_text,
    percent,
    size_text,
    tolerance_text,
    unknown_text,
)

LOST = 0.1  # of its share of the answers: a class that keeps less has nearly vanished
MIN_SHARE = 0.01  # a class of fewer answers may come and go without being missed
RARELY = 0.1  # of the people of a class: fewer recognised, surely, and the class is hardly ever answered
SHOWN = 5  # names in a sentence


def list_findings(document: Mapping[str, Any], dropped: Sequence[str], estimates: Iterable[Finding]) -> list[Finding]:
    """Return the findings of a document of numbers, problems first.

    dropped : names of rates nobody is behind. estimates : findings about the estimates of the model, see `estimates`.
    """
    if not document["performance"]:
        return []
    items = [
        *_about_verdict(document),
        *_about_people(document, dropped),
        *_about_answers(document),
        *_about_losses(document),
        *impact_findings(document),
        *_about_draws(document),
        *estimates,
    ]
    return sorted(items, key=lambda item: (SEVERITIES.index(item.severity), item.code))


def first_names(names: Sequence[str], separator: str = "; ") -> str:
    """Return the first few names, and how many more there are."""
    rest = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{separator.join(names[:SHOWN])}{rest}"


def _about_verdict(document: Mapping[str, Any]) -> Iterator[Finding]:
    if document["kind"] == "comparison":
        n = len(document["rules"])
        yield finding(
            "OF015",
            f"{n} rules are compared on the same people. Whoever takes the best of them by these numbers should test "
            "it on others: the best of several looks better than it is.",
            rules=n,
        )
        return
    value, states = document["verdict"]["value"], document["states"]
    if value == "beyond":
        yield finding(
            "OF001",
            f"{_share_of(states, 'beyond')} surely beyond what is allowed.",
            beyond=states["beyond"],
            comparisons=sum(states.values()),
        )
    if value == "unknown":
        advice = "".join(f" {sentence}" for sentence in _advice(document))
        yield finding(
            "OF002",
            f"{_share_of(states, 'unknown')} neither surely within what is allowed nor surely beyond it.{advice}",
            unknown=states["unknown"],
            few=document["reasons"]["few"],
            near=document["reasons"]["near"],
            unknown_groups=document["reasons"]["unknown groups"],
            people_needed=document["people_needed"],
        )
    yield from _about_chance(document)


def _advice(document: Mapping[str, Any]) -> Iterator[str]:
    """Say why it cannot be told, and what would help: more people, or a rule that leaves more room."""
    reasons, people = document["reasons"], document["people_needed"]
    if reasons["few"]:
        sentence = f"In {reasons['few']:,} of them there are too few people"
        if people is not None:
            example = f", such as {_cell_text(document['small'][0])}," if document["small"] else ""
            sentence += (
                f"; if the true gaps are at most half of what is allowed, about {people:,} people in every compared "
                f"cell{example} would do"
            )
        yield f"{sentence}."
    if reasons["near"]:
        subject = f"In {reasons['near']:,} of them what was measured is so near to what is allowed"
        remedy = "only a rule with smaller gaps would"
        if document["kind"] == "model":
            way = "a tighter tolerance" if document["promise"] else "a tighter tolerance or a promise (confidence=)"
            remedy = f"a rule fitted with {way} would leave room"
        yield f"{subject} that more people may not help; {remedy}."
    if reasons["unknown groups"]:
        yield f"In {reasons['unknown groups']:,} of them it depends on people whose group is unknown."


def _cell_text(cell: Mapping[str, Any]) -> str:
    """Name a group with too few people and its true class, with the people there are."""
    given = "" if cell["given"] is None else f" with true class “{cell['given']}”"
    return f"{cell['group']}{given} (now {count_text(cell['people'])})"


def _share_of(states: Mapping[str, int], state: str) -> str:
    """Say how many of the comparisons are of a state, up to the verb."""
    return f"{states[state]:,} of {sum(states.values()):,} comparisons {'is' if states[state] == 1 else 'are'}"


def _about_chance(document: Mapping[str, Any]) -> Iterator[Finding]:
    last = next(line for line in document["performance"] if line["rule"] == document["rules"][-1]["name"])
    floor, tolerance = last["noise_floor"], document["tolerance"]
    if floor is None:
        return
    if last["lower"] == 0:
        yield finding(
            "OF009",
            "The largest gap could be chance: a rule that treats all groups alike would, with these numbers of people, "
            f"show gaps of up to {size_text(floor)} percentage points in {level_text(document['level'])} of cases.",
            noise_floor=floor,
        )
    if tolerance is not None and tolerance < floor:
        yield finding(
            "OF010",
            f"The tolerance of {tolerance_text(tolerance)} is below what chance alone shows with these people "
            f"({size_text(floor)}): no rule could be seen to keep it in every group.",
            tolerance=tolerance,
            noise_floor=floor,
        )


def _about_people(document: Mapping[str, Any], dropped: Sequence[str]) -> Iterator[Finding]:
    if document["fitted_on"]:
        yield finding(
            "OF003",
            "These are the people the rule was fitted on, each judged by models that had not seen them. Numbers of "
            "other people say more.",
        )
    if dropped:
        yield finding(
            "OF004",
            f"Nobody is behind {len(dropped)} of the rates asked for, which are left out: {first_names(dropped)}.",
            left_out=len(dropped),
        )
    hidden = [group["group"] for group in document["groups"] if isinstance(group["people"], str)]
    if hidden or any(isinstance(line["people"], str) for line in document["quality"]):
        groups = f" Of these groups there is none at all: {first_names(hidden, ', ')}." if hidden else ""
        sentence = f"Numbers about fewer than {document['min_cell']} people are not shown.{groups}"
        yield finding("OF005", sentence, groups=len(hidden))
    if not document["labelled"]:
        yield finding(
            "OF011", "True classes are not known: the page says who gets which answer, not whose answer is right."
        )
    small = document["small"]
    if small:
        cells = [f"{small_place(cell)} ({count_text(cell['people'])} people)" for cell in small]
        yield finding(
            "OF012",
            "In some comparisons there are too few people to tell, because chance alone moves them by more than half "
            f"of what is allowed: {first_names(cells)}.",
            cells=len(small),
        )
    if document["unknown"] is not None:
        unknown = document["unknown"]
        effect = "the verdict allows for what theirs may be" if unknown["gaps"] else "nothing is measured of them"
        yield finding(
            "OF016",
            f"The groups of {unknown_text(unknown)} are not known: rates by group are of the others, and {effect}.",
            people=unknown["people"],
        )
    for reason, n in document["left_out"].items():
        yield finding("OF018", f"{count_text(n)} people are left out: {reason}.", people=n)


def _about_answers(document: Mapping[str, Any]) -> Iterator[Finding]:
    lost = set()
    if document["kind"] != "comparison":
        for item in _vanished(document):
            lost.add(item.numbers["class"])
            yield item
    yield from _rarely_answered(document, lost)


def _vanished(document: Mapping[str, Any]) -> Iterator[Finding]:
    for line in document["answers"]:
        after, before, people = line["after"], line.get("before"), line["people"]
        name = line["class"]
        if before is not None and before >= MIN_SHARE and after < LOST * before:
            yield finding(
                "OF006",
                f"The answer “{name}” has nearly vanished: {percent(before, 2)} of all answers before, "
                f"{percent(after, 2)} after.",
                **{"class": name, "before": before, "after": after},
            )
        elif people is not None and people >= MIN_SHARE and after == 0:
            yield finding(
                "OF007",
                f"Nobody gets the answer “{name}”, although it is the true class of {percent(people)} of people.",
                **{"class": name, "people": people},
            )


def _rarely_answered(document: Mapping[str, Any], lost: set[str]) -> Iterator[Finding]:
    """Name the classes whose people are surely hardly ever recognised, by the last rule or each of several."""
    recalls = {
        line["class"]: line for line in document["quality"] if line["rate"] == "recall" and line["group"] == "everybody"
    }
    is_comparison = document["kind"] == "comparison"
    rules = document["rules"] if is_comparison else document["rules"][-1:]
    for line in document["answers"]:
        name, recall = line["class"], recalls.get(line["class"])
        if name in lost or recall is None or (line["people"] or 0) < MIN_SHARE:
            continue
        for rule in rules:
            value, _, high = recall[rule["role"]]
            if high is None or high >= RARELY:
                continue
            before = "" if "before" not in recall or is_comparison else f" ({percent(recall['before'][0])} before)"
            subject = f"By “{rule['name']}” the" if is_comparison else "The"
            yield finding(
                "OF020",
                f"{subject} answer “{name}” is hardly ever given to those whose true class it is: {percent(value)} of "
                f"them get it{before}, although they are {percent(line['people'])} of people. "
                f"{percent(line[rule['role']], 2)} of all answers are “{name}”.",
                **{"class": name, "rule": rule["name"], "people": line["people"], "recall": value},
            )


def _about_losses(document: Mapping[str, Any]) -> Iterator[Finding]:
    losers = [line for line in document["quality"] if line["rate"] != "wrong" and clear_change(line) == "down"]
    if losers:
        worst = min(losers, key=lambda line: line["after"][0] - line["before"][0])
        subject = "A rate of right answers clearly fell: of"
        if len(losers) > 1:
            subject = f"{len(losers):,} rates of right answers clearly fell. The largest fall: of"
        people = "all people" if worst["group"] == "everybody" else f"“{worst['group']}” people"
        people += "" if worst["class"] is None else f" whose true class is “{worst['class']}”"
        verb = "get a right answer" if worst["class"] is None else "are recognised"
        yield finding(
            "OF008",
            f"{subject} {people}, {percent(worst['after'][0])} {verb}; before, {percent(worst['before'][0])}.",
            rates=len(losers),
            before=worst["before"][0],
            after=worst["after"][0],
        )


def clear_change(line: Mapping[str, Any]) -> str:
    """Return "up" or "down" where the interval of a change, which allows for all of them, is on one side, else ""."""
    change = line.get("change")
    if change is None or change[0] is None:
        return ""
    return "down" if change[2] < 0 else "up" if change[1] > 0 else ""


def _about_draws(document: Mapping[str, Any]) -> Iterator[Finding]:
    determinism = document["determinism"]
    undecided = document["undecided"] if document["undecided"] is not None else (determinism or {}).get("undecided")
    if undecided:
        yield finding(
            "OF014",
            f"The answers of {percent(undecided)} of people are drawn by lot, because two answers are worth about the "
            "same once the prices of fairness are added; the model may have preferred one of them. The draw is fixed "
            "for each person, unless decisions are sampled anew.",
            undecided=undecided,
        )
    if undecided and determinism is not None and determinism["flip_together"]:
        yield finding(
            "OF019",
            "Many people are described by the same numbers and get the same draw: by chance the largest gap may be up "
            f"to {size_text(determinism['violation_hashed'])} percentage points, by the model's own estimates. Keys of "
            "persons would draw for each.",
            violation=determinism["violation_hashed"],
        )
