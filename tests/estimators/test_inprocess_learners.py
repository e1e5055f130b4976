"""Test `OptFairIn` with learners of every kind, and its warnings about settings in which copies count as rows."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import (
    AdaBoostClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression, Perceptron, RidgeClassifier, SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

from optfair import OptFairWarning, metrics
from tests.inprocessing.helpers import CLASSES, FEW_ROUNDS, OVERFITS, SEX, X, Y, draw_rows, fit, quick

pytestmark = pytest.mark.filterwarnings(FEW_ROUNDS, OVERFITS)

LEARNERS = {
    "logistic": LogisticRegression(),
    "hinge": SGDClassifier(),
    "log loss": SGDClassifier(loss="log_loss"),
    "svm": LinearSVC(),
    "kernel": SVC(),
    "ridge": RidgeClassifier(),
    "perceptron": Perceptron(),
    "naive Bayes": GaussianNB(),
    "tree": DecisionTreeClassifier(max_depth=3),
    "forest": RandomForestClassifier(5, max_depth=3),
    "extra trees": ExtraTreesClassifier(5, max_depth=3),
    "boosting": GradientBoostingClassifier(n_estimators=4),
    "histograms": HistGradientBoostingClassifier(max_iter=4),
    "AdaBoost": AdaBoostClassifier(n_estimators=3),
    "network": MLPClassifier((4,), max_iter=30, warm_start=True),
    "pipeline": make_pipeline(StandardScaler(), LinearSVC()),
}


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")  # a network that has not converged
@pytest.mark.parametrize("kind", LEARNERS)
def test_any_learner_will_do(kind):
    """For two classes and for three; from "post" also where the learner has no probabilities."""
    for labels, start in ((Y == "a", "zero"), (Y, "post")):
        model = quick(LEARNERS[kind], start=start, mixture="all").fit(X, labels, sensitive_features=SEX)
        transformer, members = model.mixture_.transformer, model.mixture_.members
        rows = X if transformer is None else transformer.transform(X)
        codes = np.array([member.predict(rows) for member in members])
        shares = [(codes == j).mean(axis=0) for j in range(len(model.classes_))]
        np.testing.assert_allclose(model.predict_proba(X), np.transpose(shares), atol=1e-9)
        np.testing.assert_allclose(model.history_["accuracy"], [(model.classes_[c] == labels).mean() for c in codes])
    again = fit(clone(model))
    np.testing.assert_array_equal(again.trace_.multipliers, model.trace_.multipliers)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_lightgbm():
    lightgbm = pytest.importorskip("lightgbm", reason="the learner is LightGBM's")
    booster = lightgbm.LGBMClassifier(n_estimators=5, num_leaves=4, verbose=-1, n_jobs=1)
    model = fit(quick(booster, mixture="all", start="post"))
    assert all(member.n_estimators_ == 5 and member.random_state == 0 for member in model.mixture_.members)
    again = fit(clone(model))
    np.testing.assert_array_equal(again.trace_.multipliers, model.trace_.multipliers)


@pytest.mark.parametrize("kind", ["logistic", "tree", "histograms"])
def test_learners_become_fair(kind):
    """Strict tolerance, enough rounds: the violation of the mixture is far below that of plain training."""
    model = fit(quick(LEARNERS[kind], rounds=25, step=0.3, tolerance=0.02, max_multiplier=3.0))
    plain = metrics.violation(Y, model.plain_(X), sensitive_features=SEX, criterion="dp", classes=list(CLASSES))
    assert model.training_.violation < 0.5 * plain


# -- settings in which copies count as rows ----------------------------------------------------------------
COUNTING = [
    (HistGradientBoostingClassifier(max_iter=2, early_stopping=True), "early_stopping=True"),
    (DecisionTreeClassifier(min_samples_leaf=5), "min_samples_leaf=5"),
    (RandomForestClassifier(2, min_samples_split=7, min_samples_leaf=3), "min_samples_leaf=3, min_samples_split=7"),
    (make_pipeline(StandardScaler(), DecisionTreeClassifier(min_samples_leaf=5)), "min_samples_leaf=5"),
]


@pytest.mark.parametrize("estimator, words", COUNTING, ids=range(len(COUNTING)))
def test_settings_in_which_copies_count_as_rows_are_warned_about(estimator, words):
    final = estimator[-1] if hasattr(estimator, "steps") else estimator
    with pytest.warns(OptFairWarning) as caught:
        fit(quick(estimator))
    messages = [str(warning.message) for warning in caught if "training ended outside" not in str(warning.message)]
    assert messages == [
        f"estimator: {type(final).__name__} is fitted to up to 3 weighted copies of each row, which count as rows "
        f"in {words}."
    ]
    quick(estimator).fit(X, Y == "a", sensitive_features=SEX)  # two classes: one copy of each row
    with pytest.warns(OptFairWarning, match="up to 2 weighted copies"):
        quick(estimator, shift="global").fit(X, Y == "a", sensitive_features=SEX)


def test_early_stopping_that_scikit_learn_turns_on_by_size_is_warned_about():
    frame, y = draw_rows(10_500)
    model = quick(HistGradientBoostingClassifier(max_iter=3), rounds=1)
    with pytest.warns(OptFairWarning, match="copies of each row, which count as rows in early_stopping='auto'"):
        model.fit(frame[["x1", "x2"]], y, sensitive_features=frame["sex"])
