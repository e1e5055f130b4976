"""Walk the path of tolerances on one set of posteriors, each solve from the solution of the one before.

It begins at its exact right-hand end, the tolerance at which the unconstrained rule is fair, and moves to the left.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from optfair.constraints import AnyConstraint, Constraint, RowSet, as_constraints
from optfair.constraints.criteria import CRITERIA
from optfair.constraints.rows import accuracy
from optfair.dual.posterior import check_posterior, on_cluster
from optfair.errors import InfeasibleError, brief_repr, warn_empty
from optfair.metrics.counts import ConfusionCounts, count_rows
from optfair.metrics.gaps import gap_rows, largest_gap
from optfair.metrics.intervals import fair_quantile
from optfair.rule.driver import Solution, solve_problem, unconstrained_rule
from optfair.rule.feasibility import best_mixture
from optfair.rule.frontier import Frontier, pareto_mask
from optfair.rule.options import Options
from optfair.rule.problem import FairProblem
from optfair.rule.rule import FairRule
from optfair.utils.checks import as_numbers, share_hint
from optfair.utils.display import with_progress
from optfair.utils.parallel import uses_cores
from optfair.utils.progress import stage

DIGITS = 4  # significant ones, of `readable_tolerances`


@uses_cores
@with_progress
def frontier(
    Z: Any,
    criterion: str | AnyConstraint | Iterable[str | AnyConstraint] = "demographic_parity",
    tolerances: int | Sequence[float] = 20,
    *,
    test: tuple[Any, ...] | None = None,
    groups: Sequence[Any] | pd.Index | None = None,
    classes: Sequence[Any] | pd.Index | None = None,
    reference: str | None = None,
    outcomes: Sequence[Hashable] | None = None,
    attributes: str | Sequence[Hashable] | None = None,
    sample_weight: Any = None,
    costs: Any = None,
    temperature: Any = "auto",
    gap: float = 1e-4,
    max_multiplier: float | None = None,
    method: str = "dual",
    max_passes: int = 60,
    client: Any = None,
    n_jobs: int | None = None,
    progress: bool = False,
    random_state: int | None = None,
) -> Frontier:
    """Solve for many tolerances, each from the solution of the one before.

    Parameters
    ----------
    Z : array or memory map of shape (n, n_groups, n_classes), or RowFiles
        Joint posteriors; see `optfair.solve`.
    criterion : str, Constraint, Ratio, MinimumRate, Rows, or list of these, default "demographic_parity"
        The tolerance of every criterion and `Constraint` moves; ratios, minimum rates and rows stay as they are.
    tolerances : int or sequence of float, default 20
        How many, from the right-hand end towards 0 (denser there), or the tolerances themselves.
    test : tuple, optional
        ``(Z_test, y_test, groups_test)``, ``(..., weights)`` or ``(..., weights, clusters)``: labelled rows on which
        every rule is measured too. Weights may be None; clusters tell which rows are of one person.
    groups : sequence of names or pandas.Index, optional
        Names of the groups; see `optfair.solve`.
    classes : sequence of names or pandas.Index, optional
        Names of the classes.
    reference : {"overall", "pairwise"}, default "overall"
        What a group's rate is compared with.
    outcomes : sequence of class labels, optional
        Predicted classes that the criterion speaks of.
    attributes : str or sequence of attribute names, optional
        Which groups of several attributes are meant.
    sample_weight : array of shape (n,), optional
        Weights of the rows.
    costs : array of shape (n_classes, n_classes) or (n_groups, n_classes, n_classes), optional
        Costs to minimise instead of the error.
    temperature : "auto", float, or array, default "auto"
        Temperature of the softmax; see `optfair.solve`.
    gap : float, default 1e-4
        Distance to the best rule that "auto" aims at.
    max_multiplier : float, optional
        Bound on ‖λ‖₁.
    method : {"dual", "lp"}, default "dual"
        How each tolerance is solved.
    max_passes : int, default 60
        Largest number of passes over all rows at one temperature.
    client : dask.distributed.Client, executor, or object with an ordered ``map``, optional
        Cluster that reads rows in files; see `optfair.solve`.
    n_jobs : int, optional
        Cores to use, all by default; see "Cores" in the user guide.
    progress : bool, default False
        Whether to show on standard error how far it has come; see "Progress" in the user guide.
    random_state : int, optional
        Seed of the samples and of the keys.

    Returns
    -------
    Frontier
        The rules and a table of what each reaches.

    Examples
    --------
    >>> import numpy as np
    >>> from optfair import frontier
    >>> Z = np.random.default_rng(0).dirichlet(np.ones(6), 500).reshape(-1, 2, 3)
    >>> path = frontier(Z, "dp", tolerances=5, random_state=0)
    >>> bool(path.table["accuracy"].is_monotonic_decreasing)
    True
    """
    posterior = check_posterior(on_cluster(Z, client), groups, classes, sample_weight, None, n_jobs)
    constraints = as_constraints(criterion, None, reference, outcomes, attributes)
    options = Options(temperature, gap, max_multiplier, method, max_passes, random_state)
    problem = FairProblem.prepare(posterior, loosest_constraints(constraints), costs, options)
    warn_empty(problem.rows.dropped)
    scorer = None if test is None else FrontierScorer(test, problem)
    warn_empty(() if scorer is None else scorer.dropped)
    return tolerance_path(problem, tolerances, scorer)


Solver = Callable[[FairProblem, Solution | None], Solution]


def tolerance_path(
    problem: FairProblem,
    tolerances: int | Sequence[float],
    scorer: FrontierScorer | None = None,
    solver: Solver = solve_problem,
    start: Solution | None = None,
    *,
    stops_early: bool = False,
) -> Frontier:
    """Return the frontier of a problem with the `loosest_constraints`.

    scorer : measures every rule on test data too. solver : how each tolerance is solved. stops_early : whether the path
    ends before the first tolerance that no rule keeps beside the other constraints; else InfeasibleError is raised.
    """
    free = unconstrained_rule(problem)
    path = _check_tolerances(tolerances, min(free.certificate.violation, 1.0))
    constant = _fair_constant(problem)
    value = problem.utility.in_units(float(constant @ problem.constant_gains()), float(problem.posterior.prior.sum()))
    constants, unconstrained = {"train": (0.0, value)}, {"train": (free.certificate.violation, free.certificate.value)}
    if scorer is not None:
        constants["test"] = scorer.point(np.tile(constant, (len(scorer.y), 1)))
        unconstrained["test"] = scorer.point(free.predict_proba(scorer.Z))
    rules: list[FairRule] = []
    lines = []
    solution = start
    with stage("tolerances", len(path)) as work:
        for tolerance in path:
            clock = time.perf_counter()
            constraints = with_tolerance(problem.rows.constraints, tolerance)
            try:
                solution = solver(problem.with_tolerance(constraints, tolerance), solution)
            except InfeasibleError:
                if not (stops_early and rules):
                    raise
                break
            c = solution.rule.certificate
            line = {
                "tolerance": tolerance, "accuracy": c.accuracy, "value": c.value, "violation": c.violation,
                "upper_bound": c.upper_bound, "gap": c.gap, "excess": c.excess, "price": _price(solution.rule),
                "temperature": c.temperature, "seconds": time.perf_counter() - clock,
            }  # fmt: skip
            if scorer is not None:
                line |= scorer.score(solution.rule)
            rules.append(solution.rule)
            lines.append(line)
            work.advance()
    table = pd.DataFrame(lines)
    table.insert(10, "pareto", pareto_mask(table["violation"].to_numpy(), table["value"].to_numpy()))
    return Frontier(table, tuple(rules), constants, unconstrained, problem.utility.from_costs)


def loosest_constraints(constraints: Sequence[AnyConstraint]) -> list[AnyConstraint]:
    """Return the constraints at the loosest end of a path, which must have a tolerance to move."""
    obstacle = path_obstacle(constraints)
    if obstacle:
        raise ValueError(f"criterion: {obstacle}")
    return with_tolerance(constraints, 1.0)


def path_obstacle(constraints: Sequence[AnyConstraint]) -> str:
    """Return why there is no path of tolerances for these constraints; "" where there is."""
    if not any(isinstance(constraint, Constraint) for constraint in constraints):
        return "a frontier needs a criterion with a tolerance, e.g. 'dp' or Constraint('eo')."
    if any(isinstance(c, Constraint) and isinstance(c.tolerance, Mapping) for c in constraints):
        return "a tolerance per group does not move along a frontier; give a number."
    return ""


def readable_tolerances(problem: FairProblem, n: int, requests: Iterable[float] = ()) -> list[float]:
    """Return about n tolerances as `frontier` has them, of four digits: sentences then name them exactly.

    The first one is rounded up, so that the unconstrained rule is still within it. problem : see `tolerance_path`.
    requests : tolerances that take the place of the nearest ones.
    """
    end = min(unconstrained_rule(problem).certificate.violation, 1.0)
    path = _check_tolerances(n, end)
    digits = [DIGITS - 1 - math.floor(math.log10(t)) if t > 0 else 0 for t in path]
    rounded = [round(t, k) for t, k in zip(path, digits, strict=True)]
    rounded[0] = min(math.ceil(path[0] * 10 ** digits[0]) / 10 ** digits[0], 1.0)
    for request in requests:
        if len(rounded) > 1 and request < rounded[0]:
            rounded[1 + int(np.argmin(np.abs(np.array(rounded[1:]) - request)))] = request
    return sorted(set(rounded), reverse=True)


def with_tolerance(constraints: Sequence[AnyConstraint], tolerance: float) -> list[AnyConstraint]:
    """Return the same constraints, gaps at most ``tolerance``; ratios, minimum rates and rows of the user stay."""
    return [replace(c, tolerance=tolerance) if isinstance(c, Constraint) else c for c in constraints]


def _check_tolerances(tolerances: int | Sequence[float], end: float) -> list[float]:
    """Return descending tolerances that begin at the right-hand end."""
    if isinstance(tolerances, (int, np.integer)) and not isinstance(tolerances, bool):
        if tolerances < 2:
            raise ValueError(f"tolerances={brief_repr(tolerances)}: must be at least 2, or a list of tolerances.")
        steps = np.arange(int(tolerances), 0, -1) / int(tolerances)
        return (end * steps**2).tolist() if end > 0 else [0.0]
    path = as_numbers(tolerances)
    if path is None or path.ndim != 1 or len(path) == 0 or not ((path >= 0) & (path <= 1)).all():
        hint = share_hint(float(path.max())) if path is not None and path.ndim == 1 and len(path) else ""
        given = brief_repr(tolerances)
        raise ValueError(f"tolerances={given}: must be an integer or a list of numbers in [0, 1]{hint or '.'}")
    return np.unique(path)[::-1].tolist()


def _price(rule: FairRule) -> float:
    """Return Σ|λ| over the rows whose bound is the tolerance: d accuracy / d tolerance."""
    table = rule.multipliers
    moving = table["criterion"].isin(list(CRITERIA)) & table["group"].notna()
    return float(table.loc[moving, "multiplier"].abs().sum())


def _fair_constant(problem: FairProblem) -> np.ndarray:
    """Return the best prediction that is the same for everybody and has no gap at all, (m,)."""
    gaps, gains = problem.rows.is_gap, problem.constant_gains()
    m = problem.constants.shape[1]
    uniform = problem.constants[gaps].mean(axis=1)
    bounds = np.full(gaps.sum(), 1e-9)
    mixture = best_mixture(-bounds, bounds, uniform, float(gains.mean()), problem.constants[gaps], gains)
    if mixture is None:
        return np.full(m, 1.0 / m)
    share, q = mixture
    return share * q + (1 - share) / m


def check_test_tuple(test: Any, first: str) -> Sequence[Any]:
    """Return the parts of ``test``, three to five. first : what the first of them is called."""
    if not isinstance(test, tuple | list) or len(test) not in (3, 4, 5):
        parts = f"{first}, y_test, groups_test"
        raise ValueError(f"test: must be ({parts}), ({parts}, weights) or ({parts}, weights, clusters).")
    return test


class FrontierScorer:
    """Measure rules on labelled test data.

    dropped : names of the rows of the criteria whose cells are empty there.
    """

    def __init__(self, test: Any, problem: FairProblem) -> None:
        self.Z, self.y, self.a, *rest = check_test_tuple(test, "Z_test")
        self.weight, self.cluster = (*rest, None, None)[:2]
        self.problem = problem
        self.criteria = [constraint for constraint in problem.rows.constraints if isinstance(constraint, Constraint)]
        self.dropped = self._counts(self.y)[1].dropped  # the same for every rule

    def _counts(self, prediction: Any) -> tuple[ConfusionCounts, RowSet]:
        """Return the counts of predictions, classes (n,) or probabilities (n, m), and the rows of the criteria."""
        measure = self.problem.posterior
        # A missing group is one of the groups, or a stranger to them that is named as such.
        counts = count_rows(
            self.y, prediction, self.a, self.weight, measure.classes, measure.groups, "group", self.cluster
        )
        return counts, gap_rows(counts, self.criteria)

    def _value(self, counts: ConfusionCounts) -> float:
        utility = self.problem.utility
        return utility.in_units(float((counts.tensor.reshape(utility.matrix.shape) * utility.matrix).sum()))

    def score(self, rule: FairRule) -> dict[str, float]:
        """Return the columns of the frontier's table that speak of test data."""
        counts, rows = self._counts(rule.predict_proba(self.Z))
        return {
            "test_accuracy": accuracy(counts.tensor),
            "test_value": self._value(counts),
            "test_violation": largest_gap(counts, rows),
            "test_floor": fair_quantile(counts, rows),
        }

    def point(self, h: np.ndarray) -> tuple[float, float]:
        """Return (violation, value) of the probabilities h (n, m)."""
        counts, rows = self._counts(h)
        return largest_gap(counts, rows), self._value(counts)
