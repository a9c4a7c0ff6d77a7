"""Given tensors: the nodes of a model read them from outside, in bodies too.

A tensor of a Loop or Scan is given flat, what iterations have of it one behind the other. A
state counts the elements that were read: an iteration takes as many from there on as what it
computes itself has, in its shape.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import onnx
from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto, helper

from calibration.revealed import BODIES

MADE = ".recomputed"
"""What is written in place of a given tensor is called so behind its name."""

_GIVEN = ".given"
"""And so the inputs by which tensors of bodies are given."""


@dataclass(frozen=True)
class Input:
    """The input by which a tensor is given; ``is_flat``: it holds that of all iterations."""

    name: str
    is_flat: bool


def read_given(model: onnx.ModelProto, types: Mapping[str, int]) -> Mapping[str, Input]:
    """Let tensors come from outside; who wrote them writes another one.

    ``types``: of their elements. By tensor the input that it comes in by.
    """
    graph, giving = model.graph, _Giving(types)
    present = {value.name for value in graph.input}
    giving.into(graph, 0)
    inputs = {name: giving.inputs.get(name, Input(name, False)) for name in types}
    for name, each in inputs.items():
        if each.name not in present:
            sizes = [None] if each.is_flat else None
            graph.input.append(helper.make_tensor_value_info(each.name, types[name], sizes))
    return inputs


@dataclass
class _Giving:
    """Rewrites one graph, and the bodies in it.

    ``types``: by given tensor that of elements; ``inputs``: by which those of bodies come in;
    ``ends`` counts names.
    """

    types: Mapping[str, int]
    inputs: dict[str, Input] = field(default_factory=dict)
    ends: int = 0

    def into(self, graph: GraphProto, loops: int, inside: bool = False) -> dict[str, str]:
        """Let the nodes of ``graph``, which is in so many ``loops``, read what is given.

        ``inside``: it is a body.

        By given tensor of iterations: what is called here how many elements were read of it.
        """
        read, nodes = dict[str, str](), list[NodeProto]()
        for value in graph.input if inside else ():
            if value.name in self.types:
                nodes += self._one(value.name, loops, read)
                value.name += MADE
        for node in graph.node:
            if not node.domain and node.op_type in BODIES:
                read |= self._bodies(graph, node, loops)
            nodes.append(node)
            for place, name in enumerate(node.output):
                if name in self.types:
                    node.output[place] = name + MADE
                    nodes += self._one(name, loops, read) if inside else ()
        _replace(graph, nodes)
        self._retype(graph)
        return read

    def _retype(self, graph: GraphProto) -> None:
        """What is written in place of a given tensor has its type and its shape."""
        known = {value.name: value for value in (*graph.output, *graph.value_info)}
        others = [value for value in graph.value_info if value.name not in self.types]
        written = {name for node in graph.node for name in node.output}
        for name in (each for each in known if each in self.types and each + MADE in written):
            value = ValueInfoProto()
            value.CopyFrom(known[name])
            value.name = name + MADE
            others.append(value)
        del graph.value_info[:]
        graph.value_info.extend(others)

    def _one(self, name: str, loops: int, read: dict[str, str]) -> list[NodeProto]:
        """Takes from what is given what a branch or an iteration has of ``name``."""
        given = self.inputs[name] = Input(name + _GIVEN, loops > 0)
        if not loops:
            return [helper.make_node("Identity", [given.name], [name])]
        made, begin = name + MADE, _before(name, loops)
        read[name] = end = self._fresh(name)
        size, row, shape = f"{made}: size", f"{made}: row", f"{made}: shape"
        count, part = f"{made}: count", f"{made}: part"
        one = helper.make_tensor(row, TensorProto.INT64, [1], [1])
        return [
            helper.make_node("Constant", [], [row], value=one),
            helper.make_node("Size", [made], [size]),
            helper.make_node("Reshape", [size, row], [count]),
            helper.make_node("Add", [begin, count], [end]),
            helper.make_node("Slice", [given.name, begin, end], [part]),
            helper.make_node("Shape", [made], [shape]),
            helper.make_node("Reshape", [part, shape], [name], allowzero=1),
        ]

    def _fresh(self, name: str) -> str:
        self.ends += 1
        return f"{name}: read up to here {self.ends}"

    def _bodies(self, graph: GraphProto, node: NodeProto, loops: int) -> dict[str, str]:
        """Those of ``node``, which stands in ``graph``; as ``into``, of ``graph``."""
        bodies = [each.g for each in node.attribute if each.HasField("g")]
        if node.op_type == "If":
            found = [self.into(body, loops, True) for body in bodies]
            names = [name for each in found for name in each]
            return {
                name: self._count_branch(node, bodies, found, name, loops) for name in names
            }
        inner, read = self.into(bodies[0], loops + 1, True), dict[str, str]()
        for name, end in inner.items():
            begin = _before(name, loops)
            if not loops:
                graph.initializer.append(
                    helper.make_tensor(begin, TensorProto.INT64, [1], [0])
                )
            read[name] = self._fresh(name)
            _carry(node, bodies[0], (begin, read[name]), (_before(name, loops + 1), end))
        return read if loops else {}

    def _count_branch(
        self,
        node: NodeProto,
        bodies: Sequence[GraphProto],
        found: Sequence[Mapping[str, str]],
        name: str,
        loops: int,
    ) -> str:
        """One more result of an If: how many elements were read, none where it is not."""
        for body, read in zip(bodies, found, strict=True):
            end = self._fresh(name)
            source = read.get(name, _before(name, loops))
            body.node.append(helper.make_node("Identity", [source], [end]))
            body.output.append(helper.make_tensor_value_info(end, TensorProto.INT64, [1]))
        result = self._fresh(name)
        node.output.append(result)
        return result


def _carry(
    node: NodeProto, body: GraphProto, outside: tuple[str, str], inside: tuple[str, str]
) -> None:
    """One more state of a Loop or Scan; names at begin and end, ``outside`` and ``inside``."""
    elements = next((each.i for each in node.attribute if each.name == "num_scan_inputs"), 0)
    others = 2 if node.op_type == "Loop" else 0  # trips and condition, iteration and condition
    states = len(node.input) - others - elements
    begin, end = (
        helper.make_tensor_value_info(name, TensorProto.INT64, [1]) for name in inside
    )
    node.input.insert(others + states, outside[0])
    body.input.insert(others + states, begin)
    body.output.insert(others // 2 + states, end)
    node.output.insert(states, outside[1])


def _before(name: str, loops: int) -> str:
    """Where in so many ``loops`` it is counted what was read of a tensor before."""
    return f"{name}: read before {loops}"


def _replace(graph: GraphProto, nodes: Sequence[NodeProto]) -> None:
    copies = [NodeProto.FromString(each.SerializeToString()) for each in nodes]
    del graph.node[:]
    graph.node.extend(copies)
