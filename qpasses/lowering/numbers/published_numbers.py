"""The integers of published algorithms for a scale: I-ViT's and I-BERT's, in exact arithmetic.

There they are computed in float32, which on ties of floors may give a neighbour.
"""

from fractions import Fraction
from math import floor, isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.errors import UsageError
from opsets.fixed_point import LARGEST_SHIFT
from opsets.gemmlowp import LONGEST_ROW, softmax_exponentials
from opsets.multipliers import nearest
from opsets.qpasses_v1.i_layer_norm import LARGEST_FACTOR
from opsets.realised import node_multiplier, node_rounding
from opsets.target import Target
from qpasses.ir.record import Quantization

SHIFTMAX_BITS, SHIFT_GELU_BITS = 15, 23
"""I-ViT's n: fraction bits of exponentials in Softmax and in GELU."""

SIGMOID_BITS = 8
"""Of I-ViT's sigmoid, and its sign."""

SHARE_BITS = {"shiftmax": 16, "shiftmax8": 8}
"""Of the results of Shiftmax, and their sign, by form: as in DeiT and ViT, as in Swin; they
are requantized."""

I_BERT_EXP_BITS, I_BERT_ERF_BITS = 30, 14

I_BERT_SUM_BITS, I_BERT_SHARE_BITS = 16, 8
"""Of the exponentials that are summed, and their sign; of the results."""

_ENOUGH_BITS = 16
"""Of multipliers of I-LayerNorm, so that doubles hold their products; else as many as fit."""

I_VIT_SLOPE = Fraction("1.702")
"""GELU is near to x times the sigmoid of so many x."""

_LN_2 = Fraction("0.6931471805599453")
_EXP_A, _EXP_B, _EXP_C = (Fraction(each) for each in ("0.35815147", "0.96963238", "1.0"))
_ERF_A, _ERF_B, _ERF_C = (Fraction(each) for each in ("-0.2888", "-1.769", "1"))
_ROOT_OF_2 = Fraction("1.4142")


def shift_x0(scale: float, slope: Fraction = Fraction(1)) -> int:
    """I-ViT's x0 for codes of ``scale``: floor(-1 / (scale * slope))."""
    return floor(-1 / (Fraction(scale) * slope))


def exp_polynomial(scale: float) -> dict[str, int]:
    """I-BERT's x0, b and c of exponentials of codes of ``scale``."""
    s = Fraction(scale)
    return {
        "x0": floor(-_LN_2 / s),
        "b": floor(_EXP_B / _EXP_A / s),
        "c": floor(_EXP_C / _EXP_A / s**2),
    }


def erf_polynomial(scale: float) -> tuple[dict[str, int], Fraction]:
    """I-BERT's b, c and 1 of its GELU of codes of ``scale``, and the scale of the result.

    Its scale is negative: here it is turned, as the node turns the product.
    """
    s = Fraction(scale) / _ROOT_OF_2
    erf_scale = _ERF_A * s**2 * 2**I_BERT_ERF_BITS
    numbers = {
        "b": floor(_ERF_B / s),
        "c": floor(_ERF_C / _ERF_A / s**2),
        "one": floor(1 / erf_scale),
    }
    return numbers, -Fraction(scale) * erf_scale / 2


def i_layer_norm_bias(
    gamma: NDArray[np.float32], beta: NDArray[np.float32], cells: int
) -> list[int]:
    """floor((beta / gamma) / (sqrt(cells) / 2**30)) of each cell; no gamma is 0."""
    return [
        _floor_over_root(Fraction(b) / Fraction(g) * 2**30, cells)
        for g, b in zip(gamma.ravel().tolist(), beta.ravel().tolist(), strict=True)
    ]


def _floor_over_root(value: Fraction, cells: int) -> int:
    """floor(value / sqrt(cells)), exactly."""
    squared = value * value / cells
    root = isqrt(floor(squared))
    if value >= 0:
        return root
    return -root if Fraction(root * root) == squared else -root - 1


Numbers = dict[str, NDArray[Any]]
Attributes = dict[str, Any]


def softmax_numbers(
    form: str, x_scale: float, y: Quantization, length: int, target: Target
) -> tuple[str, Numbers, Attributes]:
    """The op of ``form``, its constants behind x and before y_zero, and its attributes.

    For rows of ``length`` codes. Raises UsageError for what the target cannot express, 62 bits
    cannot hold, or TFLite's kernel does not take.
    """
    if form == "gemmlowp":
        return "GemmlowpSoftmax", _gemmlowp_numbers(x_scale, y, length), {}
    y_scale = y.scale
    rounding = {"rounding": node_rounding(target)}
    if form in SHARE_BITS:
        bits = SHARE_BITS[form]
        found = _pair(Fraction(1, 1 << bits - 1) / Fraction(y_scale), target)
        attributes = {
            "x0": shift_x0(x_scale),
            "fraction_bits": SHIFTMAX_BITS,
            "output_bits": bits,
        }
        if -attributes["x0"] >= 1 << 62 - 31 - SHIFTMAX_BITS:
            raise UsageError(f"codes of scale {x_scale:.6g} are too fine for it")
        return "Shiftmax", found, attributes | rounding
    polynomial = exp_polynomial(x_scale)
    if (room := 61 - I_BERT_EXP_BITS - polynomial["c"].bit_length()) < 1:
        raise UsageError(f"codes of scale {x_scale:.6g} are too fine for its polynomial")
    largest = (1 << I_BERT_SUM_BITS - 1) - 1
    if polynomial["c"] < 1:
        raise UsageError(f"codes of scale {x_scale:.6g} are too coarse for its polynomial")
    exp_scale = Fraction(largest, polynomial["c"] << I_BERT_EXP_BITS)
    multiplier, shift = nearest(exp_scale, min(room, 31), LARGEST_SHIFT)
    numbers = {"exp_multiplier": multiplier, "exp_shift": shift}
    found = {name: np.array(value, np.int32) for name, value in numbers.items()}
    found |= _pair(Fraction(1, 1 << I_BERT_SHARE_BITS) / Fraction(y_scale), target)
    attributes = polynomial | {
        "fraction_bits": I_BERT_EXP_BITS,
        "output_bits": I_BERT_SHARE_BITS,
    }
    return "IBertSoftmax", found, attributes | rounding


