"""Forms: near to real arithmetic within what their roundings allow, and by hand."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsets.errors import UsageError
from opsets.forms import ADD_FORMS, MEAN_FORMS, POOL_FORMS, SLOPE_FORMS, sloped
from opsets.rounding import ROUNDING_RULES
from opsets.target import load_target, target_names
from tests.support.op_loops import exact_round
from tests.support.thoroughness import thoroughly

scale = st.floats(1e-3, 1.0).map(lambda value: float(np.float32(value)))
ratio = st.floats(0.25, 4.0)
LEVELS = np.arange(-255, 256)
PAIRS = np.meshgrid(np.arange(-255, 256, 7), np.arange(-255, 256, 11))

each_target = pytest.mark.parametrize("name", target_names())


def multiplier_error(target):
    """How much of a scale the target's elementwise multipliers may lose."""
    return 2.0 ** -(6 if target.elementwise_bits == 7 else 20)


def rounding_error(target):
    """Of two roundings the first may be to halves, before the second."""
    return (0.75 if ROUNDING_RULES[target.rounding].int32 else 0.5) + 2**-8


@each_target
@thoroughly(100)
@given(scale, ratio, ratio)
def test_a_sum_is_near_to_the_real_one(name, y_scale, to_a, to_b):
    target, (a, b) = load_target(name), PAIRS
    form, scales = ADD_FORMS[target.add], (y_scale * to_a, y_scale * to_b, y_scale)
    levels = form.levels(a, b, form.numbers(*scales, target), target.rounding, 1)
    real = (a * scales[0] + b * scales[1]) / y_scale
    roundings = 1.0 if target.add == "operands_rounded" else 0.5  # of the last ones
    slack = multiplier_error(target) * (np.abs(a) * to_a + np.abs(b) * to_b)
    assert (np.abs(levels - real) <= roundings + 2**-8 + slack).all()


def test_the_sum_of_one_rounding_is_the_real_one_rounded():
    target, (a, b) = load_target("exact"), PAIRS
    form, scales = ADD_FORMS["one_rounding"], (0.375, 0.25, 0.5)
    pairs = form.numbers(*scales, target)
    expected = [exact_round(Fraction(int(n), 4), "half_to_even") for n in (3 * a + 2 * b).flat]
    assert form.levels(a, b, pairs, target.rounding, 1).ravel().tolist() == expected


def test_tpu_mlir_rounds_each_operand():
    target, form = load_target("bm1684x"), ADD_FORMS["operands_rounded"]
    pairs = form.numbers(0.5, 0.5, 1.0, target)
    assert pairs == [(1, 1), (1, 1)]
    operands = np.array([1, -1, 3]), np.array([1, -1, -1])
    levels = [form.levels(*operands, pairs, target.rounding, sign) for sign in (1, -1)]
    assert levels[0].tolist() == [2, 0, 2]  # of 1, -1 and 1
    assert levels[1].tolist() == [0, 0, 2]  # of 0, 0 and 2


@each_target
@thoroughly(100)
@given(st.integers(1, 200))
def test_an_average_is_near_to_the_real_one(name, cells):
    target, sums = load_target(name), np.arange(-255, 256, 5) * cells + cells // 3
    form = POOL_FORMS[target.average_pool]
    levels = form.levels(sums, cells, form.numbers(1.0, cells, target), target.rounding)
    slack = multiplier_error(target) * np.abs(sums) / cells
    assert (np.abs(levels - sums / cells) <= rounding_error(target) + slack).all()


@pytest.mark.parametrize("cells", range(1, 50))
def test_a_divided_average_rounds_half_away(cells):
    form, sums = POOL_FORMS["divided"], np.arange(-300, 301)
    expected = [exact_round(Fraction(int(total), cells), "half_away") for total in sums]
    target = load_target("tflite")
    pair = form.numbers(1.0, cells, target)
    assert form.levels(sums, cells, pair, target.rounding).tolist() == expected


@each_target
@thoroughly(100)
@given(scale, ratio, st.integers(1, 5000))
def test_a_mean_is_near_to_the_real_one(name, y_scale, to_x, cells):
    target, sums = load_target(name), np.arange(-255, 256, 5) * cells + cells // 3
    form, real_scale = MEAN_FORMS[target.mean], y_scale * to_x / y_scale
    pair = form.numbers(real_scale, cells, target)
    levels = form.levels(sums, cells, pair, target.rounding)
    assert (np.abs(levels - sums * real_scale / cells) <= rounding_error(target)).all()


@each_target
@thoroughly(100)
@given(st.lists(st.floats(-2.0, 2.0), min_size=2, max_size=5))
def test_slopes_are_near_to_the_real_ones(name, slopes):
    target, slope_scale = load_target(name), 2.0 / 127
    codes = [round(slope / slope_scale) for slope in slopes]
    form = SLOPE_FORMS[target.slopes]
    numbers = form.numbers("PRelu", 0.5, 0.5, codes, slope_scale, target)
    x = np.repeat(LEVELS[:, None], len(codes), axis=1)
    levels = sloped(x, numbers, target.rounding)
    real = np.where(x < 0, x * np.array(codes) * slope_scale, x)
    largest = max(abs(code) for code in codes) * slope_scale
    lost = largest / 63 if target.slopes == "common_shift" else 2**-20  # codes are truncated
    assert (np.abs(levels - real) <= rounding_error(target) + lost * np.abs(x)).all()


@pytest.mark.parametrize("alpha", [0.1, 0.25, -0.5, 0.0])
@each_target
def test_a_leaky_relu_is_near_to_the_real_one(name, alpha):
    target = load_target(name)
    numbers = SLOPE_FORMS[target.slopes].numbers("LeakyRelu", 0.5, 0.5, [1], alpha, target)
    levels = sloped(LEVELS, numbers, target.rounding)
    real = np.where(LEVELS < 0, LEVELS * alpha, LEVELS)
    slack = multiplier_error(target) * np.abs(real)
    assert (np.abs(levels - real) <= rounding_error(target) + slack).all()


def test_tpu_mlir_truncates_slopes_to_codes_of_one_shift():
    target = load_target("bm1684x")
    numbers = SLOPE_FORMS["common_shift"].numbers(
        "PRelu", 0.5, 0.5, [0.3, -0.26, 0.01], 1.0, target
    )
    assert numbers.codes == [76, -66, 2]  # 0.3 * 2**8 = 76.8
    assert numbers.above == (1, 0) and numbers.below == [(1, 8)]
    x = np.array([[-100, -100, -100], [7, 7, 7]])
    assert sloped(x, numbers, target.rounding).tolist() == [[-30, 26, -1], [7, 7, 7]]


def test_a_slope_that_no_code_holds_is_an_error():
    with pytest.raises(UsageError, match="no 8-bit code holds the slope 200: 127 is"):
        SLOPE_FORMS["common_shift"].numbers(
            "PRelu", 1, 1, [1.0, -200.0], 1.0, load_target("bm1684x")
        )


def test_forms_without_a_rescale_need_one_scale():
    target = load_target("bm1684x")
    for made in (
        lambda: POOL_FORMS["divided"].numbers(0.5, 4, target),
        lambda: POOL_FORMS["reciprocal"].numbers(0.5, 4, target),
        lambda: SLOPE_FORMS["common_shift"].numbers(
            "PRelu", 0.5, 1.0, [0.1, 0.2], 1.0, target
        ),
    ):
        with pytest.raises(UsageError, match=r"one scale for input and output, got 0\.5"):
            made()
