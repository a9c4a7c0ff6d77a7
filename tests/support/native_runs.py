"""Kernels beside references: python -m tests.support.native_runs COUNT [OP...].

A line for each op: how many integers differ, and of how many. QPASSES_ISA may name several
instruction sets, with commas between: then a line for each set and op. A process of its own
for each, because the set is chosen when the library is loaded.
"""

import itertools
import math
import os
import sys
from fractions import Fraction
from multiprocessing import get_context

import numpy as np
from hypothesis import HealthCheck, given, settings

from calibration import Session
from opsets.fixed_point import ROUNDINGS
from opsets.native import KERNELS, library
from opsets.qpasses_v1 import OPS
from opsets.qpasses_v1.int_pad import MODES
from opsets.rounding import NODE_ROUNDINGS
from opsets.word_products import LARGEST
from tests.support.op_cases import CASES, Case
from tests.support.tosa_nodes import expected, model_of_nodes


def drawn(name, count):
    cases = {}

    @settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(CASES[name])
    def draw(case):
        cases[f"{len(cases)}"] = case

    draw()
    return cases


def models_of(name, cases, given_as=np.ascontiguousarray):
    """Of some nodes each: the model, what it is given, and what the reference gives.

    Each tensor is a buffer of its own.
    """
    op, labels = OPS[name], list(cases)
    for first in range(0, len(labels), 50):
        some = {label: cases[label] for label in labels[first : first + 50]}
        feed = {
            f"{formal}_{place}": given_as(array)
            for place, case in enumerate(some.values())
            for formal, array in zip(op.inputs, case.inputs, strict=True)
            if formal in op.data
        }
        exact = [expected(op, case) for case in some.values()]
        yield model_of_nodes(op, some, exact), feed, exact


def differing(models, file=None):
    """How many elements are unlike the reference's, and of how many."""
    wrong, count = 0, 0
    for model, feed, results in models:
        session = Session(model, operators=file or library(), arena=False)
        found = session.run(session.outputs, feed)
        for ours, exact in zip(found, results, strict=True):
            assert ours.dtype == exact.dtype and ours.shape == exact.shape
            wrong += int((ours != exact).sum())
            count += exact.size
    return wrong, count


def array(value, dtype):
    return np.asarray(value, dtype)


def bytes_of(rng, *shape, dtype=np.uint8):
    return rng.integers(0, 256, shape).astype(np.uint8).view(dtype)


def ends(dtype, zero=0, low=0, high=0):
    """A zero point and the ends of codes, so far inside of the type."""
    limits = np.iinfo(dtype)
    return [array(each, dtype) for each in (zero, limits.min + low, limits.max - high)]


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


ALL_WORDS = np.arange(-(1 << 15), 1 << 15).astype(np.int16)


def wide_lookups(rng):
    for dtype in (np.uint8, np.int8, np.int16):
        table = words(rng, 1 << 16, dtype=dtype)
        for count in [*range(71), 1 << 16]:
            yield f"{count} {dtype}", Case([ALL_WORDS[:count], table], {})


def interpolations(rng):
    for number, dtype in itertools.product(range(12), (np.uint8, np.int8, np.int16)):
        table, shift = words(rng, 513), array(rng.choice([1, 7, 12, 15, 61]), np.int32)
        rounding = {"rounding": ROUNDINGS[number % 3]}
        inputs = [ALL_WORDS, table, shift, *ends(dtype, 3, 2)]
        yield f"{number} {dtype}", Case(inputs, rounding)


def lookups(rng):
    table = rng.permutation(256).astype(np.uint8)
    codes = np.arange(256).astype(np.uint8)
    for dtype in (np.uint8, np.int8):
        for count in [*range(71), 127, 129, 256]:
            x = codes[:count].view(dtype)
            yield f"{count} {dtype}", Case([x, table.view(dtype)], {})
            yield f"{count} {dtype} to words", Case([x, words(rng, 256)], {})
    for count in (1023, 1024, 1025, 70000):
        yield f"{count} to words", Case([bytes_of(rng, count), words(rng, 256)], {})


