"""Export a fitted classifier to where there is no optfair: an ONNX graph, or a file for scorers of one file."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from optfair.errors import ExportError
from optfair.export.calibration import add_aware_calibration, add_blind_calibration, add_sum, calibration_content
from optfair.export.examples import example_groups, example_rows
from optfair.export.groups import add_group_codes, add_group_indicators, add_own_block, add_placed
from optfair.export.inputs import OTHER_WAY, InputNames, feature_tensors, graph_feeds, plain_groups
from optfair.export.linear import linear_posterior
from optfair.export.posterior import add_mixture, add_posterior
from optfair.export.steps import StepWriter
from optfair.inprocessing.mixture import NEGLIGIBLE
from optfair.inputs.containers import take_rows
from optfair.portable.graph import DEFAULT_OPSET, GraphBuilder
from optfair.portable.rule_graph import RuleTensors, add_mean, add_rule
from optfair.portable.scorer_file import SLACK, plain_label, write_scorer
from optfair.posteriors.models import place_in_groups
from optfair.rule.decisions import TIE
from optfair.rule.exporting import (
    N_CASES,
    add_answers,
    check_path,
    graph_facts,
    posterior_rows,
    rule_facts,
    scorer_document,
    telling_rows,
    test_cases,
    write_graph,
)
from optfair.utils.checks import check_choice

INPUTS = ("features", "posterior")
N_ALONE = 500  # rows that are tried one by one where a model refuses values that nobody had


def export_model(
    model: Any,
    path: Any,
    *,
    inputs: str = "features",
    opset: int = DEFAULT_OPSET,
    max_difference: float = SLACK,
) -> list[Path]:
    """Write a fitted classifier without its secret key, if its test vectors come out; return the files.

    inputs : of a graph: what `predict` is given, or z of the models ("posterior").
    """
    check_choice("inputs", inputs, INPUTS)
    target = check_path(path, model.decision)
    if target.suffix.lower() == ".json":
        return write_scorer(target, model_document(model))
    graph, names = GraphBuilder(opset), InputNames()
    if inputs == "posterior":
        feeds, h = _posterior_graph(graph, model, names)
    else:
        tensors = _feature_graph(graph, model, names)
        add_answers(graph, tensors, model.classes_.tolist(), model.decision)
        X, groups, h = _answered_examples(model)
        feeds = graph_feeds(names, X, groups)
    rows = telling_rows(h)
    cases = test_cases(_feed_cases(feeds, rows), h[rows], model.classes_, model.decision, model.hashing)
    facts = graph_facts(_facts(model), model._key(), model.decision, model.hashing, cases)
    return [write_graph(target, graph, feeds, h, {**facts, "inputs": names.entries}, max_difference)]


# -- graphs ------------------------------------------------------------------------------------------------
def _feature_graph(graph: GraphBuilder, model: Any, names: InputNames) -> RuleTensors:
    """Write a graph from what `predict` is given to the answers."""
    features, writer = feature_tensors(graph, model, names), StepWriter(graph)
    if hasattr(model, "mixture_"):
        if model.awareness == "aware":
            raise ExportError(
                "awareness='aware': votes of models that are told the group are not exported; use OptFairPost."
            )
        return RuleTensors(add_mixture(graph, writer, model.mixture_, features, 1 - NEGLIGIBLE))
    codes = add_group_codes(graph, model, features, names) if model.awareness == "aware" else None
    if codes is None:
        features = features.without(model.sensitive_features)
    models = model.fold_models_ or (model.posterior_model_,)
    rules = [_add_rule(graph, model, add_posterior(graph, writer, part, features), part, codes) for part in models]
    scores = [rule.scores for rule in rules if rule.scores is not None]
    return RuleTensors(add_mean(graph, [rule.probabilities for rule in rules]), add_mean(graph, scores))


def _add_rule(graph: GraphBuilder, model: Any, Z: str, posterior: Any, codes: str | None) -> RuleTensors:
    """Write calibration and rule behind z, (n, A, m). codes : of the groups, (n, 1), where the rule is aware."""
    A, m = len(model.groups_), len(model.classes_)
    if codes is None:
        Z = add_blind_calibration(graph, model.calibration_, Z, A, m)
    else:
        indicators, pooled = add_group_indicators(graph, codes, A), add_sum(graph, Z, 1)
        P = add_own_block(graph, Z, indicators, pooled)
        P = add_aware_calibration(graph, model.calibration_, P, pooled, indicators)
        Z = add_placed(graph, P, indicators, codes, Z, model.unseen)
    return add_rule(graph, model.rule_, graph.add("Reshape", Z, graph.constant(np.array([-1, A * m]))), TIE)


def _posterior_graph(graph: GraphBuilder, model: Any, names: InputNames) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Write a graph from z of the models to the answers; return inputs to test it with, and their probabilities."""
    _check_single(model)
    shape = len(model.groups_), len(model.classes_)
    Z = graph.add_input("joint", np.float64, ("n", *shape))
    names.entries.append({"name": "joint", "input": "joint", "type": "float64", "role": "posterior"})
    raw, group = _posterior_examples(model)
    feeds, codes = {"joint": raw}, None
    if group is not None:
        codes = graph.add_input("group_code", np.int64, ("n", 1))
        names.entries.append({"name": "group", "input": "group_code", "type": "int64", "role": "group"})
        feeds["group_code"] = group[:, None].astype(np.int64)
    tensors = _add_rule(graph, model, Z, model.posterior_model_, codes)
    add_answers(graph, tensors, model.classes_.tolist(), model.decision)
    return feeds, _rule_answers(model, [raw], group)


