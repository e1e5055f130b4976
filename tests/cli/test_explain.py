"""``optfair explain``: sentences, tables and JSON about the people of a table, and what is refused."""

import json
import os

import numpy as np
import pandas as pd
import pytest

from optfair import OptFairPost, load_model
from optfair.cli.main import main
from tests.cli.helpers import FEATURES, FIT, N_TRAIN, make_train, read_codes


@pytest.fixture(autouse=True)
def skops():
    pytest.importorskip("skops", reason="models are saved by skops")


@pytest.fixture(scope="module")
def pathless(tmp_path_factory):
    """Return the file of a model that was saved without other tolerances."""
    pytest.importorskip("skops", reason="models are saved by skops")
    folder = tmp_path_factory.mktemp("pathless")
    make_train().to_csv(folder / "train.csv", index=False)
    words = ["fit", folder / "train.csv", *FIT, "--drop", "race", "--no-path", "-o", folder / "model.skops"]
    assert main([str(word) for word in words]) == 0
    return folder / "model.skops"


def joined(text):
    return " ".join(text.split())


def test_sentences_are_those_of_python(run, model, tmp_path):
    code, out, err = run("explain", model, tmp_path / "train.csv", "--rows", "7")
    assert (code, err) == (0, "")
    X = read_codes(tmp_path / "train.csv")[FEATURES]
    explanation = load_model(model).explain(X)
    assert len(explanation.setting.tolerances) > 10  # which `optfair fit` computes and saves
    for k, text in enumerate(explanation.sentences[:8]):
        assert (f"Row {k + 1}: {text}" in joined(out)) == (k < 7)
    assert f"... and {N_TRAIN - 7} more people" in out and "between them nothing was computed" in joined(out)
    assert max(map(len, out.splitlines())) <= 110
    assert "“Without constraints” is the best answer by the probabilities that the rule is made of" in joined(out)


def test_answers_are_those_of_predict(run, model, tmp_path):
    table = read_codes(tmp_path / "train.csv").assign(id=np.arange(N_TRAIN) * 7, place="here")
    table.to_csv(tmp_path / "new.csv", index=False)
    options = [model, tmp_path / "new.csv", "--key", "place,id", "-o", tmp_path / "out.csv"]
    assert run("predict", *options)[0] == 0
    predictions = pd.read_csv(tmp_path / "out.csv")["prediction"]
    code, out, _ = run("explain", *options, "--json", tmp_path / "out.json", "--rows", "1")
    assert code == 0 and "Row 1 (here × 0): The answer is" in out
    assert joined(out).endswith(f"Wrote {tmp_path / 'out.csv'} and {tmp_path / 'out.json'}: {N_TRAIN} people")
    result, document = pd.read_csv(tmp_path / "out.csv"), json.loads((tmp_path / "out.json").read_text())
    assert result["answer"].tolist() == predictions.tolist()
    assert result["row"].tolist() == list(range(1, N_TRAIN + 1)) and result["id"].tolist() == table["id"].tolist()
    keys = [("here", str(7 * k)) for k in range(N_TRAIN)]
    explanation = load_model(model).explain(table[FEATURES], keys=keys)
    assert result["sentences"].tolist() == explanation.sentences
    np.testing.assert_allclose(result["margin"], explanation.table["margin"])
    for person, line in zip(document["people"], result.itertuples(), strict=True):
        assert person["person"] == line.row and person["key"] == ["here", str(line.id)]
        assert person["answer"] == line.answer and person["sentences"] == line.sentences
        total = person["preference"] + sum(term["part"] for term in person["terms"])
        assert person["margin"] == pytest.approx(total, abs=1e-9)
        if person["terms"]:
            assert line.part_1 == pytest.approx(person["terms"][0]["part"]) and line.constraint_1.startswith("the rate")
    assert document["notes"] == list(explanation.notes)


