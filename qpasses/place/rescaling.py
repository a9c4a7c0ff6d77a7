"""Rescaling: where a moving node would mix scales, tensors are stored anew at one of them."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from qpasses.ir.flow import CARRIED_OUT
from qpasses.ir.graph import STORE, Graph, Node, Tensor, add_node, new_tensor, producer
from qpasses.ir.moving import moves, results
from qpasses.ir.patterns import data_inputs
from qpasses.ir.record import Quantization
from qpasses.ir.rewriting import Context
from qpasses.place.planning import Plan


@dataclass(frozen=True)
class Edge:
    """Tensor ``name``, an input or output of ``node``, which moves it as ``meaning``."""

    node: Node
    is_input: bool
    index: int
    name: str
    meaning: Quantization


def unlike_edges(
    graph: Graph,
    chosen: Plan,
    parameters: Mapping[str, Quantization],
    narrow: Mapping[str, Quantization],
    words: Container[str] = (),
) -> list[Edge]:
    """The inputs and outputs of moving nodes that are stored in another way than is moved.

    A node moves what its results are stored as; if these differ, what it reads is stored as,
    8 bits of it, which ``narrow`` says, where it has 16; but what is among ``words`` is moved
    as it is. What an iteration makes of a state is stored as the one that it finds.
    """
    found = []
    for node in graph.nodes:
        if not moves(node) or id(node) not in chosen.integer:
            continue
        read = {tensor.name for tensor in data_inputs(node)}
        written = [tensor.name for tensor in results(graph, node)]
        one = len({parameters[name] for name in written}) == 1
        first = written[0] if one or not read else data_inputs(node)[0].name
        if node.op == CARRIED_OUT:  # an iteration leaves a state as the next one finds it
            first = node.inputs[1].name
        moves_narrow = first in narrow and first not in words
        meaning = narrow[first] if moves_narrow else parameters[first]
        found += [
            Edge(node, is_input, index, tensor.name, meaning)
            for is_input, ends in ((True, node.inputs), (False, node.outputs))
            for index, tensor in enumerate(ends)
            if tensor.name in (read if is_input else written)
            and parameters[tensor.name] != meaning
        ]
    return found


def store_anew(
    graph: Graph, edges: Sequence[Edge], context: Context, computing: Container[int] = ()
) -> None:
    """Put QuantizeLinear and DequantizeLinear on each edge, once for all that read the same.

    IntegerizeRescaling makes a table of each, as they stand behind a DequantizeLinear. What a
    user gives, or a float node, a STORE stores as it is, twice if need be; ``computing``: the
    ids of integer nodes.
    """
    made: dict[tuple[str, Quantization], Tensor] = {}
    kept = {*context.given.scales.values()}
    for edge in edges:
        name, meaning = edge.name, edge.meaning
        ends = edge.node.inputs if edge.is_input else edge.node.outputs
        known = ends[edge.index]
        if edge.is_input and (name, meaning) in made:
            ends[edge.index] = made[name, meaning]
            continue
        other = new_tensor(context.fresh(f"{name}_moved"), known)
        ends[edge.index] = other
        source, real = (known, other) if edge.is_input else (other, known)
        if edge.node.op == STORE:
            source = _unrounded(known, computing)
        stored = new_tensor(context.fresh(f"{name}_rescaled"), known, np.dtype(meaning.dtype))
        context.record.tensors[stored.name] = meaning
        if meaning in kept:
            context.record.kept.append(stored.name)
        if name in context.sizes:
            context.sizes[stored.name] = context.sizes[name]
        quantize_and_back(graph, (source, stored, real), meaning, stored.name, context)
        if edge.is_input:
            made[name, meaning] = real


def _unrounded(tensor: Tensor, computing: Container[int]) -> Tensor:
    """What was stored to give ``tensor``, if no integer node writes it; else ``tensor``."""
    back = producer(tensor)
    store = None if back is None else producer(back.inputs[0])
    if store is None or store.op != "QuantizeLinear":
        return tensor
    writer = producer(store.inputs[0])
    return tensor if writer is not None and id(writer) in computing else store.inputs[0]


def quantize_and_back(
    graph: Graph,
    ends: tuple[Tensor, Tensor, Tensor],
    meaning: Quantization,
    name: str,
    context: Context,
) -> None:
    """Let Q and DQ, called after ``name``, lead from a real tensor over a stored to a real."""
    source, stored, real = ends
    scale = context.constant(f"{name}_scale", np.array(meaning.scale))
    zero = context.constant(f"{name}_zero_point", meaning.zero)
    for op, end, start, result in (
        ("QuantizeLinear", "quantize", source, stored),
        ("DequantizeLinear", "dequantize", stored, real),
    ):
        add_node(graph, op, context.fresh(f"{name}_{end}"), [start, scale, zero], [result])
