"""What kernels of single numbers are given beside references: sums, products, slopes."""

import itertools

import numpy as np

from opsets.fixed_point import ROUNDINGS
from opsets.rounding import NODE_ROUNDINGS
from tests.support.kernels.draws import (
    ALL_PAIRS,
    ALL_WORDS,
    KINDS,
    array,
    bytes_of,
    ends,
    shaped,
    words,
)
from tests.support.op_cases import Case


def sums(rng):
    yield from shaped(rng, sum_of)
    yield from of_words(rng, sum_of_words)
    far = -(1 << 31), -(1 << 30) - 1, -(1 << 30), (1 << 30) - 1, (1 << 31) - 1
    for pair, dtype, shift in itertools.product(
        [*itertools.product(far, (1, 3)), *itertools.product((1, 3), far)],
        (np.uint8, np.int8),
        (31, 36),
    ):
        a, b = bytes_of(rng, 200, dtype=dtype), bytes_of(rng, 200, dtype=dtype) % 3
        zeros = [array(0, dtype), array(1, dtype)]
        numbers = [array(each, np.int32) for each in (*pair, shift)]
        inputs = [a, zeros[0], b, zeros[1], *numbers, *ends(dtype, 90)]
        yield (
            f"far {pair} {dtype} {shift}",
            Case(inputs, {"rounding": str(rng.choice(ROUNDINGS))}),
        )


def sum_of(rng, a, b):
    """Multipliers that are far apart, alike, powers of two (so that many results are ties)."""
    bits = int(rng.integers(3, 31))
    pair = rng.integers(1, 1 << bits, 2)
    if rng.random() < 0.4:
        pair = 1 << rng.integers(0, bits, 2)
    shift = int(np.clip(bits + rng.integers(-3, 9), 1, 62))
    zeros = [array(bytes_of(rng, dtype=a.dtype), a.dtype) for _ in range(2)]
    numbers = [array(each, np.int32) for each in (*pair, shift)]
    rounding = str(rng.choice(ROUNDINGS))
    last = ends(a.dtype, int(zeros[0]), *rng.integers(0, 9, 2))
    inputs = [a, zeros[0], b, zeros[1], *numbers, *last]
    return Case(inputs, {"rounding": rounding})


def products(rng):
    yield from shaped(rng, product_of)
    yield from of_words(rng, product_of_words)
    for dtype, rounding, shift in itertools.product((np.uint8, np.int8), ROUNDINGS, (23, 27)):
        a, b = (each.view(dtype) for each in ALL_PAIRS)  # an 8th and a 128th: many are ties
        numbers = [array(1 << 20, np.int32), array(shift, np.int32), *ends(dtype, 17)]
        inputs = [a, array(3, dtype), b, array(40, dtype), *numbers]
        yield f"ties {dtype} {rounding} {shift}", Case(inputs, {"rounding": rounding})


def of_words(rng, of_pair):
    """Operands and results of which some have 16 bits: lengths, and shapes that broadcast."""
    for kinds in KINDS:
        shapes = [((count,), (count,)) for count in (1, 7, 64, 1025)]
        shapes += [((3, 1, 70), (1, 5, 1)), ((3, 4, 70), (70,)), ((), (9,)), ((4097,), ())]
        for one, other in shapes:
            pair = words(rng, *one, dtype=kinds[0]), words(rng, *other, dtype=kinds[1])
            yield f"{kinds} {one} and {other}", of_pair(rng, *pair, kinds[2])


def sum_of_words(rng, a, b, result):
    """As many bits of multipliers as nodes may have, ties among them."""
    bits = int(rng.integers(3, 31))
    pair = (
        1 << rng.integers(0, bits, 2) if rng.random() < 0.4 else rng.integers(1, 1 << bits, 2)
    )
    shift = int(np.clip(bits + rng.integers(-3, 9), 1, 61))
    zeros = [
        words(rng, dtype=each.dtype) if each.itemsize == 1 else array(0, np.int16)
        for each in (a, b)
    ]
    numbers = [array(each, np.int32) for each in (*pair, shift)]
    inputs = [a, zeros[0], b, zeros[1], *numbers, *ends(result, 0, *rng.integers(0, 9, 2))]
    return Case(inputs, {"rounding": str(rng.choice(ROUNDINGS))})


