"""Bodies of recurrent ops: what those of IntLstm, IntGru and IntRnn have in common.

A body multiplies all inputs by their weights at once, and goes through the steps in a Loop:
in int64 (portable), or in double where that is exact, which is several times faster.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.double import overload, rounded_double
from opsets.fixed_point import ROUNDINGS
from opsets.fragments import Fragment, fragment, joined
from opsets.loops import State
from opsets.op import Attributes, Body, Constants, Guard, all_of, any_node
from opsets.portable import portable_overload, rescaled, rounds
from opsets.recurrence import WHOLE, WORD
from opsets.rounding import NODE_ROUNDINGS, NodeRounding
from opsets.word_products import furthest

EXACT = 1 << 52
"""Twice an integer below, and one more, are doubles: so are its halves, rounded either way."""


# Conditions.


def takes_all_steps(constants: Constants, _attributes: Attributes) -> bool:
    """Whether all sequences are known to have all steps."""
    lengths = constants.get("sequence_lens")
    return lengths is not None and bool((lengths == WHOLE).all())


def _takes_some_steps(constants: Constants, attributes: Attributes) -> bool:
    """Whether some sequence may end before the last step."""
    return not takes_all_steps(constants, attributes)


SMALL = 64
"""So many hidden units a product in double is as fast for as one of bytes, in fewer nodes."""


def _has_many_bytes(constants: Constants, _attributes: Attributes) -> bool:
    """Whether the input and the codes have 8 bits, and there are more than 64 hidden units."""
    is_bytes = all(constants[each].dtype.itemsize == 1 for each in ("x_zero", "y_zero"))
    return is_bytes and len(constants["r"]) > SMALL


def _is_small_or_has_words(constants: Constants, attributes: Attributes) -> bool:
    """Whether the input or the codes have 16 bits, or there are 64 hidden units or fewer."""
    return not _has_many_bytes(constants, attributes)


def sums_are_exact(constants: Constants) -> bool:
    """Whether sums of gates times their multipliers are integers that double holds."""
    reaches = (
        (constants["w"], constants["x_zero"], constants["bias"], constants["x_multiplier"]),
        (
            constants["r"],
            constants["y_zero"],
            constants.get("r_bias", 0),
            constants["h_multiplier"],
        ),
    )
    for weights, zero, bias, multiplier in reaches:
        reach = np.abs(weights.astype(object)).sum(axis=0) * furthest(zero)
        largest = (reach + np.abs(np.asarray(bias).astype(object))) * np.abs(
            multiplier.astype(object)
        )
        if np.max(largest, initial=0) >= EXACT:
            return False
    return True


def largest_entry(table: NDArray[Any]) -> int:
    """The size of the largest entry of a table."""
    return int(np.abs(table.astype(np.int64)).max(initial=0))


# Bodies.


ADDED = fragment("""
added (one, another) => (both) {
    both      = Add (one, another)
}
""")

TIMES = fragment("""
times (one, another) => (product) {
    product   = Mul (one, another)
}
""")

FIRST = fragment("""
first (initial, x, r) => (first) {
    batch     = Shape <start = 1, end = 2> (x)
    hidden    = Shape <end = 1> (r)
    sizes     = Concat <axis = 0> (batch, hidden)
    all       = Expand (initial, sizes)
    front     = Constant <value = int64[1] {0}> ()
    first     = Squeeze (all, front)
}
""")
"""``first`` [B, H] of an initial state [1, B or 1, H or 1]."""

LIVE = fragment("""
live (sequence_lens, x) => (all_live, has_steps) {
    # [T, B, 1], and [B, 1]: whether a sequence has this step, and whether it has any
    steps     = Shape <end = 1> (x)
    scalar    = Squeeze (steps)
    nothing   = Constant <value = int64 {0}> ()
    single    = Constant <value = int64 {1}> ()
    times     = Range (nothing, scalar, single)
    column    = Constant <value = int64[3] {-1, 1, 1}> ()
    time      = Reshape (times, column)
    lengths   = Cast <to = 7> (sequence_lens)                              # 7 is INT64
    behind    = Constant <value = int64[1] {1}> ()
    length    = Unsqueeze (lengths, behind)
    all_live  = Less (time, length)
    has_steps = Less (nothing, length)
}
""")

ALL = fragment("""
all (all_steps, x, r) => (y) {
    # no Unsqueeze: where there is no step, a loop says nothing of sizes
    steps     = Shape <end = 1> (x)
    direction = Constant <value = int64[1] {1}> ()
    batch     = Shape <start = 1, end = 2> (x)
    hidden    = Shape <end = 1> (r)
    sizes     = Concat <axis = 0> (steps, direction, batch, hidden)
    y         = Reshape <allowzero = 1> (all_steps, sizes)
}
""")
"""y [T, 1, B, H] of the codes of all steps."""

LAST = fragment("""
last (last_step) => (state) {
    axis      = Constant <value = int64[1] {0}> ()
    state     = Unsqueeze (last_step, axis)
}
""")

_KEPT = fragment("""
kept (live, new, old) => (next) {
    next      = Where (live, new, old)
}
""")

_COPIED = fragment("""
copied (value) => (copy) {
    copy      = Identity (value)
}
""")


_STARTED = fragment("""
started (has_steps, given, nothing) => (first) {
    first     = Where (has_steps, given, nothing)
}
""")


def first(given: str, nothing: str, state: str, ending: bool) -> Fragment:
    """``state`` before the first step: what is ``given``, ``nothing`` where there is none."""
    if not ending:
        return _COPIED(value=given, copy=state)
    return _STARTED(given=given, nothing=nothing, first=state)


def carried(states: Sequence[str], code: str, ending: bool) -> Fragment:
    """What becomes of ``new_`` states; and ``given``, the first of them as output.

    ``ending``: where a sequence is not ``live`` it keeps its states as ``next_``, and gives
    ``code``.
    """
    first = f"new_{states[0]}"
    if not ending:
        return _COPIED(value=first, copy="given")
    kept = [_KEPT(new=f"new_{each}", old=each, next=f"next_{each}") for each in states]
    return joined(*kept, _KEPT(new=first, old=code, next="given"))


def states_of(names: Sequence[str], ending: bool) -> list[State]:
    """The states of a loop over a step and what is ``carried``."""
    after = "next" if ending else "new"
    return [State(each, f"{after}_{each}", f"first_{each}", f"last_{each}") for each in names]


@dataclass(frozen=True)
class Arithmetic:
    """How bodies compute: in int64, or in double; ``to`` is the type, by ONNX's number.

    States are levels, codes less their zero point, in the type; or codes ``in_bytes``.
    ``of_state``: sums of them times weights, requantized.
    """

    to: int
    input_sums: Fragment
    of_state: Callable[[NodeRounding, bool], Fragment]
    rounded: Callable[[str, str, str, str, NodeRounding], Fragment]
    clamp: Fragment
    in_bytes: bool = False

    def wide(self, value: str, result: str) -> Fragment:
        """``result``: ``value`` in the type."""
        return fragment(f"""
