"""Hold the one object everything is linear in: ``Z[x, a, i] = P(A=a, Y=i | X=x)``.

Z : (n, A, m), each row a probability vector over the p = A·m cells. The measure it is averaged with gives the cell
prior ``P[a, i] = Σ_x w_x Z[x, a, i] / Σ_x w_x``, in float64.

This is the `Measure` whose rows are in memory, or in a memory map.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pandas as pd

from optfair.dual.measure import Block, Measure, RowValues
from optfair.dual.settings import SETTINGS
from optfair.inputs.alignment import check_row_labels
from optfair.inputs.labels import check_names, mean_one_weights
from optfair.inputs.training_data import TrainingData
from optfair.inputs.values import check_columns, refuse_gradients
from optfair.utils.checks import ROW_SUM_SLACK
from optfair.utils.parallel import map_blocks
from optfair.utils.sampling import systematic_draw

LARGEST_OFFSET = 1e100  # sums and squares of scores stay finite


@dataclass(frozen=True, eq=False)
class Posterior:
    """A validated measure: rows of Z (an array or a memory map, never copied whole) with weights of mean one.

    Z : (n, A, m), or (n, q, 1) where cells are merged. weight : (n,) float64 of mean 1, or None for equal weights.
    offset : (n, m) utilities added to the scores, or None. prior : (A, m). groups, classes : names. n_jobs : threads.
    leverage : (n,) see `with_sample`, or None. cell : (n,) observed cells a·m + y, where labels are known, or None.
    n, n_cells, n_classes : n, p = A·m, m. dtype : rows are computed with in it. value_noise : rounding of a mean.
    """

    Z: np.ndarray
    weight: np.ndarray | None
    offset: np.ndarray | None
    prior: np.ndarray
    groups: pd.Index
    classes: pd.Index
    n_jobs: int | None
    leverage: np.ndarray | None = None
    cell: np.ndarray | None = None
    n: int = field(init=False)
    n_cells: int = field(init=False)
    n_classes: int = field(init=False)
    dtype: np.dtype = field(init=False)
    value_noise: float = field(init=False)

    def __post_init__(self) -> None:
        n, *cells = self.Z.shape
        dtype = row_dtype(self.Z)
        noise = SETTINGS.value_noise_single if dtype == np.float32 else SETTINGS.value_noise_double
        n_cells, n_classes = int(np.prod(cells)), len(self.classes)
        facts = {"n": n, "n_cells": n_cells, "n_classes": n_classes, "dtype": dtype, "value_noise": noise}
        for name, value in facts.items():
            object.__setattr__(self, name, value)

    # -- the two verbs -------------------------------------------------------------------------------------
    def sum_blocks(
        self, function: Callable[[Block], tuple[Any, ...]], width: int | None = None, *, keep: bool = False
    ) -> tuple[Any, ...]:
        """Return Σ over blocks of each entry of ``function(block)``; see `Measure.sum_blocks`.

        width : float32 numbers per row while it is worked on (p by default), which decides how many rows are a block.
        """
        width = self.n_cells if width is None else width
        parts = map_blocks(lambda rows: function(self.block(rows)), self.n, width, self.n_jobs)
        *columns, last = zip(*parts, strict=True)
        if keep:
            numbers = np.concatenate(last)
            final: Any = RowValues(numbers, numbers.mean())
        else:
            final = reduce(add, last)
        return (*(reduce(add, column) for column in columns), final)

    def draw(
        self,
        size: int,
        mass: Callable[[Block], np.ndarray] | None = None,
        rng: np.random.Generator | None = None,
        row_values: RowValues | None = None,
        scale: float = 1.0,
    ) -> Posterior:
        """Sample about ``size`` rows; see `Measure.draw`."""
        if mass is None:
            return self.take(slice(None, None, max(self.n // size, 1)))
        masses = map_blocks(lambda rows: mass(self.block(rows, row_values)), self.n, self.n_cells, self.n_jobs)
        index, inverse = systematic_draw(np.concatenate(masses), size, rng or np.random.default_rng(0))
        sample = self.take(index)
        weight = np.ones(sample.n) if sample.weight is None else sample.weight
        return replace(sample, weight=(scale * weight) * inverse)

    @property
    def has_offset(self) -> bool:
        """Whether utilities are added to the scores."""
        return self.offset is not None

    def without_offset(self) -> Posterior:
        """Return the same rows with nothing added to their scores."""
        return replace(self, offset=None)

    # -- rows ----------------------------------------------------------------------------------------------
    def block(self, rows: slice, row_values: RowValues | None = None) -> Block:
        """Return consecutive rows; views wherever Z allows it."""
        numbers = None if row_values is None else row_values.numbers
        columns = (self.weight, self.offset, self.leverage, self.cell, numbers)
        weight, offset, leverage, cell, numbers = (None if column is None else column[rows] for column in columns)
        return Block(as_rows(self.Z[rows]), weight, offset, rows.start or 0, leverage, cell, numbers)

    def take(self, rows: slice | np.ndarray) -> Posterior:
        """Return some rows with their weights, and this measure's prior."""
        columns = (self.weight, self.offset, self.leverage, self.cell)
        weight, offset, leverage, cell = (None if column is None else column[rows] for column in columns)
        return replace(self, Z=self.Z[rows], weight=weight, offset=offset, leverage=leverage, cell=cell)

    def normalised(self) -> Posterior:
        """Return these rows as a measure of their own, with weights of mean one; the prior stays."""
        block = self.block(slice(None))
        return replace(self, Z=block.Z.reshape(self.Z.shape), weight=block.weights / block.weights.mean())

    def with_prior(self) -> Posterior:
        """Return the same rows with the prior that they give."""
        (total,) = self.sum_blocks(lambda block: (block.weights @ block.Z.astype(np.float64),))
        return replace(self, prior=(total / self.n).reshape(self.prior.shape))

    def with_sample(self, seed: int) -> tuple[Posterior, Posterior]:
        """Return (this measure with its leverage, the measure of a sample of it); itself twice where rows are few.

        The leverage ℓ(x) = mean over cells of z_c / P_c is large for rows that speak of rare cells.
        """
        if self.n <= SETTINGS.few_rows * SETTINGS.sketch_rows:
            return self, self
        prior = self.prior.ravel()
        inverse = np.divide(1.0, prior, out=np.zeros(self.n_cells), where=prior > 0)
        inverse /= max(np.count_nonzero(inverse), 1)

        def leverage(block: Block) -> tuple[np.ndarray]:
            return ((block.Z @ inverse.astype(block.Z.dtype)).astype(np.float32),)

        def mass(block: Block) -> np.ndarray:
            product = 0.5 + 0.5 * np.asarray(block.leverage)
            return product if block.weight is None else product * block.weight

        (row_values,) = self.sum_blocks(leverage, keep=True)
        posterior = replace(self, leverage=row_values.numbers)
        return posterior, posterior.draw(
            SETTINGS.sketch_rows, mass, np.random.default_rng(seed)
        ).normalised().with_prior()


