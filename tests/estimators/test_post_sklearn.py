"""Check `OptFairPost` in the hands of scikit-learn: its own checks, pipelines, searches and metadata routing."""

import joblib
import numpy as np
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from optfair import OptFairPost, metrics
from optfair.metrics import ViolationScorer
from tests.estimators.helpers import SEX, N, X, Y, make_post

FOLDS = KFold(2, shuffle=True, random_state=0)
FRAME = X.assign(sex=(SEX == "m").astype(int))  # numbers only, for scalers
WEIGHT = np.random.default_rng(1).random(N) + 0.1


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def fold_scores(score):
    """Return score(train, test) of each fold."""
    return [score(train, test) for train, test in FOLDS.split(FRAME)]


# -- scikit-learn's own checks -------------------------------------------------------------------------------
def hundredths(X):
    """Return groups by the parity of ⌊100 x⌋ of the first feature, in any container: independent of the labels."""
    first = X.tocsc()[:, [0]].toarray().ravel() if sparse.issparse(X) else np.asarray(X).reshape(len(X), -1)[:, 0]
    return np.floor(100 * np.nan_to_num(first.astype(float), posinf=0, neginf=0)).astype(int) % 2


@pytest.mark.filterwarnings("ignore::optfair.OptFairWarning")  # their data are tiny
@pytest.mark.parametrize(
    ("decision", "expected"),
    [
        ("argmax", {}),
        ("hashed", {"check_classifiers_train": "hashed decisions follow the probabilities, not their argmax"}),
    ],
    ids=["argmax", "hashed"],
)
def test_the_checks_of_scikit_learn(decision, expected):
    # A smaller gap is a colder rule, which multiplies the rounding of the models by 1/τ: at 1e-3 a repeated row and a
    # weight of two differed by 2e-7 on one kind of processor, where 1e-7 is asked.
    model = OptFairPost(sensitive_features=hundredths, decision=decision, cv=3, gap=1e-2)
    results = check_estimator(model, expected_failed_checks=expected, on_fail=None, on_skip=None)
    by_status = {}
    for result in results:
        by_status.setdefault(result["status"], set()).add(result["check_name"])
    failures = [(r["check_name"], str(r["exception"])[:300]) for r in results if r["status"] == "failed"]
    assert failures == []
    assert by_status.get("skipped", set()) <= {"check_array_api_input"}
    assert by_status.get("xfail", set()) == set(expected)
    assert len(by_status["passed"]) > 40


def test_parameters_and_clone():
    model = make_post(criterion="eo", sensitive_features="sex")
    assert clone(model).get_params(deep=False).keys() == model.get_params(deep=False).keys()
    assert model.set_params(estimator__C=0.1).estimator.C == 0.1
    assert repr(OptFairPost()) == "OptFairPost()"


# -- pipelines and searches ----------------------------------------------------------------------------------
def test_without_routing_a_search_reads_the_groups_from_x():
    model = make_post(sensitive_features="sex")

    def accuracy(train, test):
        fitted = clone(model).fit(FRAME.iloc[train], Y[train])
        return np.mean(fitted.predict(FRAME.iloc[test]) == Y[test])

    by_hand = fold_scores(accuracy)
    np.testing.assert_allclose(cross_val_score(model, FRAME, Y, cv=FOLDS), by_hand)
    search = GridSearchCV(model, {"tolerance": [0.05, 1.0], "estimator__C": [1.0]}, cv=FOLDS, error_score="raise")
    search.fit(FRAME, Y)
    assert search.cv_results_["mean_test_score"][0] == pytest.approx(np.mean(by_hand))
    assert search.best_estimator_.certificate_.violation <= search.best_params_["tolerance"]
    assert search.predict(FRAME[["x1", "x2"]]).shape == (N,)


def test_without_routing_a_pipeline_reads_the_groups_from_x():
    scale = StandardScaler().set_output(transform="pandas")
    pipeline = make_pipeline(scale, make_post(sensitive_features="sex")).fit(FRAME, Y)
    alone = make_post(sensitive_features="sex").fit(scale.transform(FRAME), Y)
    np.testing.assert_array_equal(pipeline.predict(FRAME), alone.predict(scale.transform(FRAME)))
    np.testing.assert_array_equal(pipeline[-1].classes_, pipeline.classes_)
    as_arrays = make_pipeline(StandardScaler(), make_post(sensitive_features=2)).fit(FRAME, Y)
    np.testing.assert_allclose(as_arrays.predict_proba(FRAME), pipeline.predict_proba(FRAME))
    # Through the argument of the step, scikit-learn's older way.
    older = make_pipeline(StandardScaler(), make_post()).fit(X, Y, optfairpost__sensitive_features=SEX)
    assert older[-1].groups_.tolist() == ["f", "m"]


