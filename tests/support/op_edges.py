"""Nodes of every op at their edges: all codes, sums at both ends, ties, axes and shapes.

Each function gives nodes by name, for activations of one type and one rounding.
"""

from math import prod

import numpy as np

from opsets.declaration import WHOLE
from opsets.fixed_point import ROUNDINGS
from opsets.gemmlowp import softmax_exponentials
from opsets.qpasses_v1 import OPS
from opsets.qpasses_v1.int_cast import type_ends
from opsets.rounding import LAST_STEP
from tests.support.op_nodes import Case, codes, zero_point
from tests.support.thoroughness import THOROUGH

INT16 = np.dtype(np.int16)


def all_codes(dtype):
    limits = np.iinfo(dtype)
    return np.arange(limits.min, limits.max + 1).astype(dtype)


def some_codes(dtype):
    """The ends, and some between."""
    return all_codes(dtype)[[0, 1, *range(2, 254, 15), 254, 255]]


def anything(rng, shape, dtype):
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def whole_range(dtype):
    limits = np.iinfo(dtype)
    return np.array(limits.min, dtype), np.array(limits.max, dtype)


def middle(rng, dtype):
    """A zero point that leaves levels on both sides; none of 16 bits, as streams have none."""
    if dtype == INT16:
        return np.zeros((), dtype)
    limits = np.iinfo(dtype)
    return np.array(rng.integers(limits.min + 100, limits.max - 99), dtype)


WIDER = {
    "words to words": (INT16, INT16),
    "words to bytes": (INT16, None),
    "bytes to words": (None, INT16),
}
"""What a node reads and writes; None: codes of 8 bits."""


