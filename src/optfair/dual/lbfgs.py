"""L-BFGS-B on the split form λ = λ⁺ − λ⁻, both ≥ 0: for many multipliers, where a Hessian costs more than passes.

min F(λ⁺ − λ⁻) + upper·λ⁺ − lower·λ⁻,   each multiplier scaled by the curvature at the start
"""

from __future__ import annotations

import numpy as np
from scipy import optimize

from optfair.dual.newton import Minimum
from optfair.dual.penalty import Box
from optfair.dual.problem import DualProblem


def minimise_lbfgs(problem: DualProblem, box: Box, start: np.ndarray, tolerance: float, max_passes: int) -> Minimum:
    """λ with KKT residual ≤ tolerance, or the best one after ``max_passes`` passes."""
    if not np.isfinite(box.cap):
        return _minimise_box(problem, box, start, tolerance, max_passes)
    # ‖λ‖₁ ≤ cap: its multiplier is a uniform loosening ν, and ‖λ(ν)‖₁ decreases in ν.
    budget = problem.passes + max_passes
    inner = Box(box.lower, box.upper)
    minimum = _minimise_box(problem, inner, start, tolerance, max_passes, limit=box.cap)
    low, high = 0.0, 1.0
    while np.abs(minimum.multipliers).sum() > box.cap * (1 + 1e-6) and problem.passes < budget and high - low > 1e-7:
        nu = 0.5 * (low + high)
        minimum = _minimise_box(
            problem,
            inner.loosened(nu),
            minimum.multipliers,
            tolerance,
            budget - problem.passes,
            limit=box.cap,
        )
        low, high = (nu, high) if np.abs(minimum.multipliers).sum() > box.cap else (low, nu)
    lam = minimum.multipliers * min(1.0, box.cap / max(np.abs(minimum.multipliers).sum(), 1e-300))
    state = problem.evaluate(lam)
    residual = box.residual(lam, state.values)
    return Minimum(lam, state, residual, residual <= tolerance)


def _minimise_box(
    problem: DualProblem,
    box: Box,
    start: np.ndarray,
    tolerance: float,
    max_passes: int,
    limit: float = np.inf,
) -> Minimum:
    K = len(start)
    state = problem.evaluate(start)
    best = Minimum(start, state, box.residual(start, state.values), False)
    if best.residual <= tolerance:
        return Minimum(start, state, best.residual, True)
    diagonal = problem.hessian_diagonal(start)
    scale = 1.0 / np.sqrt(np.maximum(diagonal, 1e-3 * max(float(diagonal.max()), 1e-12)))
    signs = np.concatenate([scale, -scale])
    upper_open, lower_open = np.isfinite(box.upper), np.isfinite(box.lower)
    linear = np.concatenate([np.where(upper_open, box.upper, 0), np.where(lower_open, -box.lower, 0)])
    linear *= np.concatenate([scale, scale])
    ceiling = np.concatenate([np.where(upper_open, limit, 0), np.where(lower_open, limit, 0)]) / np.abs(signs)

    def join(y: np.ndarray) -> np.ndarray:
        return signs[:K] * y[:K] + signs[K:] * y[K:]

    def value_gradient(y: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal best
        lam = join(y)
        state = problem.evaluate(lam)
        residual = box.residual(lam, state.values)
        if residual < best.residual:
            best = Minimum(lam, state, residual, residual <= tolerance)
        return state.smooth + float(linear @ y), np.concatenate([-state.values, -state.values]) * signs + linear

    def stop(y: np.ndarray) -> None:
        if best.converged:
            raise StopIteration

    optimize.minimize(
        value_gradient,
        np.concatenate([np.maximum(start, 0), np.maximum(-start, 0)]) / np.abs(signs),
        jac=True,
        method="L-BFGS-B",
        bounds=np.column_stack([np.zeros(2 * K), ceiling]),
        callback=stop,
        # ftol=0: stop on the KKT residual (callback) or on the passes only
        options={
            "maxfun": max(max_passes - 1, 1),
            "maxiter": 100_000,
            "maxcor": 30,
            "ftol": 0.0,
            "gtol": 1e-12,
        },
    )
    return best
