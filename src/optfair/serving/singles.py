"""Make a column of values of several people in which each is what it would be in a table of its person alone.

pandas gives a column one type. Beside a text a number would become an object, beside 7.5 a category 1 would become 1.0,
and of 1 and true only the first would stay. So each value becomes a column of one row, in the form that the model was
fitted on, and only columns of one kind are put one below the other.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from optfair.inputs.labels import object_array
from optfair.inputs.table_form import CATEGORY, OTHER, ColumnForm, TableForm

KNOWN = "a fitted category"
UNKNOWN = "a category of its own"
UNREADABLE = "not of this column"
INT64 = range(-(2**63), 2**63)


@dataclass(frozen=True, eq=False)
class Single:
    """A value of one person. kind : equal for those that can stand in one column of a reader, and stay as they are."""

    value: Any
    kind: Hashable
    reader: SingleReader

    @cached_property
    def column(self) -> pd.Series:
        """The value as a column of one row, as `predict` reads it in a record of its own."""
        return self.reader.column(self.value)


class SingleReader:
    """Reads values of a column. form : how it was when the model was fitted.

    As little as possible is asked of pandas before it is known that somebody is asked about: a request may hold a
    thousand values that the model has never seen, and each takes half a millisecond.
    """

    def __init__(self, name: str, form: ColumnForm, is_closed: bool) -> None:
        self.name = name
        self._categories = frozenset(form.categories) if form.kind == CATEGORY else None
        self.keeps_types = form.kind == OTHER and form.dtype == "category"  # too many to be remembered
        self._form = TableForm("pandas", (name,), (form,), is_closed)

    def read(self, value: Any) -> Single:
        """Return a value and its kind."""
        if self._categories is not None:
            is_known = value is None or value in self._categories
            return Single(value, KNOWN if is_known else (UNKNOWN, type(value), value), self)
        if self.keeps_types:
            is_long = isinstance(value, int) and value not in INT64
            return Single(value, (type(value), value if is_long else None), self)
        try:
            return Single(value, str(self.column(value).dtype), self)
        except Exception:  # as `predict` itself will say, of this person alone
            return Single(value, (UNREADABLE, type(value), value), self)

    def column(self, value: Any) -> pd.Series:
        """Return a value as a column of one row."""
        frame = self.frame([value])
        return frame[self.name] if self.keeps_types else self._form.conform(frame)[self.name]

    def frame(self, values: Sequence[Any]) -> pd.DataFrame:
        """Return values as `predict` reads those of records."""
        return pd.DataFrame({self.name: object_array(values)}).infer_objects()


def joined_column(singles: Sequence[Single]) -> pd.Series:
    """Return the column of values of one kind, in order."""
    reader = singles[0].reader
    if reader.keeps_types:
        return reader.frame([single.value for single in singles])[reader.name]
    distinct = {id(single): single for single in singles}
    if len(distinct) == 1:
        column = singles[0].column
    else:
        column = pd.concat([single.column for single in distinct.values()], ignore_index=True)
    places = {key: place for place, key in enumerate(distinct)}
    return column.take([places[id(single)] for single in singles]).reset_index(drop=True)