def _check_single(model: Any) -> None:
    if not hasattr(model, "rule_"):
        raise ExportError(
            f"{type(model).__name__}: answers by votes of trained models, and has no rule on P(A, Y | X); export it as "
            ".onnx, from its features."
        )
    if model.fold_models_:
        raise ExportError(
            f"ensemble: the answers are a mixture of the rules of {len(model.fold_models_)} models; export them from "
            "their features, or as .json."
        )


def _feed_cases(feeds: dict[str, np.ndarray], rows: np.ndarray) -> list[dict[str, Any]]:
    """Return inputs row by row, as JSON has them."""
    return [{name: plain_value(values[k]) for name, values in feeds.items()} for k in rows.tolist()]


def plain_value(value: Any) -> Any:
    """Return numbers, texts and what holds them as JSON has them; not a number is null."""
    if isinstance(value, np.ndarray):
        return plain_value(value.tolist())
    if isinstance(value, list):
        return [plain_value(entry) for entry in value]
    if isinstance(value, dict):
        return {name: plain_value(entry) for name, entry in value.items()}
    value = value.item() if isinstance(value, np.generic) else value
    return None if value is None or value is pd.NA or value != value else value


# -- files for scorers -------------------------------------------------------------------------------------
def model_document(model: Any) -> dict[str, Any]:
    """Return what the scorers read of a classifier: rule, calibration, and the models where they are linear."""
    if not hasattr(model, "rule_"):
        _check_single(model)
    n_models = max(1, len(model.fold_models_))
    examples = [_posterior_examples(model, seed) for seed in range(n_models)]
    raws, group = [raw for raw, _ in examples], examples[0][1]
    rows = telling_rows(_rule_answers(model, raws, group))
    raws, group = [raw[rows] for raw in raws], None if group is None else group[rows]
    h = _rule_answers(model, raws, group)
    inputs: list[dict[str, Any]] = [
        {
            "joint": raws[0][k].tolist() if n_models == 1 else [raw[k].tolist() for raw in raws],
            **_named(model, group, k),
        }
        for k in range(len(rows))
    ]
    posterior = linear_posterior(model)
    if posterior is not None:
        inputs, h = _with_features(model, inputs, h)
    cases = test_cases(inputs, h, model.classes_, model.decision, model.hashing)
    return scorer_document(
        model.rule_,
        model.decision,
        model.hashing,
        cases,
        aware=model.awareness == "aware",
        missing=model.missing,
        unseen=model.unseen,
        models=n_models,
        calibration=calibration_content(model.calibration_),
        posterior=posterior,
    )


