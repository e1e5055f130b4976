"""Reach the parts of optfair that are not public; nothing else in experiments/ imports from optfair.dual."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from optfair.baselines.fair_projection import project, ratio_rows, smooth
from optfair.constraints import Constraint, RowSet, compile_rows
from optfair.dual.exact import solve_exact
from optfair.dual.penalty import Box
from optfair.dual.posterior import Posterior, check_posterior
from optfair.dual.problem import DualProblem
from optfair.dual.settings import SETTINGS
from optfair.utils.parallel import n_threads

LAST_TAU = SETTINGS.last_temperature
__all__ = ["LAST_TAU", "Projection", "SmoothDual", "exact_optimum", "n_rows", "n_threads", "rounds_needed"]


def _rows(posterior: Posterior, constraint: Constraint) -> RowSet:
    return compile_rows([constraint], posterior.groups, posterior.classes, posterior.prior)


def n_rows(Z: np.ndarray, constraint: Constraint) -> int:
    """Return the number of rows of a constraint."""
    return len(_rows(check_posterior(Z), constraint))


def exact_optimum(Z: np.ndarray, constraint: Constraint, limit: float) -> float:
    """Return the optimum of the linear program by HiGHS, or raise TimeoutError after ``limit`` seconds."""
    posterior = check_posterior(Z)
    A, m = posterior.prior.shape
    return float(solve_exact(posterior, _rows(posterior, constraint), np.tile(np.eye(m), (A, 1)), limit).value)


class SmoothDual:
    """The dual of a constraint at a temperature: smooth part, penalty and optimality measure."""

    def __init__(self, Z: np.ndarray, constraint: Constraint, tau: float) -> None:
        posterior = check_posterior(Z)
        rows = _rows(posterior, constraint)
        A, m = posterior.prior.shape
        self.n_rows, self.passes = len(rows), 0
        self._box, self._tau = Box(rows.lower, rows.upper), np.full(A * m, tau)
        self._problem = DualProblem(posterior, rows.matrix(posterior.prior), np.tile(np.eye(m), (A, 1)))

    def evaluate(self, lam: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the smooth part at λ, and the values of the rows, minus its gradient, in one pass over all rows."""
        self.passes += 1
        state = self._problem.evaluate(lam, self._tau)
        return float(state.smooth), np.asarray(state.values)

    def prox(self, lam: np.ndarray, step: float) -> np.ndarray:
        """Return the proximal point of the penalty."""
        return np.asarray(self._box.prox(lam, np.full(self.n_rows, step)))

    def residual(self, lam: np.ndarray, values: np.ndarray) -> float:
        """Return the KKT residual."""
        return float(self._box.residual(lam, values))


@dataclass(frozen=True, eq=False)
class Projection:
    """The problem of FairProjection for a criterion and a ratio α."""

    measure: Posterior
    rows: RowSet

    @classmethod
    def of(cls, Z: np.ndarray, criterion: str, alpha: float) -> Projection:
        """Return the problem of posteriors (n, A, m)."""
        measure = check_posterior(Z, offset=np.log(smooth(Z.sum(axis=1))))
        return cls(measure, ratio_rows(_rows(measure, Constraint(criterion, 1.0)), alpha))

    def solve(self, **options: Any) -> Any:
        """Return the minimum by our solver, with its KKT ``residual``."""
        return project(self.measure, self.rows, **options)

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return Z (n, c), log p (n, m), the sign of each row (K,) and signed D (K, c, m)."""
        measure, rows = self.measure, self.rows
        Z, log_p = measure.block(slice(None)).Z.astype(np.float64), np.asarray(measure.offset)
        sign = np.where(np.isfinite(rows.upper), 1.0, -1.0)
        D = rows.matrix(measure.prior).toarray().reshape(len(rows), measure.n_cells, measure.n_classes)
        return Z, log_p, sign, D * sign[:, None, None]

    def residual(self, lam: np.ndarray, values: np.ndarray) -> float:
        """Return the KKT residual."""
        return float(Box(self.rows.lower, self.rows.upper).residual(lam, values))


def rounds_needed(model: Any, slack: float = 0.005) -> int | None:
    """Return the first round from which on the mixture of the last half is within its bounds + slack, if any."""
    game, trace = model.game_, model.trace_
    outside = [
        float(game.rows.excess(game.values(trace.confusions[t // 2 : t + 1].mean(axis=0)))) for t in range(len(trace))
    ]
    late = np.flatnonzero(np.array(outside) > slack)
    first = 0 if len(late) == 0 else int(late[-1]) + 1
    return first + 1 if first < len(trace) else None
