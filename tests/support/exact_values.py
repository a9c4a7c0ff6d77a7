"""Single elements of a Q/DQ graph in exact arithmetic, and how far float32 may be off."""

import itertools
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import cached_property
from math import prod

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.support.small_models import session

HALF_ULP = Fraction(1, 1 << 24)
"""The largest relative error of one rounding to float32."""

FUNCTION_ULPS = 8
"""Roundings that stand for a function of onnxruntime: its kernels are that good at least."""

MOVES = {
    *("Concat", "Flatten", "Gather", "Identity", "Reshape", "Slice", "Split"),
    *("Squeeze", "Transpose", "Unsqueeze"),
}
"""Ops that put elements elsewhere."""

NEARLY = Context(prec=60)


@dataclass(frozen=True)
class Real:
    """An exact number, computed in at most ``depth`` roundings one after the other.

    ``size``: the sum of the magnitudes of what is added up. However the additions are
    ordered, float32 gives ``value`` within gamma(depth) * size, where gamma(k) is
    k u / (1 - k u) with u = 2**-24 (Higham, Accuracy and Stability, lemma 3.1).
    """

    value: Fraction
    size: Fraction
    depth: int

    @property
    def noise(self):
        """How far float32 may be off."""
        roundings = self.depth * HALF_ULP
        return self.size * roundings / (1 - roundings)

    def times(self, other):
        return Real(
            self.value * other.value, self.size * other.size, self.depth + other.depth + 1
        )


def total(terms):
    """Their sum."""
    terms = list(terms)
    depth = max(each.depth for each in terms) + len(terms) - 1
    return Real(sum(t.value for t in terms), sum(t.size for t in terms), depth)


def exact(number):
    return Real(Fraction(float(number)), abs(Fraction(float(number))), 0)


def half_to_even(number):
    """The nearest integer."""
    return round(number)


