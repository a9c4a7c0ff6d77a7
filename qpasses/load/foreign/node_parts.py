"""Parts of nodes, and nodes in order."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from onnx import AttributeProto, GraphProto, NodeProto, helper

from qpasses.ir.model_nodes import nested_graphs

Q, DQ, DYNAMIC = "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"


def is_standard(node: NodeProto, op: str) -> bool:
    """Whether it is ONNX's own op of that name."""
    return node.op_type == op and not node.domain


def input_at(node: NodeProto, index: int) -> str:
    """The name of an input; "" where it is absent."""
    return node.input[index] if index < len(node.input) else ""


def attribute(node: NodeProto, name: str, default: Any = None) -> Any:
    """The value of an attribute, or ``default``."""
    found = next((each for each in node.attribute if each.name == name), None)
    return default if found is None else helper.get_attribute_value(found)


def attributes_but(node: NodeProto, *names: str) -> list[AttributeProto]:
    """The attributes of a node that have other names."""
    return [each for each in node.attribute if each.name not in names]


def read_by(node: NodeProto) -> Iterator[str]:
    """The names that a node reads, in its bodies too; those the bodies write as well."""
    yield from (name for name in node.input if name)
    for body in bodies(node):
        for graph in nested_graphs(body):
            yield from (name for inner in graph.node for name in inner.input if name)
            yield from (value.name for value in graph.output)


def bodies(node: NodeProto) -> list[GraphProto]:
    """The graphs that a node holds."""
    found = [[each.g] if each.HasField("g") else each.graphs for each in node.attribute]
    return [graph for graphs in found for graph in graphs]


def in_order(nodes: Sequence[NodeProto]) -> list[NodeProto]:
    """``nodes`` in topological order, else as they are: each as early as it was."""
    producers = {name: node for node in nodes for name in node.output if name}
    done: set[int] = set()
    ordered: list[NodeProto] = []
    for start in nodes:
        stack = [start]
        while stack:
            node = stack[-1]
            found = (producers.get(name) for name in read_by(node))
            missing = [
                n for n in found if n is not None and id(n) not in done and n is not node
            ]
            if missing and id(node) not in done:
                stack.append(missing[0])
                continue
            stack.pop()
            if id(node) not in done:
                done.add(id(node))
                ordered.append(node)
    return ordered


def unread(nodes: Iterable[NodeProto], graph: GraphProto) -> set[str]:
    """The tensors that ``nodes`` write and nothing needs."""
    nodes = list(nodes)
    read = Counter(name for node in nodes for name in read_by(node))
    ends = {value.name for value in graph.output}
    return {name for n in nodes for name in n.output if not read[name]} - ends


def needed(nodes: Sequence[NodeProto], graph: GraphProto, spare: set[str]) -> list[NodeProto]:
    """``nodes`` but those that nothing needs any more; ``spare`` was never needed."""
    while True:
        idle = unread(nodes, graph) - spare
        kept = [node for node in nodes if not idle.issuperset(node.output)]
        if len(kept) == len(nodes):
            return kept
        nodes = kept


def drop_named(values: Any, names: set[str]) -> None:
    """Remove those of protobuf's ``values`` that have these names."""
    kept = [value for value in values if value.name not in names]
    del values[:]
    values.extend(kept)


def trimmed(names: Sequence[str]) -> list[str]:
    """``names`` without empty ones at the end."""
    end = max((index + 1 for index, name in enumerate(names) if name), default=0)
    return list(names[:end])
