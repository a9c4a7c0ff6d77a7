"""Integer twins: a float node that stayed beside the integer node that computes the same."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.op import DOMAIN
from qpasses.ir.graph import Graph, add_node, new_tensor, redirect
from qpasses.ir.order import tidy
from qpasses.ir.record import AnyQuantization, Quantization
from qpasses.ir.rewriting import Context


def read_integer_twins(graph: Graph, context: Context) -> None:
    """Let what stays in float read the stored result of a node that is integer for others.

    A chain becomes a table from its first tensor on; where one that goes on has no table, the
    float nodes of it are left, also those whose result is stored.
    """
    integer = {node.name: node for node in graph.nodes if node.domain == DOMAIN}
    both = [node for node in graph.nodes if node.domain != DOMAIN and node.name in integer]
    for node in both:
        (y,), (stored,) = node.outputs, integer[node.name].outputs
        scales, zeros, along = _parameters(context.record.tensors[stored.name])
        scale = context.constant(f"{y.name}_scale", scales)
        zero = context.constant(f"{y.name}_zero_point", zeros)
        real = new_tensor(context.fresh(f"{y.name}_dequantized"), y)
        redirect(graph, y, real)
        name = context.fresh(f"{y.name}_dequantize")
        add_node(
            graph, "DequantizeLinear", name, [stored, scale, zero], [real], attributes=along
        )
    if both:
        tidy(graph)


def _parameters(
    meaning: AnyQuantization,
) -> tuple[NDArray[np.float32], NDArray[Any], dict[str, Any]]:
    """Scale, zero point and attributes of what dequantizes a tensor."""
    if isinstance(meaning, Quantization):
        return np.array(meaning.scale, np.float32), meaning.zero, {}
    scales = np.array(meaning.scales, np.float32)
    return scales, np.array(meaning.zero_points, meaning.dtype), {"axis": meaning.axis}