@dataclass
class ExactGraph:
    """The elements of every tensor of ``model``, whose ``codes`` are known.

    ``model``: float ops between QuantizeLinear and DequantizeLinear; ``codes``: by stored
    tensor, what its readers read; ``tensors``: an example of every tensor, for shapes.
    ``fused``: integers are computed with together with their zero points, as in QOperators,
    a few more roundings at each end. ``whole_bias``: a bias is one of the sums of products,
    at the product of the scales of these, of which its own scale is the nearest float32.
    """

    model: onnx.ModelProto
    codes: dict[str, np.ndarray]
    tensors: dict[str, np.ndarray]
    fused: bool = False
    whole_bias: bool = False

    def __post_init__(self):
        self._known = {}
        self._moved = {}

    @cached_property
    def writers(self):
        return {name: node for node in self.model.graph.node for name in node.output}

    @cached_property
    def constants(self):
        return constants_of(self.model)

    def shape(self, name):
        return (self.constants[name] if name in self.constants else self.tensors[name]).shape

    def at(self, name, index):
        """The element of tensor ``name`` at ``index``."""
        key = name, tuple(index)
        if key not in self._known:
            self._known[key] = self._computed(*key)
        return self._known[key]

    def level(self, name, index):
        """What the QuantizeLinear that writes ``name`` rounds, before the zero point."""
        node = self.writers[name]
        x = self.at(node.input[0], index)
        scale, zero = self._quantization(node, index)
        extra = abs(zero) if self.fused else 0
        return Real(
            x.value / scale, x.size / scale + extra, x.depth + (5 if self.fused else 1)
        )

    def stored(self, name, level):
        """The code of a level, zero point not counted."""
        node = self.writers[name]
        _, zero = self._quantization(node, None)
        ends = np.iinfo(self.tensors[name].dtype)
        return min(max(half_to_even(level), ends.min - zero), ends.max - zero)

    def _quantization(self, node, index):
        """Scale and zero point of one element of what a node quantizes or dequantizes."""
        scale = self.constants[node.input[1]]
        given = len(node.input) > 2 and node.input[2]
        zero = self.constants[node.input[2]] if given else np.zeros(scale.shape, int)
        if scale.size == 1:
            return Fraction(float(scale.ravel()[0])), int(zero.ravel()[0])
        place = index[_attribute(node, "axis", 1)]
        return Fraction(float(scale[place])), int(zero[place])

    def _computed(self, name, index):
        if name in self.constants:
            return exact(self.constants[name][index])
        node = self.writers.get(name)
        if node is None:
            return exact(self.tensors[name][index])
        nearest = (
            node.op_type == "Resize" and _attribute(node, "mode", b"nearest") == b"nearest"
        )
        if nearest or node.op_type in MOVES:
            return self.at(*self._source(node, name, index))
        return getattr(self, f"_{node.op_type.lower()}")(node, index)

    def _source(self, node, name, index):
        """Where the element that a node puts to ``index`` comes from."""
        if node.output[0] not in self._moved:
            self._moved[node.output[0]] = self._places(node)
        names, starts, places = self._moved[node.output[0]]
        place = int(places[name][index])
        which = int(np.searchsorted(starts, place, side="right")) - 1
        source = names[which]
        return source, np.unravel_index(place - starts[which], self.shape(source))

    def _places(self, node):
        """The op on numbers that count the elements of its inputs."""
        names = list(node.input) if node.op_type == "Concat" else [node.input[0]]
        sizes = [int(np.prod(self.shape(name))) for name in names]
        starts = np.cumsum([0, *sizes[:-1]])
        kind = np.float32 if node.op_type == "Resize" else np.int64  # there is none of int64
        assert sum(sizes) < 1 << 24
        feed = {
            name: np.arange(start, start + size, dtype=kind).reshape(self.shape(name))
            for name, start, size in zip(names, starts, sizes, strict=True)
        }
        graph = helper.make_graph(
            [node],
            "moves",
            [
                helper.make_tensor_value_info(
                    name, helper.np_dtype_to_tensor_dtype(values.dtype), values.shape
                )
                for name, values in feed.items()
            ],
            [onnx.ValueInfoProto(name=n) for n in node.output],
            [
                numpy_helper.from_array(self.constants[n], n)
                for n in node.input
                if n and n not in feed
            ],
        )
        made = helper.make_model(graph, opset_imports=list(self.model.opset_import))
        made.ir_version = self.model.ir_version
        found = session(made, optimize=False).run(None, feed)
        return names, starts, dict(zip(node.output, found, strict=True))

    def _dequantizelinear(self, node, index):
        source = node.input[0]
        known = self.codes.get(source, self.constants.get(source))
        scale, zero = self._quantization(node, index)
        if known is None:  # stored in this graph alone
            level = self.stored(source, self.level(source, index).value)
            return Real(level * scale, abs(level) * scale, 1)
        code = int(known[index])
        size = (abs(code) + abs(zero)) if self.fused else abs(code - zero)
        return Real((code - zero) * scale, size * scale, 1)

    def _add(self, node, index):
        return total(self._broadcast(name, index) for name in node.input)

    def _mul(self, node, index):
        a, b = (self._broadcast(name, index) for name in node.input)
        return a.times(b)

    def _broadcast(self, name, index):
        shape = self.shape(name)
        inner = index[len(index) - len(shape) :]
        return self.at(
            name, tuple(0 if n == 1 else i for i, n in zip(inner, shape, strict=True))
        )

    def _relu(self, node, index):
        x = self.at(node.input[0], index)
        return Real(max(x.value, Fraction(0)), x.size, x.depth)

    def _clip(self, node, index):
        x = self.at(node.input[0], index)
        value = x.value
        for name, choose in zip(node.input[1:], (max, min), strict=False):
            if name:
                value = choose(value, Fraction(float(self.constants[name])))
        return Real(value, x.size, x.depth)

    def _leakyrelu(self, node, index):
        x = self.at(node.input[0], index)
        return _sloped(x, exact(np.float32(_attribute(node, "alpha", 0.01))))

    def _prelu(self, node, index):
        return _sloped(self.at(node.input[0], index), self._broadcast(node.input[1], index))

    def _sigmoid(self, node, index):
        x = self.at(node.input[0], index)
        value = 1 / (1 + _exp(-x.value))
        return Real(value, value, FUNCTION_ULPS + x.depth * (1 + int(x.size)))

    def _softmax(self, node, index):
        """Relative errors: of each exponential what its argument is off, and its own."""
        axis = _attribute(node, "axis", -1) % len(index)
        row = []
        for place in range(self.shape(node.input[0])[axis]):
            row.append(self.at(node.input[0], (*index[:axis], place, *index[axis + 1 :])))
        top = max(x.value for x in row)
        powers = [_exp(x.value - top) for x in row]
        value = powers[index[axis]] / sum(powers)
        depth = max(x.depth * (1 + int(x.size)) for x in row)
        return Real(value, value, 2 * depth + 2 * FUNCTION_ULPS + len(row))

    def _gemm(self, node, index):
        row, column = index
        is_turned = [_attribute(node, name, 0) for name in ("transA", "transB")]
        count = self.shape(node.input[0])[0 if is_turned[0] else 1]
        terms = []
        for k in range(count):
            places = (row, k), (k, column)
            turned = (p[::-1] if t else p for p, t in zip(places, is_turned, strict=True))
            a, b = map(self.at, node.input[:2], turned)
            terms.append(a.times(b))
        if len(node.input) > 2:
            along = 0 if is_turned[1] else 1
            bias = self._broadcast(node.input[2], index)
            terms.append(self._bias(node, bias, column, along))
        return self._summed(terms)

    def _matmul(self, node, index):
        a, b = node.input
        return self._summed(
            self._broadcast(a, (*index[:-1], k)).times(
                self._broadcast(b, (*index[:-2], k, index[-1]))
            )
            for k in range(self.shape(a)[-1])
        )

    def _conv(self, node, index):
        x, w = node.input[:2]
        batch, channel = index[:2]
        weights = self.shape(w)
        per_group = weights[0] // _attribute(node, "group", 1)
        first = channel // per_group * weights[1]
        terms = [
            self.at(x, (batch, first + k, *place)).times(self.at(w, (channel, k, *tap)))
            for tap, place in self._window(node, index, weights[2:])
            for k in range(weights[1])
        ]
        if len(node.input) > 2:
            terms.append(self._bias(node, self.at(node.input[2], (channel,)), channel, 0))
        return self._summed(terms)

    def _summed(self, terms):
        """Products of integers are added without any rounding; then two scales are taken."""
        whole = total(terms)
        return Real(whole.value, abs(whole.value), 3) if self.fused else whole

    def _bias(self, node, bias, channel, axis):
        """``bias``, at the product of the two scales if it shall be ``whole``."""
        makers = [self.writers.get(name) for name in node.input[:3]]
        if not self.whole_bias or any(
            m is None or m.op_type != "DequantizeLinear" for m in makers
        ):
            return bias
        places = [
            (0,) * 8,
            tuple(channel if d == axis else 0 for d in range(8)),
            (channel,) * 8,
        ]
        x, w, b = (
            self._quantization(maker, place)[0]
            for maker, place in zip(makers, places, strict=True)
        )
        if b != Fraction(float(np.float32(float(x)) * np.float32(float(w)))):
            return bias
        return Real(bias.value / b * x * w, bias.size, bias.depth + 1)

    def _maxpool(self, node, index):
        window = self._window(node, index, _attribute(node, "kernel_shape", None))
        found = [self.at(node.input[0], (*index[:2], *place)) for _, place in window]
        value = max(each.value for each in found)
        return Real(value, max(e.size for e in found), max(e.depth for e in found))

    def _averagepool(self, node, index):
        kernel = _attribute(node, "kernel_shape", None)
        window = [place for _, place in self._window(node, index, kernel)]
        whole = _attribute(node, "count_include_pad", 0)
        count = int(np.prod(kernel)) if whole else len(window)
        return _divided(total(self.at(node.input[0], (*index[:2], *p)) for p in window), count)

    def _globalaveragepool(self, node, index):
        spatial = self.shape(node.input[0])[2:]
        places = [(*index[:2], *each) for each in itertools.product(*map(range, spatial))]
        whole = self._summed(self.at(node.input[0], place) for place in places)
        return _divided(whole, len(places))

    def _resize(self, node, index):
        """Between the two nearest elements of each dimension."""
        shapes = zip(index, self.shape(node.input[0]), self.shape(node.output[0]), strict=True)
        ends = [list(_between(node, *each)) for each in shapes]
        terms = []
        for corner in itertools.product(*ends):
            share = prod(weight for _, weight in corner)
            x = self.at(node.input[0], tuple(place for place, _ in corner))
            terms.append(Real(x.value * share, x.size * share, x.depth + 4))
        return total(terms)

    def _window(self, node, index, kernel):
        """The taps of a window, each with the place of the input that it meets."""
        spatial = self.shape(node.input[0])[2:]
        dims = len(kernel)
        assert _attribute(node, "auto_pad", b"NOTSET") == b"NOTSET"
        pads = _attribute(node, "pads", [0] * 2 * dims)
        strides = _attribute(node, "strides", [1] * dims)
        apart = _attribute(node, "dilations", [1] * dims)
        for tap in itertools.product(*map(range, kernel)):
            place = tuple(
                index[2 + d] * strides[d] + tap[d] * apart[d] - pads[d] for d in range(dims)
            )
            if all(0 <= p < n for p, n in zip(place, spatial, strict=True)):
                yield tap, place


