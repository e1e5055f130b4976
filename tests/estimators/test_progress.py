"""What estimators, `solve` and `frontier` say of their progress: counts are right, and results stay as they are."""

import io
import sys
from contextlib import redirect_stderr

import joblib
import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB

import optfair
from optfair import OptFairIn, OptFairInPost, OptFairPost, frontier, load_model, solve
from optfair.baselines import WeightedERM
from optfair.datasets import make_fair_classification
from optfair.utils import display
from optfair.utils.progress import Stage
from tests.utils.stages import recorded

DATA = make_fair_classification(900, n_classes=3, n_groups=2, random_state=0)
GROUPS = {"sensitive_features": DATA.sensitive_features}
Z = np.random.default_rng(0).dirichlet(np.ones(6), 500).reshape(-1, 2, 3)


class Foreign(ClassifierMixin, BaseEstimator):
    """A model that is not scikit-learn's: it is fitted in processes where several cores are asked for."""

    def fit(self, X, y):
        self.model_ = GaussianNB().fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X):
        return self.model_.predict_proba(X)


def fit_post(estimator=None, **options):
    model = OptFairPost(LogisticRegression() if estimator is None else estimator, cv=3, random_state=0, **options)
    return model.fit(DATA.X, DATA.y, **GROUPS)


# -- what is counted -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("posterior", ["joint", "factored"])
@pytest.mark.parametrize(("estimator", "n_jobs"), [(GaussianNB(), 1), (GaussianNB(), 2), (Foreign(), 2)], ids=str)
def test_models_are_counted_one_by_one_wherever_they_are_fitted(posterior, estimator, n_jobs):
    with recorded() as root:
        model = fit_post(estimator, posterior=posterior, n_jobs=n_jobs, tolerance=0.1)
    (work,) = root.named("fitting models")
    assert work.count == work.total == model.n_base_fits_


def test_models_are_counted_in_processes_that_the_user_asks_for():
    with joblib.parallel_config(backend="loky", n_jobs=2), recorded() as root:
        model = fit_post(GaussianNB(), posterior="factored", tolerance=0.1)
    (work,) = root.named("fitting models")
    assert work.count == work.total == model.n_base_fits_


def test_a_class_that_a_fold_does_not_have_counts_as_a_model_too():
    y = np.where(np.arange(900) == 7, "rare", DATA.y.astype(str))
    with recorded() as root, pytest.warns(match="left out"):
        model = OptFairPost(GaussianNB(), cv=3, posterior="factored", tolerance=0.1, criterion="eop", random_state=0)
        model.fit(DATA.X, y, **GROUPS)
    (work,) = root.named("fitting models")
    assert work.count == work.total == model.n_base_fits_


def test_the_stages_of_a_fit_come_one_after_the_other():
    with recorded() as root:
        model = fit_post(tolerance=0.01)
    assert [record.name for record in root.records] == ["fitting models", "calibrating", "solving"]
    (work,) = root.named("solving")
    assert work.total is None and work.count > 0
    assert work.facts == {"passes": model.certificate_.passes, "gap": model.certificate_.gap}


def test_a_promise_counts_the_rules_that_it_tries():
    with recorded() as root:
        fit_post(tolerance=0.1, confidence=0.9, unpromised="loosen")
    (work,) = root.named("looking for a rule that can be promised")
    inner = [record for record in root.records if record.depth == 1]
    assert {record.name for record in inner} == {"solving"} and work.count > len(inner) > 0


def test_a_frontier_counts_its_tolerances():
    with recorded() as root:
        path = frontier(Z, "dp", tolerances=4, random_state=0)
        fit_post(tolerance=0.1).frontier([0.1, 0.05])
    first, second = root.named("tolerances")
    assert (first.count, first.total, second.count, second.total) == (4, len(path.table), 2, 2)


def test_rounds_are_counted_with_their_violation():
    with recorded() as root:
        model = OptFairIn(tolerance=0.1, rounds=4, output="deterministic", random_state=0)
        model.fit(DATA.X, DATA.y, **GROUPS)
    names = [record.name for record in root.records if record.depth == 0]
    assert names == [
        "looking for a start with a quick model",
        "training without constraints",
        "rounds",
        "training at the mean multipliers",
    ]
    (work,) = root.named("rounds")
    assert (work.count, work.total) == (4, 4)
    assert work.facts == {"violation": pytest.approx(model.history_["violation"].iloc[-1])}


@pytest.mark.filterwarnings("ignore:tolerance")
def test_a_run_that_goes_on_counts_the_rounds_it_has(tmp_path):
    pytest.importorskip("skops", reason="checkpoints of scikit-learn models need skops")
    options = {"tolerance": 0.1, "checkpoint": tmp_path / "run.sqlite", "random_state": 0, "start": "zero", "step": 0.1}
    for _ in range(2):
        with recorded() as root:
            OptFairIn(LogisticRegression(), rounds=3, **options).fit(DATA.X, DATA.y, **GROUPS)
    (work,) = root.named("rounds")
    assert (work.first, work.count, work.total) == (3, 3, 3)


