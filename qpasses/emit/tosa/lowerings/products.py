"""Sums of products: conv2d, conv3d, depthwise_conv2d, matmul; matrices are convolutions."""

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from opsets.convolution import padding
from qpasses.emit import mlir
from qpasses.emit.layouts import channels_last
from qpasses.emit.operations import NUMPY, WIDE, RefusedError, Value
from qpasses.emit.tosa.lowering import Lowering, offset
from qpasses.evidence.prove import accumulator_interval
from qpasses.ir.graph import Node


def int_conv(to: Lowering, node: Node) -> None:
    """conv2d, depthwise_conv2d or conv3d, then RESCALE; groups are taken apart."""
    given, x = to.constants(node), node.inputs[0]
    rank = len(to.shape(x))
    value = to.read(x, channels_last(rank))
    weights = given["w"]
    pads, strides, gaps = geometry_of(node, value.shape[1:-1], weights.shape[2:])
    zero = int(given["x_zero"].reshape(-1)[0]) - offset(given["x_zero"].dtype)
    if given["x_zero"].ndim:
        value = _padded_by_channel(to, value, pads, given["x_zero"])
        pads = [(0, 0)] * len(pads)
    if rank == 3:  # a row is a picture of one line
        value = to.program.reshape(value, (value.shape[0], 1, *value.shape[1:]))
        weights = weights[:, :, None]
        pads, strides, gaps = [(0, 0), *pads], [1, *strides], [1, *gaps]
    value, pads = exact(to, value, weights.shape[2:], pads, strides, gaps)
    parts = convolved(
        to,
        value,
        weights,
        given["bias"],
        (zero, int(given["w_zero"])),
        (pads, strides, gaps),
        int(node.attrs.get("group", 1)),
        by_channel=given["x_zero"] if given["x_zero"].ndim else None,
    )
    codes = to.requantized_parts(parts, node, accumulator_interval(node, given))
    if rank == 3:
        codes = to.program.reshape(codes, (codes.shape[0], *codes.shape[2:]))
    to.write(node.outputs[0], codes, channels_last(rank))


Geometry = tuple[list[tuple[int, int]], list[int], list[int]]
"""Pads before and behind, strides, dilations, for each spatial axis."""


def geometry_of(node: Node, sizes: Sequence[int], kernel: Sequence[int]) -> Geometry:
    """What a node states, or its auto_pad comes to for these ``sizes``."""
    attributes, dims = node.attrs, len(kernel)
    strides = list(attributes.get("strides") or [1] * dims)
    gaps = list(attributes.get("dilations") or [1] * dims)
    given, auto = attributes.get("pads"), attributes.get("auto_pad", "NOTSET")
    before, behind = padding(sizes, kernel, strides, gaps, given, auto)
    return list(zip(before, behind, strict=True)), strides, gaps


def exact(
    to: Lowering,
    x: Value,
    kernel: Sequence[int],
    pads: Sequence[tuple[int, int]],
    strides: Sequence[int],
    gaps: Sequence[int],
) -> tuple[Value, list[tuple[int, int]]]:
    """``x`` and pads without what no window reads: strides have to divide exactly."""
    sizes, kept, most = list(x.shape), [], to.program.largest_kernel
    reaches = [(size - 1) * gap + 1 for size, gap in zip(kernel, gaps, strict=True)]
    ends = [end for each in pads for end in each]
    if most is not None and max(*reaches, *strides, *ends) > most:
        raise RefusedError(
            f"a kernel, stride or padding of more than {most}, the most of level 8K"
        )
    for axis, (size, (before, behind)) in enumerate(zip(x.shape[1:-1], pads, strict=True), 1):
        reach = (kernel[axis - 1] - 1) * gaps[axis - 1] + 1
        spare = (size + before + behind - reach) % strides[axis - 1]
        cut = max(spare - behind, 0)
        if cut >= size:
            raise RefusedError("its windows read padding alone")
        sizes[axis] -= cut
        kept.append((before, behind - (spare - cut)))
    return to.program.slice(x, [0] * len(sizes), sizes), kept


def _padded_by_channel(
    to: Lowering,
    x: Value,
    pads: Sequence[tuple[int, int]],
    zeros: NDArray[np.generic],
) -> Value:
    """``x``, channels last, with borders of each channel's zero point."""
    codes = zeros.astype(np.int64) - offset(zeros.dtype)
    for axis, ends in enumerate(pads, 1):
        parts = [x]
        for place, width in zip((0, len(parts)), ends, strict=True):
            if width:
                shape = [*x.shape[:axis], width, *x.shape[axis + 1 :]]
                border = to.program.constant(np.broadcast_to(codes, shape), NUMPY[x.element])
                parts.insert(0 if place == 0 else len(parts), border)
        x = to.program.concat(parts, axis)
    return x


