"""Random legal nodes of every op."""

from math import prod
from typing import Any

import numpy as np
from hypothesis import strategies as st

from opsets.attribute_kinds import Axis
from opsets.declaration import WHOLE
from opsets.fixed_point import LARGEST_SHIFT
from opsets.gemmlowp import softmax_exponentials
from opsets.op import Op
from opsets.qpasses_v1.int_cast import type_ends
from opsets.qpasses_v1.int_pad import MODES
from opsets.word_products import LARGEST, furthest, multiplier_bits
from tests.support.op_nodes import (
    Case,
    codes,
    generator,
    middle_of_words,
    node_rounding,
    output_ends,
    rounding,
    stored_type,
    weight_codes,
    window,
    zero_point,
)
from tests.support.recurrent_cases import RECURRENT_CASES


def multipliers(rng, count):
    """Of 24 bits, 31 bits, nearly 0, and powers of two, which make ties."""
    ranges = [(1 << 23, 1 << 24), (1 << 30, 1 << 31), (0, 4), *[(1 << 23, (1 << 23) + 1)] * 3]
    return np.array([rng.integers(*ranges[i]) for i in rng.integers(0, len(ranges), count)])


def multiplier_and_shift(rng, channels, reach):
    """Each [1] or [channels]; they take accumulators up to ``reach`` to at most ten bits."""
    multiplier, bits = multipliers(rng, rng.choice([1, channels])), int(reach).bit_length()
    widest = np.array([int(m).bit_length() + bits for m in multiplier])
    shift = widest[: rng.choice([1, len(widest)])] - rng.integers(0, 11)
    return multiplier.astype(np.int32), np.clip(shift, 1, LARGEST_SHIFT).astype(np.int32)


def bias_and_scale(rng, channels, products):
    """A bias beside a sum of ``products``, from small to 2**30, and the scale for both."""
    reach = int(rng.choice([16, 64, 256 * products, 1 << 30]))
    bias = rng.integers(-reach, reach, channels, np.int32, endpoint=True)
    return bias, *multiplier_and_shift(rng, channels, reach)


