"""Read the features of a person into the columns of a model, and make the rows of several people one table."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from optfair.errors import brief_names
from optfair.estimators.text_levels import fitted_encoder
from optfair.inputs.cells import cell_text
from optfair.inputs.labels import object_array
from optfair.inputs.table_form import CATEGORY, TableForm
from optfair.serving.envelopes import ABSENT
from optfair.serving.fields import CODES, NUMBERS, VALUES, Field, model_fields
from optfair.serving.notes import NoteTaker
from optfair.serving.refusals import INVALID, Refusal, invalid, json_text, member
from optfair.serving.settings import MAX_UNREAD
from optfair.serving.singles import Single, SingleReader, joined_column
from optfair.serving.spelling import CostlyComparisonError, NameIndex

COSTLY = (
    "the model does not read it, and there are too many such fields to look for misspelt names; leave them out, or "
    "give absent features as null."
)


class RowReader:
    """The columns of a model.

    fields : all of them, in order. group_fields : those that hold the group. read_fields : those that the model is
    given; a blind one does without the group.
    """

    def __init__(self, model: Any, group_columns: Sequence[str | int]) -> None:
        self.fields = model_fields(model)
        self.form: TableForm = model._form
        n = len(self.fields)
        by_place = {part.position: part for part in self.fields} | {part.name: part for part in self.fields}
        columns = [name % n if isinstance(name, int) else name for name in group_columns]
        self.group_fields = [by_place[name] for name in columns if name in by_place]
        self._is_blind = model.awareness == "blind"
        self.read_fields = [part for part in self.fields if not (self._is_blind and part in self.group_fields)]
        self.names = {part.name: part for part in self.fields if part.name is not None}
        optional = {part.name for part in self.group_fields if self._is_blind}
        self._singles = single_readers(model, self.read_fields)
        self._mixed = [(k, part.takes) for k, part in enumerate(self.read_fields) if self._is_mixed(part)]
        self._expected = [name for name in self.names if name not in optional]
        self._index = NameIndex(self._expected)

    # -- one person --------------------------------------------------------------------------------------------
    def read(self, features: Any, place: str, notes: NoteTaker) -> tuple[list[Any], list[Any]]:
        """Return the cells of a person that the model is given, and those of the group, as far as they are there."""
        values = self._named(features, place, notes) if self.names else self._listed(features, place)
        cells = []
        for part in self.read_fields:
            value = values[part.position]
            cell = part.read(None if value is ABSENT else value, place)
            if cell is None or cell != cell:
                if not part.had_gaps:
                    notes.add_gap(part)
            elif part.is_far(cell):
                notes.add_far(part, cell, place)
            elif part.levels is not None:
                text = cell_text(cell, points=part.points)
                if text not in part.levels:
                    notes.add_unseen(part, text, place)
            cells.append(self._single(part, cell, notes))
        group = [values[part.position] for part in self.group_fields]
        if self._is_blind and any(value is ABSENT for value in group):
            return cells, []
        group = [None if value is ABSENT else value for value in group]
        return cells, [part.read(value, place) for part, value in zip(self.group_fields, group, strict=True)]

    def _single(self, part: Field, cell: Any, notes: NoteTaker) -> Any:
        """Return a cell as a column of one row where its type depends on the others; else the cell."""
        if part.position not in self._singles:
            return cell
        key = part.position, type(cell), cell  # True is 1, and another value
        if key not in notes.singles:
            notes.singles[key] = self._singles[part.position].read(cell)
        return notes.singles[key]

    def _named(self, features: Any, place: str, notes: NoteTaker) -> list[Any]:
        """Return a value for each field, by name."""
        if not isinstance(features, dict):
            raise invalid(place, features, "must be an object with a value for each feature.")
        values = [features.get(part.name, ABSENT) for part in self.fields]
        n_present = len(values) - values.count(ABSENT)
        if n_present < len(features):
            self._check_unread(features, place, notes)
        if all(values[part.position] is ABSENT for part in self.read_fields):
            names = brief_names([part.name for part in self.read_fields])
            raise Refusal(INVALID, f"{place}: has none of the features that the model reads: {names}.")
        return values

    def _check_unread(self, features: dict[str, Any], place: str, notes: NoteTaker) -> None:
        """Note what the model does not read; what looks like the name of an absent feature is a mistake."""
        is_whole = all(name in features for name in self._expected)
        for name in features:
            if name in self.names:
                continue
            if name not in notes.unread:
                if len(notes.unread) == MAX_UNREAD:
                    rule = f"is one of more than {MAX_UNREAD} different fields that the model does not read."
                    raise Refusal(INVALID, f"{place}{member(name)}: {rule}")
                notes.unread[name] = None
            if is_whole:
                continue  # nothing that it could be meant for is absent
            try:
                similar = notes.comparisons.likest(name, self._index, features)
            except CostlyComparisonError:
                raise Refusal(INVALID, f"{place}{member(name)}: {COSTLY}") from None
            if similar is not None:
                rule = f"the model does not read it; is it {json_text(similar)}? Rename it, or leave it out."
                raise Refusal(INVALID, f"{place}{member(name)}: {rule}")

    def _listed(self, features: Any, place: str) -> list[Any]:
        """Return a value for each field, by position."""
        n = len(self.fields)
        if not isinstance(features, list) or len(features) not in (n, len(self.read_fields)):
            raise invalid(place, features, f"must be a list of {n} values, one for each column of the model.")
        if len(features) == n:
            return features
        values = [ABSENT] * n  # without the group
        for part, value in zip(self.read_fields, features, strict=True):
            values[part.position] = value
        return values

    # -- several people ----------------------------------------------------------------------------------------
    def kind(self, cells: Sequence[Any]) -> tuple[Hashable, ...]:
        """Return what is equal for people who can be asked about in one call without changing each other's values."""
        return tuple(_kind(cells[k], takes) for k, takes in self._mixed)

    def _is_mixed(self, part: Field) -> bool:
        return part.takes in (CODES, VALUES) or part.position in self._singles

    def table(self, rows: Sequence[Sequence[Any]]) -> Any:
        """Return the cells of several people of one kind as the model takes them."""
        columns = zip(*rows, strict=True)
        if self.names:
            pairs = zip(self.read_fields, columns, strict=True)
            return pd.DataFrame({part.name: self._column(part, column) for part, column in pairs})
        if self.form.layout == "flat":
            return [row[0] for row in rows]
        if all(part.takes == NUMBERS for part in self.read_fields):
            array = np.array(rows, dtype=np.float64)
            return sparse.csr_matrix(array) if self.form.layout == "sparse" else array
        array = np.empty((len(rows), len(self.read_fields)), dtype=object)
        for k, column in enumerate(columns):
            array[:, k] = column
        return array

    def _column(self, part: Field, cells: Sequence[Any]) -> Any:
        if part.position in self._singles:
            return joined_column(cells)
        if part.takes == CODES and isinstance(cells[0], bool):
            return np.array(cells, dtype=bool)  # "True" to an encoder; as objects among numbers they would be 1
        return np.array(cells, dtype=np.float64) if part.takes == NUMBERS else object_array(cells)


def single_readers(model: Any, fields: Sequence[Field]) -> dict[int, SingleReader]:
    """Return, by position, readers of the columns whose type depends on the values of all people in them.

    Those of any values; and categories, unless an encoder reads them as texts: to other models the code of one that was
    not seen depends on the others.
    """
    form: TableForm = model._form
    if not form.names:
        return {}
    has_encoder = fitted_encoder(model) is not None
    return {
        part.position: SingleReader(str(part.name), form.columns[part.position], form.is_closed)
        for part in fields
        if part.takes == VALUES or (form.columns[part.position].kind == CATEGORY and not has_encoder)
    }


def _kind(cell: Any, takes: str) -> Hashable:
    kind: Hashable = type(cell).__name__
    if isinstance(cell, Single):
        kind = cell.kind
    elif takes == CODES:
        kind = isinstance(cell, bool)
    return kind
