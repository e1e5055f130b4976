"""Keep multipliers in a table: one line per constraint row, by the names of the row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from optfair.constraints.rows import TABLE_COLUMNS, RowSet, object_frame, table_keys

NUMBER_COLUMNS = ("multiplier", "price", "value", "lower", "upper")


def multiplier_table(rows: RowSet, lam: np.ndarray, values: np.ndarray) -> pd.DataFrame:
    """Return the multipliers in the user's units; price = Σ|λ| over the rows of the same criterion and group."""
    columns = {name: rows.table[name].tolist() for name in rows.table}
    sums: dict[Any, float] = {}
    owners = list(zip(rows.source.tolist(), columns["group"], strict=True))
    for owner, size in zip(owners, np.abs(lam), strict=True):
        sums[owner] = sums.get(owner, 0.0) + float(size)
    columns["multiplier"] = lam.tolist()
    columns["price"] = [sums[owner] for owner in owners]
    columns["value"], columns["lower"], columns["upper"] = values.tolist(), rows.lower.tolist(), rows.upper.tolist()
    return named_frame(columns)


def named_frame(columns: dict[str, Any]) -> pd.DataFrame:
    """Return a table of rows: names as Python objects, numbers as floats."""
    names = [column for column in columns if column in TABLE_COLUMNS]
    frame = object_frame(names, list(zip(*(columns[name] for name in names), strict=True)))
    return frame.assign(**{name: np.array(v, dtype=float) for name, v in columns.items() if name not in names})


def matching_multipliers(multipliers: pd.DataFrame, rows: RowSet) -> np.ndarray:
    """Return the multipliers of a table for rows of the same names, (K,).

    They are zero where the table has none, or where the sign is forbidden.
    """
    by_key = dict(zip(table_keys(multipliers), multipliers["multiplier"], strict=True))
    lam = np.array([by_key.get(key, 0.0) for key in rows.keys])
    forbidden = ((lam > 0) & np.isinf(rows.upper)) | ((lam < 0) & np.isinf(rows.lower))
    return np.where(forbidden, 0.0, lam)
