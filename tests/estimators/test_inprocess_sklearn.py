"""Test `OptFairIn` with scikit-learn: its checks, pipelines, searches, scorers, metadata routing and containers."""

import pickle

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

from optfair import OptFairIn, metrics
from optfair.metrics import ViolationScorer
from tests.inprocessing.helpers import FEW_ROUNDS, SEX, XA, X, Y, fit, quick

pytestmark = pytest.mark.filterwarnings(FEW_ROUNDS)

FOLDS = KFold(2, shuffle=True, random_state=0)
FRAME = X.assign(sex=(SEX == "m").astype(int))
WEIGHT = np.random.default_rng(1).random(len(Y)) + 0.1


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.fixture(scope="module")
def model():
    """Return a model fitted on a frame. Only to be read."""
    return fit(quick())


# -- scikit-learn's own checks -----------------------------------------------------------------------------
def parity_of_hundredths(X):
    """Return groups by the parity of ⌊100 x⌋ of the first feature, in any container: independent of the labels."""
    first = X.tocsc()[:, [0]].toarray().ravel() if sparse.issparse(X) else np.asarray(X).reshape(len(X), -1)[:, 0]
    return np.floor(100 * np.nan_to_num(first.astype(float), posinf=0, neginf=0)).astype(int) % 2


@pytest.mark.filterwarnings("ignore::optfair.OptFairWarning")  # their data are tiny
@pytest.mark.parametrize("decision", ["argmax", "hashed"])
def test_scikit_learns_checks(decision):
    """All of them, from start="zero". "post" fails two: copies of a row are dealt to different halves of the rows, so
    that weights and copies start elsewhere; see test_weights_are_copies_from_the_same_start in test_warm_start.py."""
    options = {"rounds": 2, "start": "zero", "max_multiplier": 1.0}
    model = OptFairIn(sensitive_features=parity_of_hundredths, decision=decision, **options)
    results = check_estimator(model, on_fail=None, on_skip=None)
    failures = [(r["check_name"], str(r["exception"])[:300]) for r in results if r["status"] == "failed"]
    assert failures == []
    assert {r["check_name"] for r in results if r["status"] == "skipped"} <= {"check_array_api_input"}
    assert len({r["check_name"] for r in results if r["status"] == "passed"}) > 40


def test_parameters_and_clone():
    model = quick(criterion="eo", sensitive_features="sex")
    assert clone(model).get_params(deep=False).keys() == model.get_params(deep=False).keys()
    assert model.set_params(estimator__C=0.1).estimator.C == 0.1
    assert repr(OptFairIn()) == "OptFairIn()"


def test_pickles_predict_the_same(model):
    other = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(other.predict(X), model.predict(X))
    pd.testing.assert_frame_equal(other.history_, model.history_)
    pickle.loads(pickle.dumps(OptFairIn()))


# -- pipelines and searches --------------------------------------------------------------------------------
def by_hand(score, rows=FRAME, **options):
    """Return score(fitted model, test rows, test labels) of each fold; the group is the column "sex"."""
    scores = []
    for train, test in FOLDS.split(rows):
        fitted = quick(sensitive_features="sex", **options).fit(rows.iloc[train], Y[train])
        scores.append(score(fitted, rows.iloc[test], Y[test]))
    return scores


def test_without_routing_the_constructor_says_where_the_groups_are():
    model = quick(sensitive_features="sex")
    expected = by_hand(lambda fitted, rows, y: np.mean(fitted.predict(rows) == y))
    np.testing.assert_allclose(cross_val_score(model, FRAME, Y, cv=FOLDS), expected)
    search = GridSearchCV(model, {"tolerance": [0.05, 1.0], "estimator__C": [1.0]}, cv=FOLDS, error_score="raise")
    search.fit(FRAME, Y)
    assert search.cv_results_["mean_test_score"][0] == pytest.approx(np.mean(expected))
    assert search.predict(X).shape == (len(Y),)


def test_a_pipeline_that_ends_in_it():
    scale = StandardScaler().set_output(transform="pandas")
    pipeline = make_pipeline(scale, quick(sensitive_features="sex")).fit(FRAME, Y)
    alone = quick(sensitive_features="sex").fit(scale.transform(FRAME), Y)
    np.testing.assert_array_equal(pipeline.predict(FRAME), alone.predict(scale.transform(FRAME)))
    np.testing.assert_array_equal(pipeline[-1].classes_, pipeline.classes_)


@pytest.mark.parametrize("method", ["predict", "predict_proba"])
def test_the_violation_scorer_reads_the_groups_from_the_model(method):
    def score(fitted, rows, y):
        predicted = getattr(fitted, method)(rows)
        return -metrics.violation(y, predicted, sensitive_features=rows["sex"], classes=fitted.classes_)

    scorer, model = ViolationScorer(method=method), quick(sensitive_features="sex")
    found = cross_val_score(model, FRAME, Y, scoring=scorer, cv=FOLDS, error_score="raise")
    np.testing.assert_allclose(found, by_hand(score))