def row_dtype(Z: np.ndarray) -> np.dtype:
    """Return the dtype that rows of Z are computed in."""
    return np.dtype(np.float32 if Z.dtype.itemsize <= 4 and Z.dtype.kind == "f" else np.float64)


def as_rows(Z: np.ndarray) -> np.ndarray:
    """Return rows of cells as contiguous floats.   (k, A, m) -> (k, A·m)"""
    return np.ascontiguousarray(Z.reshape(len(Z), Z.shape[1] * Z.shape[2]), dtype=row_dtype(Z))


# -- validation --------------------------------------------------------------------------------------------
def check_posterior(
    Z: Any,
    groups: Sequence[Any] | pd.Index | None = None,
    classes: Sequence[Any] | pd.Index | None = None,
    sample_weight: Any = None,
    offset: Any = None,
    n_jobs: int | None = None,
) -> Any:
    """Validate what a user hands in: names, weights, offset, and Z in one pass over its rows that gives the prior."""
    if hasattr(Z, "as_measure"):  # rows in files, with columns of their own
        measure: Measure = Z.as_measure(groups, classes, sample_weight, offset, n_jobs)
        return measure
    Z = check_rows(Z)
    n, A, m = Z.shape
    check_row_labels(sample_weight=sample_weight, offset=offset)
    utilities = check_offset(offset, n, m)
    weight = mean_one_weights(sample_weight, n)
    group_names, class_names = check_names(groups, A, "groups"), check_names(classes, m, "classes")
    if class_names.nlevels > 1:
        raise ValueError("classes: must be plain names, not a MultiIndex.")
    check_columns(offset, class_names, "offset")
    return make_posterior(Z, group_names, class_names, weight, utilities, n_jobs)


