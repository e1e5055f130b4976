"""Solve for a fair rule: from joint posteriors, a criterion and a tolerance to a certified `FairRule`."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from optfair.constraints import AnyConstraint, as_constraints
from optfair.dual.posterior import check_posterior, on_cluster
from optfair.errors import warn_empty
from optfair.rule.driver import Solution, solve_problem, with_seconds
from optfair.rule.options import Options
from optfair.rule.problem import FairProblem
from optfair.rule.rule import FairRule
from optfair.utils.display import with_progress
from optfair.utils.parallel import uses_cores


@uses_cores
@with_progress
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
    gap: float = 1e-4,
    max_multiplier: float | None = None,
    method: str = "dual",
    start: FairRule | None = None,
    max_passes: int = 60,
    client: Any = None,
    n_jobs: int | None = None,
    progress: bool = False,
    random_state: int | None = None,
) -> FairRule:
    """Find the most accurate rule whose criterion is within tolerance, and bound how far from optimal it is.

    ``max_h mean_x Σ_j h_j β_j  s.t.  lower ≤ D vec(J(h)) ≤ upper``, solved through its convex dual.

    Parameters
    ----------
    Z : array or memory map of shape (n, n_groups, n_classes), or RowFiles
        Joint posteriors ``Z[x, a, i] = P(A=a, Y=i | X=x)``; each row sums to 1. Or rows in files, as
        `optfair.read_parquet` finds them.
    criterion : str, Constraint, Ratio, MinimumRate, Rows, list of these, or mapping, default "demographic_parity"
        "dp", "eop", "eo", "meo", "oae" or their long names; or objects, which say everything themselves; or a mapping
        from names to tolerances, ``{"dp": 0.02, "eo": 0.05}``.
    tolerance : float or mapping from group to float, default 0.01
        Bound on every gap between a group's rate and the reference rate.
    groups : sequence of names or pandas.Index, optional
        Names of the groups; a MultiIndex when groups are intersections of several attributes.
    classes : sequence of names or pandas.Index, optional
        Names of the classes.
    reference : {"overall", "pairwise"}, default "overall"
        What a group's rate is compared with: the rate of everybody, or that of every other group.
    outcomes : sequence of class labels, optional
        Predicted classes that the criterion speaks of; all classes by default.
    attributes : str or sequence of attribute names, optional
        Which groups of several attributes are meant; see `Constraint`.
    sample_weight : array of shape (n,), optional
        Weights of the rows.
    costs : array of shape (n_classes, n_classes) or (n_groups, n_classes, n_classes), optional
        Cost of predicting j (column) for a true i (row); the expected cost is then minimised instead of the error.
    offset : array of shape (n, n_classes), optional
        Utility added to each row's scores, in units of accuracy, or of the range of ``costs``.
    temperature : "auto", float, or array of shape (n_groups,) or (n_groups, n_classes), default "auto"
        Temperature τ of the softmax. "auto" is as high as ``gap`` allows, and higher for rare groups.
    gap : float, default 1e-4
        Distance to the best rule that "auto" aims at: in accuracy, or as a share of the range of ``costs``.
    max_multiplier : float, optional
        Bound on ‖λ‖₁. Where it is active the rule may be out of tolerance, and the certificate says so.
    method : {"dual", "lp"}, default "dual"
        "lp" is for small n: the upper bound and the multipliers are those of the exact linear program.
    start : FairRule, optional
        Rule of a similar problem, whose multipliers are the starting point.
    max_passes : int, default 60
        Largest number of passes over all rows at one temperature.
    client : dask.distributed.Client, executor, or object with an ordered ``map``, optional
        Cluster that reads rows in files; see docs/guide/large_data.md.
    n_jobs : int, optional
        Cores to use, all by default; see "Cores" in the user guide.
    progress : bool, default False
        Whether to show on standard error how far it has come; see "Progress" in the user guide.
    random_state : int, optional
        Seed of the samples and of the key of hashed decisions. A seeded key can be guessed: leave it out (a fresh
        secret key) where people could gain by predicting their answer.

    Returns
    -------
    FairRule
        The rule with its certificate, multipliers and price of determinism.

    Raises
    ------
    InfeasibleError
        If no rule satisfies all constraints; it names the rows in conflict.
    ValueError
        If an argument is not valid.

    Examples
    --------
    >>> import numpy as np
    >>> from optfair import solve
    >>> Z = np.random.default_rng(0).dirichlet(np.ones(6), 500).reshape(-1, 2, 3)
    >>> rule = solve(Z, "dp", 0.01, groups=["A", "B"], classes=["low", "mid", "high"], random_state=0)
    >>> rule.certificate.violation <= 0.01
    True
    >>> rule.predict(Z[:3]).tolist()
    ['high', 'low', 'mid']
    """
    clock = time.perf_counter()
    if not isinstance(start, FairRule | None):
        raise ValueError(f"start: must be a FairRule, got {type(start).__name__}.")
    posterior = check_posterior(on_cluster(Z, client), groups, classes, sample_weight, offset, n_jobs)
    options = Options(temperature, gap, max_multiplier, method, max_passes, random_state)
    constraints = as_constraints(criterion, tolerance, reference, outcomes, attributes)
    problem = FairProblem.prepare(posterior, constraints, costs, options)
    warn_empty(problem.rows.dropped)
    return with_seconds(solve_problem(problem, None if start is None else Solution(start)), clock).rule
