"""IntegerEdges: inputs and outputs of the graph are the stored integers themselves."""

from typing import ClassVar

from qpasses.ir.graph import Graph, Node, Tensor, is_graph_output, producer
from qpasses.ir.patterns import Stored, quantized_by, stored_input
from qpasses.ir.record import SIGNALS
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Declined, Outcome, Pass
from qpasses.ir.stages import LOCATING, MEASURING


class IntegerEdges(Pass):
    """Take away the QuantizeLinear behind an input and the DequantizeLinear before an output.

    before: ``g (float x) => (float y) { s = Q (x); t = IntConv (s, ...); y = DQ (t) }``
    after:  ``g (uint8 s) => (uint8 t) { t = IntConv (s, ...) }``
    **Exact:** who calls the graph does the same rescaling outside; the record says which.
    """

    op_types: ClassVar = frozenset({"QuantizeLinear", "DequantizeLinear"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Put the stored tensor in the place of the float one in the graph's interface."""
        if node.op == "QuantizeLinear":
            return _take_input(graph, node, context)
        return _take_output(graph, node, context)


def _take_input(graph: Graph, node: Node, context: Context) -> Outcome:
    given, stored = node.inputs[0], quantized_by(node, context.settings, SIGNALS)
    place = next((i for i, tensor in enumerate(graph.inputs) if tensor is given), None)
    if place is None or stored is None:
        return NOT_MINE  # inside the graph
    others = [reader for reader in given.outputs if reader is not node]
    if is_graph_output(graph, given) or any(
        each.op not in MEASURING | LOCATING for each in others
    ):
        return Declined(f"input {given.name!r} is read in float as well")
    for each in others:
        each.inputs = [stored.tensor]
    _replace(graph.inputs, place, stored, node, context)
    return REWRITTEN


def _take_output(graph: Graph, node: Node, context: Context) -> Outcome:
    given, stored = node.outputs[0], stored_input(node.outputs[0], context.settings, SIGNALS)
    place = next((i for i, tensor in enumerate(graph.outputs) if tensor is given), None)
    if place is None or stored is None:
        return NOT_MINE  # inside the graph
    if given.outputs:
        return Declined(f"output {given.name!r} is read in float as well")
    if producer(stored.tensor) is None or is_graph_output(graph, stored.tensor):
        return Declined(f"output {given.name!r} would be a plain copy of another tensor")
    _replace(graph.outputs, place, stored, node, context)
    return REWRITTEN


def _replace(
    ends: list[Tensor], place: int, stored: Stored, node: Node, context: Context
) -> None:
    node.outputs.clear()
    ends[place] = stored.tensor
    context.record.tensors[stored.tensor.name] = stored.quantization
