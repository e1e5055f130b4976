"""Calibrate the joint posterior with the labels of rows its models were not fitted on.

    blind   one scaling of all cells (a, i), where there are people enough for so many parameters, also in the sample
            that fits are held to; else by factors, ẑ[a, i] = P̂(Y=i | X) · P̂(A=a | X, Y=i), one scaling of the classes
            and one of the groups in each class. Where some groups are unknown by factors too, the classes with the
            labels of everybody; and the groups may depend on P(Y | X) beside their own shares, as they do in a scaling
            of all cells
    aware   ẑ[a, i] = P̂(Y=i | X, A=a) for people of group a, one scaling that all groups share

The factors have about one parameter for every m of all cells. With many groups for the people there are, a scaling of
all cells follows noise, moves answers that have nothing to do with fairness, and takes minutes;
docs/results/calibration.md has the comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np

from optfair.inputs.splits import Splits
from optfair.posteriors.multinomial import FIT_ROWS, effective_rows
from optfair.posteriors.scaling import (
    CLIP,
    RIDGE,
    AwareScaling,
    Scaling,
    ShareScaling,
    fit_aware_scaling,
    fit_scaling,
    fit_share_scaling,
    identity_scaling,
    identity_share_scaling,
)
from optfair.utils.parallel import map_blocks, one_blas_thread

RIDGES = (1e6, 1e4, 1e3, 1e2, 10.0)  # tried where rows are few; the first corrects the shares of the cells alone
# Of shares of groups, where rows are plenty: with less, strict rules pay in accuracy for no less violation.
GROUP_RIDGE = 100.0
ROWS_PER_PARAMETER = 20  # of (B, b): with fewer rows the scaling overfits
MIN_ROWS_FOR_CV = 100  # rows, for some of them to be held out
MIN_CLASS_ROWS = 5  # rows of each class in a group: with fewer, labels cannot say how likely the class is

Map = TypeVar("Map", Scaling, ShareScaling, AwareScaling)


@dataclass(frozen=True, eq=False)
class JointCalibration:
    """scaling : of all A·m cells. keeps_classes : of it only P(A | X, Y) is taken, and P(Y | X) is the model's own."""

    scaling: Scaling
    keeps_classes: bool

    def __call__(self, Z: np.ndarray, group: np.ndarray | None = None, pooled: np.ndarray | None = None) -> np.ndarray:
        """Return ẑ of rows (n, A, m); nobody's group is needed."""
        rows, (_, A, m) = Z.reshape(len(Z), -1), Z.shape
        if not self.keeps_classes:
            return self.scaling(rows).reshape(Z.shape)
        out = np.empty_like(rows)

        def fill(block: slice) -> None:
            cells = self.scaling.columns(rows[block]).reshape(A, m, -1)
            _divide_by_classes(cells)
            cells *= Z[block].sum(axis=1).T
            out[block] = cells.reshape(A * m, -1).T

        map_blocks(fill, len(Z), 4 * A * m)
        return out.reshape(Z.shape)


@dataclass(frozen=True, eq=False)
class FactorCalibration:
    """classes : of P(Y | X), or None where the model's own is kept. groups : of P(A | X, Y=i), one for each class i."""

    classes: Scaling | None
    groups: tuple[Scaling | ShareScaling, ...]

    def __call__(self, Z: np.ndarray, group: np.ndarray | None = None, pooled: np.ndarray | None = None) -> np.ndarray:
        """Return ẑ of rows (n, A, m); nobody's group is needed."""
        rows, (_, A, m) = Z.reshape(len(Z), -1), Z.shape
        out = np.empty_like(rows)

        def fill(block: slice) -> None:
            cells = np.array(rows[block].T, dtype=np.float64, order="C").reshape(A, m, -1)
            total = _divide_by_classes(cells)
            P = total if self.classes is None else self.classes.columns(total.T)
            for i, scaling in enumerate(self.groups):
                classes = (total.T,) if isinstance(scaling, ShareScaling) else ()
                np.multiply(scaling.columns(cells[:, i].T, *classes), P[i], out=cells[:, i])
            out[block] = cells.reshape(A * m, -1).T

        map_blocks(fill, len(Z), 4 * A * m)
        return out.reshape(Z.shape)


@dataclass(frozen=True, eq=False)
class AwareCalibration:
    """classes : of P(Y | X, A), one that groups share; or, where models know the group anyway, one for each group.

    None : no scaling; the group of a row is known, and its classes are those of the model itself, P(Y | X).
    """

    classes: AwareScaling | tuple[Scaling, ...] | None

    def __call__(self, Z: np.ndarray, group: np.ndarray | None = None, pooled: np.ndarray | None = None) -> np.ndarray:
        """Return ẑ of rows (n, A, m). group : codes (−1: left as it is). pooled : P(Y | X), (n, m), or None."""
        assert group is not None
        out = Z.copy()
        if isinstance(self.classes, tuple):
            for a, scaling in enumerate(self.classes):
                rows = np.flatnonzero(group == a)
                out[rows, a] = scaling(Z[rows, a])
            return out
        assert pooled is not None
        rows = np.flatnonzero(group >= 0)
        codes, P = group[rows], pooled[rows]
        out[rows, codes] = P if self.classes is None else self.classes(Z[rows, codes], P, codes)
        return out


