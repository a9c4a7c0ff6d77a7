"""What kernels of rows are given beside references: norms, Softmax, published forms."""

import itertools
import math
from fractions import Fraction

import numpy as np

from opsets.fixed_point import ROUNDINGS
from opsets.gemmlowp import softmax_exponentials
from opsets.rounding import NODE_ROUNDINGS
from tests.support.kernels.draws import ALL_PAIRS, array, bytes_of, ends, words
from tests.support.op_cases import Case


def norms(rng):
    for cells in range(1, 71):
        numbers = [
            array(17, np.uint8),
            rng.integers(-(1 << 23), 1 << 23, cells).astype(np.int32),
            rng.integers(-(1 << 40), 1 << 40, cells),
            array(38, np.int32),
            array(1 << 30, np.int64),
        ]
        attributes = {"axis": -1, "cells": cells, "centered": 1, "root_bits": 13}
        attributes |= {"factor_bits": 52, "norm_bits": 20, "rounding": "half_to_even"}
        inputs = [bytes_of(rng, 3, cells), *numbers, *ends(np.uint8, 100)]
        yield f"length {cells}", Case(inputs, attributes)
    yield from long_norms(rng)
    yield from norms_of_words(rng)
    yield from norms_at_ties(rng)


def norms_at_ties(rng):
    """Biases of all cells by which levels are halves, or next to these."""
    for cells, dtype, rounding in itertools.product(
        (5, 48, 64, 98), (np.uint8, np.int8), ROUNDINGS
    ):
        x = bytes_of(rng, 4, cells, dtype=dtype)
        multiplier = rng.integers(-(1 << 23), 1 << 23, cells)
        halves = (2 * rng.integers(-150, 150, x.shape) + 1) << 37
        beside = rng.integers(-1, 2, x.shape)
        normal = [normalized(row) for row in x.tolist()]
        numbers = [
            array(17, dtype),
            multiplier.astype(np.int32),
            halves + beside - np.array(normal) * multiplier,
            array(38, np.int32),
            array(1 << 30, np.int64),
        ]
        attributes = {"axis": -1, "cells": cells, "centered": 1, "root_bits": 13}
        attributes |= {"factor_bits": 52, "norm_bits": 20, "rounding": rounding}
        yield f"ties {cells} {dtype} {rounding}", Case([x, *numbers, *ends(dtype)], attributes)


def normalized(row):
    """Distances from the mean by the deviation, with 20 bits behind the point."""
    cells, total = len(row), sum(row)
    variance = cells * sum(code * code for code in row) - total * total
    factor = (1 << 52) // math.isqrt((variance << 26) + (1 << 30))
    return [round(Fraction((cells * code - total) * factor, 1 << 19)) for code in row]


def long_norms(rng):
    """Rows that are pictures: one multiplier for each, or one for each cell."""
    for dtype, cells, shape in itertools.product(
        (np.uint8, np.int8), (1023, 1024, 5000), ((3, 1), (1,), (), (5000,))
    ):
        if shape == (5000,) and cells != 5000:
            continue
        numbers = [
            array(3, dtype),
            rng.integers(-(1 << 23), 1 << 23, shape).astype(np.int32),
            rng.integers(-(1 << 40), 1 << 40, shape),
            array(38, np.int32),
            array(1 << 30, np.int64),
        ]
        attributes = {"axis": -1, "cells": cells, "centered": 1, "root_bits": 6}
        attributes |= {"factor_bits": 52, "norm_bits": 20, "rounding": "half_to_even"}
        inputs = [bytes_of(rng, 2, 3, cells, dtype=dtype), *numbers, *ends(np.uint8, 100)]
        yield f"{dtype} {cells} {shape}", Case(inputs, attributes)


def norms_of_words(rng):
    """Long rows of words, near to each other, at both ends and anywhere; factors of a row."""
    kinds = itertools.product((1, 63, 2048, 5000), ((2, 1), ()), (np.uint8, np.int16), (0, 1))
    for cells, shape, y, centered in kinds:
        x = rng.integers(-32768, 32768, (4, 2, cells)).astype(np.int16)
        x[0] = rng.choice(np.array([-32768, 32767], np.int16), x[0].shape)
        x[1] = rng.integers(-20000, 20000) + rng.integers(0, 2, x[1].shape)
        numbers = [
            array(0, np.int16),
            rng.integers(-(1 << 20), 1 << 20, shape).astype(np.int32),
            rng.integers(-(1 << 40), 1 << 40, shape),
            array(38 if y == np.uint8 else 30, np.int32),
            array(rng.integers(1 << int(rng.integers(1, 60))), np.int64),
        ]
        attributes = {"axis": -1, "cells": cells, "centered": centered, "root_bits": 15}
        attributes |= {"factor_bits": 60, "norm_bits": 20, "rounding": rng.choice(ROUNDINGS)}
        label = f"words {cells} {shape} {y} {centered}"
        yield label, Case([x, *numbers, *ends(y, 0)], attributes)