def test_people_are_chosen_by_key_or_by_row(run, refuse, model, tmp_path):
    table = read_codes(tmp_path / "train.csv").assign(id=np.arange(N_TRAIN) * 7, place="here")
    table.to_csv(tmp_path / "new.csv", index=False)
    people, out_file = tmp_path / "new.csv", tmp_path / "out.csv"
    everybody = load_model(model).explain(table[FEATURES], keys=[str(7 * k) for k in range(N_TRAIN)])
    words = ["--key", "id", "--only", "1001,21", "--only", "700", "-o", out_file, "--json", tmp_path / "out.json"]
    code, out, _ = run("explain", model, people, *words)
    assert code == 0 and "more people" not in out and out.rstrip().endswith(": 3 people")
    for row in (3, 100, 143):  # in the order of the table, with all numbers as among everybody
        assert f"Row {row + 1} ({7 * row}): {everybody.sentences[row]}" in joined(out)
    assert pd.read_csv(out_file)["row"].tolist() == [4, 101, 144]
    assert pd.read_csv(out_file)["sentences"].tolist() == [everybody.sentences[k] for k in (3, 100, 143)]
    document = json.loads((tmp_path / "out.json").read_text())
    assert [(person["person"], person["key"]) for person in document["people"]] == [
        (4, "21"),
        (101, "700"),
        (144, "1001"),
    ]
    expected = load_model(model).explain(table[FEATURES]).sentences
    code, out, _ = run("explain", model, people, "--only", "17, 3")
    assert code == 0 and f"Row 3: {expected[2]} Row 17: {expected[16]}" in joined(out)
    code, out, _ = run("explain", model, people, "--key", "place,id", "--only", "here × 14")
    assert code == 0 and out.startswith("Row 3 (here × 14): ") and "Row 4" not in out
    message = f"--only 0: must be the number of a row, from 1 to {N_TRAIN}, or give --key."
    assert message in refuse("explain", model, people, "--only", "0")
    assert "--only 5: nobody in" in refuse("explain", model, people, "--key", "id", "--only", "5")


def test_without_a_path_it_says_how_to_get_one(run, pathless):
    code, out, _ = run("explain", pathless, pathless.with_name("train.csv"), "--rows", "2")
    assert code == 0 and "it would be “" not in out.replace("without constraints it would be “", "")
    assert joined(out).endswith("saved without other tolerances. Fit it again without --no-path.")
    assert load_model(pathless).path_ is None


def test_fit_saves_a_path_with_the_key_of_its_rule(model):
    loaded = load_model(model)
    assert {rule.key for rule in loaded.path_.rules} == {loaded.rule_.key} != {None}


def test_aware_models_take_groups(run, refuse, train, tmp_path):
    model = tmp_path / "m.skops"
    assert run("fit", train, *FIT, "--drop", "race", "--aware", "-o", model)[0] == 0
    table = read_codes(train)
    expected = load_model(model).explain(table[FEATURES], sensitive_features=table["sex"])
    table.rename(columns={"sex": "gender"}).to_csv(tmp_path / "new.csv", index=False)
    code, out, _ = run("explain", model, tmp_path / "new.csv", "--group", "gender", "--rows", "3")
    assert code == 0 and expected.sentences[2] in joined(out) and "does not know the person" not in out
    assert "the groups (sex) are needed" in refuse("explain", model, tmp_path / "new.csv")


def test_a_promised_model(run, train, tmp_path):
    make_train(3000).to_csv(train, index=False)
    model = tmp_path / "m.skops"
    options = [*FIT[:-1], "0.2", "--drop", "race", "--confidence", "0.9"]
    assert run("fit", train, *options, "-o", model)[0] == 0
    code, out, _ = run("explain", model, train, "--rows", "200")
    assert code == 0 and "They are those of rules without the promise" in joined(out)


