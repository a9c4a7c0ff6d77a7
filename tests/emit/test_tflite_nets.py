"""Whole nets as TFLite files: no stored integer of LiteRT's reference kernels differs."""

from dataclasses import replace

import numpy as np
import pytest

from opsets.errors import ModelError
from opsets.target import load_target
from qpasses import export
from tests.support.litert import RUNTIMES, needs_litert
from tests.support.litert_nets import TARGET, check, integer_of
from tests.support.small_models import numbers
from tests.support.tosa_nets import C6, IMAGE, ROWS, D, K, net

WEIGHTS = {
    **{"k": K, "c": C6, "d": D, "e": numbers(3, 8, 1, 1), "g": numbers(4, 3, 3, 3)},
    **{"t": numbers(4, 5, 3, 3), "m": numbers(8, 5), "p": numbers(4, 1, 1) / 3},
    **{"f": numbers(120, 7) / 4, "q": numbers(4, 5), "r": numbers(4, 6, 3)},
    **{"split": np.array([1, 2, 2, 7, 6]), "joined": np.array([1, 4, 7, 6])},
    **{"rows": np.array([3]), "picture": np.array([2, 3]), "twice": np.array([1, 12, 2, 1])},
    **{"o": numbers(7, 4, 1) / 3, "chosen": np.arange(4 * 7 * 6).reshape(1, 4, 7, 6) % 3 > 0},
}

CONVOLUTIONS = {
    "plain": "y = Conv (x, k, c)",
    "padded": "y = Conv <pads = [1, 1, 1, 1]> (x, k, c)",
    "SAME": "y = Conv <pads = [0, 1, 1, 1], strides = [2, 1]> (x, k, c)",
    "unlike ends": "y = Conv <pads = [2, 0, 0, 1], strides = [2, 2]> (x, k)",
    "dilated": "y = Conv <pads = [2, 2, 2, 2], dilations = [2, 2]> (x, k)",
    "Relu": "u = Conv (x, k, c) y = Relu (u)",
    "Clip": "l = Constant <value_float = 0.0> () h = Constant <value_float = 0.7> () "
    "u = Conv (x, k, c) y = Clip (u, l, h)",
    "depthwise": "y = Conv <group = 4> (x, d)",
    "of two": "u = Conv <group = 4> (x, d) y = Conv (u, e)",
    "grouped": "u = Conv (x, k) y = Conv <group = 2> (u, g)",
    "transposed": "y = ConvTranspose <strides = [2, 2]> (x, t)",
}

OTHERS = {
    "sum": "u = Conv (x, k) v = Conv (x, k, c) y = Add (u, v)",
    "difference": "u = Conv (x, k) v = Conv (x, k, c) y = Sub (u, v)",
    "Relu of a sum": "u = Conv (x, k) v = Conv (x, k, c) w = Add (u, v) y = Relu (w)",
    "with a constant": "y = Add (x, p)",
    "largest": "y = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x)",
    "largest, cut": "y = MaxPool <kernel_shape = [2, 2], strides = [2, 2], ceil_mode = 1> (x)",
    "average": "y = AveragePool <kernel_shape = [3, 2]> (x)",
    "average, SAME": "y = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x)",
    "average of all": "y = GlobalAveragePool (x)",
    "mean": "y = ReduceMean <keepdims = 0> (x, picture)",
    "total": "y = ReduceSum <keepdims = 0> (x, rows)",
    "mean of rows": "y = ReduceMean (x, rows)",
    "LeakyRelu": "y = LeakyRelu <alpha = 0.3> (x)",
    "a slope below zero": "y = LeakyRelu <alpha = -0.3> (x)",
    "PRelu": "y = PRelu (x, p)",
    "slopes that are turned": "u = Transpose <perm = [3, 2, 1, 0]> (x) y = PRelu (u, o)",
    "repeated": "y = Tile (x, twice)",
    "many joined": f"y = Concat <axis = 1> ({', '.join(12 * 'x')})",
    "of known places": "u = Conv (x, k) y = Where (chosen, x, x)",
    "Sigmoid": "y = Sigmoid (x)",
    "Tanh": "y = Tanh (x)",
    "HardSwish": "y = HardSwish (x)",
    "two tensors as a table": "u = Sigmoid (x) y = Div (x, u)",
    "Softmax": "y = Softmax (x)",
    "joined": "u = Conv (x, k) v = Relu (u) y = Concat <axis = 1> (u, v)",
    "shuffled": "u = Reshape (x, split) v = Transpose <perm = [0, 2, 1, 3, 4]> (u) "
    "y = Reshape (v, joined)",
    "flat": "u = Conv (x, k) v = Flatten (u) y = Gemm (v, f)",
    "deep": "y = DepthToSpace <blocksize = 2> (x)",
    "turned": "u = Transpose <perm = [0, 2, 3, 1]> (x) y = MatMul (u, q)",
}


