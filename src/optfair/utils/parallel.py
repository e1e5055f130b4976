"""Use the cores of the machine: how many a call may use, and blocks of rows on as many threads.

Sums are taken in the order of the blocks, so a result does not depend on the number of threads.
"""

from __future__ import annotations

import functools
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar, cast

from joblib import cpu_count
from joblib.parallel import get_active_backend

from optfair.utils.checks import check_n_jobs
from optfair.utils.thread_limits import one_blas_thread, openmp_limit

__all__ = [
    "block_slices",
    "cores",
    "map_blocks",
    "map_items",
    "n_threads",
    "one_blas_thread",
    "spare_cores",
    "uses_cores",
]

Item = TypeVar("Item")
Result = TypeVar("Result")
Function = TypeVar("Function", bound=Callable[..., Any])

# Rows of a block: long enough for vector operations, short enough for the cache (16 k to 32 k rows of 25 are flat,
# 8 k cost a quarter more, 64 k gain nothing).
BLOCK_ROWS, BLOCK_NUMBERS = 32_768, 1_048_576

_CORES: ContextVar[int | None] = ContextVar("cores", default=None)  # of the call under way, where that was said


# -- cores -------------------------------------------------------------------------------------------------
def n_threads(n_jobs: int | None) -> int:
    """Return how many cores ``n_jobs`` means; negative numbers count back from all, so that -1 is all of them.

    None: those of the call under way, if it was told; in a worker of joblib, or where `joblib.parallel_config` says so,
    what joblib gives; else all cores that this process may use, or $OMP_NUM_THREADS of them.
    """
    n_jobs = check_n_jobs(n_jobs)
    if n_jobs is None:
        n_jobs = _CORES.get() or _default_jobs()
    return n_jobs if n_jobs > 0 else max(1, _available_cores() + 1 + n_jobs)


def _default_jobs() -> int:
    backend, n_jobs = get_active_backend()
    if n_jobs is not None:
        return int(n_jobs)
    limit = os.environ.get("OMP_NUM_THREADS", "")  # joblib sets it in its processes, to their share of the cores
    if limit.isdecimal() and int(limit) > 0:
        return min(int(limit), _available_cores())
    return 1 if (backend.nesting_level or 0) > 0 else -1


def _available_cores() -> int:
    """Return the cores that this process may use, by affinity and by the limits of its container."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(affinity, _cpu_count())


_cpu_count = functools.cache(cpu_count)  # it reads files, which takes longer than a small block


def spare_cores() -> int:
    """Return the cores for threads that wait for each other, of OpenMP: one is left to other programs.

    A thread that has lost its core holds up all the others, which spin meanwhile. On two cores that other programs used
    too, boosting took 1.8 to 28 times the processor seconds of one thread (median 6); on idle ones it was 1.27 times as
    fast.
    """
    return min(n_threads(None), max(1, _available_cores() - 1))


@contextmanager
def cores(n_jobs: int | None) -> Iterator[int]:
    """Let everything inside use ``n_jobs`` cores where it is not told otherwise; one: neither BLAS nor OpenMP more."""
    number = n_threads(n_jobs)
    if number == _CORES.get():
        yield number
        return
    token = _CORES.set(number)
    try:
        if number > 1:
            yield number
        else:
            with one_blas_thread(), openmp_limit(1):
                yield number
    finally:
        _CORES.reset(token)


def uses_cores(function: Function) -> Function:
    """Make a call, with all that it calls, use as many cores as its keyword ``n_jobs``, or ``self.n_jobs``, says."""

    @functools.wraps(function)
    def limited(*args: Any, **kwargs: Any) -> Any:
        n_jobs = kwargs["n_jobs"] if "n_jobs" in kwargs else getattr(args[0], "n_jobs", None) if args else None
        with cores(n_jobs):
            return function(*args, **kwargs)

    return cast(Function, limited)


# -- blocks of rows ----------------------------------------------------------------------------------------
def block_slices(n: int, width: int) -> list[slice]:
    """Return consecutive row slices of an array with ``width`` float32 numbers a row (count float64 twice)."""
    size = max(256, min(BLOCK_ROWS, BLOCK_NUMBERS // width))
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def map_blocks(function: Callable[[slice], Result], n: int, width: int, n_jobs: int | None = None) -> list[Result]:
    """Return ``[function(block) for block in blocks]``, in order, on as many threads as `n_threads` says."""
    return map_items(function, block_slices(n, width), n_jobs)


def map_items(function: Callable[[Item], Result], items: Sequence[Item], n_jobs: int | None = None) -> list[Result]:
    """Return ``[function(item) for item in items]``, in order, on as many threads as `n_threads` says."""
    several = len(items) > 1 or n_jobs is not None  # else the number of cores need not be found out
    threads = min(n_threads(n_jobs), len(items)) if several else 1
    with one_blas_thread:
        return [function(item) for item in items] if threads <= 1 else _share(function, items, threads)


def _share(function: Callable[[Item], Result], items: Sequence[Item], threads: int) -> list[Result]:
    """Map the items on this thread and ``threads − 1`` others; raise the error of the first item that has one.

    This thread works too, so that it never waits for one that is busy elsewhere.
    """
    open_items = deque(enumerate(items))
    results: dict[int, Result] = {}
    errors: dict[int, BaseException] = {}

    def work() -> None:
        token = _CORES.set(1)  # for passes within a block
        try:
            with one_blas_thread:  # for BLAS libraries whose limit is one of the calling thread
                for index, item in _drain(open_items):
                    try:
                        results[index] = function(item)
                    except BaseException as error:
                        errors[index] = error
                        open_items.clear()
        finally:
            _CORES.reset(token)

    helpers = [_POOL.executor.submit(copy_context().run, work) for _ in range(threads - 1)]
    try:
        work()
    finally:
        open_items.clear()
        wait([helper for helper in helpers if not helper.cancel()])
    if errors:
        raise errors[min(errors)]
    return [results[index] for index in range(len(items))]


def _drain(items: deque[Result]) -> Iterator[Result]:
    """Yield items, each to one of the threads that drain the same queue."""
    while True:
        try:
            item = items.popleft()
        except IndexError:
            return
        yield item


class _Pool:
    """Threads that are started when they are needed and kept: to start them takes longer than many a pass."""

    LARGEST = 256  # threads in all, whoever asks

    def __init__(self) -> None:
        self.reset()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.reset)

    def reset(self) -> None:
        """Begin without threads: a forked child does not have those of its parent."""
        self.executor = ThreadPoolExecutor(self.LARGEST, thread_name_prefix="optfair")


_POOL = _Pool()
