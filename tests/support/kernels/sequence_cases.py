"""What recurrent kernels are given beside references: sizes, types, sums beyond int32."""

import numpy as np

from opsets.fixed_point import ROUNDINGS
from opsets.rounding import LAST_STEP, NODE_ROUNDINGS
from tests.support.recurrent_cases import Parts, Sizes, gru, lstm, rnn

BYTES, SIGNED, WORDS = (np.dtype(each) for each in (np.uint8, np.int8, np.int16))

TYPES = [
    *((BYTES, BYTES), (SIGNED, SIGNED), (WORDS, WORDS)),
    *((BYTES, WORDS), (WORDS, SIGNED)),
]
"""Of x and of y."""


def lstms(rng):
    """With peepholes every third."""
    return nodes(rng, 4, lambda number, *made: lstm(*made, number % 3 == 0, *_two(number)))


def grus(rng):
    """Of both orders."""
    return nodes(rng, 3, lambda number, *made: gru(*made, number % 2, *_two(number // 2)))


def rnns(rng):
    return nodes(rng, 1, lambda _, *made: rnn(*made))


def _two(number):
    return bool(number & 1), bool(number & 2)


def nodes(rng, gates, node):
    """Every number of inputs and of units to 40, and of sequences to 9; none of the steps.

    Multipliers are small, of 31 bits, or powers of two; sums leave int32.
    """
    sizes = [(3, 2, n, 5) for n in range(1, 41)] + [(3, 1, 4, n) for n in range(1, 41)]
    sizes += [(4, n, 5, 6) for n in range(1, 10)] + [
        (0, 3, 4, 5),
        (70, 1, 3, 20),
        (0, 1, 1, 1),
    ]
    sizes += [(40, 5, 9, 70), (2, 4, 130, 33)]
    for number, each in enumerate(sizes):
        types = TYPES[number % len(TYPES)]
        rounding = ROUNDINGS[number % 3] if WORDS in types else NODE_ROUNDINGS[number % 5]
        lengths = ("all", "each", "one")[number // 2 % 3]
        parts = Parts(rng, gates, Sizes(*each), types, lengths, number % 4 > 0)
        if number % 3 == 1:
            with_wide_multipliers(rng, parts, 31 if rounding in LAST_STEP else 28)
        yield f"{each} {number}", node(number, parts, {"rounding": rounding})
    for number, (types, each) in enumerate(LONG):
        parts = Parts(rng, gates, Sizes(*each), types)
        of_one_sign(parts)
        rounding = ROUNDINGS[number % 3]
        yield f"beyond int32 {number}", node(number, parts, {"rounding": rounding})
    parts = Parts(rng, gates, Sizes(3, 2, 5, 4), (BYTES, BYTES))
    parts.sums[3] = np.where(parts.sums[3] > 0, 2**31 - 1, -(2**31)).astype(np.int32)
    yield "the largest biases", node(1, parts, {"rounding": "half_up"})
    parts = Parts(rng, gates, Sizes(3, 2, 5, 20), (WORDS, WORDS))
    parts.sums[0] = np.array(-900, WORDS)
    parts.ends[0] = np.array(700, WORDS)
    yield "words with a zero point", node(0, parts, {"rounding": "half_away"})


LONG = [
    ((WORDS, WORDS), (2, 5, 600, 1)),
    ((WORDS, WORDS), (2, 1, 2, 530)),
    ((BYTES, BYTES), (1, 1, 70000, 1)),
    ((SIGNED, WORDS), (1, 1, 70000, 1)),
]
"""Types and sizes of which sums leave int32."""


def of_one_sign(parts):
    """All products as large as they can be."""
    x_zero, w, r = parts.sums[:3]
    parts.sums[0] = np.zeros_like(x_zero)
    parts.x[:] = np.iinfo(parts.x.dtype).max
    w[:], r[:] = -128, -128


def with_wide_multipliers(rng, parts, bits):
    """Sums as before, by multipliers of so many bits: double does not hold the products."""
    for place in (4, 6):
        multiplier, shift = parts.sums[place : place + 2]
        more = bits - np.array([int(each).bit_length() for each in multiplier])
        more = np.minimum(more, 61 - shift)
        wide = (multiplier.astype(np.int64) << more) + rng.integers(0, 2, len(more)) * (
            more > 0
        )
        parts.sums[place] = wide.astype(np.int32)
        parts.sums[place + 1] = (shift + more).astype(np.int32)
