"""Make and keep the secret keys of hashed decisions, apart from the files they belong to.

A key is written beside its rule or model, in ``<path>.key``: lines of "fingerprint key", hexadecimal. The file of the
rule, and whatever is exported of it, holds the fingerprint, so that no other rule's key is taken for it. The scorers
(`portable/scorers`) read keys in the same way.

    fingerprint = first 8 bytes of HMAC-SHA-256(key, "optfair key")
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Any

from optfair.errors import RuleFileError, warn
from optfair.utils.files import write_atomically

KEY_BYTES = 32
KEY_LINE = re.compile(r"[ \t]*(?:(?:(?P<name>[0-9a-fA-F]{16})[ \t]+)?(?P<key>[0-9a-fA-F]{64}))?[ \t\r]*")  # or none
OTHERS = 0o077  # permissions of everybody but the owner


def new_key(random_state: int | None) -> bytes:
    """Return a secret key: from the system's randomness, or from a seed for reproducible runs."""
    if random_state is None:
        return secrets.token_bytes(KEY_BYTES)
    return hashlib.blake2b(f"optfair {random_state}".encode(), digest_size=KEY_BYTES).digest()


def key_fingerprint(key: bytes) -> str:
    """Return a short hash that tells keys apart and gives none away: in every file, whatever the draws are made by."""
    return hmac.new(key, b"optfair key", "sha256").digest()[:8].hex()


def write_with_key(path: Path, content: bytes, key: bytes | None) -> None:
    """Write a file, and the secret key beside it as ``path`` + ".key", readable by the owner only."""
    key_file = _key_path(path)
    line = b"" if key is None else f"{key_fingerprint(key)} {key.hex()}\n".encode()
    old = key_file.read_bytes() if line and key_file.exists() else b""
    if line:
        # The old rule's key stays until the new rule is in place: at no moment is a rule without its key.
        write_atomically(key_file, line + old, mode=0o600)
    try:
        write_atomically(path, content)
    except BaseException:
        with suppress(OSError):
            if line and old:
                write_atomically(key_file, old, mode=0o600)
            elif line:
                key_file.unlink()  # the key of nothing
        raise
    if line:
        write_atomically(key_file, line, mode=0o600)


def find_key(path: Path, fingerprint: str | None, key: bytes | str | None) -> bytes | None:
    """Return the key given, or the one beside the rule, that has the rule's fingerprint; None if there is none."""
    key_file = _key_path(path)
    source = "key" if key is not None else key_file.name
    if key is None:
        if fingerprint is None or not key_file.exists():
            return None
        key = key_file.read_bytes().decode("latin-1")
    for candidate in _read_keys(key):
        if fingerprint in (None, key_fingerprint(candidate)):
            if source != "key":
                _warn_if_open(key_file)
            return candidate
    raise RuleFileError(f"{source}: not the {KEY_BYTES}-byte key that was written with this rule.")


def read_key_file(path: Path) -> bytes:
    """Return the key in a file that was written beside a rule or a model."""
    text = path.read_bytes().decode("latin-1")
    keys = _read_keys(text)
    lines = [line.split() for line in text.split("\n")]
    names = [parts[0].lower() for parts in lines if len(parts) == 2]  # no model is there that could tell a damaged key
    if not keys or not set(names) <= set(map(key_fingerprint, keys)):
        raise RuleFileError(f"{path.name}: not a key file, which has lines of a fingerprint and a key.")
    if len(set(keys)) > 1:
        raise RuleFileError(
            f"{path.name}: holds the keys of two models, since the second was not written to its end; load the model "
            "that is there and take its key, as in new.keep_key(load_model(...))."
        )
    _warn_if_open(path)
    return keys[0]


def _warn_if_open(path: Path) -> None:
    if os.name == "posix" and path.stat().st_mode & OTHERS:
        warn(f"{path.name}: others can read the key, and foretell draws; chmod 600.")


def _read_keys(key: Any) -> list[bytes]:
    """Return the keys in what was given: 32 bytes, or lines of hexadecimal digits; none where a line is no key."""
    text = key.hex() if isinstance(key, bytes) else key if isinstance(key, str) else "none"
    lines = [KEY_LINE.fullmatch(line) for line in text.split("\n")]
    return [bytes.fromhex(line["key"]) for line in lines if line and line["key"]] if all(lines) else []


def _key_path(path: Path) -> Path:
    return path.with_name(path.name + ".key")
