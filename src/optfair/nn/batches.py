"""The rows of X, a batch at a time: of an array, held as one tensor, or of a torch Dataset, never stacked whole."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset

# Numbers in a block of rows: 4 MB of float32, and five times that after the first layer of "resnet".
BLOCK_NUMBERS = 2**20
BLOCK_ROWS = 2**14

# Positions of rows (k,), or a range of them: a range of a tensor is a view, and costs no copy.
Index: TypeAlias = Tensor | slice


class ArrayRows:
    """X : (n, *shape), one tensor on the device."""

    def __init__(self, X: np.ndarray, device: torch.device) -> None:
        # torch warns of arrays it could write to by accident; a copy of these costs less than their story.
        self._tensor = torch.from_numpy(X if X.flags.writeable else X.copy()).to(device)
        self.shape, self.device, self.dtype = tuple(self._tensor.shape[1:]), device, self._tensor.dtype

    def __len__(self) -> int:
        return len(self._tensor)

    def batches(self, index: Iterable[Index], generator: torch.Generator | None = None) -> Iterator[Tensor]:
        """X[i] for each i of ``index``."""
        for rows in index:
            # A batch at a time: larger copies find no warm memory (12 µs for 128 rows of 106 numbers; 30 if 64 batches
            # are copied together).
            yield self._tensor[rows] if isinstance(rows, slice) else self._tensor.index_select(0, rows)


class DatasetRows:
    """x_i = the item i of a map-style dataset, or the first entry of the item."""

    def __init__(self, dataset: Any, device: torch.device, dtype: torch.dtype, num_workers: int) -> None:
        check_dataset(dataset)
        self._items, self._workers = _Items(dataset, dtype), num_workers
        self.device, self.dtype = device, dtype
        self.shape = tuple(self._items[0].shape)

    def __len__(self) -> int:
        return len(self._items)

    def batches(self, index: Iterable[Index], generator: torch.Generator | None = None) -> Iterator[Tensor]:
        """Items stacked, for each i of ``index``. generator : seeds the workers, if there are any."""
        n = len(self)
        listed = [[*range(*rows.indices(n))] if isinstance(rows, slice) else rows.tolist() for rows in index]
        for x in self._stacked(listed, generator):
            if not bool(torch.isfinite(x).all()):
                raise ValueError("X: an item of the dataset contains NaN or infinity; fill it in or leave it out.")
            yield x.to(self.device)

    def _stacked(self, index: list[list[int]], generator: torch.Generator | None) -> Iterator[Tensor]:
        if self._workers:
            # DataLoader draws the seed of its workers: from the global generator, if it is given none.
            own = generator or torch.Generator().manual_seed(0)
            yield from DataLoader(
                self._items, batch_sampler=index, num_workers=self._workers, generator=own, collate_fn=torch.stack
            )
        else:
            for rows in index:
                yield torch.stack([self._items[row] for row in rows])


Rows: TypeAlias = ArrayRows | DatasetRows


class _Items(Dataset[Tensor]):
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


def check_dataset(dataset: Any) -> None:
    """Map-style (with a length and items by position), and not empty."""
    if isinstance(dataset, IterableDataset) or not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
        raise ValueError(
            f"X: {type(dataset).__name__} gives its items in its own order only; must be a map-style dataset, with "
            "__len__ and __getitem__."
        )
    if len(dataset) == 0:
        raise ValueError(f"X: {type(dataset).__name__} has no items; give at least one for each of two classes.")


def read_labels(dataset: Any) -> tuple[list[Any], list[Any] | None]:
    """(y_i), (group_i) of the items (x_i, y_i, group_i) or (x_i, y_i) of a dataset; groups are None for the latter.

    One pass in order that keeps labels only. A dataset with a method ``labels_and_groups()`` is asked for both instead:
    `ImageDataset` need not decode a picture.
    """
    check_dataset(dataset)
    if hasattr(dataset, "labels_and_groups"):
        labels, groups = dataset.labels_and_groups()
        return list(labels), None if groups is None else list(groups)
    labels, groups = [], []
    for row in range(len(dataset)):
        item = dataset[row]
        if not isinstance(item, tuple | list) or len(item) < 2:
            raise ValueError(
                f"y: missing, and item {row} of the dataset has no label; give y, or items (x, y) or (x, y, group)."
            )
        labels.append(_plain(item[1]))
        if len(item) > 2:
            groups.append(_plain(item[2]))
    if groups and len(groups) != len(labels):
        raise ValueError(
            f"X: {len(groups)} of {len(labels)} items of the dataset have a group; all must have one, or none."
        )
    return labels, groups or None


def _plain(label: Any) -> Any:
    """Zero-dimensional tensors and numpy scalars as Python objects."""
    return label.item() if isinstance(label, Tensor | np.generic | np.ndarray) and np.ndim(label) == 0 else label


def block_rows(shape: Sequence[int]) -> int:
    """How many rows of this shape are evaluated at once."""
    return min(BLOCK_ROWS, max(1, BLOCK_NUMBERS // max(1, math.prod(shape))))


def gather(tensor: Tensor, index: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """tensor[i] for each i of ``index``, all copied at once."""
    return tensor.index_select(0, torch.cat(list(index))).split([len(rows) for rows in index])


def in_blocks(index: Tensor | int, shape: Sequence[int]) -> list[Index]:
    """The positions ``index``, or all of 0..index−1, in order and in blocks."""
    size = block_rows(shape)
    if isinstance(index, int):
        return [slice(start, min(start + size, index)) for start in range(0, index, size)]
    return list(index.split(size))


def shuffled(index: Tensor, batch_size: int, generator: torch.Generator) -> list[Tensor]:
    """``index`` in random order, in batches; a single row left over joins the batch before it.

    Batch normalisation has no variance of one row.
    """
    order = index[torch.randperm(len(index), generator=generator)]
    batches = list(order.split(batch_size))
    if len(batches) > 1 and len(batches[-1]) == 1 and batch_size > 1:
        batches[-2:] = [torch.cat(batches[-2:])]
    return batches
