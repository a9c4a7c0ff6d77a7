"""How a computing node sits in the graph: its data, its bias, the activation it absorbs."""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpasses.ir.graph import (
    Graph,
    Node,
    Tensor,
    constant,
    dequantized,
    input_at,
    is_float,
    rank,
    sole_consumer,
    type_name,
)
from qpasses.ir.moving import moved, moves
from qpasses.ir.record import BYTES, AnyQuantization, ChannelQuantization, Quantization
from qpasses.ir.recurrent_nodes import GATES
from qpasses.ir.settings import Settings
from qpasses.ir.stages import CLAMPING


def value_of(tensor: Tensor | None) -> NDArray[Any] | None:
    """The constant behind ``tensor``: itself, or the stored integers that a DQ reads."""
    view = dequantized(tensor)
    return constant(view.stored if view else tensor)


def real_value_of(tensor: Tensor | None) -> NDArray[Any] | None:
    """The real numbers behind ``tensor``: a constant, dequantized where a DQ reads it."""
    view, value = dequantized(tensor), value_of(tensor)
    if view is None or value is None:
        return value
    return np.asarray((value.astype(np.int64) - view.zero_point.astype(np.int64)) * view.scale)


def multiplies_stacks(node: Node) -> bool:
    """Whether it is a MatMul, but not with a constant matrix: of two tensors, of stacks."""
    if node.op != "MatMul":
        return False
    weights = value_of(node.inputs[1])
    return weights is None or weights.ndim != 2


def data_inputs(node: Node) -> list[Tensor]:
    """The float tensors that a moving or clamping node moves, constants apart."""
    inputs = moved(node) if moves(node) else node.inputs[:1]
    return [tensor for tensor in inputs if value_of(tensor) is None]


def activations(node: Node) -> list[Tensor]:
    """The float inputs of a computing node that are not constants."""
    return [tensor for tensor in node.inputs if is_float(tensor) and value_of(tensor) is None]


def absorbed(graph: Graph, node: Node, apart: Container[str] = ()) -> list[Node]:
    """The nodes behind ``node`` that become part of it, in order.

    A MatMul takes the constant row that is added to it, one of stacks the number it is
    multiplied with; then Relu and Clip with constant bounds follow, as long as nothing else
    reads what lies between and their name is not in ``apart``. A recurrent node takes none.
    """
    chain: list[Node] = []
    if node.op in GATES:
        return chain
    tensor = node.outputs[0]
    while (reader := sole_consumer(graph, tensor)) is not None:
        is_taken = _is_clamp(reader, tensor)
        if node.op == "MatMul" and not chain and not is_taken:
            factor = scaling(reader, tensor) if multiplies_stacks(node) else None
            is_taken = bias_row(node, reader) is not None or factor is not None
        if reader.name in apart or not is_taken:
            break
        chain.append(reader)
        tensor = reader.outputs[0]
    return chain


def scaling(node: Node, tensor: Tensor) -> float | None:
    """With which positive number a Mul or Div multiplies ``tensor``; None for other nodes."""
    if node.op not in ("Mul", "Div") or (node.op == "Div" and node.inputs[0] is not tensor):
        return None
    values = [value_of(each) for each in node.inputs if each is not tensor]
    value = values[0] if len(values) == 1 else None
    if value is None or value.size != 1 or value.ndim > (rank(tensor) or 0):
        return None
    number = float(value.reshape(()))
    if not 0 < number < np.inf:
        return None
    return number if node.op == "Mul" else 1 / number


def bias_row(matmul: Node, add: Node) -> Tensor | None:
    """The operand of ``add`` that is one constant value per column of the product."""
    weights = value_of(matmul.inputs[1])
    if add.op != "Add" or weights is None or weights.ndim != 2:
        return None
    product = matmul.outputs[0]
    other = add.inputs[1] if add.inputs[0] is product else add.inputs[0]
    values = value_of(other)
    if values is None or values.shape != weights.shape[1:]:
        return None
    return other


def clamp(nodes: Sequence[Node], y: Quantization) -> tuple[int, int]:
    """The stored bounds of an output behind Relu and Clip nodes.

    QuantizeLinear is monotone, so storing a clamped value is clamping the stored one.
    """
    low, high = (y.store(bound) for bound in bounds(nodes))
    return low, high


def common_clamp(nodes: Sequence[Node], y: ChannelQuantization) -> tuple[int, int] | None:
    """The codes at which Relu and Clip nodes clamp every channel, or None where they differ.

    Those of bytes are the ends of all codes: a Relu clamps words at 0.
    """
    channels = map(y.channel, range(len(y.scales) if nodes else 0))
    first, *others = {clamp(nodes, each) for each in channels} or {y.limits}
    return None if others or (y.dtype in BYTES and first != y.limits) else first


def bounds(nodes: Sequence[Node]) -> tuple[float, float]:
    """The real interval to which Relu and Clip nodes, one after the other, clamp a value."""
    low, high = -np.inf, np.inf
    for node in nodes:
        below, above = 0.0, np.inf
        if node.op == "Clip":
            below, above = (_bound(node, index) for index in (1, 2))
        low, high = (min(max(end, below), above) for end in (low, high))
    return low, high


