"""Ask several logistic regressions about the same rows by one matrix product: P = softmax(C x + c).

scikit-learn checks and copies the rows for each model, which takes longer than the product; one row takes a tenth of a
millisecond per model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression


@dataclass(frozen=True, eq=False)
class LogisticStack:
    """C : (K, d) and c : (K,), those of all models one below the other. parts : number of a model → its rows of C."""

    C: np.ndarray
    c: np.ndarray
    parts: dict[int, slice]

    @classmethod
    def of(cls, models: Sequence[Any], X: Any) -> LogisticStack:
        """Return the stack of those models that are plain logistic regressions; of none if X must be checked first."""
        coefficients, intercepts, parts, stop = [np.empty((0, 0))], [np.empty(0)], {}, 0
        if type(X) is np.ndarray and X.ndim == 2 and X.dtype == np.float64 and np.isfinite(X.sum()):
            coefficients = [np.empty((0, X.shape[1]))]
            for number, model in enumerate(models):
                if is_plain(model, X.shape[1]):
                    # Two classes have one score: that of the other is zero.
                    n_zeros = len(model.classes_) - len(model.coef_)
                    coefficients += [np.zeros((n_zeros, X.shape[1])), model.coef_]
                    intercepts += [np.zeros(n_zeros), model.intercept_]
                    start, stop = stop, stop + len(model.classes_)
                    parts[number] = slice(start, stop)
        return cls(np.concatenate(coefficients), np.concatenate(intercepts), parts)

    def columns(self, X: np.ndarray) -> dict[int, np.ndarray]:
        """Return the probabilities of each model, (k, n), by its number."""
        scores = self.C @ X.T
        scores += self.c[:, None]
        columns = {number: scores[part] for number, part in self.parts.items()}
        for P in columns.values():
            P -= P.max(axis=0)
            np.exp(P, out=P)
            P /= P.sum(axis=0)
        return columns


def is_plain(model: Any, width: int) -> bool:
    """Tell whether the probabilities of a model are the softmax of its scores."""
    if type(model) is not LogisticRegression or model.solver == "liblinear":
        return False
    k = len(model.classes_)
    shape = (1 if k == 2 else k, width)
    is_joint = getattr(model, "multi_class", "auto") in ("auto", "deprecated")  # one against the others once could be
    return is_joint and model.coef_.shape == shape and np.shape(model.intercept_) == shape[:1]
