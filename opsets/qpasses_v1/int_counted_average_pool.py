"""IntCountedAveragePool: the mean of windows, each divided by the cells that it has."""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.attribute_kinds import ONCE, STEPS, WINDOW, Integer, Integers
from opsets.convolution import convolve
from opsets.declaration import Constant, Data, Scaling, Shift, ends
from opsets.division import DIVIDED_IN_DOUBLE, divided, fits_double
from opsets.either_layout import CHANNELS_LAST, in_either_layout
from opsets.fixed_point import ROUNDINGS, Rounding, rounding_divide, saturate
from opsets.fragments import fragment
from opsets.op import Attributes, Body, Constants, Op, all_of, reads_bytes, reads_words
from opsets.planes import PLANES
from opsets.portable import portable_overload, rounds
from opsets.word_sums import ENDS_FIT

_CELLS = fragment("""
cells <pads, uncounted_pads, kernel_shape, dilations, strides, channels>
    (x) => (cells, w_shape) {
    # ones where there are cells, summed as the window goes
    inside    = Shape <start = 2> (x)
    two_rows  = Constant <value = int64[2] {2, -1}> ()
    all_pads  = Constant <value_ints: ints = @pads> ()
    uncounted = Constant <value_ints: ints = @uncounted_pads> ()
    added     = Sub (all_pads, uncounted)
    ends      = Reshape (added, two_rows)
    first     = Constant <value = int64[1] {0}> ()
    wider     = ReduceSum <keepdims = 0> (ends, first)
    extent    = Add (inside, wider)
    ones_2    = Constant <value = int64[2] {1, 1}> ()
    in_field  = Concat <axis = 0> (ones_2, extent)
    field     = ConstantOfShape <value = int8[1] {1}> (in_field)
    window    = Constant <value_ints: ints = @kernel_shape> ()
    in_window = Concat <axis = 0> (ones_2, window)
    taps      = ConstantOfShape <value = int8[1] {1}> (in_window)
    number    = ConvInteger <dilations: ints = @dilations, kernel_shape: ints = @kernel_shape,
        pads: ints = @uncounted_pads, strides: ints = @strides> (field, taps)
    at_least  = Constant <value = int32 {1}> ()
    cells     = Max (number, at_least)
    filters   = Constant <value_int: int = @channels> ()
    single    = Constant <value = int64[1] {1}> ()
    rows      = Reshape (filters, single)
    w_shape   = Concat <axis = 0> (rows, single, window)
}
""")

_GEOMETRY = """dilations: ints = @dilations, group: int = @channels,
        kernel_shape: ints = @kernel_shape, pads: ints = @pads, strides: ints = @strides"""

_INTEGER_SUM = fragment("""
integer_sum <geometry> (x, x_zero, w_shape) => (acc) {
    w         = ConstantOfShape <value = int8[1] {1}> (w_shape)
    acc       = ConvInteger <@geometry> (x, w, x_zero)
}
""").having(geometry=_GEOMETRY)

_JOINED = fragment("""
joined (high_sums, low_sums) => (acc) {
    # int32 holds the sum
    places    = Constant <value = int32 {256}> ()
    lifted    = Mul (high_sums, places)
    acc       = Add (lifted, low_sums)
}
""")

_WORD_SUM = (
    PLANES
    + _INTEGER_SUM(x="high", x_zero="high_zero", acc="high_sums")
    + _INTEGER_SUM(x="low", x_zero="low_zero", acc="low_sums")
    + _JOINED
).only("acc")
"""ConvInteger takes bytes: those above and those below."""

_FLOAT_SUM = fragment("""
float_sum <geometry> (x, x_zero, w_shape) => (acc) {
    # float32 holds every sum: less than 2**24
    w         = ConstantOfShape <value = float[1] {1}> (w_shape)
    real      = Cast <to = 1> (x)                                          # 1 is FLOAT
    origin    = Cast <to = 1> (x_zero)
    levels    = Sub (real, origin)
    acc       = Conv <@geometry> (levels, w)
}
""").having(geometry=_GEOMETRY)


