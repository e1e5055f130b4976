"""``optfair fit``: from a table to a saved model."""

import os
import sys

import numpy as np
import pandas as pd
import pytest

from optfair import load_model
from tests.cli.helpers import FEATURES, FIT, N_TRAIN, make_train, read_codes

TRAIN = [*FIT, "--drop", "race"]


@pytest.fixture(autouse=True)
def skops():
    pytest.importorskip("skops", reason="models are saved by skops")


def test_fit_predict_audit(run, tmp_path):
    """The three commands in a row, as a user types them."""
    table = make_train().assign(remark="NA", number=[f"{k:04d}" for k in range(N_TRAIN)])
    train, model, output = (tmp_path / name for name in ("train.csv", "model.skops", "out.csv"))
    table.to_csv(train, index=False)
    code, out, err = run("fit", train, *FIT, "--drop", "race,remark,number", "--test-size", "0.3", "-o", model)
    assert (code, err) == (0, "")
    assert "Certificate" in out and "168 people" in out and "On the held-out people" in out and "72 people" in out
    assert f"Next: optfair predict {model}" in out and "model.skops.key: keep it secret" in out
    assert os.stat(tmp_path / "model.skops.key").st_mode & 0o777 == 0o600

    assert run("predict", model, train, "-o", output, "--probabilities")[::2] == (0, "")
    before, after = (pd.read_csv(path, dtype=str, na_filter=False) for path in (train, output))
    pd.testing.assert_frame_equal(after[before.columns], before)  # "0007" and "NA" too
    assert list(after.columns[len(before.columns) :]) == ["prediction", "p_hi", "p_lo", "p_mid"]

    code, out, _ = run("audit", output, "--label", "y", "--prediction", "prediction", "--group", "sex")
    assert code in (0, 1) and f"2 groups, 3 classes; {N_TRAIN} people given" in out


@pytest.mark.slow
def test_fit_and_predict_as_processes(process, train, tmp_path):
    model = tmp_path / "new.skops"
    result = process("-m", "optfair", "fit", train, *TRAIN, "-o", model, "--quiet")
    assert (result.returncode, result.stderr) == (0, "")
    result = process("-m", "optfair", "predict", model, train, "-o", "out.csv", "--quiet")
    assert (result.returncode, result.stderr) == (0, "")


def test_whole_numbers_as_classes(run, refuse, train, tmp_path):
    table = make_train()
    table["y"] = table["y"].map({"lo": 1, "mid": 2, "hi": 3})
    table.to_csv(train, index=False)
    output = tmp_path / "m.skops"
    fit = ["fit", train, *FIT, "--criterion", "eop", "--outcome", "3", "-o", output]
    assert run(*fit)[0] == 0
    model = load_model(output)
    assert model.outcomes == [3] and set(model.multipliers_["outcome"]) == {3}
    assert run("predict", output, train, "-o", tmp_path / "out.csv")[0] == 0
    assert pd.read_csv(tmp_path / "out.csv")["prediction"].isin([1, 2, 3]).all()
    code, _, err = run(*fit, "--outcome", "4")
    assert code == 2 and "--outcome 4: there is no such class; there are 1, 2, 3" in err


def test_whole_numbers_are_printed_as_such(run, train, tmp_path):
    table = make_train()
    numbers = {"y": table["y"].map({"hi": 2, "lo": 0, "mid": 1}), "sex": pd.factorize(table["sex"])[0]}
    table.assign(**numbers).to_csv(train, index=False)
    code, out, _ = run("fit", train, *FIT, "-o", tmp_path / "m.skops", "--test-size", "0.3")
    assert code == 0 and "np.int64" not in out


def test_a_seed_gives_the_same_rule_and_another_key(run, train, tmp_path):
    X = make_train()[FEATURES]
    for name, seed in (("first", 5), ("second", 5), ("other", 6)):
        assert run("fit", train, *TRAIN, "--test-size", "0.5", "--seed", seed, "-o", tmp_path / name)[0] == 0
    first, second, other = (load_model(tmp_path / name).predict_proba(X) for name in ("first", "second", "other"))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other)  # fitted to other rows
    assert (tmp_path / "first.key").read_bytes() != (tmp_path / "second.key").read_bytes()


@pytest.mark.parametrize("method", [[], ["--method", "in", "--rounds", "3"]])
def test_a_model_that_replaces_another_keeps_its_draws(run, refuse, train, tmp_path, method):
    old, new, key_file = (tmp_path / name for name in ("old.skops", "new.skops", "old.skops.key"))
    assert run("fit", train, *TRAIN, *method, "-o", old)[0] == 0
    assert run("fit", train, *TRAIN, *method, "-o", new, "--key-file", key_file)[0] == 0
    assert load_model(new)._key() == load_model(old)._key()
    X = make_train(seed=3)[FEATURES]
    assert load_model(new).predict(X).tolist() == load_model(old).predict(X).tolist()
    assert run("fit", train, *TRAIN, *method, "-o", old, "--key-file", key_file)[0] == 0  # in its place
    assert load_model(new)._key() == load_model(old)._key()
    assert "--key-file train.csv: not a key file, which has lines of " in refuse(
        "fit", train, *TRAIN, "-o", new, "--key-file", train
    )
    assert "no.key" in refuse("fit", train, *TRAIN, "-o", new, "--key-file", tmp_path / "no.key")


