"""The tally: all values are in its histograms, however they came in and however many."""

import ctypes

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from calibration import tally as module
from calibration.counting import NumpyCounter, Values, fastest_counter
from calibration.histogram import BINS, Histogram, least_exponent
from calibration.tally import FULL, NO_WINDOW, SLOTS, Tally
from tests.support.thoroughness import thoroughly

pytestmark = pytest.mark.filterwarnings("error")

every_counter = pytest.mark.parametrize(
    "counter", [NumpyCounter(), fastest_counter()], ids=["numpy", "fastest"]
)
LARGEST = float(np.finfo(np.float32).max)
float32 = st.floats(width=32, allow_nan=False, allow_infinity=False) | st.sampled_from(
    [0.0, -0.0, 2.0**-149, 2.0**-126, LARGEST, -LARGEST, 1e30, 4095.0, 4096.0]
)
near = st.floats(-8, 8, width=32) | st.integers(-9000, 9000).map(float)
edge = st.sampled_from([0.0, 128000.0, 129000.0, 129528.0, 129568.0, 129608.0, 129600.0])
palettes = st.lists(float32, max_size=5) | st.lists(near, max_size=9) | st.lists(edge)
times = st.sampled_from([1, 1, 1, 700, 1500])


def observed(counter, tally, *tensors):
    """The tally, which took in a sample: of each row its values."""
    for row, values in enumerate(tensors):
        counter.observe(tally, row, Values.of(np.array(values, np.float32)))
    tally.make_room()
    return tally


def assert_holds(tally, row, arrays):
    """A row holds all values of arrays, in bins that follow from them."""
    array = np.concatenate([np.empty(0, np.float32), *arrays])
    low, high = array.min(initial=np.inf), array.max(initial=-np.inf)
    assert (tally.lows[row], tally.highs[row]) == (low, high)
    assert (tally.values[row], tally.zeros[row]) == (array.size, np.sum(array == 0))
    found = tally.histogram(row)
    assert (found is None) == (array.size == 0)
    if found is not None:
        assert found.counts.dtype == np.int64
        assert len(found.counts) <= BINS
        exponent = least_exponent(float(low), float(high))
        assert found.exponent <= exponent
        assert found.coarsened(exponent) == Histogram.of(array)


# In one, in many


class Family:
    """Tallies of two tensors, each made beside another one or for itself; the first stays."""

    def __init__(self, counter):
        self.counter = counter
        self.tallies, self.parents, self.seen = [Tally(2, range(2))], [0], [[[], []]]
        self.alive = [0]

    def observe(self, which, tensors):
        at = self._of(which)
        arrays = [np.array(values, np.float32) for values in tensors]
        observed(self.counter, self.tallies[at], *arrays)
        for row, array in enumerate(arrays):
            self.seen[at][row].append(array)

    def fresh(self, which, beside):
        at = self._of(which)
        self.alive.append(len(self.tallies))
        self.tallies.append(self.tallies[at].beside() if beside else Tally(2, range(2)))
        self.parents.append(at)
        self.seen.append([[], []])

    def absorb(self, which):
        """Some other than the first into the one it was made beside, or what absorbed that."""
        if len(self.alive) == 1:
            return
        at = self.alive.pop(1 + which % (len(self.alive) - 1))
        into = self.parents[at]
        self.parents = [into if parent == at else parent for parent in self.parents]
        self.tallies[into].absorb(self.tallies[at])
        for row in (0, 1):
            self.seen[into][row] += self.seen[at][row]

    def check(self):
        for at in self.alive:
            counts = self.tallies[at].counts
            assert counts.sum(1, dtype=np.int64).max() < module.FULL
        for row in (0, 1):
            assert_holds(self.tallies[0], row, self.seen[0][row])

    def _of(self, which):
        return self.alive[which % len(self.alive)]


tensors = st.tuples(palettes, palettes, times).map(lambda t: (t[0] * t[2], t[1] * t[2]))
steps = st.tuples(
    st.sampled_from(["observe", "observe", "observe", "beside", "fresh", "absorb"]),
    st.integers(0, 9),
    tensors,
)
NEAR_THE_TOP = [129000.0] * 3000 + [129600.0] * 1096


@every_counter
@thoroughly(250)
@given(st.lists(steps, max_size=14), st.sampled_from([1, 2, 5, 9, 30, 3000, FULL]))
@example(  # bins that are wide because of others move, in the window of one that is empty
    [
        ("observe", 0, ([0.0, 128000.0], [])),
        ("beside", 0, ()),
        ("beside", 1, ()),
        ("observe", 2, (NEAR_THE_TOP, [])),
        ("absorb", 1, ()),
        ("absorb", 0, ()),
    ],
    FULL,
)
@example(  # the same, in the window of one that was emptied
    [
        ("observe", 0, ([0.0, 128000.0], [])),
        ("beside", 0, ()),
        ("observe", 1, ([129528.0], [])),
        ("observe", 1, ([129608.0], [])),
        ("absorb", 0, ()),
    ],
    3,
)
def test_all_values_are_in_the_histograms_however_they_came_together(counter, drawn, full):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "FULL", full)
        family = Family(counter)
        for what, which, given_tensors in drawn:
            if what == "observe":
                family.observe(which, given_tensors)
            elif what == "absorb":
                family.absorb(which)
            else:
                family.fresh(which, what == "beside")
            family.check()
        while len(family.alive) > 1:
            family.absorb(len(drawn))
            family.check()


