"""The chains of a plan: what becomes one function of the codes of its source."""

from collections.abc import Sequence
from dataclasses import dataclass

from qpasses.ir.elementwise import made_of
from qpasses.ir.function import Function
from qpasses.ir.graph import Graph, Node
from qpasses.ir.stages import CLAMPING
from qpasses.place.planning import Plan


@dataclass(frozen=True)
class Chain:
    """A function, its nodes, and the names of the tensors that it leads between."""

    function: Function
    nodes: Sequence[Node]
    source: str
    end: str


def find_chains(graph: Graph, chosen: Plan) -> list[Chain]:
    """All of them, in graph order; one that is only a clamp needs no table."""
    found = []
    for source, end in chosen.chains:
        nodes, _ = made_of(end, (), {source.name})
        if not all(each.op in CLAMPING for each in nodes):
            function = Function.of(nodes, [source], end, graph.opset)
            found.append(Chain(function, nodes, source.name, end.name))
    return found
