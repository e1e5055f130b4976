"""Write trees as nodes, in double precision, as scikit-learn and LightGBM compute them.

Other converters compare in single precision: a row between a threshold and its rounding then falls on the other side.
A forest is one operator of all its trees (ONNX-ML 5). Of a tree whose leaves hold several numbers it gives the leaf,
whose numbers are looked up; else the sum of the leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from optfair.errors import ExportError, need_extra
from optfair.export.inputs import OTHER_WAY, FeatureTensors
from optfair.portable.graph import ML, TREES_OPSET, GraphBuilder

LESS_OR_EQUAL, SUM = 0, 1  # codes of the operator
LIGHTGBM_MISSING = ("None", "NaN")  # how a split may treat missing values; zero as missing is not an operator's
LIGHTGBM_ZERO = float(np.float32(1e-35))  # numbers up to this are zeros to it, and it has thresholds there


@dataclass(frozen=True, eq=False)
class Tree:
    """A binary tree; node 0 is its root. A row goes left where its feature is at most the threshold.

    left, right : children, −1 of a leaf. missing_left : where a missing value goes. value : (nodes, k) of the leaves.
    """

    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    missing_left: np.ndarray
    value: np.ndarray


def add_trees(graph: GraphBuilder, X: str, trees: Sequence[Tree], targets: Sequence[int], n_targets: int) -> str:
    """Return sums of the leaves of all trees by their targets, (n, n_targets).   X: (n, d) float64"""
    attributes: dict[str, list[Any]] = {name: [] for name in _NODE_FIELDS}
    roots: list[int] = []
    weights: list[float] = []
    leaf_targets: list[int] = []
    for tree, target in zip(trees, targets, strict=True):
        inner, leaves = np.flatnonzero(tree.left >= 0), np.flatnonzero(tree.left < 0)
        left, right = tree.left, tree.right
        if not len(inner):  # a tree of one leaf: a split both sides of which are that leaf
            inner, left, right = np.array([0]), np.array([0]), np.array([0])
        position = np.full(len(tree.left), -1)
        if len(leaves) < len(tree.left):
            position[inner] = len(attributes["nodes_featureids"]) + np.arange(len(inner))
        roots.append(len(attributes["nodes_featureids"]))
        is_leaf = tree.left < 0
        position[leaves] = len(weights) + np.arange(len(leaves))
        fields = {
            "nodes_featureids": np.maximum(tree.feature[inner], 0),
            "nodes_splits": tree.threshold[inner],
            "nodes_truenodeids": position[left[inner]],
            "nodes_falsenodeids": position[right[inner]],
            "nodes_trueleafs": is_leaf[left[inner]].astype(int),
            "nodes_falseleafs": is_leaf[right[inner]].astype(int),
            "nodes_missing_value_tracks_true": tree.missing_left[inner].astype(int),
        }
        for name, values in fields.items():
            attributes[name] += values.tolist()
        weights += tree.value[leaves, 0].tolist()
        leaf_targets += [target] * len(leaves)
    tensors = need_extra("onnx.numpy_helper", "export")
    splits = np.array(attributes.pop("nodes_splits"), dtype=np.float64)
    graph.need(ML, TREES_OPSET)
    return graph.add(
        "TreeEnsemble",
        X,
        domain=ML,
        tree_roots=roots,
        nodes_splits=tensors.from_array(splits),
        nodes_modes=tensors.from_array(np.full(len(splits), LESS_OR_EQUAL, dtype=np.uint8)),
        leaf_weights=tensors.from_array(np.array(weights, dtype=np.float64)),
        leaf_targetids=leaf_targets,
        n_targets=n_targets,
        aggregate_function=SUM,
        post_transform=0,
        **attributes,
    )


_NODE_FIELDS = (
    "nodes_featureids",
    "nodes_splits",
    "nodes_truenodeids",
    "nodes_falsenodeids",
    "nodes_trueleafs",
    "nodes_falseleafs",
    "nodes_missing_value_tracks_true",
)


# -- scikit-learn ------------------------------------------------------------------------------------------
def add_forest(graph: GraphBuilder, model: Any, features: FeatureTensors) -> str:
    """Return the probabilities of a tree, or of a forest: the mean over its trees of the shares in their leaves."""
    estimators = getattr(model, "estimators_", [model])
    trees: list[Tree] = []
    shares: list[list[float]] = []
    for estimator in estimators:
        inner = estimator.tree_
        share = inner.value[:, 0, :] / inner.value[:, 0, :].sum(axis=1, keepdims=True)
        leaves = np.flatnonzero(inner.children_left < 0)
        numbers = np.zeros((inner.node_count, 1))
        numbers[leaves, 0] = len(shares) + np.arange(len(leaves))
        shares += share[leaves].tolist()
        trees.append(_sklearn_tree(inner, numbers))
    X = _single_precision(graph, features)
    leaf = graph.cast(add_trees(graph, X, trees, range(len(trees)), len(trees)), np.int64)
    values = graph.add("Gather", graph.constant(np.array(shares)), leaf, axis=0)
    return graph.add("ReduceMean", values, graph.constant(np.array([1])), keepdims=0)


def add_gradient_boosting(graph: GraphBuilder, model: Any, features: FeatureTensors) -> str:
    """Return the probabilities of gradient boosting that starts from the shares of the classes."""
    initial = model._raw_predict_init(np.zeros((1, model.n_features_in_)))[0]
    if model.init_ != "zero" and type(model.init_).__name__ != "DummyClassifier":
        raise ExportError(
            f"estimator: {type(model).__name__} starts from another model (init=), which is not exported. {OTHER_WAY}."
        )
    k = model.estimators_.shape[1]
    trees = [
        _sklearn_tree(tree.tree_, model.learning_rate * tree.tree_.value[:, 0, :]) for tree in model.estimators_.ravel()
    ]
    X = _single_precision(graph, features)
    sums = add_trees(graph, X, trees, [number % k for number in range(len(trees))], k)
    scores = graph.add("Add", sums, graph.constant(initial.astype(np.float64)))
    if model.loss == "exponential":
        scores = graph.add("Mul", scores, graph.constant(np.float64(2.0)))
    return add_link(graph, scores, k)


def add_hist_gradient_boosting(graph: GraphBuilder, model: Any, features: FeatureTensors) -> str:
    """Return the probabilities of histogram-based gradient boosting without categorical features."""
    if model.is_categorical_ is not None and np.any(model.is_categorical_):
        raise ExportError(
            f"estimator: {type(model).__name__} has categorical features, whose splits are not exported; encode them "
            f"before it, as optfair.TableEncoder does. {OTHER_WAY}."
        )
    trees = [tree for iteration in model._predictors for tree in iteration]
    k = len(model._predictors[0])
    sums = add_trees(
        graph, features.matrix(graph), list(map(_hist_tree, trees)), [number % k for number in range(len(trees))], k
    )
    return add_link(graph, graph.add("Add", sums, graph.constant(model._baseline_prediction.reshape(1, -1))), k)


def add_link(graph: GraphBuilder, scores: str, k: int) -> str:
    """Return the probabilities of scores, (n, k): of one score that of the second of two classes."""
    if k > 1:
        return graph.add("Softmax", scores, axis=1)
    second = graph.add("Sigmoid", scores)
    return graph.add("Concat", graph.add("Sub", graph.constant(np.float64(1.0)), second), second, axis=1)


def _single_precision(graph: GraphBuilder, features: FeatureTensors) -> str:
    """Return the features as trees of scikit-learn read them: rounded to single precision, compared in double."""
    return graph.cast(graph.cast(features.matrix(graph), np.float32), np.float64)


def _sklearn_tree(inner: Any, value: np.ndarray) -> Tree:
    missing_left = getattr(inner, "missing_go_to_left", np.zeros(inner.node_count))
    return Tree(inner.feature, inner.threshold, inner.children_left, inner.children_right, missing_left, value)


def _hist_tree(predictor: Any) -> Tree:
    nodes = predictor.nodes
    is_leaf = nodes["is_leaf"].astype(bool)
    left = np.where(is_leaf, -1, nodes["left"].astype(np.int64))
    right = np.where(is_leaf, -1, nodes["right"].astype(np.int64))
    feature, threshold = nodes["feature_idx"].astype(np.int64), nodes["num_threshold"].astype(np.float64)
    return Tree(feature, threshold, left, right, nodes["missing_go_to_left"], nodes["value"].reshape(-1, 1))


# -- LightGBM ----------------------------------------------------------------------------------------------
def add_lightgbm(graph: GraphBuilder, model: Any, features: FeatureTensors) -> str:
    """Return the probabilities of a classifier of LightGBM with numerical splits."""
    content = model.booster_.dump_model(num_iteration=getattr(model, "best_iteration_", None) or -1)
    objective = str(content["objective"]).split()
    k = content["num_tree_per_iteration"]
    if objective[0] not in ("binary", "multiclass") or content.get("average_output"):
        raise ExportError(
            f"estimator: LightGBM with objective {objective[0]!r}, or as a forest, is not exported. {OTHER_WAY}."
        )
    trees = [_lightgbm_tree(tree["tree_structure"]) for tree in content["tree_info"]]
    targets = [number % k for number in range(len(trees))]
    X, zero = features.matrix(graph), graph.constant(np.float64(0.0))
    is_zero = graph.add("LessOrEqual", graph.add("Abs", X), graph.constant(np.float64(LIGHTGBM_ZERO)))
    scores = add_trees(graph, graph.add("Where", is_zero, zero, X), trees, targets, k)
    slope = next((float(word.partition(":")[2]) for word in objective if word.startswith("sigmoid:")), 1.0)
    if k == 1 and slope != 1.0:
        scores = graph.add("Mul", scores, graph.constant(np.float64(slope)))
    return add_link(graph, scores, k)


def _lightgbm_tree(root: dict[str, Any]) -> Tree:
    """Return a tree of a dump, whose nodes are numbered from the root on."""
    lines: list[tuple[int, float, int, int, bool, float]] = []
    waiting: list[tuple[dict[str, Any], int, int]] = [(root, -1, 0)]
    while waiting:
        node, parent, side = waiting.pop()
        number = len(lines)
        if parent >= 0:
            line = list(lines[parent])
            line[2 + side] = number
            lines[parent] = tuple(line)  # type: ignore[assignment]
        if "split_feature" not in node:
            lines.append((-2, 0.0, -1, -1, False, float(node["leaf_value"])))
            continue
        if node["decision_type"] != "<=" or node["missing_type"] not in LIGHTGBM_MISSING:
            raise ExportError(
                "estimator: a tree of LightGBM splits by categories, or takes zeros as missing, which is not exported; "
                f"encode categories before it, as optfair.TableEncoder does. {OTHER_WAY}."
            )
        # Without missing values in the data fitted on, one is taken for a zero.
        missing_left = node["default_left"] if node["missing_type"] == "NaN" else float(node["threshold"]) >= 0.0
        lines.append((node["split_feature"], float(node["threshold"]), 0, 0, missing_left, 0.0))
        waiting += [(node["right_child"], number, 1), (node["left_child"], number, 0)]
    feature, threshold, left, right, missing_left, value = map(np.array, zip(*lines, strict=True))
    return Tree(feature, threshold, left, right, missing_left, value.reshape(-1, 1))
