"""Check X at the door of an estimator: what no model can read, and what the default models cannot.

A model of the user may take missing values, texts or images, so X goes to it as it is. The default models read columns
of numbers; an array that is something else is refused here in one line, before scikit-learn prints it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from optfair.errors import brief_names, brief_repr
from optfair.inputs.containers import layout_of, width_of
from optfair.inputs.values import check_text, refuse_gradients

LARGEST = 1e150  # the square of a larger number overflows, and models standardise by squares
CONTAINERS = "must be a 2-d array, a sparse matrix, a pandas or polars data frame, a list of rows, or one text per row"


def check_table(X: Any) -> None:
    """Refuse an X that no model can read: none, a single value, columns whose names are not clear.

    A mapping is one record: whether it can be read depends on what was fitted.
    """
    if X is None:
        raise ValueError(f"X: is None; {CONTAINERS}.")
    if isinstance(X, (str, bytes)) or getattr(X, "ndim", 1) == 0:
        raise ValueError(f"X={brief_repr(X)}: {CONTAINERS}.")
    refuse_gradients(X, "X")
    if isinstance(X, pd.DataFrame) and X.columns.nlevels == 1:
        _check_column_names(list(X.columns))


def _check_column_names(names: list[Any]) -> None:
    check_text(names, "X")
    name, times = Counter(names).most_common(1)[0] if names else (None, 1)
    if times > 1:
        raise ValueError(f"X: has {times} columns named {brief_repr(name)}; give every column a name of its own.")
    texts = [name for name in names if isinstance(name, str)]
    if texts and len(texts) < len(names):
        other = next(name for name in names if not isinstance(name, str))
        raise TypeError(
            f"X: has column names of several types, {brief_names([texts[0], other])}; make them text: X.columns = "
            "X.columns.astype(str)."
        )


def check_numbers(X: Any, argument: str, default: str) -> None:
    """Refuse an X that a default model cannot read. Columns of data frames that are not numbers are not looked at.

    argument, default : what the message calls the model, as in "the default logistic regression (estimator=None)".
    """
    model, layout = f"the default {default} ({argument}=None)", layout_of(X)
    if layout in ("dataset", "polars"):
        return
    if layout == "pandas":
        _check_frame(X, model)
        return
    if layout == "rows":
        width_of(X, layout)
    array = X.tocoo().data if sparse.issparse(X) else np.asarray(X)
    if array.dtype.names:
        raise ValueError(
            f"X: is a structured array with the fields {brief_names(array.dtype.names)}; give pd.DataFrame(X)."
        )
    if layout == "flat":
        raise ValueError(
            f"X: has one dimension, and {model} reads columns of numbers. Reshape your data: X.reshape(-1, 1) if it is "
            "one column."
        )
    if layout != "sparse" and array.ndim > 2:
        raise ValueError(
            f"X: has shape {array.shape}, and {model} reads two dimensions; give X.reshape(len(X), -1), or an "
            "estimator that reads such data."
        )
    _check_values(array, model, layout == "sparse")


def _check_values(array: np.ndarray, model: str, is_flat: bool) -> None:
    kind = array.dtype.kind
    if kind == "c":
        raise ValueError("X: Complex data not supported; give real numbers, e.g. np.hstack([X.real, X.imag]).")
    if kind in "mM":
        raise ValueError(
            f"X: holds dates or durations ({array.dtype}), and {model} reads numbers; give e.g. the days since a date."
        )
    if kind in "OUS":
        array = _as_floats(array, model)
    if kind in "OUSf":
        usable = np.abs(array) <= array.dtype.type(min(LARGEST, float(np.finfo(array.dtype).max)))  # not of NaN
        if not usable.all():
            _refuse_value(array, ~usable, model, is_flat)


def _as_floats(array: np.ndarray, model: str) -> np.ndarray:
    """Return numbers that are stored as objects or texts as floats."""
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError):
        place, stranger = next((place, cell) for place, cell in np.ndenumerate(array) if not _is_floatable(cell))
        text = f"X: holds {brief_repr(_python_value(stranger), 40)} ({_place(place)})"
        if isinstance(stranger, (str, bytes)):
            raise ValueError(f"{text}, and {model} reads numbers; pass a Pipeline that encodes it.") from None
        raise TypeError(f"{text}; an argument must be a string or a number.") from None


def _is_floatable(cell: Any) -> bool:
    try:
        float(cell)
    except (TypeError, ValueError):
        return cell is None  # which NumPy reads as NaN
    return True


def _python_value(cell: Any) -> Any:
    return cell.item() if isinstance(cell, np.generic) else cell


def _refuse_value(array: np.ndarray, bad: np.ndarray, model: str, is_flat: bool) -> None:
    place = tuple(np.argwhere(bad)[0].tolist())
    value = array[place]
    position = "" if is_flat else f" ({_place(place)})"
    if np.isfinite(value):
        raise ValueError(f"X: holds {value:.3g}{position}, too large for {model}; divide the column by a power of ten.")
    times = (
        f"{int(bad.sum())} times NaN or inf, the first{position}"
        if bad.sum() > 1
        else f"{'NaN' if np.isnan(value) else 'inf'}{position}"
    )
    raise ValueError(
        f"X: holds {times}, which {model} cannot read; fill the cells in, or pass an estimator that takes NaN, such as "
        "HistGradientBoostingClassifier()."
    )


def _place(place: tuple[int, ...]) -> str:
    return ", ".join(f"{axis} {position}" for axis, position in zip(("row", "column"), place, strict=False))


def _check_frame(X: pd.DataFrame, model: str) -> None:
    """Refuse infinite and huge numbers in the columns of a data frame."""
    for position, dtype in enumerate(X.dtypes):
        if getattr(dtype, "kind", "") not in ("f", "c"):
            continue
        name, column = brief_repr(X.columns[position], 40), X.iloc[:, position]
        if dtype.kind == "c":
            raise ValueError(f"X: Complex data not supported, in the column {name}; give real numbers.")
        numbers = np.abs(column.to_numpy(dtype=np.float64, na_value=np.nan))
        if (numbers > LARGEST).any():
            size = "inf" if np.isinf(numbers).any() else f"{numbers[numbers > LARGEST][0]:.3g}"
            raise ValueError(
                f"X: the column {name} holds {size}, too large for {model}; replace the value, or divide the column by "
                "a power of ten."
            )
