"""``optfair fit``, ``predict`` and ``frontier``: from a table to answers, and what is said when something is wrong."""

import gzip
import json
import os
import subprocess
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from threadpoolctl import threadpool_limits

from optfair import InfeasibleError, OptFairPost, load_model
from optfair.cli.main import main

N = 240
ASKED = ["--label", "y", "--group", "sex", "--tolerance", "0.1"]


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """The models are tiny: threads of BLAS would only wait for each other."""
    with threadpool_limits(1):
        yield


def people(n=N, seed=0):
    """Numbers with holes, texts that partly look like numbers and may be missing, truth values, two attributes."""
    rng = np.random.default_rng(seed)
    sex, x = rng.integers(0, 2, n), rng.standard_normal((n, 2))
    x[:, 0] += sex
    return pd.DataFrame(
        {
            "x1": x[:, 0].round(6),
            "x2": np.where(rng.random(n) < 0.1, np.nan, x[:, 1].round(6)),
            "flag": rng.random(n) < 0.5,
            "code": rng.choice(np.array(["007", "01A", "x y", None], dtype=object), n),
            "sex": np.array(["f", "m"])[sex],
            "race": rng.choice(["p", "q"], n),
            "y": np.array(["hi", "lo", "mid"])[np.digitize(x[:, 0] + 0.5 * rng.standard_normal(n), [0, 1])],
        }
    )


@pytest.fixture
def call(capsys):
    """(exit code, stdout, stderr) of a command, run here."""

    def run(*argv):
        code = main([str(word) for word in argv])
        return (code, *capsys.readouterr())

    return run


@pytest.fixture
def train(tmp_path):
    people().to_csv(tmp_path / "train.csv", index=False)
    return tmp_path / "train.csv"


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """The files of a model fitted to the race-free table, by name."""
    pytest.importorskip("skops")
    folder = tmp_path_factory.mktemp("fitted")
    people().to_csv(folder / "train.csv", index=False)
    assert main(["fit", str(folder / "train.csv"), *ASKED, "--drop", "race", "-o", str(folder / "model.skops")]) == 0
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def model(fitted, tmp_path):
    for name, content in fitted.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path / "model.skops"


def process(*argv):
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-m", "optfair", *map(str, argv)], capture_output=True, text=True, env=environment, timeout=120
    )


def by_hand(**options):
    """What `optfair fit` is said to fit, written down independently."""
    encoder = ColumnTransformer(
        [
            ("n", SimpleImputer(strategy="median", add_indicator=True), ["x1", "x2", "flag"]),
            ("t", OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=10), ["code"]),
        ]
    )
    classifier = make_pipeline(encoder, StandardScaler(), LogisticRegression(max_iter=5000))
    return OptFairPost(classifier, tolerance=0.1, random_state=0, **options)


def read(path):
    """As a user would: codes are texts."""
    return pd.read_csv(path, dtype={"code": str})


X_COLUMNS = ["x1", "x2", "flag", "code"]


# -- there and back ------------------------------------------------------------------------------------------
def test_fit_predict_audit(tmp_path):
    """Three processes in a row, as a user types them."""
    pytest.importorskip("skops")
    table = people().assign(remark="NA", number=[f"{k:04d}" for k in range(N)])
    table.to_csv(tmp_path / "train.csv", index=False)
    files = tmp_path / "train.csv", tmp_path / "model.skops", tmp_path / "out.csv"
    done = process("fit", files[0], *ASKED, "--drop", "race,remark,number", "--test-size", "0.3", "-o", files[1])
    assert done.returncode == 0, done.stderr
    assert "Certificate" in done.stdout and "72 people given" in done.stdout and "168 people fitted on" in done.stdout
    assert f"Next: optfair predict {files[1]}" in done.stdout and "model.skops.key: keep it secret" in done.stdout
    assert done.stderr == "... fitting (logistic, 168 people, 4 features)\n"
    assert os.stat(tmp_path / "model.skops.key").st_mode & 0o777 == 0o600

    done = process("predict", files[1], files[0], "-o", files[2], "--probabilities")
    assert done.returncode == 0 and done.stderr == "", done.stderr
    before = pd.read_csv(files[0], dtype=str, na_filter=False)
    after = pd.read_csv(files[2], dtype=str, na_filter=False)
    pd.testing.assert_frame_equal(after[before.columns], before)  # "0007" and "NA" too
    assert list(after.columns[len(before.columns) :]) == ["prediction", "p_hi", "p_lo", "p_mid"]

    done = process("audit", files[2], "--label", "y", "--prediction", "prediction", "--group", "sex")
    assert done.returncode in (0, 1) and f"{N} people, 3 classes, 2 groups" in done.stdout, done.stderr


