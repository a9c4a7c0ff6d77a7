"""Why a node has the body it has, in words."""

from collections.abc import Sequence

from opsets.op import DOMAIN
from opsets.qpasses_v1 import OPS
from qpasses.evidence.bodies import constants_of, form
from qpasses.ir.graph import Node
from qpasses.ir.record import NodeRecord, Record
from qpasses.ir.settings import Settings


def why_body(node: Node, record: Record, settings: Settings) -> str:
    """What chose the body of a node of domain ``qpasses``.

    The wanted bodies, the cheapest of several for a table, the first that computes the node,
    or the proof, where no onnxruntime body gives the meaning.
    """
    assert node.domain == DOMAIN, node.op
    if settings.bodies == "portable":
        return _why_portable(settings)
    entry = record.nodes[node.name]
    if entry.costs:
        return _cheapest(entry)
    fitting = OPS[node.op].fitting("onnxruntime", constants_of(node), node.attrs)
    before = list[str]()
    for body in fitting:
        if body.overload == entry.overload:
            break
        before.append(body.overload)
    else:
        if not before:
            return f"portable, as no onnxruntime body of {node.op} computes such a node"
        return f"portable, as {_bodies(before)} would not give the meaning"
    if not before:
        return f"the first onnxruntime body of {node.op} that computes such a node"
    return f"the first that gives the meaning, as {_bodies(before)} would not"


def _bodies(names: Sequence[str]) -> str:
    return f"{'body' if len(names) == 1 else 'bodies'} {', '.join(map(repr, names))}"


def _why_portable(settings: Settings) -> str:
    if settings.emit == "standard":
        return "portable, as everything is written out in standard ops"
    return "portable, as was asked for"


def _cheapest(entry: NodeRecord) -> str:
    """The choice among the bodies of a table, whose costs the record holds."""
    wrong = [name for name, cost in entry.costs.items() if cost is None]
    reason = "the cheapest by estimate" if len(entry.costs) > 1 else "the only one"
    reason = f"{form(entry.overload)}: {reason} of those that give every entry"
    if not wrong:
        return reason
    return f"{reason}; cheaper but with other entries: {', '.join(sorted(wrong))}"
