"""A graph as MLIR in generic form, an operation for each node: docs/verification.md."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, ValueInfoProto

from qpasses.emit import mlir
from qpasses.emit.mlir_attributes import UNKNOWN, attribute, dense, tensor_type, value_type
from qpasses.ir.graph import Taken, fresh

_ABSENT = ""
"""ONNX's name for an input or output that is left out."""


def graph_as_mlir(model: ModelProto, largest: int | None = None) -> str:
    """The graph of ``model``, its nodes in order, as a module with one function.

    Tensors of more than ``largest`` elements are elided; None writes all numbers.
    """
    graph, imports = model.graph, model.opset_import
    block = _Writer(largest).block(graph, {}, "func.return")
    signature = {
        "arg_attrs": mlir.several(map(_end, _arguments(graph))),
        "function_type": f"({_types(block.inputs)}) -> ({_types(block.outputs)})",
        "res_attrs": mlir.several(map(_end, graph.output)),
        "sym_name": mlir.text(graph.name or "main_graph"),
    }
    versions = {each.domain or "ai.onnx": mlir.number(each.version, "i64") for each in imports}
    about = {
        "onnx.ir_version": mlir.number(model.ir_version, "i64"),
        "onnx.opset_imports": mlir.dictionary(versions),
    }
    lines = [
        '"builtin.module"() ({',
        f'  "func.func"() <{mlir.dictionary(signature)}> ({{',
        *(f"  {line}" for line in block.lines),
        "  }) : () -> ()",
        f"}}) {mlir.dictionary(about)} : () -> ()",
    ]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class _Value:
    """A value of the text: ``%name`` and its type."""

    name: str
    type: str


@dataclass(frozen=True)
class _Block:
    """A graph as lines, and what it takes and gives."""

    lines: Sequence[str]
    inputs: Sequence[_Value]
    outputs: Sequence[_Value]


class _Writer:
    """Writes graphs, each value of them under a name of its own."""

    def __init__(self, largest: int | None) -> None:
        self.largest, self.taken = largest, Taken()

    def block(self, graph: GraphProto, around: Mapping[str, _Value], end: str) -> _Block:
        """``graph``, which may read values ``around`` it; ``end`` names its last operation."""
        ends = (*graph.value_info, *graph.output, *graph.input)
        types = {each.name: value_type(each.type) for each in ends}
        types |= {each.name: tensor_type(each) for each in graph.initializer}
        inputs = {each.name: self.value(each.name, types) for each in _arguments(graph)}
        values, lines = {**around, **inputs}, []
        if any(_ABSENT in node.input for node in graph.node):
            values[_ABSENT] = self.value(_ABSENT, types)
            lines += _operation("onnx.NoValue", outputs=[values[_ABSENT]])
        for each in graph.initializer:
            made = values[each.name] = self.value(each.name, types)
            value = {"value": dense(each, self.largest)}
            lines += _operation("onnx.Constant", (), [made], value, each.name)
        for node in graph.node:
            lines += self.node(node, values, types)
        outputs = [values[each.name] for each in graph.output]
        lines += _operation(end, outputs)
        head = ", ".join(f"{each.name}: {each.type}" for each in inputs.values())
        shown = [f"^bb0({head}):"] if inputs else []
        return _Block(
            [*shown, *(f"  {line}" for line in lines)], list(inputs.values()), outputs
        )

    def node(
        self, node: NodeProto, values: dict[str, _Value], types: Mapping[str, str]
    ) -> list[str]:
        """``node``, which reads ``values`` and adds its own to them."""
        inputs = [values[name] for name in node.input]
        outputs = [self.value(name, types) for name in node.output]
        graphs = [(each.name, graph) for each in node.attribute for graph in _graphs(each)]
        regions = [self.block(graph, values, "onnx.Yield").lines for _, graph in graphs]
        made = zip(node.output, outputs, strict=True)
        values.update((name, value) for name, value in made if name != _ABSENT)
        attributes = {
            each.name: attribute(each, self.largest)
            for each in node.attribute
            if not _graphs(each)
        }
        if graphs:
            attributes["graphs"] = mlir.several(mlir.text(name) for name, _ in graphs)
        return _operation(_name(node), inputs, outputs, attributes, node.name, regions)

    def value(self, name: str, types: Mapping[str, str]) -> _Value:
        """A new value, called as near to ``name`` as MLIR allows."""
        plain = re.sub(r"[^\w$.-]", "_", name or "none", flags=re.ASCII)
        shown = fresh(f"_{plain}" if plain[0].isdigit() else plain, self.taken)
        return _Value(f"%{shown}", types.get(name, UNKNOWN) if name else "none")


def _operation(
    name: str,
    inputs: Sequence[_Value] = (),
    outputs: Sequence[_Value] = (),
    attributes: Mapping[str, str] | None = None,
    where: str = "",
    regions: Iterable[Sequence[str]] = (),
) -> list[str]:
    """An operation in generic form, ``where`` as its location."""
    made = f"{', '.join(each.name for each in outputs)} = " if outputs else ""
    head = f"{made}{mlir.text(name)}({', '.join(each.name for each in inputs)})"
    results = _types(outputs) if len(outputs) == 1 else f"({_types(outputs)})"
    tail = f" {mlir.dictionary(attributes)}" if attributes else ""
    tail += f" : ({_types(inputs)}) -> {results}"
    tail += f" loc({mlir.text(where)})" if where else ""
    within = [line for region in regions for line in ("}, {", *region)]
    return [f"{head} ({{", *within[1:], f"}}){tail}"] if within else [head + tail]


def _name(node: NodeProto) -> str:
    """Of its operation; the name of a dialect has no dots."""
    dialect = "onnx" if node.domain in ("", "ai.onnx") else node.domain.replace(".", "_")
    return f"{dialect}.{node.op_type}"


def _arguments(graph: GraphProto) -> Sequence[ValueInfoProto]:
    """The inputs that have no constants as their defaults."""
    constants = {tensor.name for tensor in graph.initializer}
    return [each for each in graph.input if each.name not in constants]


def _graphs(attribute: AttributeProto) -> Sequence[GraphProto]:
    return [attribute.g] if attribute.type == AttributeProto.GRAPH else attribute.graphs


def _end(value: ValueInfoProto) -> str:
    """What an input or output, and its sizes, are called, under onnx-mlir's keys."""
    sizes = enumerate(value.type.tensor_type.shape.dim)
    shown = ",".join(f"{axis}:{each.dim_param}" for axis, each in sizes if each.dim_param)
    about = {"onnx.dim_params": mlir.text(shown)} if shown else {}
    return mlir.dictionary(about | {"onnx.name": mlir.text(value.name)})


def _types(values: Iterable[_Value]) -> str:
    return ", ".join(each.type for each in values)
