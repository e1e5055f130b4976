"""Measure wall-clock and processor seconds of a task, and score decisions, with NumPy alone: peers are measured too."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np


@contextmanager
def measured() -> Iterator[dict[str, float]]:
    """Fill a dict with wall-clock ``seconds`` and ``cpu`` seconds, of all threads and of processes that have ended."""
    result: dict[str, float] = {}
    processor, wall = _processor_seconds(), time.perf_counter()
    yield result
    result["seconds"] = time.perf_counter() - wall
    result["cpu"] = _processor_seconds() - processor


def _processor_seconds() -> float:
    if "joblib.externals.loky" in sys.modules:  # the system counts the seconds of processes once they have ended
        sys.modules["joblib.externals.loky"].get_reusable_executor().shutdown(wait=True)
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


def scores(prediction: np.ndarray, a: np.ndarray, y: np.ndarray, criterion: str) -> dict[str, float]:
    """Return accuracy and violation, max |rate of a group − overall rate|, of decisions by their labels."""
    violation = 0.0
    for part in [np.ones(len(y), bool)] if criterion == "dp" else [y == i for i in np.unique(y)]:
        for j in np.unique(y):
            hit = prediction[part] == j
            totals = np.bincount(a[part], hit), np.bincount(a[part])
            violation = max(violation, float(np.abs(totals[0] / totals[1] - hit.mean()).max()))
    return {"accuracy": float((prediction == y).mean()), "violation": violation}
