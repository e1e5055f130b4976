"""Score the violation in model selection: −max_k |D_k| of what an estimator predicts on held-out people.

scikit-learn calls the scorer as scorer(estimator, X, y). The group of each person comes from the first of

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

from optfair.inputs.alignment import check_row_labels
from optfair.inputs.containers import read_groups
from optfair.inputs.values import exact_column
from optfair.metrics.gaps import Attributes
from optfair.metrics.measures import violation
from optfair.utils.checks import check_choice

PREDICTION_METHODS = ("predict", "predict_proba")


class ViolationScorer(BaseEstimator):
    """Score an estimator by minus its violation, for ``scoring=`` of GridSearchCV, cross_validate and others.

    A score is one number per fold: with small groups it is mostly noise (`optfair.metrics.noise_floor` tells how much).

    Parameters
    ----------
    criterion : str, Constraint, or list of these, default "dp"
        What is compared; see `optfair.metrics.violation`.
    reference : {"overall", "pairwise"}, default "overall"
        Compare each group with everybody, or every two groups.
    outcomes : sequence of class labels, optional
        Predicted classes that are meant.
    attributes : str or sequence of attribute names, default "intersections"
        Which groups of several attributes are meant.
    sensitive_features : str, int, list or callable, optional
        Where in X the groups are: a column name or position, a list of them, or a function of X. By default the groups
        come as an argument, or the estimator says where they are.
    method : {"predict", "predict_proba"}, default "predict"
        Measure the predictions as delivered, or the randomised rule behind them, which has less noise.
    missing : {"error", "group", "drop"}, default "error"
        What rows without a group are: an error, a group of their own, named "(missing)", or left out with a warning.

    Examples
    --------
    >>> from optfair.metrics import ViolationScorer
    >>> ViolationScorer("eo", sensitive_features="sex")
    ViolationScorer(criterion='eo', sensitive_features='sex')

    With ``sklearn.set_config(enable_metadata_routing=True)`` the groups can be given with ``fit`` or in ``params=``:

    >>> scorer = ViolationScorer("eo").set_score_request(sensitive_features=True)  # doctest: +SKIP
    """

    # A parameter of `score`, but no metadata.
    __metadata_request__score = {"estimator": UNUSED}  # noqa: RUF012

    def __init__(
        self,
        criterion: Any = "dp",
        *,
        reference: str | None = None,
        outcomes: Sequence[Hashable] | None = None,
        attributes: Attributes | None = None,
        sensitive_features: Any = None,
        method: str = "predict",
        missing: str = "error",
    ) -> None:
        self.criterion = criterion
        self.reference = reference
        self.outcomes = outcomes
        self.attributes = attributes
        self.sensitive_features = sensitive_features
        self.method = method
        self.missing = missing

    def __call__(
        self, estimator: Any, X: Any, y: Any, *, sensitive_features: Any = None, sample_weight: Any = None
    ) -> float:
        """Score a fitted estimator; see `score`."""
        return self.score(estimator, X, y, sensitive_features=sensitive_features, sample_weight=sample_weight)

    def score(
        self, estimator: Any, X: Any, y: Any, *, sensitive_features: Any = None, sample_weight: Any = None
    ) -> float:
        """Return minus the violation of a fitted estimator.

        Parameters
        ----------
        estimator : estimator
            A fitted classifier, pipeline or search.
        X : array-like or data frame of n rows
            Features of held-out people.
        y : array-like of shape (n,)
            Their true classes.
        sensitive_features : array-like of shape (n,) or (n, n_attributes), optional
            Group of each row, before any other source.
        sample_weight : array-like of shape (n,), optional
            Non-negative weights of the rows.

        Returns
        -------
        float
            ``−max_k |D_k|``; greater is better.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.dummy import DummyClassifier
        >>> from optfair.metrics import ViolationScorer
        >>> X, y = np.arange(20).reshape(10, 2), np.array([0, 1] * 5)
        >>> model = DummyClassifier().fit(X, y)
        >>> ViolationScorer("dp").score(model, X, y, sensitive_features=["A"] * 4 + ["B"] * 6)
        -0.0
        """
        check_choice("method", self.method, PREDICTION_METHODS)
        groups = self._groups(estimator, X) if sensitive_features is None else sensitive_features
        check_row_labels(X=X, y=y, sensitive_features=sensitive_features, sample_weight=sample_weight)
        # An aware classifier that does not find the groups in X itself needs them to predict.
        needs_groups = getattr(_last_step(estimator), "_asks_for_groups", bool)
        arguments = {"sensitive_features": groups} if needs_groups() else {}
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
            missing=self.missing,
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
        """Answer what scikit-learn asks of scorers in a dict when there is no metadata routing."""
        return True


def _estimators_groups(estimator: Any, X: Any) -> Any:
    """Return the groups an estimator reads from X itself; None if it does not say where they are."""
    source = getattr(estimator, "sensitive_features", None)
    if source is not None:
        return read_groups(source, X)
    if isinstance(estimator, Pipeline):
        last = estimator.steps[-1][1]
        transform = len(estimator.steps) > 1 and _reads_groups(last)
        return _estimators_groups(last, estimator[:-1].transform(X) if transform else X)
    if hasattr(estimator, "best_estimator_"):  # a search that is itself cross-validated
        return _estimators_groups(estimator.best_estimator_, X)
    return None


def _reads_groups(estimator: Any) -> bool:
    """Tell whether transforming X for it is of use."""
    return getattr(estimator, "sensitive_features", None) is not None or isinstance(estimator, Pipeline)


def _last_step(estimator: Any) -> Any:
    """Return the classifier that predicts, behind pipelines and searches."""
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
    """Return what the estimator predicts, and the classes.

    All its classes are named, so that a fold in which a class does not occur is asked the same question.
    """
    prediction = np.asarray(getattr(estimator, method)(X, **arguments))
    soft, fitted_classes = method == "predict_proba", getattr(estimator, "classes_", None)
    if fitted_classes is None and soft:
        raise ValueError(
            f"method='predict_proba': {type(estimator).__name__} has no classes_ to name the columns; "
            "use method='predict'."
        )
    if not soft and prediction.ndim == 2 and prediction.shape[1] == 1:
        prediction = prediction.ravel()  # some boosters predict a column
    if fitted_classes is None:
        return prediction, None
    classes = np.asarray(fitted_classes).tolist()
    true = np.ravel(exact_column(y))
    columns = [true] if soft else [true, prediction]
    labels = dict.fromkeys(label for column in columns for label in pd.Series(column).dropna().unique().tolist())
    unseen = [label for label in labels if label not in classes]
    if soft and unseen:  # classes that training did not have are never predicted
        prediction = np.hstack([prediction, np.zeros((len(prediction), len(unseen)))])
    return prediction, classes + unseen
