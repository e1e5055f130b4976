"""Make rows of nobody, to test exported models with: in the range of the rows fitted on, and a little beyond."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from optfair.inputs.feature_schema import BOOLEAN, INTEGER, NUMBER, TEXT, Feature
from optfair.inputs.labels import MISSING
from optfair.inputs.score_columns import ScoreColumns

N_ROWS = 2_000  # of which a few are chosen
GAPS, STRANGERS = 0.1, 0.05  # shares of missing values, where there were any, and of texts that nobody had
BEYOND = 0.25  # of the range, on both sides


def example_rows(model: Any, n: int = N_ROWS, seed: int = 0, *, strangers: bool = True) -> Any:
    """Return rows such as a classifier was fitted on, (n, d): a data frame where it knows columns by name.

    strangers : whether some texts are such as nobody had.
    """
    rng = np.random.default_rng(seed)
    features: Sequence[Feature] = model._features
    if not features:
        return rng.standard_normal((n, int(getattr(model, "n_features_in_", 1))))
    columns = [example_column(feature, n, rng, strangers=strangers) for feature in features]
    if model._form.names:
        frame = pd.DataFrame(dict(zip(model._form.names, columns, strict=True)))
        return _with_groups(model, _with_scores(model, frame, rng), rng)
    if model._form.layout == "flat":
        return columns[0]
    kinds = {feature.kind for feature in features}
    return np.column_stack(columns).astype(np.float64 if kinds <= {BOOLEAN, INTEGER, NUMBER} else object)


def _with_groups(model: Any, frame: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Return a table whose sensitive columns hold groups that the model knows, where it reads them there."""
    source = model.sensitive_features
    names = source if isinstance(source, list) else [source]
    if model.awareness == "aware" and all(isinstance(name, str) for name in names):
        frame[names] = _group_frame(model, len(frame), rng).to_numpy()
    return frame


def _with_scores(model: Any, frame: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Return a table whose columns of probabilities sum to one, where a model reads them there."""
    inner = getattr(getattr(getattr(model, "posterior_model_", None), "classes", None), "model", None)
    if isinstance(inner, ScoreColumns):
        frame[list(inner.columns)] = rng.dirichlet(np.full(len(inner.columns), 0.7), len(frame))
    return frame


def example_column(feature: Feature, n: int, rng: np.random.Generator, *, strangers: bool = True) -> np.ndarray:
    """Return values of a column, (n,)."""
    values: np.ndarray
    if feature.kind == BOOLEAN:
        values = rng.random(n) < 0.5
    elif feature.kind in (INTEGER, NUMBER):
        low, high = (-2.0, 2.0) if feature.low is None or feature.high is None else (feature.low, feature.high)
        room = BEYOND * (high - low)
        values = rng.uniform(low - room, high + room, n)
        values = np.round(values) if feature.kind == INTEGER else values
    else:
        levels = np.array([*feature.levels, "text"] if feature.kind == TEXT else ["text"], dtype=object)
        unknown_share = STRANGERS if strangers or len(levels) == 1 else 0.0
        share = np.append(np.full(len(levels) - 1, (1 - unknown_share) / max(len(levels) - 1, 1)), unknown_share)
        values = rng.choice(levels, n, p=share / share.sum())
    if feature.has_gaps:
        values = values.astype(object)
        values[rng.random(n) < GAPS] = None
        if feature.kind != TEXT:
            values = pd.Series(values).astype(float).to_numpy()
    return values


def example_groups(model: Any, n: int, seed: int = 0) -> Any:
    """Return groups of rows, as `predict` of an aware classifier takes them; None where it does not."""
    if not model._asks_for_groups():
        return None
    frame = _group_frame(model, n, np.random.default_rng(seed + 1))
    return frame if frame.shape[1] > 1 else frame.iloc[:, 0]


def _group_frame(model: Any, n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Return groups that a classifier knows, a column for each attribute; a group of missing ones is missing."""
    frame = model.groups_[rng.integers(len(model.groups_), size=n)].to_frame(index=False)
    return frame.where(frame != MISSING, None) if model.missing == "group" else frame
