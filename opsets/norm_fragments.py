"""What bodies of IntLayerNorm are made of, in int64, in halves and in double."""

from itertools import pairwise

from opsets.fragments import Fragment, fragment
from opsets.portable import rescaled

AXES = fragment("""
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

SUM = fragment("""
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

SQUARES = fragment("""
squares (code, axes) => (squares) {
    square    = Mul (code, code)
    squares   = ReduceSum (square, axes)
}
""")

SQUARES_AT_ONCE = fragment("""
squares_at_once (code, axes) => (squares) {
    squares   = ReduceSumSquare (code, axes)
}
""")

VARIANCE = fragment("""
variance (code, many, is_mean, sum, squares) => (variance, distance) {
    total     = Mul (sum, is_mean)
    spread    = Mul (squares, many)
    of_total  = Mul (total, total)
    variance  = Sub (spread, of_total)
    scaled_x  = Mul (code, many)
    distance  = Sub (scaled_x, total)
}
""")

RADICAND = fragment("""
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


TOTALS = fragment("""
totals (code, many, is_mean, sum, squares) => (distance, whole_t, whole_q) {
    total     = Mul (sum, is_mean)
    scaled_x  = Mul (code, many)
    distance  = Sub (scaled_x, total)
    whole_t   = Cast <to = 7> (total)                                      # 7 is INT64
    whole_q   = Cast <to = 7> (squares)
}
""")

VARIANCE_IN_HALVES = fragment("""
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

RADICAND_IN_HALVES = fragment("""
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

FIRST_BITS = fragment(f"""
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


def newton() -> Fragment:
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


SQUARE_ROOT = fragment("""
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

FACTOR = fragment("""
factor (dividend, root) => (factor) {
    factor    = Div (dividend, root)
}
""")

PRODUCT = fragment("""
product (distance, factor) => (product) {
    product   = Mul (distance, factor)
}
""")

SCALED = fragment("""
scaled (normal, multiplier, bias) => (scaled) {
    wide_m    = Cast <to = 7> (multiplier)
    times     = Mul (normal, wide_m)
    scaled    = Add (times, bias)
}
""")


def normal(drop_bits: str) -> Fragment:
    """A distance times the factor of its row, and of that the result, less ``drop_bits``."""
    rounded = rescaled("product", "one", drop_bits, "normal", "half_to_even")
    return PRODUCT + rounded + SCALED


IN_DOUBLE = fragment("""
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

REAL_FACTOR = fragment("""
real_factor (factor) => (factor_d) {
    factor_d  = Cast <to = 11> (factor)                                    # 11 is DOUBLE
}
""")

NORMAL_IN_DOUBLE = fragment("""
normal_in_double (distance, factor_d, step_n, real_m0, real_off) => (value) {
    small_f   = Mul (factor_d, step_n)
    product   = Mul (distance, small_f)
    normal    = Round (product)
    times     = Mul (normal, real_m0)
    value     = Add (times, real_off)
}
""")

ROOT_IN_DOUBLE = fragment("""
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
