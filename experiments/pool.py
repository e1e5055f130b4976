"""Evaluate runs in worker processes, a line for each; killed at any moment, all finished lines are on disk.

Workers only compute; this process alone writes. A run that takes too long is stopped, and its line says so.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from experiments.plan import Plan, Run
from optfair.errors import need_extra

Unit = list[Run]
STOPPED = "stopped"  # how the error of a run that took too long begins


class WorkerDied(OSError):
    """A worker ended without a result (killed, or out of memory); its run has no line, and will be repeated."""


@dataclass
class Worker:
    """A process and the runs it has to do; the first of them began at ``started``."""

    process: Any
    pipe: Connection
    unit: Unit
    started: float = 0.0

    def send(self, plan: Plan, unit: Unit) -> None:
        """Hand over runs."""
        self.unit, self.started = list(unit), time.monotonic()
        with suppress(ConnectionError):  # it has died while it waited: `receive` raises
            self.pipe.send([(run, plan.data[run.data], plan.methods[run.method]) for run in unit])

    def receive(self) -> dict[str, Any] | None:
        """Return the line of the first run, or None when its data are loaded and it starts."""
        run = self.unit[0]
        try:
            line = self.pipe.recv()
        except (EOFError, OSError):  # OSError: in the middle of a message
            self.process.join()
            raise WorkerDied(
                f"a worker ended with {self.process.exitcode} at {run.method} on {run.data}, seed {run.seed}; finished "
                "runs are kept: start again to go on."
            ) from None
        self.started = time.monotonic()
        if isinstance(line, BaseException):
            raise line
        return None if line is None else dict(line)

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


def units(plan: Plan, runs: Sequence[Run]) -> list[Unit]:
    """Group the runs that share data and models, for one worker to do one after the other."""
    groups: dict[tuple[Any, ...], Unit] = {}
    for run in runs:
        kind = plan.methods[run.method].kind
        models = "post" if kind.kind == "post" and kind.name != "OptFairInPost" else run.method
        groups.setdefault((run.data, run.source, run.seed, run.part, models), []).append(run)
    return list(groups.values())


def evaluate_all(plan: Plan, runs: Sequence[Run], cache: Path, jobs: int, limit: float) -> Iterator[dict[str, Any]]:
    """Yield lines as they are finished. limit : seconds of a run, and of loading its data."""
    waiting = units(plan, runs)
    workers: list[Worker] = []
    try:
        while waiting or any(worker.unit for worker in workers):
            while waiting and len(workers) < jobs and all(worker.unit for worker in workers):
                workers.append(_start(cache, jobs))
                workers[-1].send(plan, waiting.pop(0))
            for worker in workers:
                if waiting and not worker.unit:
                    worker.send(plan, waiting.pop(0))
            busy = [worker for worker in workers if worker.unit]
            patience = max(0.0, min(worker.started + limit for worker in busy) - time.monotonic())
            ready = wait([worker.pipe for worker in busy], patience)
            for worker in busy:
                if worker.pipe in ready:
                    line = worker.receive()
                    if line is None:
                        continue
                    worker.unit.pop(0)
                elif time.monotonic() - worker.started >= limit:
                    run = worker.unit[0].as_dict()
                    line = {"run": run, "error": f"{STOPPED} after {limit:g} seconds", "limit": limit}
                    worker.stop()
                    workers.remove(worker)
                    waiting[:0] = [worker.unit[1:]] if worker.unit[1:] else []
                else:
                    continue
                yield line
    finally:
        for worker in workers:
            worker.stop()


def _start(cache: Path, jobs: int) -> Worker:
    context = multiprocessing.get_context("spawn")  # threads of BLAS and torch do not survive a fork
    pipe, worker_end = context.Pipe()
    process = context.Process(target=_serve, args=(worker_end, cache, jobs), daemon=True)
    process.start()
    worker_end.close()
    return Worker(process, pipe, [])


def _serve(pipe: Connection, cache: Path, jobs: int) -> None:
    """Evaluate units in a worker, a line for each run, until the parent has gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers
    warnings.simplefilter("ignore")  # those of a method are in its line
    from experiments.evaluate import evaluate_run

    threads = max(1, (os.cpu_count() or 1) // jobs)
    need_extra("torch", "python -m experiments").set_num_threads(threads)
    with threadpool_limits(threads), suppress(EOFError, ConnectionError):
        while True:
            for run, data, method in pipe.recv():
                try:
                    pipe.send(evaluate_run(run, data, method, cache, started=lambda: pipe.send(None)))
                except Exception as error:  # a fault, which no line should hide
                    message = f"{run.method} on {run.data}, seed {run.seed}: {type(error).__name__}: {error}"
                    missing = isinstance(error, OSError | ImportError)  # a file or a package
                    pipe.send(OSError(message) if missing else RuntimeError(message))
