"""Elementwise bodies that look up: what a portable body gives for all codes, once computed.

onnxruntime computes the table when it loads the model, for nothing in it depends on the input
(constant folding), so that the model holds none. A lookup takes a tenth of the time of the
int64 arithmetic behind it.
"""

from collections.abc import Sequence
from dataclasses import replace

from opsets.float32 import is_signed, is_unsigned
from opsets.fragments import NOTHING, Fragment, fragment
from opsets.op import Attributes, Body, Constants, Guard, all_of, of_bytes

MOST_SLOPES = 1024
"""So many tables of 256 entries are made at most."""

_CODES = fragment("""
codes <first, last> () => (first_code, one_code, all_codes, many, any_length) {
    # all codes of the type, in order
    first_code = Constant <value = int32 {@first}> ()
    last_code  = Constant <value = int32 {@last}> ()
    one_code   = Constant <value = int32 {1}> ()
    behind     = Add (last_code, one_code)
    all_codes  = Range (first_code, behind, one_code)
    many       = Constant <value = int32 {256}> ()
    any_length = Constant <value = int64[1] {-1}> ()
}
""")

_PAIRS = fragment("""
pairs (all_codes, y_zero) => (each_a, each_b) {
    in_column  = Constant <value = int64[2] {256, 1}> ()
    in_row     = Constant <value = int64[2] {1, 256}> ()
    column     = Reshape (all_codes, in_column)
    row        = Reshape (all_codes, in_row)
    each_a     = CastLike (column, y_zero)
    each_b     = CastLike (row, y_zero)
}
""")

_CODES_OF_PAIR = fragment("""
codes_of_pair (a, b) => (code_a, code_b) {
    code_a     = Cast <to = 6> (a)                                         # 6 is INT32
    code_b     = Cast <to = 6> (b)
}
""")

_PAIR_INDEX = fragment("""
pair_index (code_a, code_b, first_code, many) => (together, first_pair) {
    rows_a     = Mul (code_a, many)
    together   = Add (rows_a, code_b)
    first_row  = Mul (first_code, many)
    first_pair = Add (first_row, first_code)
}
""")

_CODE = fragment("""
code (all_codes, y_zero) => (each_x) {
    each_x     = CastLike (all_codes, y_zero)
}
""")

_CODE_INDEX = fragment("""
code_index (x, first_code, many) => (together, first_pair) {
    together   = Cast <to = 6> (x)                                         # 6 is INT32
    no_code    = Sub (many, many)
    first_pair = Add (first_code, no_code)
}
""")

_JOINED_SLOPES = fragment("""
joined_slopes (some, more) => (slopes) {
    slopes     = Add (some, more)
}
""")

_SLOPES = fragment("""
slopes (all_codes, y_zero, slopes) => (each_x, no_slope, in_column) {
    # a row for each slope
    in_row     = Constant <value = int64[2] {1, 256}> ()
    in_column  = Constant <value = int64[2] {-1, 1}> ()
    row        = Reshape (all_codes, in_row)
    each_x     = CastLike (row, y_zero)
    of_slopes  = Add (slopes, slopes)
    no_slope   = Sub (of_slopes, of_slopes)
}
""")

_EACH_SLOPE = fragment("""
each_slope (slope, no_slope, in_column) => (each_slope) {
    all_slopes = Add (slope, no_slope)
    each_slope = Reshape (all_slopes, in_column)
}
""")

_SLOPE_INDEX = fragment("""
slope_index (x, no_slope, first_code, one_code, many) => (together, first_pair) {
    code_x     = Cast <to = 6> (x)                                         # 6 is INT32
    no_code    = Sub (many, many)
    how_many   = Size (no_slope)
    rows_end   = Cast <to = 6> (how_many)
    each_slope = Range (no_code, rows_end, one_code)
    row_starts = Mul (each_slope, many)
    like       = Shape (no_slope)
    starts     = Reshape (row_starts, like)
    together   = Add (code_x, starts)
    first_pair = Add (first_code, no_code)
}
""")

