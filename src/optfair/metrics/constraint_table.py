"""Measure every kind of constraint on labelled data: lower_k ≤ D_k ≤ upper_k, one line per row of D.

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

from optfair.constraints import AnyConstraint, Rows, as_constraints, compile_rows
from optfair.constraints.rows import ROUNDING
from optfair.errors import warn_empty
from optfair.metrics.counts import ConfusionCounts
from optfair.metrics.gaps import check_labelled, gap_table
from optfair.metrics.influence import as_rates, rate_limits
from optfair.metrics.intervals import check_replicates, margins


def constraint_table(
    confusion: ConfusionCounts,
    constraints: str | AnyConstraint | Iterable[str | AnyConstraint],
    *,
    level: float = 0.95,
    n_replicates: int = 1000,
    random_state: Any = 0,
) -> pd.DataFrame:
    """Measure constraints of every kind on labelled data, with simultaneous intervals.

    The rows of the data are taken to be independent, and the rule not to be fitted on them.

    Parameters
    ----------
    confusion : GroupConfusion
        From `group_confusion`.
    constraints : str, Constraint, Ratio, MinimumRate, Rows, or list of these
        What is asked for; D of Rows has the order of ``confusion.groups`` and ``confusion.classes``.
    level : float, default 0.95
        Probability that all intervals hold at once.
    n_replicates : int, default 1000
        Replicates that the quantiles rest on.
    random_state : int or Generator, default 0
        Seed of the replicates.

    Returns
    -------
    pandas.DataFrame
        One line per row of D: criterion, group, against, given, outcome; value, what the rule does here; lower and
        upper, what was asked for; n, people behind the smallest rate of the row (of Rows, those in the cells it speaks
        of); se, standard error of the value, far too small where a few people were all hits or none was; excess, how
        far the value is outside; low and high, the interval of the value in the population, which allows for few
        people. A row is surely kept if [low, high] is inside [lower, upper], surely broken if it is outside.

    Examples
    --------
    >>> import numpy as np
    >>> from optfair import Constraint, MinimumRate
    >>> from optfair.metrics import constraint_table, group_confusion
    >>> rng = np.random.default_rng(0)
    >>> y, prediction = rng.integers(0, 3, 900), rng.integers(0, 3, 900)
    >>> confusion = group_confusion(y, prediction, sensitive_features=rng.choice(["A", "B"], 900))
    >>> table = constraint_table(confusion, [Constraint("dp", 0.1), MinimumRate("recall", 0.2)])
    >>> len(table), int((table["excess"] > 0).sum())
    (12, 0)
    """
    constraints = as_constraints(constraints)
    table, dropped = measure_constraints(confusion, constraints, level, n_replicates, random_state)
    warn_empty(dropped)
    return table


def measure_constraints(
    counts: ConfusionCounts,
    constraints: list[AnyConstraint],
    level: float = 0.95,
    n_replicates: int = 1000,
    random_state: Any = 0,
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return the table of `constraint_table`, and the names of the rows whose cells are empty."""
    check_replicates(level, n_replicates)
    check_labelled(counts, constraints)
    compiled = compile_rows(constraints, counts.groups, counts.classes, counts.prior)
    rows = as_rates(compiled)
    table = gap_table(counts, rows)
    value, n = (table[column].to_numpy() for column in ("value", "n"))
    is_users = np.array([isinstance(constraints[source], Rows) for source in rows.source])
    width = margins(counts, rows, level, n_replicates, random_state).width
    least, most = rate_limits(rows)
    outside = np.maximum(value - rows.upper, rows.lower - value)
    table = rows.table.assign(
        value=value,
        lower=rows.lower,
        upper=rows.upper,
        n=np.where(is_users, _people_in(compiled.user_rows, counts.n_people), n),
        se=table["se"],
        excess=np.where(outside > ROUNDING, outside, 0.0),
        low=np.clip(value - width, least, most),
        high=np.clip(value + width, least, most),
    )
    return table, compiled.dropped


def _people_in(user_rows: sparse.csr_array, n_people: np.ndarray) -> np.ndarray:
    """Return the people in the cells (a, i) where a row has an entry, (K,).   user_rows: (K, A·m·m)"""
    m = n_people.shape[1]
    cells = sparse.kron(sparse.eye_array(n_people.size), np.ones((m, 1)))
    return ((abs(user_rows) @ cells) > 0) @ n_people.ravel()
