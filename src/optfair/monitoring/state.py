"""Keep counts by period, never rows of people, and write them as JSON with a checksum; nothing in a file is executed.

{"format": "optfair monitor", "version": 1, "sha256": of the compact JSON of "monitor", "monitor": {...}}
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from optfair.constraints import Constraint, MinimumRate, Ratio
from optfair.errors import MonitorFileError
from optfair.inputs.labels import MISSING_CHOICES
from optfair.inputs.names import decode_index, decode_name, encode_index, encode_name
from optfair.metrics.addition import MAX_CELLS, read_numbers
from optfair.utils.checks import check_choice, check_number, is_integer
from optfair.utils.files import write_atomically

FORMAT, VERSION = "optfair monitor", 1
MAX_BYTES = 200_000_000  # of a file: a thousand periods of ten thousand cells
MAX_PERIODS = 100_000
MAX_NAME = 200  # characters of the name of a period
SUM_SLACK = 1e-6  # how far sums of probabilities may be from the people they are of, per person

Watched = Constraint | Ratio | MinimumRate
KINDS: dict[str, type[Watched]] = {"constraint": Constraint, "ratio": Ratio, "minimum rate": MinimumRate}


@dataclass(frozen=True, eq=False)
class Period:
    """What is counted of a period.

    people : (A,). answers : (A, m), how often each group got each class. cells : (A, m), people by group and true
    class, and confusion : (A, m, m), their answers; None where labels are unknown. plain : (m,), how often the model
    itself says each class; None where that is unknown. Answers and plain are sums of probabilities where these are
    given.
    """

    name: str
    people: np.ndarray
    answers: np.ndarray
    cells: np.ndarray | None = None
    confusion: np.ndarray | None = None
    plain: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class State:
    """All that a monitor knows.

    groups, classes : None before the first period, unless they are given. start : the period that looks begin with.
    """

    constraints: tuple[Watched, ...]
    confidence: float
    missing: str
    groups: pd.Index | None = None
    classes: pd.Index | None = None
    periods: tuple[Period, ...] = ()
    start: int = 0

    @property
    def names(self) -> list[str]:
        """The names of the periods."""
        return [period.name for period in self.periods]

    def with_period(self, period: Period) -> State:
        """Return the state with a period more, or with another one in the place of that of the same name."""
        names = self.names
        if period.name not in names:
            return replace(self, periods=(*self.periods, period))
        place = names.index(period.name)
        return replace(self, periods=(*self.periods[:place], period, *self.periods[place + 1 :]))


@dataclass(frozen=True, eq=False)
class Totals:
    """The sums over some periods; plain is over those that have it, with plain_people."""

    people: np.ndarray
    answers: np.ndarray
    cells: np.ndarray
    confusion: np.ndarray
    plain: np.ndarray
    plain_people: float


def add_periods(periods: Sequence[Period], A: int, m: int) -> Totals:
    """Return the sums over periods; zeros for none."""
    totals = Totals(np.zeros(A), np.zeros((A, m)), np.zeros((A, m)), np.zeros((A, m, m)), np.zeros(m), 0.0)
    for period in periods:
        totals.people[:] += period.people
        totals.answers[:] += period.answers
        if period.cells is not None and period.confusion is not None:
            totals.cells[:] += period.cells
            totals.confusion[:] += period.confusion
        if period.plain is not None:
            totals.plain[:] += period.plain
    plain_people = float(sum(period.people.sum() for period in periods if period.plain is not None))
    return replace(totals, plain_people=plain_people)


# -- writing -----------------------------------------------------------------------------------------------
def write_state(path: Path, state: State) -> None:
    """Write the state atomically."""
    content = state_content(state)
    document = {"format": FORMAT, "version": VERSION, "sha256": _checksum(content), "monitor": content}
    write_atomically(path, (json.dumps(document, indent=1, allow_nan=False) + "\n").encode())


def state_content(state: State) -> dict[str, Any]:
    """Return the state as what JSON can hold."""
    return {
        "constraints": [_constraint_content(constraint) for constraint in state.constraints],
        "confidence": state.confidence,
        "missing": state.missing,
        "groups": None if state.groups is None else encode_index(state.groups),
        "classes": None if state.classes is None else encode_index(state.classes),
        "start": state.start,
        "periods": [
            {field.name: _plain_numbers(getattr(period, field.name)) for field in fields(Period)}
            for period in state.periods
        ],
    }


def _plain_numbers(value: Any) -> Any:
    """Return lists of an array, of whole numbers where they are."""
    if not isinstance(value, np.ndarray):
        return value
    whole = np.rint(value)
    return (whole.astype(np.int64) if np.array_equal(whole, value) else value).tolist()


def _constraint_content(constraint: Watched) -> dict[str, Any]:
    kind = next(name for name, member in KINDS.items() if isinstance(constraint, member))
    return {"kind": kind} | {
        field.name: _argument_content(getattr(constraint, field.name)) for field in fields(constraint)
    }


def _argument_content(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {"by group": [[encode_name(group), number] for group, number in value.items()]}
    if isinstance(value, str) or not isinstance(value, Sequence | np.ndarray | pd.Index):
        return encode_name(value)
    return {"list": [encode_name(name) for name in value]}


def _checksum(content: Any) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


# -- reading -----------------------------------------------------------------------------------------------
def read_state(path: Path) -> State:
    """Return the state of a file; raise MonitorFileError where it is not sound."""
    if path.stat().st_size > MAX_BYTES:
        raise MonitorFileError(f"{path.name}: is larger than {MAX_BYTES:,} bytes; begin a new one.")
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise MonitorFileError(f"{path.name}: not a complete JSON file ({error}).") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise MonitorFileError(f"{path.name}: not the state of a monitor written by optfair.")
    if document.get("version") != VERSION or isinstance(document["version"], bool):
        raise MonitorFileError(
            f"{path.name}: has version {document.get('version')!r}, but this release reads version {VERSION}."
        )
    try:
        if document["sha256"] != _checksum(document["monitor"]):
            raise ValueError("it does not match its checksum")
        return state_from_content(document["monitor"])
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        reason = f"{error} is absent" if isinstance(error, KeyError) else error
        raise MonitorFileError(f"{path.name}: its content was altered or damaged ({reason}).") from None


def state_from_content(content: dict[str, Any]) -> State:
    """Return the state whose content this is; raise ValueError where it is not sound."""
    groups, classes = (None if content[name] is None else decode_index(content[name]) for name in ("groups", "classes"))
    A, m = (0 if names is None else len(names) for names in (groups, classes))
    if A * m * m > MAX_CELLS or len(content["periods"]) > MAX_PERIODS:
        raise ValueError("too many groups, classes or periods")
    if content["periods"] and not A * m:
        raise ValueError("periods without groups or classes")
    periods = tuple(_period(part, A, m) for part in content["periods"])
    state = State(
        constraints=tuple(_constraint(part) for part in content["constraints"]),
        confidence=check_number("confidence", content["confidence"], "(0, 1)"),
        missing=check_choice("missing", content["missing"], MISSING_CHOICES),
        groups=groups,
        classes=classes,
        periods=periods,
        start=content["start"],
    )
    if len(set(state.names)) < len(periods):
        raise ValueError("two periods have one name")
    if not is_integer(state.start, 0) or state.start > len(periods):
        raise ValueError("the start is not one of the periods")
    if not state.constraints:
        raise ValueError("there is no constraint")
    return state


def _period(content: dict[str, Any], A: int, m: int) -> Period:
    if set(content) != {field.name for field in fields(Period)}:
        raise ValueError("a period has other fields than expected")
    people = read_numbers(content["people"], (A,), whole=True)
    answers = read_numbers(content["answers"], (A, m))
    _check_sums(answers, people)
    cells = confusion = plain = None
    if content["cells"] is not None:
        cells = read_numbers(content["cells"], (A, m), whole=True)
        confusion = read_numbers(content["confusion"], (A, m, m))
        _check_sums(confusion, cells)
        if (cells.sum(axis=1) > people).any():
            raise ValueError("more people have labels than were counted")
    elif content["confusion"] is not None:
        raise ValueError("a confusion tensor without its people")
    if content["plain"] is not None:
        plain = read_numbers(content["plain"], (m,))
        _check_sums(plain, people.sum())
    return Period(check_period_name(content["name"]), people, answers, cells, confusion, plain)


def _check_sums(parts: np.ndarray, whole: Any) -> None:
    if (np.abs(parts.sum(axis=-1) - whole) > SUM_SLACK * np.maximum(whole, 1)).any():
        raise ValueError("counts do not add up to the people")


def check_period_name(name: Any) -> str:
    """Return the name of a period: a text of a line."""
    if not isinstance(name, str) or not name.strip() or len(name) > MAX_NAME or not name.isprintable():
        raise ValueError(f"period: must be a text of one line and at most {MAX_NAME} characters, such as '2026-01'.")
    return name


def _constraint(content: dict[str, Any]) -> Watched:
    kind = KINDS[content["kind"]]
    arguments = {name: _argument(value) for name, value in content.items() if name != "kind"}
    if set(arguments) != {field.name for field in fields(kind)}:
        raise ValueError("a constraint has other fields than expected")
    return kind(**arguments)


def _argument(value: Any) -> Any:
    if isinstance(value, dict) and set(value) == {"by group"}:
        return {decode_name(group): number for group, number in value["by group"]}
    if isinstance(value, dict) and set(value) == {"list"}:
        return [decode_name(name) for name in value["list"]]
    return decode_name(value)
