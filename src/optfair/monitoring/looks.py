"""Look at counts: limits of every constraint row, since every start that is looked at, and what changed.

A row is a combination of rates of different people, D_k = Σ_l c_l p_l (`optfair.metrics.strata`). Limits of its L rates
at level α/L each give those of the row,

    low_k = Σ_l c_l (l_l where c_l > 0, u_l where c_l < 0) ≤ D_k at all times, with probability at least 1 − α.

The rates are those of the people who came, averaged, and the share ω of a group in (1 − ω)(p_a − p_rest) is their
share, so that the limits are exactly those of the gap among them. In a population ω is an estimate, an error of second
order: the gap times the error of a share.

*Flagged*, some row is outside its bounds: with K rows, and starts s = 1, 2, ... from which people are counted, each
side of a row has α = δ / (2 K s (s + 1)), together δ. *Certified*, all rows are inside: intersection and union, each
side of each row has the whole of δ, counted from the first start, because the row that is farthest outside in truth,
and its side, are not random. Where rates drift it may be another row at another time: then δ is that of each single
certificate, while flags and changes keep theirs for all looks. A flag needs limits wider than those of a certificate:
of one start never both are said, and a flag of any start takes the certificate away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from optfair.constraints import RowSet, compile_rows
from optfair.constraints.criteria import labelled_criterion
from optfair.constraints.rows import object_frame
from optfair.metrics.strata import split_strata
from optfair.monitoring.sequences import rate_limits
from optfair.monitoring.state import Period, State, Totals, Watched, add_periods

NOBODY = 1e-9  # people in an empty cell, so that shares of it exist; its rates have the limits 0 and 1
EXCEEDS, WITHIN, OPEN = "exceeds", "within", "open"
CHANGE_COLUMNS = ("kind", "group", "outcome")


def needs_labels(constraint: Watched) -> bool:
    """Tell whether a constraint speaks of true classes."""
    return labelled_criterion([constraint]) is not None


def latest_starts(n_periods: int) -> list[int]:
    """Return the starts that a look is taken from, 0-based: all periods, and the last 1, 2, 4, ... of them.

    So a change is looked at from a start no further back than twice the periods since.

    >>> latest_starts(10)
    [0, 2, 6, 8, 9]
    """
    lengths = {2**k for k in range(n_periods.bit_length()) if 2**k < n_periods}
    return sorted({0} | {n_periods - length for length in lengths})


def start_share(start: int) -> float:
    """Return the share of δ of a start, 0-based; those of all starts sum to one."""
    return 1.0 / ((start + 1) * (start + 2))


# -- gaps --------------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Question:
    """The rows of constraints that are answered by the same counts: by answers alone, or by true classes too."""

    rows: RowSet
    labelled: bool

    def counts(self, totals: Totals) -> tuple[np.ndarray, np.ndarray]:
        """Return hits (A, m, m) and people (A, m); without true classes everybody is under the first."""
        if self.labelled:
            return totals.confusion, totals.cells
        confusion, cells = np.zeros_like(totals.confusion), np.zeros_like(totals.cells)
        confusion[:, 0], cells[:, 0] = totals.answers, totals.people
        return confusion, cells

    def limits(self, totals: Totals, alpha: float) -> tuple[np.ndarray, np.ndarray]:
        """Return low_k and high_k, (K,), each missed at some time with probability at most α."""
        confusion, cells = self.counts(totals)
        strata = split_strata(self.rows, cells + NOBODY)
        C = strata.combination
        sizes = np.diff(C.indptr)
        L = np.ones(C.shape[1])  # of the row with most rates in which a rate is
        np.maximum.at(L, C.indices, np.repeat(sizes, sizes))
        low, high = rate_limits(strata.hits @ confusion.ravel(), strata.conditions @ cells.ravel(), alpha / L)
        positive, negative = C.maximum(0), C.minimum(0)
        return positive @ low + negative @ high, positive @ high + negative @ low

    def values(self, totals: Totals) -> tuple[np.ndarray, np.ndarray]:
        """Return the values and the fewest people behind a rate of each row, (K,); NaN where there is nobody."""
        confusion, cells = self.counts(totals)
        C, n = self.rows.combination, self.rows.conditions @ cells.ravel()
        people = np.minimum.reduceat(n[C.indices], C.indptr[:-1])
        return np.where(people > 0, self.rows.values(confusion), np.nan), people

    def outside(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Return how far the limits of each row are outside its bounds, (K,); negative where they reach inside."""
        return np.maximum(low - self.rows.upper, self.rows.lower - high)

    def inside(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Tell of each row whether its limits are inside its bounds, (K,)."""
        return (low >= self.rows.lower) & (high <= self.rows.upper)


def make_questions(state: State) -> list[Question]:
    """Return the rows of the constraints; all of them, also those of cells where nobody is yet."""
    groups, classes = state.groups, state.classes
    assert groups is not None and classes is not None, "names are known from the first period on"
    parts = [(flag, [c for c in state.constraints if needs_labels(c) == flag]) for flag in (False, True)]
    everywhere = np.full((len(groups), len(classes)), 1 / (len(groups) * len(classes)))
    return [Question(compile_rows(part, groups, classes, everywhere), flag) for flag, part in parts if part]


def gap_table(state: State, since: int | None = None) -> pd.DataFrame:
    """Return a line per row, of the start from which it is farthest outside, or else of the first one.

    since : the only start, 0-based, counted from ``state.start``; it may be chosen after looking, so that its
    certificate has its share of δ only. Columns: the names of the row, lower, upper (its bounds), since, value, people,
    low, high (for flags), surely_from, surely_to (for the certificate, from the first start), verdict.
    """
    periods, delta = state.periods[state.start :], 1 - state.confidence
    starts = latest_starts(len(periods)) if since is None else [since]
    first, certified_delta = starts[0], delta * (1.0 if since is None else start_share(since))
    questions = make_questions(state)
    n_rows = sum(len(question.rows) for question in questions)
    windows = {s: add_periods(periods[s:], *_shape(state)) for s in starts}
    tables = []
    for question in questions:
        surely = question.limits(windows[first], certified_delta)
        inside = question.inside(*surely)
        origin = np.full(len(question.rows), first)
        numbers = np.full((4, len(question.rows)), -np.inf)  # value, people, low, high
        margin = numbers[0].copy()
        for s in starts:
            limits = question.limits(windows[s], delta * start_share(s) / (2 * n_rows))
            outside = question.outside(*limits)
            better = np.ones(len(margin), bool) if s == first else (outside > 0) & (outside > margin)
            numbers[:, better] = np.array([*question.values(windows[s]), *limits])[:, better]
            margin, origin = np.where(better, outside, margin), np.where(better, s, origin)
        inside &= question.values(windows[first])[1] > 0  # of nobody nothing is certain, however wide the bounds
        verdict = np.select([margin > 0, inside], [EXCEEDS, WITHIN], OPEN)
        names = [period.name for period in periods]
        tables.append(
            question.rows.table.assign(
                lower=question.rows.lower,
                upper=question.rows.upper,
                since=[names[s] for s in origin],
                value=numbers[0],
                people=numbers[1].astype(int),
                low=numbers[2],
                high=numbers[3],
                surely_from=surely[0],
                surely_to=surely[1],
                verdict=verdict,
            )
        )
    return pd.concat(tables, ignore_index=True)


def _shape(state: State) -> tuple[int, int]:
    assert state.groups is not None and state.classes is not None, "names are known from the first period on"
    return len(state.groups), len(state.classes)


# -- changes -----------------------------------------------------------------------------------------------
def change_table(state: State, reference: Sequence[Period], later: Sequence[Period]) -> pd.DataFrame:
    """Return what changed: shares and rates of the reference and of later people, with limits of both.

    Each side of each of Q numbers has δ/4Q in the reference, and δ / (4 Q s (s + 1)) later, from start s; together δ.
    A number has changed where its limits are disjoint. The line is of the start at which they are farthest apart.
    """
    A, m = _shape(state)
    old = _shares(state, add_periods(reference, A, m))
    starts = latest_starts(len(later)) if later else []
    windows = {s: _shares(state, add_periods(later[s:], A, m)) for s in starts}
    common = (old.people > 0) & (windows[0].people > 0) if starts else np.zeros(len(old.people), bool)
    alpha = (1 - state.confidence) / (4 * len(old.people))
    low, high = rate_limits(old.hits, old.people, alpha)
    origin, margin = np.zeros(len(common), dtype=int), np.full(len(common), -np.inf)
    value, limits = np.full(len(common), np.nan), np.full((2, len(common)), np.nan)
    for s in starts:
        shares = windows[s]
        new = np.array(rate_limits(shares.hits, shares.people, alpha * start_share(s)))
        distance = np.maximum(new[0] - high, low - new[1])
        better = (distance > margin) & (s == 0 or distance > 0)
        value[better], limits[:, better] = shares.values[better], new[:, better]
        margin, origin = np.where(better, distance, margin), np.where(better, s, origin)
    names = [period.name for period in later] or [""]
    table = old.names.assign(
        since=[names[s] for s in origin],
        reference=old.values,
        reference_low=low,
        reference_high=high,
        value=value,
        low=limits[0],
        high=limits[1],
        changed=margin > 0,
    )
    return table[common].reset_index(drop=True)


@dataclass(frozen=True, eq=False)
class _Shares:
    """Named shares: hits of so many people, (Q,) each."""

    names: pd.DataFrame
    hits: np.ndarray
    people: np.ndarray

    @property
    def values(self) -> np.ndarray:
        return np.divide(self.hits, self.people, out=np.full(len(self.hits), np.nan), where=self.people > 0)


def _shares(state: State, totals: Totals) -> _Shares:
    """Return who comes, what the model says, and what the rule answers each group."""
    assert state.groups is not None and state.classes is not None, "names are known from the first period on"
    groups, classes, (A, m) = list(state.groups), list(state.classes), _shape(state)
    names = [("who comes", group, None) for group in groups]
    names += [("what the model says", None, name) for name in classes]
    names += [("what the rule does", group, name) for group in groups for name in classes]
    hits = np.concatenate([totals.people, totals.plain, totals.answers.ravel()])
    people = np.concatenate(
        [np.full(A, totals.people.sum()), np.full(m, totals.plain_people), np.repeat(totals.people, m)]
    )
    return _Shares(object_frame(CHANGE_COLUMNS, names), hits, people)