def lookups_by_channel(rng):
    for channels in [*range(1, 36), 64, 65]:
        tables = bytes_of(rng, channels, 256)
        for places in (0, 1, 63, 64, 65, 130):
            last = bytes_of(rng, places, channels)
            yield f"{channels} last at {places}", Case([last, tables], {"axis": 1})
            yield (
                f"{channels} last at {places} to words",
                Case([last.view(np.int8), words(rng, channels, 256)], {"axis": 1}),
            )
        first = bytes_of(rng, 2, channels, 37)
        yield f"{channels} first", Case([first, tables], {"axis": 1})
        yield (
            f"{channels} first to words",
            Case([first, words(rng, channels, 256)], {"axis": 1}),
        )
    long = bytes_of(rng, 2, 3, 1500)
    yield "long rows to words", Case([long, words(rng, 3, 256)], {"axis": 1})


def interpolations_by_channel(rng):
    """All codes of channels first and last, and every length of either."""
    for number, dtype in itertools.product(range(12), (np.uint8, np.int8, np.int16)):
        rounding, codes = {"rounding": ROUNDINGS[number % 3]}, np.stack([ALL_WORDS] * 3)
        shift = array(rng.choice([1, 7, 12, 15, 23, 61]), np.int32)
        numbers = [words(rng, 3, 513), shift, *ends(dtype, 3, 2)]
        yield f"{number} {dtype} first", Case([codes, *numbers], {"axis": 0, **rounding})
        last = np.ascontiguousarray(codes.T)
        yield f"{number} {dtype} last", Case([last, *numbers], {"axis": 1, **rounding})
    for channels in [*range(1, 36), 64, 65]:
        numbers = [words(rng, channels, 513), array(15, np.int32), *ends(np.uint8, 3, 2)]
        for places in (0, 1, 17, 300):
            x = words(rng, places, channels)
            given = {"axis": 1, "rounding": "half_away"}
            yield f"{channels} last at {places}", Case([x, *numbers], given)
        x = words(rng, 2, channels, 37)
        yield f"{channels} first", Case([x, *numbers], {"axis": 1, "rounding": "half_up"})


ALL_PAIRS = [each.reshape(-1).astype(np.uint8) for each in np.indices((256, 256))]


KINDS = [
    kinds
    for byte in (np.uint8, np.int8)
    for kinds in itertools.product((byte, np.int16), repeat=3)
    if np.int16 in kinds
]
"""Of two operands and a result: some have 16 bits."""


def shaped(rng, of_pair):
    """Every pair of codes, every length to 70, and operands that are broadcast."""
    for dtype in (np.uint8, np.int8):
        a, b = (each.view(dtype) for each in ALL_PAIRS)
        for number in range(6):
            yield f"pairs {dtype} {number}", of_pair(rng, a, b)
    for count in range(71):
        yield f"length {count}", of_pair(rng, bytes_of(rng, count), bytes_of(rng, count))
    shapes = [
        ((3, 4, 70), (70,)),
        ((3, 4, 70), (3, 4, 1)),
        ((3, 1, 70), (1, 5, 1)),
        ((1,), ()),
    ]
    for one, other in shapes:
        pair = bytes_of(rng, *one), bytes_of(rng, *other)
        yield f"{one} and {other}", of_pair(rng, *pair)
        yield f"{other} and {one}", of_pair(rng, *reversed(pair))


def pairs(rng):
    table = bytes_of(rng, 65536)
    return shaped(rng, lambda rng, a, b: Case([a, b, table.view(a.dtype)], {}))


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


def words(rng, *shape, dtype=np.int16):
    """Codes of any type: anywhere, and at its ends."""
    limits = np.iinfo(dtype)
    found = rng.integers(limits.min, limits.max, shape, endpoint=True)
    at_end = rng.random(shape) < 0.1
    return np.where(at_end, rng.choice([limits.min, limits.max]), found).astype(dtype)


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
SLOPED += [((2, n, 256), (n, 1)) for n in (1, 3, 20)] + [((2, 256, n), (n,)) for n in (1, 17)]
SLOPED += [
    ((2, 5, 3, 70), (3, 1)),
    ((2, 5, 3, 7), (5, 1, 7)),
    ((2, 1500), (1500,)),
    ((0, 3), (3,)),
]
"""Of x and of its slopes: one, of channels first and last, of several axes, and very many."""


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


