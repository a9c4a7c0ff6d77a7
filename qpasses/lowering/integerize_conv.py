"""IntegerizeConv: Conv between DequantizeLinear and QuantizeLinear becomes IntConv."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from opsets.row_blocks import rows_along
from qpasses.ir.graph import Graph, Node, Tensor, constant, dequantized, input_at, type_name
from qpasses.ir.patterns import (
    AnyStored,
    any_stored_input,
    any_stored_output,
    stored_input,
    stored_output,
    value_of,
)
from qpasses.ir.record import (
    SIGNALS,
    AnyQuantization,
    ChannelQuantization,
    in_channels,
    scales_of,
)
from qpasses.ir.rewriting import Context, Declined, Outcome, Pass
from qpasses.ir.settings import Settings
from qpasses.lowering.requantized import (
    Accumulation,
    Replaced,
    accumulators,
    emit_requantized,
)


class IntegerizeConv(Pass):
    """Replace a quantized Conv (with Relu or Clip behind it) by one integer node.

    before: ``y = Q(Relu(Conv(DQ(x), DQ(w), DQ(b))))``
    after:  ``y = qpasses.IntConv(x, x_zero, w, w_zero, b, multiplier, shift, ...)``
    Channels of y that have parameters of their own have their zero points in the bias; a
    depthwise Conv of channels with zero points of their own is an IntConvPerChannel.
    **Exact** up to the multiplier: the accumulators that differ from real arithmetic are
    counted in the evidence.
    """

    op_types: ClassVar = frozenset({"Conv"})

    def guard(self, graph: Graph, node: Node) -> Declined | None:
        """Constant weights that cannot overflow int32 by themselves."""
        return guard_weights(node, axis=0)

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Collect the stored operands, choose multipliers, put IntConv in place."""
        bias = input_at(node, 2)
        operands = matrix_operands(graph, node, 0, bias, context.settings)
        if isinstance(operands, Declined):
            return operands
        inputs = matrix_inputs(operands, context)
        geometry = _geometry(node, operands.weights.shape[2:])
        op = "IntConvPerChannel" if operands.x_zero.ndim else "IntConv"
        return emit_requantized(
            graph, operands.replaced, op, inputs, geometry, operands.acc, context
        )


def _geometry(node: Node, kernel: Sequence[int]) -> dict[str, Any]:
    """Every attribute of the convolution written out; pads, or auto_pad where it stands."""
    dims = len(kernel)
    geometry = {
        "dilations": list(node.attrs.get("dilations") or [1] * dims),
        "group": node.attrs.get("group", 1),
        "kernel_shape": list(kernel),
        "strides": list(node.attrs.get("strides") or [1] * dims),
    }
    if node.attrs.get("auto_pad", "NOTSET") in ("NOTSET", ""):
        return geometry | {"pads": list(node.attrs.get("pads") or [0] * (2 * dims))}
    return geometry | {"auto_pad": node.attrs["auto_pad"]}


def guard_weights(node: Node, axis: int) -> Declined | None:
    """Why a Conv or Gemm can have no integer form, judged by its constants alone."""
    weights = value_of(node.inputs[1])
    if weights is None:
        return Declined(f"{node.op} with weights that are not constant")
    bias = value_of(input_at(node, 2))
    if bias is None and input_at(node, 2) is not None:
        return Declined(f"{node.op} with a bias that is not constant")
    if not np.isfinite(weights).all() or not np.isfinite(0 if bias is None else bias).all():
        return Declined(f"{node.op} with infinite weights")
    mass = np.concatenate([_mass(np.abs(rows)) for rows in rows_along(weights, axis)])
    if (mass * 127 * 255 >= 1 << 30).any():
        channel = int(mass.argmax())
        return Declined(
            f"{node.op} sums so many products that int32 could overflow: those of channel "
            f"{channel} up to {int(mass[channel] * 127 * 255)}, int32 with a bias holds "
            f"{1 << 30}: take the sum apart"
        )
    return None


def _mass(sizes: NDArray[Any]) -> NDArray[np.float64]:
    """The sum of each row of ``sizes``, in parts of the largest of them."""
    largest = sizes.max(axis=1, initial=0).astype(np.float64)
    return np.asarray(sizes.sum(axis=1, dtype=np.float64) / np.where(largest > 0, largest, 1))


@dataclass(frozen=True)
class Operands:
    """A product with constant weights: what is replaced, stored operands, its accumulator."""

    replaced: Replaced
    x: AnyStored
    weights: NDArray[Any]  # int8 or uint8
    w_zero: int
    bias: NDArray[np.int32]
    acc: Accumulation

    @property
    def x_zero(self) -> NDArray[Any]:
        """The zero point of x; those of its channels, if they are not all the same."""
        zeros = self.x.quantization.zero
        return zeros if (zeros != zeros.flat[0]).any() else np.array(zeros.flat[0])


