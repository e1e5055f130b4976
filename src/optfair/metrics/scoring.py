"""A scorer for model selection: −max_k |D_k| of what an estimator answers on held-out people; greater is better.

scikit-learn calls it as scorer(estimator, X, y). The group of each person comes from the first of

    1. the argument, which scikit-learn passes on if the scorer asks for it (metadata routing);
    2. the scorer's own `sensitive_features`: columns of X, or a function of X;
    3. the estimator's own, as it was constructed; in a pipeline those of the last step, read from what that step sees.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.metadata_routing import UNUSED

from optfair.features import read_groups
from optfair.metrics.gaps import Attributes, violation

METHODS = ("predict", "predict_proba")


class ViolationScorer(BaseEstimator):
    """−max_k |D_k| as a scikit-learn scorer, for `scoring=` of GridSearchCV, cross_validate and others.

    criterion, reference, outcomes, attributes : the question; see `optfair.metrics.violation`.
    sensitive_features : where in X the groups are: a column name or position, a list of them, or a function of X.
        None: the groups come as an argument, or the estimator says it.
    method : "predict" measures the answers as delivered, "predict_proba" the randomised rule behind them (less noise).

    A score is one number per fold: with small groups mostly noise (`optfair.metrics.noise_floor` says how much).

    >>> ViolationScorer("eo", sensitive_features="sex")
    ViolationScorer(criterion='eo', sensitive_features='sex')
    >>> # with sklearn.set_config(enable_metadata_routing=True), to give the groups with fit or in params=:
    >>> # ViolationScorer("eo").set_score_request(sensitive_features=True)
    """

    # A parameter of `score`, but no metadata.
    __metadata_request__score = {"estimator": UNUSED}  # noqa: RUF012

    def __init__(
        self,
        criterion: Any = "dp",
        *,
        reference: str = "overall",
        outcomes: Sequence[Hashable] | None = None,
        attributes: Attributes = "intersections",
        sensitive_features: Any = None,
        method: str = "predict",
    ) -> None:
        self.criterion = criterion
        self.reference = reference
        self.outcomes = outcomes
        self.attributes = attributes
        self.sensitive_features = sensitive_features
        self.method = method

    def __call__(
        self, estimator: Any, X: Any, y: Any, *, sensitive_features: Any = None, sample_weight: Any = None
    ) -> float:
        """The score of a fitted estimator; see `score`."""
        return self.score(estimator, X, y, sensitive_features=sensitive_features, sample_weight=sample_weight)

    def score(
        self, estimator: Any, X: Any, y: Any, *, sensitive_features: Any = None, sample_weight: Any = None
    ) -> float:
        """−violation of a fitted estimator on X, y.

        sensitive_features : the group of each row (several columns make intersections), before any other source.
        sample_weight : n non-negative weights.
        """
        if self.method not in METHODS:
            raise ValueError(f"method={self.method!r}: must be one of {', '.join(map(repr, METHODS))}.")
        groups = self._groups(estimator, X) if sensitive_features is None else sensitive_features
        # An aware classifier that does not find the groups in X itself needs them to answer.
        needs = getattr(_last(estimator), "_asks_for_groups", bool)
        arguments = {"sensitive_features": groups} if needs() else {}
        prediction, classes = _prediction(estimator, X, y, self.method, arguments)
        return -violation(
            y,
            prediction,
            sensitive_features=groups,
            criterion=self.criterion,
            reference=self.reference,
            outcomes=self.outcomes,
            attributes=self.attributes,
            sample_weight=sample_weight,
            classes=classes,
        )

    def _groups(self, estimator: Any, X: Any) -> Any:
        if self.sensitive_features is not None:
            return read_groups(self.sensitive_features, X)
        groups = _estimators_groups(estimator, X)
        if groups is None:
            raise ValueError(
                f"sensitive_features: neither the scorer nor {type(estimator).__name__} says where the groups are; use "
                "ViolationScorer(sensitive_features=<column of X>), or pass them by metadata routing with "
                ".set_score_request(sensitive_features=True)."
            )
        return groups

    def _accept_sample_weight(self) -> bool:
        """Without metadata routing scikit-learn asks this of scorers that stand in a dict."""
        return True


def _estimators_groups(estimator: Any, X: Any) -> Any:
    """The groups an estimator reads from X itself; None if it does not say."""
    source = getattr(estimator, "sensitive_features", None)
    if source is not None:
        return read_groups(source, X)
    if isinstance(estimator, Pipeline):
        last = estimator.steps[-1][1]
        seen = estimator[:-1].transform(X) if len(estimator.steps) > 1 and _says(last) else X
        return _estimators_groups(last, seen)
    if hasattr(estimator, "best_estimator_"):  # a search that is itself cross-validated
        return _estimators_groups(estimator.best_estimator_, X)
    return None


def _says(estimator: Any) -> bool:
    """Whether transforming X for it is of use."""
    return getattr(estimator, "sensitive_features", None) is not None or isinstance(estimator, Pipeline)


def _last(estimator: Any) -> Any:
    """The classifier that answers, behind pipelines and searches."""
    while True:
        if isinstance(estimator, Pipeline):
            estimator = estimator.steps[-1][1]
        elif hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        else:
            return estimator


def _prediction(
    estimator: Any, X: Any, y: Any, method: str, arguments: dict[str, Any]
) -> tuple[Any, list[Hashable] | None]:
    """What the estimator answers, and the classes.

    All its classes are named, so that a fold in which nobody has or gets one of them is asked the same question.
    """
    answers = np.asarray(getattr(estimator, method)(X, **arguments))
    soft, known = method == "predict_proba", getattr(estimator, "classes_", None)
    if known is None and soft:
        raise ValueError(
            f"method='predict_proba': {type(estimator).__name__} has no classes_ to name the columns; "
            "use method='predict'."
        )
    if not soft and answers.ndim == 2 and answers.shape[1] == 1:
        answers = answers.ravel()  # some boosters answer in a column
    if known is None:
        return answers, None
    classes = np.asarray(known).tolist()
    seen = [np.ravel(y)] if soft else [np.ravel(y), answers]
    found = dict.fromkeys(label for labels in seen for label in pd.Series(labels).dropna().unique().tolist())
    unseen = [label for label in found if label not in classes]
    if soft and unseen:  # classes that training did not have: nobody is given them
        answers = np.hstack([answers, np.zeros((len(answers), len(unseen)))])
    return answers, classes + unseen
