"""Export a rule to where there is no optfair: as JSON with scorers of one file, or as an ONNX graph from z to h."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from optfair.errors import ExportError, brief_repr, brief_text
from optfair.inputs.identity import key_bytes
from optfair.portable.graph import DEFAULT_OPSET, GraphBuilder
from optfair.portable.rule_graph import RuleTensors, add_drawn, add_first_best, add_rule, label_tensor, no_label
from optfair.portable.runtime import run_graph
from optfair.portable.scorer_file import FORMAT, SLACK, VERSION, plain_label, write_scorer
from optfair.rule.decisions import CERTAIN, TIE, check_decision, decide, uniforms
from optfair.rule.keys import key_fingerprint
from optfair.utils.files import write_atomically

if TYPE_CHECKING:
    from optfair.rule.rule import FairRule

KINDS = (".json", ".onnx")
N_CASES, N_DRAWN = 20, 2_000  # test vectors, and rows that they are chosen from
ROUNDING = 1e-4  # a graph whose probabilities differ by more computes something else
RULE_ALONE = "Export the rule by itself (inputs='posterior', or a .json file)"
TEST_KEY = bytes(range(32))  # of the draws in test vectors; everybody knows it
# Ids of test vectors: every type that has bytes of its own, and text that is not ASCII.
PERSONS = ("id-1", "Zoë Ångström", 17, -3, 2.5, True, ["north", 7], "017", "日本", 0, 1234567890123, [["a"], "b", -0.5])


def export_rule(rule: FairRule, path: Any, decision: str, hashing: str, opset: int = DEFAULT_OPSET) -> list[Path]:
    """Write a rule by itself, whose input is z; see `FairRule.export`."""
    target = check_path(path, decision)
    check_decision(decision, None, None, hashing)
    Z = posterior_rows(rule.shape)
    h = rule.predict_proba(Z)
    rows = telling_rows(h)
    cases = test_cases([{"joint": z} for z in Z[rows].tolist()], h[rows], rule.classes, decision, hashing)
    if target.suffix.lower() == ".json":
        return write_scorer(target, scorer_document(rule, decision, hashing, cases))
    graph = GraphBuilder(opset)
    z = graph.add_input("joint", np.float64, ("n", *rule.shape))
    cells = graph.add("Reshape", z, graph.constant(np.array([-1, rule.weights[..., 0].size])))
    add_answers(graph, add_rule(graph, rule, cells, TIE), rule.classes, decision)
    facts = graph_facts(rule_facts(rule), rule.key, decision, hashing, cases)
    return [write_graph(target, graph, {"joint": Z}, h, facts)]


def check_path(path: Any, decision: str) -> Path:
    """Return the path of a file to export to, whose ending says of which kind it is."""
    target = Path(os.fspath(path))
    if target.suffix.lower() not in KINDS:
        raise ValueError(f"path={brief_repr(str(path))}: must end in .onnx (a graph) or .json (for the scorers).")
    if target.suffix.lower() == ".json" and decision == "sampled":
        raise ValueError("decision='sampled': scorers draw by a hash, not anew; use 'hashed' or 'argmax', or .onnx.")
    return target


# -- files -------------------------------------------------------------------------------------------------
def scorer_document(
    rule: FairRule, decision: str, hashing: str, cases: Sequence[Mapping[str, Any]], **model: Any
) -> dict[str, Any]:
    """Return what the scorers read.

    model : aware, missing, unseen, models, calibration and posterior, where they are not plain.
    """
    m = len(rule.classes)
    facts = rule_facts(rule)
    return {
        "format": FORMAT,
        "version": VERSION,
        "about": {name: value for name, value in facts.items() if name not in ("classes", "groups")},
        "classes": facts["classes"],
        "groups": facts["groups"],
        "decision": decision,
        "hashing": hashing,
        "fingerprint": None if rule.key is None else key_fingerprint(rule.key),
        **{"aware": False, "missing": "error", "unseen": "error", "models": 1, "calibration": None, "posterior": None},
        **model,
        "rule": {
            "weights": rule.weights.reshape(-1, m).tolist(),
            "temperatures": rule.temperatures.ravel().tolist(),
            "share": rule.share,
            "constant": rule.constant.tolist(),
        },
        "vectors": {"key": TEST_KEY.hex(), "slack": SLACK, "cases": list(cases)},
    }


def graph_facts(
    facts: Mapping[str, Any], key: bytes | None, decision: str, hashing: str, cases: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the metadata of a graph."""
    fingerprint = None if key is None else key_fingerprint(key)
    settings = {"decision": decision, "hashing": hashing, "key_fingerprint": fingerprint}
    return {**facts, **settings, "test_vectors": {"key": TEST_KEY.hex(), "slack": SLACK, "cases": list(cases)}}


