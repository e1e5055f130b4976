"""Load the rows of a run and split them into training and test part: the paper's 60/40 split, for one seed.

part "test"         train = 60 %, test = the other 40 %
part "validation"   train = the first three quarters of those 60 %, test = the fourth: no row of the test part
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.data_plan import SYNTHETIC, DataPlan
from experiments.features import frozen_features
from experiments.plan import Run
from optfair.datasets import load, make_fair_classification

TRAIN_SHARE, VALIDATION_SHARE = 0.6, 0.25
SMOKE_SIZE = 16  # of images
MAX_VALUES = 10  # of an attribute; numbers with more are cut into thirds
SMOKE_SYNTHETIC: dict[str, Any] = {"n_features": 192, "n_classes": 4, "n_groups": 2, "random_state": 0}


@dataclass(frozen=True, eq=False)
class SplitData:
    """X, y (n,) and group (n,) of one part; names as text. attributes : a column each, where groups are crossed."""

    X: Any
    y: np.ndarray
    group: np.ndarray
    attributes: pd.DataFrame | None = None


@dataclass(frozen=True, eq=False)
class TrainTestSplit:
    """stand_in : what the data stand in for, or None. world : the truth, of synthetic data."""

    train: SplitData
    test: SplitData
    stand_in: str | None
    world: Any = None


def load_split(plan: DataPlan, run: Run, cache: Path) -> TrainTestSplit:
    """Return the data of a run. cache : folder of what is kept between runs (features of networks)."""
    if plan.synthetic is not None:
        return _synthetic_split(plan, run)
    sample = None if run.rows is None else (run.rows, run.seed if plan.rows else 0)
    X, y, group, stand_in = _load(json.dumps(_load_request(plan, run)), sample)
    train, test = _parts(_order(plan, run.seed, len(y)), plan.train_share or TRAIN_SHARE, run.part)
    if plan.features_of:
        X = frozen_features(run, X, y, train, cache)
    table, X = X, _as_arrays(X) if plan.arrays else X
    crossed = _cross(group, table, plan.crossed) if plan.crossed else None
    train_data, test_data = (
        SplitData(
            X.iloc[rows] if hasattr(X, "iloc") else X[rows],
            y[rows],
            group[rows],
            None if crossed is None else crossed.iloc[rows],
        )
        for rows in (train, test)
    )
    return TrainTestSplit(train_data, test_data, stand_in)


def _order(plan: DataPlan, seed: int, n: int) -> np.ndarray:
    if plan.split == "random":
        return np.random.default_rng(seed).permutation(n)
    return np.random.RandomState(1 + seed).permutation(n)  # the generator of the authors' code


def _parts(order: np.ndarray, share: float, part: str) -> tuple[np.ndarray, np.ndarray]:
    cut = int(share * len(order))
    if part == "test":
        return order[:cut], order[cut:]
    first = int((1 - VALIDATION_SHARE) * cut)
    return order[:first], order[first:cut]


def _load_request(plan: DataPlan, run: Run) -> dict[str, Any]:
    if run.source == SYNTHETIC:  # as a table, or as images
        return {"name": SYNTHETIC, "images": any(source.get("images", False) for source in plan.sources)}
    request = {"name": run.source, "single": not plan.arrays, **run.load_arguments}
    return request | ({"size": SMOKE_SIZE} if run.rows and "size" in request else {})


@lru_cache(maxsize=2)
def _load(request: str, sample: tuple[int, int] | None) -> tuple[Any, np.ndarray, np.ndarray, str | None]:
    """Return (X, y, group, what they stand in for) in the order of the source. sample : (rows, seed), or None."""
    arguments = json.loads(request)
    name, images = arguments.pop("name"), arguments.get("images", False)
    if name == SYNTHETIC:
        synthetic = make_fair_classification(1_000 if sample is None else sample[0], **SMOKE_SYNTHETIC)
        X = synthetic.X.to_numpy(np.float32).reshape(-1, 3, 8, 8) if images else synthetic.X
        return X, _text(synthetic.y), _text(synthetic.sensitive_features), SYNTHETIC
    single = arguments.pop("single")
    if "sensitive" in arguments:
        arguments["sensitive"] = tuple(arguments["sensitive"])
    if sample is not None:
        arguments |= {"rows": sample[0], "random_state": sample[1]}
    data = load(name, download=False, **arguments)
    X = _pixels(data.X) if images else data.X.astype(np.float32) if single else data.X
    return X, _text(data.y), _text(data.sensitive_features), data.stand_in


def _cross(group: np.ndarray, table: pd.DataFrame, crossed: Mapping[str, str]) -> pd.DataFrame:
    """Return the group and further attributes, made of columns of X: their values, or thirds of a number."""
    attributes = {"group": group}
    for name, column in crossed.items():
        values = table[column].to_numpy() if column in table else np.zeros(len(group))  # synthetic data have none
        if len(np.unique(values)) > MAX_VALUES:
            values = np.searchsorted(np.quantile(values, [1 / 3, 2 / 3]), values)
        attributes[name] = values.astype(str)
    return pd.DataFrame(attributes)


def _as_arrays(X: Any) -> np.ndarray:
    """Return doubles, whatever `load` chose: solvers compute in the precision of X."""
    return X.to_numpy(dtype=float) if hasattr(X, "to_numpy") else X


def _text(values: pd.Series | pd.DataFrame) -> np.ndarray:
    """Return one name per row; of several attributes "a × b"."""
    if isinstance(values, pd.DataFrame):
        return np.array([" × ".join(map(str, row)) for row in values.itertuples(index=False)])
    return values.to_numpy(dtype=str)


def _pixels(images: Any) -> np.ndarray:
    """Return (n, 3, size, size) float32, normalised."""
    from optfair.nn.images import normalise

    return np.stack([normalise(images.picture(row)).numpy() for row in range(len(images))])


def _synthetic_split(plan: DataPlan, run: Run) -> TrainTestSplit:
    """Return halves of synthetic data; for the validation part, a part of the first half."""
    arguments = dict(plan.synthetic or {})
    arguments["n_samples"] = min(arguments["n_samples"], run.rows or arguments["n_samples"])
    data = make_fair_classification(**arguments, random_state=run.seed)
    parts = [data.take(rows) for rows in _parts(np.arange(len(data)), 0.5, run.part)]
    train, test = (
        SplitData(_as_arrays(part.X) if plan.arrays else part.X, _text(part.y), _text(part.sensitive_features))
        for part in parts
    )
    return TrainTestSplit(train, test, None, data.world)
