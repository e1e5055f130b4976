"""Ask a model what it reads, and say what it has not seen."""

from __future__ import annotations

import shlex
from typing import Any

import pandas as pd

from optfair.cli.console import join_names
from optfair.cli.paths import InputError
from optfair.estimators.text_levels import fitted_encoder, gap_note, text_levels, unseen_note
from optfair.inputs.placeholders import is_placeholder
from optfair.inputs.schema import Advice, Schema

OPTIONS = Advice(
    drop="leave the column out by --drop {name}",
    decimal="add --decimal ',' (or --category {name} if they are codes)",
    silence="--drop {name} silences this note",
    identifier="leave it out by --drop {name}, or say --cluster {name} if it tells which rows are of one person",
)


def model_schema(model: Any) -> Schema | None:
    """Return what the encoder of a model reads, or None for a model without one."""
    encoder = fitted_encoder(model)
    return None if encoder is None else Schema(encoder.numbers_, encoder.texts_)


def check_levels(model: Any, X: pd.DataFrame) -> list[str]:
    """Return notes on texts that the encoder of a model has not seen: it treats them as rare ones."""
    notes = []
    for levels in text_levels(fitted_encoder(model)):
        name, column = levels.name, X[levels.name]
        unseen = column[column.notna() & ~column.isin(levels.texts)]
        n_missing = int(column.isna().sum())
        if n_missing and not levels.had_gaps:
            notes.append(gap_note(f"column {name!r}", f"{n_missing} of {len(X)} rows"))
        if len(unseen) == len(X):
            raise InputError(
                f"column {name!r}: the model has seen none of its texts, such as {unseen.iloc[0]!r}; it knows "
                f"{join_names(levels.texts, 5)}. Is the spelling different{_na_hint(unseen)}?"
            )
        if len(unseen):
            example = unseen.iloc[0], f"row {X.index.get_loc(unseen.index[0]) + 1}"
            share = f"{len(unseen)} of {len(X)} rows"
            notes.append(unseen_note(f"column {name!r}", share, example, _na_hint(unseen)))
    return notes


def _na_hint(texts: pd.Series) -> str:
    """Return advice on the first text that looks like a missing value, or ""."""
    text = next((value for value in texts.unique() if is_placeholder(value)), None)
    return "" if text is None else f" (if {text!r} means missing, add --na {shlex.quote(text.strip())})"
