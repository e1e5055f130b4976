"""Say what a `TableEncoder` makes of each column: medians and indicators of numbers, levels of texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from optfair.errors import ExportError
from optfair.inputs.encoder import TableEncoder
from optfair.inputs.schema import NUMBERS, TEXTS


@dataclass(frozen=True)
class TextLevels:
    """Where a column of texts is one: the place of each known text, of all others, and of a missing value; or None."""

    name: str
    places: dict[str, int]
    other: int | None
    missing: int | None
    size: int


@dataclass(frozen=True)
class NumberImputer:
    """The median that fills gaps of a column of numbers, and the place of the indicator of gaps, or None."""

    name: str
    median: float
    gap: int | None


@dataclass(frozen=True)
class EncoderPlan:
    """The columns that an encoder gives: numbers, indicators of their gaps, levels; ``size`` of all."""

    numbers: tuple[NumberImputer, ...]
    texts: tuple[TextLevels, ...]
    size: int


def encoder_plan(encoder: TableEncoder) -> EncoderPlan:
    """Return what a fitted encoder makes of each column."""
    if encoder.remainder != "drop":
        raise ExportError("TableEncoder(remainder='passthrough'): its further columns are not exported.")
    parts, numbers, texts, size = encoder.transformer_.named_transformers_, [], [], 0
    if encoder.numbers_:
        imputer, size = parts[NUMBERS], len(encoder.numbers_)
        gaps = {} if imputer.indicator_ is None else {k: size + j for j, k in enumerate(imputer.indicator_.features_)}
        size += len(gaps)
        values = zip(encoder.numbers_, imputer.statistics_.tolist(), strict=True)
        numbers = [NumberImputer(name, median, gaps.get(k)) for k, (name, median) in enumerate(values)]
    for k, name in enumerate(encoder.texts_):
        levels = _text_levels(parts[TEXTS], k, name, size)
        texts.append(levels)
        size += levels.size
    return EncoderPlan(tuple(numbers), tuple(texts), size)


def _text_levels(one_hot: Any, k: int, name: str, start: int) -> TextLevels:
    """Return the places of column k. Rare texts are left out: theirs is that of unknown ones, and they may be names."""
    levels, rare = one_hot.categories_[k].tolist(), one_hot.infrequent_categories_[k]
    rare_levels = [] if rare is None else rare.tolist()
    rare_texts = {level for level in rare_levels if isinstance(level, str)}
    has_rare_gap, has_gap = (any(not isinstance(level, str) for level in part) for part in (rare_levels, levels))
    frequent = [level for level in levels if isinstance(level, str) and level not in rare_texts]
    places = {level: start + place for place, level in enumerate(frequent)}
    n_places = len(frequent) + (has_gap and not has_rare_gap)  # a missing value sorts last
    other = start + n_places if rare_levels else None
    missing = start + len(frequent) if has_gap and not has_rare_gap else other
    return TextLevels(name, places, other, missing, n_places + bool(rare_levels))
