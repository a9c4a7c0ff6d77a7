"""Calibration methods against their definitions on the raw values, evaluated plainly."""

from itertools import pairwise
from math import exp, inf, log, pi, sqrt

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from calibration.methods import (
    METHODS,
    NEEDS_HISTOGRAM,
    Wanted,
    kl_of,
    octav_of,
    threshold,
)
from calibration.methods.aciq import gauss_ratio, laplace_ratio
from calibration.methods.entropy import best_edge, divergences
from calibration.methods.spread import magnitudes_from_zero
from calibration.statistics import Range
from opsets.errors import UsageError
from tests.support.method_tensors import (
    ALL,
    NORMAL,
    ODD,
    OUTLIER,
    SMOOTH,
    every_method,
    every_smooth,
    every_tensor,
    every_wanted,
    tensors,
)
from tests.support.statistics_of import statistics_of
from tests.support.thoroughness import thoroughly

pytestmark = pytest.mark.filterwarnings("error")


def assert_fits(found, seen, wanted):
    largest = max(-seen.low, seen.high)
    if wanted.symmetric:
        assert found.low == -found.high
        assert 0 < found.high <= largest or found.high == largest == 0
    else:
        assert seen.low <= found.low <= found.high <= seen.high
        assert found.with_zero().width > 0 or seen.low == seen.high == 0


# Every method


@pytest.mark.thinned
@every_method
@every_wanted
@every_tensor
def test_a_range_lies_within_the_extremes_and_is_not_only_zero(method, wanted, tensor):
    seen = ALL[tensor]
    assert_fits(threshold(method, seen, wanted), seen, wanted)


@every_method
@thoroughly(60)
@given(tensors, st.integers(2, 16), st.booleans(), st.integers(1, 3))
@example([0.0, -0.0, 0.0], 8, True, 1)
@example([1.0, -1.0], 8, False, 2)
def test_a_range_of_any_few_values_fits(method, values, bits, symmetric, samples):
    assume(len(values) >= samples)
    seen, wanted = statistics_of(values, samples), Wanted(bits, symmetric)
    assert_fits(threshold(method, seen, wanted), seen, wanted)


@every_method
@pytest.mark.parametrize("value", [0.0, 5.0, -5.0, 1e-45, 3e38])
def test_a_constant_tensor_keeps_its_value(method, value):
    seen = statistics_of([value] * 10)
    exact = float(np.float32(value))
    assert threshold(method, seen, Wanted()) == Range(exact, exact)
    symmetric = threshold(method, seen, Wanted(symmetric=True))
    assert symmetric == Range(-abs(exact), abs(exact))


@pytest.mark.thinned
@every_method
@every_wanted
@pytest.mark.parametrize("power", [-20, 20])
def test_scaling_by_a_power_of_two_scales_the_range(method, wanted, power):
    if method == "tpumlir-octav":  # it stops at steps below 1e-6, whatever the scale
        return
    one, scaled = (
        threshold(method, statistics_of(values), wanted)
        for values in (OUTLIER - 1, np.ldexp(OUTLIER - 1, power))
    )
    assert [np.ldexp(one.low, power), np.ldexp(one.high, power)] == pytest.approx(
        [scaled.low, scaled.high], rel=1e-12
    )


@every_method
def test_a_mirrored_tensor_has_the_mirrored_range(method):
    for values in (SMOOTH["relu"], SMOOTH["skewed"]):
        seen = statistics_of(values)
        one = threshold(method, seen, Wanted())
        other = threshold(method, statistics_of(-values), Wanted())
        if method.startswith("tpumlir"):  # a signed tensor there, from the least value alone
            assert other.high <= -seen.low
        else:
            bins = 2 * seen.histogram.width
            tolerance = max(0.02 * one.width, bins) if method in ("mse", "auto") else bins
            assert [one.low, one.high] == pytest.approx(
                [-other.high, -other.low], abs=tolerance
            )