# -- metadata routing --------------------------------------------------------------------------------------
def with_requests():
    """Return a model that asks to be given groups and weights."""
    return quick().set_fit_request(sensitive_features=True, sample_weight=True).set_score_request(sample_weight=False)


def test_a_pipeline_routes_groups_and_weights(routing):
    scale = StandardScaler().set_fit_request(sample_weight=False)
    pipeline = make_pipeline(scale, with_requests()).fit(X, Y, sensitive_features=SEX, sample_weight=WEIGHT)
    scaled = StandardScaler().fit_transform(X)
    alone = quick().fit(scaled, Y, sensitive_features=SEX, sample_weight=WEIGHT)
    np.testing.assert_allclose(pipeline.predict_proba(X), alone.predict_proba(scaled))
    inner = quick(make_pipeline(StandardScaler(), LogisticRegression()))  # needs no requests of its parts
    inner.fit(X, Y, sensitive_features=SEX, sample_weight=WEIGHT)


def test_a_search_routes_groups_and_weights(routing):
    scorer = ViolationScorer("dp").set_score_request(sensitive_features=True, sample_weight=True)
    given = {"sensitive_features": SEX, "sample_weight": WEIGHT}
    options = {"cv": FOLDS, "scoring": scorer, "error_score": "raise"}
    search = GridSearchCV(with_requests(), {"tolerance": [0.05, 0.5]}, **options).fit(X, Y, **given)
    found = cross_validate(with_requests(), X, Y, params=given, **options)
    expected = []
    for train, test in FOLDS.split(X):
        fitted = quick().fit(X.iloc[train], Y[train], sensitive_features=SEX.iloc[train], sample_weight=WEIGHT[train])
        measured = {"sensitive_features": SEX.iloc[test], "sample_weight": WEIGHT[test], "classes": fitted.classes_}
        expected.append(-metrics.violation(Y[test], fitted.predict(X.iloc[test]), **measured))
    np.testing.assert_allclose(found["test_score"], expected)
    assert search.cv_results_["mean_test_score"][0] == pytest.approx(np.mean(expected))


def test_an_aware_model_is_given_the_groups_at_scoring_too(routing):
    model = quick(awareness="aware").set_fit_request(sensitive_features=True)
    model.set_score_request(sensitive_features=True, sample_weight=False)
    found = cross_validate(model, X, Y, cv=FOLDS, params={"sensitive_features": SEX}, error_score="raise")
    expected = []
    for train, test in FOLDS.split(X):
        fitted = quick(awareness="aware").fit(X.iloc[train], Y[train], sensitive_features=SEX.iloc[train])
        expected.append(np.mean(fitted.predict(X.iloc[test], sensitive_features=SEX.iloc[test]) == Y[test]))
    np.testing.assert_allclose(found["test_score"], expected)


def test_groups_that_no_part_has_requested_are_an_error_of_scikit_learn(routing):
    with pytest.raises(UnsetMetadataPassedError, match="sensitive_features"):
        cross_val_score(quick(), X, Y, cv=FOLDS, params={"sensitive_features": SEX})


# -- containers --------------------------------------------------------------------------------------------
CONTAINERS = {"array": XA, "lists": XA.tolist(), "sparse": sparse.csr_array(XA), "matrix": sparse.csc_matrix(XA)}


@pytest.mark.parametrize("kind", CONTAINERS)
def test_the_container_does_not_matter(kind, model):
    other = quick().fit(CONTAINERS[kind], Y, sensitive_features=SEX.tolist())
    np.testing.assert_allclose(other.trace_.multipliers, model.trace_.multipliers, atol=1e-9)
    np.testing.assert_allclose(other.predict_proba(CONTAINERS[kind]), model.predict_proba(X), atol=1e-9)


def test_polars(model):
    pl = pytest.importorskip("polars", reason="the frames are polars'")
    frame = pl.DataFrame(FRAME.to_dict("list"))
    features = frame.select("x1", "x2")
    other = quick().fit(features, pl.Series(Y.tolist()), sensitive_features=pl.Series(SEX.tolist()))
    np.testing.assert_allclose(other.trace_.multipliers, model.trace_.multipliers, atol=1e-9)
    np.testing.assert_array_equal(other.predict_proba(features), model.predict_proba(X))
    named = quick(sensitive_features="sex").fit(frame, Y)
    np.testing.assert_array_equal(named.predict_proba(frame), model.predict_proba(X))


def test_models_fitted_in_parallel_are_the_same():
    with joblib.parallel_config(backend="threading"):
        jobs = (joblib.delayed(quick().fit)(X, Y, sensitive_features=SEX) for _ in range(2))
        one, two = joblib.Parallel(n_jobs=2)(jobs)
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))
