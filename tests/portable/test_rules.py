"""Rules exported by themselves: as graphs, as files, with test vectors and what is said of them."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optfair import OptFairWarning, load_rule, solve  # noqa: F401
from optfair.errors import ExportError
from optfair.portable.graph import OPSETS
from optfair.rule.exporting import export_rule, posterior_rows
from optfair.rule.rule import FairRule
from tests.portable.helpers import ask_scorer, make_rule

onnx = pytest.importorskip("onnx", reason="graphs are written by onnx")
pytest.importorskip("onnxruntime", reason="graphs are run by onnxruntime")

from optfair.portable.runtime import open_graph, run_graph  # noqa: E402


def random_rule(seed, A, m, *, cold=False, share=0.0):
    """Return a rule of random numbers; what is said of it is that of another."""
    rng = np.random.default_rng(seed)
    temperatures = np.zeros((A, m)) if cold else rng.uniform(1e-4, 1e-2, (A, m))
    groups, classes = [f"g{k}" for k in range(A)], [f"c{k}" for k in range(m)]
    _, other = make_rule(groups=groups, classes=classes, criterion="dp")
    names = [entry for entry in vars(other) if entry not in ("weights", "temperatures", "share", "constant")]
    numbers = rng.normal(size=(A, m, m)), temperatures, share, rng.dirichlet(np.ones(m))
    return FairRule(*numbers, **{name: getattr(other, name) for name in names})


@given(st.integers(0, 2**32 - 1), st.integers(2, 4), st.integers(2, 5), st.booleans(), st.sampled_from([0.0, 0.3]))
def test_a_graph_gives_the_probabilities_of_any_rule(tmp_path_factory, seed, A, m, cold, share):
    rule = random_rule(seed, A, m, cold=cold, share=share)
    path = tmp_path_factory.mktemp("rule") / "rule.onnx"
    export_rule(rule, path, "hashed", "blake2b")
    Z = posterior_rows((A, m), seed=seed % 1000 + 1)[:300]
    outputs = run_graph(path.read_bytes(), {"joint": Z})
    np.testing.assert_allclose(outputs["probabilities"], rule.predict_proba(Z), atol=1e-9)
    np.testing.assert_allclose(outputs["scores"], Z.reshape(len(Z), -1) @ rule.weights.reshape(-1, m), atol=1e-12)
    np.testing.assert_array_equal(outputs["drawn"], rule.predict_proba(Z).max(axis=1) < 1 - 2.0**-30)


@pytest.mark.parametrize("opset", range(OPSETS[0], OPSETS[1] + 1))
def test_all_opsets_answer_alike(opset, tmp_path):
    Z, rule = make_rule()
    rule.export(tmp_path / "rule.onnx", opset=opset)
    model = onnx.load(tmp_path / "rule.onnx")
    assert {entry.version for entry in model.opset_import if entry.domain == ""} == {opset}
    assert model.ir_version <= 13  # what runtimes of last year read
    np.testing.assert_allclose(
        run_graph((tmp_path / "rule.onnx").read_bytes(), {"joint": Z})["probabilities"],
        rule.predict_proba(Z),
        atol=1e-9,
    )


@pytest.mark.parametrize("opset", [17, 99, 19.0, True, "19"])
def test_other_opsets_are_refused(opset, tmp_path):
    _, rule = make_rule()
    with pytest.raises(ValueError, match=r"^opset=.*: must be an integer from 18 to 23.$"):
        rule.export(tmp_path / "rule.onnx", opset=opset)


def test_a_graph_says_what_it_is(tmp_path):
    _, rule = make_rule(groups=[("f", 1), ("f", 2), ("m", 1)], classes=[1, 2, 3])
    rule.export(tmp_path / "rule.onnx", hashing="hmac-sha256")
    session = open_graph((tmp_path / "rule.onnx").read_bytes())
    facts = session.get_modelmeta().custom_metadata_map
    assert json.loads(facts["classes"]) == [1, 2, 3] and json.loads(facts["groups"]) == [["f", 1], ["f", 2], ["m", 1]]
    assert facts["hashing"] == "hmac-sha256" and json.loads(facts["criteria"]) == ["eo"]
    assert json.loads(facts["tolerance"]) == 0.02
    assert json.loads(facts["certificate"])["gap"] == rule.certificate.gap
    assert len(facts["key_fingerprint"]) == 16 and rule.key.hex() not in "".join(facts.values())
    cases = json.loads(facts["test_vectors"])["cases"]
    assert len(cases) == 20 and sum(max(case["probabilities"]) < 0.99 for case in cases) >= 3
    Z = np.array([case["input"]["joint"] for case in cases])
    np.testing.assert_allclose(rule.predict_proba(Z), [case["probabilities"] for case in cases], atol=1e-12)


NO_LABEL = {"a": "", 1: np.iinfo(np.int64).min, 0.5: np.nan}


@pytest.mark.parametrize("labels", [["a", "b", "c"], [1, 2, 3], [0.5, 1.5, 2.5]])
@pytest.mark.parametrize("cold", [True, False])
def test_a_posterior_that_is_not_a_number_has_no_answer(labels, cold, tmp_path):
    Z, rule = make_rule(classes=labels)
    if cold:
        rule = replace(rule, temperatures=np.zeros_like(rule.temperatures))
    Z[:, 1, 0] = np.where(np.arange(len(Z)) % 2 == 0, np.nan, Z[:, 1, 0])
    rule.export(tmp_path / "rule.onnx", "argmax")
    outputs = run_graph((tmp_path / "rule.onnx").read_bytes(), {"joint": Z})
    assert np.isnan(outputs["probabilities"]).all(axis=1).tolist() == np.isnan(Z[:, 1, 0]).tolist()
    assert outputs["label"][1::2].tolist() == rule.predict(Z[1::2], "argmax").tolist()
    np.testing.assert_array_equal(outputs["label"][::2], [NO_LABEL[labels[0]]] * len(Z[::2]))


def test_truth_values_as_classes_have_no_label(tmp_path):
    Z, rule = make_rule(classes=[True, False])
    rule.export(tmp_path / "rule.onnx", "argmax")  # a label could not say that there is none
    assert "label" not in run_graph((tmp_path / "rule.onnx").read_bytes(), {"joint": Z})


@pytest.mark.parametrize("labels", [["a", "b", "c"], [1, 2, 3], [0.5, 1.5, 2.5]])
def test_deterministic_rules_have_labels(labels, tmp_path):
    Z, rule = make_rule(classes=labels)
    rule.export(tmp_path / "rule.onnx", "argmax")
    outputs = run_graph((tmp_path / "rule.onnx").read_bytes(), {"joint": Z})
    assert outputs["label"].tolist() == rule.predict(Z, "argmax").tolist()
    rule.export(tmp_path / "drawn.onnx")
    assert "label" not in run_graph((tmp_path / "drawn.onnx").read_bytes(), {"joint": Z})


def test_ties_go_to_the_first_class(tmp_path):
    rule = random_rule(0, 2, 3, cold=True)
    rule.weights[:] = rule.weights[:, :, :1]  # all classes score alike
    rule.export(tmp_path / "rule.onnx", "argmax")
    Z = posterior_rows((2, 3))[:50]
    outputs = run_graph((tmp_path / "rule.onnx").read_bytes(), {"joint": Z})
    assert outputs["label"].tolist() == rule.predict(Z, "argmax").tolist() == ["c0"] * 50


def test_a_deterministic_rule_in_all_languages(tmp_path):
    Z, rule = make_rule()
    rule.export(tmp_path / "rule.json", "argmax")
    for language in ("python", "node"):
        lines = ask_scorer(language, tmp_path / "rule.json", [{"joint": z} for z in Z.tolist()])
        assert [line["answer"] for line in lines] == rule.predict(Z, "argmax").tolist()


def test_a_loaded_rule_without_key_is_exported_too(tmp_path):
    _, rule = make_rule()
    rule.save(tmp_path / "rule.json")
    (tmp_path / "rule.json.key").unlink()
    load_rule(tmp_path / "rule.json").export(tmp_path / "fair.json")
    assert json.loads((tmp_path / "fair.json").read_text("utf-8"))["fingerprint"] is None


def test_exports_are_the_same_bytes(tmp_path):
    _, rule = make_rule()
    for name in ("a.json", "a.onnx"):
        rule.export(tmp_path / name)
        first = (tmp_path / name).read_bytes()
        rule.export(tmp_path / name)
        assert (tmp_path / name).read_bytes() == first


@pytest.mark.parametrize("path", ["fair.pkl", "fair", ""])
def test_the_ending_says_what_is_written(path):
    _, rule = make_rule()
    with pytest.raises(ValueError, match=r"^path='.*': must end in .onnx \(a graph\) or .json \(for the scorers\).$"):
        rule.export(path)


def test_sampled_decisions_have_no_scorer(tmp_path):
    _, rule = make_rule()
    with pytest.raises(ValueError, match=r"^decision='sampled': scorers draw by a hash, not anew; use 'hashed' "):
        rule.export(tmp_path / "fair.json", "sampled")
    assert rule.export(tmp_path / "fair.onnx", "sampled")


@pytest.mark.parametrize("argument", ["decision", "hashing"])
def test_words_that_are_not_known(argument, tmp_path):
    _, rule = make_rule()
    with pytest.raises(ValueError, match=rf"^{argument}='no': must be one of "):
        rule.export(tmp_path / "fair.json", **{argument: "no"})


def test_what_does_not_come_out_is_not_written(tmp_path, monkeypatch):
    """A fault in a node: the graph is refused, and no file is left."""
    import optfair.rule.exporting as exporting

    _, rule = make_rule()
    monkeypatch.setattr(exporting, "add_rule", lambda graph, rule, z, tie: faulty(graph, rule, z, tie))

    def faulty(graph, rule, z, tie):
        from optfair.portable.rule_graph import RuleTensors, add_rule

        tensors = add_rule(graph, rule, z, tie)
        return RuleTensors(graph.add("Softmax", tensors.scores, axis=1), tensors.scores)

    with pytest.raises(ExportError, match="gives other probabilities than the model, by up to"):
        rule.export(tmp_path / "fair.onnx")
    assert list(tmp_path.iterdir()) == []