def test_the_answers_are_those_of_python(call, model, train, tmp_path):
    people(seed=1).to_csv(tmp_path / "new.csv", index=False)
    out = tmp_path / "out.csv"
    assert call("predict", model, tmp_path / "new.csv", "-o", out, "--probabilities", "--only")[0] == 0
    answers, old, new = pd.read_csv(out), read(train), read(tmp_path / "new.csv")
    assert list(answers.columns) == ["prediction", "p_hi", "p_lo", "p_mid"]
    python = by_hand().fit(old[X_COLUMNS], old["y"], sensitive_features=old["sex"])
    h = answers[["p_hi", "p_lo", "p_mid"]].to_numpy()
    np.testing.assert_allclose(h, python.predict_proba(new[X_COLUMNS]), atol=1e-6)
    np.testing.assert_array_equal(answers["prediction"], load_model(model).predict(new[X_COLUMNS]))


@pytest.mark.parametrize("ending", [".csv.gz", ".tsv", ".parquet"])
def test_every_kind_of_table(call, model, train, tmp_path, ending):
    if ending == ".parquet":
        pytest.importorskip("pyarrow")
    table = read(train)
    source = tmp_path / f"new{ending}"
    if ending == ".parquet":
        table.astype({"code": "category", "x2": "Float64", "flag": "boolean"}).to_parquet(source)
    else:
        table.to_csv(source, index=False, sep="\t" if ending == ".tsv" else ",")
    assert call("predict", model, train, "-o", tmp_path / "one.csv")[0] == 0
    assert call("predict", model, source, "-o", tmp_path / f"two{ending}")[0] == 0
    one = read(tmp_path / "one.csv")
    if ending == ".parquet":
        two = pd.read_parquet(tmp_path / "two.parquet")
        assert two["code"].dtype == "category"
    else:
        two = pd.read_csv(tmp_path / f"two{ending}", sep="\t" if ending == ".tsv" else ",")
        if ending == ".csv.gz":
            gzip.decompress((tmp_path / f"two{ending}").read_bytes())
    assert one["prediction"].tolist() == two["prediction"].tolist()
    # Fitted to any kind of table, it is the same model.
    assert call("fit", source, *ASKED, "--drop", "race", "-o", tmp_path / "other.skops")[0] == 0
    X = table[X_COLUMNS]
    np.testing.assert_allclose(
        load_model(tmp_path / "other.skops").predict_proba(X), load_model(model).predict_proba(X)
    )


def test_texts_stay_texts(call, model, train, tmp_path):
    """A file in which all codes look like numbers, or are missing, is read as the training file was."""
    table = people()
    call("predict", model, train, "-o", tmp_path / "all.csv")
    everybody = pd.read_csv(tmp_path / "all.csv")["prediction"]
    for name, rows in {"numbers": table["code"] == "007", "missing": table["code"].isna()}.items():
        table[rows].to_csv(tmp_path / f"{name}.csv", index=False)
        assert call("predict", model, tmp_path / f"{name}.csv", "-o", tmp_path / "some.csv")[::2] == (0, "")
        some = pd.read_csv(tmp_path / "some.csv", dtype=str)
        assert some["prediction"].tolist() == everybody[rows].tolist()
        assert some["code"].dropna().isin(["007"]).all()


def test_new_texts_and_holes_are_answered(call, model, tmp_path):
    table = people(seed=1).assign(x1=np.nan, extra=1)
    table.loc[3:5, "code"] = "new"
    table.to_csv(tmp_path / "new.csv", index=False)
    code, _, err = call("predict", model, tmp_path / "new.csv", "-o", tmp_path / "out.csv")
    assert code == 0
    assert err == (
        f"note: column 'code': 3 of {N} rows hold texts that the model has not seen, such as 'new' (row 4); "
        "answered as rare ones are.\n"
    )
    assert set(pd.read_csv(tmp_path / "out.csv")["prediction"]) <= {"hi", "lo", "mid"}


def test_whole_numbers_as_classes(call, train, tmp_path):
    pytest.importorskip("skops")
    table = people()
    table["y"] = table["y"].map({"lo": 1, "mid": 2, "hi": 3})
    table.to_csv(train, index=False)
    output = tmp_path / "m.skops"
    asked = ["fit", train, *ASKED, "--criterion", "eop", "--outcome", "3", "-o", output]
    assert call(*asked)[0] == 0
    found = load_model(output)
    assert found.outcomes == [3] and set(found.multipliers_["outcome"]) == {3}
    assert call("predict", output, train, "-o", tmp_path / "out.csv")[0] == 0
    assert pd.read_csv(tmp_path / "out.csv")["prediction"].isin([1, 2, 3]).all()
    code, _, err = call(*asked, "--outcome", "4")
    assert code == 2 and "--outcome 4: there is no such class; there are 1, 2, 3" in err


def test_a_seed_gives_the_same_rule_and_another_key(call, train, tmp_path):
    pytest.importorskip("skops")
    X = people()[X_COLUMNS]
    for name, seed in (("one", 5), ("two", 5), ("three", 6)):
        asked = [*ASKED, "--drop", "race", "--test-size", "0.5", "--seed", seed]
        assert call("fit", train, *asked, "-o", tmp_path / name)[0] == 0
    one, two, three = (load_model(tmp_path / name).predict_proba(X) for name in ("one", "two", "three"))
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, three)  # other people
    assert (tmp_path / "one.key").read_bytes() != (tmp_path / "two.key").read_bytes()


