"""Graphs that would answer otherwise than their model are not written; what nobody should read is not in them."""

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import VotingClassifier
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.neighbors import KNeighborsClassifier, RadiusNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from optfair.errors import ExportError
from optfair.export.steps import StepWriter
from optfair.portable.graph import GraphBuilder
from optfair.rule.exporting import write_graph
from tests.export.helpers import GROUP, TABLE, TABLE_NEW, X, Y, assert_exported, fit_post, graph_outputs, run_step

pytest.importorskip("onnx", reason="graphs are written by onnx")
pytest.importorskip("skl2onnx", reason="steps of scikit-learn are converted by skl2onnx")


NEIGHBOURS = [KNeighborsClassifier(25), RadiusNeighborsClassifier(1e3)]


@pytest.mark.parametrize("model", NEIGHBOURS, ids=["k", "radius"])
def test_neighbours_are_refused(model, tmp_path):
    """The order of neighbours at the same distance is another in a graph: answers would differ, and not in tests."""
    voting = VotingClassifier([("one", model)], voting="soft")
    for estimator in (make_pipeline(StandardScaler(), model), make_pipeline(StandardScaler(), voting)):
        with pytest.raises(ExportError, match=r"^estimator: \w+NeighborsClassifier puts neighbours at the same dista"):
            fit_post(estimator).export(tmp_path / "fair.onnx")


def test_isotonic_calibration_is_refused(tmp_path):
    estimator = make_pipeline(StandardScaler(), CalibratedClassifierCV(LogisticRegression(), method="isotonic", cv=2))
    with pytest.raises(ExportError, match=r"^estimator: CalibratedClassifierCV\(method='isotonic'\) interpolates, and"):
        fit_post(estimator).export(tmp_path / "fair.onnx")


@pytest.mark.parametrize("encoder", [OneHotEncoder(), OrdinalEncoder()], ids=["one-hot", "ordinal"])
def test_encoders_that_refuse_what_they_do_not_know(encoder, tmp_path):
    is_full = TABLE["city"].notna() & (TABLE["rooms"] != 2)  # a gap in the codes too
    table, new = TABLE[is_full], TABLE_NEW[TABLE_NEW["city"].notna() & (TABLE_NEW["rooms"] != 2)]
    columns = make_column_transformer((encoder, ["city", "rooms"]), (StandardScaler(), ["a b"]))
    model = fit_post(
        make_pipeline(columns, LogisticRegression()), table, groups=GROUP[is_full], y=Y[is_full], decision="argmax"
    )
    outputs = assert_exported(model, tmp_path, new)
    assert outputs["label"].tolist() == model.predict(new).tolist()
    strange = graph_outputs(tmp_path / "fair.onnx", new.assign(city="Perth"))
    assert np.isnan(strange["probabilities"]).all() and set(strange["label"]) == {""}


def test_encoders_that_know_next_to_nothing(tmp_path):
    codes = TABLE.assign(rooms=np.random.default_rng(0).choice([1, 10_000_000], len(TABLE)))
    encoder = make_column_transformer((OneHotEncoder(), ["rooms"]), (StandardScaler(), ["a b", "scores"]))
    estimator = make_pipeline(encoder, LogisticRegression())
    with pytest.raises(
        ExportError, match=r"^estimator: refuses nearly all rows that are made up to test the export wi"
    ):
        fit_post(estimator, codes).export(tmp_path / "fair.onnx")


def test_rare_texts_are_not_in_the_file(tmp_path):
    """A text that fewer than ten people had may be the name of one of them."""
    cities = TABLE["city"].where(np.arange(len(TABLE)) % 300 > 0, "Ada Lovelace")
    model = fit_post(None, TABLE.assign(city=cities))
    assert_exported(model, tmp_path, TABLE_NEW.assign(city=["Ada Lovelace", "Oslo"] * (len(TABLE_NEW) // 2)))
    content = (tmp_path / "fair.onnx").read_bytes()
    assert b"Oslo" in content
    assert b"Lovelace" not in content


def test_no_rows_get_no_answers(tmp_path):
    outputs = assert_exported(fit_post(None, TABLE, decision="argmax"), tmp_path, TABLE_NEW)
    nobody = graph_outputs(tmp_path / "fair.onnx", TABLE_NEW[:0])
    assert {name: len(values) for name, values in nobody.items()} == dict.fromkeys(outputs, 0)


def test_no_node_is_for_nothing(tmp_path):
    """Converters write labels beside probabilities."""
    import onnx

    [path] = fit_post().export(tmp_path / "fair.onnx")
    graph = onnx.load(path).graph
    sources = {name for node in graph.node for name in node.input} | {value.name for value in graph.output}
    assert all(sources.intersection(node.output) for node in graph.node)


def test_votes_are_what_a_model_predicts():
    """Where probabilities are cut at zero and one, the likeliest class is not what `predict` says."""
    codes = np.unique(Y, return_inverse=True)[1]
    rows = StandardScaler().fit_transform(X)
    model = SGDClassifier(loss="modified_huber", random_state=0).fit(rows, codes)
    predictions = model.predict(rows)
    assert (predictions != model.predict_proba(rows).argmax(axis=1)).any()
    votes = run_step(lambda graph, features: StepWriter(graph).votes(model, features, 3), rows)
    np.testing.assert_array_equal(votes, np.eye(3)[predictions])
    votes = run_step(lambda graph, features: StepWriter(graph).votes(model, features, 3), np.full((2, 5), np.nan))
    assert np.isnan(votes).all()


def sum_of_rows(matrix):
    """Return a graph of one step: rows times a matrix."""
    graph = GraphBuilder()
    rows = graph.add_input("X", np.float64, ("n", "d"))
    graph.add_output("probabilities", graph.add("MatMul", rows, graph.constant(matrix)), np.float64, ("n", 2))
    return graph


def test_what_is_not_a_number_is_refused(tmp_path):
    rows, h = np.array([[1.0, 0.0], [np.nan, 0.0]]), np.array([[1.0, 0.0], [0.5, 0.5]])
    with pytest.raises(
        ExportError, match=r"^the exported graph gives other probabilities than the model, by up to nan"
    ):
        write_graph(tmp_path / "fair.onnx", sum_of_rows(np.eye(2)), {"X": rows}, h, {})


@pytest.mark.parametrize(("difference", "is_rounding"), [(1e-6, True), (1e-2, False)])
def test_only_rounding_may_be_accepted(difference, is_rounding, tmp_path):
    rows = np.array([[1.0, 0.0]])
    with pytest.raises(ExportError, match=r"gives other probabilities") as error:
        write_graph(tmp_path / "fair.onnx", sum_of_rows(np.eye(2)), {"X": rows}, rows + difference, {})
    assert ("or accept it by max_difference=" in str(error.value)) == is_rounding


def test_a_graph_that_fails_on_rows_is_refused(tmp_path):
    with pytest.raises(ExportError, match=r"^the exported graph cannot be run \(.*\). Export the rule by itself "):
        write_graph(tmp_path / "fair.onnx", sum_of_rows(np.ones((3, 2))), {"X": np.ones((1, 2))}, np.ones((1, 2)), {})
    assert list(tmp_path.iterdir()) == []
