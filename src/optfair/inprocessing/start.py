"""Where the multipliers start: at those of post-processing, from a quick model of P(A, Y | X).

Rows are sampled by cell (all of the rare ones, with weights), z is learned out of fold in two halves, and the dual is
solved. The multipliers are a starting point and set the size of ``max_multiplier="auto"``; nothing else is taken over.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from optfair.base import People
from optfair.constraints import RowSet
from optfair.constraints.criteria import AnyConstraint
from optfair.errors import InfeasibleError, OptFairWarning, warn
from optfair.estimation.models import placed
from optfair.estimation.recipe import Recipe, make_splits
from optfair.features import take_rows
from optfair.options import Options
from optfair.posterior import check_posterior
from optfair.rule import FairRule
from optfair.task import Task, carried_over

SAMPLE_ROWS, CELL_ROWS, FOLDS = 20_000, 200, 2
LEAST_CAP = 2.0
REMEMBERS = 0.1


def sample(people: People, seed: int) -> People:
    """About SAMPLE_ROWS of them, at least CELL_ROWS of each cell, weighted to stand for all."""
    n, cell = len(people.y), people.cell
    if n <= SAMPLE_ROWS:
        return people
    counts = np.bincount(cell)
    wanted = np.minimum(counts, np.maximum(CELL_ROWS, np.ceil(counts * (SAMPLE_ROWS / n)).astype(int)))
    order = np.random.default_rng(seed).permutation(n)
    order = order[np.argsort(cell[order], kind="stable")]
    place = np.arange(n) - np.repeat(np.cumsum(counts) - counts, counts)  # within the cell
    index = np.sort(order[place < wanted[cell[order]]])
    stands_for = (counts / np.maximum(wanted, 1))[cell[index]]
    some = people.part(index)
    return replace(some, weight=stands_for if some.weight is None else stands_for * some.weight)


def post_rule(
    estimator: Any, people: People, constraints: Sequence[AnyConstraint], costs: Any, seed: int, *, aware: bool
) -> tuple[FairRule | None, np.ndarray]:
    """(The rule of post-processing, the accuracy of the quick models on (those they have seen, others)).

    The rule is None, with a warning, where no rule on top of this model is within tolerance.
    """
    people = sample(people, seed)
    recipe = Recipe("joint", estimator, None, None, (len(people.groups), len(people.classes)))
    Z = np.empty((len(people.y), *recipe.shape))
    right = np.zeros((2, len(people.y)))
    for train, test in make_splits(FOLDS, people):
        weight = None if people.weight is None else people.weight[train]
        model = recipe.fit(take_rows(people.X, train), people.a[train], people.y[train], weight)
        Z[test] = model(take_rows(people.X, test))
        right[0, train] = model(take_rows(people.X, train)).sum(axis=1).argmax(axis=1) == people.y[train]
        right[1, test] = Z[test].sum(axis=1).argmax(axis=1) == people.y[test]
    accuracy = np.average(right, axis=1, weights=people.weight)  # of two halves: every row is seen once
    Z = placed(Z, people.a) if aware else Z
    options = Options(random_state=seed)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OptFairWarning)  # empty cells are said once, for all the people
            measure = check_posterior(Z, people.groups, people.class_index, people.weight)
            return Task.prepare(measure, constraints, costs, options).solve(options, constraints), accuracy
    except InfeasibleError as error:
        warn(f"start: post-processing found that {error} Starting at zero.")
        return None, accuracy


@dataclass(frozen=True, eq=False)
class Start:
    """multipliers : λ_0, (K,). cap : B. seed : of what is drawn. accuracy : on (seen, others), NaN if not known."""

    multipliers: np.ndarray
    cap: float
    seed: int
    accuracy: np.ndarray

    def arrays(self) -> dict[str, np.ndarray]:
        return {field.name: np.array(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def read(cls, arrays: dict[str, np.ndarray]) -> Start:
        return cls(arrays["multipliers"], arrays["cap"].item(), arrays["seed"].item(), arrays["accuracy"])

    @property
    def remembers(self) -> bool:
        """Whether a model of this kind does much better on people it has seen."""
        return bool(self.accuracy[0] - self.accuracy[1] > REMEMBERS)


def make_start(
    asked: Any,
    max_multiplier: str | float,
    rows: RowSet,
    scale: float,
    seed: int,
    post: Callable[[], tuple[FairRule | None, np.ndarray]],
) -> Start:
    """λ_0 and B of a game about ``rows`` whose utility is worth ``scale``; ``post`` is only called where needed.

    asked : "post", "zero" or a FairRule.
    """
    rule, accuracy = asked if isinstance(asked, FairRule) else None, np.full(2, np.nan)
    if rule is None and (asked == "post" or max_multiplier == "auto"):
        rule, accuracy = post()
    known = np.zeros(len(rows)) if rule is None else carried_over(rule.multipliers, rows) / scale
    auto = max(LEAST_CAP, 2 * float(np.abs(known).sum()))
    cap = auto if isinstance(max_multiplier, str) else float(max_multiplier) / scale
    first = known * (not (isinstance(asked, str) and asked == "zero"))
    return Start(first * min(1.0, cap / max(float(np.abs(first).sum()), 1e-300)), cap, seed, accuracy)
