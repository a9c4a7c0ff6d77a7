"""Why a node has the body it has, in words."""

from opsets.op import DOMAIN
from opsets.qpasses_v1 import OPS
from qpasses.bodies import body_of, constants_of, form
from qpasses.graph import Node
from qpasses.record import NodeRecord, Record
from qpasses.settings import Settings


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
    if body_of(node, record).flavour == "onnxruntime":
        return f"the first onnxruntime body of {node.op} that computes such a node"
    first = OPS[node.op].body("onnxruntime", constants_of(node), node.attrs)
    if first.flavour == "portable":
        return f"portable, as no onnxruntime body of {node.op} computes such a node"
    return f"portable, as body {first.overload!r} would not give the meaning"


def _why_portable(settings: Settings) -> str:
    if not settings.target.fast_kernels:
        return f"portable, as target {settings.target.name!r} wants no fast kernels"
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