def convolved(
    to: Lowering,
    x: Value,
    weights: NDArray[np.generic],
    bias: NDArray[np.int32],
    zeros: tuple[int, int],
    geometry: Geometry,
    group: int,
    by_channel: NDArray[np.generic] | None = None,
) -> list[Value]:
    """Sums of int32, of words int48; channels last, in parts for groups that are summed apart.

    ``weights``: [M, C / group, kernel...].
    """
    x_zero, w_zero = zeros
    if weights.dtype == np.uint8:
        weights = (weights.astype(np.int16) - 128).astype(np.int8)
        w_zero -= 128
    if by_channel is not None:  # sums of codes; what zero points add is in the bias
        less = by_channel.astype(np.int64) - offset(by_channel.dtype)
        taps = (weights.astype(np.int64) - w_zero).reshape(len(weights), -1).sum(axis=1)
        each = np.repeat(less, len(weights) // len(less))
        bias, x_zero = (bias - each * taps).astype(np.int32), 0
    channels = x.shape[-1]
    if weights.shape[1] == 1 and group == channels and weights.ndim == 4:
        per = len(weights) // channels
        taps = weights.reshape(channels, per, *weights.shape[2:]).transpose(2, 3, 0, 1)
        zeros = x_zero, w_zero
        return [_convolution(to, "depthwise_conv2d", x, taps, bias, zeros, geometry)]
    op = "conv2d" if weights.ndim == 4 else "conv3d"
    taps = np.moveaxis(weights, 1, -1)
    if group == 1:
        return [_convolution(to, op, x, taps, bias, (x_zero, w_zero), geometry)]
    width, parts = channels // group, []
    for place in range(group):
        rows = slice(place * len(weights) // group, (place + 1) * len(weights) // group)
        start = [0] * (len(x.shape) - 1) + [place * width]
        part = to.program.slice(x, start, [*x.shape[:-1], width])
        zero_points = (x_zero, w_zero)
        parts.append(_convolution(to, op, part, taps[rows], bias[rows], zero_points, geometry))
    return parts


def _convolution(
    to: Lowering,
    op: str,
    x: Value,
    taps: NDArray[np.generic],
    bias: NDArray[np.int32],
    zeros: tuple[int, int],
    geometry: Geometry,
) -> Value:
    pads, strides, gaps = geometry
    kernel = taps.shape[:2] if op == "depthwise_conv2d" else taps.shape[1:-1]
    sizes = [
        (size + sum(ends) - (k - 1) * gap - 1) // stride + 1
        for size, ends, k, gap, stride in zip(
            x.shape[1:-1], pads, kernel, gaps, strides, strict=True
        )
    ]
    is_wide, program = x.element == "i16", to.program
    element = WIDE if is_wide else "i32"
    operands = [
        x,
        program.constant(taps, "int8"),
        program.wide_constant(bias) if is_wide else program.constant(bias, "int32"),
        program.zero_point(zeros[0], x.element),
        program.zero_point(zeros[1], "i8"),
    ]
    return program.add(
        *(op, operands, (x.shape[0], *sizes, len(bias)), element),
        acc_type=element,
        pad=mlir.integers([end for ends in pads for end in ends]),
        stride=mlir.integers(strides),
        dilation=mlir.integers(gaps),
    )


def int_gemm(to: Lowering, node: Node) -> None:
    """A convolution of rows by a kernel of one, as TOSA says fully connected."""
    given, x = to.constants(node), node.inputs[0]
    shape, weights = to.shape(x), given["w"]
    rows = prod(shape[:-1])
    value = to.program.reshape(to.read(x), (rows, 1, 1, shape[-1]))
    zero = int(given["x_zero"]) - offset(given["x_zero"].dtype)
    parts = convolved(
        to,
        value,
        weights.T[:, :, None, None],
        given["bias"],
        (zero, int(given["w_zero"])),
        ([(0, 0)] * 2, [1, 1], [1, 1]),
        1,
    )
    codes = to.requantized_parts(parts, node, accumulator_interval(node, given))
    to.write(node.outputs[0], to.program.reshape(codes, (*shape[:-1], weights.shape[1])))


def int_mat_mul(to: Lowering, node: Node) -> None:
    """matmul of stacks of matrices, then RESCALE; leading axes become one."""
    given = to.constants(node)
    a, b = (to.read(node.inputs[place]) for place in (0, 2))
    if min(len(a.shape), len(b.shape)) < 2:
        raise RefusedError("it multiplies a vector")
    zeros = [int(given[name]) - offset(given[name].dtype) for name in ("a_zero", "b_zero")]
    element = "i32"
    if "i16" in (a.element, b.element):  # both are words then, which have no zero points
        if any(z for x, z in zip((a, b), zeros, strict=True) if x.element == "i16"):
            raise RefusedError("it multiplies 16-bit integers with a zero point")
        a, b = (
            to.program.cast(to.levels(x, z), "i16") for x, z in zip((a, b), zeros, strict=True)
        )
        zeros, element = [0, 0], WIDE
    leading = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    sides = []
    for side in (a, b):
        wanted = (*leading, *side.shape[-2:])
        sides.append(_repeated(to, side, wanted))
    flat = [to.program.reshape(each, (prod(leading), *each.shape[-2:])) for each in sides]
    shape = (prod(leading), flat[0].shape[1], flat[1].shape[2])
    ends = [to.program.zero_point(each, flat[0].element) for each in zeros]
    acc = to.program.add("matmul", [*flat, *ends], shape, element)
    codes = to.requantized(acc, node, accumulator_interval(node, given))
    to.write(node.outputs[0], to.program.reshape(codes, (*leading, *shape[1:])))


def _repeated(to: Lowering, x: Value, shape: Sequence[int]) -> Value:
    """``x`` broadcast to this shape."""
    x = to.program.reshape(x, (1,) * (len(shape) - len(x.shape)) + x.shape)
    times = [size // own for size, own in zip(shape, x.shape, strict=True)]
    return to.program.tile(x, times)


LOWERINGS = {
    "IntConv": int_conv,
    "IntConvPerChannel": int_conv,
    "IntGemm": int_gemm,
    "IntMatMul": int_mat_mul,
}
