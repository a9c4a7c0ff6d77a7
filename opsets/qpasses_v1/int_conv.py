"""IntConv: convolution of stored integers with a bias, requantized per output channel."""

from collections.abc import Sequence
from itertools import product
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.fixed_point import Int64, Rounding, requantize, saturate
from opsets.kernels import float32_kernel
from opsets.op import (
    Attributes,
    Body,
    Constants,
    Guard,
    Op,
    all_of,
    any_node,
    saturates_at_type_ends,
)
from opsets.portable import AFTER_CHANNELS, portable_bodies, scaled_accumulator

_GEOMETRY = """auto_pad: string = @auto_pad, dilations: ints = @dilations,
        group: int = @group, kernel_shape: ints = @kernel_shape, pads: ints = @pads,
        strides: ints = @strides"""

_PORTABLE = (
    """
    products  = ConvInteger <GEOMETRY> (x, w, x_zero, w_zero)
    # the bias as a column along axis 1, for any number of spatial dimensions
    shape     = Shape (w)
    rank      = Shape (shape)
    pair      = Constant <value = int64[1] {2}> ()
    spatial   = Sub (rank, pair)
    ones      = ConstantOfShape <value = int64[1] {1}> (spatial)
    any_size  = Constant <value = int64[1] {-1}> ()
    bias_size = Concat <axis = 0> (any_size, ones)
    bias_1    = Reshape (bias, bias_size)
    acc       = Add (products, bias_1)
""".replace("GEOMETRY", _GEOMETRY)
    + scaled_accumulator(AFTER_CHANNELS)
)

WEIGHT_SCALE = """
    # the scale is computed from the integers on the node; Pow(0.5, n) is exact
    m         = Cast <to = 1> (multiplier)                                 # 1 is FLOAT
    s         = Cast <to = 1> (shift)
    half      = Constant <value = float {0.5}> ()
    step      = Pow (half, s)
    scale     = Mul (m, step)
    one       = Constant <value = float {1.0}> ()
"""

_ONNXRUNTIME = (
    WEIGHT_SCALE
    + """
    RESULT = QLinearConv <GEOMETRY>
        (x, one, x_zero, w, scale, w_zero, one, y_zero, bias)
""".replace("GEOMETRY", _GEOMETRY)
)


def float32_bodies(
    text: str, name: str = "onnxruntime", also: Guard = any_node
) -> Sequence[Body]:
    """onnxruntime's kernel alone, and with a Clip where the clamp is not the type's range.

    ``text`` calls what the kernel writes RESULT; ``also`` is a further condition.
    """
    saturating = all_of(_has_kernel, also, saturates_at_type_ends)
    alone = text.replace("RESULT", "y")
    clamped = text.replace("RESULT", "saturated") + "y = Clip (saturated, y_min, y_max)"
    return [
        Body(name, "onnxruntime", alone, saturating, float32_kernel),
        Body(
            f"{name}_clamped",
            "onnxruntime",
            clamped,
            all_of(_has_kernel, also),
            float32_kernel,
        ),
    ]


def _has_kernel(constants: Constants, _attributes: Attributes) -> bool:
    """onnxruntime has no QLinearConv and no QGemm for int8 activations by uint8 weights."""
    unsigned_weights = "w_zero" in constants and constants["w_zero"].dtype == np.uint8
    return not (constants["y_min"].dtype == np.int8 and unsigned_weights)


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
    rounding: Rounding,
    group: int = 1,
    **geometry: Any,
) -> NDArray[Any]:
    """Stored x [N, C, spatial...], w [M, C/group, kernel...], bias [M] -> stored y.

    ``multiplier`` and ``shift`` have one entry or M. Padding is real zero, so stored x_zero.
    """
    data, weights = (a.astype(np.int64) - z for a, z in ((x, x_zero), (w, w_zero)))
    column = (-1,) + (1,) * (x.ndim - 2)
    acc = convolve(data, weights, group, **geometry) + bias.astype(np.int64).reshape(column)
    m, s = (np.reshape(v, column) for v in (multiplier, shift))
    return saturate(requantize(acc, m, s, rounding), y_zero, y_min, y_max).astype(y_zero.dtype)


def convolve(
    data: Int64,
    weights: Int64,
    group: int,
    *,
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    auto_pad: str = "NOTSET",
    kernel_shape: Sequence[int] | None = None,
) -> Int64:
    """Exact convolution (ONNX Conv's geometry) of int64 [N, C, ...] by [M, C/group, ...]."""
    kernel = weights.shape[2:]
    assert kernel_shape is None or tuple(kernel_shape) == kernel
    dims = len(kernel)
    steps, gaps = strides or [1] * dims, dilations or [1] * dims
    begin, end = padding(data.shape[2:], kernel, steps, gaps, pads, auto_pad)
    padded = np.pad(data, [(0, 0), (0, 0), *zip(begin, end, strict=True)])
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, gaps, strict=True)]
    out = [(n - r) // s + 1 for n, r, s in zip(padded.shape[2:], reach, steps, strict=True)]
    by_group = padded.reshape(data.shape[0], group, -1, *padded.shape[2:])
    split = weights.reshape(group, -1, *weights.shape[1:])
    acc = np.zeros((data.shape[0], group, split.shape[1], *out), np.int64)
    for position in product(*map(range, kernel)):
        window = tuple(
            slice(p * d, p * d + (n - 1) * s + 1, s)
            for p, d, n, s in zip(position, gaps, out, steps, strict=True)
        )
        cells = by_group[(slice(None),) * 3 + window]
        taps = split[(slice(None),) * 3 + position]
        acc += np.asarray(np.einsum("ngc...,gmc->ngm...", cells, taps), np.int64)
    return acc.reshape(data.shape[0], len(weights), *out)


def padding(
    size: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int] | None,
    auto_pad: str,
) -> tuple[list[int], list[int]]:
    """Cells added before and after each spatial dimension, by ONNX's rules for auto_pad."""
    dims = len(kernel)
    if auto_pad in ("NOTSET", ""):
        explicit = list(pads or [0] * (2 * dims))
        return explicit[:dims], explicit[dims:]
    if auto_pad == "VALID":
        return [0] * dims, [0] * dims
    total = [
        max((ceil(n / s) - 1) * s + (k - 1) * d + 1 - n, 0)
        for n, k, s, d in zip(size, kernel, strides, dilations, strict=True)
    ]
    small, large = [t // 2 for t in total], [t - t // 2 for t in total]
    return (small, large) if auto_pad == "SAME_UPPER" else (large, small)


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
        "x": "T",
        "x_zero": "T",
        "w": "W",
        "w_zero": "W",
        "bias": "int32",
        "multiplier": "int32",
        "shift": "int32",
        "y_zero": "T",
        "y_min": "T",
        "y_max": "T",
    },
    outputs={"y": "T"},
    attributes=(
        "auto_pad",
        "dilations",
        "group",
        "kernel_shape",
        "pads",
        "strides",
        "rounding",
    ),
    reference=reference,
    bodies=[*float32_bodies(_ONNXRUNTIME), *portable_bodies(_PORTABLE)],
    evidence="thresholds",
    laws={"a silent input gives the bias": _zero_input_gives_the_bias},
    doc="acc = sum((x - x_zero) * (w - w_zero)) + bias, exact in int32; "
    "y = clamp(round(acc * multiplier / 2**shift) + y_zero, y_min, y_max). Geometry as in "
    "ONNX Conv; 1D, 2D and 3D. Source: ONNX QLinearConv, the scale as multiplier and shift.",
)
