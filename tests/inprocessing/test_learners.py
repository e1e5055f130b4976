"""Test which estimators can learn, what stands in front of them, and on what their predictions are measured."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor, StackingClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, TargetEncoder
from sklearn.svm import LinearSVC

from optfair import OptFairIn
from optfair.inprocessing.learners import split_pipeline, trainable_clone, with_probabilities
from tests.inprocessing.helpers import CODE, FEW_ROUNDS, FRAME, SEX, WEIGHT, X_NEW, XA, X, Y, fit, quick

pytestmark = pytest.mark.filterwarnings(FEW_ROUNDS)


# -- pipelines ---------------------------------------------------------------------------------------------
class CountingScaler(StandardScaler):
    """Counts how often it was fitted."""

    fits = 0

    def fit(self, X, y=None, sample_weight=None):
        type(self).fits += 1
        return super().fit(X, y, sample_weight)


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["", "weighted"])
def test_a_pipeline_is_fitted_as_a_whole_and_its_transformers_once(weight):
    CountingScaler.fits = 0
    pipeline = make_pipeline(CountingScaler(), LogisticRegression())
    model = fit(quick(pipeline, tolerance=1.0), sample_weight=weight)
    assert CountingScaler.fits == 1
    weights = {"standardscaler__sample_weight": weight, "logisticregression__sample_weight": weight}
    plain = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, CODE, **({} if weight is None else weights))
    np.testing.assert_allclose(model.mixture_.transformer[0].mean_, plain[0].mean_)
    np.testing.assert_allclose(model.mixture_.members[0].coef_, plain[-1].coef_, atol=1e-4)
    np.testing.assert_array_equal(model.predict(X_NEW), np.array(list("abc"))[plain.predict(X_NEW)])
    CountingScaler.fits = 0
    fit(quick(pipeline))
    assert CountingScaler.fits == 1  # also when the rounds differ


def test_pipelines_in_pipelines():
    flat = fit(quick(make_pipeline(StandardScaler(), LogisticRegression())))
    nested = fit(quick(make_pipeline(StandardScaler(), make_pipeline(StandardScaler(), LogisticRegression()))))
    assert len(nested.mixture_.transformer) == 2
    np.testing.assert_allclose(nested.trace_.multipliers, flat.trace_.multipliers, atol=1e-9)


def test_texts():
    texts = ["often " * int(x > 0.5) + "always" for x in X["x1"]]
    pipeline = make_pipeline(CountVectorizer(), LogisticRegression())
    model = quick(pipeline, start="post", max_multiplier="auto").fit(texts, Y, sensitive_features=SEX)
    assert model.predict_proba(["always", "often always"]).shape == (2, 3)
    assert np.isfinite(model.training_.gap)  # two distinct rows


def test_the_default_is_standardised_logistic_regression():
    options = {"rounds": 3, "start": "zero", "max_multiplier": 1.0, "step": 0.3, "tolerance": 0.05}
    model = fit(OptFairIn(**options))
    same = fit(OptFairIn(make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)), **options))
    np.testing.assert_array_equal(model.trace_.multipliers, same.trace_.multipliers)
    rows = sparse.csr_array(np.abs(XA))
    assert OptFairIn(rounds=2).fit(rows, Y, sensitive_features=SEX).predict_proba(rows).shape == (len(Y), 3)
    table = FRAME[["x1", "sex"]]  # texts are encoded
    assert OptFairIn(rounds=2).fit(table, Y, sensitive_features=FRAME["old"]).predict(table).shape == (len(Y),)


def test_predictions_are_measured_on_what_the_members_will_see():
    """TargetEncoder gives other numbers in fit_transform (out of fold) than in transform."""
    table = pd.DataFrame({"town": np.random.default_rng(1).integers(0, 40, len(Y)).astype(str), "x": XA[:, 0]})
    model = quick(make_pipeline(TargetEncoder(), LogisticRegression())).fit(table, CODE, sensitive_features=SEX)
    h = model.predict_proba(table)
    assert model.training_.accuracy == pytest.approx(h[np.arange(len(Y)), CODE].mean(), abs=1e-12)


def test_the_quick_model_has_the_transformers_of_an_estimator_without_probabilities():
    pipeline = make_pipeline(StandardScaler(with_mean=False), LinearSVC())
    transformer, final = split_pipeline(with_probabilities(pipeline))
    assert isinstance(final, LogisticRegression) and not transformer[0].with_mean
    forest = RandomForestClassifier()
    assert with_probabilities(forest) is forest


# -- seeds -------------------------------------------------------------------------------------------------
def test_parts_without_a_seed_get_one_and_the_estimator_is_left_as_it_was():
    forest = RandomForestClassifier(3)
    assert trainable_clone(forest, 5).random_state == 5 and forest.random_state is None
    assert trainable_clone(RandomForestClassifier(random_state=9), 5).random_state == 9
    assert trainable_clone(make_pipeline(StandardScaler(), forest), 5)[-1].random_state == 5


# -- estimators that cannot be trained ---------------------------------------------------------------------
@pytest.mark.parametrize("estimator", [LinearRegression(), RandomForestRegressor(), StandardScaler()])
def test_what_is_not_a_classifier_is_refused(estimator):
    with pytest.raises(ValueError, match="must be a classifier, not fitted, or a Pipeline that ends in one"):
        fit(quick(estimator))


def test_fitted_models_and_weights_by_class_are_refused():
    with pytest.raises(ValueError, match="is a fitted model, frozen, and would have to be trained; use OptFairPost"):
        fit(quick(FrozenEstimator(LogisticRegression().fit(X, Y))))
    with pytest.raises(ValueError, match="class_weight by class is not possible"):
        fit(quick(LogisticRegression(class_weight={0: 1, 1: 2, 2: 3})))


def test_learners_without_weights_are_refused_unless_rows_may_be_drawn():
    with pytest.raises(ValueError) as error:
        fit(quick(KNeighborsClassifier()))
    assert str(error.value) == (
        "estimator: KNeighborsClassifier takes no sample_weight, which carries the costs of mistakes; use one that "
        "does, or without_weights='resample' (rows are then drawn in proportion to their weights)."
    )
    with pytest.raises(ValueError, match=r"^estimator: KNeighborsClassifier takes no sample_weight"):
        fit(quick(make_pipeline(StandardScaler(), KNeighborsClassifier())))


# -- classifiers that are no classifiers of scikit-learn ---------------------------------------------------
class DuckClassifier:
    """A classifier that inherits nothing."""

    def get_params(self, deep=True):
        return {}

    def set_params(self):
        return self

    def fit(self, X, y, sample_weight=None):
        self.model_ = LogisticRegression().fit(X, y, sample_weight)
        return self

    def predict(self, X):
        return self.model_.predict(X)


@pytest.mark.filterwarnings("ignore:estimator. StackingClassifier is fitted to up to 3 weighted copies")
def test_a_classifier_needs_no_more_than_fit_and_predict():
    for start in ("zero", "post"):
        assert fit(quick(DuckClassifier(), start=start, max_multiplier="auto")).predict(X).shape == Y.shape
    stack = StackingClassifier([("one", LogisticRegression())], cv=2)  # has predict once it is fitted
    assert fit(quick(stack, without_weights="resample", rounds=1)).predict(X).shape == Y.shape
