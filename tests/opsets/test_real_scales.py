"""Real scales of many channels mean what each means alone, as exact fractions."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from opsets import load_target
from opsets.fixed_point import LARGEST_SHIFT
from opsets.multipliers import nearest
from opsets.real_scales import RealScales, near_scales, nearest_of
from opsets.realised import node_multiplier, node_multipliers
from qpasses.evidence.thresholds import real_thresholds
from tests.support.thoroughness import thoroughly

ONNX = load_target("onnx")
TARGETS = [load_target(name) for name in ("onnx", "tflite", "exact", "bm1684x")]

float32s = st.floats(2.0**-40, 2.0**20, width=32)
ratios = st.builds(
    lambda x, y, cells: Fraction(x) / (Fraction(y) * cells),
    *(float32s, float32s, st.integers(1, 10**6)),
)
nearby = st.floats(2.0**-70, 2.0**30)
ties = st.builds(
    lambda whole, places: (whole + 0.5) * 2.0**-places,
    *(st.integers(1 << 23, 1 << 24), st.integers(0, 70)),
)
powers = st.integers(-80, 40).map(lambda exponent: 2.0**exponent)
usual = st.tuples(
    st.just(Fraction(1)), st.lists(st.one_of(nearby, ties, powers), min_size=1, max_size=8)
)
quotients = st.tuples(ratios, st.lists(float32s, min_size=1, max_size=8))
extreme = st.tuples(
    st.sampled_from([Fraction(10) ** 400, Fraction(1, 10**400), Fraction(1)]),
    st.lists(st.floats(5e-324, 1.7e308), min_size=1, max_size=4),
)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@thoroughly(100)
@given(st.one_of(usual, quotients))
@example((Fraction(1), [1 - 2.0**-40, 1 + 2.0**-40, 2.0**22, 2.0**-60]))
def test_multipliers_of_all_channels_are_those_of_each(target, given_scales):
    scales = RealScales(*given_scales)
    try:
        alone = [node_multiplier(scale, target) for scale in scales]
    except ValueError as error:
        with pytest.raises(type(error)):
            node_multipliers(scales, target)
        return
    assert np.column_stack(node_multipliers(scales, target)).tolist() == list(map(list, alone))


@pytest.mark.parametrize("bits", [8, 24, 31])
@thoroughly(100)
@given(st.one_of(usual, quotients, extreme))
def test_what_doubles_tell_is_the_nearest_multiplier(bits, given_scales):
    scales = RealScales(*given_scales)
    multiplier, shift, told = nearest_of(scales.near, bits, LARGEST_SHIFT)
    for channel in np.flatnonzero(told).tolist():
        exact = nearest(scales[channel], bits, LARGEST_SHIFT)
        assert (multiplier[channel], shift[channel]) == exact


def test_doubles_tell_nearly_all_multipliers():
    generator = np.random.default_rng(0)
    w = generator.uniform(0.001, 0.1, 1000).astype(np.float32).tolist()
    scales = RealScales(Fraction(0.02) / Fraction(0.05), w)
    assert nearest_of(scales.near, 24, LARGEST_SHIFT)[2].sum() >= 998
    ties = RealScales(
        Fraction(1), ((np.arange(1 << 23, (1 << 23) + 9) + 0.5) / 2**30).tolist()
    )
    assert not nearest_of(ties.near, 24, LARGEST_SHIFT)[2].any()


@thoroughly(200)
@given(st.one_of(usual, quotients, extreme))
def test_near_scales_are_near_or_not_given(given_scales):
    scales = RealScales(*given_scales)
    assert list(scales[:]) == [given_scales[0] * Fraction(each) for each in given_scales[1]]
    for near, exact in zip(near_scales(scales).tolist(), scales, strict=True):
        assert np.isnan(near) or abs(Fraction(near) - exact) <= exact / 2**50


@thoroughly(100)
@given(st.one_of(usual, quotients, extreme))
def test_thresholds_are_those_of_exact_fractions(given_scales):
    scales, steps = RealScales(*given_scales), np.arange(-3, 4)
    assert np.array_equal(real_thresholds(scales, steps), real_thresholds(list(scales), steps))


def test_every_width_of_a_target_is_taken():
    for bits in range(2, 32):
        target = replace(ONNX, multiplier_bits=bits)
        scales = RealScales(Fraction(1, 3), [0.1, 0.2, 1e-20, 3e4])
        found = np.column_stack(node_multipliers(scales, target)).tolist()
        assert found == [list(node_multiplier(scale, target)) for scale in scales]
