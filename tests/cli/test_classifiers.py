"""The classifier that --estimator names."""

import os
from functools import partial

import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

from optfair.cli import classifiers
from tests.cli.helpers import FIT


@pytest.mark.parametrize("name", ["boosting", "mlp", "sklearn.naive_bayes.GaussianNB"])
def test_saved_estimators_load_without_trust(run, train, tmp_path, monkeypatch, name):
    pytest.importorskip("skops", reason="models are saved by skops")
    if name == "mlp":
        pytest.importorskip("torch", reason="mlp needs torch")
    small = partial(HistGradientBoostingClassifier, max_iter=10)  # the types in the file are those of 100 iterations
    monkeypatch.setattr(classifiers, "HistGradientBoostingClassifier", small)
    model = tmp_path / "m.skops"
    code, out, err = run("fit", train, *FIT, "--estimator", name, "-o", model)
    assert code == 0 and "--trust" not in out, err
    code, _, err = run("predict", model, train, "-o", tmp_path / "out.csv")
    assert code == 0, err


def test_types_that_must_be_trusted_are_named(run, refuse, train, tmp_path, monkeypatch):
    """Loading the file of a tree can crash the process, so that its type must be trusted."""
    pytest.importorskip("skops", reason="models are saved by skops")
    monkeypatch.setattr(classifiers, "RandomForestClassifier", partial(RandomForestClassifier, n_estimators=5))
    model, trust = tmp_path / "m.skops", ["--trust", "sklearn.tree._tree.Tree"]
    code, out, _ = run("fit", train, *FIT, "--estimator", "forest", "-o", model)
    assert code == 0 and out.rstrip().endswith(" ".join(trust))
    files = sorted(os.listdir(tmp_path))
    message = refuse("predict", model, train, "-o", tmp_path / "out.csv")
    assert "If you trust the source of the file, add --trust sklearn.tree._tree.Tree." in message
    assert sorted(os.listdir(tmp_path)) == files
    assert run("predict", model, train, "-o", tmp_path / "out.csv", *trust)[0] == 0


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("logistics", "unknown; use logistic, boosting"),
        ("sklearn.nothing.Model", "No module named 'sklearn.nothing'"),
        ("sklearn.linear_model.Logistic", "there is no such class in sklearn.linear_model"),
        ("sklearn.base.clone", "there is no such class"),
        ("sklearn.linear_model.LinearRegression", "must have fit and predict_proba"),
        ("sklearn.svm.SVC", "must have fit and predict_proba"),
        ("sklearn.ensemble.VotingClassifier", "cannot be made without arguments"),
        ("os.system('x')", "unknown"),
    ],
)
def test_estimators_that_are_refused(refuse, train, tmp_path, name, message):
    text = refuse("frontier", train, *FIT, "--estimator", name, "-o", tmp_path / "out.csv")
    assert f"--estimator {name}: " in text and message in text
