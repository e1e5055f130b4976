"""State what is promised to new people: every gap within its tolerance, with a confidence, and what that rests on."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from optfair.constraints import AnyConstraint, MinimumRate, Ratio, RowSet, compile_rows
from optfair.constraints.naming import attribute_names, name_text
from optfair.constraints.rows import TABLE_COLUMNS, row_name
from optfair.metrics.bounds import row_limits
from optfair.metrics.counts import ConfusionCounts
from optfair.metrics.gaps import check_labelled
from optfair.metrics.influence import as_rates
from optfair.metrics.noise import own_noise
from optfair.utils.html import table

EVERYBODY = "overall"  # what tables call everybody
SHOWN = 8  # rows in a notebook, those first that leave the least room
NAMED = 5  # groups in a sentence; of more their number is told
PROMISE_NUMBERS = ("value", "se", "lower", "upper", "low", "high", "people", "people_needed")


@dataclass(frozen=True, eq=False)
class Promise:
    """A statement about the population that the people were drawn from: every row is within its bounds.

    It speaks of the decision that the model takes, in that population. It says nothing of other regions, later years or
    people who were selected in another way.

    Attributes
    ----------
    kept : bool
        Whether every row is within its bounds with probability ``confidence``.
    statement : str
        What is promised, in words.
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
        People it rests on; a person with several rows is one.
    tightening : float
        Standard errors by which the bounds were tightened.
    share : float
        Share of the decisions that are drawn from a constant so that the promise is kept.
    cost : float
        Accuracy that the promise costs, by labels out of fold, beside the rule of the same tolerance without it; of a
        model with costs, in their units. It is not the whole price of fairness: a report has that.
    loosened : float
        What all tolerances were multiplied by (``unpromised="loosen"``).
    binding : str
        The row that leaves the least room.
    table : pandas.DataFrame
        One line per row: criterion, group, against, given, outcome; value with labels and its standard error se; lower
        and upper, what is promised; low and high, limits of this value in the population, each with probability
        ``confidence``; people behind it (in effect, where they have weights or several rows), and people needed for a
        gap of half of the tolerance to be promised.
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
    statement: str
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
        if self.kept:
            return f"{self.statement} for new people, confidence {self.confidence:.0%} ({'; '.join(self._grounds())})"
        reach = "" if np.isnan(self.bound) else f": the largest may be up to {self.bound:.4f}"
        return (
            f"it cannot be said with confidence {self.confidence:.0%} that {self.statement} for new people{reach}; the "
            f"tightest: {self.binding}"
        )

    def _repr_html_(self) -> str:
        head = ("row", "people", "value", "from", "to", "allowed")
        rows = self.table
        excess = np.maximum(rows["high"] - rows["upper"], rows["lower"] - rows["low"]).to_numpy(dtype=float)
        lines = []
        for k in np.argsort(-excess, kind="stable").tolist()[:SHOWN]:
            row = rows.iloc[k]
            values = [f"{row[name]:+.4f}" for name in ("value", "low", "high")]
            bounds = f"{row['lower']:g} to {row['upper']:g}"
            lines.append([row_text(rows, k), f"{row['people']:,.0f}", *values, bounds])
        return table("Promise: kept" if self.kept else "Promise: cannot be made", head, lines, str(self))

    def _grounds(self) -> list[str]:
        """Return what the promise rests on and costs, in a few words each."""
        source = "all used" if self.method == "fitted" else "provided that none was fitted on"
        grounds = [f"{self.n_people:,} people, {source}"]
        if self.tightening > 0:
            grounds.append(f"bounds tightened by {self.tightening:.1f} standard errors")
        if self.share > 0:
            grounds.append(f"{self.share:.0%} of decisions drawn from a constant")
        if self.loosened > 1:
            grounds.append(f"tolerances loosened {self.loosened:.2f} times")
        grounds.append(f"the tightest: {self.binding}")
        if self.method == "fitted":
            cost = f"costs {self.cost:.4f} of accuracy" if self.cost > 0 else "costs no accuracy"
            grounds.append(f"{cost} beside the same tolerance without a promise")
        return grounds if self.decision in ("hashed", "") else [*grounds, f"decision {self.decision!r}"]


def held_out_promise(
    counts: ConfusionCounts, constraints: Sequence[AnyConstraint], confidence: float, decision: str
) -> Promise:
    """Return what can be said of a rule that was not fitted on the people counted: each row is tested by itself.

    Intersection–union: a wrong promise needs a row that is outside, and that row passes with probability 1 − confidence
    at most, however many others there are.
    """
    check_labelled(counts, constraints)
    compiled = compile_rows(constraints, counts.groups, counts.classes, counts.prior)
    if compiled.dropped:
        raise ValueError(
            f"sensitive_features: nobody is in the group and class of {compiled.dropped[0]}; nothing can be said of it."
        )
    rows = as_rates(compiled)
    limits = row_limits(counts, rows, confidence)
    size = np.maximum(limits[1], -limits[0])
    inside = bool((limits[0] >= rows.lower).all() and (limits[1] <= rows.upper).all())
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.nan_to_num((size / rows.upper)[rows.is_gap], posinf=np.inf).max(initial=0.0)
    se = own_noise(counts, rows).scale
    table = promise_table(rows, counts, se, limits, float(stats.norm.ppf(confidence)) * se)
    return Promise(
        kept=inside,
        statement=statement(rows, counts.groups),
        confidence=confidence,
        tolerance=single_tolerance(rows),
        bound=float(size[rows.is_gap].max()) if rows.is_gap.any() else float("nan"),
        ratio=float(relative) if inside or relative > 1 else float("inf"),
        method="held out",
        decision=decision,
        n_people=counts.n_persons,
        tightening=0.0,
        share=0.0,
        cost=0.0,
        loosened=1.0,
        binding=binding_name(table, binding_row(rows, limits), attribute_names(counts.groups)),
        table=table,
    )


