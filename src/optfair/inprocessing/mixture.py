"""Mix the rounds of a game into one classifier.

    h_j(x) = Σ_t w_t 1[the model of round t predicts j],      w ≥ 0, Σ w = 1

"all" weighs every round the same (Theorem 5.2), "last_half" the second half, when the multipliers have settled, and
"lp" gives the weights that are best on the rows measured on:  max_w Σ_t w_t <U, J_t> − B · excess of Σ_t w_t D_t, which
is min_λ L(h, λ): within the bounds wherever that costs less than B per unit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize
from sklearn.utils.validation import _num_samples

from optfair.inprocessing.copies import class_codes
from optfair.inprocessing.game import Game, Trace
from optfair.inputs.containers import drop_columns, is_dataset, item_features
from optfair.posteriors.models import model_threads

MIXTURES = ("last_half", "all", "lp")
BLOCK_NUMBERS = 2**22  # numbers of a data set in memory at once: 32 megabytes
NEGLIGIBLE = 1e-9  # weights below this are rounding of the linear program


@dataclass(frozen=True, eq=False)
class Mixture:
    """A weighted vote of classifiers.

    transformer : fitted before the game, or None. members : classifiers of class codes. weights : (k,).
    """

    transformer: Any
    members: tuple[Any, ...]
    weights: np.ndarray
    n_classes: int

    def __call__(self, X: Any) -> np.ndarray:
        """Return h, (n, m)."""
        return np.concatenate([self._shares(block) for block in _blocks(X)])

    def _shares(self, X: Any) -> np.ndarray:
        X = X if self.transformer is None else self.transformer.transform(X)
        h = np.zeros((_num_samples(X), self.n_classes))
        for model, weight in zip(self.members, self.weights, strict=True):
            with model_threads(model):
                codes = class_codes(model.predict(X))
            h[np.arange(len(h)), codes] += weight
        # Weights sum to one, sums of them only nearly: a class with all the votes is certain.
        return np.where(h > 1 - NEGLIGIBLE, 1.0, h)


@dataclass(frozen=True, eq=False)
class ModelScores:
    """The softmax of one model: scores for post-processing, not probabilities of a class (its targets were costs).

    unused : columns of X that the model has never seen.
    """

    transformer: Any
    model: Any
    classes_: np.ndarray
    unused: Any = None

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the scores, (n, m)."""
        X = drop_columns(X, self.unused)
        X = X if self.transformer is None else self.transformer.transform(X)
        with model_threads(self.model):
            P = np.asarray(self.model.predict_proba(X), dtype=np.float64)
        scores = np.zeros((len(P), len(self.classes_)))
        scores[:, np.asarray(self.model.classes_, dtype=np.intp)] = P
        return scores


def _blocks(X: Any) -> Iterator[Any]:
    """Yield arrays and tables whole; a data set in pieces, so that each item is read once for all members."""
    if not is_dataset(X):
        yield X
        return
    block = max(1, BLOCK_NUMBERS // max(1, item_features(X[0]).size))
    for start in range(0, len(X), block):
        yield np.stack([item_features(X[i]) for i in range(start, min(start + block, len(X)))])


def round_weights(mixture: str, game: Game, trace: Trace) -> np.ndarray:
    """Return w, (T,)."""
    T = len(trace)
    if mixture != "lp":
        first = T // 2 if mixture == "last_half" else 0
        return np.where(np.arange(T) >= first, 1.0 / (T - first), 0.0)
    gain = np.array([(game.utility * J).sum() for J in trace.confusions])
    D = np.array([game.values(J) for J in trace.confusions]).T
    up, low = np.isfinite(game.rows.upper), np.isfinite(game.rows.lower)
    outside = np.concatenate([D[up] - game.rows.upper[up, None], game.rows.lower[low, None] - D[low]])
    # The last variable is the excess s, which costs B: no more than the multipliers would ask for it.
    result = optimize.linprog(
        np.append(-gain, game.cap),
        np.column_stack([outside, -np.ones(len(outside))]),
        np.zeros(len(outside)),
        np.append(np.ones(T), 0.0)[None],
        [1.0],
        method="highs",
    )
    if not result.success:
        raise RuntimeError(f"HiGHS: {result.message}")
    w = np.where(result.x[:T] < NEGLIGIBLE, 0.0, result.x[:T])
    return np.asarray(w / w.sum())