def test_keys_say_who_a_person_is(call, model, train, tmp_path):
    table = read(train).assign(id=np.arange(N) // 2, place="here")
    table.to_csv(tmp_path / "new.csv", index=False)
    for keys, expected in (
        (["--key", "id"], [str(k // 2) for k in range(N)]),
        (["--key", "place,id"], [("here", str(k // 2)) for k in range(N)]),
    ):
        assert call("predict", model, tmp_path / "new.csv", *keys, "-o", tmp_path / "out.csv")[0] == 0
        answers = load_model(model).predict(table[X_COLUMNS], keys=expected)
        assert pd.read_csv(tmp_path / "out.csv")["prediction"].tolist() == answers.tolist()
    table.assign(id=table["id"].where(table["id"] > 3)).to_csv(tmp_path / "new.csv", index=False)
    code, _, err = call("predict", model, tmp_path / "new.csv", "--key", "id", "-o", tmp_path / "out.csv")
    assert code == 2 and f"--key id: is missing in 8 of {N} rows" in err


# -- what can be asked for -----------------------------------------------------------------------------------
@pytest.mark.parametrize("method", [["post"], ["in", "--rounds", "3"]])
def test_aware_models_find_their_groups(call, train, tmp_path, method):
    pytest.importorskip("skops")
    output, answers = tmp_path / "m.skops", tmp_path / "out.csv"
    code, out, _ = call("fit", train, *ASKED, "--drop", "race", "--aware", "--method", *method, "-o", output)
    assert code == 0 and "-o answers.csv --group sex" in out
    table = read(train)
    expected = load_model(output).predict(table[X_COLUMNS], sensitive_features=table["sex"]).tolist()
    assert call("predict", output, train, "-o", answers)[0] == 0  # by the name it was fitted with
    assert pd.read_csv(answers)["prediction"].tolist() == expected
    table.rename(columns={"sex": "gender"}).to_csv(tmp_path / "new.csv", index=False)
    assert call("predict", output, tmp_path / "new.csv", "--group", "gender", "-o", answers)[0] == 0
    assert pd.read_csv(answers)["prediction"].tolist() == expected
    code, _, err = call("predict", output, tmp_path / "new.csv", "-o", answers)
    assert code == 2 and "the model is aware of groups (sex), and there are no such columns; say which by" in err
    code, _, err = call("predict", output, train, "--group", "sex,race", "-o", answers)
    assert code == 2 and "--group sex,race: the model was fitted with 1 (sex)" in err


def test_a_blind_model_takes_no_group(call, model, train, tmp_path):
    code, _, err = call("predict", model, train, "--group", "sex", "-o", tmp_path / "out.csv")
    assert code == 2 and "--group sex: the model is blind: it does not look at groups" in err


def test_in_processing(call, train, tmp_path):
    pytest.importorskip("skops")
    output = tmp_path / "m.skops"
    people(seed=1).to_csv(tmp_path / "test.csv", index=False)
    asked = [*ASKED, "--drop", "race", "--method", "in", "--rounds", "4", "--test", tmp_path / "test.csv"]
    code, out, _ = call("fit", train, *asked, "-o", output)
    assert code == 0 and "4 rounds" in out and f"{N} people given" in out and "--test-size" not in out
    assert call("predict", output, train, "-o", tmp_path / "out.csv", "--probabilities")[0] == 0
    shares = pd.read_csv(tmp_path / "out.csv")[["p_hi", "p_lo", "p_mid"]].to_numpy()
    np.testing.assert_allclose(shares, load_model(output).predict_proba(read(train)[X_COLUMNS]))
    neighbours = ["--estimator", "sklearn.neighbors.KNeighborsClassifier"]
    code, _, err = call("fit", train, *ASKED, "--method", "in", *neighbours, "-o", output)
    assert code == 2 and "KNeighborsClassifier takes no sample_weight" in err
    for wrong in (["--rounds", "5"], ["--rounds", "0", "--method", "in"]):
        code, _, err = call("fit", train, *ASKED, *wrong, "-o", output)
        assert code == 2 and ("--rounds 5: is for --method in" in err or "--rounds 0: must be at least 1" in err)


def test_several_groups_and_criteria(call, train, tmp_path):
    pytest.importorskip("skops")
    output = tmp_path / "m.skops"
    asked = ["--label", "y", "--group", "sex,race", "--attributes", "both", "--reference", "pairwise"]
    asked += ["--tolerance", "0.2", "--criterion", "dp", "--criterion", "overall_accuracy_equality"]
    assert call("fit", train, *asked, "-o", output)[0] == 0
    found = load_model(output)
    assert list(found.groups_.names) == ["sex", "race"] and len(found.groups_) == 4
    assert set(found.multipliers_["criterion"]) == {"dp", "oae"}
    by_gap = found.multipliers_.groupby("criterion").size()
    assert by_gap["oae"] == 6 + 2  # pairs of cells, and of the values of each attribute
    assert call("predict", output, train, "-o", tmp_path / "out.csv")[0] == 0


@pytest.mark.parametrize("name", ["boosting", "mlp", "sklearn.naive_bayes.GaussianNB"])
def test_estimators_load_without_trust(call, train, tmp_path, name):
    pytest.importorskip("skops")
    if name == "mlp":
        pytest.importorskip("torch")
    output = tmp_path / "m.skops"
    code, out, err = call("fit", train, *ASKED, "--estimator", name, "-o", output)
    assert code == 0 and "--trust" not in out, err
    code, _, err = call("predict", output, train, "-o", tmp_path / "out.csv")
    assert code == 0, err


def test_types_that_must_be_trusted_are_named(call, train, tmp_path):
    """The file of a tree could crash what reads it."""
    pytest.importorskip("skops")
    output = tmp_path / "m.skops"
    code, out, _ = call("fit", train, *ASKED, "--estimator", "forest", "-o", output)
    assert code == 0 and out.rstrip().endswith("--trust sklearn.tree._tree.Tree")
    files = sorted(os.listdir(tmp_path))
    code, _, err = call("predict", output, train, "-o", tmp_path / "out.csv")
    assert code == 2 and "If you know where the file comes from, say --trust sklearn.tree._tree.Tree." in err
    assert sorted(os.listdir(tmp_path)) == files
    trust = ["--trust", "sklearn.tree._tree.Tree"]
    assert call("predict", output, train, "-o", tmp_path / "out.csv", *trust)[0] == 0


@pytest.mark.parametrize(
    "name, message",
    [
        ("logistics", "is not known; use logistic, boosting"),
        ("sklearn.nothing.Model", "No module named 'sklearn.nothing'"),
        ("sklearn.linear_model.Logistic", "there is no such class in sklearn.linear_model"),
        ("sklearn.base.clone", "there is no such class"),
        ("sklearn.linear_model.LinearRegression", "must have fit and predict_proba"),
        ("sklearn.svm.SVC", "must have fit and predict_proba"),
        ("sklearn.ensemble.VotingClassifier", "cannot be made without arguments"),
        ("os.system('x')", "is not known"),
    ],
)
def test_estimators_that_cannot_be(call, train, tmp_path, name, message):
    code, _, err = call("frontier", train, *ASKED, "--estimator", name, "-o", tmp_path / "out.csv")
    assert code == 2 and f"--estimator {name}: " in err and message in err and err.count("\n") == 1


def test_columns_that_tell_nothing_are_left_out(call, train, tmp_path):
    table = people().assign(
        name=[f"person {k}" for k in range(N)], same="x", nobody=np.nan, row=np.arange(N) + 7, rare=np.arange(N) // 8
    )
    table["rare"] = "r" + table["rare"].astype(str)
    table.to_csv(train, index=False)
    code, _, err = call("frontier", train, *ASKED, "--points", "2", "-o", tmp_path / "out.csv")
    assert code == 0
    assert f"note: column 'name' is an identifier, it seems ({N} different texts in {N} rows): left out" in err
    assert "column 'same' is 'x' in every row" in err and "column 'nobody' is empty" in err
    assert f"column 'row' counts the rows (7 to {N + 6})" in err and "'rare' has no text that 10 people share" in err
    assert f"fitting (logistic, {N} people, 5 features)" in err
    drop = ["--drop", "name,same", "--drop", "nobody,row,rare"]
    code, _, err = call("frontier", train, *ASKED, *drop, "--points", "2", "-o", tmp_path / "out.csv")
    assert code == 0 and "note" not in err


def test_codes_are_categories_if_one_says_so(call, train, tmp_path):
    pytest.importorskip("skops")
    table = people()[["x1", "sex", "y"]].assign(zip=np.arange(N) % 3)
    table["zip"] = "0" + table["zip"].astype(str)
    table.to_csv(train, index=False)
    output = tmp_path / "m.skops"
    assert call("fit", train, *ASKED, "--category", "zip", "-o", output)[0] == 0
    encoder = load_model(output).posterior_model_.model.named_steps["encoder"]
    assert encoder.named_transformers_["texts"].categories_[0].tolist() == ["00", "01", "02"]
    assert call("predict", output, train, "-o", tmp_path / "out.csv")[::2] == (0, "")


def test_weights(call, train, tmp_path):
    """Whole weights count people; weights of a sample are relative."""
    table = people()
    counts = 1 + (np.arange(N) % 2)
    runs = {"counted": table.assign(w=counts)}
    runs |= {"half": table.assign(w=counts * 0.5), "tenth": table.assign(w=counts * 0.1)}
    found = {}
    for name, rows in runs.items():
        rows.to_csv(train, index=False)
        weight = ["--weight", "w"] if "w" in rows else []
        code, _, err = call("frontier", train, *ASKED, "--points", "2", *weight, "-o", tmp_path / "out.csv")
        assert code == 0 and ("taken as numbers of people (360 in all)" in err) == (name == "counted")
        found[name] = pd.read_csv(tmp_path / "out.csv")["accuracy"].to_numpy()
    np.testing.assert_allclose(found["half"], found["tenth"], atol=1e-6)


def test_weights_are_those_of_the_python_interface(call, train, tmp_path):
    pytest.importorskip("skops")
    counts = 1 + (np.arange(N) % 2)
    people().assign(w=counts).to_csv(train, index=False)
    assert call("fit", train, *ASKED, "--weight", "w", "-o", tmp_path / "m.skops")[0] == 0
    told, table = load_model(tmp_path / "m.skops"), read(train)
    X = table[list(told.feature_names_in_)]
    again = {weight is None: clone(told).fit(X, table["y"], sensitive_features=table["sex"], sample_weight=weight)
             for weight in (counts, None)}  # fmt: skip
    np.testing.assert_allclose(told.predict_proba(X), again[False].predict_proba(X), atol=1e-9)
    assert np.abs(told.predict_proba(X) - again[True].predict_proba(X)).max() > 1e-3  # they do count


def test_missing_groups(call, train, tmp_path):
    table = people()
    table.loc[:29, "sex"] = None
    table.to_csv(train, index=False)
    asked = ["frontier", train, *ASKED, "--points", "2", "-o", tmp_path / "out.csv"]
    code, _, err = call(*asked)
    assert code == 2 and f"--group sex is missing in 30 of {N} rows" in err and "--missing group" in err
    assert call(*asked, "--missing", "group")[0] == 0


# -- the frontier --------------------------------------------------------------------------------------------
def test_the_frontier_is_that_of_python(call, train, tmp_path):
    people(seed=1).to_csv(tmp_path / "test.csv", index=False)
    asked = [*ASKED, "--drop", "race", "--test", tmp_path / "test.csv", "--points", "4"]
    code, out, err = call("frontier", train, *asked, "-o", tmp_path / "out.csv")
    assert code == 0, err
    old, new = read(train), read(tmp_path / "test.csv")
    python = by_hand().fit(old[X_COLUMNS], old["y"], sensitive_features=old["sex"])
    path = python.frontier(4, test=(new[X_COLUMNS], new["y"], new["sex"]))
    table = pd.read_csv(tmp_path / "out.csv")
    assert list(table.columns) == list(path.table.columns)
    for name in ("tolerance", "accuracy", "violation", "test_accuracy", "test_violation"):
        np.testing.assert_allclose(table[name], path.table[name], atol=1e-6, err_msg=name)
    assert f"area {path.area():.4f}" in out and f"area {path.area('test'):.4f}" in out and "test floor" in out
    assert len(out.splitlines()) < 20 and max(map(len, out.splitlines()[:-1])) <= 120


@pytest.mark.parametrize("ending, magic", [(".png", b"\x89PNG"), (".SVG", b"<?xml"), (".pdf", b"%PDF")])
def test_pictures(call, train, tmp_path, ending, magic):
    pytest.importorskip("matplotlib")
    picture = tmp_path / f"picture{ending}"
    asked = [*ASKED, "--points", "2", "--test-size", "0.5"]
    assert call("frontier", train, *asked, "--plot", picture, "-o", tmp_path / "out.tsv")[0] == 0
    assert picture.read_bytes().startswith(magic) and (tmp_path / "out.tsv").exists()


def test_a_process_without_a_display(train, tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("pyarrow")
    options = [*ASKED, "--points", "3", "--aware", "--group", "race", "--criterion", "eo"]
    done = process("frontier", train, *options, "--plot", tmp_path / "p.png", "-o", tmp_path / "o.parquet")
    assert done.returncode == 0, done.stderr
    assert len(pd.read_parquet(tmp_path / "o.parquet")) == 3
    assert sorted(os.listdir(tmp_path)) == ["o.parquet", "p.png", "train.csv"]


def test_pictures_that_cannot_be_are_refused_before_any_work(call, train, tmp_path, monkeypatch):
    asked = ["frontier", train, *ASKED, "-o", tmp_path / "out.csv"]
    code, _, err = call(*asked, "--plot", tmp_path / "picture.gif")
    assert code == 2 and "its name must end in .png, .svg, .pdf" in err
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, _, err = call(*asked, "--plot", tmp_path / "picture.png")
    assert code == 2 and 'needs matplotlib: pip install "optfair[plot]"' in err
    code, _, err = call(*asked, "--points", "1")
    assert code == 2 and "--points 1: must be at least 2" in err


# -- bad input -----------------------------------------------------------------------------------------------
BAD_OPTIONS = {
    "no such label": (["--label", "z"], "--label z: there is no such column; the table has x1, x2"),
    "no such group": (["--group", "nobody"], "--group nobody: there is no such column"),
    "no such column to drop": (["--drop", "z"], "--drop z: there is no such column"),
    "no such weight": (["--weight", "z"], "--weight z: there is no such column"),
    "label as group": (["--group", "y"], "column 'y': is asked for twice"),
    "label is a number": (["--label", "x1"], "--label x1 looks like a number to predict, not a class"),
    "text as weight": (["--weight", "race"], "--weight race holds"),
    "negative weight": (["--weight", "x1"], "weights must be finite, at least 0"),
    "holes in weight": (["--weight", "x2"], "--weight x2 is missing in"),
    "nothing left": (["--drop", "x1,x2,flag,code,race"], "there is no column left to predict from"),
    "criterion": (["--criterion", "ppv"], "criterion='ppv': predictive values"),
    "unknown criterion": (["--criterion", "fair"], "criterion='fair': unknown"),
    "tolerance": (["--tolerance", "-1"], "tolerance=-1.0: must be a number in [0, 1]"),
    "test size": (["--test-size", "1"], "--test-size 1: must be a share between 0 and 1"),
    "seed": (["--seed", "-1"], "--seed -1: must be a whole number"),
    "test file": (["--test", "absent.csv"], "absent.csv: there is no such file"),
    "output folder": (["-o", "absent/out.csv"], "there is no folder absent; make it first"),
    "output is a folder": (["-o", "."], ""),
    "output ending": (["-o", "out.xlsx"], "out.xlsx: its name must end in .csv"),
    "output is the input": (["-o", "train.csv"], "train.csv: is the file that is read"),
    "oae has no outcomes": (["--criterion", "oae", "--outcome", "lo"], "overall accuracy equality speaks of all"),
}


@pytest.mark.parametrize("case", BAD_OPTIONS)
def test_bad_options(call, train, tmp_path, monkeypatch, case):
    options, message = BAD_OPTIONS[case]
    monkeypatch.chdir(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    replaced = [] if options[0] == "-o" else ["-o", "out.csv"]
    asked = ASKED if options[0] != "--group" else [word for word in ASKED if word not in ("--group", "sex")]
    code, out, err = call("frontier", "train.csv", *asked, *options, *replaced)
    assert code == 2 and out == "" and message in err and err.startswith("optfair frontier: ") and err.count("\n") == 1
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


BAD_TABLES = {
    "empty": (b"", "the file is empty"),
    "header only": (b"x1,sex,y\n", "has a header but no rows"),
    "unequal fields": (b"x1,sex,y\n1,f,a\n2,m,b,5\n3,f,a,7,8\n", "cannot be read as CSV"),
    "binary": (bytes(range(256)) * 20, ""),
    "latin-1": ("x1,sex,y\n1,f,é\n".encode("latin-1"), "say its --encoding"),
    "a column twice": (b"x1,x1,sex,y\n1,2,f,a\n", "column 'x1' is there 2 times"),
    "one class": (b"x1,sex,y\n" + b"1,f,a\n2,m,a\n" * 20, "has 1 class; at least two are needed"),
    "one group": (b"x1,sex,y\n" + b"1,f,a\n2,f,b\n" * 20, "--group sex has only f among those fitted on"),
    "missing labels": (b"x1,sex,y\n" + b"1,f,a\n2,m,b\n3,m,\n" * 20, "--label y is missing in 20 of 60 rows"),
    "infinite": (b"x1,sex,y\n" + b"1,f,a\n2,m,b\ninf,m,b\n" * 20, "column 'x1': 20 values are infinite"),
    "each its class": (
        b"x1,sex,y\n" + b"".join(b"%d,f,c%d\n" % (k * k, k) for k in range(50)),
        "looks like a number to predict, not a class (50 different values in 50 rows)",
    ),
}


@pytest.mark.parametrize("case", BAD_TABLES)
def test_bad_tables(call, tmp_path, case):
    content, message = BAD_TABLES[case]
    (tmp_path / "t.csv").write_bytes(content)
    code, out, err = call("frontier", tmp_path / "t.csv", *ASKED, "-o", tmp_path / "out.csv")
    assert code == 2 and out == "" and message in err and err.count("\n") == 1
    assert os.listdir(tmp_path) == ["t.csv"]


def test_broken_parquet_and_values_that_are_no_features(call, train, tmp_path):
    pytest.importorskip("pyarrow")
    table = people()
    wrong = {
        "when": pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(N), unit="h"),
        "list": [[1, 2]] * N,
        "bytes": [b"x"] * N,
    }
    source = tmp_path / "t.parquet"
    for name, values in wrong.items():
        table.assign(**{name: values}).to_parquet(source)
        code, _, err = call("frontier", source, *ASKED, "-o", tmp_path / "out.csv")
        assert code == 2 and f"column '{name}': holds values of type" in err and f"--drop {name}" in err
    assert call("frontier", source, *ASKED, "--drop", "bytes", "--points", "2", "-o", tmp_path / "out.csv")[0] == 0
    source.write_bytes(source.read_bytes()[:-100])
    code, _, err = call("frontier", source, *ASKED, "-o", tmp_path / "out.csv")
    assert code == 2 and "cannot be read as Parquet" in err


def test_test_people_must_be_known(call, train, tmp_path):
    asked = ["frontier", train, *ASKED, "--test", tmp_path / "test.csv", "-o", tmp_path / "out.csv"]
    table = people(40)
    for change, message in (
        ({"y": ["other"] + ["lo"] * 39}, "--label y: other is among the people to judge on but not"),
        ({"sex": ["d"] + ["f"] * 39}, "--group sex: d is among the people to judge on but not"),
        ({"x1": ["12a"] + [1] * 39}, "column 'x1': '12a' (row 1) is not a number"),
    ):
        table.assign(**change).to_csv(tmp_path / "test.csv", index=False)
        code, _, err = call(*asked)
        assert code == 2 and message in err and err.count("\n") == 1
    table.drop(columns="x2").to_csv(tmp_path / "test.csv", index=False)
    code, _, err = call(*asked)
    assert code == 2 and "test.csv: has no column x2; it has x1, flag" in err


BAD_PEOPLE = {
    "no column": (lambda t: t.drop(columns=["x1", "code"]), "has no column x1, code, which the model reads; it has x2"),
    "a text": (lambda t: t.assign(x1=["1"] * 8 + ["12a"] * (N - 8)), "column 'x1': '12a' (row 9) is not a number"),
    "infinite": (lambda t: t.assign(x1=[1.0, -np.inf] * (N // 2)), f"column 'x1': {N // 2} values are infinite"),
    "answered": (lambda t: t.assign(prediction="a"), "has a column 'prediction' already; rename it, or"),
}


@pytest.mark.parametrize("case", BAD_PEOPLE)
def test_people_that_cannot_be_answered(call, model, tmp_path, case):
    change, message = BAD_PEOPLE[case]
    change(people()).to_csv(tmp_path / "new.csv", index=False)
    before = sorted(os.listdir(tmp_path))
    code, out, err = call("predict", model, tmp_path / "new.csv", "-o", tmp_path / "out.csv")
    assert code == 2 and out == "" and message in err and err.count("\n") == 1
    assert sorted(os.listdir(tmp_path)) == before
    if case == "answered":
        assert call("predict", model, tmp_path / "new.csv", "-o", tmp_path / "out.csv", "--only")[0] == 0


def test_models_that_are_none(call, model, train, tmp_path):
    content = model.read_bytes()
    (tmp_path / "half.skops").write_bytes(content[: len(content) // 2])
    (tmp_path / "text.skops").write_text("hello")
    (tmp_path / "empty.skops").write_bytes(b"")
    with zipfile.ZipFile(tmp_path / "zip.skops", "w") as archive:
        archive.writestr("schema.json", json.dumps({"x": 1}))
    code, _, err = call("predict", tmp_path / "empty.skops", train, "-o", tmp_path / "out.csv")
    assert code == 2 and "empty.skops: the file is empty" in err
    for name in ("half", "text", "zip"):
        code, _, err = call("predict", tmp_path / f"{name}.skops", train, "-o", tmp_path / "out.csv")
        assert code == 2 and f"{name}.skops: not a" in err and err.count("\n") == 1
    code, _, err = call("predict", tmp_path / "absent.skops", train, "-o", tmp_path / "out.csv")
    assert code == 2 and "absent.skops: there is no such file" in err
    code, _, err = call("predict", tmp_path, train, "-o", tmp_path / "out.csv")
    assert code == 2 and "is a folder; give a file" in err
    (tmp_path / "model.skops.key").unlink()
    code, _, err = call("predict", model, train, "-o", tmp_path / "out.csv")
    assert code == 2 and "model.skops.key: is not there" in err and "put it beside the model again" in err
    (tmp_path / "model.skops.key").write_text("0 00\n")
    code, _, err = call("predict", model, train, "-o", tmp_path / "out.csv")
    assert code == 2 and "model.skops.key: not the 32-byte key" in err
    assert not (tmp_path / "out.csv").exists()


def test_a_write_that_fails_leaves_nothing_behind(call, model, train, tmp_path, monkeypatch):
    (tmp_path / "out.csv").write_text("old")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def full(self, path, **options):
        path.write_text("half")
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(pd.DataFrame, "to_csv", full)
    code, out, err = call("predict", model, train, "-o", tmp_path / "out.csv")
    assert code == 2 and "No space left on device" in err and out == ""
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_what_nothing_can_satisfy_is_a_no(call, train, tmp_path, monkeypatch):
    """By name and number alone there is no such request: answering at random is always fair."""

    def fit(self, X, y, **others):
        raise InfeasibleError(["this", "that"], 0.1, 0.1)

    monkeypatch.setattr(OptFairPost, "fit", fit)
    code, _, err = call("frontier", train, *ASKED, "-o", tmp_path / "out.csv")
    assert code == 1 and "no rule satisfies all constraints" in err and os.listdir(tmp_path) == ["train.csv"]


def test_without_skops_nothing_is_begun(call, train, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "skops", None)
    monkeypatch.setitem(sys.modules, "skops.io", None)
    (tmp_path / "m.skops").write_text("a model")
    for command in (["fit", train, *ASKED], ["predict", tmp_path / "m.skops", train]):
        code, out, err = call(*command, "-o", tmp_path / "out.csv")
        assert code == 2 and 'needs skops: pip install "optfair[save]"' in err and out == ""


@pytest.mark.parametrize("command", [["fit", "absent.csv", *ASKED], ["predict", "absent.skops", "absent.csv"]])
def test_processes_end_with_one_line(tmp_path, command):
    pytest.importorskip("skops")
    done = process(*command, "-o", tmp_path / "absent" / "out.csv")
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1
    assert f"there is no folder {tmp_path / 'absent'}; make it first" in done.stderr


# -- models made in Python -----------------------------------------------------------------------------------
def test_models_made_in_python(call, train, tmp_path):
    pytest.importorskip("skops")
    table = read(train)
    numbers, output = table[["x1", "flag"]].astype(float), tmp_path / "m.skops"
    made = {
        "arrays": OptFairPost(cv=2).fit(numbers.to_numpy(), table["y"], sensitive_features=table["sex"]),
        "a frame": OptFairPost(cv=2).fit(numbers, table["y"], sensitive_features=table["sex"]),
        "column named": OptFairPost(LogisticRegression(), cv=2, sensitive_features="sex").fit(
            numbers.assign(sex=table["sex"]), table["y"]
        ),
        "aware of a column": OptFairPost(by_hand_encoder(), cv=2, sensitive_features="sex", awareness="aware").fit(
            numbers.assign(sex=table["sex"]), table["y"]
        ),
    }
    table.astype({"flag": float})[["x1", "flag"]].to_csv(tmp_path / "new.csv", index=False)
    for name, one in made.items():
        one.save(output)
        source = tmp_path / "new.csv" if "aware" not in name else train
        code, _, err = call("predict", output, source, "-o", tmp_path / "out.csv")
        assert code == 0, (name, err)
        X = numbers.to_numpy() if name == "arrays" else numbers
        X = numbers.assign(sex=table["sex"]) if "aware" in name else X
        assert pd.read_csv(tmp_path / "out.csv")["prediction"].tolist() == one.predict(X).tolist(), name
    code, _, err = call("predict", output, train, "--group", "sex", "-o", tmp_path / "out.csv")
    assert code == 2 and "--group sex: the model finds the groups by itself" in err


def by_hand_encoder():
    one_hot = ("sex", OneHotEncoder(), ["sex"])
    return make_pipeline(ColumnTransformer([one_hot], remainder="passthrough"), LogisticRegression())


# -- what new users met --------------------------------------------------------------------------------------
def test_dates_and_decimal_commas(call, tmp_path):
    pytest.importorskip("skops")
    table, rng = people(), np.random.default_rng(0)
    days = pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 30, N), "D")
    path = tmp_path / "dates.csv"
    table.assign(day=days.strftime("%Y-%m-%d")).to_csv(path, index=False)
    code, _, err = call("fit", path, *ASKED, "-o", tmp_path / "m.skops")
    assert code == 0 and "column 'day' holds dates, such as '2020-01-" in err
    path = tmp_path / "commas.csv"
    table.assign(price=rng.normal(size=N)).to_csv(path, index=False, sep=";", decimal=",")
    asked = ["fit", path, *ASKED, "--separator", ";", "-o", tmp_path / "m.skops"]
    code, _, err = call(*asked)
    assert code == 2 and "holds numbers with decimal commas, such as" in err and "say --decimal ','" in err
    assert call(*asked, "--decimal", ",")[0] == 0
    said = ["--separator", ";", "--decimal", ","]
    assert call("predict", tmp_path / "m.skops", path, *said, "-o", tmp_path / "answers.csv", "--probabilities")[0] == 0
    answers = (tmp_path / "answers.csv").read_text().splitlines()
    assert "prediction;p_hi" in answers[0]  # written as it was read
    scores = ["--scores", "p_hi,p_lo,p_mid"]
    code, out, _ = call("audit", tmp_path / "answers.csv", *said, "--label", "y", "--group", "sex", *scores)
    assert code in (0, 1) and f"{N} people" in out


def test_the_model_and_the_table_swapped(call, train, tmp_path):
    pytest.importorskip("skops")
    code, _, err = call("predict", train, train, "-o", tmp_path / "out.csv")
    assert code == 2 and "Are MODEL and FILE swapped?" in err


def test_whole_numbers_are_told_as_such(call, tmp_path):
    pytest.importorskip("skops")
    path = tmp_path / "numbers.csv"
    table = people()
    numbers = {"y": table["y"].map({"hi": 2, "lo": 0, "mid": 1}), "sex": pd.factorize(table["sex"])[0]}
    table.assign(**numbers).to_csv(path, index=False)
    code, out, _ = call("fit", path, *ASKED, "-o", tmp_path / "m.skops", "--test-size", "0.3")
    assert code == 0 and "np.int64" not in out