def softmaxes(rng):
    falling = np.exp(-np.arange(256) / 20) * (1 << 20)
    tables = [falling.astype(np.int32), (falling * 255).astype(np.int64)]
    attributes = {"axis": -1, "published": 0, "rounding": "half_to_even"}
    for cells in range(1, 71):
        inputs = [bytes_of(rng, 3, cells), *tables, *ends(np.uint8, 100)]
        yield f"length {cells}", Case(inputs, attributes)
        wide = [inputs[0], tables[0], (falling * 32767).astype(np.int64), *ends(np.int16)]
        yield f"length {cells}, to words", Case(wide, attributes)
    yield from softmaxes_at_ties(rng)


def softmaxes_at_ties(rng):
    """Odd denominators whose sum is 512: halves of them are levels, or next to these."""
    odd = np.maximum(41 - 2 * np.arange(256), 1)
    for turn, dtype in itertools.product(range(40), (np.uint8, np.int8)):
        distances = [0]
        while (left := 512 - odd[distances].sum()) > 41:
            distances.append(int(rng.integers(0, 21)))
        distances += [25] * int(left)
        codes = 90 - rng.permutation(distances)
        beside = rng.integers(-1, 2, 256)
        unit = int(rng.choice([1, 5, 21])) << 28  # the largest level: 20, 102 or beyond codes
        tables = [(odd << 20).astype(np.int32), odd * unit + beside]
        attributes = {"axis": -1, "published": 0}
        attributes["rounding"] = ROUNDINGS[turn % len(ROUNDINGS)]
        inputs = [codes.astype(dtype).reshape(1, -1), *tables, *ends(dtype, 10)]
        yield f"ties {turn} {dtype}", Case(inputs, attributes)


def softmaxes_of_words(rng):
    """Every length to 70 and a few more, near to each other and anywhere; ties, long sums."""
    lengths = [*range(1, 71), 255, 256, 257, 511, 513, 1000]
    for number, (cells, y) in enumerate(itertools.product(lengths, (np.uint8, np.int16))):
        unit, spread = float(rng.choice([1e-4, 1e-3, 0.05])), int(rng.choice([5, 700, 32768]))
        largest = ((1 << 31) - 1) // cells
        tables = [np.exp(-np.arange(256) * each) for each in (256 * unit, unit)]
        x = rng.integers(-spread, spread, (4, cells)).astype(np.int16)
        bits = min(51 - largest.bit_length(), 30) if number % 3 else 30
        shift = max(1, bits - (8 if y == np.uint8 else 15))
        numbers = [array((1 << bits) - 1 - number, np.int32), array(shift, np.int32)]
        typed = [np.rint(tables[0] * largest), np.rint(tables[1] * (1 << 22))]
        rounding = ROUNDINGS[number % len(ROUNDINGS)] if number % 2 else "half_to_even"
        inputs = [x, *(each.astype(np.int32) for each in typed), *numbers, *ends(y, 3)]
        yield f"length {cells} to {y}", Case(inputs, {"axis": -1, "rounding": rounding})
    for turn in range(60):  # small wholes: quotients are ties, or next to these
        tables = [np.full(256, rng.integers(1, 9), np.int32), np.full(256, 1 << 22, np.int32)]
        tables[0][128:] = rng.integers(0, 3)
        x = rng.integers(-1, 2, (3, int(rng.integers(1, 40)))) * 20000
        numbers = [array(rng.integers(1, 1 << int(rng.integers(1, 30))), np.int32)]
        numbers += [array(rng.integers(1, 16), np.int32)]
        inputs = [x.astype(np.int16), *tables, *numbers, *ends(np.int16, 0)]
        rounding = ROUNDINGS[turn % len(ROUNDINGS)]
        yield f"ties {turn}", Case(inputs, {"axis": -1, "rounding": rounding})


def log_softmaxes(rng):
    for number, (x, axis) in enumerate(rows_along(rng)):
        falling = np.exp(-np.arange(256) / rng.choice([3, 20, 200])) * (1 << 30)
        unit = (1 << 20) * float(rng.choice([1, 20]))
        octaves = np.log(2) * np.arange(-30, 11) * unit
        lines = np.log1p(np.arange(257) / 256) * unit
        tables = [np.rint(each).astype(np.int64) for each in (octaves, lines)]
        distances = np.rint(np.arange(256) * unit / 20).astype(np.int64)
        attributes = {"axis": axis, "fraction_bits": 20}
        attributes["rounding"] = ROUNDINGS[number % len(ROUNDINGS)]
        inputs = [x, falling.astype(np.int32), distances, *tables, *ends(x.dtype, 100, 3)]
        yield f"{x.shape} {axis} {x.dtype}", Case(inputs, attributes)


