"""Products with 16 bits: their multiplier and shift."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from opsets.errors import UsageError
from opsets.fixed_point import LARGEST_SHIFT, saturating_multiplier
from opsets.multipliers import Pair, Scale, ScaleError, nearest
from opsets.qpasses_v1 import int_div
from opsets.realised import node_multiplier, word_sum_multiplier
from opsets.rounding import LAST_STEP
from opsets.target import Target
from opsets.word_products import LARGEST, multiplier_bits
from qpasses.evidence.thresholds import Interval
from qpasses.lowering.numbers.multiplier_search import Choice

_SATURATING = 18
"""From so many bits on, a scale beyond multipliers takes each sum but 0 beyond 16 bits."""
OTHER_FORMS = (
    "quantize_multiplier",
    "quantize_multiplier_single",
    "quantize_multiplier_reduced",
    "tosa",
)
"""Rules of TFLite and TOSA, which have multipliers of their own for 16-bit products."""

_LEVELS = 1 << 31
"""Levels of sums by the rule of a target for them are below it, before they are clamped."""


def word_multiplier(
    scale: Scale,
    reach: int,
    target: Target,
    elementwise: bool = False,
    reads_words: bool = True,
) -> Pair:
    """Multiplier and shift for sums up to ``reach``.

    The nearest of so few bits that double holds all products, as no kernel need be found that
    rounds them; those of a target with a rule of its own are by the rule. ``reads_words``:
    that is the one for sums of 16-bit products where the target has one. Raises UsageError,
    or ScaleError, which is one, for what no node computes.
    """
    _must_have_form(target)
    if target.word_multiplier is not None and reads_words and not elementwise:
        return _ruled_sum(scale, reach, target)
    if is_nearest(target, elementwise):
        bits = multiplier_bits(reach, target.multiplier_bits)
        if bits < _SATURATING and scale >= Fraction(2) ** (bits - 2):
            raise ScaleError(
                f"the scale {float(scale):.6g} of sums of 16 bits is beyond multipliers of "
                f"{bits} bits"
            )
        return saturating_multiplier(scale, bits)
    multiplier, shift = node_multiplier(scale, target, elementwise)
    if reach * abs(multiplier) > LARGEST:
        raise ScaleError(
            f"sums of 16 bits up to {reach} times {multiplier}, the multiplier of target "
            f"{target.name!r}, leave 62 bits"
        )
    return multiplier, shift


def _ruled_sum(scale: Scale, reach: int, target: Target) -> Pair:
    multiplier, shift = word_sum_multiplier(scale, target)
    if (reach * multiplier >> shift) + 1 >= _LEVELS:
        raise ScaleError(
            f"sums of 16 bits up to {reach} times {multiplier} / 2**{shift}, the scale of "
            f"target {target.name!r}, leave 32 bits"
        )
    return multiplier, shift


def quotient_multiplier(scale: Fraction, target: Target) -> Pair:
    """Multiplier and shift for quotients of levels.

    The nearest with a shift at which double rounds all quotients as integers do: so it is off
    by 2**-22 at most, a quotient by less than a hundredth of a step. Those of a target with a
    rule of its own are by the rule. Raises UsageError, or ScaleError, for what no node holds.
    """
    if "Div" in target.byte_ops:
        raise UsageError(f"target {target.name!r} divides integers of 8 bits alone")
    _must_have_form(target)
    if is_nearest(target, elementwise=True):
        bits = target.multiplier_bits
        if scale >= Fraction(2) ** (bits - 2):
            raise ScaleError(
                f"the scale {float(scale):.6g} of a quotient is beyond multipliers of {bits} "
                "bits"
            )
        return nearest(scale, bits, int_div.LARGEST_SHIFT_IN_DOUBLE)
    multiplier, shift = node_multiplier(scale, target, elementwise=True)
    if not 1 <= shift <= int_div.LARGEST_SHIFT:
        raise ScaleError(
            f"the shift {shift} that target {target.name!r} has for the scale "
            f"{float(scale):.6g} is none of a quotient: 1 to {int_div.LARGEST_SHIFT}"
        )
    return multiplier, shift


def _must_have_form(target: Target) -> None:
    """Raise UsageError where 16 bits are multiplied in another form than 8."""
    if target.multiplier in OTHER_FORMS and target.word_multiplier is None:
        raise UsageError(
            f"target {target.name!r} multiplies 16-bit integers in another form than 8-bit "
            "ones, which no node computes in this version"
        )


def unlike_widths(target: Target, op: str, *types: str) -> str:
    """Why a target with ``word_ends`` alike has no ``op`` between such types, or nothing."""
    widths = {each == "int16" for each in types}
    if target.word_ends != "alike" or len(widths) < 2:
        return ""
    return f"target {target.name!r} has no {op} between tensors of 8 and of 16 bits"


def is_nearest(target: Target, elementwise: bool) -> bool:
    """Whether multipliers are the nearest, whatever shift they need."""
    usual = (target.min_shift, target.max_shift) == (1, LARGEST_SHIFT)
    own = elementwise and target.elementwise is not None
    return target.multiplier == "nearest" and usual and not own


def word_multipliers(
    scales: Sequence[Scale],
    reachable: Interval,
    target: Target,
    elementwise: bool,
    reads_words: bool,
) -> Choice:
    """The same for sums of products, one for each scale, all of as many bits.

    Raises UsageError where the target rounds them twice, which takes sums of 32 bits.
    """
    has_rule = target.word_rounding is not None and reads_words and not elementwise
    is_ruled = target.multiplier in OTHER_FORMS and target.word_multiplier is None
    if not (has_rule or is_ruled) and target.rounding in LAST_STEP:
        raise UsageError(
            f"rounding = {target.rounding!r} of target {target.name!r} takes sums of 32 bits, "
            "those of 16-bit integers have more"
        )
    reach = abs(reachable.farthest()[1])
    pairs = [
        word_multiplier(scale, reach, target, elementwise, reads_words) for scale in scales
    ]
    multiplier, shift = np.array(pairs, np.int64).reshape(-1, 2).T
    return Choice(multiplier, shift, np.ones(len(pairs), bool))
