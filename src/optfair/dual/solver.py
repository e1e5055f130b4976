"""Go from λ = 0 to λ*: a sketch that is cheap, then a few passes over all rows.

1. Sketch: ~30 k rows drawn ∝ ½ + ½ ℓ(x), a measure with its own prior and D. Cool τ from large to small on it.
2. Polish: one pass over all rows at λ gives the exact value and D(h). A second sketch, of the rows undecided there
   and with its gradient corrected to the exact one, gives the next λ. A step that does not lower the dual is not
   kept, and the next sketch is larger. A handful of passes reaches a KKT residual of 1e-4, rare groups included,
   because the sketch carries the curvature and its change, which a quadratic model does not.

On each (sub)problem: proximal Newton; with many multipliers L-BFGS-B, or spectral proximal gradient under a cap.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np

from optfair.dual.lbfgs import minimise_lbfgs
from optfair.dual.newton import minimise_newton
from optfair.dual.penalty import Box
from optfair.dual.problem import DualEvaluation, DualProblem, Minimum, TemperedDual
from optfair.dual.settings import SETTINGS
from optfair.dual.spectral import minimise_spectral
from optfair.utils.parallel import one_blas_thread


@dataclass(frozen=True, eq=False)
class Anchor:
    """Where a polish ended: the problem over all rows, its last evaluation, and the sketch that stands for it there."""

    dual: TemperedDual
    point: DualEvaluation
    sketch: TemperedDual | None = None

    def fits(self, problem: DualProblem, tau: np.ndarray) -> bool:
        """Tell whether a polish of ``problem`` at temperatures τ can go on from here: same rows, U, D and τ."""
        mine, other = self.dual.problem.matrix, problem.matrix
        same_rows = self.dual.problem.posterior is problem.posterior and mine.shape == other.shape
        same_rows = same_rows and np.array_equal(self.dual.problem.utility, problem.utility)
        # Copies, because a comparison sorts the entries of a sparse matrix in place, and sums change in their last bit.
        return same_rows and np.array_equal(self.dual.tau, tau) and (mine.copy() != other.copy()).nnz == 0

    def copy(self) -> Anchor:
        """Return an anchor to go on from, which leaves this one as it is: two resumes find the same rule."""
        rng = deepcopy(self.dual.rng)
        sketch = None if self.sketch is None else replace(self.sketch, rng=deepcopy(self.sketch.rng))
        return replace(self, dual=replace(self.dual, rng=rng, passes=0), sketch=sketch)


@dataclass(frozen=True, eq=False)
class DualSolution:
    """λ on all rows at a common temperature, the passes over all rows, and where a neighbouring problem may go on."""

    minimum: Minimum
    temperature: float
    passes: int
    anchor: Anchor | None


@dataclass(frozen=True, eq=False)
class DualSolver:
    """Minimise F(λ) + σ(λ) of ``problem``; ``sketch`` is the problem of a sample of its rows, or the problem itself."""

    problem: DualProblem
    sketch: DualProblem
    seed: int = 0
    max_passes: int = 60

    def cool(
        self,
        box: Box,
        start: np.ndarray,
        factors: np.ndarray,
        tau: float | None,
        max_residual: float,
        gap: float,
        *,
        trust: bool = True,
    ) -> DualSolution:
        """Solve on the sketch, from a high temperature to τ, or (None) to where it costs less than ``gap``; polish.

        factors : (p,) ≥ 1, by which each cell's temperature is above the common one. max_residual : KKT residual to
        reach on all rows. gap : distance to the best rule that is aimed at, in accuracy. trust : see `polish`.
        """
        last = SETTINGS.last_temperature if tau is None else tau
        temperature = last if start.any() and tau is not None else max(SETTINGS.first_temperature, last)
        dual, lam = self._temper(self.sketch, factors * temperature), start
        while True:
            dual.tau = factors * temperature
            cold = temperature <= last
            if not cold:
                hot_residual = max(SETTINGS.hot_factor * max_residual, SETTINGS.hot_residual)
                lam = self._minimise(dual, box, lam, hot_residual, SETTINGS.hot_passes).point.multipliers
                cold = tau is None and dual.temperature_cost(lam) <= SETTINGS.temperature_share * gap
            if cold:
                break
            temperature = max(temperature * SETTINGS.cooling, last)
        lam = self._minimise(dual, box, lam, max_residual, SETTINGS.cold_passes).point.multipliers
        solution = self.polish(box, lam, factors, temperature, max_residual, trust=trust)
        passes = dual.passes if self.sketch is self.problem else 0
        return replace(solution, passes=solution.passes + passes)

    def polish(
        self,
        box: Box,
        start: np.ndarray,
        factors: np.ndarray,
        temperature: float,
        max_residual: float,
        *,
        anchor: Anchor | None = None,
        trust: bool = True,
    ) -> DualSolution:
        """Solve on all rows at one temperature, to a KKT residual of ``max_residual``.

        anchor : where an earlier polish ended; if it fits, no pass is needed to begin.
        trust : leave out the last pass when the sketches so far say that it would only confirm. The minimum is then not
            ``confirmed``, and one step ahead of the anchor; the driver certifies its rule, which shows whether it is
            good enough, and asks again without trust if it is not.
        """
        tau = factors * temperature
        if self.sketch is self.problem:
            dual = self._temper(self.problem, tau)
            minimum = self._minimise(dual, box, start, max_residual, self.max_passes)
            return DualSolution(minimum, temperature, dual.passes, anchor)
        if anchor is not None and anchor.fits(self.problem, tau):
            anchor = anchor.copy()
        else:
            dual = self._temper(self.problem, tau)
            anchor = Anchor(dual, dual.evaluate(start))
        dual, n, noise = anchor.dual, self.problem.posterior.n, self.problem.posterior.value_noise
        contraction = np.inf  # of the residual by the last step; none was taken yet
        size = int(np.clip(n // SETTINGS.local_share, SETTINGS.local_rows, 2 * SETTINGS.local_rows))
        residual = box.residual(anchor.point.multipliers, anchor.point.values)
        best = Minimum(anchor.point, residual, residual <= max_residual)
        while not best.converged and dual.passes < self.max_passes:
            if size > SETTINGS.full_share * n:
                best = self._minimise(dual, box, start, max_residual, self.max_passes - dual.passes)
                break
            sketch = anchor.sketch or self._temper(dual.problem.local_sketch(anchor.point, size, dual.rng), tau)
            sketch.agree_with(anchor.point)
            local_residual = max(max_residual / 2, SETTINGS.local_residual * best.residual)
            trial = self._minimise(sketch, box, start, local_residual, SETTINGS.local_passes)
            if trust and trial.converged and contraction * best.residual <= max_residual / 2:
                best = replace(trial, confirmed=False)
                break
            lam = trial.point.multipliers
            point = dual.evaluate(lam)
            change = point.smooth - anchor.point.smooth + (box.value(lam) - box.value(anchor.point.multipliers))
            residual = box.residual(lam, point.values)
            contraction = residual / best.residual
            if change > noise or contraction > SETTINGS.grow_sketch:
                size *= 2
            if change <= noise:  # keep the step, and the sketch if it still predicts the full gradient well
                anchor = Anchor(dual, point, sketch if contraction <= SETTINGS.keep_sketch else None)
                best = Minimum(point, residual, residual <= max_residual)
            else:
                anchor = replace(anchor, sketch=None)
            start = anchor.point.multipliers
        return DualSolution(best, temperature, dual.passes, anchor)

    def _temper(self, problem: DualProblem, tau: np.ndarray) -> TemperedDual:
        """Return the problem at temperatures τ (p,), with random numbers of its own."""
        return TemperedDual(problem, tau, np.random.default_rng(self.seed))

    def _minimise(
        self, dual: TemperedDual, box: Box, start: np.ndarray, max_residual: float, max_passes: int
    ) -> Minimum:
        """Return λ of one problem, by the method that its size asks for."""
        if dual.problem.matrix.shape[0] <= SETTINGS.newton_multipliers:
            method = minimise_newton
        else:
            method = minimise_spectral if np.isfinite(box.cap) else minimise_lbfgs
            max_passes = SETTINGS.first_order_passes * max_passes
        with one_blas_thread():  # the K×K algebra between passes: threads would cost more than they give
            return method(dual, box, start, max_residual, max_passes)
