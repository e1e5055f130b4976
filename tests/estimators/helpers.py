"""People to fit on, a quick `OptFairPost`, models that watch their use, and checks that several tests share."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression

from optfair import OptFairPost

N = 240
NOT_AVAILABLE = (
    "the out-of-fold posteriors are not available (keep_posteriors=False, or with_people, or a copy or a file of "
    "the model, which never hold them); fit again."
)


def make_people(n=N, seed=0, m=3):
    """Return a frame with the columns x1, x2, sex and old, and labels; all depend on each other."""
    rng = np.random.default_rng(seed)
    sex, old = rng.integers(0, 2, n), rng.integers(0, 2, n)
    x = rng.standard_normal((n, 2)) + np.c_[1.2 * sex, 0.7 * old]
    y = np.digitize(x[:, 0] + 0.5 * rng.standard_normal(n), np.linspace(0, 1.2, m - 1))
    frame = pd.DataFrame({"x1": x[:, 0], "x2": x[:, 1], "sex": np.array(["f", "m"])[sex], "old": old == 1})
    return frame, np.array(list("abcdef"))[y]


FRAME, Y = make_people()
X, SEX = FRAME[["x1", "x2"]], FRAME["sex"]
NEW, Y_NEW = make_people(seed=1)
X_NEW, SEX_NEW = NEW[["x1", "x2"]], NEW["sex"]


def make_post(estimator=None, **options):
    """Return an OptFairPost with two folds and a seed: the same model every time.

    Its tolerance is 0.05, unless the constraints are objects, which have one of their own.
    """
    base = LogisticRegression() if estimator is None else estimator
    tolerance = {"tolerance": 0.05} if isinstance(options.get("criterion", "dp"), str) else {}
    return OptFairPost(base, **{"cv": 2, "random_state": 0} | tolerance | options)


def out_of_fold_z(model):
    """Return the posteriors that the rule of a fitted OptFairPost was solved for, (n, A, m)."""
    return model._fitted.problem.posterior.Z


# -- models that watch their use -----------------------------------------------------------------------------
class Recorder(ClassifierMixin, BaseEstimator):
    """A nearest centroid that keeps what it was given, to fit and to predict."""

    def fit(self, X, y):
        self.classes_, self.fitted_on_, self.predicted_on_ = np.unique(y), X, []
        self.centres_ = np.array([self._numbers(X)[y == c].mean(axis=0) for c in self.classes_])
        return self

    def _numbers(self, X):
        X = X.toarray() if sparse.issparse(X) else np.asarray(X)
        return X.reshape(len(X), -1)[:, :2].astype(float)

    def predict_proba(self, X):
        self.predicted_on_.append(X)
        distance = ((self._numbers(X)[:, None] - self.centres_) ** 2).sum(axis=2)
        P = np.exp(-distance)
        return P / P.sum(axis=1, keepdims=True)


class Prefit(ClassifierMixin, BaseEstimator):
    """A fitted model, with class names of its own if given; to fit or to clone it is an error."""

    def __init__(self, model=None, names=None):
        self.model = model
        self.names = names

    @property
    def classes_(self):
        return self.model.classes_ if self.names is None else np.array(self.names)

    def fit(self, X, y):
        raise AssertionError("fitted again")

    def __sklearn_clone__(self):
        raise AssertionError("cloned")

    def __sklearn_is_fitted__(self):
        return True

    def predict_proba(self, X):
        return self.model.predict_proba(X)

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


PREFIT = Prefit(LogisticRegression().fit(X_NEW, Y_NEW))


# -- checks --------------------------------------------------------------------------------------------------
def assert_error(message, call, *arguments, **named):
    """Check that a call raises ValueError with exactly this message, which is one line."""
    with pytest.raises(ValueError) as caught:
        call(*arguments, **named)
    assert str(caught.value) == message
    assert "\n" not in message


def assert_same_predictions(one, other, X=X_NEW, **groups):
    """Check that two classifiers have the same probabilities and the same predictions."""
    np.testing.assert_array_equal(one.predict_proba(X, **groups), other.predict_proba(X, **groups))
    np.testing.assert_array_equal(one.predict(X, **groups), other.predict(X, **groups))
