"""Untaken: what no sample computes, as a branch that none of them takes, stays float."""

from qpasses.ir.flow import FLOW, LEAVING
from qpasses.ir.graph import STORE, Graph
from qpasses.ir.homes import Region, regions
from qpasses.ir.interchange import export_spliced
from qpasses.ir.rewriting import Context
from qpasses.place.ranges import EMPTY, Ranges


def leave_untaken(graph: Graph, found: Ranges, context: Context) -> bool:
    """Exclude the nodes of bodies of which no sample gave a tensor a value; whether any are.

    So are those that give their results: what another branch gives says nothing of them.
    """
    if not any(node.domain == FLOW for node in graph.nodes):
        return False
    homes = regions(export_spliced(graph))
    known = dict[Region, bool]()
    for name, method in found.methods.items():
        home = homes.get(name, ())
        known[home] = known.get(home, False) or method != EMPTY
    untaken = {home for home, is_taken in known.items() if home and not is_taken}
    reasons = dict[str, str]()
    for node in graph.nodes:
        home = homes.get(node.outputs[0].name, ())
        around = [home[:depth] for depth in range(1, len(home) + 1)]
        if node.domain == FLOW and node.op in LEAVING:
            around += [each for each in untaken if each[-1][0] == node.attrs["of"]]
        where = next((each[-1] for each in around if each in untaken), None)
        is_left = node.op == STORE or node.name in context.selection.excluded
        if where is not None and not is_left:
            reasons[node.name] = f"no sample runs body {where[1]!r} of {where[0]!r}"
    context.selection.excluded.update(reasons)
    return bool(reasons)
