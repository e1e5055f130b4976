"""Minimise ``F(λ) + σ(λ)`` by proximal Newton: passes are what costs.

Step: minimise the quadratic model of F plus σ (`optfair.dual.admm`), damp by Levenberg with a ratio test, never keep a
step that was not accepted. The model is of the multipliers that have a price or may get one; the others stay zero.
"""

from __future__ import annotations

import numpy as np

from optfair.dual.admm import quadratic_step
from optfair.dual.penalty import Box
from optfair.dual.problem import Minimum, TemperedDual
from optfair.dual.settings import NEWTON


def minimise_newton(dual: TemperedDual, box: Box, start: np.ndarray, max_residual: float, max_passes: int) -> Minimum:
    """Return λ with a KKT residual of at most ``max_residual``, or the best one after ``max_passes`` passes.

    A step moves the multipliers of rows that are near a bound or have a price already; there are often few of them.
    """
    noise = dual.problem.posterior.value_noise
    point, damping = dual.evaluate(start), NEWTON.first_damping
    passes, effort = 1, 1.0
    residual = box.residual(start, point.values)
    while residual > max_residual and passes < max_passes:
        active = near_rows(box, point.multipliers, point.values)
        part, lam = box.part(active), point.multipliers[active]
        metric = dual.score_metric(active)
        hessian = dual.hessian(point, active, effort)
        values, accepted = point.values[active], False
        while not accepted and passes < max_passes:
            Q = hessian + damping * metric
            trial = quadratic_step(Q, -values - Q @ lam, part, lam, NEWTON.inner_tolerance * residual)
            step = trial - lam
            model = -values @ step + 0.5 * step @ (hessian @ step) + part.value(trial) - part.value(lam)
            multipliers = point.multipliers.copy()
            multipliers[active] = trial
            candidate = dual.evaluate(multipliers)
            passes += 1
            change = candidate.smooth - point.smooth + part.value(trial) - part.value(lam)
            ratio = (change - noise) / min(model - noise, -noise)
            accepted = ratio > NEWTON.least_ratio
            if ratio < NEWTON.poor_ratio:
                growth = NEWTON.growth if ratio > NEWTON.bad_ratio else NEWTON.growth**2
                damping = max(damping * growth, NEWTON.first_damping)
            elif ratio > NEWTON.good_ratio:
                damping = max(damping / NEWTON.growth, NEWTON.least_damping)
            if accepted:
                before, point, residual = residual, candidate, box.residual(multipliers, candidate.values)
                # The error of a sampled Hessian limits how fast the residual falls.
                if residual > NEWTON.slow * before and ratio > NEWTON.good_ratio:
                    effort = min(2 * effort, NEWTON.most_effort)
            elif damping > NEWTON.last_damping:
                return Minimum(point, residual, False)
    return Minimum(point, residual, residual <= max_residual)


def near_rows(box: Box, lam: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the rows that a step may move: those with a price, and those near a bound or beyond it."""
    if len(lam) < NEWTON.large_system:
        return np.arange(len(lam))
    two_sided = np.isfinite(box.lower) & np.isfinite(box.upper)
    margin = np.where(two_sided, NEWTON.near_share * (box.upper - box.lower) / 2, NEWTON.near_rate)
    return np.flatnonzero((lam != 0) | (values >= box.upper - margin) | (values <= box.lower + margin))
