"""What `fit` and `frontier` share: tables, options, weights, missing groups."""

import os

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from optfair import InfeasibleError, OptFairPost, load_model
from optfair.cli.arguments import make_parser
from optfair.cli.training import read_training
from tests.cli.helpers import FIT, N_TRAIN, make_train, make_words, read_codes

OPTIONS = {
    "no such label": (["--label", "z"], "--label z: there is no such column; the table has x1, x2"),
    "no such group": (["--group", "nobody"], "--group nobody: there is no such column"),
    "a typing error": (["--group", "rcae"], "Did you mean race?"),
    "no such column to drop": (["--drop", "z"], "--drop z: there is no such column"),
    "no such weight": (["--weight", "z"], "--weight z: there is no such column"),
    "no such cluster": (["--cluster", "z"], "--cluster z: there is no such column"),
    "label as cluster": (["--cluster", "y"], "column 'y': is named twice; --label, --group, --weight, --cluster and"),
    "holes in cluster": (["--cluster", "x2"], "--cluster x2 is missing in"),
    "few clusters": (["--cluster", "race"], "--cluster race: has 2 values in the rows to fit on; at least 5"),
    "no cluster to test on": (
        ["--cluster", "race", "--test-size", "0.01"],
        "--test-size 0.01: --cluster race has 2 values, of which none can be held out in that share",
    ),
    "label as group": (["--group", "y"], "column 'y': is named twice"),
    "label is a number": (["--label", "x1"], "--label x1 looks like a number to predict, not a class"),
    "text as weight": (["--weight", "race"], "--weight race holds texts"),
    "truth value as weight": (["--weight", "flag"], "--weight flag holds truth values"),
    "negative weight": (["--weight", "x1"], "weights must be finite, at least 0"),
    "holes in weight": (["--weight", "x2"], "--weight x2 is missing in"),
    "nothing left": (["--drop", "x1,x2,flag,code,race"], "no column is left to predict from"),
    "criterion": (["--criterion", "ppv"], "criterion='ppv': predictive values"),
    "unknown criterion": (["--criterion", "fair"], "--criterion fair: unknown; use one of dp, eop"),
    "tolerance": (["--tolerance", "-1"], "--tolerance -1: must be a number in [0, 1]"),
    "tolerance in per cent": (["--tolerance", "5"], "--tolerance 5: must be a number in [0, 1]; did you mean 0.05?\n"),
    "test size": (["--test-size", "1"], "--test-size 1: must be a share between 0 and 1"),
    "seed": (["--seed", "-1"], "--seed -1: must be a whole number"),
    "test file": (["--test", "absent.csv"], "absent.csv: there is no such file"),
    "output folder": (["-o", "absent/out.csv"], "the folder absent does not exist; create it first"),
    "output is a folder": (["-o", "."], "optfair frontier: .: the name of a table must end in .csv"),
    "output ending": (["-o", "out.xlsx"], "out.xlsx: the name of a table must end in .csv"),
    "output is the input": (["-o", "train.csv"], "train.csv: is also an input file"),
    "oae has no outcomes": (["--criterion", "oae", "--outcome", "lo"], "overall accuracy equality speaks of all"),
}


@pytest.mark.parametrize("case", OPTIONS)
def test_invalid_options(refuse, train, tmp_path, monkeypatch, case):
    options, message = OPTIONS[case]
    monkeypatch.chdir(tmp_path)
    content = train.read_bytes()
    output = [] if options[0] == "-o" else ["-o", "out.csv"]
    fit = FIT if options[0] != "--group" else [word for word in FIT if word not in ("--group", "sex")]
    assert message in refuse("frontier", "train.csv", *fit, *options, *output)
    assert os.listdir(tmp_path) == ["train.csv"] and train.read_bytes() == content


