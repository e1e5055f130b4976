"""The answer of a game: its rounds, mixed.

    h_j(x) = Σ_t w_t 1[the model of round t votes j],      w ≥ 0, Σ w = 1

"all" weighs every round the same (Theorem 5.2), "last_half" the second half, when the multipliers have settled, and
"lp" gives the weights that are best on the training people:  max_w Σ_t w_t <U, J_t>  s.t.  lower ≤ Σ_t w_t D_t ≤ upper.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize
from sklearn.utils.validation import _num_samples

from optfair.features import drop_columns, is_dataset, item_features, take_rows
from optfair.inprocessing.game import Game, Trace

MIXTURES = ("last_half", "all", "lp")
BLOCK = 1024  # items of a data set that are in memory at once
NEGLIGIBLE = 1e-9


@dataclass(frozen=True, eq=False)
class Mixture:
    """front : transformers fitted before the game, or None. members : classifiers of class codes. weights : (k,)."""

    front: Any
    members: tuple[Any, ...]
    weights: np.ndarray
    n_classes: int

    def __call__(self, X: Any) -> np.ndarray:
        """h, (n, m)."""
        return np.concatenate([self._shares(block) for block in _blocks(X)])

    def _shares(self, X: Any) -> np.ndarray:
        X = X if self.front is None else self.front.transform(X)
        h = np.zeros((_num_samples(X), self.n_classes))
        for model, weight in zip(self.members, self.weights, strict=True):
            h[np.arange(len(h)), np.asarray(model.predict(X), dtype=np.intp)] += weight
        # Weights sum to one, sums of them only nearly: whoever has all the votes is certain.
        return np.where(h > 1 - NEGLIGIBLE, 1.0, h)


@dataclass(frozen=True, eq=False)
class Scores:
    """The softmax of one model: scores for post-processing, not probabilities of a class (its targets were costs).

    unused : columns of X that the model has never seen.
    """

    front: Any
    model: Any
    classes_: np.ndarray
    unused: Any = None

    def predict_proba(self, X: Any) -> np.ndarray:
        X = drop_columns(X, self.unused)
        X = X if self.front is None else self.front.transform(X)
        P = np.asarray(self.model.predict_proba(X), dtype=np.float64)
        scores = np.zeros((len(P), len(self.classes_)))
        scores[:, np.asarray(self.model.classes_, dtype=np.intp)] = P
        return scores


def _blocks(X: Any) -> Iterator[Any]:
    """Arrays and tables whole; a data set in pieces, so that each item is read once for all members."""
    if not is_dataset(X):
        yield X
        return
    for start in range(0, len(X), BLOCK):
        part = take_rows(X, np.arange(start, min(start + BLOCK, len(X))))
        yield np.stack([item_features(part[i]) for i in range(len(part))])


def round_weights(mixture: str, game: Game, trace: Trace) -> np.ndarray:
    """w, (T,)."""
    T = len(trace)
    if mixture != "lp":
        first = T // 2 if mixture == "last_half" else 0
        return np.where(np.arange(T) >= first, 1.0 / (T - first), 0.0)
    gain = np.array([(game.utility * J).sum() for J in trace.confusions])
    D = np.array([game.values(J) for J in trace.confusions]).T
    up, low = np.isfinite(game.rows.upper), np.isfinite(game.rows.lower)
    outside = np.concatenate([D[up] - game.rows.upper[up, None], game.rows.lower[low, None] - D[low]])
    # s, the excess that no mixture of these rounds can avoid, is made as small as possible before anything else.
    least = _program(np.append(np.zeros(T), 1.0), np.column_stack([outside, -np.ones(len(outside))]), 0.0, T)[-1]
    return _program(-gain, outside, max(least, 0.0) + 1e-9, T)


def _program(costs: np.ndarray, rows: np.ndarray, bound: float, n_weights: int) -> np.ndarray:
    """argmin costs·w  s.t.  rows·w ≤ bound, Σ of the first ``n_weights`` = 1, all ≥ 0."""
    total = np.where(np.arange(len(costs)) < n_weights, 1.0, 0.0)
    result = optimize.linprog(costs, rows, np.full(len(rows), bound), total[None], [1.0], method="highs")
    if not result.success:
        raise RuntimeError(f"HiGHS: {result.message}")
    w = np.maximum(result.x, 0.0)
    return np.where(w < NEGLIGIBLE, 0.0, w)