def windows(rng):
    """Every width and number of channels to 70, strides, dilations and pads, 1 to 3 axes."""
    geometries = [(1, c, [w], [min(w, 3)]) for w in range(1, 71) for c in (1, 3)]
    geometries += [(2, c, [5, 4], [3, 2]) for c in range(1, 71)]
    geometries += [
        (2, 5, [7, 6, 9], [2, 3, 1]),
        (1, 70, [33, 31], [3, 3]),
        (1, 2, [3, 3], [1, 1]),
    ]
    geometries += [(1, 1, [1, 1], [1, 1]), (1, 3, [40, 40], [19, 17]), (1, 16, [4, 4], [4, 4])]
    for (pictures, channels, sizes, kernel), dtype in itertools.product(
        geometries, (np.uint8, np.int8)
    ):
        dims = len(kernel)
        strides, dilations = rng.integers(1, 4, dims), rng.integers(1, 3, dims)
        pads = rng.integers(0, 4, 2 * dims)
        reach = np.add((np.array(kernel) - 1) * dilations, 1)
        lack = np.maximum(reach - np.add(sizes, pads.reshape(2, -1).sum(axis=0)), 0)
        pads[dims:] += lack
        attributes = {"channels": channels, "kernel_shape": kernel}
        attributes |= {"strides": strides.tolist(), "dilations": dilations.tolist()}
        yield pictures, channels, sizes, attributes | {"pads": pads.tolist()}, dtype


def laid(rng, pictures, channels, sizes, dtype):
    """A picture in either layout, and the attribute that says which."""
    if rng.random() < 0.6:
        return bytes_of(rng, pictures, *sizes, channels, dtype=dtype), {"channels_last": 1}
    return bytes_of(rng, pictures, channels, *sizes, dtype=dtype), {}


def pools(rng):
    for pictures, channels, sizes, attributes, dtype in windows(rng):
        cells = int(np.prod(attributes["kernel_shape"]))
        x, layout = laid(rng, pictures, channels, sizes, dtype)
        rounding = {"rounding": str(rng.choice(NODE_ROUNDINGS))}
        numbers = sum_numbers(rng, cells, dtype)
        yield f"{x.shape} {attributes}", Case([x, *numbers], attributes | layout | rounding)


def sum_numbers(rng, cells, dtype):
    """Of sums of so many codes: zero point, multiplier and shift, the ends of results."""
    bits = int(rng.choice([2, 24, 31]))
    m = np.array([rng.integers(1, 1 << bits - 1, endpoint=True)], np.int32)
    wanted = int(np.log2(float(m[0]) * cells * rng.choice([0.3, 1, 4])))
    zero = array(bytes_of(rng, dtype=dtype), dtype)
    shift = np.array([np.clip(wanted, 1, 61)], np.int32)
    return [zero, m, shift, *ends(dtype, int(zero), *rng.integers(0, 9, 2))]


def counted_pools(rng):
    for pictures, channels, sizes, attributes, dtype in windows(rng):
        x, layout = laid(rng, pictures, channels, sizes, dtype)
        zero, m, shift, *last = sum_numbers(rng, 1, dtype)
        uncounted = [int(rng.integers(0, each, endpoint=True)) for each in attributes["pads"]]
        rounding = {"uncounted_pads": uncounted, "rounding": str(rng.choice(ROUNDINGS))}
        inputs = [x, zero, m.reshape(()), np.minimum(shift, 40).reshape(()), *last]
        yield f"{x.shape} {attributes}", Case(inputs, attributes | layout | rounding)
        for read, written in ENDS_OF_WORDS:
            wide, zero = words(rng, *x.shape, dtype=read), array(0, read)
            inputs = [wide, zero, *inputs[2:4], *ends(written, 0)]
            case = Case(inputs, attributes | layout | rounding)
            yield f"{x.shape} {attributes} {read} {written}", case


