"""State what is promised to new people: every gap within its tolerance, with a confidence, and what that rests on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from optfair.constraints import AnyConstraint, RowSet, compile_rows
from optfair.constraints.rows import TABLE_COLUMNS, row_name
from optfair.metrics.bounds import row_limits
from optfair.metrics.counts import ConfusionCounts
from optfair.metrics.gaps import check_labelled
from optfair.metrics.influence import as_rates, people_behind
from optfair.metrics.noise import own_noise

PROMISE_NUMBERS = ("value", "se", "lower", "upper", "low", "high", "people", "people_needed")
FEWEST_PEOPLE = 30  # behind a rate: with fewer, no promise about it; simulations had hundreds
FEW_PEOPLE = 100  # behind the binding rate: with fewer, the limit theorem behind a fitted promise is hardly tried
SPARE = 1.25  # a tolerance that leaves the rule some room, by the smallest one that can be promised


@dataclass(frozen=True, eq=False)
class Promise:
    """A statement about the population that the people were drawn from: every row is within its bounds.

    It speaks of the decision that the model takes, in that population. It says nothing of other regions, later years or
    people who were selected in another way.

    Attributes
    ----------
    kept : bool
        Whether every row is within its bounds with probability ``confidence``.
    confidence : float
        Probability of the statement.
    tolerance : float or None
        What is promised, where it is one number for all gaps; the table has the bounds of every row.
    bound : float
        With probability ``confidence`` the largest gap of the population is at most this; NaN without gaps.
    ratio : float
        The largest gap relative to its tolerance, with the same probability; at most 1 if the promise is kept.
    method : {"fitted", "held out"}
        Whether the people were those fitted on (out of fold, bounds tightened by their noise), or others (each row
        tested by itself, intersection–union).
    decision : str
        The way to decide that the promise is about.
    n_people : int
        People it rests on.
    tightening : float
        Standard errors by which the bounds were tightened.
    share : float
        Share of the decisions that are drawn from a constant so that the promise is kept.
    cost : float
        Accuracy that the promise costs, by labels out of fold, beside the rule without it.
    loosened : float
        What all tolerances were multiplied by (``unpromised="loosen"``).
    binding : str
        The row that leaves the least room.
    table : pandas.DataFrame
        One line per row: criterion, group, against, given, outcome; value with labels and its standard error se; lower
        and upper, what is promised; low and high, limits of the value in the population; people behind it, and people
        needed to promise the same with half of the tolerance left to the rule.
    model : classifier or None
        The classifier that the promise is about, where it was chosen among several (``family=True``).

    Examples
    --------
    >>> from optfair import OptFairPost
    >>> from optfair.datasets import make_fair_classification
    >>> data = make_fair_classification(4000, random_state=0)
    >>> model = OptFairPost(tolerance=0.1, confidence=0.95, random_state=0)
    >>> model = model.fit(data.X, data.y, sensitive_features=data.sensitive_features)
    >>> model.promise_.kept, model.promise_.bound <= 0.1
    (True, True)
    """

    kept: bool
    confidence: float
    tolerance: float | None
    bound: float
    ratio: float
    method: str
    decision: str
    n_people: int
    tightening: float
    share: float
    cost: float
    loosened: float
    binding: str
    table: pd.DataFrame = field(repr=False)
    model: Any = field(default=None, repr=False)

    def __str__(self) -> str:
        statement = "every rate is within its bounds"
        if self.tolerance is not None:
            statement = f"every gap is within {self.tolerance:.4g}"
        elif not np.isnan(self.bound):
            statement = "every gap is within its tolerance"
        if self.kept:
            return f"{statement} for new people, confidence {self.confidence:.0%} ({'; '.join(self._grounds())})"
        reach = "" if np.isnan(self.bound) else f": the largest gap may be up to {self.bound:.4f}"
        return (
            f"it cannot be said with confidence {self.confidence:.0%} that {statement} for new people{reach}; binding: "
            f"{self.binding}"
        )

    def _grounds(self) -> list[str]:
        """Return what the promise rests on and costs, in a few words each."""
        if self.method == "held out":
            grounds = [f"{self.n_people:,} people, not fitted on"]
        else:
            grounds = [f"{self.n_people:,} people, all used"]
            if self.tightening > 0:
                grounds.append(f"bounds tightened by {self.tightening:.1f} standard errors")
        if self.share > 0:
            grounds.append(f"{self.share:.0%} of decisions drawn from a constant")
        if self.loosened > 1:
            grounds.append(f"tolerances loosened {self.loosened:.2f} times")
        grounds.append(f"binding: {self.binding}")
        if self.method == "fitted":
            grounds.append(f"costs {self.cost:.4f} of accuracy" if self.cost > 0 else "costs no accuracy")
        return grounds if self.decision in ("hashed", "") else [*grounds, f"decision {self.decision!r}"]


def held_out_promise(
    counts: ConfusionCounts, constraints: Sequence[AnyConstraint], confidence: float, decision: str
) -> Promise:
    """Return what can be said of a rule that was not fitted on the people counted: each row is tested by itself.

    Intersection–union: a wrong promise needs a row that is outside, and that row passes with probability 1 − confidence
    at most, however many others there are.
    """
    check_labelled(counts, constraints)
    rows = compile_rows(constraints, counts.groups, counts.classes, counts.prior)
    if rows.dropped:
        raise ValueError(f"sensitive_features: nobody is in the group and class of {rows.dropped[0]}; nothing follows.")
    rows = as_rates(rows)
    limits = row_limits(counts, rows, confidence)
    size = np.maximum(limits[1], -limits[0])
    inside = bool((limits[0] >= rows.lower).all() and (limits[1] <= rows.upper).all())
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.nan_to_num((size / rows.upper)[rows.is_gap], posinf=np.inf).max(initial=0.0)
    people, quantile = people_behind(rows, counts.n_people), float(stats.norm.ppf(confidence))
    table = promise_table(rows, rows.values(counts.tensor), own_noise(counts, rows).scale, limits, people, quantile)
    return Promise(
        kept=inside,
        confidence=confidence,
        tolerance=single_tolerance(rows),
        bound=float(size[rows.is_gap].max()) if rows.is_gap.any() else float("nan"),
        ratio=float(relative) if inside or relative > 1 else float("inf"),
        method="held out",
        decision=decision,
        n_people=int(counts.n_people.sum()),
        tightening=0.0,
        share=0.0,
        cost=0.0,
        loosened=1.0,
        binding=binding_name(table, binding_row(rows, limits)),
        table=table,
    )


def promise_table(
    rows: RowSet,
    value: np.ndarray,
    se: np.ndarray,
    limits: tuple[np.ndarray, np.ndarray],
    people: np.ndarray,
    quantile: float,
) -> pd.DataFrame:
    """Return the table of a promise.   value, se, people: (K,)   quantile: standard errors that a gap may be off by"""
    room = np.minimum(rows.upper - value, value - rows.lower)
    half = np.where(rows.is_gap, rows.upper / 2, np.maximum(room, 0))
    n_needed = np.ceil(people * np.square(np.divide(quantile * se, half, out=np.full_like(se, np.inf), where=half > 0)))
    numbers = (value, se, rows.lower, rows.upper, *limits, people, n_needed)
    return rows.table.assign(**dict(zip(PROMISE_NUMBERS, numbers, strict=True)))


def single_tolerance(rows: RowSet) -> float | None:
    """Return the tolerance where all rows are gaps and have the same."""
    bounds = np.unique(rows.upper)
    return float(bounds[0]) if rows.is_gap.all() and len(bounds) == 1 else None


def binding_row(rows: RowSet, limits: tuple[np.ndarray, np.ndarray]) -> int:
    """Return the row whose limits leave the least room, as a share of its bound where it has two."""
    low, high = limits
    distance = np.maximum(high - rows.upper, rows.lower - low)
    scale = np.where(rows.is_gap & (rows.upper > 0), rows.upper, 1.0)
    return int(np.argmax(distance / scale))


def binding_name(table: pd.DataFrame, k: int) -> str:
    """Return the name of a row with the people behind it."""
    row = table.iloc[k]
    return f"{row_name(*(row[column] for column in TABLE_COLUMNS))}, {row['people']:,.0f} people"
