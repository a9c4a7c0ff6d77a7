"""The functions that an integer model calls: one for each body in use."""

from collections.abc import Container, Iterable

import onnx

from opsets.op import DOMAIN, Body, Flavour
from opsets.qpasses_v1 import OPS
from qpasses.bodies import body_of, constants_of
from qpasses.graph import Graph, import_graph
from qpasses.metadata import read_record
from qpasses.record import Record

Bodies = dict[str, tuple[str, Body]]
"""By the name of a qpasses node: its op, and the body it calls."""


def bodies_of(graph: Graph, record: Record) -> Bodies:
    """The body of each qpasses node that ``record`` knows."""
    return {
        node.name: (node.op, body_of(node, record))
        for node in graph.nodes
        if node.domain == DOMAIN and node.name in record.nodes
    }


def with_bodies(
    model: onnx.ModelProto, flavour: Flavour, only: Container[str] | None = None
) -> onnx.ModelProto:
    """A copy of an integer model whose nodes use bodies of ``flavour`` where they can.

    ``only`` names the nodes to switch; None stands for all. A fast body is right only where
    the proof accepts it: ``verification`` asks before it switches.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph, record = import_graph(model), read_record(model)[0]
    bodies = bodies_of(graph, record)
    for node in graph.nodes:
        wanted = only is None or node.name in only
        if node.name in bodies and wanted and bodies[node.name][1].flavour != flavour:
            body = OPS[node.op].body(flavour, constants_of(node), node.attrs)
            bodies[node.name] = node.op, body
    for proto in copy.graph.node:
        if proto.name in bodies:
            proto.overload = bodies[proto.name][1].overload
    del copy.functions[:]
    opset = next(o.version for o in copy.opset_import if o.domain == "")
    copy.functions.extend(functions_of(bodies, opset))
    return copy


def changed_bodies(model: onnx.ModelProto, graph: Graph, record: Record) -> list[str]:
    """Functions of an emitted model that are not the bodies of its nodes, and those missing.

    ``graph`` and ``record`` are those of ``model``.
    """
    opset = next(o.version for o in model.opset_import if o.domain == "")
    given = {(f.domain, f.name, f.overload): f for f in model.functions}
    wanted = {
        (f.domain, f.name, f.overload): f
        for f in functions_of(bodies_of(graph, record), opset)
    }
    problems = []
    for key in sorted(wanted.keys() | given.keys()):
        domain, name, overload = key
        if key not in wanted or key not in given:
            problems.append(f"function {domain}.{name}:{overload} is missing or not declared")
        elif given[key] != wanted[key]:
            problems.append(f"function {domain}.{name}:{overload} is not the declared body")
    return problems


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
