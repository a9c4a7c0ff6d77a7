"""Store apart: what a model quantizes twice, with other parameters, is computed twice.

An integer node rounds its sum once: at the second scale it would be rounded twice, and cut off
at the ends of the first.
"""

from qpasses.ir.graph import STORE, Graph, Node, Tensor, add_node, new_tensor, producer
from qpasses.ir.order import sort_nodes
from qpasses.ir.rewriting import Context


def store_apart(graph: Graph, context: Context) -> None:
    """Let each STORE of a tensor that another one stores otherwise read a copy of it."""
    context.adopt(graph)
    for node in [each for each in graph.nodes if each.op == STORE]:
        source = node.inputs[0]
        first = next(each for each in source.outputs if each.op == STORE)
        scales = context.given.scales
        if scales[node.name] != scales[first.name] and _is_computed(source):
            node.inputs[0] = _copy(graph, source, {}, context)
            context.given.twice.append(source.name)
    sort_nodes(graph)


def _is_computed(tensor: Tensor) -> bool:
    node = producer(tensor)
    return node is not None and node.op not in (STORE, "DequantizeLinear")


def _copy(graph: Graph, tensor: Tensor, made: dict[int, Node], context: Context) -> Tensor:
    """What computes ``tensor``, from what is stored on, once more."""
    node = producer(tensor)
    if node is None or not _is_computed(tensor):
        return tensor
    if id(node) not in made:
        inputs = [_copy(graph, each, made, context) for each in node.inputs]
        outputs = [
            new_tensor(context.fresh(f"{each.name}_again"), each) if each.name else each
            for each in node.outputs
        ]
        name = context.fresh(f"{node.name}_again")
        attributes = dict(node.attrs)
        made[id(node)] = add_node(
            graph, node.op, name, inputs, outputs, attributes=attributes, domain=node.domain
        )
        context.selection.inherit(made[id(node)], node)
    return made[id(node)].outputs[next(i for i, t in enumerate(node.outputs) if t is tensor)]
