"""Read what `fit` was given into training data, checked once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import infer_dtype
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from optfair.errors import brief_repr
from optfair.inputs.alignment import check_row_labels, check_same_rows
from optfair.inputs.clusters import encode_clusters
from optfair.inputs.containers import take_rows
from optfair.inputs.labels import (
    LABEL_TYPES,
    check_weights,
    encode_classes,
    encode_groups,
    encode_partial_groups,
    object_array,
    refuse_continuous,
)
from optfair.inputs.training_data import TrainingData
from optfair.inputs.values import check_text, exact_column, refuse_equal_types, refuse_gradients, several_types

LARGEST_WEIGHT = 1e100  # beyond, squares and products with numbers of X overflow in models


def read_training_data(
    X: Any,
    y: Any,
    groups: Callable[[], Any],
    sensitive_features: Any,
    sample_weight: Any,
    n: int,
    caller: str,
    *,
    missing: str = "error",
    step: str = "",
    classes: Iterable[Hashable] | None = None,
    cluster: Any = None,
) -> TrainingData:
    """Return everything that `fit` was given, checked; rows of weight zero are left out.

    groups : gives the group of each row, and is called once y is known to be sound. sensitive_features : the argument
    of `fit`, whose row labels must be those of X. n : rows of X. missing : what a missing group gets: "error", "group",
    or "infer", where it stays unknown. step : what else a user can do about an error. classes : those a fitted model
    knows. cluster : the person of each row, or None.
    """
    labels, group_values = check_labels(y, caller), groups()
    weight = check_weights(sample_weight, n)
    if weight is not None:
        weight = _count_people(weight)
    check_same_rows(X=range(n), y=labels, sample_weight=weight, sensitive_features=sensitive_features)
    check_row_labels(X=X, y=y, sensitive_features=sensitive_features, sample_weight=sample_weight, cluster=cluster)
    clusters = encode_clusters(cluster, n)
    if missing == "infer":
        partial = encode_partial_groups(group_values, n)
        a, group_names = partial.codes, partial.names
    else:
        a, group_names = encode_groups(group_values, n, missing=missing, step=step)
    if len(group_names) > max(10, n // 3):
        raise ValueError(
            f"sensitive_features: {len(group_names)} groups among {n} rows; cut a continuous attribute into a few "
            "bands."
        )
    positions = np.arange(n)
    if weight is not None and not weight.all():
        positions = np.flatnonzero(weight)
        X, labels, weight = take_rows(X, positions), labels[positions], weight[positions]
        a, group_names = _present_groups(a[positions], group_names)
    codes, index = encode_classes(labels, classes, name="y")
    if len(index) < 2:
        raise ValueError(f"y: has one class, {index.tolist()[0]!r}; at least two classes are needed to choose from.")
    names = object_array(index.tolist())
    if labels.dtype.kind != "O":
        # Wide enough for classes that a fitted model knows and y does not have.
        wide: dict[str, Any] = {} if classes is None else {"U": "U", "i": np.int64, "u": np.int64}
        names = names.astype(wide.get(labels.dtype.kind, labels.dtype))
    return TrainingData(X, a, codes, weight, group_names, names, positions, n, clusters)


def _present_groups(a: np.ndarray, names: pd.Index) -> tuple[np.ndarray, pd.Index]:
    """Return codes and names of the groups that occur; unknown ones stay −1."""
    present = np.unique(a[a >= 0])
    if not len(present):
        raise ValueError("sample_weight: is zero for everybody whose group is known; at least some must count.")
    codes = np.full(len(names) + 1, -1, dtype=np.intp)  # an unknown group, coded −1, is the last
    codes[present] = np.arange(len(present))
    return codes[a], names[present]


def _count_people(weight: np.ndarray) -> np.ndarray:
    """Return weights w · max(1, Σw / Σw²).

    Weights below one (such as those that sum to one) count as many people as they speak of in effect: models and
    calibration weigh what they see against what they expect.
    """
    if weight.max() > LARGEST_WEIGHT:
        raise ValueError(
            f"sample_weight: the largest is {weight.max():.3g}; must be at most {LARGEST_WEIGHT:g}; divide the weights "
            "by their mean."
        )
    exponent = int(np.frexp(weight.max())[1])
    scaled = np.ldexp(weight, -exponent)  # no digit changes, and squares stay finite
    people = np.ldexp(float(scaled.sum() / (scaled @ scaled)), -exponent)
    return np.asarray(weight * max(1.0, float(people)))


def check_labels(y: Any, caller: str) -> np.ndarray:
    """Return one label per row; missing and continuous ones are refused, and what cannot be a label."""
    if y is None:
        raise ValueError(f"{caller} requires y to be passed, but the target y is None; give one label per row.")
    labels = _label_column(y)
    kind = labels.dtype.kind
    if kind == "O":
        missing = pd.isna(labels)
        if missing.any():
            raise ValueError(f"y: {int(missing.sum())} of {len(labels)} rows are missing; drop them or fill them in.")
        refuse_equal_types(labels, "y")
        labels = _plain_objects(labels)
    if kind == "f":
        if not np.isfinite(labels).all():
            raise ValueError(
                f"y: {int((~np.isfinite(labels)).sum())} of {len(labels)} rows are NaN or infinite; drop them or fill "
                "them in."
            )
        refuse_continuous(labels[labels != np.rint(labels)].tolist(), "y")
    check_classification_targets(labels)
    return labels


def _label_column(y: Any) -> np.ndarray:
    """Return y as an array (n,) of its own type."""
    refuse_gradients(y, "y")
    if isinstance(y, pd.DataFrame) and y.shape[1] == 1:
        values = np.asarray(exact_column(y.iloc[:, 0])).reshape(-1, 1)  # of which scikit-learn's warning tells
    else:
        try:
            values = np.asarray(exact_column(y))
        except ValueError:  # ragged lists
            raise ValueError("y: its rows have different lengths; give one label per row.") from None
    if values.dtype.kind == "U" and isinstance(y, (list, tuple)) and not all(isinstance(label, str) for label in y):
        values = object_array(y)  # NumPy has turned numbers and missing values into texts
    if values.dtype.kind in "cSV":
        reason = "Complex data not supported" if values.dtype.kind == "c" else f"has labels of type {values.dtype}"
        raise ValueError(f"y: {reason}; {LABEL_TYPES}.")
    if values.ndim == 0 or values.ndim > 2 or (values.ndim == 2 and values.shape[1] != 1):
        raise ValueError(f"y: should be a 1d array, got an array of shape {values.shape}; give one label per row.")
    return np.asarray(column_or_1d(values, warn=True, dtype=values.dtype))


def _plain_objects(labels: np.ndarray) -> np.ndarray:
    """Return objects that are all integers, booleans or floats as such; objects that are no texts are refused."""
    kind = infer_dtype(labels, skipna=False)
    if kind == "string":
        check_text(set(labels), "y")
        return labels
    if kind in ("integer", "boolean", "floating"):
        numbers = np.array(labels.tolist())
        if numbers.dtype.kind in "iubf":
            return numbers
    if len(set(map(type, labels))) > 1 and (types := several_types(labels)):
        raise ValueError(f"y: Unknown label type: several, {types}; make them one, e.g. by astype(str).")
    stranger = brief_repr(labels[0], 40)
    raise ValueError(f"y: Unknown label type: {type(labels[0]).__name__}, such as {stranger}; {LABEL_TYPES}.")