wide (value) => (result) {{
    result    = Cast <to = {self.to}> (value)
}}
""")(value=value, result=result)

    def word(self, value: str, result: str) -> Fragment:
        """``result``: ``value`` saturated to 16 bits."""
        low = self._number(WORD.min)
        high = self._number(WORD.max)
        ends = fragment(f"""
ends () => (low, high) {{
    low       = Constant <value = {low}> ()
    high      = Constant <value = {high}> ()
}}
""")
        return (ends + self.clamp).only("clamped")(value=value, clamped=result)

    def short(self, value: str, result: str) -> Fragment:
        """``result``: ``value``, which 16 bits hold, in them."""
        return _SHORT(value=value, short=result)

    def _number(self, value: int) -> str:
        return f"{'int64' if self.to == _INT64 else 'double'} {{{value}}}"

    def entry(self, table: str, place: str, result: str) -> Fragment:
        """``result``: the entry of ``table`` for a sum of 16 bits."""
        return _ENTRY(table=table, place=place, entry=result)

    def gates_of_inputs(self, rounding: NodeRounding) -> Fragment:
        """``all_gates``: what all inputs give to the sums of gates."""
        levels = self.rounded("x_sums", "x_multiplier", "x_shift", "x_levels", rounding)
        whole = self.input_sums + levels + self.word("x_levels", "all_gates")
        return whole.only("all_gates")

    def zero(self) -> Fragment:
        """``zero`` of y, and ``none``, in the type; ``padding``: what ended sequences give."""
        padding = _COPIED(value="y_zero" if self.in_bytes else "none", copy="padding")
        none = fragment(f"""
