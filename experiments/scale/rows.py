"""Write the rows that are measured: posteriors of five groups and five classes, and answers with their true classes."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from optfair.errors import need_extra

GROUPS, CLASSES = ("a", "b", "c", "d", "e"), ("v", "w", "x", "y", "z")
CELLS = [f"z_{group}_{name}" for group in GROUPS for name in CLASSES]
ANSWERS = ["group", "label", "prediction"]
FILE_ROWS, ROW_GROUP = 2_000_000, 500_000
N_FEATURES = 6


def write_rows(folder: Path, n: int, seed: int = 0) -> None:
    """Write n rows, file by file, so that no more than one file is in memory; a folder that is whole is left alone."""
    complete = folder / "_SUCCESS"
    if complete.exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    arrow, parquet = need_extra("pyarrow", "scale"), need_extra("pyarrow.parquet", "scale")
    for k, start in enumerate(range(0, n, FILE_ROWS)):
        columns = make_rows(min(FILE_ROWS, n - start), np.random.default_rng([seed, k]))
        parquet.write_table(arrow.table(columns), folder / f"{k:05d}.parquet", row_group_size=ROW_GROUP)
    complete.touch()


def make_rows(n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return columns of n rows: Z by a multinomial logistic model of Gaussian features, and draws from it."""
    world = np.random.default_rng(1)  # the same in every file
    weights = 0.75 * world.standard_normal((N_FEATURES, len(CELLS)))
    intercept = 0.5 * world.standard_normal(len(CELLS))
    Z = rng.standard_normal((n, N_FEATURES), dtype=np.float32) @ weights.astype(np.float32)
    Z += intercept.astype(np.float32)
    Z -= Z.max(axis=1, keepdims=True)
    np.exp(Z, out=Z)
    Z /= Z.sum(axis=1, keepdims=True)
    total = np.cumsum(Z, axis=1)
    cell = (rng.random((n, 1), dtype=np.float32) * total[:, -1:] > total).sum(axis=1)
    group, label = np.divmod(np.minimum(cell, len(CELLS) - 1), len(CLASSES))
    prediction = Z.reshape(n, len(GROUPS), len(CLASSES)).sum(axis=1).argmax(axis=1)
    columns = {name: np.ascontiguousarray(Z[:, k]) for k, name in enumerate(CELLS)}
    names = {"group": (GROUPS, group), "label": (CLASSES, label), "prediction": (CLASSES, prediction)}
    return columns | {name: np.array(values)[codes] for name, (values, codes) in names.items()}
