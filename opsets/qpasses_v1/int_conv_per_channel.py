"""IntConvPerChannel: depthwise convolution of channels that have a zero point each."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.attribute_kinds import STEPS, TWICE, WINDOW, Integer, Integers
from opsets.convolution import WINDOWS_FIT, convolve
from opsets.declaration import (
    PER_CHANNEL,
    Attributes,
    Constant,
    Constants,
    Constraint,
    Data,
    Probe,
    Scaling,
    Shape,
    Shift,
    ends,
)
from opsets.double import accumulator_bodies
from opsets.either_layout import CHANNELS_LAST, in_either_layout
from opsets.fixed_point import saturate
from opsets.float32 import WEIGHT_SCALE, float32_bodies
from opsets.fragments import fragment
from opsets.op import Condition, Op
from opsets.portable import AFTER_CHANNELS, portable_bodies
from opsets.rounding import NodeRounding, requantize
from opsets.window_sums import SUMS
from opsets.word_sums import ENDS_FIT, bodies_to_words, of_codes_alone

_GEOMETRY = """dilations: ints = @dilations, group: int = @group,
        kernel_shape: ints = @kernel_shape, strides: ints = @strides"""

_PADDED = fragment("""
padded <pads> (x, x_zero) => (padded) {
    # levels are padded with zeros, then moved back: each channel by its own zero point
    any_size  = Constant <value = int64[1] {-1}> ()
    one       = Constant <value = int64[1] {1}> ()
    two       = Constant <value = int64[1] {2}> ()
    none      = Constant <value = int64[2] {0, 0}> ()
    around    = Constant <value_ints: ints = @pads> ()
    before, behind = Split <axis = 0, num_outputs = 2> (around)
    all_pads  = Concat <axis = 0> (none, before, none, behind)
    shape     = Shape (x)
    rank      = Shape (shape)
    spatial   = Sub (rank, two)
    ones      = ConstantOfShape <value = int64[1] {1}> (spatial)
    size      = Concat <axis = 0> (any_size, ones)
    wide      = Cast <to = 6> (x)                                          # 6 is INT32
    wide_zero = Cast <to = 6> (x_zero)
    zeros     = Reshape (wide_zero, size)
    level     = Sub (wide, zeros)
    bordered  = Pad (level, all_pads)
    stored    = Add (bordered, zeros)
    padded    = CastLike (stored, x)
}
""")

_PADDED_PICTURE = fragment("""
padded_picture <pads> (x, x_zero) => (padded) {
    # rows, then columns of each channel's zero point; where sizes are known they are constants
    column    = Constant <value = int64[4] {1, -1, 1, 1}> ()
    zeros     = Reshape (x_zero, column)
    around    = Constant <value_ints: ints = @pads> ()
    above, left, below, right = Split <axis = 0, num_outputs = 4> (around)
    channels  = Shape <start = 0, end = 2> (x)
    width     = Shape <start = 3, end = 4> (x)
    size_up   = Concat <axis = 0> (channels, above, width)
    size_down = Concat <axis = 0> (channels, below, width)
    up        = Expand (zeros, size_up)
    down      = Expand (zeros, size_down)
    tall      = Concat <axis = 2> (up, x, down)
    height    = Shape <start = 2, end = 3> (tall)
    size_left = Concat <axis = 0> (channels, height, left)
    size_right = Concat <axis = 0> (channels, height, right)
    start     = Expand (zeros, size_left)
    end       = Expand (zeros, size_right)
    padded    = Concat <axis = 3> (start, tall, end)
}
""")

_WITHOUT_ZEROS = fragment("""
without_zeros (x_zero, w, w_zero, bias) => (raw_bias) {
    # sums of codes, not of levels: what the zero points add to them is taken from the bias
    any_size  = Constant <value = int64[1] {-1}> ()
    channels  = Shape (x_zero)
    wide_w    = Cast <to = 6> (w)                                          # 6 is INT32
    wide_zero = Cast <to = 6> (w_zero)
    level     = Sub (wide_w, wide_zero)
    rows      = Concat <axis = 0> (channels, any_size)
    outputs   = Shape (bias)
    taps_of   = Concat <axis = 0> (outputs, any_size)
    taps      = Reshape (level, taps_of)
    axis      = Constant <value = int64[1] {1}> ()
    sums      = ReduceSum <keepdims = 0> (taps, axis)
    by_input  = Reshape (sums, rows)
    zeros     = Cast <to = 6> (x_zero)
    zero_of   = Reshape (zeros, rows)
    added     = Mul (by_input, zero_of)
    by_output = Reshape (added, any_size)
    raw_bias  = Sub (bias, by_output)
}
""")

_NO_ZERO = fragment("""
no_zero (padded) => (no_zero) {
    nothing   = Constant <value = int32 {0}> ()
    no_zero   = CastLike (nothing, padded)
}
""")

_SUMS = (
    _PADDED
    + _WITHOUT_ZEROS
    + _NO_ZERO
    + SUMS.having(geometry=_GEOMETRY)(x="padded", x_zero="no_zero", bias="raw_bias")
)

_CONVOLUTION = fragment("""
convolution <geometry> (padded, w, w_zero, scale, one, raw_bias, y_zero_u8) => (y_u8) {
    no_zero   = Constant <value = uint8 {0}> ()
    y_u8      = QLinearConv <@geometry>
        (padded, one, no_zero, w, scale, w_zero, one, y_zero_u8, raw_bias)
}
""").having(geometry=_GEOMETRY)

_ONNXRUNTIME = (
    WEIGHT_SCALE
    + _PADDED_PICTURE(x="x_u8", x_zero="x_zero_u8")
    + _WITHOUT_ZEROS(x_zero="x_zero_u8")
    + _CONVOLUTION
)

_of_pictures = Condition(
    "pictures have two dimensions",
    lambda constants, _attributes: constants["w"].ndim == 4,
)


@in_either_layout
def reference(
    x: NDArray[Any],
    x_zero: NDArray[Any],
    w: NDArray[Any],
    w_zero: NDArray[Any],
    bias: NDArray[np.int32],
    multiplier: NDArray[np.int32],
    shift: NDArray[np.int32],
    y_zero: NDArray[Any],
    y_min: NDArray[Any],
    y_max: NDArray[Any],
    *,
    rounding: NodeRounding,
    group: int,
    **geometry: Any,
) -> NDArray[Any]:
    """Stored x [N, C, spatial...], x_zero [C], w [M, 1, kernel...], bias [M] -> stored y.

    ``multiplier`` and ``shift`` have one entry or M. Padding is real zero, so the stored zero
    of each channel.
    """
    column = (-1,) + (1,) * (x.ndim - 2)
    data = x.astype(np.int64) - x_zero.astype(np.int64).reshape(column)
    weights = w.astype(np.int64) - w_zero
    acc = convolve(data, weights, group, **geometry) + bias.astype(np.int64).reshape(column)
    m, s = (np.reshape(v, column) for v in (multiplier, shift))
    level = requantize(acc, m, s, rounding)
    return saturate(level, y_zero, y_min, y_max).astype(y_zero.dtype)


def _zeros_give_the_bias(x: NDArray[Any], x_zero: NDArray[Any], *args: Any, **kw: Any) -> None:
    w, w_zero, bias, *rest = args
    column = (-1,) + (1,) * (x.ndim - 2)
    still = np.broadcast_to(x_zero.reshape(column), x.shape)
    silent = reference(still, x_zero, w, w_zero, bias, *rest, **kw)
    other = reference(still, x_zero, np.full_like(w, w_zero), w_zero, bias, *rest, **kw)
    np.testing.assert_array_equal(silent, other)


def _is_depthwise(constants: Constants, attributes: Attributes, _shape: Shape) -> bool:
    group: int = attributes["group"]
    outputs, inputs, *_ = constants["w"].shape
    return constants["x_zero"].size == group and inputs == 1 and outputs % group == 0


DEPTHWISE = Constraint(
    "each group reads one channel, and `x_zero` has a zero point for each", _is_depthwise
)

INT_CONV_PER_CHANNEL = Op(
    name="IntConvPerChannel",
    inputs={
        "x": Data("T"),
        "x_zero": Constant("T", ("C",)),
        "w": Constant("W", ("M", 1, "K", ...)),
        "w_zero": Constant("W"),
        "bias": Constant("int32", ("M",)),
        "multiplier": Constant("int32", PER_CHANNEL),
        "shift": Shift(dims=PER_CHANNEL),
        **ends("Y"),
    },
    outputs={"y": Data("Y")},
    attributes={
        "dilations": STEPS,
        "group": Integer(1),
        "kernel_shape": WINDOW,
        "pads": Integers(0, per_axis=2),
        "strides": STEPS,
        "rounding": TWICE,
        "channels_last": CHANNELS_LAST,
    },
    reference=reference,
    bodies=[
        *of_codes_alone(
            [
                *float32_bodies(_ONNXRUNTIME, also=_of_pictures),
                *accumulator_bodies(_SUMS, AFTER_CHANNELS),
                *portable_bodies(_SUMS, AFTER_CHANNELS),
            ]
        ),
        *bodies_to_words(_SUMS, AFTER_CHANNELS),
    ],
    evidence="thresholds",
    evidence_of_words="bounded",
    scaling=Scaling.RATIO,
    constraints=[DEPTHWISE, WINDOWS_FIT, ENDS_FIT],
    probe=Probe.FILTERS,
    laws={"zeros give the bias": _zeros_give_the_bias},
    formula="acc = sum((x - x_zero[channel]) * (w - w_zero)) + bias, exact in int32; y = "
    "clamp(round(acc * multiplier / 2**shift) + y_zero, y_min, y_max). Geometry as in a "
    "depthwise ONNX Conv, padding with each channel's zero point.",
    source="Source: ONNX QLinearConv, with a zero point for each channel of x.",
)
