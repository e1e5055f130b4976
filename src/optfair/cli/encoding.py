"""Columns of a table as a model reads them: numbers (and truth values) as float64, texts as objects.

The encoder is scikit-learn's ColumnTransformer with the columns by name, so that a saved model says what it reads.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder

from optfair.cli.tables import InputError, shown
from optfair.errors import warn
from optfair.labels import object_array

NUMBERS, TEXTS = "numbers", "texts"
RARE = 10  # a text that fewer people have is one of the rare ones, which are a level together
MOST_LEVELS = 100
LOOK_AT = 1000
DATE = re.compile(r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4})([ T].*)?$")
DECIMAL_COMMA = re.compile(r"[-+]?\d+(,\d+)?")
ROW_NUMBERS_FROM = 20  # so many consecutive whole numbers, each once, count rows
_OBJECTS = {"boolean": NUMBERS, "integer": NUMBERS, "floating": NUMBERS, "decimal": NUMBERS}
_OBJECTS |= {"mixed-integer-float": NUMBERS, "string": TEXTS, "mixed-integer": TEXTS}


class Schema(NamedTuple):
    """Which columns a model reads, and how."""

    numbers: list[str]
    texts: list[str]

    @property
    def columns(self) -> list[str]:
        return [*self.numbers, *self.texts]


def find_schema(table: pd.DataFrame, categories: Collection[str] = ()) -> Schema:
    """The features of a table; columns that tell nothing are left out with a note. categories : texts at any rate."""
    found = Schema([], [])
    for name in table.columns:
        column = table[name]
        kind = _kind(column)
        kind = TEXTS if name in categories else kind
        useless = _useless(column, kind) if name in categories or kind == NUMBERS else _no_category(column)
        useless = useless or _useless(column, kind)
        if useless:
            warn(f"column {name!r} {useless}: left out of the features (--drop {name} silences this).")
        else:
            (found.numbers if kind == NUMBERS else found.texts).append(name)
    if not found.columns:
        raise InputError("there is no column left to predict from; the label and the groups are not features.")
    return found


def features(table: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """X: numbers, then texts, each converted; what cannot be is an error that names the column and the value."""
    columns = {name: _as_numbers(table[name]) for name in schema.numbers}
    columns |= {name: as_texts(table[name]) for name in schema.texts}
    return pd.DataFrame(columns, index=table.index)


def make_encoder(schema: Schema, *, more: bool = False) -> ColumnTransformer:
    """Missing numbers are the median, and marked; a missing text is a level. more : other columns are passed on."""
    numbers = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
    texts = OneHotEncoder(
        handle_unknown="infrequent_if_exist", min_frequency=RARE, max_categories=MOST_LEVELS, sparse_output=False
    )
    parts = [(NUMBERS, numbers, schema.numbers), (TEXTS, texts, schema.texts)]
    return ColumnTransformer([part for part in parts if part[2]], remainder="passthrough" if more else "drop")


def schema_of(model: Any) -> Schema | None:
    """What a model fitted by `optfair fit` reads; None of a model made in Python."""
    first = model.estimator.steps[0][1] if isinstance(model.estimator, Pipeline) else None
    if not isinstance(first, ColumnTransformer):
        return None
    lists = {name: columns for name, _, columns in first.transformers}
    if not set(lists) <= {NUMBERS, TEXTS}:
        return None
    return Schema(list(lists.get(NUMBERS, [])), list(lists.get(TEXTS, [])))


def note_unseen(model: Any, X: pd.DataFrame) -> None:
    """Say where texts are new to a model fitted by `optfair fit`: they are answered as rare ones."""
    learned: Any = getattr(model, "posterior_model_", None)
    learned = getattr(learned, "classes", learned)
    front = getattr(learned, "model", None) if learned is not None else model.mixture_.front
    encoder = front.steps[0][1] if isinstance(front, Pipeline) else None
    if not isinstance(encoder, ColumnTransformer) or TEXTS not in encoder.named_transformers_:
        return
    one_hot = encoder.named_transformers_[TEXTS]
    for name, levels in zip(one_hot.feature_names_in_, one_hot.categories_, strict=True):
        unseen = X[name][X[name].notna() & ~X[name].isin(levels)]
        holes = int(X[name].isna().sum())
        if holes and not any(level is None or level != level for level in levels):
            warn(f"column {name!r}: is missing in {holes} of {len(X)} rows, and never was when the model was fitted.")
        if len(unseen) == len(X):
            raise InputError(
                f"column {name!r}: the model has seen none of its texts, such as {unseen.iloc[0]!r} (it knows "
                f"{shown([level for level in levels if isinstance(level, str)], 5)}); is it written in another way?"
            )
        if len(unseen):
            warn(
                f"column {name!r}: {len(unseen)} of {len(X)} rows hold texts that the model has not seen, such as "
                f"{unseen.iloc[0]!r} (row {X.index.get_loc(unseen.index[0]) + 1}); answered as rare ones are."
            )


def as_texts(column: pd.Series) -> pd.Series:
    """Each value as a text, missing ones as NaN: 7, 7.0 and "7" are the same."""
    try:
        codes, values = pd.factorize(column)
    except TypeError:  # lists
        raise _wrong_type(column) from None
    texts = object_array([*map(_text, pd.Index(values).tolist()), np.nan])
    return pd.Series(texts[codes], index=column.index, name=column.name, dtype=object)


def _text(value: Any) -> str:
    text = str(value)
    return text[:-2] if re.fullmatch(r"-?\d+\.0", text) else text


def _as_numbers(column: pd.Series) -> pd.Series:
    if pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_complex_dtype(column.dtype):
        numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        try:
            codes, values = pd.factorize(column)
        except TypeError:
            raise _wrong_type(column) from None
        numbers = np.array([*(_number(value, column) for value in pd.Index(values).tolist()), np.nan])[codes]
    infinite = np.flatnonzero(np.isinf(numbers))
    if len(infinite):
        raise InputError(
            f"column {column.name!r}: {len(infinite)} values are infinite (the first in row {infinite[0] + 1}); give a "
            "number or leave the cell empty."
        )
    return pd.Series(numbers, index=column.index, name=column.name)


def _number(value: Any, column: pd.Series) -> float:
    if isinstance(value, bool | int | float | Decimal | np.number):
        return float(value)
    try:
        if not isinstance(value, str) or "_" in value:  # float("1_0") is 10
            raise ValueError
        return float(value)
    except ValueError:
        row = int(np.flatnonzero((column == value).to_numpy())[0]) + 1
        raise InputError(
            f"column {column.name!r}: {value!r} (row {row}) is not a number, and the column was numbers when the model "
            "was fitted; mend it or leave it empty."
        ) from None


def _kind(column: pd.Series) -> str:
    """NUMBERS or TEXTS; anything else is an error."""
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return TEXTS
    if pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_complex_dtype(dtype):
        return NUMBERS
    kind = pd.api.types.infer_dtype(column, skipna=True)
    if kind == "empty":
        return NUMBERS
    if kind not in _OBJECTS:
        raise _wrong_type(column)
    return _OBJECTS[kind]


def _wrong_type(column: pd.Series) -> InputError:
    kind = pd.api.types.infer_dtype(column, skipna=True)
    kind = str(column.dtype) if kind in ("mixed", "unknown-array") and column.dtype != object else kind
    return InputError(
        f"column {column.name!r}: holds values of type {kind}, which are no feature as they are; make them numbers or "
        f"texts, or leave them out by --drop {column.name}."
    )


def _no_category(column: pd.Series) -> str:
    """Why texts are no categories but dates; numbers with decimal commas are an error."""
    some = [value for value in column.dropna().head(LOOK_AT) if isinstance(value, str)]
    if some and all(DECIMAL_COMMA.fullmatch(value.strip()) for value in some) and any("," in value for value in some):
        shown_one = next(value for value in some if "," in value)
        raise InputError(
            f"column {column.name!r}: holds numbers with decimal commas, such as {shown_one!r}; say --decimal ',' (or "
            f"--category {column.name} if they are codes)."
        )
    if some and all(DATE.match(value.strip()) for value in some):
        return f"holds dates, such as {some[0]!r}, and a date does not come again (make it an age or a month)"
    return ""


def _useless(column: pd.Series, kind: str) -> str:
    """Why a column tells nothing, or ""."""
    there = column[column.notna()]
    if there.empty:
        return "is empty"
    counts = there.value_counts()
    counts = counts[counts > 0]  # categories that nobody has
    if len(counts) == 1 and len(there) == len(column):
        return f"is {counts.index[0]!r} in every row"
    if kind == TEXTS and len(counts) > max(2 * RARE, len(there) / 2):
        return f"is an identifier, it seems ({len(counts)} different texts in {len(there)} rows)"
    if kind == TEXTS and counts.iloc[0] < RARE and len(there) == len(column):
        return f"has no text that {RARE} people share"
    whole = pd.api.types.is_integer_dtype(column.dtype) and len(counts) == len(column) >= ROW_NUMBERS_FROM
    if kind == NUMBERS and whole and there.max() - there.min() == len(column) - 1:
        return f"counts the rows ({there.min()} to {there.max()})"
    return ""
