"""Minimise a quadratic plus σ(λ) by the alternating direction method of multipliers (Boyd et al. 2011)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import linalg

from optfair.dual.penalty import Box
from optfair.dual.settings import NEWTON


def quadratic_step(
    Q: np.ndarray,
    q: np.ndarray,
    box: Box,
    start: np.ndarray,
    tolerance: float,
    max_iterations: int = NEWTON.admm_iterations,
) -> np.ndarray:
    """Return argmin_λ ½ λᵀQλ + qᵀλ + σ(λ) by ADMM, to a KKT residual of ``tolerance``; Q may be singular.

    Variables are scaled by Q's diagonal, so that one penalty ρ fits rows of common and of rare cells. Where Q is large
    the first iterations are in float32; those in float64 go on only if they are not enough.
    """
    largest = float(np.diag(Q).max())
    # Without any curvature (rows that are all alike) there is no unit to scale by, and steps of 1e24 lose their digits.
    diagonal = np.maximum(np.diag(Q), 1e-12 * largest) if largest > NEWTON.no_curvature else np.ones(len(Q))
    scale = 1.0 / np.sqrt(diagonal)
    scaled = Q * scale * scale[:, None]
    state = AdmmState(start / scale, -(scaled @ (start / scale) + q * scale), NEWTON.admm_penalty)
    if len(Q) >= NEWTON.large_system and tolerance >= NEWTON.single_tolerance:
        lam, residual, state = admm(
            scaled, q * scale, scale, box, state, tolerance, NEWTON.single_iterations, np.float32
        )
        if residual <= tolerance:
            return lam
    return admm(scaled, q * scale, scale, box, state, tolerance, max_iterations, np.float64)[0]


class AdmmState(NamedTuple):
    """Where ADMM stands: z, the dual variable, both (K,), and the penalty ρ."""

    z: np.ndarray
    dual: np.ndarray
    rho: float


def admm(
    Q: np.ndarray,
    b: np.ndarray,
    scale: np.ndarray,
    box: Box,
    state: AdmmState,
    tolerance: float,
    max_iterations: int,
    dtype: type[np.floating],
) -> tuple[np.ndarray, float, AdmmState]:
    """Minimise ½ zᵀQz + bᵀz + σ(scale·z) in a precision; return λ = scale·z, its KKT residual, and the state."""
    arrays = (Q, b, scale, state.z, state.dual)
    Q, b, scale, z, dual = (np.asarray(array, dtype=dtype) for array in arrays)
    rho, relax = state.rho, NEWTON.admm_relaxation
    best, best_residual = np.asarray(z * scale, float), np.inf
    inverse = _inverse(Q, rho)
    for iteration in range(1, max_iterations + 1):
        x = inverse @ (rho * z - dual - b)
        mixed = relax * x + (1 - relax) * z
        previous = z
        z = (box.prox((mixed + dual / rho) * scale, scale * scale / rho) / scale).astype(z.dtype)
        dual = dual + rho * (mixed - z)
        if iteration % NEWTON.admm_check == 0:
            lam = np.asarray(z * scale, float)
            residual = box.residual(lam, -(Q @ z + b) / scale)
            if residual < best_residual:
                best, best_residual = lam, residual
            if residual <= tolerance:
                break
            primal_gap = float(np.linalg.norm(x - z)) / max(float(np.linalg.norm(z)), 1e-300)
            dual_gap = rho * float(np.linalg.norm(z - previous)) / max(float(np.linalg.norm(dual)), 1e-300)
            unbalanced = max(primal_gap, dual_gap) > NEWTON.admm_imbalance * min(primal_gap, dual_gap)
            if iteration % NEWTON.admm_adapt == 0 and unbalanced:
                rho = float(rho * np.clip(np.sqrt(primal_gap / max(dual_gap, 1e-300)), 0.1, 10))
                inverse = _inverse(Q, rho)
    return best, best_residual, AdmmState(z, dual, rho)


def _inverse(Q: np.ndarray, rho: float) -> np.ndarray:
    """Return (Q + ρI)⁻¹ for a positive semi-definite Q, in its precision."""
    shifted = np.array(Q, order="F")
    shifted[np.diag_indices(len(Q))] += rho
    potrf, potri = linalg.get_lapack_funcs(("potrf", "potri"), (shifted,))
    factor, failure = potrf(shifted, lower=1, overwrite_a=1, clean=0)
    if failure:  # rounding left Q slightly indefinite, by more than a small ρ
        values, vectors = linalg.eigh(Q)
        return np.asarray((vectors / (np.maximum(values, 0.0) + rho)) @ vectors.T)
    lower, _ = potri(factor, lower=1, overwrite_c=1)
    lower = np.tril(lower)
    return np.asarray(lower + np.tril(lower, -1).T)
