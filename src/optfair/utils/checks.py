"""Check arguments, with one wording for each kind of rule: ``name=value: must be ...``."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

from optfair.errors import brief_repr

ROW_SUM_SLACK = 1e-3  # how far a row of probabilities may be from summing to one: those of float16 models are


def check_choice(name: str, value: object, choices: Sequence[str], otherwise: str = "") -> str:
    """Return ``value`` if it is one of the words in ``choices``; ``otherwise`` ends the message of the error."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name}={brief_repr(value)}: must be one of {', '.join(map(repr, choices))}{otherwise}.")
    return value


def is_integer(value: object, minimum: int) -> bool:
    """Tell whether ``value`` is a whole number (booleans are not) of at least ``minimum``."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= minimum


def check_integer(name: str, value: Any, minimum: int, otherwise: str = "") -> int:
    """Return ``value`` as an int of at least ``minimum``."""
    if not is_integer(value, minimum):
        raise ValueError(f"{name}={brief_repr(value)}: must be an integer >= {minimum}{otherwise}.")
    return int(value)


def check_n_jobs(n_jobs: Any) -> int | None:
    """Return the number of jobs: None, a positive integer, or a negative one, which counts back from all cores."""
    if n_jobs is None:
        return None
    if not isinstance(n_jobs, Integral) or isinstance(n_jobs, bool) or n_jobs == 0:
        raise ValueError(f"n_jobs={brief_repr(n_jobs)}: must be None, -1 or a positive integer.")
    return int(n_jobs)


def is_number(value: object) -> bool:
    """Tell whether ``value`` is a real number (booleans are not)."""
    return isinstance(value, Real) and not isinstance(value, bool)


def check_number(name: str, value: Any, interval: str, otherwise: str = "") -> float:
    """Return ``value`` as a float within an interval such as "[0, 1]", "[0, 1)", "(0, inf)".

    >>> check_number("tolerance", 0.1, "[0, 1]")
    0.1
    """
    low, high = (float(end) for end in interval[1:-1].split(","))
    if is_number(value):
        number = float(value)
        above = number > low if interval[0] == "(" else number >= low
        below = number < high if interval[-1] == ")" else number <= high
        if above and below:
            return number
    rule = {"(0, inf)": "a positive number", "[0, inf)": "a number >= 0"}.get(interval, f"a number in {interval}")
    ending = otherwise if otherwise.endswith("?") else f"{otherwise}."
    raise ValueError(f"{name}={brief_repr(value)}: must be {rule}{ending}")


def share_hint(value: Any) -> str:
    """Return a question to end a message with, where a percentage was given for a share; else "".

    >>> share_hint(5)
    '; did you mean 0.05?'
    """
    return f"; did you mean {float(value) / 100:g}?" if is_number(value) and 1 <= float(value) <= 100 else ""


def as_numbers(values: Any) -> np.ndarray | None:
    """Return the values as a float64 array, or None if they are not numbers or have ragged rows."""
    try:
        array = np.asarray(values)
        return array.astype(np.float64) if array.dtype.kind in "fiu" else None
    except ValueError:
        return None
