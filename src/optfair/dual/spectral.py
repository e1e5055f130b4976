"""Spectral proximal gradient for ``min_λ F(λ) + σ(λ)``: for many multipliers, where a Hessian costs more than passes.

    λ ← prox_{σ, S/α}(λ + (S/α)(D(h))),   S = 1/diag ∇²F at the start,   α a Barzilai–Borwein step, non-monotone search

Wright, Nowak and Figueiredo, *Sparse reconstruction by separable approximation* (2009). The prox is exact, the cap
on ‖λ‖₁ included, and a step costs one pass.
"""

from __future__ import annotations

import numpy as np

from optfair.dual.newton import VALUE_NOISE, Minimum
from optfair.dual.penalty import Box
from optfair.dual.problem import DualProblem

MEMORY = 8


def minimise_spectral(problem: DualProblem, box: Box, start: np.ndarray, tolerance: float, max_passes: int) -> Minimum:
    """λ with KKT residual ≤ tolerance, or the best one after ``max_passes`` passes."""
    noise = VALUE_NOISE[problem.posterior.rows(slice(0, 1)).dtype]
    lam = start
    state = problem.evaluate(lam)
    residual = box.residual(lam, state.values)
    best = Minimum(lam, state, residual, residual <= tolerance)
    passes = 1
    diagonal = problem.hessian_diagonal(lam)
    scale = 1.0 / np.maximum(diagonal, 1e-3 * max(float(diagonal.max()), 1e-12))
    alpha, history = 1.0, [state.smooth + box.value(lam)]
    while not best.converged and passes < max_passes:
        step = scale / alpha
        trial = box.prox(lam + step * state.values, step)
        move = trial - lam
        length = float(move @ (move / scale))
        candidate = problem.evaluate(trial)
        passes += 1
        objective = candidate.smooth + box.value(trial)
        if objective > max(history[-MEMORY:]) - 1e-4 * alpha * length + noise and alpha < 1e12:
            alpha *= 3.0
            continue
        bend = float(move @ (state.values - candidate.values))  # move · change of gradient
        alpha = float(np.clip(bend / length, 1e-6, 1e12)) if length > 0 and bend > 0 else 1.0
        lam, state = trial, candidate
        history.append(objective)
        residual = box.residual(lam, state.values)
        if residual < best.residual:
            best = Minimum(lam, state, residual, residual <= tolerance)
    return best
