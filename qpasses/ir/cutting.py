"""Cutting: a spliced graph as one of If, Loop and Scan again; see flow.py and homes.py."""

from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Any

import onnx
from onnx import GraphProto, NodeProto, ValueInfoProto, helper

from calibration.held_weights import is_held
from calibration.large_weights import names_read
from opsets.errors import ModelError
from qpasses.ir.flow import (
    ATTRIBUTES,
    BEGUN,
    COLLECTED,
    ELEMENT,
    FLOW,
    JOINED,
    inside,
    mark,
)
from qpasses.ir.graph import Taken, fresh
from qpasses.ir.homes import Homes, Item, Region, attribute_of, is_flow


def cut(flat: onnx.ModelProto) -> onnx.ModelProto:
    """``flat`` with bodies; itself if nothing was spliced.

    Raises ModelError where a node reads what follows from it.
    """
    domains = [each.domain for each in flat.opset_import]
    if FLOW not in domains and not any(is_flow(node) for node in flat.graph.node):
        return flat
    made = onnx.ModelProto()
    made.CopyFrom(flat)
    if FLOW in domains:
        del made.opset_import[domains.index(FLOW)]
    cutter = _Cutter(made.graph)
    nodes = list(cutter.ordered(()))
    values = [each for each in flat.graph.value_info if not cutter.is_inside(each.name)]
    shared = [each for each in flat.graph.initializer if not cutter.is_inside(each.name)]
    for part, found in (
        (made.graph.node, nodes),
        (made.graph.value_info, values),
        (made.graph.initializer, shared),
    ):
        del part[:]
        part.extend(found)
    return made


def _with_notes(node: NodeProto, markers: Sequence[NodeProto]) -> NodeProto:
    """``node`` with the metadata of what stands for its values."""
    for each in markers:
        for entry in each.metadata_props:
            called = mark(each.op_type, int(attribute_of(each, "place")))
            node.metadata_props.add(key=f"{called} {entry.key}", value=entry.value)
    return node


