"""IntLogSoftmax: LogSoftmax along one axis by a table, a sum and an integer logarithm."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.attribute_kinds import ONCE, Axis, Integer
from opsets.declaration import Constant, Data, Scaling, ends
from opsets.double import STORE_DOUBLE
from opsets.fixed_point import Int64, Rounding, rounding_shift, saturate
from opsets.fragments import Fragment, fragment
from opsets.op import Attributes, Body, Constants, Op, all_of
from opsets.portable import bodies_of_one_rounding, rounds

OCTAVES = 41
"""So many powers of two are looked for: sums end below 2**41, 1024 rows of 31 bits."""

PIECES = 256
"""Of the logarithm between a power of two and the next, each a straight line."""

LARGEST_ENTRY = 1 << 50
"""Of what distances and logarithms are looked up as: no sum in double leaves 53 bits."""

LARGEST_RISE = 1 << 32
"""Of a logarithm within one piece: its product with 20 bits stays within 52."""

_DISTANCE = fragment("""
distance <axis, dtype> (x, denominators, distances)
    => (size_1, axes, rest_1, distance, entries, far) {
    axis_0    = Constant <value_int: int = @axis> ()
    size_1    = Constant <value = int64[1] {1}> ()
    axes      = Reshape (axis_0, size_1)
    code      = Cast <to = 6> (x)                                          # 6 is INT32
    top       = ReduceMax (code, axes)
    distance  = Sub (top, code)
    rest_1    = Constant <value = int64[1] {-1}> ()
    entries   = Cast <to = @dtype> (denominators)
    far       = Cast <to = @dtype> (distances)
}
""")

_SUM = fragment("""
sum <dtype> (terms, axes, size_1, rest_1) => (one_0, octave, mantissa, part, fine) {
    sum       = ReduceSum (terms, axes)
    one_0     = Constant <value = int64 {1}> ()
    one       = Cast <to = @dtype> (one_0)
    end_0     = Constant <value = int64 {2199023255551}> ()                # 2**41 - 1
    end       = Cast <to = @dtype> (end_0)
    is_none   = Less (sum, one)
    some      = Where (is_none, one, sum)
    is_over   = Greater (some, end)
    total     = Where (is_over, end, some)
    # how many powers of two there are up to the sum
    from_0    = Constant <value = int64 {0}> ()
    count     = Constant <value = int64 {41}> ()
    places    = Range (from_0, count, one_0)
    places_in = Cast <to = 13> (places)                                    # 13 is UINT64
    one_in    = Cast <to = 13> (one_0)
    powers_in = BitShift <direction = "LEFT"> (one_in, places_in)
    powers_0  = Cast <to = 7> (powers_in)                                  # 7 is INT64
    powers    = Cast <to = @dtype> (powers_0)
    rows      = Shape (total)
    columns   = Concat <axis = 0> (rows, size_1)
    column    = Reshape <allowzero = 1> (total, columns)
    is_above  = Less (column, powers)
    above_0   = Cast <to = 7> (is_above)
    above     = ReduceSum <keepdims = 0> (above_0, rest_1)
    most      = Sub (count, one_0)
    octave    = Sub (most, above)
    # the sum with its first bit at 2**40: eight more look up, twenty draw a line
    lift      = Gather <axis = 0> (powers, above)
    mantissa  = Mul (total, lift)
    part_0    = Constant <value = int64 {4294967296}> ()                   # 2**32
    part      = Cast <to = @dtype> (part_0)
    fine_0    = Constant <value = int64 {4096}> ()                         # 2**12
    fine      = Cast <to = @dtype> (fine_0)
}
""")

_PLACES = fragment("""
places (mantissa, part, fine) => (head, remains) {
    head      = Div (mantissa, part)
    body_part = Mul (head, part)
    tail      = Sub (mantissa, body_part)
    remains   = Div (tail, fine)
}
""")

_PLACES_IN_DOUBLE = fragment("""
places_in_double (mantissa, part, fine) => (head, remains) {
    head_0    = Div (mantissa, part)
    head      = Floor (head_0)
    body_part = Mul (head, part)
    tail      = Sub (mantissa, body_part)
    remains_0 = Div (tail, fine)
    remains   = Floor (remains_0)
}
""")

_LOGARITHM = fragment("""
logarithm <dtype> (head, one_0, octave, remains, logarithms, octaves)
    => (low_log, whole_log, risen, unit_20) {
    head_int  = Cast <to = 7> (head)
    pieces    = Constant <value = int64 {256}> ()
    place     = Sub (head_int, pieces)
    place_2   = Add (place, one_0)
    wide_logs = Cast <to = @dtype> (logarithms)
    wide_octs = Cast <to = @dtype> (octaves)
    low_log   = Gather <axis = 0> (wide_logs, place)
    high_log  = Gather <axis = 0> (wide_logs, place_2)
    whole_log = Gather <axis = 0> (wide_octs, octave)
    rise      = Sub (high_log, low_log)
    risen     = Mul (rise, remains)
    unit_0    = Constant <value = int64 {1048576}> ()                      # 2**20
    unit_20   = Cast <to = @dtype> (unit_0)
}
""")

_SCALED = fragment("""
scaled <fraction_bits> (whole_log, low_log, on_line, depths) => (scaled, bits_0) {
    log_0     = Add (whole_log, low_log)
    logarithm = Add (log_0, on_line)
    total_log = Add (depths, logarithm)
    scaled    = Neg (total_log)
    bits_0    = Constant <value_int: int = @fraction_bits> ()
}
""")

_LOOK_UP = fragment("""
look_up (distance, entries, far) => (terms, depths) {
    terms     = Gather <axis = 0> (entries, distance)
    depths    = Gather <axis = 0> (far, distance)
}
""")

_LOOK_UP_FLAT = fragment("""
look_up_flat (x, distance, rest_1, entries, far) => (terms, depths) {
    # on a flat tensor GatherElements is several times as fast as Gather
    flat      = Reshape (distance, rest_1)
    shape     = Shape (x)
    flat_term = GatherElements <axis = 0> (entries, flat)
    flat_far  = GatherElements <axis = 0> (far, flat)
    terms     = Reshape <allowzero = 1> (flat_term, shape)
    depths    = Reshape <allowzero = 1> (flat_far, shape)
}
""")

_ON_LINE = fragment("""
on_line (risen, unit_20) => (on_line) {
    on_line   = Div (risen, unit_20)
}
""")

_ON_LINE_IN_DOUBLE = fragment("""
on_line_in_double (risen, unit_20) => (on_line) {
    on_line_0 = Div (risen, unit_20)
    on_line   = Floor (on_line_0)
}
""")


def _in_numbers_of(
    dtype: int, look_up: Fragment, places: Fragment, on_line: Fragment
) -> Fragment:
    """The statements that write ``scaled`` and ``bits_0``, in numbers of ``dtype``."""
    logarithm = _DISTANCE + look_up + _SUM + places + _LOGARITHM + on_line + _SCALED
    return logarithm.having(dtype=dtype).only("scaled", "bits_0")


_INT64 = _in_numbers_of(7, _LOOK_UP, _PLACES, _ON_LINE)

_SMALL = fragment("""
small (scaled, bits_0) => (small, half) {
    half      = Constant <value = double {0.5}> ()
    real_bits = Cast <to = 11> (bits_0)                                    # 11 is DOUBLE
    step      = Pow (half, real_bits)
    small     = Mul (scaled, step)
}
""")

_DOUBLE = _in_numbers_of(11, _LOOK_UP_FLAT, _PLACES_IN_DOUBLE, _ON_LINE_IN_DOUBLE) + _SMALL

_ROUNDED: dict[Rounding, Fragment] = {
    "half_to_even": fragment("""
