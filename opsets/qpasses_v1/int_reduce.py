"""IntReduce: sums and means over any axes, whose sizes may be known at run time only."""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.fixed_point import ROUNDINGS, Rounding, rounding_divide, saturate
from opsets.op import Attributes, Body, Constants, Guard, Op, all_of
from opsets.portable import STORE, portable_overload, rounds

_AXES = """
    axes     = Constant <value_ints: ints = @axes> ()
    x_shape  = Shape (x)
    extents  = Gather <axis = 0> (x_shape, axes)
    count    = ReduceProd <keepdims = 0> (extents)
"""

_SUM = """
    wide     = Cast <to = 6> (x)                                           # 6 is INT32
    origin   = Cast <to = 6> (x_zero)
    levels   = Sub (wide, origin)
    acc      = ReduceSum <keepdims: int = @keepdims> (levels, axes)
"""

_MATRIX_SUM = """
    # the last axes in one, times a column of ones: four times as fast as ReduceSum
    rest     = Constant <value = int64[1] {-1}> ()
    one_1    = Constant <value = int64[1] {1}> ()
    zero_1   = Constant <value = int64[1] {0}> ()
    inner    = Reshape (count, one_1)
    in_rows  = Concat <axis = 0> (rest, inner)
    rows     = Reshape (x, in_rows)
    on_end   = Concat <axis = 0> (inner, one_1)
    ones     = ConstantOfShape <value = int8[1] {1}> (on_end)
    sums     = MatMulInteger (rows, ones, x_zero)
    number   = Shape (axes)
    behind   = Neg (number)
    leading  = Slice (x_shape, zero_1, behind)
    keep     = Constant <value_int: int = @keepdims> ()
    kept     = Mul (number, keep)
    singles  = ConstantOfShape <value = int64[1] {1}> (kept)
    y_shape  = Concat <axis = 0> (leading, singles)
    acc      = Reshape (sums, y_shape)
"""

_SCALE = """
    # acc * multiplier / (cells * 2**shift), rounded: whole part, rest, and the sign
    one       = Constant <value = int64 {{1}}> ()
    mean      = Constant <value_int: int = @mean> ()
    is_mean   = Equal (mean, one)
    some      = Max (count, one)
    cells     = Where (is_mean, some, one)
    one_bit   = Cast <to = 13> (one)                                       # 13 is UINT64
    bits      = Cast <to = 13> (shift)
    step_bit  = BitShift <direction = "LEFT"> (one_bit, bits)
    step      = Cast <to = 7> (step_bit)                                   # 7 is INT64
    divisor   = Mul (cells, step)
    wide_acc  = Cast <to = 7> (acc)
    m         = Cast <to = 7> (multiplier)
    scaled    = Mul (wide_acc, m)
    size      = Abs (scaled)
    whole     = Div (size, divisor)
    back      = Mul (whole, divisor)
    left      = Sub (size, back)
    twice     = Add (left, left)
    more      = Greater (twice, divisor)
    tie       = Equal (twice, divisor)
    {tie}
    goes_up   = Or (more, tie_up)
    up        = Cast <to = 7> (goes_up)
    rounded   = Add (whole, up)
    # not Sign, which onnxruntime 1.31 gets wrong for int64 beyond 32 bits
    none      = Sub (one, one)
    below     = Less (scaled, none)
    negated   = Neg (rounded)
    level     = Where (below, negated, rounded)
"""

_DOUBLE = """
    axes     = Constant <value_ints: ints = @axes> ()
    wide     = Cast <to = 11> (x)                                          # 11 is DOUBLE
    total    = ReduceSum <keepdims: int = @keepdims> (wide, axes)
    x_shape  = Shape (x)
    extents  = Gather <axis = 0> (x_shape, axes)
    number   = ReduceProd <keepdims = 0> (extents)
    count    = Cast <to = 11> (number)
    origin   = Cast <to = 11> (x_zero)
    offset   = Mul (count, origin)
    acc      = Sub (total, offset)
    m        = Cast <to = 11> (multiplier)
    scaled   = Mul (acc, m)
    unit     = Constant <value = uint64 {{1}}> ()
    bits     = Cast <to = 13> (shift)                                      # 13 is UINT64
    step_bit = BitShift <direction = "LEFT"> (unit, bits)
    step     = Cast <to = 11> (step_bit)
    {divisor}
    quotient = Div (scaled, divisor)
    level    = Round (quotient)
    zero     = Cast <to = 11> (y_zero)
    low      = Cast <to = 11> (y_min)
    high     = Cast <to = 11> (y_max)
    stored   = Add (level, zero)
    clamped  = Clip (stored, low, high)
    y        = CastLike (clamped, y_zero)
"""

