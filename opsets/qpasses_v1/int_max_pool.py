"""IntMaxPool: the largest code of each window, of 16 bits."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.attribute_kinds import STEPS, WINDOW, Integers
from opsets.declaration import Data, Scaling
from opsets.either_layout import CHANNELS_LAST, in_either_layout
from opsets.fragments import Fragment, fragment
from opsets.op import Body, Op

LOWEST = -(1 << 15)
"""What the padding holds: no code is below."""

_IN_FLOAT = fragment("""
in_float <dilations, kernel_shape, pads, strides> (x) => (y) {
    # float32 holds every code; a window of padding alone has its lowest number
    real      = Cast <to = 1> (x)                                          # 1 is FLOAT
    pooled    = MaxPool <dilations: ints = @dilations, kernel_shape: ints = @kernel_shape,
        pads: ints = @pads, strides: ints = @strides> (real)
    lowest    = Constant <value = float {-32768.0}> ()
    held      = Max (pooled, lowest)
    y         = CastLike (held, x)
}
""")

_FIELD = fragment("""
field <kernel_shape, pads, dilations, strides> (x)
    => (padded, padded_shape, window, steps, gaps, first, second, leading) {
    # [N * C, depth, height, width] with its padding; an axis that is not there has one cell
    first     = Constant <value_int = 0> ()
    second    = Constant <value_int = 1> ()
    empty_1   = Constant <value = int64[1] {0}> ()
    any_size  = Constant <value = int64[1] {-1}> ()
    three     = Constant <value = int64[1] {3}> ()
    two_rows  = Constant <value = int64[2] {2, -1}> ()
    given     = Constant <value_ints: ints = @kernel_shape> ()
    axes      = Shape (given)
    missing   = Sub (three, axes)
    ones      = ConstantOfShape <value = int64[1] {1}> (missing)
    zeros     = ConstantOfShape <value = int64[1] {0}> (missing)
    window    = Concat <axis = 0> (ones, given)
    by_step   = Constant <value_ints: ints = @strides> ()
    steps     = Concat <axis = 0> (ones, by_step)
    by_gap    = Constant <value_ints: ints = @dilations> ()
    gaps      = Concat <axis = 0> (ones, by_gap)
    leading   = Shape <end = 2> (x)
    spatial   = Shape <start = 2> (x)
    in_field  = Concat <axis = 0> (any_size, ones, spatial)
    wide      = Cast <to = 6> (x)                                          # 6 is INT32
    field     = Reshape (wide, in_field)
    all_pads  = Constant <value_ints: ints = @pads> ()
    sides     = Reshape (all_pads, two_rows)
    before    = Gather <axis = 0> (sides, first)
    behind    = Gather <axis = 0> (sides, second)
    pads_4    = Concat <axis = 0> (empty_1, zeros, before, empty_1, zeros, behind)
    lowest    = Constant <value = int32 {-32768}> ()
    padded    = Pad (field, pads_4, lowest)
    padded_shape = Shape (padded)
}
""")

_LARGEST = fragment("""
largest <axis, behind, place>
    (source, padded_shape, window, steps, gaps, first, second) => (largest) {
    # the cells of each window side by side, along an axis of their own
    at        = Constant <value_int = @place> ()
    from      = Constant <value_int = @axis> ()
    column    = Constant <value = int64[2] {-1, 1}> ()
    kernel    = Gather <axis = 0> (window, at)
    step      = Gather <axis = 0> (steps, at)
    gap       = Gather <axis = 0> (gaps, at)
    size      = Gather <axis = 0> (padded_shape, from)
    others    = Sub (kernel, second)
    reach     = Mul (others, gap)
    end       = Sub (size, reach)
    begins    = Range (first, end, step)
    begin     = Reshape (begins, column)
    numbers   = Range (first, kernel, second)
    offsets   = Mul (numbers, gap)
    places    = Add (begin, offsets)
    cells     = Gather <axis = @axis> (source, places)
    last      = Constant <value = int64[1] {@behind}> ()
    largest   = ReduceMax <keepdims = 0> (cells, last)
}
""")


def _along(axis: int, source: str, result: str) -> Fragment:
    """``result``: the largest of windows of ``source`` along ``axis`` of its four."""
    along = _LARGEST.having(axis=axis, behind=axis + 1, place=axis - 1)
    return along(source=source, largest=result)


_SHAPED = fragment("""
shaped <kernel_shape> (x, widest, leading) => (y) {
    # the axes that x has
    made      = Shape <start = 1> (widest)
    kernel_1  = Constant <value_ints: ints = @kernel_shape> ()
    count     = Shape (kernel_1)
    all_three = Constant <value = int64[1] {3}> ()
    skipped   = Sub (all_three, count)
    kept      = Slice (made, skipped, all_three)
    y_shape   = Concat <axis = 0> (leading, kept)
    pooled    = Reshape (widest, y_shape)
    y         = CastLike (pooled, x)
}
""")

_PORTABLE = (
    _FIELD
    + _along(1, "padded", "deepest")
    + _along(2, "deepest", "tallest")
    + _along(3, "tallest", "widest")
    + _SHAPED
)


@in_either_layout
def reference(
    x: NDArray[np.int16],
    *,
    kernel_shape: Sequence[int],
    pads: Sequence[int],
    **geometry: Sequence[int],
) -> NDArray[np.int16]:
    """Stored x [N, C, spatial...] -> stored y; padding holds the lowest code."""
    rows = zip(*np.reshape(pads, (2, -1)), strict=True)
    y = np.pad(x, [(0, 0), (0, 0), *rows], constant_values=LOWEST)
    steps = zip(kernel_shape, geometry["strides"], geometry["dilations"], strict=True)
    for axis, (size, stride, dilation) in enumerate(steps, start=2):
        windows = max(y.shape[axis] - (size - 1) * dilation, 0)
        begins = np.arange(0, windows, stride)
        y = np.max([y.take(begins + n * dilation, axis) for n in range(size)], axis=0)
    return y


def _order_is_kept(x: NDArray[np.int16], **attributes: Any) -> None:
    """The largest code is the same code of whatever keeps the order."""
    halved = reference(x >> 1, **attributes)
    np.testing.assert_array_equal(halved, reference(x, **attributes) >> 1)


INT_MAX_POOL = Op(
    name="IntMaxPool",
    inputs={"x": Data("int16")},
    outputs={"y": Data("int16")},
    attributes={
        "dilations": STEPS,
        "kernel_shape": WINDOW,
        "pads": Integers(0, per_axis=2),
        "strides": STEPS,
        "channels_last": CHANNELS_LAST,
    },
    reference=reference,
    bodies=[
        Body("onnxruntime", "onnxruntime", _IN_FLOAT),
        Body("portable", "portable", _PORTABLE),
    ],
    evidence="bounded",
    scaling=Scaling.MOVED,
    laws={"order is kept": _order_is_kept},
    formula="y = the largest x of the window, padding being -32768. Of 8 bits it is ONNX's "
    "MaxPool, which onnxruntime has no kernel of 16 bits for.",
    source="Source: ONNX MaxPool.",
)
