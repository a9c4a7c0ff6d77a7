"""What targets make of records of TFLite's operators, whose format is that of the vectors."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np

from opsets.convolution import convolve
from opsets.fixed_point import saturate
from opsets.forms import (
    ADD_FORMS,
    GEMM_FORMS,
    MEAN_FORMS,
    POOL_FORMS,
    SLOPE_FORMS,
    sloped,
)
from opsets.gemmlowp import softmax_exponentials
from opsets.qpasses_v1 import OPS
from opsets.rounding import requantize
from opsets.target import Target, load_target, target_names
from qpasses.ir.edges import quantize
from qpasses.ir.function import Function
from qpasses.ir.interchange import import_graph
from qpasses.ir.record import Quantization
from qpasses.lowering.numbers.interpolation import Axis, ten_bit_taps
from qpasses.lowering.numbers.table_entries import tabulate
from tests.support.conformance import float32
from tests.support.small_models import model

SHIPPED = {name: load_target(name) for name in target_names()}
PEERS = {  # not shipped: what a user's file could say
    "ruy": replace(SHIPPED["tflm"], name="ruy", rounding="ruy"),
    "rndnu": Target("rndnu", "XNNPACK", 24, "half_up"),
    "vaddsub": Target("vaddsub", "XNNPACK's addition", 21, "half_up"),
    "float32": Target(
        "float32", "onnxruntime, XNNPACK", 24, "half_to_even_in_float32", scales="float32"
    ),
}
TARGETS = SHIPPED | PEERS


def real(tensor):
    return [float(float32(scale)) for scale in tensor["scale_f32_hex"]]


def roles(record):
    """in0, in1, in2, out: their scale, zero point and levels where they are given."""
    found = {each["role"]: {**each, "real": None} for each in record["tensors"]}
    fed = [each for each in found.values() if each["const"] is None and each["role"] != "out"]
    for each, feed in zip(fed, record["feeds"], strict=True):
        each["level"] = np.array(feed) - each["zp"]
    for each in found.values():
        if each["scale_f32_hex"]:
            each["real"] = real(each)[0]
    return found


def stored(level, y, low=None, high=None):
    """Codes from ``low`` to ``high``, of all that the type of y has, or int8."""
    ends = np.iinfo(y.get("dtype", "int8"))
    return saturate(
        level, y["zp"], ends.min if low is None else low, ends.max if high is None else high
    )


def of_words(*ends):
    return any(each["dtype"] == "int16" for each in ends)


def of_dense(record, target):
    t, acc = roles(record), np.array(record["params"]["acc"])
    scales = [t["in0"]["real"] * each / t["out"]["real"] for each in real(t["in1"])]
    pairs = np.array([target.scale_to_multiplier(scale) for scale in scales])
    shape = np.shape(record.get("expected_all") or record["expected"]["ref"])
    return stored(target.requantize(acc, *pairs.T), t["out"]).reshape(shape)


def of_gemm(record, target):
    t = roles(record)
    (w_scale,) = {*real(t["in1"])}
    acc = np.array(record["params"]["acc"])
    return stored(gemm_levels(t, acc, w_scale, target), t["out"]).reshape(1, -1)


def gemm_levels(t, acc, w_scale, target):
    scale = target.real_scale("IntGemm", (t["in0"]["real"], w_scale), t["out"]["real"])
    levels = GEMM_FORMS[target.gemm].levels(acc, scale, target)
    return np.where(levels == 1 << 31, -levels, levels)  # C++ leaves that to the processor


def of_add(record, target, sign=1):
    t = roles(record)
    form = ADD_FORMS[target.add_form(of_words(t["in0"], t["in1"], t["out"]))]
    numbers = form.numbers(*(t[role]["real"] for role in ("in0", "in1", "out")), target)
    operands = t["in0"]["level"], t["in1"]["level"]
    return stored(form.levels(*operands, numbers, target.rounding, sign), t["out"])


def of_sub(record, target):
    return of_add(record, target, sign=-1)


def of_mul(record, target):
    t = roles(record)
    a, b, y = (t[role] for role in ("in0", "in1", "out"))
    scale = target.real_scale("IntMul", (a["real"], b["real"]), y["real"])
    pair = target.elementwise_multiplier(scale)
    return stored(target.requantize(a["level"] * b["level"], *pair), y)


def of_rescale(record, target):
    t = roles(record)
    x, y = t["in0"], t["out"]
    pair = target.scale_to_multiplier(x["real"] / y["real"])
    return stored(target.requantize(x["level"], *pair), y)


def of_relu(record, target, highest=np.inf):
    t = roles(record)
    x, y = t["in0"], t["out"]
    scale = target.real_scale("Relu", (x["real"],), y["real"])
    level = target.requantize(x["level"], *target.scale_to_multiplier(scale))
    high = min(np.iinfo(y["dtype"]).max, y["zp"] + np.rint(highest / y["real"]))
    return stored(level, y, y["zp"], int(high))


def of_relu6(record, target):
    return of_relu(record, target, highest=6)


def of_leaky_relu(record, target):
    t, alpha = roles(record), float(float32(record["params"]["alpha_f32_hex"][0]))
    x, y = t["in0"], t["out"]
    form = SLOPE_FORMS[target.slopes]
    numbers = form.numbers("LeakyRelu", x["real"], y["real"], [1], alpha, target)
    return stored(sloped(x["level"], numbers, target.rounding), y)


def of_prelu(record, target):
    t = roles(record)
    x, slope, y = (t[role] for role in ("in0", "in1", "out"))
    codes = (np.ravel(slope["const"]) - slope["zp"]).tolist()
    form = SLOPE_FORMS[target.slopes]
    numbers = form.numbers("PRelu", x["real"], y["real"], codes, slope["real"], target)
    return stored(sloped(x["level"], numbers, target.rounding), y)


def of_mean(record, target):
    t, axes = roles(record), tuple(record["params"]["axes"])
    x, y, form = t["in0"], t["out"], MEAN_FORMS[target.mean]
    cells = int(np.prod([x["level"].shape[axis] for axis in axes]))
    pair = form.numbers(x["real"] / y["real"], cells, target)
    sums = x["level"].sum(axis=axes, keepdims=record["params"]["keep_dims"])
    return stored(form.levels(sums, cells, pair, target.rounding), y)


def windows(level, kernel, stride, pads):
    """Each position with the sum of its cells and their number; channels last."""
    top, left, bottom, right = pads
    padded = np.pad(level, [(0, 0), (top, bottom), (left, right), (0, 0)])
    there = np.pad(np.ones_like(level), [(0, 0), (top, bottom), (left, right), (0, 0)])
    sizes = [(n - k) // stride + 1 for n, k in zip(padded.shape[1:3], kernel, strict=True)]
    for row, column in product(*map(range, sizes)):
        rows = slice(row * stride, row * stride + kernel[0])
        columns = slice(column * stride, column * stride + kernel[1])
        cells = int(there[0, rows, columns, 0].sum())
        yield row, column, padded[:, rows, columns].sum(axis=(1, 2)), cells


def pooled(level, kernel, stride, pads, target):
    form, found = POOL_FORMS[target.average_pool], {}
    for row, column, sums, cells in windows(level, kernel, stride, pads):
        pair = form.numbers(1, cells, target)
        found[row, column] = form.levels(sums, cells, pair, target.rounding)
    rows, columns = (max(at) + 1 for at in zip(*found, strict=True))
    grid = [[found[row, column] for column in range(columns)] for row in range(rows)]
    return np.moveaxis(np.array(grid), 2, 0)


def of_average_pool(record, target):
    t, p = roles(record), record["params"]
    x, y, pads = t["in0"]["level"], t["out"], [0, 0, 0, 0]
    if p["padding"] == "SAME":
        for axis in (0, 1):
            size = x.shape[axis + 1]
            missing = max((-(-size // p["stride"]) - 1) * p["stride"] + p["k"][axis] - size, 0)
            pads[axis], pads[axis + 2] = missing // 2, missing - missing // 2
    low = y["zp"] if p["fused_act"] == "RELU" else None
    zero = {**y, "zp": 0}  # TFLite averages stored integers: input and output are alike
    level = pooled(x + y["zp"], p["k"], p["stride"], pads, target)
    return stored(level, zero, low)


def softmaxed(x, scale):
    given = np.array(softmax_exponentials(scale), np.int32), *np.int8([-128, -128, 127])
    return OPS["GemmlowpSoftmax"].reference(np.int8(x), *given, axis=-1)


def of_softmax(record, _target):
    t = roles(record)
    assert (t["out"]["real"], t["out"]["zp"]) == (1 / 256, -128)
    return softmaxed(record["feeds"][0], t["in0"]["real"])


def of_pad(record, _target):
    """With zero points: what moves has no arithmetic."""
    t = roles(record)
    return np.pad(t["in0"]["level"], t["in1"]["const"]) + t["out"]["zp"]


def quantized(rounding, by_inverse=False):
    """Of floats: graphs have QuantizeLinear there, which divides and takes ties to even."""

    def codes(record, _target):
        t = roles(record)
        y = Quantization(t["out"]["real"], t["out"]["zp"], "int8")
        x = np.float32(record["feeds"][0])
        return quantize(x, y, rounding, np.float32, by_inverse)

    return codes


# Operators of records that make bench conformance writes alone


def weighted(record):
    """The roles, and sums of a convolution with its bias, channels last."""
    t, p = roles(record), record["params"]
    order = (3, 0, 1, 2) if p["group"] > 1 else (0, 3, 1, 2)
    weights = np.transpose(np.array(t["in1"]["const"]), order)
    bias = np.array(t["in2"]["const"]).reshape(-1, 1, 1)
    acc = convolve(
        np.moveaxis(t["in0"]["level"], -1, 1), weights, p["group"], strides=p["strides"]
    )
    return t, np.moveaxis(acc + bias, 1, -1)


def of_channels(t, acc, target):
    """Sums with channels last by the scale of each."""
    scales = [
        target.real_scale("IntConv", (t["in0"]["real"], each), t["out"]["real"])
        for each in real(t["in1"])
    ]
    return stored(sum_levels(acc, scales, t["in0"], target), t["out"])


def sum_levels(acc, scales, x, target):
    """Of one scale, or one for each of the last axis; of words by the rules for these."""
    words = of_words(x)
    derive = target.word_sum_multiplier if words else target.scale_to_multiplier
    pairs = np.array([derive(scale) for scale in scales])
    rounding = (words and target.word_rounding) or target.rounding
    return requantize(acc, *pairs.T, rounding)


def of_conv(record, target):
    return of_channels(*weighted(record), target)


def dense(record):
    t = roles(record)
    weights, bias = np.array(t["in1"]["const"]), np.array(t["in2"]["const"])
    return t, t["in0"]["level"] @ weights.T + bias


def of_fully_connected(record, target):
    t, acc = dense(record)
    scales = real(t["in1"])
    if len(scales) == 1:
        return stored(gemm_levels(t, acc, scales[0], target), t["out"])
    if target.gemm == "scaled":
        columns = [
            gemm_levels(t, acc[:, column], scale, target)
            for column, scale in enumerate(scales)
        ]
        return stored(np.stack(columns, axis=1), t["out"])
    return of_channels(t, acc, target)  # which TFLite derives as those of convolutions


def of_batch_matmul(record, target):
    t = roles(record)
    a, b, y = (t[role] for role in ("in0", "in1", "out"))
    scale = target.real_scale("IntMatMul", (a["real"], b["real"]), y["real"])
    return stored(sum_levels(a["level"] @ b["level"], [scale], a, target), y)


def of_resize(record, _target):
    t, p = roles(record), record["params"]
    x = np.moveaxis(np.array(record["feeds"][0]), -1, 1)
    sizes = [*zip(x.shape[2:], t["in1"]["const"], strict=True)]
    taps = ten_bit_taps([Axis(a, b, Fraction(b, a)) for a, b in sizes], p["mode"])
    bits = np.int32([taps.total.bit_length() - 1])
    codes, zero = np.int8(x), np.int8(0)
    numbers = taps.indices.astype(np.int32), taps.coefficients.astype(np.int32)
    given = codes, zero, *numbers, np.int32([1]), bits, zero, *np.int8([-128, 127])
    before, after = zip(*sizes, strict=True)
    found = OPS["IntResize"].reference(
        *given, rounding="half_away", x_sizes=[1, *before], y_sizes=[1, *after], dims=2
    )
    assert t["in0"]["real"] == t["out"]["real"]
    return np.moveaxis(found, 1, -1)


def of_concat(record, target):
    """Each at the scale of the output, as QUANTIZE does it, then side by side."""
    t = roles(record)
    parts = [t[role] for role in sorted(t) if role != "out"]
    y = t["out"]
    pairs = [
        target.elementwise_multiplier(target.real_scale("Quantize", (x["real"],), y["real"]))
        for x in parts
    ]
    levels = [target.requantize(x["level"], *p) for x, p in zip(parts, pairs, strict=True)]
    return stored(np.concatenate(levels, axis=-1), y)


def table_of(text):
    graph = import_graph(model(f"g (float[N] x) => (float[N] y) {{ {text} }}", opset=20))
    function = Function.of(graph.nodes, graph.inputs, graph.outputs[0], 20)

    def looked_up(record, target):
        t = roles(record)
        x, y = (
            Quantization(t[role]["real"], t[role]["zp"], "int8") for role in ("in0", "out")
        )
        entries, _ = tabulate(function, x, y, target.table_rules)
        return entries[np.int8(record["feeds"][0]).view(np.uint8)]

    return looked_up