def product_of_words(rng, a, b, result):
    """As double holds its products, and as it does not; many are ties."""
    bits = int(rng.choice([rng.integers(1, 24), 22, 23, 31]))
    m = int(rng.choice([1 << (bits - 1), (1 << bits) - 1, rng.integers(1, 1 << bits)]))
    least = 30 - 16 if result == np.int16 else 30 - 8
    shift = int(np.clip(bits + rng.integers(least - 8, least + 4), 1, 61))
    zeros = [
        words(rng, dtype=each.dtype) if each.itemsize == 1 else array(0, np.int16)
        for each in (a, b)
    ]
    if rng.random() < 0.3:  # powers of two, which make ties
        a, b = (
            np.sign(each).astype(each.dtype) * (1 << rng.integers(0, 7, each.shape))
            for each in (a, b)
        )
        a, b = (each.astype(zero.dtype) for each, zero in zip((a, b), zeros, strict=True))
    inputs = [a, zeros[0], b, zeros[1], *(array(n, np.int32) for n in (m, shift))]
    inputs += ends(result, 0, *rng.integers(0, 9, 2))
    return Case(inputs, {"rounding": str(rng.choice(NODE_ROUNDINGS))})


def quotients(rng):
    yield from of_words(rng, quotient_of_words)
    for kinds, rounding in itertools.product(KINDS, ROUNDINGS):
        for shift in (1, 9, 21, 22, 30, 46):
            a, b = (words(rng, 4096, dtype=each) for each in kinds[:2])
            few = rng.integers(-2, 9, 4096)
            zero = 0 if kinds[1] == np.int16 else 5
            b = np.where(rng.random(4096) < 0.7, few + zero, b)
            b = np.clip(b, np.iinfo(kinds[1]).min, None).astype(kinds[1])
            zeros = array(0 if kinds[0] == np.int16 else 9, kinds[0]), array(zero, kinds[1])
            m = 1 << min(shift + int(rng.integers(-1, 6)), 30)
            numbers = [array(each, np.int32) for each in (m, shift)]
            inputs = [a, zeros[0], b, zeros[1], *numbers, *ends(kinds[2], 3, 1, 2)]
            yield f"ties {kinds} {rounding} {shift}", Case(inputs, {"rounding": rounding})


def quotient_of_words(rng, a, b, result):
    """Multipliers and shifts anywhere, as double divides them, and as it does not."""
    case = product_of_words(rng, a, b, result)
    bits = int(rng.integers(1, 31))
    m = int(rng.choice([1 << (bits - 1), rng.integers(1, 1 << bits)]))
    shift = int(np.clip(bits + rng.integers(-20, 12), 1, 46))
    case.inputs[4:6] = [array(each, np.int32) for each in (m, shift)]
    return Case(case.inputs, {"rounding": str(rng.choice(ROUNDINGS))})


def product_of(rng, a, b):
    bits = int(rng.integers(1, 31))
    m = int(rng.choice([1 << (bits - 1), rng.integers(1, 1 << bits)]))
    shift = int(np.clip(bits + rng.integers(0, 18), 1, 62))
    zeros = [array(bytes_of(rng, dtype=a.dtype), a.dtype) for _ in range(2)]
    numbers = [array(each, np.int32) for each in (m, shift)]
    inputs = [a, zeros[0], b, zeros[1], *numbers, *ends(a.dtype, int(zeros[0]), 3)]
    return Case(inputs, {"rounding": str(rng.choice(NODE_ROUNDINGS))})


