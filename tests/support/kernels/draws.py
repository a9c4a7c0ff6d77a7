"""Numbers that kernels are given beside references: anywhere, and at the ends of types."""

import itertools

import numpy as np


def array(value, dtype):
    return np.asarray(value, dtype)


def bytes_of(rng, *shape, dtype=np.uint8):
    return rng.integers(0, 256, shape).astype(np.uint8).view(dtype)


def ends(dtype, zero=0, low=0, high=0):
    """A zero point and the ends of codes, so far inside of the type."""
    limits = np.iinfo(dtype)
    return [array(each, dtype) for each in (zero, limits.min + low, limits.max - high)]


ALL_WORDS = np.arange(-(1 << 15), 1 << 15).astype(np.int16)

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


def words(rng, *shape, dtype=np.int16):
    """Codes of any type: anywhere, and at its ends."""
    limits = np.iinfo(dtype)
    found = rng.integers(limits.min, limits.max, shape, endpoint=True)
    at_end = rng.random(shape) < 0.1
    return np.where(at_end, rng.choice([limits.min, limits.max]), found).astype(dtype)


ENDS_OF_WORDS = (np.int16, np.int16), (np.int16, np.uint8), (np.int8, np.int16)


def scaled(rng, number, outputs, bits):
    """A zero point, multipliers of so many bits with their shifts, and biases."""
    m = rng.integers(1, 1 << (bits - 1), outputs, endpoint=True).astype(np.int32)
    if number % 5 == 0:
        m[:] = 1 << (bits - 1)
    shift = rng.integers(bits + 6, bits + 12, outputs).astype(np.int32)
    bias = rng.integers(-(1 << 14), 1 << 14, outputs).astype(np.int32)
    return int(rng.integers(0, 256)), m, shift, bias


def sums_beside_ties(rng, shift):
    """Eight multipliers of 31 bits, and sums of which they make nearly a tie: their products,
    modulo a power of two, are a little off half of it.
    """
    pairs = []
    while len(pairs) < 8:
        m = int(rng.integers(1 << 30, 1 << 31)) | 1
        inverse = pow(m, -1, 1 << shift)
        sums = [
            inverse * ((1 << shift - 1) + off) % (1 << shift)
            for off in range(-128, 129)
            if off
        ]
        pairs += [(m, each) for each in sums if each < 1 << 30 and each * m >> shift < 32767]
    return [array(each, np.int32) for each in zip(*pairs, strict=True)]