class _Cutter:
    """Makes the nodes of one graph, those with bodies among them."""

    def __init__(self, graph: GraphProto) -> None:
        nodes = [*graph.node]
        self._homes = Homes(nodes, graph)
        self._nodes, self._tensors = nodes, self._homes.tensors()
        self._values = {value.name: value for value in (*graph.value_info, *graph.output)}
        self._values |= {value.name: value for value in graph.input}
        for tensor in graph.initializer:
            value = helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            self._values.setdefault(tensor.name, value)
        for node in (each for each in nodes if each.op_type == BEGUN and is_flow(each)):
            kinds = onnx.TensorProto.INT64, onnx.TensorProto.BOOL
            for name, kind in zip(node.output, kinds, strict=True):
                value = helper.make_tensor_value_info(name, kind, [])
                self._values.setdefault(name, value)
        self._known = [value.name for value in graph.value_info]
        written = [name for node in nodes for name in (node.name, *node.output)]
        self._taken = Taken([*self._values, *written, *names_read(nodes)])
        self._constants: dict[Region, list[onnx.TensorProto]] = {}
        self._place_constants(graph)
        self._items: dict[Region, list[Item]] = {}
        for key, region in self._homes.homes.items():
            self._items.setdefault(region, []).append(key)

    def _place_constants(self, graph: GraphProto) -> None:
        """Constants stand in the one body that reads them: onnxruntime's optimizer asks there.

        Those that are held stay outside, where they are handed over, and so do inputs and
        outputs of the model.
        """
        ends = (*graph.input, *graph.output)
        readers: dict[str, set[Region]] = {value.name: {()} for value in ends}
        for place in (each for each in self._homes.homes if isinstance(each, int)):
            for name in self._homes.reads[place]:
                readers.setdefault(name, set()).add(self._homes.homes[place])
        for node in filter(is_flow, self._nodes):
            for name in node.input:
                readers.setdefault(name, set()).add(())
        for tensor in graph.initializer:
            regions = readers.get(tensor.name, set())
            if len(regions) == 1 and not is_held(tensor):
                (self._tensors[tensor.name],) = regions
                self._constants.setdefault(self._tensors[tensor.name], []).append(tensor)

    def is_inside(self, name: str) -> bool:
        """Whether the tensor ``name`` stands in a body."""
        return bool(self._tensors.get(name, ()))

    def ordered(self, region: Region) -> Iterator[NodeProto]:
        """The nodes of a body, or of the graph, in order."""
        items = self._items.get(region, [])
        reads = {key: self._read(key, region) for key in items}
        writers = {name: key for key in items for name in self._written(key)}
        before = {
            key: {writers[n] for n in reads[key] if n in writers} - {key} for key in items
        }
        readers: dict[Item, list[Item]] = {}
        for key, others in before.items():
            for other in others:
                readers.setdefault(other, []).append(key)
        count = {key: len(others) for key, others in before.items()}
        ready = [(self._place(key), key) for key in items if not count[key]]
        heapify(ready)
        done = 0
        while ready:
            _, key = heappop(ready)
            done += 1
            yield self._nodes[key] if isinstance(key, int) else self._whole(key, region)
            for reader in readers.get(key, ()):
                count[reader] -= 1
                if not count[reader]:
                    heappush(ready, (self._place(reader), reader))
        if done < len(items):
            raise ModelError("a body reads what follows from it")

    def _place(self, key: Item) -> int:
        return key if isinstance(key, int) else min(self._homes.units[key].markers)

    def _written(self, key: Item) -> Iterable[str]:
        if isinstance(key, int):
            return filter(None, self._nodes[key].output)
        leaving = self._homes.units[key].leaving
        return [name for place in leaving for name in self._nodes[place].output]

    def _read(self, key: Item, region: Region) -> set[str]:
        """What a node reads, its bodies included."""
        if isinstance(key, int):
            return set(self._homes.reads[key])
        found = {
            n for place in self._homes.units[key].markers for n in self._homes.reads[place]
        }
        for label in ATTRIBUTES:
            body = (*region, (key, label))
            for each in self._items.get(body, ()):
                found |= self._read(each, body)
        return found

    def _whole(self, key: str, region: Region) -> NodeProto:
        unit = self._homes.units[key]
        nodes = [self._nodes[place] for place in unit.leaving]
        results = [node.output[0] for node in nodes]
        if nodes[0].op_type == JOINED:
            ends = {"then": [n.input[1] for n in nodes], "else": [n.input[2] for n in nodes]}
            bodies = {
                ATTRIBUTES[label]: self._body((*region, (key, label)), [], names)
                for label, names in ends.items()
            }
            made = helper.make_node("If", nodes[0].input[:1], results, key, **bodies)
            return _with_notes(made, nodes)
        entering = [self._nodes[place] for place in unit.entering]
        begun = entering[0].op_type == BEGUN
        inputs = [name for node in entering for name in node.output]
        given = [node.input[0] for node in nodes]
        body = (*region, (key, "body"))
        if begun:
            read = [*entering[0].input, *(node.input[0] for node in entering[1:])]
            read = [*entering[0].input, "", ""][:2] + read[len(entering[0].input) :]
            whole = self._body(body, inputs, [nodes[0].input[-1], *given])
            made = helper.make_node("Loop", read, results, key, body=whole)
            return _with_notes(made, [*entering, *nodes])
        read = [node.input[0] for node in entering]
        elements = [node for node in entering if node.op_type == ELEMENT]
        stacks = [node for node in nodes if node.op_type == COLLECTED]
        ways: dict[str, Any] = {
            f"scan_{what}_{kind}s" if kind == "direction" else f"scan_{what}_axes": values
            for what, ends in (("input", elements), ("output", stacks))
            for kind in ("axis", "direction")
            if any(values := [int(attribute_of(node, kind)) for node in ends])
        }
        ways |= {"body": self._body(body, inputs, given), "num_scan_inputs": len(elements)}
        made = helper.make_node("Scan", read, results, key, **ways)
        return _with_notes(made, [*entering, *nodes])

    def _body(self, region: Region, inputs: Sequence[str], ends: Sequence[str]) -> GraphProto:
        of, label = region[-1]
        begin = inside(of, label)
        nodes = list(self.ordered(region))
        own, given = {name for node in nodes for name in node.output}, list[str]()
        outputs = []
        for place, name in enumerate(ends):
            value = self._value(name)
            if name not in own or name in given:  # one of another graph, or one that enters
                value.name = fresh(f"{begin}given_{place}", self._taken)
                nodes.append(helper.make_node("Identity", [name], [value.name], value.name))
            given.append(name)
            outputs.append(value)
        entered = [self._value(name) for name in inputs]
        constants = self._constants.get(region, [])
        made = helper.make_graph(nodes, begin[:-1], entered, outputs, constants)
        said = {*inputs, *given}
        made.value_info.extend(
            self._values[n]
            for n in self._known
            if n not in said and self._tensors.get(n) == region
        )
        return made

    def _value(self, name: str) -> ValueInfoProto:
        value = ValueInfoProto(name=name)
        if name in self._values:
            value.CopyFrom(self._values[name])
        return value
