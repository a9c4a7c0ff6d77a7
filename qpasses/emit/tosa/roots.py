"""Square roots and quotients of wide integers, exact, in int32 operations."""

from qpasses.emit.operations import Operations, Value
from qpasses.emit.tosa.wide import LIMB, Column, Wide

_DIGIT = 15
"""A number of 60 bits has four of so many."""


def square_root(radicand: Wide) -> Value:
    """floor(sqrt(radicand)), at least 1, of numbers from 0 to 2**62 - 1.

    Of what has more than 60 bits the last two are left out; the remainder tells their bit.
    """
    program, number = radicand.program, radicand.program.same_rank
    if radicand.high < 1 << 60:
        return program.right_shift(*_root_of_60_bits(radicand)[::2])
    top = radicand.lowered(60).int32()
    is_long = program.elementwise("greater", top, number(0, top))
    fewer, least = radicand.lowered(2).limbs(), radicand.lowest(2).int32()
    kept = [
        program.select(is_long, *pair)
        for pair in zip(fewer, radicand.split().limbs(), strict=False)
    ]
    short = Wide.of_limbs(program, kept, 0, (1 << 60) - 1)
    root, remainder, places = _root_of_60_bits(short)
    some = program.elementwise("minimum", least, number(1, least))
    over = program.elementwise("add", program.elementwise("sub", remainder, root), some)
    is_odd = program.elementwise("greater_equal", over, number(1, over))
    bit = program.select(is_odd, number(1, over), number(0, over))
    whole = program.elementwise("add", program.left_shift(root, 1), bit)
    return program.select(is_long, whole, program.right_shift(root, places))


def _root_of_60_bits(radicand: Wide) -> tuple[Value, Value, Value]:
    """(root, remainder, places): of the radicand moved up by twice so many places.

    The root of the upper half, and one division by it: Zimmermann's "Karatsuba square root".
    """
    program, number = radicand.program, radicand.program.same_rank
    high, low = radicand.lowered(2 * _DIGIT).int32(), radicand.lowest(2 * _DIGIT).int32()
    zero = number(0, high)
    is_short = program.elementwise("equal", high, zero)
    high = program.select(is_short, low, high)
    high = program.elementwise("maximum", high, number(1, high))
    low = program.select(is_short, zero, low)
    places = program.select(is_short, number(_DIGIT, low), zero)
    zeros = program.add("clz", [high], high.shape, "i32")
    spare = program.masked(program.elementwise("sub", zeros, number(2, zeros)), -2)
    rest = program.elementwise("sub", number(2 * _DIGIT, spare), spare)
    moved = program.right_shift(low, rest)
    high = program.elementwise("add", program.left_shift(high, spare), moved)
    low = program.elementwise("sub", low, program.left_shift(moved, rest))
    low = program.left_shift(low, spare)
    places = program.elementwise("add", places, program.right_shift(spare, 1))
    head = _root_of_30_bits(program, high)
    square = program.multiply(head, head)
    left = program.left_shift(program.elementwise("sub", high, square), _DIGIT)
    dividend = program.elementwise("add", left, program.right_shift(low, _DIGIT))
    divisor = program.left_shift(head, 1)
    quotient = program.add("intdiv", [dividend, divisor], high.shape, "i32")
    taken = program.multiply(quotient, divisor)
    remainder = program.left_shift(program.elementwise("sub", dividend, taken), _DIGIT)
    square = program.multiply(quotient, quotient)
    last = program.masked(low, (1 << _DIGIT) - 1)
    remainder = program.elementwise("sub", remainder, program.elementwise("sub", square, last))
    root = program.elementwise("add", program.left_shift(head, _DIGIT), quotient)
    lower = program.elementwise("sub", root, number(1, root))
    is_over = program.elementwise("greater", zero, remainder)
    less = program.elementwise("minimum", remainder, zero)
    back = program.elementwise("add", less, program.elementwise("add", lower, root))
    root = program.select(is_over, lower, root)
    return root, program.select(is_over, back, remainder), places


def _root_of_30_bits(program: Operations, x: Value) -> Value:
    """floor(sqrt(x)) of 2**28 to 2**30 - 1: a straight line, and two steps of Newton's.

    The line is within 7 % of the root, so that they end at the root or one above it.
    """
    number = program.same_rank
    head = program.right_shift(x, _DIGIT - 1)
    third = program.right_shift(program.multiply(head, number(_THIRD, head)), 16)
    root = program.elementwise("add", third, number(_TWO_THIRDS, head))
    for _ in range(2):
        quotient = program.add("intdiv", [x, root], x.shape, "i32")
        root = program.right_shift(program.elementwise("add", root, quotient), 1)
    is_over = program.elementwise("greater", program.multiply(root, root), x)
    lower = program.elementwise("sub", root, number(1, root))
    return program.select(is_over, lower, root)


_THIRD, _TWO_THIRDS = 21846, 10923
"""Of 2**16 and of 2**14: sqrt(y) is about 2/3 + y/3 for y from 1 to 4."""


def quotient(program: Operations, bits: int, divisor: Value) -> Wide:
    """floor(2**bits / divisor), of divisors from 1 to 2**31 - 1.

    Digits of 12 bits, each from the first 16 bits of the divisor, moved up to bit 30, and off
    by less than 2/3: some are negative, and remainders lie within as much of the divisor.
    """
    number = program.same_rank
    zeros = program.add("clz", [divisor], divisor.shape, "i32")
    spare = program.elementwise("sub", zeros, number(1, zeros))
    moved = program.left_shift(divisor, spare)
    head = program.right_shift(moved, _DIGIT)
    lift = program.elementwise(
        "add", program.left_shift(head, LIMB + 1), program.right_shift(head, 1)
    )
    remainder, digits = number(1 << 30, head), list[Column]()
    for width in ([bits % LIMB] if bits % LIMB else []) + [LIMB] * (bits // LIMB):
        near = program.right_shift(remainder, _DIGIT - width)
        lifted = program.elementwise("add", near, lift)
        digit = program.add("intdiv", [lifted, head], head.shape, "i32")
        digit = program.elementwise("sub", digit, number(1 << (LIMB + 1), digit))
        high = program.multiply(digit, program.right_shift(moved, width))
        low = program.multiply(digit, program.masked(moved, (1 << width) - 1))
        left = program.elementwise("sub", remainder, high)
        remainder = program.elementwise("sub", program.left_shift(left, width), low)
        digits.append(Column(digit, -(1 << width) - 1, (1 << width) + 1))
    is_negative = program.masked(program.right_shift(remainder, 31), 1)
    last = program.elementwise("sub", digit, is_negative)
    digits[-1] = Column(last, -(1 << width) - 2, (1 << width) + 1)
    whole = Wide(program, tuple(reversed(digits)), 0, 1 << bits)
    behind = program.elementwise("sub", number(30, spare), spare)
    return whole.lowered_by(behind, 30)