def rescalings(rng):
    for number in range(20):
        m, shift = int(rng.integers(1, 1 << 30)), int(rng.integers(20, 45))
        for x, dtype in (
            (ALL_WORDS, np.uint8),
            (ALL_WORDS, np.int16),
            (ALL_PAIRS[1], np.int16),
        ):
            zero = array(int(rng.integers(0, 99)), x.dtype)
            numbers = [zero, array(m, np.int32), array(shift, np.int32)]
            rounding = NODE_ROUNDINGS[number % len(NODE_ROUNDINGS)]
            inputs = [x, *numbers, *ends(dtype, 7)]
            yield f"{number} {x.dtype} {dtype}", Case(inputs, {"rounding": rounding})


def rescaled_sums(rng):
    """Of bytes each pair, of words some beside the ends of their type."""
    yield from shaped(rng, rescaled_sum_of)
    for dtypes in itertools.product((np.uint8, np.int8, np.int16), repeat=3):
        operands = [words(rng, 3, 70, dtype=dtype) for dtype in dtypes[:2]]
        yield f"{dtypes}", rescaled_sum_of(rng, *operands, dtypes[2])
        operands = [words(rng, 4, 1, dtype=dtypes[0]), words(rng, 5, dtype=dtypes[1])]
        yield f"{dtypes} broadcast", rescaled_sum_of(rng, *operands, dtypes[2])
    yield from largest_terms()


def largest_terms():
    """Terms of 2**30, or next to it, whose sum int32 holds or just does not."""
    code, zero = array([255, 254, 0], np.uint8), array(0, np.uint8)
    for m, rounding in itertools.product((538976287, 538976288, 538976289), NODE_ROUNDINGS):
        pairs = [array(each, np.int32) for each in (0, m, 7, m, 7, 1 << 30, 54)]
        inputs = [code, zero, code, zero, *pairs, *ends(np.uint8, 100)]
        yield f"terms by {m} {rounding}", Case(inputs, {"rounding": rounding})


def rescaled_sum_of(rng, a, b, result=None):
    """TFLite's left shift or none; a scale of the sum that is one, or any."""
    zeros = [array(words(rng, dtype=each.dtype), each.dtype) for each in (a, b)]
    are_words = np.int16 in (a.dtype, b.dtype)
    left = 0 if are_words else int(rng.choice([0, 20]))
    bits = rng.integers(2, 24 if are_words else 32, 3)
    m = [int(rng.integers(1, 1 << each - 1, endpoint=True)) for each in bits]
    s = [int(each + more) for each, more in zip(bits, rng.integers(-1, 6, 3), strict=True)]
    m[2], s[2] = (m[2], s[2] + left) if left or rng.random() < 0.5 else (2, 1)
    pairs = itertools.chain.from_iterable(zip(m, s, strict=True))
    numbers = [array(each, np.int32) for each in (left, *pairs)]
    last = ends(result or a.dtype, 3, *rng.integers(0, 9, 2))
    rounding = str(rng.choice([*NODE_ROUNDINGS, "half_to_even_in_double"]))
    return Case([a, zeros[0], b, zeros[1], *numbers, *last], {"rounding": rounding})


def slopes(rng):
    return sloped(rng, is_coded=False)


def coded_slopes(rng):
    return sloped(rng, is_coded=True)


SLOPED = [((n,), ()) for n in range(71)]


def sloped(rng, *, is_coded):
    if not is_coded:
        yield from slopes_of_words(rng)
    yield from sloped_bytes(rng, is_coded=is_coded)


