"""Scale probabilities by the labels of rows: what calibration fits, once for each factor of z.

    Scaling         softmax(log z · B + b)              z: (k,)   B: any (k, k), or, of very many cells, diagonal
    ShareScaling    softmax(log q · B + log P(Y | x) · C + b)     q = P(A | x, Y=i), of one class i
    AwareScaling    softmax(log P(Y | x, a) · B + log P(Y | x) · C + b + b_a)     groups share B, C and b

Fitted by `multinomial`, with a ridge that draws B towards the identity and C and b_a towards zero, which is no
calibration at all. At the minimum the calibrated cells agree with the labels on average, and so do their products with
every log z_c (Kull et al. 2019 call this Dirichlet calibration). Estimates of P(Y | x, a) are noisy where groups are
small, so that they are joined with that of everybody.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from optfair.posteriors.multinomial import fit_multinomial
from optfair.utils.parallel import map_blocks

CLIP = 1e-5  # probabilities below this are rounding of most models; their logs would dominate the slopes
RIDGE = 10.0  # where rows are plenty


@dataclass(frozen=True, eq=False)
class Scaling:
    """slopes : (k, k) B, intercepts : (k,) b, of the k cells in ``cells`` (others stay zero); p cells in all."""

    slopes: np.ndarray
    intercepts: np.ndarray
    cells: np.ndarray
    p: int

    def __call__(self, Z: np.ndarray) -> np.ndarray:
        """Return ẑ of rows (n, p), in their dtype."""
        out = np.empty_like(Z)

        def fill(block: slice) -> None:
            out[block] = self.columns(Z[block]).T

        map_blocks(fill, len(Z), 4 * self.p)
        return out

    def columns(self, Z: np.ndarray) -> np.ndarray:
        """Return ẑ of some rows (n, p) cell by cell, (p, n): operations on few cells of many rows are fast."""
        scores = self.slopes.T @ _logs(Z, self.cells).T
        scores += self.intercepts[:, None]
        scores -= scores.max(axis=0)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=0)
        if len(self.cells) == self.p:
            return scores
        out = np.zeros((self.p, len(Z)))
        out[self.cells] = scores
        return out


@dataclass(frozen=True, eq=False)
class ShareScaling:
    """slopes : (k + m, k) B above C, intercepts : (k,) b, of the k groups in ``cells`` (others stay zero); p in all."""

    slopes: np.ndarray
    intercepts: np.ndarray
    cells: np.ndarray
    p: int

    def columns(self, shares: np.ndarray, classes: np.ndarray) -> np.ndarray:
        """Return P(A | X, Y=i), calibrated, group by group, (p, n), of shares (n, p) and P(Y | X), (n, m)."""
        logs = np.column_stack([_logs(shares, self.cells), _logs(classes, np.arange(classes.shape[1]))])
        out = np.zeros((self.p, len(shares)))
        out[self.cells] = special.softmax(self.slopes.T @ logs.T + self.intercepts[:, None], axis=0)
        return out


@dataclass(frozen=True, eq=False)
class AwareScaling:
    """slopes : (2k, k) B above C, intercepts : (A, k) b + b_a, of the k classes in ``classes``; m classes in all."""

    slopes: np.ndarray
    intercepts: np.ndarray
    classes: np.ndarray
    m: int

    def __call__(self, P_aware: np.ndarray, pooled: np.ndarray, group: np.ndarray) -> np.ndarray:
        """Return P(Y | X, A), calibrated, (n, m), of P(Y | X, A) and P(Y | X), (n, m) each, and groups (n,)."""
        out = np.zeros_like(P_aware)
        logs = np.column_stack([_logs(P_aware, self.classes), _logs(pooled, self.classes)])
        out[:, self.classes] = special.softmax(logs @ self.slopes + self.intercepts[group], axis=1)
        return out


def identity_scaling(k: int) -> Scaling:
    """Return the scaling that changes nothing, but for probabilities that are rounding."""
    return Scaling(np.eye(k), np.zeros(k), np.arange(k), k)


def identity_share_scaling(A: int, m: int) -> ShareScaling:
    """Return the scaling that leaves the shares of A groups as they are, whatever the m classes."""
    return ShareScaling(np.eye(A + m, A), np.zeros(A), np.arange(A), A)


def fit_scaling(
    Z: np.ndarray,
    cell: np.ndarray,
    weight: np.ndarray | None = None,
    ridge: float = RIDGE,
    seed: int = 0,
    start: Scaling | None = None,
    *,
    diagonal: bool = False,
) -> Scaling:
    """Fit (B, b) to rows Z (n, p) and the observed cell of each row, (n,) integers.

    start : a scaling of nearly the same rows; the search begins there and is shorter. diagonal : so is B.
    """
    origin = None
    if start is not None:
        slopes = np.diag(start.slopes)[:, None] if diagonal else start.slopes.T
        origin = start.cells, np.column_stack([start.intercepts, slopes])

    def features(rows: np.ndarray | slice, cells: np.ndarray) -> np.ndarray:
        return _logs(Z[rows], cells)

    cells, theta = fit_multinomial(features, cell, Z.shape[1], weight, ridge, seed, origin, diagonal=diagonal)
    return Scaling(np.diag(theta[:, 1]) if diagonal else theta[:, 1:].T, theta[:, 0], cells, Z.shape[1])


def fit_share_scaling(
    shares: np.ndarray,
    classes: np.ndarray,
    a: np.ndarray,
    weight: np.ndarray | None = None,
    ridge: float = RIDGE,
    seed: int = 0,
) -> ShareScaling:
    """Fit (B, C, b) to P(A | X, Y=i), (n, A), and P(Y | X), (n, m), of rows of class i and their groups, (n,) codes."""
    (_, A), m = shares.shape, classes.shape[1]

    def features(rows: np.ndarray | slice, cells: np.ndarray) -> np.ndarray:
        return np.column_stack([_logs(shares[rows], cells), _logs(classes[rows], np.arange(m))])

    cells, theta = fit_multinomial(features, a, A, weight, ridge, seed)
    return ShareScaling(theta[:, 1:].T, theta[:, 0], cells, A)


def fit_aware_scaling(
    P_aware: np.ndarray,
    pooled: np.ndarray,
    a: np.ndarray,
    y: np.ndarray,
    n_groups: int,
    weight: np.ndarray | None = None,
    ridge: float = RIDGE,
    seed: int = 0,
) -> AwareScaling:
    """Fit (B, C, b, b_a) to P(Y | X, A) and P(Y | X), (n, m) each, and the observed groups and classes, (n,) codes."""

    def features(rows: np.ndarray | slice, classes: np.ndarray) -> np.ndarray:
        return np.column_stack([_logs(P_aware[rows], classes), _logs(pooled[rows], classes), np.eye(n_groups)[a[rows]]])

    classes, theta = fit_multinomial(features, y, P_aware.shape[1], weight, ridge, seed)
    k = len(classes)
    return AwareScaling(theta[:, 1 : 2 * k + 1].T, theta[:, 0] + theta[:, 2 * k + 1 :].T, classes, P_aware.shape[1])


def _logs(Z: np.ndarray, cells: np.ndarray) -> np.ndarray:
    columns = Z if len(cells) == Z.shape[1] else Z[:, cells]  # sorted, so that all of them are Z itself
    logs = np.maximum(columns, CLIP, dtype=np.float64)
    return np.asarray(np.log(logs, out=logs))
