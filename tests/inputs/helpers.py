"""Tables in many containers, the byte format of a row written out a second time, and training data."""

import importlib.util
import struct

import numpy as np
import pandas as pd
import pytest

from optfair.inputs.training_data import TrainingData

N_GROUPS, N_CLASSES = 2, 3
NEEDS_POLARS = pytest.mark.skipif(importlib.util.find_spec("polars") is None, reason="polars is not installed")
NEEDS_PYARROW = pytest.mark.skipif(importlib.util.find_spec("pyarrow") is None, reason="pyarrow is not installed")
NAN = struct.pack("<d", float("nan"))
SPARSE_FORMATS = ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"]


def as_columns(rows, names):
    """Return {name: values}; the names are c0, c1, ... by default."""
    names = names or [f"c{k}" for k in range(len(rows[0]))]
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def to_polars(rows, names=None):
    """Return rows as a polars frame."""
    import polars as pl

    return pl.DataFrame(as_columns(rows, names))


def to_pandas(rows, names=None):
    """Return rows as a pandas frame."""
    return pd.DataFrame(as_columns(rows, names))


def to_objects(rows):
    """Return rows as a 2-d array of Python objects."""
    array = np.empty((len(rows), len(rows[0])), dtype=object)
    for place in np.ndindex(array.shape):
        array[place] = rows[place[0]][place[1]]
    return array


def expected_bytes(rows):
    """Return the bytes of each row, cell by cell, from the description of the format (numbers, missing and text)."""

    def cell(value):
        if value is None or value == "":
            return NAN
        if isinstance(value, str):
            return b"s" + struct.pack("<q", len(value.encode())) + value.encode()
        return NAN if value != value else struct.pack("<d", value + 0.0)

    return [b"".join(map(cell, row)) for row in rows]


def gather(X, a, y, weight=None, positions=None, n_given=None):
    """Return training data with the codes a and y; all given rows are present by default."""
    positions = np.arange(len(a)) if positions is None else positions
    n_given = len(a) if n_given is None else n_given
    names = pd.RangeIndex(N_GROUPS), np.arange(N_CLASSES)
    return TrainingData(X, a, y, weight, *names, positions, n_given)


def random_data(seed=0, n=240, weighted=False):
    """Return training data whose X depends on both codes; every cell has rows."""
    rng = np.random.default_rng(seed)
    a, y = rng.integers(0, N_GROUPS, n), rng.integers(0, N_CLASSES, n)
    X = rng.normal(size=(n, 3)) + np.column_stack([a, y, a * y])
    return gather(X, a, y, rng.integers(1, 4, n).astype(float) if weighted else None)
