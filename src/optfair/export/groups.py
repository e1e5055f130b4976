"""Write as nodes which group a row is of, and the posterior placed in that group."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from optfair.errors import ExportError
from optfair.export.inputs import Column, FeatureTensors, InputNames, group_names
from optfair.export.tables import add_codes
from optfair.inputs.labels import MISSING
from optfair.portable.graph import GraphBuilder
from optfair.portable.rule_graph import label_tensor

REFUSED = -2  # the code of a missing group where `predict` refuses it


def add_group_codes(graph: GraphBuilder, model: Any, features: FeatureTensors, names: InputNames) -> str:
    """Return the code of each row's group, (n, 1), −1 for a group that was not seen in fit; from inputs or from X."""
    groups = model.groups_
    levels = list(groups.levels) if isinstance(groups, pd.MultiIndex) else [groups]
    if model.sensitive_features is None:
        columns = [
            _group_input(graph, level, name, names) for level, name in zip(levels, group_names(model), strict=True)
        ]
    else:
        columns = [_column(features, item) for item in _items(model.sensitive_features)]
    refuses_missing = model.missing != "group" and len(levels) == 1
    codes = [
        _level_codes(graph, column, level.tolist(), REFUSED if refuses_missing else -1)
        for column, level in zip(columns, levels, strict=True)
    ]
    if len(codes) == 1:
        return codes[0]
    # The place of a combination in a table of all of them; what was not seen in one attribute is the first of it.
    sizes = [len(level) + 1 for level in levels]
    strides = np.cumprod([1, *sizes[:0:-1]])[::-1]
    table = np.full(int(np.prod(sizes)), -1, dtype=np.int64)
    positions = sum((np.asarray(c, dtype=np.int64) + 1) * s for c, s in zip(groups.codes, strides, strict=True))
    table[positions] = np.arange(len(groups))
    unit = graph.constant(np.array(1))
    place = None
    for code, stride in zip(codes, strides.tolist(), strict=True):
        term = graph.add("Mul", graph.add("Add", code, unit), graph.constant(np.array(stride)))
        place = term if place is None else graph.add("Add", place, term)
    assert place is not None
    return graph.add("Gather", graph.constant(table), place, axis=0)


def _level_codes(graph: GraphBuilder, column: Column, labels: list[Any], absent: int) -> str:
    """Return the position of each entry among the names of an attribute, (n, 1), −1 where it is none of them.

    absent : of a missing one, where that is no group.
    """
    place = labels.index(MISSING) if MISSING in labels else -1
    names = [None if k == place else label for k, label in enumerate(labels)]
    return add_codes(graph, column, names, absent if place < 0 else place, -1)


def add_group_indicators(graph: GraphBuilder, codes: str, n_groups: int) -> str:
    """Return the indicators of the groups, (n, A) float64, all zero where a group was not seen."""
    return graph.cast(graph.add("Equal", codes, graph.constant(np.arange(n_groups))), np.float64)


def add_own_block(graph: GraphBuilder, Z: str, indicators: str, pooled: str) -> str:
    """Return P(Y | X, A), (n, m), of the group of each row; `pooled` where a model rules it out.   Z: (n, A, m)"""
    weights = graph.add("Unsqueeze", indicators, graph.constant(np.array([2])))
    block = graph.add("ReduceSum", graph.add("Mul", Z, weights), graph.constant(np.array([1])), keepdims=0)
    total = graph.add("ReduceSum", block, graph.constant(np.array([1])), keepdims=1)
    zero, unit = graph.constant(np.float64(0.0)), graph.constant(np.float64(1.0))
    is_possible = graph.add("Greater", total, zero)
    share = graph.add("Div", block, graph.add("Where", is_possible, total, unit))
    return graph.add("Where", is_possible, share, pooled)


def add_placed(graph: GraphBuilder, P: str, indicators: str, codes: str, Z: str, unseen: str) -> str:
    """Return z, (n, A, m): P(Y | X, A) in the block of the group, zero elsewhere.

    unseen : of a group that was not seen in fit, z is that of the models ("blind"), or not a number ("error").
    """
    blocks = graph.add("Unsqueeze", P, graph.constant(np.array([1])))
    weights = graph.add("Unsqueeze", indicators, graph.constant(np.array([2])))
    placed = graph.add("Mul", weights, blocks)
    is_seen = graph.add("GreaterOrEqual", codes, graph.constant(np.array(0)))
    is_seen = graph.add("Unsqueeze", is_seen, graph.constant(np.array([2])))
    nothing = graph.constant(np.float64(np.nan))
    if unseen != "blind":
        return graph.add("Where", is_seen, placed, nothing)
    is_refused = graph.add(
        "Unsqueeze", graph.add("Equal", codes, graph.constant(np.array(REFUSED))), graph.constant(np.array([2]))
    )
    return graph.add("Where", is_seen, placed, graph.add("Where", is_refused, nothing, Z))


def _group_input(graph: GraphBuilder, level: pd.Index, name: str, names: InputNames) -> Column:
    labels = [label for label in level.tolist() if label != MISSING or not isinstance(label, str)]
    values = label_tensor(labels)
    if values is None:
        raise ExportError(f"groups: {name!r} has names of several types; make them text, and fit again.")
    kind: Any = str if values.dtype == object else np.float64
    return Column(name, graph.add_input(names.add(name, kind, "group"), kind, ("n", 1)), kind is str)


def _items(source: Any) -> list[Any]:
    items = source if isinstance(source, list) else [source]
    if not all(isinstance(item, str) for item in items):
        raise ExportError("sensitive_features: is a function or a position; name the columns, and fit again.")
    return items


def _column(features: FeatureTensors, name: str) -> Column:
    return next(column for column in features.columns if column.name == name)