def test_a_key_that_would_be_lost_is_named(run, refuse, train, tmp_path):
    model = tmp_path / "m.skops"
    assert run("fit", train, *TRAIN, "-o", model)[0] == 0
    code, _, err = run("fit", train, *TRAIN, "-o", model)
    assert code == 0 and "m.skops.key: the key of the model that is there will be replaced" in err
    assert run("fit", train, *TRAIN, "-o", model, "--key-file", f"{model}.key")[2] == ""
    words = ["fit", train, *TRAIN, "-o", f"{model}.key", "--key-file", f"{model}.key"]
    assert "m.skops.key: is also an input file" in refuse(*words)


@pytest.mark.parametrize("method", [[], ["--method", "in", "--rounds", "3"]])
def test_how_people_at_the_border_are_decided(run, train, tmp_path, method):
    output = tmp_path / "m.skops"
    assert run("fit", train, *TRAIN, *method, "-o", output, "--decision", "argmax")[0] == 0
    model, X = load_model(output), make_train(seed=3)[FEATURES]
    assert model.predict(X).tolist() == model.classes_[model.predict_proba(X).argmax(axis=1)].tolist()
    assert run("fit", train, *TRAIN, *method, "-o", output, "--hashing", "hmac-sha256")[0] == 0
    assert load_model(output).hashing == "hmac-sha256" and load_model(output).decision == "hashed"


def test_in_processing(run, refuse, train, tmp_path):
    output = tmp_path / "m.skops"
    make_train(seed=1).to_csv(tmp_path / "test.csv", index=False)
    options = [*TRAIN, "--method", "in", "--rounds", "4", "--test", tmp_path / "test.csv"]
    code, out, _ = run("fit", train, *options, "-o", output)
    assert code == 0 and "4 rounds" in out and f"{N_TRAIN} people" in out and "--test-size" not in out
    assert f"On the people of {tmp_path / 'test.csv'}" in out
    assert run("predict", output, train, "-o", tmp_path / "out.csv", "--probabilities")[0] == 0
    h = pd.read_csv(tmp_path / "out.csv")[["p_hi", "p_lo", "p_mid"]].to_numpy()
    np.testing.assert_allclose(h, load_model(output).predict_proba(read_codes(train)[FEATURES]))


def test_options_of_in_processing_that_are_refused(run, refuse, train, tmp_path):
    fit = ["fit", train, *FIT, "-o", tmp_path / "m.skops"]
    code, _, err = run(*fit, "--method", "in", "--estimator", "sklearn.neighbors.KNeighborsClassifier")
    assert code == 2 and "KNeighborsClassifier takes no sample_weight" in err
    assert "--rounds 5: is for --method in only" in refuse(*fit, "--rounds", "5")
    assert "--rounds 0: must be at least 1" in refuse(*fit, "--rounds", "0", "--method", "in")
    assert "--held-out 2: must be a share from 0 to below 1" in refuse(*fit, "--held-out", "2", "--method", "in")


def test_several_groups_and_criteria(run, train, tmp_path):
    output = tmp_path / "m.skops"
    options = ["--label", "y", "--group", "sex,race", "--attributes", "both", "--reference", "pairwise"]
    options += ["--tolerance", "0.2", "--criterion", "dp", "--criterion", "overall_accuracy_equality"]
    assert run("fit", train, *options, "-o", output)[0] == 0
    model = load_model(output)
    assert list(model.groups_.names) == ["sex", "race"] and len(model.groups_) == 4
    n_gaps = model.multipliers_.groupby("criterion").size()
    assert set(n_gaps.index) == {"dp", "oae"}
    assert n_gaps["oae"] == 6 + 2  # pairs of cells, and of the values of each attribute
    assert run("predict", output, train, "-o", tmp_path / "out.csv")[0] == 0


@pytest.mark.parametrize("command", ["fit", "predict"])
def test_without_skops_nothing_is_begun(refuse, train, tmp_path, monkeypatch, command):
    monkeypatch.setitem(sys.modules, "skops", None)
    monkeypatch.setitem(sys.modules, "skops.io", None)
    (tmp_path / "m.skops").write_text("a model")
    options = [train, *FIT] if command == "fit" else [tmp_path / "m.skops", train]
    assert 'needs skops: pip install "optfair[save]"' in refuse(command, *options, "-o", tmp_path / "out.csv")
