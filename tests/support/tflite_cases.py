"""Random nodes of TFLite's operators, by operator: what make bench conformance runs.

Scales are ordinary ones, or such that products lie beside ties; codes are random, of whole
rows of 256 all there are.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from tests.support.litert import SingleOp, Stored, float32

VALID, NO_CLAMP = 1, 0
X = np.arange(-128, 128, dtype=np.int8).reshape(1, 256)
SIZES = {"int8": 127, "int16": 32767}
FUNCTIONS = ("LOGISTIC", "TANH", "EXP", "GELU")
TIE = 1e-3


@dataclass(frozen=True)
class Drawn:
    """An operator with one feed, and what its record says beside its tensors."""

    op: SingleOp
    params: Mapping[str, Any] = field(default_factory=dict)


def any_scale(rng, low=-2.5, high=-0.8):
    return float32(10 ** rng.uniform(low, high))


def zero_of(rng):
    return int(rng.integers(-128, 128))


def beside_ties(rng):
    """Two scales whose quotient is a small fraction, and a third; or any."""
    if rng.integers(3) == 0:
        return any_scale(rng), any_scale(rng), any_scale(rng)
    y = float32(rng.integers(1, 64) / rng.integers(30, 3000))
    step = rng.integers(1, 40) / rng.choice([2, 4, 8, 16, 20, 40])
    other = float32(rng.integers(1, 40) / rng.choice([100, 200, 400]))
    return float32(np.float32(y) * np.float32(step)), y, other


def codes(rng, *shape, dtype="int8"):
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


# Sums of products


def weights_of(rng, shape, axis, per_channel):
    """Weights without -128 and their scales, of one or each channel."""
    values = rng.integers(-127, 128, shape).astype(np.int8)
    count = shape[axis] if per_channel else 1
    scales = [any_scale(rng, -3, -1) for _ in range(count)]
    return Stored(shape, scales, values=values, axis=axis)


def bias_of(rng, x_scale, weights, channels, dtype="int32"):
    """With the scales by which XNNPACK takes it: float32 products."""
    scales = [float(np.float32(x_scale) * np.float32(each)) for each in weights.scale]
    values = rng.integers(-3000, 3000, channels)
    return Stored((channels,), scales, dtype=dtype, values=values)


def output_scale(rng, x_scale, weights, taps, dtype="int8"):
    """By which sums of so many products fill the codes, some beyond."""
    spread = x_scale * float(np.mean(weights.scale)) * SIZES[dtype] * 74 * taps**0.5
    return float32(spread * rng.uniform(1, 3) / SIZES[dtype])


def convolution(rng, dtype="int8", bias="int32", depthwise=False):
    channels, kernel = int(rng.integers(1, 6)), [int(rng.integers(1, 4)) for _ in range(2)]
    strides = [int(rng.integers(1, 3)) for _ in range(2)]
    out, per_channel = int(rng.integers(2, 12)), bool(rng.integers(4))
    factor = int(rng.integers(1, 4))
    if depthwise:
        channels, out = channels + 1, (channels + 1) * factor  # of one TFLite makes a CONV
        shape, axis, taps = (1, *kernel, out), 3, kernel[0] * kernel[1]
    else:
        shape, axis = (out, *kernel, channels), 0
        taps = kernel[0] * kernel[1] * channels
    weights, sx = weights_of(rng, shape, axis, per_channel), any_scale(rng)
    x = codes(rng, 1, 7, 6, channels, dtype=dtype)
    size = [(n - k) // s + 1 for n, k, s in zip((7, 6), kernel, strides, strict=True)]
    words = dtype == "int16"
    zx, zy = (0, 0) if words else (zero_of(rng), zero_of(rng))
    inputs = [
        Stored(x.shape, sx, zx, dtype),
        weights,
        bias_of(rng, sx, weights, out, bias),
    ]
    y = Stored((1, *size, out), output_scale(rng, sx, weights, taps, dtype), zy, dtype)
    given = {"strideH": strides[0], "strideW": strides[1], "padding": VALID}
    given |= {"dilationHFactor": 1, "dilationWFactor": 1}
    if depthwise:
        given["depthMultiplier"] = factor
    code, options = (
        ("DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions")
        if depthwise
        else ("CONV_2D", "Conv2DOptions")
    )
    params = {"strides": strides, "group": channels if depthwise else 1}
    return Drawn(SingleOp(code, inputs, y, [[x]], 4 if words else 3, options, given), params)


def depthwise(rng, dtype="int8", bias="int32"):
    return convolution(rng, dtype, bias, depthwise=True)


def fully_connected(rng, dtype="int8", bias="int32"):
    depth, out = int(rng.integers(1, 60)), int(rng.integers(1, 20))
    weights = weights_of(rng, (out, depth), 0, bool(rng.integers(2)))
    x, sx, words = codes(rng, 6, depth, dtype=dtype), any_scale(rng), dtype == "int16"
    zx, zy = (0, 0) if words else (zero_of(rng), zero_of(rng))
    inputs = [
        Stored(x.shape, sx, zx, dtype),
        weights,
        bias_of(rng, sx, weights, out, bias),
    ]
    y = Stored((6, out), output_scale(rng, sx, weights, depth, dtype), zy, dtype)
    version = 7 if words else 5 if len(weights.scale) > 1 else 4
    options = "FullyConnectedOptions"
    return Drawn(SingleOp("FULLY_CONNECTED", inputs, y, [[x]], version, options))


def batch_matmul(rng, dtype="int8"):
    rows, depth, columns = (int(n) for n in rng.integers(1, 20, 3))
    sa, sb, _ = beside_ties(rng)
    a, b = codes(rng, 2, rows, depth, dtype=dtype), codes(rng, 2, depth, columns, dtype=dtype)
    words = dtype == "int16"
    za, zb, zy = (0, 0, 0) if words else (zero_of(rng) for _ in range(3))
    weights = Stored((1,), [sb])
    sy = output_scale(rng, sa, weights, depth, dtype) * (SIZES[dtype] / 127)
    inputs = [Stored(a.shape, sa, za, dtype), Stored(b.shape, sb, zb, dtype)]
    y = Stored((2, rows, columns), float32(sy), zy, dtype)
    return Drawn(SingleOp("BATCH_MATMUL", inputs, y, [[a, b]], 4, "BatchMatMulOptions"))


# Element by element


def pair(code, dtype="int8"):
    def drawn(rng):
        words = dtype == "int16"
        (sa, sy, sb), shape = beside_ties(rng), (1, 256)
        za, zb, zy = (0, 0, 0) if words else (zero_of(rng) for _ in range(3))
        if code == "MUL":
            sy = float32(sa * sb * SIZES[dtype] / rng.uniform(0.5, 2))
        if words and code != "MUL":
            sy = float32(max(sa, sb) * rng.uniform(0.5, 2))
        a, b = codes(rng, *shape, dtype=dtype), codes(rng, *shape, dtype=dtype)
        inputs = [Stored(shape, sa, za, dtype), Stored(shape, sb, zb, dtype)]
        given, options = {"fusedActivationFunction": NO_CLAMP}, f"{code.title()}Options"
        if words and code != "MUL":
            given["potScaleInt16"] = False
        output = Stored(shape, sy, zy, dtype)
        return Drawn(SingleOp(code, inputs, output, [[a, b]], 2, options, given))

    return drawn


def single(code, version=2, options="", dtype="int8", **given):
    """Of all 256 codes, or so many words.

    Two things are not looked for, which decision 26 says to differ: results of functions of a
    C library beside a tie, where its last bit decides, and bounds of Relu6 that are a tie.
    """

    def drawn(rng):
        sx, sy, alpha = beside_ties(rng)
        if code in FUNCTIONS or (code == "RELU6" and abs(6 / sy % 1 - 0.5) < TIE):
            sx, sy = any_scale(rng), any_scale(rng)
        x = X if dtype == "int8" else codes(rng, 1, 256, dtype=dtype)
        zx, zy = (zero_of(rng) if dtype == "int8" else 0 for _ in range(2))
        if code == "HARD_SWISH":
            sy = max(sx, sy)
        if code == "LOGISTIC":
            sy, zy = 1 / 256, -128
        fields, params = dict(given), {}
        if code == "LEAKY_RELU":
            fields["alpha"] = alpha * (1 - 2 * int(rng.integers(2)))
            params = {"alpha_f32_hex": [np.float32(fields["alpha"]).tobytes().hex()]}
        ends = [Stored(x.shape, sx, zx, dtype)], Stored(x.shape, sy, zy, dtype)
        return Drawn(SingleOp(code, *ends, [[x]], version, options, fields), params)

    return drawn


def requantized(x_type, y_type):
    """QUANTIZE, of all 256 codes or so many words."""

    def drawn(rng):
        sx, sy, _ = beside_ties(rng)
        x = X if x_type == "int8" else codes(rng, 1, 256, dtype=x_type)
        sx, sy = float32(sx * 127 / SIZES[x_type]), float32(sy * 127 / SIZES[y_type])
        zx, zy = (zero_of(rng) if each == "int8" else 0 for each in (x_type, y_type))
        ends = [Stored(x.shape, sx, zx, x_type)], Stored(x.shape, sy, zy, y_type)
        return Drawn(SingleOp("QUANTIZE", *ends, [[x]], 2, "QuantizeOptions"))

    return drawn


def prelu(rng):
    sx, sy, slope_scale = beside_ties(rng)
    slopes = Stored((256,), slope_scale, zero_of(rng), values=codes(rng, 256))
    inputs = [Stored(X.shape, sx, zero_of(rng)), slopes]
    return Drawn(SingleOp("PRELU", inputs, Stored(X.shape, sy, zero_of(rng)), [[X]]))


# Rows, windows, places


def softmax(rng):
    """Rows of fewer than 512 codes, which can sum to 512: LiteRT ends the process there."""
    scale, cells = any_scale(rng, -3.5, 0.8), int(rng.choice([1, 2, 3, 10, 100, 511]))
    x = codes(rng, 6, cells)
    x[4:], x[5] = np.maximum(x[4:], 120), 5
    ends = [Stored(x.shape, scale, 3)], Stored(x.shape, 1 / 256, -128)
    return Drawn(SingleOp("SOFTMAX", *ends, [[x]], 2, "SoftmaxOptions", {"beta": 1.0}))


def average_pool(rng, dtype="int8"):
    kernel, stride = [int(n) for n in rng.integers(1, 5, 2)], int(rng.integers(1, 3))
    x, scale = codes(rng, 1, 8, 7, 3, dtype=dtype), any_scale(rng)
    zero, version = (zero_of(rng), 2) if dtype == "int8" else (0, 3)
    size = [(n - k) // stride + 1 for n, k in zip((8, 7), kernel, strict=True)]
    given = {"filterHeight": kernel[0], "filterWidth": kernel[1], "padding": VALID}
    given |= {"strideH": stride, "strideW": stride}
    ends = [Stored(x.shape, scale, zero, dtype)], Stored((1, *size, 3), scale, zero, dtype)
    op = SingleOp("AVERAGE_POOL_2D", *ends, [[x]], version, "Pool2DOptions", given)
    return Drawn(op, {"k": kernel, "stride": stride, "padding": "VALID", "fused_act": "NONE"})


def mean(rng, dtype="int8"):
    axes = [[1, 2], [3], [1], [2, 3]][rng.integers(4)]
    height, (sx, sy, _) = int(rng.integers(1, 12)), beside_ties(rng)
    x, words = codes(rng, 2, height, 5, 4, dtype=dtype), dtype == "int16"
    zx, zy = (0, 0) if words else (zero_of(rng), zero_of(rng))
    shape = [n for axis, n in enumerate(x.shape) if axis not in axes]
    places = Stored((len(axes),), dtype="int32", values=axes)
    inputs, y = [Stored(x.shape, sx, zx, dtype), places], Stored(shape, sy, zy, dtype)
    given = {"keepDims": False}
    op = SingleOp("MEAN", inputs, y, [[x]], 2 + words, "ReducerOptions", given)
    return Drawn(op, {"axes": axes, "keep_dims": False})


def resize(rng):
    mode = ["align_corners", "asymmetric", "half_pixel"][rng.integers(3)]
    before, after = ([int(n) for n in rng.integers(1, 14, 2)] for _ in range(2))
    x, scale, zero = codes(rng, 1, *before, 3), any_scale(rng), zero_of(rng)
    inputs = [Stored(x.shape, scale, zero), Stored((2,), dtype="int32", values=after)]
    given = {
        "alignCorners": mode == "align_corners",
        "halfPixelCenters": mode == "half_pixel",
    }
    y, options = Stored((1, *after, 3), scale, zero), "ResizeBilinearOptions"
    return Drawn(
        SingleOp("RESIZE_BILINEAR", inputs, y, [[x]], 3, options, given), {"mode": mode}
    )


def concatenation(rng):
    """Of unlike scales, which the operator refuses: each input is a QUANTIZE away."""
    count, sy, zy = int(rng.integers(2, 5)), any_scale(rng), zero_of(rng)
    parts = [codes(rng, 2, 64) for _ in range(count)]
    scales = [any_scale(rng), *(sy if rng.integers(4) == 0 else any_scale(rng) for _ in parts)]
    inputs = [Stored(x.shape, s, zero_of(rng)) for x, s in zip(parts, scales, strict=False)]
    y = Stored((2, 64 * count), sy, zy)
    given, options = {"axis": 1, "fusedActivationFunction": NO_CLAMP}, "ConcatenationOptions"
    read = [Stored(each.shape, sy, zy) for each in inputs]
    return Drawn(SingleOp("CONCATENATION", inputs, y, [parts], 2, options, given, read))


CASES: dict[str, Callable[..., Drawn]] = {
    "conv_2d": convolution,
    "depthwise_conv_2d": depthwise,
    "fully_connected": fully_connected,
    "batch_matmul": batch_matmul,
    "add": pair("ADD"),
    "sub": pair("SUB"),
    "mul": pair("MUL"),
    "quantize_requant": requantized("int8", "int8"),
    "relu": single("RELU"),
    "relu6": single("RELU6"),
    "leaky_relu": single("LEAKY_RELU", 2, "LeakyReluOptions"),
    "prelu": prelu,
    "hard_swish": single("HARD_SWISH", 1, "HardSwishOptions"),
    "logistic": single("LOGISTIC", 1),
    "tanh": single("TANH", 1),
    "exp": single("EXP", 2, "ExpOptions"),
    "gelu": single("GELU", 2, "GeluOptions", approximate=False),
    "gelu_tanh": single("GELU", 2, "GeluOptions", approximate=True),
    "softmax_int8": softmax,
    "average_pool_2d": average_pool,
    "mean": mean,
    "resize_bilinear": resize,
    "concatenation": concatenation,
}
"""By the name of the file that holds them."""

CASES |= {
    **{
        f"{name}_16x8": partial(CASES[name], dtype="int16", bias="int64")
        for name in ("conv_2d", "depthwise_conv_2d", "fully_connected")
    },
    **{
        f"{name}_int16": partial(CASES[name], dtype="int16")
        for name in ("batch_matmul", "average_pool_2d", "mean")
    },
    **{f"{code.lower()}_int16": pair(code, "int16") for code in ("ADD", "SUB", "MUL")},
    **{f"{code.lower()}_int16": single(code, dtype="int16") for code in ("RELU", "RELU6")},
    "quantize_int8_int16": requantized("int8", "int16"),
    "quantize_int16_int8": requantized("int16", "int8"),
    "quantize_int16": requantized("int16", "int16"),
}
