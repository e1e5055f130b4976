"""Minimise ``F(λ) + σ(λ)`` by proximal Newton: passes are what costs, K is small.

Step: minimise the quadratic model of F plus σ exactly (ADMM), damp by Levenberg with a ratio test, never keep a
step that was not accepted.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from optfair.dual.penalty import Box
from optfair.dual.problem import Minimum, TemperedDual
from optfair.dual.settings import NEWTON


def minimise_newton(dual: TemperedDual, box: Box, start: np.ndarray, max_residual: float, max_passes: int) -> Minimum:
    """Return λ with a KKT residual of at most ``max_residual``, or the best one after ``max_passes`` passes."""
    noise = dual.problem.posterior.value_noise
    point, damping = dual.evaluate(start), NEWTON.first_damping
    passes = 1
    residual = box.residual(start, point.values)
    while residual > max_residual and passes < max_passes:
        metric = dual.score_metric()
        hessian = dual.hessian(point)
        accepted = False
        while not accepted and passes < max_passes:
            lam, Q = point.multipliers, hessian + damping * metric
            trial = quadratic_step(Q, -point.values - Q @ lam, box, lam, NEWTON.inner_tolerance * residual)
            step = trial - lam
            model = -point.values @ step + 0.5 * step @ (hessian @ step) + box.value(trial) - box.value(lam)
            candidate = dual.evaluate(trial)
            passes += 1
            change = candidate.smooth - point.smooth + box.value(trial) - box.value(lam)
            ratio = (change - noise) / min(model - noise, -noise)
            accepted = ratio > NEWTON.least_ratio
            if ratio < NEWTON.poor_ratio:
                growth = NEWTON.growth if ratio > NEWTON.bad_ratio else NEWTON.growth**2
                damping = max(damping * growth, NEWTON.first_damping)
            elif ratio > NEWTON.good_ratio:
                damping = max(damping / NEWTON.growth, NEWTON.least_damping)
            if accepted:
                point, residual = candidate, box.residual(trial, candidate.values)
            elif damping > NEWTON.last_damping:
                return Minimum(point, residual, False)
    return Minimum(point, residual, residual <= max_residual)


def quadratic_step(
    Q: np.ndarray,
    q: np.ndarray,
    box: Box,
    start: np.ndarray,
    tolerance: float,
    max_iterations: int = NEWTON.admm_iterations,
) -> np.ndarray:
    """Return argmin_λ ½ λᵀQλ + qᵀλ + σ(λ) by ADMM, to a KKT residual of ``tolerance``; Q may be singular.

    Variables are scaled by Q's diagonal, so that one penalty ρ fits rows of common and of rare cells.
    """
    largest = float(np.diag(Q).max())
    # Without any curvature (rows that are all alike) there is no unit to scale by, and steps of 1e24 lose their digits.
    diagonal = np.maximum(np.diag(Q), 1e-12 * largest) if largest > NEWTON.no_curvature else np.ones(len(Q))
    scale = 1.0 / np.sqrt(diagonal)
    scaled = Q * scale * scale[:, None]
    b = q * scale
    z = start / scale
    dual = -(scaled @ z + b)
    rho, relax = NEWTON.admm_penalty, NEWTON.admm_relaxation
    inverse = _inverse(scaled, rho)
    best, best_residual = start, np.inf
    for iteration in range(1, max_iterations + 1):
        x = inverse @ (rho * z - dual - b)
        mixed = relax * x + (1 - relax) * z
        previous = z
        z = box.prox((mixed + dual / rho) * scale, scale * scale / rho) / scale
        dual = dual + rho * (mixed - z)
        if iteration % NEWTON.admm_check == 0:
            lam = z * scale
            residual = box.residual(lam, -(Q @ lam + q))
            if residual < best_residual:
                best, best_residual = lam, residual
            if residual <= tolerance:
                break
            primal_gap = float(np.linalg.norm(x - z)) / max(float(np.linalg.norm(z)), 1e-300)
            dual_gap = rho * float(np.linalg.norm(z - previous)) / max(float(np.linalg.norm(dual)), 1e-300)
            unbalanced = max(primal_gap, dual_gap) > NEWTON.admm_imbalance * min(primal_gap, dual_gap)
            if iteration % NEWTON.admm_adapt == 0 and unbalanced:
                rho *= np.clip(np.sqrt(primal_gap / max(dual_gap, 1e-300)), 0.1, 10)
                inverse = _inverse(scaled, rho)
    return best


def _inverse(Q: np.ndarray, rho: float) -> np.ndarray:
    """Return (Q + ρI)⁻¹ for a positive semi-definite Q."""
    try:
        factor = linalg.cho_factor(Q + rho * np.eye(len(Q)), lower=True)
    except linalg.LinAlgError:  # rounding left Q slightly indefinite, by more than a small ρ
        values, vectors = linalg.eigh(Q)
        return np.asarray((vectors / (np.maximum(values, 0.0) + rho)) @ vectors.T)
    return np.asarray(linalg.cho_solve(factor, np.eye(len(Q))))
