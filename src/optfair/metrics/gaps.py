"""Gaps between groups: D_k = rate of a group − rate of the reference, violation = max_k |D_k|.

Priors are the label frequencies of the data itself. Each public function counts the rows once
(`group_confusion`) and asks; its `..._of` twin asks a GroupConfusion.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from optfair.constraints import Constraint, RowSet, as_constraints, compile_rows
from optfair.errors import warn_empty
from optfair.metrics.confusion import GroupConfusion, group_confusion, object_column
from optfair.metrics.influence import people_behind, rate_influence, row_variances

Attributes = str | Sequence[Hashable]


def violation(
    y_true: Any,
    prediction: Any,
    *,
    sensitive_features: Any,
    criterion: Any = "dp",
    reference: str = "overall",
    outcomes: Sequence[Hashable] | None = None,
    attributes: Attributes = "intersections",
    sample_weight: Any = None,
    classes: Iterable[Hashable] | None = None,
) -> float:
    """max_k |D_k|: the largest gap between a group's rate and the reference.

    prediction : n labels, or (n, m) probabilities of a randomised rule (columns in the order of `classes`).
    criterion : "dp", "eop", "eo", "meo", "oae", a long name, a Constraint (tolerance not used), or a list.
    reference : "overall" (group against everybody) or "pairwise" (every two groups).
    outcomes : only these predicted classes; e.g. the favourable one for the usual equal opportunity.
    attributes : with several sensitive columns: "intersections", "marginals", "both" or a list of columns.
    """
    confusion = group_confusion(
        y_true,
        prediction,
        sensitive_features=sensitive_features,
        sample_weight=sample_weight,
        classes=classes,
    )
    return violation_of(confusion, criterion, reference=reference, outcomes=outcomes, attributes=attributes)


def gaps(
    y_true: Any,
    prediction: Any,
    *,
    sensitive_features: Any,
    criterion: Any = "dp",
    reference: str = "overall",
    outcomes: Sequence[Hashable] | None = None,
    attributes: Attributes = "intersections",
    sample_weight: Any = None,
    classes: Iterable[Hashable] | None = None,
) -> pd.DataFrame:
    """One line per row of D: criterion, group, against, given, outcome, value, n, se.

    n : people behind the group's side (the smaller side of a pair). se : standard error of the value; far too small
    where a few people were all hits or none was: `violation_interval` allows for that.
    Arguments: see `violation`.
    """
    confusion = group_confusion(
        y_true,
        prediction,
        sensitive_features=sensitive_features,
        sample_weight=sample_weight,
        classes=classes,
    )
    return gaps_of(confusion, criterion, reference=reference, outcomes=outcomes, attributes=attributes)


def group_rates(
    y_true: Any,
    prediction: Any,
    *,
    sensitive_features: Any,
    sample_weight: Any = None,
    classes: Iterable[Hashable] | None = None,
) -> pd.DataFrame:
    """The rates of each group and of everybody ("overall"): rate, group, given, outcome, value, n.

    rate : "selection" P(Ŷ=j∣a), "conditional" P(Ŷ=j∣a, Y=i) or "accuracy" P(Ŷ=Y∣a); given i, outcome j.
    """
    return rates_of(
        group_confusion(
            y_true,
            prediction,
            sensitive_features=sensitive_features,
            sample_weight=sample_weight,
            classes=classes,
        )
    )


def violation_of(confusion: GroupConfusion, criterion: Any = "dp", **question: Any) -> float:
    """`violation` of data that are already counted."""
    rows = gap_rows(confusion, criterion, **question)
    return float(rows.violation(rows.values(confusion.tensor)))


def gaps_of(confusion: GroupConfusion, criterion: Any = "dp", **question: Any) -> pd.DataFrame:
    """`gaps` of data that are already counted."""
    return gap_table(confusion, gap_rows(confusion, criterion, **question))


def gap_table(confusion: GroupConfusion, rows: RowSet) -> pd.DataFrame:
    """The named rows with their value, n and se."""
    influence = rate_influence(rows, confusion.tensor)
    return rows.table.assign(
        value=rows.values(confusion.tensor),
        n=people_behind(rows, confusion.n_people),
        se=np.sqrt(row_variances(rows.combination, influence, confusion.second_moment)),
    )


def rates_of(confusion: GroupConfusion) -> pd.DataFrame:
    """`group_rates` of data that are already counted."""
    J, n = (np.concatenate([x, x.sum(0, keepdims=True)]) for x in (confusion.tensor, confusion.n_people))
    P, share, people = J.sum(2), J.sum((1, 2))[:, None], n.sum(1)[:, None]
    correct = np.einsum("aii->a", J)[:, None, None]
    groups = pd.Index([*confusion.groups, "overall"], dtype=object, tupleize_cols=False)
    classes, blank = confusion.classes, pd.Index([None], dtype=object)
    # (rate, names of given, names of outcome, hits (A+1, given, outcome), mass (A+1, given), people behind)
    rates: list[tuple[str, pd.Index, pd.Index, np.ndarray, np.ndarray, np.ndarray]] = [
        ("selection", blank, classes, J.sum(1, keepdims=True), share, people),
        ("conditional", classes, classes, J, P, n),
        ("accuracy", blank, blank, correct, share, people),
    ]
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
    warn_empty(empty)
    return pd.concat(tables, ignore_index=True)


def gap_rows(
    confusion: GroupConfusion,
    criterion: Any = "dp",
    *,
    reference: str = "overall",
    outcomes: Sequence[Hashable] | None = None,
    attributes: Attributes = "intersections",
) -> RowSet:
    """The rows of D a question stands for; those with an empty cell are dropped and named in one warning."""
    # Defaults count as unsaid, because a Constraint says these things itself.
    asked = as_constraints(
        criterion,
        reference=None if reference == "overall" else reference,
        outcomes=outcomes,
        attributes=None if isinstance(attributes, str) and attributes == "intersections" else attributes,
    )
    for wish in asked:
        if not isinstance(wish, Constraint):
            raise ValueError(
                f"criterion: {type(wish).__name__} is not a gap between groups; ask for "
                "dp, eop, eo, meo, oae or a Constraint (rates are in group_rates)."
            )
    # All groups, whatever their tolerance: this is a measurement.
    every = [replace(wish, tolerance=1.0) for wish in asked if isinstance(wish, Constraint)]
    rows = compile_rows(every, confusion.groups, confusion.classes, confusion.prior)
    warn_empty(rows.dropped)
    return rows
