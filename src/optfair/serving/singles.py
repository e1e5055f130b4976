"""Make a column of values of several people in which each is what it would be in a table of its person alone.

pandas gives a column one type. Beside a text a number would become an object, beside 7.5 a category 1 would become 1.0,
and of 1 and true only the first would stay. So each value becomes a column of one row, in the form that the model was
fitted on, and only columns of one kind are put one below the other.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from optfair.inputs.labels import object_array
from optfair.inputs.table_form import ColumnForm, TableForm

KNOWN = "a fitted category"
UNKNOWN = "a category of its own"
UNREADABLE = "not of this column"


@dataclass(frozen=True, eq=False)
class Single:
    """A value as a column of one row. kind : equal for those that can stand in one column, and stay as they are."""

    column: pd.Series
    kind: Hashable


class SingleReader:
    """Reads values of a column. form : how it was when the model was fitted."""

    def __init__(self, name: str, form: ColumnForm, is_closed: bool) -> None:
        self.name, self._n_categories = name, len(form.categories)
        self._form = TableForm("pandas", (name,), (form,), is_closed)

    def read(self, value: Any) -> Single:
        """Return a value as `predict` reads it in a record of its own."""
        frame = pd.DataFrame({self.name: object_array([value])}).infer_objects()
        try:
            column = self._form.conform(frame)[self.name]
        except Exception:  # as `predict` itself will say, of this person alone
            return Single(frame[self.name], (UNREADABLE, type(value), value))
        if not isinstance(column.dtype, pd.CategoricalDtype):
            return Single(column, str(column.dtype))
        is_known = len(column.dtype.categories) == self._n_categories
        return Single(column, KNOWN if is_known else (UNKNOWN, type(value), value))


def joined_column(singles: Sequence[Single]) -> pd.Series:
    """Return the column of values of one kind, in order."""
    distinct = {id(single): single for single in singles}
    if len(distinct) == 1:
        column = singles[0].column
    else:
        column = pd.concat([single.column for single in distinct.values()], ignore_index=True)
    places = {key: place for place, key in enumerate(distinct)}
    return column.take([places[id(single)] for single in singles]).reset_index(drop=True)
