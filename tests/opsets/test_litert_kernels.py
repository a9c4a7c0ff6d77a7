"""Rules of target litert against LiteRT's interpreter, at scales that tell rules apart."""

import numpy as np
import pytest

from opsets.forms import SLOPE_FORMS, scaled_in_double, sloped
from opsets.gelu import gelu, sigmoid
from opsets.gemmlowp import softmax_exponentials
from opsets.hard_swish import hard_swish_levels
from opsets.multipliers import quantize_multiplier
from opsets.qpasses_v1 import OPS
from opsets.rounding import requantize
from opsets.target import load_target
from tests.support.litert import SingleOp, Stored, float32, interpreted, needs_litert
from tests.support.thoroughness import THOROUGH

pytestmark = needs_litert

LITERT, TFLM = load_target("litert"), load_target("tflm")
COUNT = 400 if THOROUGH else 60
X = np.arange(-128, 128, dtype=np.int8).reshape(1, 256)


def stored(levels, zero, low=-128, high=127):
    return np.clip(levels + zero, low, high)


def zero_of(rng):
    return int(rng.integers(-128, 128))


def any_scale(rng, low=-2.5, high=-0.8):
    return float32(10 ** rng.uniform(low, high))


def beside_ties(rng):
    """Two scales whose quotient is a small fraction, and a third."""
    y = float32(rng.integers(1, 64) / rng.integers(30, 3000))
    step = rng.integers(1, 40) / rng.choice([2, 4, 8, 16, 20, 40])
    other = float32(rng.integers(1, 40) / rng.choice([100, 200, 400]))
    return float32(np.float32(y) * np.float32(step)), y, other


# Tables


def float_once(function):
    return lambda x: function(x.astype(np.float64)).astype(np.float32)


