"""Fit, export, and compare: onnxruntime and the scorers with the native answers, on people not fitted on."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from experiments.export.cases import MODELS, SETTINGS, Case
from optfair import OptFairPost
from optfair.datasets import load
from optfair.export.checking import compare_graph, compare_scorers
from optfair.export.inputs import InputNames, graph_feeds
from optfair.inputs.containers import take_rows
from optfair.portable.runtime import open_graph
from optfair.portable.scorer_file import scorer_module

N_FITTED, N_NEW, N_SCORED = 6_000, 10_000, 2_000
N_CALLS = 200  # of one row, of which the median counts
NODE_CALLS = """
import {{ load }} from "./optfair_score.mjs";
import {{ readFileSync }} from "node:fs";
const scorer = load("fair.json");
const requests = JSON.parse(readFileSync("requests.json", "utf8"));
const seconds = requests.concat(requests).map(({{ person, ...posterior }}) => {{
  const start = process.hrtime.bigint();
  scorer.answer(person, posterior);
  return Number(process.hrtime.bigint() - start) / 1e9;
}});
console.log(JSON.stringify(seconds.slice(requests.length)));
"""
Numbers = dict[str, Any]


def measure_case(case: Case, small: bool = False) -> Numbers:
    """Return the numbers of a case. small : few people, to try the script."""
    n_fitted, n_new, n_scored = (600, 300, 50) if small else (N_FITTED, N_NEW, N_SCORED)
    train, test = load(case.data).split(0.5, random_state=0)
    rng = np.random.default_rng(0)
    fitted, new = (rng.permutation(len(part.y))[:n] for part, n in ((train, n_fitted), (test, n_new)))
    X, y, groups = (take_rows(values, fitted) for values in (train.X, train.y, train.sensitive_features))
    options: dict[str, Any] = {"criterion": "dp", "tolerance": 0.02, "cv": 3, "random_state": 0}
    model = OptFairPost(MODELS[case.model](), **options, **SETTINGS[case.setting])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # convergence, groups of few people
        model.fit(X, y, sensitive_features=groups)
        X_new, new_groups = take_rows(test.X, new), take_rows(test.sensitive_features, new)
        told = new_groups if case.setting.startswith("aware") else None
        with tempfile.TemporaryDirectory() as folder:
            return _compare(model, Path(folder), X_new, told, n_scored)


def _compare(model: OptFairPost, folder: Path, X: Any, groups: Any, n_scored: int) -> Numbers:
    clock = time.perf_counter()
    [graph] = model.export(folder / "fair.onnx")
    seconds = time.perf_counter() - clock
    scorer = model.export(folder / "fair.json")[0]
    keys = [f"person {k}" for k in range(len(X))]
    some = np.arange(min(n_scored, len(X)))
    X_some, some_groups = take_rows(X, some), None if groups is None else take_rows(groups, some)
    comparisons = [compare_graph(model, graph, X, groups, keys)]
    comparisons += compare_scorers(model, scorer, X_some, some_groups, keys[: len(some)])
    h = model.predict_proba(X, **({} if groups is None else {"sensitive_features": groups}))
    numbers: Numbers = {
        "groups": len(model.groups_),
        "classes": len(model.classes_),
        "undecided": float((h.max(axis=1) < 0.99).mean()),
        "graph_bytes": graph.stat().st_size,
        "json_bytes": scorer.stat().st_size,
        "export_seconds": seconds,
    }
    for comparison in comparisons:
        numbers[comparison.runtime] = {
            "people": comparison.n,
            "largest": comparison.largest,
            "different": len(comparison.different),
        }
    if is_single(X):
        numbers["double"] = compare_graph(model, graph, X.astype(np.float64), groups, keys).largest
    return numbers | {"microseconds": _one_row(model, graph, scorer, X_some, some_groups)}


def is_single(X: Any) -> bool:
    """Tell whether a table has numbers of single precision, with which scikit-learn then computes."""
    return any(dtype == np.float32 for dtype in X.dtypes)


def _one_row(model: OptFairPost, graph: Path, scorer: Path, X: Any, groups: Any) -> Numbers:
    """Return the microseconds of one answer, in turn: native, onnxruntime, and the scorers, given a posterior."""
    session = open_graph(graph.read_bytes())
    names = InputNames(json.loads(session.get_modelmeta().custom_metadata_map["inputs"]))
    rows = [take_rows(X, [k]) for k in range(len(X))]
    told = [None if groups is None else take_rows(groups, [k]) for k in range(len(X))]
    feeds = [graph_feeds(names, row, group) for row, group in zip(rows, told, strict=True)]
    document = json.loads(scorer.read_text("utf-8"))
    features, codes = model._check_new_rows(X, groups)
    requests = [{"person": f"person {k}", "joint": z} for k, z in enumerate(model.posterior_model_(features).tolist())]
    if codes is not None:
        for request, code in zip(requests, codes.tolist(), strict=True):
            request["group"] = document["groups"][code]
    (scorer.parent / "requests.json").write_text(json.dumps(requests))
    (scorer.parent / "calls.mjs").write_text(NODE_CALLS.format())
    reader = scorer_module().Scorer(document, (model.rule_.key,))
    return {
        "native": _median(
            lambda k: model.predict(rows[k], **({} if groups is None else {"sensitive_features": told[k]})), len(rows)
        ),
        "onnxruntime": _median(lambda k: session.run(None, feeds[k]), len(rows)),
        "Python scorer": _median(lambda k: reader.answer(**requests[k]), len(rows)),
        "JavaScript scorer (node)": _node_median(scorer.parent, model.rule_.key),
    }


def _median(call: Callable[[int], Any], n: int) -> float:
    seconds = []
    for k in range(min(N_CALLS, n)):
        clock = time.perf_counter()
        call(k)
        seconds.append(time.perf_counter() - clock)
    return float(np.median(seconds) * 1e6)


def _node_median(folder: Path, key: bytes | None) -> float | None:
    """Return the microseconds of an answer in node, the second time that it is given; None where node is absent."""
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "OPTFAIR_KEY": "" if key is None else key.hex()}
    try:
        result = subprocess.run(
            ["node", "calls.mjs"], cwd=folder, env=environment, capture_output=True, text=True, check=True
        )
    except FileNotFoundError:
        return None
    return float(np.median(json.loads(result.stdout)) * 1e6)
