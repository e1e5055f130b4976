"""Measure a fit on all cores beside one on a single core, alone and beside processes that spin."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from experiments.timings.internals import n_threads
from optfair import OptFairPost
from optfair.datasets import load

SPINNING = 2  # processes beside the fit that always want a core
SMALL_ROWS = 3_000
MODELS = {
    "logistic": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
    "boosted": HistGradientBoostingClassifier(max_iter=10, random_state=0),
}
Seconds = tuple[float, float]  # of all threads of this process together, and of the clock on the wall


def run(*, small: bool, repeat: int) -> None:
    """Print processor and wall seconds of `OptFairPost.fit` on Adult; medians of ``repeat`` calls, in turn."""
    X, y, groups = _adult(SMALL_ROWS if small else None)
    print(f"{len(y)} rows of Adult, {n_threads(-1)} cores; processor / wall seconds (processor, over n_jobs=1)")
    for n_processes in (0, SPINNING):
        for name, model in MODELS.items():
            with spinning(n_processes):
                seconds = in_turn(_fits(model, X, y, groups), repeat)
            one = seconds["n_jobs=1"][0]
            texts = [f"{key} {cpu:.1f} / {wall:.1f} ({cpu / one:.2f})" for key, (cpu, wall) in seconds.items()]
            print(f"{name}, {n_processes} spinning processes: {'; '.join(texts)}", flush=True)


def busy_ratio(repeat: int = 3, rows: int | None = None) -> float:
    """Return processor seconds of a default fit (Adult, logistic, processes that spin) over those of n_jobs=1."""
    X, y, groups = _adult(rows)
    with spinning(SPINNING):
        seconds = in_turn(_fits(None, X, y, groups), repeat)
    return seconds["n_jobs=None"][0] / seconds["n_jobs=1"][0]


def _adult(rows: int | None) -> tuple[Any, Any, Any]:
    data = load("adult")
    return data.X[:rows], data.y[:rows], data.sensitive_features[:rows]


def _fits(model: Any, X: Any, y: Any, groups: Any) -> dict[str, Callable[[], object]]:
    """Return the fits to compare, by name."""

    def fit(n_jobs: int | None) -> object:
        return OptFairPost(model, n_jobs=n_jobs, random_state=0).fit(X, y, sensitive_features=groups)

    return {"n_jobs=None": lambda: fit(None), "n_jobs=1": lambda: fit(1)}


def in_turn(functions: dict[str, Callable[[], object]], repeat: int) -> dict[str, Seconds]:
    """Return the median seconds of each function, called one after the other, ``repeat`` times."""
    times: dict[str, list[Seconds]] = {name: [] for name in functions}
    for _ in range(repeat):
        for name, function in functions.items():
            cpu, wall = time.process_time(), time.perf_counter()
            function()
            times[name].append((time.process_time() - cpu, time.perf_counter() - wall))
    columns = {name: tuple(zip(*values, strict=True)) for name, values in times.items()}
    return {name: (median(cpu), median(wall)) for name, (cpu, wall) in columns.items()}


@contextmanager
def spinning(n_processes: int) -> Iterator[None]:
    """Keep processes beside this one that do nothing, as fast as they can."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(n_processes)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()
