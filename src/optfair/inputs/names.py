"""Write names of groups and classes as JSON that keeps their type, and read them again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd


def encode_name(value: Any) -> Any:
    """Return a name or number as JSON that keeps its type."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, tuple):
        return {"tuple": [encode_name(part) for part in value]}
    if isinstance(value, pd.Timestamp):
        return {"timestamp": value.isoformat()}
    if isinstance(value, float) and not np.isfinite(value):
        return {"float": str(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise ValueError(
        f"save: a name of type {type(value).__name__} cannot be written; use text, numbers or tuples of them."
    )


def decode_name(value: Any) -> Any:
    """Return what `encode_name` was given."""
    if isinstance(value, list):
        raise ValueError("a list is no name")
    if not isinstance(value, dict):
        return value
    (kind, content), *rest = value.items()
    if kind == "tuple" and not rest:
        return tuple(decode_name(part) for part in content)
    if kind == "timestamp" and not rest:
        return pd.Timestamp(content)
    if kind == "float" and not rest and content in ("inf", "-inf", "nan"):
        return float(content)
    raise ValueError(f"unknown kind of value {kind!r}")


def encode_index(index: pd.Index) -> dict[str, Any]:
    """Return an index of names as JSON."""
    return {
        "labels": [encode_name(label) for label in index],
        "names": [encode_name(name) for name in index.names],
        "several": isinstance(index, pd.MultiIndex),
    }


def decode_index(content: dict[str, Any]) -> pd.Index:
    """Return what `encode_index` was given."""
    labels = [decode_name(label) for label in content["labels"]]
    names = [decode_name(name) for name in content["names"]]
    if content["several"]:
        return pd.MultiIndex.from_tuples(labels, names=names)
    index = pd.Index(labels, tupleize_cols=False, name=names[0])
    if [type(label) for label in index.tolist()] != [type(label) for label in labels]:
        index = pd.Index(labels, tupleize_cols=False, name=names[0], dtype=object)
    if not index.is_unique or index.hasnans:
        raise ValueError("a name is missing or occurs twice")
    return index
