"""Write rows as combinations of rates of people who have nothing in common, whose counts are independent.

The reference of a gap is the rate of everybody, the group included. With ω the share of the group in it,

    rate of a − rate of everybody = (1 − ω) (rate of a − rate of the rest),

and a and the rest are different people. So where one rate r of a row is about a part of the people of another, q,

    c_r p_r + c_q p_q = (c_r + c_q ω) p_r + c_q (1 − ω) p_{q∖r},   ω = mass_r / mass_q.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy import sparse

from optfair.constraints import RowSet


@dataclass(frozen=True, eq=False)
class Strata:
    """Rows D_k = Σ_l C_kl p_l of L rates, those of one row among different people.

    combination C (K, L); hits (L, A·m·m) and conditions (L, A·m): p_l = hits_l · vec(J) / (conditions_l · P).
    """

    combination: sparse.csr_array
    hits: sparse.csr_array
    conditions: sparse.csr_array


def split_strata(rows: RowSet, prior: np.ndarray) -> Strata:
    """Return the rows by strata; every row must be a combination of rates (`influence.as_rates`).   prior: (A, m)"""
    C = sparse.csr_array(rows.combination)
    mass = rows.conditions @ prior.ravel()
    terms = [
        dict(zip(C.indices[start:end].tolist(), C.data[start:end].tolist(), strict=True))
        for start, end in zip(C.indptr[:-1], C.indptr[1:], strict=True)
    ]
    inside = _nested_pairs(rows.conditions, terms)
    rest: dict[tuple[int, int], int] = {}  # (outer, inner) rate -> the stratum of those outside the inner one
    entries: list[tuple[int, int, float]] = []
    for k, row in enumerate(terms):
        coefficients = dict(row)
        for inner, outer in ((r, q) for r in row for q in row if (r, q) in inside):
            share, coefficient = mass[inner] / mass[outer], row[outer]
            del coefficients[outer]
            coefficients[inner] += coefficient * share
            place = rest.setdefault((outer, inner), len(mass) + len(rest))
            coefficients[place] = coefficient * (1 - share)
        entries += [(k, stratum, coefficient) for stratum, coefficient in coefficients.items()]
    hits, conditions = (_with_rest(matrix, list(rest)) for matrix in (rows.hits, rows.conditions))
    row_index, stratum, values = zip(*entries, strict=True)
    combination = sparse.coo_array((values, (row_index, stratum)), (len(rows), hits.shape[0]))
    return Strata(sparse.csr_array(combination), hits, conditions)


def _with_rest(matrix: sparse.csr_array, pairs: list[tuple[int, int]]) -> sparse.csr_array:
    """Return the rows of a matrix, and below them outer − inner for each pair."""
    if not pairs:
        return matrix
    outer, inner = (np.array(index) for index in zip(*pairs, strict=True))
    return sparse.csr_array(sparse.vstack([matrix, matrix[outer] - matrix[inner]]))


def _nested_pairs(conditions: sparse.csr_array, terms: list[dict[int, float]]) -> set[tuple[int, int]]:
    """Return the pairs (inner, outer) of rates of one row where the people of one are among those of the other."""
    pairs = sorted({pair for row in terms for pair in combinations(sorted(row), 2)})
    if not pairs:
        return set()
    first, second = (np.array(index) for index in zip(*pairs, strict=True))
    common = conditions[first].multiply(conditions[second]).sum(axis=1)
    size = conditions.sum(axis=1)
    nested = set()
    for r, q, overlap in zip(first, second, common, strict=True):
        if overlap > 0:
            inner, outer = (r, q) if size[r] <= size[q] else (q, r)
            assert overlap == size[inner], "rates of one row are disjoint, or one is about a part of the other's people"
            nested.add((int(inner), int(outer)))
    return nested
