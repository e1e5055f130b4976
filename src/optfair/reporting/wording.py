"""Write names and numbers as a reader would, and leave out numbers about very few people."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from optfair.constraints import AnyConstraint, Constraint, MinimumRate, Ratio
from optfair.constraints.criteria import CRITERIA
from optfair.constraints.events import ALL

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


def name_text(value: Any, attributes: Sequence[Hashable] = ()) -> str:
    """Return a group or a class as text: "female × white", and of a marginal group "sex: female"."""
    if not isinstance(value, tuple):
        return str(value)
    parts = [(k, part) for k, part in enumerate(value) if part != ALL]
    if len(parts) < len(value) and len(attributes) == len(value):
        return " × ".join(f"{attributes[k]}: {part}" for k, part in parts)
    return " × ".join(str(part) for _, part in parts)


def attribute_names(groups: pd.Index) -> list[Hashable]:
    """Return the names of the attributes that groups are made of, as far as they have any."""
    return [name if name is not None else f"attribute {k + 1}" for k, name in enumerate(groups.names)]


def number(value: Any, people: float = np.inf) -> float | None:
    """Return a number that JSON can hold; None where there is none, or where it is about too few people."""
    if value is None or people < MIN_CELL or not np.isfinite(value):
        return None
    return round(float(value), DIGITS) + 0.0  # no negative zero


def headcount(people: float) -> int | str:
    """Return a number of people, or "< 10"."""
    return f"< {MIN_CELL}" if people < MIN_CELL else int(people)


def percent(value: float | None, digits: int = 1) -> str:
    """Return a share in per cent, a dash where it is not known.

    >>> percent(0.1234)
    '12.3 %'
    """
    return "–" if value is None else f"{100 * value:.{digits}f} %"


def points(value: float | None, digits: int = 1) -> str:
    """Return a difference of shares in percentage points, with its sign.

    >>> points(-0.031)
    '−3.1'
    """
    if value is None:
        return "–"
    rounded = round(100 * value, digits) + 0.0
    return f"{rounded:+.{digits}f}".replace("-", "−") if rounded else f"{rounded:.{digits}f}"


def tolerance_text(tolerance: Any) -> str:
    """Return a tolerance in percentage points.

    >>> tolerance_text(0.03)
    '3 percentage points'
    """
    if isinstance(tolerance, dict):
        return "its own tolerance"
    text = f"{100 * tolerance:.4g}"
    return f"{text} percentage point{'' if text == '1' else 's'}"


def request_text(constraints: Sequence[AnyConstraint]) -> str:
    """Name constraints in a few words, as in the title of a report."""
    return ", ".join(
        f"{constraint.criterion} within {constraint.tolerance} of {constraint.reference}"
        if isinstance(constraint, Constraint)
        else type(constraint).__name__
        for constraint in constraints
    )


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
    return f"{text[0].upper()}{text[1:]}."


def rate_question(given: str | None, outcome: str | None) -> str:
    """Say which share a rate is.

    >>> rate_question("low", "high")
    'Among people whose true class is “low”: the share who get the answer “high”'
    """
    people = "Among all people" if given is None else f"Among people whose true class is “{given}”"
    return f"{people}: the share {'whose answer is right' if outcome is None else f'who get the answer “{outcome}”'}"