def _is_exact(constants: Constants, attributes: Attributes) -> bool:
    """Whether sums are exact in float32, their quotients in double."""
    if attributes["rounding"] != "half_to_even" or "kernel_shape" not in attributes:
        return False
    cells, multiplier = prod(attributes["kernel_shape"]), int(constants["multiplier"])
    largest = (65535 if reads_words(constants, attributes) else 255) * cells
    written = constants["y_zero"].dtype.itemsize
    fits = fits_double(multiplier, int(constants["shift"]), largest, cells, written)
    return fits and largest < 1 << 24


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
    pads: Sequence[int],
    uncounted_pads: Sequence[int],
    rounding: Rounding,
    **geometry: Any,
) -> NDArray[Any]:
    """Stored x [N, channels, spatial...] -> stored y; one multiplier and one shift.

    The multiplier holds x_scale / y_scale. ``pads`` are real zeros, of which the outermost,
    ``uncounted_pads``, are no cells. A window without any cell is divided by one.
    """
    ones = np.ones((channels, 1, *kernel_shape), np.int64)
    acc = convolve(x.astype(np.int64) - x_zero, ones, channels, pads=pads, **geometry)
    wider = np.reshape(np.subtract(pads, uncounted_pads), (2, -1)).sum(axis=0)
    field = np.ones((1, 1, *(x.shape[2:] + wider)), np.int64)
    cells = np.maximum(convolve(field, ones[:1], 1, pads=uncounted_pads, **geometry), 1)
    level = rounding_divide(acc * int(multiplier), cells << int(shift), rounding)
    return saturate(level, y_zero, y_min, y_max).astype(y_zero.dtype)


def _what_is_alike_stays_alike(x: NDArray[Any], *args: Any, **attributes: Any) -> None:
    """Padding that is no cell changes no mean; a window without any cell gives zero."""
    alike = np.full_like(x, x.flat[0])
    attributes["uncounted_pads"] = attributes["pads"]
    x_zero, multiplier, shift, *ends = args
    product = (int(x.flat[0]) - int(x_zero)) * int(multiplier)
    level = rounding_divide([product, 0], 1 << int(shift), attributes["rounding"])
    assert np.isin(reference(alike, *args, **attributes), saturate(level, *ends)).all()


INT_COUNTED_AVERAGE_POOL = Op(
    name="IntCountedAveragePool",
    inputs={
        "x": Data("S"),
        "x_zero": Constant("S"),
        "multiplier": Constant("int32"),
        "shift": Shift(),
        **ends("Y"),
    },
    outputs={"y": Data("Y")},
    attributes={
        "channels": Integer(1),
        "dilations": STEPS,
        "kernel_shape": WINDOW,
        "pads": Integers(0, per_axis=2, required=False),
        "strides": STEPS,
        "uncounted_pads": Integers(0, per_axis=2),
        "rounding": ONCE,
        "channels_last": CHANNELS_LAST,
    },
    reference=reference,
    bodies=[
        Body(
            "onnxruntime",
            "onnxruntime",
            _CELLS + _FLOAT_SUM + DIVIDED_IN_DOUBLE,
            accepts=_is_exact,
        ),
        *(
            Body(
                portable_overload(rounding),
                "portable",
                _CELLS + _INTEGER_SUM + divided(rounding),
                accepts=all_of(rounds(rounding), reads_bytes),
            )
            for rounding in ROUNDINGS
        ),
        *(
            Body(
                portable_overload(rounding).replace("portable", "portable_planes", 1),
                "portable",
                _CELLS + _WORD_SUM + divided(rounding),
                accepts=all_of(rounds(rounding), reads_words),
            )
            for rounding in ROUNDINGS
        ),
    ],
    evidence="thresholds",
    evidence_of_words="bounded",
    scaling=Scaling.RATIO,
    constraints=[ENDS_FIT],
    laws={"what is alike stays alike": _what_is_alike_stays_alike},
    formula="acc = sum over the window of (x - x_zero), padding being zero; cells = those of "
    "the window that are not among `uncounted_pads`, the outermost of `pads`, at least 1; y "
    "= clamp(round(acc * multiplier / (cells * 2**shift)) + y_zero, y_min, y_max).",
)
