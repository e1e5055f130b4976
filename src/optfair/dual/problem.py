"""The dual problem of one measure: ``min_λ F(λ) + σ(λ)``.

    F(λ) = mean_x τ(x) logsumexp(β(x)/τ(x)) − shift·λ,   β = Z W(λ) + offset,   W(λ) = U − reshape(Dᵀλ)      (p, m)
    ∇F(λ) = −(D vec(J) + shift),   J = mean_x z ⊗ h,     ∇²F(λ) = D · [mean_x z zᵀ ⊗ (diag h − h hᵀ)/τ] · Dᵀ

τ(x) = Σ_c z_c τ_c: any positive temperature per row is a valid entropy weight. The shift is zero but for a sample
that is made to agree with all rows at one λ (`DualProblem.agree`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from optfair.constraints import RowSet
from optfair.dual import kernel
from optfair.parallel import map_blocks
from optfair.posterior import Posterior

HESSIAN_ROWS = 10_000


def systematic_draw(mass: np.ndarray, size: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """``size`` rows drawn ∝ mass at equal distances, and the inverse of how often each was expected."""
    cumulative = np.cumsum(mass, dtype=np.float64)
    step = cumulative[-1] / size
    index = np.searchsorted(cumulative, (np.arange(size) + rng.random()) * step, side="right")
    index = np.minimum(index, len(mass) - 1)
    index = index[mass[index] > 0]
    return index, step / mass[index].astype(np.float64)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What one pass tells about λ: F, D(h), J."""

    smooth: float
    values: np.ndarray
    confusion: np.ndarray


