"""Realised: which targets graphs can be made for, decided here and nowhere else."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import cast

import numpy as np

from opsets.errors import UsageError
from opsets.fixed_point import LARGEST_SHIFT, ROUNDINGS, Int64, Rounding, saturating_multiplier
from opsets.forms import LEFT_SHIFTS
from opsets.kernels import Kernel, float32_kernel
from opsets.multipliers import Pair, Scale, ScaleError, nearest
from opsets.real_scales import near_scales, nearest_of
from opsets.rounding import (
    LAST_STEP,
    NODE_ROUNDINGS,
    ROUNDING_RULES,
    NodeRounding,
    node_shifts,
)
from opsets.target import SMALLEST, Target

_RULED = ("multiplier", "min_shift", "max_shift", "scales", "elementwise")
"""Rules that no search for multipliers of fast kernels keeps to, unless they are the usual."""

_IN_FLOAT = {
    "half_to_even_in_double": ROUNDING_RULES["half_to_even_in_double"].levels,
    "half_to_even_in_float32": float32_kernel,
}
"""Roundings of a product in floats: half to even where that is proved to be the same."""


def unrealised(target: Target) -> list[str]:
    """The rules of ``target`` that no pass follows yet, as they would stand in its file.

    These are known one by one: passes follow every other rule, whatever it says, which
    tests/opsets/test_targets.py asks of each field.
    """
    found = []
    if target.rounding not in (*NODE_ROUNDINGS, *_IN_FLOAT):
        found.append(f"rounding = {target.rounding!r}")
    if target.fast_kernels:
        rules = target.rules()
        found += [f"{n} = {rules[n]!r} with fast_kernels" for n in _RULED if n in rules]
    return found


def check_realised(target: Target) -> None:
    """Raise UsageError for a target with rules that no pass follows yet."""
    if found := unrealised(target):
        raise UsageError(
            f"target {target.name!r}: no graph can be made for it yet: no pass follows "
            f"{', '.join(found)}; its arithmetic is there in Python, by opsets.load_target"
        )


def node_rounding(target: Target) -> NodeRounding:
    """The rounding of the nodes made for ``target``. Raises UsageError as check_realised.

    Products in float32 and double are rounded half to even: see ``float_kernel``.
    """
    if target.rounding in _IN_FLOAT:
        return "half_to_even"
    for rounding in NODE_ROUNDINGS:
        if rounding == target.rounding:
            return rounding
    raise UsageError(f"no node rounds as {target.rounding!r}")


SCALED_ROUNDING: Rounding = "half_away"
"""Of nodes that stand for a product with a scale in double (form ``scaled`` of Gemm)."""


def scaled_multiplier(scale: Scale) -> Pair:
    """Multiplier of 31 bits and shift of such a node, nearest to ``scale``.

    Raises ScaleError for a scale that it cannot hold.
    """
    multiplier, shift = nearest(scale, 31, LARGEST_SHIFT)
    if shift < 1:
        raise ScaleError(f"no node holds the scale {float(scale):.6g}: 2**30 is the largest")
    return multiplier, shift


def quotient_rounding(target: Target) -> Rounding:
    """The rounding of a quotient made for ``target``: of two roundings the second."""
    rounding = node_rounding(target)
    return LAST_STEP.get(rounding) or cast(Rounding, rounding)


def float_kernel(target: Target) -> Kernel | None:
    """What the target computes in floats, monotone in the accumulator; None if it does not.

    A node may stand for it where both agree on every accumulator that it can reach.
    """
    return _IN_FLOAT.get(target.rounding)


def node_multiplier(scale: Scale, target: Target, elementwise: bool = False) -> Pair:
    """``(multiplier, shift)`` of a node, by the rule of ``target``; see its multipliers.

    The rule nearest lets large scales saturate where its shifts are the usual ones. A scale
    that the rule does not take is 0 where no int32 accumulator notices it. Of one rounding the
    quotient counts alone: nodes hold it with a shift of 1 at least. Raises ScaleError for what
    the target cannot express, or int32 constants cannot hold.
    """
    is_other = elementwise and target.elementwise is not None
    rule = target.elementwise if is_other else target.multiplier
    if rule == "nearest" and _shifts_as_usual(target):
        bits = target.elementwise_bits if is_other else target.multiplier_bits
        assert bits is not None, target.name
        return saturating_multiplier(scale, bits)
    derive = target.elementwise_multiplier if elementwise else target.scale_to_multiplier
    return _on_node(scale, node_rounding(target), derive)


def word_sum_rounding(target: Target) -> NodeRounding:
    """The rounding of sums of products that read 16 bits."""
    for rounding in ROUNDINGS:
        if rounding == target.word_rounding:
            return rounding
    return node_rounding(target)


def word_sum_multiplier(scale: Scale, target: Target) -> Pair:
    """The same of sums of products that read 16 bits, where the target has a rule for them."""
    return _on_node(scale, word_sum_rounding(target), target.word_sum_multiplier)


def _on_node(scale: Scale, rounding: NodeRounding, derive: Callable[[Scale], Pair]) -> Pair:
    try:
        multiplier, shift = derive(scale)
    except ScaleError:
        if not 0 <= scale < SMALLEST:
            raise
        return 0, 1
    if rounding in LAST_STEP:
        return multiplier, shift
    shifts, places = node_shifts(rounding), max(1 - shift, 0)
    multiplier, shift = multiplier << places, shift + places
    while multiplier % 2 == 0 and (multiplier >= 1 << 31 or shift >= shifts.stop):
        multiplier, shift = multiplier >> 1, shift - 1
    if multiplier >= 1 << 31 or shift not in shifts:
        raise ScaleError(
            f"no node holds the scale {float(scale):.6g}: {multiplier} / 2**{shift} leaves "
            f"31 bits, or the shifts {shifts.start} to {shifts.stop - 1}"
        )
    return multiplier, shift


def node_multipliers(scales: Sequence[Fraction], target: Target) -> tuple[Int64, Int64]:
    """``node_multiplier`` of each real scale, [C] and [C]: most at once, by doubles."""
    channels: Sequence[int] = range(len(scales))
    multiplier, shift = np.empty((2, len(scales)), np.int64)
    if target.multiplier == "nearest" and _shifts_as_usual(target):
        near, bits = near_scales(scales), target.multiplier_bits
        multiplier, shift, told = nearest_of(near, bits, LARGEST_SHIFT)
        channels = np.flatnonzero(~told).tolist()
    for channel in channels:
        multiplier[channel], shift[channel] = node_multiplier(scales[channel], target)
    return multiplier, shift


def _shifts_as_usual(target: Target) -> bool:
    return (target.min_shift, target.max_shift) == (1, LARGEST_SHIFT)


def takes_words(target: Target) -> bool:
    """Whether its multipliers fit sums of codes of 16 bits, which are rounded once."""
    is_nearest = target.multiplier == "nearest" and _shifts_as_usual(target)
    has_rule = target.word_multiplier is not None
    return (is_nearest or has_rule) and (target.word_rounding or target.rounding) in ROUNDINGS


def has_wide_tables(target: Target) -> bool:
    """Whether it has tables of 16 bits."""
    has_words = takes_words(target) or not LEFT_SHIFTS.get(target.add)
    return target.tables and target.word_tables and has_words


def searched(target: Target) -> bool:
    """Whether multipliers of sums and slopes are searched among the neighbours of the nearest.

    Otherwise they are those of the target's rule.
    """
    return target.elementwise is None and target.multiplier == "nearest"


def slopes_are_coded(target: Target) -> bool:
    """Whether slopes have codes beside their multipliers, or multipliers by a rule."""
    usual = target.slopes == "multipliers" and target.rounding in ROUNDINGS
    return not (usual and searched(target))


def node_pair(pair: Pair, rounding: str) -> Pair:
    """Multiplier and shift of a target's rule as nodes have them: int32, and a shift from 1 to
    61, or from 0 to 62 where two steps round. Values below 2**29 become the same levels, but
    for those that the target's left shift would wrap: no multiplier is left so small that it
    needs one.

    Raises ScaleError where there is none.
    """
    multiplier, shift, in_steps = abs(pair[0]), pair[1], ROUNDING_RULES[rounding].int32
    lowest, highest = (0, LARGEST_SHIFT + 1) if in_steps else (1, LARGEST_SHIFT)
    if multiplier == 1 << 31:
        multiplier, shift = multiplier >> 1, shift - 1
    if multiplier == 0 or shift > highest:
        multiplier, shift = 0, highest
    room = min(31 - shift, 31 - multiplier.bit_length()) if in_steps else lowest - shift
    multiplier, shift = multiplier << max(room, 0), shift + max(room, 0)
    if shift < lowest or multiplier >= 1 << 31:
        raise ScaleError(f"no node has the multiplier {pair[0]} with the shift {pair[1]}")
    return (multiplier if pair[0] > 0 else -multiplier), shift