@every_method
def test_a_method_needs_a_histogram_exactly_if_it_says_so(method):
    seen = statistics_of(NORMAL[:100], histogram=False)
    if method in NEEDS_HISTOGRAM:
        with pytest.raises(ValueError, match="needs a histogram"):
            threshold(method, seen, Wanted())
    else:
        threshold(method, seen, Wanted())


def test_an_unknown_method_is_an_error_that_names_the_nearest():
    with pytest.raises(UsageError, match="did you mean 'percentile'"):
        threshold("percentil", ALL["normal"], Wanted())
    with pytest.raises(UsageError, match="use one of minmax, moving-average"):
        threshold("xyz", ALL["normal"], Wanted())


# minmax, moving-average, percentile


def test_minmax_is_the_extremes():
    assert threshold("minmax", ALL["two values"], Wanted()) == Range(-1, 3)
    assert threshold("minmax", ALL["two values"], Wanted(symmetric=True)) == Range(-3, 3)


def test_moving_average_is_the_mean_of_the_extremes_of_samples_in_any_order():
    values = [-1, 1, -4, 2, -2, 6]
    for order in ([0, 1, 2, 3, 4, 5], [4, 5, 0, 1, 2, 3]):
        seen = statistics_of(np.array(values)[order], samples=3, histogram=False)
        assert threshold("moving-average", seen, Wanted()) == Range(-7 / 3, 3)
        assert threshold("moving-average", seen, Wanted(symmetric=True)) == Range(-3, 3)


def test_a_moving_average_of_only_zero_leaves_the_extremes():
    seen = statistics_of([1, 1, -1, -1], samples=2)
    assert threshold("moving-average", seen, Wanted()) == Range(-1, 1)


@thoroughly(500)
@given(tensors, st.floats(0.5, 100))
@example([0.0, 0.0, 0.0, 5.0], 100.0)
@example([1.0, 2.0, 300.0], 99.9)
def test_percentile_is_numpys_within_one_bin(values, p):
    seen = statistics_of(values)
    assume(seen.low < seen.high)
    real, slack = np.array(values, np.float64), seen.histogram.width * (1 + 1e-6)
    half = (100 - p) / 2
    found = METHODS["percentile"](seen, Wanted(percentile=p))
    expected = np.percentile(real, [half, 100 - half])
    assert [found.low, found.high] == pytest.approx(expected, abs=slack, rel=0)
    found = METHODS["percentile"](seen, Wanted(percentile=p, symmetric=True))
    assert found.high == pytest.approx(np.percentile(abs(real), p), abs=slack, rel=0)


@every_tensor
def test_all_percent_are_the_extremes_and_fewer_never_reach_farther(tensor):
    seen = ALL[tensor]
    ranges = [
        threshold("percentile", seen, Wanted(percentile=p)) for p in (100, 99.99, 99, 60)
    ]
    assert ranges[0] == seen.range
    if "mostly zero" not in tensor:
        assert all(a.union(b) == a for a, b in pairwise(ranges))


# entropy


