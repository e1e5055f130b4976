"""People with numbers, texts and gaps; fitted classifiers; and what exported ones answer."""

import json

import numpy as np
import pandas as pd
import pytest

from optfair import OptFairPost

N = 1200
CLASSES = ["low", "mid", "high"]


def make_people(n=N, seed=0):
    """Return (matrix, table, groups, labels); names of columns that converters change, or that outputs have."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 5)) * [1, 10, 0.1, 1, 100] + [0, 5, 0, 0, 1000]
    group = np.where(X[:, 0] + rng.standard_normal(n) > 0, "m", "w")
    y = np.array(CLASSES)[np.digitize(X[:, 0] + X[:, 3] + rng.standard_normal(n), [-0.8, 0.9])]
    table = pd.DataFrame(X, columns=["a b", "marital-status", "c", "scores", "e"])
    table["city"] = rng.choice(np.array(["Rome", "Oslo", "Åre", None], dtype=object), n)
    table["rooms"], table["owner"] = rng.integers(0, 5, n), rng.random(n) < 0.3
    table.loc[rng.random(n) < 0.1, "c"] = np.nan
    return X, table, group, y


X, TABLE, GROUP, Y = make_people()
X_NEW, TABLE_NEW, GROUP_NEW, _ = make_people(seed=1)
NUMBERS = ["a b", "marital-status", "c", "scores", "e"]


def fit_post(estimator=None, X=X, *, groups=GROUP, y=Y, **options):
    """Return a fitted classifier."""
    settings = {"criterion": "dp", "tolerance": 0.05, "cv": 2, "random_state": 0}
    return OptFairPost(estimator, **(settings | options)).fit(X, y, sensitive_features=groups)


def graph_outputs(path, X, groups=None):
    """Return what onnxruntime answers for rows."""
    pytest.importorskip("onnxruntime", reason="graphs are run by onnxruntime")
    from optfair.export.inputs import InputNames, graph_feeds
    from optfair.portable.runtime import open_graph, run_graph

    content = path.read_bytes()
    inputs = json.loads(open_graph(content).get_modelmeta().custom_metadata_map["inputs"])
    return run_graph(content, graph_feeds(InputNames(inputs), X, groups))


def assert_exported(model, folder, X, slack=1e-9, **groups):
    """Check that a graph gives the probabilities of a classifier, for people it was not tested with."""
    [path] = model.export(folder / "fair.onnx")
    outputs = graph_outputs(path, X, groups.get("sensitive_features"))
    h = model.predict_proba(X, **groups)
    np.testing.assert_allclose(outputs["probabilities"], h, atol=slack)
    is_drawn = (h.max(axis=1) < 1 - 2.0**-30) & (model.decision != "argmax")
    np.testing.assert_array_equal(outputs["drawn"], is_drawn)
    return outputs


def run_step(write, rows, opset=19):
    """Return what nodes give for rows. write : a function of (graph, features) that returns the name of a tensor."""
    pytest.importorskip("onnxruntime", reason="graphs are run by onnxruntime")
    from optfair.export.inputs import Column, FeatureTensors
    from optfair.portable.graph import GraphBuilder
    from optfair.portable.runtime import run_graph

    graph = GraphBuilder(opset)
    if isinstance(rows, pd.DataFrame):
        columns, feeds = [], {}
        for name in rows:
            is_text = rows[name].dtype == object or rows[name].dtype.kind not in "biuf"
            kind = str if is_text else np.float64
            columns.append(Column(name, graph.add_input(name, kind, ("n", 1)), is_text))
            values = rows[name].where(rows[name].notna(), "") if is_text else rows[name]
            feeds[name] = values.to_numpy(dtype=object if is_text else float).reshape(-1, 1)
        features = FeatureTensors(tuple(columns))
    else:
        rows = np.asarray(rows, dtype=np.float64)
        graph.add_input("X", np.float64, ("n", rows.shape[1]))
        features, feeds = FeatureTensors(tensor="X", width=rows.shape[1]), {"X": rows}
    graph.add_output("result", write(graph, features), np.float64, ("n", None))
    return run_graph(graph.model({}, "a step").SerializeToString(), feeds)["result"]


def transformed(step, rows, opset=19):
    """Return what nodes give for a fitted transformer."""

    from optfair.export.steps import StepWriter

    def write(graph, features):
        return StepWriter(graph).transform([step], features).matrix(graph)

    return run_step(write, rows, opset)


def probabilities(model, rows):
    """Return what nodes give for a fitted classifier."""
    from optfair.export.steps import StepWriter

    return run_step(lambda graph, features: StepWriter(graph).probabilities(model, features), rows)
