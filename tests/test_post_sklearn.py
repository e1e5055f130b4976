"""`OptFairPost` in scikit-learn's hands: its own checks, pipelines, searches, and metadata routing."""

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator
from threadpoolctl import threadpool_limits

from optfair import OptFairPost, metrics
from optfair.metrics import ViolationScorer

FOLDS = KFold(2, shuffle=True, random_state=0)


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """The models are tiny: threads of BLAS would only wait for each other."""
    with threadpool_limits(1):
        yield


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


# -- scikit-learn's own checks ------------------------------------------------------------------------------
def hundredths(X):
    """Two groups by the parity of ⌊100 x⌋ of the first feature, whatever the container: independent of the labels."""
    first = X.tocsc()[:, [0]].toarray().ravel() if sparse.issparse(X) else np.asarray(X).reshape(len(X), -1)[:, 0]
    return np.floor(100 * np.nan_to_num(first.astype(float), posinf=0, neginf=0)).astype(int) % 2


@pytest.mark.filterwarnings("ignore::optfair.OptFairWarning")  # their data are tiny
@pytest.mark.parametrize(
    ("decision", "expected"),
    [
        ("argmax", {}),
        ("hashed", {"check_classifiers_train": "hashed decisions follow the probabilities, not their argmax"}),
    ],
)
def test_scikit_learns_checks(decision, expected):
    model = OptFairPost(sensitive_features=hundredths, decision=decision)
    results = check_estimator(model, expected_failed_checks=expected, on_fail=None, on_skip=None)
    by_status = {}
    for result in results:
        by_status.setdefault(result["status"], set()).add(result["check_name"])
    failures = [(r["check_name"], str(r["exception"])[:300]) for r in results if r["status"] == "failed"]
    assert failures == []
    assert by_status.get("skipped", set()) <= {"check_array_api_input"}
    assert by_status.get("xfail", set()) == set(expected)
    assert len(by_status["passed"]) > 40


# -- pipelines and searches ---------------------------------------------------------------------------------
def people(n=200, seed=0):
    rng = np.random.default_rng(seed)
    sex = rng.integers(0, 2, n)
    x = rng.standard_normal((n, 2)) + np.c_[1.2 * sex, np.zeros(n)]
    y = np.digitize(x[:, 0] + 0.5 * rng.standard_normal(n), [0, 1.2])
    return pd.DataFrame({"x1": x[:, 0], "x2": x[:, 1], "sex": sex}), np.array(list("abc"))[y]


def quick(**options):
    return OptFairPost(LogisticRegression(), **{"cv": 2, "random_state": 0, "tolerance": 0.05} | options)


FRAME, Y = people()
X, SEX = FRAME[["x1", "x2"]], FRAME["sex"].map({0: "f", 1: "m"})
WEIGHT = np.random.default_rng(1).random(len(Y)) + 0.1


def test_parameters_and_clone():
    model = quick(criterion="eo", sensitive_features="sex")
    assert clone(model).get_params(deep=False).keys() == model.get_params(deep=False).keys()
    assert model.set_params(estimator__C=0.1).estimator.C == 0.1
    assert repr(OptFairPost()) == "OptFairPost()"


def test_without_routing_the_constructor_knows_where_the_groups_are():
    model = quick(sensitive_features="sex")
    by_hand = []
    for train, test in FOLDS.split(FRAME):
        fitted = clone(model).fit(FRAME.iloc[train], Y[train])
        by_hand.append(np.mean(fitted.predict(FRAME.iloc[test]) == Y[test]))
    np.testing.assert_allclose(cross_val_score(model, FRAME, Y, cv=FOLDS), by_hand)
    search = GridSearchCV(model, {"tolerance": [0.05, 1.0], "estimator__C": [1.0]}, cv=FOLDS, error_score="raise")
    search.fit(FRAME, Y)
    assert search.cv_results_["mean_test_score"][0] == pytest.approx(np.mean(by_hand))
    assert search.best_estimator_.certificate_.violation <= search.best_params_["tolerance"]
    assert search.predict(FRAME[["x1", "x2"]]).shape == (len(Y),)


def test_a_pipeline_without_routing():
    scale = StandardScaler().set_output(transform="pandas")
    pipeline = make_pipeline(scale, quick(sensitive_features="sex")).fit(FRAME, Y)
    alone = quick(sensitive_features="sex").fit(scale.transform(FRAME), Y)
    np.testing.assert_array_equal(pipeline.predict(FRAME), alone.predict(scale.transform(FRAME)))
    np.testing.assert_array_equal(pipeline[-1].classes_, pipeline.classes_)
    as_arrays = make_pipeline(StandardScaler(), quick(sensitive_features=2)).fit(FRAME, Y)
    np.testing.assert_allclose(as_arrays.predict_proba(FRAME), pipeline.predict_proba(FRAME))
    # through the step's own argument, scikit-learn's older way
    older = make_pipeline(StandardScaler(), quick()).fit(X, Y, optfairpost__sensitive_features=SEX)
    assert older[-1].groups_.tolist() == ["f", "m"]


