"""Check `OptFairPost` on top of a fitted model: it is only asked for probabilities, and its errors stay its own."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

from optfair import OptFairPost
from tests.estimators.helpers import (
    FRAME,
    PREFIT,
    SEX,
    SEX_NEW,
    X_NEW,
    Y_NEW,
    N,
    Prefit,
    X,
    Y,
    assert_error,
    make_post,
)

WAYS = pytest.mark.parametrize(
    ("estimator", "options"),
    [(FrozenEstimator(PREFIT), {}), (PREFIT, {"cv": "prefit"}), (PREFIT.predict_proba, {})],
    ids=["frozen", "prefit", "function"],
)


@WAYS
def test_without_binding_constraints_a_fitted_model_predicts_as_before(estimator, options):
    options = {"tolerance": 1.0, "calibration": "none", **options}
    aware = make_post(estimator, awareness="aware", **options).fit(X, Y, sensitive_features=SEX)
    np.testing.assert_allclose(aware.joint_posterior(X_NEW, sensitive_features=SEX_NEW).sum(axis=(1, 2)), 1)
    model = make_post(estimator, **options).fit(X, Y, sensitive_features=SEX)
    np.testing.assert_array_equal(model.predict(X_NEW), PREFIT.predict(X_NEW))
    Z = model.joint_posterior(X_NEW)
    np.testing.assert_allclose(Z.sum(axis=1), PREFIT.predict_proba(X_NEW))
    np.testing.assert_allclose(Z.sum(axis=(1, 2)), 1)


@WAYS
@pytest.mark.parametrize("awareness", ["blind", "aware"])
def test_a_fitted_model_stays_closed(estimator, options, awareness):
    """Without constraints that bind, labels and groups change nothing, though they calibrate what constraints need."""
    model = make_post(estimator, tolerance=1.0, awareness=awareness, **options).fit(X, Y, sensitive_features=SEX)
    groups = {"sensitive_features": SEX_NEW} if awareness == "aware" else {}
    np.testing.assert_array_equal(model.predict(X_NEW, **groups), PREFIT.predict(X_NEW))
    Z = model.joint_posterior(X_NEW, **groups)
    np.testing.assert_allclose(Z.sum(axis=1), PREFIT.predict_proba(X_NEW), rtol=1e-12)
    names = [metrics.name for metrics in model.report(X_NEW, Y_NEW, sensitive_features=SEX_NEW).measured]
    assert names == ["plain model", "fair rule", "decisions (hashed)"]
    fair = model.with_tolerance(0.05)
    assert fair.keeps_classes_ and fair.certificate_.violation <= 0.05 < model.certificate_.violation


def test_groups_are_calibrated_as_with_posterior_and_classes_are_not():
    closed, mended = (
        make_post(FrozenEstimator(PREFIT), calibration=calibration).fit(X, Y, sensitive_features=SEX)
        for calibration in ("groups", "posterior")
    )
    Z, Q = (model.joint_posterior(X_NEW) for model in (closed, mended))
    np.testing.assert_allclose(Z / Z.sum(axis=1, keepdims=True), Q / Q.sum(axis=1, keepdims=True), atol=1e-9)
    assert np.abs(Z.sum(axis=1) - Q.sum(axis=1)).max() > 1e-3
    assert closed.keeps_classes_ and not mended.keeps_classes_
    predictions = closed.predict_proba(X_NEW)
    closed.set_params(calibration="none")  # what was fitted stays fitted
    np.testing.assert_array_equal(closed.predict_proba(X_NEW), predictions)


def test_the_choice_of_calibration_is_explicit_or_follows_from_the_model():
    fitted, unfitted = make_post(FrozenEstimator(PREFIT)), make_post()
    assert fitted.calibration == unfitted.calibration == "auto"
    for model, choice in ((fitted, "groups"), (unfitted, "posterior")):
        one, other = (m.fit(X, Y, sensitive_features=SEX) for m in (clone(model), model.set_params(calibration=choice)))
        np.testing.assert_array_equal(one.predict_proba(X_NEW), other.predict_proba(X_NEW))
    kept = make_post(posterior="factored", calibration="groups", tolerance=1.0).fit(X, Y, sensitive_features=SEX)
    own = kept.posterior_model_.classes(X_NEW)  # of a model that OptFairPost has fitted itself
    np.testing.assert_array_equal(kept.predict(X_NEW), kept.classes_[own.argmax(axis=1)])


@WAYS
def test_a_search_does_not_fit_a_fitted_model_again(estimator, options):
    table = FRAME[["x1", "x2", "sex"]]
    model = make_post(estimator, sensitive_features="sex", **options)
    search = GridSearchCV(model, {"tolerance": [0.02, 0.2]}, cv=2, error_score="raise").fit(table, Y)
    assert search.best_estimator_.certificate_.violation <= search.best_params_["tolerance"]
    cloned = clone(model).estimator  # not a copy either: it may be large, or have no copy
    assert getattr(cloned, "__self__", cloned) is getattr(estimator, "__self__", estimator)


def test_a_fitted_lightgbm_model():
    lightgbm = pytest.importorskip("lightgbm")
    fitted = lightgbm.LGBMClassifier(n_estimators=5, num_leaves=4, min_child_samples=5, verbose=-1, n_jobs=1)
    fitted.fit(X_NEW, Y_NEW)
    before = fitted.booster_.model_to_string()
    for estimator, options in ((fitted, {"cv": "prefit"}), (FrozenEstimator(fitted), {})):
        model = make_post(estimator, tolerance=1.0, calibration="none", **options)
        model.fit(X, Y, sensitive_features=SEX)
        np.testing.assert_array_equal(model.predict(X), fitted.predict(X))
        fair = model.with_tolerance(0.05)
        assert fair.certificate_.violation <= 0.05 < model.certificate_.violation
    assert fitted.booster_.model_to_string() == before


# -- classes -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("options", [{"estimator": FrozenEstimator(PREFIT)}, {"estimator": PREFIT, "cv": "prefit"}])
def test_classes_that_only_the_model_or_only_the_labels_know(options):
    model = make_post(**options).fit(X, np.where(Y == "c", "b", Y), sensitive_features=SEX)
    assert model.classes_.tolist() == ["a", "b", "c"] and model.predict_proba(X).shape == (N, 3)
    labels = Y.copy()
    labels[0] = "d"
    message = "y: 'd' is not in classes=['a', 'b', 'c']."
    assert_error(message, make_post(**options).fit, X, labels, sensitive_features=SEX)


def test_a_class_that_is_not_in_y_keeps_its_whole_name():
    long_name = Prefit(PREFIT.model, ["a", "b", "somewhere else"])
    model = make_post(FrozenEstimator(long_name), tolerance=1.0, calibration="none")
    model.fit(X, np.where(Y == "c", "b", Y), sensitive_features=SEX)
    assert model.classes_.tolist() == ["a", "b", "somewhere else"]
    np.testing.assert_array_equal(model.predict(X_NEW), long_name.predict(X_NEW))


def test_a_fitted_model_may_have_its_classes_in_any_order():
    unsorted = Prefit(PREFIT.model, ["b", "c", "a"])  # it calls class a what others call b, and so on
    renamed = np.array(["b", "c", "a"])[np.searchsorted(["a", "b", "c"], Y)]
    model = make_post(FrozenEstimator(unsorted), tolerance=1.0, calibration="none")
    model.fit(X, renamed, sensitive_features=SEX)
    predictions = model.predict(X)
    np.testing.assert_array_equal(predictions, unsorted.predict(X))
    measured = {metrics.name: metrics for metrics in model.report(X, renamed, sensitive_features=SEX).measured}
    expected = np.mean(predictions == renamed)
    assert expected == pytest.approx(model.score(X, renamed))
    for name in ("plain model", "decisions (hashed)", "fair rule"):
        assert measured[name].accuracy == pytest.approx(expected)


# -- errors --------------------------------------------------------------------------------------------------
def test_what_cannot_be_done_with_a_fitted_model():
    assert_error(
        "posterior='joint': a fitted model knows the classes only; use 'factored' or 'auto'.",
        make_post(FrozenEstimator(PREFIT), posterior="joint").fit,
        X,
        Y,
        sensitive_features=SEX,
    )
    assert_error(
        "estimator: gives 3 columns of probabilities for 2 classes; a model without classes_ needs one column per "
        "class found in y, sorted.",
        make_post(PREFIT.predict_proba).fit,
        X,
        np.where(Y == "c", "b", Y),
        sensitive_features=SEX,
    )
    with pytest.raises(
        ValueError,
        match=r"^estimator: \d+ rows of its output are not probabilities \(row 0 sums to .*\); give one column",
    ):
        make_post(PREFIT.model.decision_function).fit(X, Y, sensitive_features=SEX)


@pytest.fixture(scope="module")
def letter_column():
    """Return a frame with a feature "x" and groups in the column "a", whose name is a word; and labels."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.standard_normal(200), "a": rng.integers(0, 2, 200)})
    return frame, (frame["x"] > 0).to_numpy()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"group_estimator": 3}, "group_estimator=3: must be a classifier"),
        ({"group_estimator": LogisticRegression}, "group_estimator=<class"),
        ({"posterior": "joint"}, "posterior='joint': a fitted model knows the classes only"),
        ({"cv": 1}, "cv=1: must be at least 2 folds"),
    ],
)
def test_wrong_arguments_are_not_blamed_on_the_fitted_model(letter_column, change, message):
    """Check it where the name of the sensitive column is a word of every message."""
    frame, y = letter_column
    fitted = FrozenEstimator(LogisticRegression().fit(frame[["x"]], y))
    with pytest.raises(ValueError) as error:
        OptFairPost(fitted, sensitive_features="a", **change).fit(frame, y)
    assert str(error.value).startswith(message)


def test_a_fitted_model_that_needs_the_sensitive_column_is_an_error_of_one_line(letter_column):
    frame, y = letter_column
    fitted = FrozenEstimator(LogisticRegression().fit(frame, y))
    message = r"^estimator: the fitted model seems to need the sensitive column 'a'"
    with pytest.raises(ValueError, match=message) as error:
        OptFairPost(fitted, sensitive_features="a").fit(frame, y)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("column", ["a", "of"])
def test_errors_of_a_function_are_not_blamed_on_the_sensitive_column(column):
    """Check it where a word of the message is the name of the sensitive column."""
    frame = pd.DataFrame({"x": np.arange(40.0), column: np.arange(40) % 2})
    with pytest.raises(ValueError, match="rows of its output are not probabilities"):
        OptFairPost(lambda Z: np.ones((len(Z), 2)), sensitive_features=column).fit(frame, np.arange(40) % 3 > 0)
