"""Check and convert the columns that a model is fitted to: labels, weights, and the values on both sides of a split."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from optfair.cli.columns import check_numeric, name_missing_groups
from optfair.cli.console import join_names
from optfair.cli.paths import InputError

MAX_CLASSES = 100  # a label with more values is refused: it is a number to predict, or an identifier
MANY_CLASSES = 30  # a numeric label with more values is noted: it may be an amount


def label_classes(column: pd.Series) -> pd.Series:
    """Return the labels with a plain type: no categories, and 1.0 as 1."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(column.cat.categories.dtype)
    if pd.api.types.is_bool_dtype(column.dtype):
        return column.astype(bool)
    is_whole = pd.api.types.is_numeric_dtype(column.dtype) and not (column % 1).any()
    return column.astype(np.int64) if is_whole else column


def check_label(column: pd.Series, file: str) -> list[str]:
    """Refuse a label that is not a class; return a note if it may not be one."""
    values = column[column.notna()]
    n, n_distinct = len(values), int(values.nunique())
    is_numeric = pd.api.types.is_numeric_dtype(values.dtype)
    has_fractions = pd.api.types.is_float_dtype(values.dtype) and bool((values != np.floor(values)).any())
    if has_fractions or n_distinct > MAX_CLASSES or n_distinct > max(2, n / 2):
        raise InputError(
            f"{file}: --label {column.name} looks like a number to predict, not a class ({n_distinct} different values "
            f"in {n} rows); cut it into a few classes."
        )
    if n_distinct < 2:
        raise InputError(f"{file}: --label {column.name} has {n_distinct} class; at least two are needed.")
    if n_distinct > MANY_CLASSES and is_numeric:
        return [
            f"--label {column.name}: {n_distinct} different numbers make {n_distinct} classes; if it is an amount, cut "
            "it into a few classes."
        ]
    return []


def row_weights(column: pd.Series, file: str) -> tuple[pd.Series, list[str]]:
    """Return (weights, notes): whole numbers as they are, others with mean 1."""
    check_numeric(column, file, "--weight")
    if pd.api.types.is_bool_dtype(column.dtype):
        raise InputError(f"{file}: --weight {column.name} holds truth values; it must hold numbers.")
    weights = column.astype(np.float64)
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        raise InputError(
            f"{file}: --weight {column.name}: weights must be finite, at least 0 and not all 0 (the least is "
            f"{weights.min():g})."
        )
    if (weights != np.floor(weights)).any():
        return weights / weights.mean(), []  # of a sample: a row stands for one person on average
    note = (
        f"--weight {column.name}: whole numbers are taken as numbers of people ({weights.sum():.0f} in all); if they "
        "are survey weights, divide them by their mean first."
    )
    return weights, [note]


def check_values(
    option: str, name: str, train: pd.Series | pd.DataFrame, test: pd.Series | pd.DataFrame | None
) -> None:
    """Require two classes (or groups) to fit on, and no other class in the test; reports leave other groups out."""
    values = distinct_values(train)
    if not values:
        raise InputError(f"{option} {name}: is missing in all rows to fit on; give the groups of at least some people.")
    if len(values) < 2:
        raise InputError(
            f"{option} {name} has only {join_names(sorted(values, key=str))} in the rows to fit on; give at least two."
        )
    tested = set() if test is None else distinct_values(test)
    if test is not None and not tested & values:
        raise InputError(
            f"{option} {name}: no value of the rows to test on ({join_names(sorted(tested, key=str))}) occurs in those "
            "to fit on; hold out other rows."
        )
    unseen = sorted(tested - values, key=str)
    if unseen and option == "--label":
        raise InputError(
            f"{option} {name}: {join_names(unseen)} occurs in the rows to test on but not in those to fit on; merge it "
            "with another, leave it out, or take another --seed."
        )


def distinct_values(column: pd.Series | pd.DataFrame) -> set[Any]:
    """Return the distinct values, or combinations."""
    if isinstance(column, pd.Series):
        return set(column.unique())
    rows = name_missing_groups(column).drop_duplicates()
    return {row[0] if len(row) == 1 else row for row in rows.itertuples(index=False, name=None)}