def largest_pools(rng):
    for pictures, channels, sizes, attributes, _dtype in windows(rng):
        drawn_words = words(rng, pictures, channels, *sizes)
        is_last = rng.random() < 0.6
        x = np.moveaxis(drawn_words, 1, -1) if is_last else drawn_words
        numbers = {name: each for name, each in attributes.items() if name != "channels"}
        layout = {"channels_last": 1} if is_last else {}
        case = Case([np.ascontiguousarray(x)], numbers | layout)
        yield f"{x.shape} {numbers} {layout}", case


def paddings(rng):
    """Every width to 70, each mode, up to five axes."""
    shapes = [(2, n) for n in range(1, 71)] + [(2, 3, 4, 5, 6), (1, 1, 1), (40, 3, 41)]
    for shape, mode in itertools.product(shapes, MODES):
        most = [n - 1 if mode == "reflect" else 4 for n in shape * 2]
        pads = [int(rng.integers(0, min(each, 40), endpoint=True)) for each in most]
        fill = array(int(rng.integers(-32768, 32768)), np.int16)
        case = Case([words(rng, *shape), fill], {"pads": pads, "mode": mode})
        yield f"{shape} {mode} {pads}", case


def global_pools(rng):
    sizes = [(2, 3, [n]) for n in range(1, 71)] + [(1, n, [3, 2]) for n in range(1, 71)]
    sizes += [(2, 300, [5, 7]), (1, 9, [70, 71]), (2, 5, [3, 4, 5]), (1, 1, [1, 1])]
    sizes += [(1, channels, [20, 20]) for channels in (31, 32, 33, 64, 70)]
    for (pictures, channels, window), dtype in itertools.product(sizes, (np.uint8, np.int8)):
        x, layout = laid(rng, pictures, channels, window, dtype)
        if window == [20, 20]:  # the largest sums
            x = np.full_like(x, 255 if dtype == np.uint8 else -128)
        attributes = {"channels": channels, "spatial_shape": window, **layout}
        attributes["rounding"] = str(rng.choice(NODE_ROUNDINGS))
        inputs = [x, *sum_numbers(rng, int(np.prod(window)), dtype)]
        yield f"{x.shape} {dtype}", Case(inputs, attributes)


def resizes(rng):
    """Every width and number of channels to 70, 1 to 3 axes, coefficients of either size."""
    sizes = [(1, [n], [71 - n], [2, 3]) for n in range(1, 71)]
    sizes += [(2, [3, n], [5, 2 * n], [1, 2]) for n in range(1, 71)]
    sizes += [(2, [4, 3], [7, 6], [1, n]) for n in range(1, 71)]
    sizes += [
        (3, [3, 4, 5], [4, 3, 9], [2, 3]),
        (3, [2, 2, 2], [1, 1, 1], []),
        (1, [3], [4], [0]),
    ]
    for (dims, x_sizes, y_sizes, leading), dtype in itertools.product(
        sizes, (np.uint8, np.int8)
    ):
        is_last = len(leading) > 1 and rng.random() < 0.6
        places = leading[:-1] if is_last else leading
        x = bytes_of(rng, *places, *x_sizes, *leading[-1:] * is_last, dtype=dtype)
        ones = [1] * (3 - dims)
        x_sizes, y_sizes = ones + x_sizes, ones + y_sizes
        low, high = (0, 90) if rng.random() < 0.7 else (-40, 40)
        tables = [
            [
                rng.integers(0, n, (2, m)),
                rng.integers(low, high, (2, m)) if n * m > 1 else np.array([[1], [0]]),
            ]
            for n, m in zip(x_sizes, y_sizes, strict=True)
        ]
        joined = [
            np.concatenate(t, axis=1).astype(np.int32) for t in zip(*tables, strict=True)
        ]
        zero, m, shift, *last = sum_numbers(rng, 100**dims, dtype)
        attributes = {"dims": dims, "x_sizes": x_sizes, "y_sizes": y_sizes}
        attributes |= {"channels_last": 1} if is_last else {}
        attributes["rounding"] = str(rng.choice(NODE_ROUNDINGS))
        yield (
            f"{x.shape} {y_sizes} {dtype}",
            Case([x, zero, *joined, m, shift, *last], attributes),
        )
        if attributes["rounding"] in ROUNDINGS and dims < 3:
            read, written = ENDS_OF_WORDS[int(rng.integers(0, 3))]
            narrow = np.where(joined[1] > 1, joined[1] % 20, joined[1]).astype(np.int32)
            given = [words(rng, *x.shape, dtype=read), array(0, read), joined[0], narrow]
            numbers = [m >> 9, np.maximum(shift - 9, 1), *ends(written, 0)]
            label = f"{x.shape} {y_sizes} {read} {written}"
            yield label, Case([*given, *numbers], attributes)


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


