"""IntAveragePool: the mean of windows that all have the same number of cells."""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.attribute_kinds import STEPS, TWICE, WINDOW, Integer, Integers
from opsets.convolution import convolve
from opsets.declaration import PER_CHANNEL, Constant, Data, Probe, Scaling, Shift, ends
from opsets.double import accumulator_bodies
from opsets.either_layout import CHANNELS_LAST, in_either_layout
from opsets.fixed_point import saturate
from opsets.float32 import WEIGHT_SCALE, float32_bodies
from opsets.fragments import fragment
from opsets.op import Op
from opsets.portable import AFTER_CHANNELS, portable_bodies
from opsets.rounding import NodeRounding, requantize

_ONES = fragment("""
ones <channels, kernel_shape, stored> () => (w) {
    # a depthwise convolution with weights of one sums each window
    channels = Constant <value_int: int = @channels> ()
    single   = Constant <value = int64[1] {1}> ()
    filters  = Reshape (channels, single)
    window   = Constant <value_ints: ints = @kernel_shape> ()
    w_shape  = Concat <axis = 0> (filters, single, window)
    w        = ConstantOfShape <value = @stored[1] {1}> (w_shape)
}
""")

_GEOMETRY = """dilations: ints = @dilations, group: int = @channels,
        kernel_shape: ints = @kernel_shape, pads: ints = @pads, strides: ints = @strides"""

_SUM = fragment("""
sum <geometry> (x, x_zero, w) => (acc) {
    acc      = ConvInteger <@geometry> (x, w, x_zero)
}
""").having(geometry=_GEOMETRY)

# the kernel for weights of uint8 is several times faster
_SUMS = _ONES.having(stored="uint8") + _SUM

_CONVOLUTION = fragment("""
convolution <geometry> (x_u8, x_zero_u8, w, scale, one, y_zero_u8) => (y_u8) {
    w_zero   = Constant <value = int8 {0}> ()
    y_u8     = QLinearConv <@geometry>
        (x_u8, one, x_zero_u8, w, scale, w_zero, one, y_zero_u8)
}
""").having(geometry=_GEOMETRY)

_ONNXRUNTIME = _ONES.having(stored="int8") + WEIGHT_SCALE + _CONVOLUTION


@in_either_layout
def reference(
    x: NDArray[Any],
    x_zero: NDArray[Any],
    multiplier: NDArray[np.int32],
    shift: NDArray[np.int32],
    y_zero: NDArray[Any],
    y_min: NDArray[Any],
    y_max: NDArray[Any],
    *,
    channels: int,
    kernel_shape: Sequence[int],
    rounding: NodeRounding,
    **geometry: Any,
) -> NDArray[Any]:
    """Stored x [N, channels, spatial...] -> stored y; multiplier and shift have one entry.

    The multiplier holds x_scale / (y_scale * cells). Every window has prod(kernel_shape)
    cells, padding (real zero, stored x_zero) included.
    """
    ones = np.ones((channels, 1, *kernel_shape), np.int64)
    acc = convolve(x.astype(np.int64) - x_zero, ones, channels, **geometry)
    level = requantize(acc, multiplier, shift, rounding)
    return saturate(level, y_zero, y_min, y_max).astype(y_zero.dtype)


def _constant_input_gives_constant_output(
    x: NDArray[Any], *args: Any, **attributes: Any
) -> None:
    pads = np.reshape(attributes["pads"], (2, -1))
    filled = np.full((*x.shape[:2], *(x.shape[2:] + pads.sum(axis=0))), x.flat[0])
    unpadded = {**attributes, "pads": [0] * pads.size}
    x_zero, multiplier, shift, *ends = args
    cells = prod(attributes["kernel_shape"])
    level = requantize(
        cells * (int(x.flat[0]) - int(x_zero)), multiplier, shift, attributes["rounding"]
    )
    expected = saturate(level, *ends)
    assert (reference(filled, *args, **unpadded) == expected).all()


INT_AVERAGE_POOL = Op(
    name="IntAveragePool",
    inputs={
        "x": Data("T"),
        "x_zero": Constant("T"),
        "multiplier": Constant("int32", PER_CHANNEL),
        "shift": Shift(dims=PER_CHANNEL),
        **ends("T"),
    },
    outputs={"y": Data("T")},
    attributes={
        "channels": Integer(1),
        "dilations": STEPS,
        "kernel_shape": WINDOW,
        "pads": Integers(0, per_axis=2, required=False),
        "strides": STEPS,
        "rounding": TWICE,
        "channels_last": CHANNELS_LAST,
    },
    reference=reference,
    bodies=[
        *float32_bodies(_ONNXRUNTIME),
        *accumulator_bodies(_SUMS, AFTER_CHANNELS),
        *portable_bodies(_SUMS, AFTER_CHANNELS),
    ],
    evidence="thresholds",
    scaling=Scaling.RATIO,
    probe=Probe.WINDOW,
    laws={"a constant input gives a constant output": _constant_input_gives_constant_output},
    formula="acc = sum over the window of (x - x_zero), padding being zero; y = "
    "clamp(round(acc * multiplier / 2**shift) + y_zero, y_min, y_max), the multiplier "
    "holding 1 / cells. Windows as in ONNX AveragePool with count_include_pad.",
    note="The fast body is a depthwise QLinearConv, because onnxruntime's QLinearAveragePool "
    "sums in float.",
)
