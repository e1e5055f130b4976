"""Describe the columns that a model reads: for whoever asks it, for forms and examples, and for rows that are made up.

What is kept tells nothing of single people: texts that ten rows share, and quantiles of numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from optfair.inputs.cells import holds_empty, is_number, value_type
from optfair.inputs.containers import layout_of, take_rows, width_of
from optfair.inputs.frames import polars_frame
from optfair.inputs.schema import MIN_LEVEL_COUNT

INTEGER, NUMBER, BOOLEAN, TEXT, OTHER = "integer", "number", "boolean", "text", "other"
SAMPLE_ROWS = 5_000  # evenly spaced; quantiles and common texts need no more
MIN_ROWS = 100  # of a column, for its quantiles to be of several people each
RANGE = (0.05, 0.95)
MAX_LEVELS = 20  # texts that are kept
MAX_COLUMNS = 2_000  # of wider tables nobody reads a description
_OBJECT_KINDS = {"string": TEXT, "boolean": BOOLEAN, "integer": INTEGER, "floating": NUMBER, "decimal": NUMBER}


@dataclass(frozen=True)
class Feature:
    """A column that a model reads.

    name : None in an array. kind : "integer", "number", "boolean", "text" or "other". levels : texts that at least ten
    rows share, the commonest first. low, high : where nine of ten numbers are, or None. has_gaps : whether values were
    missing.
    """

    name: str | None
    kind: str
    levels: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    has_gaps: bool = False


def describe_features(X: Any) -> tuple[Feature, ...]:
    """Return one description per column of a table that a model is fitted on; none of images and data sets."""
    layout = layout_of(X)
    if layout == "dataset" or len(getattr(X, "shape", ())) > 2:
        return ()
    if layout != "flat" and width_of(X, layout) > MAX_COLUMNS:
        return ()
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    rows = take_rows(X, np.linspace(0, n - 1, min(n, SAMPLE_ROWS)).astype(np.intp))
    frame = _as_frame(rows, layout)
    has_names = layout in ("pandas", "polars") and all(isinstance(name, str) for name in frame.columns)
    names: Sequence[str | None] = list(frame.columns) if has_names else [None] * frame.shape[1]
    return tuple(_describe(frame.iloc[:, k], name) for k, name in enumerate(names))


def feature_frame(features: Sequence[Feature]) -> pd.DataFrame:
    """Return descriptions as a table, one line per column."""
    lines = [(f.name, f.kind, f.low, f.high, f.has_gaps, list(f.levels)) for f in features]
    return pd.DataFrame(lines, columns=["name", "kind", "low", "high", "has_gaps", "levels"])


def _as_frame(rows: Any, layout: str) -> pd.DataFrame:
    if layout == "pandas":
        frame: pd.DataFrame = rows
        return frame
    if layout == "polars":
        return polars_frame(rows)
    if layout == "sparse":
        return pd.DataFrame(sparse.csr_array(rows).toarray())
    if layout == "rows":
        return pd.DataFrame(list(map(list, rows)))
    return pd.DataFrame({0: list(rows)}) if layout == "flat" else pd.DataFrame(np.asarray(rows))


def _describe(column: pd.Series, name: str | None) -> Feature:
    has_gaps = bool(column.isna().any())
    values = column.dropna()
    kind = _kind(values)
    if kind == TEXT:
        texts = values.astype(str)
        has_gaps |= holds_empty(texts)
        counts = texts[texts != ""].value_counts()
        levels = counts[counts >= MIN_LEVEL_COUNT].index.tolist()[:MAX_LEVELS]
        return Feature(name, kind, tuple(map(str, levels)), has_gaps=has_gaps)
    if kind not in (INTEGER, NUMBER) or len(values) < MIN_ROWS:
        return Feature(name, kind, has_gaps=has_gaps)
    numbers = values.to_numpy(dtype=np.float64)
    low, high = np.quantile(numbers[np.isfinite(numbers)], RANGE) if np.isfinite(numbers).any() else (0.0, 1.0)
    return Feature(name, kind, (), _rounded(low), _rounded(high), has_gaps)


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")  # a range, not somebody's number


def _kind(values: pd.Series) -> str:
    dtype = values.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return _kind(pd.Series(dtype.categories))
    if pd.api.types.is_bool_dtype(dtype):
        return BOOLEAN
    if is_number(values):
        numbers = values.to_numpy(dtype=np.float64)
        return INTEGER if len(numbers) and (numbers == np.round(numbers)).all() else NUMBER
    if pd.api.types.is_string_dtype(dtype) and dtype.kind != "O":
        return TEXT
    return _OBJECT_KINDS.get(value_type(values), OTHER)
