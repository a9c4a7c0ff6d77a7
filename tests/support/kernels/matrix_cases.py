"""What kernels of products are given beside references: convolutions and matrices."""

import numpy as np

from opsets.fixed_point import ROUNDINGS
from opsets.rounding import NODE_ROUNDINGS
from opsets.word_products import LARGEST
from tests.support.kernels.draws import (
    KINDS,
    array,
    bytes_of,
    ends,
    scaled,
    sums_beside_ties,
    words,
)
from tests.support.op_cases import Case


def products_of_matrices(rng):
    """Every number of rows, of products and of columns that tiles are cut into."""
    sizes = [(1, k, 5) for k in range(1, 71)] + [(3, 9, n) for n in range(1, 71)]
    sizes += [(m, 12, 70) for m in range(14)] + [(50, 130, 200), (7, 3, 65)]
    for number, (rows, inner, columns) in enumerate(sizes):
        for dtype in (np.uint8, np.int8):
            w = bytes_of(rng, inner, columns, dtype=np.int8)
            bits = int(rng.choice([8, 24, 31]))
            each = columns if number % 3 else 1
            m = rng.integers(1, 1 << (bits - 1), each, endpoint=True).astype(np.int32)
            if number % 5 == 0:
                m[:] = 1 << (bits - 1)
            shift = rng.integers(bits + 6, bits + 12, each).astype(np.int32)
            bias = rng.integers(-(1 << 14), 1 << 14, columns).astype(np.int32)
            zeros = bytes_of(rng, dtype=dtype), int(rng.choice([0, 0, -3, 7]))
            numbers = [array(zeros[0], dtype), w, array(zeros[1], np.int8), bias, m, shift]
            rounding = NODE_ROUNDINGS[number % len(NODE_ROUNDINGS)]
            attributes = {"leading": [rows], "rounding": rounding}
            if number % 4 == 0:
                rests = rng.integers(-(1 << 22), 1 << 22, columns).tolist()
                attributes |= {"bias_rests": rests, "rounding": "half_to_even"}
            x = bytes_of(rng, rows, inner, dtype=dtype)
            last = ends(dtype, int(zeros[0]), 2, 5)
            case = Case([x, *numbers, *last], attributes)
            yield f"{rows} {inner} {columns} {dtype}", case
            yield in_words(rng, f"{rows} {inner} {columns}", case, inner)
    yield from of_ties(rng, "IntGemm")


def beside_ties(rng):
    """Sums of words whose products are nearer to a tie than double tells: (node, case)."""
    m, bias = sums_beside_ties(rng, shift := 46)
    zeros, w = array(0, np.int8), np.ones((4, len(m)), np.int8)
    last = [array(shift, np.int32).reshape(1), *ends(np.int16)]
    for rounding in ROUNDINGS:
        x = np.zeros((1, 4), np.int16)
        inputs = [x, array(0, np.int16), w, zeros, bias, m, *last]
        yield "IntGemm", Case(inputs, {"leading": [1], "rounding": rounding})
        inputs = [x.reshape(1, 4, 1, 1), inputs[1], w.T.reshape(-1, 4, 1, 1), *inputs[3:]]
        attributes = {"kernel_shape": [1, 1], "group": 1, "rounding": rounding}
        yield "IntConv", Case(inputs, attributes)
        x = np.zeros((1, len(m), 1, 1), np.int16)
        inputs = [x, inputs[1], np.ones((len(m), 1, 1, 1), np.int8), *inputs[3:]]
        yield "IntConv", Case(inputs, attributes | {"group": len(m)})


def of_ties(rng, op):
    """Those of one op."""
    for number, (of, case) in enumerate(beside_ties(rng)):
        if of == op:
            yield f"beside ties {number}", case


