"""Weights: constant matrices and their biases behind DequantizeLinear nodes."""

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from opsets.row_blocks import blocks
from opsets.weights import WEIGHTS
from qpasses.ir.edges import rounded
from qpasses.ir.graph import (
    Graph,
    Node,
    Tensor,
    add_node,
    constant,
    input_at,
    new_tensor,
    producer,
)
from qpasses.ir.patterns import absorbed, bias_row
from qpasses.ir.recurrent_nodes import GATES, B, R, W, X, biases_of, given_inputs
from qpasses.ir.rewriting import Context
from qpasses.lowering.lstm_kernels import has_kernel

BIAS_LIMIT = 1 << 30
"""Stored biases leave half of int32 to the products."""

MATRIX_OPS = {"Conv": 0, "Gemm": 1, "MatMul": 1}
"""Ops with constant weights, and the axis of the output channels in them."""


Scales: TypeAlias = NDArray[np.floating[Any]]


def weight_scales(
    wanted: Scales, bias: NDArray[Any], x_scale: NDArray[np.float64]
) -> tuple[Scales, NDArray[np.bool_]]:
    """The scale of each channel of weights, and where it was raised for the bias.

    That which is ``wanted``, more where the bias would not fit: bias / (x_scale * scale) <=
    2**30. A channel without weights takes the scale that stores its bias in 24 bits. x_scale *
    scale, the step of the bias, stays a normal float32.
    """
    size = np.abs(bias.astype(np.float64))
    least = size / (x_scale * BIAS_LIMIT) * (1 + 2.0**-20)
    raised = (wanted < least) & (wanted > 0)
    scale = np.where(wanted > 0, np.maximum(wanted, least), size / (x_scale * 2.0**24))
    scale = np.where(scale > 0, np.maximum(scale, 2.0**-120 / x_scale), 1.0)
    with np.errstate(over="ignore"):  # whoever stores weights with it asks
        return scale.astype(wanted.dtype), raised


