"""From probabilities to one answer per person.

hashed  : the inverse CDF of h(x) at a keyed hash of the person: same person, same answer, every time, while the
          population behaves as the randomised rule.     u = top 53 bits of BLAKE2b(key, person) · 2⁻⁵³
argmax  : the likeliest class.      sampled : drawn anew with ``random_state``.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

DECISIONS = ("hashed", "argmax", "sampled")
KEY_BYTES = 32
TIE = 1e-12


def new_key(random_state: int | None) -> bytes:
    """A secret key: from the system's randomness, or from a seed for reproducible runs."""
    if random_state is None:
        return secrets.token_bytes(KEY_BYTES)
    return hashlib.blake2b(f"optfair {random_state}".encode(), digest_size=KEY_BYTES).digest()


def first_best(scores: np.ndarray) -> np.ndarray:
    """The first class within rounding of the best one, (k,): ties then do not depend on the batch.   scores: (m, k)"""
    return np.asarray((scores >= scores.max(axis=0) - TIE).argmax(axis=0))


def choose(h: np.ndarray, u: np.ndarray) -> np.ndarray:
    """The inverse CDF of each row of h (n, m) at u (n,) in [0, 1)."""
    cumulative = np.cumsum(h, axis=1)
    chosen = (u[:, None] * cumulative[:, -1:] >= cumulative).sum(axis=1)
    # Rounding may leave u at the very end: never choose a class of probability zero.
    last = h.shape[1] - 1 - np.argmax(h[:, ::-1] > 0, axis=1)
    return np.minimum(chosen, last)


def _canonical(rows: np.ndarray) -> np.ndarray:
    """Rows as little-endian float32, one zero and one NaN."""
    canonical = np.ascontiguousarray(rows, dtype="<f4") + np.float32(0)  # −0.0 becomes 0.0
    canonical[np.isnan(canonical)] = np.nan
    return canonical


def _person(key: Any) -> bytes:
    """Bytes that identify a person by type and value; 1, 1.0, numpy's 1 and True are one person, "1" another."""
    if isinstance(key, np.generic):
        key = key.item()
    if isinstance(key, bytes):
        return b"b" + key
    if isinstance(key, tuple):
        parts = [_person(part) for part in key]
        return b"t" + b"".join(len(part).to_bytes(8, "little") + part for part in parts)
    if isinstance(key, (bool, int)) or (isinstance(key, float) and key.is_integer()):
        return b"i" + str(int(key)).encode()
    if isinstance(key, float):
        return b"f" + np.float64(key).astype("<f8").tobytes()
    return b"s" + str(key).encode()


def uniforms(secret: bytes, people: Iterable[bytes]) -> np.ndarray:
    """One number in [0, 1) per person, by keyed BLAKE2b."""
    hasher = hashlib.blake2b(key=secret, digest_size=8)
    numbers = []
    for person in people:
        h = hasher.copy()
        h.update(person)
        numbers.append(int.from_bytes(h.digest(), "little") >> 11)
    return np.array(numbers, dtype=np.float64) * 2.0**-53


def hashed_decisions(h: np.ndarray, rows: np.ndarray, keys: Any, secret: bytes) -> np.ndarray:
    """Class positions, (n,). Only undecided rows are hashed.   h: (n, m)   rows: (n, A·m)"""
    chosen = h.argmax(axis=1)
    open_rows = np.flatnonzero(h.max(axis=1) < 1.0)
    if keys is None:
        people: Iterable[bytes] = (row.tobytes() for row in _canonical(rows[open_rows]))
    else:
        people = (b"k" + _person(keys[i]) for i in open_rows)
    if len(open_rows):
        chosen[open_rows] = choose(h[open_rows], uniforms(secret, people))
    return chosen


def check_keys(keys: Any, n: int) -> Any:
    """Keys as a sequence of n; None passes."""
    if keys is None:
        return None
    if isinstance(keys, (str, bytes)) or not isinstance(keys, Iterable):
        raise ValueError(f"keys={keys!r}: must be a list with one key per row.")
    listed = keys.tolist() if hasattr(keys, "tolist") else list(keys)
    if len(listed) != n:
        raise ValueError(f"keys: {len(listed)} given for {n} rows; give one key per row.")
    listed = [tuple(key) if isinstance(key, list) else key for key in listed]
    missing = sum(key is None or key is pd.NA or key != key for key in listed)
    if missing:
        raise ValueError(f"keys: {missing} of {n} are missing (None or NaN); every person needs one.")
    return listed
