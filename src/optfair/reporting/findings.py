"""List what a reader of a report should know: findings with stable codes, which docs/findings.md explains."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from optfair.reporting.wording import count_text, counted, level_text, percent, size_text, unknown_text

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
    "OF015": "note",
    "OF016": "caution",
    "OF017": "caution",
    "OF018": "note",
    "OF019": "caution",
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

    facts : dropped, names of rates nobody is behind; disagreement, a sentence or "".
    """
    if not document["performance"]:
        return []
    items = [
        *_about_verdict(document),
        *_about_people(document, facts["dropped"]),
        *_about_answers(document),
        *_about_losses(document),
        *_about_impact(document),
        *_about_draws(document),
    ]
    if facts["disagreement"]:
        items.append(finding("OF013", facts["disagreement"]))
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
        people = document["people_needed"]
        advice = ""
        if people is not None:
            advice = (
                f" If the true gaps are at most half of what is allowed, about {people:,} people in each part compared "
                "would do."
            )
        yield finding(
            "OF002",
            f"{_share_of(states, 'unknown')} neither surely within what is allowed nor surely beyond it.{advice}",
            unknown=states["unknown"],
            people_needed=people,
        )
    yield from _about_chance(document)


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
            f"The tolerance of {100 * tolerance:.4g} percentage points is below what chance alone shows with these "
            f"people ({size_text(floor)}): no rule could be seen to keep it in every group.",
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
        cells = [f"{cell['group']}{'' if cell['given'] is None else ', ' + cell['given']}" for cell in small]
        yield finding(
            "OF012",
            "Of some groups, or of their people of one true class, there are too few to tell, because chance moves "
            f"their rates by more than the tolerance: {first_names(cells)}.",
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
    if document["kind"] == "comparison":
        return
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


def _about_losses(document: Mapping[str, Any]) -> Iterator[Finding]:
    losers = [line for line in document["quality"] if line["rate"] != "wrong" and clear_change(line) == "down"]
    if losers:
        worst = min(losers, key=lambda line: line["after"][0] - line["before"][0])
        rate = "accuracy" if worst["class"] is None else f"the share of true “{worst['class']}” who are recognised"
        place = "among everybody" if worst["group"] == "everybody" else f"in group “{worst['group']}”"
        yield finding(
            "OF008",
            f"Some people are worse off: {counted(len(losers), 'rate')} of right answers clearly fell, most of all "
            f"{rate} {place}, from {percent(worst['before'][0])} to {percent(worst['after'][0])}.",
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


def _about_impact(document: Mapping[str, Any]) -> Iterator[Finding]:
    rows = [(table, row) for table in document["impact"] for row in table["rows"] if row["below"]]
    if rows:
        table, worst = min(rows, key=lambda pair: pair[1]["ratio"])
        sure = [row for _, row in rows if row["p_value"] is not None and row["p_value"] < 1 - document["level"]]
        top = next(row["group"] for row in table["rows"] if row["is_reference"])
        yield finding(
            "OF017",
            f"Below four fifths: {counted(len(rows), 'impact ratio')}. Tested one by one, {len(sure)} of them are "
            f"unlike 1 by more than chance. The lowest: “{worst['group']}” gets “{table['outcome']}” "
            f"{worst['ratio']:.2f} times as often as “{top}”.",
            ratios=len(rows),
            significant=len(sure),
            lowest=worst["ratio"],
        )


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
            f"to {size_text(determinism['violation_hashed'])} percentage points. Keys of persons would draw for each.",
            violation=determinism["violation_hashed"],
        )
