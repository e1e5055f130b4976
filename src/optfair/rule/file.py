"""Write and read rules as JSON documents with a checksum: nothing in them is executed, names keep their type.

    {"format": "optfair rule", "version": 5, "sha256": of the compact JSON of "rule", "rule": {...}}

The secret key of hashed decisions is written apart (`optfair.rule.keys`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pandas as pd

from optfair.constraints.rows import TABLE_COLUMNS
from optfair.errors import ChecksumError, RuleFileError
from optfair.inputs.names import decode_name, encode_index, encode_name
from optfair.rule.keys import key_fingerprint, write_with_key
from optfair.rule.multipliers import NUMBER_COLUMNS, named_frame
from optfair.rule.terms_file import terms_content

FORMAT, VERSION = "optfair rule", 5


# -- tables ------------------------------------------------------------------------------------------------
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
        "terms": terms_content(rule.terms),
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
