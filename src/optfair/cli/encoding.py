"""Ask a model what it reads, and say what it has not seen."""

from __future__ import annotations

import shlex
from typing import Any

import pandas as pd

from optfair.cli.console import join_names
from optfair.cli.paths import InputError
from optfair.inputs.encoder import TableEncoder
from optfair.inputs.placeholders import is_placeholder
from optfair.inputs.schema import TEXTS, Advice, Schema
from optfair.posteriors.preprocessing import fitted_steps

OPTIONS = Advice(
    drop="leave the column out by --drop {name}",
    decimal="add --decimal ',' (or --category {name} if they are codes)",
    silence="--drop {name} silences this note",
    identifier="leave it out by --drop {name}, or say --cluster {name} if it tells which rows are of one person",
)


def model_schema(model: Any) -> Schema | None:
    """Return what the encoder of a model reads, or None for a model without one."""
    encoder = _fitted_encoder(model)
    return None if encoder is None else Schema(encoder.numbers_, encoder.texts_)


def check_levels(model: Any, X: pd.DataFrame) -> list[str]:
    """Return notes on texts that the encoder of a model has not seen: it treats them as rare ones."""
    encoder = _fitted_encoder(model)
    if encoder is None or not encoder.texts_:
        return []
    one_hot, notes = encoder.transformer_.named_transformers_[TEXTS], []
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
                f"{join_names([level for level in levels if isinstance(level, str)], 5)}. Is the spelling different"
                f"{_na_hint(unseen)}?"
            )
        if len(unseen):
            notes.append(
                f"column {name!r}: {len(unseen)} of {len(X)} rows hold texts that the model has not seen, such as "
                f"{unseen.iloc[0]!r} (row {X.index.get_loc(unseen.index[0]) + 1}); they are treated as rare texts"
                f"{_na_hint(unseen)}."
            )
    return notes


def _na_hint(texts: pd.Series) -> str:
    """Return advice on the first text that looks like a missing value, or ""."""
    text = next((value for value in texts.unique() if is_placeholder(value)), None)
    return "" if text is None else f" (if {text!r} means missing, add --na {shlex.quote(text.strip())})"


def _fitted_encoder(model: Any) -> TableEncoder | None:
    """Return the encoder that a pipeline of a fitted model begins with, of the classes or the groups, or None."""
    posterior, mixture = getattr(model, "posterior_model_", None), getattr(model, "mixture_", None)
    classes, groups = getattr(posterior, "classes", posterior), getattr(posterior, "groups", None)
    pipelines = (getattr(classes, "model", None), getattr(groups, "transformer", None))
    for pipeline in (*pipelines, getattr(mixture, "transformer", None)):
        encoder = fitted_steps(pipeline)[0]
        if isinstance(encoder, TableEncoder):
            return encoder
    return None
