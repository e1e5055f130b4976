"""Write an ONNX graph node by node, and put the graphs of other converters into it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from optfair.errors import brief_repr, need_extra
from optfair.utils.checks import is_integer

OPSETS = (18, 23)  # 18 reads the axes of a sum as an input; of 23 onnxruntime has all that is used here
DEFAULT_OPSET = 19  # compares texts; of 2023
ML, ML_OPSET, TREES_OPSET = "ai.onnx.ml", 3, 5  # trees in double precision came with 5, where older ones ended
Shape = Sequence[int | str | None]


def check_opset(opset: Any) -> int:
    """Return the version of the operators, if there are graphs of it."""
    if not is_integer(opset, OPSETS[0]) or opset > OPSETS[1]:
        raise ValueError(f"opset={brief_repr(opset)}: must be an integer from {OPSETS[0]} to {OPSETS[1]}.")
    return int(opset)


class GraphBuilder:
    """A graph that grows: nodes and constants are added and named, and `model` returns all of it."""

    def __init__(self, opset: int = DEFAULT_OPSET) -> None:
        self.opset, self.domains = check_opset(opset), {ML: ML_OPSET}
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self._onnx = need_extra("onnx", "export")
        self._count = 0

    # -- parts ---------------------------------------------------------------------------------------------
    def add_input(self, name: str, kind: Any, shape: Shape) -> str:
        """Declare an input of the graph; the name is that of the tensor."""
        self.inputs.append(self._onnx.helper.make_tensor_value_info(name, self._type(kind), list(shape)))
        return name

    def add_output(self, name: str, tensor: str, kind: Any, shape: Shape) -> None:
        """Make a tensor an output of the graph, under this name."""
        self.nodes.append(self._onnx.helper.make_node("Identity", [tensor], [name]))
        self.outputs.append(self._onnx.helper.make_tensor_value_info(name, self._type(kind), list(shape)))

    def constant(self, values: Any) -> str:
        """Return the name of a constant tensor; numbers are float64 unless they are an array of another type."""
        array = np.asarray(values)
        if array.dtype.kind in "OU":
            array = array.astype(object)
        name = self._name("constant")
        self.constants[name] = self._onnx.numpy_helper.from_array(array, name)
        return name

    def add(self, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add a node and return the name of its output."""
        name = self._name(kind.lower())
        self.nodes.append(self._onnx.helper.make_node(kind, list(inputs), [name], domain=domain, **attributes))
        return name

    def cast(self, tensor: str, kind: Any) -> str:
        """Add a conversion to another type."""
        return self.add("Cast", tensor, to=self._type(kind))

    def need(self, domain: str, version: int) -> None:
        """Ask for this version of the operators of a domain, or a later one."""
        self.domains[domain] = max(self.domains.get(domain, version), version)

    def splice(self, model: Any, inputs: Sequence[str]) -> list[str]:
        """Add all nodes of another model, whose inputs are tensors of this graph; return the names of its outputs."""
        prefix = self._name("part")
        graph = self._onnx.compose.add_prefix_graph(
            model.graph, f"{prefix}/", rename_inputs=False, rename_outputs=False, inplace=False
        )
        names = dict(zip((value.name for value in graph.input), inputs, strict=True))
        names |= {value.name: f"{prefix}/{value.name}" for value in graph.output}
        for node in graph.node:
            self._rename(node, names)
        self.nodes += graph.node
        for tensor in graph.initializer:
            tensor.name = names.get(tensor.name, tensor.name)
            self.constants[tensor.name] = tensor
        for entry in model.opset_import:
            if entry.domain:
                self.need(entry.domain, entry.version)
        return [names[value.name] for value in graph.output]

    def model(self, metadata: Mapping[str, Any], description: str) -> Any:
        """Return the model, checked. metadata : values that JSON can hold."""
        helper = self._onnx.helper
        nodes, read = self._needed()
        constants = [tensor for name, tensor in self.constants.items() if name in read]
        graph = helper.make_graph(nodes, "optfair", self.inputs, self.outputs, constants)
        opsets = [helper.make_opsetid(domain, version) for domain, version in {"": self.opset, **self.domains}.items()]
        # The oldest version of the format that has these operators, or a runtime of last year may not read it.
        version = helper.find_min_ir_version_for(opsets, ignore_unknown=True)
        model = helper.make_model(
            graph, opset_imports=opsets, ir_version=version, producer_name="optfair", doc_string=description
        )
        texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in metadata.items()}
        helper.set_model_props(model, texts)
        self._onnx.checker.check_model(model, full_check=True)
        return model

    def _needed(self) -> tuple[list[Any], set[str]]:
        """Return the nodes that an output depends on, and all that they read: converters write others beside them."""
        read, nodes = {value.name for value in self.outputs}, []
        for node in reversed(self.nodes):
            if read.intersection(node.output):
                read.update(_read_by(node))
                nodes.append(node)
        return nodes[::-1], read

    # -- names and types -----------------------------------------------------------------------------------
    def _name(self, word: str) -> str:
        self._count += 1
        return f"optfair/{word}_{self._count}"  # which no column of a table is called

    def _type(self, kind: Any) -> int:
        types = self._onnx.TensorProto
        return int(types.STRING if kind is str else self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind)))

    def _rename(self, node: Any, names: Mapping[str, str]) -> None:
        """Rename the tensors that a node, or a node of a graph inside it, reads and writes."""
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
        for attribute in node.attribute:
            for inner in attribute.g.node:
                self._rename(inner, names)


def _read_by(node: Any) -> Iterator[str]:
    """Yield the tensors that a node, or a node of a graph inside it, reads."""
    yield from node.input
    for attribute in node.attribute:
        for inner in attribute.g.node:
            yield from _read_by(inner)