@pytest.mark.parametrize("method", ["predict", "predict_proba"])
def test_the_violation_scorer_reads_the_groups_from_the_model(method):
    grid = {"tolerance": [0.02, 1.0]}
    scorer = ViolationScorer(method=method)
    search = GridSearchCV(make_post(sensitive_features="sex"), grid, scoring=scorer, cv=FOLDS, error_score="raise")
    search.fit(FRAME, Y)
    for tolerance, score in zip(grid["tolerance"], search.cv_results_["mean_test_score"], strict=True):

        def violation(train, test, tolerance=tolerance):
            fitted = make_post(sensitive_features="sex", tolerance=tolerance).fit(FRAME.iloc[train], Y[train])
            predictions, groups = getattr(fitted, method)(FRAME.iloc[test]), FRAME["sex"].iloc[test]
            return metrics.violation(Y[test], predictions, sensitive_features=groups, classes=fitted.classes_)

        assert score == pytest.approx(-np.mean(fold_scores(violation)))
    assert search.best_params_ == {"tolerance": 0.02}  # the unconstrained rule is far from fair here


def test_the_violation_scorer_with_an_aware_model_that_reads_x():
    model = make_post(sensitive_features="sex", awareness="aware")
    scores = cross_val_score(model, FRAME, Y, scoring=ViolationScorer(), cv=FOLDS, error_score="raise")
    assert (scores <= 0).all() and (scores > -0.5).all()


def test_models_fitted_in_parallel_are_the_same_models():
    one = make_post(sensitive_features="sex").fit(FRAME, Y)
    with joblib.parallel_config(backend="threading"):
        two = make_post(sensitive_features="sex", n_jobs=2).fit(FRAME, Y)
    np.testing.assert_allclose(one.predict_proba(FRAME), two.predict_proba(FRAME), atol=1e-9)


# -- metadata routing ----------------------------------------------------------------------------------------
def make_requesting():
    """Return a classifier that asks scikit-learn for groups and weights in fit, and for none in score."""
    model = make_post().set_fit_request(sensitive_features=True, sample_weight=True)
    return model.set_score_request(sample_weight=False)


def test_a_pipeline_passes_groups_and_weights_on(routing):
    scale = StandardScaler().set_fit_request(sample_weight=False)
    pipeline = make_pipeline(scale, make_requesting()).fit(X, Y, sensitive_features=SEX, sample_weight=WEIGHT)
    scaled = StandardScaler().fit_transform(X)
    alone = make_post().fit(scaled, Y, sensitive_features=SEX, sample_weight=WEIGHT)
    np.testing.assert_allclose(pipeline.predict_proba(X), alone.predict_proba(scaled))
    assert pipeline[-1].certificate_.accuracy == alone.certificate_.accuracy


def test_a_search_passes_groups_and_weights_on(routing):
    scorer = ViolationScorer("dp").set_score_request(sensitive_features=True, sample_weight=True)
    grid = {"tolerance": [0.05, 0.5]}
    search = GridSearchCV(make_requesting(), grid, scoring=scorer, cv=FOLDS, error_score="raise")
    search.fit(X, Y, sensitive_features=SEX, sample_weight=WEIGHT)
    params = {"sensitive_features": SEX, "sample_weight": WEIGHT}
    scores = cross_validate(make_requesting(), X, Y, cv=FOLDS, scoring=scorer, params=params, error_score="raise")

    def negative_violation(train, test):
        fitted = make_post()
        fitted.fit(X.iloc[train], Y[train], sensitive_features=SEX.iloc[train], sample_weight=WEIGHT[train])
        return -metrics.violation(
            Y[test],
            fitted.predict(X.iloc[test]),
            sensitive_features=SEX.iloc[test],
            sample_weight=WEIGHT[test],
            classes=fitted.classes_,
        )

    by_hand = fold_scores(negative_violation)
    np.testing.assert_allclose(scores["test_score"], by_hand)
    assert search.cv_results_["mean_test_score"][0] == pytest.approx(np.mean(by_hand))


def test_an_aware_model_is_given_the_groups_to_score_and_predict(routing):
    model = make_post(awareness="aware").set_fit_request(sensitive_features=True)
    model.set_score_request(sensitive_features=True, sample_weight=False)
    scores = cross_validate(model, X, Y, cv=FOLDS, params={"sensitive_features": SEX}, error_score="raise")

    def accuracy(train, test):
        fitted = make_post(awareness="aware").fit(X.iloc[train], Y[train], sensitive_features=SEX.iloc[train])
        return np.mean(fitted.predict(X.iloc[test], sensitive_features=SEX.iloc[test]) == Y[test])

    np.testing.assert_allclose(scores["test_score"], fold_scores(accuracy))
    model.set_predict_request(sensitive_features=True, keys=False, random_state=False)
    pipeline = make_pipeline(StandardScaler(), model).fit(X, Y, sensitive_features=SEX)
    assert pipeline.predict(X, sensitive_features=SEX).shape == (N,)


def test_groups_that_nothing_requests_are_an_error_of_scikit_learn(routing):
    with pytest.raises(UnsetMetadataPassedError, match="sensitive_features"):
        cross_val_score(make_post(), X, Y, cv=FOLDS, params={"sensitive_features": SEX})
