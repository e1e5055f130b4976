"""Write and read rules as JSON documents with a checksum: nothing in them is executed, names keep their type.

    {"format": "optfair rule", "version": 4, "sha256": of the compact JSON of "rule", "rule": {...}}

The secret key of hashed decisions is written apart (`optfair.rule.keys`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from optfair.constraints.rows import TABLE_COLUMNS
from optfair.errors import ChecksumError, RuleFileError
from optfair.rule.keys import key_fingerprint, write_with_key
from optfair.rule.multipliers import NUMBER_COLUMNS, named_frame

FORMAT, VERSION = "optfair rule", 4


# -- names and tables --------------------------------------------------------------------------------------
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
    if not isinstance(value, dict):
        return value
    (kind, content), *rest = value.items()
    if kind == "tuple" and not rest:
        return tuple(decode_name(part) for part in content)
    if kind == "timestamp" and not rest:
        return pd.Timestamp(content)
    if kind == "float" and not rest and content in ("inf", "-inf", "nan"):
        return float(content)
    raise RuleFileError(f"unknown kind of value {kind!r}")


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


def encode_table(multipliers: pd.DataFrame) -> dict[str, list[Any]]:
    """Return a table of rows as JSON."""
    return {str(column): [encode_name(value) for value in multipliers[column]] for column in multipliers}


def decode_table(content: dict[str, list[Any]], numbers: Sequence[str] = NUMBER_COLUMNS) -> pd.DataFrame:
    """Return what `encode_table` was given. numbers : its columns behind the names of the rows."""
    columns = {name: [decode_name(value) for value in values] for name, values in content.items()}
    if tuple(columns) != (*TABLE_COLUMNS, *numbers):
        raise ValueError("a table has other columns than expected")
    return named_frame(columns)


# -- documents ---------------------------------------------------------------------------------------------
def rule_content(rule: Any) -> dict[str, Any]:
    """Return the rule without its key, as what JSON can hold; `optfair.rule.loading` has the way back."""
    certificate = asdict(rule.certificate) | {"status": rule.certificate.status.name}
    return {
        "weights": rule.weights.tolist(),
        "temperatures": rule.temperatures.tolist(),
        "share": rule.share,
        "constant": rule.constant.tolist(),
        "groups": encode_index(rule.groups),
        "classes": encode_index(rule.classes),
        "multipliers": encode_table(rule.multipliers),
        "certificate": {name: encode_name(value) for name, value in certificate.items()},
        "key": None if rule.key is None else key_fingerprint(rule.key),
        "determinism": {name: encode_name(value) for name, value in asdict(rule.determinism).items()},
        "promise": None if rule.promise is None else _promise_content(rule.promise),
    }


def _promise_content(promise: Any) -> dict[str, Any]:
    content = {
        entry.name: getattr(promise, entry.name) for entry in fields(promise) if entry.name not in ("table", "model")
    }
    return {name: encode_name(value) for name, value in content.items()} | {"table": encode_table(promise.table)}


def write_document(path: Path, content: dict[str, Any], key: bytes | None) -> None:
    """Write the content of a rule with its checksum, and its key beside it."""
    document = {"format": FORMAT, "version": VERSION, "sha256": _checksum(content), "rule": content}
    text = json.dumps(document, indent=1, allow_nan=False)
    write_with_key(path, (text + "\n").encode(), key)


def read_document(path: Path) -> Any:
    """Return the content of a rule file whose format, version and checksum are right."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise RuleFileError(f"{path.name}: not a complete JSON file ({error}); save the rule again.") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise RuleFileError(f"{path.name}: not a rule written by optfair.")
    if document.get("version") != VERSION or isinstance(document["version"], bool):
        raise RuleFileError(
            f"{path.name}: has version {document.get('version')!r}, but this release reads version {VERSION}."
        )
    content: Any = document.get("rule")
    try:
        checksum = _checksum(content)
        stated = document["sha256"]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise RuleFileError(f"{path.name}: a part of the rule is missing or malformed ({error}).") from None
    if stated != checksum:
        raise ChecksumError(f"{path.name}: its content does not match its checksum; it was altered or damaged.")
    return content


def _checksum(content: Any) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
