"""Count labelled data into the joint confusion tensor and the second moments that carry all its uncertainty.

    J[a,i,j] = Σ_n w_n 1[A_n=a, Y_n=i] h_nj / Σ w        (A, m, m), sums to 1
    S[a,i]   = Σ_n w_n² 1[A_n=a, Y_n=i] h_n h_nᵀ / (Σ w)²   (A, m, m, m); for labels S[a,i] is diagonal

h_n is the one-hot prediction or the row of probabilities. Everything else in this package is computed from
these two, so that the rows are read once however many questions follow.

Where several rows are of one person, w_n² is w_n times the weight of all rows of that person: by Cauchy–Schwarz,
(Σ_n w_n b_n)² ≤ (Σ_n w_n) Σ_n w_n b_n² over the rows of a person, so that no variance is below the true one, however
alike these rows are.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from optfair.errors import brief_names, brief_repr, warn
from optfair.inputs.alignment import check_same_rows
from optfair.inputs.clusters import encode_clusters
from optfair.inputs.labels import (
    MISSING_CHOICES,
    check_weights,
    encode_classes,
    encode_groups,
    encode_partial_groups,
    name_index,
    object_array,
    recode,
)
from optfair.inputs.values import check_columns, several_types
from optfair.utils.checks import ROW_SUM_SLACK, check_choice

MEASURED_CHOICES = (*MISSING_CHOICES, "drop")  # what a measurement can do about rows without a group


@dataclass(frozen=True, eq=False)
class ConfusionCounts:
    """Labelled rows, counted: ``tensor[a, i, j]`` is the share of group a and true class i predicted as j.

    tensor : (A, m, m), sums to 1. groups, classes : the A and m names.
    n_people : (A, m), rows of positive weight per group and true class.
    hard : True for unweighted labels (their counts are multinomial).
    second_moment : (A, m, m) for labels (a diagonal), (A, m, m, m) for probabilities.
    equal_weights : every row weighs the same and is another person. labelled : False where true classes are unknown:
    everybody is then counted under the first. n_clusters : people, where some have several rows, or None.
    """

    tensor: np.ndarray
    groups: pd.Index
    classes: pd.Index
    n_people: np.ndarray
    hard: bool
    second_moment: np.ndarray
    equal_weights: bool = True
    labelled: bool = True
    n_clusters: int | None = None

    @property
    def n_persons(self) -> int:
        """The number of people: of clusters where rows belong together, else of rows."""
        return int(self.n_people.sum()) if self.n_clusters is None else self.n_clusters

    @property
    def prior(self) -> np.ndarray:
        """P[a,i] = Σ_j J[a,i,j], (A, m)."""
        return self.tensor.sum(-1)

    @property
    def moments(self) -> np.ndarray:
        """S as full matrices, (A, m, m, m)."""
        if self.second_moment.ndim == 4:
            return self.second_moment
        return self.second_moment[..., None] * np.eye(len(self.classes))

    def without_labels(self) -> ConfusionCounts:
        """Return the same counts as of people whose true classes are unknown."""
        return replace(self, labelled=False)

    def effective_people(self, conditions: Any) -> np.ndarray:
        """Return the people in sets of cells, (L,): (Σw)²/Σw² where weights differ.   conditions: (L, A·m) of 0, 1"""
        if self.equal_weights:
            return np.asarray(conditions @ self.n_people.ravel(), dtype=float)
        squares = self.second_moment.sum(axis=tuple(range(2, self.second_moment.ndim)))
        return _ratio(np.square(conditions @ self.prior.ravel()), conditions @ squares.ravel())


def count_rows(
    y_true: Any,
    prediction: Any,
    sensitive_features: Any,
    sample_weight: Any = None,
    classes: Iterable[Hashable] | None = None,
    groups: Iterable[Hashable] | None = None,
    missing: str = "error",
    cluster: Any = None,
) -> ConfusionCounts:
    """Read and count labelled rows; see `optfair.metrics.group_confusion`."""
    n = check_same_rows(
        y_true=y_true,
        prediction=prediction,
        sensitive_features=sensitive_features,
        sample_weight=sample_weight,
        cluster=cluster,
    )
    group, group_names, positions = _read_groups(sensitive_features, n, missing)
    if groups is not None:
        index = name_index(groups, "groups")
        group, group_names = recode(group, list(group_names), index, "sensitive_features", "groups="), index
    weights, people = check_weights(sample_weight, n), encode_clusters(cluster, n)
    rows = read_labelled_rows(y_true, prediction, classes)
    true, h = rows.true[positions], rows.prediction[positions]
    weights, people = (None if column is None else column[positions] for column in (weights, people))
    counts = count_codes(group, true, h, weights, group_names, rows.classes, people)
    return counts if rows.labelled else replace(counts, labelled=False)


def _read_groups(sensitive_features: Any, n: int, missing: str) -> tuple[np.ndarray, pd.Index, np.ndarray | slice]:
    """Return the groups of the rows that are counted, their names, and which rows these are."""
    check_choice("missing", missing, MEASURED_CHOICES)
    if missing != "drop":
        return *encode_groups(sensitive_features, n, missing=missing), slice(None)
    partial = encode_partial_groups(sensitive_features, n)
    if partial.n_missing:
        warn(
            f"sensitive_features: {partial.n_missing} of {n} rows have a missing value and are left out; "
            "optfair.metrics.unknown_group_bounds tells what holds whatever their groups are."
        )
    positions = np.flatnonzero(partial.codes >= 0)
    return partial.codes[positions], partial.names, positions


@dataclass(frozen=True, eq=False)
class CodedRows:
    """True classes and predictions as codes.

    true : (n,) codes, all 0 where true classes are unknown. prediction : (n,) codes, or (n, m) probabilities.
    classes : their names. labelled : whether true classes are known.
    """

    true: np.ndarray
    prediction: np.ndarray
    classes: pd.Index
    labelled: bool


def read_labelled_rows(y_true: Any, prediction: Any, classes: Iterable[Hashable] | None = None) -> CodedRows:
    """Read true classes, which may be None, and predictions: labels, or probabilities of the classes."""
    if y_true is None:
        label, probabilities, names = read_prediction(prediction, _class_names(prediction, classes), fixed=True)
        h = label if probabilities is None else probabilities
        return CodedRows(np.zeros(len(h), dtype=int), h, names, False)
    true, true_names = encode_classes(y_true, classes)
    if classes is None and (types := several_types(true_names)):
        raise ValueError(
            f"y_true: holds labels of several types, {types}, without an order; use one, or give classes=."
        )
    label, probabilities, names = read_prediction(prediction, true_names, fixed=classes is not None)
    if len(names) != len(true_names) or list(names) != list(true_names):
        true = recode(true, list(true_names), names, "y_true", "classes=")
    return CodedRows(true, label if probabilities is None else probabilities, names, True)


def _class_names(prediction: Any, classes: Iterable[Hashable] | None) -> pd.Index:
    """Return the classes of predictions whose true classes are unknown."""
    if classes is not None:
        return name_index(classes, "classes")
    if np.ndim(prediction) == 2:
        raise ValueError("classes: missing; without y_true, name the classes that the columns of prediction stand for.")
    return encode_classes(prediction, name="prediction")[1]


def count_codes(
    group: np.ndarray,
    true: np.ndarray,
    prediction: np.ndarray,
    weights: np.ndarray | None,
    groups: pd.Index,
    classes: pd.Index,
    cluster: np.ndarray | None = None,
) -> ConfusionCounts:
    """Count rows by the codes of their group and true class, (n,) each.

    prediction : codes, (n,), or probabilities that sum to one, (n, m). cluster : codes of people, (n,), or None.
    """
    if prediction.ndim == 2 and np.isin(prediction, (0.0, 1.0)).all():
        prediction = prediction.argmax(axis=1)  # one-hot rows are labels
    if weights is not None and weights.min() == weights.max():
        weights = None  # equal weights are no weights, and counts are then multinomial
    A, m = len(groups), len(classes)
    cell = group * m + true
    weighted_cells = cell if weights is None else cell[weights > 0]
    # Powers of two change no digit of the shares, and the squares of very large or small weights stay finite.
    w = np.ones(len(cell)) if weights is None else np.ldexp(weights, -int(np.frexp(weights.max())[1]))
    labels, total = prediction.ndim == 1, w.sum()
    if cluster is not None:
        of_person = np.bincount(cluster, w)[cluster]
        cluster = None if np.array_equal(of_person, w) else cluster  # one row each
    squares = w * w if cluster is None else w * of_person
    if labels:
        first, second = (np.bincount(cell * m + prediction, x, A * m * m) for x in (w, squares))
    else:
        first, second = _soft_moments(cell, prediction, w, squares, A * m)
    equal_weights = weights is None and cluster is None
    return ConfusionCounts(
        tensor=first.reshape(A, m, m) / total,
        groups=groups,
        classes=classes,
        n_people=np.bincount(weighted_cells, minlength=A * m).reshape(A, m),
        hard=labels and equal_weights,
        second_moment=second.reshape((A, m, m) if labels else (A, m, m, m)) / total**2,
        equal_weights=equal_weights,
        n_clusters=None if cluster is None else len(np.unique(cluster)),
    )


def count_repeated(
    group: np.ndarray,
    true: np.ndarray,
    prediction: np.ndarray,
    times: np.ndarray,
    groups: pd.Index,
    classes: pd.Index,
) -> ConfusionCounts:
    """Count rows each of which stands for a number of people that are alike; all arrays are (n,) codes and numbers."""
    A, m = len(groups), len(classes)
    people, total = np.zeros((A, m, m), dtype=np.int64), int(times.sum())
    np.add.at(people, (group, true, prediction), times)
    return ConfusionCounts(people / total, groups, classes, people.sum(axis=2), True, people / float(total) ** 2)


def read_prediction(
    prediction: Any, classes: pd.Index, *, fixed: bool
) -> tuple[np.ndarray, np.ndarray | None, pd.Index]:
    """Return (codes, None, classes grown by the labels), or (codes, probabilities, classes)."""
    if prediction is None:
        raise ValueError("prediction: missing; give one label, or one row of probabilities, per row.")
    if np.ndim(prediction) != 2:
        codes, labels = encode_classes(prediction, name="prediction")
        if fixed:
            return recode(codes, list(labels), classes, "prediction", "classes="), None, classes
        union = list(dict.fromkeys([*classes, *labels]))
        try:
            union = sorted(union)
        except TypeError:
            stranger = next(label for label in labels if several_types([classes.tolist()[0], label]))
            raise ValueError(
                f"prediction: its labels, such as {brief_repr(stranger)}, are of another type than those of "
                f"y_true, such as {brief_repr(classes.tolist()[0])}; use the same labels, or give classes=."
            ) from None
        index = pd.Index(union, tupleize_cols=False)
        return recode(codes, list(labels), index, "prediction", "classes="), None, index
    probabilities = _check_probabilities(prediction, classes)
    return probabilities.argmax(1), probabilities, classes


def _check_probabilities(prediction: Any, classes: pd.Index) -> np.ndarray:
    """Return probabilities (n, m) whose rows sum to one."""
    try:
        h = np.asarray(prediction, dtype=float)
    except (TypeError, ValueError):
        raise ValueError("prediction: a 2-d prediction must hold probabilities, one column per class.") from None
    if h.shape[1] != len(classes):
        raise ValueError(
            f"prediction: has {h.shape[1]} columns for {len(classes)} classes, {brief_names(classes)}; needs one per "
            "class (name them all with classes=)."
        )
    check_columns(prediction, classes, "prediction")
    if not np.isfinite(h).all():
        raise ValueError(f"prediction: {int((~np.isfinite(h)).any(1).sum())} rows hold NaN or infinite values.")
    total = h.sum(1)
    bad = (np.abs(total - 1) > ROW_SUM_SLACK) | (h < 0).any(1)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"prediction: {int(bad.sum())} rows are not probabilities (row {row}: sum {total[row]:.4g}, "
            f"least {h[row].min():.4g}); entries must be at least 0 and sum to 1."
        )
    return h / total[:, None]


def _soft_moments(
    cell: np.ndarray, h: np.ndarray, w: np.ndarray, squares: np.ndarray, n_cells: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return Σ w h and Σ w² h hᵀ of each cell: one matrix product per cell over its rows, sorted together."""
    m = h.shape[1]
    order = np.argsort(cell, kind="stable")
    ends = np.cumsum(np.bincount(cell, minlength=n_cells))
    first, second = np.zeros((n_cells, m)), np.zeros((n_cells, m, m))
    for c, rows in enumerate(np.split(order, ends[:-1])):
        if len(rows):
            part = h[rows]
            first[c], second[c] = w[rows] @ part, (squares[rows, None] * part).T @ part
    return first, second


def _ratio(values: np.ndarray, mass: np.ndarray) -> np.ndarray:
    return np.divide(values, mass, out=np.zeros_like(values), where=mass > 0)


def object_column(names: pd.Index, codes: np.ndarray) -> pd.Series:
    """Return names[codes], every cell of its own Python type (tuples and integers included)."""
    return pd.Series(object_array(list(names))[codes], dtype=object)
