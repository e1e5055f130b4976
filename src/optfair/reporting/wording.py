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
TIE_DIGITS = 7  # of one whose last digit is a 5, so that what is printed of it is as if it had been rounded once
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
RATIO_WORDS = {
    "dp": "share of {answer}",
    "eop": "share of recognised people of {answer}",
    "eo": "share of {answer} by true class",
    "oae": "share of right answers",
}


@dataclass(frozen=True)
class Mask:
    """Leave out numbers about fewer people than `least`."""

    least: int = MIN_CELL

    def number(self, value: Any, people: float = np.inf) -> float | None:
        """Return a number that JSON can hold; None where there is none, or where it is about too few people."""
        if value is None or people < self.least or not np.isfinite(value):
            return None
        rounded = round(float(value), DIGITS) + 0.0  # no negative zero
        is_tie = f"{rounded:.{DIGITS}f}".rstrip("0").endswith("5")
        return round(float(value), TIE_DIGITS) if is_tie else rounded

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
    if value is None:
        return "–"
    return f"{round(100 * value, digits) + 0.0:.{digits}f} %".replace("-", "−")  # no negative zero


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

    >>> p_text(0.00001), p_text(0.0314), p_text(0.65)
    ('< 0.001', '0.031', '0.65')
    """
    if value is None:
        return ""
    return "< 0.001" if value < 0.001 else f"{value:.{2 if value >= 0.1 else 3}f}"


def commonest_text(part: Mapping[str, Any] | None, digits: int = 1) -> str:
    """Say how many answers would be right if everybody got the commonest class; nothing where that is not known.

    >>> commonest_text({"class": "none", "share": 0.547})
    '“none” for everybody would be right for 54.7 %'
    """
    if part is None:
        return ""
    return f"“{part['class']}” for everybody would be right for {percent(part['share'], digits)}"


def tolerance_text(tolerance: Any) -> str:
    """Return a tolerance in percentage points.

    >>> tolerance_text(0.03), tolerance_text(0.01)
    ('3 percentage points', '1 percentage point')
    """
    return "its own tolerance" if isinstance(tolerance, dict) else points_text(f"{100 * tolerance:.4g}")


def points_text(number: str) -> str:
    """Return a number of percentage points with its unit.

    >>> points_text("1"), points_text("1.0")
    ('1 percentage point', '1.0 percentage points')
    """
    return f"{number} percentage point{'' if number == '1' else 's'}"


def sides_text(line: Mapping[str, Any]) -> str:
    """Return the number of people of a comparison; of a pair those of both groups.

    >>> sides_text({"people": 3696, "people_against": 377})
    '3,696 and 377'
    """
    other = line["people_against"]
    return count_text(line["people"]) + ("" if other is None else f" and {count_text(other)}")


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


def request_words(constraints: Sequence[AnyConstraint]) -> str:
    """Name constraints as a person would, in the subtitle of a page.

    >>> request_words([Constraint("dp", 0.05)])
    'demographic parity within 5 percentage points of everybody'
    """
    texts = []
    for constraint in constraints:
        if isinstance(constraint, Constraint):
            pair = "everybody" if constraint.reference == "overall" else "every other group"
            is_mapping = isinstance(constraint.tolerance, dict)
            bound = "a tolerance for each group" if is_mapping else tolerance_text(constraint.tolerance)
            texts.append(f"{CRITERIA[constraint.criterion].replace('_', ' ')} within {bound} of {pair}")
        elif isinstance(constraint, Ratio):
            names = [f"“{name_text(name)}”" for name in constraint.outcomes or ()]
            share = RATIO_WORDS[constraint.criterion].format(answer=" and ".join(names) or "each answer")
            texts.append(f"no group's {share} below {_ratio_bound(constraint).removeprefix('at least ')}")
        elif isinstance(constraint, MinimumRate):
            place = "in every group" if constraint.by == "group" else "of everybody together"
            texts.append(f"{constraint.rate} {place} of at least {percent(constraint.minimum)}")
        else:
            texts.append(counted(len(constraint.names or ()), "row") + " of the user")
    return "; ".join(texts)


def _ratio_bound(constraint: Ratio) -> str:
    other = "any other group" if constraint.reference == "pairwise" else "everybody"
    return f"at least {percent(constraint.minimum, 0)} of that of {other}"


def bounds_text(constraints: Sequence[AnyConstraint], scope: str = "") -> str:
    """Say as a clause that all constraints are kept. scope : of which gaps or rates that is said, such as " measured".

    >>> bounds_text([Constraint("dp", 0.05)]), bounds_text([Ratio("dp", 0.8)])
    ('every gap between groups is within 5 percentage points', 'every rate is at least 80 % of that of any other group')
    """
    gaps = {tolerance_text(c.tolerance) for c in constraints if isinstance(c, Constraint)}
    if len(gaps) == 1 and all(isinstance(constraint, Constraint) for constraint in constraints):
        return f"every gap{scope} between groups is within {gaps.pop()}"
    ratios = {_ratio_bound(constraint) for constraint in constraints if isinstance(constraint, Ratio)}
    if len(ratios) == 1 and all(isinstance(constraint, Ratio) for constraint in constraints):
        return f"every rate{scope} is {ratios.pop()}"
    return f"every rate{scope} is within its bounds"


def constraint_sentence(constraint: AnyConstraint, *, is_default: bool = False) -> str:
    """Say in one sentence what a constraint asks for. is_default : whether nobody chose its tolerance."""
    if isinstance(constraint, Constraint):
        pair = "a group and everybody" if constraint.reference == "overall" else "any two groups"
        words = CRITERION_WORDS[constraint.criterion]
        default = f" ({constraint.tolerance:g}, the default: no tolerance was given)" if is_default else ""
        text = f"{words} may differ by at most {tolerance_text(constraint.tolerance)}{default} between {pair}"
        text = f"{text} ({CRITERIA[constraint.criterion].replace('_', ' ')})"
    elif isinstance(constraint, Ratio):
        text = f"in every group, {CRITERION_WORDS[constraint.criterion]} must be {_ratio_bound(constraint)}"
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
