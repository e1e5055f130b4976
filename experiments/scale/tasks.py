"""Measure one thing in a process of its own: a plain reading, a solve on threads or on a cluster, an audit."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import optfair
from experiments.scale.rows import ANSWERS, CELLS
from optfair.errors import need_extra
from optfair.storage.engines import DaskWorkers, Task, Threads
from optfair.storage.parts import BATCH_ROWS, FilePart, Part
from optfair.utils.parallel import map_items

TOLERANCE, GAP = 0.01, 1e-3
N_WORKERS = 2
EMPTY_PARTS = 5_000
LOOK = 0.02  # seconds between two looks at the memory of processes
Numbers = dict[str, Any]


def resident(process: int) -> float:
    """Return the anonymous memory of a process, in bytes; 0 where there is none."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((float(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon")), 0.0)


@contextmanager
def watched_memory(workers: Callable[[], Sequence[int]]) -> Iterator[Numbers]:
    """Fill a dict with the peaks of this process and of the largest worker, in bytes. workers : their processes."""
    peaks, finished = {"driver_bytes": 0.0, "worker_bytes": 0.0}, threading.Event()

    def look() -> None:
        while not finished.wait(LOOK):
            peaks["driver_bytes"] = max(peaks["driver_bytes"], resident(os.getpid()))
            peaks["worker_bytes"] = max([peaks["worker_bytes"], *map(resident, workers())])

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield peaks
    finally:
        finished.set()
        watcher.join()


