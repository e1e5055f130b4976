"""Merge cells that D and τ treat alike, which changes no number that the dual knows.

Where W(λ) − U has equal rows in several cells, for every λ, the scores depend on the sum of their z alone:

    β = Z W(λ) + offset = F V(λ) + (Z U + offset),    F = Z G  (n, q),    V(λ) = −reshape(D_Fᵀ λ)  (q, m)

G (p, q) adds up the cells of a class of equal ones. For demographic parity F is P(A | X), and a row has A + m numbers
instead of A·m; τ(x) and D(h) are sums over F too, because the temperatures of merged cells are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from optfair.dual.measure import Block, Measure, RowValues
from optfair.dual.posterior import Posterior
from optfair.dual.problem import DualProblem

WORTHWHILE = 0.75  # merged rows are shorter than this share of the rows they stand for
# Merged measures by merge and number of the measure, with the measure itself: its number is then not given to another.
MergeStore = dict[tuple[bytes, int], tuple[Measure, Measure]]
UNMERGED_SHARE = 4  # blocks of rows that are merged as they are read may be so many times the size of others


@dataclass(frozen=True, eq=False)
class Merge:
    """Classes of equal cells: cells in the ``order`` of their classes, (p,), and where each class starts, (q,).

    utility : U, (p, m), which goes into the offset; None where it is zero.
    """

    order: np.ndarray
    starts: np.ndarray
    utility: np.ndarray | None

    @property
    def is_worthwhile(self) -> bool:
        """Whether rows become shorter by enough to pay for merging them."""
        n_classes = 0 if self.utility is None else self.utility.shape[1]
        return len(self.starts) + n_classes <= WORTHWHILE * len(self.order)

    @property
    def key(self) -> bytes:
        """What tells merges apart, for a measure that is merged once."""
        parts = [self.order, self.starts] + ([] if self.utility is None else [self.utility])
        return b"".join(part.tobytes() for part in parts)

    def block(self, block: Block) -> Block:
        """Return F and Z U + offset of some rows."""
        p, q = len(self.order), len(self.starts)
        if np.array_equal(self.order, np.arange(p)) and np.array_equal(self.starts * q, np.arange(q) * p):
            size = p // q  # neighbours, and as many in each class: as for demographic parity
            F = (block.Z.reshape(-1, size) @ np.ones(size, block.Z.dtype)).reshape(-1, q)
        else:
            F = np.add.reduceat(block.Z[:, self.order], self.starts, axis=1)
        return replace(block, Z=F, offset=self.offset(block))

    def offset(self, block: Block) -> np.ndarray | None:
        """Return Z U + offset of some rows, (k, m)."""
        if self.utility is None:
            return block.offset
        gains = block.Z @ self.utility.astype(block.Z.dtype)
        return gains if block.offset is None else gains + block.offset

    def matrix(self, matrix: sparse.csr_array, n_outcomes: int) -> sparse.csr_array:
        """Return the columns of a matrix (·, p·m), such as D, that belong to the first cell of each class, (·, q·m)."""
        first = self.order[self.starts]
        columns = (first[:, None] * n_outcomes + np.arange(n_outcomes)).ravel()
        return sparse.csr_array(sparse.csc_array(matrix)[:, columns])

    def posterior(self, posterior: Posterior) -> Posterior:
        """Return the merged rows of a measure in memory."""
        n, q, m = posterior.n, len(self.starts), posterior.n_classes
        F = np.empty((n, q, 1), dtype=posterior.dtype)
        has_offset = self.utility is not None or posterior.offset is not None
        offset = np.empty((n, m), dtype=posterior.dtype) if has_offset else None

        def fill(block: Block) -> tuple[int]:
            merged, rows = self.block(block), slice(block.start, block.start + len(block.Z))
            F[rows, :, 0] = merged.Z
            if offset is not None:
                offset[rows] = merged.offset
            return (0,)

        posterior.sum_blocks(fill)
        return replace(posterior, Z=F, offset=offset, prior=self.prior(posterior))

    def prior(self, measure: Measure) -> np.ndarray:
        """Return the mean of F, (q, 1)."""
        return np.add.reduceat(measure.prior.ravel()[self.order], self.starts)[:, None]


class MergedMeasure:
    """A measure whose rows are kept elsewhere, merged block by block whenever they are read; see `Measure`."""

    def __init__(self, measure: Measure, merge: Merge) -> None:
        self.measure, self.merge = measure, merge
        self.n, self.n_cells, self.n_classes = measure.n, len(merge.starts), measure.n_classes
        self.prior, self.groups, self.classes = merge.prior(measure), measure.groups, measure.classes
        self.dtype, self.value_noise = measure.dtype, measure.value_noise
        self.has_offset = merge.utility is not None or measure.has_offset

    def sum_blocks(
        self, function: Callable[[Block], tuple[Any, ...]], width: int | None = None, *, keep: bool = False
    ) -> tuple[Any, ...]:
        """Return Σ over merged blocks of each entry of ``function(block)``; see `Measure.sum_blocks`."""
        width = max(self.n_cells if width is None else width, self.measure.n_cells // UNMERGED_SHARE)
        merge = self.merge  # not the measure: the function may be sent to other machines
        return self.measure.sum_blocks(lambda block: function(merge.block(block)), width, keep=keep)

    def draw(
        self,
        size: int,
        mass: Callable[[Block], np.ndarray] | None = None,
        rng: np.random.Generator | None = None,
        row_values: RowValues | None = None,
        scale: float = 1.0,
    ) -> Posterior:
        """Sample about ``size`` rows, and merge these; see `Measure.draw`."""
        merge = self.merge
        merged_mass = None if mass is None else lambda block: mass(merge.block(block))
        return self.merge.posterior(self.measure.draw(size, merged_mass, rng, row_values, scale))

    def with_sample(self, seed: int) -> tuple[Measure, Posterior]:
        """Return (the merged measure with its leverage, a merged sample); see `Measure.with_sample`."""
        measure, sample = self.measure.with_sample(seed)
        return MergedMeasure(measure, self.merge), self.merge.posterior(sample)

    def without_offset(self) -> Measure:
        """Return the same rows with nothing added to their scores."""
        return MergedMeasure(self.measure.without_offset(), replace(self.merge, utility=None))


def find_merge(problems: Sequence[DualProblem], factors: np.ndarray) -> Merge:
    """Return the classes of cells that D of all problems and the factors of τ, (p,), treat alike."""
    utility = problems[0].utility
    p, m = utility.shape
    marks = [factor.tobytes() for factor in factors]
    for problem in problems:
        D = sparse.csc_array(problem.matrix)
        D.sort_indices()
        for cell in range(p):
            pointer = D.indptr[cell * m : (cell + 1) * m + 1]
            entries = slice(pointer[0], pointer[-1])
            parts = (pointer - pointer[0], D.indices[entries], D.data[entries])
            marks[cell] += b"".join(part.tobytes() for part in parts)
    classes: dict[bytes, int] = {}
    label = np.array([classes.setdefault(mark, len(classes)) for mark in marks])
    order = np.argsort(label, kind="stable")
    starts = np.searchsorted(label[order], np.arange(len(classes)))
    return Merge(order, starts, utility if utility.any() else None)


def merge_problems(
    problems: Sequence[DualProblem], factors: np.ndarray, store: MergeStore
) -> tuple[list[DualProblem], np.ndarray]:
    """Return the problems and the factors of τ with equal cells merged, or as they are where that does not pay.

    store : merged measures, which is added to: neighbouring problems then share their rows.
    """
    merge = find_merge(problems, factors)
    if not merge.is_worthwhile:
        return list(problems), factors
    key, out = merge.key, []
    for problem in problems:
        measure, m = problem.posterior, problem.utility.shape[1]
        place = key, id(measure)
        if place not in store:
            merged: Measure = MergedMeasure(measure, merge)
            if isinstance(measure, Posterior) and not isinstance(measure.Z, np.memmap):  # a map may exceed the memory
                merged = merge.posterior(measure)
            store[place] = measure, merged
        nothing = np.zeros((len(merge.starts), m))
        out.append(DualProblem(store[place][1], merge.matrix(problem.matrix, m), nothing))
    return out, factors[merge.order[merge.starts]]
