"""Map blocks of rows on one Python thread per core, with BLAS held to one thread while they run.

Sums are taken in the order of the blocks, so a result does not depend on the number of threads.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from optfair.errors import brief_repr

Result = TypeVar("Result")

# Rows of a block: long enough for vector operations, short enough for the cache (16 k to 32 k rows of 25 are flat,
# 8 k cost a quarter more, 64 k gain nothing).
BLOCK_ROWS, BLOCK_NUMBERS = 32_768, 1_048_576


def block_slices(n: int, width: int) -> list[slice]:
    """Return consecutive row slices of an array with ``width`` float32 numbers a row (count float64 twice)."""
    size = max(256, min(BLOCK_ROWS, BLOCK_NUMBERS // width))
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def n_threads(n_jobs: int | None) -> int:
    """Return the threads that ``n_jobs`` means: None or -1 are all cores this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if n_jobs is None or n_jobs == -1:
        return cores
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, (int, np.integer)) or n_jobs < 1:
        raise ValueError(f"n_jobs={brief_repr(n_jobs)}: must be None, -1 or a positive integer.")
    return int(n_jobs)


class _BlasLimit:
    """Counts the passes under way: the first one limits BLAS, the last one restores what it found.

    A thread of its own holds the limit, because threadpoolctl lets only the thread that set one take it back, and
    of several passes it need not be the first that ends last.
    """

    def __init__(self) -> None:
        self.controller: Any = None
        self.reset()
        if hasattr(os, "register_at_fork"):  # a child has neither the holder thread nor the passes that were under way
            os.register_at_fork(after_in_child=self.reset)

    def reset(self) -> None:
        self.lock = threading.Lock()
        self.users = 0
        self.holder: threading.Thread | None = None
        self.finished = threading.Event()

    def limit(self) -> Any:
        """Return a context manager that limits BLAS to one thread, as seen by the thread that enters it."""
        self.controller = self.controller or ThreadpoolController()
        return self.controller.limit(limits=1, user_api="blas")

    def _hold(self, ready: threading.Event, finished: threading.Event) -> None:
        try:
            with self.limit():
                ready.set()
                finished.wait()
        finally:
            ready.set()  # a limit that cannot be set must not stop the pass

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self.lock:
            if self.users == 0:
                ready, self.finished = threading.Event(), threading.Event()
                self.holder = threading.Thread(target=self._hold, args=(ready, self.finished), daemon=True)
                self.holder.start()
                ready.wait()
            self.users += 1
        try:
            yield
        finally:
            with self.lock:
                self.users -= 1
                if self.users == 0 and self.holder is not None:
                    self.finished.set()
                    self.holder.join()


one_blas_thread = _BlasLimit()


def map_blocks(function: Callable[[slice], Result], n: int, width: int, n_jobs: int | None = None) -> list[Result]:
    """Return ``[function(block) for block in blocks]``, in order, on ``n_jobs`` threads (None: all cores)."""
    blocks, threads = block_slices(n, width), n_threads(n_jobs)

    def run(block: slice) -> Result:
        with one_blas_thread.limit():  # for BLAS libraries whose limit is one of the calling thread
            return function(block)

    with one_blas_thread():
        if threads == 1 or len(blocks) <= 1:
            return [run(block) for block in blocks]
        with ThreadPoolExecutor(min(threads, len(blocks))) as pool:
            return list(pool.map(run, blocks))
