"""The joint confusion tensor of labelled data, and the second moments that carry all its uncertainty.

    J[a,i,j] = Σ_n w_n 1[A_n=a, Y_n=i] h_nj / Σ w        (A, m, m), sums to 1
    S[a,i]   = Σ_n w_n² 1[A_n=a, Y_n=i] h_n h_nᵀ / (Σ w)²   (A, m, m, m); for labels S[a,i] is diagonal

h_n is the one-hot prediction or the row of probabilities. Everything else in this package is computed from
these two, so that the rows are read once however many questions follow.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from optfair.labels import (
    check_same_rows,
    check_weights,
    encode_classes,
    encode_groups,
    name_index,
    object_array,
    recode,
)

if TYPE_CHECKING:
    from optfair.metrics.intervals import ViolationInterval

SUM_TOLERANCE = 1e-3


@dataclass(frozen=True, eq=False)
class GroupConfusion:
    """Who was predicted what: `tensor[a, i, j]` = share of people of group a and true class i predicted as j.

    tensor : (A, m, m), sums to 1. groups, classes : the A and m names.
    n_people : (A, m), rows of positive weight per group and true class.
    hard : True for unweighted labels (their counts are multinomial).
    second_moment : (A, m, m) for labels (a diagonal), (A, m, m, m) for probabilities.
    """

    tensor: np.ndarray
    groups: pd.Index
    classes: pd.Index
    n_people: np.ndarray
    hard: bool
    second_moment: np.ndarray

    def __repr__(self) -> str:
        A, m = self.n_people.shape
        kind = "labels" if self.second_moment.ndim == 3 else "probabilities"
        people = int(self.n_people.sum())
        return f"<GroupConfusion of {people} people, {A} groups, {m} classes, by {kind}; see .to_frame()>"

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

    def to_frame(self) -> pd.DataFrame:
        """One line per cell: group, given (true class), outcome (predicted class), share, n."""
        A, m = self.n_people.shape
        group, given, outcome = (x.ravel() for x in np.indices((A, m, m)))
        return pd.DataFrame(
            {
                "group": object_column(self.groups, group),
                "given": object_column(self.classes, given),
                "outcome": object_column(self.classes, outcome),
                "share": self.tensor.ravel(),
                "n": np.repeat(self.n_people.ravel(), m),
            }
        )

    # The questions, asked without reading the rows again. `question`: reference, outcomes, attributes.
    # Imported when asked: those modules are written in terms of this class.
    def violation(self, criterion: Any = "dp", **question: Any) -> float:
        """max_k |D_k|; see `optfair.metrics.violation`."""
        from optfair.metrics.gaps import violation_of

        return violation_of(self, criterion, **question)

    def gaps(self, criterion: Any = "dp", **question: Any) -> pd.DataFrame:
        """One line per row of D; see `optfair.metrics.gaps`."""
        from optfair.metrics.gaps import gaps_of

        return gaps_of(self, criterion, **question)

    def group_rates(self) -> pd.DataFrame:
        """Selection rates, class-conditional rates and accuracy; see `optfair.metrics.group_rates`."""
        from optfair.metrics.gaps import rates_of

        return rates_of(self)

    def noise_floor(self, criterion: Any = "dp", **question: Any) -> float:
        """What a perfectly fair rule would show; see `optfair.metrics.noise_floor`."""
        from optfair.metrics.intervals import floor_of

        return floor_of(self, criterion, **question)

    def violation_interval(self, criterion: Any = "dp", **question: Any) -> ViolationInterval:
        """A confidence interval of the violation; see `optfair.metrics.violation_interval`."""
        from optfair.metrics.intervals import interval_of

        return interval_of(self, criterion, **question)


def group_confusion(
    y_true: Any,
    prediction: Any,
    *,
    sensitive_features: Any,
    sample_weight: Any = None,
    classes: Iterable[Hashable] | None = None,
    groups: Iterable[Hashable] | None = None,
) -> GroupConfusion:
    """The confusion tensor of each group.

    y_true : n labels. prediction : n labels, or (n, m) probabilities with columns in the order of `classes`.
    sensitive_features : the group of each row; several columns make intersections.
    sample_weight : n non-negative weights of the mean.
    classes : the order of the classes (default: sorted; for labels those of y_true and prediction together).
    groups : the order of the groups; may hold groups that have no rows here.
    """
    n = check_same_rows(
        y_true=y_true,
        prediction=prediction,
        sensitive_features=sensitive_features,
        sample_weight=sample_weight,
    )
    group, group_names = encode_groups(sensitive_features, n)
    if groups is not None:
        wanted = name_index(groups, "groups")
        group, group_names = recode(group, list(group_names), wanted, "sensitive_features", "groups"), wanted
    true, true_names = encode_classes(y_true, classes)
    weights = check_weights(sample_weight, n)
    if weights is not None and weights.min() == weights.max():
        weights = None  # equal weights are no weights, and counts are then multinomial
    label, probabilities, names = read_prediction(prediction, true_names, fixed=classes is not None)
    if len(names) != len(true_names) or list(names) != list(true_names):
        true = recode(true, list(true_names), names, "y_true", "classes")

    A, m = len(group_names), len(names)
    cell = group * m + true
    counted = cell if weights is None else cell[weights > 0]
    w = np.ones(n) if weights is None else weights
    if probabilities is None:
        place = cell * m + label
        first, second = (np.bincount(place, x, A * m * m) for x in (w, w * w))
    else:
        first, second = _soft_moments(cell, probabilities, w, A * m)
    total = w.sum()
    return GroupConfusion(
        tensor=first.reshape(A, m, m) / total,
        groups=group_names,
        classes=names,
        n_people=np.bincount(counted, minlength=A * m).reshape(A, m),
        hard=probabilities is None and weights is None,
        second_moment=second.reshape((A, m, m) if probabilities is None else (A, m, m, m)) / total**2,
    )


def read_prediction(
    prediction: Any, classes: pd.Index, *, fixed: bool
) -> tuple[np.ndarray, np.ndarray | None, pd.Index]:
    """(codes, None, classes grown by the labels), or (codes, probabilities, classes)."""
    if prediction is None:
        raise ValueError("prediction: missing; give one label, or one row of probabilities, per row.")
    if np.ndim(prediction) != 2:
        codes, labels = encode_classes(prediction, name="prediction")
        if fixed:
            return recode(codes, list(labels), classes, "prediction", "classes"), None, classes
        union = list(dict.fromkeys([*classes, *labels]))
        try:
            union = sorted(union)
        except TypeError:
            raise ValueError(
                f"prediction: its labels, such as {labels.tolist()[0]!r}, are of another type than those of "
                f"y_true, such as {classes.tolist()[0]!r}; use the same labels, or give classes=."
            ) from None
        index = pd.Index(union, tupleize_cols=False)
        return recode(codes, list(labels), index, "prediction", "classes"), None, index
    probabilities = _check_probabilities(prediction, classes)
    codes = probabilities.argmax(1)
    if np.isin(probabilities, (0.0, 1.0)).all():
        return codes, None, classes  # one-hot rows are labels
    return codes, probabilities, classes


def _check_probabilities(prediction: Any, classes: pd.Index) -> np.ndarray:
    columns = list(prediction.columns) if isinstance(prediction, pd.DataFrame) else None
    names = classes.tolist()
    if columns is not None and columns != names and set(columns) == set(names):
        raise ValueError(f"prediction: columns {columns!r} are not in the order of classes={names!r}; reorder them.")
    try:
        h = np.asarray(prediction, dtype=float)
    except (TypeError, ValueError):
        raise ValueError("prediction: a 2-d prediction must hold probabilities, one column per class.") from None
    if h.shape[1] != len(classes):
        raise ValueError(
            f"prediction: has {h.shape[1]} columns for {len(classes)} classes {names!r}; needs one per class "
            "(name them all with classes=)."
        )
    if not np.isfinite(h).all():
        raise ValueError(f"prediction: {int((~np.isfinite(h)).any(1).sum())} rows hold NaN or infinite values.")
    total = h.sum(1)
    bad = (np.abs(total - 1) > SUM_TOLERANCE) | (h < 0).any(1)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"prediction: {int(bad.sum())} rows are not probabilities (row {row}: sum {total[row]:.4g}, "
            f"least {h[row].min():.4g}); entries must be at least 0 and sum to 1."
        )
    return h / total[:, None]


def _soft_moments(cell: np.ndarray, h: np.ndarray, w: np.ndarray, n_cells: int) -> tuple[np.ndarray, np.ndarray]:
    """Σ w h and Σ w² h hᵀ of each cell: one matrix product per cell over its rows, sorted together."""
    m = h.shape[1]
    order = np.argsort(cell, kind="stable")
    ends = np.cumsum(np.bincount(cell, minlength=n_cells))
    first, second = np.zeros((n_cells, m)), np.zeros((n_cells, m, m))
    for c, rows in enumerate(np.split(order, ends[:-1])):
        if len(rows):
            weighted = w[rows, None] * h[rows]
            first[c], second[c] = weighted.sum(0), weighted.T @ weighted
    return first, second


def object_column(names: pd.Index, codes: np.ndarray) -> pd.Series:
    """names[codes] with every cell of its own Python type (tuples and integers included)."""
    return pd.Series(object_array(list(names))[codes], dtype=object)
