"""Take a request apart into people, before anybody looks at what their values mean.

    body      PERSON, or {"people": [PERSON, ...]}
    PERSON    {"features": FEATURES, "key": KEY, "group": GROUP}, where only the features must be there; or FEATURES
    FEATURES  {"name": value, ...}, or a list of values where the model was fitted without names
    KEY       who the person is: text, a number, or a list of these
    GROUP     one value, or {"attribute": value, ...}

A feature may be called anything: where one is called "people" or "features", a person is written in full.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from optfair.serving.refusals import INVALID, Refusal, invalid, member

PEOPLE, FEATURES, KEY, GROUP = "people", "features", "key", "group"
ONE = "person"  # how messages call the one of a request about one person
ABSENT: Any = object()  # what is not there; null is


@dataclass(frozen=True)
class Entry:
    """What a request says of one person. place : how messages call it."""

    place: str
    features: Any
    key: Any = ABSENT
    group: Any = ABSENT


def open_envelope(document: Any, names: Collection[str], max_people: int) -> list[Entry]:
    """Return the people of a request. names : of the features of the model."""
    if not isinstance(document, dict) or PEOPLE not in document:
        return [_open(document, ONE, names)]
    entries = document[PEOPLE]
    if not isinstance(entries, list):
        raise invalid(PEOPLE, entries, f"must be a list of people.{_in_full(PEOPLE, names)}")
    strange = next((name for name in document if name != PEOPLE), None)
    if strange is not None:
        raise Refusal(INVALID, f"body{member(strange)}: is not read beside {PEOPLE}.{_in_full(PEOPLE, names)}")
    if not entries:
        raise Refusal(INVALID, f"{PEOPLE}: is empty; give at least one person.")
    if len(entries) > max_people:
        rule = f"must be at most {max_people:,}; send the others in further requests."
        raise Refusal(INVALID, f"{PEOPLE}: are {len(entries):,}; {rule}")
    return [_open(entry, f"{PEOPLE}[{k}]", names) for k, entry in enumerate(entries)]


def _open(entry: Any, place: str, names: Collection[str]) -> Entry:
    """Return one person, whether written in full or as features alone."""
    if not isinstance(entry, dict):
        return Entry(place, entry)
    if FEATURES not in entry:
        lost = next((name for name in (KEY, GROUP) if name in entry and name not in names), None)
        if lost is not None:  # as features they would be left out, and others than meant would be drawn
            example = f'{{"{FEATURES}": {{...}}, "{lost}": ...}}'
            raise Refusal(INVALID, f"{place}.{lost}: is not a feature of the model; send {example}.")
        return Entry(place, entry)
    strange = next((name for name in entry if name not in (FEATURES, KEY, GROUP)), None)
    if strange is not None:
        rule = f"is not read; a person has {FEATURES}, {KEY} and {GROUP}."
        raise Refusal(INVALID, f"{place}{member(strange)}: {rule}{_in_full(FEATURES, names)}")
    return Entry(place, entry[FEATURES], entry.get(KEY, ABSENT), entry.get(GROUP, ABSENT))


def _in_full(word: str, names: Collection[str]) -> str:
    """Return what to do where a word of ours is the name of a feature too."""
    return f' Is "{word}" a feature here? Then send {{"{FEATURES}": {{...}}}}.' if word in names else ""
