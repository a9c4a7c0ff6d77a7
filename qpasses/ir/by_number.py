"""Ops that look at one number of each operand at a time: in which order these lie is alike."""

from opsets.op import DOMAIN
from qpasses.ir.elementwise import ELEMENTWISE

_OURS = (
    *("IBertGelu", "IntAdd", "IntCast", "IntCodedPRelu", "IntDiv", "IntMul", "IntPRelu"),
    *("IntRescale", "IntRescaledAdd", "IntRescaledSub", "IntSub", "IntWhere", "Lut"),
    *("Lut16", "LutInterpolated", "LutPair", "ShiftGelu"),
)
_LOGICAL = (
    *("And", "Cast", "Equal", "Greater", "GreaterOrEqual", "Identity", "Less"),
    *("LessOrEqual", "Not", "Or", "Where", "Xor"),
)

BY_NUMBER = frozenset(
    {(DOMAIN, name) for name in _OURS} | {("", name) for name in (*ELEMENTWISE, *_LOGICAL)}
)
"""By domain and op type."""
