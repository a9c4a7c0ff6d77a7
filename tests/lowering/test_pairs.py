"""IntAdd on all pairs: the chosen multipliers, onnxruntime's kernel, real arithmetic."""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from opsets.qpasses_v1 import OPS
from opsets.target import load_target
from qpasses.evidence.prove_pairs import add_inputs, all_pairs, kernel_differences, real_sum
from qpasses.ir.record import Quantization
from qpasses.ir.runtime import run_op
from qpasses.lowering.numbers import add_numbers
from qpasses.lowering.numbers.add_numbers import choose_add

ONNX = load_target("onnx")
EVEN = {"rounding": "half_to_even"}


@dataclass(frozen=True)
class Sum:
    """y = a + b: the parameters of all three, and the clamp."""

    a: Quantization
    b: Quantization
    y: Quantization
    bounds: tuple[int, int]

    @property
    def overload(self):
        whole = self.bounds == self.y.limits
        return "onnxruntime" if whole else "onnxruntime_clamped"

    def choose(self, target):
        return choose_add(self.a, self.b, self.y, self.bounds, target)

    def inputs(self, choice):
        multipliers = choice.a_multiplier, choice.b_multiplier, choice.shift
        return add_inputs(self.a, self.b, self.y, self.bounds, *map(int, multipliers))

    def real(self):
        return real_sum(self.a, self.b, self.y, self.bounds)

    def parts(self):
        """By fractions: what each code of either operand is in steps of the sum."""
        return [
            [
                Fraction(of.scale) * (code - of.zero_point) / Fraction(self.y.scale)
                for code in codes.ravel().tolist()
            ]
            for of, codes in zip((self.a, self.b), all_pairs(self.a.dtype), strict=True)
        ]

    def stored(self, real):
        """By fractions: the stored sum of a real one in steps."""
        low, high = self.bounds
        return min(max(round(real) + self.y.zero_point, low), high)


def make(dtype, scales, zeros, bounds=None):
    parameters = [
        Quantization(float(np.float32(scale)), zero, dtype)
        for scale, zero in zip(scales, zeros, strict=True)
    ]
    return Sum(*parameters, bounds or parameters[2].limits)


def random_sum(seed):
    rng = np.random.default_rng(seed)
    dtype = "int8" if seed % 5 == 4 else "uint8"
    limits = np.iinfo(dtype)
    zeros = rng.integers(limits.min, limits.max, 3, endpoint=True).tolist()
    scales = np.exp(rng.uniform(-8, 1)) * np.exp(rng.uniform(-1.5, 1.5, 3))
    bounds = (zeros[2], limits.max) if seed % 4 == 3 else None  # a Relu behind the sum
    return make(dtype, scales.tolist(), zeros, bounds)


ORDER_MATTERS = (227, 264, 278)
"""At the nearest multipliers onnxruntime's kernel is wrong in one order of the operands."""

RANDOM = {f"random {seed}": random_sum(seed) for seed in (*range(30), *ORDER_MATTERS)}
TIED = {
    "half of two": make("uint8", (0.25, 0.25, 0.5), (128, 0, 4)),
    "half of two, int8": make("int8", (0.25, 0.25, 0.5), (0, -128, -4)),
    "powers of two": make("uint8", (0.5, 0.125, 1.0), (128, 127, 128)),
    "powers of two, int8": make("int8", (0.125, 0.0625, 0.25), (-1, 0, 0)),
}
ODD = {
    f"{name}, odd zero": replace(each, y=replace(each.y, zero_point=each.y.zero_point + 1))
    for name, each in TIED.items()
}
UNEQUAL = {
    "equal scales": make("uint8", (0.1, 0.1, 0.1), (7, 128, 201)),
    "a thousandth second": make("uint8", (1.0, 0.001, 1.0), (128, 0, 127)),
    "a thousandth first": make("uint8", (0.001, 1.0, 1.0), (0, 128, 127)),
    "a thousandth, int8": make("int8", (1.0, 0.001, 1.0), (0, 127, 1)),
    "into a thousandth": make("uint8", (9.0, 8.0, 0.008), (9, 250, 128)),
    "into a thousandfold": make("uint8", (0.3, 0.2, 250.0), (0, 255, 9)),
    "a trillionth second": make("uint8", (1.1, 1e-12, 0.7), (0, 0, 1)),
    "nothing second": make("uint8", (1.0, 1e-30, 1.0), (0, 0, 0)),
}
SUMS = RANDOM | TIED | UNEQUAL