# -- what is counted ----------------------------------------------------------------------------------------------
class Counter:
    """Counts the rows that are read, and the bytes of functions and results; part of an engine."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.n_rows, self.n_calls, self.sent, self.received = 0, 0, 0, 0

    def map(self, function: Any, parts: Sequence[Any]) -> list[Any]:
        """Return ``function(part)`` of every part, in order."""
        results: list[Any] = super().map(function, parts)  # type: ignore[misc]
        self.n_calls += 1
        self.n_rows += sum(part.n for part in parts)
        self.sent += len(Task(function).payload) * len(parts) + sum(len(pickle.dumps(part)) for part in parts)
        self.received += sum(len(pickle.dumps(result)) for result in results)
        return results


class CountedThreads(Counter, Threads):
    """Threads that count."""


class CountedWorkers(Counter, DaskWorkers):
    """Workers of Dask that count."""


# -- tasks --------------------------------------------------------------------------------------------------------
def read_columns(folder: Path, columns: Sequence[str]) -> Numbers:
    """Read some columns of all files once, with pyarrow alone, a thread per core."""
    parquet = need_extra("pyarrow.parquet", "scale")

    def read(file: Path) -> int:
        batches = parquet.ParquetFile(file).iter_batches(BATCH_ROWS, columns=list(columns), use_threads=False)
        return sum(batch.num_rows for batch in batches)

    files = sorted(folder.glob("*.parquet"))
    return {"rows": sum(map_items(read, files)), "file_bytes": sum(file.stat().st_size for file in files)}


def solve_rows(folder: Path, criterion: str, engine: Any, cache: Path | None = None) -> Numbers:
    """Solve for the rule of all rows."""
    files = optfair.read_parquet(folder, "z_*", cache=cache)
    rule = optfair.solve(files, criterion, TOLERANCE, gap=GAP, client=engine, random_state=0)
    c, n = rule.certificate, files.n or 1
    proof = {"gap": c.gap, "accuracy": c.accuracy, "bound": c.upper_bound, "excess": c.excess, "passes": c.passes}
    moved = {"sent_bytes": engine.sent, "received_bytes": engine.received, "calls": engine.n_calls}
    multipliers = hashlib.sha256(rule.multipliers["multiplier"].to_numpy().tobytes()).hexdigest()
    return {**proof, **moved, "readings": engine.n_rows / n, "parts": len(files.parts), "multipliers": multipliers}


def on_threads(folder: Path, criterion: str, cache: Path | None = None) -> Numbers:
    """Solve on threads of this process."""
    return solve_rows(folder, criterion, CountedThreads(), cache)


def on_cluster(client: Any, folder: Path, criterion: str, killed: bool = False) -> Numbers:
    """Solve on the workers of a cluster. killed : end one of them by force in mid-pass."""
    engine = CountedWorkers(client)
    if killed:
        threading.Thread(target=_kill_one, args=(client, engine), daemon=True).start()
    return solve_rows(folder, criterion, engine)


def _kill_one(client: Any, engine: CountedWorkers) -> None:
    while engine.n_calls < 2:  # of the third reading, which then takes a while
        time.sleep(0.05)
    time.sleep(0.5)
    processes = worker_processes(client)
    os.kill(processes[0], signal.SIGKILL)


def empty_tasks(client: Any) -> Numbers:
    """Map a function that does nothing: what a part costs the scheduler and the driver."""
    parts = [FilePart("", (0,), 1, k, 0, 0) for k in range(EMPTY_PARTS)]
    DaskWorkers(client).map(empty_task, parts)
    return {"parts": EMPTY_PARTS}


def empty_task(part: Part) -> int:
    """Do next to nothing."""
    return len(part.name)


def worker_processes(client: Any) -> list[int]:
    """Return the processes of the workers that run."""
    nannies = client.cluster.workers.values()
    return [nanny.pid for nanny in nannies if getattr(nanny, "pid", None)]


def audit_rows(folder: Path) -> Numbers:
    """Audit the answers of all rows."""
    report = optfair.audit_files(folder, prediction="prediction", sensitive_features="group", y="label", criterion="eo")
    return {"rows": int(report.facts.measured[0].counts.n_people.sum())}


LOCAL: dict[str, Callable[[Path, Path], Numbers]] = {
    "read": lambda folder, _: read_columns(folder, CELLS),
    "read answers": lambda folder, _: read_columns(folder, ANSWERS),
    "audit": lambda folder, _: audit_rows(folder),
    "dp": lambda folder, _: on_threads(folder, "dp"),
    "eo": lambda folder, _: on_threads(folder, "eo"),
    "dp cached": lambda folder, cache: on_threads(folder, "dp", cache),
}
PLAIN_READINGS = ("read", "read answers")
CLUSTER = {"dask dp": ("dp", False), "dask eo": ("eo", False), "dask dp, a worker killed": ("dp", True)}
EMPTY = "dask, empty tasks"
TASKS = [*LOCAL, *CLUSTER, EMPTY]


def run_here(name: str, folder: Path, cache: Path) -> Numbers:
    """Return what a task gives, with seconds and peaks of memory."""
    if name in LOCAL:
        if name in PLAIN_READINGS:
            LOCAL[name](folder, cache)  # from the disk, if the system did not have the files in memory
        return _measured(partial(LOCAL[name], folder, cache), list)
    distributed = need_extra("distributed", "scale")
    options = {"n_workers": N_WORKERS, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        if name == EMPTY:
            return _measured(partial(empty_tasks, client), partial(worker_processes, client))
        criterion, killed = CLUSTER[name]
        task = partial(on_cluster, client, folder, criterion, killed)
        return _measured(task, partial(worker_processes, client))


def _measured(task: Callable[[], Numbers], workers: Callable[[], Sequence[int]]) -> Numbers:
    with watched_memory(workers) as peaks:
        start, processor = time.perf_counter(), time.process_time()
        numbers = task()
        numbers["seconds"] = time.perf_counter() - start
        numbers["processor"] = time.process_time() - processor
    return {**numbers, **peaks}


def run_apart(name: str, folder: Path, cache: Path) -> Numbers:
    """Run a task in a new process, which begins with nothing in memory."""
    words = [sys.executable, "-m", "experiments.scale", "--task", name, "--folder", str(folder), "--cache", str(cache)]
    result = subprocess.run(words, capture_output=True, text=True)
    if result.returncode:
        raise RuntimeError(f"{name}: ended with {result.returncode}: {result.stderr.strip().splitlines()[-1:]}")
    numbers: Numbers = json.loads(result.stdout.splitlines()[-1])
    return numbers
