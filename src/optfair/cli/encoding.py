"""Turn the columns of a table into features: numbers (and truth values) as float64, texts as objects.

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

from optfair.cli.console import join_names
from optfair.cli.paths import InputError
from optfair.inputs.id_columns import MIN_ROWS, is_id
from optfair.inputs.labels import object_array

NUMBERS, TEXTS = "numbers", "texts"
MIN_LEVEL_COUNT = 10  # texts that fewer people have are rare, and share one level: a level of its own would be noise
MAX_LEVELS = 100  # of a column of texts, so that a column of names does not fill the memory
INSPECTED_ROWS = 1000  # enough to recognise dates and decimal commas
MIN_ROW_NUMBERS = 20  # so many consecutive whole numbers, each once, are row numbers; fewer may be a coincidence
DATE = re.compile(r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4})([ T].*)?$")
DECIMAL_COMMA = re.compile(r"[-+]?\d+(,\d+)?")
_KINDS = {"boolean": NUMBERS, "integer": NUMBERS, "floating": NUMBERS, "decimal": NUMBERS}
_KINDS |= {"mixed-integer-float": NUMBERS, "empty": NUMBERS, "string": TEXTS, "mixed-integer": TEXTS}


class Schema(NamedTuple):
    """The columns that a model reads as numbers and as texts."""

    numbers: list[str]
    texts: list[str]

    @property
    def columns(self) -> list[str]:
        """Return all columns, numbers first."""
        return [*self.numbers, *self.texts]


def find_schema(table: pd.DataFrame, categories: Collection[str] = ()) -> tuple[Schema, list[str]]:
    """Return (the features of a table, notes on columns that are left out). categories : always read as texts."""
    schema, notes = Schema([], []), []
    for name in table.columns:
        column = table[name]
        kind = _kind(column)
        reason = _why_not_category(column) if kind == TEXTS and name not in categories else ""
        kind = TEXTS if name in categories else kind
        reason = reason or _why_useless(column, kind)
        if reason:
            notes.append(f"column {name!r} {reason}: it is not used as a feature (--drop {name} silences this note).")
        else:
            if len(column) >= MIN_ROWS and is_id(column):
                notes.append(
                    f"column {name!r} looks like an id ({column.nunique()} values among {len(column)} rows); leave it "
                    f"out by --drop {name}, or say --cluster {name} if it tells which rows are of one person."
                )
            (schema.numbers if kind == NUMBERS else schema.texts).append(name)
    if not schema.columns:
        raise InputError(
            " ".join(["no column is left to predict from; the label and the groups are not features.", *notes[:5]])
        )
    return schema, notes


def feature_table(table: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """Return X: numbers, then texts. A value that cannot be converted is an error with its column and row."""
    columns = {name: _as_numbers(table[name]) for name in schema.numbers}
    columns |= {name: as_texts(table[name]) for name in schema.texts}
    return pd.DataFrame(columns, index=table.index)


def make_encoder(schema: Schema, *, extra_columns: bool = False) -> ColumnTransformer:
    """Return the encoder of X. Missing numbers become the median and are marked; a missing text is a level.

    extra_columns : pass on columns that are not in the schema.
    """
    numbers = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
    texts = OneHotEncoder(
        handle_unknown="infrequent_if_exist",
        min_frequency=MIN_LEVEL_COUNT,
        max_categories=MAX_LEVELS,
        sparse_output=False,
    )
    parts = [(NUMBERS, numbers, schema.numbers), (TEXTS, texts, schema.texts)]
    remainder = "passthrough" if extra_columns else "drop"
    return ColumnTransformer([part for part in parts if part[2]], remainder=remainder)


def model_schema(model: Any) -> Schema | None:
    """Return what a model fitted by `optfair fit` reads, or None for a model made in Python."""
    encoder = _first_step(model.estimator)
    if encoder is None:
        return None
    columns = {name: names for name, _, names in encoder.transformers}
    if not set(columns) <= {NUMBERS, TEXTS}:
        return None
    return Schema(list(columns.get(NUMBERS, [])), list(columns.get(TEXTS, [])))


def check_levels(model: Any, X: pd.DataFrame) -> list[str]:
    """Return notes on texts that a model fitted by `optfair fit` has not seen: it treats them as rare ones."""
    posterior: Any = getattr(model, "posterior_model_", None)
    posterior = getattr(posterior, "classes", posterior)
    encoder = _first_step(getattr(posterior, "model", None) if posterior is not None else model.mixture_.transformer)
    if encoder is None or TEXTS not in encoder.named_transformers_:
        return []
    one_hot, notes = encoder.named_transformers_[TEXTS], []
    for name, levels in zip(one_hot.feature_names_in_, one_hot.categories_, strict=True):
        unseen = X[name][X[name].notna() & ~X[name].isin(levels)]
        n_missing = int(X[name].isna().sum())
        if n_missing and not any(level is None or level != level for level in levels):
            notes.append(
                f"column {name!r}: is missing in {n_missing} of {len(X)} rows; it was never missing when the model was "
                "fitted."
            )
        if len(unseen) == len(X):
            raise InputError(
                f"column {name!r}: the model has seen none of its texts, such as {unseen.iloc[0]!r}; it knows "
                f"{join_names([level for level in levels if isinstance(level, str)], 5)}. Is the spelling different?"
            )
        if len(unseen):
            notes.append(
                f"column {name!r}: {len(unseen)} of {len(X)} rows hold texts that the model has not seen, such as "
                f"{unseen.iloc[0]!r} (row {X.index.get_loc(unseen.index[0]) + 1}); they are treated as rare texts."
            )
    return notes


def _first_step(model: Any) -> ColumnTransformer | None:
    """Return the encoder that a pipeline begins with, or None."""
    encoder = model.steps[0][1] if isinstance(model, Pipeline) else None
    return encoder if isinstance(encoder, ColumnTransformer) else None


def as_texts(column: pd.Series) -> pd.Series:
    """Return each value as a text, missing ones as NaN: 7, 7.0 and "7" are the same."""
    codes, values = _factorize(column)
    texts = object_array([*map(_text, values), np.nan])
    return pd.Series(texts[codes], index=column.index, name=column.name, dtype=object)


def _text(value: Any) -> str:
    text = str(value)
    return text[:-2] if re.fullmatch(r"-?\d+\.0", text) else text


def _factorize(column: pd.Series) -> tuple[np.ndarray, list[Any]]:
    """Return (the index of each value, or -1 where it is missing; the distinct values)."""
    try:
        codes, values = pd.factorize(column)
    except TypeError:  # lists
        raise _type_error(column) from None
    return codes, pd.Index(values).tolist()


def _as_numbers(column: pd.Series) -> pd.Series:
    if _is_number(column):
        numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        codes, values = _factorize(column)
        numbers = np.array([*(_parse_number(value, column) for value in values), np.nan])[codes]
    infinite = np.flatnonzero(np.isinf(numbers))
    if len(infinite):
        raise InputError(
            f"column {column.name!r}: {len(infinite)} values are infinite (the first in row {infinite[0] + 1}); give a "
            "number or leave the cell empty."
        )
    return pd.Series(numbers, index=column.index, name=column.name)


def _parse_number(value: Any, column: pd.Series) -> float:
    if isinstance(value, bool | int | float | Decimal | np.number):
        return float(value)
    try:
        if not isinstance(value, str) or "_" in value:  # float("1_0") is 10
            raise ValueError
        return float(value)
    except ValueError:
        row = int(np.flatnonzero((column == value).to_numpy())[0]) + 1
        raise InputError(
            f"column {column.name!r}: {value!r} (row {row}) is not a number, and the column held numbers when the "
            "model was fitted; correct it or leave the cell empty."
        ) from None


def _is_number(column: pd.Series) -> bool:
    dtype = column.dtype
    return bool(pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_complex_dtype(dtype))


def _kind(column: pd.Series) -> str:
    """Return NUMBERS or TEXTS; anything else is an error."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return TEXTS
    if _is_number(column):
        return NUMBERS
    kind = pd.api.types.infer_dtype(column, skipna=True)
    if kind not in _KINDS:
        raise _type_error(column)
    return _KINDS[kind]


