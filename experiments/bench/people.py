"""Write the data of a case to a folder, and read them in the processes that are measured, which may lack optfair."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from experiments.bench.worlds import World, make_posteriors
from experiments.timings.clock import synthetic_posteriors

TRAINING = 50_000  # other people of the same world, whom the fitted model was fitted on
COLUMNS = ("X", "a", "y")


def write_data(folder: Path, kind: str, n: int, A: int, m: int) -> None:
    """Write Z of n people, of a world or scattered, or their features, groups and classes."""
    if kind == "scattered":
        np.save(folder / "Z.npy", synthetic_posteriors(n, A, m))
        return
    if kind == "posteriors":
        Z = np.lib.format.open_memmap(folder / "Z.npy", "w+", np.float32, (n, A, m))
        make_posteriors(n, A, m, out=Z)
        Z.flush()
        return
    for name, array in zip(COLUMNS, World.of(A, m).people(n + TRAINING), strict=True):
        np.save(folder / f"{name}.npy", array.astype(np.float64) if name == "X" else array)  # as users have them


def load_people(folder: Path, *, group_in_X: bool = False, training: bool = False) -> tuple[np.ndarray, ...]:
    """Return X (n, d), a (n,) and y (n,) of the people, or of those that the fitted model was fitted on.

    group_in_X : as its last column.
    """
    part = slice(-TRAINING, None) if training else slice(-TRAINING)
    X, a, y = (np.load(folder / f"{name}.npy")[part] for name in COLUMNS)
    return (np.column_stack([X, a]) if group_in_X else X), a, y


def fitted_model(folder: Path, *, group_in_X: bool = False) -> Any:
    """Return logistic regression, fitted on other people."""
    X, _, y = load_people(folder, group_in_X=group_in_X, training=True)
    return LogisticRegression().fit(X, y)
