"""What recurrent kernels are given beside references: sizes, types, sums beyond int32."""

import numpy as np

from opsets.fixed_point import ROUNDINGS
from opsets.qpasses_v1 import OPS
from opsets.rounding import LAST_STEP, NODE_ROUNDINGS
from tests.support.kernels.draws import sums_beside_ties
from tests.support.op_nodes import Case
from tests.support.recurrent_cases import FORMS, Parts, Sizes, gru, lstm, rnn

BYTES, SIGNED, WORDS = (np.dtype(each) for each in (np.uint8, np.int8, np.int16))

TYPES = [
    *((BYTES, BYTES), (SIGNED, SIGNED), (WORDS, WORDS)),
    *((BYTES, WORDS), (WORDS, SIGNED)),
]
"""Of x and of y."""


def lstms(rng):
    """With peepholes every third, of all forms."""

    def node(number, *made):
        return lstm(*made, number % 3 == 0, *_two(number), number // 2 % len(FORMS))

    return nodes(rng, "IntLstm", 4, node)


def grus(rng):
    """Of both orders."""

    def node(number, *made):
        return gru(*made, number % 2, *_two(number // 2))

    return nodes(rng, "IntGru", 3, node)


def rnns(rng):
    """And some whose tables show each place."""
    yield from nodes(rng, "IntRnn", 1, lambda _, *made: rnn(*made))
    for rounding in NODE_ROUNDINGS:
        yield f"ties, {rounding}", of_ties(rng, rounding)
    for rounding in ROUNDINGS:
        yield f"beside ties, {rounding}", beside_ties(rng, rounding)


def _two(number):
    return bool(number & 1), bool(number & 2)


def nodes(rng, name, gates, node):
    """Every number of inputs and of units to 40, and of sequences to 9; none of the steps.

    Multipliers are small, of 31 bits, or powers of two; sums and levels leave int32.
    """
    for number, each in enumerate(SIZES):
        types, turn = TYPES[number % len(TYPES)], number // len(TYPES)
        rounding = ROUNDINGS[turn % 3] if WORDS in types else NODE_ROUNDINGS[turn % 5]
        lengths = ("all", "each", "one")[number // 2 % 3]
        parts = Parts(rng, gates, Sizes(*each), types, lengths, number % 4 > 0)
        if number % 3 == 1:
            with_wide_multipliers(rng, parts, 31 if rounding in LAST_STEP else 28)
        yield f"{each} {number}", node(number, parts, {"rounding": rounding})
    for number, (types, each) in enumerate(LONG):
        parts = Parts(rng, gates, Sizes(*each), types)
        of_one_sign(parts)
        yield (
            f"beyond int32 {number}",
            node(number, parts, {"rounding": ROUNDINGS[number % 3]}),
        )
    for number, rounding in enumerate(ROUNDINGS):
        parts = Parts(rng, gates, Sizes(3, 2, 5, 20), (BYTES, WORDS))
        case = node(number, parts, {"rounding": rounding})
        yield f"large levels, {rounding}", with_large_levels(name, case)
    parts = Parts(rng, gates, Sizes(3, 2, 5, 4), (BYTES, BYTES))
    parts.sums[BIAS] = np.where(parts.sums[BIAS] > 0, 2**31 - 1, -(2**31)).astype(np.int32)
    yield "the largest biases", node(1, parts, {"rounding": "half_up"})
    parts = Parts(rng, gates, Sizes(3, 2, 5, 20), (WORDS, WORDS))
    parts.sums[0], parts.ends[0] = np.array(-900, WORDS), np.array(700, WORDS)
    yield "words with a zero point", node(0, parts, {"rounding": "half_away"})


BIAS = 3
"""Among the parts of sums."""

SIZES = [
    *((3, 2, n, 5) for n in range(1, 41)),
    *((3, 1, 4, n) for n in range(1, 41)),
    *((4, n, 5, 6) for n in range(1, 10)),
    *((0, 3, 4, 5), (70, 1, 3, 20), (0, 1, 1, 1), (90, 5, 9, 70), (2, 4, 130, 33)),
    *((70, 1, 130, 70), (260, 1, 2, 500)),
]
"""Steps, sequences, inputs, units; at last gates of inputs in several parts."""

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


def with_large_levels(name, case):
    """All products far beyond words, as far from int32 as some can be."""
    inputs = dict(zip(OPS[name].inputs, case.inputs, strict=True))
    for each in inputs:
        if each.endswith("_multiplier"):
            inputs[each] = np.sign(inputs[each]) << np.int32(20)
        if each.endswith("_shift"):
            inputs[each] = np.ones_like(inputs[each])
    return Case([*inputs.values()], case.attributes)


def shown(parts, rounding):
    """A plain node whose codes are the last bits of the places in its table."""
    case = rnn(parts, {"rounding": rounding})
    places = np.arange(1 << 16).astype(np.uint16)
    return Case([*case.inputs[:-2], places.astype(np.uint8), case.inputs[-1]], case.attributes)


def of_ties(rng, rounding):
    """Of sums that double does not hold beside their multipliers, half are ties."""
    parts = Parts(rng, 1, Sizes(4, 3, 6, 40), (BYTES, BYTES))
    shift = rng.integers(38, 41, 40)
    parts.sums[1] *= 0
    parts.sums[BIAS] = (rng.integers(-(1 << 15), 1 << 15, 40) << shift - 31).astype(np.int32)
    parts.sums[BIAS + 1 : BIAS + 3] = np.full(40, 1 << 30, np.int32), shift.astype(np.int32)
    return shown(parts, rounding)


def beside_ties(rng, rounding):
    """Of sums whose products are nearer to a tie than double tells."""
    m, bias = sums_beside_ties(rng, shift := 46)
    parts = Parts(rng, 1, Sizes(1, 1, 4, len(m)), (BYTES, BYTES))
    parts.sums[1] *= 0
    parts.sums[2] *= 0
    parts.sums[BIAS : BIAS + 3] = bias, m, np.full_like(m, shift)
    return shown(parts, rounding)
