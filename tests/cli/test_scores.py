"""Check `--scores` of `fit` and `frontier`: one's own model, whose probabilities are columns of the table."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from optfair import OptFairPost, ScoreColumns, load_model
from optfair.cli.arguments import make_parser
from optfair.cli.training import read_training
from optfair.datasets import make_fair_classification

N = 1200
ASK = ["--label", "y", "--group", "sex", "--scores", "p_a,p_b,p_c", "--tolerance", "0.05"]


def scored_table():
    """Return people who were not fitted on, with the probabilities of a model of somebody else."""
    data = make_fair_classification(N + 400, random_state=0)
    X, y = np.asarray(data.X), np.array(["a", "b", "c"])[np.asarray(data.y)]
    own = LogisticRegression().fit(X[:400], y[:400])
    table = pd.DataFrame(X[400:, :2], columns=["x1", "x2"])
    table[["p_a", "p_b", "p_c"]] = own.predict_proba(X[400:])
    table["y"], table["sex"] = y[400:], np.asarray(data.sensitive_features)[400:]
    table["number"], table["year"] = [f"n{k}" for k in range(N)], 2020 + np.arange(N) % 3
    return table


@pytest.fixture
def scored(tmp_path):
    """Return a file with scores."""
    scored_table().to_csv(tmp_path / "scored.csv", index=False)
    return tmp_path / "scored.csv"


def test_own_probabilities_are_made_fair_as_they_are(run, scored, tmp_path):
    pytest.importorskip("skops", reason="models are saved by skops")
    output = tmp_path / "m.skops"
    code, out, _ = run("fit", scored, *ASK, "--drop", "number", "-o", output)
    assert code == 0 and "plain model" in out
    model, table = load_model(output), scored_table()
    X = table[model.feature_names_in_]
    assert sorted(X.columns) == ["p_a", "p_b", "p_c", "x1", "x2", "year"]
    np.testing.assert_allclose(model.joint_posterior(X).sum(axis=1), table[["p_a", "p_b", "p_c"]], atol=1e-12)
    assert model.certificate_.violation <= 0.05 and model.classes_.tolist() == ["a", "b", "c"]
    assert run("predict", output, scored, "-o", tmp_path / "new.csv")[0] == 0
    answers = pd.read_csv(tmp_path / "new.csv")["prediction"]
    np.testing.assert_array_equal(answers, model.predict(X))
    code, out, _ = run("report", output, scored, "--label", "y", "-o", tmp_path / "memo.md")
    assert code == 0 and "plain model" in (tmp_path / "memo.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("options", [[], ["--aware"], ["--estimator", "boosting"]], ids=str)
def test_scores_alone_do(run, scored, tmp_path, options):
    table = scored_table()[["p_a", "p_b", "p_c", "y", "sex", "number"]].assign(p_c=lambda t: 1 - t["p_a"] - t["p_b"])
    table.to_csv(scored, index=False)
    code, _, err = run("frontier", scored, *ASK, "--points", "3", "-o", tmp_path / "out.csv", *options)
    assert code == 0, err
    assert "'number' seems to be an identifier" in err or options == ["--aware"]
    path = pd.read_csv(tmp_path / "out.csv")
    assert (path["violation"] <= path["tolerance"] + 1e-9).all()


def test_the_same_in_python():
    table = scored_table()
    model = OptFairPost(ScoreColumns(["p_a", "p_b", "p_c"], ["a", "b", "c"]), tolerance=0.05, random_state=0)
    model = model.fit(table[["p_a", "p_b", "p_c", "x1"]], table["y"], sensitive_features=table["sex"])
    assert model.keeps_classes_ and model.certificate_.violation <= 0.05
    with pytest.raises(ValueError, match=r"^columns: there are 1 for 2 classes\.$"):
        ScoreColumns(["p"], [0, 1])
    with pytest.raises(ValueError, match=r"^classes=\[1, 0\]: must be sorted, with the columns in the same order\.$"):
        ScoreColumns(["p", "q"], [1, 0])


@pytest.mark.parametrize(
    "scores, change, message",
    [
        ("p_a,p_b", {}, "--scores: no column for class 'c' of 'y'"),
        (
            "p_a,p_b,y",
            {},
            "column 'y': is named twice; --label, --group, --weight, --cluster and --scores must differ.",
        ),
        ("p_a,p_b,p_z", {}, "--scores p_z: there is no such column"),
        ("p_a,p_b,p_c", {"p_c": 3.0}, "scored.csv: --scores: 1200 rows of its output are not probabilities (row 0"),
        ("p_a,p_b,p_c", {"p_c": None}, "--scores p_c is missing in 1200 of 1200 rows"),
        ("p_a,p_b,p_c", {"p_c": "high"}, "--scores p_c holds texts, such as 'high'; it must hold numbers."),
        ("p_a,b=p_b,p_c", {}, "--scores: give CLASS=COLUMN for every column or for none"),
    ],
)
def test_scores_that_are_refused(refuse, scored, tmp_path, scores, change, message):
    scored_table().assign(**change).to_csv(scored, index=False)
    ask = ["--label", "y", "--group", "sex", "--scores", scores, "-o", tmp_path / "out.csv"]
    assert message in refuse("frontier", scored, *ask)


def test_training_needs_its_own_model(refuse, scored, tmp_path):
    pytest.importorskip("skops", reason="models are saved by skops")
    message = "--scores: is for --method post only; a model that is trained here has its own."
    assert message in refuse("fit", scored, *ASK, "--method", "in", "-o", tmp_path / "m.skops")


# -- rows to test on -------------------------------------------------------------------------------------------
def test_whole_values_of_a_column_are_tested_on(scored):
    years = scored_table()["year"]

    def split(*options):
        words = ["frontier", str(scored), *ASK, *options, "-o", "out.csv"]
        tables = read_training(make_parser().parse_args(words))
        assert "year" not in tables.schema.columns
        tested = ", ".join(str(year) for year in sorted(set(years[tables.test.y.index])))
        assert tables.test_people == f"the held-out people, year: {tested}"
        return set(years[tables.train.y.index]), set(years[tables.test.y.index]), len(tables.test.y)

    assert split("--split-by", "year=2021") == ({2020, 2022}, {2021}, N // 3)
    train, test, n = split("--split-by", "year", "--test-size", "0.3")
    assert not train & test and train | test == {2020, 2021, 2022} and n == N // 3


@pytest.mark.parametrize(
    "options, message",
    [
        (["--split-by", "yaer"], "--split-by yaer: there is no such column"),
        (
            ["--split-by", "year"],
            "--split-by year: say how many by --test-size, or which value to test on after an equals sign.",
        ),
        (["--split-by", "year=1999"], "--split-by year= 1999: there is no such value; there are 2020, 2021, 2022."),
        (["--split-by", "year=2020", "--test-size", "0.3"], "--test-size 0.3: --split-by says already which rows"),
        (["--split-by", "year", "--test", "scored.csv"], "--split-by: says which rows of FILE are tested on, and so"),
        (["--split-by", "one=1"], "--split-by one=1: holds out all rows; nobody is left to fit on."),
        (["--split-by", "one", "--test-size", "0.3"], "--test-size 0.3: --split-by one has 1 values, of which none"),
        (["--split-by", "gap", "--test-size", "0.3"], "--split-by gap is missing in 1200 of 1200 rows"),
        (["--split-by", "year=2020", "--cluster", "pair"], " values of --cluster pair would be on both sides."),
    ],
)
def test_splits_that_are_refused(refuse, scored, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    table = scored_table().assign(one=1, gap=None, pair=np.arange(N) // 2)
    table.to_csv(scored, index=False)
    assert message in refuse("frontier", "scored.csv", *ASK, *options, "-o", "out.csv")


def test_clusters_count_where_a_rule_is_tested_too(run, scored, tmp_path):
    table = pd.concat([scored_table().assign(person=np.arange(N))] * 2)
    table.to_csv(scored, index=False)
    ask = ["frontier", scored, *ASK, "--drop", "number", "--points", "2", "--test", scored, "-o", tmp_path / "out.csv"]
    floors = []
    for options in (["--drop", "person"], ["--cluster", "person"]):
        assert run(*ask, *options)[0] == 0
        floors.append(pd.read_csv(tmp_path / "out.csv")["test_floor"].min())
    assert floors[1] > 1.2 * floors[0]


def test_the_page_of_a_frontier(run, scored, tmp_path):
    pytest.importorskip("jinja2", reason="pages are written by jinja2")
    options = ["--points", "3", "--split-by", "year=2020", "-o", tmp_path / "out.csv"]
    pages = ["--html", tmp_path / "f.html", "--json", tmp_path / "f.json"]
    code, out, err = run("frontier", scored, *ASK, *options, *pages)
    assert code == 0 and "f.html" in out and "f.json" in out, err
    document = pd.read_json(tmp_path / "f.json", typ="series")
    assert document["n_people"] == N // 3 and len(document["path"]["points"]) == 3
    assert "Other tolerances" in (tmp_path / "f.html").read_text(encoding="utf-8")