def every(sums):
    return pytest.mark.parametrize("each", sums.values(), ids=list(sums))


@cache
def chosen(each):
    return each.choose(ONNX)


def assert_kernel_is_meaning(inputs, overload, a, b):
    """In both orders, optimized or not."""
    for operands in (inputs | {"a": a, "b": b}, swapped(inputs | {"a": a, "b": b})):
        arrays = list(operands.values())
        expected = OPS["IntAdd"].reference(*arrays, **EVEN)
        for optimize in (False, True):
            found = run_op("IntAdd", overload, arrays, EVEN, optimize=optimize)
            np.testing.assert_array_equal(found, expected, strict=True)


def swapped(inputs):
    other = {"a": "b", "b": "a"}
    return {n: inputs[other[n[0]] + n[1:]] if n[0] in other else inputs[n] for n in inputs}


def gaps(each, choice):
    meaning = OPS["IntAdd"].reference(*each.inputs(choice).values(), **EVEN)
    return np.abs(meaning.astype(np.int64) - each.real())


@every(SUMS)
def test_an_exact_choice_is_found_and_fits_the_width(each):
    choice = chosen(each)
    pair = int(choice.a_multiplier), int(choice.b_multiplier)
    assert choice.exact
    assert kernel_differences(each.inputs(choice), each.overload, "half_to_even") == 0
    assert 1 << 22 < max(pair) < 1 << 24 and min(pair) >= 0 and 1 <= choice.shift <= 61


@every(SUMS)
def test_onnxruntime_adds_all_pairs_as_meant_flat_and_broadcast(each):
    inputs = each.inputs(chosen(each))
    column, row = inputs["a"], inputs["b"]
    flat = [np.ascontiguousarray(v).ravel() for v in np.broadcast_arrays(column, row)]
    shuffle = np.random.default_rng(0).permutation(flat[0].size)
    for a, b in (flat, (column, row), (row, column), [v[shuffle] for v in flat]):
        assert_kernel_is_meaning(inputs, each.overload, a, b)


@pytest.mark.thinned
@every(SUMS)
def test_onnxruntime_adds_tails_and_scalars_as_meant(each):
    inputs = each.inputs(chosen(each))
    codes, rng = inputs["b"].ravel(), np.random.default_rng(1)
    for size in range(1, 41):
        a, b = rng.choice(codes, (2, size))
        for other in (b, b[:1], b[0].reshape(())):
            assert_kernel_is_meaning(inputs, each.overload, a, other)
        assert_kernel_is_meaning(inputs, each.overload, a[:, None], b[None, :3])


@every({name: SUMS[name] for name in ("random 1", "random 4", "powers of two")})
def test_a_scalar_operand_adds_as_meant_for_every_code(each):
    inputs = each.inputs(chosen(each))
    codes = inputs["b"].ravel()
    for code in codes:
        assert_kernel_is_meaning(inputs, each.overload, codes, code.reshape(()))


@every(SUMS | ODD)
def test_exact_is_what_a_comparison_of_all_pairs_says(each):
    choice = chosen(each)
    differences = kernel_differences(each.inputs(choice), each.overload, "half_to_even")
    assert choice.exact == (differences == 0)


@every({name: RANDOM[name] for name in (f"random {seed}" for seed in ORDER_MATTERS)})
def test_a_pair_that_is_wrong_in_one_order_only_is_a_difference(each, monkeypatch):
    monkeypatch.setattr(add_numbers, "kernel_agrees", lambda *_: False)
    inputs = each.inputs(each.choose(ONNX))  # so the nearest multipliers stay
    full = dict(zip("ab", np.broadcast_arrays(inputs["a"], inputs["b"]), strict=True))
    meaning = OPS["IntAdd"].reference(*inputs.values(), **EVEN)
    wrong = [
        run_op("IntAdd", each.overload, list(operands.values()), EVEN) != meaning
        for operands in (inputs | full, swapped(inputs | full))
    ]
    found = kernel_differences(inputs, each.overload, "half_to_even")
    assert found >= (wrong[0] | wrong[1]).sum()


