"""Minimise by L-BFGS-B on the split form λ = λ⁺ − λ⁻, both ≥ 0.

This is for many multipliers, where a Hessian costs more than passes:

    min F(λ⁺ − λ⁻) + upper·λ⁺ − lower·λ⁻,   each multiplier scaled by the curvature at the start
"""

from __future__ import annotations

import numpy as np
from scipy import optimize

from optfair.dual.penalty import Box
from optfair.dual.problem import Minimum, TemperedDual


def minimise_lbfgs(dual: TemperedDual, box: Box, start: np.ndarray, max_residual: float, max_passes: int) -> Minimum:
    """Return λ with a KKT residual of at most ``max_residual``, or the best one after ``max_passes`` passes.

    The box has no cap.
    """
    K = len(start)
    point = dual.evaluate(start)
    residual = box.residual(start, point.values)
    best = Minimum(point, residual, residual <= max_residual)
    if best.converged or max_passes < 2:
        return best
    diagonal = dual.hessian_diagonal(point)
    scale = 1.0 / np.sqrt(np.maximum(diagonal, 1e-3 * max(float(diagonal.max()), 1e-12)))
    size = np.concatenate([scale, scale])
    signs = np.concatenate([scale, -scale])
    open_sides = np.concatenate([np.isfinite(box.upper), np.isfinite(box.lower)])
    linear = np.where(open_sides, np.concatenate([box.upper, -box.lower]), 0.0) * size

    def value_gradient(y: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal best
        lam = signs[:K] * y[:K] + signs[K:] * y[K:]
        point = dual.evaluate(lam)
        residual = box.residual(lam, point.values)
        if residual < best.residual:
            best = Minimum(point, residual, residual <= max_residual)
        gradient = np.concatenate([-point.values, -point.values]) * signs + linear
        return point.smooth + float(linear @ y), gradient

    def stop(y: np.ndarray) -> None:
        if best.converged:
            raise StopIteration

    optimize.minimize(
        value_gradient,
        np.concatenate([np.maximum(start, 0), np.maximum(-start, 0)]) / size,
        jac=True,
        method="L-BFGS-B",
        bounds=np.column_stack([np.zeros(2 * K), np.where(open_sides, np.inf, 0.0)]),
        callback=stop,
        # ftol=0: stop on the KKT residual (callback) or on the passes only
        options={"maxfun": max_passes - 1, "maxiter": 100_000, "maxcor": 30, "ftol": 0.0, "gtol": 1e-12},
    )
    return best
