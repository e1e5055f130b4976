"""Read the texts of --na as missing, and note texts that look as if they were meant to be missing."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from optfair.cli.console import join_names
from optfair.inputs.placeholders import is_placeholder

FREQUENT = 0.01  # a share of the rows: rarer placeholders can do little harm to a model


def csv_words(texts: Iterable[str]) -> list[str]:
    """Return the texts of --na as pandas looks for them; a blank before or after them does not count."""
    return [word for text in texts for word in (text, f" {text}", f"{text} ")]


def remove_placeholders(table: pd.DataFrame, texts: Sequence[str]) -> pd.DataFrame:
    """Return a table of a Parquet file without the texts of --na, and without the numbers they write."""
    numbers = [float(text) for text in texts if _is_finite(text)]
    columns: dict[str, Any] = {}
    for name in table.columns if texts else ():
        column = table[name]
        if pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column.dtype):
            gaps = column.isin(numbers)
        else:
            values = column.astype(object)
            gaps = values.map(lambda value: isinstance(value, str) and value.strip() in texts).astype(bool)
        if gaps.any():
            columns[name] = column.mask(gaps)
    if columns:
        table = table.copy(deep=False)
        for name, column in columns.items():
            table[name] = column
    return table


def _is_finite(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


def placeholder_notes(table: pd.DataFrame, options: Mapping[str, str], features: Sequence[str] = ()) -> list[str]:
    """Return notes on placeholders among labels and groups, and on frequent ones among the features.

    options : column of a label or group → the option that names it.
    """
    notes = []
    for name, option in options.items():
        for text, count in _placeholders(table[name]).items():
            kind = "class" if option == "--label" else "group"
            notes.append(
                f"{option} {name}: {text!r} is a {kind} like any other ({count} of {len(table)} rows); if it means "
                f"missing, add --na {shlex.quote(text)}."
            )
    columns: dict[str, list[str]] = {}
    for name in features:
        for text, count in _placeholders(table[name]).items():
            if count >= FREQUENT * len(table) or _hides_numbers(table[name], text):
                columns.setdefault(text, []).append(name)
    for text, names in columns.items():
        notes.append(
            f"{text!r} is a text like any other in the column{'s' * (len(names) > 1)} {join_names(names, 6)}; if it "
            f"means missing, add --na {shlex.quote(text)}."
        )
    return notes


def _placeholders(column: pd.Series) -> dict[str, int]:
    """Return the placeholders among the texts of a column, and how many rows have them."""
    if pd.api.types.is_numeric_dtype(column.dtype):
        return {}
    try:
        counts = column.value_counts()
    except TypeError:  # lists, which are refused elsewhere
        return {}
    counts = counts[np.array([is_placeholder(value) for value in counts.index], dtype=bool) & (counts.to_numpy() > 0)]
    # Blanks around it do not count, and must not be typed.
    return {str(text): int(count) for text, count in counts.groupby(counts.index.astype(str).str.strip()).sum().items()}


def _hides_numbers(column: pd.Series, text: str) -> bool:
    """Tell whether a column would be one of numbers without this text."""
    values = column[column.notna() & (column.astype(str).str.strip() != text)]
    return bool(len(values) and pd.to_numeric(values, errors="coerce").notna().all())
