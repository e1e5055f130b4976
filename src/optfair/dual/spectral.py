"""Minimise ``F(λ) + σ(λ)`` by spectral proximal gradient: for many multipliers under a cap.

    λ ← prox_{σ, S/α}(λ + (S/α)(D(h))),   S = 1/diag ∇²F at the start,   α a Barzilai–Borwein step, non-monotone search

Wright, Nowak and Figueiredo, *Sparse reconstruction by separable approximation* (2009). The prox is exact, the cap
on ‖λ‖₁ included, and a step costs one pass.
"""

from __future__ import annotations

import numpy as np

from optfair.dual.penalty import Box
from optfair.dual.problem import Minimum, TemperedDual

MEMORY = 8  # objectives that a step is compared with; Wright et al. take 5 to 10


def minimise_spectral(dual: TemperedDual, box: Box, start: np.ndarray, max_residual: float, max_passes: int) -> Minimum:
    """Return λ with a KKT residual of at most ``max_residual``, or the best one after ``max_passes`` passes."""
    noise = dual.problem.posterior.value_noise
    point = dual.evaluate(start)
    residual = box.residual(start, point.values)
    best = Minimum(point, residual, residual <= max_residual)
    passes = 1
    diagonal = dual.hessian_diagonal(point)
    scale = 1.0 / np.maximum(diagonal, 1e-3 * max(float(diagonal.max()), 1e-12))
    alpha, history = 1.0, [point.smooth + box.value(start)]
    while not best.converged and passes < max_passes:
        step = scale / alpha
        trial = box.prox(point.multipliers + step * point.values, step)
        move = trial - point.multipliers
        length = float(move @ (move / scale))
        candidate = dual.evaluate(trial)
        passes += 1
        objective = candidate.smooth + box.value(trial)
        if objective > max(history[-MEMORY:]) - 1e-4 * alpha * length + noise and alpha < 1e12:
            alpha *= 3.0
            continue
        bend = float(move @ (point.values - candidate.values))  # move · change of gradient
        alpha = float(np.clip(bend / length, 1e-6, 1e12)) if length > 0 and bend > 0 else 1.0
        point = candidate
        history.append(objective)
        residual = box.residual(trial, point.values)
        if residual < best.residual:
            best = Minimum(point, residual, residual <= max_residual)
    return best
