"""Measure seconds and memory of a call, hold libraries to one thread, and make synthetic posteriors."""

from __future__ import annotations

import ctypes
import gc
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits


def best_seconds(function: Callable[[], Any], repeat: int) -> tuple[float, Any]:
    """Return (best seconds of ``repeat`` calls, the last result)."""
    times, result = [], None
    for _ in range(repeat):
        start = time.perf_counter()
        result = function()
        times.append(time.perf_counter() - start)
    return min(times), result


@contextmanager
def one_thread(torch: Any = None) -> Iterator[None]:
    """Hold BLAS and OpenMP to one thread, and torch where it is given, and print so.

    For processor seconds: threads that wait for each other spin, and would be counted.
    """
    print(f"processor seconds; BLAS{' and torch have' if torch else ' has'} one thread")
    before = torch and torch.get_num_threads()
    with threadpool_limits(1):
        try:
            if torch:
                torch.set_num_threads(1)
            yield
        finally:
            if torch:
                torch.set_num_threads(before)


def peak_memory(function: Callable[[], object]) -> float:
    """Return the peak of RssAnon above its value before, in bytes, sampled every 2 ms; NaN without /proc."""

    def resident() -> float:
        try:
            lines = Path("/proc/self/status").read_text().splitlines()
        except OSError:
            return float("nan")
        return next(float(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))

    gc.collect()
    if hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
        libc.malloc_trim(0)  # else memory that earlier runs left with the allocator would hide the peak
    base, peak, finished = resident(), [0.0], threading.Event()

    def watch() -> None:
        while not finished.wait(0.002):
            peak[0] = max(peak[0], resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    function()
    finished.set()
    watcher.join()
    return peak[0] - base


def synthetic_posteriors(n: int, A: int, m: int, seed: int = 0) -> np.ndarray:
    """Return Z (n, A, m) float32 of a multinomial logistic model of six Gaussian features."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n, 6), dtype=np.float32) @ (0.75 * rng.standard_normal((6, A * m))).astype(np.float32)
    Z += 0.5 * rng.standard_normal(A * m).astype(np.float32)
    Z -= Z.max(axis=1, keepdims=True)
    np.exp(Z, out=Z)
    Z /= Z.sum(axis=1, keepdims=True)
    return Z.reshape(n, A, m)
