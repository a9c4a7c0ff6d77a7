"""The integers of published algorithms for a scale: I-ViT's and I-BERT's, in exact arithmetic.

There they are computed in float32, which on ties of floors may give a neighbour.
"""

from fractions import Fraction
from math import floor, isqrt

import numpy as np
from numpy.typing import NDArray

SHIFTMAX_BITS, SHIFT_GELU_BITS = 15, 23
"""I-ViT's n: fraction bits of exponentials in Softmax and in GELU."""

SIGMOID_BITS = 8
"""Of I-ViT's sigmoid, and its sign."""

I_BERT_EXP_BITS, I_BERT_ERF_BITS = 30, 14

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
) -> NDArray[np.int64]:
    """floor((beta / gamma) / (sqrt(cells) / 2**30)) of each cell; no gamma is 0."""
    return np.array(
        [
            _floor_over_root(Fraction(b) / Fraction(g) * 2**30, cells)
            for g, b in zip(gamma.ravel().tolist(), beta.ravel().tolist(), strict=True)
        ],
        np.int64,
    )


def _floor_over_root(value: Fraction, cells: int) -> int:
    """floor(value / sqrt(cells)), exactly."""
    squared = value * value / cells
    root = isqrt(floor(squared))
    if value >= 0:
        return root
    return -root if Fraction(root * root) == squared else -root - 1
