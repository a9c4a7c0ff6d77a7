"""Realised: which targets graphs can be made for, decided here and nowhere else."""

from dataclasses import MISSING, fields
from typing import cast

from opsets.errors import UsageError
from opsets.fixed_point import LARGEST_SHIFT, Rounding, scale_to_multiplier
from opsets.kernels import Kernel, float32_kernel
from opsets.multipliers import Pair, Scale, ScaleError
from opsets.rounding import (
    LAST_STEP,
    NODE_ROUNDINGS,
    ROUNDING_RULES,
    NodeRounding,
    node_shifts,
)
from opsets.target import SMALLEST, Target

_FOLLOWED = {
    *("name", "description", "fast_kernels", "rounding", "scales"),
    *("multiplier", "multiplier_bits", "min_shift", "max_shift"),
    *("elementwise", "elementwise_bits", "accumulator_bits"),
    *("activations", "non_negative", "conv_weights", "matmul_weights", "tables"),
}
"""Rules that the passes follow whatever they say; of the others they know the usual one."""

_RULED = ("multiplier", "min_shift", "max_shift", "scales", "elementwise")
"""Rules that no search for multipliers of fast kernels keeps to, unless they are the usual."""

_IN_FLOAT = {
    "half_to_even_in_double": ROUNDING_RULES["half_to_even_in_double"].levels,
    "half_to_even_in_float32": float32_kernel,
}
"""Roundings of a product in floats: half to even where that is proved to be the same."""


def unrealised(target: Target) -> list[str]:
    """The rules of ``target`` that no pass follows yet, as they would stand in its file."""
    others = {
        field.name: field.default
        for field in fields(target)
        if field.default is not MISSING and field.name not in _FOLLOWED
    }
    given = {name: getattr(target, name) for name in others}
    found = [f"{name} = {value!r}" for name, value in given.items() if value != others[name]]
    if target.rounding not in (*NODE_ROUNDINGS, *_IN_FLOAT):
        found.insert(0, f"rounding = {target.rounding!r}")
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
    """``(multiplier, shift)`` of a node, by the rule of ``target``; see its two multipliers.

    The rule nearest lets large scales saturate where its shifts are the usual ones. A scale
    that the rule does not take is 0 where no int32 accumulator notices it. Of one rounding the
    quotient counts alone: nodes hold it with a shift of 1 at least. Raises ScaleError for what
    the target cannot express, or int32 constants cannot hold.
    """
    is_other = elementwise and target.elementwise is not None
    rule = target.elementwise if is_other else target.multiplier
    if rule == "nearest" and (target.min_shift, target.max_shift) == (1, LARGEST_SHIFT):
        bits = target.elementwise_bits if is_other else target.multiplier_bits
        assert bits is not None, target.name
        return scale_to_multiplier(scale, bits)
    derive = target.elementwise_multiplier if elementwise else target.scale_to_multiplier
    rounding = node_rounding(target)
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
