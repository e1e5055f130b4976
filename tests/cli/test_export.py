"""``optfair export``: files for services without optfair, compared with the model they are of."""

import json
import os
import subprocess
import sys

import pytest

from optfair import load_model
from optfair.estimators.loading import untrusted_types
from tests.cli.helpers import FEATURES, FIT, make_train, read_codes


@pytest.fixture(autouse=True)
def skops():
    pytest.importorskip("skops", reason="models are saved by skops")


@pytest.fixture
def new(tmp_path):
    """Return the path of a table of other people, with ids."""
    table = make_train(seed=1)
    table.insert(0, "id", [f"p{k}" for k in range(len(table))])
    table.to_csv(tmp_path / "new.csv", index=False)
    return tmp_path / "new.csv"


@pytest.mark.parametrize("key", [[], ["--key", "id"], ["--key", "id,sex"]])
def test_graphs_are_compared_with_the_model(run, model, new, tmp_path, key):
    pytest.importorskip("onnx", reason="graphs are written by onnx")
    code, out, err = run("export", model, "-o", tmp_path / "fair.onnx", "--check", new, *key)
    assert (code, err) == (0, ""), err
    lines = out.splitlines()
    assert lines[0] == f"Wrote {tmp_path / 'fair.onnx'}"
    assert lines[1].startswith("The secret key stays where it is, in ") and "OPTFAIR_KEY" in lines[2]
    assert lines[3].startswith("onnxruntime: 240 people, largest difference of a probability ")
    assert lines[3].endswith(", all answers the same")


def test_scorers_are_compared_with_the_model(run, model, new, tmp_path):
    code, out, err = run("export", model, "-o", tmp_path / "fair.json", "--check", new, "--key", "id")
    assert (code, err) == (0, ""), err
    assert "Python scorer: 240 people" in out and "answers differ" not in out
    assert {path.name for path in tmp_path.iterdir()} >= {"fair.json", "optfair_score.py", "optfair_score.mjs"}


def test_what_scorers_are_given_is_said(run, new, tmp_path):
    """Trees are not in the file: a comparison that begins behind them says so."""
    make_train().to_csv(tmp_path / "train.csv", index=False)
    model, note = tmp_path / "trees.skops", "fair.json holds no models (they are not linear): scorers are given P(A, Y"
    assert run("fit", tmp_path / "train.csv", *FIT, "--drop", "race", "--estimator", "forest", "-o", model)[0] == 0
    trust = [part for name in untrusted_types(model) for part in ("--trust", name)]
    out = run("export", model, "-o", tmp_path / "fair.json", "--check", new, "--key", "id", *trust)[1]
    assert note in out and "Python scorer: 240 people" in out
    assert note not in run("export", model, "-o", tmp_path / "other.json", *trust)[1]


def test_the_written_scorer_answers_as_the_command_does(run, model, new, tmp_path):
    """The whole way, as a service goes it: another process, no package, the key from its file."""
    run("export", model, "-o", tmp_path / "fair.json")
    run("predict", model, new, "-o", tmp_path / "answers.csv", "--only", "--key", "id")
    script = (
        "import csv, json, optfair_score\n"
        f"scorer = optfair_score.load('fair.json', key_file={str(model) + '.key'!r})\n"
        "number = lambda text: float(text) if text else None\n"
        "for row in csv.DictReader(open('new.csv', encoding='utf-8')):\n"
        "    features = {'x1': number(row['x1']), 'x2': number(row['x2']), 'flag': row['flag'] == 'True',\n"
        "                'code': row['code'] or None, 'race': row['race']}\n"
        "    print(scorer.answer(row['id'], features=features))\n"
    )
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path)}
    process = subprocess.run(
        [sys.executable, "-S", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr
    assert process.stdout.split() == (tmp_path / "answers.csv").read_text().split()[1:]


def test_an_answer_that_differs_is_a_negative_result(run, model, new, tmp_path, monkeypatch):
    pytest.importorskip("onnx", reason="graphs are written by onnx")
    import optfair.cli.export as command

    def other_graph(native, path, *question):
        load_model(model).set_params(decision="argmax").export(path)  # an older file, say, of another model
        other = native.__class__.__new__(native.__class__)
        other.__dict__.update(native.__dict__)
        other.rule_ = load_model(model).path_.rules[0]
        return compare(other, path, *question)

    compare = command.compare_graph
    monkeypatch.setattr(command, "compare_graph", other_graph)
    code, out, _ = run("export", model, "-o", tmp_path / "fair.onnx", "--check", new)
    assert code == 1 and " answers differ, the first in row " in out


def test_graphs_of_rules_alone(run, model, tmp_path):
    onnx = pytest.importorskip("onnx", reason="graphs are written by onnx")
    code, _, err = run("export", model, "-o", tmp_path / "fair.onnx", "--inputs", "posterior", "--opset", "21")
    assert (code, err) == (0, "")
    graph = onnx.load(tmp_path / "fair.onnx")
    assert [value.name for value in graph.graph.input] == ["joint"]
    assert max(entry.version for entry in graph.opset_import if not entry.domain) == 21


REFUSED = {
    "another ending": (["-o", "fair.pkl"], "fair.pkl: must end in .onnx (a graph) or .json (for the scorers)."),
    "an opset of a file for scorers": (
        ["-o", "fair.json", "--opset", "19"],
        "--opset: is for graphs (.onnx); leave it out.",
    ),
    "inputs of a file for scorers": (
        ["-o", "fair.json", "--inputs", "posterior"],
        "--inputs: is for graphs (.onnx); leave it out.",
    ),
    "no table": (["-o", "fair.onnx", "--check", "no.csv"], "no.csv: there is no such file."),
    "a strange opset": (["-o", "fair.onnx", "--opset", "3"], "opset=3: must be an integer from 18 to 23."),
    "the table itself": (["-o", "train.csv", "--check", "train.csv"], "train.csv: is also an input file; write to "),
    "a folder that is not there": (["-o", "no/fair.onnx"], "no/fair.onnx: the folder no does not exist; create it "),
    "a key that is no column": (["-o", "fair.onnx", "--check", "train.csv", "--key", "no"], "--key 'no'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(run, model, tmp_path, monkeypatch, case):
    pytest.importorskip("onnx", reason="graphs are written by onnx")
    monkeypatch.chdir(tmp_path)
    words, message = REFUSED[case]
    code, _, err = run("export", "model.skops", *words)
    assert code == 2 and err.startswith("optfair export: ") and message.split("'")[0] in err, err
    assert not (tmp_path / "fair.onnx").exists()


def test_features_are_those_of_the_schema(model):
    features = load_model(model).features_
    assert features["name"].tolist() == [*FEATURES, "race"] or set(FEATURES) <= set(features["name"])
    kinds = dict(zip(features["name"], features["kind"], strict=True))
    assert kinds["x1"] == "number" and kinds["code"] == "text" and kinds["flag"] in ("boolean", "integer")
    assert bool(features.set_index("name").loc["x2", "has_gaps"])


def test_a_graph_says_what_it_reads(run, model, tmp_path):
    onnx = pytest.importorskip("onnx", reason="graphs are written by onnx")
    run("export", model, "-o", tmp_path / "fair.onnx")
    facts = {entry.key: entry.value for entry in onnx.load(tmp_path / "fair.onnx").metadata_props}
    inputs = {entry["name"]: entry["type"] for entry in json.loads(facts["inputs"])}
    assert inputs["x1"] == "float64" and inputs["code"] == "string"
    assert read_codes(tmp_path / "train.csv")["code"].isna().any()
