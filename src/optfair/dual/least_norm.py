"""Choose the multipliers of least norm among those that give the same rule.

With two classes, two groups, or whenever rates sum to one, several rows of D say the same and λ is not unique. All
optimal λ share W(λ) up to a constant per cell, and are zero, ≥ 0 or ≤ 0 where D(h) is inside, at its upper or at its
lower bound. Among those: ``min ‖λ‖²  s.t.  D̃ᵀλ = D̃ᵀλ*``, D̃ = D centred over outcomes, by non-negative least squares,
separately for rows that share no cell. The answer then does not depend on the order of rows.
"""

from __future__ import annotations

import numpy as np
from scipy import optimize, sparse

from optfair.constraints.rows import centre
from optfair.dual.penalty import Box


def least_norm(
    matrix: sparse.csr_array, n_outcomes: int, box: Box, lam: np.ndarray, values: np.ndarray, tau: float
) -> np.ndarray:
    """Return the λ of least norm with the rule of ``lam``; values: D(h), (K,). tau : the scale of the scores."""
    if not lam.any():
        return lam
    residual = box.residual(lam, values)
    slack = 2 * residual + 1e-9
    sign = np.where(values >= box.upper - slack, 1, np.where(values <= box.lower + slack, -1, np.sign(lam)))
    equality = (values >= box.upper - slack) & (values <= box.lower + slack)  # either sign
    sign = np.where(equality & (lam < 0), -1, sign)
    centred = centre(matrix, n_outcomes)
    out = np.zeros_like(lam)
    pattern = abs(matrix) @ abs(centred).T  # rows that touch a common cell
    n_parts, part = sparse.csgraph.connected_components(pattern, directed=False)
    for index in (np.flatnonzero(part == p) for p in range(n_parts)):
        out[index] = _least_norm_part(centred[index].toarray(), sign[index], lam[index])
    # Keep the answer only if it is the same rule at no higher price.
    same = np.abs(centred.T @ (out - lam)).max() <= 1e-3 * tau
    cheaper = box.value(out) <= box.value(lam) + residual * np.abs(lam).sum() + 1e-12
    return out if same and cheaper and np.abs(out).sum() <= max(box.cap, np.abs(lam).sum()) else lam


def _least_norm_part(D: np.ndarray, sign: np.ndarray, lam: np.ndarray) -> np.ndarray:
    """Return argmin ‖λ‖² with Dᵀλ given and the signs of λ fixed.   D: (k, q)"""
    out = np.zeros_like(lam)
    active = np.flatnonzero(sign)
    if not lam.any() or len(active) == 0:
        return out
    # Rows of rare cells are thousands of times longer: unit rows keep the system well conditioned. Its short form, by
    # the singular values, has at most k equations; the ridge chooses the least norm.
    signed = D[active] * sign[active, None]
    length = np.maximum(np.linalg.norm(signed, axis=1), 1e-300)
    u, s, _ = np.linalg.svd(signed / length[:, None], full_matrices=False)
    keep = s > 1e-10 * s[0]
    equations = s[keep, None] * u[:, keep].T
    target = equations @ (sign[active] * lam[active] * length)
    system = np.concatenate([equations, 1e-7 * np.diag(length.min() / length)])
    solution = optimize.nnls(system, np.concatenate([target, np.zeros(len(active))]))[0]
    out[active] = sign[active] * solution / length
    return out
