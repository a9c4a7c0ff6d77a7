"""Kept scales: how a model that is quantized already says that tensors are stored."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace

from calibration import Range
from qpasses.ir.graph import STORE, Graph, Node, Tensor, is_graph_output, producer, varies
from qpasses.ir.moving import moves, results
from qpasses.ir.patterns import activations, data_inputs
from qpasses.ir.record import Quantization
from qpasses.ir.recurrent_nodes import GATES
from qpasses.ir.rewriting import Context
from qpasses.ir.stages import CLAMPING
from qpasses.place.planning import Plan, plan
from qpasses.place.ranges import Ranges
from qpasses.place.residuals import stored_end
from qpasses.place.words import takes_streams

MODEL = "model"
"""In place of a method: the model says how the tensor is stored."""

MISSING = "the model does not say how it is stored, and there are no samples to tell (--data)"


def kept(graph: Graph, chosen: Plan, context: Context) -> dict[str, Quantization]:
    """By tensor of the plan, how the model stores it; those that it says nothing of left out.

    What integer nodes move or clamp keeps its scale where the model says none behind them, and
    has that of what follows where it says none before and nothing else reads it: either is
    exact, for rounding is monotone. Where several scales meet, none follows. A state has the
    scale of its next value, and this that of the state, where the model says but one.
    """
    scales = context.given.scales
    if not scales:
        return {}
    stores = [node for node in graph.nodes if node.name in scales]
    found = {node.outputs[0].name: scales[node.name] for node in stores}
    for node in stores:
        found.setdefault(node.inputs[0].name, scales[node.name])
    passing = [each for each in graph.nodes if _passes_on(each) and id(each) in chosen.integer]
    movers, count = {id(each) for each in passing}, -1
    while count < len(found):
        count = len(found)
        for start, end in chosen.states:
            for name, other in ((start, end), (end, start)):
                if other in found:
                    found.setdefault(name, found[other])
        for node in passing:
            before = {found.get(tensor.name) for tensor in data_inputs(node)}
            if len(before) == 1 and (meaning := before.pop()) is not None:
                for tensor in _ends(graph, node):
                    found.setdefault(tensor.name, meaning)
        for node in reversed(passing):
            for tensor in data_inputs(node):
                if tensor.name in found:
                    continue
                readers = [] if is_graph_output(graph, tensor) else tensor.outputs
                behind = {_after(graph, each, found, movers) for each in readers}
                if len(behind) == 1 and (meaning := behind.pop()) is not None:
                    found.setdefault(tensor.name, meaning)
    return {name: found[name] for name in chosen.tensors if name in found}


def _after(
    graph: Graph, node: Node, found: Mapping[str, Quantization], passing: Container[int]
) -> Quantization | None:
    """How all is stored that ``node`` moves or clamps, if that is known and is one way."""
    if id(node) not in passing:
        return None
    ways = {found.get(tensor.name) for tensor in _ends(graph, node)}
    return ways.pop() if len(ways) == 1 else None


def _passes_on(node: Node) -> bool:
    return node.op != STORE and (moves(node) or node.op in CLAMPING)


def _ends(graph: Graph, node: Node) -> Sequence[Tensor]:
    return results(graph, node) if moves(node) else node.outputs


def range_of(meaning: Quantization) -> Range:
    """The real numbers of the codes."""
    low, high = ((end - meaning.zero_point) * meaning.scale for end in meaning.limits)
    return Range(low, high)


def with_kept(found: Ranges, known: Mapping[str, Quantization]) -> Ranges:
    """``found``, and the ranges of the tensors that the model has scales for."""
    ranges = {name: range_of(meaning) for name, meaning in known.items()}
    return replace(
        found,
        ranges={**found.ranges, **ranges},
        methods={**found.methods, **dict.fromkeys(known, MODEL)},
    )


def planned(graph: Graph, context: Context) -> Plan:
    """The plan: what computes in 8 bits stays float where the model stores 16.

    Later its weights would be in 8 bits already.
    """
    while True:
        chosen = plan(graph, context)
        known = kept(graph, chosen, context)
        wide = {name: each for name, each in known.items() if each.dtype == "int16"}
        computing = chosen.computing if wide else []
        found = [(n, what) for n in computing if (what := _too_wide(n, chosen, wide, context))]
        if not found:
            return chosen
        for node, what in found:
            reason = f"{node.op} takes 8 bits: the model stores what it {what} in 16"
            _leave(node, reason, context)


def _too_wide(
    node: Node, chosen: Plan, wide: Mapping[str, Quantization], context: Context
) -> str:
    """What ``node`` does with a tensor of ``wide`` that it cannot, or nothing.

    Recurrent nodes read and write both widths, products with constant weights read both where
    the target has nodes of two widths.
    """
    if node.op in GATES:
        return ""
    read = [wide[tensor.name] for tensor in activations(node) if tensor.name in wide]
    is_free = context.target.word_ends != "alike" and not context.target.byte_ops
    is_product = is_free and node.op in ("Gemm", "MatMul") and not varies(node.inputs[1])
    if not is_product and not all(takes_streams(node, each) for each in read):
        return "reads"
    return "writes" if stored_end(node, chosen) in wide and node.op != "Add" else ""


def _leave(node: Node, reason: str, context: Context) -> None:
    context.selection.excluded.setdefault(node.name, reason)
    context.record.declined[node.name] = reason


def planned_without_samples(graph: Graph, context: Context) -> Plan:
    """The plan of what the model says itself: nodes at other tensors are declined."""
    while True:
        chosen = planned(graph, context)
        missing = chosen.tensors.keys() - kept(graph, chosen, context).keys()
        if not missing:
            return chosen
        for node in graph.nodes:
            ends = [tensor.name for tensor in (*node.inputs, *node.outputs)]
            if id(node) in chosen.integer and not missing.isdisjoint(ends):
                first = next(name for name in ends if name in missing)
                _leave(node, f"{first!r}: {MISSING}", context)


def read_early(graph: Graph, chosen: Plan, context: Context) -> list[str]:
    """Tensors that nodes, or an output, have before they are stored, and then as stored.

    Integer nodes have nothing else; what a float node writes, others may read unrounded.
    """
    found = {}
    for node in [each for each in graph.nodes if each.name in context.given.scales]:
        source = node.inputs[0]
        writer = producer(source)
        is_rounded = writer is not None and id(writer) in chosen.integer
        others = [each for each in source.outputs if each.op != STORE]
        if any(id(each) in chosen.integer for each in others) or (
            is_rounded and (others or is_graph_output(graph, source))
        ):
            found[source.name] = node
    return list(found)
