"""Draw rows by their mass in one reading, wherever they are: the same rows, however these are cut into parts.

Priority sampling (Duffield, Lund and Thorup, 2007): row i has the key u_i / mass_i, u_i a number in (0, 1) that is made
from the number of the row, and the rows with the smallest keys are drawn. With t the first key that is not, row i was
expected min(1, mass_i · t) times, and sums weighted by the inverse of that are unbiased. A part needs to offer only its
own smallest keys; one that turns out to have offered too few is asked once more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from optfair.dual.measure import Block

FIELDS = ("Z", "weight", "offset", "leverage")
OFFERED, SPARE = 2.0, 200  # a part offers so many times its share of the sample, and some more


@dataclass(frozen=True, eq=False)
class Offer:
    """Rows of a part with its smallest keys.

    key, mass, row : (k,), with the numbers of the rows. columns : their `FIELDS`, None where there are none.
    n_positive : rows of the part with any mass. is_cut : whether there are more of them than are offered.
    """

    key: np.ndarray
    mass: np.ndarray
    row: np.ndarray
    columns: dict[str, np.ndarray | None]
    n_positive: int

    @property
    def is_cut(self) -> bool:
        """Whether rows with larger keys were held back."""
        return len(self.key) < self.n_positive


def row_numbers(seed: int, rows: np.ndarray) -> np.ndarray:
    """Return a number in (0, 1) for each row, by its number and the seed (the finaliser of splitmix64)."""
    with np.errstate(over="ignore"):
        x = rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x ^= x >> np.uint64(31)
    return ((x >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def offer_rows(blocks: Iterable[Block], mass: Callable[[Block], np.ndarray], seed: int, limit: int) -> Offer:
    """Return the rows of a part with the ``limit`` smallest keys."""
    best: Offer | None = None
    for block in blocks:
        masses = np.asarray(mass(block), dtype=np.float64)
        positive = np.flatnonzero(masses > 0)
        rows = block.start + positive
        key = row_numbers(seed, rows) / masses[positive]
        index = _smallest(key, limit)
        columns = {name: _take(getattr(block, name), positive[index]) for name in FIELDS}
        offer = Offer(key[index], masses[positive[index]], rows[index], columns, len(positive))
        best = offer if best is None else _smaller_keys(best, offer, limit)
    assert best is not None
    return best


def _smaller_keys(first: Offer, second: Offer, limit: int) -> Offer:
    joined = join_offers([first, second])
    return _select(joined, _smallest(joined.key, limit))


def _smallest(key: np.ndarray, limit: int) -> np.ndarray:
    """Return the positions of the smallest keys, in their order."""
    return np.arange(len(key)) if len(key) <= limit else np.sort(np.argpartition(key, limit)[:limit])


def _take(column: np.ndarray | None, index: np.ndarray) -> np.ndarray | None:
    return None if column is None else column[index]


def _select(offer: Offer, index: np.ndarray) -> Offer:
    columns = {name: _take(column, index) for name, column in offer.columns.items()}
    return Offer(offer.key[index], offer.mass[index], offer.row[index], columns, offer.n_positive)


def join_offers(offers: Iterable[Offer]) -> Offer:
    """Return several offers as one."""
    parts = list(offers)
    columns: dict[str, Any] = {}
    for name in FIELDS:
        values: list[Any] = [part.columns[name] for part in parts]
        columns[name] = None if values[0] is None else np.concatenate(values)
    key, mass, row = (np.concatenate([getattr(part, name) for part in parts]) for name in ("key", "mass", "row"))
    return Offer(key, mass, row, columns, sum(part.n_positive for part in parts))


def cut_parts(offers: list[Offer], size: int) -> list[int]:
    """Return which parts must offer more rows before the sample is known."""
    keys = np.concatenate([offer.key for offer in offers])
    cut = [k for k, offer in enumerate(offers) if offer.is_cut]
    if len(keys) <= size:
        return cut
    last = np.partition(keys, size)[size]
    return [k for k in cut if offers[k].key.max() < last]  # what it held back may be before the last


def choose_rows(offers: list[Offer], size: int) -> tuple[Offer, np.ndarray]:
    """Return the sample in the order of its rows, and the inverse of how often each row was expected, (k,)."""
    joined = join_offers(offers)
    if len(joined.key) <= size:
        sample = _select(joined, np.argsort(joined.row, kind="stable"))
        return sample, np.ones(len(sample.key))
    order = np.argpartition(joined.key, size)
    threshold, first = joined.key[order[size]], order[:size]
    sample = _select(joined, first[np.argsort(joined.row[first], kind="stable")])
    return sample, np.maximum(1.0 / (sample.mass * threshold), 1.0)
