"""IntLayerNorm: a row less its mean, by its standard deviation, on stored integers."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from math import isqrt, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.attribute_kinds import ONCE, SWITCH, Axis, Integer
from opsets.declaration import (
    Constant,
    Constraint,
    Data,
    Scaling,
    Shape,
    Shift,
    ends,
    keeps_shape,
)
from opsets.double import STORE_DOUBLE, overload, rounded_double
from opsets.fixed_point import (
    LARGEST_SHIFT,
    ROUNDINGS,
    Int64,
    Rounding,
    rounding_shift,
    saturate,
)
from opsets.fragments import Fragment, fragment
from opsets.op import Attributes, Body, Constants, Op, all_of, reads_words
from opsets.portable import bodies_of_one_rounding, rescaled, rounds

LARGEST_DOUBLE = 1 << 52
"""Below it doubles hold every integer, and its half."""

LARGEST_RADICAND = 1 << 62
"""What int64 takes the root of; of larger ones an even number of bits is left out."""

LARGEST_IN_HALVES = 1 << 94
"""Below it the halves of a radicand fit int64: its last 32 bits, and those above."""

LARGEST_RAISE = 15
"""Root bits up to which 32 bits of a variance, raised, leave room for an epsilon."""

LONGEST_ROW = 1 << 28
"""Of so many words the halves of both squares fit int64."""

LARGEST_PRODUCT = 1 << 61
"""So far int64 is rounded."""

_AXES = fragment("""
axes <axis, cells, centered, root_bits, factor_bits, norm_bits> ()
    => (axes, none, one, one_in, cells, centered, twice, twice_in, all_bits, dividend,
        drop_bits) {
    axis_0    = Constant <value_int: int = @axis> ()
    first     = Constant <value_int: int = @axis> ()
    none      = Constant <value = int64 {0}> ()
    one       = Constant <value = int64 {1}> ()
    axes      = Range (first, none, one)
    cells     = Constant <value_int: int = @cells> ()
    centered  = Constant <value_int: int = @centered> ()
    root_bits = Constant <value_int: int = @root_bits> ()
    all_bits  = Constant <value_int: int = @factor_bits> ()
    n_bits    = Constant <value_int: int = @norm_bits> ()
    twice     = Add (root_bits, root_bits)
    twice_in  = Cast <to = 13> (twice)                                     # 13 is UINT64
    all_in    = Cast <to = 13> (all_bits)
    one_in    = Cast <to = 13> (one)
    factor_in = BitShift <direction = "LEFT"> (one_in, all_in)
    dividend  = Cast <to = 7> (factor_in)                                  # 7 is INT64
    above     = Sub (all_bits, root_bits)
    drop_bits = Sub (above, n_bits)
}
""")

_SUM = fragment("""
sum <dtype> (x, x_zero, cells, centered, one, axes) => (code, many, is_mean, sum) {
    # less its mean a row is the same with and without the zero point: 0 then, no kernel
    wide      = Cast <to = @dtype> (x)
    zero_x    = Cast <to = @dtype> (x_zero)
    many      = Cast <to = @dtype> (cells)
    is_mean   = Cast <to = @dtype> (centered)
    unit_x    = Cast <to = @dtype> (one)
    has_zero  = Sub (unit_x, is_mean)
    origin    = Mul (zero_x, has_zero)
    code      = Sub (wide, origin)
    sum       = ReduceSum (code, axes)
}
""")

_SQUARES = fragment("""
squares (code, axes) => (squares) {
    square    = Mul (code, code)
    squares   = ReduceSum (square, axes)
}
""")

_SQUARES_AT_ONCE = fragment("""
squares_at_once (code, axes) => (squares) {
    squares   = ReduceSumSquare (code, axes)
}
""")

_VARIANCE = fragment("""
variance (code, many, is_mean, sum, squares) => (variance, distance) {
    total     = Mul (sum, is_mean)
    spread    = Mul (squares, many)
    of_total  = Mul (total, total)
    variance  = Sub (spread, of_total)
    scaled_x  = Mul (code, many)
    distance  = Sub (scaled_x, total)
}
""")

_RADICAND = fragment("""
radicand (variance, twice_in, epsilon) => (radicand) {
    # the variance is cells**2 times that of the codes, with as many fraction bits as fit
    whole     = Cast <to = 7> (variance)
    whole_in  = Cast <to = 13> (whole)
    raised_in = BitShift <direction = "LEFT"> (whole_in, twice_in)
    raised_v  = Cast <to = 7> (raised_in)
    radicand  = Add (raised_v, epsilon)
}
""")


def _length(value: str) -> str:
    """Statements that count the bits of ``value``, less 1 or 2: ``length_0``, always even."""
    text = f"""
    rest_5    = Add ({value}, none)
    length_5  = Sub ({value}, {value})
    """
    for stage in reversed(range(5)):  # 32, 16, 8, 4 and 2 bits
        text += f"""
    bits_{stage}    = Constant <value = int64 {{{2 << stage}}}> ()
    bits_in_{stage} = Cast <to = 13> (bits_{stage})
    rest_in_{stage} = Cast <to = 13> (rest_{stage + 1})
    high_in_{stage} = BitShift <direction = "RIGHT"> (rest_in_{stage}, bits_in_{stage})
    high_{stage}    = Cast <to = 7> (high_in_{stage})
    is_high_{stage} = Greater (high_{stage}, none)
    rest_{stage}    = Where (is_high_{stage}, high_{stage}, rest_{stage + 1})
    longer_{stage}  = Add (length_{stage + 1}, bits_{stage})
    length_{stage}  = Where (is_high_{stage}, longer_{stage}, length_{stage + 1})
    """
    return text


_TOTALS = fragment("""
totals (code, many, is_mean, sum, squares) => (distance, whole_t, whole_q) {
    total     = Mul (sum, is_mean)
    scaled_x  = Mul (code, many)
    distance  = Sub (scaled_x, total)
    whole_t   = Cast <to = 7> (total)                                      # 7 is INT64
    whole_q   = Cast <to = 7> (squares)
}
""")

_VARIANCE_IN_HALVES = fragment("""
variance_in_halves (whole_t, whole_q, cells) => (v_high, v_low_in, mask_in, word_in) {
    # high * 2**32 + low: of n * q, less t**2 = u**2 * 2**32 + u * l * 2**17 + l**2
    half_word = Constant <value = int64 {16}> ()
    word      = Constant <value = int64 {32}> ()
    half_mask = Constant <value = int64 {65535}> ()
    mask      = Constant <value = int64 {4294967295}> ()
    doubled   = Constant <value = int64 {131072}> ()
    offset    = Constant <value = int64 {4611686018427387904}> ()          # 2**62
    offset_up = Constant <value = int64 {1073741824}> ()                   # 2**62 >> 32
    half_in   = Cast <to = 13> (half_word)                                 # 13 is UINT64
    word_in   = Cast <to = 13> (word)
    short_in  = Cast <to = 13> (half_mask)
    mask_in   = Cast <to = 13> (mask)
    size      = Abs (whole_t)
    size_in   = Cast <to = 13> (size)
    upper_in  = BitShift <direction = "RIGHT"> (size_in, half_in)
    lower_in  = BitwiseAnd (size_in, short_in)
    upper     = Cast <to = 7> (upper_in)                                   # 7 is INT64
    lower     = Cast <to = 7> (lower_in)
    upper_2   = Mul (upper, upper)
    lower_2   = Mul (lower, lower)
    crossed   = Mul (upper, lower)
    crossed_2 = Mul (crossed, doubled)
    t_low     = Add (crossed_2, lower_2)
    q_in      = Cast <to = 13> (whole_q)
    q_high_in = BitShift <direction = "RIGHT"> (q_in, word_in)
    q_low_in  = BitwiseAnd (q_in, mask_in)
    q_high    = Cast <to = 7> (q_high_in)
    q_low     = Cast <to = 7> (q_low_in)
    n_high    = Mul (q_high, cells)
    n_low     = Mul (q_low, cells)
    high      = Sub (n_high, upper_2)
    low       = Sub (n_low, t_low)
    lifted    = Add (low, offset)
    lifted_in = Cast <to = 13> (lifted)
    carry_in  = BitShift <direction = "RIGHT"> (lifted_in, word_in)
    v_low_in  = BitwiseAnd (lifted_in, mask_in)
    carry_up  = Cast <to = 7> (carry_in)
    carry     = Sub (carry_up, offset_up)
    v_high    = Add (high, carry)
}
""")

_RADICAND_IN_HALVES = fragment("""
radicand_in_halves (v_high, v_low_in, mask_in, word_in, twice_in, epsilon)
    => (high, low_in) {
    high_in   = Cast <to = 13> (v_high)                                    # 13 is UINT64
    up_in     = BitShift <direction = "LEFT"> (high_in, twice_in)
    raised_in = BitShift <direction = "LEFT"> (v_low_in, twice_in)
    up        = Cast <to = 7> (up_in)                                      # 7 is INT64
    raised    = Cast <to = 7> (raised_in)
    low       = Add (raised, epsilon)
    whole_in  = Cast <to = 13> (low)
    over_in   = BitShift <direction = "RIGHT"> (whole_in, word_in)
    low_in    = BitwiseAnd (whole_in, mask_in)
    over      = Cast <to = 7> (over_in)
    high      = Add (up, over)
}
""")

_FIRST_BITS = fragment(f"""
first_bits (high, low_in, none, word_in, drop_bits) => (radicand, drop_row) {{
    # the first 61 or 62 bits: all of those that have 30 or less above the low half
    {_length("high")}
    all_left  = Constant <value = int64 {{28}}> ()
    word      = Cast <to = 7> (word_in)                                    # 7 is INT64
    beyond    = Sub (length_0, all_left)
    is_beyond = Greater (beyond, none)
    left_out  = Where (is_beyond, beyond, none)
    up        = Sub (word, left_out)
    out_in    = Cast <to = 13> (left_out)                                  # 13 is UINT64
    up_in     = Cast <to = 13> (up)
    high_in   = Cast <to = 13> (high)
    above_in  = BitShift <direction = "LEFT"> (high_in, up_in)
    below_in  = BitShift <direction = "RIGHT"> (low_in, out_in)
    above     = Cast <to = 7> (above_in)
    below     = Cast <to = 7> (below_in)
    radicand  = Add (above, below)
    two       = Constant <value = int64 {{2}}> ()
    root_out  = Div (left_out, two)
    drop_row  = Add (drop_bits, root_out)
}}
""")


def _newton() -> Fragment:
    """floor(sqrt(radicand)), at least 1: from a power of two above it down to it.

    The start is at most twice the root, so that its relative error is at most 1, then 1/4,
    1/40, 1/3280, 5e-8, 1e-15: six steps reach the integer, which no step leaves again.
    """
    text = """
