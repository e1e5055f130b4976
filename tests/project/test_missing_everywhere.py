"""One model, the same people with gaps, on every way to an answer: a missing value is one thing however it is written.

Python in all its writings, the command on a file, the graph, both scorers, the service.
"""

import csv
import json
import math

import numpy as np
import pandas as pd
import pytest

from optfair import OptFairPost
from optfair.cli.main import main
from tests.estimators.writings import (
    TEXTS,
    WAYS,
    make_table,
    to_empty_records,
    to_records,
    to_sparse_records,
    typed,
)
from tests.portable.helpers import LANGUAGES, ask_scorer
from tests.threads import single_thread

N, SOME = 600, 60
KEYS = [f"id-{k}" for k in range(SOME)]
TABLE = make_table(SOME, seed=1)[0]


@pytest.fixture(scope="module")
def model():
    table, groups, y = make_table(N)
    with single_thread():
        # A warm rule: many answers are draws, so that keys are put to the test.
        model = OptFairPost(tolerance=0.02, temperature=0.05, cv=2, random_state=0)
        return model.fit(typed(table), y, sensitive_features=groups)


@pytest.fixture(scope="module")
def expected(model):
    """Return the answers, which depend on the gaps."""
    answers = model.predict(typed(TABLE), keys=KEYS)
    filled = TABLE.apply(lambda column: column.where(column.notna(), column.dropna().iloc[0]))
    assert (model.predict(typed(filled), keys=KEYS) != answers).any()
    return answers.tolist()


@pytest.mark.parametrize("way", sorted({*WAYS} - {"further columns"}))  # which warn
def test_in_python(way, model, expected):
    assert model.predict(WAYS[way](TABLE), keys=KEYS).tolist() == expected


def test_by_the_command(model, expected, tmp_path):
    pytest.importorskip("skops", reason="models are saved by skops")
    model.save(tmp_path / "fair.skops")
    with open(tmp_path / "people.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", *TABLE])
        for key, row in zip(KEYS, TABLE.itertuples(index=False, name=None), strict=True):
            writer.writerow([key, *("" if cell is None else cell for cell in row)])
    out = tmp_path / "answers.csv"
    words = ["predict", tmp_path / "fair.skops", tmp_path / "people.csv", "--key", "id", "--only", "-o", out]
    assert main([str(word) for word in words]) == 0
    assert pd.read_csv(out)["prediction"].tolist() == expected


def test_in_the_graph(model, tmp_path):
    pytest.importorskip("onnx", reason="graphs are written by onnx")
    onnxruntime = pytest.importorskip("onnxruntime", reason="graphs are run by onnxruntime")
    model.export(tmp_path / "fair.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "fair.onnx"))
    feeds = {}
    for entry in json.loads(session.get_modelmeta().custom_metadata_map["inputs"]):
        column = TABLE[entry["name"]]
        if entry["name"] in TEXTS:
            feeds[entry["input"]] = np.array([["" if cell is None else str(cell)] for cell in column], dtype=object)
        else:
            feeds[entry["input"]] = np.array([[math.nan if cell is None else float(cell)] for cell in column])
    [h] = session.run(["probabilities"], feeds)
    np.testing.assert_allclose(h, model.predict_proba(typed(TABLE)), atol=1e-9)


WRITTEN = {
    "null": lambda: to_records(TABLE),
    "NaN": lambda: [{k: math.nan if v is None else v for k, v in row.items()} for row in to_records(TABLE)],
    "absent": lambda: to_sparse_records(TABLE),
    "empty text": lambda: to_empty_records(TABLE),
}


IN_SCORERS = [(language, written) for language in LANGUAGES for written in WRITTEN]
IN_SCORERS.remove(("node", "NaN"))  # lines are JSON, which has no NaN for node


@pytest.mark.parametrize("language, written", IN_SCORERS)
def test_in_the_scorers(language, written, model, expected, tmp_path):
    model.export(tmp_path / "fair.json")
    requests = [{"person": key, "features": row} for key, row in zip(KEYS, WRITTEN[written](), strict=True)]
    answers = ask_scorer(language, tmp_path / "fair.json", requests, model.rule_.key)
    assert [entry["answer"] if isinstance(entry, dict) else entry for entry in answers] == expected


@pytest.mark.parametrize("written", WRITTEN)
def test_by_the_service(written, model, expected):
    for package in ("starlette", "uvicorn", "prometheus_client"):
        pytest.importorskip(package, reason="the service")
    from tests.serving.helpers import in_full, serving

    with serving(model) as service:
        assert service.answers(in_full(WRITTEN[written](), KEYS)) == expected
