"""ConvTransposeToConv: write a transposed convolution as a Conv of its phases."""

from collections.abc import Sequence
from math import prod
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from qpasses.ir.given import Codes
from qpasses.ir.graph import (
    Graph,
    Node,
    Tensor,
    add_node,
    constant,
    input_at,
    new_tensor,
)
from qpasses.ir.patterns import absorbed
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Declined, Outcome, Pass
from qpasses.prepare.recognition.phases import Axis, axes_of

MOST_ZEROS = 16
"""A Conv with more taps than this for each tap of the kernel is not worth while."""

_TO_THE_END = np.iinfo(np.int64).max

_Size: TypeAlias = int | str | None
"""Of a dimension; free ones have a name or nothing."""


class ConvTransposeToConv(Pass):
    """Replace ConvTranspose by a Conv with one channel per phase, whose results interleave.

    before: ``c = ConvTranspose <strides = [2, 2]> (x, w, b); y = Relu (c)``
    after:  ``p = Conv (x, v, d); q = Relu (p); y = DepthToSpace <blocksize = 2> (q)``
    Outputs whose position is p modulo the stride s read taps p, p + s, p + 2 s... of the
    kernel and no others: they are a Conv of stride 1, turned around. What DepthToSpace does
    is written as Reshape and Transpose where sizes are known or strides differ; a Slice
    follows where less is wanted.
    **Exact** in real arithmetic: the same products are summed, and zeros.
    """

    op_types: ClassVar = frozenset({"ConvTranspose"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Put Conv, its clamps, the interleaving and the Slice in place."""
        if node.name in context.selection.unlisted:
            return NOT_MINE  # stays in float anyway
        weights, bias = constant(node.inputs[1]), constant(input_at(node, 2))
        if weights is None:
            return Declined("ConvTranspose with weights that are not constant")
        if bias is None and input_at(node, 2) is not None:
            return Declined("ConvTranspose with a bias that is not constant")
        axes = axes_of(node, weights.shape[2:])
        if axes is None:
            return Declined("ConvTranspose with output_shape over a dynamic spatial size")
        if prod(each.taps.size for each in axes) > MOST_ZEROS * prod(weights.shape[2:]):
            return Declined("ConvTranspose that as a Conv would multiply by zero mostly")
        _become_conv(node, weights, bias, axes, context)
        chain = [node, *absorbed(graph, node, context.selection.excluded)]
        if any(axis.stride > 1 or any(axis.crop) for axis in axes):
            _Interleaving(graph, chain, axes, context).put()
        return REWRITTEN


def _become_conv(
    node: Node,
    weights: NDArray[Any],
    bias: NDArray[Any] | None,
    axes: Sequence[Axis],
    context: Context,
) -> None:
    """Weights [C, M / group, ...] as [M * phases, C / group, ...], the bias repeated."""
    group, (source, *rest) = node.attrs.get("group", 1), node.inputs[1:]
    folded, count = _phases(weights, group, axes), prod(axis.stride for axis in axes)
    kernel = folded.shape[2:]
    inputs = [node.inputs[0], context.constant(f"{node.name}.phases_weight", folded)]
    context.given.carry(source, inputs[1], lambda codes: _phases_of(codes, group, axes))
    if bias is not None:
        repeated = np.repeat(bias, count)
        inputs.append(context.constant(f"{node.name}.phases_bias", repeated))
        context.given.carry(
            rest[0], inputs[2], lambda codes: codes.moved(lambda each: np.repeat(each, count))
        )
    node.op, node.inputs = "Conv", inputs
    node.attrs.clear()
    node.attrs.update(
        dilations=[axis.dilation for axis in axes],
        group=group,
        kernel_shape=list(kernel),
        pads=[axis.pads[end] for end in (0, 1) for axis in axes],
    )


def _phases(
    weights: NDArray[Any], group: int, axes: Sequence[Axis], fill: str = "constant"
) -> NDArray[Any]:
    """[C, M / group, ...] as [M * phases, C / group, ...]; zeros behind the kernel."""
    dims = len(axes)
    split = weights.reshape(group, -1, *weights.shape[1:]).swapaxes(1, 2)
    taken = np.pad(split, [(0, 0)] * 3 + [(0, 1)] * dims, fill)  # type: ignore[call-overload]
    for i, axis in enumerate(axes):
        taken = np.take(taken, axis.taps, axis=3 + 2 * i)
    phases, taps = range(3, 3 + 2 * dims, 2), range(4, 4 + 2 * dims, 2)
    ordered = taken.transpose(0, 1, *phases, 2, *taps)
    kernel = ordered.shape[-dims:]
    return np.asarray(ordered.reshape(-1, weights.shape[0] // group, *kernel))


def _phases_of(codes: Codes, group: int, axes: Sequence[Axis]) -> Codes:
    """The same of integers; the zeros take the scale of their neighbours."""
    levels = _phases(codes.levels, group, axes)
    return Codes(levels, _phases(codes.scale, group, axes, "edge"))


class _Interleaving:
    """The nodes behind the phases that a Conv and its clamps write now."""

    def __init__(
        self, graph: Graph, chain: Sequence[Node], axes: Sequence[Axis], context: Context
    ) -> None:
        self.graph, self.node, self.axes, self.context = graph, chain[0], axes, context
        self.strides = [axis.stride for axis in axes]
        channels = self.node.inputs[1].shape[0]
        self.outputs = channels // prod(self.strides)
        x = self.node.inputs[0].shape or [None] * (2 + len(axes))
        self.batch: _Size = x[0]
        self.sizes = [_conv_size(*pair) for pair in zip(x[2:], axes, strict=True)]
        self.whole = [_times(*pair) for pair in zip(self.sizes, self.strides, strict=True)]
        self.end = chain[-1].outputs[0]
        chain[-1].outputs = [new_tensor(self.end.name, self.end)]
        for each in chain:  # other values than before: another name
            phases = each.outputs[0]
            phases.name = context.fresh(f"{phases.name}_phases")
            phases.shape = [self.batch, channels, *self.sizes]
        self.data = chain[-1].outputs[0]

    def put(self) -> None:
        """Interleave and crop; the last node writes what the clamps wrote before."""
        if prod(self.strides) > 1:
            if sum(not isinstance(size, int) for size in self.sizes) <= 1:
                self._axis_by_axis()
            elif len(self.strides) == 2 and len(set(self.strides)) == 1:
                square = {"blocksize": self.strides[0], "mode": "CRD"}
                self._move("DepthToSpace", [self.outputs, *self.whole], **square)
            else:
                self._at_once()
        if any(any(axis.crop) for axis in self.axes):
            self._crop()
        self.data.inputs[0].outputs = [self.end]

    def _axis_by_axis(self) -> None:
        """From the last axis on, its phases go from before all positions to behind its own.

        A Transpose that moves one axis is fast: together a third of the time of DepthToSpace.
        """
        for i, stride in reversed(list(enumerate(self.strides))):
            if stride == 1:
                continue
            before = self.outputs * prod(self.strides[:i])
            here, behind = _product(self.sizes[: i + 1]), _product(self.whole[i + 1 :])
            self._reshape([before, stride, here, behind])
            perm = [0, 1, 3, 2, 4]
            self._move("Transpose", [before, here, stride, behind], perm=perm)
        self._reshape([self.outputs, *self.whole])

    def _at_once(self) -> None:
        """All axes by one Transpose, to sizes that Shape tells."""
        dims = len(self.axes)
        sizes = self._add("Shape", [self.data], [dims], start=2)
        factors = self._constant("strides", self.strides)
        whole = self._add("Mul", [sizes, factors], [dims])
        apart = [self.outputs, *self.strides]
        split, merged = (
            self._add("Concat", [self._constant("head", [0, *head]), end], [None], axis=0)
            for head, end in ((apart, sizes), (apart[:1], whole))
        )
        perm = [1 + i + start for i in range(dims) for start in (1 + dims, 1)]
        self._move("Reshape", [*apart, *self.sizes], split)
        self._move("Transpose", [None] * (1 + 2 * dims), perm=[0, 1, *perm])
        self._move("Reshape", [self.outputs, *self.whole], merged)

    def _crop(self) -> None:
        """A Slice, its ends counted from the end: sizes may be free."""
        cut = [(i, *axis.crop) for i, axis in enumerate(self.axes) if any(axis.crop)]
        starts = self._constant("starts", [before for _, before, _ in cut])
        ends = self._constant("ends", [-behind or _TO_THE_END for _, _, behind in cut])
        places = self._constant("axes", [2 + i for i, _, _ in cut])
        sizes = (self.end.shape or [None] * (2 + len(self.axes)))[1:]
        self._move("Slice", sizes, starts, ends, places)

    def _reshape(self, sizes: Sequence[_Size]) -> None:
        """The batch stays, -1 stands for the size that is free."""
        known = [size if isinstance(size, int) else -1 for size in sizes]
        self._move("Reshape", sizes, self._constant("shape", [0, *known]))

    def _move(
        self, op: str, sizes: Sequence[_Size], *inputs: Tensor, **attributes: Any
    ) -> None:
        shape = [self.batch, *sizes]
        self.data = self._add(op, [self.data, *inputs], shape, self.end.dtype, **attributes)

    def _add(
        self,
        op: str,
        inputs: Sequence[Tensor],
        shape: Sequence[_Size],
        dtype: Any = np.int64,
        **attributes: Any,
    ) -> Tensor:
        name = self.context.fresh(f"{self.node.name}_{op.lower()}")
        made = new_tensor(self.context.fresh(f"{name}_output"), self.end, dtype)
        made.shape = list(shape)
        add_node(self.graph, op, name, inputs, [made], attributes=attributes)
        return made

    def _constant(self, name: str, values: Sequence[int]) -> Tensor:
        return self.context.constant(f"{self.node.name}.{name}", np.array(values, np.int64))


def _conv_size(size: _Size, axis: Axis) -> _Size:
    reach = (axis.taps.shape[1] - 1) * axis.dilation + 1
    return size + sum(axis.pads) - reach + 1 if isinstance(size, int) else None


def _times(size: _Size, factor: int) -> _Size:
    return size * factor if isinstance(size, int) else None


def _product(sizes: Sequence[_Size]) -> _Size:
    known = [size for size in sizes if isinstance(size, int)]
    return prod(known) if len(known) == len(sizes) else None
