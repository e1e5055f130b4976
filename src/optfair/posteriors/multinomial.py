"""Fit a multinomial logistic model with a ridge towards passing on its first features, by preconditioned L-BFGS.

    argmin_θ  mean_x w (logsumexp(θ f) − (θ f)[cell of x]) + ρ/(2n) ‖slopes of θ − (I, 0)‖²      f: (q,), θ: (k, q)

Where rows are many a sample of them is enough, and a smaller one gives the start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import linalg, optimize, special

from optfair.dual.kernel import block_hessian
from optfair.utils.parallel import map_blocks
from optfair.utils.sampling import systematic_draw

FIT_ROWS = 200_000  # more rows are sampled, rare cells more often
SKETCH_ROWS = 20_000  # a sample of this size gives the starting point where there are many rows
HESSIAN_ROWS = 4_000  # rows behind the preconditioner
FULL_HESSIAN_CELLS = 40  # beyond, only the diagonal blocks of the Hessian are used: the full one has k⁴ entries


def fit_multinomial(
    features: Callable[[Any, np.ndarray], np.ndarray],
    cell: np.ndarray,
    p: int,
    weight: np.ndarray | None,
    ridge: float,
    seed: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the k cells that have rows, and θ of these, (k, q): intercepts and slopes of the features.

    features : (rows, cells) -> (n, q − 1), those of the cells first. cell : (n,) codes below p.
    """
    n, rng = len(cell), np.random.default_rng(seed)
    w, n_people = np.ones(n) if weight is None else weight / weight.mean(), effective_rows(weight, n)
    cells = np.flatnonzero(np.bincount(cell, w, minlength=p) > 0)
    target = np.searchsorted(cells, cell)
    rows: slice | np.ndarray = slice(None)
    if n > FIT_ROWS:
        rows, w = _sample(target, w, FIT_ROWS, rng)
        target = target[rows]
    F = features(rows, cells)
    F = np.column_stack([np.ones(len(F)), F])
    theta = np.eye(len(cells), F.shape[1], 1)  # (b, Bᵀ, ...): as many rows as cells
    if len(F) > 2 * SKETCH_ROWS:
        index, sample_weight = _sample(target, w, SKETCH_ROWS, rng)
        theta = _minimise(F[index], target[index], sample_weight, ridge / n_people, theta)
    return cells, _minimise(F, target, w, ridge / n_people, theta)


def effective_rows(weight: np.ndarray | None, n: int) -> float:
    """Return how many people the rows stand for: a weight of two is two, but weights that sum to one are not one."""
    if weight is None:
        return float(n)
    return max(float(weight.sum()), n / float(np.mean((weight / weight.mean()) ** 2)))


def _sample(target: np.ndarray, w: np.ndarray, size: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return at most ``size`` rows, half of them dealt out to cells, and their weights, of mean one."""
    count = np.bincount(target)
    index, inverse = systematic_draw(w * (1 / len(w) + 1 / (len(count) * count[target])), size, rng)
    index, first, times = np.unique(index, return_index=True, return_counts=True)
    weight = w[index] * inverse[first] * times
    return index, weight / weight.mean()


def _minimise(F: np.ndarray, target: np.ndarray, w: np.ndarray, strength: float, start: np.ndarray) -> np.ndarray:
    """Return argmin_θ of the module's equation, with strength ρ/n.

    By L-BFGS in the variable u, θ = start + R u, with R Rᵀ about the inverse of the Hessian at the start.
    """
    shape, identity = start.shape, np.eye(start.shape[0], start.shape[1], 1)
    ridge = strength * (np.arange(shape[1]) > 0)  # slopes are shrunk to the identity, intercepts are not
    R = _inverse_root(F, w, ridge, start)

    def theta(u: np.ndarray) -> np.ndarray:
        return np.asarray(start + (R @ u.reshape(len(R), -1, 1)).reshape(shape))

    def loss(u: np.ndarray) -> tuple[float, np.ndarray]:
        current = theta(u)

        def block(part: slice) -> tuple[float, np.ndarray]:
            rows, cell, weight = F[part], target[part], w[part]
            row = np.arange(len(rows))
            scores = current @ rows.T  # cell-major: long vector operations
            scores -= scores.max(axis=0)
            target_scores = scores[cell, row]
            np.exp(scores, out=scores)
            size = scores.sum(axis=0)
            scores *= weight / size
            scores[cell, row] -= weight
            return float(weight @ (np.log(size) - target_scores)), scores @ rows

        parts = map_blocks(block, len(F), 4 * len(current))
        value = sum(v for v, _ in parts) / len(F) + 0.5 * float((ridge * (current - identity) ** 2).sum())
        gradient = np.sum([g for _, g in parts], axis=0) / len(F) + ridge * (current - identity)
        return value, (gradient.reshape(len(R), 1, -1) @ R).ravel()

    limits = {"maxiter": 100, "gtol": 1e-6, "ftol": 0.0}
    return theta(optimize.minimize(loss, np.zeros(start.size), jac=True, method="L-BFGS-B", options=limits).x)


def _inverse_root(F: np.ndarray, w: np.ndarray, ridge: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Return R with R Rᵀ = H⁻¹, H the Hessian at θ from some rows: L-BFGS then needs ten steps, not hundreds.

    (1, kq, kq); or, with very many cells, only its blocks Fᵀ diag(w ẑ_j) F, (k, q, q).
    """
    step = max(len(F) // HESSIAN_ROWS, 1)
    F, w = F[::step], w[::step]
    h = special.softmax(theta @ F.T, axis=0)
    k, q = theta.shape
    if k * q <= FULL_HESSIAN_CELLS * (FULL_HESSIAN_CELLS + 1):
        H = block_hessian(F, h, 1.0, w).reshape(q, k, q, k).transpose(1, 0, 3, 2).reshape(1, k * q, -1)
    else:
        H = np.stack([(F.T * (w * h[j])) @ F for j in range(k)])
    H /= len(F)
    blocks, size, _ = H.shape
    diagonal = np.arange(size)
    least = 1e-7 * H[:, diagonal, diagonal].mean() + 1e-12  # equal changes of all scores change nothing
    H[:, diagonal, diagonal] += np.tile(ridge, k).reshape(blocks, size) + least
    inverse = [linalg.solve_triangular(linalg.cholesky(block, lower=True), np.eye(size), lower=True).T for block in H]
    return np.stack(inverse)