@every(SUMS)
def test_the_meaning_is_real_arithmetic_but_for_one_step_in_few_pairs(each):
    off = gaps(each, chosen(each))
    assert off.max() <= 1
    assert (off > 0).mean() < 0.001


@pytest.mark.thinned
@every({name: SUMS[name] for name in ("random 0", "random 3", "random 4", *UNEQUAL)})
def test_the_real_sum_equals_fractions_on_every_pair(each):
    first, second = each.parts()
    assert each.real().tolist() == [[each.stored(a + b) for b in second] for a in first]


@pytest.mark.thinned
@every(SUMS | ODD)
def test_the_real_sum_equals_fractions_on_sampled_pairs_and_ties(each):
    found, (first, second) = each.real(), each.parts()
    places = np.random.default_rng(2).integers(0, 256, (500, 2)).tolist()
    if each in (*TIED.values(), *ODD.values()):
        places += np.ndindex(256, 256)
    for i, j in places:
        assert found[i, j] == each.stored(first[i] + second[j])


@every(TIED)
def test_ties_of_power_of_two_sums_go_to_the_even_level_in_meaning_and_real(each):
    column, row = (codes.astype(int) for codes in all_pairs(each.a.dtype))
    ratios = [Fraction(v.scale) / Fraction(each.y.scale) for v in (each.a, each.b)]
    eighths = (column - each.a.zero_point) * int(8 * ratios[0])
    eighths = eighths + (row - each.b.zero_point) * int(8 * ratios[1])
    real, (low, high) = each.real(), each.bounds
    tie = (eighths % 8 == 4) & (real > low) & (real < high)
    assert tie.sum() > 5000
    assert ((real[tie] - each.y.zero_point) % 2 == 0).all()
    assert gaps(each, chosen(each)).max() == 0


@every(RANDOM)
def test_a_multiplier_far_from_the_scale_leaves_the_real_sum(each):
    choice = chosen(each)
    for name in ("a_multiplier", "b_multiplier"):
        far = np.array(int(getattr(choice, name)) * 63 // 64, np.int32)
        wrong = gaps(each, replace(choice, **{name: far})) > 0
        assert wrong.sum() > 100 + (gaps(each, choice) > 0).sum()


@every(RANDOM)
def test_a_shift_off_by_one_leaves_the_real_sum_by_more_than_a_step(each):
    choice = chosen(each)
    assert gaps(each, replace(choice, shift=choice.shift + 1)).max() > 1


@pytest.mark.parametrize("rounding", ["half_up", "half_away"])
def test_the_kernel_rounds_ties_to_even_only_and_without_ties_serves_every_rounding(rounding):
    tied, untied = TIED["half of two"], RANDOM["random 0"]
    inputs = tied.inputs(chosen(tied))
    assert kernel_differences(inputs, tied.overload, rounding) > 5000
    assert kernel_differences(inputs, f"portable_{rounding}", rounding) == 0
    choice = untied.choose(replace(ONNX, rounding=rounding))
    assert choice.exact
    assert kernel_differences(untied.inputs(choice), untied.overload, rounding) == 0


def test_where_no_neighbour_is_exact_the_nearest_stays_and_says_so(monkeypatch):
    monkeypatch.setattr(add_numbers, "kernel_agrees", lambda *_: False)
    choice = TIED["powers of two"].choose(ONNX)
    assert not choice.exact
    nearest = int(choice.a_multiplier), int(choice.b_multiplier), int(choice.shift)
    assert nearest == (1 << 23, 1 << 21, 24)


def test_differences_are_the_pairs_on_which_the_body_is_wrong():
    each = RANDOM["random 0"]
    inputs = each.inputs(chosen(each))
    meant = OPS["IntAdd"].reference(*inputs.values(), **EVEN)
    lower = inputs | {"y_max": np.array(99, np.uint8)}  # which this body leaves to the type
    found = kernel_differences(lower, "onnxruntime", "half_to_even")
    assert found == (meant > 99).sum() > 0
