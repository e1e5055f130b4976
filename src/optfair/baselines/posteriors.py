"""What baselines share that stand on z(x) = P(A, Y | X=x): models, out of fold, and new people's z."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import clone

from optfair.base import People
from optfair.baselines.base import Baseline
from optfair.estimation.recipe import is_fitted_model, learn_posteriors
from optfair.inprocessing.learners import seeded


class PosteriorBaseline(Baseline):
    """A method that looks at people through z alone. A sub-class says in `_solve` what it makes of z.

    It has the arguments ``estimator``, ``group_estimator``, ``posterior``, ``cv`` and ``n_jobs`` of `OptFairPost`. z is
    not calibrated: the comparison has no calibration. cv=1 is the authors' way: no folds, and z of the people fitted on
    from the models that were fitted to them, so that λ is of the very z that answers.
    """

    group_estimator: Any
    posterior: str
    cv: Any
    n_jobs: int | None

    def _known_classes(self) -> Any:
        return getattr(self.estimator, "classes_", None) if is_fitted_model(self.estimator, self.cv) else None

    def _learn(self, people: People, seed: int) -> None:
        fixed = is_fitted_model(self.estimator, self.cv)
        estimator = self.estimator if fixed or self.estimator is None else seeded(self.estimator, seed)
        group_estimator = self.group_estimator
        if hasattr(group_estimator, "fit") and not isinstance(group_estimator, type):
            group_estimator = seeded(group_estimator, seed, "group_estimator")
        how = estimator, group_estimator, self.posterior, self.cv
        told = {"left_out": self.sensitive_features, "in_sample": _is_one(self.cv)}
        learned = learn_posteriors(*how, people, self.n_jobs, **told)
        self._solve(learned.Z, people, seed)
        self.posterior_model_ = learned.model

    def _solve(self, Z: np.ndarray, people: People, seed: int) -> None:
        """Find the rule from z of the people fitted on, (n, A, m), out of fold where there are folds."""
        raise NotImplementedError

    def joint_posterior(self, X: Any) -> np.ndarray:
        """z(x) of new people, (n, n_groups, n_classes)."""
        X, _ = self._new_people(X, None)
        return np.asarray(self.posterior_model_(X))

    def __sklearn_clone__(self) -> Self:
        """A fitted model, or a function, stays the one it is, inside GridSearchCV too."""
        given = self.get_params(deep=False)
        prefit = isinstance(self.cv, str) or is_fitted_model(self.estimator, self.cv)
        return type(self)(**{k: v if prefit and k == "estimator" else clone(v, safe=False) for k, v in given.items()})


def _is_one(cv: Any) -> bool:
    return isinstance(cv, (int, np.integer)) and not isinstance(cv, bool) and cv == 1
