"""Nodes of every op at their edges: all codes, sums at both ends, axes, ranks and shapes.

Each function gives nodes by name, for activations of one type and one rounding. Scales have
24 bits, or are powers of two, so that many sums are ties.
"""

from math import prod

import numpy as np

from opsets.qpasses_v1 import OPS
from tests.support.op_cases import Case, codes, zero_point

INT16 = np.dtype(np.int16)


def all_codes(dtype):
    limits = np.iinfo(dtype)
    return np.arange(limits.min, limits.max + 1).astype(dtype)


def pairs_of(a, b):
    """Two tensors that broadcast to all pairs of codes."""
    return all_codes(a).reshape(-1, 1), all_codes(b)


def whole_range(dtype):
    limits = np.iinfo(dtype)
    return np.array(limits.min, dtype), np.array(limits.max, dtype)


def output(rng, dtype):
    """y_zero, y_min, y_max; of 16 bits without a zero point, as all such streams are."""
    if dtype == INT16:
        return np.zeros((), dtype), *whole_range(dtype)
    return zero_point(rng, dtype), *whole_range(dtype)


def scale(rng, reach, count=None, bits=9):
    """A multiplier and a shift, or ``count`` of each; ``reach`` comes to ``bits`` bits."""
    factors = rng.choice(np.array([rng.integers(1 << 23, 1 << 24), 1 << 23]), count or 1)
    shift = 24 + int(reach).bit_length() - bits - rng.integers(0, 2, count or 1)
    found = [np.asarray(each, np.int32) for each in (factors, np.maximum(shift, 1))]
    return found if count else [each.reshape(()) for each in found]


def ends_of_rows(w, w_zero, dtype):
    """For each row of ``w`` [M, ...] the codes that make its sum largest, and smallest."""
    low, high = whole_range(dtype)
    above = w.astype(np.int64) >= w_zero
    return np.concatenate([np.where(above, high, low), np.where(above, low, high)])


# Tables


def lut(rng, dtype, _rounding):
    table = rng.permutation(256).astype(np.uint8).view(dtype)
    return {"all codes": Case([all_codes(dtype).reshape(2, 128), table], {})}


def lut_per_channel(rng, dtype, _rounding):
    x, found = np.stack([all_codes(dtype)] * 3), {}
    for name, axis, moved in (("first axis", 0, x), ("last axis", -1, x.T), ("middle", 1, x)):
        tables = rng.integers(0, 256, (3, 256)).astype(np.uint8).view(dtype)
        shaped = moved.reshape(1, 3, 16, 16) if name == "middle" else moved
        found[name] = Case([shaped, tables], {"axis": axis})
    return found


def lut_pair(rng, dtype, _rounding):
    a, b = pairs_of(dtype, dtype)
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


def slopes(rng, dtype, coded):
    """Slopes by shape: one number, one for each channel, one for each element."""
    for name, shape in (("one slope", ()), ("channels", (3, 1, 1)), ("elements", (3, 4, 64))):
        count = prod(shape)
        factors, places = scale(rng, 256, count)
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
            [x, zero_point(rng, dtype), *scale(rng, 255), *given, *output(rng, dtype)],
            {"rounding": rounding},
        )
        for name, x, given in slopes(rng, dtype, coded=False)
    }


def int_coded_p_relu(rng, dtype, rounding):
    return {
        name: Case(
            [x, zero_point(rng, dtype), *scale(rng, 255), *given, *output(rng, dtype)],
            {"rounding": rounding},
        )
        for name, x, given in slopes(rng, dtype, coded=True)
    }


def i_bert_gelu(rng, dtype, rounding):
    unit = 0.05 / 1.4142
    numbers = {"b": -int(1.769 / unit) - 1, "c": -int(3.4626 / unit**2) - 1}
    bits = 14
    numbers |= {"one": -max(int(numbers["c"] ** 2 / 2**bits) >> 8, 1), "fraction_bits": bits}
    given = [all_codes(dtype), zero_point(rng, dtype), *scale(rng, 1 << 12)]
    inputs = [*given, *output(rng, dtype)]
    return {"all codes": Case(inputs, {**numbers, "rounding": rounding})}


