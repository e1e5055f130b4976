"""Read the rows of X a batch at a time: of an array, held as one tensor, or of a torch Dataset, never stacked whole."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from optfair.inputs.containers import check_dataset

# Numbers in a block of rows: 4 MB of float32, and five times that after the first layer of "resnet".
BLOCK_NUMBERS = 2**20
BLOCK_ROWS = 2**14

# Positions of rows (k,), or a range of them: a range of a tensor is a view, and needs no copy.
Index: TypeAlias = Tensor | slice


class ArrayRows:
    """The rows of an array X, (n, *shape), as one tensor on the device."""

    def __init__(self, X: np.ndarray, device: torch.device) -> None:
        # torch warns of arrays that cannot be written to; a copy of these is cheaper than handling the warning.
        self._tensor = torch.from_numpy(X if X.flags.writeable else X.copy()).to(device)
        self.shape, self.device, self.dtype = tuple(self._tensor.shape[1:]), device, self._tensor.dtype

    def __len__(self) -> int:
        return len(self._tensor)

    def batches(self, index: Iterable[Index], generator: torch.Generator | None = None) -> Iterator[Tensor]:
        """Yield X[i] for each i of ``index``."""
        for rows in index:
            # A batch at a time: larger copies find no warm memory (12 µs for 128 rows of 106 numbers; 30 if 64 batches
            # are copied together).
            yield self._tensor[rows] if isinstance(rows, slice) else self._tensor.index_select(0, rows)


class DatasetRows:
    """The rows of a map-style dataset: x_i is the item i, or the first entry of the item."""

    def __init__(self, dataset: Any, device: torch.device, dtype: torch.dtype, num_workers: int) -> None:
        check_dataset(dataset)
        self._items, self._workers = _ItemTensors(dataset, dtype), num_workers
        self.device, self.dtype = device, dtype
        self.shape = tuple(self._items[0].shape)

    def __len__(self) -> int:
        return len(self._items)

    def batches(self, index: Iterable[Index], generator: torch.Generator | None = None) -> Iterator[Tensor]:
        """Yield the stacked items for each i of ``index``. generator : seeds the workers, if there are any."""
        n = len(self)
        positions = [[*range(*rows.indices(n))] if isinstance(rows, slice) else rows.tolist() for rows in index]
        for x in self._stack(positions, generator):
            if not bool(torch.isfinite(x).all()):
                raise ValueError("X: an item of the dataset contains NaN or infinity; fill it in or leave it out.")
            yield x.to(self.device)

    def _stack(self, positions: list[list[int]], generator: torch.Generator | None) -> Iterator[Tensor]:
        if self._workers:
            # Without a generator DataLoader would draw the seed of its workers from the global one.
            yield from DataLoader(
                self._items,
                batch_sampler=positions,
                num_workers=self._workers,
                generator=generator or torch.Generator().manual_seed(0),
                collate_fn=torch.stack,
            )
        else:
            for rows in positions:
                yield torch.stack([self._items[row] for row in rows])


RowSource: TypeAlias = ArrayRows | DatasetRows


class _ItemTensors(Dataset[Tensor]):
    """The x of each item as a tensor, all of one shape."""

    def __init__(self, dataset: Any, dtype: torch.dtype) -> None:
        self._dataset, self._dtype = dataset, dtype
        self._shape: torch.Size | None = None

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, row: int) -> Tensor:
        item = self._dataset[row]
        x = torch.as_tensor(item[0] if isinstance(item, tuple | list) else item).to(self._dtype)
        if self._shape is None:
            self._shape = x.shape
        if x.shape != self._shape:
            raise ValueError(
                f"X: item {row} of the dataset has shape {tuple(x.shape)} and item 0 {tuple(self._shape)}; all must "
                "have the same shape."
            )
        return x


def rows_per_block(shape: Sequence[int]) -> int:
    """Return how many rows of this shape are evaluated at once."""
    return min(BLOCK_ROWS, max(1, BLOCK_NUMBERS // max(1, math.prod(shape))))


def split_in_blocks(index: Tensor | int, shape: Sequence[int]) -> list[Index]:
    """Return the positions ``index``, or all of 0..index−1, in order and in blocks."""
    size = rows_per_block(shape)
    if isinstance(index, int):
        return [slice(start, min(start + size, index)) for start in range(0, index, size)]
    return list(index.split(size))


def gather(tensor: Tensor, index: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return tensor[i] for each i of ``index``, all copied at once."""
    return tensor.index_select(0, torch.cat(list(index))).split([len(rows) for rows in index])


def shuffle_batches(index: Tensor, batch_size: int, generator: torch.Generator) -> list[Tensor]:
    """Return ``index`` in random order, in batches; a single row at the end joins the batch before it.

    Batch normalisation has no variance of one row.
    """
    order = index[torch.randperm(len(index), generator=generator)]
    batches = list(order.split(batch_size))
    if len(batches) > 1 and len(batches[-1]) == 1 and batch_size > 1:
        batches[-2:] = [torch.cat(batches[-2:])]
    return batches