def slopes_of_words(rng):
    """All codes under one slope, and some under several or very many."""
    shapes = [((65536,), ()), ((65536,), (1,)), ((2, 5, 3, 70), (3, 1)), ((2, 5, 70), (5, 70))]
    shapes += [((n,), ()) for n in range(0, 71, 7)] + [((300, 40), (40,)), ((0, 3), (3,))]
    types = list(itertools.product((np.uint8, np.int8, np.int16), repeat=2))
    for (shape, of_slope), (dtype, y_type) in itertools.product(shapes, types):
        if np.int16 not in (dtype, y_type):
            continue
        x = ALL_WORDS if shape == ALL_WORDS.shape else words(rng, *shape)
        numbers = [
            array(rng.integers(1, 1 << 30), np.int32),
            array(rng.integers(24, 40), np.int32),
            rng.integers(-(1 << 30), 1 << 30, of_slope).astype(np.int32),
            rng.integers(24, 40, of_slope).astype(np.int32),
        ]
        zero = array(words(rng, dtype=dtype), dtype)
        inputs = [x.astype(dtype), zero, *numbers, *ends(y_type, 7, 3, 5)]
        attributes = {"rounding": str(rng.choice(ROUNDINGS))}
        yield f"{shape} {of_slope} {dtype} {y_type}", Case(inputs, attributes)


def sloped_bytes(rng, *, is_coded):
    """All codes, or each number of them to 70, with slopes of either sign."""
    for (shape, of_slope), dtype in itertools.product(SLOPED, (np.uint8, np.int8)):
        x = np.broadcast_to(np.arange(256), (*shape[:-1], 256))[..., : shape[-1]]
        if shape[-1] != 256:
            x = bytes_of(rng, *shape)
        x = np.ascontiguousarray(x.astype(np.uint8).view(dtype))
        m = rng.integers(-(1 << 23), 1 << 23, of_slope).astype(np.int32)
        shift = rng.integers(20, 31, of_slope).astype(np.int32)
        numbers = [m, shift]
        if is_coded:
            code = rng.integers(-255, 256, of_slope).astype(np.int32)
            pair = [m.reshape(-1)[:1], shift.reshape(-1)[:1]] if m.size else numbers
            numbers = [code, *(pair if rng.random() < 0.5 else numbers)]
        scale = [
            array(rng.integers(1, 1 << 23), np.int32),
            array(rng.integers(20, 26), np.int32),
        ]
        known = [*NODE_ROUNDINGS, "half_to_even_in_double"] if is_coded else ROUNDINGS
        zero = array(bytes_of(rng, dtype=dtype), dtype)
        inputs = [x, zero, *scale, *numbers, *ends(dtype, int(zero), 3, 5)]
        yield f"{shape} {of_slope} {dtype}", Case(inputs, {"rounding": str(rng.choice(known))})


def requantizations(rng):
    """Every length to 70, channels first, between and last, and sums at the ends of int32."""
    for length, dtype in itertools.product(range(71), (np.uint8, np.int8)):
        for shape, axis in (((2, 3, length), 1), ((2, 3, length), -1), ((length,), 0)):
            for each in (1, shape[axis]):
                if each:
                    yield (
                        f"{shape} {axis} {each} {dtype}",
                        requantized(rng, shape, axis, each, dtype),
                    )
    for axis in (0, 1, -1):
        shape = (7, 130, 70)
        yield f"{shape} {axis}", requantized(rng, shape, axis, shape[axis], np.int8)


def requantized(rng, shape, axis, channels, dtype):
    bits = int(rng.integers(1, 32))
    acc = rng.integers(-(1 << bits), 1 << bits, shape).astype(np.int32)
    if bits == 31:
        acc = np.where(rng.random(shape) < 0.3, rng.choice([-(1 << 31), (1 << 31) - 1]), acc)
    m = rng.integers(1, 1 << int(rng.integers(1, 32)), channels).astype(np.int32)
    wanted = np.log2(m) + bits - 7 + rng.integers(-2, 3, channels)
    shift = np.clip(wanted, 1, 61).astype(np.int32)
    if rng.random() < 0.3:
        shift = shift[:1]
    rounding = str(rng.choice(NODE_ROUNDINGS))
    inputs = [acc.astype(np.int32), m, shift, *ends(dtype, 5, *rng.integers(0, 9, 2))]
    return Case(inputs, {"axis": axis, "rounding": rounding})
