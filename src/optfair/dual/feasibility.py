"""Is there any rule within the bounds? If not: which rows contradict each other, and how much loosening would do.

The smallest uniform loosening is itself a fair-rule problem, with nothing to gain and ‖λ‖₁ ≤ 1:

    t* = min_h max_k (distance of D_k(h) outside its bounds) = max_{‖λ‖₁ ≤ 1} −v(λ),
    v(λ) = mean_x max_j (−Z Dᵀλ)_j + σ(λ).        v(λ) < 0 for some λ proves that no rule is within the bounds.
"""

from __future__ import annotations

import numpy as np
from scipy import optimize, sparse

from optfair.constraints import RowSet
from optfair.dual.certificate import assess, upper_bound
from optfair.dual.penalty import Box
from optfair.dual.problem import DualProblem
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
    share = float(result.x.sum())
    return share, result.x / share if share > 0 else np.full(m, 1.0 / m)


def surely_feasible(rows: RowSet, constants: np.ndarray) -> bool:
    """Whether some constant rule is within the bounds."""
    candidates = np.column_stack([constants, constants.mean(axis=1)])
    if (
        np.all(candidates <= rows.upper[:, None] + 1e-12, axis=0)
        & np.all(candidates >= rows.lower[:, None] - 1e-12, axis=0)
    ).any():
        return True
    m = constants.shape[1]
    uniform = constants.mean(axis=1)
    return best_mixture(rows.lower, rows.upper, uniform, 0.0, constants, np.zeros(m)) is not None


def prove_infeasible(posterior: Posterior, rows: RowSet, seed: int, max_passes: int) -> None:
    """Raise InfeasibleError if no rule is within the bounds; return if that cannot be proven."""
    nothing = np.zeros((posterior.n_cells, posterior.n_classes))
    solver = DualSolver(posterior, rows, nothing, seed, max_passes)
    box = Box(rows.lower, rows.upper, cap=1.0)
    shape = np.ones(posterior.n_cells)
    lam, tau, _ = solver.cool(box, np.zeros(len(rows)), shape, LAST_TAU, 1e-5, 0.0)
    lam = solver.polish(box, lam, shape * tau, 1e-5)[0].multipliers
    problem = DualProblem(posterior, rows, nothing, shape * tau)
    weights = problem.weights(lam)

    def probabilities(Z: np.ndarray, offset: np.ndarray | None) -> np.ndarray:
        scores = (Z @ weights) / tau
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        return scores / scores.sum(axis=1, keepdims=True)

    assessment = assess(posterior, probabilities, weights)
    proof = -upper_bound(assessment, rows, lam) / max(np.abs(lam).sum(), 1e-300)
    if proof <= 1e-9:
        return
    attained = float(rows.excess(problem.matrix @ assessment.confusion.ravel()))
    order = np.argsort(-np.abs(lam))
    heavy = [rows.names[k] for k in order if abs(lam[k]) > 0.01 * np.abs(lam).max()]
    raise InfeasibleError(heavy, attained, proof)