def promise_table(
    rows: RowSet,
    counts: ConfusionCounts,
    se: np.ndarray,
    limits: tuple[np.ndarray, np.ndarray],
    width: np.ndarray,
) -> pd.DataFrame:
    """Return the table of a promise.   se: (K,)   width: (K,), how far a value may be off with these people"""
    values, people = rows.values(counts.tensor), people_of_rows(rows, counts)
    room = np.where(rows.is_gap, rows.upper / 2, np.minimum(rows.upper - values, values - rows.lower))
    share = np.divide(width, room, out=np.full_like(width, np.inf), where=room > 0)
    numbers = (values, se, rows.lower, rows.upper, *limits, people, np.ceil(people * share**2))
    return rows.table.assign(**dict(zip(PROMISE_NUMBERS, numbers, strict=True)))


def people_of_rows(rows: RowSet, counts: ConfusionCounts) -> np.ndarray:
    """Return the fewest people, in effect, behind any rate of each row, (K,)."""
    per_rate, C = counts.effective_people(rows.conditions), rows.combination
    return np.asarray(np.minimum.reduceat(per_rate[C.indices], C.indptr[:-1]))


def single_tolerance(rows: RowSet) -> float | None:
    """Return the tolerance where all rows are gaps and have the same."""
    bounds = np.unique(rows.upper)
    return float(bounds[0]) if rows.is_gap.all() and len(bounds) == 1 else None


def statement(rows: RowSet, groups: pd.Index) -> str:
    """Say in words that all rows are within their bounds, and of whom that is said."""
    parts, names = [], attribute_names(groups)
    if rows.is_gap.any():
        bounds = np.unique(rows.upper[rows.is_gap])
        tolerance = f"{bounds[0]:.4g}" if len(bounds) == 1 else "its tolerance"
        gaps = rows.table[rows.is_gap]
        bounded = {group for name in ("group", "against") for group in gaps[name] if group not in (None, EVERYBODY)}
        free = [group for group in groups if group not in bounded]
        is_partial = len(free) > 0 and bounded <= set(groups)
        people = ", ".join(label_text(group, names) for group in sorted(bounded, key=str))
        people = f"any of {len(bounded):,} groups" if len(bounded) > NAMED else people
        parts.append(f"every gap{f' of {people}' if is_partial else ''} is within {tolerance}")
    sources = dict.fromkeys(rows.source[~rows.is_gap].tolist())
    return " and ".join([*parts, *dict.fromkeys(_bound_text(rows.constraints[source]) for source in sources)])


def _bound_text(constraint: AnyConstraint) -> str:
    """Say in words that what is no gap is within its bounds."""
    if isinstance(constraint, Ratio):
        other = "any other group" if constraint.reference == "pairwise" else "everybody"
        return f"every rate is at least {constraint.minimum:g} times that of {other}"
    if isinstance(constraint, MinimumRate):
        return f"every {constraint.rate} is at least {constraint.minimum:g}"
    return "every row of the user is within its bounds"


def binding_row(rows: RowSet, limits: tuple[np.ndarray, np.ndarray]) -> int:
    """Return the row whose limits leave the least room, as a share of its bound where it has two."""
    low, high = limits
    distance = np.maximum(high - rows.upper, rows.lower - low)
    scale = np.where(rows.is_gap & (rows.upper > 0), rows.upper, 1.0)
    return int(np.argmax(distance / scale))


def binding_name(table: pd.DataFrame, k: int, attributes: Sequence[Hashable] = ()) -> str:
    """Return the name of a row with the people behind it."""
    return f"{row_text(table, k, attributes)}, {table['people'].iloc[k]:,.0f} people"


def row_text(table: pd.DataFrame, k: int, attributes: Sequence[Hashable] = ()) -> str:
    """Name a row as a reader would: groups of several attributes as 'a × b', those of one of them as 'sex: a'."""
    criterion, group, against, given, outcome = (table[column].iloc[k] for column in TABLE_COLUMNS)
    return row_name(criterion, _plain_name(group, attributes), _plain_name(against, attributes), given, outcome)


def place_text(table: pd.DataFrame, k: int, attributes: Sequence[Hashable] = ()) -> str:
    """Say of which people a row is: group and true class; of a row of the user's own its name."""
    criterion, group, against, given, _ = (table[column].iloc[k] for column in TABLE_COLUMNS)
    if group is None:
        return str(criterion)
    is_pair = against is not None and against != EVERYBODY
    other = f" against {name_text(against, attributes)}" if is_pair else ""
    return f"{name_text(group, attributes)}{other}" + ("" if given is None else f" with true class {given!r}")


def label_text(name: Hashable, attributes: Sequence[Hashable] = ()) -> str:
    """Return the name of a group in quotes, of several attributes as 'a × b'."""
    return repr(_plain_name(name, attributes))


def _plain_name(name: Hashable, attributes: Sequence[Hashable]) -> Hashable:
    """Return the name of a group of several attributes as text; others as they are."""
    return name_text(name, attributes) if isinstance(name, tuple) else name
