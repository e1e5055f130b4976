"""Share among baselines that start from z(x) = P(A, Y | X=x): its models, out of fold, and z of new rows."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from optfair.baselines.base import Baseline
from optfair.estimators.base import clone_keeping_prefit
from optfair.inprocessing.learners import trainable_clone
from optfair.inputs.training_data import TrainingData
from optfair.posteriors.out_of_fold import fit_posteriors, is_fitted_model
from optfair.utils.parallel import uses_cores
from optfair.utils.recovery import restore_on_failure


class PosteriorBaseline(Baseline):
    """A method that uses nothing of X but z(x). A sub-class implements `_solve`, which finds the rule from z.

    It has the arguments ``estimator``, ``group_estimator``, ``posterior``, ``cv`` and ``n_jobs`` of `OptFairPost`. z is
    not calibrated: the comparison has no calibration. cv=1 is the authors' way: no folds, and z of the training rows
    from the models that were fitted to them, so that λ belongs to the very z that is used for predictions.
    """

    group_estimator: Any
    posterior: str
    cv: Any
    n_jobs: int | None
    _prefit_advice = 'pass cv="prefit" or FrozenEstimator(model)'

    @restore_on_failure
    @uses_cores
    def fit(
        self, X: Any, y: Any, *, sensitive_features: Any = None, sample_weight: Any = None, cluster: Any = None
    ) -> Any:
        """Fit the method to labelled rows and their groups.

        Parameters
        ----------
        X : array-like, sparse matrix, DataFrame, or torch Dataset
            The n rows, as far as the estimator can read them.
        y : array-like of shape (n,)
            The labels.
        sensitive_features : array-like of shape (n,) or (n, k), default None
            The group of each row; several columns make intersections. None where the constructor names columns of X.
        sample_weight : array-like of shape (n,), default None
            Weights of the rows, honoured by the model and by the rates that are compared.
        cluster : array-like of shape (n,), default None
            The person that each row belongs to, where some have several: no fold has a part of them.

        Returns
        -------
        PosteriorBaseline
            The fitted classifier itself.

        Examples
        --------
        >>> from optfair.baselines import LinearPost
        >>> from optfair.datasets import make_fair_classification
        >>> data = make_fair_classification(300, 4, random_state=0)
        >>> people = [row // 2 for row in range(300)]  # two rows of each
        >>> model = LinearPost(alpha=0.05, cv=2, random_state=0)
        >>> model = model.fit(data.X, data.y, sensitive_features=data.sensitive_features, cluster=people)
        >>> model.predict(data.X).shape
        (300,)
        """
        return self._fit(X, y, sensitive_features, sample_weight, cluster)

    def _keeps_estimator(self) -> bool:
        return is_fitted_model(self.estimator, self.cv)

    def _prefit_classes(self) -> Any:
        return getattr(self.estimator, "classes_", None) if self._keeps_estimator() else None

    def _learn(self, data: TrainingData, seed: int) -> None:
        prefit = is_fitted_model(self.estimator, self.cv)
        estimator = self.estimator if prefit or self.estimator is None else trainable_clone(self.estimator, seed)
        group_estimator = self.group_estimator
        if hasattr(group_estimator, "fit") and not isinstance(group_estimator, type):
            group_estimator = trainable_clone(group_estimator, seed, argument="group_estimator")
        posteriors = fit_posteriors(
            estimator,
            group_estimator,
            self.posterior,
            self.cv,
            data,
            self.n_jobs,
            left_out=self.sensitive_features,
            in_sample=_is_in_sample(self.cv),
        )
        self._solve(posteriors.Z, data, seed)
        self.posterior_model_ = posteriors.model

    def _solve(self, Z: np.ndarray, data: TrainingData, seed: int) -> None:
        """Find the rule from z of the training rows, (n, A, m), out of fold where there are folds."""
        raise NotImplementedError

    @uses_cores
    def joint_posterior(self, X: Any) -> np.ndarray:
        """Return z(x), the posterior of groups and classes, of new rows.

        Parameters
        ----------
        X : array-like, sparse matrix, or DataFrame
            The n rows.

        Returns
        -------
        ndarray of shape (n, n_groups, n_classes)
            Probabilities that sum to one in each row.

        Examples
        --------
        >>> from optfair.baselines import LinearPost
        >>> from optfair.datasets import make_fair_classification
        >>> data = make_fair_classification(300, 4, n_classes=3, random_state=0)
        >>> model = LinearPost(cv=2, random_state=0)
        >>> model.fit(data.X, data.y, sensitive_features=data.sensitive_features).joint_posterior(data.X).shape
        (300, 2, 3)
        """
        X, _ = self._check_new_rows(X, None)
        return np.asarray(self.posterior_model_(X))

    def __sklearn_clone__(self) -> Self:
        """Keep a fitted model, or a function, as it is, inside GridSearchCV too."""
        return clone_keeping_prefit(self)


def _is_in_sample(cv: Any) -> bool:
    """Return whether there are no folds: cv=1."""
    return isinstance(cv, (int, np.integer)) and not isinstance(cv, bool) and cv == 1
