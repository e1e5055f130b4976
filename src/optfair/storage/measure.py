"""Be the `Measure` of rows in parts: each verb is one reading of the files, and no row stays anywhere but in a sample.

Numbers of the rows (`RowValues`, leverage) are recipes too: the function that made them, which is applied again when
they are asked for. To compute costs less than to decode, and a worker that dies takes nothing with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pandas as pd

from optfair.dual.measure import Block, Measure, RowValues
from optfair.dual.posterior import LARGEST_OFFSET, Posterior, check_values, make_posterior
from optfair.dual.settings import SETTINGS
from optfair.inputs.labels import mean_one_weights
from optfair.storage.cache import RowCache
from optfair.storage.columns import Arrays, RowColumns, read_rows
from optfair.storage.engines import Engine
from optfair.storage.parts import Part, PartError
from optfair.storage.sample import FIELDS, OFFERED, SPARE, Offer, choose_rows, cut_parts, offer_rows
from optfair.utils.parallel import block_slices

LEAST_MASS = 1e-200  # mean of the weights: sums of them, and of their inverses, stay finite
EVEN_ROWS = 50_000  # at least, that the first reading keeps: evenly spaced ones, for whoever draws without a mass


@dataclass(frozen=True, eq=False)
class Reader:
    """Yields the blocks of a part; small, so that it can be sent along.

    columns : of files. scale : of weights, so that their mean is one. leverage : (p,), ℓ(x) = leverage · z, or None.
    with_offset : whether there are offsets. cache : of rows that were decoded before, or None.
    """

    columns: RowColumns
    scale: float = 1.0
    leverage: np.ndarray | None = None
    with_offset: bool = True
    cache: RowCache | None = None

    def arrays(self, part: Part) -> Iterator[Arrays]:
        """Yield Z, weights and offsets of a part as they are stored, some rows at a time."""
        if self.cache is not None:
            yield from self.cache.arrays(part, self.columns)
            return
        for batch in part.batches(self.columns.names, read_rows(self.columns)):
            yield self.columns.arrays(batch, part.name)

    def blocks(self, part: Part, width: int) -> Iterator[Block]:
        """Yield blocks of a part. width : numbers per row while it is worked on."""
        start = part.start
        for Z, weight, offset in self.arrays(part):
            weight = None if weight is None else weight * self.scale
            offset = offset if self.with_offset else None
            for rows in block_slices(len(Z), width):
                columns = [None if array is None else array[rows] for array in (Z, weight, offset)]
                leverage = None if self.leverage is None else (Z[rows] @ self.leverage).astype(np.float32)
                yield Block(columns[0], columns[1], columns[2], start + rows.start, leverage)  # type: ignore[arg-type]
            start += len(Z)


@dataclass(frozen=True, eq=False)
class FirstReading:
    """Checks all rows, and returns Σ w z, Σ w and evenly spaced rows of a part."""

    reader: Reader
    step: int

    def __call__(self, part: Part) -> tuple[np.ndarray, float, dict[str, np.ndarray | None]]:
        """Read a part."""
        total, mass, even = np.zeros(self.reader.columns.n_cells), 0.0, []
        for block in self.reader.blocks(part, self.reader.columns.n_cells):
            self._check(block, part)
            total = total + block.weights @ block.Z.astype(np.float64)
            mass += float(block.weights.sum())
            rows = np.arange(-block.start % self.step, len(block.Z), self.step)
            even.append([None if column is None else column[rows] for column in (block.Z, block.weight, block.offset)])
        columns = [None if values[0] is None else np.concatenate(values) for values in zip(*even, strict=True)]
        return total, mass, dict(zip(FIELDS[:3], columns, strict=True))

    def _check(self, block: Block, part: Part) -> None:
        """Refuse rows that are not as they must be; the message counts them from the beginning of the part."""
        start, weight, offset = block.start - part.start, block.weight, block.offset
        try:
            check_values(block.Z, start)
        except ValueError as error:
            raise PartError(f"{part.name}: {error}") from None
        if weight is not None and not (is_weight := np.isfinite(weight) & (weight >= 0)).all():
            row = int(is_weight.argmin())
            raise PartError(
                f"{part.name}: weight={self.reader.columns.weight!r}: row {start + row} holds {weight[row]:g}; weights "
                "must be finite and at least 0."
            )
        if offset is not None and not (is_offset := np.abs(offset) <= LARGEST_OFFSET).all():
            row, column = divmod(int(is_offset.argmin()), offset.shape[1])
            raise PartError(
                f"{part.name}: offset={self.reader.columns.offset[column]!r}: row {start + row} holds "
                f"{offset[row, column]:g}; must be a number of at most {LARGEST_OFFSET:g}."
            )


@dataclass(frozen=True, eq=False)
class BlockSums:
    """Adds up what a function returns for the blocks of a part; of numbers that are kept, their sum."""

    reader: Reader
    function: Callable[[Block], tuple[Any, ...]]
    width: int
    keep: bool

    def __call__(self, part: Part) -> tuple[Any, ...]:
        """Read a part."""
        entries = (self._entries(block) for block in self.reader.blocks(part, self.width))
        return reduce(lambda sums, other: tuple(map(add, sums, other)), entries)

    def _entries(self, block: Block) -> tuple[Any, ...]:
        entries = self.function(block)
        return (*entries[:-1], float(entries[-1].sum(dtype=np.float64))) if self.keep else entries


@dataclass(frozen=True, eq=False)
class Offers:
    """Offers the rows of a part that may be in a sample. shares : how many rows it offers, per row that it has."""

    reader: Reader
    mass: Callable[[Block], np.ndarray]
    recipe: Callable[[Block], tuple[Any, ...]] | None
    seed: int
    limit: Callable[[Part], int]

    def __call__(self, part: Part) -> Offer:
        """Read a part."""
        return offer_rows(self._blocks(part), self.mass, self.seed, self.limit(part))

    def _blocks(self, part: Part) -> Iterator[Block]:
        for block in self.reader.blocks(part, self.reader.columns.n_cells):
            yield block if self.recipe is None else replace(block, row_values=self.recipe(block)[-1])


@dataclass(frozen=True, eq=False)
class PartMeasure:
    """The measure of rows in parts; see `Measure`.

    parts : recipes. reader : of their blocks. engine : that maps functions over parts. prior : (A, m). even : evenly
    spaced rows. n_jobs : threads for samples.
    """

    parts: Sequence[Part]
    reader: Reader
    engine: Engine
    n: int
    prior: np.ndarray
    even: Posterior
    n_jobs: int | None = None
    n_cells: int = field(init=False)
    n_classes: int = field(init=False)
    groups: pd.Index = field(init=False)
    classes: pd.Index = field(init=False)
    dtype: np.dtype = field(init=False)
    value_noise: float = field(init=False)

    def __post_init__(self) -> None:
        columns, even = self.reader.columns, self.even
        facts = {"n_cells": columns.n_cells, "n_classes": len(columns.classes), "groups": columns.groups}
        facts |= {"classes": columns.classes, "dtype": columns.dtype, "value_noise": even.value_noise}
        for name, value in facts.items():
            object.__setattr__(self, name, value)

    def __reduce__(self) -> Any:
        raise TypeError("a measure holds its cluster and cannot be sent to it; functions close over small arrays only.")

    @property
    def has_offset(self) -> bool:
        """Whether utilities are added to the scores."""
        return bool(self.reader.columns.offset) and self.reader.with_offset

    def without_offset(self) -> PartMeasure:
        """Return the same rows with nothing added to their scores."""
        reader = replace(self.reader, with_offset=False)
        return replace(self, reader=reader, even=self.even.without_offset())

    # -- the two verbs -------------------------------------------------------------------------------------
    def sum_blocks(
        self, function: Callable[[Block], tuple[Any, ...]], width: int | None = None, *, keep: bool = False
    ) -> tuple[Any, ...]:
        """Return Σ over blocks of each entry of ``function(block)``; see `Measure.sum_blocks`."""
        task = BlockSums(self.reader, function, self.n_cells if width is None else width, keep)
        sums = [reduce(add, column) for column in zip(*self.engine.map(task, self.parts), strict=True)]
        return (*sums[:-1], RowValues(function, sums[-1] / self.n)) if keep else tuple(sums)

    def draw(
        self,
        size: int,
        mass: Callable[[Block], np.ndarray] | None = None,
        rng: np.random.Generator | None = None,
        row_values: RowValues | None = None,
        scale: float = 1.0,
    ) -> Posterior:
        """Sample about ``size`` rows; see `Measure.draw`. Without a mass, at most those that the first reading kept."""
        if mass is None:
            if size >= self.n > self.even.n:
                raise ValueError(
                    f"Z: this needs all {self.n:,} rows in memory, and they are in files; draw a sample of them first, "
                    "as an array."
                )
            return self.even.take(slice(None, None, max(self.even.n // size, 1)))
        seed = int((rng or np.random.default_rng(0)).integers(2**63))
        recipe = None if row_values is None else row_values.numbers
        rows_per_row = OFFERED * size / self.n

        def share(part: Part) -> int:
            return int(rows_per_row * (part.n or 0)) + SPARE

        task = Offers(self.reader, mass, recipe, seed, share)
        offers: list[Offer] = list(self.engine.map(task, self.parts))
        short = cut_parts(offers, size)
        if short:
            larger = self.engine.map(replace(task, limit=lambda part: size + 1), [self.parts[k] for k in short])
            for k, offer in zip(short, larger, strict=True):
                offers[k] = offer
        sample, inverse = choose_rows(offers, size)
        columns = sample.columns
        Z, weight = np.asarray(columns["Z"]), columns["weight"]
        weight = (scale * (np.ones(len(Z)) if weight is None else weight)) * inverse
        return replace(
            self.even,
            Z=Z.reshape(len(Z), *self.prior.shape),
            weight=weight,
            offset=columns["offset"],
            prior=self.prior,
            leverage=columns["leverage"],
        )

    def with_sample(self, seed: int) -> tuple[Measure, Posterior]:
        """Return (this measure with its leverage, the measure of a sample of it); see `Measure.with_sample`."""
        prior = self.prior.ravel()
        inverse = np.divide(1.0, prior, out=np.zeros(self.n_cells), where=prior > 0)
        inverse /= max(np.count_nonzero(inverse), 1)
        measure = replace(self, reader=replace(self.reader, leverage=inverse.astype(self.dtype)))

        def mass(block: Block) -> np.ndarray:
            product = 0.5 + 0.5 * np.asarray(block.leverage)
            return product if block.weight is None else product * block.weight

        sample = measure.draw(SETTINGS.sketch_rows, mass, np.random.default_rng(seed))
        return measure, sample.normalised().with_prior()


def first_reading(
    parts: Sequence[Part], n: int, reader: Reader, engine: Engine, n_jobs: int | None
) -> PartMeasure | Posterior:
    """Read all rows once: check them, find the prior, keep evenly spaced ones; few rows are taken into memory."""
    is_few = n <= SETTINGS.few_rows * SETTINGS.sketch_rows
    columns = reader.columns
    results = list(engine.map(FirstReading(reader, 1 if is_few else max(n // EVEN_ROWS, 1)), parts))
    total = reduce(add, (result[0] for result in results))
    mass = sum(result[1] for result in results)
    if mass <= 0:
        raise ValueError(f"weight={columns.weight!r}: is zero in all rows; at least some must count.")
    if not LEAST_MASS <= mass / n <= 1 / LEAST_MASS:
        raise ValueError(f"weight={columns.weight!r}: has the mean {mass / n:.3g}; divide all weights by one number.")
    evens = [result[2] for result in results]
    Z, weight, offset = (
        None if evens[0][name] is None else np.concatenate([even[name] for even in evens]) for name in FIELDS[:3]
    )
    assert Z is not None
    Z = Z.reshape(len(Z), len(columns.groups), len(columns.classes))
    if is_few:
        return make_posterior(Z, columns.groups, columns.classes, mean_one_weights(weight, n), offset, n_jobs)
    weight = None if weight is None else weight * (n / mass)
    even = make_posterior(Z, columns.groups, columns.classes, weight, offset, n_jobs)
    prior = (total / mass).reshape(Z.shape[1:])
    reader = replace(reader, scale=n / mass)
    return PartMeasure(parts, reader, engine, n, prior, replace(even, prior=prior), n_jobs)
