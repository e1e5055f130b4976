"""``optfair predict``: predictions of saved models, and tables and files that are refused."""

import gzip
import json
import os
import zipfile

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from optfair import OptFairPost, load_model
from tests.cli.helpers import FEATURES, FIT, FIT_WORDS, N_TRAIN, make_train, make_words, read_codes


@pytest.fixture(autouse=True)
def skops():
    pytest.importorskip("skops", reason="models are saved by skops")


def predicted(path, **options):
    return pd.read_csv(path, **options)["prediction"].tolist()


def test_the_predictions_are_those_of_python(run, model, python_model, tmp_path):
    make_train(seed=1).to_csv(tmp_path / "new.csv", index=False)
    output = tmp_path / "out.csv"
    assert run("predict", model, tmp_path / "new.csv", "-o", output, "--probabilities", "--only")[0] == 0
    table, X = pd.read_csv(output), read_codes(tmp_path / "new.csv")[FEATURES]
    assert list(table.columns) == ["prediction", "p_hi", "p_lo", "p_mid"]
    h = table[["p_hi", "p_lo", "p_mid"]].to_numpy()
    np.testing.assert_allclose(h, python_model.predict_proba(X), atol=1e-6)
    np.testing.assert_array_equal(table["prediction"], load_model(model).predict(X))


def test_a_prediction_brings_neither_torch_nor_matplotlib(process, model):
    code = (
        "import sys; from optfair.cli.main import main; "
        "print(main(['predict', 'model.skops', 'train.csv', '-o', 'out.csv', '--only']), "
        "'torch' in sys.modules, 'matplotlib' in sys.modules)"
    )
    result = process("-c", code)
    assert result.stdout.split()[-3:] == ["0", "False", "False"], result.stderr


@pytest.mark.parametrize("ending", [".csv.gz", ".tsv", ".parquet"])
def test_every_kind_of_table(run, model, tmp_path, ending):
    if ending == ".parquet":
        pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    separator = "\t" if ending == ".tsv" else ","
    train, source, output = tmp_path / "train.csv", tmp_path / f"new{ending}", tmp_path / f"out{ending}"
    table = read_codes(train)
    if ending == ".parquet":
        table.astype({"code": "category", "x2": "Float64", "flag": "boolean"}).to_parquet(source)
    else:
        table.to_csv(source, index=False, sep=separator)
    assert run("predict", model, train, "-o", tmp_path / "out.csv")[0] == 0
    assert run("predict", model, source, "-o", output)[0] == 0
    if ending == ".parquet":
        result = pd.read_parquet(output)
        assert result["code"].dtype == "category"
    else:
        result = pd.read_csv(output, sep=separator)
    if ending == ".csv.gz":
        gzip.decompress(output.read_bytes())
    assert result["prediction"].tolist() == predicted(tmp_path / "out.csv")
    # Fitted to any kind of table, it is the same model.
    assert run("fit", source, *FIT, "--drop", "race", "-o", tmp_path / "other.skops")[0] == 0
    h, other_h = (load_model(path).predict_proba(table[FEATURES]) for path in (model, tmp_path / "other.skops"))
    np.testing.assert_allclose(other_h, h)


def test_texts_stay_texts(run, model, tmp_path):
    """A file in which all codes look like numbers, or are missing, is read as the training file was."""
    table = make_train()
    run("predict", model, tmp_path / "train.csv", "-o", tmp_path / "all.csv")
    predictions = pd.read_csv(tmp_path / "all.csv")["prediction"]
    for name, rows in {"numbers": table["code"] == "007", "missing": table["code"].isna()}.items():
        table[rows].to_csv(tmp_path / f"{name}.csv", index=False)
        assert run("predict", model, tmp_path / f"{name}.csv", "-o", tmp_path / "some.csv")[::2] == (0, "")
        result = pd.read_csv(tmp_path / "some.csv", dtype=str)
        assert result["prediction"].tolist() == predictions[rows].tolist()
        assert result["code"].dropna().isin(["007"]).all()


def test_new_texts_and_missing_numbers_are_predicted(run, model, tmp_path):
    table = make_train(seed=1).assign(x1=np.nan, extra=1)
    table.loc[3:5, "code"] = "new"
    table.to_csv(tmp_path / "new.csv", index=False)
    code, _, err = run("predict", model, tmp_path / "new.csv", "-o", tmp_path / "out.csv")
    assert code == 0
    assert err == (
        f"note: column 'code': a text that the model has not seen in 3 of {N_TRAIN} rows, such as 'new' (row 4); "
        "it is treated as a rare text.\n"
    )
    assert set(predicted(tmp_path / "out.csv")) <= {"hi", "lo", "mid"}