round (small) => (level) {
    level     = Round (small)
}
"""),
    "half_up": fragment("""
round_up (small, half) => (level) {
    lifted    = Add (small, half)
    level     = Floor (lifted)
}
"""),
    "half_away": fragment("""
round_away (small, half) => (level) {
    size      = Abs (small)
    lifted    = Add (size, half)
    length    = Floor (lifted)
    sign      = Sign (small)
    level     = Mul (length, sign)
}
"""),
}


def fits(constants: Constants, attributes: Attributes) -> bool:
    """Whether no step leaves 52 bits: what doubles hold, with a half, and int64 by far.

    Sums of up to 2**21 entries of int32 do; the logarithm rises, by less than 2**32 a piece.
    """
    distances, octaves, logarithms = (
        constants[name] for name in ("distances", "octaves", "logarithms")
    )
    rises = np.diff(logarithms)
    return bool(
        int(constants["denominators"].min()) >= 0
        and 0 <= int(distances.min()) <= int(distances.max()) <= LARGEST_ENTRY
        and -LARGEST_ENTRY <= int(octaves.min()) <= int(octaves.max()) <= LARGEST_ENTRY
        and 0 <= int(logarithms.min()) <= int(logarithms.max()) <= LARGEST_ENTRY
        and 0 <= int(rises.min()) <= int(rises.max()) < LARGEST_RISE
        and 0 < attributes["fraction_bits"] < 32
    )


def reference(
    x: NDArray[Any],
    denominators: NDArray[np.int32],
    distances: NDArray[np.int64],
    octaves: NDArray[np.int64],
    logarithms: NDArray[np.int64],
    y_zero: NDArray[Any],
    y_min: NDArray[Any],
    y_max: NDArray[Any],
    *,
    axis: int,
    fraction_bits: int,
    rounding: Rounding,
) -> NDArray[Any]:
    """Stored x, any shape; tables by how far a code lies below the largest of its row.

    ``octaves`` [41] and ``logarithms`` [257] rise: those of powers of two, and of 1 to 2 in
    steps of 1/256.
    """
    code = np.asarray(x).astype(np.int64)
    distance = code.max(axis=axis, keepdims=True) - code
    total = denominators.astype(np.int64)[distance].sum(axis=axis, keepdims=True)
    depth = distances[distance] + _logarithm(total, octaves, logarithms)
    level = rounding_shift(-depth, np.int64(fraction_bits), rounding)
    return saturate(level, y_zero, y_min, y_max).astype(y_zero.dtype)


def _logarithm(total: Int64, octaves: Int64, logarithms: Int64) -> Int64:
    """Of sums, at least 1 and below 2**41, from the first bit, eight more, and twenty more."""
    kept = np.clip(total, 1, (1 << OCTAVES) - 1)
    octave = (kept[..., None] >= 1 << np.arange(OCTAVES)).sum(axis=-1) - 1
    mantissa = kept << OCTAVES - 1 - octave
    place, rest = (mantissa >> 32) - PIECES, mantissa >> 12 & (1 << 20) - 1
    rise = logarithms[place + 1] - logarithms[place]
    return np.asarray(octaves[octave] + logarithms[place] + (rise * rest >> 20))


def _order_stays(x: NDArray[Any], *args: Any, axis: int, **attributes: Any) -> None:
    turned = np.ascontiguousarray(np.flip(x, axis=axis))
    np.testing.assert_array_equal(
        np.flip(reference(x, *args, axis=axis, **attributes), axis=axis),
        reference(turned, *args, axis=axis, **attributes),
    )


def _a_constant_changes_nothing(x: NDArray[Any], *args: Any, **attributes: Any) -> None:
    """As far as the sum is a code, row by row."""
    limits, axis = np.iinfo(x.dtype), attributes["axis"]
    room = limits.max - x.max(axis=axis, keepdims=True, initial=limits.min).astype(np.int64)
    np.testing.assert_array_equal(
        reference(x, *args, **attributes),
        reference((x + room).astype(x.dtype), *args, **attributes),
    )


INT_LOG_SOFTMAX = Op(
    name="IntLogSoftmax",
    inputs={
        "x": Data("T"),
        "denominators": Constant("int32", (256,)),
        "distances": Constant("int64", (256,)),
        "octaves": Constant("int64", (OCTAVES,)),
        "logarithms": Constant("int64", (PIECES + 1,)),
        **ends("T"),
    },
    outputs={"y": Data("T")},
    attributes={
        "axis": Axis(),
        "fraction_bits": Integer(1, 31),
        "rounding": ONCE,
    },
    reference=reference,
    bodies=(
        *(
            Body(
                "onnxruntime" if rounding == "half_to_even" else f"onnxruntime_{rounding}",
                "onnxruntime",
                _DOUBLE + rounded + STORE_DOUBLE,
                accepts=all_of(rounds(rounding), fits),
            )
            for rounding, rounded in _ROUNDED.items()
        ),
        *bodies_of_one_rounding(_INT64, "bits_0"),
    ),
    evidence="bounded",
    scaling=Scaling.LOGARITHM,
    laws={
        "the result is in the order of the row": _order_stays,
        "a constant added to a row changes nothing": _a_constant_changes_nothing,
    },
    formula="d = (largest x along `axis`) - x; total = sum of denominators[d] along `axis`, "
    "from 1 to 2**41 - 1, is 2**e * (1 + (p + r) / 256), e and p whole, r cut to 20 bits; "
    "log = octaves[e] + logarithms[p] + floor(r * (logarithms[p + 1] - logarithms[p])); y = "
    "clamp(round(-(distances[d] + log) / 2**fraction_bits) + y_zero, y_min, y_max).",
)
