"""Choose the body of each node: the cheapest of a table, else the first that is proved."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from opsets.op import DOMAIN
from opsets.qpasses_v1 import OPS
from qpasses.evidence.bodies import constants_of, form, made_bodies, rank_of
from qpasses.evidence.costs import NOMINAL, measured
from qpasses.evidence.node_evidence import NodeEvidence
from qpasses.evidence.prove import AT_ONCE, evidence_of, proved_body
from qpasses.evidence.prove_tables import differences
from qpasses.evidence.table_places import Asked, asked_of
from qpasses.evidence.tables_together import ANSWERS
from qpasses.ir.graph import Graph, Node, constant, producer
from qpasses.ir.record import NodeRecord
from qpasses.ir.rewriting import Context
from qpasses.ir.stages import LOOKUPS

_PICTURE = 4
"""The rank of tensors whose layout onnxruntime changes for its convolutions."""


def choose_bodies(graph: Graph, context: Context) -> Iterator[NodeEvidence]:
    """The evidence of each integer node, in graph order, with the body it gets.

    Lookups get the one with the smallest cost of those equal on all codes; the record says
    what each was estimated to cost, in nanoseconds, and None for the bodies that are cheaper
    but give another entry. Others get the first onnxruntime body that the proof accepts, and
    keep the portable one where there is none, or portable bodies are wanted.
    """
    for start in range(0, len(graph.nodes), AT_ONCE):
        yield from _chosen(graph.nodes[start : start + AT_ONCE], context)


def _chosen(nodes: Sequence[Node], context: Context) -> Iterator[NodeEvidence]:
    record, is_fast = context.record, context.flavour == "onnxruntime"
    own = [node for node in nodes if node.domain == DOMAIN] if is_fast else []
    lookups = {node.name: _ranked(node, context) for node in own if node.op in LOOKUPS}
    waiting = list(lookups.values())
    for tried in range(max(map(len, waiting), default=0)):
        ANSWERS.ask(each[tried].asked for each in waiting)
        waiting = [each for each in waiting if each[tried].differs()]
    for node in nodes:
        if node.name in lookups:
            _choose(lookups[node.name], record.nodes[node.name])
        elif is_fast and node.domain == DOMAIN and (found := proved_body(node, record)):
            record.nodes[node.name].overload = found.body
            yield found
            continue
        yield from evidence_of(node, record)


@dataclass(frozen=True)
class _Candidate:
    """A body that may compute a table, at what cost; the ``declared`` one looks it up."""

    cost: float
    asked: Asked
    declared: bool

    def differs(self) -> bool:
        """Whether it gives another entry."""
        return not self.declared and bool(differences(self.asked).any())


def _ranked(node: Node, context: Context) -> list[_Candidate]:
    """What may compute the table of ``node``, the cheapest first."""
    record, prices, table = context.record, measured(), constant(node.inputs[-1])
    assert table is not None, node.name
    sizes = context.sizes.get(node.outputs[0].name)
    elements = NOMINAL if sizes is None else prod(sizes)
    declared = OPS[node.op].body("onnxruntime", constants_of(node), node.attrs)
    bodies = [declared, *made_bodies(node, record)]
    ranked = sorted(
        (prices.of(node.op, body, elements, _transposes(node)), place)
        for place, body in enumerate(bodies)
    )
    types = [record.tensors[tensor.name].dtype for tensor in node.inputs[:-1]]
    rank = rank_of(node) or 0
    return [
        _Candidate(
            cost, asked_of(node.op, bodies[place], table, types, node.attrs, rank), place == 0
        )
        for cost, place in ranked
    ]


def _choose(ranked: Sequence[_Candidate], entry: NodeRecord) -> None:
    """The first that gives the table, into ``entry``, with the costs of all."""
    for each in ranked:
        overload, differs = each.asked.body.overload, each.differs()
        entry.costs[form(overload)] = None if differs else round(each.cost)
        if not differs:
            entry.overload = overload
            break
    for each in ranked:
        entry.costs.setdefault(form(each.asked.body.overload), round(each.cost))


def _transposes(node: Node) -> int:
    """How often a flattened tensor has to change its layout: at a convolution on a side."""
    shape = node.outputs[0].shape
    if shape is None or len(shape) != _PICTURE:
        return 0
    before = producer(node.inputs[0])
    after = [reader.op for reader in node.outputs[0].outputs]
    return int(before is not None and before.op == "IntConv") + int("IntConv" in after)
