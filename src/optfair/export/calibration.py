"""Write the calibration of a posterior, as nodes and as JSON."""

from __future__ import annotations

from typing import Any

import numpy as np

from optfair.portable.graph import GraphBuilder
from optfair.posteriors.calibration import AwareCalibration, FactorCalibration, JointCalibration
from optfair.posteriors.scaling import CLIP, AwareScaling, Scaling, ShareScaling


# -- nodes -------------------------------------------------------------------------------------------------
def add_blind_calibration(graph: GraphBuilder, calibration: Any, Z: str, A: int, m: int) -> str:
    """Return ẑ of rows Z, (n, A, m), of people whose groups are not used."""
    if calibration is None:
        return Z
    all_cells, cube = graph.constant(np.array([-1, A * m])), graph.constant(np.array([-1, A, m]))
    total = add_sum(graph, Z, 1)
    if isinstance(calibration, JointCalibration):
        cells = add_scaling(graph, calibration.scaling, [graph.add("Reshape", Z, all_cells)])
        cells = graph.add("Reshape", cells, cube)
        return _with_classes(graph, cells, total, A) if calibration.keeps_classes else cells
    assert isinstance(calibration, FactorCalibration)
    shares, columns = _shares(graph, Z, total, A), []
    for i, scaling in enumerate(calibration.groups):
        share = graph.add("Gather", shares, graph.constant(np.array(i)), axis=2)
        values = [share, total] if isinstance(scaling, ShareScaling) else [share]
        columns.append(graph.add("Unsqueeze", add_scaling(graph, scaling, values), graph.constant(np.array([2]))))
    P = total if calibration.classes is None else add_scaling(graph, calibration.classes, [total])
    joined = columns[0] if len(columns) == 1 else graph.add("Concat", *columns, axis=2)
    return graph.add("Mul", joined, graph.add("Unsqueeze", P, graph.constant(np.array([1]))))


def add_aware_calibration(graph: GraphBuilder, calibration: Any, P: str, pooled: str, indicators: str) -> str:
    """Return P(Y | X, A), calibrated, (n, m).   P, pooled: P(Y | X, A) and P(Y | X)   indicators: of groups, (n, A)"""
    if calibration is None:
        return P
    assert isinstance(calibration, AwareCalibration)
    if calibration.classes is None:
        return pooled
    if isinstance(calibration.classes, AwareScaling):
        shift = graph.add("MatMul", indicators, graph.constant(calibration.classes.intercepts))
        return _scaled(
            graph, calibration.classes, calibration.classes.classes, [P, pooled], shift, calibration.classes.m
        )
    total = None
    for a, scaling in enumerate(calibration.classes):
        indicator = graph.add("Gather", indicators, graph.constant(np.array([a])), axis=1)
        term = graph.add("Mul", add_scaling(graph, scaling, [P]), indicator)
        total = term if total is None else graph.add("Add", total, term)
    assert total is not None
    return total


def add_scaling(graph: GraphBuilder, scaling: Scaling | ShareScaling, values: list[str]) -> str:
    """Return softmax(log v · B + b) at the cells of a scaling, (n, p). values : what is scaled, and its context."""
    shift = graph.constant(scaling.intercepts)
    return _scaled(graph, scaling, scaling.cells, values, shift, scaling.p)


def _scaled(graph: GraphBuilder, scaling: Any, cells: np.ndarray, values: list[str], shift: str, size: int) -> str:
    all_values = values[0] if len(values) == 1 else graph.add("Concat", *values, axis=1)
    inputs = np.array(_inputs(scaling), dtype=np.int64)
    columns = graph.add("Gather", all_values, graph.constant(inputs), axis=1)
    logs = graph.add("Log", graph.add("Max", columns, graph.constant(np.float64(CLIP))))
    scores = graph.add("Add", graph.add("MatMul", logs, graph.constant(scaling.slopes.astype(np.float64))), shift)
    shares = graph.add("Softmax", scores, axis=1)
    return add_places(graph, shares, cells, size)


def add_places(graph: GraphBuilder, columns: str, cells: np.ndarray, size: int) -> str:
    """Return columns (n, k) at their places among all, (n, size); the others are zero."""
    if len(cells) == size and (np.asarray(cells) == np.arange(size)).all():
        return columns
    places = np.zeros((len(cells), size))
    places[np.arange(len(cells)), cells] = 1.0
    return graph.add("MatMul", columns, graph.constant(places))


def add_sum(graph: GraphBuilder, tensor: str, axis: int) -> str:
    """Return sums along an axis."""
    return graph.add("ReduceSum", tensor, graph.constant(np.array([axis])), keepdims=0)


def _shares(graph: GraphBuilder, Z: str, total: str, A: int) -> str:
    """Return P(A | X, Y), (n, A, m); equal shares where a class is impossible."""
    total = graph.add("Unsqueeze", total, graph.constant(np.array([1])))
    is_possible = graph.add("Greater", total, graph.constant(np.float64(0.0)))
    divisor = graph.add("Where", is_possible, total, graph.constant(np.float64(1.0)))
    return graph.add("Where", is_possible, graph.add("Div", Z, divisor), graph.constant(np.float64(1.0 / A)))


def _with_classes(graph: GraphBuilder, cells: str, P: str, A: int) -> str:
    """Return cells (n, A, m) whose sums over groups are P(Y | X), (n, m)."""
    shares = _shares(graph, cells, add_sum(graph, cells, 1), A)
    return graph.add("Mul", shares, graph.add("Unsqueeze", P, graph.constant(np.array([1]))))


# -- JSON --------------------------------------------------------------------------------------------------
def calibration_content(calibration: Any) -> dict[str, Any] | None:
    """Return a calibration as the scorers read it."""
    if calibration is None:
        return None
    if isinstance(calibration, JointCalibration):
        content = _content(calibration.scaling)
        return {"kind": "joint", "keeps_classes": calibration.keeps_classes, "scaling": content}
    if isinstance(calibration, FactorCalibration):
        classes = None if calibration.classes is None else _content(calibration.classes)
        return {"kind": "factors", "classes": classes, "groups": [_content(scaling) for scaling in calibration.groups]}
    assert isinstance(calibration, AwareCalibration)
    if calibration.classes is None:
        return {"kind": "own"}
    if isinstance(calibration.classes, AwareScaling):
        groups = [_content(calibration.classes, intercepts) for intercepts in calibration.classes.intercepts]
        return {"kind": "aware", "groups": groups}
    return {"kind": "aware", "groups": [_content(scaling) for scaling in calibration.classes]}


def _content(scaling: Any, intercepts: np.ndarray | None = None) -> dict[str, Any]:
    cells, size = (scaling.classes, scaling.m) if isinstance(scaling, AwareScaling) else (scaling.cells, scaling.p)
    return {
        "inputs": _inputs(scaling),
        "clip": CLIP,
        "slopes": scaling.slopes.tolist(),
        "intercepts": (scaling.intercepts if intercepts is None else intercepts).tolist(),
        "cells": np.asarray(cells).tolist(),
        "size": int(size),
    }


def _inputs(scaling: Any) -> list[int]:
    """Return which of the values, and of their context behind them, a scaling reads."""
    if isinstance(scaling, AwareScaling):
        cells = np.asarray(scaling.classes)
        return [*cells.tolist(), *(scaling.m + cells).tolist()]
    cells = np.asarray(scaling.cells).tolist()
    if isinstance(scaling, ShareScaling):
        return [*cells, *range(scaling.p, scaling.p + len(scaling.slopes) - len(cells))]
    return cells
