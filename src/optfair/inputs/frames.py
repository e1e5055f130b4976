"""Read tables as pandas frames: polars, arrow tables, records, masked arrays; none of the packages is imported here."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from optfair.errors import SHOWN
from optfair.inputs.containers import is_polars, polars_values
from optfair.inputs.labels import object_array

SEVERAL = (list, tuple, dict, set, np.ndarray, pd.Series)  # what a cell cannot be


def as_frame(X: Any) -> pd.DataFrame:
    """Return a table with column names as a pandas frame; a ValueError where X has no names."""
    X = as_known_table(X)
    if is_polars(X) and type(X).__name__ == "DataFrame":
        X = polars_frame(X)
    if not isinstance(X, pd.DataFrame):
        raise ValueError(f"X: is a {type(X).__name__} without column names; give a data frame.")
    if not X.columns.is_unique:
        raise ValueError(f"X: has two columns named {X.columns[X.columns.duplicated()][0]!r}; rename one of them.")
    return X


def as_known_table(X: Any) -> Any:
    """Return arrow tables and lists of records as pandas frames, masked arrays as plain ones; others as they are."""
    if is_record(X):
        raise ValueError("X: is one record, a dict; give a data frame or a list of dicts, one for each person.")
    if is_record_list(X):
        return _record_frame(X, record_keys(X))
    if type(X).__module__.partition(".")[0] == "pyarrow" and hasattr(X, "to_pandas") and hasattr(X, "column_names"):
        return X.to_pandas()
    if isinstance(X, np.ma.MaskedArray):
        return _without_mask(X)
    return X


def is_record(X: Any) -> bool:
    """Tell whether X is one person as a mapping from names to values."""
    return isinstance(X, Mapping) and not hasattr(X, "shape")  # as a sparse matrix of keys has


def is_record_list(X: Any) -> bool:
    """Tell whether X is a list of records."""
    return isinstance(X, (list, tuple)) and bool(X) and all(map(is_record, X))


def read_records(X: Any, names: Sequence[str], optional: Sequence[str] = ()) -> pd.DataFrame:
    """Return records as a frame with the columns of a model: an absent key is missing, an unknown one is ignored.

    optional : names that are left out where no record has them.

    A key that looks like the misspelt name of an absent one is an error.
    """
    records = [X] if is_record(X) else list(X)
    keys = record_keys(records)
    if not set(keys) & set(names):
        held = f"has the keys {_few(keys)}, and none" if keys else "is empty, and has none of those"
        raise ValueError(f"X: a record {held} that the model reads: {_few(names)}.")
    absent = {name.casefold(): name for name in names if name not in keys and name not in optional}
    for key in keys if absent else ():
        similar = [] if key in names else difflib.get_close_matches(str(key).casefold(), absent, n=1, cutoff=0.85)
        if similar:
            raise ValueError(
                f"X: a record has {key!r}, which the model does not read, and not {absent[similar[0]]!r}; rename the "
                "key, or leave it out if the value is missing."
            )
    return _record_frame(records, [name for name in names if name in keys or name not in optional])


def polars_frame(X: Any) -> pd.DataFrame:
    """Return a polars frame as one of pandas, without pyarrow."""
    return pd.DataFrame({name: polars_values(X[name]) for name in X.columns})


def record_keys(records: Sequence[Mapping[Any, Any]]) -> list[Any]:
    """Return the keys that any of the records has, each once."""
    return list(dict.fromkeys(key for record in records for key in record))


def _record_frame(records: Sequence[Mapping[Any, Any]], names: Sequence[Any]) -> pd.DataFrame:
    """Return a column per name, None where a record has no value; a list in place of a value is an error."""
    cells = {name: object_array([record.get(name) for record in records]) for name in names}
    for name, values in cells.items():
        bad = next((value for value in values if isinstance(value, SEVERAL)), None)
        if bad is not None:
            raise ValueError(
                f"X: {name!r} of a record is a {type(bad).__name__}; give one value, and several people as a data "
                "frame or a list of dicts."
            )
    return pd.DataFrame(cells).infer_objects()


def _without_mask(X: np.ma.MaskedArray) -> np.ndarray:
    """Return masked entries as NaN; numbers become floats where there are any."""
    mask = np.ma.getmaskarray(X)
    if not mask.any():
        return np.asarray(X.data)
    values = np.array(X.data, dtype=X.dtype if X.dtype.kind in "fO" else float if X.dtype.kind in "biu" else object)
    values[mask] = np.nan
    return values


def _few(names: Sequence[Any]) -> str:
    rest = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(map(repr, names[:SHOWN])) + rest