TABLES = {
    "one class": ("1,f,a\n2,m,a\n" * 20, "has 1 class; at least two are needed"),
    "one group": ("1,f,a\n2,f,b\n" * 20, "--group sex has only f in the rows to fit on"),
    "missing labels": ("1,f,a\n2,m,b\n3,m,\n" * 20, "--label y is missing in 20 of 60 rows"),
    "each its class": (
        "".join(f"{k * k},f,c{k}\n" for k in range(50)),
        "looks like a number to predict, not a class (50 different values in 50 rows)",
    ),
}


@pytest.mark.parametrize("case", TABLES)
def test_tables_that_cannot_be_fitted(refuse, tmp_path, case):
    rows, message = TABLES[case]
    (tmp_path / "t.csv").write_text(f"x1,sex,y\n{rows}")
    assert message in refuse("frontier", tmp_path / "t.csv", *FIT, "-o", tmp_path / "out.csv")
    assert os.listdir(tmp_path) == ["t.csv"]


def test_classes_groups_and_values_of_the_test_must_be_known(refuse, train, tmp_path):
    frontier = ["frontier", train, *FIT, "--test", tmp_path / "test.csv", "-o", tmp_path / "out.csv"]
    table = make_train(40)
    for change, message in (
        ({"y": ["other"] + ["lo"] * 39}, "--label y: other occurs in the rows to test on but not"),
        ({"x1": ["12a"] + [1] * 39}, "column 'x1': '12a' (row 1) is not a number"),
    ):
        table.assign(**change).to_csv(tmp_path / "test.csv", index=False)
        assert message in refuse(*frontier)
    table.drop(columns="x2").to_csv(tmp_path / "test.csv", index=False)
    assert "test.csv: has no column x2; it has x1, flag" in refuse(*frontier)


def test_people_of_a_group_nobody_was_fitted_on_are_left_out_of_the_test(run, train, tmp_path):
    table = make_train(40)
    table.assign(sex=["d"] + ["f", "m"] * 19 + ["f"]).to_csv(tmp_path / "test.csv", index=False)
    options = ["--test", tmp_path / "test.csv", "--points", "2", "-o", tmp_path / "out.csv"]
    code, _, err = run("frontier", train, *FIT, *options)
    assert code == 0 and "note: sensitive_features: 1 of 40 rows are left out" in err


def test_labels_between_whole_numbers_are_not_rounded(refuse, tmp_path):
    pytest.importorskip("skops", reason="models are saved by skops")
    table = make_words().assign(y=lambda t: (t["y"] == "yes") * 1)
    table.to_csv(tmp_path / "train.csv", index=False)
    table.assign(y=table["y"] + 0.4).to_csv(tmp_path / "test.csv", index=False)
    options = ["--label", "y", "--group", "g", "--test", tmp_path / "test.csv", "-o", tmp_path / "m.skops"]
    assert "0.4" in refuse("fit", tmp_path / "train.csv", *options)
    assert not (tmp_path / "m.skops").exists()


def test_many_numeric_classes_are_noted(run, tmp_path):
    rng = np.random.default_rng(0)
    table = {"x": rng.normal(size=310), "g": rng.choice(["a", "b"], 310), "y": np.arange(310) % 31}
    pd.DataFrame(table).to_csv(tmp_path / "t.csv", index=False)
    options = ["--label", "y", "--group", "g", "--outcome", "none", "-o", tmp_path / "out.csv"]
    code, _, err = run("frontier", tmp_path / "t.csv", *options)  # it ends at --outcome, before the fit
    assert code == 2 and "note: --label y: 31 different numbers make 31 classes" in err


def test_whole_weights_are_numbers_of_people_and_others_are_relative(run, train, tmp_path):
    table, counts = make_train(), 1 + (np.arange(N_TRAIN) % 2)
    accuracies = {}
    for name, weights in {"whole": counts, "half": counts * 0.5, "tenth": counts * 0.1}.items():
        table.assign(w=weights).to_csv(train, index=False)
        frontier = ["frontier", train, *FIT, "--points", "2", "--weight", "w", "-o", tmp_path / "out.csv"]
        code, _, err = run(*frontier)
        assert code == 0 and ("taken as numbers of people (360 in all)" in err) == (name == "whole")
        accuracies[name] = pd.read_csv(tmp_path / "out.csv")["accuracy"].to_numpy()
    np.testing.assert_allclose(accuracies["half"], accuracies["tenth"], atol=1e-6)


