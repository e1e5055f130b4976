"""Run an ONNX graph by onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from optfair.errors import need_extra


def open_graph(content: bytes) -> Any:
    """Return a session of onnxruntime on one thread: a row is a matter of microseconds."""
    runtime = need_extra("onnxruntime", "export")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def run_graph(content: bytes, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the outputs of a graph by name."""
    session = open_graph(content)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(feeds)), strict=True))
