"""The exact sums of a node, before its multipliers, whatever its op.

No op is asked how it sums: with multiplier 1, shift 0 and ends of 64 bits its reference gives
the sum itself. What is found so is kept only where rounding it as the node says gives what the
reference gives.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.declaration import Scaling
from opsets.errors import UsageError
from opsets.fixed_point import Int64
from opsets.op import DOMAIN
from opsets.qpasses_v1 import OPS
from opsets.rounding import NODE_ROUNDINGS, requantize
from qpasses.evidence.bodies import constants_of
from qpasses.ir.graph import Node, constant
from qpasses.ir.record import NodeRecord

Values = Mapping[str, NDArray[Any]]
"""Stored integers by tensor, as ONNX has them."""

_FACTORS = ("multiplier",), ("a_multiplier", "b_multiplier")
_ENDS = ("y_zero", "y_min", "y_max")
_WIDE = 1 << 62


@dataclass(frozen=True)
class Sums:
    """What a node rounds: the sum of ``terms`` times their multipliers, over 2**shift.

    ``terms``: for each multiplier [n], one for each element, in int32 where that holds them;
    ``channel`` [n] is the place of its numbers in ``multipliers`` (each [C]), ``shift``,
    ``rest`` [C] and ``scales``, for each multiplier the real scales that it stands for, none
    where they are not known.
    ``ends``: zero point, smallest and largest code, those of the type last.
    """

    terms: Sequence[NDArray[Any]]
    channel: NDArray[np.int32]
    multipliers: Sequence[Int64]
    shift: Int64
    rest: Int64
    scales: Sequence[Sequence[Fraction]]
    rounding: str
    ends: tuple[int, int, int, int, int]

    def at(self, places: Int64) -> "Sums":
        """Those of some elements."""
        terms = [each[places] for each in self.terms]
        return replace(self, terms=terms, channel=self.channel[places])


def joined(parts: Sequence[Sums]) -> Sums:
    """Those of several samples as one."""
    terms = [np.concatenate(each) for each in zip(*(p.terms for p in parts), strict=True)]
    channel = np.concatenate([each.channel for each in parts])
    return replace(parts[0], terms=terms, channel=channel)


def arguments_of(node: Node, values: Values) -> list[NDArray[Any]]:
    """What the reference of a node takes, data from ``values``."""
    found = ((tensor, constant(tensor)) for tensor in node.inputs)
    return [values[tensor.name] if held is None else held for tensor, held in found]


def sums_of(node: Node, entry: NodeRecord, values: Values) -> Sums | None:
    """The sums of ``node`` on its inputs among ``values``; None where it has none."""
    if node.domain != DOMAIN:
        return None
    given = constants_of(node)
    factors = next((names for names in _FACTORS if {*names, "shift"} <= given.keys()), None)
    if factors is None or node.attrs.get("rounding") not in NODE_ROUNDINGS:
        return None
    found = _Summed(node, values, factors)
    terms = [found.term(each) for each in factors]
    expected = found.reference({}, {})
    multipliers = [given[name].astype(np.int64).ravel() for name in factors]
    shift = given["shift"].astype(np.int64).ravel()
    rest = np.array(node.attrs.get("bias_rests") or [0], np.int64)
    count = max(map(len, (*multipliers, shift, rest)))
    multipliers = [np.broadcast_to(each, count) for each in multipliers]
    shift, rest = np.broadcast_to(shift, count), np.broadcast_to(rest, count)
    zero, low, high = (int(given[name]) for name in _ENDS)
    limits = np.iinfo(given["y_zero"].dtype)
    ends = zero, low, high, int(limits.min), int(limits.max)
    scales = _scales(node, entry, len(factors), count)
    for channel in _channels(expected.shape, count):
        flat = [_narrow(each.ravel()) for each in terms]
        made = Sums(
            *(flat, channel, multipliers, shift, rest, scales, node.attrs["rounding"], ends)
        )
        if np.array_equal(_usual(made), expected.ravel()):
            return made
    return None


@dataclass(frozen=True)
class _Summed:
    """A node with other numbers on it."""

    node: Node
    values: Values
    factors: Sequence[str]

    def reference(self, constants: Values, attributes: Mapping[str, Any]) -> NDArray[Any]:
        """What its op gives with these in place of its own."""
        op = OPS[self.node.op]
        named = dict(zip(op.inputs, arguments_of(self.node, self.values), strict=True))
        return np.asarray(
            op.reference(*{**named, **constants}.values(), **(self.node.attrs | attributes))
        )

    def term(self, factor: str) -> Int64:
        """The sum that is multiplied with ``factor``, of which there may be others."""
        given = constants_of(self.node)
        numbers = {name: int(name == factor) for name in self.factors} | {"shift": 0}
        wide = {"y_zero": 0, "y_min": -_WIDE, "y_max": _WIDE}
        made = {name: np.full_like(given[name], each) for name, each in numbers.items()}
        made |= {name: np.array(each, np.int64) for name, each in wide.items()}
        bare = {"bias_rests": ()} if "bias_rests" in self.node.attrs else {}
        return self.reference(made, bare | {"rounding": "half_up"}).astype(np.int64)


def _narrow(terms: Int64) -> NDArray[Any]:
    largest = int(np.abs(terms).max(initial=0))
    return terms.astype(np.int32) if largest < 1 << 31 else terms


def _channels(shape: Sequence[int], count: int) -> Iterator[NDArray[np.int32]]:
    """The channel of each element, for each axis that may be that of channels."""
    if count == 1:
        yield np.zeros(int(np.prod(shape)), np.int32)
        return
    for axis, size in enumerate(shape):
        if size == count:
            column = np.arange(count, dtype=np.int32).reshape(
                [-1, *[1] * (len(shape) - 1 - axis)]
            )
            yield np.ascontiguousarray(np.broadcast_to(column, shape)).ravel()


def _usual(sums: Sums) -> Int64:
    zero, low, high, *_ = sums.ends
    at = sums.channel
    if len(sums.terms) == 1:
        numbers = sums.multipliers[0][at], sums.shift[at], sums.rounding
        rests = [sums.rest[at]] if sums.rest.any() else []
        try:
            levels = requantize(sums.terms[0], *numbers, *rests)
        except UsageError:  # products beyond 64 bits
            return np.zeros(0, np.int64)
    else:
        pairs = zip(sums.terms, sums.multipliers, strict=True)
        total = sum((term * factor[at] for term, factor in pairs), np.int64(0))
        levels = requantize(total, 1, sums.shift[at], sums.rounding)
    return np.clip(levels + zero, low, high)


def _scales(node: Node, entry: NodeRecord, terms: int, count: int) -> list[list[Fraction]]:
    """The real scale of each multiplier, per channel; nothing where the record says none."""
    scaling = OPS[node.op].scaling
    if not entry.scales or scaling not in (Scaling.RATIO, Scaling.SUM):
        return []
    if terms == 1:
        found = [list(entry.real_scales())]
    else:
        a, b, y = (Fraction(entry.scales[name][0]) for name in "aby")
        found = [[a / y], [b / y]]
    return [each * (count // len(each)) for each in found]