def on_cluster(Z: Any, client: Any) -> Any:
    """Return rows in files as a cluster reads them; whatever else, where there is no client, as it is."""
    if client is None:
        return Z
    if not hasattr(Z, "on"):
        raise ValueError("client: reads rows in files; give Z as optfair.read_parquet finds them.")
    return Z.on(client)


def training_posterior(Z: np.ndarray, data: TrainingData) -> Posterior:
    """Return the measure of z of the training rows, (n, A, m), with their weights and observed cells."""
    weight = None if data.weight is None else mean_one_weights(data.weight, len(data.y))
    return make_posterior(Z, data.groups, data.class_index, weight, cell=data.cell)


def make_posterior(
    Z: np.ndarray,
    groups: pd.Index,
    classes: pd.Index,
    weight: np.ndarray | None = None,
    offset: np.ndarray | None = None,
    n_jobs: int | None = None,
    cell: np.ndarray | None = None,
) -> Posterior:
    """Return the measure of Z (n, A, m) with weights of mean one; its rows are checked in the pass for the prior."""
    n, A, m = Z.shape
    posterior = Posterior(Z, weight, offset, np.zeros((A, m)), groups, classes, n_jobs, cell=cell)

    def checked_total(block: Block) -> tuple[np.ndarray]:
        check_values(block.Z, block.start)
        return (block.weights @ block.Z.astype(np.float64),)

    (total,) = posterior.sum_blocks(checked_total)
    return replace(posterior, prior=(total / n).reshape(A, m))


def check_rows(Z: Any, shape: tuple[int, int] | None = None) -> np.ndarray:
    """Return Z as a (n, A, m) array of floats; its shape and type are checked, its values are not."""
    refuse_gradients(Z, "Z")
    try:
        Z = np.asanyarray(Z)
    except ValueError:
        raise ValueError("Z: its rows have different lengths; expected (n, n_groups, n_classes).") from None
    if Z.dtype.kind not in "fiub":
        raise ValueError(f"Z: has dtype {Z.dtype}; expected an array of probabilities.")
    if Z.ndim != 3:
        raise ValueError(f"Z: has shape {Z.shape}; expected (n, n_groups, n_classes).")
    if shape is not None and Z.shape[1:] != shape:
        raise ValueError(f"Z: has shape {Z.shape}; this rule was solved for (n, {shape[0]}, {shape[1]}).")
    if shape is None and (Z.shape[0] == 0 or Z.shape[1] == 0):
        raise ValueError(f"Z: has shape {Z.shape}; it needs at least one row and one group.")
    if shape is None and Z.shape[2] < 2:
        raise ValueError(f"Z: has shape {Z.shape}; at least two classes are needed to choose from.")
    return Z


def check_values(rows: np.ndarray, start: int) -> None:
    """Refuse a block of rows (k, A·m) that are not probability vectors; ``start`` is the number of its first row."""
    with np.errstate(invalid="ignore", over="ignore"):
        total = rows @ np.ones(rows.shape[1], rows.dtype)
    if not (np.abs(total - 1) <= ROW_SUM_SLACK).all():  # NaN and inf fail here too
        bad = int(np.flatnonzero(~(np.abs(total - 1) <= ROW_SUM_SLACK))[0])
        reason = f"sums to {total[bad]:.6g}" if np.isfinite(total[bad]) else "holds NaN or infinite values"
        raise ValueError(f"Z: row {start + bad} {reason}; each row must be probabilities that sum to 1.")
    if rows.size and rows.min() < 0:
        bad = int(np.flatnonzero((rows < 0).any(axis=1))[0])
        raise ValueError(f"Z: row {start + bad} holds {rows[bad].min():.6g}; probabilities cannot be negative.")


def check_offset(offset: Any, n: int, n_classes: int) -> np.ndarray | None:
    """Return the offset as an array (n, m) of finite numbers; None passes."""
    if offset is None:
        return None
    refuse_gradients(offset, "offset")
    offset = np.asanyarray(offset)
    if offset.shape != (n, n_classes) or offset.dtype.kind not in "fiub":
        raise ValueError(f"offset: has shape {offset.shape}; expected numbers of shape ({n}, {n_classes}).")
    if not np.isfinite(offset).all():
        raise ValueError("offset: holds NaN or infinite values.")
    largest = float(np.abs(offset).max())
    if largest > LARGEST_OFFSET:
        raise ValueError(
            f"offset: holds {largest:.3g}; must be at most {LARGEST_OFFSET:g}. Divide it and the costs by one number."
        )
    return offset
