"""Arithmetic of recurrent bodies: int64, double, or double with sums by kernels for bytes."""

from collections.abc import Callable
from dataclasses import dataclass

from opsets.double import rounded_double
from opsets.fragments import Fragment, fragment, joined
from opsets.portable import rescaled
from opsets.recurrence import WORD
from opsets.rounding import NodeRounding

COPIED = fragment("""
copied (value) => (copy) {
    copy      = Identity (value)
}
""")


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
        padding = COPIED(value="y_zero" if self.in_bytes else "none", copy="padding")
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
            return COPIED(value=value, copy=result)
        level = (self.wide("code", "wide_code") + _LEVEL).only("level")
        return level(code=value, level=result)

    def code(self, value: str, result: str) -> Fragment:
        """``result``: a state as a code of y."""
        if self.in_bytes:
            return COPIED(value=value, copy=result)
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
