"""The splits of the benchmarks, and their data as arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from optfair.datasets import load

# What the committed results call the data sets of `load`.
NAMES = {"adult": "adult", "enem": "enem-2019", "acs_government": "acs-government", "acs_education": "acs-education"}


class Arrays(NamedTuple):
    """Features (n, d) float64, labels (n,) and groups (n,) of one task."""

    X: np.ndarray
    y: np.ndarray
    group: np.ndarray


def arrays(name: str, rows: int | None = None, seed: int = 0) -> Arrays:
    """A data set by its name in NAMES, or a random sample of it, with the columns of the whole."""
    data = load(NAMES[name], rows=rows, random_state=seed)
    # float64 whatever `load` chose: solvers compute in the precision they are given.
    return Arrays(data.X.to_numpy(dtype=float), data.y.to_numpy(dtype=str), data.sensitive_features.to_numpy(dtype=str))


def authors_split(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(train, test) indices of the authors' code: 60/40, not stratified, numpy's legacy stream at 1 + seed."""
    order = np.random.RandomState(1 + seed).permutation(n)  # their generator, on purpose
    return order[: int(0.6 * n)], order[int(0.6 * n) :]


def random_split(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(train, test) indices of a random 60/40 split."""
    order = np.random.default_rng(seed).permutation(n)
    return order[: int(0.6 * n)], order[int(0.6 * n) :]
