"""A rule as a JSON file: nothing in it is ever executed, names keep their type, and any change is noticed.

    {"format": "optfair rule", "version": 1, "sha256": of the compact JSON of "rule", "rule": {...}}

The secret key of hashed decisions is written apart, in ``<path>.key``: lines of "fingerprint key", hexadecimal. The
rule holds the fingerprint of its key, so that no other rule's key is taken for it.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from optfair.constraints.rows import TABLE_COLUMNS, object_frame
from optfair.decisions import KEY_BYTES
from optfair.determinism import Determinism
from optfair.dual.certificate import Certificate
from optfair.errors import RuleFileError
from optfair.files import write_atomically
from optfair.rule import FairRule

FORMAT, VERSION = "optfair rule", 1
Proof = TypeVar("Proof", Certificate, Determinism)


def encode_name(value: Any) -> Any:
    """A name or number as JSON that keeps its type."""
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
    several = isinstance(index, pd.MultiIndex)
    return {
        "labels": [encode_name(x) for x in index],
        "names": [encode_name(x) for x in index.names],
        "several": several,
    }


def decode_index(content: dict[str, Any]) -> pd.Index:
    labels = [decode_name(label) for label in content["labels"]]
    names = [decode_name(name) for name in content["names"]]
    if content["several"]:
        return pd.MultiIndex.from_tuples(labels, names=names)
    index = pd.Index(labels, tupleize_cols=False, name=names[0])
    if [type(label) for label in index.tolist()] != [type(label) for label in labels]:
        index = pd.Index(labels, tupleize_cols=False, name=names[0], dtype=object)
    if not index.is_unique or index.hasnans:
        raise ValueError("a name is missing or there twice")
    return index


def encode_table(multipliers: pd.DataFrame) -> dict[str, list[Any]]:
    return {str(c): [encode_name(v) for v in multipliers[c]] for c in multipliers}


def decode_table(content: dict[str, list[Any]]) -> pd.DataFrame:
    columns = {name: [decode_name(v) for v in values] for name, values in content.items()}
    if tuple(columns) != (*TABLE_COLUMNS, "multiplier", "price", "value", "lower", "upper"):
        raise ValueError("the multipliers have other columns than expected")
    return multiplier_frame(columns)


def _checksum(content: Any) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def rule_content(rule: FairRule) -> dict[str, Any]:
    """The rule without its key, as what JSON can hold; `rule_from` is the way back."""
    certificate = {name: encode_name(value) for name, value in asdict(rule.certificate).items()}
    return {
        "weights": rule.weights.tolist(),
        "temperatures": rule.temperatures.tolist(),
        "share": rule.share,
        "constant": rule.constant.tolist(),
        "groups": encode_index(rule.groups),
        "classes": encode_index(rule.classes),
        "multipliers": encode_table(rule.multipliers),
        "certificate": certificate,
        "key": None if rule.key is None else key_fingerprint(rule.key),
        "determinism": {name: encode_name(value) for name, value in asdict(rule.determinism).items()},
    }


def save_rule(rule: FairRule, path: str | os.PathLike[str]) -> None:
    """Write ``rule`` to ``path`` and its key to ``path`` + ".key"."""
    path, content = Path(path), rule_content(rule)
    document = {"format": FORMAT, "version": VERSION, "sha256": _checksum(content), "rule": content}
    text = json.dumps(document, indent=1, allow_nan=False)
    write_with_key(path, (text + "\n").encode(), rule.key)


def write_with_key(path: Path, content: bytes, key: bytes | None) -> None:
    """Write a file, and the secret key beside it as ``path`` + ".key", readable by the owner only."""
    beside = _key_path(path)
    line = b"" if key is None else f"{key_fingerprint(key)} {key.hex()}\n".encode()
    old = beside.read_bytes() if line and beside.exists() else b""
    if line:
        # The old rule's key stays until the new rule is in place: at no moment is a rule without its key.
        write_atomically(beside, line + old, mode=0o600)
    try:
        write_atomically(path, content)
    except BaseException:
        if line and not old:
            with suppress(OSError):
                beside.unlink()  # the key of nothing
        raise
    if line:
        write_atomically(beside, line, mode=0o600)


def load_rule(path: str | os.PathLike[str], key: bytes | str | None = None) -> FairRule:
    """Read a rule written by `FairRule.save`; the key from ``path`` + ".key" unless given.

    key : ``FairRule.key`` (bytes), or the text of a key file.
    """
    path = Path(path)
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
        if document["sha256"] != _checksum(content):
            raise RuleFileError(f"{path.name}: its content does not match its checksum; it was altered or damaged.")
        rule, fingerprint = rule_from(content), content["key"]
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        if isinstance(error, RuleFileError) and "checksum" in str(error):
            raise
        raise RuleFileError(f"{path.name}: a part of the rule is missing or malformed ({error}).") from None
    return replace(rule, key=find_key(path, fingerprint, key))


def rule_from(content: dict[str, Any]) -> FairRule:
    weights = np.array(content["weights"], dtype=np.float64)
    groups, classes = decode_index(content["groups"]), decode_index(content["classes"])
    temperatures = np.array(content["temperatures"], dtype=np.float64)
    constant = np.array(content["constant"], dtype=np.float64)
    A, m = len(groups), len(classes)
    if weights.shape != (A, m, m) or temperatures.shape != (A, m) or constant.shape != (m,):
        raise ValueError("array shapes do not fit the names")
    if not (np.isfinite(weights).all() and np.isfinite(temperatures).all() and np.isfinite(constant).all()):
        raise ValueError("a number is not finite")
    share = float(content["share"])
    if not (0 <= share <= 1 and (temperatures >= 0).all() and (constant >= 0).all() and abs(constant.sum() - 1) < 1e-6):
        raise ValueError("a number is out of its range")
    return FairRule(
        weights=weights,
        temperatures=temperatures,
        share=share,
        constant=constant,
        groups=groups,
        classes=classes,
        multipliers=decode_table(content["multipliers"]),
        certificate=_proof(Certificate, content["certificate"]),
        determinism=_proof(Determinism, content["determinism"]),
    )


def _proof(kind: type[Proof], content: dict[str, Any]) -> Proof:
    if set(content) != {field.name for field in fields(kind)}:
        raise ValueError(f"the {kind.__name__.lower()} has other fields than expected")
    return kind(**{name: decode_name(value) for name, value in content.items()})


def multiplier_frame(columns: dict[str, Any]) -> pd.DataFrame:
    """The multipliers table: names as Python objects, numbers as floats."""
    names = [column for column in columns if column in TABLE_COLUMNS]
    frame = object_frame(names, list(zip(*(columns[name] for name in names), strict=True)))
    return frame.assign(**{name: np.array(v, dtype=float) for name, v in columns.items() if name not in names})


def _key_path(path: Path) -> Path:
    return path.with_name(path.name + ".key")


def key_fingerprint(key: bytes) -> str:
    return hashlib.blake2b(key, digest_size=8, person=b"optfair key").hexdigest()


def find_key(path: Path, fingerprint: str | None, key: bytes | str | None) -> bytes | None:
    """The key given, or the one beside the rule, that has the rule's fingerprint; None if there is none."""
    beside = _key_path(path)
    where = "key" if key is not None else beside.name
    if key is None:
        if fingerprint is None or not beside.exists():
            return None
        key = beside.read_text(encoding="ascii", errors="replace")
    candidates = [key] if isinstance(key, bytes) else []
    if isinstance(key, str):
        with suppress(ValueError):
            candidates = [bytes.fromhex(line.split()[-1]) for line in key.splitlines() if line.strip()]
    for candidate in candidates:
        if len(candidate) == KEY_BYTES and fingerprint in (None, key_fingerprint(candidate)):
            return candidate
    raise RuleFileError(f"{where}: not the {KEY_BYTES}-byte key that was written with this rule.")
