"""Start the multipliers at those of post-processing, from a quick model of P(A, Y | X).

Rows are sampled by cell (all of the rare ones, with weights), z is learned out of fold in two halves, and the dual is
solved. The multipliers are a starting point and set the size of ``max_multiplier="auto"``; nothing else is taken over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from optfair.constraints import AnyConstraint, RowSet
from optfair.dual.posterior import training_posterior
from optfair.errors import InfeasibleError
from optfair.inputs.containers import take_rows
from optfair.inputs.splits import make_splits
from optfair.inputs.training_data import TrainingData
from optfair.posteriors.models import place_in_groups
from optfair.posteriors.out_of_fold import PosteriorRecipe
from optfair.rule.driver import solve_problem
from optfair.rule.multipliers import matching_multipliers
from optfair.rule.options import Options
from optfair.rule.problem import FairProblem
from optfair.rule.rule import FairRule
from optfair.utils.progress import stage

SAMPLE_ROWS = 20_000  # rows that the quick model sees: its multipliers are a start, not the result
CELL_ROWS = 200  # fewest rows of a cell in that sample, if it has as many
FOLDS = 2
LEAST_CAP = 2.0  # ‖λ‖₁ may reach this even where post-processing needs next to nothing
OVERFIT_GAP = 0.1  # a model this much more accurate on rows it has seen overfits


@dataclass(frozen=True, eq=False)
class QuickRule:
    """Post-processing with a quick model: its rule (None where it is infeasible), and what was found out on the way.

    accuracy : of the quick models on (rows they have seen, others), NaN if not known. conflict : why no rule was found,
    or "".
    """

    rule: FairRule | None
    accuracy: tuple[float, float] = (np.nan, np.nan)
    conflict: str = ""


@dataclass(frozen=True, eq=False)
class WarmStart:
    """multipliers : λ_0, (K,). cap : B. seed : of the samples. accuracy : on (seen, other) rows, NaN if not known."""

    multipliers: np.ndarray
    cap: float
    seed: int
    accuracy: np.ndarray

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the start as arrays, for a checkpoint."""
        return {field.name: np.array(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> WarmStart:
        """Return the start that `arrays` was called on."""
        return cls(arrays["multipliers"], arrays["cap"].item(), arrays["seed"].item(), arrays["accuracy"])


def make_start(
    quick: QuickRule, rows: RowSet, max_multiplier: str | float, scale: float, seed: int, *, zero: bool
) -> WarmStart:
    """Return λ_0 and B of a game about ``rows`` whose utility is worth ``scale``, from the multipliers of a rule.

    zero : start at zero; the multipliers then set B alone.
    """
    multipliers = np.zeros(len(rows.lower))
    if quick.rule is not None:
        multipliers = matching_multipliers(quick.rule.multipliers, rows) / scale
    auto = max(LEAST_CAP, 2 * float(np.abs(multipliers).sum()))
    cap = auto if isinstance(max_multiplier, str) else float(max_multiplier) / scale
    first = multipliers * (not zero)
    first = first * min(1.0, cap / max(float(np.abs(first).sum()), 1e-300))
    return WarmStart(first, cap, seed, np.array(quick.accuracy))


@stage("looking for a start with a quick model")
def quick_rule(
    estimator: Any, data: TrainingData, constraints: Sequence[AnyConstraint], costs: Any, seed: int, *, aware: bool
) -> QuickRule:
    """Solve post-processing on a sample of the rows, with posteriors of ``estimator`` from two folds."""
    data = sample_rows(data, seed)
    recipe = PosteriorRecipe("joint", estimator, None, None, (len(data.groups), len(data.classes)))
    Z = np.empty((len(data.y), *recipe.shape))
    correct = np.zeros((2, len(data.y)))
    for train, test in make_splits(FOLDS, data):
        weight = None if data.weight is None else data.weight[train]
        model = recipe.fit(take_rows(data.X, train), data.a[train], data.y[train], weight)
        Z[test] = model(take_rows(data.X, test))
        correct[0, train] = model(take_rows(data.X, train)).sum(axis=1).argmax(axis=1) == data.y[train]
        correct[1, test] = Z[test].sum(axis=1).argmax(axis=1) == data.y[test]
    train_accuracy, test_accuracy = np.average(
        correct, axis=1, weights=data.weight
    )  # of two halves: every row is seen once
    accuracy = float(train_accuracy), float(test_accuracy)
    Z = place_in_groups(Z, data.a) if aware else Z
    problem = FairProblem.prepare(training_posterior(Z, data), constraints, costs, Options(random_state=seed))
    try:
        return QuickRule(solve_problem(problem).rule, accuracy)
    except InfeasibleError as error:
        return QuickRule(None, accuracy, str(error))


def sample_rows(data: TrainingData, seed: int) -> TrainingData:
    """Return about SAMPLE_ROWS of the rows, at least CELL_ROWS of each cell, weighted to stand for all."""
    n, cell = len(data.y), data.cell
    if n <= SAMPLE_ROWS:
        return data
    counts = np.bincount(cell)
    sizes = np.minimum(counts, np.maximum(CELL_ROWS, np.ceil(counts * (SAMPLE_ROWS / n)).astype(int)))
    order = np.random.default_rng(seed).permutation(n)
    order = order[np.argsort(cell[order], kind="stable")]
    place = np.arange(n) - np.repeat(np.cumsum(counts) - counts, counts)  # within the cell
    index = np.sort(order[place < sizes[cell[order]]])
    represented = (counts / np.maximum(sizes, 1))[cell[index]]
    sample = data.take(index)
    return replace(sample, weight=represented if sample.weight is None else represented * sample.weight)
