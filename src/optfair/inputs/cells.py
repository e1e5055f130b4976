"""Read the cells of a column as numbers or as texts, and write what is missing in one way.

A missing value is None, NaN, NaT, NA, a null of polars or arrow, or a masked entry: all of these are one thing. So is
an empty text in a column of texts, as readers of CSV have it.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from decimal import Decimal
from types import NoneType
from typing import Any

import numpy as np
import pandas as pd

from optfair.inputs.labels import object_array
from optfair.inputs.placeholders import is_placeholder

# How a column of objects writes a missing value; a mixture becomes NaN. A column without gaps does not say.
EMPTY = "empty"  # of a column of texts whose only missing values are empty texts
MARKERS = {"None": None, "NaN": np.nan, "unknown": np.nan, EMPTY: ""}
MARKER_TYPES: dict[str, tuple[type, ...]] = {
    "None": (NoneType,),
    "NaN": (float,),
    "unknown": (NoneType, float),
    EMPTY: (),
}
FEW_ROWS = 64  # that are looked at faster one by one


def missing_marker(values: np.ndarray) -> str:
    """Return how an array of objects writes missing values: "None" if always None, "unknown" if it has none, "NaN"."""
    types = set(map(type, values[pd.isna(values)].tolist()))
    return "None" if types == {NoneType} else "NaN" if types else "unknown"


def mark_missing(values: np.ndarray, marker: str) -> np.ndarray:
    """Return objects whose missing values are all written as ``marker`` says; the same array if they are already."""
    gaps = pd.isna(values)
    strange = gaps.copy()
    strange[gaps] = [type(value) not in MARKER_TYPES[marker] for value in values[gaps].tolist()]
    if not strange.any():
        return values
    marked = values.copy()
    marked[strange] = MARKERS[marker]
    return marked


def text_marker(column: pd.Series) -> str:
    """Return how a column of texts writes missing values: as empty texts only where it has no other ones."""
    if not column.isna().any():
        return EMPTY if holds_empty(column) else "unknown"
    return missing_marker(column.to_numpy()) if column.dtype == object else "NaN"


def holds_empty(column: pd.Series) -> bool:
    """Tell whether a column holds an empty text."""
    if len(column) <= FEW_ROWS:
        return any(isinstance(value, str) and not value for value in column.tolist())
    return bool((column == "").any())


def mark_empty(column: pd.Series, marker: str) -> pd.Series:
    """Return texts whose missing values are written as ``marker`` says; mostly the column itself.

    Those are the empty texts, and with EMPTY the others. A column that had no missing values does not say.
    """
    if marker == EMPTY:
        return column.fillna("") if column.isna().any() else column
    if marker == "unknown" or not holds_empty(column):
        return column
    if column.dtype != object:
        return column.mask(column == "")
    values = column.to_numpy(copy=True)
    values[values == ""] = MARKERS[marker]
    return pd.Series(values, index=column.index, name=column.name, dtype=object)


def as_texts(column: pd.Series, *, points: bool = False, empty: bool = True) -> pd.Series:
    """Return each value as a text, missing ones as NaN: 7, 7.0 and "7" are the same, unless points count.

    empty : whether empty texts stay; else they are missing.
    """
    codes, values = _factorize(column)
    texts = object_array([*(cell_text(value, points=points) for value in values), np.nan])
    if not empty:
        texts[texts == ""] = np.nan
    return pd.Series(texts[codes], index=column.index, name=column.name, dtype=object)


def cell_text(value: Hashable, *, points: bool = False) -> str:
    """Return a value as a text: 7.0 and "7.0" are "7", unless points count. A zero has no sign."""
    text = str(value + 0.0 if isinstance(value, float) else value)
    return text[:-2] if not points and re.fullmatch(r"-?\d+\.0", text) else text


def as_numbers(column: pd.Series, *, finite: bool = True) -> pd.Series:
    """Return float64, missing ones as NaN; a text that is no number is an error, and infinity unless allowed."""
    if is_number(column):
        numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        codes, values = _factorize(column)
        numbers = np.array([*(_parse_number(value, column) for value in values), np.nan])[codes]
    infinite = np.flatnonzero(np.isinf(numbers) & finite)
    if len(infinite):
        raise ValueError(
            f"column {column.name!r}: {len(infinite)} values are infinite (the first in row {infinite[0] + 1}); give a "
            "number or leave the cell empty."
        )
    return pd.Series(numbers, index=column.index, name=column.name)


def is_number(column: pd.Series) -> bool:
    """Tell whether a column has a type of real numbers or truth values."""
    dtype = column.dtype
    return bool(pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_complex_dtype(dtype))


def value_type(column: pd.Series) -> str:
    """Return what pandas calls the values that are not missing; it would take NaT among numbers for a date."""
    return str(pd.api.types.infer_dtype(column[column.notna()]))


def type_error(column: pd.Series, step: str = "leave the column out") -> ValueError:
    """Return the error of values that are neither numbers nor texts. step : what else a user can do."""
    kind = value_type(column)
    kind = str(column.dtype) if kind in ("mixed", "unknown-array") and column.dtype != object else kind
    return ValueError(
        f"column {column.name!r}: holds values of type {kind}, which cannot be a feature; convert them to numbers or "
        f"texts, or {step}."
    )


def _factorize(column: pd.Series) -> tuple[np.ndarray, list[Any]]:
    """Return (the index of each value, or -1 where it is missing; the distinct values)."""
    try:
        codes, values = pd.factorize(column)
    except TypeError:  # lists
        raise type_error(column) from None
    return codes, pd.Index(values).tolist()


def _parse_number(value: Any, column: pd.Series) -> float:
    if isinstance(value, bool | int | float | Decimal | np.number | np.bool):
        return float(value)
    try:
        if not isinstance(value, str) or "_" in value:  # float("1_0") is 10
            raise ValueError
        return float(value) if value.strip() else np.nan  # an empty cell, as a reader of texts gives it
    except ValueError:
        row = int(np.flatnonzero((column == value).to_numpy())[0]) + 1
        raise ValueError(
            f"column {column.name!r}: {value!r} (row {row}) is not a number, and the column held numbers when the "
            f"model was fitted; correct it or leave the cell empty{_missing_hint(value)}."
        ) from None


def _missing_hint(value: Any) -> str:
    if not is_placeholder(value):
        return ""
    return f" (if {value!r} means missing: replace({value!r}, None), or --na '{value.strip()}' on the command line)"