def write_graph(
    path: Path,
    graph: GraphBuilder,
    feeds: Mapping[str, np.ndarray],
    h: np.ndarray,
    facts: Mapping[str, Any],
    max_difference: float = SLACK,
) -> Path:
    """Write a graph, if onnxruntime gives the probabilities h for all these inputs; return the path."""
    model = graph.model(facts, "A fair rule, written by optfair. Probabilities are of the answer, not of the class.")
    content = model.SerializeToString()
    try:
        answers = run_graph(content, feeds)["probabilities"]
    except Exception as error:  # of the runtime: some converters write what fails on rows
        raise ExportError(f"the exported graph cannot be run ({brief_text(error, 100)}). {RULE_ALONE}.") from error
    difference = float(np.abs(answers - h).max())
    if not difference <= max_difference:
        ways = f", or accept it by max_difference={2 * difference:.1g}" if difference <= ROUNDING else ""
        raise ExportError(
            f"the exported graph gives other probabilities than the model, by up to {difference:.2g}: the converter of "
            f"some step computes in single precision or in another way. {RULE_ALONE}{ways}."
        )
    write_atomically(path, content)
    return path


def add_answers(graph: GraphBuilder, tensors: RuleTensors, classes: Sequence[Any], decision: str) -> None:
    """Make what a rule gives the outputs of a graph; the likeliest class only where it is the answer."""
    m, certain = len(classes), -np.inf if decision == "argmax" else CERTAIN
    graph.add_output("probabilities", tensors.probabilities, np.float64, ("n", m))
    if tensors.scores is not None:
        graph.add_output("scores", tensors.scores, np.float64, ("n", m))
    graph.add_output("drawn", add_drawn(graph, tensors.probabilities, certain), bool, ("n",))
    labels = label_tensor(classes) if decision == "argmax" else None
    if labels is None or (none := no_label(labels)) is None:
        return
    best = add_first_best(graph, tensors.probabilities, TIE)
    label = graph.add("Gather", graph.constant(labels), best, axis=0)
    total = graph.add("ReduceSum", tensors.probabilities, graph.constant(np.array([1])), keepdims=1)
    label = graph.add("Where", graph.add("IsNaN", total), graph.constant(none), label)
    kind = str if labels.dtype == object else labels.dtype
    graph.add_output("label", graph.add("Squeeze", label, graph.constant(np.array([1]))), kind, ("n",))


# -- what is said of a rule --------------------------------------------------------------------------------
def rule_facts(rule: FairRule) -> dict[str, Any]:
    """Return who and what a rule is for, and what is known of it."""
    from optfair import __version__

    certificate = {k: v for k, v in asdict(rule.certificate).items() if k not in ("status", "seconds", "passes")}
    return {
        "optfair": __version__,
        "classes": [plain_label(label, "classes") for label in rule.classes],
        "groups": [plain_label(label, "groups") for label in rule.groups],
        "attributes": [None if name is None else str(name) for name in rule.groups.names],
        "criteria": list(dict.fromkeys(map(str, rule.multipliers["criterion"]))),
        "tolerance": certificate.pop("tolerance"),
        "certificate": {**certificate, "status": str(rule.certificate.status)},
        "promise": None if rule.promise is None else str(rule.promise),
    }


# -- test vectors ------------------------------------------------------------------------------------------
def posterior_rows(shape: tuple[int, int], seed: int = 0) -> np.ndarray:
    """Return z of nobody, (n, A, m): drawn, from nearly equal to nearly certain, some with cells of zero."""
    rng = np.random.default_rng(seed)
    concentration = rng.choice([0.05, 0.3, 1.0, 5.0], N_DRAWN)[:, None]
    cells = rng.gamma(concentration, size=(N_DRAWN, shape[0] * shape[1])) + 1e-300
    cells[rng.random(cells.shape) < 0.1] = 0.0
    cells[:, 0] += cells.sum(axis=1) == 0
    return np.asarray(cells / cells.sum(axis=1, keepdims=True)).reshape(-1, *shape)


def telling_rows(h: np.ndarray) -> np.ndarray:
    """Return the positions of rows to test with: half of them undecided, if there are such, and others."""
    undecided = np.argsort(h.max(axis=1), kind="stable")[: N_CASES // 2]
    return np.unique(np.append(undecided, np.linspace(0, len(h) - 1, min(N_CASES, len(h))).astype(int)))[:N_CASES]


def test_cases(
    inputs: Sequence[Mapping[str, Any]], h: np.ndarray, classes: Sequence[Any], decision: str, hashing: str
) -> list[dict[str, Any]]:
    """Return test vectors: what is given, and the probabilities, the draw by `TEST_KEY` and the answer."""
    persons = [PERSONS[k % len(PERSONS)] for k in range(len(h))]
    content = [b"k" + key_bytes(person) for person in persons]
    draws = uniforms(TEST_KEY, content, hashing)
    codes = decide(h, decision, lambda rows: (content[row] for row in rows), None, None, TEST_KEY, hashing)
    answers = [plain_label(classes[code], "classes") for code in codes]
    lines = zip(inputs, persons, h.tolist(), draws.tolist(), answers, strict=True)
    names = ("input", "person", "probabilities", "draw", "answer")
    return [dict(zip(names, line, strict=True)) for line in lines]
