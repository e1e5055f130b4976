"""People in folders of Parquet files: writing them in pieces, and a threshold at which few rows stay in files."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from optfair import OptFairPost
from optfair.dual.settings import SETTINGS
from tests.estimators.helpers import make_people

N, SAMPLE = 4_000, 800
FEATURES = ["x1", "x2"]


def table_of_people(n=N, seed=0):
    """Return make_people with labels y, weights w, a key id and texts with gaps."""
    frame, y = make_people(n, seed)
    rng = np.random.default_rng(seed)
    code = np.where(frame["x1"] > 0.5, "high", np.where(rng.random(n) < 0.3, "low", "mid")).astype(object)
    code[rng.random(n) < 0.1] = None
    return frame.assign(code=code, y=y, w=rng.integers(1, 4, n).astype(float), id=np.arange(n))


def write_people(folder, table, n_files=3, group_rows=500, dictionaries=()):
    """Write a table as so many files. dictionaries : columns of categories, numbered in each file in another way."""
    pa = pytest.importorskip("pyarrow", reason="people are in Parquet files")
    pq = pytest.importorskip("pyarrow.parquet", reason="people are in Parquet files")
    folder.mkdir(parents=True)
    for k, rows in enumerate(np.array_split(np.arange(len(table)), n_files)):
        piece = table.iloc[rows]
        for name in dictionaries:
            levels = list(dict.fromkeys(piece[name].dropna()))
            piece = piece.assign(**{name: pd.Categorical(piece[name], categories=levels[:: -1 if k % 2 else 1])})
        pq.write_table(
            pa.Table.from_pandas(piece, preserve_index=False), folder / f"{k}.parquet", row_group_size=group_rows
        )
    return folder


def keep_in_files(monkeypatch):
    """Make few rows stay in files, with a sketch that is smaller than they are."""
    monkeypatch.setattr("optfair.storage.measure.SETTINGS", replace(SETTINGS, few_rows=0.01, sketch_rows=1_500))


PEOPLE = table_of_people()


def make_post(estimator=None, **options):
    """Return an OptFairPost with two folds and a seed."""
    base = LogisticRegression() if estimator is None else estimator
    return OptFairPost(base, **({"tolerance": 0.03, "cv": 2, "random_state": 0} | options))
