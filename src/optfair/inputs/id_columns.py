"""Recognise columns that tell who a person is: a model learns them by heart, and they say nothing about anybody else.

A false alarm is worse than silence. A column counts as an id if it says so in its name and a value occurs a few times
at most, or if it numbers the rows in their order, or if each of its texts is a code that occurs once. Fractions, dates,
amounts and running text are none.
"""

from __future__ import annotations

import re
from collections.abc import Hashable

import numpy as np
import pandas as pd

MIN_ROWS = 200  # with fewer rows a measurement in whole numbers may well have no value twice
MAX_REPEATS = 5  # rows of one person, on average: more of them are a place or a teacher
PROBE_ROWS = 1000  # enough to see that a column of texts holds no codes, or repeats them
CODE_SHARE = 0.9  # of the texts that are codes: a few of those made of random digits and letters have no letter
ID_WORDS = {"id", "nbr", "uuid", "guid", "ssn"}
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
CODE = re.compile(r"(?=.*[A-Za-z])(?=.*\d)[A-Za-z0-9_-]+")


def id_columns(table: pd.DataFrame) -> dict[Hashable, int]:
    """Return the columns that look like ids, each with its number of values."""
    if len(table) < MIN_ROWS:
        return {}
    columns = {name: table.iloc[:, k] for k, name in enumerate(table.columns)}
    return {name: int(column.nunique()) for name, column in columns.items() if is_id(column)}


def is_id(column: pd.Series) -> bool:
    """Tell whether a column of at least `MIN_ROWS` rows looks like an id."""
    is_number, n = pd.api.types.is_numeric_dtype(column.dtype), len(column)
    if pd.api.types.is_bool_dtype(column.dtype) or not (is_number or _holds_texts(column)):
        return False
    if _is_named_id(column.name):
        return bool(column.nunique() > n / MAX_REPEATS and (not is_number or _is_whole(column)))
    if pd.api.types.is_integer_dtype(column.dtype):
        return not column.hasnans and bool((np.diff(column.to_numpy(dtype=np.int64)) == 1).all())
    return not is_number and _holds_codes(column.head(PROBE_ROWS)) and bool(column.is_unique)


def _is_named_id(name: Hashable) -> bool:
    """Tell whether the first or the last word of a name is a word for ids: patient_nbr, id_student, userId."""
    words = [word.lower() for word in WORD.findall(str(name))]
    return bool({*words[:1], *words[-1:]} & ID_WORDS)


def _is_whole(column: pd.Series) -> bool:
    """Tell whether numbers, missing ones aside, are whole."""
    if pd.api.types.is_integer_dtype(column.dtype):
        return True
    values = column.dropna()
    return pd.api.types.is_float_dtype(column.dtype) and bool((values == np.floor(values)).all())


def _holds_texts(column: pd.Series) -> bool:
    return pd.api.types.infer_dtype(column.head(PROBE_ROWS), skipna=True) == "string"


def _holds_codes(texts: pd.Series) -> bool:
    """Tell whether no text is missing or occurs twice, and almost all are codes."""
    if texts.isna().any() or not texts.is_unique:
        return False
    return bool(np.mean([CODE.fullmatch(text) is not None for text in texts]) > CODE_SHARE)
