"""Find out whether any rule is within the bounds, and if none is, which rows contradict each other.

The smallest uniform loosening is itself a fair-rule problem, with nothing to gain and ‖λ‖₁ ≤ 1:

    t* = min_h max_k (distance of D_k(h) outside its bounds) = max_{‖λ‖₁ ≤ 1} −v(λ),
    v(λ) = mean_x max_j (−Z Dᵀλ)_j + σ(λ).        v(λ) < 0 for some λ proves that no rule is within the bounds.
"""

from __future__ import annotations

import numpy as np
from scipy import optimize, special

from optfair.constraints import RowSet
from optfair.constraints.rows import ROUNDING
from optfair.dual.measure import Measure
from optfair.dual.penalty import Box
from optfair.dual.problem import DualProblem, cell_weights
from optfair.dual.settings import SETTINGS
from optfair.dual.solver import DualSolver
from optfair.errors import InfeasibleError
from optfair.rule.certificate import assess
from optfair.rule.options import Options

# Temperatures fall until the loosening that is proven necessary and the one that is seen to do agree within AGREEMENT.
TEMPERATURES = (1e-2, 1e-3, SETTINGS.last_temperature)
AGREEMENT = 1.02
HEAVY = 0.01  # rows whose multiplier is below this share of the largest one are not named as being in conflict


def best_mixture(
    lower: np.ndarray,
    upper: np.ndarray,
    values: np.ndarray,
    value: float,
    constants: np.ndarray,
    gains: np.ndarray,
) -> tuple[float, np.ndarray] | None:
    """Return (s, q) of the mixture (1 − s) h + s q with a constant q that is within the bounds and costs the least.

    values : D(h), (K,). constants : D of each constant, (K, m). gains : value of each constant, (m,). None where no
    mixture is within the bounds.
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
    """Tell whether some constant rule is within the bounds.   lower, upper: (K,)   constants: (K, m)"""
    uniform = constants.mean(axis=1)
    for values in (*constants.T, uniform):
        if (values <= upper + ROUNDING).all() and (values >= lower - ROUNDING).all():
            return True
    return best_mixture(lower, upper, uniform, 0.0, constants, np.zeros(constants.shape[1])) is not None


def refuse_if_infeasible(posterior: Measure, rows: RowSet, options: Options) -> None:
    """Raise InfeasibleError if no rule is within the bounds; return if that cannot be proven."""
    posterior, sample = posterior.without_offset().with_sample(options.seed)
    nothing = np.zeros((posterior.n_cells, posterior.n_classes))
    problem = DualProblem(posterior, rows.matrix(posterior.prior), nothing)
    sketch = problem if sample is posterior else DualProblem(sample, rows.matrix(sample.prior), nothing)
    solver = DualSolver(problem, sketch, options.seed, options.max_passes)
    box = Box(rows.lower, rows.upper, cap=1.0)
    shape = np.ones(posterior.n_cells)
    lam = np.zeros(len(rows))
    for tau in TEMPERATURES:
        lam = solver.cool(box, lam, shape, tau, 0.1 * tau, 0.0).minimum.point.multipliers
        least, loosening = _loosening(problem, rows, lam, tau)
        if loosening <= 0:
            return
        if least > 1e-9 and (loosening <= AGREEMENT * least or tau == TEMPERATURES[-1]):
            order = np.argsort(-np.abs(lam))
            heavy = [rows.names[k] for k in order if abs(lam[k]) > HEAVY * np.abs(lam).max()]
            raise InfeasibleError(heavy, loosening, least)


def _loosening(problem: DualProblem, rows: RowSet, lam: np.ndarray, tau: float) -> tuple[float, float]:
    """Return uniform loosenings: one that λ proves necessary, and one that its softmax rule shows to be enough."""
    weights = cell_weights(problem.utility, problem.matrix, lam)

    def probabilities(Z: np.ndarray, offset: np.ndarray | None) -> np.ndarray:
        return np.asarray(special.softmax((Z @ weights) / tau, axis=1))

    proof = assess(problem.posterior, rows, problem.matrix, probabilities, problem.utility, lam)
    return -proof.dual_value / max(float(np.abs(lam).sum()), 1e-300), proof.excess
