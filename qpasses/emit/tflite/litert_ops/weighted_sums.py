"""Sums of products: CONV_2D, DEPTHWISE_CONV_2D, FULLY_CONNECTED, BATCH_MATMUL."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.multipliers import Pair
from qpasses.emit.layouts import channels_last, in_order
from qpasses.emit.operations import RefusedError, Value
from qpasses.emit.tflite import litert_arithmetic as runtime
from qpasses.emit.tflite.flatbuffer import Scales
from qpasses.emit.tflite.tflite_lowering import (
    Given,
    TfliteLowering,
    UnlikeRuntimeError,
)
from qpasses.emit.tosa.equal_rescales import UNCHANGED
from qpasses.emit.tosa.lowerings.products import geometry_of
from qpasses.emit.tosa.rescales import rescaled
from qpasses.emit.tosa.wide import Wide
from qpasses.evidence.prove import accumulator_interval
from qpasses.evidence.thresholds import Interval, levels
from qpasses.ir.graph import Node

Ends = list[tuple[int, int]]


def int_conv(to: TfliteLowering, node: Node) -> None:
    """CONV_2D, or DEPTHWISE_CONV_2D; a row is a picture of one line."""
    given, rank = to.constants(node), len(to.shape(node.inputs[0]))
    value, x = to.codes_of(node, "x", channels_last(rank))
    weights = given["w"]
    pads, strides, gaps = geometry_of(node, value.shape[1:-1], weights.shape[2:])
    if rank not in (3, 4):
        raise RefusedError(f"a convolution over {rank - 2} axes of integers has no operator")
    if rank == 3:
        value = to.program.reshape(value, (value.shape[0], 1, *value.shape[1:]))
        weights = weights[:, :, None]
        pads, strides, gaps = [(0, 0), *pads], [1, *strides], [1, *gaps]
    y, scales = to.written(node), to.weight_scales(node, len(weights))
    if to.has_words(node, "x", "y"):
        _check_words(to, node, [(x.scale, each) for each in scales], y)
    else:
        pairs = to.runtime.of_weights("IntConv", x.scale, scales, y.scale)
        to.check_steps(node, given, pairs, accumulator_interval(node, given))
    group = int(node.attrs.get("group", 1))
    codes = convolved(to, value, weights, (x, y), (pads, strides, gaps), group, node)
    if rank == 3:
        codes = to.program.reshape(codes, (codes.shape[0], *codes.shape[2:]))
    to.write(node.outputs[0], codes, channels_last(rank))


def _check_words(
    to: TfliteLowering, node: Node, operands: Sequence[Sequence[float]], y: Scales
) -> None:
    """Raise RefusedError unless sums of words are as 16x8 kernels round them."""
    op = node.op if node.op == "IntMatMul" else "IntConv"
    pairs = [to.runtime.of_words(op, each, y.scale) for each in operands]
    to.check_numbers(node, {"": pairs}, to.runtime.word_rounding)


def convolved(
    to: TfliteLowering,
    x: Value,
    weights: NDArray[Any],
    ends: tuple[Scales, Scales],
    geometry: tuple[Ends, Sequence[int], Sequence[int]],
    group: int,
    node: Node,
) -> Value:
    """Codes, channels last, within the node's bounds. ``weights``: [M, C / group, h, w]."""
    given, (pads, strides, gaps), y = to.constants(node), geometry, ends[1]
    kernel = weights.shape[2:]
    padding, x, sizes = padded(to, x, kernel, pads, strides, gaps)
    is_deep = weights.shape[1] == 1 and group == x.shape[-1] and group > 1
    axes = (1, 2, 3, 0) if is_deep else (0, 2, 3, 1)
    taps = signed(weights, given).transpose(axes)
    name = to.fused(y, given)
    numbers: dict[str, Any] = {
        "padding": f"Padding.{padding}",
        "strideH": strides[0],
        "strideW": strides[1],
        "dilationHFactor": gaps[0],
        "dilationWFactor": gaps[1],
        "fusedActivationFunction": f"ActivationFunctionType.{name or 'NONE'}",
    }
    op, options = "CONV_2D", "Conv2DOptions"
    if is_deep:
        op, options = "DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions"
        numbers["depthMultiplier"] = len(weights) // group
    operands = [x, *weights_and_bias(to, node, taps, 3 if is_deep else 0, ends[0])]
    shape = (x.shape[0], *sizes, len(weights))
    codes = to.program.operator(
        *(op, 3 if x.element == "i8" else 4, operands, shape, x.element, options),
        meaning=y,
        **numbers,
    )
    return to.bounded(codes, name, given)


def weights_and_bias(
    to: TfliteLowering, node: Node, taps: NDArray[Any], axis: int, x: Scales
) -> list[Value]:
    """As constants; biases in steps of the products, which kernels other than the reference
    ask for. Of all channels one scale, if they have one.
    """
    count = taps.shape[axis]
    scales = to.weight_scales(node, count)
    own = scales[:1] if len(set(scales)) == 1 else scales
    steps = tuple(float(np.float32(x.scale) * np.float32(each)) for each in own)
    program, bias = to.program, np.asarray(to.constants(node)["bias"])
    if to.has_words(node, "x", "y"):
        bias = bias.astype(np.int64)  # which says that multipliers have 15 bits
    made = [
        program.stored(taps, Scales(tuple(own), (0,), axis)),
        program.stored(np.ascontiguousarray(bias.reshape(-1)), Scales(steps)),
    ]
    for value, what in zip(made, ("weights", "bias"), strict=True):
        program.call_constant(value, f"{node.name}/{what}")
    return made


