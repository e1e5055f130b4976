"""Select rows and columns of the user's X, while the base estimator receives it as it was given.

X is a 2-d array of any dtype, a scipy sparse matrix, a pandas or polars data frame, a list of rows, or one text per
row (list, Series or 1-d array), or a torch data set whose items begin with x. Nothing here changes or converts it;
polars and torch are recognised, never imported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from scipy import sparse

from optfair.errors import SHOWN, brief_repr
from optfair.inputs.labels import object_array

Source: TypeAlias = str | int | list[Any] | Callable[[Any], Any] | None

ARGUMENT = "sensitive_features"


def take_rows(X: Any, index: Any) -> Any:
    """Return X[index] by position, of the type of X.   index: positions (k,), repetitions allowed, or a mask (n,)"""
    index = np.asarray(index)
    index = np.flatnonzero(index) if index.dtype == bool else index.astype(np.intp)
    if sparse.issparse(X):
        return X.tocsr()[index].asformat(X.format)
    if isinstance(X, (pd.DataFrame, pd.Series, pd.Index)):
        return X.take(index)
    if isinstance(X, (list, tuple)):
        return type(X)([X[i] for i in index])
    if is_dataset(X):
        return sys.modules["torch.utils.data"].Subset(X, index.tolist())
    return X[index]


def layout_of(X: Any) -> str:
    """Return the kind of container X is.

    "sparse", "pandas", "polars", "array" (2-d or more), "rows" (a list of them), "flat" (one value per row) or
    "dataset" (of torch, read item by item).
    """
    if is_dataset(X):
        return "dataset"
    if sparse.issparse(X):
        return "sparse"
    if isinstance(X, pd.DataFrame):
        return "pandas"
    if is_polars(X) and type(X).__name__ == "DataFrame":
        return "polars"
    if isinstance(X, (pd.Series, pd.Index)) or (is_polars(X) and type(X).__name__ == "Series"):
        return "flat"
    if isinstance(X, (list, tuple)):
        return "rows" if len(X) and isinstance(X[0], (list, tuple, np.ndarray)) else "flat"
    dimensions = getattr(X, "ndim", 0)
    if hasattr(X, "__array__") and dimensions:
        return "flat" if dimensions == 1 else "array"
    raise ValueError(
        f"X: is a {type(X).__name__}; must be a 2-d array, a sparse matrix, a pandas or polars data frame, a list of "
        "rows, or one text per row."
    )


def as_table(X: Any) -> Any:
    """Return X itself where it is of a known kind, else (whatever else numpy can read) the array of it."""
    try:
        layout_of(X)
    except ValueError:
        return np.asarray(X) if hasattr(X, "__array__") else X
    return X


def is_dataset(X: Any) -> bool:
    """Tell whether X is a torch ``Dataset``, read item by item; torch itself is never imported here."""
    data = sys.modules.get("torch.utils.data")
    return data is not None and isinstance(X, data.Dataset)


def check_dataset(dataset: Any) -> None:
    """Check that a data set is map-style (with a length and items by position), and not empty."""
    iterable = isinstance(dataset, sys.modules["torch.utils.data"].IterableDataset)
    if iterable or not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
        raise ValueError(
            f"X: {type(dataset).__name__} gives its items in its own order only; must be a map-style dataset, with "
            "__len__ and __getitem__."
        )
    if len(dataset) == 0:
        raise ValueError(f"X: {type(dataset).__name__} has no items; give at least one for each of two classes.")


def read_dataset_labels(dataset: Any) -> tuple[list[Any], list[Any] | None]:
    """Return (y_i), (group_i) of the items (x_i, y_i, group_i) or (x_i, y_i) of a data set; no groups are None.

    One pass in order that keeps labels only. A data set with a method ``labels_and_groups()`` is asked for both
    instead: `ImageDataset` need not decode an image.
    """
    check_dataset(dataset)
    if hasattr(dataset, "labels_and_groups"):
        labels, groups = dataset.labels_and_groups()
        return list(labels), None if groups is None else list(groups)
    labels, groups = [], []
    for row in range(len(dataset)):
        item = dataset[row]
        if not isinstance(item, tuple | list) or len(item) < 2:
            raise ValueError(
                f"y: missing, and item {row} of the dataset has no label; give y, or items (x, y) or (x, y, group)."
            )
        labels.append(_python_label(item[1]))
        if len(item) > 2:
            groups.append(_python_label(item[2]))
    if groups and len(groups) != len(labels):
        raise ValueError(
            f"X: {len(groups)} of {len(labels)} items of the dataset have a group; all must have one, or none."
        )
    return labels, groups or None


def _python_label(label: Any) -> Any:
    """Return zero-dimensional tensors and numpy scalars as Python objects, other labels as they are."""
    return label.item() if getattr(label, "ndim", None) == 0 and hasattr(label, "item") else label


def item_features(item: Any) -> np.ndarray:
    """Return x of an item (x, ...) of a data set."""
    return np.asarray(item[0] if isinstance(item, (list, tuple)) else item)


def is_polars(X: Any) -> bool:
    """Tell whether X is an object of polars."""
    return type(X).__module__.partition(".")[0] == "polars"


def read_groups(source: Source, X: Any) -> Any:
    """Return the groups that ``sensitive_features`` finds in X, for ``encode_groups``; None gives None.

    source : a column name; a position (negative ones count from the end); a list of names or positions; or a
        callable X -> groups, whose result is returned as it is. One column gives 1-d values, a list the pandas frame
        of these columns in this order, named as in X (by position, where X has no names).

    In a data frame an int is a name if any column's name is an int, otherwise a position.
    """
    if source is None:
        return None
    if callable(source):
        return source(X)
    layout, positions = layout_of(X), _positions(source, X)
    if layout == "pandas":
        return X.iloc[:, positions] if isinstance(source, list) else X.iloc[:, positions[0]]
    if layout == "polars":
        names: Sequence[Hashable] = [X.columns[k] for k in positions]
        columns = [polars_values(X[:, k]) for k in positions]
    else:
        names = positions
        if layout == "sparse":
            columns = list(X.tocsc()[:, positions].toarray().T)
        elif layout == "rows":
            columns = [object_array([row[k] for row in X]) for k in positions]
        else:
            columns = [np.asarray(X[:, k]) for k in positions]
    if isinstance(source, list):
        return pd.DataFrame(dict(zip(names, columns, strict=True)))
    return pd.Series(columns[0], name=names[0]) if layout == "polars" else columns[0]


def drop_columns(X: Any, source: Source) -> Any:
    """Return X without the columns of ``sensitive_features``, of the same type; X itself for None and callables."""
    if source is None or callable(source):
        return X
    layout, positions = layout_of(X), _positions(source, X)
    if layout == "array":
        return np.delete(X, positions, axis=1) if isinstance(X, np.ndarray) else X[:, _others(X.shape[1], positions)]
    if layout == "rows":
        keep = _others(len(X[0]), positions)
        return type(X)([row[keep] if isinstance(row, np.ndarray) else type(row)([row[k] for k in keep]) for row in X])
    keep = _others(X.shape[1], positions)
    if layout == "pandas":
        return X.iloc[:, keep]
    if layout == "polars":
        return X.select([X.columns[k] for k in keep])
    return X.tocsc()[:, keep].asformat(X.format)


def has_columns(X: Any, source: Source, n_columns: int | None = None) -> bool:
    """Tell whether X holds the columns of ``sensitive_features``.

    None gives False and a callable True. Names: whether they are all among the columns of X (False without column
    names); some but not all is an error. Positions: whether they are within X, or, when ``n_columns`` says how many
    columns there were with them, whether X has that many: only this tells X without its column 0 from X.
    """
    if source is None or callable(source):
        return source is not None
    items = _items(source)
    layout = layout_of(X)
    if layout == "flat":
        return False
    names, width = _names(X, layout), width_of(X, layout)
    by_name = [item for item in items if _is_name(item, names)]
    present = [item for item in by_name if item in names]
    if present and len(present) < len(by_name):
        absent = next(item for item in by_name if item not in names)
        raise ValueError(
            f"{ARGUMENT}={brief_repr(source)}: X has {present[0]!r} but not {absent!r}; give all of them or none."
        )
    if len(by_name) == len(items):
        return bool(present)
    if len(present) < len(by_name):
        return False
    if n_columns is not None:
        return width == n_columns
    return all(-width <= item < width for item in items if not _is_name(item, names))


def _items(source: Any) -> list[Any]:
    """Return the names and positions asked for; their types are checked here."""
    items = source if isinstance(source, list) else [source]
    if not items:
        raise ValueError(f"{ARGUMENT}=[]: is empty; name at least one column, or give None.")
    for item in items:
        if isinstance(item, (bool, np.bool)) or not isinstance(item, (str, int, np.integer)):
            raise ValueError(
                f"{ARGUMENT}={brief_repr(source)}: must be None, a column name, a position, a list of these, or a "
                "callable X -> groups."
            )
    return [item if isinstance(item, str) else int(item) for item in items]


def _positions(source: Any, X: Any) -> list[int]:
    """Return where the columns asked for stand in X, each in 0..d−1."""
    items, layout = _items(source), layout_of(X)
    if layout == "flat":
        raise ValueError(
            f"{ARGUMENT}={brief_repr(source)}: X is one value per row and has no columns; give a callable X -> groups."
        )
    names, width = _names(X, layout), width_of(X, layout)
    positions: list[int] = []
    for item in items:
        if _is_name(item, names):
            position = _find(item, names, X)
        elif -width <= item < width:
            position = item % width
        else:
            raise ValueError(
                f"{ARGUMENT}={item}: is not a position in X, which has {width} columns; must be at least {-width} "
                f"and less than {width}."
            )
        if position in positions:
            raise ValueError(f"{ARGUMENT}={brief_repr(source)}: has column {item!r} twice; give each one once.")
        positions.append(position)
    return positions


def _find(name: Hashable, names: list[Hashable], X: Any) -> int:
    if not names:
        raise ValueError(
            f"{ARGUMENT}={name!r}: X is a {type(X).__name__} without column names; give a position, or X as a data "
            "frame."
        )
    times = names.count(name)
    if times == 1:
        return names.index(name)
    if times:
        raise ValueError(f"{ARGUMENT}={name!r}: X has {times} columns of this name; must be one.")
    rest = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    columns = ", ".join(brief_repr(column) for column in names[:SHOWN])
    raise ValueError(f"{ARGUMENT}={name!r}: is not among the columns of X: {columns}{rest}.")


def _is_name(item: Any, names: list[Hashable]) -> bool:
    return isinstance(item, str) or any(isinstance(n, (int, np.integer)) and not isinstance(n, bool) for n in names)


def _names(X: Any, layout: str) -> list[Hashable]:
    return list(X.columns) if layout in ("pandas", "polars") else []


def width_of(X: Any, layout: str) -> int:
    """Return the number of columns of X."""
    if layout != "rows":
        if len(X.shape) != 2:
            raise ValueError(f"X: has {len(X.shape)} dimensions; must have 2 for {ARGUMENT} to be among its columns.")
        return int(X.shape[1])
    widths = {len(row) for row in X}
    if len(widths) > 1:
        raise ValueError(f"X: has rows of {min(widths)} and of {max(widths)} values; all must have the same number.")
    return widths.pop()


def _others(width: int, positions: list[int]) -> list[int]:
    return [k for k in range(width) if k not in positions]


def polars_values(column: Any) -> np.ndarray:
    """Return a polars column as numbers, or as Python objects (without pyarrow, which to_pandas would need)."""
    if is_polars_number(column.dtype) and not column.null_count():
        return np.asarray(column.to_numpy())
    return object_array(column.to_list())


def is_polars_number(dtype: Any) -> bool:
    """Tell whether numpy has such numbers: it has no decimals, and no integers of 128 bits."""
    return bool(dtype.is_numeric() and not dtype.is_decimal() and str(dtype) not in ("Int128", "UInt128"))
