"""Test how many models are fitted side by side, and on how many threads each."""

import threading
import warnings

import joblib
import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_info, threadpool_limits

from optfair.inputs.encoder import TableEncoder
from optfair.inputs.splits import make_splits
from optfair.posteriors import out_of_fold as module
from optfair.posteriors.models import fit_model, is_of_sklearn, model_probabilities
from optfair.posteriors.out_of_fold import make_recipe, out_of_fold
from optfair.utils import parallel
from optfair.utils.parallel import cores
from tests.inputs.helpers import random_data


class Probe(ClassifierMixin, BaseEstimator):
    """Notes the threads of the libraries, and the thread that it is on, whenever it is fitted or asked."""

    notes = []  # noqa: RUF012  of all clones

    def note(self):
        kinds = {library["user_api"]: library["num_threads"] for library in threadpool_info()}
        self.notes.append((kinds["blas"], kinds["openmp"], threading.get_ident()))

    def fit(self, X, y):
        self.note()
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        self.note()
        return np.full((len(X), len(self.classes_)), 1 / len(self.classes_))


class SklearnProbe(Probe):
    """A probe that is taken for one of scikit-learn's."""


SklearnProbe.__module__ = "sklearn.probe"


@pytest.fixture
def four_cores(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(parallel, "_available_cores", lambda: 4)
    monkeypatch.setattr(Probe, "notes", [])
    with threadpool_limits(4, user_api="openmp"):
        yield


def workers(estimator, n_jobs, X=None, n_fits=6, **options):
    """Return how many folds are fitted side by side, and in what."""
    data = random_data(0)
    recipe = make_recipe(estimator, None, options.get("posterior", "joint"), 5, data, holds_group=False)
    if X is not None:
        object.__setattr__(data, "X", X)
    return module._workers(recipe, data, n_fits, n_jobs)


# -- which models ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("estimator", "expected"),
    [
        (LogisticRegression(), True),
        (make_pipeline(TableEncoder(), StandardScaler(), LogisticRegression()), True),
        (CalibratedClassifierCV(HistGradientBoostingClassifier()), True),
        (RandomForestClassifier(n_jobs=1), True),
        (RandomForestClassifier(n_jobs=2), False),  # has threads of its own
        (make_pipeline(StandardScaler(), RandomForestClassifier(n_jobs=-1)), False),
        (Probe(), False),
        (make_pipeline(StandardScaler(), Probe()), False),
        (CalibratedClassifierCV(Probe()), False),
        (make_pipeline(FrozenEstimator(StandardScaler()), LogisticRegression()), False),  # clones share it
        (len, False),
    ],
)
def test_models_that_threads_may_fit_side_by_side(estimator, expected):
    assert is_of_sklearn(estimator) is expected


# -- how many ----------------------------------------------------------------------------------------------
def test_models_of_scikit_learn_are_fitted_side_by_side_on_all_cores(four_cores):
    assert workers(LogisticRegression(), None) == (4, "threads")
    assert workers(LogisticRegression(), None, n_fits=3) == (3, "threads")
    assert workers(LogisticRegression(), 2) == (2, "threads")
    assert workers(LogisticRegression(), 1) == (1, "threads")
    with cores(1):
        assert workers(LogisticRegression(), None) == (1, "threads")


def test_other_models_are_fitted_side_by_side_where_that_is_asked_for(four_cores):
    assert workers(Probe(), None) == (1, "processes")
    assert workers(Probe(), 2) == (2, "processes")
    assert workers(Probe(), -1) == (4, "processes")
    with joblib.parallel_config(n_jobs=3):
        assert workers(Probe(), None) == (3, "processes")


def test_a_fitted_model_is_asked_side_by_side_if_it_is_of_scikit_learn(four_cores):
    data = random_data(3)
    fitted = LogisticRegression().fit(data.X, data.y)
    for model, expected in [
        (fitted, (4, "threads")),
        (FrozenEstimator(fitted), (4, "threads")),
        (FrozenEstimator(Probe().fit(data.X, data.y)), (1, "processes")),
        (fitted.predict_proba, (1, "processes")),
    ]:
        recipe = make_recipe(model, LogisticRegression(), "auto", "prefit", data, holds_group=False)
        assert module._workers(recipe, data, 6, None) == expected


def test_by_default_large_data_are_not_copied_for_every_core(four_cores, monkeypatch):
    monkeypatch.setattr(module, "COPIED_NUMBERS", 1000)
    for X in (np.zeros((100, 4)), sparse.eye(400, format="csr")):
        assert workers(LogisticRegression(), None, X) == (2, "threads")
        assert workers(LogisticRegression(), 4, X) == (4, "threads")
    assert workers(LogisticRegression(), None, np.zeros((10_000, 9))) == (1, "threads")


# -- threads of each ---------------------------------------------------------------------------------------
def test_a_model_is_fitted_and_asked_with_one_thread_of_blas(four_cores):
    X, y = np.zeros((4, 1)), np.arange(4) % 2
    model_probabilities(fit_model(Probe(), X, y, None), X)
    model_probabilities(fit_model(make_pipeline(StandardScaler(), SklearnProbe()), X, y, None), X)
    blas, openmp, _ = zip(*Probe.notes, strict=True)
    assert blas == (1, 1, 1, 1)
    assert openmp == (4, 4, 3, 3)  # scikit-learn's leaves a core to others, other packages do as they like


def test_models_side_by_side_have_one_thread_each(four_cores):
    data = random_data(1)
    recipe, splits = make_recipe(SklearnProbe(), None, "joint", 5, data, holds_group=False), make_splits(5, data)
    out_of_fold(recipe, data, splits, 2)
    blas, openmp, _ = zip(*Probe.notes, strict=True)
    assert set(blas) == set(openmp) == {1} and len(Probe.notes) == 11


def test_models_one_after_the_other_are_fitted_on_the_thread_of_the_caller(four_cores):
    data = random_data(2)
    recipe, splits = make_recipe(Probe(), None, "joint", 5, data, holds_group=False), make_splits(5, data)
    out_of_fold(recipe, data, splits, None)
    assert {thread for *_, thread in Probe.notes} == {threading.get_ident()}


def test_folds_in_threads_leave_the_filters_of_warnings_alone():
    data, before = random_data(3), warnings.filters
    recipe, splits = make_recipe(LogisticRegression(), None, "joint", 5, data, holds_group=False), make_splits(5, data)
    for _ in range(5):
        out_of_fold(recipe, data, splits, 2)
    assert warnings.filters is before
