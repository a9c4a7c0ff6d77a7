"""Realised: which targets graphs can be made for, decided here and nowhere else."""

from dataclasses import MISSING, fields

from opsets.errors import UsageError
from opsets.fixed_point import LARGEST_SHIFT, ROUNDINGS, Rounding
from opsets.multipliers import Pair, ScaleError
from opsets.rounding import ROUNDING_RULES
from opsets.target import Target

_FOLLOWED = {
    *("name", "description", "multiplier_bits", "rounding", "fast_kernels"),
    *("add", "slopes", "elementwise", "elementwise_bits"),
}
"""Rules that the passes follow whatever they say; of the others they know the usual one."""


def unrealised(target: Target) -> list[str]:
    """The rules of ``target`` that no pass follows yet, as they would stand in its file."""
    others = {
        field.name: field.default
        for field in fields(target)
        if field.default is not MISSING and field.name not in _FOLLOWED
    }
    given = {name: getattr(target, name) for name in others}
    found = [f"{name} = {value!r}" for name, value in given.items() if value != others[name]]
    if target.rounding not in ROUNDINGS:
        found.insert(0, f"rounding = {target.rounding!r}")
    return found


def check_realised(target: Target) -> None:
    """Raise UsageError for a target with rules that no pass follows yet."""
    if found := unrealised(target):
        raise UsageError(
            f"target {target.name!r}: no graph can be made for it yet: no pass follows "
            f"{', '.join(found)}; its arithmetic is there in Python, by opsets.load_target"
        )


def node_rounding(target: Target) -> Rounding:
    """The rounding of the nodes made for ``target``. Raises UsageError as check_realised."""
    for rounding in ROUNDINGS:
        if rounding == target.rounding:
            return rounding
    raise UsageError(f"no node rounds as {target.rounding!r}")


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
