"""Biases between two steps of an accumulator: what int32 lacks of them, in finer steps.

A bias of a quantized model may be real: b = (n + f) * x_scale * w_scale, |f| <= 1/2. The
accumulator holds n. The product with the multiplier has room for round(f * multiplier), the
``bias_rests`` of a node, one for each output channel.
"""

from collections.abc import Sequence
from dataclasses import replace

from opsets.attribute_kinds import Integers
from opsets.declaration import Constraint, Shape
from opsets.double import STORE_DOUBLE
from opsets.fragments import Fragment, fragment
from opsets.kernels import rested_double_kernel, rested_kernel
from opsets.op import Attributes, Body, Condition, Constants, all_of
from opsets.portable import STORE, columns, rounded, rounds

LARGEST_REST = 1 << 30
"""Half of a multiplier of 31 bits."""

BIAS_RESTS = Integers(-LARGEST_REST, required=False)
"""What is added to the products of accumulators and multipliers."""


def _one_for_each_channel(constants: Constants, attributes: Attributes, _shape: Shape) -> bool:
    rests = attributes.get("bias_rests") or []
    fits = len(rests) == constants["bias"].size and max(rests, default=0) <= LARGEST_REST
    return not rests or (fits and attributes["rounding"] == "half_to_even")


RESTS_FIT = Constraint(
    "`bias_rests` are one for each bias, half a multiplier at most, and round half to even",
    _one_for_each_channel,
)

_has_rests = Condition(
    "biases lie between the steps of the accumulator",
    lambda _constants, attributes: bool(attributes.get("bias_rests")),
)
_has_none = Condition("", lambda _constants, attributes: not attributes.get("bias_rests"))

_PORTABLE = fragment("""
rested <bias_rests> (acc, m_column, column) => (scaled) {
    wide_acc   = Cast <to = 7> (acc)                                       # 7 is INT64
    wide_m     = Cast <to = 7> (m_column)
    product    = Mul (wide_acc, wide_m)
    rests      = Constant <value_ints: ints = @bias_rests> ()
    rest       = Reshape (rests, column)
    scaled     = Add (product, rest)
}
""")

_DOUBLE = fragment("""
rested_double <bias_rests> (acc, m_column, s_column, column) => (level) {
    real_acc   = Cast <to = 11> (acc)                                      # 11 is DOUBLE
    real_m     = Cast <to = 11> (m_column)
    real_s     = Cast <to = 11> (s_column)
    half       = Constant <value = double {0.5}> ()
    step       = Pow (half, real_s)
    factor     = Mul (real_m, step)
    rests      = Constant <value_ints: ints = @bias_rests> ()
    rest       = Reshape (rests, column)
    real_rest  = Cast <to = 11> (rest)
    part       = Mul (real_rest, step)
    scaled     = Mul (real_acc, factor)
    lifted     = Add (scaled, part)
    level      = Round (lifted)
}
""")


def with_rests(plain: Sequence[Body], sums: Fragment, trailing: Fragment) -> Sequence[Body]:
    """``plain`` bodies for nodes without rests, and two for nodes with them.

    ``sums`` write int32 ``acc``, ``trailing`` see ``columns``.
    """
    before = sums + columns(trailing, "column")
    return [
        *(replace(body, accepts=all_of(_has_none, body.accepts)) for body in plain),
        Body(
            "onnxruntime_double_rested",
            "onnxruntime",
            before + _DOUBLE + STORE_DOUBLE,
            all_of(_has_rests, rounds("half_to_even")),
            rested_double_kernel,
        ),
        Body(
            "portable_rested",
            "portable",
            before + _PORTABLE + rounded("half_to_even")(shift="s_column") + STORE,
            all_of(_has_rests, rounds("half_to_even")),
            rested_kernel,
        ),
    ]
