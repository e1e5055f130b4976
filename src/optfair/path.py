"""The accuracy–fairness frontier: the tolerance path from one set of posteriors, by warm starts.

It begins at its exact right-hand end, the tolerance at which the unconstrained rule is fair, and moves to the left.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from optfair.constraints import Constraint, as_constraints
from optfair.constraints.criteria import CRITERIA, AnyConstraint
from optfair.dual.certificate import accuracy
from optfair.dual.feasibility import best_mixture
from optfair.errors import OptFairWarning, need_extra
from optfair.metrics import GroupConfusion, group_confusion
from optfair.options import Options, as_numbers
from optfair.posterior import check_posterior
from optfair.rule import FairRule, flat
from optfair.task import Task


@dataclass(frozen=True, eq=False)
class Frontier:
    """Rules from the unconstrained one to the strictest, and what each reaches.

    table : one line per tolerance: tolerance, accuracy, value, violation, upper_bound, gap, excess, price (d value /
    d tolerance), temperature, seconds, pareto; with test data also test_accuracy, test_value, test_violation and
    test_floor (the violation that a perfectly fair rule would show on it by chance, 95 % point). rules : of each line.
    constant, unconstrained : (violation, value) of the best constant answer and of the unconstrained rule, on "train"
    and "test" data. Value is the accuracy, or minus the expected cost where costs were given.
    """

    table: pd.DataFrame
    rules: tuple[FairRule, ...]
    constant: dict[str, tuple[float, float]]
    unconstrained: dict[str, tuple[float, float]]
    has_costs: bool = False

    def __repr__(self) -> str:
        t = self.table
        return (
            f"<Frontier of {len(t)} rules: tolerance {t['tolerance'].min():.4g} to {t['tolerance'].max():.4g}, "
            f"accuracy {t['accuracy'].min():.4f} to {t['accuracy'].max():.4f}; see .table, .area(), .plot()>"
        )

    def pareto(self, on: str = "train") -> pd.DataFrame:
        """The lines that no other line beats in both value and violation."""
        value, violation = self._columns(on)
        return self.table[pareto_mask(self.table[violation].to_numpy(), self.table[value].to_numpy())]

    def area(self, on: str = "train") -> float:
        """Mean value over violations from 0 to that of the unconstrained rule, straight lines between Pareto points.

        Straight lines are within reach: a mixture of two rules. The line starts at the best constant answer, so rules
        that stay far from 0 (few tolerances, or test data with a high noise floor) are charged for that stretch.
        """
        value, violation = self._columns(on)
        ends = np.array([self.constant[on], self.unconstrained[on]])
        v = np.append(self.table[violation].to_numpy(), ends[:, 0])
        a = np.append(self.table[value].to_numpy(), ends[:, 1])
        end = float(ends[1, 0])
        keep = pareto_mask(v, a)
        v, a = v[keep][np.argsort(v[keep])], a[keep][np.argsort(v[keep])]
        if end <= v[0]:
            return float(a[0])
        knots = np.unique(np.concatenate([v[v < end], [0.0, end]]))
        heights = np.interp(knots, v, a)
        return float(np.sum((heights[1:] + heights[:-1]) / 2 * np.diff(knots)) / end)

    def _columns(self, on: str) -> tuple[str, str]:
        if on == "train":
            return "value", "violation"
        if on == "test" and "test_value" in self.table:
            return "test_value", "test_violation"
        raise ValueError(f"on={on!r}: must be 'train', or 'test' when the frontier was computed with test=.")

    def plot(self, ax: Any = None, on: str | None = None) -> Any:
        """Accuracy against violation, a matplotlib Axes. on : "train" or "test" (default: test data if there are)."""
        pyplot = need_extra("matplotlib.pyplot", "Frontier.plot")
        on = on or ("test" if "test_value" in self.table else "train")
        value, violation = self._columns(on)
        ax = pyplot.subplots(figsize=(6, 4), layout="constrained")[1] if ax is None else ax
        if on == "test":
            floor = float(self.table["test_floor"].median())
            ax.axvspan(0, floor, color="0.88", zorder=0, label="noise floor (95 %)")
        best = self.pareto(on).sort_values(violation)
        rest = self.table.drop(best.index)
        ax.plot(best[violation], best[value], "o-", color="C0", markersize=4, label="Pareto frontier")
        if len(rest):
            ax.plot(rest[violation], rest[value], "o", color="0.55", markersize=4, label="other tolerances")
        ax.plot(*self.unconstrained[on], "s", color="C3", label="unconstrained")
        ax.set_xlim(left=0)
        ax.set_xlabel(f"violation ({on})")
        ax.set_ylabel(f"{'minus expected cost' if self.has_costs else 'accuracy'} ({on})")
        ax.legend(frameon=False)
        return ax


def pareto_mask(violation: np.ndarray, accuracy: np.ndarray) -> np.ndarray:
    """True where no other point is better in one and no worse in the other; of equal points, for the first alone."""
    order = np.lexsort((-accuracy, violation))
    best = np.maximum.accumulate(np.concatenate([[-np.inf], accuracy[order][:-1]]))
    mask = np.zeros(len(violation), dtype=bool)
    mask[order] = accuracy[order] > best
    return mask


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
    gap: float = 1e-3,
    max_multiplier: float | None = None,
    method: str = "dual",
    max_passes: int = 60,
    n_jobs: int | None = None,
    random_state: int | None = None,
) -> Frontier:
    """Solve for many tolerances. Arguments as in `optfair.solve`, but:

    tolerances : how many, from the right-hand end towards 0 (denser there), or the tolerances themselves. The tolerance
        of every `Constraint` in ``criterion`` moves; ratios, minimum rates and own rows stay as they are.
    test : (Z_test, y_test, groups_test) or (..., weights): labelled people on whom every rule is measured too.
    """
    posterior = check_posterior(Z, groups, classes, sample_weight, None, n_jobs)
    constraints = as_constraints(criterion, None, reference, outcomes, attributes)
    chosen = Options(temperature, gap, max_multiplier, method, max_passes, random_state)
    task = Task.prepare(posterior, widest(constraints), costs, chosen)
    return tolerance_path(task, constraints, tolerances, chosen, test)


def tolerance_path(
    task: Task,
    constraints: Sequence[AnyConstraint],
    tolerances: int | Sequence[float],
    options: Options,
    test: tuple[Any, ...] | None = None,
    solve: Callable[[Task, Sequence[AnyConstraint], FairRule | None], FairRule] | None = None,
) -> Frontier:
    """The frontier of a task prepared for the `widest` bounds. solve : how, if not by the task itself."""
    free = task.unconstrained(options, widest(constraints))
    path = _check_tolerances(tolerances, min(free.certificate.violation, 1.0))
    scorer = None if test is None else _Scorer(test, task, constraints)
    constant = _fair_constant(task)
    value = task.in_units(float(constant @ task.constant_gains()), float(task.posterior.prior.sum()))
    constants, unconstrained = {"train": (0.0, value)}, {"train": (free.certificate.violation, free.certificate.value)}
    if scorer is not None:
        constants["test"] = scorer.point(np.tile(constant, (len(scorer.y), 1)))
        unconstrained["test"] = scorer.point(free.predict_proba(scorer.Z))
    rules: list[FairRule] = []
    lines = []
    for tolerance in path:
        clock = time.perf_counter()
        wishes = with_tolerance(constraints, tolerance)
        task, start = task.with_constraints(wishes), rules[-1] if rules else None
        rule = solve(task, wishes, start) if solve is not None else task.solve(options, wishes, start, clock)
        c = rule.certificate
        line = {
            "tolerance": tolerance, "accuracy": c.accuracy, "value": c.value, "violation": c.violation,
            "upper_bound": c.upper_bound, "gap": c.gap, "excess": c.excess, "price": _price(rule),
            "temperature": c.temperature, "seconds": time.perf_counter() - clock,
        }  # fmt: skip
        if scorer is not None:
            line |= scorer.score(rule)
        rules.append(rule)
        lines.append(line)
    table = pd.DataFrame(lines)
    table.insert(10, "pareto", pareto_mask(table["violation"].to_numpy(), table["value"].to_numpy()))
    return Frontier(table, tuple(rules), constants, unconstrained, task.has_costs)


def widest(constraints: Sequence[AnyConstraint]) -> list[AnyConstraint]:
    """The constraints at the loosest end of a path, which must have a tolerance to move."""
    if not any(isinstance(wish, Constraint) for wish in constraints):
        raise ValueError("criterion: a frontier needs a criterion with a tolerance, e.g. 'dp' or Constraint('eo').")
    if any(isinstance(wish, Constraint) and isinstance(wish.tolerance, Mapping) for wish in constraints):
        raise ValueError("criterion: a tolerance per group does not move along a frontier; give a number.")
    return with_tolerance(constraints, 1.0)


def with_tolerance(constraints: Sequence[AnyConstraint], tolerance: float) -> list[AnyConstraint]:
    """The same constraints, gaps at most ``tolerance``; ratios, minimum rates and own rows stay."""
    return [replace(wish, tolerance=tolerance) if isinstance(wish, Constraint) else wish for wish in constraints]


def _check_tolerances(tolerances: int | Sequence[float], end: float) -> list[float]:
    """Descending tolerances that begin at the right-hand end."""
    if isinstance(tolerances, (int, np.integer)) and not isinstance(tolerances, bool):
        if tolerances < 2:
            raise ValueError(f"tolerances={tolerances!r}: must be at least 2, or a list of tolerances.")
        steps = np.arange(int(tolerances), 0, -1) / int(tolerances)
        return (end * steps**2).tolist() if end > 0 else [0.0]
    path = as_numbers(tolerances)
    if path is None or path.ndim != 1 or len(path) == 0 or not ((path >= 0) & (path <= 1)).all():
        raise ValueError(f"tolerances={tolerances!r}: must be an integer or a list of numbers in [0, 1].")
    return np.unique(path)[::-1].tolist()


def _price(rule: FairRule) -> float:
    """Σ|λ| over the rows whose bound is the tolerance: d accuracy / d tolerance."""
    table = rule.multipliers
    moving = table["criterion"].isin(list(CRITERIA)) & table["group"].notna()
    return float(table.loc[moving, "multiplier"].abs().sum())


def _fair_constant(task: Task) -> np.ndarray:
    """The best answer that is the same for everybody and has no gap at all, (m,)."""
    gaps = task.rows.is_gap
    m = task.constants.shape[1]
    gains = task.constant_gains()
    uniform = task.constants[gaps].mean(axis=1)
    bounds = np.full(gaps.sum(), 1e-9)
    found = best_mixture(-bounds, bounds, uniform, float(gains.mean()), task.constants[gaps], gains)
    if found is None:
        return np.full(m, 1.0 / m)
    share, q = found
    return share * q + (1 - share) / m


class _Scorer:
    """Measures rules on labelled test data."""

    def __init__(self, test: Any, task: Task, constraints: Sequence[AnyConstraint]) -> None:
        if not isinstance(test, (tuple, list)) or len(test) not in (3, 4):
            raise ValueError("test: must be (Z_test, y_test, groups_test) or (Z_test, y_test, groups_test, weights).")
        self.Z, self.y, self.a, *rest = test
        self.weight = rest[0] if rest else None
        self.task = task
        self.criteria = [wish for wish in constraints if isinstance(wish, Constraint)]

    def _confusion(self, h: np.ndarray) -> GroupConfusion:
        measure = self.task.posterior
        return group_confusion(
            self.y,
            h,
            sensitive_features=self.a,
            sample_weight=self.weight,
            classes=measure.classes,
            groups=measure.groups,
        )

    def _value(self, confusion: GroupConfusion) -> float:
        task = self.task
        return task.in_units(float((flat(confusion.tensor) * task.utility).sum()))

    def score(self, rule: FairRule) -> dict[str, float]:
        confusion = self._confusion(rule.predict_proba(self.Z))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OptFairWarning)  # the same empty cells for every rule: said once before
            return {
                "test_accuracy": accuracy(confusion.tensor),
                "test_value": self._value(confusion),
                "test_violation": confusion.violation(self.criteria),
                "test_floor": confusion.noise_floor(self.criteria),
            }

    def point(self, h: np.ndarray) -> tuple[float, float]:
        """(violation, value) of the probabilities h (n, m)."""
        confusion = self._confusion(h)
        return confusion.violation(self.criteria), self._value(confusion)