_DIVISORS = (
    "divisor  = Identity (step)",
    """one      = Constant <value = double {1}> ()
    some     = Max (count, one)
    divisor  = Mul (some, step)""",
)
"""For a sum and for a mean."""

DOUBLE_MULTIPLIER = 1 << 22
DOUBLE_SHIFTS = 42, 20
"""Of a sum and of a mean: up to there arithmetic in double precision is exact.

The sum fits int32, so sum * multiplier is below 2**53, and the divisor, a mean having up to
2**23 cells of 8 bits, is at most D = 2**43. A quotient that is no tie is 1 / (2 * D) or more
away from one; below 2**9, where the clamp leaves it alone, its rounding error is at most
2**-45. So Round, which takes ties to even, gives what the integers give.
"""


def _is_exact_in_double(constants: Constants, attributes: Attributes) -> bool:
    shift = int(constants["shift"])
    within = shift <= DOUBLE_SHIFTS[attributes["mean"]]
    return within and int(constants["multiplier"]) < DOUBLE_MULTIPLIER


def _mean_is(mean: int) -> Guard:
    return lambda _constants, attributes: attributes["mean"] == mean


_TIES: dict[Rounding, str] = {
    "half_to_even": """two       = Add (one, one)
    half      = Div (whole, two)
    even      = Mul (half, two)
    odd       = Greater (whole, even)
    tie_up    = And (tie, odd)""",
    "half_up": """minus_one = Neg (one)
    positive  = Greater (scaled, minus_one)
    tie_up    = And (tie, positive)""",
    "half_away": "tie_up    = And (tie, tie)",
}


def _reduces_the_last(_constants: Constants, attributes: Attributes) -> bool:
    """Whether the axes, counted from the end, are the last ones."""
    axes = sorted(attributes["axes"])
    return axes == list(range(-len(axes), 0))


def _bodies() -> Sequence[Body]:
    accepted = rounds("half_to_even"), _is_exact_in_double
    found = [
        Body(
            f"onnxruntime_{name}",
            "onnxruntime",
            _DOUBLE.format(divisor=_DIVISORS[mean]),
            accepts=all_of(*accepted, _mean_is(mean)),
        )
        for mean, name in enumerate(("sum", "mean"))
    ]
    for rounding in ROUNDINGS:
        name = portable_overload(rounding)
        after = _SCALE.format(tie=_TIES[rounding]) + STORE
        found += [
            Body(
                name.replace("portable", "onnxruntime"),
                "onnxruntime",
                _AXES + _MATRIX_SUM + after,
                accepts=all_of(rounds(rounding), _reduces_the_last),
            ),
            Body(name, "portable", _AXES + _SUM + after, accepts=rounds(rounding)),
        ]
    return found


def reference(
    x: NDArray[Any],
    x_zero: NDArray[Any],
    multiplier: NDArray[np.int32],
    shift: NDArray[np.int32],
    y_zero: NDArray[Any],
    y_min: NDArray[Any],
    y_max: NDArray[Any],
    *,
    axes: Sequence[int],
    keepdims: int,
    mean: int,
    rounding: Rounding,
) -> NDArray[Any]:
    """Stored x, any shape; ``axes`` are negative. One multiplier and one shift."""
    level = np.asarray(x).astype(np.int64) - x_zero
    acc = level.sum(axis=tuple(axes), keepdims=bool(keepdims))
    cells = max(prod(np.shape(x)[axis] for axis in axes), 1) if mean else 1
    rounded = rounding_divide(acc * int(multiplier), cells << int(shift), rounding)
    return saturate(rounded, y_zero, y_min, y_max).astype(y_zero.dtype)


def _order_is_irrelevant(
    x: NDArray[Any], *args: Any, axes: Sequence[int], **attributes: Any
) -> None:
    turned = np.ascontiguousarray(np.flip(x, axis=tuple(axes)))
    np.testing.assert_array_equal(
        reference(x, *args, axes=axes, **attributes),
        reference(turned, *args, axes=axes, **attributes),
    )


INT_REDUCE = Op(
    name="IntReduce",
    inputs={
        "x": "T",
        "x_zero": "T",
        "multiplier": "int32",
        "shift": "int32",
        "y_zero": "T",
        "y_min": "T",
        "y_max": "T",
    },
    outputs={"y": "T"},
    attributes=("axes", "keepdims", "mean", "rounding"),
    reference=reference,
    bodies=_bodies(),
    evidence="exhaustive",
    laws={"the order along the axes is irrelevant": _order_is_irrelevant},
    doc="acc = sum over `axes` (counted from the end) of (x - x_zero); cells = their sizes "
    "multiplied if `mean` is 1, else 1; y = clamp(round(acc * multiplier / (cells * 2**shift))"
    " + y_zero, y_min, y_max).",
)