def _type_error(column: pd.Series) -> InputError:
    kind = pd.api.types.infer_dtype(column, skipna=True)
    kind = str(column.dtype) if kind in ("mixed", "unknown-array") and column.dtype != object else kind
    return InputError(
        f"column {column.name!r}: holds values of type {kind}, which cannot be a feature; convert them to numbers or "
        f"texts, or leave the column out by --drop {column.name}."
    )


def _why_not_category(column: pd.Series) -> str:
    """Return why texts are not categories (dates), or ""; numbers with decimal commas are an error."""
    texts = [value for value in column.dropna().head(INSPECTED_ROWS) if isinstance(value, str)]
    example = next((value for value in texts if "," in value), None)
    if example is not None and all(DECIMAL_COMMA.fullmatch(value.strip()) for value in texts):
        raise InputError(
            f"column {column.name!r}: holds numbers with decimal commas, such as {example!r}; add --decimal ',' (or "
            f"--category {column.name} if they are codes)."
        )
    if texts and all(DATE.match(value.strip()) for value in texts):
        return f"holds dates, such as {texts[0]!r}, which do not recur (convert them to an age or a month)"
    return ""


def _why_useless(column: pd.Series, kind: str) -> str:
    """Return why a column is no use as a feature, or ""."""
    values = column[column.notna()]
    if values.empty:
        return "is empty"
    counts = values.value_counts()
    counts = counts[counts > 0]  # categories without rows
    is_complete = len(values) == len(column)
    if len(counts) == 1 and is_complete:
        return f"is {counts.index.tolist()[0]!r} in every row"
    if kind == TEXTS and len(counts) > max(2 * MIN_LEVEL_COUNT, len(values) / 2):
        return f"seems to be an identifier ({len(counts)} different texts in {len(values)} rows)"
    if kind == TEXTS and counts.iloc[0] < MIN_LEVEL_COUNT and is_complete:
        return f"has no text that {MIN_LEVEL_COUNT} people share"
    is_unique = pd.api.types.is_integer_dtype(column.dtype) and len(counts) == len(column) >= MIN_ROW_NUMBERS
    if kind == NUMBERS and is_unique and values.max() - values.min() == len(column) - 1:
        return f"numbers the rows ({values.min()} to {values.max()})"
    return ""
