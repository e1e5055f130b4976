"""Time predictions of OptFairPost beside its base model, of many rows and of one, and commands that should be quick."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from experiments.timings.clock import one_thread
from optfair import OptFairPost

N_GROUPS, N_CLASSES, N_FEATURES, N_TRAIN = 4, 3, 30, 20_000
ROWS_FACTOR, ROWS_MS, ONE_ROW_MS = 3, 60, 0.8  # many rows: 3 · base + 60 ms; one row: base + 0.8 ms
COMMAND_SECONDS = {"--help": 0.25, "a mistyped column": 1.0, "one predicted row": 1.5}
CALLS = 200  # of one row, which is too short to be timed alone


def people(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return features, groups and classes of a multinomial logistic model whose features depend on the group."""
    rng = np.random.default_rng(seed)
    X, group = rng.normal(size=(n, N_FEATURES)), rng.integers(0, N_GROUPS, n)
    X[:, 0] += 0.5 * group
    X[:, 1] -= 0.7 * (group == 1)
    scores = 0.4 * X @ np.random.default_rng(1).normal(size=(N_FEATURES, N_CLASSES))
    scores += 0.3 * np.eye(N_CLASSES)[group % N_CLASSES]
    return X, group, (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)


def run(*, small: bool, repeat: int) -> None:
    """Print milliseconds of predictions, and seconds of commands, beside what they should take at most."""
    n_train, n = (2_000, 5_000) if small else (N_TRAIN, 100_000)
    with one_thread():
        _time_models(people(n_train), people(n, seed=2)[0], repeat)
    _time_commands(n_rows=2_000 if small else 100_000, repeat=repeat)


def _time_models(train: tuple[np.ndarray, np.ndarray, np.ndarray], X: np.ndarray, repeat: int) -> None:
    data, group, label = train
    linear, pipeline = LogisticRegression(), make_pipeline(StandardScaler(), LogisticRegression())
    cases: dict[str, tuple[Any, Any, dict[str, Any]]] = {
        "logistic": (linear, linear, {}),
        "scaler, logistic": (pipeline, pipeline, {}),
        "logistic, fitted": (FrozenEstimator(linear), linear, {}),
        "scaler, logistic, fitted": (FrozenEstimator(pipeline), pipeline, {}),
        "scaler, logistic, factored": (pipeline, pipeline, {"posterior": "factored"}),
    }
    print(f"{len(X):,} rows, ms | one row, ms (at most: {ROWS_FACTOR} · base + {ROWS_MS}; base + {ONE_ROW_MS})")
    for name, (estimator, base, options) in cases.items():
        base.fit(data, label)
        model = OptFairPost(estimator, tolerance=0.02, cv=3, random_state=0, **options)
        model.fit(data, label, sensitive_features=group)
        base_ms, fair_ms = _least_ms([lambda: base.predict_proba(X), lambda: model.predict(X)], repeat)  # noqa: B023
        one = X[:1]
        functions = [lambda: base.predict_proba(one), lambda: model.predict(one)]  # noqa: B023
        base_row_ms, fair_row_ms = _least_ms(functions, repeat, CALLS)
        limit = ROWS_FACTOR * base_ms + ROWS_MS
        print(
            f"  {name:<28} base {base_ms:6.1f}, fair {fair_ms:6.1f}, {fair_ms / limit:4.2f} of the limit | "
            f"base {base_row_ms:5.2f}, fair {fair_row_ms:5.2f}, {(fair_row_ms - base_row_ms) / ONE_ROW_MS:4.2f} of the "
            "limit",
            flush=True,
        )


def _least_ms(functions: list[Callable[[], Any]], repeat: int, calls: int = 1) -> list[float]:
    """Return the least milliseconds of the processor that a call of each takes; they take turns."""
    least = [float("inf")] * len(functions)
    for _ in range(repeat + 1):  # the first calls import and allocate
        for k, function in enumerate(functions):
            start = time.process_time()
            for _ in range(calls):
                function()
            least[k] = min(least[k], 1000 * (time.process_time() - start) / calls)
    return least


def _time_commands(n_rows: int, repeat: int) -> None:
    """Print the seconds of commands beside those of the imports that a prediction cannot do without."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        X, group, label = people(n_rows)
        table = pd.DataFrame(X, columns=[f"x{k}" for k in range(N_FEATURES)]).assign(g=group, y=label)
        table.to_csv(path / "table.csv", index=False)
        table.drop(columns=["g", "y"]).head(1).to_csv(path / "row.csv", index=False)
        model = OptFairPost(make_pipeline(StandardScaler(), LogisticRegression()), cv=3)
        model.fit(table.drop(columns=["g", "y"])[:2_000], label[:2_000], sensitive_features=group[:2_000])
        model.save(path / "model.skops")
        optfair = ["-m", "optfair"]
        commands = {
            "import pandas, sklearn.linear_model": ["-c", "import pandas, sklearn.linear_model"],
            "import skops.io too": ["-c", "import pandas, sklearn.linear_model, skops.io"],
            "--help": [*optfair, "--help"],
            "a mistyped column": [*optfair, "fit", "table.csv", "--label", "z", "--group", "g", "-o", "new.skops"],
            "one predicted row": [*optfair, "predict", "model.skops", "row.csv", "-o", "out.csv"],
        }
        size = (path / "table.csv").stat().st_size / 1e6
        print(f"commands, least seconds of {repeat} runs (the table has {size:.0f} MB)")
        for name, command in commands.items():
            seconds, processor = _command_seconds(command, path, repeat)
            limit = COMMAND_SECONDS.get(name)
            at_most = "" if limit is None else f", {processor / limit:4.2f} of the limit of {limit:g}"
            print(f"  {name:<36} {seconds:5.2f}, processor {processor:5.2f}{at_most}", flush=True)


def _command_seconds(command: list[str], folder: Path, repeat: int) -> tuple[float, float]:
    """Return the least seconds, and seconds of the processor, that Python takes with these arguments."""
    seconds, processor = [], []
    for _ in range(repeat):
        start, before = time.perf_counter(), os.times()
        subprocess.run([sys.executable, *command], cwd=folder, capture_output=True, check=False)
        after = os.times()
        seconds.append(time.perf_counter() - start)
        used = after.children_user + after.children_system - before.children_user - before.children_system
        processor.append(used)
    return min(seconds), min(processor)
