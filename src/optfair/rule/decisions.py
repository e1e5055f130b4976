"""Turn probabilities into one prediction per person.

hashed  : the inverse CDF of h(x) at a keyed hash of the person: same person, same prediction, every time, while the
          population behaves as the randomised rule.     u = top 53 bits of BLAKE2b(key, person) · 2⁻⁵³
          or of HMAC-SHA-256(key, person), which every language and database has
          Where max h(x) ≥ 1 − 2⁻³⁰ it is the likeliest class, whoever the person is.
argmax  : the likeliest class.      sampled : drawn anew with ``random_state``.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterable, Mapping, Set
from typing import Any

import numpy as np
import pandas as pd

from optfair.errors import brief_repr
from optfair.inputs.frames import as_frame
from optfair.inputs.identity import first_unstable, key_bytes
from optfair.inputs.values import check_text
from optfair.utils.checks import check_choice
from optfair.utils.seeds import as_generator

DECISIONS = ("hashed", "argmax", "sampled")
HASHES = ("blake2b", "hmac-sha256")  # the first takes a microsecond of a person, the second two
TIE = 1e-12  # probabilities this close are equal up to rounding, which depends on the batch
# Such a probability counts as one: no rate changes by more than 2⁻³⁰ < 1e-9, far below what a certificate states or a
# billion people could show; measured, a fifth to a quarter of all rows need no hash because of it.
CERTAIN = 1.0 - 2.0**-30


def first_best(scores: np.ndarray) -> np.ndarray:
    """Return the first class within rounding of the best one, (k,), whatever the batch.   scores: (m, k)"""
    return np.asarray((scores >= scores.max(axis=0) - TIE).argmax(axis=0))


def choose(h: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Return the inverse CDF of each row of h (n, m) at u (n,) in [0, 1)."""
    cumulative = np.cumsum(h, axis=1)
    codes = (u[:, None] * cumulative[:, -1:] >= cumulative).sum(axis=1)
    # Rounding may leave u at the very end: never choose a class of probability zero.
    last = h.shape[1] - 1 - np.argmax(h[:, ::-1] > 0, axis=1)
    return np.minimum(codes, last)


def keyed_hash(secret: bytes, hashing: str) -> Callable[[], Any]:
    """Return a function that gives a new hash which has read the key; the first eight bytes of its digest count."""
    if hashing == "hmac-sha256":
        return hmac.new(secret, digestmod="sha256").copy
    return hashlib.blake2b(key=secret, digest_size=8).copy


def uniforms(secret: bytes, identities: Iterable[bytes], hashing: str = "blake2b") -> np.ndarray:
    """Return one number in [0, 1) per identity."""
    start = keyed_hash(secret, hashing)  # to copy it is a fifth faster than a new hash for each identity
    digests = []
    for identity in identities:
        h = start()
        h.update(identity)
        digests.append(h.digest()[:8])
    return (np.frombuffer(b"".join(digests), dtype="<u8") >> 11) * 2.0**-53


def check_decision(decision: str, keys: Any, random_state: Any, hashing: str = "blake2b") -> None:
    """Check the way to decide, and that the other arguments belong to it."""
    check_choice("decision", decision, DECISIONS)
    check_choice("hashing", hashing, HASHES)
    if keys is not None and decision != "hashed":
        raise ValueError(f"keys: only decision='hashed' uses them; got decision={decision!r}.")
    if random_state is not None and decision != "sampled":
        raise ValueError(f"random_state: only decision='sampled' draws; got decision={decision!r}.")


def decide(
    h: np.ndarray,
    decision: str,
    identities: Callable[[np.ndarray], Iterable[bytes]],
    keys: Any = None,
    random_state: Any = None,
    secret: bytes | None = None,
    hashing: str = "blake2b",
) -> np.ndarray:
    """Return class positions, (n,), of probabilities h (n, m).

    identities : the bytes that identify the rows at an index, used where no ``keys`` do.
    """
    if decision == "argmax":
        return first_best(h.T)
    if decision == "sampled":
        return choose(h, as_generator(random_state).random(len(h)))
    codes, drawn_rows = likeliest_or_drawn(h)
    if len(drawn_rows):
        codes[drawn_rows] = choose(h[drawn_rows], person_draws(drawn_rows, identities, keys, secret, hashing))
    return codes


def likeliest_or_drawn(h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the likeliest class of each row, (n,), and the positions of the rows that a hashed decision draws for."""
    codes = h.argmax(axis=1)
    return codes, np.flatnonzero(h[np.arange(len(h)), codes] < CERTAIN)


def person_draws(
    rows: np.ndarray,
    identities: Callable[[np.ndarray], Iterable[bytes]],
    keys: Any,
    secret: bytes | None,
    hashing: str = "blake2b",
) -> np.ndarray:
    """Return the number in [0, 1) of each person at these positions, (k,): by their keys, or else by identity."""
    if secret is None:
        raise ValueError(
            "decision='hashed': this rule was loaded without its key. Keep the .key file beside the rule, pass it "
            "as key= when loading, or use decision='argmax' or 'sampled'."
        )
    people = identities(rows) if keys is None else (b"k" + key_bytes(keys[i]) for i in rows)
    return uniforms(secret, people, hashing)


def _is_missing(key: Any) -> bool:
    """Tell whether a key, or a part of it, is None, NaN or empty: people without an id would share one draw."""
    if isinstance(key, (tuple, list)):
        return not key or any(map(_is_missing, key))
    if isinstance(key, (str, bytes, bytearray)):
        return not key
    return key is None or key is pd.NA or bool(key != key)


def check_keys(keys: Any, n: int) -> list[Any] | None:
    """Return keys as a list of n, each of a type that reads the same in every process; None passes."""
    if keys is None:
        return None
    if isinstance(keys, (str, bytes, Mapping, Set)) or not isinstance(keys, Iterable) or getattr(keys, "ndim", 1) == 0:
        raise ValueError(f"keys={brief_repr(keys)}: must be a list with one key per row.")
    if hasattr(keys, "columns"):  # an id of several columns; to go through a frame gives their names
        table = as_frame(keys)
        keys = table.iloc[:, 0] if table.shape[1] == 1 else list(table.itertuples(index=False, name=None))
    # As a list NumPy's dates would be whole numbers, in a unit that depends on the array.
    is_time = isinstance(keys, np.ndarray) and keys.dtype.kind in "mM"
    entries = keys.tolist() if hasattr(keys, "tolist") and not is_time else list(keys)
    if len(entries) != n:
        raise ValueError(f"keys: {len(entries)} given for {n} rows; give one key per row.")
    entries = [tuple(key) if isinstance(key, list | np.ndarray) else key for key in entries]
    check_text(entries, "keys")
    if (stranger := first_unstable(entries)) is not None:
        raise ValueError(
            f"keys: {brief_repr(stranger)} is of type {type(stranger).__name__}, whose text may differ in another "
            "process; use text, numbers, dates, UUIDs, or tuples of these."
        )
    missing = sum(map(_is_missing, entries))
    if missing:
        raise ValueError(f"keys: {missing} of {n} are missing (None, NaN or empty); every person needs one.")
    return entries
