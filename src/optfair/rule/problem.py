"""State the fair problem: one posterior, one set of rows, what is maximised, and how to solve it.

    max_h  <U, J(h)>   s.t.   lower ≤ D vec(J(h)) ≤ upper

It knows no algorithm; `optfair.rule.driver` solves it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from optfair.constraints import AnyConstraint, RowSet, compile_rows
from optfair.constraints.rows import constant_values, fixed_rows
from optfair.dual.measure import Block, Measure
from optfair.dual.merging import MergeStore
from optfair.dual.posterior import Posterior
from optfair.dual.settings import DRIVER
from optfair.inputs.values import check_columns
from optfair.rule.options import Options
from optfair.utils.checks import as_numbers

LEAST_MULTIPLIER = 1e-9  # of ‖λ‖₁, in units of the range of the costs: below, λ is lost in the rounding of scores
FEW_NUMBERS, VERY_FEW_NUMBERS = 1_000_000, 100_000  # of Z: 8 and .8 MB as float64
LARGEST_COST = 1e100  # squares and ratios of the costs stay finite


@dataclass(frozen=True, eq=False)
class Utility:
    """What is maximised: ``<U, J> = Σ U[c, j] J[c, j]``, the accuracy or a utility in [0, 1] made from costs.

    matrix : U, (p, m). scale, largest : expected cost = largest − scale · expected utility. from_costs : whether costs
    were given.
    """

    matrix: np.ndarray
    scale: float = 1.0
    largest: float = 1.0
    from_costs: bool = False

    def in_units(self, value: float, mass: float = 1.0) -> float:
        """Return a utility in the user's units: the accuracy, or minus the expected cost over rows of that mass."""
        return self.scale * value - (self.largest * mass if self.from_costs else 0.0)


def make_utility(costs: Any, A: int, m: int) -> Utility:
    """Return the utility that ``costs`` stand for; None is the accuracy."""
    if costs is None:
        return Utility(np.tile(np.eye(m), (A, 1)))
    R = as_numbers(costs)
    if R is None:
        raise ValueError("costs: must be numbers, true class by predicted.")
    if R.shape not in ((m, m), (A, m, m)):
        raise ValueError(
            f"costs: has shape {R.shape}; expected ({m}, {m}) or ({A}, {m}, {m}), true class by predicted."
        )
    if not np.isfinite(R).all():
        raise ValueError("costs: holds NaN or infinite values.")
    largest = float(np.abs(R).max())
    if largest > LARGEST_COST:
        raise ValueError(
            f"costs: holds {largest:.3g}; must be at most {LARGEST_COST:g}. Divide all costs by one number."
        )
    R = np.broadcast_to(R, (A, m, m)).reshape(A * m, m)
    scale = float(R.max() - R.min()) or 1.0
    return Utility((R.max() - R) / scale, scale, float(R.max()), from_costs=True)


def check_cost_names(costs: Any, classes: pd.Index) -> None:
    """Refuse a data frame of costs whose rows or columns are not the classes in their order."""
    for axis in ("index", "columns"):
        check_columns(costs, classes, "costs", axis)


@dataclass(frozen=True, eq=False)
class FairProblem:
    """One posterior and its rows, with the utility to maximise and the options of the solver.

    sample : rows of the posterior as a measure of their own, for sketches; the posterior itself where rows are few.
    matrix : D, (K, p·m). constants : D of the rules that give everybody class j, (K, m). fixed : whether a row has the
    same value whatever the rule, (K,). merged : rows whose cells the solver has merged, see `optfair.dual.merging`;
    problems of other constraints share them.
    """

    posterior: Measure
    sample: Posterior
    utility: Utility
    options: Options
    rows: RowSet
    matrix: sparse.csr_array
    constants: np.ndarray
    fixed: np.ndarray
    merged: MergeStore = field(default_factory=dict)

    @classmethod
    def prepare(
        cls, posterior: Measure, constraints: Sequence[AnyConstraint], costs: Any, options: Options
    ) -> FairProblem:
        """Return the problem of constraints on a posterior; rows that cannot be formed are in ``rows.dropped``."""
        utility = make_utility(costs, *posterior.prior.shape)
        least, cap = LEAST_MULTIPLIER * utility.scale, options.max_multiplier
        if cap is not None and cap < least:
            raise ValueError(
                f"max_multiplier={cap!r}: must be a number >= {least:.3g}; below, no rule differs from the "
                "unconstrained one, which tolerance=1 gives."
            )
        check_cost_names(costs, posterior.classes)
        parts = compile_problem(posterior, constraints)
        posterior, sample = _precise(posterior, parts[0]).with_sample(options.seed)
        return cls(posterior, sample, utility, options, *parts)

    def with_constraints(self, constraints: Sequence[AnyConstraint], options: Options | None = None) -> FairProblem:
        """Return the problem of other constraints on the same posterior."""
        options = self.options if options is None else options
        parts = compile_problem(self.posterior, constraints)
        return FairProblem(self.posterior, self.sample, self.utility, options, *parts, self.merged)

    def with_tolerance(self, constraints: Sequence[AnyConstraint], tolerance: float) -> FairProblem:
        """Return the problem of the same constraints with gaps of at most ``tolerance``; nothing is compiled anew."""
        return replace(self, rows=self.rows.with_tolerance(constraints, tolerance))

    def with_bounds(self, lower: np.ndarray, upper: np.ndarray) -> FairProblem:
        """Return the same rows with other bounds, (K,) each."""
        return replace(self, rows=replace(self.rows, lower=lower, upper=upper))

    def constant_gains(self) -> np.ndarray:
        """Return the expected utility of giving everybody class j, (m,)."""
        gains = self.posterior.prior.ravel() @ self.utility.matrix
        if not self.posterior.has_offset:
            return np.asarray(gains)

        def total(block: Block) -> tuple[np.ndarray]:
            return (block.weights @ np.asarray(block.offset, dtype=np.float64),)

        return np.asarray(gains + self.posterior.sum_blocks(total)[0] / self.posterior.n)


def _precise(posterior: Measure, rows: RowSet) -> Measure:
    """Return the posterior in float64 where rows are very few, or few and bounds narrower than float32 tells apart.

    The solver would look for digits that are not there, pass after pass: half a minute for fifteen rows. The error of
    a row, 1e-7/τ, is averaged out only where there are many.
    """
    is_narrow = (rows.upper - rows.lower).min(initial=np.inf) < 2 * DRIVER.least_residual_single
    n_numbers = posterior.n * posterior.n_cells
    is_small = n_numbers <= (FEW_NUMBERS if is_narrow else VERY_FEW_NUMBERS)
    if is_small and isinstance(posterior, Posterior) and posterior.dtype == np.float32:
        return replace(posterior, Z=posterior.Z.astype(np.float64))
    return posterior


def compile_problem(
    posterior: Measure, constraints: Sequence[AnyConstraint]
) -> tuple[RowSet, sparse.csr_array, np.ndarray, np.ndarray]:
    """Return the rows of constraints, D, D of the constant rules, and which rows are fixed."""
    rows = compile_rows(constraints, posterior.groups, posterior.classes, posterior.prior)
    matrix, m = rows.matrix(posterior.prior), posterior.n_classes
    return rows, matrix, constant_values(matrix, posterior.prior), fixed_rows(matrix, m)
