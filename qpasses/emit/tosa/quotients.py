"""Quotients of wide integers as levels: searched bit by bit, each by an exact product."""

from typing import Literal

from opsets.fixed_point import Rounding
from qpasses.emit.tosa.program import Value
from qpasses.emit.tosa.wide import Wide

Quotient = Rounding | Literal["down"]
"""How it is rounded."""


def level_of(
    dividend: Wide, divisor: Wide, ends: tuple[int, int], rounding: Quotient
) -> Value:
    """The rounded quotient as int32, saturated at ``ends`` or a little above.

    The largest k with 2 * dividend >= (2 * k - 1) * divisor, which is positive; where they are
    equal, a tie, the rounding says whether it counts. Rounded down, dividend >= k * divisor.
    """
    program, number = dividend.program, dividend.program.same_rank
    low, high = ends
    doubled = dividend if rounding == "down" else dividend + dividend
    level = number(low, dividend.some)
    for bit in reversed(range((high - low).bit_length())):
        tried = program.elementwise("add", level, number(1 << bit, level))
        step = Wide.of(program, tried, low, low + (2 << (high - low).bit_length()))
        if rounding != "down":
            step = step + step - step.number(1)
        margin = doubled - step * divisor
        if rounding == "half_to_even":
            parity = Wide.of(program, program.masked(tried, 1), 0, 1)
            margin = margin - parity
        elif rounding == "half_away":  # of negative ones a tie does not count
            sign = program.masked(program.right_shift(step.some, 31), 1)
            margin = margin - Wide.of(program, sign, 0, 1)
        level = program.select(margin.is_negative(), level, tried)
    return level
