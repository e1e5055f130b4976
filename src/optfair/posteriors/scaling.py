"""Scale probabilities by the labels of rows: what calibration fits, once for each factor of z.

    Scaling         softmax(log z · B + b)                                        z: (k,)
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
        out = np.zeros_like(Z)

        def fill(block: slice) -> None:
            scores = self.slopes.T @ _logs(Z[block], self.cells).T + self.intercepts[:, None]
            out[block, self.cells] = special.softmax(scores, axis=0).T

        map_blocks(fill, len(Z), 4 * self.p)
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


def fit_scaling(
    Z: np.ndarray, cell: np.ndarray, weight: np.ndarray | None = None, ridge: float = RIDGE, seed: int = 0
) -> Scaling:
    """Fit (B, b) to rows Z (n, p) and the observed cell of each row, (n,) integers."""
    cells, theta = fit_multinomial(lambda rows, cells: _logs(Z[rows], cells), cell, Z.shape[1], weight, ridge, seed)
    return Scaling(theta[:, 1:].T, theta[:, 0], cells, Z.shape[1])


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
    return np.log(np.maximum(Z[:, cells].astype(np.float64), CLIP))
