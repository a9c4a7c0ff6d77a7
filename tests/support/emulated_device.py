"""A device in Python: an integer graph node by node, with arithmetic of its own, and faults.

Sums are numpy's, what becomes of them are Python's integers and floats, one code after the
other: nothing of what bisect computes them with.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper

from opsets.qpasses_v1 import OPS
from qpasses.ir.graph import constant

FLOOR = math.floor


def half_even(value):
    return round(value)


def half_up(value):
    return FLOOR(value + Fraction(1, 2))


def half_down(value):
    return -FLOOR(-value + Fraction(1, 2))


def half_away(value):
    return half_up(value) if value >= 0 else -half_up(-value)


def toward_zero(value):
    return math.trunc(value)


@dataclass(frozen=True)
class Numbers:
    """What stands on a node for one channel: multiplier / 2**shift, and what it stands for."""

    multiplier: int
    shift: int
    real: Fraction
    zero: int
    low: int
    high: int

    def code(self, level):
        return min(max(level + self.zero, self.low), self.high)

    @property
    def ratio(self):
        return Fraction(self.multiplier, 1 << self.shift)


def rounding(rule):
    """As the node says, rounded otherwise."""
    return lambda acc, n: n.code(rule(acc * n.ratio))


def bits(count, rule=half_up):
    """Multipliers of so many bits, the nearest to the real scales."""
    return lambda acc, n: n.code(rule(acc * narrowed(n.real, count)))


@cache
def narrowed(scale, count):
    shift = count
    while scale * 2**shift >= 2**count:
        shift -= 1
    while scale * 2**shift < 2 ** (count - 1):
        shift += 1
    return Fraction(round(scale * 2**shift), 2**shift)


def wrap32(value):
    return (value + 2**31) % 2**32 - 2**31


def tflite(scale_of):
    """MultiplyByQuantizedMultiplier of TFLite's reference kernels, as gemmlowp has it."""

    def rule(acc, n):
        fraction, exponent = math.frexp(float(scale_of(n)))
        return n.code(by_tflite(acc, half_away(Fraction(fraction) * 2**31), exponent))

    return rule


def by_tflite(value, quantized, exponent):
    """``value`` times a multiplier of 31 bits times 2**exponent, rounded twice."""
    if quantized == 2**31:
        quantized, exponent = quantized // 2, exponent + 1
    product = wrap32(value << max(exponent, 0)) * quantized
    nudge = 2**30 if product >= 0 else 1 - 2**30
    high = math.trunc(Fraction(product + nudge, 2**31))
    return half_away(Fraction(high, 2 ** max(-exponent, 0)))


def in_float32(acc, n):
    product = np.float32(acc) * np.float32(n.real)
    return n.code(int(np.rint(product)))


def in_double(acc, n):
    product = float(acc) * float(n.real)
    return n.code(int(math.copysign(FLOOR(abs(product) + 0.5), product)))


def zero_point_first(acc, n):
    return min(max(half_even(acc * n.ratio + n.zero), n.low), n.high)


def wrapped(acc, n):
    return (half_up(acc * n.ratio) + n.zero - n.low) % (n.high - n.low + 1) + n.low


def without_zero_point(acc, n):
    return min(max(half_up(acc * n.ratio), n.low), n.high)


@dataclass(frozen=True)
class Emulated:
    """What becomes of a sum by its Numbers; ``file``: how the nodes of the file round."""

    codes: object
    file: str = "half_up"


RULES = {
    "half_to_even": Emulated(rounding(half_even)),
    "half_up": Emulated(rounding(half_up), "half_to_even"),
    "half_away": Emulated(rounding(half_away)),
    "half_down": Emulated(rounding(half_down)),
    "down": Emulated(rounding(FLOOR)),
    "toward_zero": Emulated(rounding(toward_zero)),
    "up": Emulated(rounding(math.ceil)),
    "tflite_double": Emulated(tflite(lambda n: n.ratio)),
    "tflite_double, multipliers of 31 bits": Emulated(tflite(lambda n: n.real)),
    "half_up, multipliers of 31 bits": Emulated(bits(31)),
    "half_up, multipliers of 24 bits": Emulated(bits(24)),
    "half_up, multipliers of 18 bits": Emulated(bits(18)),
    "half_up, multipliers of 16 bits": Emulated(bits(16)),
    "half_up, multipliers of 15 bits": Emulated(bits(15)),
    "half_to_even_in_float32, multipliers of 24 bits": Emulated(in_float32),
    "half_away_in_double, scales in double": Emulated(in_double),
    "half_to_even, the zero point added before rounding": Emulated(
        zero_point_first, "half_to_even"
    ),
    "half_up, wrapped around instead of clamped": Emulated(wrapped),
    "half_up, without the zero point": Emulated(without_zero_point),
}
"""Devices whose sums are right, by what bisect calls their rule."""