def test_a_baseline_counts_its_rounds():
    with recorded() as root:
        WeightedERM(rounds=6, random_state=0).fit(DATA.X, DATA.y, **GROUPS)
    (work,) = root.named("rounds")
    assert (work.count, work.total) == (6, 6)


def test_a_network_counts_its_epochs():
    nn = pytest.importorskip("optfair.nn", reason="networks need torch", exc_type=ImportError)
    with recorded() as root:
        nn.TorchClassifier("linear", epochs=3, random_state=0).fit(DATA.X, DATA.y)
    (work,) = root.named("epochs")
    assert (work.count, work.total) == (3, 3)


def test_reports_count_the_rules_they_measure():
    model = fit_post(tolerance=0.1)
    with recorded() as root:
        report = model.report(DATA.X, DATA.y, **GROUPS)
    (work,) = root.named("measuring rules")
    assert work.count == work.total == len(report.measured)


# -- what is shown, and what it changes ------------------------------------------------------------------------
@pytest.fixture
def eager(monkeypatch):
    """Show a line at every step, however quick the work and however busy the machine."""
    plain_advance = Stage.advance

    def advance(stage, *steps, **facts):
        plain_advance(stage, *steps, **facts)
        for shown in list(display._DISPLAYS):
            shown._show()

    monkeypatch.setattr(Stage, "advance", advance)


CALLS = {
    "solve": lambda progress: solve(Z, "eo", 0.01, random_state=0, progress=progress),
    "frontier": lambda progress: frontier(Z, "eo", tolerances=3, random_state=0, progress=progress).rules[-1],
    "OptFairPost": lambda progress: fit_post(tolerance=0.02, progress=progress).rule_,
    "with_tolerance": lambda progress: fit_post(tolerance=0.1, progress=progress).with_tolerance(0.02).rule_,
}


@pytest.mark.parametrize("name", CALLS)
def test_results_are_the_same_to_the_last_bit(name, eager):
    stream = io.StringIO()
    with redirect_stderr(stream):
        silent = CALLS[name](False)
        assert stream.getvalue() == ""
        shown = CALLS[name](True)
    assert "... " in stream.getvalue() and "solving" in stream.getvalue()
    np.testing.assert_array_equal(shown.weights, silent.weights)


@pytest.mark.filterwarnings("ignore:tolerance")
def test_in_processing_shows_its_rounds_and_goes_on_in_post_processing(eager):
    stream = io.StringIO()
    inner = OptFairIn(LogisticRegression(), tolerance=0.1, rounds=3, start="zero", random_state=0, progress=True)
    with redirect_stderr(stream):
        inner.fit(DATA.X, DATA.y, **GROUPS)
        assert " of 3" in stream.getvalue()
        staged = OptFairInPost(inner, threshold=0.5, random_state=0)
        assert staged.progress and not OptFairInPost(OptFairIn()).progress
        stream.seek(stream.truncate(0))
        staged.fit(DATA.X, DATA.y, **GROUPS)
    assert "rounds: " in stream.getvalue() and "fitting models: " in stream.getvalue()


def test_everything_inside_a_context_is_shown(eager):
    stream = io.StringIO()
    with redirect_stderr(stream):
        fit_post(tolerance=0.1)
        assert stream.getvalue() == ""
        with optfair.show_progress():
            fit_post(tolerance=0.1)
    assert "fitting models: " in stream.getvalue()


def test_without_tqdm_there_are_lines(eager, monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    stream = io.StringIO()
    with redirect_stderr(stream):
        fit_post(tolerance=0.1, progress=True)
    assert "... fitting models: " in stream.getvalue()


@pytest.mark.parametrize("call", [lambda: fit_post(progress="yes"), lambda: solve(Z, progress="yes")])
def test_progress_is_true_or_false(call):
    with pytest.raises(ValueError, match=r"^progress='yes': must be True or False\.$"):
        call()


# -- scikit-learn and files --------------------------------------------------------------------------------------
def test_clones_and_searches_keep_it():
    model = OptFairPost(LogisticRegression(), sensitive_features=-1, progress=True, cv=2, random_state=0)
    assert clone(model).get_params()["progress"] is True
    X = np.column_stack([DATA.X, np.unique(DATA.sensitive_features, return_inverse=True)[1]])
    stream = io.StringIO()
    with redirect_stderr(stream):
        search = GridSearchCV(model, {"tolerance": [0.1, 0.2]}, cv=2, n_jobs=2).fit(X, DATA.y)
    assert search.best_estimator_.progress is True


def test_a_file_does_not_show_progress(tmp_path):
    pytest.importorskip("skops", reason="models are saved by skops")
    model = fit_post(tolerance=0.1, progress=True)
    model.save(tmp_path / "model.skops")
    copy = load_model(tmp_path / "model.skops")
    assert (model.progress, copy.progress) == (True, False)
    np.testing.assert_array_equal(copy.predict(DATA.X), model.predict(DATA.X))


def test_a_file_from_before_there_was_progress_is_asked_and_shown(tmp_path):
    model = fit_post(tolerance=0.1)
    del model.__dict__["progress"]
    assert "OptFairPost" in repr(model) and len(model.with_tolerance(0.2).predict(DATA.X)) == len(DATA.X)