Calibration = JointCalibration | FactorCalibration | AwareCalibration


def calibrate_blind(
    Z: np.ndarray,
    a: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray | None,
    splits: Splits,
    *,
    keep_classes: bool = False,
    seed: int = 0,
) -> tuple[JointCalibration | FactorCalibration, np.ndarray]:
    """Return the calibration of new rows, and ẑ (n, A, m) of these.

    a : (n,) groups, −1 where unknown. splits : (train, test) positions, every row in one test part. keep_classes :
    P(Y | X) is the model's own, to the last bit but for the rounding of a sum.
    """
    (n, A, m), is_known = Z.shape, a >= 0
    with one_blas_thread():  # small matrices between passes: threads would cost more than they give
        if is_known.all() and min(effective_rows(weight, n), FIT_ROWS) >= ROWS_PER_PARAMETER * A * m * (A * m + 1):
            scaling = fit_scaling(Z.reshape(n, -1), a * m + y, weight, seed=seed)
            joint = JointCalibration(scaling, keep_classes)
            return joint, joint(Z)
        P = class_probabilities(Z)
        fit_groups = fit_factor if is_known.all() else partial(fit_shares, P)
        groups = [
            fit_groups(Q, a, np.flatnonzero((y == i) & is_known), weight, splits, seed, GROUP_RIDGE)
            for i, Q in enumerate(group_shares(Z))
        ]
        classes, P = (None, P) if keep_classes else fit_factor(P, y, np.arange(n), weight, splits, seed)
    calibration = FactorCalibration(classes, tuple(scaling for scaling, _ in groups))
    return calibration, join_factors(P, [shares for _, shares in groups])


def calibrate_aware(
    Z: np.ndarray,
    a: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray | None,
    splits: Splits,
    *,
    pooled: np.ndarray | None = None,
    seed: int = 0,
) -> tuple[AwareCalibration, np.ndarray]:
    """Return the calibration of new rows, and ẑ (n, A, m) of these; z(x) of a row is nothing outside its group.

    pooled : P(Y | X), (n, m), to be joined with what is known of each group.
    """
    n, A, m = Z.shape
    all_rows, P_aware, out = np.arange(n), Z[np.arange(n), a], Z.copy()
    with one_blas_thread():
        if pooled is not None:

            def fit(part: np.ndarray, ridge: float, _: AwareScaling | None) -> AwareScaling:
                w = None if weight is None else weight[part]
                return fit_aware_scaling(P_aware[part], pooled[part], a[part], y[part], A, w, ridge, seed)

            def apply(scaling: AwareScaling, part: np.ndarray) -> np.ndarray:
                return scaling(P_aware[part], pooled[part], a[part])

            scaling_of_all, P = fit_out_of_fold(fit, apply, m * (2 * m + 1 + A), y, all_rows, weight, splits)
            out[all_rows, a] = P
            return AwareCalibration(scaling_of_all), out
        scalings = []
        for group in range(A):
            rows = np.flatnonzero(a == group)
            scaling = identity_scaling(m)
            if np.bincount(y[rows], None if weight is None else weight[rows], m).min() >= MIN_CLASS_ROWS:
                scaling, P = fit_factor(Z[:, group], y, rows, weight, splits, seed)
                out[rows, group] = P[rows]
            scalings.append(scaling)
    return AwareCalibration(tuple(scalings)), out


# -- one factor ----------------------------------------------------------------------------------------------
def fit_factor(
    P: np.ndarray,
    target: np.ndarray,
    rows: np.ndarray,
    weight: np.ndarray | None,
    splits: Splits,
    seed: int,
    ridge: float = RIDGE,
) -> tuple[Scaling, np.ndarray]:
    """Return a scaling of P (n, k), fitted to the targets of some rows, and P̂ of all. ridge : where rows are plenty.

    B is diagonal where even the rows that fits are held to would be too few for all of it; its few parameters need the
    least ridge only.
    """
    k = P.shape[1]
    diagonal = ROWS_PER_PARAMETER * k * (k + 1) > FIT_ROWS
    plenty_ridge = RIDGE if diagonal else ridge

    def fit(part: np.ndarray, ridge: float, start: Scaling | None) -> Scaling:
        if not len(part):
            return identity_scaling(k)
        w = None if weight is None else weight[part]
        return fit_scaling(P[part], target[part], w, ridge, seed, start, diagonal=diagonal)

    def apply(scaling: Scaling, part: np.ndarray) -> np.ndarray:
        return scaling(P[part])

    return fit_out_of_fold(fit, apply, 2 * k if diagonal else k * (k + 1), target, rows, weight, splits, plenty_ridge)


