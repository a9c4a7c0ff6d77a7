"""Draft: the working copy of a graph, in which quantized nodes are said in standard ones."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from onnx import AttributeProto, GraphProto, NodeProto, helper, numpy_helper

from qpasses.ir.graph import fresh
from qpasses.load.foreign.found_graph import AtRunTimeError, FoundGraph, Ledger
from qpasses.load.foreign.node_parts import (
    DQ,
    Q,
    drop_named,
    in_order,
    needed,
    read_by,
    trimmed,
    unread,
)
from qpasses.load.foreign.quantization import Quantization, same_numbers


@dataclass(frozen=True)
class Left:
    """Why a node stays as it is; no reason where it is not foreign."""

    reason: str = ""


Rewrite: TypeAlias = "Callable[[Draft, NodeProto], Left | None]"
"""Writes what stands for a node into the draft, or says that it stays."""

Table: TypeAlias = Mapping[tuple[str, str], Rewrite]
"""Rewrites by domain and op."""


class Draft(FoundGraph):
    """A graph that is rewritten, pass by pass; what is written need not be in order."""

    def __init__(
        self, graph: GraphProto, ledger: Ledger, outer: "Draft | None" = None
    ) -> None:
        super().__init__(graph, ledger, outer)
        self.changed = False
        self._nodes: list[NodeProto] = []
        self._skipped: set[int] = set()

    def apply(self, table: Table) -> None:
        """One pass: let every op of ``table`` be rewritten, keep the other nodes."""
        self._nodes, self._skipped = [], set()
        for node in self.before:
            rewrite = table.get((node.domain, node.op_type))
            left: Left | None = Left()
            if rewrite is not None and id(node) not in self._skipped:
                left = self._rewritten(rewrite, node)
            if left is None:
                self.changed = True
                continue
            self._nodes.append(node)
            if left.reason:
                self.note(node, left.reason)
        self._look([node for node in self._nodes if id(node) not in self._skipped])

    def _rewritten(self, rewrite: Rewrite, node: NodeProto) -> Left | None:
        """A node whose scales are found at run time stays as it is, whatever its op."""
        try:
            return rewrite(self, node)
        except AtRunTimeError as why:
            return Left(str(why))

    def skip(self, *nodes: NodeProto) -> None:
        """Leave out nodes that the one that is rewritten stands for, too."""
        self._skipped |= {id(node) for node in nodes}

    def note(self, node: NodeProto, text: str) -> None:
        """Say what became of a node, where it is not exactly what it was."""
        self.ledger.notes[node.name or node.output[0]] = text

    def say_dynamic(self, node: NodeProto) -> None:
        """Say that what the node reads was quantized at run time."""
        self.ledger.dynamic.append(node.name or node.output[0])

    def need(self, opset: int) -> None:
        """Say that the result has a form of this opset."""
        self.ledger.opset = max(self.ledger.opset, opset)

    def fresh(self, wanted: str) -> str:
        """A name that nothing has."""
        return fresh(wanted, self.ledger.taken)

    def forget_types(self, names: Iterable[str]) -> None:
        """Forget what the graph says of the types of these tensors."""
        for name in names:
            self._kinds.pop(name, None)
        drop_named(self.graph.value_info, set(names))

    def keep(self, node: NodeProto) -> None:
        """Write a node as it is."""
        self._nodes.append(node)
        self._producers |= {name: node for name in node.output if name}

    def add(
        self,
        op: str,
        inputs: Sequence[str],
        output: str | Sequence[str],
        name: str,
        given: Iterable[AttributeProto] = (),
        *,
        domain: str = "",
    ) -> None:
        """Write a node."""
        outputs = [output] if isinstance(output, str) else list(output)
        node = helper.make_node(op, trimmed(inputs), outputs, name, domain=domain)
        node.attribute.extend(given)
        self.keep(node)

    def compute(
        self, op: str, inputs: Sequence[str], origin: NodeProto, **attributes: Any
    ) -> str:
        """Write a node that is a part of ``origin``; returns the name of its result."""
        result = self.fresh(f"{origin.output[0]}/{op}")
        name = self.fresh(f"{origin.name or origin.output[0]}/{op}")
        self.add(op, inputs, result, name, named(**attributes))
        return result

    def constant(self, wanted: str, values: NDArray[Any]) -> str:
        """The name of a constant of that type, shape and value: one there is, or a new one."""
        key = same_numbers(values)
        if found := self._named(key):
            return found
        self._names[key] = self.fresh(wanted)
        return self.replace(self._names[key], values)

    def _named(self, key: tuple[Any, ...]) -> str:
        found = self._names.get(key, "")
        return found or (self.outer._named(key) if isinstance(self.outer, Draft) else "")

    def replace(self, name: str, values: NDArray[Any]) -> str:
        """Let the tensor ``name`` be a constant; returns the name."""
        self._tensors[name] = numpy_helper.from_array(np.array(values, order="C"), name)
        self._values[name] = values
        return name

    def real(self, stored: str, meaning: Quantization) -> str:
        """The real numbers of stored integers: what their one DequantizeLinear writes."""
        key = (stored, meaning.key)
        if key not in self._reals:
            self.dequantize(stored, self.fresh(f"{stored}_dequantized"), meaning)
        return self._reals[key]

    def dequantize(
        self, stored: str, real: str, meaning: Quantization, name: str = ""
    ) -> None:
        """Write the DequantizeLinear of ``stored``, to ``real``."""
        parameters = self._parameters(stored, meaning)
        if meaning.zero_point.dtype == np.int32:
            parameters = parameters[:1]  # only zero is allowed
        self._add_linear(DQ, [stored, *parameters], real, meaning, name)
        self._reals.setdefault((stored, meaning.key), real)

    def store(self, real: str, stored: str, meaning: Quantization, name: str = "") -> None:
        """Write the QuantizeLinear of ``real``, to ``stored``."""
        inputs = [real, *self._parameters(stored, meaning)]
        self._add_linear(Q, inputs, stored, meaning, name)

    def _add_linear(
        self, op: str, inputs: Sequence[str], output: str, meaning: Quantization, name: str
    ) -> None:
        axis = named(axis=meaning.axis) if meaning.per_axis else []
        stored = inputs[0] if op == DQ else output
        self.add(op, inputs, output, name or self.fresh(f"{stored}/{op}"), axis)
        self.need(meaning.opset())

    def _parameters(self, stored: str, meaning: Quantization) -> list[str]:
        return [
            self.constant(f"{stored}_scale", meaning.scale),
            self.constant(f"{stored}_zero_point", meaning.zero_point),
        ]

    def finish(self) -> None:
        """Put nodes and constants into the graph: in order, without what nothing needs."""
        graph = self.graph
        spare = unread(graph.node, graph)
        read_before = {name for node in graph.node for name in read_by(node)}
        old = {tensor.name for tensor in graph.initializer}
        never_read = old - read_before
        nodes = in_order(needed(self.before, graph, spare))
        del graph.node[:]
        graph.node.extend(nodes)
        read = {name for node in nodes for name in read_by(node)} | never_read
        read |= {value.name for value in graph.output}
        kept = {name: tensor for name, tensor in self._tensors.items() if name in read}
        drop_named(graph.input, self._tensors.keys() - kept.keys())  # as IR version 3 has them
        del graph.initializer[:]
        graph.initializer.extend(kept.values())
        there = {name for node in nodes for name in node.output} | kept.keys()
        there |= {value.name for value in graph.input}
        gone = {value.name for value in graph.value_info} - there
        drop_named(graph.value_info, gone | (kept.keys() - old))
        notes = [each for each in graph.quantization_annotation if each.tensor_name in there]
        del graph.quantization_annotation[:]
        graph.quantization_annotation.extend(notes)


def named(**attributes: Any) -> list[AttributeProto]:
    """Attributes."""
    return [helper.make_attribute(name, value) for name, value in attributes.items()]
