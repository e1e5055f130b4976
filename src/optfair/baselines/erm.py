"""ERM: plain training, ``min_θ mean −log p_θ(y | x)``, for the other methods to be compared with.

It needs no groups, neither for training nor for predictions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import _num_samples

from optfair.baselines.base import Baseline, fit_plain
from optfair.inputs.training_data import TrainingData
from optfair.posteriors.models import model_probabilities, probability_function


class ERM(Baseline):
    """Fit a classifier as it is, with the input checks and the blind predictions of the other methods.

    Parameters
    ----------
    estimator : classifier, default None
        Any classifier with predict_proba; None is standardised multinomial logistic regression.
    sensitive_features : str, int, list or callable, default None
        Columns of X (names, positions or a function of X) that are left out of the features; None for none.
    missing : {"error", "group"}, default "error"
        Whether a missing group is an error or a group of its own.
    random_state : int, numpy generator or None, default None
        Seed of the parts of the estimator that have none.

    Attributes
    ----------
    estimator_ : classifier
        The fitted estimator.
    classes_ : ndarray of shape (n_classes,)
        Names of the classes.
    groups_ : Index
        Names of the groups.

    Examples
    --------
    >>> from optfair.baselines import ERM
    >>> from optfair.datasets import make_fair_classification
    >>> data = make_fair_classification(300, 4, random_state=0)
    >>> model = ERM(random_state=0).fit(data.X, data.y)
    >>> model.predict_proba(data.X).shape
    (300, 3)
    """

    criteria = ()
    _compares_groups = False

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

    def _learn(self, data: TrainingData, seed: int) -> None:
        self.estimator_ = fit_plain(self.estimator, data, seed)
        probability_function(self.estimator_)

    def predict_proba(self, X: Any, *, sensitive_features: Any = None) -> np.ndarray:
        """Return p(x), the probabilities of the fitted estimator.

        Parameters
        ----------
        X : array-like, sparse matrix, DataFrame, or torch Dataset
            The n rows.
        sensitive_features : None, default None
            Must be None: the method is blind.

        Returns
        -------
        ndarray of shape (n, n_classes)
            Probabilities, in the order of ``classes_``.

        Examples
        --------
        >>> from optfair.baselines import ERM
        >>> model = ERM(random_state=0).fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
        >>> model.predict_proba([[0.0], [3.0]]).round(1).tolist()
        [[0.8, 0.2], [0.2, 0.8]]
        """
        X, _ = self._check_new_rows(X, sensitive_features)
        return model_probabilities(self.estimator_, X)