def signed(weights: NDArray[Any], given: Given) -> NDArray[np.int8]:
    """Weights as int8 without a zero point, which kernels do not read."""
    zero = int(given["w_zero"])
    if weights.dtype == np.uint8:
        weights, zero = (weights.astype(np.int16) - 128).astype(np.int8), zero - 128
    if zero or weights.dtype != np.int8:
        raise RefusedError("its weights have a zero point, or are no bytes")
    return np.asarray(weights)


def padded(
    to: TfliteLowering,
    x: Value,
    kernel: Sequence[int],
    pads: Ends,
    strides: Sequence[int],
    gaps: Sequence[int],
    filling: int | None = None,
) -> tuple[str, Value, list[int]]:
    """SAME where that is the padding of the node, else VALID after a PAD; sizes of the result.

    ``filling``: the code around, by default the zero point.
    """
    sizes, is_same = [], True
    for size, taps, (before, behind), stride, gap in zip(
        x.shape[1:-1], kernel, pads, strides, gaps, strict=True
    ):
        reach = (taps - 1) * gap + 1
        count = (size + before + behind - reach) // stride + 1
        spare = max((-(-size // stride) - 1) * stride + reach - size, 0)
        is_same &= count == -(-size // stride) and before == spare // 2
        sizes.append(count)
    if not any(map(any, pads)):
        return "VALID", x, sizes
    if is_same:
        return "SAME", x, sizes
    zero = to.program.scales(x).zero if filling is None else filling
    around = [(0, 0), *pads, (0, 0)]
    return "VALID", to.program.pad(x, around, zero), sizes


def int_gemm(to: TfliteLowering, node: Node) -> None:
    """CONV_2D of rows by a kernel of one, which rounds twice, or FULLY_CONNECTED, in LiteRT a
    product in double: what gives the integers of the node.
    """
    given, tensor = to.constants(node), node.inputs[0]
    shape, weights = to.shape(tensor), given["w"]
    value, x = to.codes_of(node, "x", None)
    y, scales = to.written(node), to.weight_scales(node, weights.shape[1])
    if id(tensor) in to.columns:
        weights = weights[to.columns[id(tensor)]]
    unlike = None
    if to.has_words(node, "x", "y"):
        _check_words(to, node, [(x.scale, each) for each in scales], y)
    else:
        pairs = to.runtime.of_weights("IntConv", x.scale, scales, y.scale)
        unlike = _why_unlike(to, node, pairs)
    is_other = node.attrs["rounding"] == "half_away" or unlike is not None
    if is_other and _is_fully_connected(to, node, (x, y), scales):
        to.write(node.outputs[0], _fully_connected(to, node, value, weights, (x, y)))
        return
    if unlike is not None:
        raise unlike
    rows, whole = prod(shape[:-1]), (*shape[:-1], weights.shape[1])
    value = to.program.reshape(value, (1, rows, 1, shape[-1]))  # compilers want one picture
    taps = weights.T[:, :, None, None]
    geometry = ([(0, 0)] * 2, [1, 1], [1, 1])
    codes = convolved(to, value, taps, (x, y), geometry, 1, node)
    to.write(node.outputs[0], to.program.reshape(codes, whole))


def _why_unlike(
    to: TfliteLowering, node: Node, pairs: Sequence[Pair]
) -> UnlikeRuntimeError | None:
    """Why an operator with these multipliers gives other integers, if it does."""
    given = to.constants(node)
    try:
        to.check_steps(node, given, pairs, accumulator_interval(node, given))
    except UnlikeRuntimeError as error:
        return error
    return None


def _is_fully_connected(
    to: TfliteLowering, node: Node, ends: tuple[Scales, Scales], weights: Sequence[float]
) -> bool:
    """Whether FULLY_CONNECTED gives the integers of the node, on all that sums reach."""
    (x, y), given = ends, to.constants(node)
    own = weights[:1] if len(set(weights)) == 1 else weights
    if not to.runtime.scales_rows:
        if len(own) > 1:
            return False
        pairs = to.runtime.of_weights("IntGemm", x.scale, weights, y.scale)
        return _why_unlike(to, node, pairs) is None
    scales = [to.runtime.scale("IntGemm", (x.scale, each), y.scale) for each in own]
    steps = levels(*(int(given[name]) for name in ("y_zero", "y_min", "y_max")))
    theirs = runtime.fully_connected_thresholds(scales, steps)
    reachable = accumulator_interval(node, given)
    theirs = np.broadcast_to(theirs, (len(reachable.low), len(steps)))
    try:
        to.check_thresholds(node, given, theirs, reachable, scales)
    except UnlikeRuntimeError:
        return False
    return True


def _fully_connected(
    to: TfliteLowering,
    node: Node,
    x: Value,
    weights: NDArray[Any],
    ends: tuple[Scales, Scales],
) -> Value:
    given = to.constants(node)
    name = to.fused(ends[1], given)
    operands = [x, *weights_and_bias(to, node, signed(weights, given).T, 0, ends[0])]
    several = len(to.program.scales(operands[1]).scales) > 1
    codes = to.program.operator(
        *("FULLY_CONNECTED", 12 if several else 4, operands),
        *((*x.shape[:-1], weights.shape[1]), x.element, "FullyConnectedOptions"),
        meaning=ends[1],
        fusedActivationFunction=f"ActivationFunctionType.{name or 'NONE'}",
        keepNumDims=len(x.shape) > 2,
    )
    return to.bounded(codes, name, given)


def int_mat_mul(to: TfliteLowering, node: Node) -> None:
    """BATCH_MATMUL; times a number too, a MUL follows, which leaves all codes as they are; or,
    where the runtime derives another multiplier, it gives int32, which are rescaled exactly.
    """
    sides = [to.codes_of(node, name, None) for name in ("a", "b")]
    (a, a_means), (b, b_means) = sides
    if min(len(a.shape), len(b.shape)) < 2:
        raise RefusedError("it multiplies a vector")
    shape = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
    y, reachable = to.written(node), accumulator_interval(node, to.constants(node))
    factor = prod(to.record.nodes[str(node.name)].scales.get("factor", ()))
    is_other = factor not in (0, 1)
    product = replace(y, scales=(runtime.single(y.scale / factor),)) if is_other else y
    numbers = ("BATCH_MATMUL", 4, [a, b], shape)
    unlike = _why_unlike_product(to, node, (a_means.scale, b_means.scale), product, reachable)
    if unlike is None and _keeps_codes(to, product, factor, y):
        codes = to.program.operator(*numbers, a.element, "BatchMatMulOptions", meaning=product)
        codes = to.bounded(codes, None, to.constants(node))
        if product != y:
            one = np.ones([1] * len(shape), _DTYPES[a.element])
            by = to.program.stored(one, Scales((runtime.single(factor),)))
            numbers = ("MUL", 2, [codes, by], shape)
            codes = to.program.operator(*numbers, a.element, "MulOptions", meaning=y)
        to.write(node.outputs[0], codes, in_order(len(shape)))
        return
    if product == y or a.element != "i8":
        raise unlike or RefusedError("it multiplies a product of words by a number")
    acc = to.program.operator(*numbers, "i32", "BatchMatMulOptions")
    acc = _without_zeros(to, acc, (a, a_means.zero), (b, b_means.zero))
    number = Wide.of(to.program, acc, int(reachable.low[0]), int(reachable.high[0]))
    given, rounding = to.constants(node), node.attrs["rounding"]
    level = rescaled(number, given["multiplier"], given["shift"], rounding)
    to.write(node.outputs[0], to.ended(level.saturated(), UNCHANGED, given))


def _why_unlike_product(
    to: TfliteLowering,
    node: Node,
    operands: tuple[float, float],
    product: Scales,
    reachable: Interval,
) -> RefusedError | None:
    """Why BATCH_MATMUL gives other integers, if it does."""
    if product.scale <= 0:
        return RefusedError("it multiplies a product by a number that is not positive")
    try:
        if to.has_words(node, "a", "b", "y"):
            _check_words(to, node, [operands], product)
        else:
            pair = to.runtime.pair("IntMatMul", operands, product.scale)
            to.check_steps(node, to.constants(node), [pair], reachable)
    except RefusedError as error:
        return error
    return None


_DTYPES = {"i8": np.int8, "i16": np.int16}


def _keeps_codes(to: TfliteLowering, product: Scales, factor: float, y: Scales) -> bool:
    """Whether MUL by a code of 1 that means ``factor`` changes no level of 16 bits."""
    levels = np.arange(-(1 << 16), 1 << 16, dtype=np.int64)
    pair = to.runtime.pair("IntMul", (product.scale, factor), y.scale)
    return np.array_equal(runtime.levels_of(levels, pair), levels)


def _without_zeros(
    to: TfliteLowering, acc: Value, a: tuple[Value, int], b: tuple[Value, int]
) -> Value:
    """Sums of products of levels from ``acc``, of codes: where BATCH_MATMUL gives int32, it
    does not look at zero points.
    """
    program, inner = to.program, a[0].shape[-1]
    for (x, _), (_, zero), axis in ((a, b, -1), (b, a, -2)):
        if zero:
            total = program.reduce("reduce_sum", program.cast(x, "i32"), len(x.shape) + axis)
            product = program.multiply(total, program.same_rank(zero, total))
            acc = program.elementwise("sub", acc, product)
    both = inner * a[1] * b[1]
    return program.elementwise("add", acc, program.same_rank(both, acc)) if both else acc


LOWERINGS = {
    "IntConv": int_conv,
    "IntGemm": int_gemm,
    "IntMatMul": int_mat_mul,
}
