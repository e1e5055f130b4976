"""Count what is read from a table and written to one, for whoever looks at the progress of a command."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from optfair.utils.progress import Stage, stage

MEGABYTE = 1_000_000
PART_ROWS = 50_000  # of a table that are predicted, or written, at once; about
FORMATTED_CELLS = 100_000  # that pandas writes at once: parts of a multiple of these look as the whole would
OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


class _CountedFile(io.FileIO):
    """A file that counts in a stage how many megabytes were read from it."""

    def __init__(self, path: Path, work: Stage) -> None:
        super().__init__(path)
        self._work, self._n_bytes = work, 0

    def readinto(self, buffer: Any) -> int | None:
        """Read into a buffer, and count."""
        n_bytes = super().readinto(buffer)
        self._n_bytes += n_bytes or 0
        self._work.reach(self._n_bytes // MEGABYTE)
        return n_bytes


@contextmanager
def counted_file(path: Path) -> Iterator[io.BufferedIOBase]:
    """Open a file, as it is on the disk, whose bytes are counted as they are read."""
    total = path.stat().st_size // MEGABYTE
    with stage(f"reading {path.name}", total, unit="MB") as work, io.BufferedReader(_CountedFile(path, work)) as file:
        yield file


def row_slices(n: int, size: int = PART_ROWS) -> list[slice]:
    """Return slices of so many rows, at least one slice."""
    return [slice(start, min(start + size, n)) for start in range(0, max(n, 1), size)]


def write_csv(table: pd.DataFrame, path: Path, name: str, encoding: str, **options: Any) -> None:
    """Write a CSV file, compressed as the name says, part by part. options : of `DataFrame.to_csv`."""
    rows = max(FORMATTED_CELLS // max(table.shape[1], 1), 1)
    parts = row_slices(len(table), rows * max(PART_ROWS // rows, 1))
    open_file = OPENERS.get(Path(name).suffix.lower(), open)
    with (
        stage(f"writing {Path(name).name}", len(table), unit="rows") as work,
        open_file(path, "wt", encoding=encoding, newline="") as file,
    ):
        for part in parts:
            table.iloc[part].to_csv(file, index=False, header=part.start == 0, **options)
            work.advance(part.stop - part.start)
