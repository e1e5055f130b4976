"""Try other uses of labels than the package has, on the same posteriors: `AlternativePost`."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from experiments.label_correction import solve_in_one_step, solve_in_rounds
from optfair import OptFairPost
from optfair.inputs.splits import Splits
from optfair.inputs.training_data import TrainingData
from optfair.posteriors.calibration import JointCalibration, calibrate_blind, fit_factor
from optfair.rule.driver import Solution
from optfair.rule.problem import FairProblem

# How z is calibrated, and how bounds are moved.
ALTERNATIVES = {
    "joint": ("joint", "stay"),
    "labels": ("none", "rounds"),
    "both": ("joint", "rounds"),  # the default until this was measured
    "posterior and step": ("posterior", "one step"),
}


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
        scaling, out = fit_factor(Z.reshape(len(Z), -1), data.cell, rows, data.weight, splits, seed)
        return JointCalibration(scaling, keeps_classes=False), out.reshape(Z.shape)

    def _solve(self, problem: FairProblem, start: Solution | None = None) -> Solution:
        _, bounds = ALTERNATIVES[self.calibration]
        if bounds == "stay":
            return super()._solve(problem, start)
        return (solve_in_rounds if bounds == "rounds" else solve_in_one_step)(problem, start)
