"""Joined outputs: scores beside boxes, that one scale for both would round away."""

from collections.abc import Collection

from qpasses.ir.graph import Graph, Node, is_graph_output
from qpasses.ir.moving import moves
from qpasses.ir.patterns import data_inputs
from qpasses.ir.rewriting import Context
from qpasses.place.planning import Plan


def leave_joined(
    graph: Graph, chosen: Plan, few_codes: Collection[str], context: Context
) -> bool:
    """Exclude what joins a tensor of ``few_codes`` to an output with others; whether any does.

    Each part is stored at its own scale then, and joined as the floats that the output is
    anyway. Not where outputs are to be integers, or a tool's rules say what shares a scale.
    """
    settings, reasons = context.settings, dict[str, str]()
    if settings.integer_io or settings.alignment != "qpasses":
        return False
    for node in graph.nodes if few_codes else ():
        lost = [each.name for each in data_inputs(node) if each.name in few_codes]
        if not lost or id(node) not in chosen.integer or node.op != "Concat":
            continue
        behind, states = _moved_out(graph, node), {end for _, end in chosen.states}
        if not states.isdisjoint(each.name for node in behind for each in node.outputs):
            continue  # one scale, as its input has
        for each in behind:
            reasons[each.name] = (
                f"joins {lost[0]!r} to an output with what is much wider: one scale would "
                "round it away"
            )
    context.selection.excluded.update(reasons)
    return bool(reasons)


def _moved_out(graph: Graph, node: Node) -> list[Node]:
    """``node`` and those that move its result, if it goes to outputs alone; else nothing."""
    found, waiting = [node], [*node.outputs]
    while waiting:
        tensor = waiting.pop()
        if not tensor.outputs and not is_graph_output(graph, tensor):
            return []
        for reader in tensor.outputs:
            if not moves(reader):
                return []
            if reader not in found:
                found.append(reader)
                waiting += reader.outputs
    return found
