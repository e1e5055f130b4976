"""Say in a few sentences what a document of numbers shows: the paragraphs that a memo begins with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from optfair.reporting.observations import clear_change
from optfair.reporting.rule_words import NO_PROMISE, PREVIOUS_ANSWERS, measured_words
from optfair.reporting.table_words import gap_place
from optfair.reporting.wording import (
    commonest_text,
    count_text,
    level_text,
    percent,
    points,
    points_text,
    sentence_case,
    sides_text,
    size_text,
    tolerance_text,
)

Line = Mapping[str, Any]


def summary_lines(document: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return labelled sentences, each made of numbers that the document holds too."""
    if document["kind"] == "comparison":
        parts = list(_comparison(document))
    else:
        parts = [*_headlines(document), *_cost(document), *_favourable(document)]
        parts += [*_changes(document), *_knowledge(document)]
    return [{"label": label, "sentence": sentence} for label, sentence in parts]


# -- the clearest comparison -------------------------------------------------------------------------------------
def headline_line(document: Mapping[str, Any], role: str) -> Line | None:
    """Return the comparison that a page leads with: the clearest of a rule, else the largest; None without any."""
    lines = document["headlines"].get(role)
    line: Line | None = None if lines is None else lines["clearest"] or lines["largest"]
    return line


def has_previous(document: Mapping[str, Any]) -> bool:
    """Tell whether the first of two rules is what people got, and not what a model would answer."""
    return bool(document["rules"]) and document["rules"][0]["name"] == PREVIOUS_ANSWERS


