"""Counting in C and by numpy: the same integers for any values, in windows of any place."""

from fractions import Fraction
from itertools import product
from math import floor

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from calibration import counting
from calibration.counting import NumpyCounter, Values, fastest_counter
from calibration.histogram import BINS, Histogram, bin_of, least_exponent
from calibration.tally import NO_WINDOW, SLOTS, Tally
from tests.support.thoroughness import thoroughly

pytestmark = pytest.mark.filterwarnings("error")

LARGEST = float(np.finfo(np.float32).max)
LEAST = 2.0**-149
SPECIAL = [
    *[0.0, -0.0, LEAST, -LEAST, 3 * LEAST, 2.0**-126, -(2.0**-126), 2.0**-127],
    *[LARGEST, -LARGEST, 1.0, -1.0, 2.0, -2.0, 4096.0, -4096.0, 1 + 2.0**-23, 1 - 2.0**-24],
    *[1e30, -1e30, 1e-40, -1e-40, 4095.0, 65536.0],
]
BLOCK = 2048
"""Values that C counts at once: a window that holds something may widen behind each."""

SIZES = [0, 1, 2, 3, 4, 5, 31, 32, 33, 63, 64, 255, 256, 257, 2047, 2048, 2049, 2051, 4097]
MOST_DRAFTED = 4 * 0xFF00  # values that C counts in 16 bits
LARGE_SIZES = [16385, 65279, 65280, 65281, MOST_DRAFTED - 1, MOST_DRAFTED, MOST_DRAFTED + 1]
LARGE_SIZES += [4 * 0x10000 + 3, 400_001]

ROW, ROWS = 1, 3
ARRAYS = [
    *["exponents", "firsts", "counts", "lows", "highs", "sample_lows", "sample_highs"],
    *["values", "zeros", "finite"],
]

IN_C = not isinstance(fastest_counter(), NumpyCounter)
COUNTERS = [NumpyCounter(), *([fastest_counter()] if IN_C else [])]
needs_c = pytest.mark.skipif(
    not IN_C, reason="the C library is not built: no compiler was there at installation"
)
every_counter = pytest.mark.parametrize("counter", COUNTERS, ids=["numpy", "C"][: 1 + IN_C])

values = st.floats(width=32, allow_nan=False, allow_infinity=False) | st.sampled_from(SPECIAL)
near = st.floats(-8, 8, width=32) | st.integers(-9000, 9000).map(float)
palettes = st.lists(values, min_size=1, max_size=12) | st.lists(near, min_size=1, max_size=12)


def float32(palette, size, seed=0):
    """``size`` values of a palette, each of its values among them if there is room."""
    real = np.array(palette, np.float32)
    found = np.random.default_rng(seed).choice(real, size)
    found[: min(size, len(real))] = real[:size]
    return np.roll(found, seed)


def window_of(array):
    """Exponent and first bin of a window that holds finite values, which begin it."""
    low, high = float(array.min()), float(array.max())
    exponent = least_exponent(low, high)
    return exponent, bin_of(low, exponent)


def tally_with(window=None, counted=True):
    """An empty one of three tensors; ROW has a window: an exponent and a first bin."""
    tally = Tally(ROWS, range(ROWS) if counted else ())
    if window is not None:
        tally.exponents[ROW], tally.firsts[ROW] = window
    return tally


def observe(counter, tally, array, batch=1, slot=0):
    """Take an array in. What other tensors and other samples have is left as it was."""
    tally.place(batch, slot)
    before = _around(tally, slice(slot, slot + batch))
    counter.observe(tally, ROW, Values.of(array))
    after = _around(tally, slice(slot, slot + batch))
    for was, found in zip(before, after, strict=True):
        assert_equal(was, found)


def assert_equal(one, other, name=""):
    """As numpy's, which takes ten times as long where they are."""
    if not np.array_equal(one, other):
        np.testing.assert_array_equal(one, other, name)


def _around(tally, slots):
    by_row = [getattr(tally, name) for name in ARRAYS if "sample" not in name]
    others = [np.delete(array, ROW, 0) for array in by_row if len(array)]
    for extremes in (tally.sample_lows, tally.sample_highs):
        others += [np.delete(extremes, ROW, 1), np.delete(extremes[:, ROW], slots)]
    return others