TABLES = {
    "LOGISTIC": (sigmoid, "", {}, 1),
    "TANH": (float_once(np.tanh), "", {}, 1),
    "EXP": (float_once(np.exp), "ExpOptions", {}, 1),
    "GELU": (gelu, "GeluOptions", {"approximate": False}, 2),
    "GELU tanh": (lambda x: gelu(x, "tanh"), "GeluOptions", {"approximate": True}, 2),
    "HARD_SWISH": (None, "HardSwishOptions", {}, 1),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_the_interpreters(name):
    function, options, given, version = TABLES[name]
    rng, ops, expected = np.random.default_rng(3), [], []
    for _ in range(COUNT):
        (sx, zx), (sy, zy) = ((any_scale(rng), zero_of(rng)) for _ in range(2))
        if name == "LOGISTIC":
            sy, zy = 1 / 256, -128
        if function is None:
            sy = max(sx, sy)
            levels = hard_swish_levels(X.astype(np.int64) - zx, sx, sy)
        else:
            real = np.float32(sx) * (X.astype(np.int32) - zx).astype(np.float32)
            size = np.abs(function(real) * (np.float32(1) / np.float32(sy)))
            levels = np.copysign(np.floor(size + np.float32(0.5)), function(real))
        expected.append(stored(levels, zy))
        ends = [Stored(X.shape, sx, zx)], Stored(X.shape, sy, zy)
        ops.append(SingleOp(name.split()[0], *ends, [[X]], version, options, given))
    found = [codes for (codes,) in interpreted(ops)]
    np.testing.assert_array_equal(found, expected)


# Types in which scales are multiplied and divided


def leaky_relu(rng, target):
    (sx, sy, alpha), zx, zy = beside_ties(rng), zero_of(rng), zero_of(rng)
    numbers = SLOPE_FORMS[target.slopes].numbers("LeakyRelu", sx, sy, [1], alpha, target)
    levels = sloped(X.astype(np.int64) - zx, numbers, target.rounding)
    ends = [Stored(X.shape, sx, zx)], Stored(X.shape, sy, zy)
    op = SingleOp("LEAKY_RELU", *ends, [[X]], 2, "LeakyReluOptions", {"alpha": alpha})
    return op, stored(levels, zy)


def p_relu(rng, target):
    (sx, sy, ss), zx, zy, zs = beside_ties(rng), *(zero_of(rng) for _ in range(3))
    codes = rng.integers(-128, 128, 256).astype(np.int8)
    slopes = (codes.astype(int) - zs).tolist()
    numbers = SLOPE_FORMS[target.slopes].numbers("PRelu", sx, sy, slopes, ss, target)
    levels = sloped(X.astype(np.int64) - zx, numbers, target.rounding)
    inputs = [Stored(X.shape, sx, zx), Stored((256,), ss, zs, values=codes)]
    return SingleOp("PRELU", inputs, Stored(X.shape, sy, zy), [[X]]), stored(levels, zy)


def relu(rng, target):
    (sx, sy, _), zx, zy = beside_ties(rng), zero_of(rng), zero_of(rng)
    pair = target.elementwise_multiplier(target.real_scale("Relu", (sx,), sy))
    levels = target.requantize(X.astype(np.int64) - zx, *pair)
    ends = [Stored(X.shape, sx, zx)], Stored(X.shape, sy, zy)
    return SingleOp("RELU", *ends, [[X]], 2), stored(levels, zy, low=zy)


def quantize(rng, target):
    (sx, sy, _), zx, zy = beside_ties(rng), zero_of(rng), zero_of(rng)
    pair = target.elementwise_multiplier(target.real_scale("Quantize", (sx,), sy))
    levels = target.requantize(X.astype(np.int64) - zx, *pair)
    ends = [Stored(X.shape, sx, zx)], Stored(X.shape, sy, zy)
    return SingleOp("QUANTIZE", *ends, [[X]], 1, "QuantizeOptions"), stored(levels, zy)


def mul(rng, target):
    (sa, sy, sb), za, zb, zy = beside_ties(rng), *(zero_of(rng) for _ in range(3))
    b = rng.integers(-128, 128, X.shape).astype(np.int8)
    pair = target.elementwise_multiplier(target.real_scale("IntMul", (sa, sb), sy))
    products = (X.astype(np.int64) - za) * (b.astype(np.int64) - zb)
    inputs = [Stored(X.shape, sa, za), Stored(X.shape, sb, zb)]
    op = SingleOp("MUL", inputs, Stored(X.shape, sy, zy), [[X, b]], 2, "MulOptions")
    return op, stored(target.requantize(products, *pair), zy)


def batched(rng, target):
    (sa, sy, sb), za, zb, zy = beside_ties(rng), *(zero_of(rng) for _ in range(3))
    a, b = (rng.integers(-128, 128, (1, 16, 16)).astype(np.int8) for _ in range(2))
    sums = (a[0].astype(np.int64) - za) @ (b[0].astype(np.int64) - zb)
    sy = float32(sy * 16)
    pair = target.scale_to_multiplier(target.real_scale("IntMatMul", (sa, sb), sy))
    inputs = [Stored(a.shape, sa, za), Stored(b.shape, sb, zb)]
    output = Stored(a.shape, sy, zy)
    op = SingleOp("BATCH_MATMUL", inputs, output, [[a, b]], 4, "BatchMatMulOptions")
    return op, stored(target.requantize(sums, *pair), zy)[None]


KERNELS = {
    # whether TFLite Micro, all in double, gives other codes at these scales
    leaky_relu: True,
    p_relu: True,
    relu: True,
    quantize: False,
    mul: True,
    batched: THOROUGH,  # of few none does
}


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda each: each.__name__)
def test_scales_are_multiplied_in_the_types_of_the_interpreter(kernel):
    pairs = [kernel(np.random.default_rng(seed), LITERT) for seed in range(COUNT)]
    found = [codes for (codes,) in interpreted([op for op, _ in pairs])]
    for ours, (_, theirs) in zip(found, pairs, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    others = [kernel(np.random.default_rng(seed), TFLM)[1] for seed in range(COUNT)]
    differ = any((a != b).any() for a, b in zip(found, others, strict=True))
    assert differ == KERNELS[kernel]


# Fully connected layers


def doubtful_sums(count):
    """Scales of x, w and y, with a sum that float32 or 31 bits round otherwise."""
    rng, found = np.random.default_rng(1), []
    while len(found) < count:
        sx, sw, sy = any_scale(rng, -2, 0), any_scale(rng, -6, -4), any_scale(rng, -2, 0)
        scale = sx * sw / sy
        near = np.rint((np.arange(-128, 128) + 0.5) / scale).astype(np.int64)
        sums = np.unique(np.concatenate([near - 1, near, near + 1]))
        sums = sums[np.abs(sums) < 1 << 30]
        real = np.clip(scaled_in_double(sums, scale), -128, 127)
        narrow = float(np.float32(sx) * np.float32(sw)) / sy
        short = requantize(sums, *quantize_multiplier(scale, 31, 62), "half_away")
        others = [
            np.clip(scaled_in_double(sums, narrow), -128, 127),
            np.clip(short, -128, 127),
        ]
        for at in np.flatnonzero((real != others[0]) | (real != others[1]))[:5]:
            found.append((sx, sw, sy, sums[at], real[at], *(each[at] for each in others)))
    return found


@pytest.mark.parametrize("per_channel", [False, True])
def test_gemm_is_a_product_in_double_away_from_zero(per_channel):
    rows, ops = doubtful_sums(1500 if THOROUGH else 400), []
    for sx, sw, sy, total, *_ in rows:
        w_scale = [sw] * 2 if per_channel else sw
        bias = Stored((2,), sx * sw, dtype="int32", values=[total] * 2)
        weights = Stored((2, 1), w_scale, values=np.zeros((2, 1)))
        inputs, version = [Stored((1, 1), sx), weights, bias], 5 if per_channel else 4
        feeds, options = [[np.zeros((1, 1), np.int8)]], "FullyConnectedOptions"
        output = Stored((1, 2), sy)
        ops.append(SingleOp("FULLY_CONNECTED", inputs, output, feeds, version, options))
    found = np.array([codes[0, 0] for (codes,) in interpreted(ops)])
    in_double, in_float32, in_31_bits = np.array([row[4:] for row in rows]).T
    np.testing.assert_array_equal(found, in_double)
    assert (found != in_float32).any() and (found != in_31_bits).any()


# Softmax


def test_softmax_is_the_interpreters():
    rng, ops, expected = np.random.default_rng(0), [], []
    for turn in range(COUNT // 3):
        scale = any_scale(rng, -3.5, 0.8) if turn % 3 else 2.0 ** -int(rng.integers(-3, 10))
        cells = int(rng.choice([1, 2, 3, 10, 100, 511]))
        x = rng.integers(-128, 128, (26, cells)).astype(np.int8)
        x[20:], x[25] = np.maximum(x[20:], 120), 5
        given = np.array(softmax_exponentials(scale), np.int32), *np.int8([-128, -128, 127])
        expected.append(OPS["GemmlowpSoftmax"].reference(x, *given, axis=-1))
        ends = [Stored(x.shape, scale, 3)], Stored(x.shape, 1 / 256, -128)
        ops.append(SingleOp("SOFTMAX", *ends, [[x]], 2, "SoftmaxOptions", {"beta": 1.0}))
    for (ours,), theirs in zip(interpreted(ops), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_row_that_sums_to_512_ends_the_process():
    for cells in (511, 512):
        x = np.zeros((1, cells), np.int8)
        ends = [Stored(x.shape, 0.1)], Stored(x.shape, 1 / 256, -128)
        op = SingleOp("SOFTMAX", *ends, [[x]], 2, "SoftmaxOptions", {"beta": 1.0})
        if cells < 512:
            interpreted([op])
            continue
        with pytest.raises(ChildProcessError):
            interpreted([op])