def test_weights_are_those_of_the_python_interface(run, train, tmp_path):
    pytest.importorskip("skops", reason="models are saved by skops")
    counts = 1 + (np.arange(N_TRAIN) % 2)
    make_train().assign(w=counts).to_csv(train, index=False)
    assert run("fit", train, *FIT, "--weight", "w", "-o", tmp_path / "m.skops")[0] == 0
    model, table = load_model(tmp_path / "m.skops"), read_codes(train)
    X = table[list(model.feature_names_in_)]
    weighted, unweighted = (
        clone(model).fit(X, table["y"], sensitive_features=table["sex"], sample_weight=weight)
        for weight in (counts, None)
    )
    np.testing.assert_allclose(model.predict_proba(X), weighted.predict_proba(X), atol=1e-9)
    assert np.abs(model.predict_proba(X) - unweighted.predict_proba(X)).max() > 1e-3  # the weights matter


def test_clusters_are_those_of_the_python_interface_and_no_feature(run, train, tmp_path):
    """Check ids that are the same number, but not the same text."""
    pytest.importorskip("skops", reason="models are saved by skops")
    people = [f"{row // 4:0{1 + row % 2}d}" for row in range(N_TRAIN)]  # such as "7" and "07"
    make_train().assign(person=people).to_csv(train, index=False)
    assert run("fit", train, *FIT, "--cluster", "person", "-o", tmp_path / "m.skops")[0] == 0
    model, table = load_model(tmp_path / "m.skops"), read_codes(train)
    assert "person" not in model.feature_names_in_
    X = table[list(model.feature_names_in_)]
    again = clone(model).fit(X, table["y"], sensitive_features=table["sex"], cluster=people)
    np.testing.assert_allclose(model.predict_proba(X), again.predict_proba(X), atol=1e-9)


