"""IntLogSoftmax: how far from real arithmetic, and onnxruntime itself on rows of all kinds."""

from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from math import floor
from typing import Any

import numpy as np

from opsets.fixed_point import Int64
from opsets.op import Body, Constants
from opsets.qpasses_v1 import OPS
from opsets.qpasses_v1.int_log_softmax import LARGEST_ENTRY, OCTAVES, PIECES
from qpasses.evidence.prove_softmax import exponentials
from qpasses.ir.runtime import run_op

_BITS = 200
"""Of the fractions in which logarithms are computed here."""

_CODES = 1 << 22
"""So many codes are run at most."""


@lru_cache(maxsize=1024)  # those of 1 to 2 are the same for every node
def logarithm(number: Fraction) -> Fraction:
    """The natural logarithm of a positive number, off by less than 2**-180.

    Of its power of two and of what is left, 1 to 2, by the series of the area tangent:
    log(m) = 2 * (z + z**3 / 3 + ...), z = (m - 1) / (m + 1), at most 1/3.
    """
    octave = number.numerator.bit_length() - number.denominator.bit_length()
    octave -= number < Fraction(2) ** octave
    part = number / Fraction(2) ** octave
    found = octave * _series(Fraction(2)) + _series(part)
    return Fraction(found, 1 << _BITS)


def _series(number: Fraction) -> int:
    z = floor((number - 1) / (number + 1) * (1 << _BITS))
    square, power, total, n = z * z >> _BITS, z, 0, 1
    while power:
        total, power, n = total + power // n, power * square >> _BITS, n + 2
    return 2 * total


def real_tables(
    x_scale: float, y_scale: float, largest: int, bits: int
) -> dict[str, list[Fraction]]:
    """What the entries are rounded from, by the names of the op's signature."""
    unit, first = Fraction(1 << bits) / Fraction(y_scale), logarithm(Fraction(largest))
    two = logarithm(Fraction(2))
    return {
        "denominators": [largest * each for each in exponentials(x_scale)],
        "distances": [
            min(Fraction(x_scale) * d * unit, Fraction(LARGEST_ENTRY)) for d in range(256)
        ],
        "octaves": [(e * two - first) * unit for e in range(OCTAVES)],
        "logarithms": [logarithm(1 + Fraction(p, PIECES)) * unit for p in range(PIECES + 1)],
    }


def log_table_errors(
    given: Constants, x_scale: float, y_scale: float, bits: int
) -> dict[str, list[Fraction]]:
    """By how much each entry differs from the real one, by table; no distance that ends."""
    real = real_tables(x_scale, y_scale, max(int(given["denominators"][0]), 1), bits)
    return {
        name: [abs(int(n) - each) for n, each in zip(given[name], exact, strict=True)]
        for name, exact in real.items()
    }


def log_softmax_bound(
    given: Constants, x_scale: float, y_scale: float, length: int, bits: int
) -> float:
    """How far a level is from the exact one at most, in steps of y, before it is rounded.

    For every row of up to ``length`` codes. Let A be the largest denominator, E the real sum
    of exponentials and S = A * E + r that of the denominators. The sum of these is it:

    - the entries of distances, octaves and logarithms are each off by what they were rounded;
    - log(S) - log(A * E) = -log(1 - r / S), at most R / (1 - R) for |r| / S <= R, which is
      largest where all other codes are alike: max over d of k * |r_d| / (A + k * T_d),
      k = length - 1;
    - a straight line between the logarithms of 1 + p / 256 and 1 + (p + 1) / 256 is off by at
      most 1/8 of 256**-2, the second derivative being at most 1; 20 bits of where on it,
      rounded down, lose at most 2**-20 of a rise, and the product's own floor 1 / 2**bits.
    """
    errors = log_table_errors(given, x_scale, y_scale, bits)
    largest, others = int(given["denominators"][0]), length - 1
    span = float(int(given["y_max"]) - int(given["y_min"]))
    terms = [max(int(term), 0) for term in given["denominators"]]
    relative = max(
        (others * error / max(largest + others * term, 1))
        for error, term in zip(errors["denominators"], terms, strict=True)
    )
    if largest < 1 or relative >= 1:
        return span
    entries = sum(max(errors[name]) for name in ("distances", "octaves", "logarithms"))
    rise = max(np.diff(given["logarithms"]).tolist())
    lines = Fraction(1, 8 * PIECES**2) / Fraction(y_scale)
    whole = (entries + Fraction(rise, 1 << 20) + 1) / (1 << bits)
    return min(float(whole + lines + relative / (1 - relative) / Fraction(y_scale)), span)


def differing_log_rows(
    body: Body, given: Constants, length: int, attributes: Mapping[str, Any]
) -> int:
    """How many results of onnxruntime differ from the meaning, on rows of all kinds.

    Optimized and not, along the node's own axis, which is negative.
    """
    top = np.iinfo(given["y_zero"].dtype).max
    rows = (top - _rows(length)).astype(given["y_zero"].dtype)
    x = rows.reshape(*rows.shape, *[1] * (-attributes["axis"] - 1))
    inputs = [x, *(given[name] for name in list(OPS["IntLogSoftmax"].inputs)[1:])]
    expected = OPS["IntLogSoftmax"].reference(*inputs, **attributes)
    runs = (
        run_op("IntLogSoftmax", body, inputs, attributes, optimize=each)
        for each in (False, True)
    )
    return sum(int((found != expected).sum()) for found in runs)


def _rows(length: int) -> Int64:
    """[R, length]: distances from the largest code: equal, two codes, rising, anywhere.

    Every n-th of them where they are long.
    """
    every = -(-3 * 256 * length // _CODES)
    distance = np.arange(0, 256, every)
    alike = np.repeat(distance[:, None], length, axis=1)
    pair = np.full_like(alike, 255)
    pair[:, 1:2] = distance[:, None]
    rising = np.arange(length) * (distance[:, None] + 1) // 8 % 256
    found = np.concatenate([alike, pair, rising])
    found[:, 0] = 0
    return found
