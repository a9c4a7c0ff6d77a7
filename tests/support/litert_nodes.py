"""Integer nodes as TFLite operators of their own, for what nodes of target ``litert`` mean."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.qpasses_v1 import OPS
from opsets.qpasses_v1.int_reduce import DIVIDES
from qpasses.ir.function import Function
from qpasses.ir.graph import Node, constant
from qpasses.ir.record import NodeRecord, Quantization
from qpasses.load.integer_model import IntegerModel
from qpasses.lowering.numbers.coded_slope_numbers import stored_slopes
from tests.support.litert import SingleOp, Stored

FUNCTIONS = {
    "Sigmoid": ("LOGISTIC", 1, "", {}),
    "Tanh": ("TANH", 1, "", {}),
    "Exp": ("EXP", 2, "ExpOptions", {}),
    "HardSwish": ("HARD_SWISH", 1, "HardSwishOptions", {}),
    "Gelu": ("GELU", 2, "GeluOptions", {}),
}
PADDING_VALID, RELU, RELU6, NO_CLAMP = 1, 1, 3, 0


@dataclass(frozen=True)
class Site:
    """A node with its record, what its tensors mean, and values of its data inputs."""

    node: Node
    entry: NodeRecord
    meanings: Mapping[str, Quantization]
    given: Mapping[str, NDArray[Any]]

    @property
    def has_words(self) -> bool:
        """Whether y has 16 bits."""
        return self.meanings["y"].dtype == "int16"

    @property
    def codes(self) -> NDArray[Any]:
        """What the op means, as int8 or int16."""
        return signed(OPS[self.node.op].reference(*self.given.values(), **self.node.attrs))

    def fed(self, name: str) -> NDArray[Any]:
        """What flows in as int8 or int16."""
        return signed(self.given[name])

    def stored(self, name: str, values: NDArray[Any]) -> Stored:
        """The tensor of an input or of y, whose ``values`` are laid out as they will be."""
        meaning = self.meanings[name]
        zero = meaning.zero_point - (128 if meaning.dtype == "uint8" else 0)
        dtype = "int16" if meaning.dtype == "int16" else "int8"
        return Stored(values.shape, meaning.scale, zero, dtype)


def site_of(read: IntegerModel, name: str, seed: int = 0, least: int = 1) -> Site:
    """A node of a model by name, with random codes for what flows in.

    ``least``: of the first size, where a batch may be of any.
    """
    node = next(each for each in read.graph.nodes if each.name == name)
    op, random = OPS[node.op], np.random.default_rng(seed)
    given, meanings = {}, {"y": read.record.tensors[node.outputs[0].name]}
    for label, tensor in zip(op.inputs, node.inputs, strict=True):
        value = constant(tensor)
        meaning = read.record.tensors.get(tensor.name)
        if value is None:
            shape = [n if isinstance(n, int) else least for n in tensor.shape]
            shape[0] = max(shape[0], least)
            value = random.integers(*meaning.type_limits, shape, meaning.dtype, endpoint=True)
        if meaning is not None:
            meanings[label] = meaning
        given[label] = value
    return Site(node, read.record.nodes[name], meanings, given)


def signed(codes: NDArray[Any]) -> NDArray[Any]:
    """Codes as int8, of uint8 128 less; or as int16."""
    return codes if codes.dtype != np.uint8 else (codes ^ np.uint8(128)).view(np.int8)


def last(values: NDArray[Any]) -> NDArray[Any]:
    """Channels last."""
    return np.moveaxis(values, 1, -1)


def as_operator(site: Site) -> tuple[SingleOp, NDArray[Any]]:
    """The operator that the node stands for, fed alike, and what the node makes of it."""
    return {
        "IntConv": _conv,
        "IntGemm": _gemm,
        "IntMatMul": _mat_mul,
        "IntRescaledAdd": _sum,
        "IntRescaledSub": _sum,
        "IntMul": _sum,
        "IntCodedPRelu": _slopes,
        "Lut": _table,
        "IntCountedAveragePool": _pool,
        "IntReduce": _mean,
        "GemmlowpSoftmax": _softmax,
        "IntResize": _resize,
        "IntRescale": _rescale,
        "IntMaxPool": _max_pool,
    }[site.node.op](site)


def _bias(site: Site, w_scale: list[float]) -> Stored:
    steps = [float(np.float32(site.entry.scales["x"][0]) * np.float32(w)) for w in w_scale]
    bias, dtype = site.given["bias"], "int64" if site.has_words else "int32"
    return Stored(bias.shape, steps, dtype=dtype, values=bias)


def _clamp(site: Site) -> int:
    """Of words, which no zero point at the end clamps."""
    return RELU if site.has_words and site.given["y_min"] == 0 else NO_CLAMP


def _conv(site: Site) -> tuple[SingleOp, NDArray[Any]]:
    x, w, y = last(site.fed("x")), site.given["w"], last(site.codes)
    group, scales = site.node.attrs["group"], site.entry.scales["w"]
    strides, pads = site.node.attrs["strides"], site.node.attrs["pads"]
    if any(pads):  # PAD does it before, with the zero point
        widths = [(0, 0), *np.reshape(pads, (2, -1)).T.tolist(), (0, 0)]
        x = np.pad(x, widths, constant_values=signed(site.given["x_zero"]))
    if w.ndim == 3:  # of one row
        x, w, y, strides = x[:, None], w[:, :, None], y[:, None], [1, *strides]
    steps = dict(zip(("strideH", "strideW"), strides, strict=True))
    given = {**steps, "padding": PADDING_VALID, "dilationHFactor": 1, "dilationWFactor": 1}
    given["fusedActivationFunction"] = _clamp(site)
    if group == 1:
        code, weights, axis = "CONV_2D", np.transpose(w, (0, 2, 3, 1)), 0
    else:
        code, weights, axis = "DEPTHWISE_CONV_2D", np.transpose(w, (1, 2, 3, 0)), 3
        given["depthMultiplier"] = w.shape[0] // group
    kernel = Stored(weights.shape, scales, values=weights, axis=axis)
    inputs = [site.stored("x", x), kernel, _bias(site, scales)]
    options = "Conv2DOptions" if group == 1 else "DepthwiseConv2DOptions"
    version = 4 if site.has_words else 3
    return SingleOp(code, inputs, site.stored("y", y), [[x]], version, options, given), y


def _gemm_of_words(site: Site) -> tuple[SingleOp, NDArray[Any]]:
    """A CONV_2D of one cell, whose multiplier has 15 bits: FULLY_CONNECTED has a double."""
    (x, w, y), scales = (site.fed("x"), site.given["w"].T, site.codes), site.entry.scales["w"]
    x, y = (each.reshape(-1, 1, 1, each.shape[-1]) for each in (x, y))
    weights = np.ascontiguousarray(w)[:, None, None]
    kernel = Stored(weights.shape, scales, values=weights)
    inputs = [site.stored("x", x), kernel, _bias(site, scales)]
    given = {"strideH": 1, "strideW": 1, "dilationHFactor": 1, "dilationWFactor": 1}
    given |= {"padding": PADDING_VALID, "fusedActivationFunction": _clamp(site)}
    return SingleOp(
        "CONV_2D", inputs, site.stored("y", y), [[x]], 4, "Conv2DOptions", given
    ), y


def _gemm(site: Site) -> tuple[SingleOp, NDArray[Any]]:
    if site.has_words:
        return _gemm_of_words(site)
    x, w, y, scales = site.fed("x"), site.given["w"].T, site.codes, site.entry.scales["w"]
    weights = Stored(w.shape, scales, values=np.ascontiguousarray(w))
    version = 4 if len(scales) == 1 else 5
    inputs = [site.stored("x", x), weights, _bias(site, scales)]
    options = "FullyConnectedOptions"
    return SingleOp("FULLY_CONNECTED", inputs, site.stored("y", y), [[x]], version, options), y


def _mat_mul(site: Site) -> tuple[SingleOp, NDArray[Any]]:
    a, b, y = site.fed("a"), site.fed("b"), site.codes
    inputs = [site.stored("a", a), site.stored("b", b)]
    options = "BatchMatMulOptions"
    return SingleOp("BATCH_MATMUL", inputs, site.stored("y", y), [[a, b]], 4, options), y


def _sum(site: Site) -> tuple[SingleOp, NDArray[Any]]:
    a, b, y = site.fed("a"), site.fed("b"), site.codes
    word = site.node.op.removeprefix("IntRescaled").removeprefix("Int")
    inputs = [site.stored("a", a), site.stored("b", b)]
    given = {"fusedActivationFunction": _clamp(site)}
    if site.has_words and word != "Mul":
        given["potScaleInt16"] = False
    return SingleOp(
        word.upper(), inputs, site.stored("y", y), [[a, b]], 2, f"{word}Options", given
    ), y


def _slopes(site: Site) -> tuple[SingleOp, NDArray[Any]]:
    function = Function.from_text(site.entry.function)
    x, y = last(site.fed("x")), last(site.codes)
    if function.ops == ["LeakyRelu"]:
        given = {"alpha": float(np.float32(function.slopes[0]))}
        inputs = [site.stored("x", x)]
        return SingleOp(
            "LEAKY_RELU", inputs, site.stored("y", y), [[x]], 2, "LeakyReluOptions", given
        ), y
    _, scale = stored_slopes(function.slopes.astype(np.float32))
    codes = site.given["slope_codes"].reshape(1, 1, -1)
    zero = int(-128 - codes.min())  # the least is there, or zero: it spans them from -128
    slopes = Stored(codes.shape, scale, zero, values=codes + zero)
    return SingleOp("PRELU", [site.stored("x", x), slopes], site.stored("y", y), [[x]]), y


def _table(site: Site) -> tuple[SingleOp, NDArray[Any]]:
    x, y = site.fed("x"), site.codes
    inputs, output = [site.stored("x", x)], site.stored("y", y)
    if site.entry.function:
        (word,) = Function.from_text(site.entry.function).ops
        code, version, options, given = FUNCTIONS[word]
        if word == "Gelu":
            attributes = Function.from_text(site.entry.function).model.graph.node[0].attribute
            given = {"approximate": any(each.s == b"tanh" for each in attributes)}
        return SingleOp(code, inputs, output, [[x]], version, options, given), y
    code = {(None, None): "QUANTIZE", (0, None): "RELU", (0, 6): "RELU6"}[
        tuple(site.entry.bounds)
    ]
    version, options = (1, "QuantizeOptions") if code == "QUANTIZE" else (2, "")
    return SingleOp(code, inputs, output, [[x]], version, options), y


def _rescale(site: Site) -> tuple[SingleOp, NDArray[Any]]:
    """What stores a tensor anew, or clamps one of words: from zero on, up to the end or 6."""
    x, y = site.fed("x"), site.codes
    ends = [site.stored("x", x)], site.stored("y", y)
    low, high = np.iinfo(y.dtype).min, np.iinfo(y.dtype).max
    if signed(site.given["y_min"]) == low:
        return SingleOp("QUANTIZE", *ends, [[x]], 2, "QuantizeOptions"), y
    is_whole = site.given["y_max"] == high
    return SingleOp("RELU" if is_whole else "RELU6", *ends, [[x]], 2), y


def _resize(site: Site) -> tuple[SingleOp, NDArray[Any]]:
    """By the name of the node: its coordinates, which the integer node has no word for."""
    x, y = last(site.fed("x")), last(site.codes)
    sizes = Stored((2,), dtype="int32", values=np.array(y.shape[1:3], np.int32))
    given = {
        "alignCorners": site.node.name.endswith("align_corners"),
        "halfPixelCenters": site.node.name.endswith("half_pixel"),
    }
    inputs, options = [site.stored("x", x), sizes], "ResizeBilinearOptions"
    return SingleOp(
        "RESIZE_BILINEAR", inputs, site.stored("y", y), [[x]], 3, options, given
    ), y


def _softmax(site: Site) -> tuple[SingleOp, NDArray[Any]]:
    x, y = site.fed("x"), site.codes
    assert site.node.attrs["axis"] == -1
    inputs, given = [site.stored("x", x)], {"beta": 1.0}
    return SingleOp(
        "SOFTMAX", inputs, site.stored("y", y), [[x]], 2, "SoftmaxOptions", given
    ), y


def _pool(site: Site) -> tuple[SingleOp, NDArray[Any]]:
    x, y, attributes = last(site.fed("x")), last(site.codes), site.node.attrs
    given = _window(attributes["kernel_shape"], attributes["strides"])
    return _pooled("AVERAGE_POOL_2D", site, x, y, given)


def _pooled(
    code: str, site: Site, x: NDArray[Any], y: NDArray[Any], given: dict[str, int]
) -> tuple[SingleOp, NDArray[Any]]:
    version, inputs = 3 if site.has_words else 2, [site.stored("x", x)]
    output = site.stored("y", y)
    return SingleOp(code, inputs, output, [[x]], version, "Pool2DOptions", given), y


def _window(kernel: Sequence[int], strides: Sequence[int]) -> dict[str, int]:
    (height, width), (down, right) = kernel, strides
    window = {"filterHeight": height, "filterWidth": width, "strideH": down, "strideW": right}
    return {**window, "padding": PADDING_VALID}


def _max_pool(site: Site) -> tuple[SingleOp, NDArray[Any]]:
    x, y, attributes = last(site.fed("x")), last(site.codes), site.node.attrs
    given = _window(attributes["kernel_shape"], attributes["strides"])
    assert not any(attributes.get("pads", ()))
    meaning = site.meanings["x"]
    held = Site(site.node, site.entry, {"x": meaning, "y": meaning}, site.given)
    return _pooled("MAX_POOL_2D", held, x, y, given)


def _mean(site: Site) -> tuple[SingleOp, NDArray[Any]]:
    if site.node.attrs["mean"] == DIVIDES:  # a pool over all there is
        x, y = last(site.fed("x")), site.codes
        y = last(y.reshape(*y.shape[:2], 1, 1))
        return _pooled("AVERAGE_POOL_2D", site, x, y, _window(x.shape[1:3], (1, 1)))
    x, y = site.fed("x"), site.codes
    axes = np.array([each % x.ndim for each in site.node.attrs["axes"]], np.int32)
    inputs = [site.stored("x", x), Stored(axes.shape, dtype="int32", values=axes)]
    given, version = {"keepDims": bool(site.node.attrs["keepdims"])}, 2 + site.has_words
    output = site.stored("y", y)
    return SingleOp("MEAN", inputs, output, [[x]], version, "ReducerOptions", given), y