def test_ids_kept_as_an_index_are_written_again(run, tmp_path):
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    table = make_words()
    path, model, output = tmp_path / "people.parquet", tmp_path / "m.skops", tmp_path / "out.parquet"
    pid = 7000 + np.random.default_rng(1).permutation(len(table))
    table.assign(pid=pid).set_index("pid").to_parquet(path)
    assert run("fit", path, *FIT_WORDS, "--drop", "pid", "-o", model)[0] == 0
    assert run("predict", model, path, "-o", output)[0] == 0
    assert pd.read_parquet(output)["pid"].tolist() == pid.tolist()
    table[table["x"] > 0].to_parquet(path)  # rows left out: pandas writes their numbers as __index_level_0__
    assert run("predict", model, path, "-o", tmp_path / "some.csv")[0] == 0
    assert not any("index" in name for name in pd.read_csv(tmp_path / "some.csv").columns)


def test_keys_identify_people(run, refuse, model, tmp_path):
    table = read_codes(tmp_path / "train.csv").assign(id=np.arange(N_TRAIN) // 2, place="here")
    table.to_csv(tmp_path / "new.csv", index=False)
    predict = ["predict", model, tmp_path / "new.csv", "-o", tmp_path / "out.csv", "--key"]
    ids = [str(k // 2) for k in range(N_TRAIN)]
    for option, keys in (("id", ids), ("place,id", [("here", name) for name in ids])):
        assert run(*predict, option)[0] == 0
        assert predicted(tmp_path / "out.csv") == load_model(model).predict(table[FEATURES], keys=keys).tolist()
    table.assign(id=table["id"].where(table["id"] > 3)).to_csv(tmp_path / "new.csv", index=False)
    assert f"--key id is missing in 8 of {N_TRAIN} rows" in refuse(*predict, "id")


# -- groups -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", [["post"], ["in", "--rounds", "3"]])
def test_aware_models_find_their_groups(run, refuse, train, tmp_path, method):
    model, output = tmp_path / "m.skops", tmp_path / "out.csv"
    code, out, _ = run("fit", train, *FIT, "--drop", "race", "--aware", "--method", *method, "-o", model)
    assert code == 0 and "-o answers.csv --group sex" in out
    table = read_codes(train)
    expected = load_model(model).predict(table[FEATURES], sensitive_features=table["sex"]).tolist()
    assert run("predict", model, train, "-o", output)[0] == 0  # by the name it was fitted with
    assert predicted(output) == expected
    new = tmp_path / "new.csv"
    table.rename(columns={"sex": "gender"}).to_csv(new, index=False)
    assert run("predict", model, new, "--group", "gender", "-o", output)[0] == 0
    assert predicted(output) == expected
    message = refuse("predict", model, new, "-o", output)
    assert "the groups (sex) are needed, and the table has no such columns; name them by --group" in message
    message = refuse("predict", model, train, "--group", "sex,race", "-o", output)
    assert "--group sex,race: the model was fitted with 1 (sex)" in message


def test_a_blind_model_takes_no_group(refuse, model, tmp_path):
    message = refuse("predict", model, tmp_path / "train.csv", "--group", "sex", "-o", tmp_path / "out.csv")
    assert "--group sex: the model does not use groups; leave the option out" in message


def test_groups_that_are_texts_of_numbers_are_recognised(run, tmp_path):
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    table = make_words()
    table = table.assign(g=np.random.default_rng(2).choice(["1", "2"], len(table)))
    table.to_parquet(tmp_path / "p.parquet")
    table.to_csv(tmp_path / "p.csv", index=False)
    model = tmp_path / "m.skops"
    assert run("fit", tmp_path / "p.parquet", *FIT_WORDS, "--aware", "-o", model)[0] == 0
    for name in ("p.parquet", "p.csv"):
        assert run("predict", model, tmp_path / name, "-o", tmp_path / "out.csv")[0] == 0


# -- models made in Python --------------------------------------------------------------------------------------
MODELS = {
    "arrays": (None, {}, None),
    "a frame": (None, {}, ["x1", "flag"]),
    "a frame with its group": (LogisticRegression(), {"sensitive_features": "sex"}, ["x1", "flag", "sex"]),
    "a frame with its group, aware": (
        make_pipeline(ColumnTransformer([("sex", OneHotEncoder(), ["sex"])], remainder="passthrough"),
                      LogisticRegression()),
        {"sensitive_features": "sex", "awareness": "aware"},
        ["x1", "flag", "sex"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", MODELS)
def test_models_made_in_python(run, refuse, tmp_path, case):
    estimator, options, columns = MODELS[case]
    table, output = make_train().astype({"flag": float}), tmp_path / "out.csv"
    X = table[["x1", "flag"]].to_numpy() if columns is None else table[columns]
    groups = None if "sensitive_features" in options else table["sex"]
    model = OptFairPost(estimator, cv=2, **options).fit(X, table["y"], sensitive_features=groups)
    model.save(tmp_path / "m.skops")
    is_aware = "awareness" in options
    table[["x1", "flag", "sex"] if is_aware else ["x1", "flag"]].to_csv(tmp_path / "new.csv", index=False)
    code, _, err = run("predict", tmp_path / "m.skops", tmp_path / "new.csv", "-o", output)
    assert code == 0, err
    new = X if is_aware or columns is None else table[["x1", "flag"]]
    assert predicted(output) == model.predict(new).tolist()
    if is_aware:
        message = refuse("predict", tmp_path / "m.skops", tmp_path / "new.csv", "--group", "sex", "-o", output)
        assert "--group sex: the model reads the groups from its features" in message


# -- tables and files that are refused --------------------------------------------------------------------------
CHANGES = {
    "no column": (lambda t: t.drop(columns=["x1", "code"]), "has no column x1, code, which the model reads; it has x2"),
    "a text": (
        lambda t: t.assign(x1=["1"] * 8 + ["12a"] * (N_TRAIN - 8)),
        "column 'x1': '12a' (row 9) is not a number",
    ),
    "infinite": (
        lambda t: t.assign(x1=[1.0, -np.inf] * (N_TRAIN // 2)),
        f"column 'x1': {N_TRAIN // 2} values are infinite",
    ),
    "predicted": (lambda t: t.assign(prediction="a"), "already has a column 'prediction'; rename it, or"),
}


@pytest.mark.parametrize("case", CHANGES)
def test_tables_that_cannot_be_predicted(run, refuse, model, tmp_path, case):
    change, message = CHANGES[case]
    change(make_train()).to_csv(tmp_path / "new.csv", index=False)
    files = sorted(os.listdir(tmp_path))
    predict = ["predict", model, tmp_path / "new.csv", "-o", tmp_path / "out.csv"]
    assert message in refuse(*predict)
    assert sorted(os.listdir(tmp_path)) == files
    if case == "predicted":
        assert run(*predict, "--only")[0] == 0


def test_files_that_are_not_models(refuse, model, tmp_path):
    train, output, content = tmp_path / "train.csv", tmp_path / "out.csv", model.read_bytes()
    (tmp_path / "half.skops").write_bytes(content[: len(content) // 2])
    (tmp_path / "text.skops").write_text("hello")
    (tmp_path / "empty.skops").write_bytes(b"")
    with zipfile.ZipFile(tmp_path / "zip.skops", "w") as archive:
        archive.writestr("schema.json", json.dumps({"x": 1}))
    for name, message in {
        "empty.skops": "empty.skops: the file is empty",
        "half.skops": "half.skops: not a",
        "text.skops": "text.skops: not a",
        "zip.skops": "zip.skops: not a",
        "absent.skops": "absent.skops: there is no such file",
        "": "is a folder; give a file",
        "train.csv": "Are MODEL and FILE swapped?",
    }.items():
        assert message in refuse("predict", tmp_path / name, train, "-o", output)
    assert "Are MODEL and FILE swapped?" in refuse("predict", train, model, "-o", output)
    (tmp_path / "model.skops.key").unlink()
    message = refuse("predict", model, train, "-o", output)
    assert "model.skops.key: there is no such file" in message and "put it next to the model again" in message
    (tmp_path / "model.skops.key").write_text("0 00\n")
    assert "model.skops.key: not the 32-byte key" in refuse("predict", model, train, "-o", output)
    assert not output.exists()


def test_a_failed_write_leaves_nothing_behind(refuse, model, tmp_path, monkeypatch):
    (tmp_path / "out.csv").write_text("old")
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def fail(self, file, **options):
        file.write("half")
        raise OSError(28, "No space left on device", file.name)

    monkeypatch.setattr(pd.DataFrame, "to_csv", fail)
    message = refuse("predict", model, tmp_path / "train.csv", "-o", tmp_path / "out.csv")
    assert "No space left on device" in message
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == files
