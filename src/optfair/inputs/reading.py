"""Read what `fit` was given into training data, checked once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite

from optfair.inputs.alignment import check_row_labels, check_same_rows
from optfair.inputs.clusters import encode_clusters
from optfair.inputs.containers import take_rows
from optfair.inputs.labels import check_weights, encode_classes, encode_groups, object_array
from optfair.inputs.training_data import TrainingData


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
    classes: Iterable[Hashable] | None = None,
    cluster: Any = None,
) -> TrainingData:
    """Return everything that `fit` was given, checked; rows of weight zero are left out.

    groups : gives the group of each row, and is called once y is known to be sound. sensitive_features : the argument
    of `fit`, whose row labels must be those of X. n : rows of X. missing : what a missing group gets. classes : those
    a fitted model knows. cluster : the person of each row, or None.
    """
    labels, group_values = _check_labels(y, caller), groups()
    weight = check_weights(sample_weight, n)
    if weight is not None:
        # Weights below one (such as those that sum to one) count as many people as they speak of in effect: models
        # and calibration weigh what they see against what they expect.
        weight = weight * max(1.0, float(weight.sum() / (weight @ weight)))
    check_same_rows(X=range(n), y=labels, sample_weight=weight, sensitive_features=sensitive_features)
    check_row_labels(X=X, y=y, sensitive_features=sensitive_features, sample_weight=sample_weight, cluster=cluster)
    clusters = encode_clusters(cluster, n)
    a, group_names = encode_groups(group_values, n, missing=missing)
    if len(group_names) > max(10, n // 3):
        raise ValueError(
            f"sensitive_features: {len(group_names)} groups among {n} rows; cut a continuous attribute into a few "
            "bands."
        )
    positions = np.arange(n)
    if weight is not None and not weight.all():
        positions = np.flatnonzero(weight)
        X, labels, weight = take_rows(X, positions), labels[positions], weight[positions]
        present, a = np.unique(a[positions], return_inverse=True)
        group_names = group_names[present]
    codes, index = encode_classes(labels, classes, name="y")
    if len(index) < 2:
        raise ValueError(f"y: has one class, {index.tolist()[0]!r}; at least two classes are needed to choose from.")
    names = object_array(index.tolist())
    if labels.dtype.kind != "O":
        # Wide enough for classes that a fitted model knows and y does not have.
        wide: dict[str, Any] = {} if classes is None else {"U": "U", "i": np.int64, "u": np.int64}
        names = names.astype(wide.get(labels.dtype.kind, labels.dtype))
    return TrainingData(X, a, codes, weight, group_names, names, positions, n, clusters)


def _check_labels(y: Any, caller: str) -> np.ndarray:
    """Return one label per row; missing and continuous ones are refused."""
    if y is None:
        raise ValueError(f"{caller} requires y to be passed, but the target y is None; give one label per row.")
    labels = column_or_1d(y, warn=True)
    if labels.dtype.kind == "O" and pd.isna(labels).any():
        raise ValueError(
            f"y: {int(pd.isna(labels).sum())} of {len(labels)} rows are missing; drop them or fill them in."
        )
    if labels.dtype.kind in "fc":
        assert_all_finite(labels, input_name="y")
    check_classification_targets(labels)
    return labels