def rows_along(rng):
    """Rows of every length to 70 and a few more, last, between and first."""
    for cells, dtype in itertools.product([*range(1, 71), 300, 1000], (np.uint8, np.int8)):
        yield bytes_of(rng, 3, cells, dtype=dtype), -1
        yield bytes_of(rng, 2, cells, 3, dtype=dtype), -2
        narrow = bytes_of(rng, cells, 2, dtype=np.uint8) % 9 + 60
        yield narrow.view(dtype), -2


def shift_softmaxes(rng):
    for x, axis in rows_along(rng):
        x0 = -int(rng.choice([1, 20, 300, (1 << 20) - 1]))
        n = int(rng.choice([15, 30]))
        attributes = {"axis": axis, "x0": x0, "fraction_bits": n, "output_bits": 16}
        known = ROUNDINGS if x0 < -300 else NODE_ROUNDINGS  # whose shares fit int32
        yield f"{x.shape} {axis} {x0} {n}", shares_of(rng, x, [], attributes, known)


def gemmlowp_softmaxes(rng):
    for x, axis in rows_along(rng):
        terms = softmax_exponentials(float(rng.choice([1 / 256, 1 / 16, 0.3, 2])))
        if rng.random() < 0.3:
            terms = rng.integers(0, 1 << 31, 256)
        inputs = [x, np.array(terms, np.int32), *ends(x.dtype, 0)]
        yield f"{x.shape} {axis} {x.dtype}", Case(inputs, {"axis": axis})


def shares_of(rng, x, numbers, attributes, known=NODE_ROUNDINGS):
    """A case whose shares of 16 bits become codes, near to one another or saturated."""
    scale = [array(rng.integers(1, 1 << 24), np.int32), array(rng.integers(24, 34), np.int32)]
    attributes |= {"rounding": str(rng.choice(known))}
    return Case([x, *numbers, *scale, *ends(x.dtype, 10, 3)], attributes)


def polynomial_softmaxes(rng):
    for x, axis in rows_along(rng):
        scale = float(rng.choice([1 / 128, 1 / 16, 0.3]))
        attributes = {"axis": axis, "x0": -int(0.6931 / scale) - 1, "b": int(2.7073 / scale)}
        attributes |= {"c": max(int(2.7921 / scale**2), 1)}
        attributes |= {"fraction_bits": 30, "output_bits": 16}
        of_exp = [array(rng.integers(1, 1 << 10), np.int32), array(40, np.int32)]
        yield f"{x.shape} {axis} {scale}", shares_of(rng, x, of_exp, attributes)


def shift_gelus(rng):
    """Rows, and each code beside each largest one."""
    pairs = np.stack([np.maximum(*ALL_PAIRS), np.minimum(*ALL_PAIRS)], axis=1)
    whole = [((pairs ^ 0x80).view(np.int8), -1), (pairs, -1)] * 3
    for number, (x, axis) in enumerate([*whole, *rows_along(rng)]):
        x0 = -int(rng.choice([1, 2, 30, 255]))
        attributes = {"axis": axis, "x0": x0, "fraction_bits": 23, "output_bits": 8}
        zero = array(bytes_of(rng, dtype=x.dtype), x.dtype)
        yield f"{number} {x.shape} {axis}", shares_of(rng, x, [zero], attributes)


def polynomial_gelus(rng):
    codes = np.arange(256).astype(np.uint8)
    for number in range(100):
        x = codes.view((np.uint8, np.int8)[number % 2])
        scale = float(rng.choice([1 / 128, 1 / 16, 0.3, 2]))
        attributes = {"b": -int(1.769 / scale) - 1, "c": -int(3.4626 / scale**2) - 1}
        attributes |= {"one": -int(rng.integers(1, 20)), "fraction_bits": number % 14 + 1}
        zero = array(bytes_of(rng, dtype=x.dtype), x.dtype)
        yield f"{number}", shares_of(rng, x, [zero], attributes)


def published_norms(rng):
    for cells, dtype in itertools.product([*range(1, 71), 768], (np.uint8, np.int8, np.int16)):
        x, zero = words(rng, 3, cells, dtype=dtype), array(words(rng, dtype=dtype), dtype)
        bias = rng.integers(-(1 << 30), 1 << 30, cells)
        m = rng.integers(-(1 << 20), 1 << 20, cells).astype(np.int32)
        shift = rng.integers(30, 48, cells).astype(np.int32)
        attributes = {"cells": cells, "rounding": str(rng.choice(ROUNDINGS))}
        inputs = [x, zero, bias, m, shift, *ends(np.int8, 5, 3)]
        yield f"{cells} {dtype}", Case(inputs, attributes)
