"""Collect what is to be said about the people of one request: once for all of them, beside their answers."""

from __future__ import annotations

from typing import Any

from optfair.errors import brief_names
from optfair.estimators.text_levels import gap_note, unseen_note
from optfair.serving.fields import Field
from optfair.serving.singles import Single
from optfair.serving.spelling import NameComparisons


class NoteTaker:
    """Counts what is worth a note, and keeps for as long what is computed once for a request.

    unread : fields that the model does not read. comparisons : of their names. singles : by position, type and value.
    """

    def __init__(self) -> None:
        self.unread: dict[str, None] = {}  # in the order in which they came
        self.comparisons = NameComparisons()
        self.singles: dict[tuple[int, type, Any], Single] = {}
        self._gaps: dict[Field, int] = {}
        self._unseen: dict[Field, tuple[int, str, str]] = {}
        self._far: dict[Field, tuple[int, float, str]] = {}

    def add_gap(self, part: Field) -> None:
        """Count a missing value where none was when the model was fitted."""
        self._gaps[part] = self._gaps.get(part, 0) + 1

    def add_unseen(self, part: Field, text: str, place: str) -> None:
        """Count a text that the model does not know."""
        number, *example = self._unseen.get(part, (0, text, place))
        self._unseen[part] = (number + 1, str(example[0]), str(example[1]))

    def add_far(self, part: Field, value: float, place: str) -> None:
        """Count a number far outside of those fitted on."""
        number, first, where = self._far.get(part, (0, value, place))
        self._far[part] = (number + 1, first, where)

    def lines(self, n: int) -> list[str]:
        """Return the notes on a request. n : number of people in it."""
        people = "1 person" if n == 1 else f"{n} people"
        lines = []
        if self.unread:
            names = "1 field is" if len(self.unread) == 1 else f"{len(self.unread)} fields are"
            lines.append(f"{names} not read by the model, and left out: {brief_names(list(self.unread))}.")
        by_number: dict[int, list[Field]] = {}
        for part, number in self._gaps.items():
            by_number.setdefault(number, []).append(part)
        lines += [_gap_line(parts, f"{number} of {people}") for number, parts in by_number.items()]
        lines += [
            unseen_note(part.title, f"{number} of {people}", (text, place))
            for part, (number, text, place) in self._unseen.items()
        ]
        lines += [
            f"{part.title}: far outside of what the model was fitted on in {number} of {people}, such as {value:g} "
            f"({place}); it was mostly from {part.feature.low:g} to {part.feature.high:g}."
            for part, (number, value, place) in self._far.items()
        ]
        return lines


def _gap_line(parts: list[Field], share: str) -> str:
    """Return one note on all fields that are missing for as many people."""
    if len(parts) == 1:
        return gap_note(parts[0].title, share)
    names = brief_names([part.position if part.name is None else part.name for part in parts])
    return f"{len(parts)} fields are missing in {share}; none was when the model was fitted: {names}."
