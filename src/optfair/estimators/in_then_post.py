"""Train until the worst disparity is gone, then post-process what is left (the paper's ablation): `OptFairInPost`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from optfair.errors import brief_repr, warn
from optfair.estimators.inprocess import OptFairIn
from optfair.estimators.post import OptFairPost
from optfair.inprocessing.learners import split_pipeline
from optfair.inprocessing.mixture import ModelScores
from optfair.inputs.containers import is_dataset, take_rows
from optfair.inputs.feature_schema import describe_features
from optfair.inputs.splits import split_held_out
from optfair.inputs.table_form import TableForm, read_training_table
from optfair.reporting.report import Report
from optfair.rule.explanation import Explanation
from optfair.rule.frontier import Frontier
from optfair.rule.promise import Promise
from optfair.utils.checks import check_number
from optfair.utils.display import with_progress

# What post-processing asks for, unless it is given.
COMMON_PARAMETERS = (
    "criterion",
    "tolerance",
    "reference",
    "outcomes",
    "attributes",
    "costs",
    "decision",
    "hashing",
    "missing",
    "progress",
    "random_state",
)


def _take(columns: dict[str, Any], rows: np.ndarray) -> dict[str, Any]:
    """Return rows of X, labels, groups, weights and clusters; row labels, compared already, are left to X alone."""
    parts = {name: None if column is None else take_rows(column, rows) for name, column in columns.items()}
    for name, part in parts.items():
        if name != "X" and isinstance(part, pd.DataFrame | pd.Series):
            parts[name] = part.reset_index(drop=True)
    return parts


class OptFairInPost(ClassifierMixin, BaseEstimator):
    """Train by in-processing until the violation falls below a threshold, then post-process that model.

    Parameters
    ----------
    in_processing : OptFairIn
        A blind one; it says where the groups are, and what is asked for while training.
    post_processing : OptFairPost, optional
        Its ``estimator``, ``cv`` and ``sensitive_features`` are replaced; by default one that asks for the same as
        ``in_processing``. Its ``group_estimator`` is by default logistic regression behind the transformers of the
        trained model.
    threshold : float, default 0.1
        The violation of a round, on the rows it is measured on, at which training stops.
    held_out : float, default 0.3
        Share of the rows that training does not see; the rule on top is fitted on them.
    random_state : int or generator, optional
        Seed of the split.

    Attributes
    ----------
    in_ : OptFairIn
        The fitted in-processing.
    post_ : OptFairPost
        The fitted post-processing.
    n_rounds_ : int
        Rounds that training took.
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    groups_ : pandas.Index
        Names of the groups.

    Examples
    --------
    >>> from optfair import OptFairIn, OptFairInPost
    >>> from optfair.datasets import make_fair_classification
    >>> data = make_fair_classification(800, random_state=0)
    >>> model = OptFairInPost(OptFairIn(start="zero", random_state=0), threshold=0.2, random_state=0)
    >>> model = model.fit(data.X, data.y, sensitive_features=data.sensitive_features)
    >>> model.predict(data.X).shape
    (800,)
    """

    def __init__(
        self,
        in_processing: OptFairIn,
        post_processing: OptFairPost | None = None,
        *,
        threshold: float = 0.1,
        held_out: float = 0.3,
        random_state: Any = None,
    ) -> None:
        self.in_processing = in_processing
        self.post_processing = post_processing
        self.threshold = threshold
        self.held_out = held_out
        self.random_state = random_state

    @property
    def progress(self) -> bool:
        """Whether progress is shown: that of both parts, if one of them asks for it."""
        return any(getattr(part, "progress", False) is True for part in (self.in_processing, self.post_processing))

    @with_progress
    def fit(
        self, X: Any, y: Any, *, sensitive_features: Any = None, sample_weight: Any = None, cluster: Any = None
    ) -> OptFairInPost:
        """Train on one part of the rows, and fit the rule on the other.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame or list of n rows
            Features.
        y : array-like of shape (n,)
            True classes.
        sensitive_features : array-like of shape (n,) or (n, n_attributes), optional
            Group of each row; several columns make intersections.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows.
        cluster : array-like of shape (n,), optional
            The person, or family, or school, that each row belongs to, where some have several: both parts
            of the rows, and the folds within them, have all of theirs or none.

        Returns
        -------
        OptFairInPost
            The fitted classifier itself.

        Examples
        --------
        >>> from optfair import OptFairIn, OptFairInPost
        >>> from optfair.datasets import make_fair_classification
        >>> data = make_fair_classification(800, random_state=0)
        >>> model = OptFairInPost(OptFairIn(start="zero", random_state=0), threshold=0.2, random_state=0)
        >>> model.fit(data.X, data.y, sensitive_features=data.sensitive_features).n_rounds_ >= 1
        True
        """
        trainer, poster = self._make_parts()
        X = read_training_table(X)
        if is_dataset(X):
            raise ValueError("X: is a torch data set, which OptFairInPost cannot divide; give arrays.")
        data = clone(trainer)._training_data(X, y, sensitive_features, sample_weight, cluster=cluster)
        parts = [data.positions[part] for part in split_held_out(data, float(self.held_out), self.random_state)]
        columns = {"X": X, "y": y, "sensitive_features": sensitive_features, "sample_weight": sample_weight}
        columns["cluster"] = cluster
        first, second = (_take(columns, part) for part in parts)
        trainer.fit(**first)
        gaps = trainer.game_.rows.is_gap.any()
        last_violation = float(trainer.history_["violation" if gaps else "excess"].iloc[-1])
        if last_violation >= self.threshold:
            warn(
                f"threshold={self.threshold!r}: training ended at a violation of {last_violation:.4f} after "
                f"{trainer.rounds} rounds; post-processing goes on from there."
            )
        transformer = trainer.mixture_.transformer
        if poster.group_estimator is None and transformer is not None:  # which reads X, whatever its columns
            scaler = StandardScaler(with_mean=False)
            groups = make_pipeline(FrozenEstimator(transformer), scaler, LogisticRegression(max_iter=1000))
            poster.set_params(group_estimator=groups)
        # Of the mixture only the last round counts: the one that fell below the threshold.
        unused = trainer.sensitive_features if poster.awareness == "aware" else None
        scores = ModelScores(transformer, trainer.mixture_.members[-1], trainer.classes_, unused)
        poster.set_params(estimator=scores).fit(**second)
        poster._form, poster._features = TableForm.of(X), describe_features(X)  # the models saw the other rows too
        self.in_, self.post_, self.n_rounds_ = trainer, poster, len(trainer.history_)
        self.classes_, self.groups_ = poster.classes_, poster.groups_
        return self

    def _make_parts(self) -> tuple[OptFairIn, OptFairPost]:
        """Return clones of both parts, checked, with the parameters that follow from each other."""
        for name, kind, optional in (("in_processing", OptFairIn, False), ("post_processing", OptFairPost, True)):
            value = getattr(self, name)
            if not isinstance(value, kind) and not (optional and value is None):
                raise ValueError(f"{name}={brief_repr(value)}: must be an {kind.__name__}{' or None' * optional}.")
        check_number("threshold", self.threshold, "(0, inf)")
        check_number("held_out", self.held_out, "(0, 1)")
        if self.in_processing.awareness != "blind":
            raise ValueError("in_processing: must have awareness='blind'; let post_processing use the group.")
        final = split_pipeline(self.in_processing.estimator)[1]
        if final is not None and not hasattr(final, "predict_proba"):
            raise ValueError(
                f"in_processing: {type(final).__name__} has no predict_proba, which post-processing needs."
            )
        trainer = clone(self.in_processing)
        trainer.set_params(stop_below=float(self.threshold), output="mixture", mixture="last_half")
        if self.post_processing is None:
            poster = OptFairPost(**{name: getattr(trainer, name) for name in COMMON_PARAMETERS})
        else:
            poster = clone(self.post_processing)
        if poster.calibration == "auto":  # the last model of the training is not one that should stay as it is
            poster.set_params(calibration="posterior")
        return trainer, poster.set_params(cv="prefit", sensitive_features=trainer.sensitive_features)

    # -- what the rule on top predicts --------------------------------------------------------------------
    def predict_proba(self, X: Any, *, sensitive_features: Any = None) -> np.ndarray:
        """Return h(x), the probability of each class as the prediction.

        Parameters
        ----------
        X : array-like or data frame of n rows
            Features.
        sensitive_features : array-like of shape (n,) or (n, n_attributes), optional
            Group of each row; only if ``post_processing`` is aware.

        Returns
        -------
        ndarray of shape (n, n_classes)
            Probabilities in the order of ``classes_``.

        Examples
        --------
        >>> from optfair import OptFairIn, OptFairInPost
        >>> from optfair.datasets import make_fair_classification
        >>> data = make_fair_classification(800, random_state=0)
        >>> model = OptFairInPost(OptFairIn(start="zero", random_state=0), threshold=0.2, random_state=0)
        >>> model.fit(data.X, data.y, sensitive_features=data.sensitive_features).predict_proba(data.X).shape
        (800, 3)
        """
        check_is_fitted(self, "post_")
        return self.post_.predict_proba(X, sensitive_features=sensitive_features)

    def predict(
        self, X: Any, *, sensitive_features: Any = None, keys: Any = None, random_state: Any = None
    ) -> np.ndarray:
        """Predict one class per row; see `OptFairPost.predict`.

        Parameters
        ----------
        X : array-like or data frame of n rows
            Features.
        sensitive_features : array-like of shape (n,) or (n, n_attributes), optional
            Group of each row; only if ``post_processing`` is aware.
        keys : sequence of n keys, optional
            Who each person is, for hashed decisions.
        random_state : int or Generator, optional
            Seed of sampled decisions.

        Returns
        -------
        ndarray of shape (n,)
            Class labels.

        Examples
        --------
        >>> from optfair import OptFairIn, OptFairInPost
        >>> from optfair.datasets import make_fair_classification
        >>> data = make_fair_classification(800, random_state=0)
        >>> model = OptFairInPost(OptFairIn(start="zero", random_state=0), threshold=0.2, random_state=0)
        >>> model.fit(data.X, data.y, sensitive_features=data.sensitive_features).predict(data.X).shape
        (800,)
        """
        check_is_fitted(self, "post_")
        return self.post_.predict(X, sensitive_features=sensitive_features, keys=keys, random_state=random_state)

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, sensitive_features: Any = None) -> float:
        """Return the accuracy of `predict`.

        Parameters
        ----------
        X : array-like or data frame of n rows
            Features.
        y : array-like of shape (n,)
            True classes.
        sample_weight : array-like of shape (n,), optional
            Non-negative weights of the rows.
        sensitive_features : array-like of shape (n,) or (n, n_attributes), optional
            Group of each row; a blind classifier does not use it.

        Returns
        -------
        float
            Share of correct predictions.

        Examples
        --------
        >>> from optfair import OptFairIn, OptFairInPost
        >>> from optfair.datasets import make_fair_classification
        >>> data = make_fair_classification(800, random_state=0)
        >>> model = OptFairInPost(OptFairIn(start="zero", random_state=0), threshold=0.2, random_state=0)
        >>> 0 < model.fit(data.X, data.y, sensitive_features=data.sensitive_features).score(data.X, data.y) < 1
        True
        """
        check_is_fitted(self, "post_")
        return self.post_.score(X, y, sample_weight, sensitive_features=sensitive_features)

    def report(self, X: Any = None, y: Any = None, **arguments: Any) -> Report:
        """Report on the rule on top; "plain model" is the one that training ended in.

        ``in_.report()`` is about the training.

        Parameters
        ----------
        X : array-like or data frame of n rows, optional
            Features of labelled people.
        y : array-like of shape (n,), optional
            Their true classes.
        **arguments
            ``sensitive_features``, ``sample_weight``, ``cluster``, ``keys``, ``before``, ``favourable`` and ``path``,
            as in `OptFairPost.report`.

        Returns
        -------
        Report
            Certificate, prices, price of determinism, measurements with labels, small cells.

        Examples
        --------
        >>> from optfair import OptFairIn, OptFairInPost
        >>> from optfair.datasets import make_fair_classification
        >>> data = make_fair_classification(800, random_state=0)
        >>> model = OptFairInPost(OptFairIn(start="zero", random_state=0), threshold=0.2, random_state=0)
        >>> report = model.fit(data.X, data.y, sensitive_features=data.sensitive_features).report()
        >>> [metrics.name for metrics in report.measured]
        ['plain model', 'recalibrated', 'fair rule']
        """
        check_is_fitted(self, "post_")
        return self.post_.report(X, y, **arguments)

    def explain(self, X: Any, **arguments: Any) -> Explanation:
        """Explain single answers of the rule on top; see `OptFairPost.explain`.

        Parameters
        ----------
        X : array-like, data frame of n rows, list of n dicts, or one dict
            Features.
        **arguments
            ``sensitive_features``, ``keys`` and ``path``, as in `OptFairPost.explain`.

        Returns
        -------
        Explanation
            A table with a line per person, all terms, and sentences; ``print`` it.

        Examples
        --------
        >>> from optfair import OptFairIn, OptFairInPost
        >>> from optfair.datasets import make_fair_classification
        >>> data = make_fair_classification(800, random_state=0)
        >>> model = OptFairInPost(OptFairIn(start="zero", random_state=0), threshold=0.2, random_state=0)
        >>> model = model.fit(data.X, data.y, sensitive_features=data.sensitive_features)
        >>> len(model.explain(data.X[:3], path=False))
        3
        """
        check_is_fitted(self, "post_")
        return self.post_.explain(X, **arguments)

    def path(self, tolerances: Any = None) -> Frontier:
        """Return rules of other tolerances for the rule on top, kept for `explain` and `save`; see `OptFairPost.path`.

        Parameters
        ----------
        tolerances : int or sequence of float, optional
            How many, or the tolerances themselves.

        Returns
        -------
        Frontier
            The rules and a table of what each reaches.

        Examples
        --------
        >>> from optfair import OptFairIn, OptFairInPost
        >>> from optfair.datasets import make_fair_classification
        >>> data = make_fair_classification(800, random_state=0)
        >>> model = OptFairInPost(OptFairIn(start="zero", random_state=0), threshold=0.2, random_state=0)
        >>> model = model.fit(data.X, data.y, sensitive_features=data.sensitive_features)
        >>> len(model.path([0.1, 0.05]).rules)
        2
        """
        check_is_fitted(self, "post_")
        return self.post_.path(tolerances)

    def promise(self, X: Any, y: Any = None, **arguments: Any) -> Promise:
        """Say whether the tolerance is kept in the population of these people, who must not be among those fitted on.

        Parameters
        ----------
        X : array-like or data frame of n rows
            Features of people not fitted on.
        y : array-like of shape (n,), optional
            Their true classes; demographic parity, its ratio and minimum selection rates need none.
        **arguments
            ``sensitive_features``, ``sample_weight``, ``cluster``, ``confidence`` and ``family``, as in
            `OptFairPost.promise`.

        Returns
        -------
        Promise
            Whether it is kept, the bound of the largest gap, and a table of all rows.

        Examples
        --------
        >>> from optfair import OptFairIn, OptFairInPost
        >>> from optfair.datasets import make_fair_classification
        >>> train, test = make_fair_classification(1600, random_state=0).split(0.5, random_state=0)
        >>> model = OptFairInPost(OptFairIn(start="zero", random_state=0), threshold=0.2, random_state=0)
        >>> model = model.fit(train.X, train.y, sensitive_features=train.sensitive_features)
        >>> model.promise(test.X, sensitive_features=test.sensitive_features).n_people
        800
        """
        check_is_fitted(self, "post_")
        return self.post_.promise(X, y, **arguments)

    def save(self, path: Any) -> None:
        """Write the rule on top and the model below it as `OptFairPost.save` does; `load_model` gives an OptFairPost.

        Parameters
        ----------
        path : str or path
            The file; the key goes to ``path`` + ".key".

        Examples
        --------
        >>> from optfair import OptFairIn, OptFairInPost
        >>> model = OptFairInPost(OptFairIn(), threshold=0.2)
        >>> model.save("model.skops")  # doctest: +SKIP
        """
        check_is_fitted(self, "post_")
        self.post_.save(path)

    def export(self, path: Any, **arguments: Any) -> list[Path]:
        """Write the rule on top and the model below it for services without optfair; see `OptFairPost.export`.

        Parameters
        ----------
        path : str or path
            The file, ``fair.onnx`` or ``fair.json``.
        **arguments
            ``inputs``, ``opset`` and ``max_difference``, as in `OptFairPost.export`.

        Returns
        -------
        list of Path
            The files written.

        Examples
        --------
        >>> from optfair import OptFairIn, OptFairInPost
        >>> model = OptFairInPost(OptFairIn(), threshold=0.2)
        >>> model.export("fair.onnx")  # doctest: +SKIP
        """
        check_is_fitted(self, "post_")
        return self.post_.export(path, **arguments)
