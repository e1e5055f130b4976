"""Comparisons of exported models with native ones: they find what differs."""

import shutil

import numpy as np
import pytest
from scipy import sparse

from optfair.errors import ExportError
from optfair.export.checking import compare_graph, compare_scorers
from optfair.portable.scorer_file import scorer_module
from tests.export.helpers import GROUP, GROUP_NEW, TABLE, TABLE_NEW, X_NEW, X, fit_post


def test_graphs_are_compared(tmp_path):
    pytest.importorskip("onnx", reason="graphs are written by onnx")
    model = fit_post(X=TABLE)
    [path] = model.export(tmp_path / "fair.onnx")
    comparison = compare_graph(model, path, TABLE_NEW, None, None)
    assert comparison.different == () and comparison.n == len(TABLE_NEW) and comparison.largest < 1e-9
    assert str(comparison).startswith("onnxruntime: 1,200 people, largest difference of a probability ")
    assert str(comparison).endswith(", all answers the same")
    other = model.with_tolerance(0.3)
    different = compare_graph(other, path, TABLE_NEW, None, None)
    same_draws = model.predict(TABLE_NEW, keys=range(len(TABLE_NEW))) == other.predict(
        TABLE_NEW, keys=range(len(TABLE_NEW))
    )
    assert list(different.different) == np.flatnonzero(~same_draws).tolist() and len(different.different) > 5
    assert f"{len(different.different)} answers differ, the first in row {different.different[0] + 1}" in str(different)


@pytest.mark.parametrize("awareness", ["blind", "aware"])
def test_a_graph_behind_the_models_is_compared_with_what_these_say_of_a_table(awareness, tmp_path):
    for package in ("onnx", "onnxruntime"):
        pytest.importorskip(package, reason="graphs are written and run")
    model = fit_post(awareness=awareness)
    [path] = model.export(tmp_path / "fair.onnx", inputs="posterior")
    comparison = compare_graph(model, path, X_NEW, GROUP_NEW if awareness == "aware" else None, None)
    assert comparison.largest < 1e-9 and not comparison.different
    other = fit_post(awareness=awareness, tolerance=0.3)
    [path] = other.export(tmp_path / "other.onnx", inputs="posterior")
    assert compare_graph(model, path, X_NEW, GROUP_NEW if awareness == "aware" else None, None).largest > 0.1


def test_scorers_are_compared(tmp_path):
    model = fit_post(awareness="aware")
    path = model.export(tmp_path / "fair.json")[0]
    keys = [("north", k) for k in range(100)]
    assert all(not c.different for c in compare_scorers(model, path, X_NEW[:100], GROUP_NEW[:100], keys))
    other = model.with_tolerance(0.4)
    assert all(c.different for c in compare_scorers(other, path, X_NEW[:100], GROUP_NEW[:100], keys))


@pytest.mark.parametrize("options", [{"missing": "group"}, {"missing": "group", "unseen": "blind"}])
def test_scorers_are_given_groups_as_people_have_them(options, tmp_path):
    """Missing ones too: what a scorer makes of them is part of what is compared."""
    groups = np.where(np.arange(len(X)) % 4 == 0, None, GROUP)
    model = fit_post(groups=groups, awareness="aware", **options)
    path = model.export(tmp_path / "fair.json")[0]
    new = np.where(np.arange(100) % 3 == 0, None, GROUP_NEW[:100])
    if "unseen" in options:
        new[::7] = "x"
    assert all(not c.different and c.largest < 1e-9 for c in compare_scorers(model, path, X_NEW[:100], new, None))


NUMBERED = TABLE[["a b", "e"]].set_axis([0, 1], axis=1)
SHAPES = {
    "columns that are numbers": (NUMBERED, NUMBERED.head(50)),
    "an array for named columns": (TABLE[["a b", "e"]], TABLE_NEW[["a b", "e"]].to_numpy()[:50]),
    "lists for named columns": (TABLE[["a b", "e"]], TABLE_NEW[["a b", "e"]].to_numpy()[:50].tolist()),
    "a sparse matrix": (sparse.csr_array(X[:, [0, 3]]), sparse.csr_array(X_NEW[:50, [0, 3]])),
    "records": (TABLE, TABLE_NEW.astype(object).where(TABLE_NEW.notna(), None).head(50).to_dict("records")),
}


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("shape", SHAPES)
def test_scorers_are_given_features_as_they_take_them(shape, tmp_path):
    X, new = SHAPES[shape]
    model = fit_post(X=X)
    path = model.export(tmp_path / "fair.json")[0]
    assert all(
        not c.different and c.n == 50 and c.largest < 1e-9 for c in compare_scorers(model, path, new, None, None)
    )


def test_what_node_says_is_passed_on(tmp_path):
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    model = fit_post()
    path = model.export(tmp_path / "fair.json")[0]
    (tmp_path / "optfair_score.mjs").write_text("throw new Error('not today');")
    with pytest.raises(ExportError, match=r"^optfair_score.mjs: node could not run it \(.*not today"):
        compare_scorers(model, path, X_NEW[:5], None, None)


def test_sampled_answers_are_compared_by_their_probabilities(tmp_path):
    pytest.importorskip("onnx", reason="graphs are written by onnx")
    model = fit_post(decision="sampled")
    [path] = model.export(tmp_path / "fair.onnx")
    assert compare_graph(model, path, X_NEW, None, None).different == ()


@pytest.mark.parametrize("language", ["python", "node"])
def test_a_person_whom_a_scorer_refuses_is_named(language, tmp_path, monkeypatch):
    """Here by a fault that is put into it."""
    if language == "node" and shutil.which("node") is None:
        pytest.skip("node is not installed")
    model = fit_post()
    path = model.export(tmp_path / "fair.json")[0]
    if language == "node":
        file = tmp_path / "optfair_score.mjs"
        code = file.read_text("utf-8")
        start = "  posterior(features) {\n"
        refusal = 'if (features[0] === 0.5) throw new Error("features: no.");\n'
        assert start in code
        file.write_text(code.replace(start, start + refusal), encoding="utf-8")
    else:
        scorer = scorer_module().Scorer
        posterior = scorer.posterior

        def refusing(self, features):
            if features[0] == 0.5:
                raise ValueError("features: no.")
            return posterior(self, features)

        monkeypatch.setattr(scorer, "posterior", refusing)
    new = X_NEW[:5].copy()
    new[3, 0] = 0.5
    ending = "py" if language == "python" else "mjs"
    message = rf"^optfair_score.{ending}: has no answer for row 4, and the model has one \(features: no\.\)\.$"
    with pytest.raises(ExportError, match=message):
        compare_scorers(model, path, new, None, None)