def whole_codes(rng, shape, dtype):
    """Anywhere in the type, some at its ends."""
    ends = np.iinfo(dtype)
    found = rng.integers(ends.min, ends.max, shape, dtype, endpoint=True)
    found.flat[: found.size // 4] = rng.choice([ends.min, ends.max], found.size // 4)
    return found


def output(rng, dtype):
    """y_zero, y_min, y_max."""
    if dtype == INT16 or rng.random() < 0.7:
        return middle(rng, dtype), *whole_range(dtype)
    low, high = (int(end) for end in whole_range(dtype))
    return middle(rng, dtype), np.array(low + 30, dtype), np.array(high - 20, dtype)


def scale(rng, reach, rounding, count=None, bits=8):
    """A multiplier and a shift, or ``count`` of each; ``reach`` comes to ``bits`` bits.

    Three of four are powers of two, which make ties. Of two steps the second has three bits to
    round at least.
    """
    width, least = (31, 3) if rounding in LAST_STEP else (24, 1)
    dropped = max(int(reach).bit_length() - bits, least)
    top, size = 1 << (width - 1), count or 1
    factors = np.where(rng.random(size) < 0.75, top, rng.integers(top, 2 * top - 1, size))
    shift = width + dropped + rng.integers(0, 2, size)
    found = [np.asarray(each, np.int32) for each in (factors, shift)]
    return found if count else [each.reshape(()) for each in found]


def half(numbers):
    """What a power of two as a multiplier makes a tie, beside 0 and 1; for each channel."""
    factors, shift = (each.astype(np.int64) for each in numbers)
    bits = np.array([int(each).bit_length() for each in factors.reshape(-1)])
    return np.left_shift(1, np.maximum(shift - bits.reshape(shift.shape), 0))


def ties(rng, numbers):
    """For each channel a sum that is a tie, if any is, or one below."""
    halves = half(numbers)
    odd = 2 * rng.permutation(np.arange(-(len(halves) // 2) - 1, len(halves))) + 1
    found = odd[: len(halves)] * halves - (rng.random(len(halves)) < 0.4)
    return found.astype(np.int32)


def ends_of_rows(w, w_zero, dtype):
    """For each row of ``w`` [M, ...] the codes that make its sum largest, and smallest."""
    low, high = whole_range(dtype)
    above = w.astype(np.int64) >= w_zero
    return np.concatenate([np.where(above, high, low), np.where(above, low, high)])


# Tables


def lut(rng, dtype, _rounding):
    table = rng.permutation(256).astype(np.uint8).view(dtype)
    words = rng.integers(-32768, 32768, 256).astype(np.int16)
    return {
        "all codes": Case([all_codes(dtype).reshape(2, 128), table], {}),
        "to 16 bits": Case([all_codes(dtype), words], {}),
    }


def lut_per_channel(rng, dtype, _rounding):
    x, found = np.stack([all_codes(dtype)] * 3), {}
    for name, axis, moved in (("first axis", 0, x), ("last axis", 1, x.T), ("middle", 1, x)):
        tables = rng.integers(0, 256, (3, 256)).astype(np.uint8).view(dtype)
        words = rng.integers(-32768, 32768, (3, 256)).astype(np.int16)
        shaped = moved.reshape(1, 3, 16, 16) if name == "middle" else moved
        found[name] = Case([shaped, tables], {"axis": axis})
        found[f"{name} to 16 bits"] = Case([shaped, words], {"axis": axis})
    return found


def lut_interpolated_per_channel(rng, dtype, rounding):
    x, found = np.stack([all_codes(INT16)] * 3), {}
    curve = np.tanh(np.linspace(-4, 4, 513)) * 32767
    entries = np.stack([curve, rng.integers(-32768, 32768, 513), curve / 4096])
    tables, shift = np.rint(entries).astype(np.int16), np.array(15, np.int32)
    for name, axis, moved in (("first axis", 0, x), ("last axis", 1, x.T), ("middle", 1, x)):
        shaped = moved.reshape(1, 3, 256, 256) if name == "middle" else moved
        inputs = [np.ascontiguousarray(shaped), tables, shift, *output(rng, dtype)]
        found[name] = Case(inputs, {"axis": axis, "rounding": rounding})
    return found


def lut_pair(rng, dtype, _rounding):
    a, b = all_codes(dtype).reshape(-1, 1), all_codes(dtype)
    table = rng.integers(0, 256, 1 << 16).astype(np.uint8).view(dtype)
    channels = rng.integers(0, 256, (3, 1, 1)).astype(np.uint8).view(dtype)
    return {
        "all pairs": Case([a, b, table], {}),
        "channels first": Case([channels, b.reshape(1, 1, 16, 16), table], {}),
    }


def lut16(rng, dtype, _rounding):
    table = rng.integers(0, 256, 1 << 16).astype(np.uint8).view(dtype)
    words = rng.integers(-32768, 32768, 1 << 16).astype(np.int16)
    return {
        "all codes": Case([all_codes(INT16), table], {}),
        "to 16 bits": Case([all_codes(INT16), words], {}),
    }


def lut_interpolated(rng, dtype, rounding):
    curve = np.tanh(np.linspace(-4, 4, 513)) * 32767
    found = {}
    for name, entries in (
        ("a curve", curve),
        ("anything", rng.integers(-32768, 32768, 513)),
        ("a slow curve", curve / 4096),
    ):
        given = [all_codes(INT16), np.rint(entries).astype(np.int16), np.array(15, np.int32)]
        found[name] = Case([*given, *output(rng, dtype)], {"rounding": rounding})
    return found


def slopes(rng, dtype, rounding, coded):
    """Slopes by shape: one number, one for each channel, one for each element."""
    for name, shape in (("one slope", ()), ("channels", (3, 1, 1)), ("elements", (3, 4, 64))):
        count = prod(shape)
        factors, places = scale(rng, 256, rounding, count)
        factors = factors * rng.choice(np.array([-1, 1, 1, 0]), count).astype(np.int32)
        given = [factors.reshape(shape), places.reshape(shape)]
        if coded:
            numbers = rng.integers(-255, 256, shape, np.int32)
            given = [np.asarray(numbers), *(each.reshape(-1)[0] for each in given)]
        x = np.stack([all_codes(dtype)] * 3).reshape(3, 4, 64)
        yield name, x, [np.asarray(each) for each in given]


def int_p_relu(rng, dtype, rounding):
    return {
        name: Case(
            [x, middle(rng, dtype), *scale(rng, 255, rounding), *given, *output(rng, dtype)],
            {"rounding": rounding},
        )
        for name, x, given in slopes(rng, dtype, rounding, coded=False)
    } | {
        f"{x} to {y}": Case(
            [
                *(all_codes(x), middle(rng, x)),
                *(number for _ in range(2) for number in scale(rng, 1 << 16, rounding)),
                *output(rng, y),
            ],
            {"rounding": rounding},
        )
        for x, y in ((INT16, INT16), (INT16, dtype), (dtype, INT16))
    }


def int_coded_p_relu(rng, dtype, rounding):
    return {
        name: Case(
            [x, middle(rng, dtype), *scale(rng, 255, rounding), *given, *output(rng, dtype)],
            {"rounding": rounding},
        )
        for name, x, given in slopes(rng, dtype, rounding, coded=True)
    }


def i_bert_gelu(rng, dtype, rounding):
    found, bits = {}, 14
    for name, step in (("coarse", 0.1), ("fine", 0.05), ("finer", 0.02), ("finest", 0.01)):
        unit = step / 1.4142
        numbers = {"b": -int(1.769 / unit) - 1, "c": -int(3.4626 / unit**2) - 1}
        numbers |= {"one": -max(numbers["c"] ** 2 >> bits + 9, 1), "fraction_bits": bits}
        given = [all_codes(dtype), middle(rng, dtype), *scale(rng, 1 << 12, rounding)]
        inputs = [*given, *output(rng, dtype)]
        found[name] = Case(inputs, {**numbers, "rounding": rounding})
    return found


def shift_gelu(rng, dtype, rounding):
    found, attributes = {}, {"axis": -1, "x0": -16, "fraction_bits": 23, "output_bits": 8}
    for name, x in (
        ("all codes", all_codes(dtype).reshape(16, 16)),
        ("rows", anything(rng, (128, 16), dtype)),
    ):
        zero = np.array(128 if dtype == np.uint8 else 0, dtype)
        inputs = [x, zero, *scale(rng, 1 << 14, rounding), *output(rng, dtype)]
        found[name] = Case(inputs, {**attributes, "rounding": rounding})
    return found


# Sums element by element


def two_operands(rng, dtype):
    """Names, and two tensors with their zero points: pairs of codes, shapes that broadcast."""
    zeros = [middle(rng, dtype), zero_point(rng, dtype)]
    yield "pairs", (all_codes(dtype).reshape(-1, 1), some_codes(dtype)), zeros
    yield "pairs the other way", (some_codes(dtype).reshape(-1, 1), all_codes(dtype)), zeros
    a, b = (anything(rng, shape, dtype) for shape in ((2, 3, 4), (3, 1)))
    yield "a column behind", (a, b), [zeros[0]] * 2
    yield "a column before", (b, a), [zeros[0]] * 2
    yield "rows of one", (a[:, :1], a[:1]), [zeros[0]] * 2


def with_numbers(rng, dtype, rounding, numbers):
    """Sums of those, and of all words with a byte; ``numbers(rng)``: all that scales."""
    found = {}
    for name, (a, b), (a_zero, b_zero) in two_operands(rng, dtype):
        inputs = [a, a_zero, b, b_zero, *numbers(rng), *output(rng, dtype)]
        found[name] = Case(inputs, {"rounding": rounding})
    return found


def int_add(rng, dtype, rounding):
    def numbers(rng):
        pair = rng.choice([*rng.integers(1 << 22, 1 << 24, 2), 1 << 22, 1 << 21], 2)
        return [np.array(each, np.int32) for each in (*pair, int(rng.integers(22, 25)))]

    found = with_numbers(rng, dtype, rounding, numbers)
    words, word = all_codes(INT16), np.zeros((), INT16)
    byte, zero = codes(rng, (), zero_point(rng, dtype)), zero_point(rng, dtype)
    for name, y in (("words to bytes", dtype), ("words to words", INT16)):
        inputs = [words, word, byte, zero, *numbers(rng), *output(rng, y)]
        found[name] = Case([*map(np.asarray, inputs)], {"rounding": rounding})
    return found


def int_mul(rng, dtype, rounding):
    reach = 255 * 255
    found = with_numbers(rng, dtype, rounding, lambda rng: scale(rng, reach, rounding))
    words, word = all_codes(INT16), np.zeros((), INT16)
    byte, zero = codes(rng, (), zero_point(rng, dtype)), zero_point(rng, dtype)
    for name, other, y in (
        ("words to bytes", (byte, zero), dtype),
        ("words to words", (byte, zero), INT16),
        ("squares", (words, word), INT16),
        ("the ends", (words[::-1], word), dtype),
    ):
        reach = 1 << (15 + 8 * other[0].itemsize - (other[0].itemsize > 1))
        numbers = scale(rng, reach, rounding, bits=8 * y.itemsize)
        inputs = [words, word, *other, *numbers, *output(rng, y)]
        found[name] = Case([*map(np.asarray, inputs)], {"rounding": rounding})
    return found


def int_div(rng, dtype, rounding):
    """Every code of words over a byte and the other way round, divisors 0 and 1 among them."""
    found = {}
    words, word = all_codes(INT16), np.zeros((), INT16)
    for name, y in (("words to bytes", dtype), ("words to words", INT16)):
        for divisor in (0, 1, -1, 3):
            b = np.array(divisor, INT16)
            numbers = quotient_scale(rng, abs(divisor) << 15, y)
            inputs = [words, word, b, word, *numbers, *output(rng, y)]
            found[f"{name} by {divisor}"] = Case(
                [*map(np.asarray, inputs)], {"rounding": rounding}
            )
        byte, zero = codes(rng, (), zero_point(rng, dtype)), zero_point(rng, dtype)
        inputs = [byte, zero, words, word, *quotient_scale(rng, 1 << 8, y), *output(rng, y)]
        found[f"{name} by words"] = Case([*map(np.asarray, inputs)], {"rounding": rounding})
    return found


def quotient_scale(rng, reach, y):
    """What takes a quotient of ``reach`` to about the codes of y."""
    bits = 8 * y.itemsize - max(reach.bit_length(), 1)
    m = int(rng.integers(1 << 21, 1 << 22))
    return [np.array(each, np.int32) for each in (m, int(np.clip(21 - bits, 1, 46)))]


def int_rescaled_add(rng, dtype, rounding):
    def numbers(rng):
        left = 0 if rounding == "half_to_even_in_double" else int(rng.choice([0, 20]))
        factors = rng.integers(1 << 30, (1 << 31) - 1, 3)
        factors = np.where(rng.random() < 0.75, 1 << 30, factors)
        shifts = [*rng.integers(31, 34, 2), left + int(rng.integers(30, 34))]
        flat = [left, *(n for pair in zip(factors, shifts, strict=True) for n in pair)]
        return [np.array(each, np.int32) for each in flat]

    return with_numbers(rng, dtype, rounding, numbers)


def int_rescale(rng, dtype, rounding):
    found = {}
    for name, x, y in (
        ("all codes", dtype, dtype),
        ("from 16 bits", INT16, dtype),
        ("to 16 bits", dtype, INT16),
    ):
        numbers = scale(rng, np.iinfo(x).max, rounding, bits=8 * min(x, y).itemsize)
        given = [all_codes(x), middle(rng, x), *numbers]
        found[name] = Case([*given, *output(rng, y)], {"rounding": rounding})
    return found


def int_cast(rng, dtype, rounding):
    """All of the small types, both ends of the large ones; scale 1, and what makes ties."""
    found = {}
    for of in WHOLE:
        least, most = type_ends(of)
        near = {each for each in range(-600, 600) if least <= each <= most}
        x = np.array(sorted(near | {least, least + 1, most - 1, most}), of)
        zero, low, high = output(rng, dtype)
        first, last = int(low) - int(zero) - 1, int(high) - int(zero) + 1
        whole = [max(first, least), min(last, most), 1 << 30, 30]
        ties = [max(-600, least), min(600, most), *scale(rng, 600, rounding)]
        for name, numbers in (("whole", whole), ("ties", ties)):
            inputs = [x, *(np.array(each, np.int32) for each in numbers), zero, low, high]
            found[f"{of}, {name}"] = Case(inputs, {"of": of, "rounding": rounding})
    return found


def requantize(rng, dtype, rounding):
    found = {}
    for axis in (0, 1, -1):
        reach = (1 << 31) - 1
        numbers = scale(rng, reach, rounding, 3)
        acc = rng.integers(-reach - 1, reach, (6, 8, 3), np.int32, endpoint=True)
        acc[0, 0, :2] = -reach - 1, reach
        acc[1:, :] = [[ties(rng, numbers) for _ in range(8)] for _ in range(5)]
        inputs = [np.moveaxis(acc, -1, axis), *numbers, *output(rng, dtype)]
        found[f"axis {axis}"] = Case(inputs, {"axis": axis, "rounding": rounding})
    return found


# Products


def convolutions(rng, dtype, rounding, geometries, by_channel=False):
    """Beside the ends of sums, zeros, which leave biases that are ties."""
    found = {}
    for name, (group, per, inner, kernel, geometry) in geometries.items():
        w_zero = zero_point(rng, np.dtype(rng.choice(["uint8", "int8"])))
        w = codes(rng, (group * per, inner, *kernel), w_zero)
        zeros = np.array([zero_point(rng, dtype) for _ in range(group)], dtype)
        zeros = zeros if by_channel else zeros[:1]
        column = zeros.reshape(-1, *(1 for _ in kernel))
        if any(geometry.get("pads", ["auto_pad" in geometry])):
            x = anything(rng, (2, group * inner, *(k + 4 for k in kernel)), dtype)
        else:
            x = np.tile(ends_of_rows(w, w_zero, dtype), (1, group, *(1 for _ in kernel)))
        x = np.concatenate([x, np.broadcast_to(column, x[:1].shape)])
        numbers = scale(rng, 255 * 255 * w[0].size, rounding, len(w), bits=9)
        given = [x, zeros if by_channel else zeros[0], w, w_zero, ties(rng, numbers)]
        inputs = [*given, *numbers, *output(rng, dtype)]
        attributes = {"group": group, "kernel_shape": list(kernel), **geometry}
        found[name] = Case(inputs, {**attributes, "rounding": rounding})
    return found


PADDED = {"pads": [1, 0, 2, 1], "strides": [2, 1], "dilations": [1, 2]}
DEPTHWISE = {
    "depthwise": (3, 1, 1, (3, 2), {}),
    "depthwise, two each": (2, 2, 1, (2, 2), {}),
    "depthwise, padded": (3, 1, 1, (3, 2), PADDED),
    "one dimension, depthwise": (3, 1, 1, (3,), {"pads": [1, 2], "strides": [2]}),
    "three dimensions, depthwise": (2, 1, 1, (2, 1, 2), {"pads": [1, 0, 1, 0, 1, 1]}),
}
CONVOLUTIONS = {
    "two dimensions": (1, 3, 2, (3, 2), {}),
    "padded": (1, 3, 2, (3, 2), PADDED),
    "same": (1, 2, 1, (3, 2), {"auto_pad": "SAME_LOWER", "strides": [2, 3]}),
    "groups": (2, 2, 3, (2, 2), {}),
    "one dimension": (1, 3, 2, (3,), {}),
    "three dimensions": (1, 2, 2, (2, 1, 2), {}),
    "a kernel of one": (1, 5, 4, (1, 1), {}),
    **DEPTHWISE,
}


def int_conv(rng, dtype, rounding):
    found = convolutions(rng, dtype, rounding, CONVOLUTIONS)
    for name, case in convolutions(rng, dtype, rounding, {"": CONVOLUTIONS["padded"]}).items():
        if rounding == "half_to_even":
            multiplier = case.inputs[5].astype(np.int64)
            rests = [int(rng.integers(-m // 2, m // 2)) for m in multiplier]
            found[f"{name}rests"] = Case(case.inputs, {**case.attributes, "bias_rests": rests})
    return found


def int_conv_per_channel(rng, dtype, rounding):
    named = {
        name: (*rest, {"pads": [0] * 2 * len(rest[-1]), **geometry})
        for name, (*rest, geometry) in DEPTHWISE.items()
    }
    return convolutions(rng, dtype, rounding, named, by_channel=True)


def int_gemm(rng, dtype, rounding):
    found = {}
    for name, leading in (("rows", (11,)), ("stacks of rows", (2, 5)), ("one row", (1,))):
        w_zero = zero_point(rng, np.dtype(rng.choice(["uint8", "int8"])))
        w, x_zero = codes(rng, (7, 5), w_zero), zero_point(rng, dtype)
        rows = [np.full((1, 7), x_zero), ends_of_rows(w.T, w_zero, dtype)]
        x = np.concatenate(rows)[: prod(leading)].reshape(*leading, 7)
        numbers = scale(rng, 255 * 255 * 7, rounding, 5, bits=9)
        inputs = [x, x_zero, w, w_zero, ties(rng, numbers), *numbers, *output(rng, dtype)]
        found[name] = Case(inputs, {"rounding": rounding})
    return found


STACKS = {
    "matrices": ((), ()),
    "stacks": ((2,), (2,)),
    "a stack and a matrix": ((3,), ()),
    "stacks that broadcast": ((2, 1), (1, 3)),
}


def int_mat_mul(rng, dtype, rounding):
    """Rows and columns of the ends, the four corners of a sum; products that are ties."""
    found = {}
    for name, stacks in STACKS.items():
        numbers = scale(rng, 2 * 255 * 255, rounding, 1)
        tie = int(half(numbers)[0]).bit_length() - 1
        a_zero, b_zero = middle(rng, dtype), middle(rng, dtype)
        a = codes(rng, (*stacks[0], 6, 2), a_zero)
        b = codes(rng, (*stacks[1], 2, 9), b_zero)
        a[..., :2, :], b[..., :2] = np.stack(whole_range(dtype))[:, None], whole_range(dtype)
        a[..., 2:, :], b[..., 2:] = a_zero, b_zero
        a[..., 2:, 0] = a_zero + np.array([1, -1, 1, 3]) * (1 << tie // 2)
        b[..., 0, 2:8] = b_zero + np.array([1, -1, 1, 2, 3, -3]) * (1 << tie - tie // 2)
        a[..., 4:, 1], b[..., 1, 2:8] = a_zero - 1, b_zero + 1  # one below
        inputs = [a, a_zero, b, b_zero, *numbers, *output(rng, dtype)]
        found[name] = Case(inputs, {"inner": 2, "rounding": rounding})
    return found


# Pools, means, resizes


def of_levels(rng, shape, zero, numbers):
    """[16, ...]: the lowest codes, the highest, anything, and sums of which many are ties."""
    x = anything(rng, (16, *shape), zero.dtype)
    x[:2] = np.reshape(whole_range(zero.dtype), (2,) + (1,) * len(shape))
    unit = max(int(half(numbers).max()) // 4, 1)
    levels = np.array(
        [unit * n for n in (-12, -4, -3, -1, 1, 2, 4, 4, 5, 12) if unit * n < 100]
    )
    few = rng.random(x[3:].shape)
    x[3:] = zero
    x[3:][few < 0.3] = zero + rng.choice(levels[np.abs(levels) < 100], (few < 0.3).sum())
    x[3:][few > 0.95] = zero - 1
    return x


def of_one_level(zero, sizes):
    """[18, ...]: the lowest codes, the highest, and powers of two."""
    powers = [sign << each for each in range(7) for sign in (1, -1)] + [3, -3]
    values = np.array([*whole_range(zero.dtype), *(int(zero) + each for each in powers)])
    whole = np.broadcast_to(values.reshape(-1, *(1 for _ in sizes)), (len(values), *sizes))
    return whole.astype(zero.dtype)


WINDOWS = {
    "two dimensions": ([2, 3], {}),
    "padded": ([3, 3], {"pads": [1, 0, 2, 1], "strides": [2, 1]}),
    "dilated": ([2, 2], {"dilations": [2, 1], "strides": [1, 2]}),
    "one dimension": ([3], {"pads": [1, 1]}),
    "three dimensions": ([2, 1, 2], {}),
}


def int_average_pool(rng, dtype, rounding):
    found = {}
    for name, (kernel, geometry) in WINDOWS.items():
        x_zero, numbers = middle(rng, dtype), scale(rng, prod(kernel) * 255, rounding, 1)
        x = of_levels(rng, (2, *(k + 3 for k in kernel)), x_zero, numbers)
        inputs = [x, x_zero, *numbers, *output(rng, dtype)]
        attributes = {"channels": 2, "kernel_shape": kernel, **geometry, "rounding": rounding}
        found[name] = Case(inputs, attributes)
    return found


def int_counted_average_pool(rng, dtype, rounding):
    found = {}
    for name, (kernel, geometry) in WINDOWS.items():
        x_zero, pads = middle(rng, dtype), geometry.get("pads", [0, 1] * len(kernel))
        numbers = scale(rng, 255, rounding)
        x = of_levels(rng, (2, *(k + 3 for k in kernel)), x_zero, numbers)
        inputs = [x, x_zero, *numbers, *output(rng, dtype)]
        attributes = {"channels": 2, "kernel_shape": kernel, **geometry, "pads": pads}
        attributes |= {"uncounted_pads": [min(n, 1) for n in pads], "rounding": rounding}
        found[name] = Case(inputs, attributes)
        for which, types in WIDER.items():
            read, written = (np.dtype(each or dtype) for each in types)
            numbers = scale(rng, 65535 if read == INT16 else 255, rounding)
            x = whole_codes(rng, (2, 2, *(k + 3 for k in kernel)), read)
            given = [x, np.zeros((), read), *numbers, *output(rng, written)]
            found[f"{name}, {which}"] = Case(given, attributes)
    return found


def int_max_pool(rng, _dtype, _rounding):
    """All codes, in order and not; windows of padding and the lowest code."""
    found = {}
    for name, (kernel, geometry) in WINDOWS.items():
        sizes = [k + 3 for k in kernel]
        pads = [k - 1 for k in kernel * 2]
        ones = dict.fromkeys(("strides", "dilations"), [1] * len(kernel))
        attributes = {"kernel_shape": kernel, **ones, **geometry, "pads": pads}
        every = np.resize(all_codes(INT16), (-(-65536 // prod(sizes)), 1, *sizes))
        for kind, x in (
            ("in order", every),
            ("any", rng.permutation(every.reshape(-1)).reshape(every.shape)),
            ("lowest", np.full((1, 2, *sizes), -32768, np.int16)),
        ):
            found[f"{name}, {kind}"] = Case([np.ascontiguousarray(x)], attributes)
    return found


def int_pad(rng, _dtype, _rounding):
    """All codes; beside the lowest and the highest."""
    found = {}
    for mode, fill in (("constant", -32768), ("constant", 32767), ("edge", 0), ("reflect", 0)):
        for shape, pads in (
            ((65536,), [3, 2]),
            ((256, 256), [0, 2, 1, 0]),
            ((2, 3, 4, 5), [0, 1, 3, 0, 1, 2, 3, 4]),
        ):
            x = np.resize(rng.permutation(all_codes(INT16)), shape)
            case = Case([x, np.array(fill, np.int16)], {"pads": pads, "mode": mode})
            found[f"{mode}, {fill}, {len(shape)} axes"] = case
    return found


def int_extreme(rng, _dtype, _rounding):
    """All codes, in order and not."""
    found = {}
    for which in ("largest", "smallest"):
        for axes in ([-1], [-4, -2, -1]):
            x = rng.permutation(all_codes(INT16)).reshape(4, 64, 64, 4)
            attributes = {"axes": axes, "keepdims": len(axes) % 2, "which": which}
            found[f"{which}, {len(axes)} axes"] = Case([x], attributes)
    return found


def int_where(rng, _dtype, _rounding):
    """All codes of either."""
    a, b = (rng.permutation(all_codes(INT16)).reshape(4, 64, 256) for _ in "ab")
    rows = rng.random((4, 1, 256)) < 0.5
    return {"alike": Case([rows, a, b], {}), "row": Case([rows, a, b[0, :1]], {})}


def int_shuffle(rng, _dtype, _rounding):
    """All codes."""
    x = rng.permutation(all_codes(INT16)).reshape(2, 8, 64, 64)
    joined = [0, 2, 128, 128]
    return {
        "depth": Case(
            [x],
            {"split": [0, 2, 2, 2, 64, 64], "perm": [0, 3, 4, 1, 5, 2], "joined": joined},
        ),
        "columns": Case(
            [x],
            {"split": [0, 2, 2, 2, 64, 64], "perm": [0, 1, 4, 2, 5, 3], "joined": joined},
        ),
    }


def int_global_average_pool(rng, dtype, rounding):
    found = {}
    for name, sizes in (("rows", [7]), ("pictures", [5, 3]), ("volumes", [2, 3, 4])):
        x_zero, numbers = middle(rng, dtype), scale(rng, prod(sizes) * 255, rounding, 1)
        x = of_levels(rng, (4, *sizes), x_zero, numbers)
        inputs = [x, x_zero, *numbers, *output(rng, dtype)]
        attributes = {"channels": 4, "spatial_shape": sizes, "rounding": rounding}
        found[name] = Case(inputs, attributes)
    return found


MEANS = {0: "sum", 1: "mean, divided", 2: "mean, folded"}


def int_reduce(rng, dtype, rounding):
    found = {}
    for mean, name in MEANS.items():
        if mean == 1 and rounding not in ("half_to_even", "half_up", "half_away"):
            continue
        for keepdims, axes in ((0, [-1]), (1, [-2]), (0, [-3, -1]), (1, [-3, -2, -1])):
            x_zero, shape = middle(rng, dtype), (4, 3, 5)
            cells = prod(shape[axis] for axis in axes)
            numbers = scale(rng, 255 * (1 if mean == 1 else cells), rounding)
            x = of_levels(rng, shape, x_zero, numbers)
            inputs = [x, x_zero, *numbers, *output(rng, dtype)]
            attributes = {"axes": axes, "keepdims": keepdims, "mean": mean}
            attributes["rounding"] = rounding
            found[f"{name}, axes {axes}"] = Case(inputs, attributes)
        for which, types in WIDER.items():
            read, written = (np.dtype(each or dtype) for each in types)
            numbers = scale(rng, 65535 * 3 if read == INT16 else 255 * 3, rounding)
            x_zero = np.zeros((), read)
            x = whole_codes(rng, (4, 3, 5), read)
            inputs = [x, x_zero, *numbers, *output(rng, written)]
            attributes = {"axes": [-2], "keepdims": 1, "mean": mean, "rounding": rounding}
            found[f"{name}, {which}"] = Case(inputs, attributes)
    return found


def linear(size, wanted):
    """Two places and two coefficients for each of ``wanted`` of a linear resize."""
    places = np.clip((2 * np.arange(wanted) + 1) * size - wanted, 0, 2 * wanted * (size - 1))
    lower, part = np.divmod(places, 2 * wanted)
    upper = np.minimum(lower + 1, size - 1)
    return np.stack([lower, upper]), np.stack([2 * wanted - part, part])


def int_resize(rng, dtype, rounding):
    found = {}
    for name, sizes in (
        ("rows", [(4, 8)]),
        ("pictures", [(3, 6), (4, 8)]),
        ("pictures, smaller one way", [(4, 3), (2, 5)]),
        ("volumes", [(2, 3), (2, 4), (3, 2)]),
    ):
        x_zero, dims = middle(rng, dtype), len(sizes)
        tables = [linear(*each) for each in sizes]
        tables = [(np.zeros((2, 1), int), np.array([[1], [0]]))] * (3 - dims) + tables
        numbers = scale(rng, 255 * prod(2 * wanted for _, wanted in sizes), rounding, 1)
        x = of_one_level(x_zero, [size for size, _ in sizes])
        x = np.concatenate([x, anything(rng, (60, *x.shape[1:]), dtype)])
        given = [np.concatenate(each, axis=1) for each in zip(*tables, strict=True)]
        inputs = [x, x_zero, *(each.astype(np.int32) for each in given)]
        whole = [(1, 1)] * (3 - dims) + sizes
        attributes = {
            "dims": dims,
            "x_sizes": [size for size, _ in whole],
            "y_sizes": [wanted for _, wanted in whole],
            "rounding": rounding,
        }
        inputs += [*numbers, *output(rng, dtype)]
        found[name] = Case(inputs, attributes)
        for which, types in WIDER.items() if rounding in ROUNDINGS else ():
            read, written = (np.dtype(each or dtype) for each in types)
            reach = (65535 if read == INT16 else 255) * prod(2 * n for _, n in sizes)
            numbers = scale(rng, reach, rounding, 1)
            x = whole_codes(rng, (9, *(size for size, _ in sizes)), read)
            ends = [*numbers, *output(rng, written)]
            given = [x, np.zeros((), read), *inputs[2:4], *ends]
            found[f"{name}, {which}"] = Case(given, attributes)
    return found


# Rows


def rows_of(rng, dtype, shape):
    """Anything, rows of one code, and rows of the two ends."""
    x = codes(rng, shape, zero_point(rng, dtype))
    x[0], x[1] = rng.choice(x.reshape(-1)), rng.choice(whole_range(dtype), x[1].shape)
    return x


AXES = {"the last axis": -1, "a middle axis": -2, "the first axis": 0}


def table_softmax(rng, dtype, rounding):
    y_zero, (y_min, y_max) = (
        np.array(0 if dtype == np.uint8 else -128, dtype),
        whole_range(dtype),
    )
    falling = np.exp(-np.arange(256) * 0.06)
    tables = [
        np.rint(falling * (1 << 20)).astype(np.int32),
        np.rint(falling * (255 << 20)).astype(np.int64),
    ]
    found = {}
    for name, axis in AXES.items():
        inputs = [rows_of(rng, dtype, (3, 4, 9)), *tables, y_zero, y_min, y_max]
        attributes = {"axis": axis, "published": 0, "rounding": rounding}
        found[name] = Case(inputs, attributes)
    steep = np.rint(np.exp(-np.arange(256) * 0.06) * (32767 << 20)).astype(np.int64)
    words = [np.zeros((), INT16), *whole_range(INT16)]
    for name in ("the last axis", "the first axis"):
        of_words = [found[name].inputs[0], tables[0], steep, *words]
        found[f"{name}, to words"] = Case(of_words, found[name].attributes)
    whole = [all_codes(dtype).reshape(1, 256), *tables, y_zero, y_min, y_max]
    found["all codes in a row"] = Case(whole, found["the last axis"].attributes)
    inputs = found["the last axis"].inputs
    published = {"axis": -1, "published": 1, "rounding": rounding}
    found["published"] = Case(inputs, published)
    rows = anything(rng, (2, 300), dtype)
    rows[0] = whole_range(dtype)[1]
    long = [rows, *tables, y_zero, y_min, y_max]
    found["long rows"] = Case(long, found["the last axis"].attributes)
    for cells in (6, 30):  # 255 over them is a tie
        alike = [np.full((2, cells), rows[1, 0]), *tables, y_zero, y_min, y_max]
        found[f"{cells} alike"] = Case(alike, found["the last axis"].attributes)
    return found


def table_softmax16(rng, dtype, rounding):
    falling = [np.exp(-np.arange(256) * each) for each in (256 * 3e-4, 3e-4)]
    ones = ((1 << 22) - 1, 1 << 22)
    tables = [np.rint(t * one).astype(np.int32) for t, one in zip(falling, ones, strict=True)]
    found = {}
    for name, axis in AXES.items():
        for y in (dtype, INT16):
            shift = 6 if y == INT16 else 13
            numbers = np.array(2**shift * np.iinfo(y).max, np.int32), np.array(shift, np.int32)
            zero = np.zeros((), y) if y != np.int8 else np.array(-128, y)
            x = whole_codes(rng, (3, 4, 9), INT16)
            x[0], x[1] = rng.integers(-200, 200, (2, 4, 9)) * (rng.random((2, 4, 9)) < 0.8)
            inputs = [x, *tables, *numbers, zero, *whole_range(y)]
            attributes = {"axis": axis, "rounding": rounding}
            found[f"{name}{', to words' * (y == INT16)}"] = Case(inputs, attributes)
    inputs = found["the last axis"].inputs
    flat = [np.array([[7, 7, 6, -300, 7], [0, 0, 0, 0, 0]], np.int16)]
    ties = [np.full(256, 3, np.int32), np.full(256, 1 << 22, np.int32)]  # quotients of n / 10
    for name, pair in {"ties": (5, 1), "nothing": (0, 30)}.items():
        numbers = [np.array(each, np.int32) for each in pair]
        found[name] = Case([*flat, *ties, *numbers, *inputs[5:]], attributes | {"axis": -1})
    rows = whole_codes(rng, (2, 300), INT16)
    rows[0] = 1
    found["long rows"] = Case([rows, *inputs[1:]], found["the last axis"].attributes)
    return found


def int_log_softmax(rng, dtype, rounding):
    unit = (1 << 20) * 10
    tables = [
        np.rint(np.exp(-np.arange(256) * 0.06) * (1 << 30)).astype(np.int32),
        np.rint(np.arange(256) * 0.06 * unit).astype(np.int64),
        np.rint(np.log(2) * np.arange(-30, 11) * unit).astype(np.int64),
        np.rint(np.log1p(np.arange(257) / 256) * unit).astype(np.int64),
    ]
    found = {}
    for name, axis in AXES.items():
        inputs = [rows_of(rng, dtype, (3, 4, 9)), *tables, *output(rng, dtype)]
        attributes = {"axis": axis, "fraction_bits": 20, "rounding": rounding}
        found[name] = Case(inputs, attributes)
    alone = np.where(np.arange(256) > 0, 0, 1 << 30).astype(np.int32)
    tables[:2] = alone, np.arange(256) << 19  # of one code, in halves
    inputs = [np.stack([all_codes(dtype)] * 2), *tables, *output(rng, dtype)]
    found["halves"] = Case(inputs, found["the last axis"].attributes)
    return found


def norm(rng, x, y_dtype, rounding, axis, centered, channels=False, root_bits=None):
    """Normal numbers of 12 bits times slopes of about one, in steps of about 1/32.

    Of a row of one code the offset is left, which is a tie.
    """
    row = x.shape[axis:]
    cells, x_zero = prod(row), np.zeros((), x.dtype)
    if x.dtype.itemsize == 1:
        x_zero = middle(rng, x.dtype)
    places = (x.shape[axis - 1], *(1 for _ in row)) if channels else row
    largest = (np.iinfo(x.dtype).max - np.iinfo(x.dtype).min) * 2
    if root_bits is None:
        root_bits = min((60 - 2 * (largest * cells).bit_length()) // 2, 8)
    slopes = rng.integers(-(1 << 12), 1 << 12, places, np.int32)
    offsets = (2 * rng.integers(-30, 30, places) + 1) << 18
    epsilon = np.array(rng.choice([0, 1, 1 << 20]))
    numbers = [slopes, offsets, np.array(19, np.int32), epsilon]
    attributes = {
        "axis": axis,
        "cells": cells,
        "centered": centered,
        "root_bits": root_bits,
        "factor_bits": root_bits + 12 + 24,
        "norm_bits": 12,
        "rounding": rounding,
    }
    return Case([x, x_zero, *numbers, *output(rng, y_dtype)], attributes)


def int_layer_norm(rng, dtype, rounding):
    x = rows_of(rng, dtype, (3, 4, 10))
    words = rng.integers(-32768, 32768, (3, 4)).astype(np.int16)
    words[:2] = np.reshape(whole_range(INT16), (2, 1))
    return {
        "rows": norm(rng, x, dtype, rounding, -1, 1),
        "planes, by channels": norm(rng, x, dtype, rounding, -1, 1, channels=True),
        "root mean square": norm(rng, x, dtype, rounding, -2, 0),
        "words": norm(rng, words, dtype, rounding, -1, 1),
        "words to words": norm(rng, words, INT16, rounding, -1, 1),
        "to words, by channels": norm(rng, x, INT16, rounding, -1, 1, channels=True),
        "words, radicands of more than 62 bits": norm(
            rng, words, INT16, rounding, -1, 1, root_bits=15
        ),
    }


def i_layer_norm(rng, dtype, rounding):
    found = {}
    for name, cells in (("rows", 8), ("long rows", 200)):
        x = rows_of(rng, dtype, (3, cells))
        few = rng.random(cells) < 0.5  # of rows of one code ties
        offsets = rng.integers(-(1 << 30), 1 << 30, cells)
        offsets = np.where(few, (2 * rng.integers(-30, 30, cells) + 1) << 13, offsets)
        slopes = rng.integers(-(1 << 17), 1 << 17, cells)
        slopes = np.where(few, 1 << 16, slopes).astype(np.int32)
        shifts = np.where(few, 30, rng.integers(30, 40, cells)).astype(np.int32)
        given = [x, middle(rng, dtype), offsets, slopes, shifts, *output(rng, dtype)]
        found[name] = Case(given, {"cells": cells, "rounding": rounding})
    return found


def shiftmax(rng, dtype, rounding):
    found = {}
    for name, axis in AXES.items():
        inputs = [
            rows_of(rng, dtype, (9, 16, 9)),
            *scale(rng, 63, rounding),
            *output(rng, dtype),
        ]
        attributes = {"axis": axis, "x0": -80, "fraction_bits": 15, "output_bits": 8}
        found[name] = Case(inputs, {**attributes, "rounding": rounding})
    return found


def gemmlowp_softmax(rng, dtype, _rounding):
    terms = np.array(softmax_exponentials(1 / 96), np.int32)
    return {
        name: Case(
            [rows_of(rng, dtype, (9, 16, 9)), terms, *output(rng, dtype)], {"axis": axis}
        )
        for name, axis in AXES.items()
    }


def i_bert_softmax(rng, dtype, rounding):
    unit, found = 1 / 96, {}
    numbers = {"x0": -int(0.6931 / unit) - 1, "b": int(2.7073 / unit)}
    numbers |= {"c": int(2.7921 / unit**2), "fraction_bits": 30, "output_bits": 8}
    for name, axis in AXES.items():
        of_exp = [np.array(each, np.int32) for each in (700, 40)]
        inputs = [rows_of(rng, dtype, (9, 16, 9)), *of_exp, *scale(rng, 63, rounding)]
        attributes = {"axis": axis, **numbers, "rounding": rounding}
        found[name] = Case([*inputs, *output(rng, dtype)], attributes)
    return found


EDGES = {
    "Requantize": requantize,
    "Lut": lut,
    "LutPerChannel": lut_per_channel,
    "LutPair": lut_pair,
    "Lut16": lut16,
    "LutInterpolated": lut_interpolated,
    "LutInterpolatedPerChannel": lut_interpolated_per_channel,
    "IntConv": int_conv,
    "IntConvPerChannel": int_conv_per_channel,
    "IntGemm": int_gemm,
    "IntMatMul": int_mat_mul,
    "IntAdd": int_add,
    "IntSub": int_add,
    "IntRescale": int_rescale,
    "IntCast": int_cast,
    "IntRescaledAdd": int_rescaled_add,
    "IntRescaledSub": int_rescaled_add,
    "IntDiv": int_div,
    "IntMul": int_mul,
    "IntPRelu": int_p_relu,
    "IntCodedPRelu": int_coded_p_relu,
    "IntAveragePool": int_average_pool,
    "IntCountedAveragePool": int_counted_average_pool,
    "IntGlobalAveragePool": int_global_average_pool,
    "IntReduce": int_reduce,
    "IntResize": int_resize,
    "IntMaxPool": int_max_pool,
    "IntExtreme": int_extreme,
    "IntPad": int_pad,
    "IntWhere": int_where,
    "IntShuffle": int_shuffle,
    "TableSoftmax": table_softmax,
    "TableSoftmax16": table_softmax16,
    "IntLogSoftmax": int_log_softmax,
    "IntLayerNorm": int_layer_norm,
    "GemmlowpSoftmax": gemmlowp_softmax,
    "Shiftmax": shiftmax,
    "ShiftGelu": shift_gelu,
    "ILayerNorm": i_layer_norm,
    "IBertSoftmax": i_bert_softmax,
    "IBertGelu": i_bert_gelu,
}


MANY = 16
"""Of more kinds a third."""


def edges_of(name):
    """The nodes of an op by activations, rounding, and kind.

    Half of the kinds for each rounding, of many a third, in turn, but for ``make thorough``.
    """
    found = {}
    for k, dtype in enumerate((np.dtype(np.uint8), np.dtype(np.int8))):
        for more, rounding in enumerate(OPS[name].roundings or [""]):
            rng = np.random.default_rng([k, more, *name.encode()])
            kinds = EDGES[name](rng, dtype, rounding)
            step = 1 if THOROUGH or not rounding else 3 if len(kinds) > MANY else 2
            for kind in [*kinds][(k + more) % step :: step] if len(kinds) > 2 else kinds:
                found[str(dtype), rounding, kind] = kinds[kind]
    return found
