"""Turn columns of a source into features, classes and groups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

FIFTHS = ("1st fifth", "2nd fifth", "3rd fifth", "4th fifth", "5th fifth")  # their order is the alphabetical one


def encode_table(
    frame: pd.DataFrame,
    levels: Sequence[str],
    rows: np.ndarray,
    *,
    dtype: Any = np.float64,
    drop_last: Iterable[str] = (),
) -> pd.DataFrame:
    """Return x = (numbers, 1[column = level] for every level): the columns `levels` one-hot, after the others.

    The levels are those of the whole frame, sorted, so that every sample of `rows` has the same columns. drop_last :
    columns whose last level has no indicator.   -> (len(rows), d), named "column" or "column=level"
    """
    numbers = [column for column in frame if column not in levels]
    factors = {column: _factorize(frame[column]) for column in levels}
    indicators = {column: names[:-1] if column in drop_last else names for column, (_, names) in factors.items()}
    values = np.zeros((len(rows), len(numbers) + sum(map(len, indicators.values()))), dtype=dtype)
    for position, column in enumerate(numbers):
        values[:, position] = frame[column].to_numpy()[rows]
    start = len(numbers)
    for column, names in indicators.items():
        codes = factors[column][0][rows]
        for code in range(len(names)):
            values[:, start + code] = codes == code
        start += len(names)
    columns = [f"{column}={name}" for column, names in indicators.items() for name in names]
    return pd.DataFrame(values, columns=[*numbers, *columns])


def _factorize(column: pd.Series) -> tuple[np.ndarray, list[Any]]:
    """Return codes in 0..L−1 and the L levels that occur, sorted; whole numbers are named without a decimal point."""
    codes, names = pd.factorize(column, sort=True)
    return codes, [int(x) if isinstance(x, float) and x.is_integer() else x for x in names.tolist()]


def scale_to_unit_range(values: pd.DataFrame | pd.Series) -> Any:
    """Return (x − min) / (max − min) of every column, 0 where all its values are the same."""
    low, span = values.min(), values.max() - values.min()
    return (values - low) / (span.where(span > 0, 1) if isinstance(values, pd.DataFrame) else span or 1)


def name_codes(codes: np.ndarray, names: Sequence[str], name: str) -> pd.Series:
    """Return names[codes] as a Series called `name`."""
    return pd.Series(np.array(names, dtype=object)[codes], name=name)


def select_rows(values: Any, rows: np.ndarray) -> Any:
    """Return the rows of a Series or DataFrame with a new index from 0."""
    return values.take(rows).reset_index(drop=True)


def left_closed_fifths(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return codes 0..4 of the bins [−∞, q₁), [q₁, q₂), …, and the edges q_k: the smallest value with a rank ≥ k n / 5.

    Edges are values that occur, because many incomes are round numbers of dollars.
    """
    edges = np.quantile(values, [0.2, 0.4, 0.6, 0.8], method="inverted_cdf")
    return np.searchsorted(edges, values, side="right"), edges