_TABLE = fragment("""
table (grid, any_length) => (table) {
    table      = Reshape (grid, any_length)
}
""")

_PLACE = fragment("""
place (together) => (index) {
    index      = Identity (together)
}
""")

_SIGNED_PLACE = fragment("""
signed_place (together, first_pair) => (index) {
    index      = Sub (together, first_pair)
}
""")

_LOOKUP = fragment("""
lookup (table, index, any_length) => (y) {
    # on a flat tensor GatherElements is eight times as fast as Gather
    in_line    = Reshape (index, any_length)
    looked_up  = GatherElements <axis = 0> (table, in_line)
    y_shape    = Shape (index)
    y          = Reshape <allowzero = 1> (looked_up, y_shape)
}
""")


def pair_bodies(portable: Sequence[Body], codes: Fragment = _CODES_OF_PAIR) -> Sequence[Body]:
    """For each type of codes, what each of ``portable`` makes of all stored a and b.

    ``codes`` make int32 ``code_a`` and ``code_b``, which pair to look up.
    """
    index = codes + _PAIR_INDEX
    tables = (
        _tabulated(body, signed, ("a", "b"), _PAIRS, index)
        for body in portable
        for signed in (False, True)
    )
    return [replace(body, accepts=all_of(of_bytes, body.accepts)) for body in tables]


def code_bodies(portable: Sequence[Body]) -> Sequence[Body]:
    """For each type of codes, what each of ``portable`` makes of all stored x."""
    return [
        _tabulated(body, signed, ("x",), _CODE, _CODE_INDEX)
        for body in portable
        for signed in (False, True)
    ]


def slope_bodies(portable: Sequence[Body], slopes: Sequence[str]) -> Sequence[Body]:
    """The same of one stored x and int32 inputs ``slopes``, which broadcast together to x.

    Tables are made for ``MOST_SLOPES`` of them at most.
    """
    grid, (total, *rest) = NOTHING, slopes
    for number, name in enumerate(rest):
        grid += _JOINED_SLOPES(some=total, more=name, slopes=f"sum_{number}")
        total = f"sum_{number}"
    grid += _SLOPES(slopes=total)
    for name in slopes:
        grid += _EACH_SLOPE(slope=name, each_slope=f"each_{name}")
    few = _few(slopes)
    return [
        replace(body, accepts=all_of(few, body.accepts))
        for each in portable
        for body in (
            _tabulated(each, signed, ("x", *slopes), grid, _SLOPE_INDEX)
            for signed in (False, True)
        )
    ]


def _few(slopes: Sequence[str]) -> Guard:
    def accepts(constants: Constants, _attributes: Attributes) -> bool:
        """Whether there are so few slopes that a table of each is small."""
        return all(constants[name].size <= MOST_SLOPES for name in slopes)

    return accepts


def _tabulated(
    portable: Body, signed: bool, inputs: Sequence[str], grid: Fragment, index: Fragment
) -> Body:
    """``portable`` on all codes, ``each_`` of its ``inputs``, to ``table``; ``together`` less
    ``first_pair`` is the place in it.
    """
    first, last = (-128, 127) if signed else (0, 255)
    inside = portable.statements
    each = {name: f"each_{name}" for name in inputs if name in inside.reads}
    kept = [name for name in inside.writes if name in index.reads]
    suffix = portable.overload.removeprefix("portable")
    return Body(
        f"onnxruntime_table{suffix}" + ("_signed" if signed else ""),
        "onnxruntime",
        _CODES.having(first=first, last=last)
        + grid
        + inside.only("y", *kept)(**each, y="grid")
        + index
        + _TABLE
        + (_SIGNED_PLACE if signed else _PLACE)
        + _LOOKUP,
        all_of(is_signed if signed else is_unsigned, portable.accepts),
    )
