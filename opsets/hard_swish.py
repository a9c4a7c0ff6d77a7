"""HardSwish in int16, of 8 bits: what TFLite's kernel computes, and MLIR tabulates."""

import numpy as np

from opsets.fixed_point import Int64, rounding_shift
from opsets.multipliers import quantize_multiplier_reduced

_HIGHEST = (1 << 15) - 1


def hard_swish_levels(x: Int64, x_scale: float, y_scale: float) -> Int64 | None:
    """Levels of y, less its zero point, before they saturate; None for scales beyond it.

    ``x`` are levels, less their zero point, from -255 to 255, which as int16 have x_scale /
    128. relu6(x + 3) / 6, a fraction of 15 bits, times x, which has y_scale or a power of two
    more of it, is truncated, then shifted, ties away from zero. So y_scale has to be above
    x_scale / 128: MLIR takes others too, but what it makes of them is no HardSwish.

    Source: TensorFlow, getTosaConstHardSwish8bitTable in
    compiler/mlir/tosa/transforms/legalize_utils.cc, after
    lite/kernels/internal/reference/hard_swish.h; scales are divided in float32.
    """
    finer = np.float32(1 / 128) * np.float32(x_scale)
    to_y, y_places = _short_multiplier(finer / np.float32(y_scale))
    to_third, places = _short_multiplier(finer / np.float32(3 / 32768))
    if not (0 <= y_places < 16 and -16 < places < 16):
        return None
    fine = x << 7
    share = fine
    if places < 0:
        share = _saturated(share << (-places - 1))
    share = _rounded_high(share, to_third)
    share = (
        _saturated(share << 1) if places < 0 else rounding_shift(share, places, "half_away")
    )
    share = (share + (1 << 15)) >> 1
    product = share * _rounded_high(fine, to_y)
    return rounding_shift(np.sign(product) * (np.abs(product) >> 15), y_places, "half_away")


def _short_multiplier(scale: np.float32) -> tuple[int, int]:
    """15 bits of a multiplier, and how far to shift to the right, left if negative."""
    multiplier, shift = quantize_multiplier_reduced(float(scale), 15, 46)
    return multiplier, shift - 15


def _rounded_high(a: Int64, b: int) -> Int64:
    """gemmlowp's SaturatingRoundingDoublingHighMul of int16, for b >= 0: ties go up."""
    return np.asarray((a * b + (1 << 14)) >> 15, np.int64)


def _saturated(value: Int64) -> Int64:
    return np.asarray(np.clip(value, -_HIGHEST - 1, _HIGHEST), np.int64)
