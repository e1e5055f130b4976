"""`solve`: from joint posteriors, a criterion and a tolerance to a certified fair rule."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from optfair.constraints import as_constraints
from optfair.constraints.criteria import AnyConstraint
from optfair.options import Options
from optfair.posterior import check_posterior
from optfair.rule import FairRule
from optfair.task import Task


def solve(
    Z: Any,
    criterion: str | AnyConstraint | Iterable[str | AnyConstraint] = "demographic_parity",
    tolerance: float | Mapping[Hashable, float] | None = None,
    *,
    groups: Sequence[Any] | pd.Index | None = None,
    classes: Sequence[Any] | pd.Index | None = None,
    reference: str | None = None,
    outcomes: Sequence[Hashable] | None = None,
    attributes: str | Sequence[Hashable] | None = None,
    sample_weight: Any = None,
    costs: Any = None,
    offset: Any = None,
    temperature: str | float | Any = "auto",
    gap: float = 1e-3,
    max_multiplier: float | None = None,
    method: str = "dual",
    start: FairRule | None = None,
    max_passes: int = 60,
    n_jobs: int | None = None,
    random_state: int | None = None,
) -> FairRule:
    """The most accurate rule whose criterion is within tolerance, with a bound on how far from optimal it is.

    ``max_h mean_x Σ_j h_j β_j  s.t.  lower ≤ D vec(J(h)) ≤ upper``, solved through its convex dual.

    Parameters
    ----------
    Z : (n, n_groups, n_classes) array or memory map; ``Z[x, a, i] = P(A=a, Y=i | X=x)``, each row sums to 1.
    criterion : "dp", "eop", "eo", "meo", "oae" (or the long names), a Constraint, Ratio, MinimumRate, Rows, or a list.
    tolerance : bound on every gap between a group's rate and the reference rate (default 0.01).
    groups, classes : names; ``groups`` a MultiIndex when cells are intersections of several attributes.
    reference : "overall" (default) or "pairwise": what a group's rate is compared with.
    outcomes : restrict the criterion to these predicted classes. attributes : see `Constraint`.
    sample_weight : (n,). costs : (m, m) cost of predicting j (column) for a true i (row), or (n_groups, m, m); the
        expected cost is then minimised. offset : (n, m) utility added to each row's scores, in
        units of accuracy, or of the range of ``costs``.
    temperature : "auto" (as high as ``gap`` allows; rare groups are given a higher one), a number for all cells, or an
        array (n_groups,) or (n_groups, m).
    gap : the distance to the best rule that "auto" aims at: in accuracy, or as a share of the range of ``costs``.
    max_multiplier : bound on ‖λ‖₁; when it is active the rule may be out of tolerance, and the certificate says so.
    method : "dual", or "lp" for small n: the upper bound and the multipliers are then those of the exact program.
    start : a rule for a similar problem, whose multipliers are the starting point.
    max_passes : cap on passes over all rows at one temperature. n_jobs : threads (None: all cores).
    random_state : seed of the samples and of the key of hashed decisions; a seeded key can be guessed, so leave it out
        (a fresh secret key) where people could gain by predicting their answer.
    """
    clock = time.perf_counter()
    posterior = check_posterior(Z, groups, classes, sample_weight, offset, n_jobs)
    constraints = as_constraints(criterion, tolerance, reference, outcomes, attributes)
    if not isinstance(start, FairRule | None):
        raise ValueError(f"start: must be a FairRule, got {type(start).__name__}.")
    options = Options(temperature, gap, max_multiplier, method, max_passes, random_state)
    task = Task.prepare(posterior, constraints, costs, options)
    return task.solve(options, constraints, start, clock)
