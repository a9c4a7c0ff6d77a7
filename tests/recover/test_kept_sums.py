"""Rounding of weights: sums are kept, as a rule in words says it, and as the checker does."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from opsets import row_blocks
from qpasses import quantize, verify
from qpasses.checking.rules import check_rounding
from qpasses.recover.kept_sums import keep_sums
from tests.support.stage_checks import net, random_feeds
from tests.support.thoroughness import thoroughly

HALF = Fraction(1, 2)
INT8 = (-128, 127)


def in_words(quotients, codes, low, high):
    """The rule, one element at a time, in fractions of a code that 2**30 divides."""
    made = codes.astype(int).tolist()
    wrong = [
        [[Fraction(round((c - q) * 2**30), 2**30) for c, q in zip(*pair, strict=True)]
         for pair in zip(*pairs, strict=True)]
        for pairs in zip(made, quotients.tolist(), strict=True)
    ]  # fmt: skip

    def step(channel, kernel, place, sign):
        made[channel][kernel][place] -= sign
        wrong[channel][kernel][place] -= sign

    def can(channel, kernel, place, sign):
        return low <= made[channel][kernel][place] - sign <= high

    for channel, kernels in enumerate(wrong):
        for kernel, errors in enumerate(kernels):
            sign = 1 if sum(errors) > 0 else -1
            free = [k for k in range(len(errors)) if can(channel, kernel, k, sign)]
            for place in sorted(free, key=lambda k: -sign * errors[k]):
                if abs(sum(errors)) > HALF:
                    step(channel, kernel, place, sign)
        total = sum(map(sum, kernels))
        sign = 1 if total > 0 else -1
        excess = [sign * sum(errors) for errors in kernels]
        for kernel in sorted(range(len(kernels)), key=lambda k: -excess[k]):
            errors = wrong[channel][kernel]
            places = [
                k
                for k in range(len(errors))
                if sign * errors[k] > 0 and can(channel, kernel, k, sign)
            ]
            if places and abs(sum(map(sum, kernels))) > HALF:
                step(channel, kernel, max(places, key=lambda k: sign * errors[k]), sign)
    return np.array(made)


def nearest(quotients, ends=INT8):
    return np.clip(np.rint(quotients), *ends).astype(np.int64)


QUOTIENTS = arrays(
    np.float64,
    array_shapes(min_dims=3, max_dims=3, max_side=6),
    elements=st.one_of(
        st.floats(-127, 127, width=32),
        st.sampled_from([0.5, -0.5, 1.5, 0.25, 126.5, -127.5, 127.49]),
    ),
)


@thoroughly(300)
@given(QUOTIENTS, st.sampled_from([INT8, (0, 255), (-2, 2)]))
@example(np.full((2, 3, 4), 0.5), INT8)
@example(np.full((1, 4, 1), 0.49), INT8)
@example(np.full((1, 4, 1), 127.4), INT8)
@example(np.full((2, 1, 9), -127.6), (-127, 127))
def test_sums_are_kept_as_the_rule_in_words_keeps_them(quotients, ends):
    codes = nearest(quotients, ends)
    expected = in_words(quotients, codes, *ends)
    np.testing.assert_array_equal(keep_sums(quotients, codes, ends), expected)
    np.testing.assert_array_equal(check_rounding.keep_sums(quotients, codes, *ends), expected)


@pytest.mark.parametrize("shape", [(16, 8, 9), (8, 1, 5), (6, 500, 1), (9, 4, 4)])
def test_sums_of_kernels_and_channels_are_right_to_a_code_at_most(shape):
    quotients = np.random.default_rng(1).uniform(-127, 127, shape)
    codes = nearest(quotients)
    made = keep_sums(quotients, codes, INT8)
    channels = (made - quotients).reshape(shape[0], -1).sum(axis=1)
    kernels = (made - quotients).reshape(*shape[:2], -1).sum(axis=2)
    assert np.abs(channels).max() <= 0.5 + 2**-20
    assert np.abs(kernels).max() <= 1.5 + 2**-20
    assert np.abs(made - codes).max() == 1
    np.testing.assert_array_equal(check_rounding.keep_sums(quotients, codes, *INT8), made)


GRAPHS = {
    "conv": "a = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x, k, c) y = Relu (a)",
    "depthwise": "y = Conv <kernel_shape = [3, 3], group = 4> (x, d)",
    "gemm": "f = Flatten (x) y = Gemm (f, m, c)",
    "transposed": "f = Flatten (x) y = Gemm <transB = 1> (f, t)",
    "matmul": "y = MatMul (x, s)",
    "back": "y = ConvTranspose <kernel_shape = [3, 3], strides = [2, 2]> (x, b)",
}


def constants():
    rng = np.random.default_rng(3)
    shapes = {
        **{"k": (4, 4, 3, 3), "c": (4,), "d": (4, 1, 3, 3), "m": (144, 4)},
        **{"t": (5, 144), "s": (6, 7), "b": (4, 2, 3, 3)},
    }
    return {name: rng.normal(0.02, 0.1, shape) for name, shape in shapes.items()}


@pytest.mark.thinned
@pytest.mark.parametrize("per_channel", [True, False])
@pytest.mark.parametrize("graph", GRAPHS)
def test_models_with_kept_sums_differ_in_weights_alone_and_are_verified(graph, per_channel):
    model = net([1, 4, 6, 6], GRAPHS[graph], **constants())
    feeds = [random_feeds(model, seed) for seed in range(3)]
    options = {"per_channel": per_channel}
    plain = quantize(model, feeds, **options)
    made = quantize(model, feeds, weight_rounding="sum-preserving", **options)
    assert made.verdict == verify(made.model, model, feeds).verdict == plain.verdict == "ok"
    unlike = {
        one.name
        for one, other in zip(
            made.model.graph.initializer, plain.model.graph.initializer, strict=True
        )
        if one.raw_data != other.raw_data
    }
    assert unlike
    assert all(name.endswith(("weight_int8", "multiplier")) for name in unlike)


def test_another_rounding_than_the_recorded_one_is_found():
    model = net([1, 4, 6, 6], GRAPHS["conv"], **constants())
    feeds = [random_feeds(model, 0)]
    made = quantize(model, feeds, weight_rounding="sum-preserving").model
    plain = quantize(model, feeds).model
    weights = {each.name: each for each in plain.graph.initializer}
    for tensor in made.graph.initializer:
        if tensor.name.endswith("weight_int8"):
            tensor.CopyFrom(weights[tensor.name])
    found = verify(made, model, feeds)
    assert found.verdict == "failed"
    (problem,) = found.report["summary"]["problems"]
    assert problem.startswith("node 'Conv' (IntConv): w[")


def test_weights_in_many_parts_are_rounded_as_in_one(monkeypatch):
    model = net([1, 4, 6, 6], GRAPHS["gemm"], **constants())
    feeds = [random_feeds(model, 0)]
    whole = quantize(model, feeds, weight_rounding="sum-preserving").model
    monkeypatch.setattr(row_blocks, "AT_ONCE", 200)
    parts = quantize(model, feeds, weight_rounding="sum-preserving").model
    assert parts.SerializeToString() == whole.SerializeToString()
