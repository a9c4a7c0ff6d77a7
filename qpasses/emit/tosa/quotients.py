"""Quotients of wide integers as levels: searched bit by bit, each by an exact product."""

from typing import Literal

from opsets.fixed_point import Rounding
from qpasses.emit.operations import Value
from qpasses.emit.tosa.wide import Wide

Quotient = Rounding | Literal["down"]
"""How it is rounded."""


def level_of(
    dividend: Wide, divisor: Wide, ends: tuple[int, int], rounding: Quotient
) -> Value:
    """The rounded quotient as int32, saturated at ``ends`` or a little above.

    The largest k with 2 * dividend >= (2 * k - 1) * divisor, which is positive; where they are
    equal, a tie, the rounding says whether it counts. Rounded down, dividend >= k * divisor.
    The k that are tried for a bit are all even or all odd.
    """
    program, number = dividend.program, dividend.program.same_rank
    (low, high), times = ends, 1 if rounding == "down" else 2
    bits = (high - low).bit_length() or 1
    counted = dividend.times(times)
    uncounted = counted - counted.number(1)
    least, most = times * low, times * (low + (1 << bits))
    found = number(least + 1 - times, dividend.some)  # k, or 2 * k - 1
    for bit in reversed(range(bits)):
        tried = program.elementwise("add", found, number(times << bit, found))
        product = Wide.of(program, tried, least - 1, most) * divisor
        is_odd = (low + (1 << bit)) % 2
        margin = (uncounted if rounding == "half_to_even" and is_odd else counted) - product
        if rounding == "half_away":  # of negative ones a tie does not count
            sign = program.masked(program.right_shift(tried, 31), 1)
            margin = margin - Wide.of(program, sign, 0, 1)
        found = program.select(margin.is_negative(), found, tried)
    if rounding == "down":
        return found
    return program.right_shift(program.elementwise("add", found, number(1, found)), 1)