def quantize_weights(graph: Graph, node: Node, context: Context) -> None:
    """Put weights and bias behind DequantizeLinear: as the model has them, or by a rule.

    They stay as they are where float32 does not hold their scales: no integer node does. Of
    what the node reads each output channel has one scale: that of the tensor or its channel.
    """
    axis = MATRIX_OPS[node.op]
    weights = np.asarray(constant(node.inputs[1]))
    holder, place_of_bias = _bias_home(graph, node)
    bias_tensor = input_at(holder, place_of_bias) if place_of_bias else None
    bias = None if bias_tensor is None else np.asarray(constant(bias_tensor))
    x_scale = np.asarray(constant(producer_of(node.inputs[0]).inputs[1]), np.float64)
    if x_scale.ndim:
        x_scale = np.repeat(x_scale, weights.shape[axis] // x_scale.size)
    kept = _kept_matrix(node, axis, bias_tensor, x_scale, context)
    matrix = kept or stored_matrix(node, axis, weights, bias, x_scale, context)
    with np.errstate(over="ignore", under="ignore"):  # it is asked next
        bias_scale = matrix.scale.dtype.type(x_scale) * matrix.scale
    if not _holds(matrix.scale) or (matrix.bias is not None and not _holds(bias_scale)):
        context.record.declined[node.name] = f"{node.op} with a scale that is beyond float32"
        return
    if kept:
        context.given.kept.append(node.name)
    if matrix.raised:
        context.record.raised_weight_scales[node.name] = matrix.raised
    scale, zero = matrix.scale, np.full(matrix.scale.shape, matrix.zero, matrix.weights.dtype)
    node.inputs[1] = dequantized_constant(
        context, graph, f"{node.name}.weight", matrix.weights, scale, axis, zero
    )
    if matrix.bias is not None:
        holder.inputs[place_of_bias] = dequantized_constant(
            context, graph, f"{node.name}.bias", matrix.bias, bias_scale, 0
        )


@dataclass(frozen=True)
class Matrix:
    """Stored weights with one scale or one for each channel, one zero point, stored bias.

    ``raised``: the channels whose scale was raised for the bias.
    """

    weights: NDArray[Any]
    scale: Scales
    bias: NDArray[np.int32] | None
    zero: int = 0
    raised: list[int] = field(default_factory=list)


def stored_matrix(
    node: Node,
    axis: int,
    weights: NDArray[Any],
    bias: NDArray[Any] | None,
    x_scale: NDArray[np.float64],
    context: Context,
    whole: bool = False,
) -> Matrix:
    """By the rule of the target, with scales raised where a bias would not fit.

    ``whole``: with one scale, whatever the rule.
    """
    values = np.zeros(weights.shape[axis], np.float32) if bias is None else bias
    rows = np.moveaxis(weights, axis, 0) if axis else weights
    rows = rows.reshape(weights.shape[axis], -1)
    rule, size = WEIGHTS[context.target.weights], np.abs(values)
    dtype = rule.dtype(node.op, rows, bias is not None)
    if whole or not context.settings.has_channels(node.op):
        rows, values = rows.reshape(1, -1), size.max(initial=0.0, keepdims=True)
    wanted = rule.scales(node.op, rows, dtype == np.uint8)
    scale, raised = weight_scales(wanted, values, x_scale)
    raised = raised & (size == np.abs(values))
    column = [1] * weights.ndim
    column[axis] = -1
    divisors = np.broadcast_to(scale.reshape(column).astype(np.float64), weights.shape)
    ends, stored = np.iinfo(dtype), np.empty(weights.shape, dtype)
    for part in blocks(weights):
        levels = rounded(weights[part].astype(np.float64) / divisors[part], rule.rounding)
        stored[part] = np.clip(levels, ends.min, ends.max).astype(dtype)
    if bias is None:
        return Matrix(stored, scale, None)
    steps = np.float64(x_scale) * scale.astype(np.float64)
    levels = rounded(bias.astype(np.float64) / steps, rule.rounding).astype(np.int32)
    return Matrix(stored, scale, levels, raised=np.flatnonzero(raised).tolist())


def _kept_matrix(
    node: Node, axis: int, bias: Tensor | None, x_scale: NDArray[np.float64], context: Context
) -> Matrix | None:
    """As the model has them, bit for bit; None where it says nothing, or it cannot be kept."""
    codes = context.given.codes_of(node.inputs[1])
    if codes is None:
        return None
    scale, found = codes.scales_along(axis), stored_in_bytes(codes.stored)
    reason = ""
    if scale is None:
        reason = "they have a scale for each of what is summed, not for each output channel"
    elif not _holds(scale):
        reason = "their scale is beyond float32"
    elif found is None:
        reason = "they take more than 8 bits without their zero point"
    elif scale.size > 1 and not context.settings.has_channels(node.op):
        reason = "they have a scale for each channel, target and options want one for all"
    if reason or scale is None or found is None:
        context.given.lost[node.name] = f"{reason}: quantized anew"
        return None
    stored, zero = found
    narrow = scale.astype(np.float32)
    if bias is None:
        return Matrix(stored, narrow, None, zero)
    levels = _whole_bias(bias, x_scale, narrow, context)
    if levels is None and stored.dtype == np.int8:
        finer = room(stored, axis, narrow.size)
        stored = stored << _along(finer, stored.ndim, axis).astype(np.int8)
        narrow = np.ldexp(narrow, -finer)
    if levels is None:
        levels = _nearest_bias(node, bias, x_scale, narrow, context)
    if levels is None:
        context.given.lost[node.name] = (
            "their scale is too small for int32 to hold the bias: quantized anew"
        )
        return None
    return Matrix(stored, narrow, levels, zero)


def _holds(scale: Scales) -> bool:
    """Whether float32 holds each scale, as a number other than zero."""
    with np.errstate(over="ignore"):
        narrow = scale.astype(np.float32)
    return bool(np.isfinite(narrow).all() and narrow.all())


def room(stored: NDArray[Any], axis: int, count: int) -> NDArray[np.int64]:
    """By how many bits weights of six bits or less can be shifted to the left within int8.

    One number, or as ``count`` says one for each channel. So a bias that is no whole number of
    steps is stored that much finer; weights of more bits stay as they are.
    """
    rows = np.moveaxis(stored, axis, 0).reshape(stored.shape[axis] if count > 1 else 1, -1)
    largest = np.abs(rows.astype(np.int64)).max(axis=1, initial=1)
    if largest.max(initial=0) > LARGEST_OF_FEW_BITS:
        return np.zeros(largest.shape, np.int64)
    return np.asarray(np.floor(np.log2(127 / largest)), np.int64)


LARGEST_OF_FEW_BITS = 32
"""Of signed integers of six bits."""


def _along(values: NDArray[Any], dims: int, axis: int) -> NDArray[Any]:
    return values.reshape([-1 if k == axis else 1 for k in range(dims)])


def stored_in_bytes(levels: NDArray[np.int32]) -> tuple[NDArray[Any], int] | None:
    """Integers as int8, or as uint8 with the zero point nearest to 128; None if none holds."""
    low, high = int(levels.min(initial=0)), int(levels.max(initial=0))
    if low >= -128 and high <= 127:
        return levels.astype(np.int8), 0
    if high - low > 255:
        return None
    zero = min(max(128, -low), 255 - high)
    return (levels + zero).astype(np.uint8), zero


def _whole_bias(
    bias: Tensor, x_scale: NDArray[np.float64], scale: Scales, context: Context
) -> NDArray[np.int32] | None:
    """The integers of the model, where they are in steps of the products."""
    steps, codes = np.float64(x_scale) * scale.astype(np.float64), context.given.codes_of(bias)
    if codes is None or not np.allclose(codes.scale, steps, rtol=1e-6, atol=0):
        return None
    return codes.stored


def _nearest_bias(
    node: Node, bias: Tensor, x_scale: NDArray[np.float64], scale: Scales, context: Context
) -> NDArray[np.int32] | None:
    """The nearest whole numbers of steps, if int32 has room; the rest is noted."""
    codes, values = context.given.codes_of(bias), np.asarray(constant(bias), np.float64)
    real = values if codes is None else codes.stored * codes.scale
    quotients = real / (np.float64(x_scale) * scale.astype(np.float64))
    if np.abs(quotients).max(initial=0) > BIAS_LIMIT:
        return None
    context.given.biases[node.name] = real.tolist()
    return np.rint(quotients).astype(np.int32)


def producer_of(tensor: Tensor) -> Node:
    """The node that writes ``tensor``, which is known to have one."""
    node = producer(tensor)
    assert node is not None, tensor.name
    return node


def _bias_home(graph: Graph, node: Node) -> tuple[Node, int]:
    """The node that reads the bias and at which input; input 0 stands for no bias."""
    if node.op != "MatMul":
        return node, 2 if input_at(node, 2) is not None else 0
    chain = absorbed(graph, node)
    row = bias_row(node, chain[0]) if chain else None
    if row is None:
        return node, 0
    add = chain[0]
    if add.inputs[0] is row:  # the constant second, so that a bias is always at 1
        add.inputs = [add.inputs[1], row]
    return add, 1


def dequantized_constant(
    context: Context,
    graph: Graph,
    name: str,
    stored: NDArray[Any],
    scale: Scales,
    axis: int | None,
    zero: NDArray[Any] | None = None,
) -> Tensor:
    """A constant of stored integers behind a DequantizeLinear; one scale means no axis."""
    if scale.size == 1:
        scale, axis = scale.reshape(()), None
    if zero is None:
        zero = np.zeros(scale.shape, stored.dtype)
    inputs = [
        context.constant(f"{name}_quantized", stored),
        context.constant(f"{name}_scale", scale),
        context.constant(f"{name}_zero_point", zero),
    ]
    real = new_tensor(context.fresh(name), inputs[0], np.dtype(np.float32))
    attributes = {} if axis is None else {"axis": axis}
    add_node(
        graph,
        "DequantizeLinear",
        context.fresh(f"{name}_dequantize"),
        inputs,
        [real],
        attributes=attributes,
    )
    return real


def _gate_matrix(
    node: Node,
    weights: NDArray[Any],
    bias: NDArray[Any],
    scale: NDArray[np.float64],
    context: Context,
) -> Matrix:
    """Those of all gates, below each other, with a scale for each row."""
    if not has_kernel(node, context.target):
        return stored_matrix(node, 0, weights, bias, scale, context)
    parts = (np.split(each, GATES[node.op]) for each in (weights, bias))
    gates = [
        stored_matrix(node, 0, some, added, scale, context, whole=True)
        for some, added in zip(*parts, strict=True)
    ]
    return Matrix(
        np.concatenate([each.weights for each in gates]),
        np.repeat([each.scale[0] for each in gates], len(weights) // len(gates)),
        None,
    )


def quantize_gates(graph: Graph, node: Node, context: Context) -> None:
    """Put both weights of a recurrent node behind DequantizeLinear, a scale for each row.

    An LSTM of a kernel has one for each gate.

    Its biases stay real: the sums that they are added to are inside of the node.
    """
    states, inputs = context.states[node.name], given_inputs(node)
    x = producer(node.inputs[X])
    if x is None or x.op != "DequantizeLinear":
        return
    bias = None if inputs[B].is_empty() else np.asarray(constant(inputs[B]))
    rows = np.asarray(constant(inputs[W])).shape[1]
    last = bool(node.attrs.get("linear_before_reset"))
    biases = biases_of(node.op, bias, rows, last)
    scales = np.asarray(constant(x.inputs[1]), np.float64), np.array(states.hidden.scale)
    for place, values, scale in zip((W, R), biases, scales, strict=True):
        weights = np.asarray(constant(inputs[place]))[0]
        matrix = _gate_matrix(node, weights, values, scale, context)
        zero = np.full(matrix.scale.shape, matrix.zero, matrix.weights.dtype)
        name = f"{node.name}.{'w' if place == W else 'r'}"
        node.inputs[place] = dequantized_constant(
            context, graph, name, matrix.weights[None], matrix.scale, 1, zero
        )
