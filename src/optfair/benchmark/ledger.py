"""The lines of finished runs: one file per experiment, one JSON object per line, whole or not there."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import Any

from optfair.errors import DataFileError
from optfair.files import write_atomically

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


@contextmanager
def alone(file: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold a lock that ends with the process, however it ends. wait : for its holder; else BlockingIOError."""
    with os.fdopen(os.open(file, os.O_RDWR | os.O_CREAT, 0o666), "r+b") as handle:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield


def fit_seconds(line: Mapping[str, Any]) -> float:
    """What a run took, by the clock on the wall, until it was fitted or stopped; 0 where that is not known."""
    return float(line.get("wall_seconds", line.get("seconds", line.get("limit", 0.0))))


class Ledger:
    """Lines by `Run.key`, of all ``*.jsonl`` of a folder: experiments share the runs they have in common."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: dict[str, list[str]] = {}
        self.lines: dict[str, dict[str, Any]] = {}
        for file in sorted(folder.glob("*.jsonl")):
            own = self._files[file.stem] = []
            for number, text in enumerate(file.read_bytes().split(b"\n"), 1):  # no other character ends a line
                if not text.strip():
                    continue
                try:
                    own.append(text.decode())
                    line = json.loads(own[-1])
                    self._keep(line)
                except (ValueError, KeyError, TypeError):
                    raise DataFileError(f"{file}, line {number}: is no line of a run; mend or remove it.") from None

    def _keep(self, line: dict[str, Any]) -> None:
        """A run that was stopped, and finished later under another experiment, is finished."""
        key = json.dumps(line["run"], sort_keys=True)
        if "limit" not in line or line["limit"] >= self.lines.get(key, {"limit": 0.0}).get("limit", inf):
            self.lines[key] = line

    def add(self, experiment: str, line: Mapping[str, Any]) -> None:
        """Keep a line; it is on disk when this returns."""
        self._keep(dict(line))
        own = self._files.setdefault(experiment, [])
        own.append(json.dumps(line, ensure_ascii=False))
        write_atomically(self.folder / f"{experiment}.jsonl", "".join(f"{text}\n" for text in own).encode())
