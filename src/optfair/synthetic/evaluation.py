"""Measure a rule under the true posteriors.

J = mean_x z(x) ⊗ h(x)        accuracy = Σ_a,i J[a,i,i]        violation = max_k |D_k vec(J)|
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from optfair.constraints import Constraint, as_constraints, compile_rows
from optfair.constraints.rows import accuracy
from optfair.errors import warn_empty
from optfair.metrics.counts import read_prediction
from optfair.metrics.influence import rate_influence
from optfair.rule.tolerance_path import with_tolerance


@dataclass(frozen=True)
class WorldEvaluation:
    """Accuracy and violation of a rule under the true posteriors of a `World`.

    Parameters
    ----------
    accuracy : float
        Sum of ``J[a, i, i]`` over groups a and classes i.
    violation : float
        The largest absolute gap of the criterion.
    accuracy_error : float
        Monte-Carlo standard error of the accuracy.
    violation_error : float
        Monte-Carlo standard error of the largest gap.
    confusion : array of shape (A, m, m)
        ``J[a, i, j]`` = P(A=a, Y=i, Ŷ=j).
    n : int
        Number of rows of the population.

    Examples
    --------
    >>> from optfair.datasets import make_fair_classification
    >>> world = make_fair_classification(random_state=0).world
    >>> result = world.evaluate(world.optimum("dp", 0.02, n=2_000), "dp", n=2_000)
    >>> round(result.violation, 3), result.accuracy_error < 0.012
    (0.02, True)
    """

    accuracy: float
    violation: float
    accuracy_error: float
    violation_error: float
    confusion: np.ndarray = field(repr=False, compare=False)
    n: int


def as_gap_constraints(criterion: Any, **options: Any) -> list[Any]:
    """Return the constraints of a criterion, which must be gaps; their tolerance 1 lets every group be measured."""
    constraints = as_constraints(criterion, **options)
    if not all(isinstance(constraint, Constraint) for constraint in constraints):
        raise ValueError("criterion: must be gaps between groups: dp, eop, eo, meo, oae or a Constraint.")
    return with_tolerance(constraints, 1.0)


def as_probabilities(prediction: Any, classes: Sequence[Any], n: int) -> np.ndarray:
    """Return h (n, m) of the predictions of a rule, which are probabilities or classes."""
    codes, h, _ = read_prediction(prediction, pd.Index(classes), fixed=True)
    h = np.eye(len(classes))[codes] if h is None else h
    if len(h) != n:
        raise ValueError(f"rule: returned {len(h)} predictions for {n} rows; must return one for each.")
    return h


def evaluate_rule(
    h: np.ndarray, Z: np.ndarray, constraints: list[Any], groups: Sequence[Any], classes: Sequence[Any]
) -> WorldEvaluation:
    """Return accuracy and violation of h with their standard errors.   h: (n, m)  Z: (n, A, m)

    The errors are those of means over x: of the probability that the prediction is right, and of the influence of x
    on the largest gap.
    """
    n, m = h.shape
    J = np.einsum("xai,xj->aij", Z, h, optimize=True) / n
    rows = compile_rows(constraints, pd.Index(groups), pd.Index(classes), J.sum(axis=2))
    warn_empty(rows.dropped)
    values = rows.values(J)
    largest = rows.combination[[int(np.abs(values).argmax())]] @ rate_influence(rows, J)
    influence = ((Z.reshape(n, -1) @ largest.toarray().reshape(-1, m)) * h).sum(axis=1)
    correct = (Z.sum(axis=1) * h).sum(axis=1)
    accuracy_error, violation_error = (float(value.std() / np.sqrt(n)) for value in (correct, influence))
    return WorldEvaluation(accuracy(J), float(rows.violation(values)), accuracy_error, violation_error, J, n)
