"""Choose the body of each node: the cheapest of a table, else the first that is proved."""

from collections.abc import Iterator
from math import prod

from opsets.op import DOMAIN
from opsets.qpasses_v1 import OPS
from qpasses.evidence.bodies import constants_of, form, made_bodies, rank_of
from qpasses.evidence.costs import NOMINAL, measured
from qpasses.evidence.node_evidence import NodeEvidence
from qpasses.evidence.prove import evidence_of, proved_body
from qpasses.evidence.prove_tables import table_differences
from qpasses.ir.graph import Graph, Node, constant, producer
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
    record = context.record
    for node in graph.nodes:
        if node.domain == DOMAIN and context.flavour == "onnxruntime":
            if node.op in LOOKUPS:
                _choose(node, context)
            elif found := proved_body(node, record):
                record.nodes[node.name].overload = found.body
                yield found
                continue
        yield from evidence_of(node, record)


def _choose(node: Node, context: Context) -> None:
    record, prices = context.record, measured()
    entry, table = record.nodes[node.name], constant(node.inputs[-1])
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
    attributes = {name: node.attrs[name] for name in sorted(node.attrs)}
    rank = rank_of(node) or 0
    for cost, place in ranked:
        body = bodies[place]
        differs = (
            place > 0
            and table_differences(node.op, body, table, types, attributes, rank).any()
        )
        entry.costs[form(body.overload)] = None if differs else round(cost)
        if not differs:
            entry.overload = body.overload
            break
    for cost, place in ranked:
        entry.costs.setdefault(form(bodies[place].overload), round(cost))


def _transposes(node: Node) -> int:
    """How often a flattened tensor has to change its layout: at a convolution on a side."""
    shape = node.outputs[0].shape
    if shape is None or len(shape) != _PICTURE:
        return 0
    before = producer(node.inputs[0])
    after = [reader.op for reader in node.outputs[0].outputs]
    return int(before is not None and before.op == "IntConv") + int("IntConv" in after)
