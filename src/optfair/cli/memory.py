"""Refuse a table that does not fit into memory, before the machine runs out of it.

What counts is what a file unpacks to: a few megabytes of CSV or Parquet may be gigabytes.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import math
import os
from functools import lru_cache
from pathlib import Path
from typing import Any

from optfair.cli.paths import InputError
from optfair.errors import need_extra

# A table takes about this many times its size in memory while it is read (texts more, numbers less).
CSV_MEMORY_FACTOR, PARQUET_MEMORY_FACTOR = 3.0, 6.0
MIN_MEMORY_LIMIT = 1 << 30  # tables below 1 GB are read whatever the system says of its memory
NUMBER_BYTES = 8  # of a cell of a table in memory, at the least
# How a compressed file is opened, and the most that a byte of it may unpack to.
OPENERS: dict[str, tuple[Any, float]] = {".gz": (gzip.open, 1032), ".bz2": (bz2.open, 1e6), ".xz": (lzma.open, 1e5)}
CHUNK = 1 << 22
STEP = 1 << 28  # of the limit to count to: free memory changes all the time, and a file should be counted once


def free_memory() -> int | None:
    """Return the bytes of memory that are free, or None where the system does not tell."""
    try:  # MemAvailable counts what the system lends to its file cache, MemFree does not
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")) * 1024
    except (OSError, StopIteration, ValueError):
        return None


def check_memory(file: Path, kind: str) -> None:
    """Refuse a table of a kind, "csv" or "parquet", that takes more memory than is free."""
    free = free_memory()
    if free is None:
        return
    limit = max(free, MIN_MEMORY_LIMIT)
    status = os.stat(file)
    required = _required_memory(file, kind, limit, status.st_size, status.st_mtime_ns)
    if required > limit:
        raise InputError(
            f"{file}: reading its {status.st_size / 1e9:.1f} GB takes about {required / 1e9:.0f} GB of memory or more, "
            f"and {free / 1e9:.1f} GB are free; keep only the columns and rows that you need."
        )


@lru_cache(maxsize=16)
def _unpacked_size(file: Path, most: float, size: int, time: int) -> int:
    """Return the bytes that a compressed file unpacks to, or where counting went beyond ``most``."""
    opener, total = OPENERS[file.suffix.lower()][0], 0
    try:
        with opener(file, "rb") as content:
            while total <= most and (block := content.read(CHUNK)):
                total += len(block)
    except (OSError, EOFError, lzma.LZMAError):  # said in other words by who reads the table
        pass
    return total


def _required_memory(file: Path, kind: str, limit: int, size: int, time: int) -> float:
    """Return the bytes of memory that reading a table takes; size, time : of the file, which may change."""
    if kind == "parquet":
        return max(PARQUET_MEMORY_FACTOR * size, _parquet_size(file))
    if file.suffix.lower() not in OPENERS:
        return CSV_MEMORY_FACTOR * size
    if CSV_MEMORY_FACTOR * size * OPENERS[file.suffix.lower()][1] <= limit:
        return 0.0
    most = STEP * math.ceil(limit / CSV_MEMORY_FACTOR / STEP)
    return CSV_MEMORY_FACTOR * _unpacked_size(file, most, size, time)


def _parquet_size(file: Path) -> int:
    """Return the bytes that a Parquet file says it unpacks to, at least a number per cell; 0 if it cannot be read."""
    parquet = need_extra("pyarrow.parquet", "reading Parquet")
    try:
        content = parquet.ParquetFile(file).metadata
    except (OSError, ValueError):  # said in other words by who reads the table
        return 0
    unpacked = sum(content.row_group(k).total_byte_size for k in range(content.num_row_groups))
    return int(max(unpacked, content.num_rows * content.num_columns * NUMBER_BYTES))
