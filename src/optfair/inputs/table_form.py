"""Remember the form of the table that a model was fitted on, and bring new rows into it.

A model answers what is asked, not how it is written: its columns are found by name, and a column has the type and the
missing values the marker that it had when the model was fitted. What has that form already is passed on as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from optfair.inputs.cells import (
    EMPTY,
    as_numbers,
    as_texts,
    is_number,
    mark_empty,
    mark_missing,
    missing_marker,
    text_marker,
    value_type,
)
from optfair.inputs.containers import as_table, is_polars_number, layout_of
from optfair.inputs.frames import (
    as_known_table,
    is_record,
    is_record_list,
    polars_frame,
    read_records,
    record_keys,
)
from optfair.inputs.labels import object_array

NUMBER, TEXT, CATEGORY, OTHER = "number", "text", "category", "other"
FRAMES = ("pandas", "polars")
POLARS_TEXTS = ("String", "Utf8")
MAX_CATEGORIES = 100  # that are remembered, and written to files: a column of names tells who was fitted on
_OBJECT_KINDS = {
    "string": TEXT,
    "boolean": NUMBER,
    "integer": NUMBER,
    "floating": NUMBER,
    "mixed-integer-float": NUMBER,
}


@dataclass(frozen=True, eq=False)
class ColumnForm:
    """A column as it was: its kind, the name of its type, how objects wrote missing values, and its categories.

    has_points : whether some text was a whole number with a point, such as "7.0"; if none was, "7.0" is "7".
    """

    kind: str
    dtype: str
    marker: str = "NaN"
    categories: tuple[Any, ...] = ()
    has_points: bool = False


@dataclass(frozen=True, eq=False)
class TableForm:
    """The form of a table: its container, the names of its columns where all are texts, and each column.

    columns : of a data frame, else of the whole array, as one. is_closed : the model was fitted on other rows than
    these, so that texts which these do not hold may still mean something to it.
    """

    layout: str
    names: tuple[str, ...] = ()
    columns: tuple[ColumnForm, ...] = ()
    is_closed: bool = False

    @classmethod
    def of(cls, X: Any, *, is_closed: bool = False) -> TableForm:
        """Return the form of a table that a model is fitted on."""
        layout = layout_of(X)
        if layout not in FRAMES:
            return cls(layout, columns=(ColumnForm(OTHER, "object", _array_marker(X, layout)),))
        if not all(isinstance(name, str) for name in X.columns):
            return cls("frame without names")
        count = len(X.columns)
        columns = [_pandas_form(X.iloc[:, k]) if layout == "pandas" else _polars_form(X[:, k]) for k in range(count)]
        return cls(layout, tuple(map(str, X.columns)), tuple(columns), is_closed)

    @property
    def texts(self) -> list[str]:
        """Return the columns that hold texts, also those that look like numbers."""
        columns = zip(self.names, self.columns, strict=True) if self.names else ()
        return [n for n, c in columns if c.kind == TEXT or (c.kind == CATEGORY and _are_texts(c.categories))]

    def conform(self, X: Any, optional: Sequence[str] = ()) -> Any:
        """Return rows in the form of those fitted on: X itself where it has that form.

        optional : columns that may be absent. Columns of other names are left out, if all that the model reads are
        there; if not, X keeps them, for the error message that names all of them.
        """
        if is_record(X) or is_record_list(X):
            if not self.names:
                raise ValueError(
                    "X: is a dict, or a list of them, but the model was fitted without column names; give a row of "
                    "values for each person."
                )
            X = read_records(X, self.names, optional)
        X = as_table(as_known_table(X))
        layout = layout_of(X)
        if self.names and layout in FRAMES:
            return self._conform_frame(_select(X, layout, self.names, optional), layout)
        if layout in ("array", "rows"):  # without names, of a frame too: then it has no one marker
            return _mark_array(X, layout, "NaN" if self.names or not self.columns else self.columns[0].marker)
        return X

    def further_columns(self, X: Any) -> list[Any]:
        """Return the columns of rows that the model does not read, and that `conform` leaves out."""
        if not self.names:
            return []
        if is_record(X) or is_record_list(X):
            columns = record_keys([X] if is_record(X) else X)
        else:
            columns = list(getattr(X, "column_names", getattr(X, "columns", ())))  # of an arrow table, of a frame
        names = set(self.names)
        return [name for name in columns if name not in names]

    def _conform_frame(self, X: Any, layout: str) -> Any:
        forms = dict(zip(self.names, self.columns, strict=True))
        if not set(X.columns) <= set(forms) or len(set(X.columns)) < len(X.columns):
            return X  # not these columns: an error that others report
        is_polars = layout == self.layout == "polars"
        if is_polars and all(_has_polars_form(X[name], forms[name]) for name in X.columns):
            return X
        frame = polars_frame(X) if layout == "polars" else X
        table = frame
        for name, dtype in zip(frame.columns.tolist(), frame.dtypes.tolist(), strict=True):
            if _is_plain_number(dtype, forms[name]):
                continue  # before pandas makes a column of it, which takes longer than all the rest for one row
            if self.is_closed and forms[name].kind == TEXT and _OBJECT_KINDS.get(value_type(frame[name])) == TEXT:
                forms[name] = replace(forms[name], has_points=True)
            with suppress(ValueError):  # a text among numbers, say: the model may not even read this column
                column = _conform_column(frame[name], forms[name])
                if column is not None:
                    table = table.copy(deep=False) if table is frame else table
                    table[name] = column
        return table


def read_training_table(X: Any) -> Any:
    """Return a table to fit on, in which every column writes missing values in one way; mostly X itself."""
    X = as_table(as_known_table(X))
    layout = layout_of(X)
    if layout in ("array", "rows"):
        return _mark_array(X, layout, _array_marker(X, layout))
    if layout == "polars":
        return _mark_polars(X)
    if layout != "pandas":
        return X
    for k, dtype in enumerate(X.dtypes.tolist()):
        column = X.iloc[:, k]
        marked = _mark_training_column(column, dtype)
        if marked is not column:
            X = X.copy(deep=False)
            X.isetitem(k, marked)
    return X


def _mark_training_column(column: pd.Series, dtype: Any) -> pd.Series:
    """Return a column that writes missing values in one way: of empty texts and other ones, as the others."""
    if _is_object(dtype):
        values = column.to_numpy()
        marked = mark_missing(values, missing_marker(values))
        if marked is not values:
            column = pd.Series(marked, index=column.index, name=column.name, dtype=object)
        is_text = _OBJECT_KINDS.get(value_type(column)) == TEXT
    else:
        is_text = _is_string(dtype)
    return mark_empty(column, text_marker(column)) if is_text else column


def _mark_polars(X: Any) -> Any:
    """Return a frame of polars in which a column of texts with nulls has no empty texts."""
    for name in X.columns:
        column = X[name]
        if str(column.dtype) in POLARS_TEXTS and column.null_count() and (column == "").any():
            X = X.with_columns(column.replace("", None))
    return X


def _select(X: Any, layout: str, names: Sequence[str], optional: Sequence[str]) -> Any:
    """Return the columns of a model, in its order, if X has further ones and none is absent that must be there."""
    given = list(X.columns)
    if given != list(names) and sorted(map(str, given)) == sorted(names):
        raise ValueError(
            "The feature names should match those that were passed during fit.\n"
            "Feature names must be in the same order as they were in fit. Give X[list(model.feature_names_in_)]."
        )
    has_all = all(name in given or name in optional for name in names)
    if not has_all or set(given) <= set(names):
        return X
    selection = [name for name in names if name in given]
    repeated = [name for name in selection if given.count(name) > 1]
    if repeated:
        raise ValueError(f"X: has {given.count(repeated[0])} columns named {repeated[0]!r}; rename all but one.")
    return X[selection] if layout == "pandas" else X.select(selection)


# -- the form of a column ---------------------------------------------------------------------------------
def _pandas_form(column: pd.Series) -> ColumnForm:
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        categories = tuple(dtype.categories.tolist())
        is_plain = all(isinstance(value, str | int | float) for value in categories)  # a file holds no intervals
        if not is_plain or len(categories) > MAX_CATEGORIES:
            return ColumnForm(OTHER, "category")
        return ColumnForm(CATEGORY, "category", categories=categories)
    if _is_object(dtype):
        kind = _OBJECT_KINDS.get(value_type(column), OTHER)
        if kind == TEXT:
            return ColumnForm(kind, "object", text_marker(column), has_points=_has_points(column))
        return ColumnForm(kind, "object", missing_marker(column.to_numpy()))
    if _is_string(dtype):
        return ColumnForm(TEXT, str(dtype), text_marker(column), has_points=_has_points(column))
    return ColumnForm(NUMBER if is_number(column) else OTHER, str(dtype))


def _polars_form(column: Any) -> ColumnForm:
    dtype = str(column.dtype)
    if is_polars_number(column.dtype) or dtype == "Boolean":
        return ColumnForm(NUMBER, "bool" if dtype == "Boolean" else "float64")
    is_text = dtype.startswith((*POLARS_TEXTS, "Categorical", "Enum"))
    is_empty = dtype in POLARS_TEXTS and not column.null_count() and (column == "").any()
    marker = EMPTY if is_empty else "None"
    return ColumnForm(TEXT if is_text else OTHER, "object", marker, has_points=is_text and _has_points(column))


def _has_polars_form(column: Any, form: ColumnForm) -> bool:
    other = _polars_form(column)
    if other.kind != form.kind or other.has_points > form.has_points:
        return False
    if str(column.dtype) not in POLARS_TEXTS:
        return True
    return not (column.null_count() if form.marker == EMPTY else (column == "").any())


# -- new rows ---------------------------------------------------------------------------------------------
def _conform_column(column: pd.Series, form: ColumnForm) -> pd.Series | None:
    """Return a column in the form that it had, or None if it has it already."""
    if form.kind == TEXT and (_is_object(column.dtype) or _is_string(column.dtype)):
        marked = mark_empty(column, form.marker)
        if marked is not column:
            conformed = _conform_column(marked, form)
            return marked if conformed is None else conformed
    dtype = column.dtype
    if form.kind == NUMBER and form.dtype != "object":
        has_form = _is_plain_number(dtype, form) or str(dtype) == form.dtype
        return None if has_form else _conform_numbers(column, form.dtype)
    if form.kind == CATEGORY:
        is_category = isinstance(dtype, pd.CategoricalDtype)
        has_form = is_category and _are_texts(dtype.categories) == _are_texts(form.categories)
        return None if has_form else _conform_categories(column, form.categories)
    if form.dtype != "object":
        if (str(dtype) == form.dtype and _has_texts_of(column, form)) or form.dtype == "category":
            return None
        try:
            return (as_texts(column, points=form.has_points) if form.kind == TEXT else column).astype(form.dtype)
        except (TypeError, ValueError, ImportError):  # not such values, or a type of a package that is not here
            return as_texts(column, points=form.has_points) if form.kind == TEXT else None
    kind = _OBJECT_KINDS.get(value_type(column), OTHER)
    has_kind = (form.kind == kind and _has_texts_of(column, form)) or form.kind == OTHER or column.isna().all()
    has_form = _is_object(dtype) and has_kind
    if not has_form and form.kind == TEXT:
        column = as_texts(column, points=form.has_points)
    elif not has_form and form.kind == NUMBER and not is_number(column):
        column = as_numbers(column, finite=False)
    values = column.astype(object).to_numpy()
    marked = mark_missing(values, form.marker)
    return None if has_form and marked is values else pd.Series(marked, index=column.index, dtype=object)


def _is_plain_number(dtype: Any, form: ColumnForm) -> bool:
    """Tell whether numbers are of a type of NumPy, in a column that was of such a type too."""
    return form.kind == NUMBER and form.dtype != "object" and isinstance(dtype, np.dtype) and dtype.kind in "biuf"


def _has_points(values: Iterable[Any]) -> bool:
    if hasattr(values, "unique"):
        with suppress(TypeError):  # lists among the values, say
            values = values.unique()  # to look at every text in Python takes longer than the model
    return any(isinstance(value, str) and value.endswith(".0") for value in values)


def _has_texts_of(column: pd.Series, form: ColumnForm) -> bool:
    """Tell whether texts can stay as they are: numbers with a point only where there were some."""
    return form.kind != TEXT or form.has_points or not _has_points(column)


def _are_texts(categories: Iterable[Any]) -> bool:
    return all(isinstance(value, str) for value in categories)


def _is_object(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype) and dtype.kind == "O"


def _is_string(dtype: Any) -> bool:
    return not isinstance(dtype, pd.CategoricalDtype) and not _is_object(dtype) and pd.api.types.is_string_dtype(dtype)


def _conform_numbers(column: pd.Series, dtype: str) -> pd.Series:
    """Return numbers in the NumPy type fitted on, or as float64 where that cannot hold them."""
    if pd.api.types.is_integer_dtype(column.dtype) and not column.isna().any():
        return column.astype(np.uint64 if column.min() > np.iinfo(np.int64).max else np.int64)  # all digits
    numbers = as_numbers(column, finite=False)
    if dtype == "bool" and numbers.isin([0.0, 1.0]).all():
        return numbers.astype(bool)
    return numbers


def _conform_categories(column: pd.Series, categories: Sequence[Any]) -> pd.Series:
    """Return categories in the order fitted on, with values not seen there behind them."""
    if _are_texts(categories):
        column = as_texts(column, points=_has_points(categories))
    values = column.astype(object)
    unseen = [value for value in values[values.notna()].unique() if value not in set(categories)]
    return pd.Series(pd.Categorical(values, categories=[*categories, *unseen]), index=column.index)


# -- arrays and lists -------------------------------------------------------------------------------------
def _array_marker(X: Any, layout: str) -> str:
    """Return how an array of objects, or a list of rows, writes missing values."""
    if layout == "rows":
        return missing_marker(object_array([value for row in X for value in row]))
    if layout == "array" and _is_object(getattr(X, "dtype", None)):
        return missing_marker(np.asarray(X))
    return "NaN"


def _mark_array(X: Any, layout: str, marker: str) -> Any:
    """Return X with its missing values marked in one way; X itself if they are."""
    if layout == "array":
        return mark_missing(X, marker) if isinstance(X, np.ndarray) and _is_object(X.dtype) else X
    flat = object_array([value for row in X for value in row])
    marked = mark_missing(flat, marker)
    if marked is flat:
        return X
    cells = iter(marked.tolist())
    return type(X)([[next(cells) for _ in row] for row in X])