def _gemmlowp_numbers(x_scale: float, y: Quantization, length: int) -> Numbers:
    if y.scale != 1 / 256 or y.zero_point != y.type_limits[0]:
        raise UsageError(
            f"its result has the scale {y.scale:.6g} and the zero point {y.zero_point}: "
            f"TFLite's kernel has 1 / 256 and {y.type_limits[0]} alone"
        )
    if length > LONGEST_ROW:
        raise UsageError(
            f"rows of {length} codes: a sum of exponentials can reach {LONGEST_ROW + 1}, "
            "where LiteRT's reference kernel ends the process; --softmax table takes any"
        )
    if x_scale <= 2.0**-26:
        raise UsageError(f"codes of scale {x_scale:.6g} are too fine for it")
    return {"exponentials": np.array(softmax_exponentials(x_scale), np.int32)}


def gelu_numbers(
    form: str, x_scale: float, y_scale: float, target: Target
) -> tuple[str, Numbers, Attributes]:
    """The op of ``form``, its constants between x_zero and y_zero, and its attributes.

    Raises UsageError for what the target cannot express, or 62 bits cannot hold.
    """
    if form == "shift":
        scale = Fraction(x_scale) / (1 << SIGMOID_BITS - 1)
        attributes = {
            "axis": -1,
            "x0": shift_x0(x_scale, I_VIT_SLOPE),
            "fraction_bits": SHIFT_GELU_BITS,
            "output_bits": SIGMOID_BITS,
        }
        if -attributes["x0"] >= 1 << 20:
            raise UsageError(f"codes of scale {x_scale:.6g} are too fine for it")
        return "ShiftGelu", _pair(scale / Fraction(y_scale), target), attributes
    polynomial, scale = erf_polynomial(x_scale)
    largest = max(map(abs, polynomial.values()))
    if largest >= 1 << 31 or 255 * (abs(polynomial["c"]) + abs(polynomial["one"])) >= 1 << 31:
        raise UsageError(f"codes of scale {x_scale:.6g} are too fine for its polynomial")
    attributes = {**polynomial, "fraction_bits": I_BERT_ERF_BITS}
    return "IBertGelu", _pair(scale / Fraction(y_scale), target), attributes


def _pair(scale: Fraction, target: Target) -> Numbers:
    multiplier, shift = node_multiplier(scale, target, elementwise=True)
    return {"multiplier": np.array(multiplier, np.int32), "shift": np.array(shift, np.int32)}


def i_layer_norm_numbers(
    form: str | None,
    gamma: NDArray[np.float32],
    beta: NDArray[np.float32],
    x: Quantization,
    y_scale: float,
) -> Numbers:
    """Bias, multiplier and shift of each cell: gamma * sqrt(cells) / 2**30 / y_scale, signed.

    Multipliers have 31 bits, as I-ViT's, where products fit 62, which they do unless a bias
    leaves 30: a root is no less than a distance of its row, so that normal codes are below
    2**30. By ``ivit_short`` they have as many as doubles hold beside a loose bound. Raises
    UsageError for a gamma of 0, whose bias I-ViT divides by it, or one too large.
    """
    cells = gamma.size
    if not gamma.all():
        raise UsageError("a gamma is 0")
    bias = i_layer_norm_bias(gamma, beta, cells)
    low, high = x.type_limits
    farthest = max(map(abs, bias))
    bits = min(31, 62 - ((1 << 30) + farthest).bit_length())
    if form == "ivit_short":
        largest = (high - low + 1) * LARGEST_FACTOR + farthest
        in_double = 52 - largest.bit_length()
        bits = in_double if in_double >= _ENOUGH_BITS else min(31, 62 - largest.bit_length())
    if bits < 8:
        raise UsageError("beta over gamma is too large")
    root = Fraction(isqrt(cells << 200), 1 << 100)
    pairs = []
    for each in gamma.ravel().tolist():
        scale = Fraction(each) * root / 2**30 / Fraction(y_scale)
        multiplier, shift = nearest(abs(scale), bits, LARGEST_SHIFT)
        if shift < 1:
            raise UsageError(f"gamma {each:.6g} is too large for the scale {y_scale:.6g}")
        pairs.append((multiplier if scale > 0 else -multiplier, shift))
    multipliers, shifts = np.array(pairs, np.int32).T
    return {"bias": np.array(bias, np.int64), "multiplier": multipliers, "shift": shifts}
