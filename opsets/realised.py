"""Realised: which targets graphs can be made for, decided here and nowhere else."""

from dataclasses import MISSING, fields

from opsets.errors import UsageError
from opsets.fixed_point import ROUNDINGS, Rounding
from opsets.target import Target

_FOLLOWED = {"name", "description", "multiplier_bits", "rounding", "fast_kernels"}
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
