"""Runs in worker processes, a line for each; killed at any moment, all finished lines are there.

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

from optfair.benchmark.plan import Plan, Run
from optfair.errors import need_extra

Unit = list[Run]
STOPPED = "stopped"


class WorkerDied(OSError):
    """A worker ended without an answer (killed, or out of memory); its run has no line, and will be tried again."""


@dataclass
class Worker:
    """A process, and the runs it is at; it does the first of them since ``started``."""

    process: Any
    pipe: Connection
    unit: Unit
    started: float = 0.0

    def give(self, plan: Plan, unit: Unit) -> None:
        self.unit, self.started = list(unit), time.monotonic()
        with suppress(ConnectionError):  # it has died while it waited: `answer` says so
            self.pipe.send([(run, plan.data[run.data], plan.methods[run.method]) for run in unit])

    def answer(self) -> dict[str, Any] | None:
        """The line of its first run; None: that has its people now, and starts."""
        run = self.unit[0]
        try:
            line = self.pipe.recv()
        except (EOFError, OSError):  # OSError: in the middle of a message
            self.process.join()
            raise WorkerDied(
                f"a worker ended with {self.process.exitcode} at {run.method} on {run.data}, seed {run.seed}; what is "
                "finished is kept: start again to go on."
            ) from None
        self.started = time.monotonic()
        if isinstance(line, BaseException):
            raise line
        return None if line is None else dict(line)

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def units(plan: Plan, runs: Sequence[Run]) -> list[Unit]:
    """Runs that share people and models, to be done by one worker one after the other."""
    found: dict[tuple[Any, ...], Unit] = {}
    for run in runs:
        kind = plan.methods[run.method].kind
        shared = "post" if kind.kind == "post" and kind.name != "OptFairInPost" else run.method
        found.setdefault((run.data, run.source, run.seed, run.part, shared), []).append(run)
    return list(found.values())


def work(plan: Plan, runs: Sequence[Run], cache: Path, jobs: int, limit: float) -> Iterator[dict[str, Any]]:
    """Lines, as they are finished. limit : seconds of a run, and of getting its people ready."""
    waiting = units(plan, runs)
    workers: list[Worker] = []
    try:
        while waiting or any(worker.unit for worker in workers):
            while waiting and len(workers) < jobs and all(worker.unit for worker in workers):
                workers.append(_start(cache, jobs))
                workers[-1].give(plan, waiting.pop(0))
            for worker in workers:
                if waiting and not worker.unit:
                    worker.give(plan, waiting.pop(0))
            busy = [worker for worker in workers if worker.unit]
            patience = max(0.0, min(worker.started + limit for worker in busy) - time.monotonic())
            ready = wait([worker.pipe for worker in busy], patience)
            for worker in busy:
                if worker.pipe in ready:
                    line = worker.answer()
                    if line is None:
                        continue
                    worker.unit.pop(0)
                elif time.monotonic() - worker.started >= limit:
                    line = {
                        "run": worker.unit[0].as_dict(),
                        "error": f"{STOPPED} after {limit:g} seconds",
                        "limit": limit,
                    }
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
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there, cache, jobs), daemon=True)
    process.start()
    there.close()
    return Worker(process, here, [])


def _serve(pipe: Connection, cache: Path, jobs: int) -> None:
    """In a worker: units in, a line for each run out, until nobody is there."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends us
    warnings.simplefilter("ignore")  # those of a method are in its line
    from optfair.benchmark.work import perform

    threads = max(1, (os.cpu_count() or 1) // jobs)
    need_extra("torch", "optfair bench").set_num_threads(threads)
    with threadpool_limits(threads), suppress(EOFError, ConnectionError):
        while True:
            for run, data, method in pipe.recv():
                try:
                    pipe.send(perform(run, data, method, cache, started=lambda: pipe.send(None)))
                except Exception as error:  # a fault, which no line should hide
                    what = f"{run.method} on {run.data}, seed {run.seed}: {type(error).__name__}: {error}"
                    missing = isinstance(error, OSError | ImportError)  # a file or a package
                    pipe.send(OSError(what) if missing else RuntimeError(what))
