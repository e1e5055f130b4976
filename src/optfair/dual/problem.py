"""State the dual problem of one measure: ``min_λ F(λ) + σ(λ)`` at temperatures τ.

    F(λ) = mean_x τ(x) logsumexp(β(x)/τ(x)),   β = Z W(λ) + offset,   W(λ) = U − reshape(Dᵀλ)      (p, m)
    ∇F(λ) = −D vec(J),   J = mean_x z ⊗ h,     ∇²F(λ) = D · [mean_x z zᵀ ⊗ (diag h − h hᵀ)/τ] · Dᵀ

τ(x) = Σ_c z_c τ_c: any positive temperature per row is a valid entropy weight. `DualProblem` is pure; what a search for
its minimum has to remember (temperature, passes, random numbers) is in `TemperedDual`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import sparse

from optfair.dual import kernel
from optfair.dual.curvature import class_parts, curvature, score_change
from optfair.dual.measure import Block, Measure, RowValues
from optfair.dual.settings import SETTINGS
from optfair.utils.progress import tick

SOLVING = "solving"  # the stage whose steps are evaluations


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
        block = self.posterior.draw(SETTINGS.metric_rows).block(slice(None))
        gram = (block.Z.T * block.weights.astype(block.Z.dtype)) @ block.Z / len(block.Z)
        parts = class_parts(self.matrix, self.utility.shape[1], np.dtype(np.float64))
        return score_change(gram.astype(np.float64), parts, self.matrix.shape[0])

    def hessian(
        self,
        evaluation: DualEvaluation,
        rng: np.random.Generator,
        active: np.ndarray | None = None,
        effort: float = 1.0,
    ) -> np.ndarray:
        """Return ∇²F at the λ of an evaluation, (K, K), from rows that carry curvature, and pairs of their classes.

        active : positions of the λ to vary, (k,), for a (k, k) part. effort : the sample is so many times as large.
        """
        matrix, (q, m) = self.matrix if active is None else self.matrix[active], self.utility.shape
        Z, h, scale, leverage = self._curved_rows(evaluation, rng, effort)
        if not len(Z):
            return np.zeros((matrix.shape[0],) * 2)
        parts = class_parts(matrix, m, Z.dtype)
        n_pairs = int(effort * np.clip(SETTINGS.pair_numbers // q**2, SETTINGS.least_pairs, SETTINGS.most_pairs))
        return curvature(Z, h, scale, leverage, parts, matrix.shape[0], n_pairs, rng)

    def hessian_diagonal(self, evaluation: DualEvaluation, rng: np.random.Generator) -> np.ndarray:
        """Return the scale of each multiplier, (K,): the diagonal of ∇²F with D's cross terms left out."""
        Z, h, scale, _ = self._curved_rows(evaluation, rng)
        inner = kernel.block_hessian_diagonal(Z, h, 1.0, scale)
        return np.asarray(self.matrix.power(2) @ inner.ravel())

    def _curved_rows(
        self, evaluation: DualEvaluation, rng: np.random.Generator, effort: float = 1.0
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return the undecided rows or a sample of them: Z (k, p), h (m, k), weight/τ (k,) and leverage (k,)."""
        W, per_row = cell_weights(self.utility, self.matrix, evaluation.multipliers), 1.0 / self.posterior.n

        def mass(block: Block) -> np.ndarray:
            undecided, weight = np.asarray(block.row_values), per_row * block.weights
            product = np.where(undecided > SETTINGS.least_curvature, weight * undecided, 0.0)
            return product if block.leverage is None else product * block.leverage

        size = int(effort * SETTINGS.hessian_rows)
        sample = self.posterior.draw(size, mass, rng, evaluation.curvature, per_row)
        block = sample.block(slice(None))
        row_tau = _row_temperatures(evaluation.tau, block.Z)
        h, _, _ = kernel.softmax_scores(block.Z, W, row_tau, block.offset)
        leverage = np.ones(len(block.Z)) if block.leverage is None else block.leverage
        return block.Z, h, (block.weights / row_tau).astype(block.Z.dtype), leverage

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
        tick(SOLVING)
        evaluation = self.problem.evaluate(lam, self.tau)
        if self.shift is None:
            return evaluation
        smooth = evaluation.smooth - float(np.sum(self.shift * lam))
        return replace(evaluation, smooth=smooth, values=evaluation.values + self.shift)

    def agree_with(self, evaluation: DualEvaluation) -> None:
        """Shift the objective so that its D(h) at the λ of ``evaluation`` is the one found there over all rows."""
        shift = 0.0 if self.shift is None else self.shift
        self.shift = shift + evaluation.values - self.evaluate(evaluation.multipliers).values

    def hessian(self, evaluation: DualEvaluation, active: np.ndarray | None = None, effort: float = 1.0) -> np.ndarray:
        """Return the Hessian at an evaluation, (K, K), or the part of the active λ; see `DualProblem.hessian`."""
        return self.problem.hessian(evaluation, self.rng, active, effort)

    def hessian_diagonal(self, evaluation: DualEvaluation) -> np.ndarray:
        """Return the scale of each multiplier at an evaluation, (K,)."""
        return self.problem.hessian_diagonal(evaluation, self.rng)

    def score_metric(self, active: np.ndarray | None = None) -> np.ndarray:
        """Return the metric of damped steps, (K, K), or the part of the active λ: squared changes of β/√τ."""
        metric = self.problem.score_metric
        return (metric if active is None else metric[np.ix_(active, active)]) / float(self.tau.mean())

    def temperature_cost(self, lam: np.ndarray) -> float:
        """Return T = mean_x Σ_j h_j (max β − β_j), what the temperature costs in accuracy."""
        W = cell_weights(self.problem.utility, self.problem.matrix, lam)

        tau = self.tau

        def cost(block: Block) -> tuple[float]:
            row_tau = _row_temperatures(tau, block.Z)
            return (kernel.block_temperature_cost(block.Z, W, row_tau, block.weight, block.offset),)

        self.passes += 1
        return float(self.problem.posterior.sum_blocks(cost)[0]) / self.problem.posterior.n