@dataclass(eq=False)
class DualProblem:
    """A measure, its D, the utilities U (p, m) and the temperature of each cell (p,)."""

    posterior: Posterior
    rows: RowSet
    utility: np.ndarray
    tau: np.ndarray
    leverage: np.ndarray | None = None
    seed: int = 0
    passes: int = 0
    shift: float | np.ndarray = 0.0
    matrix: Any = None  # D as a sparse array; that of the measure unless given
    curvature: np.ndarray = field(init=False)  # (n,) 1 − max h at the last evaluation
    _metric: np.ndarray | None = None

    def __post_init__(self) -> None:
        if self.matrix is None:
            self.matrix = self.rows.matrix(self.posterior.prior)
        self.curvature = np.empty(self.posterior.n, dtype=np.float32)
        self._rng = np.random.default_rng(self.seed)

    def weights(self, lam: np.ndarray) -> np.ndarray:
        """W(λ), (p, m)."""
        return self.utility - (self.matrix.T @ lam).reshape(self.utility.shape)

    def row_tau(self, Z: np.ndarray) -> float | np.ndarray:
        """τ of each row, or one number when all cells share it."""
        return float(self.tau[0]) if (self.tau == self.tau[0]).all() else Z @ self.tau.astype(Z.dtype)

    def evaluate(self, lam: np.ndarray) -> Evaluation:
        """One pass over all rows."""
        W, measure = self.weights(lam), self.posterior

        def block(rows: slice) -> tuple[float, np.ndarray]:
            Z = measure.rows(rows)
            weight = None if measure.weight is None else measure.weight[rows]
            offset = None if measure.offset is None else measure.offset[rows]
            return kernel.block_value_confusion(Z, W, self.row_tau(Z), weight, offset, self.curvature[rows])

        parts = map_blocks(block, measure.n, measure.n_cells, measure.n_jobs)
        self.passes += 1
        confusion = np.sum([J for _, J in parts], axis=0) / measure.n
        smooth = sum(value for value, _ in parts) / measure.n - float(np.sum(self.shift * lam))
        return Evaluation(smooth, self.matrix @ confusion.ravel() + self.shift, confusion)

    def agree(self, lam: np.ndarray, values: np.ndarray) -> None:
        """Shift this problem so that its D(h) at λ is ``values``, those of the problem it stands for."""
        self.shift = self.shift + values - self.evaluate(lam).values

    def local_sketch(self, size: int) -> DualProblem:
        """A sample that stands for this problem near the λ last evaluated, once it was made to `agree` there.

        Drawn ∝ (1 − max h + a little)·ℓ(x): decided rows say nothing, rare cells must be heard. It keeps this
        problem's D, and its gradient at λ is then the exact one, so only curvature is sampled.
        """
        measure = self.posterior
        mass = self.curvature + np.float32(0.25 * self.curvature.mean() + 1e-12)
        if self.leverage is not None:
            mass *= self.leverage
        if measure.weight is not None:
            mass = mass * measure.weight
        index, weight = systematic_draw(mass, size, self._rng)
        if measure.weight is not None:
            weight = weight * measure.weight[index]
        leverage = None if self.leverage is None else self.leverage[index]
        sample = measure.take(index, weight)
        return DualProblem(sample, self.rows, self.utility, self.tau, leverage, self.seed, matrix=self.matrix)

    def _undecided(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows that carry curvature at the last evaluation, and their weights; all of them or a sample."""
        measure = self.posterior
        index = np.flatnonzero(self.curvature > 1e-6)
        weight = np.full(len(index), 1.0 / measure.n)
        if measure.weight is not None:
            weight *= measure.weight[index]
        if len(index) <= HESSIAN_ROWS:
            return index, weight
        mass = weight * self.curvature[index]
        if self.leverage is not None:
            mass *= self.leverage[index]
        drawn, inverse = systematic_draw(mass, HESSIAN_ROWS, self._rng)
        return index[drawn], weight[drawn] * inverse

    def _curved_rows(self, lam: np.ndarray, of_block: Callable[..., np.ndarray]) -> np.ndarray:
        """Sum over the undecided rows of ``of_block(Z, h, τ, weight)``."""
        W, measure = self.weights(lam), self.posterior
        index, weight = self._undecided()

        def block(part: slice) -> np.ndarray:
            Z = measure.rows(index[part])
            offset = None if measure.offset is None else measure.offset[index[part]]
            tau = self.row_tau(Z)
            h, _, _ = kernel.softmax_scores(Z, W, tau, offset)
            return of_block(Z, h, tau, weight[part])

        if len(index) == 0:
            return np.zeros(())
        return np.asarray(
            np.sum(map_blocks(block, len(index), 4 * measure.n_cells * measure.n_classes, measure.n_jobs), axis=0)
        )

    def hessian(self, lam: np.ndarray) -> np.ndarray:
        """∇²F at the λ last evaluated, (K, K), from the rows that carry curvature."""
        inner = self._curved_rows(lam, kernel.block_hessian)
        if inner.ndim == 0:
            return np.zeros((len(lam), len(lam)))
        return self._project(inner)

    def score_metric(self) -> np.ndarray:
        """M with ½ δᵀMδ = mean_x ‖change of β(x)/√τ, centred over classes‖²/2 for a step δ in λ, (K, K)."""
        if self._metric is None:
            measure = self.posterior
            step = max(measure.n // (4 * HESSIAN_ROWS), 1)
            Z = measure.rows(slice(None, None, step))
            weight = np.ones(len(Z)) if measure.weight is None else measure.weight[::step]
            gram = ((Z.T * weight) @ Z) / len(Z)
            m = measure.n_classes
            self._metric = self._project(np.kron(gram, np.eye(m) - 1.0 / m))
        return self._metric / float(self.tau.mean())

    def _project(self, inner: np.ndarray) -> np.ndarray:
        """D · inner · Dᵀ for a symmetric (p·m, p·m) matrix."""
        return np.asarray(self.matrix @ (self.matrix @ inner).T)

    def hessian_diagonal(self, lam: np.ndarray) -> np.ndarray:
        """Scale of each multiplier, (K,): the diagonal of ∇²F with D's cross terms left out."""
        inner = self._curved_rows(lam, kernel.block_hessian_diagonal)
        return self.matrix.power(2) @ np.broadcast_to(inner, self.utility.shape).ravel()
