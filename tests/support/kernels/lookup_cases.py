"""What kernels of tables are given beside references: all codes, or pairs of them."""

import itertools

import numpy as np

from opsets.fixed_point import ROUNDINGS
from tests.support.kernels.draws import ALL_WORDS, array, bytes_of, ends, shaped, words
from tests.support.op_cases import Case


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


def pairs(rng):
    table = bytes_of(rng, 65536)
    return shaped(rng, lambda rng, a, b: Case([a, b, table.view(a.dtype)], {}))
