"""Nets as TOSA programs: the reference model gives the integers of onnxruntime."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsets.rounding import requantize
from qpasses.api import export
from qpasses.emit.tosa.equal_rescales import (
    UnequalError,
    equal_rescale,
    same_ratios,
    ties,
)
from qpasses.evidence.thresholds import Interval, levels, meaning_thresholds
from tests.support.channel_nets import channel_feeds, channel_net
from tests.support.small_models import numbers
from tests.support.thoroughness import thoroughly
from tests.support.tosa_nets import C6, C8, IMAGE, ROWS, D, K, check, feeds, net
from tests.support.tosa_nodes import needs_tools

CONVOLUTIONS = {
    "as it is": ("y = Conv (x, k, c)", {"k": K, "c": C6}),
    "without a bias": ("y = Conv (x, k)", {"k": K}),
    "pads of their own": ("y = Conv <pads = [1, 0, 2, 1]> (x, k, c)", {"k": K, "c": C6}),
    "strides that leave rows": ("y = Conv <strides = [2, 2]> (x, k, c)", {"k": K, "c": C6}),
    "strides and pads that do": (
        "y = Conv <strides = [3, 2], pads = [1, 1, 1, 1]> (x, k, c)",
        {"k": K, "c": C6},
    ),
    "auto_pad": (
        'y = Conv <auto_pad = "SAME_UPPER", strides = [2, 2]> (x, k, c)',
        {"k": K, "c": C6},
    ),
    "dilations": ("y = Conv <dilations = [2, 1]> (x, k, c)", {"k": K, "c": C6}),
    "groups": (
        "y = Conv <group = 2> (x, k, c)",
        {"k": numbers(6, 2, 3, 3) / 3, "c": C6},
    ),
    "depthwise, two outputs each": (
        "y = Conv <group = 4, pads = [1, 1, 1, 1]> (x, d, c)",
        {"d": D, "c": C8},
    ),
    "a Relu behind": ("a = Conv (x, k, c) y = Relu (a)", {"k": K, "c": C6}),
    "a Relu6 behind": (
        "a = Conv (x, k, c) y = Clip (a, zero, six)",
        {"k": K, "c": C6, "zero": np.float32(0), "six": np.float32(0.6)},
    ),
    "one after the other": (
        "a = Conv (x, k, c) b = Relu (a) e = Conv <group = 6> (b, d, c) y = Add (e, e)",
        {"k": K, "c": C6, "d": numbers(6, 1, 1, 1)},
    ),
}

OTHERS = {
    "three dimensions": (
        "y = Conv <pads = [1, 0, 1, 0, 1, 1], strides = [2, 1, 1]> (x, k)",
        "float[1, 2, 4, 5, 3]",
        {"k": numbers(3, 2, 3, 2, 2) / 3},
    ),
    "one dimension": ("y = Conv <pads = [1, 1]> (x, k)", ROWS, {"k": numbers(4, 6, 3) / 3}),
    "a matrix": ("y = MatMul (x, m)", ROWS, {"m": numbers(8, 5) / 3}),
    "a matrix with a bias": (
        "a = MatMul (x, m) y = Add (a, c)",
        ROWS,
        {"m": numbers(8, 5) / 3, "c": numbers(5)},
    ),
    "stacks of matrices": (
        "a = MatMul (x, m) t = Transpose <perm = [0, 2, 1]> (a) y = MatMul (a, t)",
        ROWS,
        {"m": numbers(8, 5) / 3},
    ),
    "sums": ("a = Sigmoid (x) y = Add (x, a)", IMAGE, {}),
    "sums with a row": ("y = Add (x, r)", IMAGE, {"r": numbers(6)}),
    "sums with channels": (
        "a = Conv (x, k) y = Add (a, r)",
        IMAGE,
        {"k": K, "r": numbers(6, 1, 1)},
    ),
    "halves, whose ties go to even": (
        "a = Relu (x) b = Add (a, a) y = Mul (b, h)",
        IMAGE,
        {"h": np.float32(0.25)},
    ),
    "differences": ("a = Sigmoid (x) y = Sub (x, a)", IMAGE, {}),
    "a logarithm of Softmax": ("y = LogSoftmax <axis = -1> (x)", ROWS, {}),
    "a norm of rows": (
        "y = LayerNormalization (x, g, b)",
        ROWS,
        {"g": numbers(8), "b": numbers(8) / 2},
    ),
    "a norm of channels": (
        "y = InstanceNormalization (x, g, b)",
        IMAGE,
        {"g": numbers(4), "b": numbers(4)},
    ),
    "a norm that is not centered": (
        "q = Mul (x, x) m = ReduceMean (q, last) e = Add (m, s) r = Sqrt (e) "
        "n = Div (x, r) y = Mul (n, g)",
        ROWS,
        {"s": np.float32(1e-5), "g": numbers(8), "last": np.array([-1])},
    ),
    "slopes of channels": ("y = PRelu (x, s)", IMAGE, {"s": numbers(4, 1, 1)}),
    "slopes of elements": ("y = PRelu (x, s)", ROWS, {"s": numbers(6, 8)}),
    "the largest and their places": ("y, z = TopK (x, n)", ROWS, {"n": np.array([3])}),
    "the least along another axis": (
        "y, z = TopK <axis = 1, largest = 0> (x, n)",
        IMAGE,
        {"n": np.array([2])},
    ),
    "the place of the least": (
        "a = Relu (x) z = ArgMin <axis = 1> (a) y = Relu (a)",
        IMAGE,
        {},
    ),
    "the last place of the largest": (
        "a = Relu (x) z = ArgMax <axis = -1, keepdims = 0, select_last_index = 1> (a) "
        "y = Relu (a)",
        IMAGE,
        {},
    ),
    "words between one end and none": (
        "c = Clip (i, n) e = Gather (t, c) f = MatMul (e, m) y = Add (x, f)",
        "float[2, 3, 3] x, int64[2, 3] i",
        {"n": np.array(0), "t": numbers(7, 4), "m": numbers(4, 3)},
    ),
    "the largest of all": ("y = ReduceMax (x, n)", ROWS, {"n": np.zeros(0, np.int64)}),
    "every other from behind": (
        "y = Slice (x, s, e, a, t)",
        ROWS,
        dict(zip("seat", (np.array([each]) for each in (5, 0, 2, -2)), strict=True)),
    ),
    "from before the first": (
        "y = Slice (x, s, e, a, t)",
        ROWS,
        dict(zip("seat", (np.array([each]) for each in (-10, -100, 2, -1)), strict=True)),
    ),
    "every other of six axes": (
        "y = Slice (x, s, e, a, t)",
        "float[1, 2, 1, 2, 4, 7]",
        dict(zip("seat", (np.array([each]) for each in (0, 7, 5, 2)), strict=True)),
    ),
    "an output by two names": ("y = Relu (x) z = Identity (y)", ROWS, {}),
    "slopes of many elements": (
        "y = PRelu (x, s)",
        "float[1, 8, 13, 11]",
        {"s": numbers(8, 13, 11)},
    ),
    "pads by what is beside": (
        'y = Pad <mode = "reflect"> (x, p)',
        IMAGE,
        {"p": np.array([0, 0, 2, 1, 0, 0, 1, 3])},
    ),
    "pads by the edge": (
        'y = Pad <mode = "edge"> (x, p)',
        IMAGE,
        {"p": np.array([0, 1, 2, 0, 0, 0, 1, 3])},
    ),
    "a resize by half pixels": (
        'y = Resize <mode = "nearest"> (x, , s)',
        IMAGE,
        {"s": np.float32([1, 1, 1.5, 2.3])},
    ),
    "a resize by corners": (
        'y = Resize <mode = "nearest", coordinate_transformation_mode = "align_corners"> '
        "(x, , , s)",
        IMAGE,
        {"s": np.array([1, 4, 10, 5])},
    ),
    "a resize of two axes": (
        'y = Resize <mode = "nearest", axes = [2, 3], nearest_mode = "floor", '
        'coordinate_transformation_mode = "asymmetric"> (x, , s)',
        IMAGE,
        {"s": np.float32([2, 2])},
    ),
    "space to depth": (
        "y = SpaceToDepth <blocksize = 2> (x)",
        "float[1, 3, 4, 6]",
        {},
    ),
    "elements of places": (
        "y = GatherElements <axis = 2> (x, i)",
        ROWS,
        {"i": np.array([[[7, 0, -1], [3, 3, 2]]])},
    ),
    "slices of places": ("y = GatherND (x, i)", ROWS, {"i": np.array([[0, 5], [0, -2]])}),
    "what is overwritten": (
        "y = ScatterND (x, i, x)",
        "float[1, 8]",
        {"i": np.array([[0]])},
    ),
    "one or the other": (
        "a = Sigmoid (x) y = Where (w, x, a)",
        ROWS,
        {"w": np.arange(8) % 3 == 0},
    ),
    "places that vary": (
        "a = Cast <to = 7> (i) y = Gather <axis = 1> (x, a)",
        "float[1, 6, 8] x, int32[2, 3] i",
        {},
    ),
    "a choice that varies": (
        "a = Sigmoid (x) y = Where (w, x, a)",
        "float[1, 6, 8] x, bool[6, 1] w",
        {},
    ),
    "a channel shuffle": (
        "a = Conv (x, k) b = Reshape (a, two) t = Transpose <perm = [0, 2, 1, 3, 4]> (b) "
        "r = Reshape (t, one) y = Conv (r, d)",
        IMAGE,
        {
            "k": K,
            "d": numbers(4, 6, 1, 1),
            "two": np.array([0, 2, 3, 5, 4]),
            "one": np.array([1, 6, 5, 4]),
        },
    ),
    "products": ("a = Tanh (x) y = Mul (x, a)", IMAGE, {}),
    "a squeeze and excitation": (
        "a = Conv (x, k) p = GlobalAveragePool (a) s = Sigmoid (p) y = Mul (a, s)",
        IMAGE,
        {"k": K},
    ),
    "a table": ("y = HardSwish (x)", IMAGE, {}),
    "a table of two": ("a = Sigmoid (x) b = Exp (x) y = Div (a, b)", IMAGE, {}),
    "max_pool2d": ("y = MaxPool <kernel_shape = [3, 2], strides = [2, 2]> (x)", IMAGE, {}),
    "max_pool2d, padded": (
        "a = Conv (x, k) y = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (a)",
        IMAGE,
        {"k": K},
    ),
    "an average": ("y = AveragePool <kernel_shape = [2, 2], strides = [2, 2]> (x)", IMAGE, {}),
    "an average with its pads": (
        "y = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1], count_include_pad = 1>"
        " (x)",
        IMAGE,
        {},
    ),
    "an average of all": ("y = GlobalAveragePool (x)", IMAGE, {}),
    "a mean": (
        "y = ReduceMean <keepdims = 0> (x, axes)",
        IMAGE,
        {"axes": np.array([1, 3])},
    ),
    "a sum": ("y = ReduceSum <keepdims = 1> (x, axes)", ROWS, {"axes": np.array([2])}),
    "joins": (
        "a = Conv (x, k) b = Sigmoid (a) y = Concat <axis = 1> (a, b, a)",
        IMAGE,
        {"k": K},
    ),
    "every other, from behind": (
        "y = Slice (x, s, e, axes, steps)",
        IMAGE,
        {
            "s": np.array([1, -1]),
            "e": np.array([7, -9]),
            "axes": np.array([2, 3]),
            "steps": np.array([2, -2]),
        },
    ),
    "parts": (
        "a = Conv (x, k) b, e = Split <axis = 1, num_outputs = 2> (a) y = Concat <axis = 1>"
        " (e, b)",
        IMAGE,
        {"k": K},
    ),
    "pads": (
        "y = Pad (x, p)",
        IMAGE,
        {"p": np.array([0, 0, 1, 2, 0, 0, 0, 3])},
    ),
    "places": ("y = Gather <axis = 1> (x, i)", IMAGE, {"i": np.array([[3, 0], [1, 1]])}),
    "flattened": (
        "a = Conv (x, k) f = Flatten (a) y = Gemm (f, m, c)",
        IMAGE,
        {"k": K, "m": numbers(120, 3) / 9, "c": numbers(3)},
    ),
    "reshaped by its size": (
        "s = Shape <end = 1> (x) t = Concat <axis = 0> (s, r) f = Reshape (x, t)"
        " y = MatMul (f, m)",
        IMAGE,
        {"r": np.array([-1]), "m": numbers(168, 3) / 9},
    ),
    "twice as large": (
        'y = Resize <mode = "nearest", coordinate_transformation_mode = "asymmetric",'
        ' nearest_mode = "floor"> (x, , scales)',
        IMAGE,
        {"scales": np.float32([1, 1, 2, 2])},
    ),
    "twice as large, linear": (
        'y = Resize <mode = "linear"> (x, , scales)',
        IMAGE,
        {"scales": np.float32([1, 1, 2, 2])},
    ),
    "depth to space": ("y = DepthToSpace <blocksize = 2> (x)", IMAGE, {}),
    "Softmax": ("y = Softmax <axis = -1> (x)", ROWS, {}),
    "Softmax of channels": (
        "a = Conv (x, k) y = Softmax <axis = 1> (a)",
        IMAGE,
        {"k": K},
    ),
    "the largest": ("a = Relu (x) y = ReduceMax (a, axes)", ROWS, {"axes": np.array([1])}),
    "wider": (
        "a = ReduceMean (x, axes) y = Expand (a, s)",
        ROWS,
        {"axes": np.array([1]), "s": np.array([1, 6, 8])},
    ),
}


FORMS = {"onnx": {}, "tosa": {"target": "tosa"}, "int8": {"activation_type": "int8"}}


@needs_tools
@pytest.mark.thinned
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_give_the_same_integers(name, form):
    body, weights = CONVOLUTIONS[name]
    made = net(body, **weights)
    check(made, feeds(made), **FORMS[form])


@needs_tools
@pytest.mark.thinned
@pytest.mark.parametrize("form", ["onnx", "tosa"])
@pytest.mark.parametrize("name", OTHERS)
def test_other_nodes_give_the_same_integers(name, form):
    body, source, weights = OTHERS[name]
    made = net(body, source, **weights)
    check(made, feeds(made), **FORMS[form])


@needs_tools
def test_scales_of_channels_give_the_same_integers():
    made, samples = channel_net(), channel_feeds()
    integer = check(made, samples, activation_scales="per-channel")
    assert "IntConvPerChannel" in {node.op_type for node in integer.graph.node}


@needs_tools
@pytest.mark.parametrize("options", [{}, {"activation_type": "int8"}])
def test_integer_edges_are_fed_what_the_samples_are_stored_as(options):
    made = net("a = Conv (x, k, c) y = Relu (a)", k=K, c=C6)
    check(made, feeds(made), integer_io=True, **options)


@needs_tools
def test_one_result_may_be_two_outputs_and_an_input_may_be_read_by_nothing():
    body = "a = Relu (x) y = Identity (a) z = Reshape (a, s)"
    made = net(body, "float[1, 2] unread, float[1, 4]", s=np.array([1, 4]))
    samples = [
        {"unread": np.zeros((1, 2), np.float32), "x": each} for each in numbers(12, 1, 4)
    ]
    integer = check(made, samples)
    assert [end.name for end in export(integer).inputs] == ["x"]


@needs_tools
def test_sums_that_are_far_larger_than_what_is_stored_are_clamped_before():
    """Of a range that an override makes small; RESCALE takes sums below 2**(shift - 1)."""
    made = net("y = Conv (x, k, c)", k=K * 300, c=C6)
    check(made, feeds(made), calibration_overrides=["y=-0.00001,0.00001"])


# Requantization


multipliers = st.integers(1, (1 << 24) - 1)


@thoroughly(150)
@given(st.lists(multipliers, min_size=1, max_size=4), st.integers(20, 40), st.integers(8, 20))
def test_an_equal_rescale_rounds_every_sum_as_the_node_does(factors, shift, bits):
    given = {"multiplier": np.array(factors), "shift": np.array([shift] * len(factors))}
    steps = levels(128, 0, 255)
    ends = (np.full(len(factors), end) for end in (-(1 << bits), 1 << bits))
    reachable = Interval(*ends)
    wanted = meaning_thresholds(
        given["multiplier"].astype(np.int64), given["shift"], steps, "half_to_even"
    )
    acc = np.arange(-(1 << min(bits, 14)), 1 << min(bits, 14), dtype=np.int64)
    try:
        found = equal_rescale(same_ratios(given, len(factors)), steps, reachable, wanted)
    except UnequalError:
        found = None
    masks, halves = ties(given, len(factors))
    start = same_ratios(given, len(factors))
    for channel, factor in enumerate(factors):
        real = requantize(acc, np.int64(factor), np.int64(shift), "half_to_even")
        expected = np.clip(real, -128, 127)
        if found is not None:
            assert (np.clip(rescaled(acc, found, channel), -128, 127) == expected).all()
        up = rescaled(acc, start, channel)
        is_tie = (acc & masks[channel]) == halves[channel]
        assert (up - (is_tie & (up % 2 == 1)) == real).all()


def rescaled(acc, pairs, channel):
    """As TOSA defines it; products of 14 and 31 bits."""
    multiplier, shift = (int(each[channel]) for each in pairs)
    return (acc * multiplier + (1 << (shift - 1))) >> shift
