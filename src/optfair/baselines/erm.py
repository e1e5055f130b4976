"""ERM: plain training, ``min_θ mean −log p_θ(y | x)``, for the other methods to be compared with.

It needs no groups, neither to learn nor to answer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import _num_samples

from optfair.base import People
from optfair.baselines.base import Baseline, fit_plain
from optfair.estimation.models import asked, model_probabilities


class ERM(Baseline):
    """A classifier as it is, with the door, the blindness and the answers of the other methods.

    Parameters
    ----------
    estimator : any classifier with predict_proba; None: standardised multinomial logistic regression.
    sensitive_features : None, or columns of X (names, positions or a function of X) that are left out of the features.
    missing : a missing group is an "error", or a "group" of its own. random_state : seed of the estimator's parts that
        have none.

    Attributes
    ----------
    estimator_ : fitted. classes_, groups_ : names.
    """

    criteria = ()

    def __init__(
        self, estimator: Any = None, *, sensitive_features: Any = None, missing: str = "error", random_state: Any = None
    ) -> None:
        self.estimator = estimator
        self.sensitive_features = sensitive_features
        self.missing = missing
        self.random_state = random_state

    def _check_arguments(self) -> None:
        pass

    def _groups_of(self, X: Any, sensitive_features: Any) -> Any:
        if self.sensitive_features is None and sensitive_features is None:
            return np.zeros(_num_samples(X), dtype=int)
        return super()._groups_of(X, sensitive_features)

    def _learn(self, people: People, seed: int) -> None:
        self.estimator_ = fit_plain(self.estimator, people, seed)
        asked(self.estimator_)

    def predict_proba(self, X: Any, *, sensitive_features: Any = None) -> np.ndarray:
        """p(x), (n, n_classes) in the order of ``classes_``."""
        X, _ = self._new_people(X, sensitive_features)
        return model_probabilities(self.estimator_, X)
