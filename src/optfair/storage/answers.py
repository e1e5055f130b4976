"""Name and write the columns of answers that stand beside rows in files."""

from __future__ import annotations

import hashlib
import pickle
import secrets
from collections.abc import Iterable, Sequence
from typing import Any

import joblib
import numpy as np
import pandas as pd

from optfair.errors import brief_repr

PREDICTION, PROBABILITY_PREFIX = "prediction", "p_"  # columns of answers


def as_names(columns: str | Sequence[str] | None, argument: str) -> list[str]:
    """Return names of columns as a list; None is none."""
    items = () if columns is None else (columns,) if isinstance(columns, str) else columns
    names = list(items) if isinstance(items, Iterable) else [items]
    if not all(isinstance(name, str) for name in names):
        raise ValueError(f"{argument}={brief_repr(columns)}: must name columns of the files.")
    return names


def output_names(classes: Sequence[Any], probabilities: bool) -> list[str]:
    """Return the names of the columns of answers."""
    return [PREDICTION, *(f"{PROBABILITY_PREFIX}{name}" for name in (classes if probabilities else []))]


def answer_frame(outputs: Sequence[str], answers: np.ndarray, probabilities: np.ndarray | None) -> pd.DataFrame:
    """Return the columns of answers. probabilities : (k, m), or None where there are no names for them."""
    columns = {outputs[0]: answers}
    if probabilities is not None:
        columns |= {name: probabilities[:, k] for k, name in enumerate(outputs[1:])}
    return pd.DataFrame(columns)


def key_values(frame: pd.DataFrame, names: Sequence[str]) -> Any:
    """Return who each person is, by one column or several; None for none."""
    if len(names) < 2:
        return frame[names[0]] if names else None
    return list(frame[list(names)].itertuples(index=False, name=None))


def content_digest(answers: Any) -> str:
    """Return a text that another model, or another way to ask it, would not have; of no use to whoever reads it."""
    try:
        content = joblib.hash(answers)
    except (AttributeError, TypeError, ValueError, pickle.PicklingError):  # what cannot be pickled is never the same
        content = secrets.token_hex()
    return hashlib.sha256(str(content).encode()).hexdigest()
