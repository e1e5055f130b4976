"""Share among all baselines: checked training data, one criterion by name, blind predictions.

A sub-class implements `_learn`, which fits it to `TrainingData`, and `predict_proba`.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from optfair.constraints import Constraint, RowSet, compile_rows
from optfair.constraints.criteria import short_name
from optfair.errors import NotLinearError, warn, warn_empty
from optfair.estimators.base import FairClassifier
from optfair.inprocessing.learners import trainable_clone
from optfair.inputs.training_data import TrainingData
from optfair.posteriors.models import fit_model, takes_weights
from optfair.rule.keys import new_key
from optfair.utils.recovery import restore_on_failure
from optfair.utils.seeds import as_seed, fresh_seed


class Baseline(FairClassifier):
    """A method to compare with: it takes groups at `fit` and needs none to predict."""

    awareness, _or_aware = "blind", ""
    unseen = "error"
    decision = "argmax"
    criteria: ClassVar[tuple[str, ...]] = ("dp", "eop", "eo")
    refusal: ClassVar[str] = ""  # why other criteria are refused: continues a message that begins with the criterion

    @restore_on_failure
    def fit(self, X: Any, y: Any, *, sensitive_features: Any = None, sample_weight: Any = None) -> Any:
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

        Returns
        -------
        Baseline
            The fitted classifier itself.

        Examples
        --------
        >>> from optfair.baselines import LinearPost
        >>> from optfair.datasets import make_fair_classification
        >>> data = make_fair_classification(300, 4, random_state=0)
        >>> model = LinearPost(alpha=0.05, cv=2, random_state=0)
        >>> model.fit(data.X, data.y, sensitive_features=data.sensitive_features).predict(data.X).shape
        (300,)
        """
        return self._fit(X, y, sensitive_features, sample_weight)

    def _fit(self, X: Any, y: Any, sensitive_features: Any, sample_weight: Any, cluster: Any = None) -> Any:
        self._check_choices()
        self._check_arguments()
        data = self._training_data(X, y, sensitive_features, sample_weight, self._prefit_classes(), cluster)
        self._warn_about_data(X, data, sensitive_features)
        seed = as_seed(self.random_state)
        self._secret = new_key(seed)
        self._learn(data, fresh_seed() if seed is None else seed)
        self.classes_, self.groups_ = data.classes, data.groups
        return self

    def _prefit_classes(self) -> Any:
        """Return the classes of a fitted model that is only asked for probabilities, or None."""
        return None

    def _check_arguments(self) -> None:
        """Check the arguments of the method; sub-classes check more."""
        self._criterion_name()

    def _learn(self, data: TrainingData, seed: int) -> None:
        raise NotImplementedError

    def _key(self) -> bytes | None:
        return self._secret

    # -- the criterion -------------------------------------------------------------------------------------
    def _criterion_name(self) -> str:
        """Return the short name of the criterion, if this method can compare by it."""
        advice = f"use one of {', '.join(map(repr, self.criteria))}."
        try:
            name = short_name(self.criterion)
        except NotLinearError:  # its message says why
            raise
        except ValueError:
            problem = "unknown" if isinstance(self.criterion, str) else "must be one name"
            raise ValueError(f"criterion={self.criterion!r}: {problem}; {advice}") from None
        if name not in self.criteria:
            raise ValueError(f"criterion={self.criterion!r}: {self.refusal}; {advice}")
        return name

    def _rows(self, data: TrainingData, tolerance: float = 1.0) -> tuple[RowSet, np.ndarray]:
        """Return (the rows of the criterion, the prior of the labels (A, m)); empty rows are named and left out."""
        # Not `TrainingData.prior`, which differs from this in the last bit: it sums shares.
        prior = data.counts / data.counts.sum()
        constraint = Constraint(self._criterion_name(), tolerance)
        rows = compile_rows([constraint], data.groups, data.class_index, prior)
        warn_empty(rows.dropped)
        return rows, prior


def fit_plain(estimator: Any, data: TrainingData, seed: int) -> Any:
    """Return the estimator (None: standardised logistic regression), fitted to the class codes, without constraint."""
    model = trainable_clone(estimator, seed, data.X)
    if data.weight is not None and not takes_weights(model):
        warn(f"sample_weight: {type(model).__name__} takes none, so it is fitted without.")
    return fit_model(model, data.X, data.y, data.weight)