def constants_of(model):
    """Initializers, and what Constant nodes hold, by name."""
    found = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant":
            found[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
    return found


def _divided(whole, count):
    return Real(whole.value / count, whole.size / count, whole.depth + 2)


def _between(node, place, size, wanted):
    """The elements of one dimension that a linear Resize takes, with their shares."""
    scale, how = (
        Fraction(wanted, size),
        _attribute(node, "coordinate_transformation_mode", b"half_pixel"),
    )
    at = (place + Fraction(1, 2)) / scale - Fraction(1, 2)
    if how == b"align_corners":
        at = Fraction(place * (size - 1), max(wanted - 1, 1))
    elif how == b"asymmetric":
        at = place / scale
    elif how == b"pytorch_half_pixel" and wanted == 1:
        at = Fraction(0)
    at = min(max(at, Fraction(0)), Fraction(size - 1))
    low = at.numerator // at.denominator
    yield low, 1 - (at - low)
    if at > low:
        yield low + 1, at - low


def _sloped(x, slope):
    scaled = x.times(slope)
    value = x.value if x.value >= 0 else scaled.value
    return Real(value, max(x.size, scaled.size), scaled.depth)


def _exp(number):
    """Right to 60 digits."""
    argument = NEARLY.divide(Decimal(number.numerator), Decimal(number.denominator))
    return Fraction(NEARLY.exp(argument))


def _attribute(node, name, usual):
    for each in node.attribute:
        if each.name == name:
            return helper.get_attribute_value(each)
    return usual
