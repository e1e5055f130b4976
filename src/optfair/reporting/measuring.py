"""Measure rules on people: accuracy, violation with its interval, and every constraint with its state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from optfair.constraints import AnyConstraint, Constraint, Ratio, RowSet
from optfair.constraints.events import criterion_events, group_families, outcome_positions
from optfair.constraints.rows import accuracy
from optfair.errors import warn_empty
from optfair.metrics.constraint_table import measure_constraints
from optfair.metrics.counts import ConfusionCounts
from optfair.metrics.gaps import gap_rows
from optfair.metrics.group_bounds import UnknownGroupBounds
from optfair.metrics.intervals import fair_quantile, simultaneous_interval
from optfair.reporting.facts import AFTER, BEFORE, REPORT_LEVEL, Facts, RuleMetrics
from optfair.reporting.judging import judge_rows, with_unknown
from optfair.reporting.report import Report
from optfair.reporting.wording import MIN_CELL, Mask
from optfair.rule.promise import held_out_promise
from optfair.utils.progress import stage

MOST_PAIRS = 500_000  # comparisons of pairs of groups: a million would need many gigabytes
PATH_REPLICATES = 200  # behind the intervals of a path: its points are there to be compared, not to be quoted


def make_report(
    title: str,
    constraints: Sequence[AnyConstraint],
    predictions: Mapping[str, ConfusionCounts],
    *,
    before: str | None = None,
    after: str | None = None,
    level: float = REPORT_LEVEL,
    random_state: Any = 0,
    bounds: Mapping[str, UnknownGroupBounds] | None = None,
    **facts: Any,
) -> Report:
    """Measure rules on people, and report on them.

    predictions : of each rule, by its name, counted. before, after : names of the rules whose rates are shown; the
    first and the last by default. The one after is judged. level, random_state : of the intervals. bounds : of each
    rule by its name, where some groups are unknown. facts : others of `Facts`.
    """
    names = list(predictions)
    roles = {}
    if names:
        roles = {AFTER: after or names[-1]}
        if len(names) > 1:
            roles = {BEFORE: before or names[0], **roles}
    fitted = facts.get("seconds") is not None
    promise = facts.get("promise")
    measured, mask = [], Mask(facts.get("min_cell", MIN_CELL))
    with stage("measuring rules", len(predictions)) as work:
        for name, counts in predictions.items():
            is_judged = fitted and name == roles.get(AFTER)
            question = counts, constraints, level, random_state, promise
            metrics = measure_rule(name, *question, fitted=is_judged, min_cell=mask.least)
            if bounds is not None and metrics.rows is not None:
                metrics = replace(metrics, rows=with_unknown(metrics.rows, bounds[name], counts, mask))
            measured.append(metrics)
            work.advance()
    if measured:
        subject = next(metrics for metrics in measured if metrics.name == roles[AFTER])
        rows = subject.rows
        assert rows is not None
        facts["unknown"] = None if bounds is None else bounds[subject.name]
        warn_empty(rows.dropped)
        # Of people left out because their group is unknown nothing is promised by the others.
        if not fitted and not rows.dropped and not facts.get("n_unknown"):
            facts["check"] = held_out_promise(subject.counts, constraints, level, "")
    common = {"level": float(level), "seed": random_state, "measured": tuple(measured), "roles": roles}
    return Report(Facts(title, tuple(constraints), **common, **facts))


def compare_rules(
    title: str,
    constraints: Sequence[AnyConstraint],
    predictions: Mapping[str, ConfusionCounts],
    *,
    level: float = REPORT_LEVEL,
    random_state: Any = 0,
    **facts: Any,
) -> Report:
    """Measure several rules on the same people, none of which is the one to be judged."""
    options: dict[str, Any] = {"min_cell": facts.get("min_cell", MIN_CELL)}
    measured = tuple(
        measure_rule(name, counts, constraints, level, random_state, **options) for name, counts in predictions.items()
    )
    assert measured[-1].rows is not None
    warn_empty(measured[-1].rows.dropped)
    roles = {f"rule {k}": metrics.name for k, metrics in enumerate(measured, 1)}
    return Report(Facts(title, tuple(constraints), measured, roles, level=float(level), seed=random_state, **facts))


def measure_rule(
    name: str,
    counts: ConfusionCounts,
    constraints: Sequence[AnyConstraint],
    level: float = REPORT_LEVEL,
    random_state: Any = 0,
    promise: Any = None,
    *,
    fitted: bool = False,
    n_replicates: int = 1000,
    min_cell: int = MIN_CELL,
) -> RuleMetrics:
    """Measure one rule. promise, fitted : see `judge_rows`. min_cell : people of whom a number is shown."""
    _check_size(constraints, counts)
    gaps = [constraint for constraint in constraints if isinstance(constraint, Constraint)]
    replicates = {"level": level, "n_replicates": n_replicates, "random_state": random_state}
    interval, floor = None, None
    if gaps:
        compared = gap_rows(counts, gaps)
        interval = simultaneous_interval(counts, compared, **replicates)
        visible = np.flatnonzero(interval.table["n"].to_numpy(dtype=float) >= min_cell)
        floor = interval.noise_floor
        if len(visible) < len(compared):  # a group that is not shown would set it
            floor = fair_quantile(counts, row_subset(compared, visible), **replicates) if len(visible) else None
    table, _ = measure_constraints(counts, list(constraints), **replicates)
    rows = judge_rows(counts, list(constraints), table, level, promise, fitted)
    right = accuracy(counts.tensor) if counts.labelled else np.nan
    return RuleMetrics(name, counts, right, interval, rows, floor)


def row_subset(rows: RowSet, positions: np.ndarray) -> RowSet:
    """Return some of the rows."""
    matrices = {name: getattr(rows, name)[positions] for name in ("combination", "user_rows")}
    arrays = {name: getattr(rows, name)[positions] for name in ("lower", "upper", "source", "is_gap")}
    return replace(rows, **matrices, **arrays, table=rows.table.iloc[positions].reset_index(drop=True))


def _check_size(constraints: Sequence[AnyConstraint], counts: ConfusionCounts) -> None:
    """Refuse more comparisons of pairs than memory would hold."""
    n = 0
    for constraint in constraints:
        if not isinstance(constraint, (Constraint, Ratio)) or constraint.reference != "pairwise":
            continue
        sizes = [len(family) for family in group_families(counts.groups, constraint.attributes)]
        pairs = sum(size * (size - 1) for size in sizes)
        outcomes = outcome_positions(counts.classes, constraint.outcomes)
        n += pairs * len(criterion_events(constraint.criterion, counts.classes, outcomes)) // 2
    if n > MOST_PAIRS:
        raise ValueError(
            f"reference='pairwise': {len(counts.groups)} groups make {n:,} comparisons, which are more than "
            f"{MOST_PAIRS:,}; compare with everybody (reference='overall'), or name fewer outcomes."
        )


def normalise_rows(h: np.ndarray) -> np.ndarray:
    """Return probabilities whose rows sum to one exactly, as far as rounding allows."""
    return np.asarray(h / h.sum(axis=1, keepdims=True))