def bias_and_scale_of_words(rng, channels, products, x_zero, y_type):
    """The same where an end has 16 bits: multipliers as a pass makes them, or of all bits."""
    most = int(rng.choice([16, 256 * products, 1 << 30]))
    bias = rng.integers(-most, most, channels, np.int32, endpoint=True)
    reach = most + products * furthest(x_zero) * 255
    multiplier, shift = multiplier_and_shift(rng, channels, int(rng.choice([16, reach])))
    largest = (1 << multiplier_bits(reach, 31)) - 1
    if rng.random() < 0.5:
        largest = min(LARGEST // reach, (1 << 31) - 1)
    spare = 8 if y_type == np.int16 else 0
    return bias, np.minimum(multiplier, largest).astype(np.int32), np.maximum(shift - spare, 1)


def weighted(draw, rng, ends, channels, products, x_zero):
    """What stands on a node behind its weights, and its rounding."""
    if np.int16 not in ends:
        rest = *bias_and_scale(rng, channels, products), *output_ends(rng, ends[1])
        return rest, rests_of(draw, rng, *rest[:2])
    scale = bias_and_scale_of_words(rng, channels, products, x_zero, ends[1])
    y_zero, y_min, y_max = output_ends(rng, ends[1])
    zero = np.zeros_like(y_zero) if ends[1] == np.int16 else y_zero
    return (*scale, zero, y_min, y_max), {"rounding": draw(rounding)}


def rests_of(draw, rng, bias, multiplier):
    """A rounding, and where biases lie between steps what is added to the products."""
    kind = draw(st.sampled_from(["none", "none", "less than half a step", "any"]))
    if kind == "none":
        return {"rounding": draw(node_rounding)}
    most = np.broadcast_to(multiplier if kind != "any" else 1 << 31, bias.shape)
    rests = [int(rng.integers(-int(m) // 2, int(m) // 2, endpoint=True)) for m in most]
    return {"rounding": "half_to_even", "bias_rests": rests}


@st.composite
def requantize(draw):
    rng, shape = draw(generator), draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    reach = int(rng.choice([16, 64, 1 << 20, (1 << 31) - 1]))
    acc = rng.integers(-reach - 1, reach, shape, np.int32, endpoint=True)
    scale = multiplier_and_shift(rng, shape[axis], reach)
    ends = output_ends(rng, draw(stored_type))
    return Case([acc, *scale, *ends], {"axis": axis, "rounding": draw(node_rounding)})


@st.composite
def lut(draw):
    rng, dtype = draw(generator), draw(stored_type)
    shape = draw(st.lists(st.integers(0, 5), min_size=1, max_size=4))
    table = rng.permutation(256).astype(np.uint8).view(dtype)
    if draw(st.booleans()):
        table = rng.integers(-32768, 32767, 256, np.int16, endpoint=True)
    return Case([codes(rng, shape, zero_point(rng, dtype)), table], {})


wide_type = st.sampled_from([np.dtype(t) for t in (np.uint8, np.int8, np.int16)])
byte_types = stored_type.map(lambda dtype: (dtype,) * 3)
"""Of two operands and their result: one of 8 bits for all."""

word_types = stored_type.flatmap(
    lambda dtype: st.tuples(*[st.sampled_from([dtype, dtype, np.dtype(np.int16)])] * 3)
)
"""Each of them that one, or of 16 bits."""

stream_types = byte_types | st.tuples(*[wide_type] * 3)
"""That, or any for each."""

ends_of_two = st.sampled_from(
    [(np.dtype(a), np.dtype(b)) for a, b in (("u1", "u1"), ("i1", "i1"), ("i2", "i2"))]
    + [(np.dtype(a), np.dtype(b)) for a, b in (("u1", "i2"), ("i1", "i2"), ("i2", "u1"))]
)
"""Of what is read and written: one type, or 16 bits at one end."""

ends_in_bytes = stored_type.map(lambda dtype: (dtype, dtype))
mostly_bytes = st.one_of(ends_in_bytes, ends_in_bytes, ends_of_two)
"""For ops with many bodies of 8 bits."""


def wide_codes(draw, rng):
    """int16 codes of any shape: anywhere, next to knots, or at the ends."""
    shape = draw(st.lists(st.integers(0, 5), min_size=1, max_size=4))
    kind = rng.choice(["anywhere", "next to knots", "ends"])
    if kind == "ends":
        return rng.choice(np.array([-32768, -32767, 32766, 32767], np.int16), shape)
    if kind == "next to knots":
        knots = 128 * rng.integers(-255, 256, shape)
        return (knots + rng.integers(-1, 2, shape)).astype(np.int16)
    return rng.integers(-32768, 32767, shape, np.int16, endpoint=True)


@st.composite
def lut16(draw):
    rng, dtype = draw(generator), draw(wide_type)
    limits = np.iinfo(dtype)
    table = rng.integers(limits.min, limits.max, 1 << 16, dtype, endpoint=True)
    return Case([wide_codes(draw, rng), table], {})


@st.composite
def lut_interpolated(draw):
    """Entries anywhere, at the ends, or so near each other that results are ties."""
    rng, dtype = draw(generator), draw(wide_type)
    low, high = [(-32768, 32767), (-3, 3)][rng.integers(0, 2)]
    table = rng.integers(low, high, 513, np.int16, endpoint=True)
    if rng.random() < 0.3:
        table = rng.choice(np.array([low, high], np.int16), 513)
    shift = np.array(rng.choice([7, 15, rng.integers(1, LARGEST_SHIFT + 1)]), np.int32)
    inputs = [wide_codes(draw, rng), table, shift, *output_ends(rng, dtype)]
    return Case(inputs, {"rounding": draw(rounding)})


@st.composite
def lut_per_channel(draw):
    rng, dtype = draw(generator), draw(stored_type)
    shape = draw(st.lists(st.integers(0, 5), min_size=1, max_size=4))
    axis = draw(st.integers(0, len(shape) - 1))
    tables = rng.integers(0, 256, (shape[axis], 256)).astype(np.uint8).view(dtype)
    if rng.random() < 0.3:
        tables = rng.integers(-32768, 32768, tables.shape).astype(np.int16)
    return Case([codes(rng, shape, zero_point(rng, dtype)), tables], {"axis": axis})


@st.composite
def lut_interpolated_per_channel(draw):
    """Entries as those of one table, channels along any axis."""
    rng, dtype = draw(generator), draw(wide_type)
    x = wide_codes(draw, rng)
    axis = draw(st.integers(0, x.ndim - 1))
    low, high = [(-32768, 32767), (-3, 3)][rng.integers(0, 2)]
    tables = rng.integers(low, high, (x.shape[axis], 513), np.int16, endpoint=True)
    shift = np.array(rng.choice([7, 15, rng.integers(1, LARGEST_SHIFT + 1)]), np.int32)
    inputs = [x, tables, shift, *output_ends(rng, dtype)]
    return Case(inputs, {"axis": axis, "rounding": draw(rounding)})


def operands(draw, rng, dtype, other=None):
    """Two stored tensors that broadcast together, with their zero points."""
    full = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    small = [draw(st.sampled_from([1, n])) for n in full][draw(st.integers(0, len(full))) :]
    zeros = zero_point(rng, dtype), zero_point(rng, other or dtype)
    shapes = draw(st.permutations([full, small]))
    a, b = (codes(rng, *operand) for operand in zip(shapes, zeros, strict=True))
    return a, zeros[0], b, zeros[1]


@st.composite
def lut_pair(draw):
    rng, dtype = draw(generator), draw(stored_type)
    a, _, b, _ = operands(draw, rng, dtype)
    table = rng.integers(0, 256, 1 << 16).astype(np.uint8).view(dtype)
    return Case([a, b, table], {})


@st.composite
def int_mul(draw):
    rng, (a, b, y) = draw(generator), draw(word_types)
    pair = operands(draw, rng, a, b)
    scale = [each.reshape(()) for each in product_scale(rng, pair, y)]
    is_wide = prod(furthest(zero) for zero in pair[1::2]) >= 1 << 31  # two steps take int32
    rule = draw(rounding if is_wide else node_rounding)
    return Case([*pair, *scale, *output_ends(rng, y)], {"rounding": rule})


@st.composite
def int_div(draw):
    """Divisors of every size, 0 among them, quotients on both sides of ties."""
    rng, (a, b, y) = draw(generator), draw(word_types)
    first, a_zero, second, b_zero = operands(draw, rng, a, b)
    near = rng.integers(-3, 4, second.shape) + int(b_zero)
    limits = np.iinfo(b)
    near = np.clip(near, limits.min, limits.max).astype(b)
    second = np.where(rng.random(second.shape) < 0.5, near, second)
    bits = int(rng.choice([1, 8, 22, 31]))
    multiplier = int(rng.choice([1 << bits - 1, (1 << bits) - 1, rng.integers(1, 1 << bits)]))
    shift = int(np.clip(bits + rng.integers(-20, 12), 1, 46))
    numbers = [np.array(each, np.int32) for each in (multiplier, shift)]
    inputs = [first, a_zero, second, b_zero, *numbers, *output_ends(rng, y)]
    return Case(inputs, {"rounding": draw(rounding)})


def product_scale(rng, pair, y, count=1):
    """What takes ``count`` products of levels of both to as few bits as y can tell apart."""
    reach = count * prod(furthest(zero) for zero in pair[1::2])
    multiplier, shift = multiplier_and_shift(rng, 1, int(rng.choice([16, reach, reach])))
    if np.int16 in [each.dtype for each in pair]:  # as a pass makes them, or of all bits
        bits = multiplier_bits(reach, 31)
        few = np.minimum(multiplier, (1 << bits) - 1).astype(np.int32)
        fits = reach * int(multiplier[0]) <= LARGEST and rng.random() < 0.5
        multiplier = multiplier if fits else few
    spare = 8 if y == np.int16 else 0
    return multiplier, np.maximum(shift - spare, 1).astype(np.int32)


slope_types = st.tuples(wide_type, wide_type).filter(
    lambda types: types[0] == types[1] or np.int16 in types
)


@st.composite
def int_p_relu(draw, types=slope_types):
    """Slopes of any shape that broadcasts to x, of any sign, some of them zero."""
    rng, (dtype, y_type) = draw(generator), draw(types)
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    slope = [draw(st.sampled_from([1, n])) for n in shape][draw(st.integers(0, len(shape))) :]
    zero, count = zero_point(rng, dtype), prod(slope)
    m, s = (each.reshape(()) for each in multiplier_and_shift(rng, 1, 256))
    slope_m, slope_s = multiplier_and_shift(rng, count, 256)
    slope_m = slope_m * rng.choice(np.array([-1, 0, 1, 1], np.int32), count)
    scale = m, s, slope_m.reshape(slope), np.broadcast_to(slope_s, count).reshape(slope)
    inputs = [codes(rng, shape, zero), zero, *scale, *output_ends(rng, y_type)]
    return Case(inputs, {"rounding": draw(rounding)})


@st.composite
def geometry_of(draw, kernel, max_dilation):
    """Strides, dilations, pads, and spatial sizes in which the window fits."""
    dims = len(kernel)

    def numbers(low, high, count=dims):
        return draw(st.lists(st.integers(low, high), min_size=count, max_size=count))

    strides, gaps, pads = numbers(1, 3), numbers(1, max_dilation), numbers(0, 2, 2 * dims)
    reach = [(k - 1) * gap + 1 for k, gap in zip(kernel, gaps, strict=True)]
    fitting = [max(r - pads[i] - pads[dims + i], 1) for i, r in enumerate(reach)]
    size = [n + more for n, more in zip(fitting, numbers(0, 3), strict=True)]
    return {"strides": strides, "dilations": gaps, "pads": pads}, size


@st.composite
def conv_attributes(draw, kernel, group):
    """All attributes but rounding, neutral ones sometimes left out; and the spatial sizes."""
    auto_pad = draw(st.sampled_from(["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]))
    # onnxruntime refuses pads beside auto_pad, and dilations beside SAME
    geometry, size = draw(geometry_of(kernel, 1 if auto_pad.startswith("SAME") else 2))
    pads = geometry["pads"] if auto_pad == "NOTSET" else geometry.pop("pads")
    if auto_pad == "VALID":
        size = [n + pads[i] + pads[len(kernel) + i] for i, n in enumerate(size)]
    attributes = {"auto_pad": auto_pad, "group": group, "kernel_shape": kernel, **geometry}
    if draw(st.booleans()):
        neutral = ["NOTSET", 1, kernel, [1] * len(kernel), [0] * (2 * len(kernel))]
        attributes = {name: v for name, v in attributes.items() if v not in neutral}
    return attributes, size


@st.composite
def int_conv(draw):
    rng, types, w_type = draw(generator), draw(mostly_bytes), draw(stored_type)
    groups = [(1, 1), (1, 3), (1, 16), (2, 2), (4, 1), (16, 1)]
    kernel, (group, inner) = draw(window), draw(st.sampled_from(groups))
    attributes, size = draw(conv_attributes(kernel, group))
    zeros = middle_of_words(rng, types[0]), zero_point(rng, w_type)
    x = codes(rng, (draw(st.integers(1, 2)), group * inner, *size), zeros[0])
    w = weight_codes(rng, (group * draw(st.integers(1, 2)), inner, *kernel), zeros[1])
    rest, how = weighted(draw, rng, types, len(w), w[0].size, zeros[0])
    return Case([x, zeros[0], w, zeros[1], *rest], attributes | how)


@st.composite
def int_conv_per_channel(draw):
    """A zero point for each channel; of two dimensions more often than others."""
    rng, dtype, w_type = draw(generator), draw(stored_type), draw(stored_type)
    kernel = draw(st.one_of(st.lists(st.integers(1, 3), min_size=2, max_size=2), window))
    geometry, size = draw(geometry_of(kernel, 2))
    channels, w_zero = draw(st.sampled_from([1, 2, 5, 16])), zero_point(rng, w_type)
    zeros = np.array([zero_point(rng, dtype) for _ in range(channels)], dtype)
    samples = range(draw(st.integers(1, 2)))
    rows = [[codes(rng, size, zero) for zero in zeros] for _ in samples]
    w = weight_codes(rng, (channels * draw(st.integers(1, 2)), 1, *kernel), w_zero)
    to_words = rng.random() < 0.3
    y = np.dtype(np.int16) if to_words else dtype
    rest = *bias_and_scale(rng, len(w), w[0].size), *output_ends(rng, y)
    if to_words:
        rest[-3][...] = 0
    attributes = {"group": channels, "kernel_shape": kernel, **geometry}
    attributes["rounding"] = draw(rounding if to_words else node_rounding)
    return Case([np.array(rows), zeros, w, w_zero, *rest], attributes)


@st.composite
def int_gemm(draw):
    rng, types, w_type = draw(generator), draw(mostly_bytes), draw(stored_type)
    rows = draw(st.lists(st.sampled_from([1, 2, 3, 4, 0]), min_size=1, max_size=3))
    inner = draw(st.integers(1, 6) | st.sampled_from([33, 64]))
    columns = draw(st.integers(1, 9) | st.just(32))
    zeros = middle_of_words(rng, types[0]), zero_point(rng, w_type)
    x, w = codes(rng, (*rows, inner), zeros[0]), weight_codes(rng, (inner, columns), zeros[1])
    rest, how = weighted(draw, rng, types, columns, inner, zeros[0])
    sizes = [*x.shape[:-1]]
    varying = [-1, *sizes[1:]] if sizes else [0]
    known = [{}, {"leading": [0]}, {"leading": sizes or [0]}, {"leading": varying}]
    leading = draw(st.sampled_from([*known, {"leading": [-1] * len(sizes) or [0]}]))
    return Case([x, zeros[0], w, zeros[1], *rest], leading | how)


@st.composite
def int_mat_mul(draw):
    """Stacks that broadcast: one has every leading dimension, the other the last few."""
    rng, (a_type, b_type, y) = draw(generator), draw(word_types)
    full = draw(st.lists(st.integers(1, 3), max_size=2))
    small = [draw(st.sampled_from([1, n])) for n in full][draw(st.integers(0, len(full))) :]
    stacks = draw(st.permutations([full, small]))
    inner = draw(st.integers(1, 6) | st.sampled_from([33, 64]))
    zeros = zero_point(rng, a_type), zero_point(rng, b_type)
    a = codes(rng, (*stacks[0], draw(st.integers(1, 5)), inner), zeros[0])
    b = codes(rng, (*stacks[1], inner, draw(st.integers(1, 9) | st.just(32))), zeros[1])
    pair, has_words = [a, zeros[0], b, zeros[1]], np.int16 in (a_type, b_type, y)
    inputs = [*pair, *product_scale(rng, pair, y, inner), *output_ends(rng, y)]
    how = draw(rounding if has_words else node_rounding)
    return Case(inputs, {"inner": inner, "rounding": how})


@st.composite
def int_add(draw, types=stream_types):
    """One operand has the full shape, the other broadcasts to it; either may come first."""
    rng, (a, b, y) = draw(generator), draw(types)
    given = operands(draw, rng, a, b)
    pair = multipliers(rng, 2)
    scale_below_two = int(pair.max()).bit_length() - 1
    scale = *pair, max(scale_below_two + rng.integers(0, 11), 1)
    rest = *(np.array(value, np.int32) for value in scale), *output_ends(rng, y)
    return Case([*given, *rest], {"rounding": draw(rounding)})


@st.composite
def int_rescaled_add(draw):
    """TFLite's left shift or none; each pair of 31 bits or fewer, all below a scale of 2."""
    rng, (a, b, y) = draw(generator), draw(stream_types)
    given = operands(draw, rng, a, b)
    m = [int(each) for each in multipliers(rng, 3)]
    shifts = [max(each.bit_length() + int(rng.integers(-1, 6)), 1) for each in m]
    left = 0 if np.int16 in (a, b, y) else int(rng.choice([0, 20]))
    shifts[2] += left
    numbers = [each for pair in zip(m, shifts, strict=True) for each in pair]
    scalars = (np.array(value, np.int32) for value in (left, *numbers))
    return Case([*given, *scalars, *output_ends(rng, y)], {"rounding": draw(node_rounding)})


@st.composite
def int_rescale(draw):
    rng = draw(generator)
    shape = draw(st.lists(st.integers(0, 5), min_size=1, max_size=3))
    zero = zero_point(rng, draw(wide_type))
    scale = (np.asarray(each[0]) for each in multiplier_and_shift(rng, 1, 1 << 15))
    inputs = [codes(rng, shape, zero), zero, *scale, *output_ends(rng, draw(wide_type))]
    return Case(inputs, {"rounding": draw(node_rounding)})


@st.composite
def int_cast(draw):
    """Numbers between which codes differ lie anywhere, or are all of the type."""
    rng, of = draw(generator), draw(st.sampled_from(WHOLE))
    shape = draw(st.lists(st.integers(0, 5), min_size=1, max_size=3))
    least, most = type_ends(of)
    first = int(rng.integers(max(least, -(1 << 19)), min(most, 1 << 19), endpoint=True))
    last = min(most, first + int(rng.integers(0, 1 << 19)))
    if most - least < 1 << 16 and rng.random() < 0.5:
        first, last = least, most
    near = rng.integers(max(first - 3, least), min(last + 3, most), shape, endpoint=True)
    x = np.where(rng.random(shape) < 0.8, near, rng.choice([least, most, 0, 1], shape))
    scale = [np.asarray(each[0]) for each in multiplier_and_shift(rng, 1, 1 << 20)]
    if rng.random() < 0.5:
        scale = [np.array(each, np.int32) for each in (1 << 30, 30)]
    ends = [np.array(each, np.int32) for each in (first, last)]
    inputs = [x.astype(of), *ends, *scale, *output_ends(rng, draw(wide_type))]
    return Case(inputs, {"of": of, "rounding": draw(node_rounding)})


@st.composite
def int_coded_p_relu(draw):
    """Slope codes of any shape that broadcasts to x, with one pair or one for each."""
    case, rng = draw(int_p_relu(byte_types.map(lambda types: types[:2]))), draw(generator)
    x, zero, m, s, slope_m, slope_s, *ends = case.inputs
    codes = rng.integers(-255, 255, slope_m.shape, np.int32, endpoint=True)
    if draw(st.booleans()):
        codes = np.ones((), np.int32)
    elif slope_m.size:
        slope_m, slope_s = slope_m.reshape(-1)[0], slope_s.reshape(-1)[0]
    scale = m, s, codes, np.asarray(slope_m), np.asarray(slope_s)
    return Case([x, zero, *scale, *ends], {"rounding": draw(node_rounding)})


@st.composite
def pool(draw, window_name):
    """An average pool: ``kernel_shape`` slides, ``spatial_shape`` covers everything."""
    rng, dtype, channels = draw(generator), draw(stored_type), draw(st.integers(1, 17))
    cells, geometry = draw(window), {}
    size = cells
    if window_name == "kernel_shape":
        geometry, size = draw(geometry_of(cells, 2))
    x_zero, reach = zero_point(rng, dtype), prod(cells) * rng.choice([1, 16, 256])
    x = codes(rng, (draw(st.integers(1, 2)), channels, *size), x_zero)
    inputs = [x, x_zero, *multiplier_and_shift(rng, 1, reach), *output_ends(rng, dtype)]
    attributes = {"channels": channels, window_name: cells, **geometry}
    return Case(inputs, attributes | {"rounding": draw(node_rounding)})


@st.composite
def counted_pool(draw):
    """Some of the padding counts as cells; small inputs leave windows without any."""
    rng, (dtype, y_dtype) = draw(generator), draw(ends_of_two)
    channels, kernel = draw(st.integers(1, 17)), draw(window)
    geometry, size = draw(geometry_of(kernel, 2))
    geometry = {"pads": [0] * (2 * len(kernel)), **geometry}
    zero = zero_point(rng, dtype) if dtype.itemsize == 1 else np.zeros((), dtype)
    x = codes(rng, (draw(st.integers(1, 2)), channels, *size), zero)
    m, s = multiplier_and_shift(rng, 1, 256 if dtype.itemsize == 1 else 65536)
    scale = m.reshape(()), np.minimum(s, 52).reshape(())
    uncounted = [int(rng.integers(0, n, endpoint=True)) for n in geometry["pads"]]
    attributes = {"channels": channels, "kernel_shape": kernel, "rounding": draw(rounding)}
    attributes |= {**geometry, "uncounted_pads": uncounted}
    y_zero, *bounds = output_ends(rng, y_dtype)
    y_zero = y_zero if y_dtype.itemsize == 1 else np.zeros_like(y_zero)
    return Case([x, zero, *scale, y_zero, *bounds], attributes)


@st.composite
def int_max_pool(draw):
    """Padding is less than a window: onnxruntime takes no other."""
    rng, kernel = draw(generator), draw(window)
    geometry, size = draw(geometry_of(kernel, 2))
    pads = [min(n, kernel[k % len(kernel)] - 1) for k, n in enumerate(geometry["pads"])]
    size = [n + 2 for n in size]  # which fits with less padding
    x = codes(rng, (draw(st.integers(1, 2)), draw(st.integers(1, 17)), *size), np.int16(0))
    return Case([x], {"kernel_shape": kernel, **geometry, "pads": pads})


@st.composite
def int_pad(draw):
    rng, mode = draw(generator), draw(st.sampled_from(MODES))
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    most = [size - 1 if mode == "reflect" else 3 for size in shape * 2]
    pads = [int(rng.integers(0, each, endpoint=True)) for each in most]
    given = [codes(rng, shape, np.int16(0)), codes(rng, (), np.int16(0))]
    return Case([np.asarray(each) for each in given], {"pads": pads, "mode": mode})


@st.composite
def int_extreme(draw):
    rng, shape = draw(generator), draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    axes = draw(st.lists(st.integers(-len(shape), -1), min_size=1, unique=True))
    which = draw(st.sampled_from(["largest", "smallest"]))
    attributes = {"axes": sorted(axes), "keepdims": draw(st.integers(0, 1)), "which": which}
    return Case([codes(rng, shape, np.int16(0))], attributes)


@st.composite
def int_where(draw):
    """Of any shapes that broadcast, none of an operand among them."""
    rng, shape = draw(generator), draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))

    def part():
        sizes = [draw(st.sampled_from([1, size])) for size in shape]
        return sizes[draw(st.integers(0, len(sizes))) :]

    operands = [codes(rng, part(), np.int16(0)) for _ in "ab"]
    return Case([rng.random(shape) < 0.5, *map(np.asarray, operands)], {})


@st.composite
def int_shuffle(draw):
    """Any order of any parts, some of them joined."""
    rng, sizes = draw(generator), draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    axes = draw(st.permutations(range(1, len(sizes) + 1)))
    turned = [sizes[axis - 1] for axis in axes]
    cut = draw(st.integers(0, len(turned) - 1))
    joined = [0, *turned[:cut], prod(turned[cut:])]
    x = codes(rng, (draw(st.integers(1, 3)), *sizes), np.int16(0))
    return Case([x], {"split": [0, *sizes], "perm": [0, *axes], "joined": joined})


@st.composite
def int_reduce(draw):
    rng, (dtype, y_dtype) = draw(generator), draw(ends_of_two)
    shape = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    axes = draw(st.lists(st.integers(-len(shape), -1), min_size=1, unique=True))
    zero = zero_point(rng, dtype)
    reach = 256 if dtype.itemsize == 1 else 65536
    m, s = multiplier_and_shift(rng, 1, reach * prod(shape))
    if draw(st.booleans()):  # as short as the fast body wants them
        cut = max(0, int(s[0]) - 20, int(m[0]).bit_length() - 22)
        m, s = m >> cut, s - cut
    scale = m.reshape(()), np.minimum(s, 52).reshape(())  # cells * 2**s stays below 2**62
    switches = {"keepdims": draw(st.integers(0, 1)), "mean": draw(st.integers(0, 2))}
    rule = draw(rounding if switches["mean"] == 1 else node_rounding)
    attributes = {"axes": sorted(axes), "rounding": rule, **switches}
    given = [codes(rng, shape, zero), zero, *scale, *output_ends(rng, y_dtype)]
    return Case(given, attributes)


@st.composite
def int_resize(draw):
    """Any places and coefficients; those of the width often fit int8, the depth is often 1."""
    rng, (dtype, y_dtype) = draw(generator), draw(ends_of_two)
    dims, is_narrow = draw(st.integers(1, 3)), dtype.itemsize == 1
    sizes = st.lists(st.integers(1, 4), min_size=dims, max_size=dims)
    x_sizes, y_sizes = ([1] * (3 - dims) + draw(sizes) for _ in range(2))
    leading = draw(st.lists(st.integers(1, 3), max_size=2))
    ends = [1] * (3 - dims) + [
        int(rng.choice([1, 4, 63, 90] if is_narrow else [1, 4, 9])) for _ in range(dims)
    ]
    indices = [rng.integers(0, n, (2, m)) for n, m in zip(x_sizes, y_sizes, strict=True)]
    coefficients = [
        rng.integers(0, end, (2, m), endpoint=True)
        for end, m in zip(ends, y_sizes, strict=True)
    ]
    for trivial in coefficients[: 3 - dims]:
        trivial[:] = [[1], [0]]
    tables = [np.concatenate(t, axis=1).astype(np.int32) for t in (indices, coefficients)]
    zero = zero_point(rng, dtype) if is_narrow else np.zeros((), dtype)
    x = codes(rng, (*leading, *x_sizes[3 - dims :]), zero)
    reach = 256 if is_narrow else 65536
    m, s = multiplier_and_shift(rng, 1, reach * prod(2 * end for end in ends))
    attributes = {"dims": dims, "x_sizes": x_sizes, "y_sizes": y_sizes}
    y_zero, *bounds = output_ends(rng, y_dtype)
    has_words = not is_narrow or y_dtype.itemsize == 2
    if has_words:  # as many bits as double holds products with sums
        cut = np.maximum(0, np.minimum(9, s - 1))
        m, s, y_zero = m >> cut, s - cut, y_zero * (y_dtype.itemsize == 1)
    rule = draw(rounding if has_words else node_rounding)
    inputs = [x, zero, *tables, m, s, np.asarray(y_zero, y_dtype), *bounds]
    return Case(inputs, attributes | {"rounding": rule})


@st.composite
def table_softmax(draw):
    """Entries anywhere, those of a Softmax, or so small that quotients are ties, sums zero."""
    rng, dtype = draw(generator), draw(stored_type)
    y_dtype = draw(st.sampled_from([dtype, dtype, np.dtype(np.int16)]))
    shape = draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    kind = rng.choice(["anywhere", "exponentials", "small"])
    most = 40 if y_dtype.itemsize == 1 else 48
    ends = {"anywhere": ((1 << 31) - 1, 1 << most), "small": (3, 40)}
    if kind == "exponentials":
        falling = np.exp(-np.arange(256) * rng.choice([0.01, 0.1, 1]))
        tables = [np.rint(falling * end) for end in (1 << 20, 1 << most - 12)]
    else:
        tables = [rng.integers(0, end, 256, endpoint=True) for end in ends[kind]]
    typed = [t.astype(d) for t, d in zip(tables, (np.int32, np.int64), strict=True)]
    inputs = [codes(rng, shape, zero_point(rng, dtype)), *typed, *output_ends(rng, y_dtype)]
    published = draw(st.integers(0, 1))
    return Case(inputs, {"axis": axis, "published": published, "rounding": draw(rounding)})


@st.composite
def table_softmax16(draw):
    """Entries anywhere, those of a Softmax, or so small that quotients are ties, sums zero."""
    rng, (_, y_dtype) = draw(generator), draw(ends_of_two)
    shape = draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    largest, one, kind = ((1 << 31) - 1) // 6, 1 << 22, rng.choice(["any", "real", "small"])
    if kind == "real":
        steps = rng.choice([1e-5, 1e-3, 0.1])
        high, low = (np.exp(-np.arange(256) * each) for each in (256 * steps, steps))
        tables = [np.rint(high * largest), np.rint(low * one)]
    else:
        ends = (largest, one) if kind == "any" else (4, one)
        tables = [rng.integers(0, end, 256, endpoint=True) for end in ends]
    multiplier = rng.choice([rng.integers(1 << 30), rng.integers(1, 1 << 20), 1, 5])
    zero = np.zeros((), np.int16)
    x = codes(rng, shape, zero, int(rng.choice([1 << 16, 300])))
    numbers = [np.array(multiplier, np.int32), np.array(rng.integers(1, 31), np.int32)]
    typed = [*(each.astype(np.int32) for each in tables), *numbers]
    inputs = [x, *typed, *output_ends(rng, y_dtype)]
    return Case(inputs, {"axis": axis, "rounding": draw(rounding)})


@st.composite
def int_log_softmax(draw):
    """Entries of exponentials or anywhere, so that sums end; logarithms, or any that rise."""
    rng, dtype = draw(generator), draw(stored_type)
    shape = draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    bits, is_real = int(rng.choice([1, 10, 24])), bool(rng.integers(2))
    unit = 2**bits * float(rng.choice([0.5, 10, 100]))
    falling = np.exp(-np.arange(256) * rng.choice([0.01, 0.1, 1])) * (1 << 30)
    terms = falling if is_real else rng.integers(0, rng.choice([2, (1 << 31) - 1]), 256)
    distances = np.arange(256) * (unit / 10) if is_real else rng.integers(0, 1 << 50, 256)
    lines = np.log1p(np.arange(257) / 256) * unit
    if not is_real:
        lines = np.cumsum(rng.integers(0, 1 << int(rng.integers(1, 33)), 257))
    octaves = np.log(2) * np.arange(-30, 11) * unit
    tables = [np.rint(each).astype(np.int64) for each in (distances, octaves, lines)]
    x = codes(rng, shape, zero_point(rng, dtype))
    attributes = {
        "axis": draw(st.integers(-len(shape), len(shape) - 1)),
        **{"fraction_bits": bits, "rounding": draw(rounding)},
    }
    inputs = [x, np.rint(terms).astype(np.int32), *tables, *output_ends(rng, dtype)]
    return Case(inputs, attributes)


@st.composite
def int_layer_norm(draw):
    """Rows of equal codes, of two, anywhere; epsilon nothing or larger than the variance."""
    rng, dtype, y_dtype = draw(generator), draw(wide_type), draw(wide_type)
    is_long = rng.random() < 0.4  # of radicands that may have more than 62 bits
    dtype = np.dtype(np.int16) if is_long else dtype
    largest = 2 * (255 if dtype.itemsize == 1 else 65535)
    leading = draw(st.lists(st.integers(1, 3), max_size=2))
    row = draw(st.lists(st.integers(1, 6), min_size=1, max_size=2))
    zero = zero_point(rng, dtype)
    x = codes(rng, (*leading, *row), zero)
    if rng.random() < 0.2:
        x = np.full_like(x, x.flat[0])
    cells = prod(row)
    root_bits = int(rng.integers(0, (62 - (largest * cells).bit_length() * 2) // 2))
    if is_long:
        root_bits = int(rng.integers(12, 16))
    norm_bits = int(rng.integers(8, 21))
    factor_bits = root_bits + int(rng.integers(norm_bits + 1, 46))
    places = row if rng.random() < 0.6 or not leading else [leading[-1], *[1] * len(row)]
    own = (*places[: -len(row)], *[1] * len(row)) if rng.random() < 0.4 else ()
    epsilon = [0, 1, rng.integers(0, 1 << int(rng.integers(1, 61)))]
    epsilon = rng.choice(np.array(epsilon, np.int64), own)
    multiplier = rng.integers(-(1 << 20), 1 << 20, places, np.int32, endpoint=True)
    offset = rng.integers(-(1 << 40), 1 << 40, places, np.int64, endpoint=True)
    shift = np.int32(rng.choice([1, 20, rng.integers(1, 61)]))
    numbers = [multiplier, offset, np.asarray(shift), np.asarray(epsilon)]
    attributes = {
        "axis": -len(row),
        "cells": cells,
        "centered": draw(st.integers(0, 1)),
        "root_bits": root_bits,
        "factor_bits": min(factor_bits, 62),
        "norm_bits": norm_bits,
        "rounding": draw(rounding),
    }
    return Case([x, zero, *numbers, *output_ends(rng, y_dtype)], attributes)


def _published(draw, shift_bits):
    """A generator, codes with rows along an axis, multiplier and shift, and the ends."""
    rng, dtype = draw(generator), draw(stored_type)
    shape = draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
    zero = zero_point(rng, dtype)
    x = codes(rng, shape, zero)
    scale = [each[0] for each in multiplier_and_shift(rng, 1, 1 << shift_bits)]
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    return rng, x, zero, [*map(np.asarray, scale), *output_ends(rng, dtype)], axis


@st.composite
def shiftmax(draw):
    bits = draw(st.sampled_from([8, 16]))
    rng, x, _zero, ends, axis = _published(draw, bits)
    x0 = -int(rng.choice([1, 2, 16, rng.integers(1, 600)]))
    attributes = {"axis": axis, "x0": x0, "fraction_bits": int(rng.choice([15, 16, 7]))}
    return Case(
        [x, *ends], {**attributes, "output_bits": bits, "rounding": draw(node_rounding)}
    )


@st.composite
def gemmlowp_softmax(draw):
    rng, x, _zero, ends, axis = _published(draw, 8)
    scale = float(rng.choice([1 / 256, 1 / 16, 0.3, 2]))
    exponentials = np.int32(softmax_exponentials(scale))
    if rng.random() < 0.3:
        exponentials = rng.integers(0, 1 << 31, 256).astype(np.int32)
    return Case([x, exponentials, *ends[-3:]], {"axis": axis})


@st.composite
def shift_gelu(draw):
    bits = draw(st.sampled_from([8, 16]))
    rng, x, zero, ends, axis = _published(draw, bits + 8)
    x0 = -int(rng.choice([1, 2, 16, rng.integers(1, 256)]))
    attributes = {"axis": axis, "x0": x0, "fraction_bits": int(rng.choice([23, 15]))}
    attributes |= {"output_bits": bits, "rounding": draw(node_rounding)}
    return Case([x, zero, *ends], attributes)


@st.composite
def i_layer_norm(draw):
    rng, dtype, y_dtype = draw(generator), draw(wide_type), draw(stored_type)
    leading, cells = draw(st.lists(st.integers(1, 3), max_size=2)), draw(st.integers(1, 9))
    zero = zero_point(rng, dtype)
    x = codes(rng, (*leading, cells), zero)
    if rng.random() < 0.2:
        x = np.full_like(x, x.flat[0])
    biases, widest = 1 << int(rng.choice([30, 36])), 1 << int(rng.choice([17, 20]))
    offset = rng.integers(-biases, biases, cells, endpoint=True)
    multiplier = rng.integers(-widest, widest, cells, np.int32, endpoint=True)
    shift = rng.integers(1, 61, cells, np.int32, endpoint=True)
    inputs = [x, zero, offset, multiplier, shift, *output_ends(rng, y_dtype)]
    return Case(inputs, {"cells": cells, "rounding": draw(rounding)})


@st.composite
def i_bert_softmax(draw):
    bits = draw(st.sampled_from([8, 16]))
    rng, x, _zero, ends, axis = _published(draw, bits)
    scale = float(rng.choice([1 / 128, 1 / 16, 0.3, 2]))
    of_exp = [np.array(each, np.int32) for each in (rng.integers(1, 1 << 10), 40)]
    attributes = {
        **{"axis": axis, "x0": -int(0.6931 / scale) - 1},
        **{"b": int(2.7073 / scale), "c": max(int(2.7921 / scale**2), 1)},
        **{"fraction_bits": 30, "output_bits": bits, "rounding": draw(node_rounding)},
    }
    return Case([x, *of_exp, *ends], attributes)


@st.composite
def i_bert_gelu(draw):
    rng, x, zero, ends, _axis = _published(draw, 12)
    scale = float(rng.choice([1 / 128, 1 / 16, 0.3, 2])) / 1.4142
    attributes = {
        **{"b": -int(1.769 / scale) - 1, "c": -int(3.4626 / scale**2) - 1},
        **{"one": -int(rng.integers(1, 20)), "fraction_bits": int(rng.choice([14, 8, 1]))},
        "rounding": draw(node_rounding),
    }
    return Case([x, zero, *ends], attributes)


CASES: dict[str, st.SearchStrategy[Case]] = {
    "Requantize": requantize(),
    "Lut": lut(),
    "LutPerChannel": lut_per_channel(),
    "LutPair": lut_pair(),
    "Lut16": lut16(),
    "LutInterpolated": lut_interpolated(),
    "IntDiv": int_div(),
    "LutInterpolatedPerChannel": lut_interpolated_per_channel(),
    "IntMul": int_mul(),
    "IntPRelu": int_p_relu(),
    "IntCodedPRelu": int_coded_p_relu(),
    "IntConv": int_conv(),
    "IntConvPerChannel": int_conv_per_channel(),
    "IntGemm": int_gemm(),
    "IntMatMul": int_mat_mul(),
    "IntAdd": int_add(),
    "IntRescale": int_rescale(),
    "IntCast": int_cast(),
    "IntSub": int_add(word_types),
    "IntRescaledAdd": int_rescaled_add(),
    "IntRescaledSub": int_rescaled_add(),
    "IntReduce": int_reduce(),
    "IntResize": int_resize(),
    "IntMaxPool": int_max_pool(),
    "IntExtreme": int_extreme(),
    "IntPad": int_pad(),
    "IntWhere": int_where(),
    "IntShuffle": int_shuffle(),
    "TableSoftmax": table_softmax(),
    "TableSoftmax16": table_softmax16(),
    "IntLogSoftmax": int_log_softmax(),
    "IntLayerNorm": int_layer_norm(),
    "GemmlowpSoftmax": gemmlowp_softmax(),
    "Shiftmax": shiftmax(),
    "ShiftGelu": shift_gelu(),
    "ILayerNorm": i_layer_norm(),
    "IBertSoftmax": i_bert_softmax(),
    "IBertGelu": i_bert_gelu(),
    "IntAveragePool": pool("kernel_shape"),
    "IntCountedAveragePool": counted_pool(),
    "IntGlobalAveragePool": pool("spatial_shape"),
    **RECURRENT_CASES,
}


def emitted(op: Op, case: Case) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The inputs by name and the attributes of a drawn node as models have it.

    What may be left out is there, axes are counted from the end where they are, and a
    Softmax is none of another table.
    """
    tensors = dict(zip(op.inputs, map(np.asarray, case.inputs), strict=True))
    rank = tensors[op.data[0]].ndim
    ones, window = [1] * (rank - 2), tensors["w"].shape[2:] if "w" in tensors else ()
    neutral = {"dilations": ones, "strides": ones, "group": 1, "leading": [0]}
    neutral["kernel_shape"] = [*window]
    wanted = {name: neutral[name] for name in op.attributes if name in neutral}
    attributes = {name: _plain(value) for name, value in (wanted | case.attributes).items()}
    axis = op.attributes.get("axis")
    if isinstance(axis, Axis) and axis.from_end and attributes["axis"] >= 0:
        attributes["axis"] -= rank
    return tensors, attributes | ({"published": 0} if "published" in attributes else {})


def _plain(value: Any) -> Any:
    """An attribute without numbers of numpy."""
    if isinstance(value, list):
        return [int(each) for each in value]
    return value if isinstance(value, str) else int(value)
