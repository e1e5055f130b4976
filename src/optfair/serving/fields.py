"""Check the values of a person against the columns that a model was fitted on, one at a time.

A value becomes what `predict` would make of it for this person alone, whoever else is asked about in the same call:
numbers are float64, and NaN where missing; texts are texts, and None where missing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from optfair.estimators.text_levels import fitted_encoder, gap_columns, text_levels
from optfair.inputs.cells import cell_text
from optfair.inputs.feature_schema import BOOLEAN, INTEGER, Feature
from optfair.inputs.feature_schema import NUMBER as REAL
from optfair.inputs.feature_schema import TEXT as WORDS
from optfair.inputs.placeholders import is_placeholder
from optfair.inputs.table_form import CATEGORY, NUMBER, TEXT, ColumnForm, TableForm
from optfair.serving.refusals import invalid, member

# What a column takes: numbers; texts; numbers that are codes, and may be written as texts; any single value.
NUMBERS, TEXTS, CODES, VALUES = "numbers", "texts", "codes", "values"


FAR = 5.0  # ranges of nine tenths of the people; of incomes hardly anybody is so far out


@dataclass(frozen=True, eq=False)
class Field:
    """A column that a model reads, and what a request may hold for it.

    name : None in a model that was fitted without names. points : whether 7.0 is another text than 7. had_gaps :
    whether values were missing when the model was fitted. levels : texts that its encoder knows; None without one.
    """

    name: str | None
    position: int
    takes: str
    feature: Feature
    points: bool = False
    had_gaps: bool = True
    levels: frozenset[str] | None = None

    @cached_property
    def place(self) -> str:
        """How messages call it, after the person."""
        return f"[{self.position}]" if self.name is None else member(self.name)

    @property
    def title(self) -> str:
        """How notes call it."""
        return f"value {self.position}" if self.name is None else f"field {self.name!r}"

    def is_far(self, cell: Any) -> bool:
        """Tell whether a number is far outside of those fitted on: several times their range away."""
        low, high = self.feature.low, self.feature.high
        if self.takes != NUMBERS or low is None or high is None or low == high:
            return False
        room = FAR * (high - low)
        return not low - room <= cell <= high + room

    def read(self, value: Any, person: str) -> Any:
        """Return a value as the model takes it. person : how messages call whom it is of."""
        kind = type(value)
        if kind is float and value != value:
            value = None
        elif kind is float and math.isinf(value):
            raise invalid(person + self.place, value, "must be finite, or null where it is missing.")
        if value is None:
            return math.nan if self.takes == NUMBERS else None
        if kind is list or kind is dict:
            raise invalid(person + self.place, value, "must be one value.")
        if kind is str:
            return self._read_text(value, person)
        if self.takes == CODES and kind is bool:
            return value  # the text "True" to an encoder, as in a record alone
        if self.takes == NUMBERS or self.takes == CODES:
            if kind is int and not _is_double(value):
                raise invalid(person + self.place, value, "has more digits than a number of double precision.")
            return float(value)
        return value if self.takes == VALUES else cell_text(value, points=self.points)

    def _read_text(self, text: str, person: str) -> Any:
        if self.takes == NUMBERS:
            hint = " Does it mean missing?" if is_placeholder(text) or not text.strip() else ""
            raise invalid(person + self.place, text, f"must be a number, or null where it is missing.{hint}")
        if not is_text(text):
            raise invalid(person + self.place, text, "is not valid text (a lone surrogate).")
        return _code(text) if self.takes == CODES else text or None  # an empty text is missing


def is_text(text: str) -> bool:
    """Tell whether a text can be written: lone surrogates cannot."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_double(value: int) -> bool:
    try:
        return int(float(value)) == value
    except OverflowError:
        return False


def _code(text: str) -> Any:
    """Return a code as `predict` reads it in a column that held numbers: the number, if the text is one."""
    if not text.strip():
        return None
    try:
        number = float(text) if "_" not in text else math.inf  # Python reads 1_0 as 10
    except ValueError:
        return text
    return None if number != number else text if math.isinf(number) else number


# -- the columns of a model ----------------------------------------------------------------------------------
def model_fields(model: Any) -> list[Field]:
    """Return the columns that a fitted classifier reads, in order."""
    form: TableForm = model._form
    if form.names:
        return _named_fields(model, form)
    features = model._features or (Feature(None, REAL, has_gaps=True),) * int(getattr(model, "n_features_in_", 1))
    return [
        Field(None, position, _taken_by(feature), feature, had_gaps=feature.has_gaps)
        for position, feature in enumerate(features)
    ]


def _taken_by(feature: Feature) -> str:
    return {INTEGER: NUMBERS, REAL: NUMBERS, BOOLEAN: NUMBERS, WORDS: TEXTS}.get(feature.kind, VALUES)


def _named_fields(model: Any, form: TableForm) -> list[Field]:
    encoder = fitted_encoder(model)
    levels = {levels.name: frozenset(levels.texts) for levels in text_levels(encoder)}
    gaps = None if encoder is None else {*gap_columns(encoder)}
    is_read = {*form.names} if encoder is None else {*encoder.numbers_, *encoder.texts_}
    features = model._features or [Feature(name, _kind_of(column), has_gaps=True) for name, column in form_pairs(form)]
    fields = []
    for position, (name, column) in enumerate(form_pairs(form)):
        feature = features[position]
        had_gaps = name not in is_read or (feature.has_gaps if gaps is None else name in gaps)
        takes, points = _column_takes(column, name in levels)
        fields.append(Field(name, position, takes, feature, points, had_gaps, levels.get(name)))
    return fields


def form_pairs(form: TableForm) -> list[tuple[str, ColumnForm]]:
    """Return the names of the columns and how they were."""
    return list(zip(form.names, form.columns, strict=True))


def _kind_of(column: ColumnForm) -> str:
    return {NUMBER: REAL, TEXT: WORDS}.get(column.kind, "other")


def _column_takes(column: ColumnForm, is_text_of_encoder: bool) -> tuple[str, bool]:
    """Return what a column takes, and whether 7.0 is another text than 7 in it."""
    if column.kind == NUMBER:
        return (CODES if is_text_of_encoder else NUMBERS), False
    if column.kind == TEXT:
        return TEXTS, column.has_points
    texts = [value for value in column.categories if isinstance(value, str)]
    if column.kind == CATEGORY and len(texts) == len(column.categories):
        return TEXTS, any(text.endswith(".0") for text in texts)
    return VALUES, False
