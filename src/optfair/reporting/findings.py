"""List what a reader of a report should know: findings with stable codes, which docs/findings.md explains."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from optfair.reporting.wording import number, percent

PAGE = "docs/findings.md"  # a paragraph per code, with an anchor of its name
SEVERITIES = ("problem", "caution", "note")
CODES = {
    "OF001": "problem",
    "OF002": "caution",
    "OF003": "caution",
    "OF004": "caution",
    "OF005": "note",
    "OF006": "problem",
    "OF007": "caution",
    "OF008": "caution",
    "OF009": "note",
    "OF010": "caution",
    "OF011": "note",
    "OF012": "caution",
    "OF013": "caution",
    "OF014": "note",
}
LOST = 0.1  # of its share of the answers: a class that keeps less has nearly vanished
MIN_SHARE = 0.01  # a class of fewer answers may come and go without being missed
SHOWN = 5  # names in a sentence


@dataclass(frozen=True)
class Finding:
    """A statement about a report that people and programs can refer to.

    Attributes
    ----------
    code : str
        Stable, such as "OF012".
    severity : {"problem", "caution", "note"}
        How much it matters.
    sentence : str
        What was found, with its numbers.
    numbers : dict
        The same numbers, for programs.
    anchor : str
        Where the code is explained.

    Examples
    --------
    >>> from optfair import audit
    >>> report = audit([0, 1] * 50, [0, 0, 1, 1] * 25, sensitive_features=["A"] * 30 + ["B"] * 70, tolerance=0.1)
    >>> [finding.code for finding in report.findings]
    ['OF002', 'OF010', 'OF012', 'OF009']
    """

    code: str
    severity: str
    sentence: str
    numbers: Mapping[str, Any] = field(default_factory=dict)
    anchor: str = ""


def finding(code: str, sentence: str, **numbers: Any) -> Finding:
    """Make a finding of a code."""
    return Finding(code, CODES[code], sentence, numbers, f"{PAGE}#{code.lower()}")


def finding_document(item: Finding) -> dict[str, Any]:
    """Return a finding as JSON can hold it."""
    return {**asdict(item), "numbers": dict(item.numbers)}


def list_findings(document: Mapping[str, Any], facts: Mapping[str, Any]) -> list[Finding]:
    """Return the findings of a document of numbers, problems first.

    facts : dropped, names of rates nobody is behind; undecided, share of people or None; claimed, accuracy by z(x).
    """
    items = [
        *_about_verdict(document),
        *_about_people(document, facts),
        *_about_answers(document),
        *_about_estimates(document, facts),
    ]
    return sorted(items, key=lambda item: (SEVERITIES.index(item.severity), item.code))


def _about_verdict(document: Mapping[str, Any]) -> Iterator[Finding]:
    verdict = document["verdict"]
    if verdict is None:
        return
    states = document["states"]
    if verdict["value"] == "beyond":
        yield finding(
            "OF001",
            f"{states['beyond']:,} of {sum(states.values()):,} comparisons are surely beyond what is allowed.",
            beyond=states["beyond"],
            comparisons=sum(states.values()),
        )
    if verdict["value"] == "unknown":
        people = document["people_needed"]
        advice = (
            ""
            if people is None
            else (
                f" If the true gaps are at most half of what is allowed, about {people:,} people in each part "
                "compared would do."
            )
        )
        yield finding(
            "OF002",
            f"{states['unknown']:,} of {sum(states.values()):,} comparisons are neither surely within what is allowed "
            f"nor surely beyond it.{advice}",
            unknown=states["unknown"],
            people_needed=people,
        )
    last = document["performance"][-1]
    if last["noise_floor"] is not None and last["lower"] == 0:
        yield finding(
            "OF009",
            "The largest gap could be chance: a rule that treats all groups alike would, with these numbers of people, "
            f"show gaps of up to {100 * last['noise_floor']:.1f} percentage points in "
            f"{percent(document['level'], 0)} of cases.",
            noise_floor=last["noise_floor"],
        )
    tolerance = document["tolerance"]
    if last["noise_floor"] is not None and tolerance is not None and tolerance < last["noise_floor"]:
        yield finding(
            "OF010",
            f"The tolerance of {100 * tolerance:.4g} percentage points is below what chance alone shows with these "
            f"people ({100 * last['noise_floor']:.1f}): no rule could be seen to keep it in every group.",
            tolerance=tolerance,
            noise_floor=last["noise_floor"],
        )


def _about_people(document: Mapping[str, Any], facts: Mapping[str, Any]) -> Iterator[Finding]:
    if document["fitted_on"]:
        yield finding(
            "OF003",
            "These are the people the rule was fitted on, each judged by models that had not seen them. Numbers of "
            "other people say more.",
        )
    if facts["dropped"]:
        names = list(facts["dropped"])
        rest = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        yield finding(
            "OF004",
            f"Nobody is behind {len(names)} of the rates asked for, which are left out: "
            f"{'; '.join(names[:SHOWN])}{rest}.",
            left_out=len(names),
        )
    hidden = [group["group"] for group in document["groups"] if isinstance(group["people"], str)]
    hidden_cells = [line for line in document["quality"] if isinstance(line["people"], str)]
    if hidden or hidden_cells:
        rest = f" and {len(hidden) - SHOWN} more" if len(hidden) > SHOWN else ""
        groups = f" Of these groups there is none at all: {', '.join(hidden[:SHOWN])}{rest}." if hidden else ""
        yield finding(
            "OF005",
            f"Numbers about fewer than {document['min_cell']} people are not shown.{groups}",
            groups=len(hidden),
        )
    if not document["labelled"]:
        yield finding(
            "OF011", "True classes are not known: the page says who gets which answer, not whose answer is right."
        )
    small = document["small"]
    if small:
        cells = [f"{cell['group']}{'' if cell['given'] is None else ', ' + cell['given']}" for cell in small[:SHOWN]]
        rest = f" and {len(small) - SHOWN} more" if len(small) > SHOWN else ""
        yield finding(
            "OF012",
            "Some groups, or people of one true class in them, are too few for the tolerance, because chance moves "
            f"their rates by more than it: {'; '.join(cells)}{rest}.",
            cells=len(small),
        )


def _about_answers(document: Mapping[str, Any]) -> Iterator[Finding]:
    for line in document["answers"]:
        after, before, people = line["after"], line.get("before"), line["people"]
        name = line["class"]
        if before is not None and before >= MIN_SHARE and after < LOST * before:
            yield finding(
                "OF006",
                f"The answer “{name}” has nearly vanished: {percent(before, 2)} of people got it before, "
                f"{percent(after, 2)} after.",
                **{"class": name, "before": before, "after": after},
            )
        elif people is not None and people >= MIN_SHARE and after == 0:
            yield finding(
                "OF007",
                f"Nobody gets the answer “{name}”, although it is the true class of {percent(people)} of people.",
                **{"class": name, "people": people},
            )
    losers = [line for line in document["quality"] if _clearly_falls(line)]
    if losers:
        worst = min(losers, key=lambda line: line["after"][0] - line["before"][0])
        rate = "accuracy" if worst["class"] is None else f"the share of true “{worst['class']}” who are recognised"
        place = "of everybody" if worst["group"] == "everybody" else f"in group “{worst['group']}”"
        yield finding(
            "OF008",
            f"Some people are worse off: {len(losers)} rates of right answers have clearly fallen, most of all {rate} "
            f"{place}, from {percent(worst['before'][0])} to {percent(worst['after'][0])}.",
            rates=len(losers),
            before=worst["before"][0],
            after=worst["after"][0],
        )


def _clearly_falls(line: Mapping[str, Any]) -> bool:
    """Tell whether the intervals of a rate before and after do not overlap, and it has become smaller."""
    before, after = line.get("before"), line["after"]
    return before is not None and before[1] is not None and after[2] is not None and after[2] < before[1]


def _about_estimates(document: Mapping[str, Any], facts: Mapping[str, Any]) -> Iterator[Finding]:
    if facts["disagreement"]:
        yield finding("OF013", facts["disagreement"])
    if facts["undecided"]:
        yield finding(
            "OF014",
            f"{percent(facts['undecided'])} of people are near the border between two answers, and a random draw that "
            "is fixed for each person decides which one they get.",
            undecided=number(facts["undecided"]),
        )
