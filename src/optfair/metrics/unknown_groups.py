"""Measure constraints while the groups of some people are unknown: what is sure, what is likely, what is neither."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from optfair.constraints import AnyConstraint, Rows, RowSet, as_constraints, compile_rows
from optfair.constraints.rows import ROUNDING, object_frame
from optfair.errors import warn_empty
from optfair.metrics.assignments import Assignments, share_out
from optfair.metrics.extreme_limits import extreme_limits
from optfair.metrics.extremes import row_extremes
from optfair.metrics.gaps import Attributes, check_labelled
from optfair.metrics.group_bounds import BEYOND, DEPENDS, FEW, WITHIN, UnknownGroupBounds
from optfair.metrics.group_sets import ANY, GroupSets, find_sets
from optfair.metrics.partial_counts import PartialCounts, count_partial_rows
from optfair.utils.checks import check_number


def unknown_group_bounds(
    y_true: Any,
    prediction: Any,
    *,
    sensitive_features: Any,
    criterion: str | AnyConstraint | Iterable[str | AnyConstraint] = "dp",
    tolerance: float | Mapping[Hashable, float] | None = None,
    reference: str | None = None,
    outcomes: Sequence[Hashable] | None = None,
    attributes: Attributes | None = None,
    refusal: float = np.inf,
    group_probabilities: Any = None,
    level: float = 0.95,
    sample_weight: Any = None,
    classes: Iterable[Hashable] | None = None,
    cluster: Any = None,
) -> UnknownGroupBounds:
    """Bound every gap, ratio and rate while the groups of some people are unknown, whatever these groups are.

    The rate of a group is ``(h + s) / (n + t)``: h hits among its n known people, and s among the t people of unknown
    group who are of it. It is highest with every unknown hit and no unknown miss, lowest the other way round.

    Parameters
    ----------
    y_true : array-like of shape (n,) or None
        True classes; None where they are unknown, which is enough for "dp", its ratio and minimum selection rates.
    prediction : array-like of shape (n,) or (n, n_classes)
        Predicted classes, or probabilities of a randomised rule with columns in the order of ``classes``.
    sensitive_features : array-like of shape (n,) or (n, n_attributes)
        Group of each row, missing (None, NaN, NA) where it is unknown. Of several attributes a row may miss one and
        still tell the others. Unknown groups are among those that occur.
    criterion : str, Constraint, Ratio, MinimumRate, or list of these, default "dp"
        What is compared.
    tolerance : float or mapping from group to float, optional
        Largest gap allowed, 0.01 by default.
    reference : {"overall", "pairwise"}, optional
        Compare each group with everybody (the default), or every two groups with each other.
    outcomes : sequence of class labels, optional
        Predicted classes that the criterion speaks of; all by default.
    attributes : str or sequence of attribute names, optional
        With several sensitive columns: their "intersections" (the default), "marginals", "both", or a list of columns.
    refusal : float, default inf
        How much whether the group is known may depend on the group: for people of the same true class and answer, the
        odds of a group among those of unknown group are at most this factor above or below the likely odds. 1: as is
        likely. inf: whatever the unknown groups are.
    group_probabilities : array-like of shape (n, n_groups), optional
        Probabilities of the groups, in sorted order, such as ``OptFairPost.group_probabilities`` gives them; rows of
        known group are not looked at. By default the shares of the groups among those of known group with the same
        true class and answer.
    level : float, default 0.95
        Confidence of ``low`` and ``high``.
    sample_weight : array-like of shape (n,), optional
        Non-negative weights of the rows.
    classes : sequence of class labels, optional
        Order of the classes; sorted by default.
    cluster : array-like of shape (n,), optional
        The person of each row, where some have several; see `group_confusion`.

    Returns
    -------
    UnknownGroupBounds
        ``print`` it. Its ``table`` has criterion, group, against, given, outcome; value, among people whose group is
        known; inferred, with the others shared out as is likely; least and most, between which it is for these very
        people; lower and upper, what was asked for; n, known people behind the smallest rate of the row; unknown,
        people who may or may not belong to it; low and high: in the population the value is at least low, and at most
        high, with probability ``level`` each; all_low and all_high: the same for all rows at once; state: "within" or
        "beyond" its bounds for sure; "depends", where it is within for some and beyond for other groups of the same
        people; "few", where only chance is in the way; and is_gap. All rows are called within where low and high of
        all are, one alone only if it is with the confidence divided by the number of rows, and so for beyond.

    Notes
    -----
    With ``refusal=inf`` least and most are attained by some groups of these people. With a finite one they are for a
    group against everybody and for two groups, and for labels; else they are bounds that need not be attained. low and
    high then also allow for the error of shares that are estimated; probabilities that are given are taken as right.

    Examples
    --------
    >>> import numpy as np
    >>> from optfair.metrics import unknown_group_bounds
    >>> rng = np.random.default_rng(0)
    >>> group, answer = rng.choice(["A", "B"], 4000), rng.choice(["no", "yes"], 4000)
    >>> group = np.where(rng.random(4000) < 0.05, None, group)
    >>> bounds = unknown_group_bounds(None, answer, sensitive_features=group, tolerance=0.1)
    >>> bounds.state
    'within'
    >>> unknown_group_bounds(None, answer, sensitive_features=group, tolerance=0.03).state
    'depends'
    >>> unknown_group_bounds(None, answer, sensitive_features=group, tolerance=0.03, refusal=1.5).state
    'within'
    """
    constraints = as_constraints(criterion, tolerance, reference, outcomes, attributes)
    counts = count_partial_rows(
        y_true, prediction, sensitive_features, sample_weight, classes, group_probabilities, cluster
    )
    bounds = bound_unknown(counts, constraints, refusal=refusal, level=level)
    warn_empty(bounds.dropped)
    return bounds


def bound_unknown(
    counts: PartialCounts, constraints: Sequence[AnyConstraint], *, refusal: float = np.inf, level: float = 0.95
) -> UnknownGroupBounds:
    """Return the bounds of `unknown_group_bounds` for rows that were counted; ``dropped`` names those left out."""
    check_number("refusal", refusal, "[1, inf]", ", e.g. 2")
    check_number("level", level, "(0, 1)", ", e.g. 0.95")
    if any(isinstance(constraint, Rows) for constraint in constraints):
        raise ValueError("criterion: Rows combine no rates of groups; ask for a Constraint, Ratio or MinimumRate.")
    check_labelled(counts.kinds, constraints)
    A, m = len(counts.groups), len(counts.kinds.classes)
    present = np.flatnonzero(counts.kinds.n_people[:A].sum(axis=1))
    if len(present) == 1 and counts.n_unknown:
        name = counts.groups.tolist()[present[0]]
        raise ValueError(f"sensitive_features: the only group that is known is {name!r}; at least two are needed.")
    prior = counts.kinds.tensor[:A].sum(axis=2)
    rows = compile_rows(constraints, counts.groups, counts.kinds.classes, prior / prior.sum())
    sets = find_sets(rows, counts.attributes[:A], m)
    assignments = share_out(counts, sets, float(refusal))
    table = _measure(counts, rows, sets, assignments, float(level))
    people = counts.n_people, counts.n_unknown
    odds = float(refusal), float(level)
    return UnknownGroupBounds(table, _unknown_table(counts), *people, *odds, rows.dropped, counts.n_strangers)


def _measure(
    counts: PartialCounts, rows: RowSet, sets: GroupSets, assignments: Assignments, level: float
) -> pd.DataFrame:
    """Return the table of `unknown_group_bounds`."""
    extremes = row_extremes(counts.kinds, rows, sets, assignments)
    least, most = extremes.least, extremes.most
    (low, high), simultaneous = extreme_limits(extremes, (1 - level, (1 - level) / (2 * len(rows))))
    likely = assignments.likely.masses(counts.kinds.tensor)
    state = _states(rows, (least, most), (low, high), simultaneous)
    if counts.n_strangers:
        state = np.where(state == WITHIN, DEPENDS, state)
    value, n = _known_values(counts, rows, sets)
    return rows.table.assign(
        value=value,
        inferred=rows.combination @ _rates(sets, likely),
        least=least,
        most=most,
        lower=rows.lower,
        upper=rows.upper,
        n=n,
        unknown=_unknown_people(counts, rows, sets),
        low=low,
        high=high,
        all_low=simultaneous[0],
        all_high=simultaneous[1],
        state=state,
        is_gap=rows.is_gap,
    )


def _states(
    rows: RowSet,
    extremes: tuple[np.ndarray, np.ndarray],
    single: tuple[np.ndarray, np.ndarray],
    simultaneous: tuple[np.ndarray, np.ndarray],
) -> np.ndarray:
    """Return the state of each row. single, simultaneous : limits of a row by itself, and of all rows together.

    All rows are within where all are by their own limits: the one that is furthest outside in the population, if one
    is, passes with probability 1 − level at most.
    """

    def inside(low: np.ndarray, high: np.ndarray) -> np.ndarray:
        return np.asarray((low >= rows.lower - ROUNDING) & (high <= rows.upper + ROUNDING))

    def outside(low: np.ndarray, high: np.ndarray) -> np.ndarray:
        return np.asarray((low > rows.upper + ROUNDING) | (high < rows.lower - ROUNDING))

    within = np.ones(len(rows), dtype=bool) if inside(*single).all() else inside(*simultaneous)
    decided = inside(*extremes) | outside(*extremes)
    return np.select([outside(*simultaneous), within, decided], [BEYOND, WITHIN, FEW], DEPENDS)


def _rates(sets: GroupSets, masses: np.ndarray) -> np.ndarray:
    """Return the R rates of masses by set, true class and answer, (G, m, m)."""
    hits, misses = (np.einsum("rij,rij->r", cells, masses[sets.index]) for cells in (sets.hits, sets.misses))
    return np.divide(hits, hits + misses, out=np.zeros_like(hits), where=hits + misses > 0)


def _known_values(counts: PartialCounts, rows: RowSet, sets: GroupSets) -> tuple[np.ndarray, np.ndarray]:
    """Return the value of each row, and the people behind its smallest rate, among those of known group, (K,) each.

    Known are those with all attributes that the row asks for: of a row about one attribute, whoever told that one.
    """
    C, asks = rows.combination, sets.values != ANY
    per_row = np.array([asks[sets.index[C.indices[a:b]]].any(axis=0) for a, b in pairwise(C.indptr)])
    value, n = np.empty(len(rows)), np.empty(len(rows), dtype=int)
    sure = sets.sure(counts.attributes).astype(float)
    for attributes in np.unique(per_row, axis=0):
        index = np.flatnonzero((per_row == attributes).all(axis=1))
        members = sure * (counts.attributes[:, attributes] >= 0).all(axis=1)
        part = C[index]
        value[index] = part @ _rates(sets, np.einsum("gs,sij->gij", members, counts.kinds.tensor))
        people = np.einsum("ri,ri->r", sets.given, (members @ counts.kinds.n_people)[sets.index])
        n[index] = np.minimum.reduceat(people[part.indices], part.indptr[:-1]).astype(int)
    return value, n


def _unknown_people(counts: PartialCounts, rows: RowSet, sets: GroupSets) -> np.ndarray:
    """Return how many people may or may not be in the groups of each row, (K,)."""
    doubtful = sets.possible(counts.attributes) & ~sets.sure(counts.attributes)
    cells = doubtful[sets.index][:, :, None] & sets.given[:, None, :]
    concerned = (abs(rows.combination) @ cells.reshape(len(cells), -1).astype(float)) > 0
    return np.asarray(concerned @ counts.kinds.n_people.ravel())


def _unknown_table(counts: PartialCounts) -> pd.DataFrame:
    """Return given, outcome, n of the people of unknown group; without true classes given is empty."""
    names, labelled = counts.kinds.classes.tolist(), counts.kinds.labelled
    cells = [(i, j) for i in range(len(names) if labelled else 1) for j in range(len(names))]
    frame = object_frame(("given", "outcome"), [(names[i] if labelled else None, names[j]) for i, j in cells])
    return frame.assign(n=[float(counts.unknown[cell]) for cell in cells])