def in_words(rng, name, case, products):
    """The node ``case`` with 16 bits at an end or both, sums in 62 bits with multipliers."""
    x, zero, w, w_zero, bias, m, shift, *last = case.inputs
    dtype, kind = x.dtype, int(rng.integers(3))
    reads, writes = [(np.int16, np.int16), (dtype, np.int16), (np.int16, dtype)][kind]
    if reads == np.int16:
        x, zero, shift = words(rng, *x.shape), array(0, np.int16), shift + 8
        most = LARGEST // (products * (1 << 23) + (1 << 30))
        m = np.minimum(m, min(most, (1 << 31) - 1)).astype(np.int32)
    if writes == np.int16:
        last, shift = ends(np.int16, 0, *rng.integers(0, 900, 2)), shift - 8
    shift = np.clip(shift + int(rng.integers(-3, 4)), 1, 61).astype(np.int32)
    attributes = case.attributes | {"rounding": str(rng.choice(ROUNDINGS))}
    attributes.pop("bias_rests", None)
    inputs = [x, zero, w, w_zero, bias, m, shift, *last]
    return f"{name} {np.dtype(reads)} to {np.dtype(writes)}", Case(inputs, attributes)


def convolutions(rng):
    """Every number of channels to 70 in, out and of each, odd strides, windows and padding."""
    windows = [([1, 1], 1, 1, 0), ([3, 3], 1, 1, 1), ([3, 2], 2, 1, 1), ([2, 3], 1, 2, 2)]
    windows += [([5], 1, 1, 2), ([3], 3, 2, 0), ([2, 1, 3], 2, 1, 1), ([9, 1], 1, 1, 4)]
    for number, count in enumerate([*range(1, 71), 128, 130]):
        shape = [1, 5, 5, 6, 3]
        forms = (1, count, 5), (1, 3, count), (count, 1, 1), (2, 5, 6)
        for groups, inputs, outputs in forms:
            kernel, stride, dilation, pad = windows[(number + groups) % len(windows)]
            axes = len(kernel)
            attributes = {
                **{"kernel_shape": kernel, "strides": [stride] * axes, "group": groups},
                **{"dilations": [dilation] * axes, "pads": [pad] * 2 * axes},
            }
            sizes = [shape[1 + k] * (3 if axes == 1 else 1) for k in range(axes)]
            size = [number % 2 + 1, groups * inputs, *sizes]
            yield from of_convolution(rng, number, size, outputs, attributes)
    yield from long_convolutions()
    yield from of_ties(rng, "IntConv")


