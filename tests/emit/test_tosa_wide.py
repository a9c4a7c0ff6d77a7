"""Integers of any width in int32 operations, held to int32 by TOSA's reference model."""

from math import isqrt

import numpy as np
import pytest

from opsets.fixed_point import ROUNDINGS
from qpasses.checking.beside.tosa_tools import ReferenceModel
from qpasses.emit.tosa.emit import TosaProgram
from qpasses.emit.tosa.profile import PRO_INT_8K
from qpasses.emit.tosa.program import Program
from qpasses.emit.tosa.quotients import level_of
from qpasses.emit.tosa.roots import quotient, square_root
from qpasses.emit.tosa.wide import LIMB, Wide
from tests.support.tosa_nodes import needs_tools

pytestmark = needs_tools
COUNT = 600


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The results of a program as arrays of Python's integers."""
    runner, folder = ReferenceModel(PRO_INT_8K), tmp_path_factory.mktemp("wide")

    def results(program, values):
        start = program.argument((1,), "i32")
        named = [
            program.add("identity", [each], each.shape, each.element)
            for each in (start, *values)
        ]
        prepared = runner.prepared(TosaProgram(program, named, [], []), folder / "program")
        found = runner.run(prepared, [np.zeros(1, np.int32)], len(named), folder)
        return [np.broadcast_to(each, (COUNT,)).astype(object) for each in found[1:]]

    return results


def integers(bits, seed, signed=True):
    """As many of each length up to so many bits, and the ends."""
    rng = np.random.default_rng([bits, seed])
    ends = [0, 1, 2, 3, (1 << bits) - 1, (1 << bits) - 2, 1 << (bits - 1)]
    some = [int(rng.integers(0, 1 << int(each))) for each in rng.integers(1, bits + 1, COUNT)]
    found = np.array([*ends, *some][:COUNT], object)
    return found * rng.choice([-1, 1], COUNT).astype(object) if signed else found


def whole(limbs):
    return sum(limb << LIMB * place for place, limb in enumerate(limbs))


def rounded(value, bits, rounding):
    """Over 2**bits, of Python's integers."""
    if bits == 0:
        return value
    level, rest = divmod(value + (1 << (bits - 1)), 1 << bits)
    goes_down = level % 2 if rounding == "half_to_even" else value < 0
    return level - int(rest == 0 and rounding != "half_up" and goes_down)


SIZES = [(20, 50, 30), (8, 24, 31), (31, 31, 1), (31, 31, 62), (40, 40, 75), (3, 60, 0)]


@pytest.mark.thinned
@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("sizes", SIZES)
def test_products_sums_and_roundings_are_exact(run, sizes, rounding):
    lengths = *sizes[:2], min(sum(sizes[:2]), 62)
    a, b, c = (integers(bits, place) for place, bits in enumerate(lengths))
    b[:200] = 1 << min(max(sizes[2] - 1, 0), sizes[1] - 1)  # ties
    program = Program()
    x, y, z = (Wide.constant(program, each) for each in (a, b, c))
    level, rest = (x * y).rounded(sizes[2], rounding), x * y - z
    limbs = level.limbs(), rest.limbs()
    found = run(program, [*limbs[0], *limbs[1], level.saturated()])
    expected = np.array([rounded(each, sizes[2], rounding) for each in a * b], object)
    np.testing.assert_array_equal(whole(found[: len(limbs[0])]), expected)
    np.testing.assert_array_equal(whole(found[len(limbs[0]) : -1]), a * b - c)
    near = np.abs(expected) < 1 << 27
    np.testing.assert_array_equal(found[-1][near], expected[near])
    assert (np.abs(found[-1][~near]) >= 1 << 27).all()
    assert (np.sign(found[-1]) == np.sign(expected)).all()


@pytest.mark.parametrize("bits", [20, 45, 60, 61, 62])
def test_roots_are_floored(run, bits):
    radicands = integers(bits, 0, signed=False)
    radicands[100:300] = [isqrt(each) ** 2 for each in radicands[100:300]]
    radicands[300:500] = [max(isqrt(each) ** 2 - 1, 0) for each in radicands[300:500]]
    program = Program()
    (found,) = run(program, [square_root(Wide.constant(program, radicands))])
    np.testing.assert_array_equal(found, [max(isqrt(each), 1) for each in radicands])


@pytest.mark.parametrize("bits", [1, 12, 31, 47, 52, 62])
def test_quotients_of_powers_of_two_are_floored(run, bits):
    divisors = np.maximum(integers(31, bits, signed=False), 1)
    program = Program()
    limbs = quotient(program, bits, program.constant(divisors, "int32")).limbs()
    np.testing.assert_array_equal(whole(run(program, limbs)), (1 << bits) // divisors)


@pytest.mark.parametrize("rounding", [*ROUNDINGS, "down"])
def test_levels_of_quotients_are_searched(run, rounding):
    divisors = np.maximum(integers(40, 1, signed=False), 1)
    level = np.random.default_rng(0).integers(-130, 130, COUNT).astype(object)
    dividends = divisors * level + divisors // 2 - integers(30, 2) % 2
    program = Program()
    a, b = (Wide.constant(program, each) for each in (dividends, divisors))
    (found,) = run(program, [level_of(a, b, (-128, 127), rounding)])
    expected = [nearest(*each, rounding) for each in zip(dividends, divisors, strict=True)]
    np.testing.assert_array_equal(np.clip(found, -128, 127), np.clip(expected, -128, 127))


def nearest(dividend, divisor, rounding):
    level, rest = divmod(dividend, divisor)
    if rounding == "down":
        return level
    ties_up = {
        "half_up": True,
        "half_to_even": level % 2 == 1,
        "half_away": dividend >= 0,
    }[rounding]
    return level + int(2 * rest > divisor or (2 * rest == divisor and ties_up))


def test_sums_along_an_axis_are_exact(run):
    numbers = integers(50, 0).reshape(COUNT // 2, 2)
    program = Program()
    limbs = Wide.constant(program, numbers).total(0).limbs()
    flat = [program.reshape(each, (2,)) for each in limbs]
    ends = [program.concat([each] * (COUNT // 2), 0) for each in flat]
    expected = np.tile(numbers.sum(axis=0), COUNT // 2)
    np.testing.assert_array_equal(whole(run(program, ends)), expected)