def matrix_operands(
    graph: Graph, node: Node, axis: int, bias: Tensor | None, settings: Settings
) -> Operands | Declined:
    """The stored operands of a Conv, Gemm or MatMul; output channels along ``axis``."""
    x: AnyStored | None
    found: tuple[AnyStored, list[Node]] | None
    if node.op == "Conv":
        x = any_stored_input(node.inputs[0], settings, SIGNALS)
        found = any_stored_output(graph, node, settings, SIGNALS)
    else:
        x = stored_input(node.inputs[0], settings, SIGNALS)
        found = stored_output(graph, node, settings, SIGNALS)
    view = dequantized(node.inputs[1])
    if x is None:
        return Declined(
            f"the input {node.inputs[0].name!r} is not quantized per tensor to 8 or 16 bits"
        )
    if found is None:
        return Declined(
            f"the output {node.outputs[0].name!r} is not quantized per tensor to "
            "8 or 16 bits, or is read before it is"
        )
    weights = constant(view.stored) if view else None
    if view is None or weights is None or weights.dtype.itemsize > 1:
        return Declined("the weights are no 8-bit constants behind DequantizeLinear")
    if (view.zero_point != view.zero_point.flat[0]).any():
        return Declined("the weights have several zero points")
    if view.scale.size > 1 and view.axis % weights.ndim != axis:
        return Declined("the weights' scales are not per output channel")
    scale = np.broadcast_to(view.scale.reshape(-1), (weights.shape[axis],))
    y, behind = found
    x_scales = np.array(scales_of(x.quantization))
    if x_scales.size > 1 and not _is_depthwise(node, weights, x_scales.size):
        return Declined("its input has scales of channels, which it sums")
    x_scales = np.repeat(x_scales, scale.size // x_scales.size)
    stored_bias = _stored_bias(bias, x_scales, scale)
    if stored_bias is not None:
        stored_bias = _with_zeros(stored_bias, x_scales, scale, y.quantization)
    if stored_bias is None:
        return Declined("the bias is not a constant that fits int32")
    added = [each for each in behind if each.op == "Add"]  # of a bias: it is in the sum
    clamps = behind[len(added) :]
    zero = int(view.zero_point.flat[0])
    levels = weights if zero == 0 else weights.astype(np.int16) - np.int16(zero)
    reachable = accumulators(levels, stored_bias, axis, x.quantization)
    ends = x.quantization, y.quantization
    if view.scale.size == 1 == max(len(scales_of(each)) for each in ends):  # one multiplier
        reachable, scale = reachable.hull(), view.scale.reshape(1)
    scales = {"x": scales_of(x.quantization), "w": scale.tolist()}
    acc = Accumulation(reachable, scales)
    return Operands(Replaced(node, y, clamps, added), x, weights, zero, stored_bias, acc)


def matrix_inputs(operands: Operands, context: Context) -> list[Tensor]:
    """The inputs of IntConv and IntGemm before the multiplier."""
    x, name = operands.x, operands.replaced.node.name
    dtype = type_name(operands.weights.dtype)
    return [
        x.tensor,
        context.scalar(operands.x_zero.dtype.name, int(operands.x_zero))
        if operands.x_zero.ndim == 0
        else context.constant(f"{name}.x_zero", operands.x_zero),
        context.constant(f"{name}.weight_{dtype}", operands.weights),
        context.scalar(dtype, operands.w_zero),
        context.constant(f"{name}.bias_int32", operands.bias),
    ]


def _stored_bias(
    bias: Tensor | None, x_scale: NDArray[np.float64], w_scale: NDArray[Any]
) -> NDArray[np.int32] | None:
    """The bias in steps of x_scale * w_scale; a bias stored otherwise is stored again."""
    if bias is None:
        return np.zeros(w_scale.shape, np.int32)
    view = dequantized(bias)
    steps = x_scale * w_scale.astype(np.float64)
    stored = constant(view.stored if view else bias)
    if stored is None:
        return None
    if (
        view is not None
        and stored.dtype == np.int32
        and not view.zero_point.any()
        and (np.abs(view.scale - steps) <= 1e-6 * np.abs(steps)).all()
    ):
        return np.asarray(stored, np.int32)
    real = stored if view is None else (stored - view.zero_point.astype(np.int64)) * view.scale
    levels = np.rint(np.asarray(real, np.float64) / steps)
    if (np.abs(levels) > 1 << 30).any():
        return None
    return np.broadcast_to(levels, w_scale.shape).astype(np.int32)


def _is_depthwise(node: Node, weights: NDArray[Any], channels: int) -> bool:
    """Whether each output channel is made of one of so many channels."""
    return bool(node.attrs.get("group", 1) == channels and weights.shape[1] == 1)


def _with_zeros(
    bias: NDArray[np.int32],
    x_scale: NDArray[np.float64],
    w_scale: NDArray[Any],
    y: AnyQuantization,
) -> NDArray[np.int32] | None:
    """The bias, and in its steps what zero points of channels have more than ``y.zero_point``.

    None beyond int32.
    """
    if not isinstance(y, ChannelQuantization):
        return bias
    scales = in_channels((y.scales, x_scale.tolist(), w_scale.tolist()))
    levels = [
        level + round((zero - y.zero_point) * Fraction(own) / (Fraction(x) * Fraction(w)))
        for level, zero, (own, x, w) in zip(bias.tolist(), y.zero_points, scales, strict=True)
    ]
    if max(map(abs, levels)) >= 1 << 31:
        return None
    return np.array(levels, np.int32)
