"""Make the classifier that --estimator names, behind an encoder of the columns."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from optfair.cli.paths import InputError
from optfair.errors import need_extra
from optfair.inputs.encoder import TableEncoder
from optfair.inputs.schema import Schema

UNSCALED = ("boosting", "forest")  # trees do not depend on the scale of the features


def make_estimator(name: str, schema: Schema, seed: int, *, extra_columns: bool = False) -> Pipeline:
    """Return encoder → scaler → the classifier of this name. extra_columns : X has columns beyond the schema."""
    model = make_classifier(name, seed)
    scaler = [] if name in UNSCALED else [("scaler", StandardScaler())]
    remainder = "passthrough" if extra_columns else "drop"
    encoder = TableEncoder(texts=schema.texts, numbers=schema.numbers, remainder=remainder)
    return Pipeline([("encoder", encoder), *scaler, ("classifier", model)])


def with_fitted_steps(pipeline: Pipeline, X: Any) -> Pipeline:
    """Return the pipeline with its preprocessing fitted, so that it runs once for all clones of the classifier."""
    *steps, (name, model) = pipeline.steps
    frozen = []
    for step_name, step in steps:
        X = step.fit_transform(X)
        frozen.append((step_name, FrozenEstimator(step)))
    return Pipeline([*frozen, (name, model)])


def make_classifier(name: str, seed: int) -> Any:
    """Return the classifier of this name, a short one or that of a class with its module."""
    if name == "logistic":
        return LogisticRegression(max_iter=5000, random_state=seed)
    if name == "boosting":
        return HistGradientBoostingClassifier(random_state=seed)
    if name == "forest":
        return RandomForestClassifier(min_samples_leaf=5, random_state=seed)
    if name == "mlp":
        need_extra("torch", "--estimator mlp")
        return importlib.import_module("optfair.nn").TorchClassifier("mlp", random_state=seed)
    return _make_imported(name, seed)


def _make_imported(name: str, seed: int) -> Any:
    """Return an instance of a class such as sklearn.naive_bayes.GaussianNB."""
    module, _, attribute = name.rpartition(".")
    if not module or not all(part.isidentifier() for part in name.split(".")):
        raise InputError(
            f"--estimator {name}: unknown; use logistic, boosting, forest, mlp, or a class with its module, such as "
            "sklearn.naive_bayes.GaussianNB."
        )
    try:
        kind = getattr(importlib.import_module(module), attribute, None)
    except ImportError as error:
        raise InputError(f"--estimator {name}: {error}; is it installed, or its folder on PYTHONPATH?") from None
    if not isinstance(kind, type):
        raise InputError(f"--estimator {name}: there is no such class in {module}.")
    try:
        options = {"random_state": seed} if "random_state" in inspect.signature(kind).parameters else {}
        model = kind(**options)
    except (TypeError, ValueError) as error:
        raise InputError(f"--estimator {name}: cannot be made without arguments ({error}).") from None
    if not hasattr(model, "fit") or not hasattr(model, "predict_proba"):
        raise InputError(f"--estimator {name}: must have fit and predict_proba (with its default settings).")
    return model
