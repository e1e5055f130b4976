"""Derive standard errors from moments: every gap is a smooth function of sums over people.

A person of cell (a, i) with prediction h moves the rate r = N_r·vec(J) / (G_r·P) by
(N_r[a,i]·h − r G_r[a,i]) / (G_r·P), and, since Σ_j h_j = 1, the gap D_k = Σ_r C_kr r by a linear
function of h:

    B_k[a,i]·h,   B_k[a,i,j] = Σ_r C_kr (N_r[a,i,j] − r G_r[a,i]) / (G_r·P),
    cov(D) = Σ_{a,i} B[a,i] S[a,i] B[a,i]ᵀ.

Group sizes are random here, as in a sample from a population. A user's row E·vec(J) is such a rate too, among
everybody: J sums to 1 (`as_rates`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse

from optfair.constraints import RowSet

# Entries of a temporary: 160 MB of float64 at most, whatever the number of groups and classes.
MAX_ENTRIES = 20_000_000


def as_rates(rows: RowSet) -> RowSet:
    """Return the same rows, every one a combination of rates.

    E_k·vec(J) = E_k·vec(J) / ΣP is a rate whose mass ΣP = 1 is everybody. So a row of weighted people is a ratio of
    sums, as it should be, and a constant row has no error.
    """
    index = np.flatnonzero(np.diff(rows.combination.indptr) == 0)  # the rows of the user
    if not len(index):
        return rows
    K, n_cells = len(rows), rows.conditions.shape[1]
    place = sparse.csr_array((np.ones(len(index)), (index, np.arange(len(index)))), shape=(K, len(index)))
    return replace(
        rows,
        combination=sparse.csr_array(sparse.hstack([rows.combination, place])),
        hits=sparse.csr_array(sparse.vstack([rows.hits, rows.user_rows[index]])),
        conditions=sparse.csr_array(sparse.vstack([rows.conditions, np.ones((len(index), n_cells))])),
        user_rows=sparse.csr_array(rows.user_rows.shape),
    )


def rate_influence(rows: RowSet, tensor: np.ndarray) -> sparse.csr_array:
    """Return the derivative of each rate by J, (R, A·m·m); rates of empty cells have none.   tensor: (A, m, m)"""
    m = tensor.shape[-1]
    mass = rows.conditions @ tensor.sum(-1).ravel()
    inverse = np.divide(1.0, mass, out=np.zeros_like(mass), where=mass > 0)
    rates = (rows.hits @ tensor.ravel()) * inverse
    every_outcome = sparse.csr_array(sparse.kron(rows.conditions, np.ones((1, m))))
    return sparse.diags_array(inverse) @ (rows.hits - sparse.diags_array(rates) @ every_outcome)


def row_variances(combination: sparse.csr_array, influence: sparse.csr_array, blocks: np.ndarray) -> np.ndarray:
    """Return diag(B S Bᵀ), B = combination @ influence.   blocks S: (A, m, m, m), or (A, m, m) if diagonal"""
    width = influence.shape[1]
    if blocks.ndim == 3:
        S = sparse.diags_array(blocks.ravel())
    else:
        n_cells, m = width // blocks.shape[-1], blocks.shape[-1]
        S = sparse.bsr_array(
            (blocks.reshape(n_cells, m, m), np.arange(n_cells), np.arange(n_cells + 1)), shape=(width, width)
        )
    K = combination.shape[0]
    step = max(1, MAX_ENTRIES // width)
    variances = np.empty(K)
    for start in range(0, K, step):
        B = sparse.csr_array(combination[start : start + step] @ influence)
        variances[start : start + step] = ((B @ S).multiply(B)).sum(axis=1)
    return np.maximum(variances, 0.0)


def people_behind(rows: RowSet, n_people: np.ndarray) -> np.ndarray:
    """Return the fewest people behind any rate of each row, (K,): for gaps to the overall rate, the group.

    Every row must be a combination of rates.
    """
    per_rate = rows.conditions @ n_people.ravel()
    C = rows.combination
    return np.minimum.reduceat(per_rate[C.indices], C.indptr[:-1]).astype(int)


def rate_limits(rows: RowSet) -> tuple[np.ndarray, np.ndarray]:
    """Return what no rule can be below or above: a rate is a mean of the entries of its row of hits."""
    bottom, top = (getattr(rows.hits, side)(axis=1).toarray().ravel() for side in ("min", "max"))
    positive, negative = rows.combination.maximum(0), rows.combination.minimum(0)
    return positive @ bottom + negative @ top, positive @ top + negative @ bottom
