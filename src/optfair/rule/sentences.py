"""Say in a few plain sentences why a person got an answer: fit for a letter, and no more than what was computed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from optfair.constraints.criteria import CRITERIA
from optfair.constraints.naming import attribute_names, name_text
from optfair.rule.certificate import UNDECIDED

EVERYBODY = "overall"  # what tables call everybody; no group may be named so
N_NAMED = 2  # constraints that a sentence names
LEAST_POINTS = 0.05  # percentage points: less than that, one decimal rounds to nothing
SURE_DRAW = 0.9895  # a probability that is written as 99.0 %: a draw with it decides nothing


@dataclass(frozen=True, eq=False)
class Setting:
    """What sentences about single people have in common.

    groups : their names. decision : how a class is chosen. share : of decisions that are drawn from a constant.
    has_costs : whether scores are in units of costs. blind : whether the rule does not see the group, None where that
    is not known. tolerance : of the rule, where it is one number. promised : whether bounds were tightened for a
    promise. tolerances : those looked at, or None. has_model : whether the answer of a model itself is known, beside
    the best one by the probabilities that the rule is made of.
    """

    groups: pd.Index
    decision: str
    share: float = 0.0
    has_costs: bool = False
    blind: bool | None = None
    tolerance: float | None = None
    promised: bool = False
    tolerances: tuple[float, ...] | None = None
    has_model: bool = False

    def amount(self, value: float) -> str:
        """Return the size of a difference of scores, with its unit."""
        if self.has_costs:
            return f"{abs(value):.3g} of the range of the costs"
        points = 100 * abs(value)
        return f"{points:.1f} percentage points" if points >= LEAST_POINTS else "less than 0.1 percentage points"


# -- names ---------------------------------------------------------------------------------------------------
def row_namer(groups: pd.Index) -> Callable[[Sequence[Hashable]], str]:
    """Return the function that says in words what a constraint row (criterion, group, against, given, outcome) is.

    >>> namer = row_namer(pd.Index(["f", "m"]))
    >>> namer(("dp", "f", "overall", None, "high"))
    'the rate of “high” among “f” against everybody (demographic parity)'
    """
    attributes = attribute_names(groups) if isinstance(groups, pd.MultiIndex) else ()

    def group_words(group: Hashable) -> str:
        is_everybody = isinstance(group, str) and group == EVERYBODY
        return "everybody" if is_everybody else f"“{name_text(group, attributes)}”"

    def words(row: Sequence[Hashable]) -> str:
        criterion, group, against, given, outcome = row
        if group is None:
            return f"the constraint “{criterion}”"
        name, is_ratio = str(criterion).removesuffix(" ratio"), str(criterion).endswith(" ratio")
        rate = "the share of right answers" if outcome is None else f"the rate of “{name_text(outcome)}”"
        people = group_words(group)
        if name == "meo":
            sign = "and" if given == "TPR+FPR" else "less"
            rate = f"the rate of true {sign} false answers “{name_text(outcome)}”"
        elif given is not None:
            people = f"{people} whose true class is “{name_text(given)}”"
        text = f"{rate} among {people}"
        if against is not None:
            text = f"{text} {'in proportion to' if is_ratio else 'against'} {group_words(against)}"
        long_name = CRITERIA.get(name, name).replace("_", " ")
        return f"{text} ({long_name}{' ratio' if is_ratio else ''})"

    return words


# -- sentences -----------------------------------------------------------------------------------------------
def person_sentences(person: Any, parts: np.ndarray, row_words: Callable[[int], str], setting: Setting) -> str:
    """Return the sentences about one person.

    person : a line of `Explanation.table`. parts : (K₁,) of the rows that have one. row_words : what the k-th is.
    """
    sentences = [_opening(person, setting)]
    if person.answer != person.plain:
        sentences += _movers(person, parts, row_words, setting)
    sentences += _draw(person, setting)
    sentences += _other_tolerance(person, setting)
    return " ".join(sentences)


def _opening(person: Any, setting: Setting) -> str:
    answer, plain, against = (name_text(name) for name in (person.answer, person.plain, person.against))
    model = getattr(person, "model", person.plain)
    model_text = "" if model == person.plain else f" (the model itself: “{name_text(model)}”)"
    if person.answer != person.plain:
        ahead = f", ahead by {setting.amount(person.preference)}" if person.preference < 0 else ""
        return f"The answer is “{answer}”; without constraints it would be “{plain}”{model_text}{ahead}."
    text = f"The answer is “{answer}”, the same as without constraints{model_text}"
    if person.margin < 0:
        return f"{text}; with them “{against}” is ahead by {setting.amount(person.margin)}."
    return f"{text}, ahead of “{against}” by {setting.amount(person.margin)}."


def _movers(person: Any, parts: np.ndarray, row_words: Callable[[int], str], setting: Setting) -> list[str]:
    """Return which constraints speak most for the answer, and what that does not mean."""
    largest = [k for k in np.argsort(-parts, kind="stable")[:N_NAMED].tolist() if parts[k] > 0]
    if not largest:
        if setting.share > 0:
            return [
                f"No constraint speaks for it: {_percent(setting.share)} of all answers are drawn from fixed "
                "probabilities."
            ]
        return ["The two are so close that the rule draws one of them."]
    texts = [f"{row_words(k)}, {setting.amount(parts[k])}" for k in largest]
    sentences = [f"What moved it most: {'; and '.join(texts)}."]
    if setting.blind:
        sentences.append("The rule does not know the person's group, only what the features tell of all groups.")
    return sentences


def _draw(person: Any, setting: Setting) -> list[str]:
    """Return how chance took part, where it had a say."""
    if person.probability >= min(SURE_DRAW, UNDECIDED) or setting.decision == "argmax":
        return []
    answer, probability = name_text(person.answer), _percent(person.probability)
    if setting.decision == "sampled":
        return [
            f"A class is drawn anew at every call and no draw is kept: “{answer}” is the likeliest, with a probability "
            f"of {probability}."
        ]
    number, low, high = _digits(person.draw, person.draw_low, person.draw_high)
    return [
        f"A draw decided: “{answer}” has a probability of {probability}, and the number of this person, {number}, is "
        f"in its interval, from {low} up to {high}."
    ]


def _percent(share: float) -> str:
    """Return a share in per cent; one that is not nothing does not look so."""
    return f"{100 * share:.1f} %" if share >= LEAST_POINTS / 100 else "less than 0.1 %"


def _digits(draw: float, low: float, high: float) -> tuple[str, ...]:
    """Return the numbers with as many decimals as show that the draw is in its interval; four at least."""
    for digits in range(4, 18):
        texts = [f"{value:.{digits}f}" for value in (draw, low, high)]
        if float(texts[1]) <= float(texts[0]) < float(texts[2]):
            break
    return tuple(texts)


def _other_tolerance(person: Any, setting: Setting) -> list[str]:
    """Return the nearest tolerance looked at that gives another answer."""
    if setting.tolerances is None:
        return []
    if pd.isna(person.tolerance_other):
        return [f"It is the same at all tolerances looked at, from {_range(setting.tolerances)}."]
    other = name_text(person.answer_other)
    if setting.promised:
        terms = "and no promise"
    elif setting.tolerance is None:
        terms = "for all criteria and groups"
    else:
        terms = f"instead of {setting.tolerance:.12g}"
    return [f"With a tolerance of {person.tolerance_other:.12g} {terms} it would be “{other}”."]


def _range(tolerances: Sequence[float]) -> str:
    return f"{min(tolerances):.4g} to {max(tolerances):.4g}"


def setting_notes(setting: Setting) -> list[str]:
    """Return what is to be said once, not in every sentence."""
    notes = []
    if setting.decision == "sampled":
        notes.append(
            "decision='sampled' draws anew at every call: no answer can be reproduced, and the likeliest is explained."
        )
    if setting.share > 0:
        share = _percent(setting.share)
        notes.append(f"{share} of all answers are drawn from fixed probabilities, whoever the person is.")
    if setting.tolerances is not None:
        tightened = " They are those of rules without the promise, for which the rule in use was tightened."
        notes.append(
            f"{len(setting.tolerances)} tolerances were looked at, from {_range(setting.tolerances)}; between them "
            f"nothing was computed.{tightened if setting.promised else ''}"
        )
    if setting.has_model:
        notes.append(
            "“Without constraints” is the best answer by the probabilities that the rule is made of, corrected with "
            "labels where that was asked for. A report begins with the answers of the model itself, before that; they "
            "are named here where they differ."
        )
    return notes
