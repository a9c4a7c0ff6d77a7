"""The rule of IntLayerNorm takes the numbers of any normalization, and no others."""

from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsets.multipliers import ScaleError
from opsets.norm_bounds import fits
from opsets.qpasses_v1 import OPS
from qpasses.checking.rules import check_norms
from qpasses.evidence.prove_norms import norm_bound
from qpasses.ir.record import Quantization
from qpasses.lowering.numbers.norm_numbers import Norm, norm_numbers, takes_words
from tests.support.thoroughness import thoroughly

Y, WORDS = Quantization(0.05, 100, "uint8"), Quantization(0.0002, 0, "int16")


def site_of(constants, attributes, x, y=Y):
    low, high = (np.array(end, y.dtype) for end in y.limits)
    ends = {"x_zero": x.zero, "y_zero": y.zero, "y_min": low, "y_max": high}
    given = {name: {**ends, **constants}[name] for name in [*OPS["IntLayerNorm"].inputs][1:]}
    node = SimpleNamespace(op="IntLayerNorm", attrs=attributes)
    return SimpleNamespace(given=given, node=node, inputs=OPS["IntLayerNorm"].inputs)


def real_of(x, norm, y=Y):
    factors = (check_norms._in_steps(each, y) for each in (norm.gamma, norm.beta))
    epsilon = np.array(Fraction(norm.epsilon) * (norm.cells / Fraction(x.scale)) ** 2, object)
    return check_norms._Real([norm.cells], norm.centered, *factors, epsilon)


def problems(constants, attributes, x, real, y):
    """What is found but for the distance; numbers that no type holds count."""
    site = site_of(constants, attributes, x, y)
    try:
        found = [*check_norms._widths(site, real, x), *check_norms._numbers(site, real)]
    except OverflowError as error:
        found = [str(error)]
    return found


def made(seed, cells, dtype, power):
    rng = np.random.default_rng(seed)
    zero = 0 if dtype == "int16" else int(rng.integers(0, 128))
    x = Quantization(float(np.float32(10.0**power)), zero, dtype)
    gamma, beta = (
        (rng.standard_normal(cells) * rng.choice([0, 0.01, 1, 100])).astype(np.float32)
        for _ in range(2)
    )
    epsilon = float(np.float32(rng.choice([0, 1e-12, 1e-5, 0.1])))
    return x, Norm(-1, cells, gamma, beta, epsilon, bool(rng.integers(2)))


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([1, 2, 3, 7, 64, 197, 768, 2048, 4099]),
    st.sampled_from(["uint8", "int8", "int16"]),
    st.integers(-6, 4),
    st.sampled_from([Y, WORDS]),
)
@thoroughly(80)
def test_the_numbers_of_a_norm_are_right_and_their_neighbours_are_not(
    seed, cells, dtype, power, y
):
    x, norm = made(seed, cells, dtype, power)
    try:
        constants, attributes = norm_numbers(x, y, norm)
    except (ScaleError, ValueError):  # none for such rows
        return
    real = real_of(x, norm, y)
    assert problems(constants, attributes, x, real, y) == []
    for step in (-1, 1):
        changed = {**constants, "shift": constants["shift"] + np.int32(step)}
        assert problems(changed, attributes, x, real, y)
        for name in ("root_bits", "factor_bits"):
            if attributes[name] + step >= 0:
                changed = {**attributes, name: attributes[name] + step}
                assert problems(constants, changed, x, real, y)


@pytest.mark.parametrize("y", [Y, WORDS], ids=["bytes", "words"])
@pytest.mark.parametrize("scale", [1e-7, 1e-4, 0.1])
@pytest.mark.parametrize("cells", [2047, 2048, 50176, 1 << 18])
def test_the_numbers_of_long_rows_of_words_are_right_and_their_neighbours_are_not(
    cells, scale, y
):
    x, factors = Quantization(float(np.float32(scale)), 0, "int16"), np.float32([[1], [-0.3]])
    norm = Norm(-1, cells, factors, factors, 1e-5)
    if not takes_words(x, cells, norm.epsilon):
        with pytest.raises(ScaleError, match="bits, there are 62"):
            norm_numbers(x, y, norm)
        return
    constants, attributes = norm_numbers(x, y, norm)
    real = real_of(x, norm, y)
    assert problems(constants, attributes, x, real, y) == []
    rounded = {**attributes, "rounding": "half_to_even"}
    site = site_of(constants, rounded, x, y)
    assert fits(site.given, rounded)
    assert cells == 2047 or norm_bound(site.given, rounded) < 0.25
    if cells < 1 << 18:
        assert [*check_norms._distance(site, real)] == []
    for name in ("root_bits", "factor_bits"):
        for step in (-1, 1):
            changed = {**attributes, name: max(attributes[name] + step, 0)}
            if changed != attributes:
                assert problems(constants, changed, x, real, y)
    for name in ("multiplier", "bias", "epsilon", "shift"):
        changed = {**constants, name: constants[name] - constants[name].dtype.type(1)}
        assert problems(changed, attributes, x, real, y), name


@pytest.mark.parametrize("y", [Y, WORDS], ids=["bytes", "words"])
@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("gamma", lambda real: real.gamma * Fraction(11, 10)),
        ("beta", lambda real: real.beta + 2),
        ("epsilon", lambda real: np.array(real.epsilon + 10**6, object)),
        ("centered", lambda real: not real.centered),
    ],
)
def test_a_meaning_that_is_far_from_the_real_one_is_found_on_rows(name, wrong, y):
    x = Quantization(0.02, 90, "uint8")
    norm = Norm(-1, 16, np.linspace(1, 2, 16, dtype=np.float32), np.ones(16, np.float32), 1e-5)
    constants, attributes = norm_numbers(x, y, norm)
    site = site_of(constants, {**attributes, "rounding": "half_to_even"}, x, y)
    real = real_of(x, norm, y)
    assert [*check_norms._distance(site, real)] == []
    (found,) = check_norms._distance(site, replace(real, **{name: wrong(real)}))
    assert "steps from the real one" in found
