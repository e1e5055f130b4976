"""From probabilities to one answer per person.

hashed  : the inverse CDF of h(x) at a keyed hash of the person: same person, same answer, every time, while the
          population behaves as the randomised rule.     u = top 53 bits of BLAKE2b(key, person) · 2⁻⁵³
argmax  : the likeliest class.      sampled : drawn anew with ``random_state``.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterable
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


def check_decision(decision: str, keys: Any, random_state: Any) -> None:
    """The way to decide, and that the arguments belong to it."""
    if decision not in DECISIONS:
        raise ValueError(f"decision={decision!r}: must be one of {', '.join(map(repr, DECISIONS))}.")
    if keys is not None and decision != "hashed":
        raise ValueError(f"keys: only decision='hashed' uses them; got decision={decision!r}.")
    if random_state is not None and decision != "sampled":
        raise ValueError(f"random_state: only decision='sampled' draws; got decision={decision!r}.")


def decide(
    h: np.ndarray,
    decision: str,
    people: Callable[[np.ndarray], Iterable[bytes]],
    keys: Any = None,
    random_state: Any = None,
    secret: bytes | None = None,
) -> np.ndarray:
    """Class positions, (n,), of probabilities h (n, m); ``people(index)`` are bytes that identify the rows in index."""
    if decision == "argmax":
        return first_best(h.T)
    if decision == "sampled":
        return choose(h, np.random.default_rng(random_state).random(len(h)))
    chosen = h.argmax(axis=1)
    undecided = np.flatnonzero(h.max(axis=1) < 1.0)
    if len(undecided):
        if secret is None:
            raise ValueError(
                "decision='hashed': this rule was loaded without its key. Keep the .key file beside the rule, pass it "
                "as key= when loading, or use decision='argmax' or 'sampled'."
            )
        who = people(undecided) if keys is None else (b"k" + _person(keys[i]) for i in undecided)
        chosen[undecided] = choose(h[undecided], uniforms(secret, who))
    return chosen


def posterior_people(rows: np.ndarray) -> Iterable[bytes]:
    """People known by their row of Z alone, (k, A·m)."""
    return (row.tobytes() for row in _canonical(rows))


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
