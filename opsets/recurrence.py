"""Recurrence: what the meanings of IntLstm, IntGru and IntRnn have in common."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.declaration import Constant, Constraint, Data, Shape, Shift
from opsets.fixed_point import Int64
from opsets.op import Attributes, Constants, Law
from opsets.rounding import NodeRounding, requantize

WORD = np.iinfo(np.int16)
"""What sums of gates and cells saturate to."""

WHOLE = (1 << 31) - 1
"""The length of a sequence that has all its steps."""


def gates(rows: str) -> dict[str, Data]:
    """The inputs that make ``rows`` sums of a step: weights, bias, multipliers and shifts."""
    return {
        "w": Constant("int8", ("I", rows)),
        "r": Constant("int8", ("H", rows)),
        "bias": Constant("int32", (rows,)),
        "x_multiplier": Constant("int32", (rows,)),
        "x_shift": Shift(dims=(rows,)),
        "h_multiplier": Constant("int32", (rows,)),
        "h_shift": Shift(dims=(rows,)),
    }


PLACES = (1 << 16,)
"""A table has an entry for each of 65,536 sums."""


def rows_of(count: int, **others: int) -> Constraint:
    """That there are ``count`` columns of ``r`` for each hidden unit, and others so many."""

    def holds(constants: Constants, _attributes: Attributes, _shape: Shape) -> bool:
        hidden, rows = constants["r"].shape
        sizes = ((constants[name].size, number) for name, number in others.items())
        fit = all(size == number * hidden for size, number in sizes)
        return bool(fit and rows == count * hidden and hidden > 0)

    return Constraint(f"r has {count} columns for each of its rows", holds)


def look_up(table: NDArray[Any], sums: Int64) -> Int64:
    """What ``table`` has for sums of 16 bits, by these bits."""
    return np.asarray(table.astype(np.int64)[sums & 0xFFFF])


def saturated(sums: NDArray[Any]) -> Int64:
    """Sums as codes of 16 bits."""
    return np.asarray(np.clip(sums, WORD.min, WORD.max), np.int64)


@dataclass(frozen=True)
class Sums:
    """What the sums of gates are: of inputs, all at once, and of the codes of a state."""

    w: NDArray[np.int8]
    r: NDArray[np.int8]
    bias: NDArray[np.int32]
    x_multiplier: NDArray[np.int32]
    x_shift: NDArray[np.int32]
    h_multiplier: NDArray[np.int32]
    h_shift: NDArray[np.int32]
    rounding: NodeRounding

    def of_inputs(self, x: NDArray[Any], zero: NDArray[Any]) -> Int64:
        """Stored x [T, B, I] -> 16 bits [T, B, rows]."""
        levels = x.astype(np.int64) - zero.astype(np.int64)
        sums = levels @ self.w.astype(np.int64) + self.bias
        return saturated(requantize(sums, self.x_multiplier, self.x_shift, self.rounding))

    def of_state(
        self, levels: Int64, rows: slice = slice(None), bias: NDArray[Any] | int = 0
    ) -> Int64:
        """Levels of a state [B, H] -> [B, rows], not saturated."""
        sums = levels @ self.r[:, rows].astype(np.int64) + bias
        scale = self.h_multiplier[rows], self.h_shift[rows]
        return requantize(sums, *scale, self.rounding)


def first_state(
    initial: NDArray[Any], lengths: NDArray[np.int32], zero: int, batch: int, hidden: int
) -> Int64:
    """What a state is before the first step, [B, H]: ``zero`` of sequences without steps."""
    state = np.broadcast_to(initial[0], (batch, hidden)).astype(np.int64)
    return np.where(np.broadcast_to(lengths, batch)[:, None] > 0, state, zero)


def padding_changes_no_step(reference: Callable[..., Any]) -> Law:
    """A law: a step more behind the end of all sequences changes nothing but y's length."""

    def law(x: NDArray[Any], *args: Any, **attributes: Any) -> None:
        given = list(args)
        lengths = next(
            k for k, each in enumerate(given) if each.dtype == np.int32 and each.ndim
        )
        given[lengths] = np.minimum(given[lengths], len(x)).astype(np.int32)
        longer = np.concatenate([x, x[:1]]) if len(x) else x
        one = reference(x, *given, **attributes)
        other = reference(longer, *given, **attributes)
        np.testing.assert_array_equal(one[0], other[0][: len(x)])
        for state, same in zip(one[1:], other[1:], strict=True):
            np.testing.assert_array_equal(state, same)

    return law