def divergence(counts, kept, levels):
    """KL of P and Q, bin by bin."""
    p = [float(c) for c in counts[:kept]]
    p[-1] += float(sum(counts[kept:]))
    inside, q = float(sum(counts[:kept])), [0.0] * kept
    for group in range(levels):
        bins = range(group * kept // levels, (group + 1) * kept // levels)
        filled = [k for k in bins if p[k] > 0]
        for k in filled:
            q[k] = float(sum(counts[b] for b in bins)) / len(filled)
    if any(a > 0 and b == 0 for a, b in zip(p, q, strict=True)):
        return inf
    both = [(a / sum(p), b / inside) for a, b in zip(p, q, strict=True) if a > 0]
    return sum(a * log(a / b) for a, b in both)


@thoroughly(150)
@given(
    st.lists(st.just(0) | st.integers(0, 20) | st.integers(0, 10**9), min_size=5, max_size=70),
    st.integers(1, 4),
)
def test_every_divergence_is_that_of_the_definition(counts, bits):
    assume(counts[-1] and len(counts) > 2**bits)
    edges = np.arange(2**bits, len(counts) + 1)
    expected = np.array([divergence(counts, kept, 2**bits) for kept in edges])
    found = divergences(np.array(counts), bits)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert np.flatnonzero(expected <= expected.min() + 1e-12)[0] + 2**bits == pytest.approx(
        best_edge(np.array(counts), bits), abs=0
    )


@pytest.mark.parametrize("tensor", ["normal", "laplace", "outlier", "relu"])
def test_entropy_takes_the_least_threshold_of_least_divergence(tensor):
    seen = statistics_of(np.asarray((SMOOTH | ODD)[tensor])[:3000])
    counts, width = magnitudes_from_zero(seen)
    thin = counts[: len(counts) // 8 * 8].reshape(-1, 8).sum(axis=1)
    edges = range(128, len(thin) + 1)
    slow = [divergence(thin.tolist(), kept, 128) for kept in edges]
    assert best_edge(thin, 7) == 128 + int(np.argmin(slow))
    found = threshold("entropy", seen, Wanted(symmetric=True)).high
    assert found == min(best_edge(counts, 7) * width, max(-seen.low, seen.high))


def test_entropy_keeps_everything_where_bins_are_no_more_than_levels():
    assert threshold("entropy", ALL["normal"], Wanted(16)) == ALL["normal"].range


# octav


def recursion(values, bits):
    magnitudes = abs(np.asarray(values, np.float32).astype(np.float64))
    magnitudes = magnitudes[magnitudes > 0]
    s = magnitudes.mean()
    for _ in range(200):
        above = magnitudes[magnitudes > s]
        inside = len(magnitudes) - len(above)
        s = above.sum() / (4.0**-bits / 3 * inside + len(above))
    return s


@pytest.mark.thinned
@pytest.mark.parametrize("tensor", ["normal", "relu", "laplace", "outlier", "skewed"])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_octav_is_where_the_recursion_on_the_raw_values_stays(tensor, bits):
    values, seen = (SMOOTH | ODD)[tensor], ALL[tensor]
    found = threshold("octav", seen, Wanted(bits, symmetric=True)).high
    assert found == pytest.approx(recursion(values, bits), rel=1e-3)
    found = threshold("octav", seen, Wanted(bits)).high
    one_more = bits + (seen.low >= 0)
    assert found == pytest.approx(recursion(values, one_more), rel=1e-3)


@every_smooth
def test_more_bits_clip_less(tensor):
    for method in ("octav", "aciq-gauss", "aciq-laplace"):
        highs = [threshold(method, ALL[tensor], Wanted(b, True)).high for b in range(2, 17)]
        assert highs == sorted(highs)


# aciq


@pytest.mark.parametrize("bits", range(2, 17))
def test_aciq_ratios_are_where_the_squared_error_is_least(bits):
    x = np.linspace(0, 40, 400_001)
    for ratio, density in (
        (gauss_ratio(bits), np.exp(-(x**2) / 2) / sqrt(2 * pi)),
        (laplace_ratio(bits), np.exp(-x) / 2),
    ):
        assert x[np.argmin(squared_errors(x, density, bits))] == pytest.approx(ratio, rel=2e-3)


def squared_errors(x, density, bits):
    """2 * integral of (t - a)**2 density from a on, and a**2 / (3 * 4**bits), for each a."""
    step = x[1] - x[0]
    zeroth, first, second = ((density * x**k)[::-1].cumsum()[::-1] * step for k in range(3))
    return 2 * (second - 2 * x * first + x**2 * zeroth) + x**2 / (3 * 4.0**bits)


def test_aciq_ratios_at_eight_bits_are_the_published_ones():
    assert gauss_ratio(8) == pytest.approx(3.92403337, rel=1e-6)  # the optimum: 3.92403549
    assert laplace_ratio(8) == pytest.approx(9.89675982, abs=1e-7)
    assert laplace_ratio(8) * exp(laplace_ratio(8)) == pytest.approx(3 * 4**8)


def test_aciq_gauss_is_the_ratio_times_sigma_told_from_the_range():
    seen = ALL["normal"]
    sigma = (seen.high - seen.low) * 0.175 * (1 + sqrt(pi * log(4))) / sqrt(2 * log(1e5))
    found = threshold("aciq-gauss", seen, Wanted(4, symmetric=True))
    assert found.high == pytest.approx(gauss_ratio(4) * sigma)
    mean = float(NORMAL.astype(np.float64).mean())
    found = threshold("aciq-gauss", seen, Wanted(4))
    assert found.high - mean == pytest.approx(gauss_ratio(4) * sigma, rel=1e-3)
    assert mean - found.low == pytest.approx(gauss_ratio(4) * sigma, rel=1e-3)


def test_aciq_laplace_is_the_ratio_times_the_mean_distance():
    values = np.asarray(SMOOTH["laplace"], np.float32).astype(np.float64)
    b = abs(values - values.mean()).mean()
    found = threshold("aciq-laplace", ALL["laplace"], Wanted(4))
    expected = values.mean() + laplace_ratio(4) * b * np.array([-1, 1])
    assert [found.low, found.high] == pytest.approx(expected, rel=1e-3)


def test_aciq_takes_values_of_one_sign_as_mirrored_with_one_more_bit():
    values = SMOOTH["relu"].astype(np.float64)
    found = threshold("aciq-laplace", ALL["relu"], Wanted(4))
    assert [found.low, found.high] == pytest.approx(
        [0, laplace_ratio(5) * values.mean()], rel=1e-4
    )
    sigma = 2 * values.max() * 0.175 * (1 + sqrt(pi * log(4))) / sqrt(2 * log(1e5))
    found = threshold("aciq-gauss", ALL["relu"], Wanted(4))
    assert [found.low, found.high] == pytest.approx([0, gauss_ratio(5) * sigma])


# TPU-MLIR


def test_tpumlir_rules_on_raw_values_give_the_known_thresholds():
    assert kl_of(OUTLIER) == pytest.approx(1.0004885, rel=1e-7)
    assert octav_of(OUTLIER, 8) == pytest.approx(7.9595, abs=5e-5)
    assert kl_of(NORMAL) == pytest.approx(4.73427, abs=5e-6)
    assert octav_of(NORMAL, 8) == pytest.approx(3.92460, abs=5e-6)


@pytest.mark.parametrize("tensor", ["normal", "outlier", "relu", "laplace", "heavy"])
def test_tpumlir_thresholds_of_the_histogram_are_those_of_the_raw_values(tensor):
    values, seen = np.asarray((SMOOTH | ODD)[tensor], np.float32), ALL[tensor]
    largest, wanted = max(-seen.low, seen.high), Wanted(symmetric=True)
    found = threshold("tpumlir-kl", seen, wanted).high
    assert found == pytest.approx(min(kl_of(values), largest), rel=1e-12)
    found = threshold("tpumlir-octav", seen, wanted).high
    assert found == pytest.approx(octav_of(values, 8), rel=1e-3)
    if tensor in ("normal", "outlier"):
        assert found == pytest.approx(octav_of(values, 8), rel=1e-4)


def test_tpumlir_thresholds_cut_both_ends_and_no_farther_than_the_values_go():
    found = threshold("tpumlir-octav", ALL["normal"], Wanted())
    assert found == threshold("tpumlir-octav", ALL["normal"], Wanted(symmetric=True))
    assert threshold("tpumlir-kl", ALL["normal"], Wanted()) == ALL["normal"].range


def test_tpumlir_octav_clips_less_where_the_least_value_is_about_zero():
    signed, unsigned = (np.append(abs(NORMAL), least) for least in (-1e-5, -1e-7))
    assert octav_of(unsigned, 8) > octav_of(signed, 8) * 1.05
    found = threshold("tpumlir-octav", statistics_of(unsigned), Wanted()).high
    assert found == pytest.approx(octav_of(unsigned, 8), rel=1e-3)
