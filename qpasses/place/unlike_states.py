"""Unlike states: what iterations leave much narrower than it is at first stays float."""

from collections.abc import Mapping

from calibration import Range
from qpasses.ir.flow import CARRIED_OUT
from qpasses.ir.graph import Graph, producer
from qpasses.ir.rewriting import Context
from qpasses.place.alignment import few_codes
from qpasses.place.planning import Plan


def leave_unlike(
    graph: Graph,
    chosen: Plan,
    ranges: Mapping[str, Range],
    shared: Mapping[str, Range],
    context: Context,
) -> bool:
    """Exclude states of which an iteration leaves few codes of those it finds; whether any.

    And what reads them: around a loop there is one scale, that of the widest. Not where a
    tool's rules say what shares a scale.
    """
    settings, reasons = context.settings, dict[str, str]()
    for node in graph.nodes if settings.alignment == "qpasses" else ():
        if node.op != CARRIED_OUT or id(node) not in chosen.integer:
            continue
        given, found = node.inputs[0].name, node.inputs[1]
        if given not in ranges or found.name not in shared:
            continue
        if few_codes({found.name: ranges[given]}, shared, settings.codes):
            for each in (producer(found), *found.outputs):
                reasons[each.name] = (
                    f"iterations leave {given!r} much narrower than {found.name!r} is at first"
                )
    context.selection.excluded.update(reasons)
    return bool(reasons)