def _posterior_examples(model: Any, seed: int = 0) -> tuple[np.ndarray, np.ndarray | None]:
    """Return z of nobody, (n, A, m), and codes of groups where the rule is told them."""
    raw = posterior_rows((len(model.groups_), len(model.classes_)), seed)
    if model.awareness == "blind":
        return raw, None
    return raw, np.random.default_rng(1).integers(len(model.groups_), size=len(raw))


def _rule_answers(model: Any, raws: list[np.ndarray], group: np.ndarray | None) -> np.ndarray:
    """Return h of z as the models give it, one after the other; the mean of their rules."""
    models = model.fold_models_ or (model.posterior_model_,)
    answers = []
    for posterior, raw in zip(models, raws, strict=True):
        placed = raw if group is None else place_in_groups(raw, group)
        answers.append(model.rule_.predict_proba(model._calibrated(posterior, raw, placed, group)))
    return np.asarray(np.mean(answers, axis=0))


def _with_features(model: Any, inputs: list[dict[str, Any]], h: np.ndarray) -> tuple[list[dict[str, Any]], np.ndarray]:
    """Return every other test vector, and rows of features in place of the others."""
    X, groups, answers = _answered_examples(model)
    rows = telling_rows(answers)[::2]
    frame = X.to_dict("records") if isinstance(X, pd.DataFrame) else np.asarray(X).tolist()
    features: list[dict[str, Any]] = []
    codes = None if model.awareness == "blind" else _group_codes(model, X, groups)
    for row in rows.tolist():
        features.append({"features": plain_value(frame[row]), **_named(model, codes, row)})
    return [*inputs[::2], *features], np.concatenate([h[::2], answers[rows]])


def _answered_examples(model: Any) -> tuple[Any, Any, np.ndarray]:
    """Return rows of nobody, their groups, and h; without values that nobody had where a step refuses those."""
    for strangers in (True, False):
        X = example_rows(model, strangers=strangers)
        groups = example_groups(model, len(X))
        with contextlib.suppress(ValueError):
            return X, groups, model.predict_proba(X, **_told(groups))
    places, answers = [], []
    for row in range(N_ALONE):
        part = take_rows(X, np.array([row])), None if groups is None else take_rows(groups, np.array([row]))
        with contextlib.suppress(ValueError):
            answers.append(model.predict_proba(part[0], **_told(part[1])))
            places.append(row)
    if len(places) < N_CASES:
        raise ExportError(
            "estimator: refuses nearly all rows that are made up to test the export with; let its encoders take "
            f"unknown values (handle_unknown='ignore'), and fit again. {OTHER_WAY}."
        )
    rows = np.array(places)
    return take_rows(X, rows), None if groups is None else take_rows(groups, rows), np.concatenate(answers)


def _group_codes(model: Any, X: Any, groups: Any) -> np.ndarray:
    _, codes = model._check_new_rows(X, groups)
    return np.asarray(codes)


def _named(model: Any, codes: np.ndarray | None, row: int) -> dict[str, Any]:
    return {} if codes is None else {"group": plain_label(model.groups_[codes[row]], "groups")}


def _told(groups: Any) -> dict[str, Any]:
    return {} if groups is None else {"sensitive_features": groups}


def _facts(model: Any) -> dict[str, Any]:
    """Return who and what the answers are for."""
    from optfair import __version__

    awareness = {"awareness": model.awareness}
    if hasattr(model, "rule_"):
        return rule_facts(model.rule_) | awareness
    classes = [plain_label(label, "classes") for label in model.classes_.tolist()]
    criteria = list(dict.fromkeys(map(str, model.multipliers_["criterion"])))
    facts = {"optfair": __version__, "classes": classes, "groups": plain_groups(model.groups_), "criteria": criteria}
    tolerances = [getattr(constraint, "tolerance", None) for constraint in model.constraints_]
    return {**facts, "tolerance": tolerances[0] if len(tolerances) == 1 else None, **awareness}