@dataclass
class Device:
    """``rule`` is what becomes of sums, None for what nodes say.

    ``faults``: by tensor a function of its codes, which are wrong from then on.
    """

    read: object
    rule: object = None
    faults: dict = field(default_factory=dict)

    def run(self, feed):
        """All stored tensors by name, as ONNX has their axes."""
        values = dict(feed)
        for node in self.read.graph.nodes:
            given = [values[t.name] if (c := constant(t)) is None else c for t in node.inputs]
            found = self._results(node, given)
            for tensor, result in zip(node.outputs, found, strict=True):
                fault = self.faults.get(tensor.name, lambda codes: codes)
                values[tensor.name] = fault(np.asarray(result))
        return {name: values[name] for name in values if name in self.read.record.tensors}

    def _results(self, node, given):
        if node.domain != "qpasses":
            return _by_onnxruntime(node, given)
        op = OPS[node.op]
        named = dict(zip(op.inputs, given, strict=True))
        if self.rule is None or node.op not in SUMS:
            return [op.reference(*given, **node.attrs)]
        return [self._rounded(node, named)]

    def _rounded(self, node, named):
        sums = SUMS[node.op](named, node.attrs)
        count = max(named["multiplier"].size, named["shift"].size)
        shape = [1] * sums.ndim
        shape[-1 if node.op in ("IntGemm", "IntMatMul") else 1] = count
        channels = np.broadcast_to(np.arange(count).reshape(shape), sums.shape)
        reals = self.read.record.nodes[node.name].real_scales()
        zero, low, high = (int(named[name]) for name in ("y_zero", "y_min", "y_max"))
        numbers = [
            Numbers(
                int(named["multiplier"].ravel()[i % named["multiplier"].size]),
                int(named["shift"].ravel()[i % named["shift"].size]),
                reals[i % len(reals)],
                *(zero, low, high),
            )
            for i in range(count)
        ]
        known = {}
        for pair in zip(sums.ravel().tolist(), channels.ravel().tolist(), strict=True):
            if pair not in known:
                known[pair] = self.rule(pair[0], numbers[pair[1]])
        pairs = zip(sums.ravel().tolist(), channels.ravel().tolist(), strict=True)
        codes = np.array([known[pair] for pair in pairs], named["y_zero"].dtype)
        return codes.reshape(sums.shape)


def _conv(named, attrs):
    x, w = (named[n].astype(np.int64) - int(named[f"{n}_zero"]) for n in "xw")
    pads, steps, group = attrs["pads"], attrs["strides"], attrs.get("group", 1)
    x = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    rows = (x.shape[2] - w.shape[2]) // steps[0] + 1
    columns = (x.shape[3] - w.shape[3]) // steps[1] + 1
    found = np.zeros((x.shape[0], w.shape[0], rows, columns), np.int64)
    inside, outside = w.shape[1], w.shape[0] // group
    for m in range(w.shape[0]):
        part = x[:, m // outside * inside : (m // outside + 1) * inside]
        for i in range(w.shape[2]):
            for j in range(w.shape[3]):
                piece = part[:, :, i : i + rows * steps[0] : steps[0]]
                piece = piece[:, :, :, j : j + columns * steps[1] : steps[1]]
                found[:, m] += (piece * w[m, :, i, j][:, None, None]).sum(axis=1)
    return found + named["bias"].astype(np.int64)[:, None, None]


def _gemm(named, _attrs):
    x, w = (named[n].astype(np.int64) - int(named[f"{n}_zero"]) for n in "xw")
    return x @ w + named["bias"]


def _average_pool(named, attrs):
    x = named["x"].astype(np.int64) - int(named["x_zero"])
    (a, b), (c, d) = attrs["kernel_shape"], attrs["strides"]
    assert not any(attrs["pads"])
    rows, columns = (x.shape[2] - a) // c + 1, (x.shape[3] - b) // d + 1
    parts = [
        x[:, :, i : i + rows * c : c, j : j + columns * d : d]
        for i in range(a)
        for j in range(b)
    ]
    return sum(parts)


def _global_average_pool(named, _attrs):
    x = named["x"].astype(np.int64) - int(named["x_zero"])
    return x.sum(axis=(2, 3), keepdims=True)


SUMS = {
    "IntConv": _conv,
    "IntGemm": _gemm,
    "IntAveragePool": _average_pool,
    "IntGlobalAveragePool": _global_average_pool,
}
"""The ops whose sums the device computes itself."""


def _by_onnxruntime(node, given):
    names = [f"x{i}" for i in range(len(given))]
    outputs = [f"y{i}" for i in range(len(node.outputs))]
    made = helper.make_node(node.op, names, outputs, **node.attrs)
    inputs = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(each.dtype), each.shape
        )
        for name, each in zip(names, given, strict=True)
    ]
    results = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(np.dtype(tensor.dtype)), None
        )
        for name, tensor in zip(outputs, node.outputs, strict=True)
    ]
    graph = helper.make_graph([made], "node", inputs, results)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    model.ir_version = min(model.ir_version, onnx.IR_VERSION, 10)
    session = ort.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, dict(zip(names, given, strict=True)))


def save_dump(folder, runs):
    """A folder for each sample, its tensors as .npy files named by tensor."""
    for i, run in enumerate(runs):
        for name, codes in run.items():
            path = folder / f"{i:04d}" / f"{name.strip('/')}.npy"
            path.parent.mkdir(parents=True, exist_ok=True)
            np.save(path, codes)
    return folder
