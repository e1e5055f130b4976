"""Check labels, cells and tables of targets."""

from __future__ import annotations

from typing import Any

import numpy as np

from optfair.inputs.containers import is_dataset, read_dataset_labels
from optfair.inputs.labels import encode_classes, object_array
from optfair.inputs.reading import check_labels


def read_y(X: Any, y: Any) -> np.ndarray:
    """Return the labels (n,): y, or those of the items where X is a dataset and y is None."""
    if y is None:
        if not is_dataset(X):
            raise ValueError("TorchClassifier requires y to be passed, but the target y is None; give one label a row.")
        y = object_array(read_dataset_labels(X)[0])
        y = np.array(y.tolist()) if len({type(label) for label in y}) == 1 else y
    return check_labels(y, "TorchClassifier")


def encode_labels(labels: np.ndarray, weight: np.ndarray | None, classes: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return codes (n,) in 0..m−1 and the names (m,), sorted, or ``classes``.

    Labels of rows of weight zero are not among the classes; their code is 0.
    """
    positive = np.ones(len(labels), dtype=bool) if weight is None else weight > 0
    codes = np.zeros(len(labels), dtype=np.intp)
    codes[positive], index = encode_classes(labels[positive], classes, name="y")
    if len(index) < 2:
        raise ValueError(f"y: has one class, {index.tolist()[0]!r}; at least two classes are needed to choose from.")
    if labels.dtype.kind == "O":
        return codes, object_array(index.tolist())
    # The names in ``classes`` may be longer texts than those in y.
    return codes, np.array(index.tolist()) if classes is not None else np.array(index.tolist()).astype(labels.dtype)


def check_cells(cell: Any, n: int, n_cells: int) -> np.ndarray:
    """Return ``cell`` as an array (n,) of integers in 0..n_cells−1."""
    cell = np.asarray(cell)
    if cell.shape != (n,) or cell.dtype.kind not in "iu":
        raise ValueError(
            f"cell: has shape {cell.shape} and type {cell.dtype}; must be ({n},) integers, the row of table for each x."
        )
    if cell.min() < 0 or cell.max() >= n_cells:
        raise ValueError(f"cell: has values {cell.min()}..{cell.max()}, table {n_cells} rows; must be among these.")
    return cell.astype(np.intp)


def check_table(table: Any) -> np.ndarray:
    """Return ``table`` as an array (cells, m) of finite numbers of at least 0."""
    try:
        table = np.asarray(table, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("table: must be numbers, (cells, classes).") from None
    if table.ndim != 2 or table.shape[0] < 1 or table.shape[1] < 2:
        raise ValueError(f"table: has shape {table.shape}; must be (cells, classes) with at least two classes.")
    if not (np.isfinite(table).all() and (table >= 0).all()):
        raise ValueError(f"table: has the value {table[~(table >= 0) | ~np.isfinite(table)][0]:g}; must be at least 0.")
    return table