def _bound(node: Node, index: int) -> float:
    value = real_value_of(input_at(node, index))
    if value is None:
        return -np.inf if index == 1 else np.inf
    return float(value.reshape(()))


def _is_clamp(reader: Node, tensor: Tensor) -> bool:
    bounds = [input_at(reader, index) for index in (1, 2)]
    return (
        reader.op in CLAMPING
        and reader.inputs[0] is tensor
        and all(bound is None or constant(bound) is not None for bound in bounds)
    )


def quantization(
    scale: NDArray[np.floating[Any]],
    zero_point: NDArray[Any],
    settings: Settings,
    types: Container[str] = BYTES,
) -> Quantization | None:
    """Per-tensor parameters, or None if they are per channel or of another type."""
    dtype = type_name(zero_point.dtype)
    if scale.size != 1 or zero_point.size != 1 or dtype not in types:
        return None
    return settings.quantization(float(scale.item()), int(zero_point.item()), dtype)


def any_quantization(
    scale: NDArray[np.floating[Any]],
    zero_point: NDArray[Any],
    axis: int,
    settings: Settings,
    types: Container[str] = BYTES,
) -> AnyQuantization | None:
    """Parameters of a tensor, of one of the ``types``, or of its channels, along axis 1.

    None if they are along another, of another type, or of 16 bits with zero points.
    """
    dtype = type_name(zero_point.dtype)
    of_channels = scale.ndim == 1 and scale.size > 1 and axis == 1
    if not of_channels or scale.shape != zero_point.shape or dtype not in types:
        return quantization(scale, zero_point, settings, types)
    if dtype not in BYTES and zero_point.any():
        return None
    scales, zeros = tuple(scale.tolist()), tuple(zero_point.tolist())
    return ChannelQuantization(scales, zeros, dtype, axis)


@dataclass(frozen=True)
class AnyStored:
    """An activation as stored integers, and what they mean, all of them or by channels."""

    tensor: Tensor
    quantization: AnyQuantization


@dataclass(frozen=True)
class Stored(AnyStored):
    """An activation as stored integers, and what they mean."""

    quantization: Quantization


def stored_input(
    tensor: Tensor, settings: Settings, types: Container[str] = BYTES
) -> Stored | None:
    """The stored integers behind a dequantized activation (or dequantized constant).

    None if they are of none of the ``types``.
    """
    view = dequantized(tensor)
    parameters = quantization(view.scale, view.zero_point, settings, types) if view else None
    return Stored(view.stored, parameters) if view and parameters else None


def any_stored_input(
    tensor: Tensor, settings: Settings, types: Container[str] = BYTES
) -> AnyStored | None:
    """The same, also of channels that have their own parameters."""
    view = dequantized(tensor)
    if view is None:
        return None
    found = any_quantization(view.scale, view.zero_point, view.axis, settings, types)
    return AnyStored(view.stored, found) if found else None


def stored_output(
    graph: Graph, node: Node, settings: Settings, types: Container[str] = BYTES
) -> tuple[Stored, list[Node]] | None:
    """What the QuantizeLinear behind ``node`` writes, and the absorbed nodes between.

    None if it writes none of the ``types``.
    """
    chain = absorbed(graph, node)
    last = chain[-1] if chain else node
    reader = sole_consumer(graph, last.outputs[0])
    view = quantized_by(reader, settings, types)
    return (view, chain) if view else None


def any_stored_output(
    graph: Graph, node: Node, settings: Settings, types: Container[str] = BYTES
) -> tuple[AnyStored, list[Node]] | None:
    """The same, also of channels that have their own parameters."""
    chain = absorbed(graph, node)
    last = chain[-1] if chain else node
    view = any_quantized_by(sole_consumer(graph, last.outputs[0]), settings, types)
    return (view, chain) if view else None


def any_quantized_by(
    reader: Node | None, settings: Settings, types: Container[str] = BYTES
) -> AnyStored | None:
    """The output of a QuantizeLinear with constant parameters, of one of the ``types``."""
    if reader is None or reader.op != "QuantizeLinear":
        return None
    scale, zero = constant(reader.inputs[1]), constant(input_at(reader, 2))
    if scale is None or zero is None:
        return None
    found = any_quantization(scale, zero, reader.attrs.get("axis", 1), settings, types)
    return AnyStored(reader.outputs[0], found) if found else None


def quantized_by(
    reader: Node | None, settings: Settings, types: Container[str] = BYTES
) -> Stored | None:
    """The output of a QuantizeLinear with constant per-tensor parameters."""
    if reader is None or reader.op != "QuantizeLinear":
        return None
    scale, zero = constant(reader.inputs[1]), constant(input_at(reader, 2))
    if scale is None or zero is None:
        return None
    parameters = quantization(scale, zero, settings, types)
    return Stored(reader.outputs[0], parameters) if parameters else None
