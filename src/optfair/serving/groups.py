"""Read the group of a person: for models that are told it, and for the counters, where it is given."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

import pandas as pd

from optfair.constraints.naming import attribute_names, name_text
from optfair.inputs.labels import MISSING
from optfair.serving.refusals import INVALID, Refusal, invalid, json_text, member

OTHER = "(other)"  # groups that the model does not know, in counters: a name for each would have no end
SHOWN_GROUPS = 6


class GroupReader:
    """The groups of a model, and where those of a person are: among the features, or beside them.

    columns : features that hold the group, by name or position. is_told : whether the model needs ``group`` beside the
    features. attributes : names of what a group is made of.
    """

    def __init__(self, model: Any) -> None:
        self.groups: pd.Index = model.groups_
        self.is_told: bool = model._asks_for_groups()
        self.is_aware: bool = model.awareness == "aware"
        self.columns = _source_columns(model.sensitive_features)
        self.attributes = [str(name) for name in attribute_names(self.groups)]
        self.names_missing = model.missing == "group"
        self.takes_strangers = self.is_told and model.unseen == "blind"
        self.labels: list[Any] = self.groups.tolist()
        self._places = {label: place for place, label in enumerate(self.labels)}
        # What `predict` is told of a group that the model does not know: they are all one to it.
        self._stranger = f"{OTHER} {secrets.token_hex(8)}"

    def read_beside(self, value: Any, place: str) -> tuple[Any, str | None]:
        """Return (the group as `predict` takes it, how counters call it) of what stands beside the features.

        Where the model does not need it, it is for the counters only, and may be a group that the model does not know.
        """
        if self.is_aware and not self.is_told:
            rule = "the model reads the group from the features; leave it out."
            raise Refusal(INVALID, f"{place}: {rule}")
        label = self._label(self._parts(value, place))
        return (self._told(label, value, place) if self.is_told else None), self.count_name(label)

    def read_among(self, cells: Sequence[Any], place: str) -> str | None:
        """Return how counters call the group in the features of a person, after checking it if the model uses it."""
        parts = [None if cell is None or cell != cell else cell for cell in cells]
        label = self._label(parts)
        if self.is_aware:
            value = parts[0] if len(parts) == 1 else parts
            self._told(label, value, place)
        return self.count_name(label)

    def count_name(self, label: Any) -> str | None:
        """Return the name of a group in counters; None for a missing one."""
        if label in self._places:
            return name_text(self.labels[self._places[label]])
        parts = label_parts(label)
        return None if any(part is None for part in parts) else OTHER

    # -- labels ------------------------------------------------------------------------------------------------
    def _parts(self, value: Any, place: str) -> list[Any]:
        """Return the attributes of a group, in their order."""
        if isinstance(value, dict):
            strange = next((name for name in value if name not in self.attributes), None)
            if strange is not None:
                raise Refusal(INVALID, f"{place}{member(strange)}: is no attribute; give {', '.join(self.attributes)}.")
            values: list[Any] = [value.get(name) for name in self.attributes]
        elif isinstance(value, list) and len(self.attributes) > 1:
            values = value
        else:
            values = [value]
        if len(values) != len(self.attributes):
            rule = f"must be an object with the keys {', '.join(self.attributes)}."
            raise invalid(place, value, rule)
        nested = next((part for part in values if isinstance(part, list | dict)), None)
        if nested is not None:
            raise invalid(place, nested, "must be one value, or an object with a value for each attribute.")
        return [None if part != part else part for part in values]

    def _label(self, parts: Sequence[Any]) -> Any:
        """Return the name of a group as the model has it; None, or with None, where it is missing."""
        is_tuple = isinstance(self.groups, pd.MultiIndex)
        if "" in parts and (tuple(parts) if is_tuple else parts[0]) not in self._places:
            parts = [None if part == "" else part for part in parts]  # an empty text is missing
        named = [MISSING if part is None and self.names_missing else part for part in parts]
        label = tuple(named) if is_tuple else named[0]
        return self.labels[self._places[label]] if label in self._places else label

    def _told(self, label: Any, value: Any, place: str) -> Any:
        """Return a group that `predict` takes, or refuse it."""
        if label in self._places:
            return label
        parts = label_parts(label)
        if any(part is None for part in parts):
            raise Refusal(INVALID, f"{place}: is missing; the model needs it: {self._choice()}.")
        if not self.takes_strangers:
            raise invalid(place, value, f"the model does not know this group; it knows {self._choice()}.")
        return (self._stranger,) * len(parts) if isinstance(label, tuple) else self._stranger

    def _choice(self) -> str:
        names = [group_text(label, self.attributes) for label in self.labels[:SHOWN_GROUPS]]
        rest = f" and {len(self.labels) - SHOWN_GROUPS} more" if len(self.labels) > SHOWN_GROUPS else ""
        return f"{', '.join(names)}{rest}"


def label_parts(label: Any) -> tuple[Any, ...]:
    """Return the attributes of a group."""
    return label if isinstance(label, tuple) else (label,)


def group_value(label: Any, attributes: Sequence[str]) -> Any:
    """Return a group as a request holds it: one value, or an object of them."""
    if not isinstance(label, tuple):
        return _plain(label)
    return dict(zip(attributes, map(_plain, label), strict=True))


def group_text(label: Any, attributes: Sequence[str]) -> str:
    """Return a group as it stands in a request."""
    value = group_value(label, attributes)
    if not isinstance(value, dict):
        return json_text(value)
    return "{" + ", ".join(f"{json_text(name)}: {json_text(part)}" for name, part in value.items()) + "}"


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _source_columns(source: Any) -> list[str | int]:
    """Return the features that hold the groups, where the model says which; none where a function does."""
    items = source if isinstance(source, list) else [source]
    return [item if isinstance(item, str) else int(item) for item in items] if _are_columns(items) else []


def _are_columns(items: Sequence[Any]) -> bool:
    return all(item is not None and not callable(item) for item in items)
