"""Proximal Newton for ``min_λ F(λ) + σ(λ)``: passes are what costs, K is small.

Step: minimise the quadratic model of F plus σ exactly (ADMM), damp by Levenberg with a ratio test, never keep a
step that was not accepted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from optfair.dual.penalty import Box
from optfair.dual.problem import DualProblem, Evaluation

# Values computed from float32 rows carry noise of about 1e-8 (1e-7 to be safe against unlucky blocks).
VALUE_NOISE = {np.dtype(np.float32): 1e-7, np.dtype(np.float64): 1e-13}


@dataclass(frozen=True, eq=False)
class Minimum:
    """λ with what is known there; ``confirmed`` is False where it is known from a sample only."""

    multipliers: np.ndarray
    evaluation: Evaluation
    residual: float
    converged: bool
    confirmed: bool = True


def quadratic_step(
    Q: np.ndarray, q: np.ndarray, box: Box, start: np.ndarray, tolerance: float, max_iterations: int = 2000
) -> np.ndarray:
    """argmin_λ ½ λᵀQλ + qᵀλ + σ(λ) by ADMM, to a KKT residual of ``tolerance``; Q may be singular.

    Variables are scaled by Q's diagonal, so that one penalty ρ fits rows of common and of rare cells.
    """
    diagonal = np.maximum(np.diag(Q), 1e-12 * max(float(np.diag(Q).max()), 1e-12))
    scale = 1.0 / np.sqrt(diagonal)
    scaled = Q * scale * scale[:, None]
    b = q * scale
    z = start / scale
    dual = -(scaled @ z + b)
    rho, relax = 0.1, 1.6
    inverse = _inverse(scaled, rho)
    best, best_residual = start, np.inf
    for iteration in range(1, max_iterations + 1):
        x = inverse @ (rho * z - dual - b)
        mixed = relax * x + (1 - relax) * z
        previous = z
        z = box.prox((mixed + dual / rho) * scale, scale * scale / rho) / scale
        dual = dual + rho * (mixed - z)
        if iteration % 10 == 0:
            lam = z * scale
            residual = box.residual(lam, -(Q @ lam + q))
            if residual < best_residual:
                best, best_residual = lam, residual
            if residual <= tolerance:
                break
            primal_gap = float(np.linalg.norm(x - z)) / max(float(np.linalg.norm(z)), 1e-300)
            dual_gap = rho * float(np.linalg.norm(z - previous)) / max(float(np.linalg.norm(dual)), 1e-300)
            if iteration % 50 == 0 and max(primal_gap, dual_gap) > 5 * min(primal_gap, dual_gap):
                rho *= np.clip(np.sqrt(primal_gap / max(dual_gap, 1e-300)), 0.1, 10)
                inverse = _inverse(scaled, rho)
    return best


def _inverse(Q: np.ndarray, rho: float) -> np.ndarray:
    try:
        factor = linalg.cho_factor(Q + rho * np.eye(len(Q)), lower=True)
    except linalg.LinAlgError:  # rounding left Q slightly indefinite, by more than a small ρ
        values, vectors = linalg.eigh(Q)
        return (vectors / (np.maximum(values, 0.0) + rho)) @ vectors.T
    return linalg.cho_solve(factor, np.eye(len(Q)))


def minimise_newton(problem: DualProblem, box: Box, start: np.ndarray, tolerance: float, max_passes: int) -> Minimum:
    """λ with KKT residual ≤ tolerance, or the best one after ``max_passes`` passes."""
    noise = VALUE_NOISE[problem.posterior.rows(slice(0, 1)).dtype]
    lam, damping = start, 1e-3
    state = problem.evaluate(lam)
    passes = 1
    residual = box.residual(lam, state.values)
    while residual > tolerance and passes < max_passes:
        hessian = problem.hessian(lam)
        metric = problem.score_metric()
        accepted = False
        while not accepted and passes < max_passes:
            Q = hessian + damping * metric
            trial = quadratic_step(Q, -state.values - Q @ lam, box, lam, 0.1 * residual)
            step = trial - lam
            model = -state.values @ step + 0.5 * step @ (hessian @ step) + box.value(trial) - box.value(lam)
            candidate = problem.evaluate(trial)
            passes += 1
            change = candidate.smooth - state.smooth + box.value(trial) - box.value(lam)
            ratio = (change - noise) / min(model - noise, -noise)
            accepted = ratio > 1e-3
            if ratio < 0.25:
                damping = max(damping * (4 if ratio > -0.5 else 16), 1e-3)
            elif ratio > 0.75:
                damping = max(damping / 4, 1e-7)
            if accepted:
                lam, state, residual = trial, candidate, box.residual(trial, candidate.values)
            elif damping > 1e6:
                return Minimum(lam, state, residual, False)
    return Minimum(lam, state, residual, residual <= tolerance)
