"""Test preprocessing that models have in common: it runs once, and answers are those of models that run it."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.dummy import DummyClassifier
from sklearn.feature_selection import SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from optfair import OptFairPost
from optfair.datasets import make_fair_classification
from optfair.posteriors.preprocessing import BLIND_TO_Y, count_leading, count_shared, fitted_steps

DATA = make_fair_classification(600, n_classes=3, n_groups=4, random_state=0)


class CountingScaler(TransformerMixin, BaseEstimator):
    """Doubles the numbers, and counts the rows it has seen in each call."""

    calls: list[int] = []  # noqa: RUF012 - of all copies

    def fit(self, X, y=None):
        """Learn nothing."""
        self.fitted_ = True
        return self

    def transform(self, X):
        """Return 2 X."""
        self.calls.append(len(X))
        return 2 * np.asarray(X)


class OwnPipeline(Pipeline):
    """A Pipeline that may predict in its own way."""


def fitted_pipeline(kind=Pipeline):
    """Return a Pipeline that was fitted to the classes."""
    steps = [("count", CountingScaler()), ("scale", StandardScaler()), ("model", LogisticRegression())]
    return kind(steps).fit(DATA.X, DATA.y)


def fit_post(estimator, **options):
    """Return a fair classifier around it."""
    model = OptFairPost(estimator, cv=3, random_state=0, **options)
    return model.fit(DATA.X, DATA.y, sensitive_features=DATA.sensitive_features)


def calls_of(function, *arguments):
    """Return the number of rows in each call of the transformer."""
    CountingScaler.calls.clear()
    function(*arguments)
    return list(CountingScaler.calls)


def test_the_preprocessing_of_a_fitted_pipeline_runs_once():
    pipeline = fitted_pipeline()
    model = fit_post(FrozenEstimator(pipeline))
    assert calls_of(model.predict, DATA.X[:50]) == [50]
    assert calls_of(model.predict, DATA.X[:1]) == [1]
    Z = model.posterior_model_(DATA.X)
    np.testing.assert_allclose(Z.sum(axis=1), pipeline.predict_proba(DATA.X), atol=1e-12)
    heads = model.posterior_model_.groups
    features = heads.transformer.transform(DATA.X)
    for i, (head, columns) in enumerate(zip(heads.models, heads.columns, strict=True)):
        expected = head.predict_proba(features) * pipeline.predict_proba(DATA.X)[:, [i]]
        np.testing.assert_allclose(Z[:, columns, i], expected, atol=1e-12)


def test_every_row_is_transformed_once_where_a_fold_is_fitted_and_once_where_it_is_asked():
    pipeline = fitted_pipeline()
    n, n_folds = len(DATA.y), 3
    calls = calls_of(fit_post, FrozenEstimator(pipeline))
    assert len(calls) == 2 * n_folds + 1 and sum(calls) == n_folds * n + n  # (n − test) + test in each fold, then all


def test_a_frozen_embedding_runs_once_in_both_models_that_begin_with_it():
    embedding = FrozenEstimator(CountingScaler().fit(DATA.X))
    pipeline = make_pipeline(embedding, StandardScaler(), LogisticRegression())
    model = fit_post(pipeline, posterior="factored")
    assert calls_of(model.predict, DATA.X[:7]) == [7]
    other = fit_post(pipeline, posterior="factored", group_estimator=make_pipeline(embedding, GaussianNB()))
    assert calls_of(other.predict, DATA.X[:7]) == [7]
    apart = fit_post(FrozenEstimator(fitted_pipeline()), group_estimator=make_pipeline(embedding, GaussianNB()))
    assert calls_of(apart.predict, DATA.X[:7]) == [7, 7]  # one of its own each


def test_steps_that_learn_nothing_from_y_are_those_of_the_model_of_y():
    pipeline = make_pipeline(StandardScaler(), SelectKBest(k=3), LogisticRegression())
    model = fit_post(pipeline, posterior="factored").posterior_model_
    scaler = model.classes.model.steps[0][1]
    assert fitted_steps(model.groups.transformer) == [scaler]
    X, Z = DATA.X.to_numpy(), model(DATA.X)
    scaled = StandardScaler().fit_transform(X)
    P = make_pipeline(SelectKBest(k=3), LogisticRegression()).fit(scaled, DATA.y).predict_proba(scaled)
    np.testing.assert_allclose(Z.sum(axis=1), P, atol=1e-12)
    groups, classes = np.unique(DATA.sensitive_features), np.unique(DATA.y)
    for i, name in enumerate(classes):
        rows = np.flatnonzero(DATA.y == name)
        codes = np.searchsorted(groups, np.asarray(DATA.sensitive_features)[rows])
        head = make_pipeline(SelectKBest(k=3), LogisticRegression()).fit(scaled[rows], codes)  # selected for the group
        np.testing.assert_allclose(Z[:, :, i], P[:, [i]] * head.predict_proba(scaled), atol=1e-12)


def test_a_pipeline_of_another_type_is_asked_as_a_whole():
    pipeline = fitted_pipeline(OwnPipeline)
    model = fit_post(FrozenEstimator(pipeline))
    assert calls_of(model.predict, DATA.X[:7]) == [7, 7]
    np.testing.assert_allclose(model.posterior_model_(DATA.X).sum(axis=1), pipeline.predict_proba(DATA.X), atol=1e-12)


def test_files_keep_what_is_shared(tmp_path):
    pytest.importorskip("skops", reason="models are saved by skops")
    from optfair import load_model

    model = fit_post(FrozenEstimator(fitted_pipeline()))
    model.save(tmp_path / "model.skops")
    copy = load_model(tmp_path / "model.skops", trusted=[f"{__name__}.CountingScaler"])
    assert calls_of(copy.predict, DATA.X[:7]) == [7]
    np.testing.assert_array_equal(copy.predict(DATA.X), model.predict(DATA.X))


def test_groups_saved_without_a_transformer_are_asked_about_x_itself():
    """So are those in files that were written before there was one."""
    model = fit_post(FrozenEstimator(GaussianNB().fit(DATA.X, DATA.y)), group_estimator=GaussianNB()).posterior_model_
    Z = model(DATA.X)
    del model.groups.__dict__["transformer"]
    np.testing.assert_array_equal(model(DATA.X), Z)


def test_a_pipeline_without_probabilities_is_refused():
    pipeline = make_pipeline(StandardScaler(), LinearSVC()).fit(DATA.X, DATA.y)
    with pytest.raises(ValueError, match=r"estimator: FrozenEstimator has no predict_proba; use a classifier that has"):
        fit_post(FrozenEstimator(pipeline))


def test_the_error_of_preprocessing_names_the_estimator():
    model = fit_post(FrozenEstimator(fitted_pipeline())).posterior_model_
    with pytest.raises(ValueError) as error:
        model(DATA.X.to_numpy()[:, :1])
    assert error.value.__notes__ == [
        "estimator: this is the message of FrozenEstimator, when it was asked about X as given."
    ]


def test_sparse_features_are_shared_too():
    X = sparse.csr_array(DATA.X.to_numpy())
    pipeline = make_pipeline(StandardScaler(with_mean=False), LogisticRegression()).fit(X, DATA.y)
    options = {"cv": 3, "random_state": 0}
    model = OptFairPost(FrozenEstimator(pipeline), **options).fit(X, DATA.y, sensitive_features=DATA.sensitive_features)
    P = model.posterior_model_(X).sum(axis=1)
    np.testing.assert_allclose(P, pipeline.predict_proba(X), atol=1e-12)


def test_steps_of_pipelines_inside_pipelines():
    scaler, model = StandardScaler(), DummyClassifier()
    inner = make_pipeline("passthrough", scaler)
    pipeline = Pipeline([("inner", FrozenEstimator(inner)), ("nothing", None), ("model", model)])
    assert fitted_steps(FrozenEstimator(pipeline)) == [scaler, model]
    assert fitted_steps(model) == [model]
    assert count_shared([scaler, model], [scaler, StandardScaler()]) == 1
    assert count_shared([StandardScaler()], [StandardScaler()]) == 0
    assert count_leading(pipeline, FrozenEstimator) == 1
    assert count_leading(make_pipeline(scaler, model), FrozenEstimator) == 0 == count_leading(model, FrozenEstimator)
    assert count_leading(make_pipeline(FrozenEstimator(scaler)), FrozenEstimator) == 0
    assert count_leading(make_pipeline(scaler, scaler, SelectKBest(), scaler, model), *BLIND_TO_Y) == 2


@pytest.mark.parametrize("frozen", [False, True])
def test_a_step_that_writes_into_its_rows_finds_them_as_they_were(frozen):
    """Scaled twice, rows would tell the models of the group something else than a new row, which is scaled once."""
    posteriors = []
    for copy in (True, False):
        scaler = StandardScaler(copy=copy)
        step = FrozenEstimator(scaler.fit(DATA.X.to_numpy(copy=True))) if frozen else scaler
        estimator = make_pipeline(step, LogisticRegression())
        assert count_leading(estimator, *BLIND_TO_Y) == copy
        model = OptFairPost(estimator, posterior="factored", calibration="none", cv=3, random_state=0)
        X = DATA.X.to_numpy(copy=True)
        model.fit(X, DATA.y, sensitive_features=DATA.sensitive_features)
        posteriors.append(model.joint_posterior(X))
        np.testing.assert_array_equal(X, DATA.X)
    # Group models have a scaler of their own where it is not shared, so that they differ a little.
    np.testing.assert_allclose(*posteriors, atol=1e-9 if frozen else 0.02)


def test_the_error_of_a_model_says_that_a_group_has_one_row():
    class Stratifier(LogisticRegression):
        def fit(self, X, y, sample_weight=None):
            if np.bincount(y).min() == 1:
                raise ValueError("too few")
            return super().fit(X, y, sample_weight)

    groups = np.where(np.arange(len(DATA.y)) == 0, "Z", DATA.sensitive_features)
    model = OptFairPost(Stratifier(), cv=3, random_state=0)
    with pytest.raises(ValueError, match="too few") as error, pytest.warns(match="'Z'"):
        model.fit(DATA.X, DATA.y, sensitive_features=groups)
    assert any("a group has one row of some class here" in note for note in error.value.__notes__)
