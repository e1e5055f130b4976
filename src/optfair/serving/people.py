"""Read the people of a request: their features, who they are, and of which group."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from optfair.serving.envelopes import ABSENT, Entry, open_envelope
from optfair.serving.fields import is_text
from optfair.serving.groups import GroupReader
from optfair.serving.notes import NoteTaker
from optfair.serving.refusals import INVALID, Refusal, invalid
from optfair.serving.rows import RowReader

KEY_RULE = "must be text that is not empty, a number, or a list of these."


@dataclass(frozen=True, eq=False)
class Person:
    """A person as the model takes one.

    place : how messages call them. cells : in the order of its fields. key : None without one. group : what `predict`
    is told, or None. count_group : how counters call the group, or None.
    """

    place: str
    cells: list[Any]
    key: Any = None
    group: Any = None
    count_group: str | None = None


class PeopleReader:
    """Reads requests about people for one model. max_people : of a request."""

    def __init__(self, model: Any, max_people: int) -> None:
        self.groups = GroupReader(model)
        self.rows = RowReader(model, self.groups.columns)
        self.max_people = max_people
        self.decision: str = model.decision

    def read(self, document: Any) -> tuple[list[Person], list[str]]:
        """Return the people of a request, and notes on them."""
        notes = NoteTaker()
        entries = open_envelope(document, self.rows.names, self.max_people)
        people = [self._read_person(entry, notes) for entry in entries]
        return people, notes.lines(len(people))

    def _read_person(self, entry: Entry, notes: NoteTaker) -> Person:
        cells, among = self.rows.read(entry.features, entry.place, notes)
        group = count_group = None
        if among:
            count_group = self.groups.read_among(among, f"{entry.place}.features")
        if entry.group is not ABSENT or self.groups.is_told:
            value = None if entry.group is ABSENT else entry.group
            group, count_group = self.groups.read_beside(value, f"{entry.place}.group")
        key = None if entry.key is ABSENT else self._read_key(entry.key, f"{entry.place}.key")
        return Person(entry.place, cells, key, group, count_group)

    def _read_key(self, value: Any, place: str) -> Any:
        """Return a key as `predict` takes it; a list as a tuple."""
        if self.decision != "hashed":
            rule = f"the decisions of the model are {self.decision!r} and use no keys; leave it out."
            raise Refusal(INVALID, f"{place}: {rule}")
        if not isinstance(value, list):
            return _key_part(value, place)
        if not value:
            raise invalid(place, value, KEY_RULE)
        return tuple(_key_part(part, f"{place}[{k}]") for k, part in enumerate(value))


def _key_part(value: Any, place: str) -> Any:
    is_number = isinstance(value, float) and math.isfinite(value)
    is_integer = isinstance(value, int)  # of any size: it is its digits; true is 1, as for `predict`
    if not ((isinstance(value, str) and value) or is_number or is_integer):
        raise invalid(place, value, KEY_RULE)
    if isinstance(value, str) and not is_text(value):
        raise invalid(place, value, "is not valid text (a lone surrogate).")
    return value
