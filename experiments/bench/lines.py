"""Keep the lines of a run in one file, with the machine they come from; a case measured again replaces its lines."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from threadpoolctl import threadpool_info

from experiments.bench.run import Line
from optfair.errors import DataFileError
from optfair.utils.files import write_atomically

FILE = "bench.jsonl"


def machine() -> Line:
    """Return what a reader must know to compare seconds."""
    libraries = [library for library in threadpool_info() if library["user_api"] == "blas"]
    libraries.sort(key=lambda library: "numpy" not in library["filepath"])  # SciPy may bring one of its own
    blas: dict[str, Any] = libraries[0] if libraries else {}
    return {
        "machine": {
            "processor": _processor(),
            "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
            "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "blas": f"{blas.get('internal_api', 'unknown')} {blas.get('version', '')}".strip(),
            "blas_threads": blas.get("num_threads"),
        }
    }


def _processor() -> str:
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


class Lines:
    """The lines of a folder. machine : the one of the last run. lines : by (case, version), in the order of the run."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / FILE
        self.machine: dict[str, Any] = {}
        self.lines: dict[tuple[str, str], Line] = {}
        texts = self.file.read_text("utf-8").splitlines() if self.file.exists() else []
        for number, text in enumerate(texts, 1):
            try:
                line = json.loads(text)
                if "machine" in line:
                    self.machine = line["machine"]
                else:
                    self.lines[line["case"], line["version"]] = line
            except (ValueError, KeyError, TypeError):
                raise DataFileError(f"{self.file}, line {number}: is no line of a run; mend or remove it.") from None

    def put(self, case: str, lines: Sequence[Line]) -> None:
        """Replace the lines of a case; they are on disk when this returns."""
        self.lines = {key: line for key, line in self.lines.items() if key[0] != case}
        self.lines |= {(line["case"], line["version"]): line for line in lines}
        self.file.parent.mkdir(parents=True, exist_ok=True)
        every = [{"machine": self.machine}, *self.lines.values()]
        write_atomically(self.file, "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in every).encode())

    def of(self, case: str) -> dict[str, Line]:
        """Return the lines of a case by version."""
        return {version: line for (name, version), line in self.lines.items() if name == case}
