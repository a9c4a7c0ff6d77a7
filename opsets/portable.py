"""The closing statements of every portable body: round, move to the zero point, clamp.

Joined, not nested functions: onnxruntime 1.31 loses the overload of a function called from
inside another function's body.
"""

from collections.abc import Sequence

from opsets.fixed_point import ROUNDINGS, Rounding
from opsets.fragments import Fragment, fragment
from opsets.kernels import PORTABLE_KERNELS, Kernel, two_step_kernel
from opsets.op import Body, Condition, Guard
from opsets.rounding import LAST_STEP, NodeRounding

_SPLIT = fragment("""
split (scaled, shift) => (unit, unit_bit, offset, bits, half_step, floor_bit, floor, rest) {
    # round(scaled / 2**shift): ONNX shifts right on unsigned integers only, so an even
    # multiple of 2**shift is added before and taken away after
    offset    = Constant <value = int64 {4611686018427387904}> ()          # 2**62
    unit      = Constant <value = int64 {1}> ()
    unit_bit  = Cast <to = 13> (unit)                                      # 13 is UINT64
    bits      = Cast <to = 13> (shift)
    wide_bits = Cast <to = 7> (shift)                                      # 7 is INT64
    less      = Sub (wide_bits, unit)
    less_bits = Cast <to = 13> (less)
    half_bit  = BitShift <direction = "LEFT"> (unit_bit, less_bits)
    half_step = Cast <to = 7> (half_bit)
    mask      = Sub (half_step, unit)
    low_mask  = Add (half_step, mask)                                      # 2**shift - 1
    low_bits  = Cast <to = 13> (low_mask)
    moved     = Add (scaled, offset)
    unsigned  = Cast <to = 13> (moved)
    floor_bit = BitShift <direction = "RIGHT"> (unsigned, bits)
    floor     = Cast <to = 7> (floor_bit)
    rest_bit  = BitwiseAnd (unsigned, low_bits)
    rest      = Cast <to = 7> (rest_bit)
}
""")

_BELOW: dict[Rounding, Fragment] = {  # one where a tie goes down, else zero
    "half_to_even": fragment("""
below_to_even (floor_bit, unit_bit, unit) => (below) {
    odd_bit   = BitwiseAnd (floor_bit, unit_bit)
    odd       = Cast <to = 7> (odd_bit)
    below     = Sub (unit, odd)
}
"""),
    "half_up": fragment("""
below_up (unit) => (below) {
    below     = Sub (unit, unit)
}
"""),
    "half_away": fragment("""
below_away (scaled, unit) => (below) {
    nothing   = Sub (unit, unit)
    negative  = Less (scaled, nothing)
    below     = Cast <to = 7> (negative)
}
"""),
}

_CARRY = fragment("""
carry (rest, half_step, below, bits, offset, floor) => (level) {
    lifted    = Add (rest, half_step)
    carried   = Sub (lifted, below)
    carry_in  = Cast <to = 13> (carried)
    carry_bit = BitShift <direction = "RIGHT"> (carry_in, bits)
    carry     = Cast <to = 7> (carry_bit)
    offset_in = Cast <to = 13> (offset)
    back_bit  = BitShift <direction = "RIGHT"> (offset_in, bits)
    back      = Cast <to = 7> (back_bit)
    rounded   = Add (floor, carry)
    level     = Sub (rounded, back)
}
""")

_ROUNDED: dict[Rounding, Fragment] = {
    rounding: (_SPLIT + below + _CARRY).only("level") for rounding, below in _BELOW.items()
}
"""Statements that round int64 ``scaled`` / 2**``shift`` to ``level``."""


def rounded(rounding: Rounding) -> Fragment:
    """Statements that round int64 ``scaled`` / 2**``shift`` to ``level``."""
    return _ROUNDED[rounding]


_ONCE = fragment("""
once (value, by) => (scaled) {
    scaled    = Mul (value, by)
}
""")

_HIGH = fragment("""
high (value, by, shift) => (scaled, places) {
    # the left shift wraps, as Cast to INT32 does; floor((x * multiplier + 2**30) / 2**31) is
    # doubled, so that the second shift, one place further, has a place to round
    one_place = Constant <value = int64 {1}> ()
    no_place  = Constant <value = int64 {0}> ()
    all_31    = Constant <value = int64 {31}> ()
    total     = Cast <to = 7> (shift)                                      # 7 is INT64
    gap       = Sub (all_31, total)
    has_left  = Greater (gap, no_place)
    left      = Where (has_left, gap, no_place)
    right     = Sub (left, gap)
    places    = Add (right, one_place)
    left_bits = Cast <to = 13> (left)                                      # 13 is UINT64
    one_bit   = Cast <to = 13> (one_place)
    factor_in = BitShift <direction = "LEFT"> (one_bit, left_bits)
    factor    = Cast <to = 7> (factor_in)
    moved_acc = Mul (value, factor)
    narrow    = Cast <to = 6> (moved_acc)                                  # 6 is INT32
    wrapped   = Cast <to = 7> (narrow)
    product_2 = Mul (wrapped, by)
    lift      = Constant <value = int64 {4611686019501129728}> ()          # 2**62 + 2**30
    lifted_2  = Add (product_2, lift)
    lifted_in = Cast <to = 13> (lifted_2)
    bits_31   = Cast <to = 13> (all_31)
    step_in   = BitShift <direction = "RIGHT"> (lifted_in, bits_31)
    step_up   = Cast <to = 7> (step_in)
    back_31   = Constant <value = int64 {2147483648}> ()                   # 2**62 >> 31
    step      = Sub (step_up, back_31)
    scaled    = Add (step, step)
}
""")

