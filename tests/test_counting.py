"""Counting in C and by numpy: the same integers for any values, in windows of any place."""

from itertools import product

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from method_tensors import thoroughly

from calibration import counting
from calibration.counting import NumpyCounter, Values, Windows, fastest_counter
from calibration.histogram import BINS, Histogram, bin_of, least_exponent

pytestmark = pytest.mark.filterwarnings("error")

LARGEST = float(np.finfo(np.float32).max)
LEAST = 2.0**-149
SPECIAL = [
    *[0.0, -0.0, LEAST, -LEAST, 3 * LEAST, 2.0**-126, -(2.0**-126), 2.0**-127],
    *[LARGEST, -LARGEST, 1.0, -1.0, 2.0, -2.0, 4096.0, -4096.0, 1 + 2.0**-23, 1 - 2.0**-24],
]
SIZES = [0, 1, 2, 3, 4, 5, 31, 32, 33, 63, 64, 2047, 2048, 2049, 2051, 4095, 4096, 4097]
LARGE_SIZES = [16383, 16384, 16385, 70001]

values = st.floats(width=32, allow_nan=False, allow_infinity=False) | st.sampled_from(SPECIAL)
palettes = st.lists(values, min_size=1, max_size=12)


@pytest.fixture(scope="module", autouse=True)
def compiled():
    """The counter in C."""
    if isinstance(fastest_counter(), NumpyCounter):
        pytest.skip("the C library is not built: no compiler was there at installation")
    return fastest_counter()


def float32(palette, size, seed=0):
    """``size`` values of a palette, each of its values among them if there is room."""
    real = np.array(palette, np.float32)
    found = np.random.default_rng(seed).choice(real, size)
    found[: min(size, len(real))] = real[:size]
    return np.roll(found, seed)


def window_of(array):
    """Exponent and first bin of a window that holds finite values, which begin it."""
    if not array.size:
        return 0, 0
    low, high = float(array.min()), float(array.max())
    exponent = least_exponent(low, high)
    return exponent, bin_of(low, exponent)


def windows_at(places):
    """Empty windows at pairs of an exponent and a first bin, guarded on both sides."""
    exponents, firsts = np.array(places, np.int32).reshape(-1, 2).T.copy()
    edges = np.ldexp(np.array([firsts, firsts + BINS], float), exponents)
    guarded = np.zeros((len(places), BINS + 128), np.int64)
    return guarded, Windows(exponents, firsts, edges, [row[64:-64] for row in guarded])


def counted(counter, arrays, places):
    """What a counter finds and writes, as plain lists, its guards unharmed."""
    guarded, windows = windows_at(places)
    found = counter.count([Values.of(array) for array in arrays], windows)
    assert not guarded[:, :64].any() and not guarded[:, -64:].any()
    written = guarded[:, 64:-64].tolist()
    finite, fits = found.finite.tolist(), found.fits.tolist()
    extremes = [
        pair if good else None
        for pair, good in zip(zip(found.lows, found.highs, strict=True), finite, strict=True)
    ]
    return extremes, finite, fits, found.zeros.tolist(), written


def assert_agreement(arrays, places):
    """Both counters find the same; returned is what they find."""
    by_numpy, in_c = (
        counted(counter, arrays, places) for counter in (NumpyCounter(), fastest_counter())
    )
    assert by_numpy == in_c
    extremes = [
        counter.extremes([Values.of(array) for array in arrays])
        for counter in (NumpyCounter(), fastest_counter())
    ]
    for found in extremes:
        assert found.finite.tolist() == in_c[1]
        for k in np.flatnonzero(found.finite):
            assert (found.lows[k], found.highs[k]) == in_c[0][k]
    return in_c


def assert_histogram_agrees(array):
    """Histogram.of finds what both counters do."""
    [(low, high)], [finite], [fits], [zeros], [written] = assert_agreement(
        [array], [window_of(array)]
    )
    assert finite and fits
    assert (low, high) == (array.min(), array.max())
    assert zeros == (array == 0).sum()
    found = Histogram.of(array)
    assert (found.exponent, found.first) == window_of(array)
    assert written[: len(found.counts)] == found.counts.tolist()
    assert not any(written[len(found.counts) :])


# Values


@thoroughly(300)
@given(palettes, st.sampled_from(SIZES[1:]), st.integers(0, 99))
@example(SPECIAL, 4097, 1)
@example([0.0, -0.0], 2049, 0)
@example([-LEAST, LARGEST], 2048, 0)
@example([LEAST, -LARGEST], 2050, 0)
@example([-LEAST, LEAST, 0.0], 33, 0)
def test_c_numpy_and_the_histogram_of_values_agree(palette, size, seed):
    assert_histogram_agrees(float32(palette, size, seed))


