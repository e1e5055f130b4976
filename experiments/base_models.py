"""Make the models that methods stand on, and share those that several runs of a process fit to the same rows."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from optfair.errors import need_extra

CALLER = "python -m experiments"
PACKAGES = {
    "logistic": "sklearn",
    "naive": "sklearn",
    "boosted": "lightgbm",
}  # of models by their names; networks are of torch
NAIVE_SMOOTHING = 1e-3  # of the largest variance: columns of zeros and ones may be constant in a class
MAX_MODELS = 256  # in memory; a factored posterior of 16 classes has 17 in each fold


def need_package(settings: Mapping[str, Any]) -> ModuleType:
    """Import and return the package that has the model of these settings, or say which extra brings it."""
    return need_extra(PACKAGES.get(settings.get("estimator", ""), "torch"), CALLER)


def base_model(settings: Mapping[str, Any], seed: int | None, *, images: bool = False) -> Any:
    """Return the model of a run: a network by its settings, or "logistic", "naive" or "boosted" by their names.

    Features are standardised for networks and logistic regression; images are normalised already.
    """
    name, package = settings.get("estimator"), need_package(settings)
    if name == "logistic":
        return make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))
    if name == "naive":
        return GaussianNB(var_smoothing=NAIVE_SMOOTHING)
    if name == "boosted":
        return package.LGBMClassifier(n_estimators=60, num_leaves=15, learning_rate=0.1, n_jobs=2, verbose=-1)
    from optfair.nn import TorchClassifier

    options: dict[str, Any] = dict(settings) | ({} if seed is None else {"random_state": seed})
    network = TorchClassifier(**options)
    return network if images else make_pipeline(StandardScaler(), network)


class CachedClassifier(ClassifierMixin, BaseEstimator):
    """A classifier that is fitted once per process to the same rows and labels.

    Post-processors then stand on the very same models, and these are not fitted over and over.
    ``model_seconds`` : processor seconds that the models used since it was set to 0 took when they were fitted;
    ``fit_seconds`` : those of them that were spent since.
    """

    model_seconds = 0.0
    fit_seconds = 0.0
    _models: OrderedDict[bytes, tuple[Any, float]] = OrderedDict()  # noqa: RUF012

    def __init__(self, estimator: Any = None) -> None:
        self.estimator = estimator

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the estimator, or take the model that was fitted to the same rows before."""
        if sample_weight is not None:
            raise ValueError("sample_weight: cached models take none.")
        key = self._digest(X, y)
        if key not in self._models:
            clock = time.process_time()
            model = clone(self.estimator).fit(X, y)
            self._models[key] = model, time.process_time() - clock
            CachedClassifier.fit_seconds += self._models[key][1]
            while len(self._models) > MAX_MODELS:
                self._models.popitem(last=False)
        self.model_, seconds = self._models[key]
        CachedClassifier.model_seconds += seconds
        self.classes_ = self.model_.classes_
        return self

    def _digest(self, X: Any, y: Any) -> bytes:
        digest = hashlib.blake2b(repr(self.estimator.get_params()).encode())
        for part in (X, y):
            values = np.ascontiguousarray(part)
            digest.update(f"{values.shape} {values.dtype}".encode())
            digest.update(values.view(np.uint8).data)  # of numbers: objects, known by address only, are refused
        return digest.digest()

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities of the model."""
        return np.asarray(self.model_.predict_proba(X))

    def predict(self, X: Any) -> np.ndarray:
        """Return the predictions of the model."""
        return np.asarray(self.model_.predict(X))
