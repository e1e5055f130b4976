"""Fit a multinomial logistic model with a ridge towards passing on its first features, by preconditioned L-BFGS.

    argmin_θ  mean_x w (logsumexp(s) − s[cell of x]) + ρ/(2n) ‖slopes of θ − (I, 0)‖²

    dense      s = θ (1, f)               f: (q − 1,)   θ: (k, q)
    diagonal   s_j = θ_j0 + θ_j1 f_j      f: (k,)       θ: (k, 2)

Where rows are many a sample of them is enough, and a smaller one gives the start. A large fit ends where its steps gain
far less than 1/(2n), to which the labels of n rows know the loss of one parameter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import linalg, optimize, special

from optfair.dual.kernel import block_hessian
from optfair.utils.parallel import map_blocks
from optfair.utils.sampling import systematic_draw

FIT_ROWS = 100_000  # more rows are sampled, rare cells more often
SKETCH_ROWS = 20_000  # a sample of this size gives the starting point where there are many rows
HESSIAN_ROWS = 4_000, 2_000  # behind the preconditioner, if it is all of the Hessian, and if it is its blocks
FULL_HESSIAN_CELLS = 12  # beyond, only blocks of the Hessian are used: its k⁴ entries take longer than they save
SINGLE_PRECISION_NUMBERS = 500_000  # of features: from here on float32 is faster, and its rounding far below the noise
SMALLEST_GAIN = 1e-6  # of the loss, by a step of a large fit: there would be many more, and they change nothing


def fit_multinomial(
    features: Callable[[Any, np.ndarray], np.ndarray],
    cell: np.ndarray,
    p: int,
    weight: np.ndarray | None,
    ridge: float,
    seed: int,
    start: tuple[np.ndarray, np.ndarray] | None = None,
    *,
    diagonal: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the k cells that have rows, and θ of these, (k, q) or (k, 2): intercepts and slopes of the features.

    features : (rows, cells) -> (n, q − 1), those of the cells first. cell : (n,) codes below p. start : what this
    returned for nearly the same rows, where the search begins. Newton steps end at the optimum of these rows alone; the
    search for many cells, or for a diagonal, ends near it, within .002 of a probability.
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
    F = F if diagonal else np.column_stack([np.ones(len(F)), F])
    F = F.astype(np.float32) if F.size >= SINGLE_PRECISION_NUMBERS else F
    identity = np.tile([0.0, 1.0], (len(cells), 1)) if diagonal else np.eye(len(cells), F.shape[1], 1)
    theta = identity
    if start is not None and np.array_equal(start[0], cells):
        theta = start[1]
    elif len(F) > 2 * SKETCH_ROWS:
        index, sample_weight = _sample(target, w, SKETCH_ROWS, rng)
        sketch = F[index], target[index], sample_weight
        theta = _minimise(*sketch, ridge / n_people, theta, identity, 10 * SMALLEST_GAIN, diagonal=diagonal)
    return cells, _minimise(F, target, w, ridge / n_people, theta, identity, SMALLEST_GAIN, diagonal=diagonal)


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


def _minimise(
    F: np.ndarray,
    target: np.ndarray,
    w: np.ndarray,
    strength: float,
    start: np.ndarray,
    identity: np.ndarray,
    smallest_gain: float,
    *,
    diagonal: bool,
) -> np.ndarray:
    """Return argmin_θ of the module's equation, with strength ρ/n.

    By L-BFGS in the variable u, θ = start + R u, with R Rᵀ about the inverse of the Hessian at the start. With all of
    the Hessian a few steps end at the optimum; with its blocks, or in float32, the last step gains less than
    ``smallest_gain``.
    """
    ridge = strength * (np.arange(start.shape[1]) > 0)  # slopes are shrunk to the identity, intercepts are not
    R = _inverse_root(F, w, ridge, start, diagonal=diagonal)

    def theta(u: np.ndarray) -> np.ndarray:
        return np.asarray(start + (R @ u.reshape(len(R), -1, 1)).reshape(start.shape))

    def loss(u: np.ndarray) -> tuple[float, np.ndarray]:
        current = theta(u)

        def block(part: slice) -> tuple[float, np.ndarray]:
            rows, cell, weight = F[part], target[part], w[part]
            row = np.arange(len(rows))
            scores = _scores(current, rows, diagonal=diagonal)
            scores -= scores.max(axis=0)
            target_scores = scores[cell, row]
            np.exp(scores, out=scores)
            size = scores.sum(axis=0)
            scores *= (weight / size).astype(F.dtype)
            scores[cell, row] -= weight
            if diagonal:
                slope = np.column_stack([scores.sum(axis=1), np.einsum("jx,xj->j", scores, rows)])
            else:
                slope = scores @ rows
            return float(weight @ (np.log(size) - target_scores)), slope.astype(np.float64)

        parts = map_blocks(block, len(F), 4 * len(current))
        value = sum(v for v, _ in parts) / len(F) + 0.5 * float((ridge * (current - identity) ** 2).sum())
        gradient = np.sum([g for _, g in parts], axis=0) / len(F) + ridge * (current - identity)
        return value, (gradient.reshape(len(R), 1, -1) @ R).ravel()

    exact = len(R) == 1 and F.dtype == np.float64
    limits = {"maxiter": 100, "gtol": 1e-6, "ftol": 0.0 if exact else smallest_gain}
    return theta(optimize.minimize(loss, np.zeros(start.size), jac=True, method="L-BFGS-B", options=limits).x)


def _scores(theta: np.ndarray, F: np.ndarray, *, diagonal: bool) -> np.ndarray:
    """Return s of rows, cell-major (k, n): reductions are then long vector operations."""
    theta = theta.astype(F.dtype)
    return theta[:, :1] + theta[:, 1:] * F.T if diagonal else theta @ F.T


def _inverse_root(F: np.ndarray, w: np.ndarray, ridge: np.ndarray, theta: np.ndarray, *, diagonal: bool) -> np.ndarray:
    """Return R with R Rᵀ = H⁻¹, H the Hessian at θ from some rows: L-BFGS then needs ten steps, not hundreds.

    (1, kq, kq); or, with more cells, only its blocks Fᵀ diag(w ẑ_j) F, (k, q, q).
    """
    k, q = theta.shape
    whole = not diagonal and k * q <= FULL_HESSIAN_CELLS * (FULL_HESSIAN_CELLS + 1)
    step = max(len(F) // HESSIAN_ROWS[0 if whole else 1], 1)
    F, w = F[::step], w[::step]
    if whole:
        F = F.astype(np.float64)  # equal changes of all scores change nothing: rounding would make H indefinite
    h = special.softmax(_scores(theta, F, diagonal=diagonal), axis=0)
    if whole:
        H = block_hessian(F, h, 1.0, w)[None]
    elif diagonal:
        power = [np.einsum("x,jx,xj->j", w, h, F**exponent) for exponent in range(3)]
        H = np.stack([power[:2], power[1:]]).transpose(2, 0, 1)
    else:
        H = np.stack([(F.T * curve) @ F for curve in (w * h).astype(F.dtype)]).astype(np.float64)
    H /= len(F)
    blocks, size, _ = H.shape
    places = np.arange(size)
    least = (1e-7 if whole else 1e-5) * H[:, places, places].mean(axis=1, keepdims=True) + 1e-12
    H[:, places, places] += np.tile(ridge, k).reshape(blocks, size) + least
    inverse = [linalg.solve_triangular(linalg.cholesky(block, lower=True), np.eye(size), lower=True).T for block in H]
    return np.stack(inverse)
