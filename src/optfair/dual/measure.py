"""State what the solver asks of rows, wherever they are kept.

A *measure* is rows of Z (n, A, m) with weights of mean one. Whatever runs over all rows goes through two verbs:
`Measure.sum_blocks` maps blocks of rows to small arrays and adds them up, `Measure.draw` samples rows into memory.
Numbers of each row stay with the rows: the first verb makes them, the second reads them, and everybody else holds only
a `RowValues` that stands for them. `optfair.dual.posterior` has the measure of arrays and memory maps,
`optfair.storage.measure` that of rows in files, which clusters may read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from optfair.dual.posterior import Posterior


@dataclass(frozen=True, eq=False)
class RowValues:
    """One number per row, kept with the rows by `Measure.sum_blocks` for `Measure.draw`.

    numbers : as the measure keeps them, which nobody else looks at; an array (n,) float32 in memory. mean : of them.
    """

    numbers: Any
    mean: float


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows of a measure, as the kernel takes them.

    Z : (k, p), contiguous floats. weight : (k,), or None for ones. offset : (k, m) or None. start : number of the first
    row. leverage : (k,) see `Measure.with_sample`, or None. cell : (k,) the observed cells a·m + y, where labels are
    known, or None. row_values : (k,) kept by an earlier pass, or None.
    """

    Z: np.ndarray
    weight: np.ndarray | None
    offset: np.ndarray | None
    start: int
    leverage: np.ndarray | None = None
    cell: np.ndarray | None = None
    row_values: np.ndarray | None = None

    @property
    def weights(self) -> np.ndarray:
        """The weights as an array, (k,)."""
        return np.ones(len(self.Z)) if self.weight is None else self.weight


class Measure(Protocol):
    """Rows of Z and their weights, seen through two verbs.

    n, n_cells, n_classes : n, p = A·m, m. prior : (A, m), the mean of Z. groups, classes : names. dtype : rows are
    computed with in it. value_noise : rounding of a mean. has_offset : whether utilities are added to the scores.
    """

    @property
    def n(self) -> int: ...
    @property
    def n_cells(self) -> int: ...
    @property
    def n_classes(self) -> int: ...
    @property
    def prior(self) -> np.ndarray: ...
    @property
    def groups(self) -> pd.Index: ...
    @property
    def classes(self) -> pd.Index: ...
    @property
    def dtype(self) -> np.dtype: ...
    @property
    def value_noise(self) -> float: ...
    @property
    def has_offset(self) -> bool: ...

    def sum_blocks(
        self, function: Callable[[Block], tuple[Any, ...]], width: int | None = None, *, keep: bool = False
    ) -> tuple[Any, ...]:
        """Return Σ over blocks of each entry of ``function(block)``, always added in the same order.

        The function closes over small arrays only. width : numbers per row while it is worked on, a hint for the size
        of blocks. keep : the last entry is one number per row, and is kept as `RowValues` instead of being added.
        """

    def draw(
        self,
        size: int,
        mass: Callable[[Block], np.ndarray] | None = None,
        rng: np.random.Generator | None = None,
        row_values: RowValues | None = None,
        scale: float = 1.0,
    ) -> Posterior:
        """Sample about ``size`` rows: evenly spaced, or with probabilities ∝ ``mass(block)``, (k,) ≥ 0.

        rng : of a draw by mass (None: seed 0). row_values : kept by an earlier pass; ``mass`` finds those of its rows
        in ``block.row_values``. A row drawn by its mass weighs ``scale`` times its own weight over the number of times
        it was expected to be drawn; where no more than ``size`` rows have any mass, all of these are taken. The sample
        keeps this measure's prior; `Posterior.with_prior` gives it its own.
        """

    def with_sample(self, seed: int) -> tuple[Measure, Posterior]:
        """Return (this measure with its leverage, the measure of a sample of it); itself twice where rows are few.

        The leverage ℓ(x) = mean over cells of z_c / P_c is large for rows that speak of rare cells.
        """

    def without_offset(self) -> Measure:
        """Return the same rows with nothing added to their scores."""
