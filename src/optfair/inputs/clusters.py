"""Keep the rows of one person together: codes of the people, and parts that cut nobody through.

A model that has seen a person knows more about their other rows than about those of a stranger, so that posteriors out
of fold, calibration and people held out are honest only where a person is on one side.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from optfair.inputs.identity import key_bytes
from optfair.inputs.labels import object_array

SINGLE_BLOCK = 10_000  # clusters of one row that are dealt at once, so that memory does not grow with folds times rows


def encode_clusters(cluster: Any, n: int) -> np.ndarray | None:
    """Return codes[row] ∈ 0..C−1 of the C people, ordered by a hash of their ids, (n,); None passes.

    The hash makes the order arbitrary, and the same whatever the order of the rows.
    """
    if cluster is None:
        return None
    if isinstance(cluster, str):
        raise ValueError(f"cluster={cluster!r}: give the id of every row, such as X[{cluster!r}].")
    column = cluster if isinstance(cluster, pd.Series) else _as_column(cluster)
    if len(column) != n:
        raise ValueError(f"cluster: has {len(column)} rows but X has {n}; they must have the same rows.")
    try:
        codes, ids = pd.factorize(column)
    except TypeError:
        raise ValueError("cluster: holds values that cannot be ids; use numbers or texts.") from None
    if (codes < 0).any():
        raise ValueError(
            f"cluster: {int((codes < 0).sum())} of {n} rows are missing; drop them, or give each an id of its own."
        )
    digests = [hashlib.blake2b(key_bytes(person), digest_size=8).digest() for person in pd.Index(ids).tolist()]
    rank = np.empty(len(ids), dtype=np.intp)
    rank[np.argsort(np.array(digests), kind="stable")] = np.arange(len(ids))
    return rank[codes]


def _as_column(values: Any) -> np.ndarray:
    # Lists as objects: np.asarray(["a", 1]) would turn the 1 into "1".
    array = object_array(values) if isinstance(values, list | tuple) else np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"cluster: has shape {array.shape}; must be 1-d, one id per row.")
    return array


def deal_clusters(cluster: np.ndarray, strata: np.ndarray, shares: Sequence[float] | np.ndarray) -> np.ndarray:
    """Return the part of each row, (n,): whole clusters, and ``shares`` of every stratum as far as they allow.

    Every cluster, the largest first, goes where it adds least to Σ_f Σ_s load_fs² / (shares_f · n_s), where the strata
    are those given and that of all rows. Clusters of one row come last and level what the others have left uneven:
    where all have one row, parts of equal shares differ by at most one in every stratum and over all.
    cluster, strata: (n,) integer codes; the order of the codes of clusters decides between equals
    """
    n, share = len(cluster), np.asarray(shares, dtype=float)
    cluster = np.unique(cluster, return_inverse=True)[1]
    strata = np.unique(strata, return_inverse=True)[1]
    sizes, totals = np.bincount(cluster), np.append(np.bincount(strata), n)
    load = np.zeros((len(share), len(totals)))
    part = np.empty(len(sizes), dtype=np.intp)
    order = np.argsort(cluster, kind="stable")
    ends = np.cumsum(sizes)
    for c in np.lexsort((np.arange(len(sizes)), -sizes)):
        if sizes[c] == 1:
            break
        present, counts = np.unique(strata[order[ends[c] - sizes[c] : ends[c]]], return_counts=True)
        present, counts = np.append(present, len(totals) - 1), np.append(counts, sizes[c])
        increase = (load[:, present] + counts / 2) @ (counts / totals[present]) / share
        part[c] = increase.argmin()
        load[part[c], present] += counts
    single = order[(ends - 1)[sizes == 1]]  # their rows, by the code of the cluster
    for s in range(len(totals) - 1):
        rows = single[strata[single] == s]
        for start in range(0, len(rows), SINGLE_BLOCK):
            block = rows[start : start + SINGLE_BLOCK]
            level = (load[:, s, None] + np.arange(len(block)) + 0.5) / share[:, None]
            index = np.repeat(np.arange(len(share)), len(block))
            parts = index[np.lexsort((index, (load[:, -1] / share)[index], level.ravel()))[: len(block)]]
            part[cluster[block]] = parts
            increment = np.bincount(parts, minlength=len(share))
            load[:, s] += increment
            load[:, -1] += increment
    return part[cluster]


def count_cut(cluster: np.ndarray, splits: Sequence[tuple[np.ndarray, np.ndarray]]) -> int:
    """Return how many clusters have rows in a training part and in its test part."""
    cut = [np.intersect1d(cluster[train], cluster[test]) for train, test in splits]
    return len(np.unique(np.concatenate(cut))) if cut else 0
