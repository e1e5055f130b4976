"""Run cases in processes of their own: each version of a case in turn, again and again, and the best of each counts.

A run that takes longer than the limit is stopped, and so is one that needs more than half of the memory; larger sizes
of its series are then not tried with this version.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from experiments.bench.cases import OURS, Case
from experiments.bench.copies import ROOT, peer_version
from experiments.bench.people import write_data

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

ENOUGH = 20.0  # seconds after which a version is not repeated: what takes long varies little
ERROR_LENGTH = 200
Line = dict[str, Any]


@dataclass
class Bench:
    """sources : folder to import optfair from, by version. commits : what they are. peer_python : of their environment.

    absent : why a peer cannot run, by name. repeat : runs of each version. limit : seconds of a run.
    """

    sources: Mapping[str, Path]
    commits: Mapping[str, str]
    peer_python: Path | None
    absent: Mapping[str, str]
    repeat: int
    limit: float
    data: DataFolder = field(default_factory=lambda: DataFolder())

    def lines(self, cases: Iterable[Case]) -> Iterator[tuple[Case, list[Line]]]:
        """Yield each case with a line per version, as soon as it is done."""
        too_long: set[tuple[str, str]] = set()
        with self.data:
            for case in cases:
                versions = [name for name in case.versions if (case.series, name) not in too_long]
                lines = self.measure(case, versions)
                if case.series:
                    too_long |= {(case.series, line["version"]) for line in lines if not is_finished(line)}
                yield case, lines

    def measure(self, case: Case, versions: Sequence[str]) -> list[Line]:
        """Run the versions of a case in turn, and return a line of each."""
        folder = self.data.of(case)
        runs: dict[str, list[Line]] = {version: [] for version in versions}
        for _ in range(self.repeat):
            for version, done in runs.items():
                if not done or (_finished(done) and sum(run["seconds"] for run in done) < ENOUGH):
                    done.append(self._run(case, version, folder))
        return [self._line(case, version, done) for version, done in runs.items()]

    def _run(self, case: Case, version: str, folder: Path) -> Line:
        arguments = [str(folder), json.dumps(case.options)]
        if version in OURS:
            path = os.pathsep.join(map(str, [self.sources[version], ROOT]))
            result = run_process(
                [sys.executable, "-m", "experiments.bench.tasks", case.task, *arguments], path, self.limit
            )
            package = result.pop("package", None)
            if package is not None and not Path(package).is_relative_to(self.sources[version].resolve()):
                raise RuntimeError(f"{version}: optfair was imported from {package}.")
            return result
        if version in self.absent:
            return {"error": self.absent[version]}
        command = [str(self.peer_python), "-m", "experiments.bench.peers", version, *arguments]
        return run_process(command, str(ROOT), self.limit)

    def _line(self, case: Case, version: str, runs: list[Line]) -> Line:
        return {
            "case": case.name,
            "version": version,
            "source": self.commits[version] if version in OURS else peer_version(version),
            "n": case.n,
            "groups": case.A,
            "classes": case.m,
            "series": case.series,
            "runs": [_rounded(run) for run in runs],
        }


def run_process(command: Sequence[str], path: str, limit: float) -> Line:
    """Return what a process prints as its last line, or that it was stopped, or its error."""
    environment = os.environ | {"PYTHONPATH": path}
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # so that processes of its own are stopped with it
        preexec_fn=_limit_memory if resource is not None else None,
    ) as process:
        try:
            output, errors = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            _stop(process)
            return {"stopped": limit}
        except BaseException:  # whatever ends this command ends what it started
            _stop(process)
            raise
    if process.returncode == 0:
        return dict(json.loads(output.splitlines()[-1]))
    last = errors.strip().splitlines()[-1:] or [f"ended with {process.returncode}"]
    return {"error": ("out of memory" if "MemoryError" in last[0] else last[0])[:ERROR_LENGTH]}


def _stop(process: subprocess.Popen[str]) -> None:
    if hasattr(os, "killpg"):
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.communicate()


def _limit_memory() -> None:
    """Let a process have half of the memory: an array that does not fit must not stop the machine."""
    half = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    resource.setrlimit(resource.RLIMIT_DATA, (half, half))


class DataFolder:
    """A temporary folder with the data of one case at a time; cases that follow each other may share them."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._data: tuple[str, int, int, int] | None = None

    def __enter__(self) -> DataFolder:
        self._folder = Path(tempfile.mkdtemp(prefix="optfair-bench-"))
        return self

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder)
        self._folder = self._data = None

    def of(self, case: Case) -> Path:
        """Return the folder with the data of a case."""
        assert self._folder is not None, "enter first"
        if case.data != self._data:
            for file in self._folder.iterdir():
                file.unlink()
            self._data = case.data
            write_data(self._folder, *case.data)
        return self._folder


# -- lines -------------------------------------------------------------------------------------------------
def is_finished(line: Line) -> bool:
    """Tell whether a version did the case."""
    return _finished(line["runs"])


def _finished(runs: Sequence[Line]) -> bool:
    return bool(runs) and all("seconds" in run for run in runs)


def least(line: Line, quantity: str) -> float | None:
    """Return the least of a quantity over the runs of a line; None where it has none."""
    numbers = [run[quantity] for run in line["runs"] if run.get(quantity) is not None]
    return min(numbers) if numbers and is_finished(line) else None


def _rounded(facts: Line) -> Line:
    """Return facts with six digits: seconds have fewer, and lines are read by people too."""
    plain = {key: value for key, value in facts.items() if not isinstance(value, float | dict)}
    floats = {key: float(f"{value:.6g}") for key, value in facts.items() if isinstance(value, float)}
    tables = {key: _rounded(value) for key, value in facts.items() if isinstance(value, dict)}
    return {**floats, **plain, **tables}
