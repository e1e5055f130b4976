"""Write a fair rule as ONNX nodes:  h = softmax((z W − max) / z τ), mixed with a constant, all in double precision."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from optfair.portable.graph import GraphBuilder


class RuleNumbers(Protocol):
    """What a rule is made of.   weights: (A, m, m)   temperatures: (A, m)   share, constant (m,): what is mixed in"""

    @property
    def weights(self) -> np.ndarray: ...
    @property
    def temperatures(self) -> np.ndarray: ...
    @property
    def share(self) -> float: ...
    @property
    def constant(self) -> np.ndarray: ...


class RuleTensors(NamedTuple):
    """Names of the tensors of a rule, (n, m) each; scores where there are any."""

    probabilities: str
    scores: str | None = None


def add_rule(graph: GraphBuilder, rule: RuleNumbers, z: str, tie: float) -> RuleTensors:
    """Add the nodes of a rule.   z: (n, p)   tie : scores this close are equal"""
    m = rule.weights.shape[-1]
    tau = rule.temperatures.reshape(-1, 1)
    scores = graph.add("MatMul", z, graph.constant(rule.weights.reshape(-1, m)))
    if tau.any():
        best = graph.add("ReduceMax", scores, graph.constant(np.array([1])), keepdims=1)
        cooled = graph.add("Div", graph.add("Sub", scores, best), graph.add("MatMul", z, graph.constant(tau)))
        h = graph.add("Softmax", cooled, axis=1)
    else:
        h = add_where_number(graph, scores, add_choice(graph, add_first_best(graph, scores, tie), m))
    if rule.share > 0:
        rest = graph.add("Mul", h, graph.constant(np.float64(1.0 - rule.share)))
        h = graph.add("Add", rest, graph.constant(rule.share * rule.constant))
    return RuleTensors(h, scores)


def add_first_best(graph: GraphBuilder, scores: str, tie: float) -> str:
    """Add the position of the first class within rounding of the best one, (n, 1)."""
    best = graph.add("ReduceMax", scores, graph.constant(np.array([1])), keepdims=1)
    least = graph.add("Sub", best, graph.constant(np.float64(tie)))
    near = graph.cast(graph.add("GreaterOrEqual", scores, least), np.int32)
    return graph.add("ArgMax", near, axis=1, keepdims=1)


def add_where_number(graph: GraphBuilder, scores: str, values: str) -> str:
    """Add values (n, m) of the rows whose scores are numbers; of the others they are not numbers either."""
    total = graph.add("ReduceSum", scores, graph.constant(np.array([1])), keepdims=1)
    return graph.add("Where", graph.add("IsNaN", total), graph.constant(np.float64(np.nan)), values)


def add_choice(graph: GraphBuilder, positions: str, m: int) -> str:
    """Add indicators of positions, (n, 1) → (n, m)."""
    return graph.cast(graph.add("Equal", positions, graph.constant(np.arange(m))), np.float64)


def add_drawn(graph: GraphBuilder, h: str, certain: float) -> str:
    """Add whether no class has a probability that counts as one, so that the answer is drawn, (n,)."""
    likeliest = graph.add("ReduceMax", h, graph.constant(np.array([1])), keepdims=0)
    return graph.add("Not", graph.add("GreaterOrEqual", likeliest, graph.constant(np.float64(certain))))  # not a number


def add_mean(graph: GraphBuilder, tensors: list[str]) -> str:
    """Add the mean of tensors of one shape; of one tensor it is the tensor itself."""
    if len(tensors) == 1:
        return tensors[0]
    total = graph.add("Sum", *tensors)
    return graph.add("Div", total, graph.constant(np.float64(len(tensors))))


def no_label(labels: np.ndarray) -> Any:
    """Return what stands for no class among labels of this type; None where every value may be one."""
    if labels.dtype == object:
        return np.array("", dtype=object)
    return {"f": np.float64(np.nan), "i": np.iinfo(np.int64).min}.get(labels.dtype.kind)


def label_tensor(labels: Any) -> np.ndarray | None:
    """Return labels as ONNX has them: int64, float64, bool or text; None where it has no such type."""
    values = [label.item() if isinstance(label, np.generic) else label for label in labels]
    for kind, dtype in ((bool, bool), (int, np.int64), (float, np.float64), (str, object)):
        if all(type(value) is kind for value in values):
            try:
                return np.array(values, dtype=dtype)
            except OverflowError:
                return None
    return None
