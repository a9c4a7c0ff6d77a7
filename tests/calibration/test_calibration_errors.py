"""What a range costs, expected and measured, and the methods that make it least."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from calibration.methods import (
    METHODS,
    Wanted,
    auto_choice,
    expected_error,
    threshold,
)
from calibration.methods.expected_error import grid
from calibration.methods.spread import Spread
from calibration.statistics import Range
from tests.support.method_tensors import (
    ALL,
    SMOOTH,
    every_smooth,
    every_tensor,
    every_wanted,
    tensors,
)
from tests.support.statistics_of import statistics_of
from tests.support.thoroughness import thoroughly

pytestmark = pytest.mark.filterwarnings("error")


def stored_error(values, stored, wanted):
    """The mean squared error of raw values, measured."""
    scale, lowest, highest = grid(stored, wanted)
    real = np.asarray(values, np.float32).astype(np.float64)
    return ((np.clip(np.rint(real / scale), lowest, highest) * scale - real) ** 2).mean()


@every_smooth
@every_wanted
def test_the_expected_error_is_the_measured_one(tensor, wanted):
    seen = ALL[tensor]
    for share in (0.1, 0.5, 0.9, 1.0):
        stored = Range(share * seen.low, share * seen.high)
        if wanted.symmetric:
            stored = (
                Range(-share * seen.high, share * seen.high) if seen.high else Range(-1, 1)
            )
        expected = stored_error(SMOOTH[tensor], stored, wanted)
        assert expected_error(seen, stored, wanted) == pytest.approx(expected, rel=0.02)


def test_zeros_and_a_tensor_of_zeros_cost_nothing():
    assert expected_error(statistics_of([0, 0]), Range(0, 0), Wanted()) == 0
    few, many = statistics_of([-1, 0.3, 3]), statistics_of([-1, 0.3, 3] + [0] * 97)
    one, other = (expected_error(seen, Range(-1, 2), Wanted()) for seen in (few, many))
    assert one * 3 == pytest.approx(other * 100)


@every_smooth
@pytest.mark.parametrize("bits", [4, 8, 16])
def test_more_codes_do_not_cost_more(tensor, bits):
    seen, wanted, finer = ALL[tensor], Wanted(bits - 2), Wanted(bits)
    costs = [
        expected_error(seen, threshold("mse", seen, each), each) for each in (wanted, finer)
    ]
    assert costs[1] <= costs[0]


def thresholds_searched(low, high, symmetric):
    shares = np.geomspace(0.02, 1, 40)
    if symmetric:
        return [Range(-s * max(-low, high), s * max(-low, high)) for s in shares]
    return [Range(a * low, b * high) for a in shares for b in shares]


@pytest.mark.thinned
@every_smooth
@every_wanted
def test_mse_is_as_good_as_the_best_of_a_search_on_the_raw_values(tensor, wanted):
    values = np.asarray(SMOOTH[tensor], np.float32)[:5000]
    seen = statistics_of(values)
    extremes = min(seen.low, 0), max(seen.high, 0)
    searched = set(thresholds_searched(*extremes, wanted.symmetric))
    best = min(stored_error(values, each, wanted) for each in searched)
    found = stored_error(values, threshold("mse", seen, wanted), wanted)
    assert found <= best * 1.02


@pytest.mark.thinned
@every_tensor
@every_wanted
def test_auto_is_never_worse_than_a_method_it_chooses_among(tensor, wanted):
    seen = ALL[tensor]
    name, chosen = auto_choice(seen, wanted)
    assert chosen == threshold("auto", seen, wanted) == threshold(name, seen, wanted)
    errors = {
        each: expected_error(seen, threshold(each, seen, wanted), wanted)
        for each in METHODS
        if not each.startswith("tpumlir")
    }
    assert errors[name] == min(errors.values())
    assert name == next(each for each, error in errors.items() if error == errors[name])


@thoroughly(200)
@given(tensors, st.floats(-9, 9))
def test_a_spread_counts_what_is_beyond_an_edge_within_one_bin(values, edge):
    seen = statistics_of(values)
    assume(seen.low or seen.high)
    width = seen.histogram.width
    spread, real = Spread.of(seen), np.array(values, np.float32).astype(np.float64)
    real = real[real != 0]
    count, total, squares = (float(x[0]) for x in spread.above(np.array([edge])))
    assert (real >= edge + width).sum() <= count * (1 + 1e-12)
    assert count <= (real > edge - width).sum() * (1 + 1e-12)
    beyond = np.maximum(real - edge, 0)
    assert total == pytest.approx(beyond.sum(), abs=len(real) * width * 1.001, rel=1e-9)
    slack = (2 * beyond * width + width**2).sum() * 1.001
    assert squares == pytest.approx((beyond**2).sum(), abs=slack, rel=1e-9)