def taken(counter, arrays, window=None, counted=True):
    """A tally that took in arrays, each a sample."""
    tally = tally_with(window, counted)
    for slot, array in enumerate(arrays):
        observe(counter, tally, array, 1, slot)
    return tally


def assert_alike(tallies):
    """All of them hold the same numbers."""
    for name in ARRAYS:
        first, *others = [getattr(tally, name) for tally in tallies]
        for other in others:
            assert_equal(first, other, name)


def assert_holds(tally, arrays):
    """``tally`` holds what python finds in arrays, finite, each a sample."""
    slots = range(len(arrays))
    for slot, array in zip(slots, arrays, strict=True):
        low, high = tally.sample_lows[slot, ROW], tally.sample_highs[slot, ROW]
        assert (low, high) == (array.min(initial=np.inf), array.max(initial=-np.inf))
    array = np.concatenate([np.empty(0, np.float32), *map(np.ravel, arrays)])
    assert tally.finite.all()
    assert tally.values.tolist() == [0, array.size, 0]
    low, high = array.min(initial=np.inf), array.max(initial=-np.inf)
    assert (tally.lows[ROW], tally.highs[ROW]) == (low, high)
    found = tally.histogram(ROW) if tally.counted else None
    assert tally.zeros[ROW] == (np.sum(array == 0) if tally.counted else 0)
    if not (tally.counted and array.size):
        assert found is None
        return
    assert tally.counts.sum(1, dtype=np.int64).tolist() == [0, array.size, 0]
    exponent = max(found.exponent, least_exponent(float(low), float(high)))
    assert found.coarsened(exponent) == Histogram.of(array).coarsened(exponent)


def assert_agreement(arrays, window=None, counted=True):
    """All counters find the same, and what is true; returned is what they find."""
    tallies = [taken(counter, arrays, window, counted) for counter in COUNTERS]
    assert_alike(tallies)
    assert_holds(tallies[-1], arrays)
    return tallies[-1]


# Values


@thoroughly(300)
@given(palettes, st.sampled_from(SIZES), st.integers(0, 99), st.booleans())
@example(SPECIAL, 4097, 1, True)
@example([0.0, -0.0], 2049, 0, True)
@example([-LEAST, LARGEST], 2048, 0, True)
@example([LEAST, -LARGEST], 2050, 0, True)
@example([-LEAST, LEAST, 0.0], 33, 0, True)
def test_c_and_numpy_find_the_histogram_of_values(palette, size, seed, counted):
    array = float32(palette, size, seed)
    found = assert_agreement([array], counted=counted)
    if counted and size:
        assert found.histogram(ROW) == Histogram.of(array)


@pytest.mark.parametrize("size", SIZES[1:])
@pytest.mark.parametrize("power", [-149, -140, -127, -126, -103, -102, -1, 0, 12, 100, 127])
def test_they_agree_at_every_border_of_the_sizes_and_of_the_powers_of_two(size, power):
    border = np.float32(2.0**power)
    below, above = np.nextafter(border, np.float32([0, np.inf]))
    palette = [below, border, above if np.isfinite(above) else border]
    for signs in ([1], [-1], [1, -1], [1, 0], [-1, 0]):
        assert_agreement([float32([a * s for s, a in product(signs, palette)], size)])


@pytest.mark.thinned
@pytest.mark.parametrize("size", LARGE_SIZES)
@pytest.mark.parametrize(
    "palette",
    [[0.0], [-3.5], [LEAST, -LEAST], [0.0, 0.0, 0.0, 7.0], [*range(-2000, 2001)], SPECIAL],
    ids=["zeros", "one value", "denormals", "one lane of four", "many bins", "special"],
)
def test_no_count_of_a_large_tensor_overflows(palette, size):
    array = np.resize(np.array(palette, np.float32), size)
    assert_agreement([array, array])


