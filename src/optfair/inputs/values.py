"""Read a column of labels exactly: no digit is lost, different values stay different, every name can be written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from optfair.errors import brief_names, brief_repr

NUMBERS = (int, float, np.integer, np.floating)
BOOLEANS = (bool, np.bool)


def exact_column(values: Any) -> Any:
    """Return a column of numbers of pandas or polars that may be missing as the array of the same numbers.

    pandas' Int64, boolean and Float64, Arrow's numbers : of the NumPy type of that name, or of objects where some are
    missing; as float64, integers beyond 2⁵³ would be rounded and booleans become numbers. Anything else is returned as
    it is.
    """
    dtype = getattr(values, "dtype", None)
    if isinstance(values, (pd.Series, pd.Index, pd.api.extensions.ExtensionArray)):
        plain = getattr(dtype, "numpy_dtype", None)
        if isinstance(dtype, pd.api.extensions.ExtensionDtype) and isinstance(plain, np.dtype) and plain.kind in "iubf":
            return values.to_numpy(dtype=object if pd.isna(values).any() else plain)
    elif type(values).__module__.partition(".")[0] == "polars" and type(values).__name__ == "Series":
        return object_array(values.to_list()) if values.null_count() else values
    return values


def object_array(values: Sequence[Any]) -> np.ndarray:
    """Return (n,) objects: unlike np.array, tuples and lists stay single entries."""
    array = np.empty(len(values), dtype=object)
    for position, value in enumerate(values):
        array[position] = value
    return array


def as_array(values: Any, name: str) -> np.ndarray:
    """Return what a user gave as an array; lists as objects, because np.asarray(["a", 1]) turns the 1 into "1"."""
    refuse_gradients(values, name)
    if not isinstance(values, (list, tuple)):
        return np.asarray(exact_column(values))
    try:
        return np.array(values, dtype=object)
    except ValueError:  # ragged
        return object_array(values)


def refuse_gradients(values: Any, name: str) -> None:
    """Refuse a torch tensor whose gradient is asked for: it cannot be read as an array."""
    if getattr(values, "requires_grad", False) is True:
        raise ValueError(f"{name}: is a tensor that requires grad; give {name}.detach().")


def refuse_equal_types(values: Any, name: str) -> None:
    """Refuse a column of objects that holds 1 and True (or 0 and False), which Python takes for the same value."""
    dtype = getattr(values, "dtype", None)
    if not isinstance(dtype, np.dtype) or dtype.kind != "O":
        return
    kinds = set(map(type, values))
    if not (any(issubclass(kind, BOOLEANS) for kind in kinds) and any(_is_number_type(kind) for kind in kinds)):
        return
    truths = {bool(value) for value in values if isinstance(value, BOOLEANS)}
    number = next((v for v in values if _is_number_type(type(v)) and any(v == truth for truth in truths)), None)
    if number is not None:
        raise ValueError(
            f"{name}: holds both {number!r} and {bool(number)!r}, which are equal in Python and would become one; "
            "make them text, e.g. by astype(str)."
        )


def _is_number_type(kind: type) -> bool:
    return issubclass(kind, NUMBERS) and not issubclass(kind, BOOLEANS)


def check_text(names: Iterable[Any], name: str) -> None:
    """Refuse a name, or a tuple that holds one, with lone surrogates: no file, report or hash can hold it."""
    for label in names:
        if isinstance(label, tuple | list):
            check_text(label, name)
        elif isinstance(label, str) and not label.isascii():
            try:
                label.encode()
            except UnicodeEncodeError:
                raise ValueError(
                    f"{name}: {brief_repr(label)} is not valid text (a lone surrogate); read the data with its right "
                    "encoding, or replace the name."
                ) from None


def several_types(labels: Iterable[Any]) -> str:
    """Name labels of two types that cannot be ordered, e.g. "'a' (str) and 1 (int)"; "" if they can.

    >>> several_types(["b", "a", 1])
    "'b' (str) and 1 (int)"
    """
    first: Any = None
    for position, label in enumerate(labels):
        if position == 0:
            first = label
            continue
        try:
            _ = first < label
        except TypeError:
            return " and ".join(f"{brief_repr(value, 30)} ({type(value).__name__})" for value in (first, label))
    return ""


def check_columns(table: Any, names: pd.Index, argument: str, axis: str = "columns") -> None:
    """Refuse a data frame whose columns are not named by the classes in their order; what has no names passes.

    names : of the classes; default ones (0, 1, 2, ...) of either say nothing. A class may be written as text, "0" for
    0.
    axis : "columns", or "index" for the names of the rows.
    """
    labels = getattr(table, axis, None)
    if labels is None or callable(labels) or _is_default(labels) or _is_default(names):
        return
    columns, classes = list(labels), names.tolist()
    if columns == classes or list(map(str, columns)) == list(map(str, classes)):
        return
    if set(map(str, columns)) == set(map(str, classes)):
        raise ValueError(
            f"{argument}: {axis} {brief_names(columns)} are not in the order of classes {brief_names(classes)}; "
            "reorder them."
        )
    raise ValueError(
        f"{argument}: {axis} {brief_names(columns)} are not the classes {brief_names(classes)}; name them so, or give "
        "an array, whose columns are taken in this order."
    )


def _is_default(labels: Any) -> bool:
    return isinstance(labels, pd.RangeIndex) and (labels.start, labels.step) == (0, 1)