def checked(body, source=IMAGE, **options):
    words = {word.strip("(),") for word in body.split()}
    return check(
        net(body, source, **{n: WEIGHTS[n] for n in WEIGHTS if n in words}), **options
    )


def taking(runtime):
    return {"runtime": runtime, "target": load_target(runtime)}


@pytest.mark.thinned
@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("kind", CONVOLUTIONS)
@pytest.mark.parametrize("activation_type", ["uint8", "int8"])
def test_convolutions(kind, activation_type, runtime):
    checked(CONVOLUTIONS[kind], activation_type=activation_type, **taking(runtime))


@pytest.mark.thinned
@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("kind", OTHERS)
def test_what_stands_between_them(kind, runtime):
    if (kind, runtime) == ("total", "tflm"):
        pytest.skip("it has no SUM of int32")
    checked(OTHERS[kind], **taking(runtime))


OF_WORDS = {
    **{kind: body for kind, body in CONVOLUTIONS.items() if kind != "transposed"},
    **{
        kind: OTHERS[kind]
        for kind in (
            *("sum", "difference", "Relu of a sum", "largest", "average", "average of all"),
            *("mean", "joined", "shuffled", "flat", "turned"),
        )
    },
    "product": "u = Conv (x, k) v = Conv (x, k, c) y = Mul (u, v)",
    "of known places": "v = Neg (x) u = Neg (v) y = Where (chosen, x, u)",
    "clipped": "l = Constant <value_float = -0.3> () h = Constant <value_float = 0.7> () "
    "u = Clip (x, l, h) y = Add (u, x)",
    "Relu": "u = Relu (x) y = Sub (u, x)",
    "of two": "u = Conv (x, k) v = Transpose <perm = [0, 1, 3, 2]> (u) y = MatMul (u, v)",
    "times a number": "u = Conv (x, k) v = Transpose <perm = [0, 1, 3, 2]> (u) "
    "w = MatMul (u, v) n = Constant <value_float = 0.37> () y = Mul (w, n)",
}


@pytest.mark.thinned
@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("types", [".*=int16", "[xy]=int16"], ids=["all", "the ends"])
@pytest.mark.parametrize("kind", OF_WORDS)
def test_words(kind, types, runtime):
    checked(OF_WORDS[kind], tensor_types=[types], **taking(runtime))


@pytest.mark.thinned
@needs_litert
@pytest.mark.parametrize(
    "body",
    [
        "y = Conv <pads = [1, 1]> (x, r)",
        "y = MaxPool <kernel_shape = [2]> (x)",
        "y = AveragePool <kernel_shape = [2]> (x)",
        "y = GlobalAveragePool (x)",
    ],
)
def test_a_row_is_a_picture_of_one_line(body):
    checked(body, ROWS)


@needs_litert
@pytest.mark.parametrize("number", [0.37, -0.37])
def test_a_product_times_a_number_is_followed_by_a_product(number):
    body = OF_WORDS["times a number"].replace("0.37", str(number))
    integer, _ = check(net(body, k=WEIGHTS["k"]))
    counts = export(integer, to="tflite").operations
    assert ("CAST" in counts) == (number < 0)  # which is said on int32
    assert counts["BATCH_MATMUL"] == 1
    assert number < 0 or counts["MUL"] == 1


@pytest.mark.thinned
@needs_litert
@pytest.mark.parametrize("kind", ["plain", "sum", "product", "of two"])
def test_words_that_round_otherwise_are_refused(kind):
    body = OF_WORDS[kind]
    made = net(body, **{name: WEIGHTS[name] for name in "kc" if f" {name}" in body})
    integer = integer_of(made, load_target("onnx"), tensor_types=[".*=int16"])
    with pytest.raises(ModelError, match=r"half_up|rounds a sum of words once"):
        export(integer, to="tflite")


@pytest.mark.thinned
@needs_litert
@pytest.mark.parametrize("weights", ["per_tensor", "per_channel"])
@pytest.mark.parametrize("body", ["y = MatMul (x, m)", "u = MatMul (x, m) y = Relu (u)"])
def test_what_rounds_once_away_from_zero_is_fully_connected(body, weights):
    target = replace(TARGET, rounding="half_away", min_shift=1, matmul_weights=weights)
    for source in ("float[7, 8]", "float[2, 3, 8]"):
        integer, _ = check(net(body, source, m=WEIGHTS["m"]), target)
        assert export(integer, to="tflite").operations["FULLY_CONNECTED"] == 1


@needs_litert
def test_what_no_operator_rescales_is_looked_up():
    made = net("u = Mul (x, huge) y = Relu (u)", huge=np.float32([1e-30]))
    check(made)
