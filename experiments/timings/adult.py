"""Share what the timings on Adult and other real data need: arrays, scores, and the numbers of the released code."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from experiments.catalogue import published, read_data
from experiments.data_plan import DataPlan
from experiments.plan import Run
from experiments.splits import SplitData, load_split
from optfair.metrics import group_confusion

SEEDS = (1, 2, 3)
NEAR = 0.003  # a violation that is larger by at most so much counts as reached


def arrays(
    source: str, seed: int, split: str = "authors", rows: int | None = None, **options: Any
) -> tuple[SplitData, SplitData]:
    """Return (training, test) part of a data set, X as doubles. options : of `load`."""
    plan = DataPlan(source, source, (seed,), sources=[{"name": source}], split=split, rows=rows, arrays=True)
    parts = load_split(plan, Run(source, source, "", "dp", None, seed, rows=rows, load_arguments=options), Path())
    return parts.train, parts.test


def adult(seed: int) -> tuple[SplitData, SplitData]:
    """Return (training, test) part of Adult, in the split of the authors' code."""
    plan = read_data()["adult-arrays"]
    parts = load_split(plan, Run("adult-arrays", "adult", "", "dp", None, seed), Path())
    return parts.train, parts.test


def released(method: str) -> Iterator[tuple[str, float, float, float]]:
    """Yield (criterion, tolerance, accuracy, violation) of the released code, means of three seeds."""
    for entry in published()["released"][method].values():
        if isinstance(entry, dict):
            yield entry["criterion"], entry["value"], entry["accuracy"] / 100, entry["violation"]


def measured(predictions: Any, test: SplitData, classes: Any, criterion: str) -> dict[str, float]:
    """Return accuracy, violation and noise floor of labels or probabilities."""
    confusion = group_confusion(test.y, predictions, sensitive_features=test.group, classes=classes)
    return {
        "accuracy": float(np.trace(confusion.tensor.sum(axis=0))),
        "violation": confusion.violation(criterion),
        "floor": confusion.noise_floor(criterion),
    }
