"""Look at the sizes that an archive of arrays declares before anything in it is unpacked, and import what unpacks it.

Archives written by optfair are not compressed, so that what is unpacked is never larger than the file: a file of
megabytes that unpacks to gigabytes was made by somebody else.
"""

from __future__ import annotations

import io
import json
import math
import sys
import zipfile
from types import ModuleType
from typing import Any

import numpy as np

from optfair.errors import need_extra

SMALLEST_LIMIT = 1 << 28  # 256 MB: whoever packs a small model once more, with compression, is not refused
SCHEMA = "schema.json"
# Folders of scikit-learn without estimators, each of which imports the library it is named after, if there is one.
ARRAY_LIBRARIES = tuple(f"sklearn.externals.array_api_compat.{name}" for name in ("cupy", "dask", "torch"))
ARCHIVE, ARRAY = b"PK\x03\x04", b"\x93NUMPY"  # first bytes


class ArchiveSizeError(ValueError):
    """An archive that declares more than may be unpacked, or more than it holds."""


def need_skops(caller: str) -> ModuleType:
    """Import ``skops.io`` without torch, which takes as long as all the rest of it.

    skops asks scikit-learn for its estimators, and `sklearn.utils.all_estimators` imports every folder of scikit-learn
    to look for some. A folder that cannot be imported it passes over; here these are those of `ARRAY_LIBRARIES`, until
    skops is imported.
    """
    modules: dict[str, Any] = sys.modules
    absent = [] if "skops.io" in modules else [name for name in ARRAY_LIBRARIES if name not in modules]
    modules.update(dict.fromkeys(absent))  # None stops an import
    try:
        return need_extra("skops.io", caller)
    finally:
        for name in absent:
            modules.pop(name, None)


def check_archive(content: bytes, max_bytes: int | None = None) -> int:
    """Return the bytes that a zip archive of arrays unpacks to; more than ``max_bytes`` are an ArchiveSizeError.

    max_bytes : by default the size of the archive itself, or 256 MB. Arrays count as often as the schema of a skops
    archive names them, and an array must be as large as its header says. What a file is, its first bytes say.
    """
    limit = max(len(content), SMALLEST_LIMIT) if max_bytes is None else max_bytes
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
        _check_total(sum(entry.file_size for entry in archive.infolist()), limit)
        for name in sizes:
            with archive.open(name) as file:
                start = file.read(len(ARRAY))
            if start.startswith(ARCHIVE):
                sizes[name] = max(sizes[name], check_archive(archive.read(name), limit))
            elif start == ARRAY:
                with archive.open(name) as file:
                    _check_header(name, file, sizes[name])
        total = sum(sizes.values())
        _check_total(total, limit)
        if SCHEMA in sizes:
            _check_total(sum(sizes.get(name, 0) for name in _references(json.loads(archive.read(SCHEMA)))), limit)
    return total


def _check_total(total: int, limit: int) -> None:
    if total > limit:
        raise ArchiveSizeError(f"unpacks to {total / 1e6:,.0f} MB, more than the {limit / 1e6:,.0f} MB allowed")


def _references(schema: Any) -> list[str]:
    """Return the file of each node of a skops schema that has one."""
    names, waiting = [], [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            names += [part["file"]] if isinstance(part.get("file"), str) else []
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    return names


def _check_header(name: str, file: Any, size: int) -> None:
    """Check that an array in NumPy's format is not larger than the ``size`` bytes of its file."""
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(file)
    declared = math.prod(shape) * dtype.itemsize
    if declared > size:
        raise ArchiveSizeError(f"{name} declares an array of {declared / 1e6:,.0f} MB and holds {size / 1e6:,.3f} MB")