@thoroughly(200)
@given(values, st.integers(-126, 110))
@example(-LEAST, 110)
@example(-LEAST, -126)
@example(LEAST, 110)
def test_a_value_is_in_the_bin_that_whole_numbers_give(value, exponent):
    array = np.array([value], np.float32)
    expected = floor(Fraction(float(array[0])) / Fraction(2) ** exponent)
    if abs(expected) > 1 << 24:
        return  # in no window of these bins
    for counter in COUNTERS:
        tally = taken(counter, [array], (exponent, expected - BINS // 3))
        assert np.flatnonzero(tally.counts[ROW]).tolist() == [BINS // 3]
        assert tally.histogram(ROW).first == expected


@pytest.mark.parametrize("start", range(1, 20))
def test_values_may_begin_at_any_address_of_a_float(start):
    whole = float32(SPECIAL, 5000)
    assert_agreement([whole[start:]])
    assert_agreement([whole[start : start + 32]], counted=False)


@every_counter
@pytest.mark.parametrize("counted", [True, False])
def test_empty_tensors_leave_everything_as_it_was(counter, counted):
    empty = np.empty((0, 3), np.float32)
    for window in (None, (3, 5)):
        assert_alike(
            [tally_with(window, counted), taken(counter, [empty, empty], window, counted)]
        )
    full = float32(SPECIAL, 100)
    tallies = [tally_with(counted=counted) for _ in range(2)]
    for slot, array in ((0, full), (1, empty)):
        observe(counter, tallies[0], array, 1, slot)
    observe(counter, tallies[1], full)
    observe(counter, tallies[0], empty, 5, 7)
    assert_alike(tallies)


# One after the other


@st.composite
def observations(draw):
    """An array, and of how many samples it is."""
    batch = draw(st.sampled_from([1, 1, 1, 2, 5, 9]))
    each = draw(st.sampled_from([size for size in SIZES if size * batch < 5000]))
    return float32(draw(palettes), each * batch, draw(st.integers(0, 99))), batch


def windows_move_apart(tally, array):
    """Whether C, block by block, may end with another window than numpy has at once."""
    if array.size <= BLOCK or tally.exponents[ROW] == NO_WINDOW:
        return False
    bottom, top = tally.window(ROW)
    return not bottom <= float(array.min()) <= float(array.max()) < top


@needs_c
@thoroughly(200)
@given(st.lists(observations(), max_size=6), st.booleans())
def test_c_and_numpy_leave_the_same_tally_after_any_observations(steps, counted):
    tallies, exact, slot = [tally_with(counted=counted) for _ in COUNTERS], True, 1
    for array, batch in steps:
        exact = exact and not (counted and windows_move_apart(tallies[0], array))
        for counter, tally in zip(COUNTERS, tallies, strict=True):
            observe(counter, tally, array, batch, slot)
        slot += batch
        if exact:
            assert_alike(tallies)
    seen = np.concatenate([np.empty(0, np.float32), *[array for array, _ in steps]])
    if not (counted and seen.size):
        return
    exponent = least_exponent(float(seen.min()), float(seen.max()))
    for tally in tallies:
        assert tally.histogram(ROW).coarsened(exponent) == Histogram.of(seen)
    for tally in tallies:  # all the rest is the same
        tally.exponents[:], tally.firsts[:], tally.counts[:] = 0, 0, 0
    assert_alike(tallies)


@every_counter
@thoroughly(80)
@given(palettes, st.integers(1, SLOTS), st.integers(0, 700), st.booleans())
@example([LEAST], 64, 700, True)
def test_each_sample_of_a_batch_has_extremes_of_its_own(
    counter, palette, batch, each, counted
):
    array = float32(palette, batch * each, 3)
    tallies = [tally_with(counted=counted) for _ in range(2)]
    observe(counter, tallies[0], array, batch)
    for slot, sample in enumerate(array.reshape(batch, each)):
        observe(counter, tallies[1], sample.copy(), 1, slot)
    lows, highs = tallies[0].sample_lows, tallies[0].sample_highs
    np.testing.assert_array_equal(lows, tallies[1].sample_lows)
    np.testing.assert_array_equal(highs, tallies[1].sample_highs)
    assert tallies[0].lows[ROW] == tallies[1].lows[ROW]
    assert tallies[0].highs[ROW] == tallies[1].highs[ROW]
    assert tallies[0].values[ROW] == tallies[1].values[ROW] == array.size
    assert tallies[0].zeros[ROW] == tallies[1].zeros[ROW]
    if counted and each:
        histograms = [tally.histogram(ROW).coarsened(window_of(array)[0]) for tally in tallies]
        assert histograms == [Histogram.of(array)] * 2


@every_counter
def test_counting_adds_to_what_is_there(counter):
    array = float32([1.0, 2.0, 3.0], 5000)
    tally = tally_with()
    for times in (1, 2, 3):
        observe(counter, tally, array)
        assert tally.counts[ROW].sum() == tally.values[ROW] == 5000 * times


GROWTH = {
    "up": lambda k: [k * 1000.0, k * 1000.0 + 1],
    "down": lambda k: [-(k**3) * 1000.0],
    "to both sides": lambda k: [-(3.0**k), 3.0**k, 0.0],
    "in magnitude": lambda k: [2.0 ** (6 * k - 126), -(2.0 ** (6 * k - 140))],
    "first far, then near": lambda k: [1e30 / 16.0**k],
    "to the largest": lambda k: [0.0, LARGEST / 2 ** (40 - k), -LARGEST / 2 ** (40 - k)],
    "away from its bins": lambda k: [1e6 + k / 16, 1e6 + k * k / 16],
}


@every_counter
@pytest.mark.parametrize("last", [1, BLOCK - 1, BLOCK])
@pytest.mark.parametrize("growth", GROWTH)
def test_a_window_may_widen_again_and_again_within_a_large_tensor(counter, growth, last):
    blocks = [float32(GROWTH[growth](k), BLOCK, k) for k in range(40)]
    blocks[-1] = blocks[-1][:last]
    array = np.concatenate(blocks)
    for first in (blocks[0], blocks[20], np.zeros(1, np.float32)):
        for rest in (array, array[::-1].copy()):
            assert_holds(taken(counter, [first, rest, first]), [first, rest, first])


@needs_c
@pytest.mark.parametrize("blocks", [126, 127, 128, 129, 200])
def test_a_window_that_widens_after_many_blocks_loses_none_of_them(blocks):
    array = np.zeros(blocks * BLOCK + 5, np.float32)
    array[-7:] = 1e9
    assert_holds(
        taken(fastest_counter(), [array[:1], array, array]), [array[:1], array, array]
    )


# Windows


@thoroughly(100)
@given(st.integers(-126, 110), st.integers(-4096, 4096), st.sampled_from(SIZES[1:]))
@example(-126, -1, 2048)
@example(110, -1, 1)
def test_a_window_holds_its_lower_edge_but_not_its_upper_one(exponent, first, size):
    bottom, top = np.ldexp(np.float32([first, first + BINS]), exponent)
    inside = np.nextafter(top, np.float32(-np.inf))
    below = np.nextafter(bottom, np.float32(-np.inf))
    for palette, fits in (
        ([bottom, inside], True),
        ([bottom, top] if size > 1 else [top], False),
        ([below, inside], False),
    ):
        array = float32(palette, size)
        if size <= BLOCK:
            tally = assert_agreement([array], (exponent, first))
            assert ((tally.exponents[ROW], tally.firsts[ROW]) == (exponent, first)) == fits
        for counter in COUNTERS:
            tally = taken(counter, [array], (exponent, first))
            assert_holds(tally, [array])
            if fits:
                assert (tally.exponents[ROW], tally.firsts[ROW]) == (exponent, first)


@thoroughly(200)
@given(palettes, palettes, st.sampled_from(SIZES), st.integers(0, 5))
def test_they_agree_in_the_window_of_other_values(mine, other, size, seed):
    array, window = float32(mine, size, seed), window_of(float32(other, len(other)))
    for counter in COUNTERS:
        assert_holds(taken(counter, [array], window), [array])
    if size <= BLOCK:
        assert_agreement([array], window)


@every_counter
@pytest.mark.parametrize("size", [1, BLOCK, 2 * BLOCK])
def test_what_is_in_wide_bins_stays_there_when_the_window_of_others_moves(counter, size):
    top = float(np.ldexp(np.float32(BINS), 5))
    inside, outside = (np.full(size, top + k, np.float32) for k in (-40, 40))
    for arrays in ([inside, outside], [np.concatenate([inside, outside])]):
        assert_holds(taken(counter, arrays, (5, 0)), arrays)


def test_the_first_window_is_found_from_all_values_at_once():
    one = np.ones(BLOCK, np.float32)
    assert_agreement([np.concatenate([one, one + np.float32(2.0**-20)])])


@thoroughly(200)
@given(palettes, st.sampled_from(SIZES[1:]))
def test_what_is_in_the_first_window_is_in_the_middle_of_it(palette, size):
    tally = assert_agreement([float32(palette, size)])
    used = np.flatnonzero(tally.counts[ROW])
    before, behind = used[0], BINS - 1 - used[-1]
    assert 0 <= behind - before <= 1


# What is not finite


BAD = [np.nan, -np.nan, np.inf, -np.inf]


def positions(size):
    """Where it may be found by another piece of code."""
    borders = {0, 1, 31, 32, 255, 256, 2047, 2048, size // 2, size - 2, size - 1}
    return sorted(borders & set(range(size)))


@pytest.mark.thinned
@every_counter
@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("size", [*SIZES[1:], 16385])
def test_nan_and_infinity_are_found_wherever_they_are(counter, size, bad, counted):
    good = float32([0.0, 1.0, -2.5, LARGEST], size)
    for position, before in product(positions(size), ([], [good])):
        tally = taken(counter, before, counted=counted)
        array = good.copy()
        array[position] = bad
        observe(counter, tally, array, slot=1)
        assert tally.finite.tolist() == [True, False, True]
        observe(counter, tally, good, slot=2)
        assert not tally.finite[ROW]


@every_counter
@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("bad", BAD)
def test_nan_and_infinity_are_found_in_any_sample_of_a_batch(counter, bad, counted):
    for position in range(0, 12 * 40, 7):
        array = float32([0.0, 1.0, -2.5, 7.0], 12 * 40)
        array[position] = bad
        tally = tally_with(counted=counted)
        observe(counter, tally, array, 12, 5)
        assert tally.finite.tolist() == [True, False, True]


def test_the_largest_numbers_are_finite():
    for size in (1, 33, 5000):
        assert assert_agreement([float32([LARGEST, -LARGEST], size)]).finite.all()


# Without the library


def test_without_the_library_numpy_counts(monkeypatch):
    monkeypatch.setattr(counting, "EXTENSION_SUFFIXES", [".none"])
    assert isinstance(fastest_counter(), NumpyCounter)


@every_counter
def test_values_are_a_view_of_an_array_in_memory(counter):
    array = float32(SPECIAL, 60).reshape(3, 4, 5)
    seen = Values.of(array)
    assert np.shares_memory(seen.array(), array)
    np.testing.assert_array_equal(seen.array(), array.ravel())


@every_counter
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("order", [[ROW], [ROW, 2], [2, ROW]])
def test_a_row_is_counted_wherever_its_place_is(counter, order, batch):
    array = np.linspace(-3, 5, 3000, dtype=np.float32)
    some, whole = Tally(ROWS, order), Tally(ROWS, range(ROWS))
    for tally in (some, whole):
        for part in (array[:999], array):  # the window is widened
            tally.place(batch, 0)
            counter.observe(tally, ROW, Values.of(part))
    np.testing.assert_array_equal(some.counts_of(ROW), whole.counts_of(ROW))
    assert some.histogram(ROW) == whole.histogram(ROW)
    assert some.counts.sum() == some.values[ROW] == 3999
    assert some.zeros[ROW] == whole.zeros[ROW]


@every_counter
@pytest.mark.parametrize("batch", [1, 3])
def test_beside_rows_that_are_counted_others_have_extremes_alone(counter, batch):
    array = np.linspace(-3, 5, 3000, dtype=np.float32)
    some, bare = Tally(ROWS, [0, 2]), Tally(ROWS, ())
    for tally in (some, bare):
        tally.place(batch, 0)
        counter.observe(tally, ROW, Values.of(array))
    assert not some.counts.any() and some.histogram(ROW) is None
    for name in ARRAYS:
        if name not in ("counts", "places"):
            np.testing.assert_array_equal(getattr(some, name), getattr(bare, name), name)
