"""ComputedConvToMatMul: a convolution whose weights are computed is a product of matrices."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from qpasses.ir.graph import Graph, Node, Tensor, constant, input_at, producer, spatial_shape
from qpasses.ir.moving import moved, moves
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Declined, Outcome, Pass
from qpasses.prepare.recognition.expansion import Expansion


class ComputedConvToMatMul(Pass):
    """Replace Conv and ConvTranspose of two tensors that are computed, as trackers have them.

    before: ``y = Conv (x, w)``, w no constant
    after:  ``c = Gather (flat x, where each tap of each output reads); p = MatMul (rows of w,
            c); y = Reshape (p)``, and an Add of the bias
    A tap in the padding, or between the numbers that ConvTranspose spreads, reads a zero that
    is put behind them.
    **Exact** in real arithmetic: the same products are summed, and zeros.
    """

    op_types: ClassVar = frozenset({"Conv", "ConvTranspose"})

    def takes(self, node: Node) -> bool:
        """Weights that are constant have integer nodes of their own."""
        return super().takes(node) and constant(node.inputs[1]) is None

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Rewrite where all sizes but the batch are known."""
        if node.domain or node.name in context.selection.excluded:
            return NOT_MINE
        op = f"{node.op} with weights that are not constant"
        x, w = node.inputs[:2]
        if _is_given(x) or _is_given(w):
            return Declined(f"{op}, and an input of the model among its factors")
        if spatial_shape(x) is None or not _is_fixed(w) or not isinstance(x.shape[1], int):
            return Declined(f"{op}, of sizes that are not known")
        if node.attrs.get("auto_pad", "NOTSET") != "NOTSET" or "output_shape" in node.attrs:
            return Declined(f"{op}, and padding that follows from sizes")
        _Product(node, graph, context).put()
        return REWRITTEN


def _is_fixed(w: Tensor) -> bool:
    return w.shape is not None and all(isinstance(size, int) for size in w.shape)


def _is_given(tensor: Tensor) -> bool:
    """Whether a tensor is moved from an input of the graph, which is not on integers."""
    node = producer(tensor)
    if node is None:
        return True
    return moves(node) and all(map(_is_given, moved(node)))


@dataclass(frozen=True)
class _Taps:
    """Along one axis: the position in x for each tap and output, -1 where there is none."""

    found: NDArray[np.int64]

    @classmethod
    def of(cls, node: Node, axis: int, size: int, kernel: int) -> "_Taps":
        """[kernel, outputs]."""
        dims = len(node.inputs[0].shape) - 2

        def given(name: str, usual: int, at: int = axis) -> int:
            return int(node.attrs.get(name, [usual] * 2 * dims)[at])

        stride, dilation = given("strides", 1), given("dilations", 1)
        begin, end = given("pads", 0), given("pads", 0, axis + dims)
        taps = np.arange(kernel)[:, None] * dilation
        reach = (kernel - 1) * dilation + 1
        if node.op == "Conv":
            outputs = np.arange((size + begin + end - reach) // stride + 1)
            at = outputs * stride - begin + taps
        else:
            more = given("output_padding", 0)
            outputs = np.arange((size - 1) * stride + reach + more - begin - end)
            spread = outputs + begin - taps
            at = np.where(spread % stride == 0, spread // stride, -1)
        return cls(np.where((at >= 0) & (at < size), at, -1))


class _Product:
    """The nodes that a convolution becomes."""

    def __init__(self, node: Node, graph: Graph, context: Context) -> None:
        x, w = node.inputs[:2]
        self._sizes, self._kernel = list(x.shape[2:]), list(w.shape[2:])
        self._group, self._channels = int(node.attrs.get("group", 1)), int(x.shape[1])
        self._is_conv, self._first = node.op == "Conv", int(w.shape[0])
        taps = [
            _Taps.of(node, axis, size, kernel).found
            for axis, (size, kernel) in enumerate(zip(self._sizes, self._kernel, strict=True))
        ]
        self._ends = [each.shape[1] for each in taps]
        self._places = _places(taps, self._sizes)
        self._has_bias = input_at(node, 2) is not None
        self._made = Expansion(graph, node, context)

    def put(self) -> None:
        """Write them."""
        made = self._made
        product = made.add("MatMul", "product", [self._weights(), self._columns()])
        sizes = made.constant("sizes", np.array([0, -1, *self._ends]))
        if not self._has_bias:
            made.add("Reshape", "result", [product, sizes], made.y)
            return
        result = made.add("Reshape", "result", [product, sizes])
        bias = self._shaped("bias", made.needed(2), [-1, *[1] * len(self._ends)])
        made.add("Add", "biased", [result, bias], made.y)

    def _columns(self) -> Tensor:
        """[N, group, C / group * taps, outputs] of [N, C, ...]."""
        made, total = self._made, prod(self._sizes)
        flat = self._shaped("flat", made.needed(0), [0, self._channels, total])
        if (self._places == total).any():
            widths = made.constant("pads", np.array([0, 0, 0, 0, 0, 1]))
            flat = made.add("Pad", "with_zero", [flat, widths])
        where = made.constant("places", self._places)
        taken = made.add("Gather", "columns", [flat, where], axis=2)
        rows = self._channels // self._group * prod(self._kernel)
        return self._shaped("matrix", taken, [0, self._group, rows, prod(self._ends)])

    def _weights(self) -> Tensor:
        """[group, M / group, C / group * taps]."""
        w, group, taps = self._made.needed(1), self._group, prod(self._kernel)
        inside = self._channels // group
        if self._is_conv:
            return self._shaped("rows", w, [group, self._first // group, inside * taps])
        split = self._shaped("split", w, [group, inside, -1, taps])
        turned = self._made.add("Transpose", "turned", [split], perm=[0, 2, 1, 3])
        return self._shaped("rows", turned, [group, -1, inside * taps])

    def _shaped(self, what: str, tensor: Tensor, sizes: Sequence[int]) -> Tensor:
        shape = self._made.constant(f"{what}_sizes", np.array(sizes))
        return self._made.add("Reshape", what, [tensor, shape])


def _places(taps: Sequence[NDArray[Any]], sizes: Sequence[int]) -> NDArray[np.int64]:
    """[taps * outputs] positions in flat x; behind its end where there is none."""
    dims = len(taps)
    flat, none = np.zeros((), np.int64), np.zeros((), np.bool_)
    for axis, each in enumerate(taps):
        shape = [1] * 2 * dims
        shape[axis], shape[dims + axis] = each.shape
        flat = flat * sizes[axis] + each.reshape(shape)
        none = none | (each.reshape(shape) < 0)
    return np.where(none, prod(sizes), flat).reshape(-1).astype(np.int64)
