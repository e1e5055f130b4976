"""State the dual problem of one measure: ``min_λ F(λ) + σ(λ)`` at temperatures τ.

    F(λ) = mean_x τ(x) logsumexp(β(x)/τ(x)),   β = Z W(λ) + offset,   W(λ) = U − reshape(Dᵀλ)      (p, m)
    ∇F(λ) = −D vec(J),   J = mean_x z ⊗ h,     ∇²F(λ) = D · [mean_x z zᵀ ⊗ (diag h − h hᵀ)/τ] · Dᵀ

τ(x) = Σ_c z_c τ_c: any positive temperature per row is a valid entropy weight. `DualProblem` is pure; what a search for
its minimum has to remember (temperature, passes, random numbers) is in `TemperedDual`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import sparse

from optfair.dual import kernel
from optfair.dual.measure import Block, Measure, RowValues
from optfair.dual.settings import SETTINGS


def cell_weights(utility: np.ndarray, matrix: sparse.csr_array, lam: np.ndarray) -> np.ndarray:
    """Return ``W(λ) = U − reshape(Dᵀλ)``, what each prediction is worth in each cell.

    utility U: (p, m)   matrix D: (K, p·m)   lam: (K,)   ->   (p, m)
    """
    return np.asarray(utility - (matrix.T @ lam).reshape(utility.shape))


@dataclass(frozen=True, eq=False)
class DualEvaluation:
    """What one pass tells about λ (K,) at temperatures τ (p,).

    smooth : F(λ). values : D(h), (K,). confusion : J, (p, m). curvature : 1 − max_j h_j of every row, which is 0 where
    the row is decided and adds nothing to the Hessian.
    """

    multipliers: np.ndarray
    tau: np.ndarray
    smooth: float
    values: np.ndarray
    confusion: np.ndarray
    curvature: RowValues


@dataclass(frozen=True, eq=False)
class Minimum:
    """What a minimiser returns: its best point, the KKT residual there, and whether that is small enough.

    A minimiser is a function ``(dual: TemperedDual, box: Box, start, max_residual, max_passes) -> Minimum``. It begins
    at a λ that the box allows, stops on ``box.residual(λ, D(h)) ≤ max_residual`` or after about ``max_passes``
    evaluations (Hessians are not counted: they read a sample), and then returns the best point it has evaluated.
    ``confirmed`` is False where the point is known from a sample of the rows only.
    """

    point: DualEvaluation
    residual: float
    converged: bool
    confirmed: bool = True


@dataclass(frozen=True, eq=False)
class DualProblem:
    """A measure, its D (K, p·m) and the utilities U (p, m): the identity in every group, unless there are costs."""

    posterior: Measure
    matrix: sparse.csr_array
    utility: np.ndarray

    def evaluate(self, lam: np.ndarray, tau: np.ndarray) -> DualEvaluation:
        """Evaluate F and its gradient in one pass over all rows."""
        W, n = cell_weights(self.utility, self.matrix, lam), self.posterior.n

        def value_confusion(block: Block) -> tuple[float, np.ndarray, np.ndarray]:
            curvature = np.empty(len(block.Z), dtype=np.float32)
            row_tau = _row_temperatures(tau, block.Z)
            value, J = kernel.block_value_confusion(block.Z, W, row_tau, block.weight, block.offset, curvature)
            return value, J, curvature

        value, J, curvature = self.posterior.sum_blocks(value_confusion, keep=True)
        J = J / n
        return DualEvaluation(lam, tau, value / n, self.matrix @ J.ravel(), J, curvature)

    @cached_property
    def score_metric(self) -> np.ndarray:
        """M with ½ δᵀMδ = mean_x ‖change of β(x), centred over classes‖²/2 for a step δ in λ, (K, K)."""
        block, m = self.posterior.draw(SETTINGS.metric_rows).block(slice(None)), self.posterior.n_classes
        gram = ((block.Z.T * block.weights) @ block.Z) / len(block.Z)
        return self._project(np.kron(gram, np.eye(m) - 1.0 / m))

    def hessian(self, evaluation: DualEvaluation, rng: np.random.Generator) -> np.ndarray:
        """Return ∇²F at the λ of an evaluation, (K, K), from rows that carry curvature."""
        inner = self._sum_curved(evaluation, rng, kernel.block_hessian)
        K = len(evaluation.multipliers)
        return np.zeros((K, K)) if inner is None else self._project(inner)

    def hessian_diagonal(self, evaluation: DualEvaluation, rng: np.random.Generator) -> np.ndarray:
        """Return the scale of each multiplier, (K,): the diagonal of ∇²F with D's cross terms left out."""
        inner = self._sum_curved(evaluation, rng, kernel.block_hessian_diagonal)
        inner = np.zeros(self.utility.shape) if inner is None else inner
        return np.asarray(self.matrix.power(2) @ inner.ravel())

    def _sum_curved(
        self, evaluation: DualEvaluation, rng: np.random.Generator, function: Callable[..., np.ndarray]
    ) -> np.ndarray | None:
        """Return the sum of ``function(Z, h, τ, weight)`` over the undecided rows or a sample of them, if any."""
        W, per_row = cell_weights(self.utility, self.matrix, evaluation.multipliers), 1.0 / self.posterior.n

        def mass(block: Block) -> np.ndarray:
            undecided, weight = np.asarray(block.row_values), per_row * block.weights
            product = np.where(undecided > SETTINGS.least_curvature, weight * undecided, 0.0)
            return product if block.leverage is None else product * block.leverage

        def curved(block: Block) -> tuple[np.ndarray]:
            row_tau = _row_temperatures(evaluation.tau, block.Z)
            h, _, _ = kernel.softmax_scores(block.Z, W, row_tau, block.offset)
            return (function(block.Z, h, row_tau, block.weights),)

        sample = self.posterior.draw(SETTINGS.hessian_rows, mass, rng, evaluation.curvature, per_row)
        width = 4 * sample.n_cells * sample.n_classes  # the p·m × p·m products of a block are large
        return sample.sum_blocks(curved, width)[0] if sample.n else None

    def _project(self, inner: np.ndarray) -> np.ndarray:
        """Return D · inner · Dᵀ for a symmetric (p·m, p·m) matrix."""
        return np.asarray(self.matrix @ (self.matrix @ inner).T)

    def local_sketch(self, evaluation: DualEvaluation, size: int, rng: np.random.Generator) -> DualProblem:
        """Return a sample that stands for this problem near the λ of an evaluation.

        Rows are drawn ∝ (1 − max h + a little)·ℓ(x): decided rows say nothing, rare cells must be heard. The sample
        keeps this problem's D; `TemperedDual.agree_with` makes its gradient at λ exact, so only curvature is sampled.
        """
        little = np.float32(SETTINGS.decided_share * evaluation.curvature.mean + 1e-12)

        def mass(block: Block) -> np.ndarray:
            product = np.asarray(block.row_values) + little
            if block.leverage is not None:
                product *= block.leverage
            return product if block.weight is None else product * block.weight

        return replace(self, posterior=self.posterior.draw(size, mass, rng, evaluation.curvature).normalised())


