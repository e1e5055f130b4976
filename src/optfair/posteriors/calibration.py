"""Calibrate the joint posterior on labelled rows it was not fitted on, by multinomial scaling of log Z.

    ẑ = softmax(log z · B + b),   (B, b) = argmin  −mean_x w log ẑ[cell of x] + ρ/(2n) ‖B − I‖²      z, ẑ: (p,)

At the minimum the calibrated cells agree with the labels on average, and so do their products with every log z_c: the
plug-in confusion tensor of a rule that depends on z is then close to the labelled one (Kull et al. 2019 call this
Dirichlet calibration). B is drawn towards the identity, which is no calibration at all.

Where the group a of a row is known, what is calibrated is P(Y | x, a). Estimates of it by groups are noisy where groups
are small, so that they are joined with that of everybody, by slopes that all groups share:

    softmax(log P(Y | x, a) · B + log P(Y | x) · C + b + b_a)        C and b_a are drawn towards zero
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from optfair.posteriors.multinomial import effective_rows, fit_multinomial
from optfair.utils.parallel import map_blocks, one_blas_thread

CLIP = 1e-5  # probabilities below this are rounding of most models; their logs would dominate the slopes
MIN_CLASS_ROWS = 5  # rows of each class in a group, for a scaling of its own
RIDGE = 10.0  # where rows are plenty
RIDGES = (1e6, 1e4, 1e3, 1e2, 10.0)  # tried where rows are few
ROWS_PER_PARAMETER = 20  # of (B, b): with fewer rows the scaling overfits
MIN_ROWS_FOR_CV = 100  # rows, for some of them to be held out


@dataclass(frozen=True, eq=False)
class Scaling:
    """slopes : (k, k) B, intercepts : (k,) b, of the k cells in ``cells`` (others stay zero); p cells in all."""

    slopes: np.ndarray
    intercepts: np.ndarray
    cells: np.ndarray
    p: int

    def __call__(self, Z: np.ndarray) -> np.ndarray:
        """Return ẑ of rows (n, p), in their dtype."""
        out = np.zeros_like(Z)

        def fill(block: slice) -> None:
            scores = self.slopes.T @ _logs(Z[block], self.cells).T + self.intercepts[:, None]
            out[block, self.cells] = special.softmax(scores, axis=0).T

        map_blocks(fill, len(Z), 4 * self.p)
        return out


@dataclass(frozen=True, eq=False)
class AwareScaling:
    """slopes : (2k, k) B above C, intercepts : (A, k) b + b_a, of the k classes in ``classes``; m classes in all."""

    slopes: np.ndarray
    intercepts: np.ndarray
    classes: np.ndarray
    m: int

    def __call__(self, P_aware: np.ndarray, pooled: np.ndarray, group: np.ndarray) -> np.ndarray:
        """Return P(Y | X, A), calibrated, (n, m), of P(Y | X, A) and P(Y | X), (n, m) each, and groups (n,)."""
        out = np.zeros_like(P_aware)
        logs = np.column_stack([_logs(P_aware, self.classes), _logs(pooled, self.classes)])
        out[:, self.classes] = special.softmax(logs @ self.slopes + self.intercepts[group], axis=1)
        return out


Calibration = tuple[Scaling | AwareScaling, ...]  # of everybody together, or of each group


def fit_scaling(
    Z: np.ndarray, cell: np.ndarray, weight: np.ndarray | None = None, ridge: float = RIDGE, seed: int = 0
) -> Scaling:
    """Fit (B, b) to rows Z (n, p) and the observed cell of each row, (n,) integers."""
    cells, theta = fit_multinomial(lambda rows, cells: _logs(Z[rows], cells), cell, Z.shape[1], weight, ridge, seed)
    return Scaling(theta[:, 1:].T, theta[:, 0], cells, Z.shape[1])


def fit_aware_scaling(
    P_aware: np.ndarray,
    pooled: np.ndarray,
    a: np.ndarray,
    y: np.ndarray,
    n_groups: int,
    weight: np.ndarray | None = None,
    ridge: float = RIDGE,
    seed: int = 0,
) -> AwareScaling:
    """Fit (B, C, b, b_a) to P(Y | X, A) and P(Y | X), (n, m) each, and the observed groups and classes, (n,) codes."""

    def features(rows: np.ndarray | slice, classes: np.ndarray) -> np.ndarray:
        return np.column_stack([_logs(P_aware[rows], classes), _logs(pooled[rows], classes), np.eye(n_groups)[a[rows]]])

    classes, theta = fit_multinomial(features, y, P_aware.shape[1], weight, ridge, seed)
    k = len(classes)
    return AwareScaling(theta[:, 1 : 2 * k + 1].T, theta[:, 0] + theta[:, 2 * k + 1 :].T, classes, P_aware.shape[1])


def calibrate(
    Z: np.ndarray,
    a: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray | None,
    splits: Sequence[tuple[np.ndarray, np.ndarray]],
    *,
    aware: bool,
    pooled: np.ndarray | None = None,
    seed: int = 0,
) -> tuple[Calibration, np.ndarray]:
    """Return the scalings for new rows, and ẑ (n, A, m) of these.

    Where rows are few for so many parameters, ẑ of each row is by scalings that have not seen it, and ρ is the one that
    does best in the first of the splits: else the rule, its certificate and the report would be too optimistic.
    splits : (train, test) positions, every row in one test part. pooled : P(Y | X), (n, m), to be joined with what is
    known of each group.
    """
    n, A, m = Z.shape
    group = a if aware else None
    n_parameters = A * m * (A * m + 1) if not aware else A * m * (m + 1) if pooled is None else m * (2 * m + 1 + A)
    if not MIN_ROWS_FOR_CV <= effective_rows(weight, n) < ROWS_PER_PARAMETER * n_parameters:
        scalings = fit_calibration(Z, a, y, weight, aware=aware, pooled=pooled, seed=seed)
        return scalings, apply_calibration(scalings, Z, group, pooled)

    def held_out(train: np.ndarray, test: np.ndarray, ridge: float) -> np.ndarray:
        w, p, p_test = (None if v is None else v[r] for v, r in ((weight, train), (pooled, train), (pooled, test)))
        options: dict[str, Any] = {"aware": aware, "pooled": p, "ridge": ridge, "seed": seed}
        scalings = fit_calibration(Z[train], a[train], y[train], w, **options)
        return apply_calibration(scalings, Z[test], None if group is None else group[test], p_test)

    def loss(ridge: float) -> float:
        train, test = splits[0]
        likelihood = held_out(train, test, ridge)[np.arange(len(test)), a[test], y[test]]
        return -float(
            np.average(np.log(np.maximum(likelihood, CLIP)), weights=None if weight is None else weight[test])
        )

    ridge = min(RIDGES, key=loss)
    out = np.empty_like(Z)
    for train, test in splits:
        out[test] = held_out(train, test, ridge)
    return fit_calibration(Z, a, y, weight, aware=aware, pooled=pooled, ridge=ridge, seed=seed), out


def fit_calibration(
    Z: np.ndarray,
    a: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray | None,
    *,
    aware: bool,
    pooled: np.ndarray | None = None,
    ridge: float = RIDGE,
    seed: int = 0,
) -> Calibration:
    """Fit one scaling of the joint posterior Z (n, A, m); or, aware, one of P(Y | X, A=a) for each group a.

    pooled : P(Y | X), (n, m): the groups then share one `AwareScaling`.
    """
    n, A, m = Z.shape
    with one_blas_thread():  # small matrices between passes: threads would cost more than they give
        if not aware:
            return (fit_scaling(Z.reshape(n, A * m), a * m + y, weight, ridge, seed),)
        if pooled is not None:
            return (fit_aware_scaling(Z[np.arange(n), a], pooled, a, y, A, weight, ridge, seed),)
        members = [np.flatnonzero(a == group) for group in range(A)]
        # Where a class has hardly any rows, labels cannot say how likely it is: the model is left as it is.
        w = np.ones(n) if weight is None else weight
        enough_rows = [np.bincount(y[rows], w[rows], m).min() >= MIN_CLASS_ROWS for rows in members]
        return tuple(
            fit_scaling(Z[rows, group], y[rows], None if weight is None else weight[rows], ridge, seed)
            if enough_rows[group]
            else Scaling(np.eye(m), np.zeros(m), np.arange(m), m)
            for group, rows in enumerate(members)
        )


def apply_calibration(
    scalings: Calibration, Z: np.ndarray, group: np.ndarray | None, pooled: np.ndarray | None = None
) -> np.ndarray:
    """Return ẑ, (n, A, m). group : the code of each row's group for scalings by group (−1: left as it is), or None.

    pooled : P(Y | X), (n, m), for an `AwareScaling`.
    """
    first, out = scalings[0], Z.copy()
    if isinstance(first, AwareScaling):
        assert group is not None and pooled is not None
        rows = np.flatnonzero(group >= 0)
        out[rows, group[rows]] = first(Z[rows, group[rows]], pooled[rows], group[rows])
        return out
    if group is None:
        return first(Z.reshape(len(Z), -1)).reshape(Z.shape)
    for a, scaling in enumerate(scalings):
        if isinstance(scaling, Scaling):
            rows = np.flatnonzero(group == a)
            out[rows, a] = scaling(Z[rows, a])
    return out


def keep_classes(Z: np.ndarray, calibrated: np.ndarray) -> np.ndarray:
    """Return z̃, (n, A, m), that splits the classes of Z over groups as ẑ does, and leaves P(Y | X) as it is.

        z̃[a, i] = P(Y=i | x) · ẑ[a, i] / Σ_a ẑ[a, i],   P(Y=i | x) = Σ_a z[a, i]

    A class that ẑ rules out is split as everybody with these features.
    """
    total, groups = calibrated.sum(axis=1, keepdims=True), calibrated.sum(axis=2, keepdims=True)
    share = np.where(total > 0, calibrated / np.where(total > 0, total, 1.0), groups)
    return np.asarray(Z.sum(axis=1, keepdims=True) * share)


def _logs(Z: np.ndarray, cells: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(Z[:, cells].astype(np.float64), CLIP))