@pytest.mark.parametrize("method", ["predict", "predict_proba"])
def test_the_violation_scorer_reads_the_groups_from_the_model(method):
    grid = {"tolerance": [0.02, 1.0]}
    scorer = ViolationScorer(method=method)
    search = GridSearchCV(quick(sensitive_features="sex"), grid, scoring=scorer, cv=FOLDS, error_score="raise")
    search.fit(FRAME, Y)
    for tolerance, score in zip(grid["tolerance"], search.cv_results_["mean_test_score"], strict=True):
        scores = []
        for train, test in FOLDS.split(FRAME):
            fitted = quick(sensitive_features="sex", tolerance=tolerance).fit(FRAME.iloc[train], Y[train])
            answers = getattr(fitted, method)(FRAME.iloc[test])
            groups = FRAME["sex"].iloc[test]
            scores.append(metrics.violation(Y[test], answers, sensitive_features=groups, classes=fitted.classes_))
        assert score == pytest.approx(-np.mean(scores))
    assert search.best_params_ == {"tolerance": 0.02}  # the unconstrained rule is far from fair here


def test_the_violation_scorer_with_an_aware_model_that_reads_x():
    model = quick(sensitive_features="sex", awareness="aware")
    scores = cross_val_score(model, FRAME, Y, scoring=ViolationScorer(), cv=FOLDS, error_score="raise")
    assert (scores <= 0).all() and (scores > -0.5).all()


# -- metadata routing ---------------------------------------------------------------------------------------
def asking():
    return quick().set_fit_request(sensitive_features=True, sample_weight=True).set_score_request(sample_weight=False)


def test_a_pipeline_hands_groups_and_weights_on(routing):
    scale = StandardScaler().set_fit_request(sample_weight=False)
    pipeline = make_pipeline(scale, asking()).fit(X, Y, sensitive_features=SEX, sample_weight=WEIGHT)
    scaled = StandardScaler().fit_transform(X)
    alone = quick().fit(scaled, Y, sensitive_features=SEX, sample_weight=WEIGHT)
    np.testing.assert_allclose(pipeline.predict_proba(X), alone.predict_proba(scaled))
    assert pipeline[-1].certificate_.accuracy == alone.certificate_.accuracy


def test_a_search_hands_groups_and_weights_on(routing):
    scorer = ViolationScorer("dp").set_score_request(sensitive_features=True, sample_weight=True)
    search = GridSearchCV(asking(), {"tolerance": [0.05, 0.5]}, scoring=scorer, cv=FOLDS, error_score="raise")
    search.fit(X, Y, sensitive_features=SEX, sample_weight=WEIGHT)
    given = {"sensitive_features": SEX, "sample_weight": WEIGHT}
    found = cross_validate(asking(), X, Y, cv=FOLDS, scoring=scorer, params=given, error_score="raise")
    by_hand = []
    for train, test in FOLDS.split(X):
        fitted = quick().fit(X.iloc[train], Y[train], sensitive_features=SEX.iloc[train], sample_weight=WEIGHT[train])
        by_hand.append(
            -metrics.violation(
                Y[test],
                fitted.predict(X.iloc[test]),
                sensitive_features=SEX.iloc[test],
                sample_weight=WEIGHT[test],
                classes=fitted.classes_,
            )
        )
    np.testing.assert_allclose(found["test_score"], by_hand)
    assert search.cv_results_["mean_test_score"][0] == pytest.approx(np.mean(by_hand))


def test_an_aware_model_is_given_the_groups_at_scoring_too(routing):
    model = quick(awareness="aware").set_fit_request(sensitive_features=True)
    model.set_score_request(sensitive_features=True, sample_weight=False)
    found = cross_validate(model, X, Y, cv=FOLDS, params={"sensitive_features": SEX}, error_score="raise")
    by_hand = []
    for train, test in FOLDS.split(X):
        fitted = quick(awareness="aware").fit(X.iloc[train], Y[train], sensitive_features=SEX.iloc[train])
        answers = fitted.predict(X.iloc[test], sensitive_features=SEX.iloc[test])
        by_hand.append(np.mean(answers == Y[test]))
    np.testing.assert_allclose(found["test_score"], by_hand)
    pipeline = make_pipeline(
        StandardScaler(), model.set_predict_request(sensitive_features=True, keys=False, random_state=False)
    )
    pipeline.fit(X, Y, sensitive_features=SEX)
    assert pipeline.predict(X, sensitive_features=SEX).shape == (len(Y),)


def test_groups_nobody_asked_for_are_scikit_learns_error(routing):
    with pytest.raises(UnsetMetadataPassedError, match="sensitive_features"):
        cross_val_score(quick(), X, Y, cv=FOLDS, params={"sensitive_features": SEX})


def test_models_fitted_side_by_side_are_the_same_models():
    one = quick(sensitive_features="sex").fit(FRAME, Y)
    with joblib.parallel_config(backend="threading"):
        two = quick(sensitive_features="sex", n_jobs=2).fit(FRAME, Y)
    np.testing.assert_allclose(one.predict_proba(FRAME), two.predict_proba(FRAME), atol=1e-9)