none () => (none) {{
    none      = Constant <value = {self._number(0)}> ()
}}
""")
        return joined(self.wide("y_zero", "zero"), none, padding)

    def ends(self) -> Fragment:
        """``zero`` and ``padding``; ``min`` and ``max`` of y in the type, of a state."""
        if self.in_bytes:
            return joined(self.zero(), self.wide("y_min", "min"), self.wide("y_max", "max"))
        return joined(self.zero(), self.state("y_min", "min"), self.state("y_max", "max"))

    def store(self, level: str, result: str) -> Fragment:
        """``result``: a level as a state."""
        if not self.in_bytes:
            return self.clamp(value=level, low="min", high="max", clamped=result)
        clamped = self.clamp(value="moved", low="min", high="max", clamped="stored")
        whole = joined(_MOVED, clamped, _AS_CODE(value="stored", code="byte")).only("byte")
        return whole(level=level, byte=result)

    def state(self, value: str, result: str) -> Fragment:
        """``result``: a code of y as a state."""
        if self.in_bytes:
            return _COPIED(value=value, copy=result)
        level = (self.wide("code", "wide_code") + _LEVEL).only("level")
        return level(code=value, level=result)

    def code(self, value: str, result: str) -> Fragment:
        """``result``: a state as a code of y."""
        if self.in_bytes:
            return _COPIED(value=value, copy=result)
        code = (_MOVED(level="state") + _AS_CODE(value="moved", code="code")).only("code")
        return code(state=value, code=result)


_LEVEL = fragment("""
level (wide_code, zero) => (level) {
    level     = Sub (wide_code, zero)
}
""")

_ENTRY = fragment("""
entry (table, place) => (entry) {
    index     = Cast <to = 6> (place)                                      # 6 is INT32
    entry     = Gather <axis = 0> (table, index)
}
""")

_SHORT = fragment("""
short (value) => (short) {
    short     = Cast <to = 5> (value)                                      # 5 is INT16
}
""")

_MOVED = fragment("""
moved (level, zero) => (moved) {
    moved     = Add (level, zero)
}
""")

_AS_CODE = fragment("""
as_code (value, y_zero) => (code) {
    code      = CastLike (value, y_zero)
}
""")

_INT64, _DOUBLE = 7, 11


def _levels_of(to: int) -> Fragment:
    return fragment(f"""
levels (codes, codes_zero) => (levels) {{
    wide_code = Cast <to = {to}> (codes)
    wide_zero = Cast <to = {to}> (codes_zero)
    levels    = Sub (wide_code, wide_zero)
}}
""")


def _products_of(to: int) -> Fragment:
    return _levels_of(to) + fragment(f"""
products (levels, weights) => (products) {{
    wide_w    = Cast <to = {to}> (weights)
    products  = MatMul (levels, wide_w)
}}
""")


_IN_ROWS = fragment("""
in_rows (codes, codes_zero, weights) => (products) {
    # a matrix: onnxruntime 1.32 moves a Transpose before the Cast into the MatMul, and fails
    wide_code = Cast <to = 11> (codes)                                     # 11 is DOUBLE
    wide_zero = Cast <to = 11> (codes_zero)
    levels    = Sub (wide_code, wide_zero)
    wide_w    = Cast <to = 11> (weights)
    inner     = Shape <end = 1> (weights)
    rest      = Constant <value = int64[1] {-1}> ()
    matrix    = Concat <axis = 0> (rest, inner)
    rows      = Reshape (levels, matrix)
    flat      = MatMul (rows, wide_w)
    leading   = Shape <end = 2> (codes)
    outer     = Shape <start = 1> (weights)
    sizes     = Concat <axis = 0> (leading, outer)
    products  = Reshape <allowzero = 1> (flat, sizes)
}
""")

_OF_BYTES = fragment("""
of_bytes (codes, codes_zero, weights) => (products) {
    narrow    = MatMulInteger (codes, weights, codes_zero)
    products  = Cast <to = 11> (narrow)                                    # 11 is DOUBLE
}
""")


_OF_STATE = fragment("""
of_state (state, weights, y_zero) => (sums) {
    # Max: onnxruntime fuses MatMulInteger, Cast and Mul, and fails on double
    narrow    = MatMulInteger (state, weights, y_zero)
    lowest    = Constant <value = int32 {-2147483648}> ()
    same      = Max (narrow, lowest)
    sums      = Cast <to = 11> (same)                                      # 11 is DOUBLE
}
""")


def _with_bias(to: int, products: Fragment) -> Fragment:
    return (
        products
        + fragment(f"""
