"""Write the networks of `TorchClassifier` as nodes, by torch.onnx."""

from __future__ import annotations

import contextlib
import copy
import io
import logging
import warnings
from typing import Any

import numpy as np

from optfair.errors import ExportError, brief_text, need_extra
from optfair.export.inputs import OTHER_WAY, FeatureTensors
from optfair.portable.graph import GraphBuilder
from optfair.portable.runtime import open_graph


def add_network(graph: GraphBuilder, model: Any, features: FeatureTensors) -> str:
    """Return softmax(f(x)), (n, m); in double precision where the network itself answers so."""
    torch = need_extra("torch", "export of a network")
    need_extra("onnxscript", "export of a network")
    if len(model.input_shape_) != 1:
        raise ExportError(f"X: images are not exported with their rule. {OTHER_WAY}.")
    X = graph.cast(features.matrix(graph), model.dtype)
    net, kind = copy.deepcopy(model.module_).cpu().eval(), model.dtype
    if model.module in ("linear", "mlp"):
        net, kind = net.double(), "float64"
    example = torch.zeros((2, *model.input_shape_), dtype=getattr(torch, kind))
    options = {"dynamo": True, "opset_version": graph.opset, "verbose": False}
    shapes = ({0: torch.export.Dim("n")},)
    exporter = logging.getLogger("torch.onnx")
    level = exporter.level
    exporter.setLevel(logging.ERROR)  # it tells of packages that are not there
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            program = torch.onnx.export(net, (example,), dynamic_shapes=shapes, **options)
        open_graph(program.model_proto.SerializeToString())  # not every layer is there in double precision
    except Exception as error:
        raise ExportError(
            f"estimator: this network cannot be converted to ONNX ({brief_text(error, 100)}). {OTHER_WAY}."
        ) from error
    finally:
        exporter.setLevel(level)
    logits = graph.splice(program.model_proto, [graph.cast(X, kind)])[0]
    return graph.add("Softmax", graph.cast(logits, np.float64), axis=1)
