"""Which body each node runs: the fast one where that is proved, the cheapest of a table."""

from collections.abc import Iterator, Mapping, Sequence

from opsets.op import DOMAIN
from opsets.qpasses_v1 import OPS
from qpasses.evidence.bodies import constants_of, form, made_bodies, rank_of
from qpasses.evidence.node_evidence import NodeEvidence
from qpasses.evidence.prove import proved_body
from qpasses.evidence.prove_tables import table_differences
from qpasses.ir.graph import Graph, Node, constant
from qpasses.ir.record import Record
from qpasses.ir.settings import Settings
from qpasses.ir.stages import LOOKUPS


def proved_fast(
    graph: Graph, record: Record, evidence: Sequence[NodeEvidence]
) -> Mapping[str, str]:
    """By node, its onnxruntime body, in use or not, if that is proved: it is right to run.

    ``evidence``: that of the bodies in use.
    """
    known = {each.name: each for each in evidence}
    nodes = (node for node in graph.nodes if node.domain == DOMAIN)
    found = {node.name: proved_body(node, record, known[node.name]) for node in nodes}
    return {name: each.body for name, each in found.items() if each is not None}


def unlike_bodies(
    graph: Graph, record: Record, settings: Settings, fast: Mapping[str, str]
) -> Iterator[str]:
    """Nodes whose body is right and yet not the one to take; ``fast``: of ``proved_fast``."""
    for node in graph.nodes:
        if node.domain != DOMAIN:
            continue
        entry = record.nodes[node.name]
        declared = OPS[node.op].body("portable", constants_of(node), node.attrs).overload
        if settings.bodies == "onnxruntime":
            declared = fast.get(node.name, declared)
        wanted = [declared]
        if settings.bodies == "onnxruntime" and node.op in LOOKUPS:
            yield from _costs(node, record, declared)
            known = {name: cost for name, cost in entry.costs.items() if cost is not None}
            wanted = [name for name, cost in known.items() if cost == min(known.values())]
        elif entry.costs:
            yield f"node {node.name!r} ({node.op}): its record has costs of bodies"
        if form(entry.overload) not in wanted:
            yield (
                f"node {node.name!r} ({node.op}): its body is {entry.overload!r}, "
                f"expected {' or '.join(map(repr, wanted))}"
            )


def _costs(node: Node, record: Record, declared: str) -> Iterator[str]:
    """Whether the record has a cost for each body, and none for those of other entries."""
    where, costs = f"node {node.name!r} ({node.op})", record.nodes[node.name].costs
    bodies = {form(body.overload): body for body in made_bodies(node, record)}
    if costs.keys() != bodies.keys() | {declared}:
        yield f"{where}: the recorded costs are not those of its bodies"
        return
    table = constant(node.inputs[-1])
    assert table is not None, node.name
    types = [record.tensors[tensor.name].dtype for tensor in node.inputs[:-1]]
    for name, cost in costs.items():
        if cost is None:
            body = bodies.get(name)
            rank = rank_of(node) or 0
            same = (
                body is None
                or not table_differences(
                    node.op, body, table, types, dict(sorted(node.attrs.items())), rank
                ).any()
            )
            if same:
                yield f"{where}: body {name!r} gives its entries, its record denies it"
        elif type(cost) is not int or cost < 0:
            yield f"{where}: the recorded cost of {name!r} is {cost!r}"
