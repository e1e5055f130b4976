"""Write names and numbers as a reader would, and leave out numbers about very few people."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from optfair.constraints import AnyConstraint, Constraint, MinimumRate, Ratio
from optfair.constraints.criteria import CRITERIA
from optfair.constraints.naming import name_text

MIN_CELL = 10  # people: of fewer, a page shows no number
DIGITS = 5  # of a number in a document: a thousandth of a percentage point
CRITERION_WORDS = {
    "dp": "the share of people who get each answer",
    "eop": "among the people of each true class, the share who are recognised",
    "eo": "among the people of each true class, the share who get each answer",
    "meo": "the mean of true and false answers of each class",
    "oae": "the share of people whose answer is right",
}
RATE_WORDS = {
    "recall": "among the people of each true class, the share who are recognised",
    "selection": "the share of people who get each answer",
    "accuracy": "the share of people whose answer is right",
}
# What the rules of a report are, for readers who were not there; other names speak for themselves.
RULE_WORDS = {
    "previous answers": "what the same people got before",
    "answers": "what is audited",
    "plain model": "the model as it is, without constraints",
    "unconstrained, joint": "the model of group and class together, without constraints",
    "recalibrated": "the same after its probabilities were corrected with labels, still without constraints",
    "fair rule": "the fair rule by its probabilities, without the luck of the draw",
    "fair model": "the fair model by its probabilities, without the luck of the draw",
    "decisions (hashed)": "what each person got; where the rule draws by lot, the draw is fixed for each person",
    "decisions (argmax)": "what each person got: always the likeliest answer",
    "decisions (sampled)": "what each person got, drawn anew at every call",
}


@dataclass(frozen=True)
class Mask:
    """Leave out numbers about fewer people than `least`."""

    least: int = MIN_CELL

    def number(self, value: Any, people: float = np.inf) -> float | None:
        """Return a number that JSON can hold; None where there is none, or where it is about too few people."""
        if value is None or people < self.least or not np.isfinite(value):
            return None
        return round(float(value), DIGITS) + 0.0  # no negative zero

    def numbers(self, values: Iterable[Any], people: Iterable[float]) -> list[float | None]:
        """Return several numbers, each about so many people."""
        return [self.number(value, n) for value, n in zip(values, people, strict=True)]

    def headcount(self, people: float) -> int | str:
        """Return a number of people, or "< 10"."""
        return f"< {self.least}" if 0 < people < self.least else int(people)


def percent(value: float | None, digits: int = 1) -> str:
    """Return a share in per cent, a dash where it is not known.

    >>> percent(0.1234)
    '12.3 %'
    """
    return "–" if value is None else f"{100 * value:.{digits}f} %"


def level_text(level: float) -> str:
    """Return a confidence in per cent, never rounded up.

    >>> level_text(0.95), level_text(0.997)
    ('95 %', '99.7 %')
    """
    return f"{math.floor(level * 1e5 + 1e-6) / 1e3:g} %"


def points(value: float | None, digits: int = 1) -> str:
    """Return a difference of shares in percentage points, with its sign.

    >>> points(-0.031)
    '−3.1'
    """
    if value is None:
        return "–"
    rounded = round(100 * value, digits) + 0.0
    return f"{rounded:+.{digits}f}".replace("-", "−") if rounded else f"{rounded:.{digits}f}"


def size_text(value: float | None, digits: int = 1) -> str:
    """Return the size of a difference in percentage points, without its sign.

    >>> size_text(-0.031)
    '3.1'
    """
    return points(None if value is None else abs(value), digits).lstrip("+")


def count_text(people: int | str) -> str:
    """Return a number of people with a comma between thousands.

    >>> count_text(12345)
    '12,345'
    """
    return people if isinstance(people, str) else f"{people:,}"


def unknown_text(part: Mapping[str, Any]) -> str:
    """Return how many people have not told their group; of a few not their share."""
    share = "" if part["share"] is None else f" ({percent(part['share'])})"
    return f"{count_text(part['people'])} people{share}"


def rows_text(n: int, n_people: int) -> str:
    """Return how many people there are, and how many rows, where these are more.

    >>> rows_text(1200, 1000)
    '1,200 rows of 1,000 people'
    """
    return f"{n:,} people" if n_people == n else f"{n:,} rows of {n_people:,} people"


def counted(n: int, noun: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "rate"), counted(3, "rate")
    ('1 rate', '3 rates')
    """
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def p_text(value: float | None) -> str:
    """Return a p-value, with the digits that matter.

    >>> p_text(0.00001), p_text(0.0314)
    ('< 0.001', '0.031')
    """
    if value is None:
        return ""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def tolerance_text(tolerance: Any) -> str:
    """Return a tolerance in percentage points.

    >>> tolerance_text(0.03)
    '3 percentage points'
    """
    if isinstance(tolerance, dict):
        return "its own tolerance"
    text = f"{100 * tolerance:.4g}"
    return f"{text} percentage point{'' if text == '1' else 's'}"


def sentence_case(text: str) -> str:
    """Return a text that begins with a capital letter."""
    return f"{text[0].upper()}{text[1:]}"


def request_text(constraints: Sequence[AnyConstraint]) -> str:
    """Name constraints in a few words, as in the title of a report."""
    texts = []
    for constraint in constraints:
        if isinstance(constraint, Constraint):
            pair = "everybody" if constraint.reference == "overall" else "every other group"
            bound = "tolerances by group" if isinstance(constraint.tolerance, dict) else f"{constraint.tolerance:g}"
            texts.append(f"{constraint.criterion} within {bound} of {pair}")
        elif isinstance(constraint, Ratio):
            texts.append(f"{constraint.criterion} ratio of at least {constraint.minimum:g}")
        elif isinstance(constraint, MinimumRate):
            texts.append(f"{constraint.rate} of at least {constraint.minimum:g}")
        else:
            texts.append(f"{len(constraint.names or ())} rows of the user")
    return ", ".join(texts)


def constraint_sentence(constraint: AnyConstraint) -> str:
    """Say in one sentence what a constraint asks for."""
    if isinstance(constraint, Constraint):
        pair = "a group and everybody" if constraint.reference == "overall" else "any two groups"
        words = CRITERION_WORDS[constraint.criterion]
        text = f"{words} may differ by at most {tolerance_text(constraint.tolerance)} between {pair}"
        text = f"{text} ({CRITERIA[constraint.criterion].replace('_', ' ')})"
    elif isinstance(constraint, Ratio):
        other = "any other group" if constraint.reference == "pairwise" else "everybody"
        text = f"{CRITERION_WORDS[constraint.criterion]} must be at least {percent(constraint.minimum, 0)} of that of "
        text = f"in every group, {text}{other}"
    elif isinstance(constraint, MinimumRate):
        place = "in every group" if constraint.by == "group" else "of everybody together"
        text = f"{place}, {RATE_WORDS[constraint.rate]} must be at least {percent(constraint.minimum)}"
    else:
        text = f"rows of the user's own: {', '.join(constraint.names or ())}"
    outcomes = getattr(constraint, "outcomes", None)
    if outcomes is not None:
        text = f"{text}; only these answers are compared: {', '.join(name_text(name) for name in outcomes)}"
    return f"{sentence_case(text)}."


def rate_question(given: str | None, outcome: str | None) -> str:
    """Say which share a rate is.

    >>> rate_question("low", "high")
    'Among people whose true class is “low”: the share who get the answer “high”'
    """
    people = "Among all people" if given is None else f"Among people whose true class is “{given}”"
    return f"{people}: the share {'whose answer is right' if outcome is None else f'who get the answer “{outcome}”'}"
