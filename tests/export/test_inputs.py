"""What a graph is given: any names of columns, codes in every writing, and columns that no step reads."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from optfair import OptFairPost, TableEncoder
from optfair.errors import ExportError
from tests.export.helpers import GROUP, GROUP_NEW, TABLE, TABLE_NEW, X_NEW, X, Y, assert_exported, fit_post

onnx = pytest.importorskip("onnx", reason="graphs are written by onnx")
onnxruntime = pytest.importorskip("onnxruntime", reason="graphs are run by onnxruntime")
CODES = np.random.default_rng(0).choice(["1", "2", "30", None], len(X))


def coded(rows, codes):
    return pd.DataFrame({"a": rows[:, 0], "b": rows[:, 1], "code": pd.Series(codes, dtype=object)})


def one_hot():
    encoder = OneHotEncoder(handle_unknown="ignore")
    return make_pipeline(
        make_column_transformer((StandardScaler(), ["a", "b"]), (encoder, ["code"])), LogisticRegression()
    )


@pytest.mark.parametrize(
    "estimator", [make_pipeline(TableEncoder(texts=["code"]), StandardScaler(), LogisticRegression()), one_hot()]
)
def test_a_code_is_the_same_with_a_point(estimator, tmp_path):
    """A column of whole numbers with gaps is one of floats: its codes come as 1.0, and mean 1."""
    model = fit_post(estimator, coded(X, CODES))
    [path] = model.export(tmp_path / "fair.onnx")
    session = onnxruntime.InferenceSession(str(path))
    new = np.random.default_rng(1).choice(["1", "2", "30", "4", None], len(X_NEW))
    numbers = [None if code is None else float(code) for code in new]
    expected = model.predict_proba(coded(X_NEW, new))
    np.testing.assert_array_equal(model.predict_proba(coded(X_NEW, numbers)), expected)
    for column in (new, numbers):
        texts = np.array([["" if code is None else str(code)] for code in column], dtype=object)
        feeds = {"a": X_NEW[:, :1], "b": X_NEW[:, 1:2], "code": texts}
        np.testing.assert_allclose(session.run(["probabilities"], feeds)[0], expected, atol=1e-9)


def test_a_text_with_a_point_stays_another_text_where_there_were_some(tmp_path):
    codes = np.where(np.random.default_rng(0).random(len(X)) < 0.5, "1", "1.0")
    model = fit_post(one_hot(), coded(X, codes))
    assert_exported(model, tmp_path, coded(X_NEW, codes[::-1]))


NAMES = ["probabilities", "probabilities_in", "", "drawn", "group"]


@pytest.mark.parametrize("awareness", ["blind", "aware"])
def test_columns_may_be_called_like_outputs_and_groups(awareness, tmp_path):
    frames = [pd.DataFrame(rows[:, :5], columns=NAMES[: rows.shape[1]]) for rows in (X, X_NEW)]
    model = fit_post(make_pipeline(StandardScaler(), LogisticRegression()), frames[0], awareness=awareness)
    told = {"sensitive_features": GROUP_NEW} if awareness == "aware" else {}
    assert_exported(model, tmp_path, frames[1], **told)
    session = onnxruntime.InferenceSession(str(tmp_path / "fair.onnx"))
    entries = json.loads(session.get_modelmeta().custom_metadata_map["inputs"])
    assert [entry["name"] for entry in entries if entry["role"] == "feature"] == list(frames[0])
    assert len({entry["input"] for entry in entries}) == len(entries)


def dated(rows):
    return pd.DataFrame(rows, columns=list("abcde")[: rows.shape[1]]).assign(day=pd.Timestamp("2026-01-01"))


@pytest.mark.filterwarnings("ignore:column 'day'")
def test_a_column_that_no_step_reads_may_hold_anything(tmp_path):
    model = fit_post(None, dated(X))
    assert_exported(model, tmp_path, dated(X_NEW))


def test_a_column_that_a_step_reads_must_hold_numbers_or_texts(tmp_path):
    pipeline = make_pipeline(
        make_column_transformer((StandardScaler(), ["a"]), (OneHotEncoder(handle_unknown="ignore"), ["day"])),
        LogisticRegression(),
    )
    model = fit_post(pipeline, dated(X))
    with pytest.raises(
        ExportError, match=r"X: the column 'day' holds neither numbers nor texts; leave it out, and fit"
    ):
        model.export(tmp_path / "fair.onnx")


def test_nothing_is_in_a_graph_that_nothing_reads(tmp_path):
    [path] = fit_post(None, X).export(tmp_path / "fair.onnx")
    graph = onnx.load(str(path)).graph
    read = {name for node in graph.node for name in node.input}
    assert {tensor.name for tensor in graph.initializer} <= read


def test_a_network_with_a_layer_that_no_runtime_has_is_named_with_the_way_that_works(tmp_path):
    torch = pytest.importorskip("torch", reason="networks")
    from optfair.nn import TorchClassifier

    def module(shape, n_classes):
        layers = [torch.nn.Linear(shape[0], 4), torch.nn.LeakyReLU(), torch.nn.Linear(4, n_classes)]
        return torch.nn.Sequential(*layers)

    net = TorchClassifier(module, epochs=1, dtype="float64", random_state=0)
    model = OptFairPost(net, cv=2, tolerance=0.1, calibration="none", random_state=0).fit(
        X, Y, sensitive_features=GROUP
    )
    text = (
        r"^estimator: this network cannot be converted to ONNX \(.*\)\. Export the rule by itself \(inputs='posterior'"
    )
    with pytest.raises(ExportError, match=text):  # not in double precision
        model.export(tmp_path / "fair.onnx")
    [path] = model.export(tmp_path / "fair.onnx", inputs="posterior")
    assert path.exists()


def test_texts_with_points_behind_an_encoder(tmp_path):
    """An encoder reads "1.0" as "1", also in a column whose texts have points."""
    rng = np.random.default_rng(0)
    table, new = (frame.assign(d=rng.choice(["1.0", "2.0", "3.5"], len(frame))) for frame in (TABLE, TABLE_NEW))
    assert_exported(fit_post(X=table), tmp_path, new)
