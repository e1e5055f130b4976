"""Find how small and how large each row can be while the groups of some people are unknown.

A rate is hits / (hits + misses). It is highest where all unknown hits that may be of its set of groups are, and no
unknown miss; lowest the other way round. With c_r the coefficient of a rate in a row,

    most_k = Σ_r c_r⁺ highest_r − c_r⁻ lowest_r,      least_k alike.

The rate of everybody does not depend on groups. Two groups, and the two rates of mean equalized odds, take different
people, so that one assignment attains all of these at once: whatever the unknown groups are (Γ = ∞), most and least are
sharp. For 1 < Γ < ∞ they are where a group is compared with everybody or there are two groups; else, as for predictions
that are probabilities, whose hits and misses are assigned apart, they are bounds that need not be attained.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from optfair.constraints import RowSet
from optfair.metrics.assignments import Assignment, Assignments
from optfair.metrics.counts import ConfusionCounts
from optfair.metrics.group_sets import GroupSets


@dataclass(frozen=True, eq=False)
class RateSide:
    """R rates, each as high or as low as its own assignment makes it.

    hits, misses : (R,) masses. squares : (R,) Σw² of both. of_hits, of_misses : who is assigned to the sets.
    """

    hits: np.ndarray
    misses: np.ndarray
    squares: np.ndarray
    of_hits: Assignment
    of_misses: Assignment

    @cached_property
    def mass(self) -> np.ndarray:
        """Hits and misses, (R,)."""
        return self.hits + self.misses

    @cached_property
    def rates(self) -> np.ndarray:
        """The rates, (R,); 0 where nobody is."""
        return np.divide(self.hits, self.mass, out=np.zeros_like(self.hits), where=self.mass > 0)


@dataclass(frozen=True, eq=False)
class RowExtremes:
    """The rows of kinds that were counted, with the highest and lowest rates behind them.

    least, most : (K,) of the rows.
    """

    kinds: ConfusionCounts
    rows: RowSet
    sets: GroupSets
    highest: RateSide
    lowest: RateSide

    @property
    def least(self) -> np.ndarray:
        """The smallest value of each row, (K,)."""
        return _combine(self.rows.combination, self.lowest.rates, self.highest.rates)

    @property
    def most(self) -> np.ndarray:
        """The largest value of each row, (K,)."""
        return _combine(self.rows.combination, self.highest.rates, self.lowest.rates)

    @property
    def is_estimated(self) -> bool:
        """Whether assignments rest on shares that are estimated."""
        return self.highest.of_hits.is_estimated or self.highest.of_misses.is_estimated


def row_extremes(kinds: ConfusionCounts, rows: RowSet, sets: GroupSets, assignments: Assignments) -> RowExtremes:
    """Return the extremes of rows that combine rates of everybody, of a set of groups, or of two disjoint ones."""
    highest = _side(kinds, sets, assignments.most, assignments.least)
    lowest = _side(kinds, sets, assignments.least, assignments.most)
    return RowExtremes(kinds, rows, sets, highest, lowest)


def _side(kinds: ConfusionCounts, sets: GroupSets, of_hits: Assignment, of_misses: Assignment) -> RateSide:
    squares = kinds.second_moment if kinds.second_moment.ndim == 3 else kinds.second_moment.sum(axis=-1)

    def total(cells: np.ndarray, assignment: Assignment, tensor: np.ndarray) -> np.ndarray:
        return np.einsum("rij,rij->r", cells, assignment.masses(tensor)[sets.index])

    hits, misses = total(sets.hits, of_hits, kinds.tensor), total(sets.misses, of_misses, kinds.tensor)
    return RateSide(
        hits, misses, total(sets.hits, of_hits, squares) + total(sets.misses, of_misses, squares), of_hits, of_misses
    )


def _combine(combination: sparse.csr_array, positive: np.ndarray, negative: np.ndarray) -> np.ndarray:
    """Return Σ_r c_r⁺ positive_r − c_r⁻ negative_r, (K,)."""
    return np.asarray(combination.maximum(0) @ positive + combination.minimum(0) @ negative)
