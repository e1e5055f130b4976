"""Every kind of constraint on labelled data: lower_k ≤ D_k ≤ upper_k, one line per row of D.

    gap        rate_a − rate_b                  ratio    rate_a − minimum · rate_b  (≥ 0)
    minimum    rate_a                           Rows     E·vec(J), a rate among everybody

All of them are combinations of rates, so the influence functions and the replicates of `intervals` serve them all,
and one t makes their intervals simultaneous: D̂_k ± t s_k, whatever the mixture of constraints. s_k is the larger
standard error, at the observed rates or at the null whose rates the row speaks of; for Rows, which have no null, the
one at the observed rates. The numbers in D of Rows are taken as constants, also where they were estimated.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from optfair.constraints import Rows, RowSet, as_constraints, compile_rows
from optfair.constraints.criteria import AnyConstraint
from optfair.constraints.rows import ROUNDING
from optfair.errors import warn_empty
from optfair.metrics.confusion import GroupConfusion
from optfair.metrics.gaps import gap_table
from optfair.metrics.influence import as_rates
from optfair.metrics.intervals import check_replicates, margins


def constraint_table(
    confusion: GroupConfusion,
    constraints: str | AnyConstraint | Iterable[str | AnyConstraint],
    *,
    level: float = 0.95,
    n_replicates: int = 1000,
    random_state: Any = 0,
) -> pd.DataFrame:
    """One line per row of D: criterion, group, against, given, outcome, value, lower, upper, n, se, excess, low, high.

    confusion : from `group_confusion`. constraints : any of Constraint, Ratio, MinimumRate, Rows and names of criteria,
    or a list of them; D of Rows has the order of confusion.groups and confusion.classes.
    value : what the rule does here. lower, upper : what was asked for. excess : how far value is outside, 0 if inside.
    n : people behind the smallest rate of the row; of Rows, those in the cells it speaks of.
    se : standard error of the value; far too small where a few people were all hits or none was.
    low, high : interval of the value in the population, with probability `level` for all lines at once; it allows for
        such few people. A row is surely kept if [low, high] is inside [lower, upper], surely broken if it is outside.

    The rows are taken to be independent, and the rule not to be fitted on them.
    """
    check_replicates(level, n_replicates)
    asked = as_constraints(constraints)
    compiled = _compiled(confusion, asked)
    rows = as_rates(compiled)
    table = gap_table(confusion, rows)
    value, n = (table[column].to_numpy() for column in ("value", "n"))
    own = np.array([isinstance(asked[source], Rows) for source in rows.source])
    width = margins(confusion, rows, level, n_replicates, random_state).width
    least, most = _limits(rows)
    outside = np.maximum(value - rows.upper, rows.lower - value)
    return rows.table.assign(
        value=value,
        lower=rows.lower,
        upper=rows.upper,
        n=np.where(own, _people_in(compiled.own, confusion.n_people), n),
        se=table["se"],
        excess=np.where(outside > ROUNDING, outside, 0.0),
        low=np.clip(value - width, least, most),
        high=np.clip(value + width, least, most),
    )


def _compiled(confusion: GroupConfusion, asked: list[AnyConstraint]) -> RowSet:
    rows = compile_rows(asked, confusion.groups, confusion.classes, confusion.prior)
    warn_empty(rows.dropped)
    return rows


def _people_in(own: sparse.csr_array, n_people: np.ndarray) -> np.ndarray:
    """The people in the cells (a, i) where a row has an entry, (K,).   own: (K, A·m·m)"""
    m = n_people.shape[1]
    cells = sparse.kron(sparse.eye_array(n_people.size), np.ones((m, 1)))
    return ((abs(own) @ cells) > 0) @ n_people.ravel()


def _limits(rows: RowSet) -> tuple[np.ndarray, np.ndarray]:
    """What no rule can be below or above: a rate is a mean of the entries of its row of hits."""
    bottom, top = (getattr(rows.hits, side)(axis=1).toarray().ravel() for side in ("min", "max"))
    positive, negative = rows.combination.maximum(0), rows.combination.minimum(0)
    return positive @ bottom + negative @ top, positive @ top + negative @ bottom
