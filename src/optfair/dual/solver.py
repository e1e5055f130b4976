"""From λ = 0 to λ*: a sketch that is cheap, then a few passes over all rows.

1. Sketch: ~30 k rows drawn ∝ ½ + ½ ℓ(x), a measure with its own prior and D. Cool τ from large to small on it.
2. Polish: one pass over all rows at λ gives the exact value and D(h). A second sketch, of the rows undecided there
   and with its gradient corrected to the exact one, gives the next λ. A step that does not lower the dual is not
   kept, and the next sketch is larger. A handful of passes reaches a KKT residual of 1e-4, rare groups included,
   because the sketch carries the curvature and its change, which a quadratic model does not.

On each (sub)problem: proximal Newton; with many multipliers L-BFGS-B, or spectral proximal gradient under a cap.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from optfair.constraints import RowSet
from optfair.dual.lbfgs import minimise_lbfgs
from optfair.dual.newton import VALUE_NOISE, Minimum, minimise_newton
from optfair.dual.penalty import Box
from optfair.dual.problem import DualProblem, Evaluation, systematic_draw
from optfair.dual.spectral import minimise_spectral
from optfair.parallel import one_blas_thread
from optfair.posterior import Posterior

SKETCH_ROWS, LOCAL_ROWS = 30_000, 40_000  # the local sketch is up to twice as large when n is very large
NEWTON_MULTIPLIERS, NEWTON_WEIGHTS = 1_500, 1_000
FIRST_ORDER_PASSES = 5  # a step without a Hessian costs one pass and is worth that much less than one of Newton
FIRST_TAU, LAST_TAU, COOLING = 0.1, 1e-4, 0.5


@dataclass(frozen=True, eq=False)
class Anchor:
    """A problem over all rows, the λ at which it was evaluated last, and the sketch that stands for it there."""

    problem: DualProblem
    multipliers: np.ndarray
    state: Evaluation
    sketch: DualProblem | None = None


@dataclass(eq=False)
class DualSolver:
    """Solves ``min_λ F(λ) + σ(λ)`` on one measure, again and again: the first sketch and ℓ(x) are made once."""

    posterior: Posterior
    rows: RowSet
    utility: np.ndarray
    seed: int = 0
    max_passes: int = 60
    anchor: Anchor | None = None  # of the last polish

    def __post_init__(self) -> None:
        measure = self.posterior
        self.leverage: np.ndarray | None = None
        self.sample = measure
        self.sample_leverage: np.ndarray | None = None
        if measure.n > 1.5 * SKETCH_ROWS:
            self.leverage = measure.leverage()
            mass = 0.5 + 0.5 * self.leverage
            if measure.weight is not None:
                mass = mass * measure.weight
            index, weight = systematic_draw(mass, SKETCH_ROWS, np.random.default_rng(self.seed))
            if measure.weight is not None:
                weight *= measure.weight[index]
            self.sample = measure.take(index, weight)
            self.sample_leverage = self.leverage[index]

    def minimise(self, problem: DualProblem, box: Box, start: np.ndarray, tolerance: float, max_passes: int) -> Minimum:
        """λ of one problem, by the method that its size asks for."""
        if len(self.rows) <= NEWTON_MULTIPLIERS and self.utility.size <= NEWTON_WEIGHTS:
            method, allowed = minimise_newton, max_passes
        else:
            method = minimise_spectral if np.isfinite(box.cap) else minimise_lbfgs
            allowed = FIRST_ORDER_PASSES * max_passes
        with one_blas_thread():  # the K×K algebra between passes: threads would cost more than they give
            return method(problem, box, start, tolerance, allowed)

    def cool(
        self, box: Box, start: np.ndarray, shape: np.ndarray, tau: float | None, tolerance: float, gap: float
    ) -> tuple[np.ndarray, float, int]:
        """λ of the sketch, the temperature reached (τ, or where it costs less than ``gap``), passes over all rows.

        shape : (p,) factors ≥ 1 by which each cell's temperature is above the common one.
        """
        problem = DualProblem(self.sample, self.rows, self.utility, shape, self.sample_leverage, self.seed)
        last = LAST_TAU if tau is None else tau
        warm = bool(start.any())
        now = last if warm and tau is not None else max(FIRST_TAU, last)
        lam = start
        while True:
            problem.tau = shape * now
            cold = now <= last
            if not cold:
                lam = self.minimise(problem, box, lam, max(10 * tolerance, 1e-3), 40).multipliers
                cold = tau is None and self.temperature_cost(problem, lam) <= 0.5 * gap
            if cold:
                lam = self.minimise(problem, box, lam, tolerance, 60).multipliers
                return lam, now, problem.passes if self.sample is self.posterior else 0
            now = max(now * COOLING, last)

    def temperature_cost(self, problem: DualProblem, lam: np.ndarray) -> float:
        """T = mean_x Σ_j h_j (max β − β_j), what the temperature costs in accuracy, on the problem's measure.

        With F(s) the value at temperatures s·τ: F(0) = mean max β, and F(1) − F'(1) = mean Σ_j h_j β_j.
        """
        at = {s: replace(problem, tau=problem.tau * s).evaluate(lam).smooth for s in (1e-5, 0.95, 1.0, 1.05)}
        problem.passes += len(at)
        return at[1e-5] - (at[1.0] - (at[1.05] - at[0.95]) / 0.1)

    def polish(
        self,
        box: Box,
        start: np.ndarray,
        tau: np.ndarray,
        tolerance: float,
        *,
        resume: bool = False,
        trust: bool = True,
    ) -> tuple[Minimum, int]:
        """λ on all rows at the cells' temperatures τ (p,), and the passes it took.

        resume : start from where the last polish was anchored, if it was at the same τ: no pass is needed to begin.
        trust : leave out the last pass when the sketches so far say that it would only confirm; whoever certifies the
            rule will see, and can ask again without trust.
        """
        if self.sample is self.posterior:
            problem = DualProblem(self.posterior, self.rows, self.utility, tau, self.leverage, self.seed)
            return self.minimise(problem, box, start, tolerance, self.max_passes), problem.passes
        noise = VALUE_NOISE[self.posterior.rows(slice(0, 1)).dtype]
        if resume and self.anchor is not None and np.array_equal(self.anchor.problem.tau, tau):
            anchor, before = self.anchor, self.anchor.problem.passes
        else:
            problem = DualProblem(self.posterior, self.rows, self.utility, tau, self.leverage, self.seed)
            anchor, before = Anchor(problem, start, problem.evaluate(start)), 0
        problem, contraction = anchor.problem, np.inf
        residual = box.residual(anchor.multipliers, anchor.state.values)
        size = int(np.clip(self.posterior.n // 20, LOCAL_ROWS, 2 * LOCAL_ROWS))
        best = Minimum(anchor.multipliers, anchor.state, residual, residual <= tolerance)
        while not best.converged and problem.passes - before < self.max_passes:
            if size > self.posterior.n // 2:
                best = self.minimise(problem, box, start, tolerance, self.max_passes - problem.passes + before)
                break
            sketch = anchor.sketch or problem.local_sketch(size)
            sketch.agree(anchor.multipliers, anchor.state.values)
            trial = self.minimise(sketch, box, start, max(tolerance / 2, 0.05 * best.residual), 30)
            if trust and trial.converged and contraction * best.residual <= tolerance / 2:
                best = replace(trial, confirmed=False)
                break
            curvature, problem.curvature = problem.curvature, np.empty_like(problem.curvature)
            state = problem.evaluate(trial.multipliers)
            change = state.smooth - anchor.state.smooth
            change += box.value(trial.multipliers) - box.value(anchor.multipliers)
            residual = box.residual(trial.multipliers, state.values)
            contraction = residual / best.residual
            if change > noise or contraction > 0.5:
                size *= 2
            kept = sketch if change <= noise and contraction <= 0.15 else None  # else it is worn out: draw another
            if change <= noise:
                anchor = Anchor(problem, trial.multipliers, state, kept)
                best = Minimum(trial.multipliers, state, residual, residual <= tolerance)
            else:
                anchor = replace(anchor, sketch=None)
                problem.curvature = curvature
            start = anchor.multipliers
        self.anchor = anchor
        return best, problem.passes - before
