"""Splicing: bodies of If, Loop and Scan put among the nodes around them; see flow.py."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import onnx
from onnx import AttributeProto, GraphProto, NodeProto, ValueInfoProto, helper

from calibration.draws import all_nodes, draws_anew
from calibration.large_weights import names_read
from qpasses.ir.flow import (
    ATTRIBUTES,
    BEGUN,
    CARRIED,
    CARRIED_OUT,
    COLLECTED,
    ELEMENT,
    FLOW,
    JOINED,
    inside,
    mark,
)
from qpasses.ir.graph import Taken, fresh
from qpasses.ir.model_nodes import nested_graphs


def spliced(model: onnx.ModelProto) -> onnx.ModelProto:
    """``model`` with one graph; itself if there is no body to splice.

    Names are told apart. A node whose bodies draw random numbers, in each iteration others,
    stays as it is; so does one that is inside of a Scan.
    """
    if not any(map(may_splice, model.graph.node)):
        return model
    flat = onnx.ModelProto()
    flat.CopyFrom(model)
    splicer = _Splicer(model.graph)
    nodes = list(splicer.nodes(model.graph, {}, "", False))
    graph = flat.graph
    del graph.node[:]
    graph.node.extend(nodes)
    graph.initializer.extend(splicer.initializers)
    graph.value_info.extend(splicer.values)
    return flat


def may_splice(node: NodeProto) -> bool:
    """Whether ``node`` is an If, Loop or Scan that is spliced."""
    if node.domain not in ("", "ai.onnx") or node.op_type not in ("If", "Loop", "Scan"):
        return False
    bodies = list(_bodies(node))
    inner = [each for body in bodies for each in all_nodes(body)]
    is_plain = not any(body.sparse_initializer for body in bodies)
    return bool(node.output) and is_plain and not any(map(draws_anew, inner))


def _bodies(node: NodeProto) -> Iterator[GraphProto]:
    return (each.g for each in node.attribute if each.HasField("g"))


class _Splicer:
    """Makes the nodes of one graph; collects the constants and the types that bodies say."""

    def __init__(self, graph: GraphProto) -> None:
        self.initializers: list[onnx.TensorProto] = []
        self.values: list[ValueInfoProto] = []
        self._taken = Taken([*own_names(graph), *_names_that_stay(graph)])
        self._nodes = Taken(node.name for node in graph.node)
        self._known = {value.name for value in (*graph.value_info, *graph.output)}

    def nodes(
        self, graph: GraphProto, names: Mapping[str, str], within: str, in_scan: bool
    ) -> Iterator[NodeProto]:
        """The nodes of ``graph``, which stands ``within``, its tensors called as in ``names``.

        ``in_scan``: it is the body of one, whose iterations all have to give alike sizes.
        """
        idle = _idle_names(graph) if within else {}
        begin = "" if graph.name == within.rstrip("/") else within  # it was cut: names stay
        for node in _read_nodes(graph) if within else graph.node:
            if node.output and node.output[0] in idle:
                continue
            copy = _renamed(node, names)
            if within:
                given = copy.name or copy.op_type
                copy.name = fresh(begin + given, self._nodes)
            if in_scan or not may_splice(node):
                yield copy
            else:
                copy.name = copy.name or fresh(copy.op_type, self._nodes)
                yield from self._spliced(copy, node, names)

    def _spliced(
        self, node: NodeProto, original: NodeProto, names: Mapping[str, str]
    ) -> Iterator[NodeProto]:
        """``node`` spliced; the bodies are those of the ``original``, as it was called."""
        given = {each.name: helper.get_attribute_value(each) for each in original.attribute}
        if node.op_type == "If":
            yield from self._branches(node, given, names)
        else:
            yield from self._loop(node, given, names)

    def _branches(
        self, node: NodeProto, given: Mapping[str, Any], around: Mapping[str, str]
    ) -> Iterator[NodeProto]:
        then, ends = given[ATTRIBUTES["then"]], []
        for label in ("then", "else"):
            body = given[ATTRIBUTES[label]]
            names = self._names_in(body, around)
            yield from self.nodes(body, names, inside(node.name, label), False)
            ends.append(_ends(body, names))
        for place, (name, *found) in enumerate(zip(node.output, *ends, strict=True)):
            read = [node.input[0], *found]
            yield self._leaving(JOINED, node, place, read, name, then.output[place])

    def _loop(
        self, node: NodeProto, given: Mapping[str, Any], around: Mapping[str, str]
    ) -> Iterator[NodeProto]:
        body = given[ATTRIBUTES["body"]]
        names = self._names_in(body, around)
        is_loop = node.op_type == "Loop"
        enters = [names[value.name] for value in body.input]
        read = [*node.input, ""][:2] if is_loop else []
        if is_loop:
            yield _made(BEGUN, node, 0, read, enters[:2])
        elements = given.get("num_scan_inputs", 0)
        states = len(body.input) - len(read) - elements
        sources = [*node.input][len(read) :]
        for place, (source, name) in enumerate(zip(sources, enters[len(read) :], strict=True)):
            if place < states:
                yield _made(CARRIED, node, place, [source], [name])
                continue
            place -= states
            way = {"axis": _at(given, "scan_input_axes", place)}
            way |= {"direction": _at(given, "scan_input_directions", place)}
            yield _made(ELEMENT, node, place, [source], [name], way)
        yield from self.nodes(body, names, inside(node.name, "body"), not is_loop)
        found = _ends(body, names)
        goes_on, found = found[: int(is_loop)], found[int(is_loop) :]
        values = [*body.output][int(is_loop) :]
        for place, (end, name) in enumerate(zip(found, node.output, strict=True)):
            if place < states:
                before = enters[len(read) + place]
                read_here = [end, before, *goes_on]
                yield self._leaving(CARRIED_OUT, node, place, read_here, name, values[place])
                continue
            value, place = values[place], place - states
            way = {"axis": _at(given, "scan_output_axes", place)}
            way |= {"direction": _at(given, "scan_output_directions", place)}
            yield self._leaving(COLLECTED, node, place, [end, *goes_on], name, value, way)

    def _leaving(
        self,
        op: str,
        node: NodeProto,
        place: int,
        read: Sequence[str],
        name: str,
        like: ValueInfoProto,
        attributes: Mapping[str, int] | None = None,
    ) -> NodeProto:
        """What gives a result; one that nobody wants has a name and a type all the same."""
        if not name:
            name = fresh(f"{node.name}/unread_{place}", self._taken)
            self._know(like, name)
            if self.values and self.values[-1].type.HasField("tensor_type"):
                self.values[-1].type.tensor_type.ClearField("shape")
        return _made(op, node, place, read, [name], attributes)

    def _names_in(self, body: GraphProto, around: Mapping[str, str]) -> dict[str, str]:
        """A free name for each tensor of ``body``, whose constants and types are collected.

        And how what is ``around`` is called.
        """
        names = {name: fresh(name, self._taken) for name in own_names(body)}
        for tensor in body.initializer:
            self.initializers.append(_called(tensor, names[tensor.name]))
        idle = _idle_names(body)
        for value in (*body.input, *body.value_info, *body.output):
            if value.name in names and value.name not in idle and value.HasField("type"):
                self._know(value, names[value.name])
        return {**around, **names}

    def _know(self, value: ValueInfoProto, name: str) -> None:
        if name not in self._known:
            self._known.add(name)
            self.values.append(_called(value, name))


def _made(
    op: str,
    of: NodeProto,
    place: int,
    inputs: Sequence[str],
    outputs: Sequence[str],
    attributes: Mapping[str, int] | None = None,
) -> NodeProto:
    called = mark(op, place)
    ways: dict[str, Any] = {"of": of.name, "place": place, **(attributes or {})}
    made = helper.make_node(op, inputs, outputs, f"{of.name}/{called}", domain=FLOW, **ways)
    for entry in of.metadata_props:
        begin, _, key = entry.key.partition(" ")
        if begin == called and key:
            made.metadata_props.add(key=key, value=entry.value)
    return made


def _at(given: Mapping[str, Any], name: str, place: int) -> int:
    values = given.get(name) or []
    return int(values[place]) if values else 0


Named = TypeVar("Named", onnx.TensorProto, ValueInfoProto)


def _called(part: Named, name: str) -> Named:
    copy = type(part)()
    copy.CopyFrom(part)
    copy.name = name
    return copy


def own_names(graph: GraphProto) -> list[str]:
    """What ``graph`` itself gives names to, each once."""
    found = [value.name for value in (*graph.input, *graph.initializer)]
    found += [name for node in graph.node for name in node.output if name]
    return [*dict.fromkeys(found)]


def _names_that_stay(graph: GraphProto, in_scan: bool = False) -> Iterator[str]:
    """Those in bodies within ``graph`` that are not spliced, which no other may hide."""
    for node in graph.node:
        splices = not in_scan and may_splice(node)
        for body in _bodies(node):
            if splices:
                yield from _names_that_stay(body, node.op_type == "Scan")
            else:
                yield from (name for each in nested_graphs(body) for name in own_names(each))


def _read_nodes(graph: GraphProto) -> list[NodeProto]:
    """The nodes on which the outputs of a body depend, which stand in order."""
    read, found = {value.name for value in graph.output}, list[NodeProto]()
    for node in reversed(graph.node):
        if read.intersection(node.output):
            read.update(names_read([node]))
            found.append(node)
    return found[::-1]


def _idle_names(graph: GraphProto) -> dict[str, str]:
    """By output of a body that an Identity writes, and nothing reads: what that reads."""
    ends = {value.name for value in graph.output}
    read = {name for node in all_nodes(graph) for name in node.input}
    return {
        node.output[0]: node.input[0]
        for node in graph.node
        if node.op_type == "Identity" and not node.domain and node.output[0] in ends - read
    }


def _ends(body: GraphProto, names: Mapping[str, str]) -> list[str]:
    """What stands for the outputs of ``body``."""
    idle = _idle_names(body)
    found = [idle.get(value.name, value.name) for value in body.output]
    return [names.get(name, name) for name in found]


def _renamed(node: NodeProto, names: Mapping[str, str]) -> NodeProto:
    """A copy of ``node`` that calls tensors as ``names`` says, in its bodies too."""
    copy = NodeProto()
    copy.CopyFrom(node)
    if not names:
        return copy
    copy.input[:] = [names.get(name, name) for name in node.input]
    copy.output[:] = [names.get(name, name) for name in node.output]
    for attribute in copy.attribute:
        if attribute.type == AttributeProto.GRAPH:
            _rename_captured(attribute.g, names)
    return copy


def _rename_captured(body: GraphProto, names: Mapping[str, str]) -> None:
    own = set(own_names(body))
    outer = {name: new for name, new in names.items() if name not in own}
    nodes = [_renamed(node, outer) for node in body.node]
    del body.node[:]
    body.node.extend(nodes)
    for value in body.output:
        value.name = outer.get(value.name, value.name)