newton (radicand, none, one, one_in) => (root) {
    is_some   = Greater (radicand, none)
    positive  = Where (is_some, radicand, one)
    """
    text += _length("positive")
    text += """
    two       = Add (one, one)
    halved    = Div (length_0, two)
    places    = Add (halved, one)
    places_in = Cast <to = 13> (places)
    start_in  = BitShift <direction = "LEFT"> (one_in, places_in)
    root_0    = Cast <to = 7> (start_in)
    """
    roots = [*(f"root_{step}" for step in range(6)), "root"]
    for step, (root, after) in enumerate(pairwise(roots)):
        text += f"""
    quotient_{step} = Div (positive, {root})
    sum_{step}      = Add ({root}, quotient_{step})
    mean_{step}     = Div (sum_{step}, two)
    falls_{step}    = Less (mean_{step}, {root})
    {after} = Where (falls_{step}, mean_{step}, {root})
    """
    return fragment(text + "}")


_SQUARE_ROOT = fragment("""
square_root (radicand, none, one) => (root) {
    # off by one at most: the square says it
    real      = Cast <to = 11> (radicand)                                  # 11 is DOUBLE
    real_root = Sqrt (real)
    near      = Cast <to = 7> (real_root)
    back      = Mul (near, near)
    is_large  = Greater (back, radicand)
    one_less  = Sub (near, one)
    at_most   = Where (is_large, one_less, near)
    one_more  = Add (at_most, one)
    next_one  = Mul (one_more, one_more)
    is_small  = Greater (next_one, radicand)
    found     = Where (is_small, at_most, one_more)
    is_some   = Greater (found, none)
    root      = Where (is_some, found, one)
}
""")

_FACTOR = fragment("""
factor (dividend, root) => (factor) {
    factor    = Div (dividend, root)
}
""")

_PRODUCT = fragment("""
product (distance, factor) => (product) {
    product   = Mul (distance, factor)
}
""")

_SCALED = fragment("""
scaled (normal, multiplier, bias) => (scaled) {
    wide_m    = Cast <to = 7> (multiplier)
    times     = Mul (normal, wide_m)
    scaled    = Add (times, bias)
}
""")


def _normal(drop_bits: str) -> Fragment:
    rounded = rescaled("product", "one", drop_bits, "normal", "half_to_even")
    return _PRODUCT + rounded + _SCALED


_IN_DOUBLE = fragment("""
in_double (drop_bits, shift, multiplier, bias) => (step_n, real_m0, real_off) {
    half_1    = Constant <value = double {0.5}> ()
    drop_real = Cast <to = 11> (drop_bits)                                 # 11 is DOUBLE
    step_n    = Pow (half_1, drop_real)
    shift_1   = Cast <to = 11> (shift)
    step_y    = Pow (half_1, shift_1)
    whole_m   = Cast <to = 11> (multiplier)
    whole_off = Cast <to = 11> (bias)
    real_m0   = Mul (whole_m, step_y)
    real_off  = Mul (whole_off, step_y)
}
""")
"""What onnxruntime folds when it loads: all these factors are powers of two."""

_REAL_FACTOR = fragment("""
real_factor (factor) => (factor_d) {
    factor_d  = Cast <to = 11> (factor)                                    # 11 is DOUBLE
}
""")

_NORMAL_IN_DOUBLE = fragment("""
normal_in_double (distance, factor_d, step_n, real_m0, real_off) => (value) {
    small_f   = Mul (factor_d, step_n)
    product   = Mul (distance, small_f)
    normal    = Round (product)
    times     = Mul (normal, real_m0)
    value     = Add (times, real_off)
}
""")

_ROOT_IN_DOUBLE = fragment("""
root_in_double (variance, twice, epsilon, all_bits) => (factor_d) {
    # below 2**52 the nearest double of a root is on its side of every integer
    unit_root = Constant <value = double {1.0}> ()
    two_root  = Constant <value = double {2.0}> ()
    twice_of  = Cast <to = 11> (twice)
    raises    = Pow (two_root, twice_of)
    real_eps  = Cast <to = 11> (epsilon)
    raised_v  = Mul (variance, raises)
    radicand  = Add (raised_v, real_eps)
    real_root = Sqrt (radicand)
    whole     = Floor (real_root)
    root      = Max (whole, unit_root)
    all_of    = Cast <to = 11> (all_bits)
    dividend_d = Pow (two_root, all_of)
    quotient  = Div (dividend_d, root)
    factor_d  = Floor (quotient)
}
""")


def fits_double(constants: Constants, attributes: Attributes) -> bool:
    """Whether no product or sum in double leaves 52 bits.

    A distance is at most sqrt(cells) times the root of the variance, so that its product with
    the factor is at most sqrt(cells) * 2**(factor_bits - root_bits), twice that where the root
    is 1 for one below 2; the multiple of the result is at most 2**norm_bits of that. Where
    bits are left out the root is 2**30 or more.
    """
    largest = _largest_normal_product(constants, attributes)
    return largest <= LARGEST_DOUBLE and _levels_fit_double(constants, attributes)


def _levels_fit_double(constants: Constants, attributes: Attributes) -> bool:
    largest = int(np.abs(constants["multiplier"].astype(np.int64)).max(initial=0))
    biases = int(np.abs(constants["bias"]).max(initial=0))
    scaled = (_longest(attributes) << attributes["norm_bits"]) * largest + biases
    return bool(scaled <= LARGEST_DOUBLE)


def _longest(attributes: Attributes) -> int:
    """At least twice what a distance is of the root of its variance."""
    return 2 * (isqrt(attributes["cells"] - 1) + 1)


def _largest_normal_product(constants: Constants, attributes: Attributes) -> int:
    """Of a distance and the factor of its row."""
    factor_bits = attributes["factor_bits"]
    largest = _longest(attributes) << factor_bits - attributes["root_bits"]
    if leaves_int64(constants, attributes):
        farthest = attributes["cells"] * _reach(constants, attributes)
        largest = max(largest, farthest << factor_bits >> 30)
    return int(largest)


def root_fits_double(constants: Constants, attributes: Attributes) -> bool:
    """Whether radicands stay below 2**52, and so do quotients with them."""
    largest = _largest_radicand(constants, attributes)
    return bool(largest < LARGEST_DOUBLE) and attributes["factor_bits"] <= 52


def sums_fit_double(constants: Constants, attributes: Attributes) -> bool:
    """Whether the products of sums that the variance is the difference of stay below 2**52."""
    return _largest_product(constants, attributes) < LARGEST_DOUBLE


def squares_fit_double(constants: Constants, attributes: Attributes) -> bool:
    """Whether the squares of a row add up to less than 2**52."""
    largest = _largest_product(constants, attributes)
    return largest < LARGEST_DOUBLE * int(attributes["cells"])


def fits_int64(constants: Constants, attributes: Attributes) -> bool:
    """Whether the variance of no row, with its fraction bits and epsilon, leaves 62 bits."""
    largest = _largest_radicand(constants, attributes)
    return max(largest, _largest_product(constants, attributes)) < LARGEST_RADICAND


def leaves_int64(constants: Constants, attributes: Attributes) -> bool:
    """Whether codes of 16 bits may have variances that leave 62 bits, with their fraction bits
    and epsilons.
    """
    return reads_words(constants, attributes) and not fits_int64(constants, attributes)


def keeps_int64(constants: Constants, attributes: Attributes) -> bool:
    """Whether x has 8 bits or the variance of no row leaves 62."""
    return not leaves_int64(constants, attributes)


def fits_halves(constants: Constants, attributes: Attributes) -> bool:
    """Whether halves of a radicand fit int64, as do shifts of products with its root."""
    root_bits, cells = attributes["root_bits"], attributes["cells"]
    shift = attributes["factor_bits"] - root_bits - attributes["norm_bits"]
    return bool(
        cells <= LONGEST_ROW
        and root_bits <= LARGEST_RAISE
        and shift + 16 <= LARGEST_SHIFT
        and _largest_radicand(constants, attributes) < LARGEST_IN_HALVES
    )


def fits(constants: Constants, attributes: Attributes) -> bool:
    """Whether the arithmetic of a body holds every row."""
    is_long = leaves_int64(constants, attributes)
    is_held = (fits_halves if is_long else fits_int64)(constants, attributes)
    return (
        is_held
        and _largest_normal_product(constants, attributes) <= LARGEST_PRODUCT
        and _levels_fit_double(constants, attributes)
    )


def _largest_product(constants: Constants, attributes: Attributes) -> int:
    limits, zero = np.iinfo(constants["x_zero"].dtype), int(constants["x_zero"])
    zero = 0 if attributes["centered"] else zero
    return int((attributes["cells"] * max(limits.max - zero, zero - limits.min)) ** 2)


def _largest_radicand(constants: Constants, attributes: Attributes) -> int:
    reach = attributes["cells"] * _reach(constants, attributes)
    largest = reach**2 // 4 + 1 << 2 * attributes["root_bits"]
    return int(largest + int(constants["epsilon"].max(initial=0)))


def _reach(constants: Constants, attributes: Attributes) -> int:
    """From one end of the codes to the other; with the mean as if both were as far."""
    limits, zero = np.iinfo(constants["x_zero"].dtype), int(constants["x_zero"])
    if attributes["centered"]:
        return int(limits.max - limits.min)
    return int(2 * max(limits.max - zero, zero - limits.min))


def _in_double(rounding: Rounding) -> Sequence[Body]:
    """All in double where the radicand fits it; else its root is made right in int64."""
    variance = _SUM.having(dtype=11) + _SQUARES_AT_ONCE + _VARIANCE  # 11 is DOUBLE
    before = _AXES + variance + _IN_DOUBLE
    behind = _NORMAL_IN_DOUBLE + rounded_double("value", "level", rounding) + STORE_DOUBLE
    exact = _RADICAND + _SQUARE_ROOT + _FACTOR + _REAL_FACTOR
    accepted = all_of(rounds(rounding), fits_double, sums_fit_double)
    sums = _SUM.having(dtype=11) + _SQUARES_AT_ONCE + _TOTALS
    root = _IN_HALVES + _SQUARE_ROOT + _FACTOR + _REAL_FACTOR
    by_row = _IN_DOUBLE(drop_bits="drop_row")
    return [
        Body(
            overload(rounding),
            "onnxruntime",
            before + _ROOT_IN_DOUBLE + behind,
            accepts=all_of(accepted, root_fits_double),
        ),
        Body(
            overload(rounding, "double_root"),
            "onnxruntime",
            before + exact + behind,
            accepts=all_of(accepted, keeps_int64),
        ),
        Body(
            overload(rounding, "double_in_halves"),
            "onnxruntime",
            _AXES + sums + root + by_row + behind,
            accepts=all_of(
                *(rounds(rounding), leaves_int64, fits_halves),
                *(fits_double, squares_fit_double),
            ),
        ),
    ]


_IN_HALVES = _VARIANCE_IN_HALVES + _RADICAND_IN_HALVES + _FIRST_BITS

_SUMS = _AXES + _SUM.having(dtype=7) + _SQUARES  # 7 is INT64

_PORTABLE = _SUMS + _VARIANCE + _RADICAND + _newton() + _FACTOR + _normal("drop_bits")

_PORTABLE_IN_HALVES = _SUMS + _TOTALS + _IN_HALVES + _newton() + _FACTOR + _normal("drop_row")


def _portable() -> Iterator[Body]:
    for body in bodies_of_one_rounding(_PORTABLE, "shift"):
        yield replace(body, accepts=all_of(body.accepts, keeps_int64))
    for body in bodies_of_one_rounding(_PORTABLE_IN_HALVES, "shift"):
        name = body.overload.replace("portable", "portable_in_halves")
        yield replace(body, overload=name, accepts=all_of(body.accepts, leaves_int64))


def reference(
    x: NDArray[Any],
    x_zero: NDArray[Any],
    multiplier: NDArray[np.int32],
    bias: Int64,
    shift: NDArray[np.int32],
    epsilon: Int64,
    y_zero: NDArray[Any],
    y_min: NDArray[Any],
    y_max: NDArray[Any],
    *,
    axis: int,
    cells: int,
    centered: int,
    root_bits: int,
    factor_bits: int,
    norm_bits: int,
    rounding: Rounding,
) -> NDArray[Any]:
    """Stored x, any shape; a row is what lies along ``axis`` (negative) and all behind it.

    It has ``cells`` codes. ``multiplier`` and ``bias`` broadcast to x, ``epsilon`` to rows;
    ``shift`` is a number.
    """
    axes = tuple(range(axis, 0))
    code = np.asarray(x).astype(np.int64) - x_zero
    total = code.sum(axis=axes, keepdims=True) * centered
    squares = (code * code).sum(axis=axes, keepdims=True)
    factors, left_out = [], []
    for t, q, e in np.nditer([total, squares, epsilon], ["zerosize_ok"], order="C"):
        radicand = (cells * int(q) - int(t) ** 2 << root_bits * 2) + int(e)
        left_out.append(max(radicand.bit_length() - 61, 0) // 2)
        factors.append((1 << factor_bits) // max(isqrt(radicand >> 2 * left_out[-1]), 1))
    factor, more = (np.array(n, np.int64).reshape(total.shape) for n in (factors, left_out))
    drop_bits = factor_bits - root_bits - norm_bits + more
    product = (cells * code - total) * factor
    normal = rounding_shift(product, drop_bits, "half_to_even")
    level = rounding_shift(normal * multiplier.astype(np.int64) + bias, shift, rounding)
    return saturate(level, y_zero, y_min, y_max).astype(y_zero.dtype)


def _a_constant_changes_nothing(
    x: NDArray[Any], x_zero: NDArray[Any], *args: Any, **attributes: Any
) -> None:
    attributes["centered"] = 1
    other = np.asarray(int(x_zero) ^ 1, x_zero.dtype)
    np.testing.assert_array_equal(
        reference(x, x_zero, *args, **attributes), reference(x, other, *args, **attributes)
    )


def _a_constant_row_gives_the_bias(
    x: NDArray[Any], x_zero: NDArray[Any], *args: Any, **attributes: Any
) -> None:
    attributes["centered"] = 1
    _multiplier, bias, shift, _epsilon, *ends = args
    still = np.full_like(x, x.flat[0] if x.size else x_zero)
    level = rounding_shift(bias, shift, attributes["rounding"])
    expected = np.broadcast_to(saturate(level, *ends), x.shape)
    np.testing.assert_array_equal(reference(still, x_zero, *args, **attributes), expected)


def _factors_are_of_rows(constants: Constants, attributes: Attributes, shape: Shape) -> bool:
    """One factor for each place of a row, or one for several; rows of x have ``cells``."""
    multiplier, axis, cells = constants["multiplier"], attributes["axis"], attributes["cells"]
    if multiplier.ndim < -axis or multiplier.size == 0:
        return False
    places = multiplier.shape[axis:]
    if cells % prod(places) or (1 not in places and prod(places) != cells):
        return False
    known = [] if shape is None else [size for size in shape[axis:] if isinstance(size, int)]
    is_row = len(known) < -axis or prod(known) == cells
    return is_row and (shape is None or keeps_shape(shape, multiplier))


def _factors_have_offsets(
    constants: Constants, _attributes: Attributes, _shape: Shape
) -> bool:
    return constants["bias"].shape == constants["multiplier"].shape


def _epsilons_are_of_rows(constants: Constants, attributes: Attributes, _shape: Shape) -> bool:
    """One for all rows, or one for each of those that have factors of their own."""
    epsilon, axis = constants["epsilon"], attributes["axis"]
    places = constants["multiplier"].shape
    return epsilon.shape in ((), (*places[:axis], *[1] * -axis))


def _bits_are_left(_constants: Constants, attributes: Attributes, _shape: Shape) -> bool:
    root, factor, norm = (attributes[f"{name}_bits"] for name in ("root", "factor", "norm"))
    return bool(norm < factor - root)


INT_LAYER_NORM = Op(
    name="IntLayerNorm",
    inputs={
        "x": Data("S"),
        "x_zero": Constant("S"),
        "multiplier": Constant("int32", (...,)),
        "bias": Constant("int64", (...,)),
        "shift": Shift(),
        "epsilon": Constant("int64", (...,), limits=range(1 << 62)),
        **ends("Y"),
    },
    outputs={"y": Data("Y")},
    attributes={
        "axis": Axis(),
        "cells": Integer(1),
        "centered": SWITCH,
        "root_bits": Integer(0, 31),
        "factor_bits": Integer(0, 62),
        "norm_bits": Integer(1),
        "rounding": ONCE,
    },
    reference=reference,
    bodies=[
        *(body for rounding in ROUNDINGS for body in _in_double(rounding)),
        *_portable(),
    ],
    evidence="bounded",
    scaling=Scaling.NORM,
    constraints=[
        Constraint("factors broadcast to x and to rows of `cells`", _factors_are_of_rows),
        Constraint("bias has the shape of multiplier", _factors_have_offsets),
        Constraint("epsilon is one number, or one for each row of it", _epsilons_are_of_rows),
        Constraint("norm_bits < factor_bits - root_bits", _bits_are_left),
    ],
    laws={
        "a constant added to all codes changes nothing": _a_constant_changes_nothing,
        "a constant row gives the bias": _a_constant_row_gives_the_bias,
    },
    formula="Over each row of n = `cells` codes, along `axis` and all behind it: d = n * (x - "
    "x_zero) - t, v = n * sum of (x - x_zero)**2 - t**2, t = sum of (x - x_zero) if "
    "`centered`, else 0; root = floor(sqrt(v * 4**root_bits + epsilon)), at least 1; normal "
    "= round(d * floor(2**factor_bits / root) / 2**(factor_bits - root_bits - norm_bits)), "
    "half to even; y = clamp(round((normal * multiplier + bias) / 2**shift) + y_zero, y_min, "
    "y_max). Of LayerNormalization, InstanceNormalization and, not centered, "
    "RMSNormalization.",
    note="Where v * 4**root_bits + epsilon has more than 62 bits, as of long rows of 16 bits, "
    "it is floored to a 4**k-th part of itself, k being the least with which it has no more; "
    "the product with its root is then divided by 2**k more.",
)
