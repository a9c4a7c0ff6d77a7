"""Multipliers of nodes that stand for products in double: the same levels, or none."""

from fractions import Fraction

import numpy as np
import pytest

from opsets.forms import scaled_in_double
from opsets.multipliers import ScaleError
from opsets.realised import scaled_multiplier
from opsets.rounding import requantize
from qpasses.checking.meaning import DifferenceError
from qpasses.checking.rules.check_multipliers import scaled_pairs
from qpasses.evidence.thresholds import Interval, levels
from qpasses.lowering.numbers.multiplier_search import scaled_multipliers
from tests.support.thoroughness import THOROUGH

STEPS = levels(0, -128, 127)
COUNT = 2000 if THOROUGH else 400


def scales(span):
    """Products of float32 scales over another, by which sums up to ``span`` make all codes."""
    rng = np.random.default_rng(5)
    for _ in range(COUNT):
        x, w, y = (float(np.float32(each)) for each in rng.uniform(0.5, 1, 3))
        yield x * w / y * (128 / span)


def reachable(reach):
    return Interval(np.array([-reach]), np.array([reach]))


def tried(span):
    """How many scales have another multiplier than the nearest, and how many have none."""
    moved, refused, part = 0, 0, reachable(8 * span)
    for scale in scales(span):
        near = np.rint((np.arange(-129, 129) + 0.5) / scale).astype(np.int64)
        sums = np.concatenate([near - 1, near, near + 1])
        theirs = np.clip(scaled_in_double(sums, scale), -128, 127)
        try:
            found = scaled_multipliers([scale], STEPS, part)
        except ScaleError as error:
            assert "no multiplier of 31 bits gives the levels" in str(error)
            with pytest.raises(DifferenceError):
                scaled_pairs([Fraction(scale)], STEPS, part)
            refused += 1
            continue
        pair = found.multiplier, found.shift
        ours = np.clip(requantize(sums, *pair, "half_away"), -128, 127)
        np.testing.assert_array_equal(ours, theirs)
        assert scaled_pairs([Fraction(scale)], STEPS, part) == pair
        moved += int(pair[0][0]) != scaled_multiplier(scale)[0]
    return moved, refused


@pytest.mark.parametrize("bits", [12, 16, 20])
def test_sums_of_networks_have_the_levels_of_the_product(bits):
    moved, refused = tried(1 << bits)
    assert refused == 0 and moved <= COUNT / 40


def test_levels_that_no_multiplier_of_31_bits_gives_are_refused():
    moved, refused = tried(1 << 26)
    assert moved > 0 and refused > 0


def test_a_product_that_leaves_int32_has_none():
    with pytest.raises(ScaleError, match="beyond int32"):
        scaled_multipliers([40.0], STEPS, reachable(1 << 26))
    with pytest.raises(ScaleError, match=r"2\*\*30 is the largest"):
        scaled_multipliers([2.0**40], STEPS, reachable(1))