def _headlines(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    roles = [rule["role"] for rule in document["rules"]]
    if len(roles) == 2 and (line := headline_line(document, roles[0])) is not None:
        verbs = ("got", "") if has_previous(document) else ("would get", " by the plain model")
        yield "Before", f"{rate_clause(line, *verbs)}.{_now_text(line, roles[1])}"
    line = headline_line(document, roles[-1]) if roles else None
    if line is None:
        return
    basis, clause = measured_words(document["rules"][-1]["name"]), rate_clause(line, "get")
    clause = f"{sentence_case(basis)}: {clause[0].lower()}{clause[1:]}" if basis else clause
    sentences = [f"{clause}{_asked_text(line, document)}."]
    sentences += _limits_text(line, document)
    sentences += _beside(line, document["headlines"][roles[-1]])
    sentences += _population(document)
    yield "After" if len(roles) == 2 else "Measured", " ".join(sentences)


def _limits_text(line: Line, document: Mapping[str, Any]) -> Iterator[str]:
    """Say between which limits a comparison is in the population."""
    if line["kind"] == "own" or document["fitted_on"]:  # those fitted on would flatter it
        return
    if line["kind"] == "ratio":
        subject, limits = "ratio", [f"{line[f'ratio_{end}']:.2f}" for end in ("low", "high")]
    elif line["kind"] == "rate":
        subject, limits = "rate", [percent(line[end]) for end in ("low", "high")]
    else:
        ends = [line["low"], line["high"]]
        is_signed = ends[0] < 0 < ends[1]
        ends = ends if is_signed else sorted(ends, key=abs)
        subject, limits = "gap", [points(end) if is_signed else size_text(end) for end in ends]
    yield (
        f"In the population this {subject} is between {limits[0]} and {limits[1]} with "
        f"{level_text(document['level'])} confidence, by intervals that hold for all comparisons at once."
    )


def _beside(line: Line, headlines: Mapping[str, Any]) -> Iterator[str]:
    """Say what makes a comparison the one to lead with, and name the largest beside it."""
    largest, is_clear = headlines["largest"], headlines["clearest"] is not None
    if not is_clear:
        if line["kind"] in ("gap", "ratio"):
            yield f"It is the {_size_words(line)} measured, and could be chance, as could all others."
    elif gap_place(largest) == gap_place(line):
        yield f"It is the {_size_words(line)} measured, and the furthest beyond what chance gives it."
    else:
        yield (
            "Of all comparisons it is the furthest beyond what chance gives it; "
            f"the {_size_words(largest)} measured is {_size(largest)} ({gap_place(largest)}; {sides_text(largest)} "
            "people)."
        )


def rate_clause(line: Line, verb: str, origin: str = "") -> str:
    """Say whose rate is compared with whose, and how they differ, without a full stop. origin : of the answers."""
    if line["kind"] == "own" or (line["rate"] is None and line["kind"] == "gap"):
        return f"{sentence_case(gap_place(line))}: {_size(line)}"
    answer = "a right answer" if line["outcome"] is None else f"the answer “{line['outcome']}”"
    rate = line["value"] if line["kind"] == "rate" else line["rate"]
    text = f"Of {_people(line)}, {percent(rate)} {verb} {answer}{origin}"
    if line["kind"] == "rate":
        return text
    is_everybody = line["against"] == "overall"
    other = "everybody" if is_everybody else f"“{line['against']}” people ({count_text(line['people_against'])})"
    if line["kind"] == "ratio":
        return f"{text}: {line['ratio']:.2f} times the share of {other}, which is {percent(line['rate_against'])}"
    direction = "more" if line["value"] > 0 else "less"
    return f"{text}, {_size(line)} {direction} than of {other} ({percent(line['rate_against'])})"


def _people(line: Line) -> str:
    if line["group"] in (None, "overall"):
        people = "all people"
    else:
        people = f"“{line['group']}” people ({count_text(line['people'])})"
    return people if line["given"] is None else f"{people} whose true class is “{line['given']}”"


def _size(line: Line) -> str:
    if line["kind"] == "gap":
        return points_text(size_text(line["value"]))
    return f"{line['ratio']:.2f}" if line["kind"] == "ratio" and line["ratio"] is not None else percent(line["value"])


def _size_words(line: Line) -> str:
    return {"gap": "largest gap", "ratio": "lowest ratio", "rate": "lowest rate"}.get(line["kind"], "furthest out")


def _asked_text(line: Line, document: Mapping[str, Any]) -> str:
    """Say what is allowed, after a clause about a comparison."""
    low, high = line["allowed"]
    if line["kind"] == "ratio":
        return f"; at least {line['minimum']:.2f} times is asked for"
    if line["kind"] == "gap":
        default = ", the default" if document["asked"][line["asked"]]["default"] else ""
        return f"; the tolerance is {tolerance_text(high)}{default}"
    return f"; at {'most' if low is None else 'least'} {percent(high if low is None else low)} is asked for"


def _now_text(line: Line, role: str) -> str:
    """Say what the rule of a role does in the same comparison."""
    after = line["rules"][role]
    if line["kind"] == "rate" and after["value"] is not None:
        return f" Now it is {percent(after['value'])}."
    if after["rate"] is None:
        return ""
    other = "everybody" if line["against"] == "overall" else f"“{line['against']}” people"
    return f" Now it is {percent(after['rate'])}, and {percent(after['rate_against'])} of {other}."


def _population(document: Mapping[str, Any]) -> Iterator[str]:
    """Say how large the largest gap may be in the population, and by chance alone."""
    name = document["rules"][-1]["name"]
    last = next(line for line in document["performance"] if line["rule"] == name)
    if last["violation"] is None or last["noise_floor"] is None:
        return
    if not document["fitted_on"]:
        yield (
            f"The largest of all gaps is between {size_text(last['lower'])} and {size_text(last['upper'])} by the same "
            f"intervals; asked alone how large it can be, it is at most {size_text(last['bound'])}, "
            "and on this limit the verdict “within” rests."
        )
    yield (
        f"Chance alone, most of all in the smallest groups, makes the largest gap up to "
        f"{size_text(last['noise_floor'])} where all groups are treated alike."
    )
    if last["hidden"]:
        yield f"Groups of fewer than {document['min_cell']} people are not in these numbers."


# -- right answers ---------------------------------------------------------------------------------------------
def _cost(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    roles = [rule["role"] for rule in document["rules"]]
    lines = [line for line in document["quality"] if line["rate"] == "accuracy" and line[roles[-1]][0] is not None]
    total = next((line for line in lines if line["group"] == "everybody"), None)
    if total is None or total.get(roles[0]) is None:
        return
    commonest = commonest_text(document["commonest"])
    commonest = f" {commonest}." if commonest else ""
    if len(roles) == 1:
        yield "Right answers", f"{percent(total[roles[0]][0])} of all answers are right.{commonest}"
        return
    before, after = total["before"][0], total["after"][0]
    change = f"{points(after - before)} points"
    if document["accuracy_change"] is not None:
        low, high = (points(end) for end in document["accuracy_change"][1:])
        change += f"; in the population between {low} and {high} with {level_text(document['level'])} confidence"
        change += ", for this number alone"
    sentence = f"Right answers: {percent(before)} before, {percent(after)} after ({change}).{commonest}"
    falls = [(line["after"][0] - line["before"][0], line) for line in lines if line is not total]
    if falls:
        change_worst, worst = min(falls, key=lambda pair: pair[0])
        if change_worst < 0:
            sentence += (
                f" They fall most for “{worst['group']}”: from {percent(worst['before'][0])} to "
                f"{percent(worst['after'][0])}."
            )
    yield "Cost", sentence


def _favourable(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Say who gets a favourable answer more or less often than before, and who is denied it."""
    if document["favourable_note"]:
        yield "Favourable", document["favourable_note"]
    for name in dict.fromkeys(line["class"] for line in document["favourable"] if "before" in line):
        lines = [line for line in document["favourable"] if line["class"] == name]
        total = {line["rate"]: line for line in lines if line["group"] == "everybody"}
        given = [line for line in lines if line["rate"] == "given" and line["group"] != "everybody"]
        sentence = f"“{name}” is given to {_before_after(total['given'])} of people."
        for sign, words in (("up", "more"), ("down", "less")):
            names = [f"“{line['group']}” ({_before_after(line)})" for line in given if clear_change(line) == sign]
            if names or any(line.get("change") for line in given):
                sentence += f" Clearly {words} often: {', '.join(names) if names else 'no group'}."
        for rate, people in (("denied wrongly", "true class it is"), ("denied rightly", "true class is another")):
            if rate in total and total[rate]["after"][0] is not None:
                sentence += f" It is {rate}, to people whose {people}: {_before_after(total[rate])}."
        yield "Favourable", sentence


def _before_after(line: Line) -> str:
    return f"{percent(line['before'][0])} → {percent(line['after'][0])}"


def _changes(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    lines = [line for line in document["changes"] or () if line["changed"] is not None]
    if lines:
        *groups, total = lines
        before = "before" if has_previous(document) else "the plain model would give them"
        sentence = f"{percent(total['changed'])} of people get another answer than {before}"
        if groups:
            most = max(groups, key=lambda line: line["changed"])
            people = f"{percent(most['changed'])} of {count_text(most['people'])}"
            sentence += f", most of all “{most['group']}” ({people})"
        yield "Changes", f"{sentence}."


def _knowledge(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if document["determinism"] is not None and document["determinism"]["undecided"]:
        yield "By lot", document["determinism"]["sentence"]
    if document["kind"] == "model" and document["promise"] is None:
        yield "Promise", NO_PROMISE
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
        commonest = commonest_text(document["commonest"])
        commonest = f" {commonest}." if commonest else ""
        yield "Most accurate", f"“{best['rule']}”: {percent(best['accuracy'])} of its answers are right.{commonest}"
    measured = [line for line in lines if line["violation"] is not None]
    if measured:
        best = min(measured, key=lambda line: line["violation"])
        yield (
            "Smallest gap",
            f"“{best['rule']}”: its largest gap is {size_text(best['violation'])} percentage points, where chance "
            f"alone shows up to {size_text(best['noise_floor'])}.",
        )