_REQUANTIZED: dict[NodeRounding, Fragment] = {
    **{rounding: (_ONCE + rounded).only("level") for rounding, rounded in _ROUNDED.items()},
    **{
        rounding: (_HIGH + _ROUNDED[last](shift="places")).only("level")
        for rounding, last in LAST_STEP.items()
    },
}
"""Statements that make ``level`` of int64 ``value``, int64 ``by`` and ``shift``."""

_KERNELS: dict[NodeRounding, Kernel] = {
    **{rounding: PORTABLE_KERNELS[rounding] for rounding in ROUNDINGS},
    **{rounding: two_step_kernel(last) for rounding, last in LAST_STEP.items()},
}

STORE = fragment("""
store (level, y_zero, y_min, y_max) => (y) {
    # the zero point, the clamp, the type; Clip, Min and Max of onnxruntime 1.31 on x86 are
    # wrong for int64 beyond 32 bits (pull request 32475), Less, Greater and Where are right
    zero      = Cast <to = 7> (y_zero)
    low       = Cast <to = 7> (y_min)
    high      = Cast <to = 7> (y_max)
    stored    = Add (level, zero)
    too_low   = Less (stored, low)
    raised    = Where (too_low, low, stored)
    too_high  = Greater (raised, high)
    clamped   = Where (too_high, high, raised)
    y         = CastLike (clamped, y_zero)
}
""")
"""Statements that store the rounded int64 ``level`` as y."""

AFTER_CHANNELS = fragment("""
after_channels (acc) => (trailing) {
    acc_shape  = Shape (acc)
    acc_rank   = Shape (acc_shape)
    two        = Constant <value = int64[1] {2}> ()
    trailing   = Sub (acc_rank, two)
}
""")
"""``trailing`` for accumulators [N, C, ...] scaled along axis 1."""

LAST_AXIS = fragment("""
last_axis () => (trailing) {
    trailing   = Constant <value = int64[1] {0}> ()
}
""")
"""``trailing`` for accumulators scaled along their last axis."""

_COLUMNS = fragment("""
columns (trailing, multiplier, shift) => (m_column, s_column, column) {
    ones_1     = ConstantOfShape <value = int64[1] {1}> (trailing)
    rest_size  = Constant <value = int64[1] {-1}> ()
    column     = Concat <axis = 0> (rest_size, ones_1)
    m_column   = Reshape (multiplier, column)
    s_column   = Reshape (shift, column)
}
""")


def columns(trailing: Fragment, *also: str) -> Fragment:
    """Statements that shape ``multiplier`` and ``shift`` to scale ``acc`` along one axis.

    They begin with those that define ``trailing``, int64[1]: how many dimensions follow that
    axis. ``also``: "column", the shape of one number for each channel.
    """
    return (trailing + _COLUMNS).only("m_column", "s_column", *also)


_WIDE = fragment("""
wide (acc, m_column) => (wide_acc, wide_m) {
    wide_acc   = Cast <to = 7> (acc)                                       # 7 is INT64
    wide_m     = Cast <to = 7> (m_column)
}
""")


def portable_bodies(sums: Fragment, trailing: Fragment) -> Sequence[Body]:
    """One portable body per rounding; ``sums`` write int32 ``acc``, see ``columns``."""
    statements = sums + columns(trailing) + _WIDE
    return bodies_of_product(statements, "s_column", ("wide_acc", "wide_m"))


def bodies_of_product(
    statements: Fragment, shift: str, factors: tuple[str, str]
) -> Sequence[Body]:
    """One portable body per rounding, two steps too; ``statements`` write the int64 factors.

    The accumulator comes first, an int32 by value. ``shift`` names the tensor of right shifts,
    shaped to broadcast with the product.
    """
    value, by = factors
    return [
        Body(
            overload=portable_overload(rounding),
            flavour="portable",
            statements=statements + level(value=value, by=by, shift=shift) + STORE,
            accepts=rounds(rounding),
            kernel=_KERNELS[rounding],
        )
        for rounding, level in _REQUANTIZED.items()
    ]


_FACTOR = fragment("""
factor (multiplier) => (factor_m) {
    factor_m  = Cast <to = 7> (multiplier)                                 # 7 is INT64
}
""")


def rescaled(
    value: str, multiplier: str, shift: str, result: str, rounding: NodeRounding
) -> Fragment:
    """Statements that requantize int64 ``value`` to int64 ``result``, which names them too.

    ``multiplier`` is cast to int64; it and the right ``shift`` broadcast with the value.
    """
    statements = (_FACTOR + _REQUANTIZED[rounding](by="factor_m")).only("level")
    return statements(value=value, multiplier=multiplier, shift=shift, level=result)


def bodies_of_one_rounding(statements: Fragment, shift: str) -> Sequence[Body]:
    """One portable body per rounding of a quotient; ``statements`` write int64 ``scaled``."""
    return [
        Body(
            overload=portable_overload(rounding),
            flavour="portable",
            statements=statements + _ROUNDED[rounding](shift=shift) + STORE,
            accepts=rounds(rounding),
            kernel=PORTABLE_KERNELS[rounding],
        )
        for rounding in ROUNDINGS
    ]


def portable_overload(rounding: NodeRounding) -> str:
    """The name of the portable body that rounds as ``rounding`` says."""
    return "portable" if rounding == "half_to_even" else f"portable_{rounding}"


def rounds(rounding: NodeRounding) -> Guard:
    """Accept the nodes with this rounding."""
    return Condition(
        f"the rounding is {rounding}",
        lambda _constants, attributes: bool(attributes["rounding"] == rounding),
    )
