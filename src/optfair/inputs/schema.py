"""Find the columns of a table that can be features: numbers (and truth values), and texts that recur."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

import pandas as pd

from optfair.inputs.cells import is_number, type_error, value_type
from optfair.inputs.id_columns import MIN_ROWS, is_id

NUMBERS, TEXTS = "numbers", "texts"
MIN_LEVEL_COUNT = 10  # texts that fewer people have are rare, and share one level: a level of its own would be noise
INSPECTED_ROWS = 1000  # enough to recognise dates and decimal commas
MIN_ROW_NUMBERS = 20  # so many consecutive whole numbers, each once, are row numbers; fewer may be a coincidence
DATE = re.compile(r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4})([ T].*)?$")
DECIMAL_COMMA = re.compile(r"[-+]?\d+(,\d+)?")
_KINDS = {"boolean": NUMBERS, "integer": NUMBERS, "floating": NUMBERS, "decimal": NUMBERS}
_KINDS |= {"mixed-integer-float": NUMBERS, "empty": NUMBERS, "string": TEXTS, "mixed-integer": TEXTS}
_DATES = ("datetime", "datetime64", "date")


class Schema(NamedTuple):
    """The columns that a model reads as numbers and as texts."""

    numbers: list[str]
    texts: list[str]

    @property
    def columns(self) -> list[str]:
        """Return all columns, numbers first."""
        return [*self.numbers, *self.texts]


class Advice(NamedTuple):
    """What a user can do about a column, in the words of their interface; "{name}" stands for its name."""

    drop: str = "leave the column out"
    decimal: str = "convert them to numbers, or name the column in TableEncoder(texts=[{name!r}]) if they are codes"
    silence: str = "leave it out of X to silence this"
    identifier: str = ""  # nothing: estimators warn about ids themselves


PYTHON_ADVICE = Advice()


def find_schema(
    table: pd.DataFrame, categories: Collection[str] = (), advice: Advice = PYTHON_ADVICE
) -> tuple[Schema, list[str]]:
    """Return (the features of a table, notes on columns that are left out or look like ids).

    categories : always read as texts.
    """
    schema, notes = Schema([], []), []
    for name in table.columns:
        column = table[name]
        kind = _kind(column, advice)
        kind = TEXTS if name in categories else kind
        reason = "" if name in categories else _why_not_feature(column, kind, advice)
        reason = reason or _why_useless(column, kind)
        if reason:
            silence = advice.silence.format(name=name)
            notes.append(f"column {name!r} {reason}: it is not used as a feature ({silence}).")
        else:
            if advice.identifier and len(column) >= MIN_ROWS and is_id(column):
                step = advice.identifier.format(name=name)
                notes.append(
                    f"column {name!r} looks like an id ({column.nunique()} values among {len(column)} rows); {step}."
                )
            (schema.numbers if kind == NUMBERS else schema.texts).append(name)
    if not schema.columns:
        raise ValueError(
            " ".join(["no column is left to predict from; the label and the groups are not features.", *notes[:5]])
        )
    return schema, notes


def _kind(column: pd.Series, advice: Advice) -> str:
    """Return NUMBERS or TEXTS (dates are TEXTS too); anything else is an error."""
    if isinstance(column.dtype, pd.CategoricalDtype) or _holds_dates(column):
        return TEXTS
    if is_number(column):
        return NUMBERS
    kind = value_type(column)
    if kind not in _KINDS:
        raise type_error(column, advice.drop.format(name=column.name))
    return _KINDS[kind]


def _holds_dates(column: pd.Series) -> bool:
    return bool(
        pd.api.types.is_datetime64_any_dtype(column.dtype) or (not is_number(column) and value_type(column) in _DATES)
    )


def _why_not_feature(column: pd.Series, kind: str, advice: Advice) -> str:
    """Return why a column of texts is not one of categories (dates), or ""; decimal commas are an error."""
    if kind != TEXTS:
        return ""
    values = column.dropna().head(INSPECTED_ROWS)
    texts = [value for value in values if isinstance(value, str)]
    example = next((value for value in texts if "," in value), None)
    if example is not None and all(DECIMAL_COMMA.fullmatch(value.strip()) for value in texts):
        step = advice.decimal.format(name=column.name)
        raise ValueError(f"column {column.name!r}: holds numbers with decimal commas, such as {example!r}; {step}.")
    if (texts and all(DATE.match(value.strip()) for value in texts)) or (len(values) and _holds_dates(column)):
        return f"holds dates, such as {str(values.iloc[0])!r}, which do not recur (convert them to an age or a month)"
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