@every_counter
def test_so_many_values_that_32_bits_cannot_count_them_are_counted(counter):
    most = FULL - 1
    total, expected = Tally(2, range(2)), 0
    for value in (1.0, 1.0, 1.0, 5.0, 1.0, 1.0, 5.0):
        part = observed(counter, Tally(2, range(2)), [value, value], [0.0])
        part.counts[0] *= np.uint32(most // 2)
        part.values[0] = 2 * (most // 2)
        expected += 2 * (most // 2)
        total.absorb(part)
        observed(counter, total, [value], [0.0])
        expected += 1
        assert total.counts.sum(1, dtype=np.int64).max() <= FULL
    found = total.histogram(0)
    assert found.counts.sum() == total.values[0] == expected > 1 << 33
    assert found.counts[0] == 5 * (most // 2 * 2 + 1)
    assert found.counts[-1] == 2 * (most // 2 * 2 + 1)
    assert total.histogram(1).counts.tolist() == [14]


@every_counter
def test_a_sample_may_bring_as_many_values_as_were_there(counter):
    tally = observed(counter, Tally(1, range(1)), [3.0])
    tally.counts[tally.counts > 0], tally.values[0] = FULL - 1, FULL - 1
    tally.make_room()
    assert tally.stored == {}
    tally.counts[tally.counts > 0] += FULL - 1
    tally.values[0] += FULL - 1
    tally.make_room()
    assert not tally.counts.any()
    assert tally.histogram(0).counts.tolist() == [2 * FULL - 2]


def test_counts_are_emptied_only_if_they_might_overflow(monkeypatch):
    monkeypatch.setattr(module, "FULL", 10)
    tally = Tally(2, range(2))
    for done, emptied in enumerate([False, False, True, False, False, True], 1):
        observed(NumpyCounter(), tally, [1.0], [2.0, 3.0, 4.0, 5.0])
        assert (not tally.counts.any()) == emptied, done
    tally.make_room(9)
    assert tally.stored[1].counts.sum() == 24
    observed(NumpyCounter(), tally, [1.0], [2.0])
    tally.make_room(8)
    assert tally.counts.any()
    tally.make_room(9)
    assert not tally.counts.any()


@every_counter
@thoroughly(100)
@given(st.lists(st.tuples(palettes, palettes), max_size=4), st.integers(0, 4))
def test_extremes_alone_are_absorbed_too(counter, samples, cut):
    one, other = Tally(2, ()), Tally(2, ())
    for at, sample in enumerate(samples):
        observed(counter, one if at < cut else other, *sample)
    one.absorb(other)
    for row in (0, 1):
        every = [value for sample in samples for value in sample[row]]
        array = np.array(every, np.float32)
        assert one.lows[row] == array.min(initial=np.inf)
        assert one.highs[row] == array.max(initial=-np.inf)
        assert (one.values[row], one.zeros[row]) == (array.size, 0)
    assert one.counts.shape == (0, BINS)
    assert one.stored == {}


# Beside


@every_counter
def test_one_beside_another_has_its_windows_and_nothing_else(counter):
    tally = observed(counter, Tally(3, range(3)), [1.0, 9.0], [-2.0], [])
    tally.place(3, 5)
    other = tally.beside()
    fresh = Tally(3, range(3))
    for name, array in vars(fresh).items():
        if name in ("exponents", "firsts"):
            np.testing.assert_array_equal(getattr(other, name), getattr(tally, name))
        elif name != "desk":
            np.testing.assert_array_equal(getattr(other, name), array)
    assert (other.batch, other.slot) == (1, 0)
    assert [other.histogram(row) for row in range(3)] == [None] * 3
    assert other.window(0) == tally.window(0)
    assert not tally.beside().counts.any()


@every_counter
def test_what_is_beside_another_leaves_that_as_it_was(counter):
    tally = observed(counter, Tally(1, range(1)), [1.0, 9.0])
    before = tally.histogram(0)
    observed(counter, tally.beside(), [1e9, -1e9, 0.0])
    assert tally.histogram(0) == before
    assert (tally.lows[0], tally.highs[0], tally.values[0], tally.zeros[0]) == (1, 9, 2, 0)


@every_counter
def test_what_fits_into_the_windows_of_another_moves_none(counter):
    tally = observed(counter, Tally(1, range(1)), [1.0, 9.0])
    window = tally.window(0)
    other = observed(counter, tally.beside(), [2.0, 3.0])
    assert other.window(0) == window
    tally.absorb(other)
    assert tally.window(0) == window
    assert tally.histogram(0) == Histogram.of(np.array([1, 9, 2, 3], np.float32))


# The desk


POINTED_AT = [
    *[
        "exponents",
        "firsts",
        "places",
        "counts",
        "lows",
        "highs",
        "sample_lows",
        "sample_highs",
    ],
    *["values", "zeros", "finite"],
    *["channel_counts", "channel_places", "channel_lows", "channel_highs", "groups"],
]
WORDS = 4
"""Numbers that stand before the addresses."""


def test_the_desk_holds_what_c_reads_word_by_word():
    tally = Tally(5, range(5), {1: 3, 4: 2})
    assert tally.channel_places[[1, 4]].tolist() == [0, 3]
    tally.place(7, 11)
    assert tally.desk.dtype == np.int64
    assert tally.desk[:WORDS].tolist() == [7, 5, 11, 5]
    assert (tally.batch, tally.slot) == (7, 11)
    assert len(tally.desk) == WORDS + len(POINTED_AT)
    tally.channel_counts.fill(0)
    for word, name in zip(tally.desk[WORDS:].tolist(), POINTED_AT, strict=True):
        array = getattr(tally, name)
        assert array.flags.c_contiguous
        first = np.ctypeslib.as_array(
            (ctypes.c_uint8 * array.itemsize).from_address(word)
        ).view(array.dtype)
        array.flat[0] = 1
        assert first[0] == 1, name
        first[0] = 0
        assert array.flat[0] == 0, name


def test_types_and_shapes_are_those_that_c_knows():
    tally = Tally(5, range(5), {1: 3, 4: 2})
    kinds = {
        name: (getattr(tally, name).dtype, getattr(tally, name).shape) for name in POINTED_AT
    }
    assert kinds == {
        "exponents": (np.int32, (5,)),
        "firsts": (np.int32, (5,)),
        "places": (np.int64, (5,)),
        "counts": (np.uint32, (5, 4096)),
        "lows": (np.float32, (5,)),
        "highs": (np.float32, (5,)),
        "sample_lows": (np.float32, (64, 5)),
        "sample_highs": (np.float32, (64, 5)),
        "values": (np.int64, (5,)),
        "zeros": (np.int64, (5,)),
        "finite": (np.bool_, (5,)),
        "channel_counts": (np.int64, (5,)),
        "channel_places": (np.int64, (5,)),
        "channel_lows": (np.float32, (2, 5)),
        "channel_highs": (np.float32, (2, 5)),
        "groups": (np.uint8, (64,)),
    }
    assert NO_WINDOW == -(1 << 31)


def test_the_desk_of_extremes_alone_has_no_counts():
    assert Tally(5, ()).desk[WORDS + POINTED_AT.index("counts")] == 0
    assert not Tally(0, range(0)).desk[WORDS:-1].any()


def test_the_arrays_are_never_replaced(monkeypatch):
    monkeypatch.setattr(module, "FULL", 4)
    tally = Tally(2, range(2))
    desk, arrays = tally.desk.tolist(), [getattr(tally, name) for name in POINTED_AT]
    for k in range(4):
        observed(NumpyCounter(), tally, [1.0, 0.0, k * 1e6], [2.0])
        tally.absorb(observed(NumpyCounter(), tally.beside(), [1e9], [3.0 * k]))
        tally.clear_samples()
    assert tally.desk.tolist() == desk
    assert all(getattr(tally, n) is a for n, a in zip(POINTED_AT, arrays, strict=True))


# Samples by themselves


@every_counter
def test_extremes_of_samples_are_forgotten_on_demand_only(counter):
    tally = Tally(2, range(2))
    for slot in range(SLOTS):
        tally.place(1, slot)
        observed(counter, tally, [float(slot), -1.0], [])
    assert tally.sample_lows.tolist() == [[-1, np.inf]] * SLOTS
    assert tally.sample_highs.tolist() == [[slot, -np.inf] for slot in range(SLOTS)]
    tally.clear_samples()
    assert (tally.sample_lows == np.inf).all()
    assert (tally.sample_highs == -np.inf).all()
    assert (tally.lows[0], tally.highs[0], tally.values[0]) == (-1, SLOTS - 1, 2 * SLOTS)


def test_a_row_that_counted_nothing_has_no_window_and_no_histogram():
    tally = Tally(2, range(2))
    assert tally.window(1) == (0, 0)
    assert tally.histogram(1) is None
    tally.make_room(FULL)
    assert tally.stored == {}


def test_a_row_that_is_not_counted_itself_is_left_out_where_counts_are_emptied(monkeypatch):
    monkeypatch.setattr(module, "FULL", 2)
    tally = Tally(2, range(2))
    tally.lows[1], tally.highs[1] = 1, 7  # of tensors joined
    observed(NumpyCounter(), tally, [1.0, 7.0, 3.0])
    assert set(tally.stored) == {0}
