"""Numbers of an IntLstm that computes the bits of a target's kernel: see opsets.lstm_forms."""

from collections.abc import Sequence
from fractions import Fraction
from math import frexp
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.lstm_forms import CELL_END, GATE_STEP, LSTM_FORMS, OPEN, LstmForm
from opsets.multipliers import Pair, ScaleError
from opsets.realised import (
    node_multiplier,
    node_rounding,
    word_sum_multiplier,
    word_sum_rounding,
)
from opsets.recurrence import WORD
from opsets.rounding import requantize, wraps
from opsets.target import Target
from opsets.word_products import furthest
from qpasses.ir.record import WORDS, Quantization
from qpasses.ir.rewriting import States
from qpasses.lowering.numbers.recurrent_numbers import Numbers, Weights, named, stored_bias


def lstm_kernel_numbers(
    weights: Weights, x: Quantization, states: States, target: Target
) -> Numbers:
    """All of them. Raises ScaleError, saying why, for what the kernel does not take."""
    form, y = LSTM_FORMS[target.lstm], states.hidden
    is_wide = _width(x, y, form)
    power = cell_power(states.cell, form)
    bias = stored_bias(weights.bias, np.array([x.scale * each for each in weights.w_scales]))
    of_x = _pairs(x, weights.w_scales, is_wide, target)
    of_h = _pairs(y, weights.r_scales, is_wide, target)
    sums = word_sum_rounding(target) if is_wide else node_rounding(target)
    reach_x = _reaches(weights.w, x) + np.abs(bias.astype(np.int64))
    reach_h = _reaches(weights.r, y)
    if not is_wide:  # of words they have 64 bits
        _check_sums(reach_x, of_x[1], sums)
        _check_sums(reach_h, of_h[1], sums)
    nothing = (
        np.zeros(weights.peepholes.shape, np.int32),
        np.ones(weights.peepholes.shape, np.int32),
    )
    shown = node_multiplier(target.real_scale("IntLstm", (OPEN, OPEN), y.scale), target)
    own: dict[str, NDArray[Any]] = {
        **{"w": weights.w, "r": weights.r, "bias": bias},
        **named("x", of_x),
        **named("h", of_h),
        **named("p", nothing),
        **{"f_table": form.sigmoid(), "g_table": form.tanh(_GATE_POWER)},
        "h_table": form.tanh(power),
        **named("c", _columns(form.cells(power))),
        **{"c_min": np.array(-CELL_END, np.int16), "c_max": np.array(CELL_END, np.int16)},
        **named("y", (np.array(shown[0], np.int32), np.array(shown[1], np.int32))),
    }
    attributes: dict[str, Any] = {"rounding": sums}
    if is_wide:
        attributes["product_rounding"] = node_rounding(target)
    if form.saturates_state and leaves_words(reach_h, of_h, sums):
        attributes["saturates_state"] = 1
    shared = frozenset({"f_table", "g_table", "h_table"})
    return Numbers(own, shared, [Fraction(GATE_STEP)], attributes)


_GATE_POWER = frexp(GATE_STEP)[1] - 1


def _width(x: Quantization, y: Quantization, form: LstmForm) -> bool:
    """Whether activations have 16 bits."""
    found = [each.dtype in WORDS for each in (x, y)]
    if found[0] != found[1]:
        raise ScaleError("its input and its output have 8 bits and 16, the kernel has one")
    if found[0] and not form.words:
        raise ScaleError("the kernel of this target takes activations of 8 bits")
    if found[0] and (x.zero_point or y.zero_point):
        raise ScaleError("activations of 16 bits have a zero point that is not 0")
    return found[0]


def cell_power(cell: Quantization, form: LstmForm) -> int:
    """The power of two that is the scale of cells. Raises ScaleError for other scales."""
    mantissa, exponent = frexp(cell.scale)
    if mantissa != 0.5 or cell.zero_point or exponent - 1 not in form.powers:
        low, high = form.powers[0], form.powers[-1]
        raise ScaleError(
            f"its cell is stored at {cell.scale:.6g} around {cell.zero_point}, the kernel "
            f"takes powers of two from 2**{low} to 2**{high} around 0"
        )
    return exponent - 1


def _pairs(
    codes: Quantization, scales: Sequence[float], is_wide: bool, target: Target
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Of sums of ``codes`` with weights of such ``scales``."""
    derive = word_sum_multiplier if is_wide else node_multiplier
    known: dict[float, Pair] = {}
    for each in scales:
        if each not in known:
            real = target.real_scale("IntLstm", (codes.scale, each), GATE_STEP)
            known[each] = derive(real, target)
    return _columns([known[each] for each in scales])


def _columns(pairs: Sequence[Pair]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    multipliers, shifts = np.array(pairs, np.int32).T
    return multipliers.copy(), shifts.copy()


def _reaches(weights: NDArray[np.int8], codes: Quantization) -> NDArray[np.int64]:
    return np.asarray(np.abs(weights.astype(np.int64)).sum(axis=0) * furthest(codes.zero))


def _check_sums(reach: NDArray[np.int64], shifts: NDArray[np.int32], rounding: str) -> None:
    if (reach > np.iinfo(np.int32).max).any() or wraps(reach, shifts, rounding).any():
        raise ScaleError("its sums leave 32 bits, in which the kernel has them")


def leaves_words(
    reach: NDArray[np.int64], pairs: tuple[NDArray[Any], NDArray[Any]], rounding: str
) -> bool:
    """Whether a sum up to ``reach`` is beyond 16 bits, requantized: then kernels differ."""
    ends = [requantize(sign * reach, *pairs, rounding) for sign in (-1, 1)]
    return bool(ends[0].min() < WORD.min or ends[1].max() > WORD.max)
