"""The chosen multipliers against brute force over every reachable accumulator."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsets.fixed_point import (
    ROUNDINGS,
    rounding_shift,
    saturate,
    saturating_multiplier,
)
from opsets.kernels import PORTABLE_KERNELS, float32_kernel
from opsets.rounding import requantize
from opsets.target import load_target
from qpasses.evidence.thresholds import Interval, kernel_mismatches, levels, meaning_thresholds
from qpasses.lowering.numbers.multiplier_search import NEAR, choose_multipliers
from tests.support.thoroughness import slow, thoroughly

ONNX = load_target("onnx")
TARGETS = {rounding: replace(ONNX, rounding=rounding) for rounding in ROUNDINGS}
UINT8 = 0, 0, 255
WIDTH = 200_000

every_rounding = pytest.mark.parametrize("rounding", ROUNDINGS)


def int64(*values):
    return np.array(values, np.int64)


@st.composite
def output_ends(draw):
    """y_zero, y_min, y_max of uint8 or int8."""
    low = draw(st.sampled_from([0, -128]))
    stored = st.integers(low, low + 255)
    ends = draw(st.just((low, low + 255)) | st.tuples(stored, stored).map(sorted))
    return draw(stored), *ends


@st.composite
def channel(draw):
    """A scale (m * 2**-s, m of 1 or 40 bits, so that brute force fits int64) and an interval.

    The interval spreads over a hundredth to ten times the output's range.
    """
    width = draw(st.integers(0, WIDTH - 1))
    low = draw(st.integers(-width, 0) | st.integers(-(2**22), 2**22))
    spread = draw(st.sampled_from([2, 30, 255, 2550]))
    mantissa = draw(st.just(1 << 39) | st.integers(1 << 39, (1 << 40) - 1))
    shift = 40 + max(width, 1).bit_length() - spread.bit_length()
    return Fraction(mantissa, 1 << shift), low, low + width


def everything(low, high):
    return np.arange(low, high + 1, dtype=np.int64)


def near_thresholds(low, high, thresholds):
    points = (thresholds[:, None] + np.arange(-40, 40)).ravel()
    return np.concatenate([points[(points >= low) & (points <= high)], int64(low, high)])


def stored_outputs(accumulators, multiplier, shift, ends, rounding, kernel):
    """What meaning and kernel store, before they are compared."""
    exact = requantize(accumulators, multiplier, shift, rounding)
    run = kernel(accumulators, int64(multiplier), int64(shift))
    return [saturate(each, *ends) for each in (exact, run)]


def agree(*args):
    exact, run = stored_outputs(*args)
    return bool((exact == run).all())


def real_outputs(accumulators, scale, ends):
    product = accumulators * scale.numerator
    shift = scale.denominator.bit_length() - 1
    return saturate(rounding_shift(product, shift, "half_to_even"), *ends)


def choose(cases, ends, target, kernel=float32_kernel):
    scales, low, high = zip(*cases, strict=True)
    reachable = Interval(int64(*low), int64(*high))
    return choose_multipliers(scales, levels(*ends), reachable, kernel, target)


@every_rounding
@thoroughly(60)
@given(st.lists(channel(), min_size=1, max_size=4), output_ends())
def test_exact_means_equal_on_every_accumulator(rounding, cases, ends):
    choice = choose(cases, ends, TARGETS[rounding])
    assert choice.exact.all()
    for i, (_, low, high) in enumerate(cases):
        chosen = choice.multiplier[i], choice.shift[i]
        assert agree(everything(low, high), *chosen, ends, rounding, float32_kernel)


@every_rounding
@thoroughly(40)
@given(channel(), output_ends())
def test_no_exact_neighbour_is_nearer_to_real_arithmetic(rounding, case, ends):
    scale, low, high = case
    target, accumulators = TARGETS[rounding], everything(low, high)
    choice, real = choose([case], ends, target), real_outputs(accumulators, scale, ends)
    start, shift = saturating_multiplier(scale, target.multiplier_bits)
    distances = {}
    for change in range(-NEAR, NEAR + 1):
        exact, run = stored_outputs(
            accumulators, start + change, shift, ends, rounding, float32_kernel
        )
        if (exact == run).all() and start + change < 1 << 24:
            distances[start + change] = np.abs(exact - real).sum()
    if distances:
        chosen, fewest = int(choice.multiplier[0]), min(distances.values())
        assert choice.exact[0] and distances[chosen] == fewest
        changes = [abs(m - start) for m, moved in distances.items() if moved == fewest]
        assert abs(chosen - start) == min(changes)


@every_rounding
@thoroughly(40)
@given(st.lists(channel(), min_size=1, max_size=4), output_ends())
def test_a_channel_is_chosen_alone_deterministically_and_within_the_width(
    rounding, cases, ends
):
    choice = choose(cases, ends, TARGETS[rounding])
    assert ((choice.multiplier > 0) & (choice.multiplier < 1 << 24)).all()
    assert ((choice.shift >= 1) & (choice.shift <= 61)).all()
    singles = [choose([case], ends, TARGETS[rounding]) for case in cases]
    for name in ("multiplier", "shift", "exact"):
        assert getattr(choice, name).tolist() == [getattr(c, name)[0] for c in singles]


@every_rounding
@thoroughly(40)
@given(channel(), output_ends(), st.integers(1, 31))
def test_the_portable_kernel_takes_the_nearest_multiplier_or_one_nearer_to_real(
    rounding, case, ends, bits
):
    target = replace(TARGETS[rounding], multiplier_bits=bits)
    choice = choose([case], ends, target, PORTABLE_KERNELS[rounding])
    start, shift = saturating_multiplier(case[0], target.multiplier_bits)
    assert choice.exact[0] and choice.shift[0] == shift
    assert abs(choice.multiplier[0] - start) <= NEAR and choice.multiplier[0] < 1 << bits


@every_rounding
@thoroughly(60)
@given(st.integers(10, 22), st.integers(-(2**31), 0), st.integers(0, 2**31 - 1), st.data())
def test_any_channel_is_exact_whose_output_range_spans_up_to_2_to_the_23(
    rounding, bits, low, high, data
):
    """Then every threshold lies where float32 holds the accumulator exactly."""
    ends = data.draw(output_ends())
    mantissa = data.draw(st.integers(1 << 39, (1 << 40) - 1))
    scale = Fraction(256 * mantissa, 1 << 40 + bits)
    choice = choose([(scale, low, high)], ends, TARGETS[rounding])
    parameters = choice.multiplier, choice.shift, levels(*ends), rounding
    points = near_thresholds(low, high, meaning_thresholds(*parameters)[0])
    chosen = choice.multiplier[0], choice.shift[0]
    assert choice.exact[0]
    assert agree(points, *chosen, ends, rounding, float32_kernel)


@every_rounding
@pytest.mark.parametrize("exponent", [-30, -20, -10, -8, -4, -1, 0, 1, 10, 21, 22, 40])
def test_power_of_two_scales_full_of_ties_are_exact(rounding, exponent):
    case, ends = (Fraction(2) ** exponent, -100_000, 99_999), (128, 0, 255)
    choice = choose([case], ends, TARGETS[rounding])
    chosen = choice.multiplier[0], choice.shift[0]
    assert choice.exact[0]
    assert agree(everything(*case[1:]), *chosen, ends, rounding, float32_kernel)
    if rounding == "half_to_even":  # the kernel's own rule: nothing needs to move
        assert chosen == saturating_multiplier(case[0], ONNX.multiplier_bits)


def test_scale_zero_keeps_multiplier_zero():
    choice = choose(
        [(Fraction(0), -(2**31), 2**31 - 1), (Fraction(1, 100), 0, 9)], UINT8, ONNX
    )
    assert choice.multiplier[0] == 0 and choice.exact.all()
    assert choice.multiplier[1] > 0


def test_where_no_neighbour_is_exact_the_nearest_stays_and_says_so():
    def one_too_high(*args):
        return float32_kernel(*args) + 1

    scales = Fraction(1, 3), Fraction(1, 77)
    choice = choose([(scale, -1000, 1000) for scale in scales], UINT8, ONNX, one_too_high)
    assert not choice.exact.any()
    for i, scale in enumerate(scales):
        assert (choice.multiplier[i], choice.shift[i]) == saturating_multiplier(
            scale, ONNX.multiplier_bits
        )


def test_one_channel_without_an_exact_neighbour_leaves_the_others_alone():
    def wrong_beyond_1000(acc, *scale):
        return float32_kernel(acc, *scale) + (acc > 1000)

    cases = [(Fraction(1, 77), -1000, top) for top in (1000, 5000, 900)]
    choice = choose(cases, UINT8, ONNX, wrong_beyond_1000)
    assert choice.exact.tolist() == [True, False, True]


def layer(cells, rng, channels=256):
    """Random channels of a layer as it occurs: the intervals of its accumulators, scales."""
    weights = np.clip(np.rint(rng.normal(0, 30, (channels, cells))), -127, 127)
    positive, negative = np.maximum(weights, 0).sum(axis=1), np.minimum(weights, 0).sum(axis=1)
    high = 127 * positive - 128 * negative
    low = -128 * positive + 127 * negative
    factor = 255 / (8 * cells**0.5 * 1200) * rng.uniform(0.5, 2.0, channels)
    scales = [Fraction(float(np.float32(scale))) for scale in factor]
    return list(zip(scales, low.astype(int).tolist(), high.astype(int).tolist(), strict=True))


def changes_until_exact(case, ends, rounding):
    """By how many units the multiplier has to move, tried by the proof's own comparison."""
    start, shift = saturating_multiplier(case[0], ONNX.multiplier_bits)
    steps, reachable = levels(*ends), Interval(*(int64(end) for end in case[1:]))
    for distance in range(NEAR + 1):
        for change in (distance, -distance):
            parameters = int64(start + change), int64(shift)
            thresholds = meaning_thresholds(*parameters, steps, rounding)
            if not kernel_mismatches(
                float32_kernel, *parameters, thresholds, steps, reachable
            ).any():
                return distance
    return NEAR + 1


@pytest.mark.thinned
@every_rounding
@pytest.mark.parametrize(
    ("shape", "cells", "at_once", "farthest"),
    [
        ("depthwise 3x3", 9, 0.90, 2),
        ("1x1x256", 256, 0.75, 4),
        ("3x3x64", 576, 0.55, 5),
        slow("FC 3072", 3072, 0.35, 8),
    ],
)
def test_every_channel_of_usual_layers_is_exact_within_a_few_units(
    shape, cells, at_once, farthest, rounding
):
    rng = np.random.default_rng(cells)
    cases, ends = layer(cells, rng), (128, 0, 255)
    choice = choose(cases, ends, TARGETS[rounding])
    assert choice.exact.all(), shape
    changes = np.array([changes_until_exact(case, ends, rounding) for case in cases])
    assert (changes == 0).mean() >= at_once
    assert changes.max() <= farthest
    for i in range(0, len(cases), 1 if cells < 100 else 256):
        chosen = choice.multiplier[i], choice.shift[i]
        assert agree(everything(*cases[i][1:]), *chosen, ends, rounding, float32_kernel)