def _row_temperatures(tau: np.ndarray, Z: np.ndarray) -> float | np.ndarray:
    """Return τ(x) of each row, or one number where all cells share it.   tau: (p,)   Z: (k, p)"""
    return float(tau[0]) if (tau == tau[0]).all() else Z @ tau.astype(Z.dtype)


@dataclass(eq=False)
class TemperedDual:
    """A problem at fixed temperatures, as a minimiser sees it: ``F(λ) − shift·λ``.

    It counts its passes over the rows and owns the random numbers of its samples. The shift is zero but for a sketch
    that was made to agree with all rows at one λ.
    """

    problem: DualProblem
    tau: np.ndarray
    rng: np.random.Generator
    shift: np.ndarray | None = None
    passes: int = 0

    def evaluate(self, lam: np.ndarray) -> DualEvaluation:
        """Evaluate the objective in one pass over the rows."""
        self.passes += 1
        evaluation = self.problem.evaluate(lam, self.tau)
        if self.shift is None:
            return evaluation
        smooth = evaluation.smooth - float(np.sum(self.shift * lam))
        return replace(evaluation, smooth=smooth, values=evaluation.values + self.shift)

    def agree_with(self, evaluation: DualEvaluation) -> None:
        """Shift the objective so that its D(h) at the λ of ``evaluation`` is the one found there over all rows."""
        shift = 0.0 if self.shift is None else self.shift
        self.shift = shift + evaluation.values - self.evaluate(evaluation.multipliers).values

    def hessian(self, evaluation: DualEvaluation) -> np.ndarray:
        """Return the Hessian at an evaluation, (K, K)."""
        return self.problem.hessian(evaluation, self.rng)

    def hessian_diagonal(self, evaluation: DualEvaluation) -> np.ndarray:
        """Return the scale of each multiplier at an evaluation, (K,)."""
        return self.problem.hessian_diagonal(evaluation, self.rng)

    def score_metric(self) -> np.ndarray:
        """Return the metric of damped steps, (K, K): squared changes of β/√τ."""
        return self.problem.score_metric / float(self.tau.mean())

    def temperature_cost(self, lam: np.ndarray) -> float:
        """Return T = mean_x Σ_j h_j (max β − β_j), what the temperature costs in accuracy.

        With F(s) the value at temperatures s·τ: F(0) = mean max β, and F(1) − F'(1) = mean Σ_j h_j β_j. The derivative
        is a central difference; s = 1e-5 stands for 0, where the softmax is an argmax in either precision.
        """
        scales = (1e-5, 0.95, 1.0, 1.05)
        F = {s: self.problem.evaluate(lam, self.tau * s).smooth for s in scales}
        self.passes += len(scales)
        return F[1e-5] - (F[1.0] - (F[1.05] - F[0.95]) / 0.1)