@pytest.mark.parametrize("size", [*SIZES[1:], *LARGE_SIZES])
@pytest.mark.parametrize("power", [-149, -140, -127, -126, -103, -102, -1, 0, 12, 100, 127])
def test_they_agree_at_every_border_of_the_sizes_and_of_the_powers_of_two(size, power):
    border = np.float32(2.0**power)
    below, above = np.nextafter(border, np.float32([0, np.inf]))
    palette = [below, border, above if np.isfinite(above) else border]
    for signs in ([1], [-1], [1, -1], [1, 0], [-1, 0]):
        assert_histogram_agrees(float32([a * s for s, a in product(signs, palette)], size))


@thoroughly(100)
@given(st.lists(st.tuples(palettes, st.sampled_from(SIZES)), min_size=1, max_size=6))
def test_several_arrays_in_one_call_are_counted_each_for_itself(drawn):
    arrays = [float32(palette, size) for palette, size in drawn]
    places = [window_of(array) for array in arrays]
    together = assert_agreement(arrays, places)
    apart = [assert_agreement([a], [p]) for a, p in zip(arrays, places, strict=True)]
    assert together == tuple([each[k][0] for each in apart] for k in range(5))


@pytest.mark.parametrize("start", range(1, 9))
def test_values_may_begin_at_any_address(start):
    whole = float32(SPECIAL, 5000)
    assert_histogram_agrees(whole[start:])


def test_an_empty_array_is_finite_fits_and_has_no_extremes():
    empty = np.empty((0, 3), np.float32)
    extremes, finite, fits, zeros, written = assert_agreement([empty], [(3, 5)])
    assert extremes == [(np.inf, -np.inf)]
    assert (finite, fits, zeros) == ([True], [True], [0])
    assert not any(written[0])
    assert_agreement([], [])


# What does not fit


@pytest.mark.parametrize("bad", [np.nan, -np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("size", [*SIZES[1:], 16385])
def test_nan_and_infinity_are_found_wherever_they_are_and_nothing_is_counted(bad, size):
    good = float32([0.0, 1.0, -2.5, 7.0], size)
    borders = {0, 1, 31, 32, 2047, 2048, size // 2, size - 2, size - 1}
    for position in sorted(borders & set(range(size))):
        array = good.copy()
        array[position] = bad
        _, finite, fits, zeros, written = assert_agreement([array, good], [(-8, -2048)] * 2)
        assert (finite, fits, zeros[0]) == ([False, True], [False, True], 0)
        assert not any(written[0])
        assert sum(written[1]) == size


@thoroughly(100)
@given(st.integers(-126, 110), st.integers(-4096, 4096), st.sampled_from(SIZES[1:]))
@example(-126, -1, 2048)
@example(110, -1, 1)
def test_a_window_holds_its_lower_edge_but_not_its_upper_one(exponent, first, size):
    bottom, top = np.ldexp(np.float32([first, first + BINS]), exponent)
    inside = np.nextafter(top, np.float32(-np.inf))
    below = np.nextafter(bottom, np.float32(-np.inf))
    for array, fits in (
        (float32([bottom, inside], size), True),
        (float32([bottom, top] if size > 1 else [top], size), False),
        (float32([below, inside], size), False),
    ):
        _, _, found, _, written = assert_agreement([array], [(exponent, first)])
        assert found == [fits]
        assert sum(written[0]) == fits * size


@thoroughly(200)
@given(palettes, palettes, st.sampled_from(SIZES), st.integers(0, 5))
def test_they_agree_on_what_does_not_fit_into_the_window_of_others(mine, other, size, seed):
    place = window_of(float32(other, len(other)))
    _, _, [fits], _, [written] = assert_agreement([float32(mine, size, seed)], [place])
    assert sum(written) == (size if fits else 0)


def test_counting_adds_to_what_is_there():
    array = float32([1.0, 2.0, 3.0], 5000)
    for counter in (NumpyCounter(), fastest_counter()):
        _, windows = windows_at([window_of(array)])
        for times in (1, 2, 3):
            counter.count([Values.of(array)], windows)
            assert sum(windows.counts[0]) == 5000 * times


# Without the library


def test_without_the_library_numpy_counts(monkeypatch):
    monkeypatch.setattr(counting, "EXTENSION_SUFFIXES", [".none"])
    assert isinstance(fastest_counter(), NumpyCounter)