def test_people_to_test_on_have_all_of_their_rows(train):
    make_train().assign(person=np.arange(N_TRAIN) // 3).to_csv(train, index=False)
    words = ["frontier", str(train), *FIT, "--cluster", "person", "--test-size", "0.3", "-o", "out.csv"]
    tables = read_training(make_parser().parse_args(words))
    fitted, tested = set(tables.train.cluster), set(tables.test.cluster)
    assert not fitted & tested and len(fitted | tested) == N_TRAIN // 3
    assert abs(len(tables.test.y) - 0.3 * N_TRAIN) <= 2
    other = read_training(make_parser().parse_args([*words, "--seed", "1"]))
    assert set(other.test.cluster) != tested


def test_a_tolerance_of_1_is_questioned(run, train, tmp_path):
    code, _, err = run("frontier", train, *FIT, "--tolerance", "1", "--outcome", "none", "-o", tmp_path / "out.csv")
    assert code == 2 and "note: --tolerance 1: constrains nothing, because no two rates differ by more" in err


def test_missing_groups(run, refuse, train, tmp_path):
    table = make_train()
    table.loc[:29, "sex"] = None
    table.to_csv(train, index=False)
    frontier = ["frontier", train, *FIT, "--points", "2", "-o", tmp_path / "out.csv"]
    message = refuse(*frontier)
    assert f"--group sex is missing in 30 of {N_TRAIN} rows" in message
    assert "or make them a group by --missing group, or infer them by --missing infer." in message
    assert run(*frontier, "--missing", "group")[0] == 0


def with_unknown(path, n=80):
    """Write the training table without the sex of some people."""
    table = make_train()
    table.loc[: n - 1, "sex"] = None
    table.to_csv(path, index=False)


def test_groups_that_are_inferred(run, train, tmp_path):
    with_unknown(train)
    with_unknown(tmp_path / "test.csv", n=60)
    frontier = ["frontier", train, *FIT, "--points", "2", "--missing", "infer", "-o", tmp_path / "out.csv"]
    code, out, err = run(*frontier, "--test", tmp_path / "test.csv")
    assert code == 0 and f"The group of 80 of {N_TRAIN} people fitted on is unknown and was inferred." in out
    assert f"60 of {N_TRAIN} rows have a missing value and are left out of what is measured" in err


def test_a_model_with_groups_that_are_inferred(run, train, tmp_path):
    pytest.importorskip("skops", reason="models are saved by skops")
    with_unknown(train)
    output = tmp_path / "m.skops"
    code, out, err = run("fit", train, *FIT, "--drop", "race", "--missing", "infer", "-o", output)
    assert code == 0 and err == ""
    text = " ".join(out.split())
    assert "Groups: unknown for 80 people (33.3 %); what is measured with labels is of the 160 others." in text
    model = load_model(output)
    assert model.missing == "infer" and model.n_unknown_ == 80 and model.groups_.tolist() == ["f", "m"]
    assert run("predict", output, train, "-o", tmp_path / "new.csv")[0] == 0
    assert len(pd.read_csv(tmp_path / "new.csv")) == N_TRAIN


def test_what_cannot_be_had_with_groups_that_are_inferred(refuse, train, tmp_path):
    pytest.importorskip("skops", reason="models are saved by skops")
    with_unknown(train)
    fit = ["fit", train, *FIT, "--missing", "infer", "-o", tmp_path / "m.skops"]
    message = "--missing infer: is for models that do not use the group; leave --aware out."
    assert message in refuse(*fit, "--aware")
    assert "--missing infer: is for --method post only." in refuse(*fit, "--method", "in")
    assert (
        f"--confidence 0.9: nothing is promised where groups are inferred, and those of 80 of {N_TRAIN} people to fit "
        "on are missing; leave it out."
    ) in refuse(*fit, "--confidence", "0.9")
    with_unknown(train, n=N_TRAIN)
    message = "--group sex: is missing in all rows to fit on; give the groups of at least some people."
    assert message in refuse(*fit)


def test_infeasible_constraints_exit_with_1(run, train, tmp_path, monkeypatch):
    """Named criteria are always feasible, because a constant rule is fair: the error is simulated."""

    def fail(self, X, y, **options):
        raise InfeasibleError(["this", "that"], 0.1, 0.1)

    monkeypatch.setattr(OptFairPost, "fit", fail)
    code, _, err = run("frontier", train, *FIT, "-o", tmp_path / "out.csv")
    assert code == 1 and "no rule satisfies all constraints" in err and os.listdir(tmp_path) == ["train.csv"]


def test_more_columns_than_people_are_noted(run, tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.standard_normal((40, 2_100)).round(3)).add_prefix("c")
    table.assign(y=np.arange(40) % 2, sex=np.arange(40) // 2 % 2).to_csv(tmp_path / "wide.csv", index=False)
    words = ["--label", "y", "--group", "sex", "--points", "3", "-o", tmp_path / "out.csv"]
    code, _, err = run("frontier", tmp_path / "wide.csv", *words)
    assert code == 0
    assert "note: there are more columns (2,100) than people to fit on (40): a model can learn them by heart." in err
    narrow = [*words, "--drop", ",".join(f"c{k}" for k in range(30, 2_100))]
    code, _, err = run("frontier", tmp_path / "wide.csv", *narrow)
    assert code == 0 and "more columns" not in err


def test_a_group_that_is_held_out_altogether(refuse, run, tmp_path):
    pytest.importorskip("skops", reason="fit asks for it first")
    table = make_train()
    table.loc[:20, "sex"] = "x"
    table.to_csv(tmp_path / "train.csv", index=False)
    words = ["fit", tmp_path / "train.csv", *FIT, "--no-path", "-o", tmp_path / "model.skops"]
    message = refuse(*words, "--split-by", "sex=x")
    assert "--group sex: no value of the rows to test on (x) occurs in those to fit on; hold out other" in message
    assert not (tmp_path / "model.skops").exists()
