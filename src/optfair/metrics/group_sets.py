"""Tell which sets of groups rates are about, and who is surely, possibly or surely not in them.

A set of groups is one group, all that share the value of an attribute, or everybody: in each attribute, one value or
any. A person is surely in it if every attribute that it asks for is known and has its value, and possibly if none that
is known has another.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optfair.constraints import RowSet

ANY = -1  # of a set, in place of the value of an attribute


@dataclass(frozen=True, eq=False)
class GroupSets:
    """The G sets of groups and the events of R rates.

    members : (G, A) groups of each set. values : (G, L) value of each attribute, or ANY. index : (R,) the set of each
    rate. event : (R,) number of its event: rates of the same event differ in the set alone. given : (R, m) true classes
    it is conditioned on. hits : (R, m, m) true and predicted classes that count.
    """

    members: np.ndarray
    values: np.ndarray
    index: np.ndarray
    event: np.ndarray
    given: np.ndarray
    hits: np.ndarray

    @property
    def is_everyone(self) -> np.ndarray:
        """Which sets hold every group, (G,)."""
        return np.asarray(self.members.all(axis=1))

    @property
    def misses(self) -> np.ndarray:
        """The cells of each rate that do not count, (R, m, m)."""
        return np.asarray(self.given[:, :, None] & ~self.hits)

    def sure(self, attributes: np.ndarray) -> np.ndarray:
        """Tell who is surely in each set, (G, S).   attributes: (S, L), −1 where missing"""
        values = self.values[:, None]
        return np.asarray(((values == ANY) | (values == attributes)).all(axis=2))

    def possible(self, attributes: np.ndarray) -> np.ndarray:
        """Tell who is possibly in each set, (G, S).   attributes: (S, L), −1 where missing"""
        values = self.values[:, None]
        return np.asarray(((values == ANY) | (values == attributes) | (attributes == -1)).all(axis=2))


def find_sets(rows: RowSet, attributes: np.ndarray, m: int) -> GroupSets:
    """Return the sets and events of rows that combine rates.   attributes: (A, L) of the groups"""
    R, A = rows.conditions.shape[0], len(attributes)
    members, given = np.zeros((R, A), dtype=bool), np.zeros((R, m), dtype=bool)
    hits = np.zeros((R, m * m), dtype=bool)
    conditions, counted = rows.conditions.tocoo(), rows.hits.tocoo()
    members[conditions.row, conditions.col // m] = True
    given[conditions.row, conditions.col % m] = True
    hits[counted.row, counted.col % (m * m)] = True
    members, index = np.unique(members, axis=0, return_inverse=True)
    _, event = np.unique(np.column_stack([given, hits]), axis=0, return_inverse=True)
    first = attributes[members.argmax(axis=1)]  # of one group of each set
    # A value that all groups of a set have by chance counts as asked for too, which is the more careful reading.
    same = np.array([(attributes[mask] == attributes[mask][0]).all(axis=0) for mask in members])
    values = np.where(members.all(axis=1, keepdims=True) | ~same, ANY, first)
    return GroupSets(members, values, index.ravel(), event.ravel(), given, hits.reshape(R, m, m))
