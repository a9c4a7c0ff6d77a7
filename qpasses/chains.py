"""The chains of a plan: what IntegerizeChain is going to make a table of."""

from dataclasses import dataclass

from qpasses.elementwise import made_of
from qpasses.function import Function
from qpasses.graph import Graph
from qpasses.planning import Plan
from qpasses.stages import CLAMPING


@dataclass(frozen=True)
class Chain:
    """What becomes a table: a function, and the names of the tensors that it leads between."""

    function: Function
    source: str
    end: str


def find_chains(graph: Graph, chosen: Plan) -> list[Chain]:
    """All of them, in graph order; one that is only a clamp needs no table."""
    found = []
    for source, end in chosen.chains:
        nodes, _ = made_of(end, (), {source.name})
        if not all(each.op in CLAMPING for each in nodes):
            function = Function.of(nodes, [source], end, graph.opset)
            found.append(Chain(function, source.name, end.name))
    return found