def shift_gelu(rng, dtype, rounding):
    attributes = {"axis": -1, "x0": -16, "fraction_bits": 23, "output_bits": 8}
    given = [all_codes(dtype).reshape(16, 16), zero_point(rng, dtype)]
    inputs = [*given, *scale(rng, 1 << 16), *output(rng, dtype)]
    return {"all codes": Case(inputs, {**attributes, "rounding": rounding})}


# Sums element by element


def two_operands(rng, dtype):
    """Names, and two tensors with their zero points: all pairs, and shapes that broadcast."""
    zeros = [zero_point(rng, dtype) for _ in "ab"]
    yield "all pairs", pairs_of(dtype, dtype), zeros
    a, b = (codes(rng, shape, zeros[0]) for shape in ((2, 3, 4), (3, 1)))
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


def int_sub(rng, dtype, rounding):
    return {k: v for k, v in int_add(rng, dtype, rounding).items() if "words" not in k}


def int_mul(rng, dtype, rounding):
    return with_numbers(rng, dtype, rounding, lambda rng: scale(rng, 255 * 255))


def int_rescaled_add(rng, dtype, rounding):
    def numbers(rng):
        left, factors = int(rng.choice([0, 20])), rng.integers(1 << 30, (1 << 31) - 1, 3)
        shifts = [*rng.integers(31, 34, 2), left + int(rng.integers(30, 33))]
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
        zero = np.zeros((), x) if x == INT16 else zero_point(rng, x)
        given = [all_codes(x), zero, *scale(rng, np.iinfo(x).max, bits=8 * y.itemsize + 1)]
        found[name] = Case([*given, *output(rng, y)], {"rounding": rounding})
    return found


def requantize(rng, dtype, rounding):
    found = {}
    for axis in (0, 1, -1):
        reach = (1 << 31) - 1
        acc = rng.integers(-reach - 1, reach, (3, 3, 3), np.int32, endpoint=True)
        acc.reshape(-1)[:2] = -reach - 1, reach
        inputs = [acc, *scale(rng, reach, 3), *output(rng, dtype)]
        found[f"axis {axis}"] = Case(inputs, {"axis": axis, "rounding": rounding})
    return found


# Products


def convolutions(rng, dtype, rounding, geometries, by_channel=False):
    found = {}
    for name, (group, per, inner, kernel, geometry) in geometries.items():
        w_zero = zero_point(rng, np.dtype(rng.choice(["uint8", "int8"])))
        w = codes(rng, (group * per, inner, *kernel), w_zero)
        zeros = np.array([zero_point(rng, dtype) for _ in range(group)], dtype)
        if "pads" in geometry or "auto_pad" in geometry:
            x = codes(rng, (2, group * inner, *(k + 4 for k in kernel)), zeros[0])
        else:
            x = np.tile(ends_of_rows(w, w_zero, dtype), (1, group, *(1 for _ in kernel)))
        bias = rng.integers(-1000, 1000, len(w), np.int32)
        reach = 255 * 255 * w[0].size + 1000
        shown = [x, zeros if by_channel else zeros[0], w, w_zero, bias]
        inputs = [*shown, *scale(rng, reach, len(w), bits=10), *output(rng, dtype)]
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
    named = {name: (*g[:4], {"pads": [0] * 2 * len(g[3]), **g[4]}) for name, g in DEPTHWISE.items()}
    return convolutions(rng, dtype, rounding, named, by_channel=True)


def int_gemm(rng, dtype, rounding):
    found = {}
    for name, leading in (("rows", ()), ("stacks of rows", (2, 5)), ("one row", (1,))):
        w_zero = zero_point(rng, np.dtype(rng.choice(["uint8", "int8"])))
        w = codes(rng, (7, 5), w_zero)
        x = ends_of_rows(w.T, w_zero, dtype)
        x = x[:1] if leading == (1,) else x.reshape(*leading, -1, 7) if leading else x
        x = x.reshape(2, 5, 7) if leading == (2, 5) else x
        bias = rng.integers(-1000, 1000, 5, np.int32)
        given = [x, zero_point(rng, dtype), w, w_zero, bias]
        inputs = [*given, *scale(rng, 255 * 255 * 7, 5, bits=10), *output(rng, dtype)]
        found[name] = Case(inputs, {"rounding": rounding})
    return found
