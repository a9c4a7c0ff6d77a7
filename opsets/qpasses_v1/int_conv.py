"""IntConv: convolution of stored integers with a bias, requantized per output channel."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.attribute_kinds import STEPS, TWICE, WINDOW, Integer, Integers, Text
from opsets.bias_rests import BIAS_RESTS, RESTS_FIT, with_rests
from opsets.convolution import WINDOWS_FIT, convolve
from opsets.declaration import PER_CHANNEL, Constant, Data, Probe, Scaling, Shift, ends
from opsets.double import accumulator_bodies
from opsets.either_layout import CHANNELS_LAST, in_either_layout
from opsets.fixed_point import saturate
from opsets.float32 import WEIGHT_SCALE, float32_bodies
from opsets.fragments import fragment
from opsets.op import Op
from opsets.portable import AFTER_CHANNELS, portable_bodies
from opsets.rounding import NodeRounding, requantize
from opsets.window_sums import SUMS
from opsets.word_sums import ENDS_FIT, of_codes_alone, sums_of_planes, word_bodies

_GEOMETRY = """auto_pad: string = @auto_pad, dilations: ints = @dilations,
        group: int = @group, kernel_shape: ints = @kernel_shape, pads: ints = @pads,
        strides: ints = @strides"""

_SUMS = SUMS.having(geometry=_GEOMETRY)

_CONVOLUTION = fragment("""
convolution <geometry>
    (x_u8, x_zero_u8, w, w_zero, scale, one, bias, y_zero_u8) => (y_u8) {
    y_u8      = QLinearConv <@geometry>
        (x_u8, one, x_zero_u8, w, scale, w_zero, one, y_zero_u8, bias)
}
""").having(geometry=_GEOMETRY)

_OF_CODES = with_rests(
    [
        *float32_bodies(WEIGHT_SCALE + _CONVOLUTION),
        *accumulator_bodies(_SUMS, AFTER_CHANNELS),
        *portable_bodies(_SUMS, AFTER_CHANNELS),
    ],
    _SUMS,
    AFTER_CHANNELS,
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
    bias_rests: Sequence[int] = (),
    group: int = 1,
    **geometry: Any,
) -> NDArray[Any]:
    """Stored x [N, C, spatial...], w [M, C/group, kernel...], bias [M] -> stored y.

    ``multiplier`` and ``shift`` have one entry or M, ``bias_rests`` M or none. Padding is real
    zero, so stored x_zero.
    """
    data, weights = (a.astype(np.int64) - z for a, z in ((x, x_zero), (w, w_zero)))
    column = (-1,) + (1,) * (x.ndim - 2)
    acc = convolve(data, weights, group, **geometry) + bias.astype(np.int64).reshape(column)
    m, s = (np.reshape(v, column) for v in (multiplier, shift))
    rests = [np.reshape(bias_rests, column)] if bias_rests else []
    level = requantize(acc, m, s, rounding, *rests)
    return saturate(level, y_zero, y_min, y_max).astype(y_zero.dtype)


def _zero_input_gives_the_bias(
    x: NDArray[Any], x_zero: NDArray[Any], *args: Any, **kw: Any
) -> None:
    w, w_zero, bias, *rest = args
    still = np.full_like(x, x_zero)
    silent = reference(still, x_zero, w, w_zero, bias, *rest, **kw)
    other = reference(still, x_zero, np.full_like(w, w_zero), w_zero, bias, *rest, **kw)
    np.testing.assert_array_equal(silent, other)


INT_CONV = Op(
    name="IntConv",
    inputs={
        "x": Data("X"),
        "x_zero": Constant("X"),
        "w": Constant("W", ("M", "C", "K", ...)),
        "w_zero": Constant("W"),
        "bias": Constant("int32", ("M",)),
        "multiplier": Constant("int32", PER_CHANNEL),
        "shift": Shift(dims=PER_CHANNEL),
        **ends("Y"),
    },
    outputs={"y": Data("Y")},
    attributes={
        "auto_pad": Text(required=False),
        "dilations": STEPS,
        "group": Integer(1),
        "kernel_shape": WINDOW,
        "pads": Integers(0, per_axis=2, required=False),
        "strides": STEPS,
        "rounding": TWICE,
        "bias_rests": BIAS_RESTS,
        "channels_last": CHANNELS_LAST,
    },
    reference=reference,
    bodies=[
        *of_codes_alone(_OF_CODES),
        *word_bodies(_SUMS, sums_of_planes(_SUMS), AFTER_CHANNELS),
    ],
    evidence="thresholds",
    evidence_of_words="bounded",
    scaling=Scaling.RATIO,
    constraints=[RESTS_FIT, WINDOWS_FIT, ENDS_FIT],
    probe=Probe.FILTERS,
    laws={"a silent input gives the bias": _zero_input_gives_the_bias},
    formula="acc = sum((x - x_zero) * (w - w_zero)) + bias, exact in int32, of x with 16 bits "
    "in int64; y = "
    "clamp(round((acc * multiplier + bias_rests) / 2**shift) + y_zero, y_min, y_max), without "
    "`bias_rests` 0. Geometry as in ONNX Conv; 1D, 2D and 3D.",
    source="Source: ONNX QLinearConv, the scale as multiplier and shift.",
)
