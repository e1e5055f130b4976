"""Is there any rule within the bounds? If not: which rows contradict each other, and how much loosening would do.

The smallest uniform loosening is itself a fair-rule problem, with nothing to gain and ‖λ‖₁ ≤ 1:

    t* = min_h max_k (distance of D_k(h) outside its bounds) = max_{‖λ‖₁ ≤ 1} −v(λ),
    v(λ) = mean_x max_j (−Z Dᵀλ)_j + σ(λ).        v(λ) < 0 for some λ proves that no rule is within the bounds.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import optimize, sparse

from optfair.constraints import RowSet
from optfair.dual.certificate import assess, upper_bound
from optfair.dual.penalty import Box
from optfair.dual.solver import LAST_TAU, DualSolver
from optfair.errors import InfeasibleError
from optfair.posterior import Posterior


def constant_values(matrix: sparse.csr_array, prior: np.ndarray) -> np.ndarray:
    """D of the rules that give everybody class j, (K, m)."""
    return np.asarray(matrix @ np.kron(prior.reshape(-1, 1), np.eye(prior.shape[1])))


def best_mixture(
    lower: np.ndarray,
    upper: np.ndarray,
    values: np.ndarray,
    value: float,
    constants: np.ndarray,
    gains: np.ndarray,
) -> tuple[float, np.ndarray] | None:
    """The mixture (1 − s) h + s q with a constant rule q that is within the bounds and costs the least, if any.

    values : D(h), (K,). constants : D of each constant, (K, m). gains : value of each constant, (m,).
    """
    m = len(gains)
    change = constants - values[:, None]  # D of the mixture = D(h) + change @ (s q)
    up, low = np.isfinite(upper), np.isfinite(lower)
    result = optimize.linprog(
        value - gains,
        A_ub=np.concatenate([change[up], -change[low], np.ones((1, m))]),
        b_ub=np.concatenate([(upper - values)[up], (values - lower)[low], [1.0]]),
        bounds=(0, None),
        method="highs",
    )
    if not result.success:
        return None
    q = np.maximum(result.x, 0.0)  # HiGHS may leave a bound by its tolerance
    total = float(q.sum())
    return min(total, 1.0), q / total if total > 0 else np.full(m, 1.0 / m)


def surely_feasible(lower: np.ndarray, upper: np.ndarray, constants: np.ndarray) -> bool:
    """Whether some constant rule is within the bounds.   lower, upper: (K,)   constants: (K, m)"""
    uniform = constants.mean(axis=1)
    for values in (*constants.T, uniform):
        if (values <= upper + 1e-12).all() and (values >= lower - 1e-12).all():
            return True
    return best_mixture(lower, upper, uniform, 0.0, constants, np.zeros(constants.shape[1])) is not None


def prove_infeasible(posterior: Posterior, rows: RowSet, seed: int, max_passes: int) -> None:
    """Raise InfeasibleError if no rule is within the bounds; return if that cannot be proven.

    Temperatures fall until the loosening that is proven necessary and the one that is seen to do are within 2 %.
    """
    nothing = np.zeros((posterior.n_cells, posterior.n_classes))
    posterior = replace(posterior, offset=None)
    solver = DualSolver(posterior, rows, nothing, seed, max_passes)
    box = Box(rows.lower, rows.upper, cap=1.0)
    shape = np.ones(posterior.n_cells)
    lam = np.zeros(len(rows))
    for tau in (1e-2, 1e-3, LAST_TAU):
        lam, _, _ = solver.cool(box, lam, shape, tau, 0.1 * tau, 0.0)
        lam = solver.polish(box, lam, shape * tau, 0.1 * tau)[0].multipliers
        needed, enough = _loosening(posterior, rows, nothing, lam, tau)
        if enough <= 0:
            return
        if needed > 1e-9 and (enough <= 1.02 * needed or tau == LAST_TAU):
            order = np.argsort(-np.abs(lam))
            heavy = [rows.names[k] for k in order if abs(lam[k]) > 0.01 * np.abs(lam).max()]
            raise InfeasibleError(heavy, enough, needed)


def _loosening(
    posterior: Posterior, rows: RowSet, nothing: np.ndarray, lam: np.ndarray, tau: float
) -> tuple[float, float]:
    """Uniform loosenings: one that λ proves necessary, and one that its softmax rule shows to be enough."""
    matrix = rows.matrix(posterior.prior)
    weights = nothing - (matrix.T @ lam).reshape(nothing.shape)

    def probabilities(Z: np.ndarray, offset: np.ndarray | None) -> np.ndarray:
        scores = (Z @ weights) / tau
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        return scores / scores.sum(axis=1, keepdims=True)

    found = assess(posterior, probabilities, weights)
    needed = -upper_bound(found, rows, lam) / max(float(np.abs(lam).sum()), 1e-300)
    return needed, float(rows.excess(matrix @ found.confusion.ravel()))
