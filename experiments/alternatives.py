"""Try other uses of labels than the package has, on the same posteriors: `AlternativePost`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import special

from experiments.label_correction import solve_in_one_step, solve_in_rounds
from optfair import OptFairPost
from optfair.inputs.splits import Splits
from optfair.inputs.training_data import TrainingData
from optfair.posteriors.calibration import (
    GROUP_RIDGE,
    FactorCalibration,
    JointCalibration,
    calibrate_blind,
    class_probabilities,
    fit_factor,
    group_shares,
    join_factors,
)
from optfair.posteriors.multinomial import fit_multinomial
from optfair.posteriors.scaling import CLIP, RIDGE, Scaling, fit_scaling
from optfair.rule.driver import Solution
from optfair.rule.problem import FairProblem

# How z is calibrated, and how bounds are moved.
ALTERNATIVES = {
    "joint": ("joint", "stay"),
    "labels": ("none", "rounds"),
    "both": ("joint", "rounds"),  # the default until this was measured
    "posterior and step": ("posterior", "one step"),
    "factors": ("factors", "stay"),  # however many people there are
    "loose": ("loose", "stay"),  # factors, with the ridge of the classes for the groups too
    "diagonal": ("diagonal", "stay"),  # factors; shares of groups by a slope and an intercept of each
    "context": ("context", "stay"),  # factors; log P(Y | X) is among the features of the shares
}
CONTEXT_RIDGE = 100.0  # with less, equalized odds lose still more accuracy


class AlternativePost(OptFairPost):
    """`OptFairPost`, blind, with one of the ``ALTERNATIVES`` as its calibration."""

    _calibrations: ClassVar = tuple(ALTERNATIVES)

    def _calibrate(
        self, Z: np.ndarray, pooled: Any, model: Any, data: TrainingData, splits: Splits, seed: int
    ) -> tuple[Any, np.ndarray]:
        kind, _ = ALTERNATIVES[self.calibration]
        if kind == "posterior":
            return calibrate_blind(Z, data.a, data.y, data.weight, splits, seed=seed)
        if kind == "none":
            return None, Z
        rows = np.arange(len(Z))
        if kind == "joint":
            scaling, out = fit_factor(Z.reshape(len(Z), -1), data.cell, rows, data.weight, splits, seed)
            return JointCalibration(scaling, keeps_classes=False), out.reshape(Z.shape)
        classes, P = fit_factor(class_probabilities(Z), data.y, rows, data.weight, splits, seed)
        if kind == "context":
            context = fit_context(Z, data, classes, seed)
            return context, context(Z)
        scalings, shares = [], []
        for i, Q in enumerate(group_shares(Z)):
            members = np.flatnonzero(data.y == i)
            if kind == "diagonal":
                w = None if data.weight is None else data.weight[members]
                scalings.append(fit_scaling(Q[members], data.a[members], w, seed=seed, diagonal=True))
                shares.append(scalings[-1](Q))
            else:
                ridge = RIDGE if kind == "loose" else GROUP_RIDGE
                scaling, share = fit_factor(Q, data.a, members, data.weight, splits, seed, ridge)
                scalings.append(scaling)
                shares.append(share)
        return FactorCalibration(classes, tuple(scalings)), join_factors(P, shares)

    def _solve(self, problem: FairProblem, start: Solution | None = None) -> Solution:
        _, bounds = ALTERNATIVES[self.calibration]
        if bounds == "stay":
            return super()._solve(problem, start)
        return (solve_in_rounds if bounds == "rounds" else solve_in_one_step)(problem, start)


@dataclass(frozen=True, eq=False)
class ContextCalibration:
    """Scale P(A | X, Y=i) with log P(Y | X) among the features. groups : (cells, θ) of each class."""

    classes: Scaling
    groups: tuple[tuple[np.ndarray, np.ndarray], ...]

    def __call__(self, Z: np.ndarray, group: np.ndarray | None = None, pooled: np.ndarray | None = None) -> np.ndarray:
        """Return ẑ of rows (n, A, m); nobody's group is needed."""
        P, shares = class_probabilities(Z), []
        for Q, (cells, theta) in zip(group_shares(Z), self.groups, strict=True):
            out = np.zeros_like(Q)
            out[:, cells] = special.softmax(_features(Q, P, cells) @ theta[:, 1:].T + theta[:, 0], axis=1)
            shares.append(out)
        return join_factors(self.classes(P), shares)


def fit_context(Z: np.ndarray, data: TrainingData, classes: Scaling, seed: int) -> ContextCalibration:
    """Fit the shares of groups in each class to their features and those of the classes."""
    P, groups = class_probabilities(Z), []
    for i, Q in enumerate(group_shares(Z)):
        members = np.flatnonzero(data.y == i)
        Q_i, P_i = Q[members], P[members]
        w = None if data.weight is None else data.weight[members]

        def features(rows: Any, cells: np.ndarray, Q: np.ndarray = Q_i, P: np.ndarray = P_i) -> np.ndarray:
            return _features(Q[rows], P[rows], cells)

        groups.append(fit_multinomial(features, data.a[members], Z.shape[1], w, CONTEXT_RIDGE, seed))
    return ContextCalibration(classes, tuple(groups))


def _features(Q: np.ndarray, P: np.ndarray, cells: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(np.column_stack([Q[:, cells], P]), CLIP))
