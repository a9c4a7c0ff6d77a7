"""TableSoftmax over the ranges of yehangyang/Activation_Function_Quantization, and beyond.

Its text: input and output of 4 and 8 bits, input ranges of 4 to 8, output ranges of 0.5, 0.75
and 1, signed and unsigned, rows of 8 to 1023, at most one step from the real result. There a
value near the largest is in every row; here it need not be, and rows go from 1 to 4096. Then
an accumulator of 32 bits, the default, keeps the step; one of 24 or 16 up to so many codes.
"""

import numpy as np
import pytest

from opsets.qpasses_v1 import OPS
from qpasses.evidence.prove_softmax import softmax_bound
from qpasses.lowering.numbers.softmax_tables import largest_entry, softmax_tables
from tests.support.thoroughness import together

EVEN = {"axis": -1, "published": 0, "rounding": "half_to_even"}
LENGTHS = [1, 2, 8, 9, 49, 64, 100, 197, 256, 500, 512, 1000, 1023, 4096]


def codes_of(bits, unsigned):
    return (0, (1 << bits) - 1) if unsigned else (-(1 << bits - 1), (1 << bits - 1) - 1)


def rows_of(low, high, length):
    """Anything, low codes alone, constant rows of the ends and between, one code above all."""
    rng = np.random.default_rng([length, high])
    some = rng.integers(low, high, (6, length), endpoint=True)
    lower = rng.integers(low, max(low + 1, low + (high - low) // 3), (4, length))
    still = np.repeat([[low], [(low + high) // 2], [high]], length, axis=1)
    one = np.full((2, length), low)
    one[0, 0] = one[1, -1] = high
    return np.concatenate([some, lower, still, one])


@pytest.mark.thinned
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("bits", [16, 24, 32])
def test_the_ranges_in_full(bits, length):
    worst, op = 0, OPS["TableSoftmax"]
    ranges = together((4, 8), (4, 8), (4, 5, 6, 7, 8), (0.5, 0.75, 1), (True, False))
    for x_bits, y_bits, x_range, y_range, unsigned in ranges:
        low, high = codes_of(x_bits, unsigned)
        y_high = codes_of(y_bits, unsigned)[1]
        x_scale, y_scale = x_range / high, y_range / y_high
        tables = softmax_tables(x_scale, y_scale, largest_entry(length, bits))
        dtype = np.uint8 if unsigned else np.int8
        ends = [np.array(value, dtype) for value in (0, 0, y_high)]
        rows = rows_of(low, high, length)
        found = op.reference(rows.astype(dtype), *tables, *ends, **EVEN).astype(int)
        real = np.exp((rows - rows.max(axis=1, keepdims=True)) * x_scale)
        real = np.rint(real / real.sum(axis=1, keepdims=True) / y_scale).clip(0, y_high)
        gap = int(np.abs(found - real).max())
        names = ("denominators", "numerators", "y_zero", "y_min", "y_max")
        given = dict(zip(names, (*tables, *ends), strict=True))
        assert gap <= softmax_bound(given, x_scale, y_scale, length) + 1
        worst = max(worst, gap)
    assert worst <= 1 or length > {16: 9, 24: 256, 32: 4096}[bits]
