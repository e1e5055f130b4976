"""The multipliers of least norm among those that give the same rule.

With two classes, two groups, or whenever rates sum to one, several rows of D say the same and λ is not unique. All
optimal λ share W(λ) up to a constant per cell, and are zero, ≥ 0 or ≤ 0 where D(h) is inside, at its upper or at its
lower bound. Among those: ``min ‖λ‖²  s.t.  D̃ᵀλ = D̃ᵀλ*``, D̃ = D centred over outcomes, by non-negative least squares,
separately for rows that share no cell. The answer then does not depend on the order of rows.
"""

from __future__ import annotations

import numpy as np
from scipy import optimize, sparse

from optfair.dual.penalty import Box


def least_norm(matrix: sparse.csr_array, n_outcomes: int, box: Box, lam: np.ndarray, values: np.ndarray) -> np.ndarray:
    """λ of least norm with the rule of ``lam``; values: D(h), (K,)."""
    if not lam.any():
        return lam
    residual = box.residual(lam, values)
    slack = 2 * residual + 1e-9
    sign = np.where(values >= box.upper - slack, 1, np.where(values <= box.lower + slack, -1, np.sign(lam)))
    both = (values >= box.upper - slack) & (values <= box.lower + slack)  # an equality: either sign
    sign = np.where(both & (lam < 0), -1, sign)
    centred = matrix @ sparse.kron(
        sparse.eye_array(matrix.shape[1] // n_outcomes), np.eye(n_outcomes) - 1.0 / n_outcomes, format="csr"
    )
    centred = sparse.csr_array(centred)
    out = np.zeros_like(lam)
    pattern = abs(matrix) @ abs(centred).T  # rows that touch a common cell
    n_parts, part = sparse.csgraph.connected_components(pattern, directed=False)
    for index in (np.flatnonzero(part == p) for p in range(n_parts)):
        out[index] = _least_norm_part(centred[index].toarray(), sign[index], lam[index])
    # Keep the answer only if it is the same rule at no higher price.
    same = np.abs(centred.T @ (out - lam)).max() <= 1e-7 * max(np.abs(centred.T @ lam).max(), 1e-300)
    return out if same and box.value(out) <= box.value(lam) + residual * np.abs(lam).sum() + 1e-12 else lam


def _least_norm_part(D: np.ndarray, sign: np.ndarray, lam: np.ndarray) -> np.ndarray:
    """argmin ‖λ‖² with Dᵀλ given and the signs of λ fixed.   D: (k, q)"""
    out = np.zeros_like(lam)
    active = np.flatnonzero(sign)
    if not lam.any() or len(active) == 0:
        return out
    signed = D[active] * sign[active, None]
    norm = float(np.abs(signed).max())
    # The k×k Gram form keeps the system small; the ridge chooses the least norm.
    u, s, _ = np.linalg.svd(signed / norm, full_matrices=False)
    keep = s > 1e-10 * s[0]
    target = (s[keep, None] * u[:, keep].T) @ (sign[active] * lam[active])
    system = np.concatenate([s[keep, None] * u[:, keep].T, 1e-6 * np.eye(len(active))])
    out[active] = sign[active] * optimize.nnls(system, np.concatenate([target, np.zeros(len(active))]))[0]
    return out
