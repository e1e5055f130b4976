"""Solve the exact linear program, for small n and as a referee.

max_h  mean_x Σ_j h_j (Z U + offset)_j   s.t.  lower ≤ D vec(J(h)) ≤ upper,  h(x) in the simplex
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import optimize, sparse

from optfair.constraints import RowSet
from optfair.dual.measure import Measure
from optfair.errors import InfeasibleError

LP_VARIABLES = 2_000_000  # HiGHS needs about a kilobyte for each


@dataclass(frozen=True, eq=False)
class ExactSolution:
    """Optimal value, an optimal rule (n, m) for these rows, and its multipliers (K,)."""

    value: float
    probabilities: np.ndarray
    multipliers: np.ndarray


def solve_exact(
    posterior: Measure, rows: RowSet, utility: np.ndarray, time_limit: float | None = None
) -> ExactSolution:
    """Solve the linear program with HiGHS; raise TimeoutError if it takes more than ``time_limit`` seconds."""
    n, m, K = posterior.n, posterior.n_classes, len(rows)
    if n * m > LP_VARIABLES:
        raise ValueError(f"method='lp': {n * m} variables; it is for at most {LP_VARIABLES}. Use method='dual'.")
    block = posterior.draw(n).block(slice(None))
    Z, weight = block.Z.astype(np.float64), block.weights
    gain = Z @ utility + (0.0 if block.offset is None else block.offset)
    D = rows.matrix(posterior.prior).toarray().reshape(K, posterior.n_cells, m)
    G = np.einsum("xc,kcj->kxj", Z * weight[:, None] / n, D, optimize=True).reshape(K, n * m)
    up, low = np.isfinite(rows.upper), np.isfinite(rows.lower)
    program = dict(
        c=-(gain * weight[:, None] / n).ravel(),
        A_ub=sparse.csr_array(np.concatenate([G[up], -G[low]])),
        b_ub=np.concatenate([rows.upper[up], -rows.lower[low]]),
        A_eq=sparse.kron(sparse.eye_array(n), np.ones((1, m)), format="csr"),
        b_eq=np.ones(n),
        bounds=(0, None),
        method="highs",
    )
    limit = {} if time_limit is None else {"time_limit": time_limit}
    result = optimize.linprog(**program, options=limit)
    if result.status == 4:  # numerical trouble, mostly at tolerance 0: presolve is the usual culprit
        result = optimize.linprog(**program, options=limit | {"presolve": False})
    if result.status == 2:
        raise InfeasibleError(rows.names, np.nan, 0.0)
    if result.status == 1:
        raise TimeoutError(f"HiGHS did not finish within {time_limit} seconds.")
    if not result.success:
        raise RuntimeError(f"HiGHS: {result.message}")
    multipliers = np.zeros(K)
    marginals = np.minimum(result.ineqlin.marginals, 0.0)  # HiGHS leaves some at +1e-12
    multipliers[up] -= marginals[: up.sum()]
    multipliers[low] += marginals[up.sum() :]
    return ExactSolution(-float(result.fun), result.x.reshape(n, m), multipliers)
