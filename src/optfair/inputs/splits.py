"""Divide rows into folds and hold some out, each stratum in equal shares."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.model_selection import check_cv

from optfair.errors import brief_repr, brief_text
from optfair.inputs.clusters import count_cut, deal_clusters
from optfair.inputs.identity import row_hashes
from optfair.inputs.training_data import TrainingData
from optfair.utils.seeds import as_generator

DEFAULT_FOLDS = 5
Split = tuple[np.ndarray, np.ndarray]
Splits = Sequence[Split]


def make_splits(cv: Any, data: TrainingData) -> Splits:
    """Return (train, test) positions; each row is in exactly one test part.

    A number of folds deals the rows out by content (`content_folds`), or by person where a person has several
    (`deal_clusters`). Splits that the caller made speak of all the rows given, and may cut nobody through.
    """
    cell, n, cluster = data.cell, data.n_given, data.cluster
    if cv is None or (isinstance(cv, str) and cv == "prefit"):
        cv = DEFAULT_FOLDS
    if isinstance(cv, (int, np.integer)) and not isinstance(cv, bool):
        if cv < 2:
            raise ValueError(f"cv={cv!r}: must be at least 2 folds, a splitter, a list of splits, or 'prefit'.")
        if cv > max(len(cell), DEFAULT_FOLDS):  # the default does for a handful of rows too
            raise ValueError(f"cv={cv!r}: there are {len(cell)} rows, and a fold needs one; give fewer folds, e.g. 5.")
        if cluster is None:
            return ContentSplits(data.X, cell, int(cv))
        n_clusters = len(np.unique(cluster))
        if n_clusters < cv:
            raise ValueError(f"cv={cv!r}: there are {n_clusters} clusters, and a fold needs one; give fewer folds.")
        return fold_splits(deal_clusters(cluster, cell, np.full(int(cv), 1 / int(cv))))
    place, strata = np.full(n, -1), np.zeros(n, dtype=int)
    place[data.positions], strata[data.positions] = np.arange(len(cell)), cell
    try:
        with warnings.catch_warnings():  # splitters that ignore people may still keep them whole
            warnings.filterwarnings("ignore", "The groups parameter is ignored", UserWarning)
            folds = list(check_cv(cv).split(np.zeros(n), strata, data.given_clusters))
        parts = [(place[train], place[test]) for train, test in folds]
    except (TypeError, ValueError, IndexError) as error:
        raise ValueError(
            f"cv={brief_repr(cv)}: must be a number of folds, a splitter, a list of splits, or 'prefit' "
            f"({brief_text(error)})."
        ) from None
    splits = [(train[train >= 0], test[test >= 0]) for train, test in parts]
    splits = [(train, test) for train, test in splits if len(test)]
    if any(len(train) == 0 or np.intersect1d(train, test).size for train, test in splits):
        raise ValueError("cv: a training part is empty, or holds people of its test part; they must be apart.")
    counts = np.bincount(np.concatenate([test for _, test in splits] or [cell[:0]]), minlength=len(cell))
    if (counts != 1).any():
        raise ValueError(
            f"cv: {int((counts != 1).sum())} rows are not in exactly one test part; out-of-fold posteriors need a "
            "partition, such as KFold gives."
        )
    n_cut = 0 if cluster is None else count_cut(cluster, splits)
    if n_cut:
        raise ValueError(
            f"cv: cuts {n_cut} clusters through, with rows in a training part and in its test part; use GroupKFold, "
            "StratifiedGroupKFold or a number of folds."
        )
    return splits


class ContentSplits(Sequence[Split]):
    """The splits of `content_folds`, made when they are first looked at: with a fitted model and many rows nobody does.

    X, strata, n_folds : see `content_folds`.
    """

    def __init__(self, X: Any, strata: np.ndarray, n_folds: int) -> None:
        self.X, self.strata, self.n_folds = X, strata, n_folds

    @cached_property
    def splits(self) -> list[Split]:
        """All of them."""
        return fold_splits(content_folds(self.X, self.strata, self.n_folds))

    def __len__(self) -> int:
        return min(self.n_folds, len(self.strata))

    def __getitem__(self, index: Any) -> Any:
        return self.splits[index]


def fold_splits(fold: np.ndarray) -> list[Split]:
    """Return (train, test) positions of each fold; fold : number of each row's, (n,)."""
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in np.unique(fold)]


def content_folds(X: Any, strata: np.ndarray, n_folds: int) -> np.ndarray:
    """Return fold[row] = (rank of the row by stratum, then by a hash of its content) mod n_folds, (n,).

    Folds by content, not by position: the order of the rows does not matter. Within each stratum, and over all, their
    sizes differ by at most one, and small strata do not all begin in fold 0.   strata: (n,) integer codes

    Copies of a row in one stratum are dealt to different folds. Where X has few distinct rows a copy is another person,
    and a model that had never seen their x would say nothing about them.
    """
    order = np.argsort(row_hashes(X), kind="stable")
    order = order[np.argsort(strata[order], kind="stable")]
    fold = np.empty(len(order), dtype=np.intp)
    fold[order] = np.arange(len(order)) % n_folds
    return fold


def split_held_out(data: TrainingData, share: float, seed: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return positions of (rows to learn from, rows held out), each with every group and every class."""
    mask = held_out_rows(data.cell, share, seed, data.cluster)
    parts = np.flatnonzero(~mask), np.flatnonzero(mask)
    for part in parts:
        if len(np.unique(data.a[part])) < len(data.groups) or len(np.unique(data.y[part])) < len(data.classes):
            raise ValueError(
                f"held_out={share!r}: divides the people into {len(parts[0])} and {len(parts[1])}, of whom one part "
                "lacks a whole group or class; there are too few of them to hold some out."
            )
    return parts


def held_out_rows(strata: np.ndarray, share: float, random_state: Any, cluster: np.ndarray | None = None) -> np.ndarray:
    """Return a mask, (n,), of a random ``share`` of the rows, the same of every stratum; clusters stay whole."""
    n, rng = len(strata), as_generator(random_state)
    if cluster is not None:
        shuffled = rng.permutation(int(cluster.max()) + 1)[cluster]
        return np.asarray(deal_clusters(shuffled, strata, (1 - share, share)) == 1)
    order = rng.permutation(n)
    order = order[np.argsort(strata[order], kind="stable")]
    crossed = np.floor((np.arange(-1, n) + 0.5) * share)  # one in 1/share of the sorted rows
    mask = np.zeros(n, dtype=bool)
    mask[order] = np.diff(crossed) > 0
    return mask