def reductions(rng):
    for count in range(71):
        for axes in ([-1], [-2], [-3, -1], [-3, -2]):
            x = bytes_of(rng, 2, 3, count)
            numbers = [array(9, np.uint8), array(1 << 20, np.int32), array(22, np.int32)]
            attributes = {"axes": axes, "keepdims": count % 2, "mean": 1}
            inputs = [x, *numbers, *ends(np.uint8, 5)]
            yield f"{count} {axes}", Case(inputs, {**attributes, "rounding": "half_to_even"})
            for read, written in ENDS_OF_WORDS:
                numbers = [array(0, read), array(1 << 20, np.int32), array(22, np.int32)]
                inputs = [words(rng, 2, 3, count, dtype=read), *numbers, *ends(written, 0)]
                case = Case(inputs, {**attributes, "rounding": "half_to_even"})
                yield f"{count} {axes} {read} {written}", case


ENDS_OF_WORDS = (np.int16, np.int16), (np.int16, np.uint8), (np.int8, np.int16)


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


def scaled(rng, number, outputs, bits):
    """A zero point, multipliers of so many bits with their shifts, and biases."""
    m = rng.integers(1, 1 << (bits - 1), outputs, endpoint=True).astype(np.int32)
    if number % 5 == 0:
        m[:] = 1 << (bits - 1)
    shift = rng.integers(bits + 6, bits + 12, outputs).astype(np.int32)
    bias = rng.integers(-(1 << 14), 1 << 14, outputs).astype(np.int32)
    return int(rng.integers(0, 256)), m, shift, bias


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


EVERY = {
    "IBertGelu": polynomial_gelus,
    "IBertSoftmax": polynomial_softmaxes,
    "ILayerNorm": published_norms,
    "IntAdd": sums,
    "IntAveragePool": pools,
    "IntCodedPRelu": coded_slopes,
    "IntConv": convolutions,
    "IntConvPerChannel": convolutions_by_channel,
    "IntCountedAveragePool": counted_pools,
    "IntDiv": quotients,
    "IntGemm": products_of_matrices,
    "IntGlobalAveragePool": global_pools,
    "IntLayerNorm": norms,
    "IntLogSoftmax": log_softmaxes,
    "IntMatMul": products_of_two,
    "IntMaxPool": largest_pools,
    "IntMul": products,
    "IntPRelu": slopes,
    "IntPad": paddings,
    "IntReduce": reductions,
    "IntRescale": rescalings,
    "IntRescaledAdd": rescaled_sums,
    "IntRescaledSub": rescaled_sums,
    "IntResize": resizes,
    "IntSub": sums,
    "Lut": lookups,
    "Lut16": wide_lookups,
    "LutInterpolated": interpolations,
    "LutInterpolatedPerChannel": interpolations_by_channel,
    "LutPair": pairs,
    "LutPerChannel": lookups_by_channel,
    "Requantize": requantizations,
    "ShiftGelu": shift_gelus,
    "Shiftmax": shift_softmaxes,
    "TableSoftmax": softmaxes,
}
"""All codes or pairs of codes, and every length to 70, of the numbers that are emitted."""


def run_on(isa, made):
    """Print a line for each op, of kernels that are loaded in this process alone."""
    os.environ["QPASSES_ISA"] = isa
    for name, models in made.items():
        print(isa, name, *differing(models), flush=True)


def main(count, *names):
    made = {}
    for name in names or KERNELS:
        cases = drawn(name, int(count)) | dict(EVERY[name](np.random.default_rng(0)))
        made[name] = list(models_of(name, cases))
    failed = False
    for isa in os.environ.get("QPASSES_ISA", "").split(","):
        running = get_context("fork").Process(target=run_on, args=(isa, made))
        running.start()
        running.join()
        failed |= running.exitcode != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
