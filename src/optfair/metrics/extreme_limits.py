"""Bound the extremes of rows in the population that people of known and unknown group are drawn from.

The assignment that makes a row largest depends on nothing but the kind and cell of a person. In the population it has
rates of its own, which the truth does not exceed, and in the sample the hits among those assigned are binomial given
their number. So the limits of `bounds` hold, for the strata of that assignment: a group at its extreme, and the rest of
everybody, who take what it leaves. With ω the share of the group,

    c p_a + c′ p_all = (c + c′ω) p_a + c′(1 − ω) p_rest.

Where the assignment rests on shares that are estimated, a rate counts as p(1 − p) / variance people, with the variance
of the delta method. There, and where weights differ, no limit is narrower than that of a normal with the standard error
of the row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy import stats

from optfair.metrics.bounds import rate_interval
from optfair.metrics.counts import ConfusionCounts
from optfair.metrics.extremes import RowExtremes
from optfair.metrics.influence import rate_limits

Limits = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class ExtremeStrata:
    """Rows at one extreme as combinations of rates of different people: row, coefficient, rate, people of L terms."""

    row: np.ndarray
    coefficient: np.ndarray
    rate: np.ndarray
    people: np.ndarray

    def margins(self, sign: float, delta: float, n_rows: int) -> np.ndarray:
        """Return how far each row may be above (sign 1) or below (−1) its value, (K,); see `bounds`."""
        low, high = rate_interval(self.rate, self.people, delta)
        arms = np.where(self.coefficient * sign > 0, high - self.rate, self.rate - low)
        return np.sqrt(np.bincount(self.row, (self.coefficient * arms) ** 2, n_rows))


def extreme_limits(extremes: RowExtremes, deltas: Sequence[float]) -> list[Limits]:
    """Return low and high for each δ, (K,): a row is below low_k in the population with probability δ at most.

    And above high_k with the same.
    """
    bottom, top = rate_limits(extremes.rows)
    K, is_normal = len(extremes.rows), extremes.is_estimated or not extremes.kinds.equal_weights
    limits = []
    for sign, value in ((-1.0, extremes.least), (1.0, extremes.most)):
        strata = _strata(extremes, sign)
        se = standard_errors(extremes, sign) if is_normal else np.zeros(K)
        margins = [np.maximum(strata.margins(sign, delta, K), stats.norm.isf(delta) * se) for delta in deltas]
        limits.append([np.clip(value + sign * margin, bottom, top) for margin in margins])
    return list(zip(*limits, strict=True))


# -- strata --------------------------------------------------------------------------------------------------
def _strata(extremes: RowExtremes, sign: float) -> ExtremeStrata:
    """Return the strata of rows at their largest (sign 1) or smallest (−1)."""
    row, rate, coefficient, outer, reference = _terms(extremes)
    is_high, kinds = coefficient * sign > 0, extremes.kinds

    def at_extreme(name: str, index: np.ndarray) -> np.ndarray:
        return np.where(is_high, getattr(extremes.highest, name)[index], getattr(extremes.lowest, name)[index])

    group, total = (
        np.array([at_extreme(name, index) for name in ("hits", "mass", "squares")]) for index in (rate, outer)
    )
    hits, mass, squares = np.concatenate([group, np.maximum(total - group, 0.0)], axis=1)
    share = np.divide(group[1], total[1], out=np.zeros(len(row)), where=reference != 0)
    coefficients = np.concatenate([coefficient + reference * share, reference * (1 - share)])
    p = np.clip(np.divide(hits, mass, out=np.zeros_like(mass), where=mass > 0), 0, 1)
    people = kinds.n_people.sum() * mass
    if not kinds.equal_weights:
        people = np.divide(mass**2, squares, out=np.zeros_like(mass), where=squares > 0)
    if extremes.is_estimated:
        effective = np.where(is_high, *(_effective_people(extremes, side)[rate] for side in (True, False)))
        people[: len(rate)] = np.minimum(people[: len(rate)], effective)
    return ExtremeStrata(np.concatenate([row, row]), coefficients, p, people)


def _terms(extremes: RowExtremes) -> tuple[np.ndarray, ...]:
    """Return row, rate, coefficient of each term, and of the term of everybody beside it its rate and coefficient.

    Where there is none beside it, the rate is its own and the coefficient 0. Terms of everybody that are beside another
    are no terms of their own.
    """
    C, event = extremes.rows.combination.tocoo(), extremes.sets.event
    is_everyone = extremes.sets.is_everyone[extremes.sets.index]
    terms = list(zip(C.row.tolist(), C.col.tolist(), C.data.tolist(), strict=True))
    outer = {(k, event[r]): (r, c) for k, r, c in terms if is_everyone[r]}
    inner = {(k, event[r]) for k, r, _ in terms if not is_everyone[r]}
    entries = [
        (k, r, c, *((r, 0.0) if is_everyone[r] else outer.get((k, event[r]), (r, 0.0))))
        for k, r, c in terms
        if not (is_everyone[r] and (k, event[r]) in inner)
    ]
    return tuple(np.array(column) for column in zip(*entries, strict=True))


def _effective_people(extremes: RowExtremes, is_high: bool) -> np.ndarray:
    """Return of how many people a rate has the error that it has with estimated shares, (R,): p(1 − p) / variance.

    Where all are hits or none is, those of known group.
    """
    side, sets = extremes.highest if is_high else extremes.lowest, extremes.sets
    variances = [_variance(extremes.kinds, _rate_influence(extremes, r, is_high)) for r in range(len(sets.index))]
    spread, variance = side.rates * (1 - side.rates), np.array(variances)
    members = sets.members @ extremes.kinds.n_people[: sets.members.shape[1]]
    people = np.einsum("ri,ri->r", sets.given, members[sets.index]).astype(float)
    return np.divide(spread, variance, out=people, where=(variance > 0) & (spread > 0))


# -- the delta method ----------------------------------------------------------------------------------------
def standard_errors(extremes: RowExtremes, sign: float) -> np.ndarray:
    """Return the standard error of each row at its largest (sign 1) or smallest (−1), (K,)."""
    C, variances = extremes.rows.combination, np.empty(len(extremes.rows))
    for k, (start, end) in enumerate(pairwise(C.indptr)):
        terms = zip(C.indices[start:end], C.data[start:end], strict=True)
        influence = sum(c * _rate_influence(extremes, r, bool(c * sign > 0)) for r, c in terms)
        variances[k] = _variance(extremes.kinds, np.asarray(influence))
    return np.sqrt(variances)


def _rate_influence(extremes: RowExtremes, r: int, is_high: bool) -> np.ndarray:
    """Return by how much a person of kind s in the cell (i, j) moves a rate at its extreme, (S, m, m).

    ((1 − p) 1[hit] − p 1[miss]) dX/dT / mass, with dX/dT of the assignment.
    """
    side, sets = extremes.highest if is_high else extremes.lowest, extremes.sets
    p, g, misses = side.rates[r], sets.index[r], sets.given[r][:, None] & ~sets.hits[r]
    influence = (1 - p) * sets.hits[r] * side.of_hits.gradient[g] - p * misses * side.of_misses.gradient[g]
    return np.asarray(influence / side.mass[r])


def _variance(kinds: ConfusionCounts, influence: np.ndarray) -> float:
    """Return the variance of a sum over people with this influence, (S, m, m)."""
    if kinds.second_moment.ndim == 3:
        return float((influence**2 * kinds.second_moment).sum())
    return max(float(np.einsum("sij,sijl,sil->", influence, kinds.second_moment, influence)), 0.0)
