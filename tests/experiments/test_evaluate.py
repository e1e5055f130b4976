"""Check one run: the one scorer against pandas, the lines of all methods, and models that runs share."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from experiments.base_models import CachedClassifier
from experiments.catalogue import read_data, read_experiment, read_methods
from experiments.evaluate import evaluate_run, make_model, score
from experiments.plan import SMOKE_ROWS, Plan, Run, Setting
from experiments.splits import SplitData, load_split
from optfair.baselines.registry import METHODS
from tests.experiments.lines import lay_out

DATA, PLANNED = read_data(), read_methods()
CRITERIA = {"dp", "eop", "eo"}
PARTS = [round(0.6 * SMOKE_ROWS), round(0.4 * SMOKE_ROWS)]  # training, test


def smoke_runs(name, *only):
    return lay_out(Plan({}, smoke=True, only=only), read_experiment(name))[1]


# -- the one scorer -----------------------------------------------------------------------------------------
@pytest.mark.filterwarnings("ignore:.*left out, because nobody")
@pytest.mark.parametrize("seed", range(4))
def test_the_scorer_against_pandas(seed):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {"y": rng.choice(list("abc"), 700), "g": rng.choice(["x × u", "y", "z"], 700, p=[0.6, 0.3, 0.1])}
    )
    table["prediction"] = np.where(rng.random(700) < 0.5, table["y"], rng.choice(list("abcd"), 700))  # no y is a "d"
    test = SplitData(None, table["y"].to_numpy(str), table["g"].to_numpy(str))
    classes = np.array(list("abcd"))
    result = score(table["prediction"].to_numpy(str), test, classes)

    def worst(part, predictions):
        rates = pd.crosstab(part["g"], part["prediction"], normalize="index").reindex(columns=predictions, fill_value=0)
        overall = part["prediction"].value_counts(normalize=True).reindex(predictions, fill_value=0)
        return (rates - overall).abs().to_numpy().max()

    by_class = [(c, table[table["y"] == c]) for c in "abc"]
    expected = {
        "dp": worst(table, list("abcd")),
        "eop": max(worst(part, [c]) for c, part in by_class),
        "eo": max(worst(part, list("abcd")) for _, part in by_class),
    }
    assert result["violation"] == pytest.approx(expected, abs=1e-6)
    assert result["accuracy"] == pytest.approx((table["y"] == table["prediction"]).mean(), abs=1e-6)
    assert set(result["floor"]) == CRITERIA and all(0 < floor < 1 for floor in result["floor"].values())
    # Probabilities that are 0 or 1 are scored as the predictions they stand for.
    certain = (table["prediction"].to_numpy(str)[:, None] == classes).astype(float)
    scores = score(certain, test, classes)
    assert scores["violation"] == result["violation"] and scores["accuracy"] == result["accuracy"]


# -- runs ---------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def runs():
    """Return one run of each method on Adult, as in the smoke run of the frontiers."""
    pytest.importorskip("torch")
    by_method = {}
    for run in smoke_runs("frontiers", "adult"):
        by_method.setdefault(run.method, run)
    assert {PLANNED[name].kind.name for name in by_method} == set(METHODS)
    return by_method


@pytest.fixture(scope="module")
def lines(runs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cache")
    CachedClassifier._models.clear()
    return {name: evaluate_run(run, DATA["adult"], PLANNED[name], folder) for name, run in runs.items()}


def test_every_method_gives_a_line(runs, lines):
    for name, line in lines.items():
        assert "error" not in line, line
        assert line["run"] == runs[name].as_dict() and line["n"] == PARTS and line["stand_in"] is None
        assert (line["classes"], line["groups"]) == (2, 2) and 0.5 <= line["constant"] <= 1
        assert line["cpu_seconds"] >= 0 and json.loads(json.dumps(line)) == line
        randomised = PLANNED[name].kind.output != "deterministic"
        assert set(line["scores"]) == {"answers", *(["argmax"] if randomised else [])}
        for scores in line["scores"].values():
            assert 0 <= scores["accuracy"] <= 1 and set(scores["violation"]) == CRITERIA
    assert lines["OptFairPost"]["certificate"]["gap"] < 0.01
    assert "small_cells" in lines["ERM"] and "small_cells" in lines["Posterior"]


def test_warnings_of_a_method_are_in_its_line(runs, tmp_path):
    """Ask for a tolerance that three rounds do not reach: OptFairIn warns."""
    line = evaluate_run(replace(runs["OptFairIn"], value=1e-6), DATA["adult"], PLANNED["OptFairIn"], tmp_path)
    assert any("training ended outside" in note for note in line["notes"])
    assert all(0 < len(note) <= 200 for note in line["notes"])


@pytest.mark.parametrize("name", sorted(PLANNED.keys() - {"OptFairInPost"}))
def test_a_run_done_twice_has_the_same_scores(runs, lines, tmp_path, name):
    """Also by a worker that has fitted nothing yet."""
    CachedClassifier._models.clear()
    assert evaluate_run(runs[name], DATA["adult"], PLANNED[name], tmp_path)["scores"] == lines[name]["scores"]


def test_post_processors_stand_on_the_same_posteriors(runs, tmp_path):
    split = load_split(DATA["adult"], runs["LinearPost"], tmp_path)
    CachedClassifier._models.clear()
    posteriors, n_models = {}, set()
    for name in ("OptFairPost", "Posterior", "LinearPost", "FairProjection"):
        model = make_model(runs[name], PLANNED[name], split)
        model.fit(split.train.X, split.train.y, sensitive_features=split.train.group)
        posteriors[name] = model.joint_posterior(split.test.X)
        n_models.add(len(CachedClassifier._models))
    for name, z in posteriors.items():
        np.testing.assert_array_equal(z, posteriors["OptFairPost"], err_msg=name)
    assert n_models == {6}  # five folds and all rows, once for all methods


def test_a_method_that_cannot_gives_a_line_and_a_fault_does_not(runs, tmp_path):
    for name, value in (("OptFairPost", -1.0), ("LinearPost", -1.0)):
        line = evaluate_run(replace(runs[name], value=value), DATA["adult"], PLANNED[name], tmp_path)
        assert line["error"].startswith("ValueError: ") and "scores" not in line and line["n"] == PARTS
        assert json.loads(json.dumps(line)) == line
    wrong = replace(runs["ERM"], options={**runs["ERM"].options, "no_such_option": 1})
    with pytest.raises(TypeError, match="no_such_option"):
        evaluate_run(wrong, DATA["adult"], PLANNED["ERM"], tmp_path)


def test_the_truth_is_measured_where_it_is_known(tmp_path):
    pytest.importorskip("torch")
    run = next(run for run in smoke_runs("truth", "world-3x3") if run.method == "ERM")
    truth = evaluate_run(run, DATA["world-3x3"], PLANNED["ERM"], tmp_path)["truth"]
    assert 0 < truth["accuracy"] < 1 and 0 <= truth["violation"] <= 1 and truth["regret"] > -1e-3


def test_the_requested_gap_reaches_the_solver(tmp_path):
    pytest.importorskip("torch")
    plan, name = Plan({}, smoke=True), "grow 10000 x 4 x 4"
    for method, options in (("OptFairPost", {}), ("OptFairPost-calibrated", {}), ("OptFairInPost", {"threshold": 0.1})):
        run = plan.run(Setting(name, method, "dp", 0.05, options), 1)
        model = make_model(run, plan.methods[method], load_split(plan.data[name], run, tmp_path))
        assert getattr(model, "post_processing", model).gap == run.options["gap"] == 1e-4


def test_a_revision_is_no_option_of_the_class(runs, tmp_path):
    run = replace(runs["LinearPost"], options={**runs["LinearPost"].options, "revision": 2})
    model = make_model(run, PLANNED["LinearPost"], load_split(DATA["adult"], run, tmp_path))
    assert "revision" not in model.get_params()


# -- runs scored by their probabilities, and methods as installed -------------------------------------------
def test_probabilities_are_scored_where_the_plan_says_so(no_data, tmp_path):
    pytest.importorskip("torch")
    training = next(run for run in smoke_runs("networks", "enem-network") if run.method == "OptFairIn")
    line = evaluate_run(training, DATA["enem-network"], PLANNED["OptFairIn"], tmp_path)
    assert set(line["scores"]) == {"expected", "plain"} and set(line["training"]) >= {"accuracy", "violation"}
    labels = next(run for run in smoke_runs("labels", "enem-logistic") if run.method == "OptFairPost")
    line = evaluate_run(labels, DATA["enem-logistic"], PLANNED["OptFairPost"], tmp_path)
    assert set(line["scores"]) == {"expected"} and json.loads(json.dumps(line)) == line


def test_methods_as_installed_have_the_model_of_their_class(tmp_path):
    run = Run("adult-arrays", "adult", "WeightedERM", "dp", None, 1, rows=300)
    split = load_split(DATA["adult-arrays"], run, tmp_path)
    model = make_model(run, PLANNED["WeightedERM"], split)
    assert type(model).__name__ == "WeightedERM" and model.estimator is None and model.random_state == 1
    plain = type(model)(criterion="dp", random_state=1)
    assert {k: v for k, v in model.get_params().items() if v != plain.get_params()[k]} == {}


# -- models that runs share ---------------------------------------------------------------------------------
def test_cached_models_are_fitted_once_for_the_same_rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 3)).astype(np.float32)
    y = (X[:, 0] > 0).astype(int)
    CachedClassifier._models.clear()
    CachedClassifier.model_seconds = CachedClassifier.fit_seconds = 0.0

    def model(X, y, **settings):
        return CachedClassifier(LogisticRegression(**settings)).fit(X, y).model_

    first = model(X, y)
    seconds = CachedClassifier.fit_seconds
    assert seconds > 0 and CachedClassifier.model_seconds == seconds
    assert model(X.copy(), y.copy()) is first and model(pd.DataFrame(X), y) is first
    assert CachedClassifier.fit_seconds == seconds and CachedClassifier.model_seconds == pytest.approx(3 * seconds)
    names = np.array(["f", "m"])[y]
    X_other = X.copy()
    X_other[7, 1] += 1e-3
    different = [model(X, 1 - y), model(X, y, C=0.5), model(X_other, y), model(X[::-1], y), model(X, names)]
    assert len({id(other) for other in [first, *different]}) == 6 == len(CachedClassifier._models)
    assert model(X, names.copy()) is different[-1]
    assert set(CachedClassifier(LogisticRegression()).fit(X, names).classes_) == {"f", "m"}
    with pytest.raises(ValueError, match=r"^sample_weight: cached models take none"):
        CachedClassifier(LogisticRegression()).fit(X, y, sample_weight=np.ones(80))


def test_cached_models_predict_as_the_model_does():
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((60, 2)), rng.integers(0, 3, 60)
    cached, plain = CachedClassifier(LogisticRegression()).fit(X, y), LogisticRegression().fit(X, y)
    np.testing.assert_array_equal(cached.predict_proba(X), plain.predict_proba(X))
    np.testing.assert_array_equal(cached.predict(X), plain.predict(X))
