"""The functions that an integer model calls: one for each body in use."""

from collections.abc import Iterable, Mapping, MutableSequence

import onnx

from opsets.op import DOMAIN, Body, Flavour
from opsets.qpasses_v1 import OPS
from qpasses.evidence.bodies import constants_of, laid_body
from qpasses.evidence.prove import proved_body
from qpasses.ir.cutting import cut
from qpasses.ir.graph import Graph, Node
from qpasses.ir.interchange import import_graph
from qpasses.ir.metadata import read_record
from qpasses.ir.record import Record
from qpasses.ir.splicing import spliced
from qpasses.load.restore_order import restore_order

Bodies = dict[str, tuple[str, Body]]
"""By the name of a qpasses node: its op, and the body it calls."""


def bodies_of(graph: Graph, record: Record) -> Bodies:
    """The body of each qpasses node that ``record`` knows."""
    return {
        node.name: (node.op, laid_body(node, record))
        for node in graph.nodes
        if node.domain == DOMAIN and node.name in record.nodes
    }


def with_bodies(
    model: onnx.ModelProto,
    wanted: Flavour | Mapping[str, str],
    known: tuple[Graph, Record] | None = None,
) -> onnx.ModelProto:
    """A copy of an integer model whose nodes use other bodies.

    ``wanted``: overloads in place of portable ones, by node; or portable bodies, or
    onnxruntime's where the proof accepts one. ``known``: the graph and the record of
    ``model``, where they have been read.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(spliced(model))
    graph, record = known or _read(model)
    bodies = bodies_of(graph, record)
    for node in (each for each in graph.nodes if each.name in bodies):
        name = _other(node, record, bodies[node.name][1], wanted)
        if name is not None:
            op, layout = OPS[node.op], record.nodes[node.name].layout
            bodies[node.name] = node.op, op.laid(op.overload(name), layout)
    for proto in copy.graph.node:
        if proto.name in bodies:
            proto.overload = bodies[proto.name][1].overload
    del copy.functions[:]
    opset = next(o.version for o in copy.opset_import if o.domain == "")
    copy.functions.extend(functions_of(bodies, opset))
    return cut(copy)


def _read(model: onnx.ModelProto) -> tuple[Graph, Record]:
    graph, record = import_graph(model), read_record(spliced(model))[0]
    restore_order(graph, record)
    return graph, record


def _other(
    node: Node, record: Record, now: Body, wanted: Flavour | Mapping[str, str]
) -> str | None:
    """The overload that a node is switched to, if it is."""
    if isinstance(wanted, Mapping):
        return wanted.get(node.name) if now.flavour == "portable" else None
    if now.flavour == wanted:
        return None
    if wanted == "portable":
        return OPS[node.op].body(wanted, constants_of(node), node.attrs).overload
    found = proved_body(node, record)
    return None if found is None else found.body


def changed_bodies(model: onnx.ModelProto, graph: Graph, record: Record) -> list[str]:
    """Functions of an emitted model that are not the bodies of its nodes, and those missing.

    ``graph`` and ``record`` are those of ``model``. What a function calls its values is its
    own affair: versions of this tool differ in it.
    """
    opset = next(o.version for o in model.opset_import if o.domain == "")
    given = {(f.domain, f.name, f.overload): f for f in model.functions}
    wanted = {
        (f.domain, f.name, f.overload): f
        for f in functions_of(bodies_of(graph, record), opset)
    }
    called = {n: body.overload for n, (_, body) in bodies_of(graph, record).items()}
    problems = [
        f"node {node.name!r} calls body {node.overload!r}, expected {called[node.name]!r}"
        for node in spliced(model).graph.node
        if called.get(node.name, node.overload) != node.overload
    ]
    for key in sorted(wanted.keys() | given.keys()):
        domain, name, overload = key
        if key not in wanted or key not in given:
            problems.append(f"function {domain}.{name}:{overload} is missing or not declared")
        elif named_by_place(given[key]) != named_by_place(wanted[key]):
            problems.append(f"function {domain}.{name}:{overload} is not the declared body")
    return problems


def named_by_place(function: onnx.FunctionProto) -> onnx.FunctionProto:
    """A copy whose values are numbered in the order in which they occur."""
    copy = onnx.FunctionProto()
    copy.CopyFrom(function)
    numbers = {"": ""}

    def rename(values: MutableSequence[str]) -> None:
        values[:] = [numbers.setdefault(value, f"v{len(numbers)}") for value in values]

    rename(copy.input)
    for node in copy.node:
        rename(node.input)
        rename(node.output)
    rename(copy.output)
    return copy


def functions_of(bodies: Bodies, opset: int) -> Iterable[onnx.FunctionProto]:
    """One function for each body in use, those of an op in the order of its declaration."""
    used = {(name, body.overload): body for name, body in bodies.values()}
    order = {op.name: [body.overload for body in op.bodies] for op in OPS.values()}

    def place(key: tuple[str, str]) -> tuple[str, int, str]:
        name, overload = key
        declared = order[name]
        made = overload not in declared
        return name, len(declared) if made else declared.index(overload), overload

    for key in sorted(used, key=place):
        yield OPS[key[0]].function(used[key], opset)
