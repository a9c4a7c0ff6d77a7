"""IntGlobalAveragePool: the mean over all spatial positions of each channel."""

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.attribute_kinds import TWICE, WINDOW, Integer
from opsets.declaration import PER_CHANNEL, Constant, Data, Probe, Scaling, Shift, ends
from opsets.double import accumulator_bodies
from opsets.either_layout import CHANNELS_LAST, in_either_layout
from opsets.fixed_point import saturate
from opsets.float32 import WEIGHT_SCALE, float32_bodies
from opsets.fragments import fragment
from opsets.op import Attributes, Constants, Op
from opsets.portable import AFTER_CHANNELS, portable_bodies
from opsets.rounding import NodeRounding, requantize

_SUMS = fragment("""
sums <spatial_shape> (x, x_zero) => (acc) {
    wide    = Cast <to = 6> (x)                                            # 6 is INT32
    origin  = Cast <to = 6> (x_zero)
    levels  = Sub (wide, origin)
    # all positions in one dimension, and back: no tensor of axes; it must be the window
    window    = Constant <value_ints: ints = @spatial_shape> ()
    cells     = ReduceProd <keepdims = 1> (window)
    kept      = Constant <value = int64[2] {0, 0}> ()
    flat_size = Concat <axis = 0> (kept, cells)
    flat      = Reshape (levels, flat_size)
    last      = Constant <value = int64[1] {2}> ()
    sums      = ReduceSum <keepdims = 0> (flat, last)
    x_shape   = Shape (x)
    x_rank    = Shape (x_shape)
    spatial   = Sub (x_rank, last)
    singles   = ConstantOfShape <value = int64[1] {1}> (spatial)
    leading   = Shape <end = 2> (x)
    sums_size = Concat <axis = 0> (leading, singles)
    acc       = Reshape (sums, sums_size)
}
""")

_POOL = WEIGHT_SCALE + fragment("""
pool <spatial_shape> (x_u8, x_zero_u8, scale, one, y_zero_u8) => (y_u8) {
    # its factor is x_scale / (y_scale * cells): the scale over 1, with y_scale = 1 / cells
    window   = Constant <value_ints: ints = @spatial_shape> ()
    cells    = ReduceProd <keepdims = 0> (window)
    size     = Cast <to = 1> (cells)                                       # 1 is FLOAT
    share    = Div (one, size)
    y_u8     = com.microsoft.QLinearGlobalAveragePool <channels_last = 0>
        (x_u8, scale, x_zero_u8, share, y_zero_u8)
}
""")

_CONVOLUTION = WEIGHT_SCALE + fragment("""
window <channels, spatial_shape> (x_u8, x_zero_u8, scale, one, y_zero_u8) => (y_u8) {
    # one depthwise window over everything, with weights of one
    channels = Constant <value_int: int = @channels> ()
    single   = Constant <value = int64[1] {1}> ()
    filters  = Reshape (channels, single)
    window   = Constant <value_ints: ints = @spatial_shape> ()
    w_shape  = Concat <axis = 0> (filters, single, window)
    w        = ConstantOfShape <value = int8[1] {1}> (w_shape)
    w_zero   = Constant <value = int8 {0}> ()
    y_u8     = QLinearConv <group: int = @channels, kernel_shape: ints = @spatial_shape>
        (x_u8, one, x_zero_u8, w, scale, w_zero, one, y_zero_u8)
}
""")

MOST_CELLS, SCALES = 1 << 24, (2.0**-32, 256.0)
"""QLinearGlobalAveragePool refuses windows of so many cells, and factors outside of these."""


def _has_its_factor(constants: Constants, attributes: Attributes) -> bool:
    """Whether float32 has a share that times the cells is 1, and the kernel takes the scale.

    Then its factor is the scale, and it requantizes the int32 sum as ``float32_kernel``. That
    is the kernel of the convolution too, by which multipliers are chosen: no guard can hold
    of a node that has none yet.
    """
    if "multiplier" not in constants:
        return False
    cells = np.float32(prod(attributes["spatial_shape"]))
    scale = np.ldexp(constants["multiplier"].astype(np.float32), -constants["shift"])
    is_taken = cells < MOST_CELLS and scale.size == 1 and SCALES[0] <= scale < SCALES[1]
    return bool(is_taken and np.float32(1) / cells * cells == 1)


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
    spatial_shape: list[int],
    rounding: NodeRounding,
) -> NDArray[Any]:
    """Stored x [N, channels, *spatial_shape] -> stored y [N, channels, 1...].

    The multiplier, one entry, holds x_scale / (y_scale * cells): prod(spatial_shape) cells.
    """
    assert x.shape[1:] == (channels, *spatial_shape)
    level = x.astype(np.int64) - x_zero
    acc = level.sum(axis=tuple(range(2, x.ndim)), keepdims=True)
    rounded = requantize(acc, multiplier, shift, rounding)
    return saturate(rounded, y_zero, y_min, y_max).astype(y_zero.dtype)


def _order_of_positions_is_irrelevant(x: NDArray[Any], *args: Any, **attributes: Any) -> None:
    reversed_x = np.ascontiguousarray(x[..., ::-1])
    np.testing.assert_array_equal(
        reference(x, *args, **attributes), reference(reversed_x, *args, **attributes)
    )


INT_GLOBAL_AVERAGE_POOL = Op(
    name="IntGlobalAveragePool",
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
        "spatial_shape": WINDOW,
        "rounding": TWICE,
        "channels_last": CHANNELS_LAST,
    },
    reference=reference,
    bodies=[
        *float32_bodies(_POOL, "onnxruntime_pool", _has_its_factor),
        *float32_bodies(_CONVOLUTION),
        *accumulator_bodies(_SUMS, AFTER_CHANNELS),
        *portable_bodies(_SUMS, AFTER_CHANNELS),
    ],
    evidence="thresholds",
    scaling=Scaling.RATIO,
    probe=Probe.WINDOW,
    laws={"the order of positions is irrelevant": _order_of_positions_is_irrelevant},
    formula="acc = sum over all positions of (x - x_zero); y = clamp(round(acc * multiplier / "
    "2**shift) + y_zero, y_min, y_max), the multiplier holding 1 / cells.",
)
