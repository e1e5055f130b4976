"""Compare an exported model with the native one on people: the largest difference, and the answers that differ."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from optfair.errors import ExportError, brief_text
from optfair.export.inputs import InputNames, graph_feeds
from optfair.export.model_file import plain_value
from optfair.inputs.containers import layout_of
from optfair.inputs.frames import as_frame
from optfair.portable.runtime import open_graph
from optfair.portable.scorer_file import SCORER_NAMES, plain_label, scorer_module
from optfair.rule.decisions import check_keys, decide
from optfair.utils.progress import stage

BLOCK_ROWS = 10_000  # of one call of the graph


@dataclass(frozen=True)
class Comparison:
    """How an exported model compares with the native one.

    runtime : what ran it. largest : difference of a probability. different : positions of people with another answer.
    """

    runtime: str
    n: int
    largest: float
    different: tuple[int, ...]

    def __str__(self) -> str:
        answers = "all answers the same"
        if self.different:
            answers = f"{len(self.different):,} answers differ, the first in row {self.different[0] + 1}"
        return f"{self.runtime}: {self.n:,} people, largest difference of a probability {self.largest:.1e}, {answers}"


def compare_graph(model: Any, path: Path, X: Any, groups: Any, keys: Sequence[Any] | None) -> Comparison:
    """Compare ``fair.onnx``, run by onnxruntime, with a classifier. groups : as `predict` takes them, or None."""
    session = open_graph(path.read_bytes())
    metadata = session.get_modelmeta().custom_metadata_map
    names = InputNames(json.loads(metadata["inputs"]))
    if any(entry["role"] == "posterior" for entry in names.entries):
        feeds = _posterior_feeds(model, X, groups)
    else:
        feeds = graph_feeds(names, X, groups)
    h = _native(model, X, groups)
    parts = []
    for start in range(0, len(h), BLOCK_ROWS):
        block = {name: values[start : start + BLOCK_ROWS] for name, values in feeds.items()}
        parts.append(session.run(["probabilities"], block)[0])
    P = np.concatenate(parts)
    persons = list(keys) if keys is not None else list(range(len(h)))
    answers = [_codes(model, probabilities, persons) for probabilities in (h, P)]
    return _compared("onnxruntime", h, P, answers[0] != answers[1])


def compare_scorers(model: Any, path: Path, X: Any, groups: Any, keys: Sequence[Any] | None) -> list[Comparison]:
    """Compare ``fair.json``, read by the scorers beside it, with a classifier; JavaScript where node is there."""
    document = json.loads(path.read_text("utf-8"))
    h = _native(model, X, groups)
    requests = _requests(model, document, X, groups)
    persons = list(keys) if keys is not None else list(range(len(h)))
    expected = [plain_label(model.classes_[code], "classes") for code in _codes(model, h, persons)]
    secret = model._key()
    scorer = scorer_module().Scorer(document, () if secret is None else (secret,))
    answers, P = [], []
    with stage("asking the scorer", len(requests), unit="people") as work:
        for k, (person, request) in enumerate(zip(persons, requests, strict=True)):
            try:
                answers.append(scorer.answer(person, **request))
                P.append(scorer.probabilities(**request))
            except ValueError as error:
                raise _no_answer(SCORER_NAMES[0], k, error) from error
            work.advance(1)
    results = [_compared("Python scorer", h, np.array(P), _unequal(answers, expected))]
    if shutil.which("node"):
        lines = _ask_node(path, persons, requests, secret)
        P = [line["probabilities"] for line in lines]
        answers = [line["answer"] for line in lines]
        results.append(_compared("JavaScript scorer (node)", h, np.array(P), _unequal(answers, expected)))
    return results


def _posterior_feeds(model: Any, X: Any, groups: Any) -> dict[str, np.ndarray]:
    """Return what a graph behind the models is given: z, as the models say it, and the codes of the groups."""
    features, codes = model._check_new_rows(X, groups)
    feeds = {"joint": np.asarray(model.posterior_model_(features), dtype=np.float64)}
    return feeds if codes is None else feeds | {"group_code": np.asarray(codes, dtype=np.int64)[:, None]}


def _native(model: Any, X: Any, groups: Any) -> np.ndarray:
    """Return h by the model itself."""
    return np.asarray(model.predict_proba(X, **({} if groups is None else {"sensitive_features": groups})))


def _codes(model: Any, h: np.ndarray, persons: Sequence[Any]) -> np.ndarray:
    """Return decisions, by the hash of each person; of sampled ones the likeliest class."""
    decision = "argmax" if model.decision == "sampled" else model.decision
    keys = check_keys(persons, len(h)) if decision == "hashed" else None
    return decide(h, decision, lambda rows: [], keys, None, model._key(), model.hashing)


def _requests(model: Any, document: dict[str, Any], X: Any, groups: Any) -> list[dict[str, Any]]:
    """Return what the scorers are asked: features where they know the models, else what these say."""
    features, codes = model._check_new_rows(X, groups)
    if document["posterior"] is not None:
        is_named = document["posterior"]["columns"][0]["name"] is not None
        requests = [{"features": plain_value(row)} for row in _feature_rows(model, X, is_named)]
    else:
        models = model.fold_models_ or (model.posterior_model_,)
        raws = [posterior(features).tolist() for posterior in models]
        requests = [{"joint": list(zs) if len(zs) > 1 else zs[0]} for zs in zip(*raws, strict=True)]
    if codes is not None:
        # As they are given: what a scorer makes of a missing group, or of one it has not seen, is compared too.
        attributes = pd.DataFrame(model._groups_of(X, groups)).to_numpy(dtype=object).tolist()
        persons = [plain_value(labels if len(labels) > 1 else labels[0]) for labels in attributes]
        requests = [{**request, "group": group} for request, group in zip(requests, persons, strict=True)]
    return requests


def _feature_rows(model: Any, X: Any, is_named: bool) -> list[Any]:
    """Return rows as the scorers take them: by the names of the model, or as lists where it has none."""
    if layout_of(X) in ("pandas", "polars"):
        frame = as_frame(X)
        return frame.to_dict("records") if is_named else list(map(list, frame.itertuples(index=False, name=None)))
    rows = (X.toarray() if layout_of(X) == "sparse" else np.asarray(X)).tolist()
    if not is_named or any(isinstance(row, dict) for row in rows):
        return rows
    return [dict(zip(model._form.names, row, strict=True)) for row in rows]


def _ask_node(
    path: Path, persons: Sequence[Any], requests: Sequence[Any], secret: bytes | None
) -> list[dict[str, Any]]:
    """Return the answers of the JavaScript scorer, in a process of its own; it gets the key in its environment."""
    lines = (json.dumps({"person": person, **request}) for person, request in zip(persons, requests, strict=True))
    environment = os.environ if secret is None else {**os.environ, "OPTFAIR_KEY": secret.hex()}
    command = ["node", str(path.with_name(SCORER_NAMES[1])), str(path)]
    with stage("asking the JavaScript scorer"):
        result = subprocess.run(command, input="\n".join(lines), env=environment, capture_output=True, encoding="utf-8")
    texts = [text for text in result.stdout.split("\n") if text]
    if result.returncode and len(texts) < len(requests):
        raise ExportError(f"{SCORER_NAMES[1]}: node could not run it ({brief_text(result.stderr, 200)}).")
    replies = [json.loads(text) for text in texts]
    for k, reply in enumerate(replies):
        if "error" in reply:
            raise _no_answer(SCORER_NAMES[1], k, reply["error"])
    return replies


def _no_answer(scorer: str, row: int, error: object) -> ExportError:
    """Return the error that a scorer refuses a person whom the model answers."""
    return ExportError(f"{scorer}: has no answer for row {row + 1}, and the model has one ({brief_text(error, 200)}).")


def _compared(runtime: str, h: np.ndarray, P: np.ndarray, is_different: np.ndarray) -> Comparison:
    return Comparison(runtime, len(h), float(np.abs(P - h).max()), tuple(np.flatnonzero(is_different).tolist()))


def _unequal(answers: Sequence[Any], expected: Sequence[Any]) -> np.ndarray:
    return np.array([answer != label for answer, label in zip(answers, expected, strict=True)])
