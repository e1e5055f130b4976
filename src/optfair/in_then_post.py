"""`OptFairInPost`: train until the worst is gone, then post-process what is left (the paper's ablation)."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from optfair.base import held_apart
from optfair.errors import warn
from optfair.features import as_table, is_dataset, take_rows
from optfair.inprocess import OptFairIn
from optfair.inprocessing.learners import split_pipeline
from optfair.inprocessing.mixture import Scores
from optfair.post import OptFairPost
from optfair.report import Report

# What post-processing asks for, unless it is given.
SAME = ("criterion", "tolerance", "reference", "outcomes", "attributes", "costs", "decision", "missing", "random_state")


class OptFairInPost(ClassifierMixin, BaseEstimator):
    """In-processing until the violation of a round falls below ``threshold``, then post-processing on that model.

    Parameters
    ----------
    in_processing : OptFairIn, blind; it says where the groups are, and what is asked for while training.
    post_processing : OptFairPost; its ``estimator``, ``cv`` and ``sensitive_features`` are replaced. None: one that
        asks for the same as ``in_processing``. Its ``group_estimator`` is by default logistic regression behind the
        transformers of the trained model.
    threshold : the violation of a round, on the people it is judged by, at which training stops.
    held_out : share of the people whom training does not see; the rule on top is fitted on them.
    random_state : seed of the split.

    Attributes
    ----------
    in_, post_ : both, fitted. n_rounds_ : how many rounds training took. classes_, groups_ : names.
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

    def fit(self, X: Any, y: Any, *, sensitive_features: Any = None, sample_weight: Any = None) -> OptFairInPost:
        """Train on one part of the people, and fit the rule on the other; arguments as in `OptFairPost.fit`."""
        trainer, poster = self._parts()
        X = as_table(X)
        if is_dataset(X):
            raise ValueError("X: is a torch data set, which OptFairInPost cannot divide; give arrays.")
        people = clone(trainer)._people(X, y, sensitive_features, sample_weight)
        parts = [people.kept[part] for part in held_apart(people, float(self.held_out), self.random_state)]
        columns = {"X": X, "y": y, "sensitive_features": sensitive_features, "sample_weight": sample_weight}
        first, second = ({k: None if v is None else take_rows(v, p) for k, v in columns.items()} for p in parts)
        trainer.fit(**first)
        gaps = trainer.game_.rows.is_gap.any()
        reached = float(trainer.history_["violation" if gaps else "excess"].iloc[-1])
        if reached >= self.threshold:
            warn(
                f"threshold={self.threshold!r}: training ended at a violation of {reached:.4f} after {trainer.rounds} "
                "rounds; post-processing goes on from there."
            )
        front = trainer.mixture_.front
        if poster.group_estimator is None and front is not None:  # which reads X, whatever its columns
            scaler = StandardScaler(with_mean=False)
            groups = make_pipeline(FrozenEstimator(front), scaler, LogisticRegression(max_iter=1000))
            poster.set_params(group_estimator=groups)
        # Of the mixture only the last round counts: the one that fell below the threshold.
        unused = trainer.sensitive_features if poster.awareness == "aware" else None
        last = Scores(trainer.mixture_.front, trainer.mixture_.members[-1], trainer.classes_, unused)
        poster.set_params(estimator=last).fit(**second)
        self.in_, self.post_, self.n_rounds_ = trainer, poster, len(trainer.history_)
        self.classes_, self.groups_ = poster.classes_, poster.groups_
        return self

    def _parts(self) -> tuple[OptFairIn, OptFairPost]:
        for name, kind, optional in (("in_processing", OptFairIn, False), ("post_processing", OptFairPost, True)):
            value = getattr(self, name)
            if not isinstance(value, kind) and not (optional and value is None):
                raise ValueError(f"{name}={value!r}: must be an {kind.__name__}{' or None' * optional}.")
        for name, most in (("threshold", np.inf), ("held_out", 1.0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < most:
                raise ValueError(f"{name}={value!r}: must be a number above 0{' and below 1' * (most == 1)}.")
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
            poster = OptFairPost(**{name: getattr(trainer, name) for name in SAME})
        else:
            poster = clone(self.post_processing)
        return trainer, poster.set_params(cv="prefit", sensitive_features=trainer.sensitive_features)

    # -- what the rule on top says ------------------------------------------------------------------------
    def predict_proba(self, X: Any, *, sensitive_features: Any = None) -> np.ndarray:
        """h(x), (n, n_classes): with which probability each class is the answer."""
        check_is_fitted(self, "post_")
        return self.post_.predict_proba(X, sensitive_features=sensitive_features)

    def predict(
        self, X: Any, *, sensitive_features: Any = None, keys: Any = None, random_state: Any = None
    ) -> np.ndarray:
        """One class per row; see `OptFairPost.predict`."""
        check_is_fitted(self, "post_")
        return self.post_.predict(X, sensitive_features=sensitive_features, keys=keys, random_state=random_state)

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, sensitive_features: Any = None) -> float:
        """Accuracy of `predict`."""
        check_is_fitted(self, "post_")
        return self.post_.score(X, y, sample_weight, sensitive_features=sensitive_features)

    def report(self, X: Any = None, y: Any = None, **given: Any) -> Report:
        """Of the rule on top; "plain model" is the one that training ended in. `in_.report()` is about the training."""
        check_is_fitted(self, "post_")
        return self.post_.report(X, y, **given)

    def save(self, path: Any) -> None:
        """Write the rule on top and the model it asks as `OptFairPost.save` does; `load_model` gives an OptFairPost."""
        check_is_fitted(self, "post_")
        self.post_.save(path)
