"""IntLayerNorm: sums by reduce_sum; root, factor and products as limbs of int32."""

from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpasses.emit.layouts import Order
from qpasses.emit.operations import RefusedError
from qpasses.emit.tosa.equal_rescales import UNCHANGED
from qpasses.emit.tosa.lowering import Lowering, offset
from qpasses.emit.tosa.roots import quotient, square_root
from qpasses.emit.tosa.wide import Wide
from qpasses.evidence.thresholds import end_levels
from qpasses.ir.graph import Node


def int_layer_norm(to: Lowering, node: Node) -> None:
    """d * floor(2**factor_bits / root), rounded; times the multiplier, plus the bias, rounded.

    ``normal`` is at most sqrt(cells) * 2**norm_bits, of the root before it is floored, which
    halves it at most: d**2 <= cells * v.
    """
    given, x, attributes = to.constants(node), node.inputs[0], node.attrs
    stored, program = to.laid(x), to.program
    rank, order, cells = len(stored.order), stored.order, int(attributes["cells"])
    zero, (low, high) = given["x_zero"], end_levels(given["x_zero"])
    reach = max(-low, high)
    if cells * reach >= 1 << 30:
        raise RefusedError("rows whose sums have more than 30 bits")
    code = to.levels(stored.value, int(zero) - offset(zero.dtype))
    axes = [order.index(axis % rank) for axis in range(int(attributes["axis"]), 0)]
    level = Wide.of(program, code, low, high)
    total = _summed(level, axes)
    variance = _summed((level * level).within(0, reach**2), axes).times(cells)
    distance, largest = level.times(cells), (cells * reach) ** 2
    if attributes["centered"]:
        distance, variance = distance - total, variance - total * total
        largest = (cells * (high - low)) ** 2 // 4
    variance = variance.within(0, largest)
    root_bits, factor_bits = int(attributes["root_bits"]), int(attributes["factor_bits"])
    radicand = variance.raised(2 * root_bits) + _constant(to, given["epsilon"], order)
    if radicand.high >= 1 << 62:
        raise RefusedError("a variance of more than 62 bits")
    factor = quotient(program, factor_bits, square_root(radicand))
    norm_bits = int(attributes["norm_bits"])
    bound = 2 * (isqrt(cells) + 1) << norm_bits
    normal = (distance * factor).rounded(factor_bits - root_bits - norm_bits, "half_to_even")
    slopes, offsets = (_constant(to, given[name], order) for name in ("multiplier", "bias"))
    scaled = normal.within(-bound, bound) * slopes + offsets
    found = scaled.rounded(int(given["shift"]), attributes["rounding"]).saturated()
    to.write(node.outputs[0], to.ended(found, UNCHANGED, given), order)


def _constant(to: Lowering, numbers: NDArray[Any], order: Order) -> Wide:
    """Numbers that broadcast to ONNX's tensor, in its order here."""
    whole = numbers.astype(np.int64).reshape(
        (1,) * (len(order) - numbers.ndim) + numbers.shape
    )
    return Wide.constant(to.program, whole.transpose(order))


def _summed(x: Wide, axes: list[int]) -> Wide:
    for axis in axes:
        x = x.total(axis)
    return x


LOWERINGS = {"IntLayerNorm": int_layer_norm}
