"""The constants that a quantized model stores: their real numbers, and the integers beside."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from qpasses.ir.folding import fold_constants
from qpasses.ir.given import Codes
from qpasses.ir.graph import (
    Graph,
    Node,
    Tensor,
    constant,
    input_at,
    is_graph_output,
)
from qpasses.ir.rewriting import Context

Array: TypeAlias = NDArray[Any]
Move: TypeAlias = Callable[[Array], Array]

QUANTIZE, DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"


def take_constants(graph: Graph, context: Context) -> None:
    """Put real numbers in place of constants that are quantized or dequantized.

    Their integers are in ``Given.codes``, wherever a Transpose or the like moves them.
    """
    for node in linear_nodes(graph, QUANTIZE):
        if constant(node.inputs[0]) is not None:
            _replace(graph, node, context.constant(f"{node.name}.codes", _codes(node)))
    fold_constants(graph)
    for node in list(graph.nodes):
        if node.op == DEQUANTIZE and is_known(node) and constant(node.inputs[0]) is not None:
            _take_constant(graph, node, context)
        elif node.op in _MOVES and len(node.outputs) == 1:
            _move_constant(graph, node, context)


def linear_nodes(graph: Graph, op: str) -> list[Node]:
    """The nodes of ``op``, one of the two, whose scale and zero point are constants."""
    return [each for each in graph.nodes if each.op == op and is_known(each)]


def is_known(node: Node) -> bool:
    """Whether scale and zero point of a Q or DQ node are constants."""
    zero = input_at(node, 2)
    return constant(input_at(node, 1)) is not None and (
        zero is None or constant(zero) is not None
    )


def parameters(node: Node) -> tuple[NDArray[np.float64], Array]:
    """Scale and zero point of a Q or DQ node, both constant."""
    scale, zero = constant(input_at(node, 1)), constant(input_at(node, 2))
    assert scale is not None, node.name
    if zero is None:
        read = node.op == DEQUANTIZE
        dtype = (node.inputs if read else node.outputs)[0].dtype or np.uint8
        zero = np.zeros(scale.shape, dtype)
    return scale.astype(np.float64), zero


def _codes(node: Node) -> Array:
    """What a QuantizeLinear makes of a constant: float32, half to even, saturated."""
    values = np.asarray(constant(node.inputs[0]), np.float32)
    scale, zero = parameters(node)
    column = _column(scale, values.ndim, node)
    levels = np.rint(values / scale.astype(np.float32).reshape(column))
    ends = np.iinfo(zero.dtype)
    wide = levels.astype(np.float64) + zero.astype(np.float64).reshape(column)
    return np.asarray(np.clip(wide, ends.min, ends.max), zero.dtype)


def _column(scale: Array, dims: int, node: Node) -> list[int]:
    """The shape in which one number for each channel meets a tensor of so many dimensions."""
    column = [1] * dims
    if scale.size > 1:
        column[node.attrs.get("axis", 1)] = -1
    return column


def _take_constant(graph: Graph, node: Node, context: Context) -> None:
    """The real numbers of a stored constant, where all its integers fit int32."""
    stored = np.asarray(constant(node.inputs[0]))
    scale, zero = parameters(node)
    if node.attrs.get("block_size", 0) or stored.dtype.kind not in "iu":
        context.record.declined[node.name] = "weights in blocks, or no integers: not kept"
        return
    column = _column(scale, stored.ndim, node)
    scale, zero = scale.reshape(column), zero.reshape(column)
    codes = Codes.of(stored, zero, scale)
    narrow = scale.astype(np.float32)
    values = np.asarray(np.multiply(codes.levels, narrow, dtype=np.float32))
    values.flags.writeable = False  # then it need not be copied
    made = context.constant(f"{node.outputs[0].name}_real", values)
    context.given.codes[made.name] = codes
    if is_graph_output(graph, node.outputs[0]):
        context.record.declined[node.name] = "it gives an output that is constant"
    _replace(graph, node, made)


def _replace(graph: Graph, node: Node, made: Tensor) -> None:
    """Let readers of what ``node`` writes read the constant ``made``."""
    result = node.outputs[0]
    for reader in list(result.outputs):
        for index, tensor in enumerate(reader.inputs):
            if tensor is result:
                reader.inputs[index] = made
    if not is_graph_output(graph, result):
        node.inputs.clear()
        node.outputs.clear()


def _permuted(node: Node, shape: tuple[int, ...]) -> Move:
    perm = node.attrs.get("perm") or list(range(len(shape)))[::-1]
    return lambda each: each.transpose(perm)


def _reshaped(node: Node, shape: tuple[int, ...]) -> Move | None:
    wanted = constant(input_at(node, 1))
    if wanted is None:
        return None
    sizes = [int(size) for size in wanted.reshape(-1)]
    if not node.attrs.get("allowzero", 0):
        sizes = [shape[k] if size == 0 else size for k, size in enumerate(sizes)]
    return lambda each: each.reshape(sizes)


def _flattened(node: Node, shape: tuple[int, ...]) -> Move:
    axis = node.attrs.get("axis", 1) % (len(shape) + 1)
    rows = int(np.prod(shape[:axis], dtype=np.int64))
    return lambda each: each.reshape(rows, -1)


def _axes_of(node: Node) -> tuple[int, ...] | None:
    axes = constant(input_at(node, 1))
    given = node.attrs.get("axes") if axes is None else axes.reshape(-1).tolist()
    return None if given is None else tuple(int(axis) for axis in given)


def _squeezed(node: Node, _shape: tuple[int, ...]) -> Move:
    axes = _axes_of(node)
    return lambda each: each.squeeze(axes)


def _unsqueezed(node: Node, _shape: tuple[int, ...]) -> Move | None:
    axes = _axes_of(node)
    return None if axes is None else lambda each: np.expand_dims(each, axes)


def _kept(_node: Node, _shape: tuple[int, ...]) -> Move:
    return lambda each: each


_MOVES: Mapping[str, Callable[[Node, tuple[int, ...]], Move | None]] = {
    "Flatten": _flattened,
    "Identity": _kept,
    "Reshape": _reshaped,
    "Squeeze": _squeezed,
    "Transpose": _permuted,
    "Unsqueeze": _unsqueezed,
}
"""Between a stored constant and who reads it: what each does to an array of its shape."""


def _move_constant(graph: Graph, node: Node, context: Context) -> None:
    """Move the numbers of a stored constant, and its integers with them."""
    source = node.inputs[0]
    values = constant(source)
    if values is None or context.given.codes_of(source) is None:
        return
    move = _MOVES[node.op](node, values.shape)
    if move is None or is_graph_output(graph, node.outputs[0]):
        return
    made = context.constant(f"{node.outputs[0].name}_moved", move(values))
    context.given.carry(source, made, lambda codes: codes.moved(move))
    _replace(graph, node, made)
