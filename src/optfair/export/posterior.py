"""Write as nodes what the models of a fitted classifier say of a row: z(x) = P(A, Y | X=x), before calibration."""

from __future__ import annotations

from typing import Any

import numpy as np

from optfair.errors import ExportError
from optfair.export.calibration import add_places
from optfair.export.inputs import OTHER_WAY, FeatureTensors
from optfair.export.steps import StepWriter
from optfair.inprocessing.mixture import Mixture, ModelScores
from optfair.portable.graph import GraphBuilder
from optfair.posteriors.models import ClassModel, FactoredModel, GivenGroupModel, GroupModels, JointModel
from optfair.posteriors.preprocessing import fitted_steps


def add_posterior(graph: GraphBuilder, writer: StepWriter, model: Any, features: FeatureTensors) -> str:
    """Return z of a fitted posterior model, (n, A, m)."""
    if isinstance(model, JointModel):
        P = writer.probabilities(model.model, features)
        cells = add_places(
            graph, P, model.cells[np.asarray(model.model.classes_, dtype=int)], int(np.prod(model.shape))
        )
        return graph.add("Reshape", cells, graph.constant(np.array([-1, *model.shape])))
    if isinstance(model, FactoredModel):
        P = _class_probabilities(graph, writer, model.classes, features)
        return _joint(graph, writer, model.groups, features, P)
    if isinstance(model, GivenGroupModel):
        P = _class_probabilities(graph, writer, model.classes, features)
        blocks = graph.add("Unsqueeze", P, graph.constant(np.array([1])))
        return graph.add("Mul", blocks, graph.constant(np.full((1, model.n_groups, 1), 1.0 / model.n_groups)))
    raise ExportError(f"posterior_model_: {type(model).__name__} is not exported. {OTHER_WAY}.")


def _class_probabilities(graph: GraphBuilder, writer: StepWriter, model: ClassModel, features: FeatureTensors) -> str:
    """Return P(Y | X), (n, m)."""
    inner = model.model
    if isinstance(inner, ModelScores):
        features = features.without(inner.unused)
        if inner.transformer is not None:
            features = writer.transform(fitted_steps(inner.transformer), features)
        P, codes = writer.probabilities(inner.model, features), np.asarray(inner.model.classes_, dtype=int)
        return add_places(graph, P, model.columns[codes], model.m)
    return add_places(graph, writer.probabilities(inner, features), model.columns, model.m)


def _joint(graph: GraphBuilder, writer: StepWriter, model: GroupModels, features: FeatureTensors, P: str) -> str:
    """Return z, (n, A, m), from P(Y | X) and the models of the group in each class."""
    m, A = model.shares.shape
    if model.transformer is not None:
        features = writer.transform(fitted_steps(model.transformer), features)
    columns = []
    for i, (inner, groups) in enumerate(zip(model.models, model.columns, strict=True)):
        if inner is None:
            share = graph.constant(model.shares[i][None])
        else:
            share = add_places(graph, writer.probabilities(inner, features), np.asarray(groups), A)
        class_share = graph.add("Gather", P, graph.constant(np.array([i])), axis=1)
        columns.append(graph.add("Unsqueeze", graph.add("Mul", share, class_share), graph.constant(np.array([2]))))
    return columns[0] if m == 1 else graph.add("Concat", *columns, axis=2)


def add_mixture(
    graph: GraphBuilder, writer: StepWriter, mixture: Mixture, features: FeatureTensors, certain: float
) -> str:
    """Return the shares of the votes of trained models, (n, m). certain : a share beyond this is all of them."""
    if mixture.transformer is not None:
        features = writer.transform(fitted_steps(mixture.transformer), features)
    total = None
    for model, weight in zip(mixture.members, mixture.weights.tolist(), strict=True):
        if weight == 0.0:
            continue
        votes = writer.votes(model, features, mixture.n_classes)
        vote = graph.add("Mul", votes, graph.constant(np.float64(weight)))
        total = vote if total is None else graph.add("Add", total, vote)
    assert total is not None
    is_all = graph.add("Greater", total, graph.constant(np.float64(certain)))
    return graph.add("Where", is_all, graph.constant(np.float64(1.0)), total)
