"""What a Quant of QONNX says: bits, scale, zero point, and how it rounds.

The semantics are those of QONNX's documents and of its reference in Python:
clamp x / scale + zero_point to the integers of so many bits, round, and scale back.
"""

from dataclasses import dataclass

import numpy as np
from onnx import NodeProto

from qpasses.load.foreign.draft import Draft
from qpasses.load.foreign.node_parts import attribute, input_at
from qpasses.load.foreign.qonnx_rounding import ROUNDINGS, Floats


@dataclass(frozen=True)
class Quantizer:
    """What a Quant says: of scale and zero point, None where they are not constant."""

    scale: Floats | None
    zero: Floats | None
    bits: int
    signed: bool
    narrow: bool
    rounding: str

    @property
    def is_bipolar(self) -> bool:
        """One bit with a sign: -1 and 1, as QONNX's reference has it."""
        return self.signed and self.bits == 1

    @property
    def bounds(self) -> tuple[int, int]:
        """The lowest and the highest integer."""
        if self.is_bipolar:
            return -1, 1
        if self.signed:
            half = 1 << (self.bits - 1)
            return self.narrow - half, half - 1
        return 0, (1 << self.bits) - 1 - self.narrow

    def rounded(self, x: Floats, scale: Floats, zero: Floats) -> Floats:
        """The integers of real numbers, as floats."""
        moved = x / scale + zero
        if self.is_bipolar:
            return np.where(moved >= 0, np.float32(1), np.float32(-1))
        lowest, highest = self.bounds
        return ROUNDINGS[self.rounding](
            np.clip(moved, np.float32(lowest), np.float32(highest))
        )

    def stored_type(self) -> type | None:
        """The smallest type that holds the integers; None where that is too wide."""
        lowest, highest = self.bounds
        kinds = (np.int8, np.int16, np.int32) if self.signed else (np.uint8, np.uint16)
        fits = [k for k in kinds if np.iinfo(k).min <= lowest and highest <= np.iinfo(k).max]
        return fits[0] if fits else None


def quantizer_of(draft: Draft, node: NodeProto) -> Quantizer:
    """Raises ModelError for a Quant that cannot be."""
    bits = draft.value(input_at(node, 3))
    if bits is None or bits.size != 1 or not 1 <= bits.item() <= 32 or bits.item() % 1:
        raise draft.error(
            node, f"its bit width {input_at(node, 3)!r} is not a constant whole number to 32"
        )
    rounding = attribute(node, "rounding_mode", b"ROUND").decode().upper()
    if rounding not in ROUNDINGS:
        raise draft.error(node, f"unknown rounding_mode {rounding!r}")
    scale, zero = (draft.value(input_at(node, index)) for index in (1, 2))
    if scale is not None:
        draft.check_scale(node, node.input[1], scale)
    if zero is not None and not np.all(np.isfinite(zero)):
        raise draft.error(node, f"zero point {node.input[2]!r} holds what is no number")
    return Quantizer(
        None if scale is None else scale.astype(np.float32),
        None if zero is None else zero.astype(np.float32),
        int(bits.item()),
        bool(attribute(node, "signed", 1)),
        bool(attribute(node, "narrow", 0)),
        rounding,
    )
