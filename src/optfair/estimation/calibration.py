"""Calibration of the joint posterior on labelled people it was not fitted on: multinomial scaling of log Z.

    ẑ = softmax(log z · B + b),   (B, b) = argmin  −mean_x w log ẑ[cell of x] + ρ/(2n) ‖B − I‖²      z, ẑ: (p,)

At the minimum the calibrated cells agree with the labels on average, and so do their products with every log z_c: the
plug-in confusion tensor of a rule that depends on z is then close to the labelled one (Kull et al. 2019 call this
Dirichlet calibration). B is drawn towards the identity, which is no calibration at all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg, optimize

from optfair.dual.kernel import block_hessian
from optfair.dual.problem import systematic_draw
from optfair.parallel import map_blocks, n_threads, one_blas_thread

CLIP = 1e-5
FIT_ROWS = 200_000  # more rows are sampled, those of rare cells first
HESSIAN_ROWS, FULL_HESSIAN_CELLS = 4_000, 40


@dataclass(frozen=True, eq=False)
class Scaling:
    """slopes : (k, k) B, intercepts : (k,) b, of the k cells in ``cells`` (others stay zero); p cells in all."""

    slopes: np.ndarray
    intercepts: np.ndarray
    cells: np.ndarray
    p: int

    def __call__(self, Z: np.ndarray) -> np.ndarray:
        """ẑ of rows (n, p), in their dtype."""
        out = np.zeros_like(Z)

        def fill(block: slice) -> None:
            scores = _logs(Z[block], self.cells) @ self.slopes + self.intercepts
            out[block, self.cells] = _softmax(scores)

        map_blocks(fill, len(Z), 4 * self.p, n_threads(None))
        return out


def fit_scaling(
    Z: np.ndarray, cell: np.ndarray, weight: np.ndarray | None = None, ridge: float = 1.0, seed: int = 0
) -> Scaling:
    """(B, b) from rows Z (n, p) and the observed cell of each person, (n,) integers."""
    n, p = Z.shape
    w = np.ones(n) if weight is None else weight / weight.mean()
    total = float(n if weight is None else weight.sum())  # a weight of two is two people
    cells = np.flatnonzero(np.bincount(cell, w, minlength=p) > 0)
    place = np.full(p, -1)
    place[cells] = np.arange(len(cells))
    if n > FIT_ROWS:
        people = np.bincount(cell, minlength=p)
        index, w_drawn = systematic_draw(w * (1 / people)[cell], FIT_ROWS, np.random.default_rng(seed))
        Z, cell, w = Z[index], cell[index], w[index] * w_drawn
        w = w / w.mean()
    k, target = len(cells), place[cell]
    F = np.column_stack([np.ones(len(Z)), _logs(Z, cells)])
    free = np.repeat(np.arange(k + 1) > 0, k)  # slopes are drawn to the identity, intercepts are not
    strength = ridge / total * free
    root = _preconditioner(F, w, strength)

    def loss(step: np.ndarray) -> tuple[float, np.ndarray]:
        change = linalg.solve_triangular(root, step, lower=True, trans="T")
        theta = change.reshape(k + 1, k)

        def block(part: slice) -> tuple[float, np.ndarray]:
            scores = F[part, 1:] + F[part] @ theta
            scores -= scores.max(axis=1, keepdims=True)
            own = scores[np.arange(len(scores)), target[part]]
            np.exp(scores, out=scores)
            size = scores.sum(axis=1)
            scores *= (w[part] / size)[:, None]
            scores[np.arange(len(scores)), target[part]] -= w[part]
            return float(w[part] @ (np.log(size) - own)), F[part].T @ scores

        parts = map_blocks(block, len(F), 4 * k, n_threads(None))
        value = sum(v for v, _ in parts) / len(F) + 0.5 * float(strength @ change**2)
        gradient = np.sum([g for _, g in parts], axis=0).ravel() / len(F) + strength * change
        return value, linalg.solve_triangular(root, gradient, lower=True)

    limits = {"maxiter": 100, "gtol": 1e-7, "ftol": 0.0}
    found = optimize.minimize(loss, np.zeros((k + 1) * k), jac=True, method="L-BFGS-B", options=limits)
    theta = linalg.solve_triangular(root, found.x, lower=True, trans="T").reshape(k + 1, k)
    return Scaling(np.eye(k) + theta[1:], theta[0], cells, p)


def _preconditioner(F: np.ndarray, w: np.ndarray, strength: np.ndarray) -> np.ndarray:
    """Cholesky factor of the Hessian at the identity, from some rows: L-BFGS then needs ten steps, not hundreds.

    With very many cells only its blocks Fᵀ diag(w z_j) F, one for each cell j, are used.
    """
    step = max(len(F) // HESSIAN_ROWS, 1)
    F, w = F[::step], w[::step]
    h = _softmax(F[:, 1:]).T
    k = len(h)
    if k <= FULL_HESSIAN_CELLS:
        H = block_hessian(F, h, 1.0, w) / len(F)
    else:
        H = np.zeros(((k + 1) * k,) * 2)
        for j in range(k):
            H[j::k, j::k] = (F.T * (w * h[j])) @ F / len(F)
    size = np.trace(H) / len(H)
    H[np.diag_indices_from(H)] += strength + 1e-7 * size
    return np.asarray(linalg.cholesky(H, lower=True))


def fit_calibration(
    Z: np.ndarray, a: np.ndarray, y: np.ndarray, weight: np.ndarray | None, *, aware: bool, seed: int = 0
) -> tuple[Scaling, ...]:
    """One scaling of the joint posterior Z (n, A, m); or, aware, one of P(Y | X, A=a) for each group a."""
    n, A, m = Z.shape
    with one_blas_thread():  # small matrices between passes: threads would cost more than they give
        if not aware:
            return (fit_scaling(Z.reshape(n, A * m), a * m + y, weight, seed=seed),)
        members = [np.flatnonzero(a == group) for group in range(A)]
        return tuple(
            fit_scaling(Z[rows, group], y[rows], None if weight is None else weight[rows], seed=seed)
            for group, rows in enumerate(members)
        )


def calibrated(scalings: tuple[Scaling, ...], Z: np.ndarray, group: np.ndarray | None) -> np.ndarray:
    """ẑ, (n, A, m). group : the code of each person's group for scalings by group (−1: left as it is), else None."""
    if group is None:
        return scalings[0](Z.reshape(len(Z), -1)).reshape(Z.shape)
    out = Z.copy()
    for a, scaling in enumerate(scalings):
        rows = np.flatnonzero(group == a)
        out[rows, a] = scaling(Z[rows, a])
    return out


def _logs(Z: np.ndarray, cells: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(Z[:, cells].astype(np.float64), CLIP))


def _softmax(scores: np.ndarray) -> np.ndarray:
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return scores / scores.sum(axis=1, keepdims=True)
