"""Elementwise bodies that look up: what a portable body gives for all codes, once computed.

onnxruntime computes the table when it loads the model, for nothing in it depends on the input
(constant folding), so that the model holds none. A lookup takes a tenth of the time of the
int64 arithmetic behind it.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from opsets.float32 import is_signed, is_unsigned
from opsets.op import Attributes, Body, Constants, Guard, all_of, of_bytes

MOST_SLOPES = 1024
"""So many tables of 256 entries are made at most."""

_CODES = """
    # all codes of the type, in order
    first_code = Constant <value = int32 {{{first}}}> ()
    last_code  = Constant <value = int32 {{{last}}}> ()
    one_code   = Constant <value = int32 {{1}}> ()
    behind     = Add (last_code, one_code)
    all_codes  = Range (first_code, behind, one_code)
    many       = Constant <value = int32 {{256}}> ()
    any_length = Constant <value = int64[1] {{-1}}> ()
"""

_PAIRS = """
    in_column  = Constant <value = int64[2] {256, 1}> ()
    in_row     = Constant <value = int64[2] {1, 256}> ()
    column     = Reshape (all_codes, in_column)
    row        = Reshape (all_codes, in_row)
    each_a     = CastLike (column, y_zero)
    each_b     = CastLike (row, y_zero)
"""

_CODES_OF_PAIR = """
    code_a     = Cast <to = 6> (a)                                         # 6 is INT32
    code_b     = Cast <to = 6> (b)
"""

_PAIR_INDEX = """
    rows_a     = Mul (code_a, many)
    together   = Add (rows_a, code_b)
    first_row  = Mul (first_code, many)
    first_pair = Add (first_row, first_code)
"""

_CODE = """
    each_x     = CastLike (all_codes, y_zero)
"""

_CODE_INDEX = """
    together   = Cast <to = 6> (x)                                         # 6 is INT32
    no_code    = Sub (many, many)
    first_pair = Add (first_code, no_code)
"""

_SLOPES = """
    # a row for each slope
    in_row     = Constant <value = int64[2] {1, 256}> ()
    in_column  = Constant <value = int64[2] {-1, 1}> ()
    row        = Reshape (all_codes, in_row)
    each_x     = CastLike (row, y_zero)
    of_slopes  = Sum_of_slopes
    no_slope   = Sub (of_slopes, of_slopes)
"""

_SLOPE_INDEX = """
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
"""

_LOOKUP = """
    table      = Reshape (grid, any_length)
    index      = {index}
    # on a flat tensor GatherElements is eight times as fast as Gather
    in_line    = Reshape (index, any_length)
    looked_up  = GatherElements <axis = 0> (table, in_line)
    y_shape    = Shape (index)
    y          = Reshape <allowzero = 1> (looked_up, y_shape)
"""


def pair_bodies(portable: Sequence[Body], codes: str = _CODES_OF_PAIR) -> Sequence[Body]:
    """For each type of codes, what each of ``portable`` makes of all stored a and b.

    ``codes`` make int32 ``code_a`` and ``code_b``, which pair to look up.
    """
    names, index = {"a": "each_a", "b": "each_b"}, codes + _PAIR_INDEX
    tables = (
        _tabulated(body, signed, names, _PAIRS, index)
        for body in portable
        for signed in (False, True)
    )
    return [replace(body, accepts=all_of(of_bytes, body.accepts)) for body in tables]


def code_bodies(portable: Sequence[Body]) -> Sequence[Body]:
    """For each type of codes, what each of ``portable`` makes of all stored x."""
    return [
        _tabulated(body, signed, {"x": "each_x"}, _CODE, _CODE_INDEX)
        for body in portable
        for signed in (False, True)
    ]


def slope_bodies(portable: Sequence[Body], slopes: Sequence[str]) -> Sequence[Body]:
    """The same of one stored x and int32 inputs ``slopes``, which broadcast together to x.

    Tables are made for ``MOST_SLOPES`` of them at most.
    """
    total, *rest = slopes
    first = ""
    for number, name in enumerate(rest):
        first += f"    sum_{number} = Add ({total}, {name})\n"
        total = f"sum_{number}"
    first += _SLOPES.replace("Sum_of_slopes", f"Add ({total}, {total})")
    for name in slopes:
        first += f"    all_{name} = Add ({name}, no_slope)\n"
        first += f"    each_{name} = Reshape (all_{name}, in_column)\n"
    names = {name: f"each_{name}" for name in ("x", *slopes)}
    few = _few(slopes)
    return [
        replace(body, accepts=all_of(few, body.accepts))
        for each in portable
        for body in (
            _tabulated(each, signed, names, first, _SLOPE_INDEX) for signed in (False, True)
        )
    ]


def _few(slopes: Sequence[str]) -> Guard:
    def accepts(constants: Constants, _attributes: Attributes) -> bool:
        """Whether there are so few slopes that a table of each is small."""
        return all(constants[name].size <= MOST_SLOPES for name in slopes)

    return accepts


def _tabulated(
    portable: Body, signed: bool, names: dict[str, str], grid: str, index: str
) -> Body:
    """``portable`` on all codes, its inputs called ``names``, to ``table``; ``together`` less
    ``first_pair`` is the place in it.
    """
    first, last = (-128, 127) if signed else (0, 255)
    inside = re.sub(
        rf"\b({'|'.join([*names, 'y'])})\b",
        lambda found: {**names, "y": "grid"}[found[0]],
        re.sub(r"#.*", "", portable.text),
    )
    place = "Sub (together, first_pair)" if signed else "Identity (together)"
    name = portable.overload.replace("portable", "onnxruntime_table")
    return Body(
        f"{name}_signed" if signed else name,
        "onnxruntime",
        _CODES.format(first=first, last=last)
        + grid
        + inside
        + index
        + _LOOKUP.format(index=place),
        all_of(is_signed if signed else is_unsigned, portable.accepts),
    )