def of_convolution(rng, number, size, outputs, attributes):
    group, kernel = attributes["group"], attributes["kernel_shape"]
    outputs = outputs * group if group > 1 else outputs
    for dtype in (np.uint8, np.int8):
        x = bytes_of(rng, *size, dtype=dtype)
        w = bytes_of(rng, outputs, size[1] // group, *kernel, dtype=np.int8)
        zero, m, shift, bias = scaled(rng, number, outputs, int(rng.choice([8, 24, 31])))
        numbers = [array(zero, np.uint8).view(dtype), w]
        numbers += [array([0, 0, -3][number % 3], np.int8), bias, m, shift]
        more = {"rounding": NODE_ROUNDINGS[number % len(NODE_ROUNDINGS)]}
        if number % 2:
            more["channels_last"] = 1
            x = np.ascontiguousarray(np.moveaxis(x, 1, -1))
        last = ends(dtype, int(numbers[0]), 0, number % 3)
        case = Case([x, *numbers, *last], attributes | more)
        yield f"{number} {size} {kernel} {dtype}", case
        yield in_words(rng, f"{number} {size} {kernel}", case, w[0].size)
        if number % 9 == 0:
            turned = Case([x, *numbers, last[0], *last[:0:-1]], case.attributes)
            yield f"{number} {dtype} ends turned", turned


def long_convolutions():
    """Sums that int32 holds, of codes whose own sums it does not."""
    for channels, group in (2, 1), (2, 2):
        x = np.full((1, channels, 70000), 255, np.uint8)
        w = np.full((channels, channels // group, 70000), 127, np.int8)
        w[:, :, ::2] = 126
        numbers = [array(255 - 60 * group, np.uint8), w, array(0, np.int8)]
        numbers += [np.arange(channels, dtype=np.int32), array([1 << 20], np.int32)]
        numbers += [array([43], np.int32), *ends(np.uint8, 7)]
        attributes = {"kernel_shape": [70000], "group": group, "rounding": "half_up"}
        yield f"{channels} channels of 70000", Case([x, *numbers], attributes)


def convolutions_by_channel(rng):
    """The same of one channel each, which has its own zero point."""
    for name, case in convolutions(rng):
        x, zero, *rest = case.inputs
        group = case.attributes["group"]
        in_bytes = {each.dtype.itemsize for each in (zero, rest[-1])} == {1}
        if in_bytes and rest[0].shape[1] == 1 and group > 1:
            zeros = bytes_of(rng, group, dtype=zero.dtype)
            yield name, Case([x, zeros, *rest], case.attributes)
            if case.attributes["rounding"] in ROUNDINGS:
                wide = Case([x, zeros, *rest[:-3], *ends(np.int16, 0, 5, 9)], case.attributes)
                yield f"{name} to words", wide


def products_of_two(rng):
    """The same of two tensors, with leading axes that are broadcast."""
    sizes = [((1, k), (k, 5)) for k in range(1, 71)] + [((3, 9), (9, n)) for n in range(1, 71)]
    sizes += [((2, 1, 7, 5), (3, 5, 66)), ((4, 9), (2, 9, 3)), ((2, 3, 8, 64), (2, 3, 64, 8))]
    sizes += [((0, 4), (4, 3)), ((2, 0), (0, 3)), ((98, 64), (64, 98))]
    for number, (one, other) in enumerate(sizes):
        for dtype in (np.uint8, np.int8):
            zeros = [array(bytes_of(rng, dtype=dtype), dtype) for _ in range(3)]
            a, b = bytes_of(rng, *one, dtype=dtype), bytes_of(rng, *other, dtype=dtype)
            m = np.array([rng.choice([1 << 20, (1 << 24) - 3])], np.int32)
            shift = np.array([rng.integers(28, 34)], np.int32)
            attributes = {"inner": one[-1]}
            attributes |= {"rounding": NODE_ROUNDINGS[number % len(NODE_ROUNDINGS)]}
            inputs = [a, zeros[0], b, zeros[1], m, shift, *ends(dtype, int(zeros[2]))]
            yield f"{one} {other} {dtype}", Case(inputs, attributes)
    for one, other in sizes[::7] + sizes[-6:] + [((1, 3000), (3000, 2))]:
        for kinds in KINDS:
            yield f"{one} {other} {kinds}", product_of_word_matrices(rng, one, other, kinds)


def product_of_word_matrices(rng, one, other, kinds):
    """Multipliers up to those with which int64 holds the products."""
    a, b = words(rng, *one, dtype=kinds[0]), words(rng, *other, dtype=kinds[1])
    zeros = [
        array(0, np.int16) if each.itemsize == 2 else words(rng, dtype=each.dtype)
        for each in (a, b)
    ]
    reach = one[-1] * 2 ** (8 * (a.itemsize + b.itemsize))
    most = min(62 - reach.bit_length(), 31)
    bits = int(rng.choice([most, max(min(most, 52 - reach.bit_length()), 4)]))
    m = int(rng.choice([1 << (bits - 1), rng.integers(1, 1 << bits)]))
    least = reach.bit_length() - (16 if kinds[2] == np.int16 else 8)
    shift = int(np.clip(bits + least - rng.integers(0, 5), 1, 61))
    numbers = [np.array([each], np.int32) for each in (m, shift)]
    inputs = [a, zeros[0], b, zeros[1], *numbers, *ends(kinds[2], 0, *rng.integers(0, 9, 2))]
    attributes = {"inner": one[-1], "rounding": str(rng.choice(ROUNDINGS))}
    return Case(inputs, attributes)
