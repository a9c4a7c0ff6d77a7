"""Fusing: what keeps onnxruntime from fusing nodes that stay float into kernels that fail."""

from collections.abc import Container

from qpasses.ir.graph import Graph, Node, add_node, constant, new_tensor, producer
from qpasses.ir.order import tidy
from qpasses.ir.rewriting import Context
from qpasses.ir.stages import QUANTIZING

NO_DILATIONS = "keeps onnxruntime from fusing the pool into a kernel without dilations"
ONE_SCALE = "keeps onnxruntime from fusing nodes into a kernel that takes one scale"


def keep_apart(graph: Graph, integer: Container[int], context: Context) -> None:
    """Put a Max of one tensor, which is that tensor, where onnxruntime 1.31 would fuse.

    A pool between DequantizeLinear and QuantizeLinear becomes QLinearAveragePool, which knows
    no dilations; what writes or reads an activation with a scale for each channel becomes a
    kernel that takes one for all. Both are refused when they run. ``integer``: the ids of the
    nodes that become integer.
    """
    keep_pools_apart(graph, () if context.settings.emit == "qdq" else integer, context)
    for node in list(graph.nodes):
        if node.op in QUANTIZING and _has_several_scales(node):
            if node.op == "DequantizeLinear" and node.outputs[0].outputs:
                _put_behind(graph, node, ONE_SCALE, context)
            elif node.op == "QuantizeLinear" and _computes(producer(node.inputs[0])):
                _put_before(graph, node, ONE_SCALE, context)


def keep_pools_apart(graph: Graph, integer: Container[int], context: Context) -> None:
    """The same of AveragePools with dilations that are in float, as they stand."""
    apart = list[Node]()
    for node in [each for each in graph.nodes if each.op == "AveragePool"]:
        if all(n == 1 for n in node.attrs.get("dilations") or []):
            node.attrs.pop("dilations", None)
            continue
        behind = {context.record.declined.get(each.name) for each in node.outputs[0].outputs}
        if id(node) not in integer and NO_DILATIONS not in behind:
            apart.append(node)
    for node in apart:
        _put_behind(graph, node, NO_DILATIONS, context)
    if apart:
        tidy(graph)


def _computes(node: Node | None) -> bool:
    return node is not None and node.op not in QUANTIZING


def _has_several_scales(node: Node) -> bool:
    """Whether a Q or DQ of an activation has them: only a model that was quantized does."""
    scale = constant(node.inputs[1])
    return scale is not None and scale.size > 1 and constant(node.inputs[0]) is None


def _put_behind(graph: Graph, node: Node, reason: str, context: Context) -> None:
    """Let a Max give what ``node`` gave."""
    output = node.outputs[0]
    inner = new_tensor(context.fresh(f"{output.name}_unfused"), output)
    node.outputs = [inner]
    name = context.fresh(f"{node.name}_apart")
    add_node(graph, "Max", name, [inner], [output])
    context.selection.excluded[name] = context.record.declined[name] = reason


def _put_before(graph: Graph, node: Node, reason: str, context: Context) -> None:
    """Let ``node`` alone read its input through a Max: others may be integer."""
    given = node.inputs[0]
    node.inputs[0] = new_tensor(context.fresh(f"{given.name}_unfused"), given)
    name = context.fresh(f"{node.name}_apart")
    add_node(graph, "Max", name, [given], [node.inputs[0]])
    context.selection.excluded[name] = context.record.declined[name] = reason