with_bias (products, bias) => (sums) {{
    wide_bias = Cast <to = {to}> (bias)
    sums      = Add (products, wide_bias)
}}
""")
    ).only("sums")(codes="x", codes_zero="x_zero", weights="w", sums="x_sums")


_OF_LEVELS = fragment("""
of_levels (state, weights) => (sums) {
    wide_w    = Cast <to = 7> (weights)                                    # 7 is INT64
    sums      = MatMul (state, wide_w)
}
""")

_BIASED = fragment("""
biased (sums, state_bias) => (biased) {
    biased    = Add (sums, state_bias)
}
""")


def _requantized(
    sums: Fragment, rounded: Callable[[str, str, str, str, NodeRounding], Fragment]
) -> Callable[[NodeRounding, bool], Fragment]:
    """Sums of a state, biased or not, and what becomes of them: ``level``."""

    def of_state(rounding: NodeRounding, biased: bool) -> Fragment:
        whole = sums + _BIASED if biased else sums
        total = "biased" if biased else "sums"
        return (whole + rounded(total, "multiplier", "shift", "level", rounding)).only("level")

    return of_state


FACTOR = fragment("""
factor (multiplier, shift) => (factor) {
    # Pow(0.5, n) is exact
    half      = Constant <value = double {0.5}> ()
    real_s    = Cast <to = 11> (shift)                                     # 11 is DOUBLE
    real_m    = Cast <to = 11> (multiplier)
    step      = Pow (half, real_s)
    factor    = Mul (real_m, step)
}
""")

_TIMES = fragment("""
times (value, factor) => (product) {
    product   = Mul (value, factor)
}
""")


def _rounded_in_double(
    value: str, multiplier: str, shift: str, result: str, rounding: NodeRounding
) -> Fragment:
    scaled = FACTOR + _TIMES + in_double("product", "level", rounding)
    return scaled.only("level")(value=value, multiplier=multiplier, shift=shift, level=result)


_SCALED_SUMS = fragment("""
scaled_sums (state, weights, factor) => (product) {
    # weights and bias times the factor first: all are whole in steps of a power of two
    wide_w    = Cast <to = 11> (weights)                                   # 11 is DOUBLE
    scaled_w  = Mul (wide_w, factor)
    product   = MatMul (state, scaled_w)
}
""")

_SCALED_BIAS = fragment("""
scaled_bias (product, state_bias, factor) => (whole) {
    scaled_b  = Mul (state_bias, factor)
    whole     = Add (product, scaled_b)
}
""")


def _of_state_in_double(rounding: NodeRounding, biased: bool) -> Fragment:
    whole = FACTOR + _SCALED_SUMS
    if biased:
        whole = whole + _SCALED_BIAS
    total = "whole" if biased else "product"
    return (whole + in_double(total, "level", rounding)).only("level")


def in_double(value: str, result: str, rounding: NodeRounding) -> Fragment:
    """``result``: ``value``, a double that the bodies here hold exactly, rounded."""
    return rounded_double(value, result, rounding)  # type: ignore[arg-type] # once: `bodies`


_CLIP = fragment("""
clip (value, low, high) => (clamped) {
    clamped   = Clip (value, low, high)
}
""")

_WHERE = fragment("""
where (value, low, high) => (clamped) {
    # Clip, Min and Max of onnxruntime 1.31 on x86 are wrong for int64 beyond 32 bits
    too_low   = Less (value, low)
    raised    = Where (too_low, low, value)
    too_high  = Greater (raised, high)
    clamped   = Where (too_high, high, raised)
}
""")

INTEGER = Arithmetic(
    _INT64,
    _with_bias(_INT64, _products_of(_INT64).only("products")),
    _requantized(_OF_LEVELS, rescaled),
    rescaled,
    _WHERE,
)
"""All in int64."""

IN_DOUBLE = Arithmetic(
    _DOUBLE,
    _with_bias(_DOUBLE, _IN_ROWS),
    _of_state_in_double,
    _rounded_in_double,
    _CLIP,
)
"""All in double."""

OF_BYTES = Arithmetic(
    _DOUBLE,
    _with_bias(_DOUBLE, _OF_BYTES),
    _requantized(_OF_STATE, _rounded_in_double),
    _rounded_in_double,
    _CLIP,
    in_bytes=True,
)
"""Sums by the kernels for bytes, the rest in double."""


def of_hidden(by: Arithmetic, rounding: NodeRounding, result: str) -> Fragment:
    """``result``: sums of the state h times r, requantized."""
    scale = {"multiplier": "h_multiplier", "shift": "h_shift"}
    return by.of_state(rounding, False)(state="h", weights="r", level=result, **scale)


Statements = Callable[[Arithmetic, NodeRounding, bool, bool], Fragment]
"""The statements of a body; ``is_portable``: of any node, ``ending``: sequences may end early.
"""


def bodies(
    statements: Statements, is_exact: Guard, also: Guard = any_node, named: str = ""
) -> Sequence[Body]:
    """The bodies of a recurrent op; ``is_exact``: whether double holds all its products.

    ``also``: for which nodes alone they are, and how they are ``named`` besides.
    """
    fast = [
        Body(
            overload(rounding, way + ends + named),
            "onnxruntime",
            statements(arithmetic, rounding, False, bool(ends)),
            all_of(rounds(rounding), kinds, also, is_exact, steps),
        )
        for way, arithmetic, kinds in (
            ("bytes", OF_BYTES, _has_many_bytes),
            ("double", IN_DOUBLE, _is_small_or_has_words),
        )
        for ends, steps in (("", takes_all_steps), ("_ending", _takes_some_steps))
        for rounding in ROUNDINGS
    ]
    portable = [
        Body(
            portable_overload(rounding).replace("portable", f"portable{named}", 1),
            "portable",
            statements(INTEGER, rounding, True, True),
            all_of(rounds(rounding), also),
        )
        for rounding in NODE_ROUNDINGS
    ]
    return [*fast, *portable]
