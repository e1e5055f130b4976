"""Check that arguments speak of the same rows: their number, and their row labels where they carry any.

Rows are matched by position. The index of a pandas object says which row of the user's table each one is, so that two
indices which differ are a mistake: rows of other people, or the same people in another order. The default index
0, 1, ..., n − 1 is what arrays become and what `reset_index` leaves: it says nothing beside labels of another kind, but
beside a permutation or another slice of such an index it does.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pandas as pd

from optfair.errors import brief_repr
from optfair.inputs.values import refuse_gradients


def check_same_rows(**arguments: Any) -> int:
    """Return the common number of rows of the arguments that are not None; row labels that differ are an error."""
    columns = {name: value for name, value in arguments.items() if value is not None}
    lengths = {}
    for name, value in columns.items():
        refuse_gradients(value, name)
        try:
            lengths[name] = len(value)
        except TypeError:
            raise ValueError(
                f"{name}={brief_repr(value)}: must be an array, list or data frame with one entry per row."
            ) from None
    first, n = next(iter(lengths.items()))
    for name, length in lengths.items():
        if length != n:
            raise ValueError(f"{name}: has {length} rows but {first} has {n}; they must have the same rows.")
    check_row_labels(**columns)
    return n


def check_row_labels(**arguments: Any) -> None:
    """Refuse pandas objects of one length whose row labels differ; whatever has no row labels, or no rows, passes."""
    labelled = {k: v.index for k, v in arguments.items() if isinstance(v, pd.Series | pd.DataFrame)}
    for (first, reference), (name, index) in combinations(labelled.items(), 2):
        if len(index) != len(reference) or index.equals(reference):  # lengths have an error of their own
            continue
        position = _first_difference(index, reference)
        if position is None or _says_nothing_beside(index, reference):
            continue
        labels = [row[position : position + 1].tolist()[0] for row in (index, reference)]
        place = f"first at position {position}: {labels[0]!r}, not {labels[1]!r}"
        problem = f"its row labels differ from those of {first}"
        if _same_labels(index, reference):
            problem = f"has the row labels of {first} in another order"
        step = f"align them with .loc[{first}.index]" if index.is_unique else "align them"
        raise ValueError(f"{name}: {problem} ({place}); {step}, or pass .to_numpy() to match rows by position.")


def _first_difference(index: pd.Index, other: pd.Index) -> int | None:
    """Return the first position at which the labels differ, or None: the same texts may have several types."""
    for position, (label, reference) in enumerate(zip(index, other, strict=True)):
        n_missing = pd.isna(label) + pd.isna(reference)
        if n_missing == 1 or (n_missing == 0 and label != reference):
            return position
    return None


def _says_nothing_beside(index: pd.Index, other: pd.Index) -> bool:
    """Tell whether one of two indices that differ is a default one, and the other no part of such a one."""
    default = pd.RangeIndex(len(index))
    if index.equals(default):
        index, other = other, index
    if not other.equals(default):
        return False
    # One row has no order, and a person who is looked up keeps the label of the table: df.iloc[5:6].
    return len(index) == 1 or not (isinstance(index, pd.RangeIndex) or _same_labels(index, default))


def _same_labels(index: pd.Index, other: pd.Index) -> bool:
    try:
        return bool(index.sort_values().equals(other.sort_values()))
    except TypeError:  # labels of several types have no order
        return set(index) == set(other)