def fit_shares(
    classes: np.ndarray,
    Q: np.ndarray,
    a: np.ndarray,
    rows: np.ndarray,
    weight: np.ndarray | None,
    splits: Splits,
    seed: int,
    ridge: float,
) -> tuple[Scaling | ShareScaling, np.ndarray]:
    """Return a scaling of the shares Q (n, A) of groups in one class, fitted to some rows, and Q̂ of all.

    classes : P(Y | X), (n, m). ridge : where rows are plenty. Of very many groups as `fit_factor`.
    """
    A, m = Q.shape[1], classes.shape[1]
    n_parameters = A * (A + m + 1)
    if ROWS_PER_PARAMETER * n_parameters > FIT_ROWS:
        return fit_factor(Q, a, rows, weight, splits, seed, ridge)

    def fit(part: np.ndarray, ridge: float, _: ShareScaling | None) -> ShareScaling:
        if not len(part):
            return identity_share_scaling(A, m)
        w = None if weight is None else weight[part]
        return fit_share_scaling(Q[part], classes[part], a[part], w, ridge, seed)

    def apply(scaling: ShareScaling, part: np.ndarray) -> np.ndarray:
        return scaling.columns(Q[part], classes[part]).T

    return fit_out_of_fold(fit, apply, n_parameters, a, rows, weight, splits, ridge)


def fit_out_of_fold(
    fit: Callable[[np.ndarray, float, Map | None], Map],
    apply: Callable[[Map, np.ndarray], np.ndarray],
    n_parameters: int,
    target: np.ndarray,
    rows: np.ndarray,
    weight: np.ndarray | None,
    splits: Splits,
    plenty_ridge: float = RIDGE,
) -> tuple[Map, np.ndarray]:
    """Return what ``fit`` finds in some rows, given ρ and where to begin, and what ``apply`` makes of all.

    Where these rows are few for so many parameters, P̂ of each row is by a scaling that has not seen it, and ρ is the
    one that does best in the first of the splits: else the rule, its certificate and the report would be too
    optimistic.
    """
    all_rows, is_member = np.arange(len(target)), np.zeros(len(target), dtype=bool)
    is_member[rows] = True
    n_people = effective_rows(None if weight is None else weight[rows], len(rows)) if len(rows) else 0.0
    if n_people < MIN_ROWS_FOR_CV or n_people >= ROWS_PER_PARAMETER * n_parameters:
        scaling = fit(rows, plenty_ridge if n_people >= MIN_ROWS_FOR_CV else RIDGES[0], None)
        return scaling, apply(scaling, all_rows)
    train, test = (part[is_member[part]] for part in splits[0])
    start: Map | None = None
    ridge, least = RIDGES[0], np.inf
    for candidate in RIDGES if len(test) else ():
        trial = fit(train, candidate, start)
        likelihood = apply(trial, test)[np.arange(len(test)), target[test]]
        losses = -np.log(np.maximum(likelihood, CLIP))
        loss = float(np.average(losses, weights=None if weight is None else weight[test]))
        if loss > least:  # smaller ones follow noise further, and their fits take longest
            break
        ridge, start, least = candidate, trial, loss
    scaling = fit(rows, ridge, start)
    parts = [(test, apply(fit(train[is_member[train]], ridge, scaling), test)) for train, test in splits]
    out = np.empty((len(target), parts[0][1].shape[1]), dtype=parts[0][1].dtype)
    for test, part in parts:
        out[test] = part
    return scaling, out


# -- factors of z --------------------------------------------------------------------------------------------
def class_probabilities(Z: np.ndarray) -> np.ndarray:
    """Return P(Y=i | X), (n, m)."""
    return np.einsum("nai->ni", Z)  # of a few groups six times faster than a sum along the axis


def group_shares(Z: np.ndarray) -> Iterator[np.ndarray]:
    """Yield P(A=a | X, Y=i) of each class i, (n, A); equal shares where the class is impossible."""
    for i in range(Z.shape[2]):
        cells = Z[:, :, i]
        total = np.einsum("na->n", cells)[:, None]
        yield np.divide(cells, total, out=np.full_like(cells, 1 / Z.shape[1]), where=total > 0)


def _divide_by_classes(cells: np.ndarray) -> np.ndarray:
    """Turn P(A=a, Y=i | X), (A, m, n), into P(A=a | X, Y=i) in place, as `group_shares`; return P(Y=i | X), (m, n)."""
    total = cells.sum(axis=0)
    cells[:, total <= 0] = 1 / len(cells)
    cells /= np.where(total > 0, total, 1.0)
    return np.asarray(total)


def join_factors(P: np.ndarray, shares: Sequence[np.ndarray]) -> np.ndarray:
    """Return z[a, i] = P(Y=i | X) · P(A=a | X, Y=i), (n, A, m)."""
    out = np.empty((len(P), shares[0].shape[1], len(shares)), dtype=P.dtype)
    for i, share in enumerate(shares):
        np.multiply(share, P[:, i : i + 1], out=out[:, :, i])
    return out
