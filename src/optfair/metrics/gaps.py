"""Measure gaps between groups: D_k = rate of a group − rate of the reference, violation = max_k |D_k|.

Priors are the label frequencies of the data itself. Everything here is computed from `ConfusionCounts`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from optfair.constraints import AnyConstraint, Constraint, RowSet, as_constraints, compile_rows
from optfair.constraints.criteria import labelled_criterion
from optfair.metrics.counts import ConfusionCounts, object_column
from optfair.metrics.influence import people_behind, rate_influence, row_variances

Attributes = str | Sequence[Hashable]


def gap_rows(
    counts: ConfusionCounts,
    criterion: Any = "dp",
    *,
    reference: str | None = None,
    outcomes: Sequence[Hashable] | None = None,
    attributes: Attributes | None = None,
) -> RowSet:
    """Return the rows of D that a question stands for; those with an empty cell are named in ``dropped``."""
    constraints = as_constraints(criterion, reference=reference, outcomes=outcomes, attributes=attributes)
    for constraint in constraints:
        if not isinstance(constraint, Constraint):
            raise ValueError(
                f"criterion: {type(constraint).__name__} is not a gap between groups; ask for "
                "dp, eop, eo, meo, oae or a Constraint (rates are in group_rates)."
            )
    check_labelled(counts, constraints)
    # All groups, whatever their tolerance: this is a measurement.
    gaps = [replace(constraint, tolerance=1.0) for constraint in constraints if isinstance(constraint, Constraint)]
    return compile_rows(gaps, counts.groups, counts.classes, counts.prior)


def check_labelled(counts: ConfusionCounts, constraints: Sequence[AnyConstraint]) -> None:
    """Refuse constraints that speak of true classes where these are unknown."""
    name = None if counts.labelled else labelled_criterion(constraints)
    if name is not None:
        raise ValueError(f"y_true=None: {name!r} speaks of true classes; give them, or ask for 'dp' or its ratio.")


def largest_gap(counts: ConfusionCounts, rows: RowSet) -> float:
    """Return the violation: max_k |D_k|."""
    return float(rows.violation(rows.values(counts.tensor)))


def gap_table(counts: ConfusionCounts, rows: RowSet) -> pd.DataFrame:
    """Return the named rows with their value, n and se."""
    influence = rate_influence(rows, counts.tensor)
    return rows.table.assign(
        value=rows.values(counts.tensor),
        n=people_behind(rows, counts.n_people),
        se=np.sqrt(row_variances(rows.combination, influence, counts.second_moment)),
    )


def rate_table(counts: ConfusionCounts) -> tuple[pd.DataFrame, list[str]]:
    """Return the rates of each group and of everybody, and the names of those whose cell is empty."""
    J, n = (np.concatenate([x, x.sum(0, keepdims=True)]) for x in (counts.tensor, counts.n_people))
    P, share, people = J.sum(2), J.sum((1, 2))[:, None], n.sum(1)[:, None]
    correct = np.einsum("aii->a", J)[:, None, None]
    groups = pd.Index([*counts.groups, "overall"], dtype=object, tupleize_cols=False)
    classes, blank = counts.classes, pd.Index([None], dtype=object)
    # (rate, names of given, names of outcome, hits (A+1, given, outcome), mass (A+1, given), people behind)
    rates: list[tuple[str, pd.Index, pd.Index, np.ndarray, np.ndarray, np.ndarray]] = [
        ("selection", blank, classes, J.sum(1, keepdims=True), share, people),
        ("conditional", classes, classes, J, P, n),
        ("accuracy", blank, blank, correct, share, people),
    ]
    rates = rates if counts.labelled else rates[:1]
    tables, empty = [], []
    for rate, given, outcome, hits, mass, behind in rates:
        for a, i in np.argwhere(mass <= 0):
            condition = "" if given is blank else f" given {given.tolist()[i]!r}"
            empty.append(f"{rate} of {groups[a]!r}{condition}")
        a, i, j = (x.ravel() for x in np.indices(hits.shape))
        formed = mass[a, i] > 0
        a, i, j = a[formed], i[formed], j[formed]
        tables.append(
            pd.DataFrame(
                {
                    "rate": rate,
                    "group": object_column(groups, a),
                    "given": object_column(given, i),
                    "outcome": object_column(outcome, j),
                    "value": hits[a, i, j] / mass[a, i],
                    "n": behind[a, i],
                }
            )
        )
    return pd.concat(tables, ignore_index=True), empty