def test_what_is_refused(run, refuse, model, train, tmp_path):
    data, output = tmp_path / "train.csv", tmp_path / "out.csv"
    assert "--rows 0: must be at least 1." in refuse("explain", model, data, "--rows", "0")
    for other in (output, tmp_path / ".." / tmp_path.name / "out.csv"):
        assert "out.csv: is named twice" in refuse("explain", model, data, "-o", output, "--json", other)
    assert "--key nobody: there is no such column" in refuse("explain", model, data, "--key", "nobody")
    assert "the name of a table must end in" in refuse("explain", model, data, "-o", tmp_path / "out.txt")
    assert "is also an input file" in refuse("explain", model, data, "-o", data)
    assert "is also an input file" in refuse("explain", model, data, "--json", model)
    assert "Are MODEL and FILE swapped?" in refuse("explain", data, model)
    assert "--group sex: the model does not use groups" in refuse("explain", model, data, "--group", "sex")
    message = refuse("fit", data, *FIT, "--method", "in", "--no-path", "-o", tmp_path / "in.skops")
    assert "--no-path: is for --method post only; leave it out." in message
    assert run("fit", data, *FIT, "--method", "in", "--rounds", "2", "-o", tmp_path / "in.skops")[0] == 0
    message = refuse("explain", tmp_path / "in.skops", data)
    assert "in.skops: was trained by --method in; its answers are votes" in message and "--method post." in message
    (tmp_path / "model.skops.key").unlink()
    assert "model.skops.key: there is no such file" in refuse("explain", model, data)
    assert not output.exists()


def test_keys_that_are_named_like_an_output(refuse, model, tmp_path):
    read_codes(tmp_path / "train.csv").assign(answer=np.arange(N_TRAIN)).to_csv(tmp_path / "new.csv", index=False)
    message = refuse("explain", model, tmp_path / "new.csv", "--key", "answer", "-o", tmp_path / "out.csv")
    assert "--key answer: a column of the output has the same name; rename it." in message


def test_a_failed_write_leaves_nothing_behind(refuse, model, tmp_path, monkeypatch):
    files = sorted(os.listdir(tmp_path))

    def fail(*_):
        raise OSError(28, "No space left on device", "out.json")

    monkeypatch.setattr(os, "replace", fail)
    for option in ("-o", "--json"):
        name = tmp_path / ("out.csv" if option == "-o" else "out.json")
        assert "No space left on device" in refuse("explain", model, tmp_path / "train.csv", option, name)
    assert sorted(os.listdir(tmp_path)) == files


def test_models_made_in_python_of_arrays(run, tmp_path):
    table = make_train().astype({"flag": float})[["x1", "flag", "sex", "y"]]
    X = table[["x1", "flag"]].to_numpy()
    model = OptFairPost(cv=2, tolerance=0.1).fit(X, table["y"], sensitive_features=table["sex"])
    model.save(tmp_path / "m.skops")
    table[["x1", "flag"]].to_csv(tmp_path / "new.csv", index=False)
    code, out, _ = run("explain", tmp_path / "m.skops", tmp_path / "new.csv", "--rows", "1")
    assert code == 0 and model.explain(X, path=False).sentences[0] in joined(out)


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_whole_numbers_stay_whole(run, train, tmp_path, ending):
    if ending == ".parquet":
        pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    make_train().assign(y=lambda table: table["y"].map({"lo": 1, "mid": 2, "hi": 3})).to_csv(train, index=False)
    model, output = tmp_path / "m.skops", tmp_path / f"out{ending}"
    assert run("fit", train, *FIT, "-o", model)[0] == 0
    assert run("explain", model, train, "-o", output)[0] == 0
    table = pd.read_csv(output, dtype=str) if ending == ".csv" else pd.read_parquet(output, dtype_backend="pyarrow")
    assert table["answer_other"].notna().any() and table["answer_other"].isna().any()
    for name in ("model", "plain", "answer", "against", "answer_other"):
        assert set(table[name].dropna().astype(str)) <= {"1", "2", "3"}


def test_help_says_what_it_is_for(run):
    code, out, _ = run("explain", "--help")
    assert code == 0 and "Say why the people in a table get their predictions" in joined(out)
    assert "--no-path" in run("fit", "--help")[1]


def test_texts_that_were_never_seen_are_found_in_all_rows(run, model, tmp_path):
    table = make_train(50)
    table.loc[40:, "code"] = "strange"
    table.to_csv(tmp_path / "people.csv", index=False)
    assert "strange" in run("explain", model, tmp_path / "people.csv", "--rows", "3")[2]
