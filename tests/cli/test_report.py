"""``optfair report``: the report that Python gives for the same model and people, as a page, Markdown or JSON."""

import json

import numpy as np
import pandas as pd
import pytest

import optfair
from tests.cli.helpers import FIT, make_train

# That columns of other names are left out is said in a warning, which test_missing.py of the estimators looks at.
pytestmark = pytest.mark.filterwarnings("ignore:X. .* not read by the model, and left out")

pytest.importorskip("skops", reason="models are saved by skops")


@pytest.fixture(scope="module")
def model_file(tmp_path_factory):
    from optfair.cli.main import main

    folder = tmp_path_factory.mktemp("model")
    make_train().to_csv(folder / "train.csv", index=False)
    words = ["fit", folder / "train.csv", *FIT, "--drop", "race", "-o", folder / "model.skops"]
    assert main([str(word) for word in words]) == 0
    return folder / "model.skops"


@pytest.fixture
def people_file(tmp_path):
    table = make_train(400, seed=1).assign(w=np.arange(400) % 3 + 1.0, person=np.arange(400) // 2)
    table.to_csv(tmp_path / "people.csv", index=False)
    return tmp_path / "people.csv"


def test_the_report_is_that_of_python(run, model_file, people_file, tmp_path):
    output = tmp_path / "report.json"
    code, out, _ = run("report", model_file, people_file, "--label", "y", "-o", output)
    assert code == 0 and f"Wrote the report to {output}" in out
    document = json.loads(output.read_text(encoding="utf-8"))
    table = pd.read_csv(people_file, dtype={"code": str})
    model = optfair.load_model(model_file)
    expected = model.report(table, table["y"], sensitive_features=table["sex"]).to_dict()
    assert document["performance"] == expected["performance"] and document["rates"] == expected["rates"]
    assert document["path"] == expected["path"] and len(document["path"]["points"]) > 5
    assert [file["name"] for file in document["inputs"]] == ["model.skops", "people.csv"]
    assert document["title"].endswith("people.csv") and str(tmp_path) not in json.dumps(document)


def test_the_page_says_that_nothing_was_promised_and_takes_keys(run, model_file, people_file, tmp_path):
    output = tmp_path / "report.json"
    documents = []
    for words in ([], ["--key", "person"]):
        assert run("report", model_file, people_file, "--label", "y", *words, "-o", output)[0] == 0
        documents.append(json.loads(output.read_text(encoding="utf-8")))
    for document in documents:
        promises = [line["sentence"] for line in document["summary"] if line["label"] == "Promise"]
        assert document["promise"] is None and promises[0].startswith("No promise to new people was asked for")
        assert "the rule does not look at the group" in document["subtitle"]
    assert not documents[1]["determinism"]["flip_together"]


def test_parity_needs_no_labels(run, model_file, people_file, tmp_path):
    output = tmp_path / "report.md"
    code, out, _ = run("report", model_file, people_file, "-o", output)
    assert code == 0 and "Without labels" in out
    assert output.read_text(encoding="utf-8").startswith("# Fairness report")


def test_pages_weights_and_other_names_of_columns(run, model_file, people_file, tmp_path):
    pytest.importorskip("jinja2", reason="the page is made with jinja2")
    other = tmp_path / "other.csv"
    pd.read_csv(people_file, dtype=str).rename(columns={"sex": "gender"}).to_csv(other, index=False)
    words = ["--label", "y", "--weight", "w", "--key", "person"]
    pages = []
    for path, extra in ((people_file, []), (other, ["--group", "gender"])):
        output = tmp_path / "report.html"
        assert run("report", model_file, path, *words, *extra, "-o", output)[0] == 0
        pages.append(output.read_text(encoding="utf-8").replace("other.csv", "people.csv"))
    assert pages[0].count("<section") == pages[1].count("<section") and "Accuracy against fairness" in pages[0]


@pytest.mark.parametrize(
    "options, message",
    [
        (["-o", "memo.docx"], "memo.docx: the name of a report must end in .html, .md or .json."),
        (["--label", "truth"], "--label truth: there is no such column"),
        (["--group", "sex,race"], "--group sex,race: the model was fitted with 1 (sex); give as many, in this order."),
    ],
)
def test_what_cannot_be_reported_is_refused(refuse, model_file, people_file, options, message):
    assert message in refuse("report", model_file, people_file, *options)


def test_columns_that_are_missing_are_named(refuse, run, model_file, people_file, tmp_path):
    table = pd.read_csv(people_file, dtype=str)
    table.drop(columns="sex").to_csv(tmp_path / "no_sex.csv", index=False)
    message = refuse("report", model_file, tmp_path / "no_sex.csv", "--label", "y")
    assert "the groups (sex) are needed, and the table has no such columns; name them by --group" in message
    table.assign(y=table["y"].mask(np.arange(len(table)) == 3)).to_csv(tmp_path / "gap.csv", index=False)
    assert "--label y is missing in 1 of 400 rows" in refuse("report", model_file, tmp_path / "gap.csv", "--label", "y")


def test_criteria_that_speak_of_true_classes_need_them(run, refuse, people_file, tmp_path):
    words = [
        *FIT,
        "--drop",
        "race",
        "--criterion",
        "eo",
        "--tolerance",
        "0.4",
        "--no-path",
        "-o",
        tmp_path / "eo.skops",
    ]
    assert run("fit", people_file, *words, "--drop", "person")[0] == 0
    message = refuse("report", tmp_path / "eo.skops", people_file)
    assert "--label: is missing; the model was fitted for eo, which speaks of true classes" in message


@pytest.mark.parametrize("missing", ["group", "infer"])
def test_groups_may_be_missing_where_the_model_allows_it(run, refuse, model_file, tmp_path, missing):
    table = make_train(400)
    table.loc[:60, "sex"] = None
    table.to_csv(tmp_path / "train.csv", index=False)
    words = [*FIT, "--drop", "race", "--missing", missing, "--no-path", "-o", tmp_path / "model.skops"]
    assert run("fit", tmp_path / "train.csv", *words)[0] == 0
    output = tmp_path / "report.json"
    assert run("report", tmp_path / "model.skops", tmp_path / "train.csv", "--label", "y", "-o", output)[0] == 0
    document = json.loads(output.read_text(encoding="utf-8"))
    names = [line["group"] for line in document["groups"]]
    assert names == (["f", "m", "(missing)"] if missing == "group" else ["f", "m"])
    assert document["n_people"] == (400 if missing == "group" else 339)
    message = refuse("report", model_file, tmp_path / "train.csv", "--label", "y")
    assert "--group sex is missing in 61 of 400 rows" in message
