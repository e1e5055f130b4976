"""Keep the lines of finished runs: one file per experiment, one JSON object per line, complete or absent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Any

from optfair.errors import DataFileError
from optfair.utils.files import write_atomically

# What a line says of its run, in this order. "people" holds the arguments that load the data.
RUN_TYPES: dict[str, Any] = {
    "data": str,
    "source": str,
    "people": dict,
    "method": str,
    "criterion": str,
    "value": float | int | None,
    "seed": int,
    "part": str,
    "rows": int | None,
    "options": dict,
}
# What else a line may say, and pages read.
FACT_TYPES: dict[str, Any] = {
    "limit": float | int,
    "n": list,
    "classes": int,
    "groups": int,
    "constant": float | int,
    "seconds": float | int,
    "cpu_seconds": float | int,
    "model_cpu_seconds": float | int,
    "wall_seconds": float | int,
    "truth": dict,
    "training": dict,
    "certificate": dict,
    "small_cells": list,
}


def fit_seconds(line: Mapping[str, Any]) -> float:
    """Return the wall-clock seconds until a run was fitted or stopped; 0 where the line does not say."""
    return float(line.get("wall_seconds", line.get("seconds", line.get("limit", 0.0))))


def is_line(line: Any) -> bool:
    """Tell whether a line has all that fixes a run, and its scores or why there are none."""
    run = line.get("run") if isinstance(line, dict) else None
    return (
        isinstance(run, dict)
        and run.keys() == RUN_TYPES.keys()
        and all(isinstance(run[key], kind) for key, kind in RUN_TYPES.items())
        and (has_scores(line) or isinstance(line.get("error"), str))
        and all(isinstance(line[key], kind) for key, kind in FACT_TYPES.items() if line.get(key) is not None)
    )


def has_scores(line: dict[str, Any]) -> bool:
    """Tell whether a line has the accuracy of at least one way to decide, and its violation and floor by criterion."""
    scores = line.get("scores")
    return (
        isinstance(scores, dict)
        and len(scores) > 0
        and all(
            isinstance(numbers, dict)
            and isinstance(numbers.get("accuracy"), float | int)
            and all(_is_table(numbers.get(name)) for name in ("violation", "floor"))
            for numbers in scores.values()
        )
    )


def _is_table(part: Any) -> bool:
    """Tell whether this is a number for each of some names."""
    return isinstance(part, dict) and all(isinstance(number, float | int) for number in part.values())


class Ledger:
    """The lines of all ``*.jsonl`` of a folder by `Run.key`; experiments share the runs they have in common."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: dict[str, list[str]] = {}
        self.lines: dict[str, dict[str, Any]] = {}
        for file in sorted(folder.glob("*.jsonl")):
            texts = self._files[file.stem] = []
            for number, content in enumerate(file.read_bytes().split(b"\n"), 1):  # no other character ends a line
                if not content.strip():
                    continue
                try:
                    texts.append(content.decode())
                    line = json.loads(texts[-1])
                except (ValueError, RecursionError):
                    line = None
                if not is_line(line):
                    raise DataFileError(f"{file}, line {number}: is no line of a run; mend or remove it.")
                self._keep(line)

    def _keep(self, line: dict[str, Any]) -> None:
        """Keep the line of a run; one that was stopped does not replace one that was finished elsewhere."""
        key = json.dumps(line["run"], sort_keys=True)
        if "limit" not in line or line["limit"] >= self.lines.get(key, {"limit": 0.0}).get("limit", inf):
            self.lines[key] = line

    def add(self, experiment: str, line: Mapping[str, Any]) -> None:
        """Add a line; it is on disk when this returns."""
        self._keep(dict(line))
        texts = self._files.setdefault(experiment, [])
        texts.append(json.dumps(line, ensure_ascii=False))
        write_atomically(self.folder / f"{experiment}.jsonl", "".join(f"{text}\n" for text in texts).encode())
