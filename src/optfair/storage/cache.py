"""Keep rows of parts as plain numbers on a disk, so that only the first reading has to decode them.

A file holds Z, then the weights, then the offsets of a part, and is whole or absent. Its name says what it was made
from, so that a later call finds it, and a file that has changed since is decoded again. Whoever finds none makes it:
on a cluster the folder may be one that all machines share, or one on the disk of each.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from optfair.storage.columns import Arrays, RowColumns, read_rows
from optfair.storage.parts import FilePart, Part, PartError
from optfair.utils.files import replacing

ENDING = ".rows"


@dataclass(frozen=True)
class RowCache:
    """A folder of rows of parts. folder : its path, made when it is needed."""

    folder: str

    def arrays(self, part: Part, columns: RowColumns) -> Iterator[Arrays]:
        """Yield Z, weights and offsets of a part, some rows at a time; the first call decodes them."""
        if not isinstance(part, FilePart) or part.n is None:
            raise ValueError("cache: is for Parquet files, which can be told apart by name and time; leave it out.")
        part.check_state()
        layout = _Layout.of(columns, part.n)
        path = Path(self.folder) / f"{_digest(part, columns)}{ENDING}"
        try:
            if not path.exists() or path.stat().st_size != layout.n_bytes:
                self._fill(path, part, columns, layout)
        except OSError as error:
            raise PartError(f"cache={self.folder!r}: cannot be used ({error.strerror}).") from None
        rows = read_rows(columns)
        with open(path, "rb") as file:
            for low in range(0, part.n, rows):
                yield layout.read(file, low, min(rows, part.n - low))

    def _fill(self, path: Path, part: FilePart, columns: RowColumns, layout: _Layout) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        start = 0
        with replacing(path) as temporary, open(temporary, "wb") as file:
            for batch in part.batches(columns.names, read_rows(columns)):
                arrays = columns.arrays(batch, part.name)
                layout.write(file, start, arrays)
                start += len(arrays[0])


def _digest(part: FilePart, columns: RowColumns) -> str:
    """Return a name for what a part holds: its file as it was found, its row groups, and what is read of them."""
    path = part.path if part.filesystem is not None else os.path.abspath(part.path)
    file = path, part.row_groups, part.size, part.modified
    roles = tuple(columns.names), columns.weight, columns.offset, columns.groups.tolist(), columns.classes.tolist()
    return hashlib.sha256(repr((file, columns.mark, roles, str(columns.dtype))).encode()).hexdigest()[:32]


@dataclass(frozen=True)
class _Layout:
    """Where the arrays of n rows stand in a file: (numbers a row, dtype) of each, None where there is none."""

    n: int
    kinds: tuple[tuple[int, np.dtype] | None, ...]

    @classmethod
    def of(cls, columns: RowColumns, n: int) -> _Layout:
        weight = None if columns.weight is None else (1, np.dtype(np.float64))
        offset = (len(columns.offset), np.dtype(np.float64)) if columns.offset else None
        return cls(n, ((columns.n_cells, columns.dtype), weight, offset))

    @property
    def n_bytes(self) -> int:
        return self.n * sum(kind[0] * kind[1].itemsize for kind in self.kinds if kind is not None)

    def _places(self, start: int) -> Iterator[tuple[int, tuple[int, np.dtype] | None]]:
        """Yield where the rows from ``start`` on stand, for each array."""
        first = 0
        for kind in self.kinds:
            size = 0 if kind is None else kind[0] * kind[1].itemsize
            yield first + start * size, kind
            first += self.n * size

    def write(self, file: IO[bytes], start: int, arrays: Arrays) -> None:
        for (place, kind), array in zip(self._places(start), arrays, strict=True):
            if kind is not None:
                file.seek(place)
                file.write(np.ascontiguousarray(array, dtype=kind[1]).tobytes())

    def read(self, file: IO[bytes], start: int, k: int) -> Arrays:
        arrays: list[np.ndarray | None] = []
        for place, kind in self._places(start):
            if kind is None:
                arrays.append(None)
                continue
            width, dtype = kind
            file.seek(place)
            values = np.fromfile(file, dtype=dtype, count=k * width)
            if len(values) < k * width:
                raise PartError(f"{file.name}: ends too soon; remove it, and it is made again.")
            arrays.append(values.reshape(k, width))
        Z, weight, offset = arrays
        assert Z is not None
        return Z, None if weight is None else weight[:, 0], offset
