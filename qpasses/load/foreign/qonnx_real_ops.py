"""Quantizers that Q/DQ cannot say, as the float ops that they consist of."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto

from qpasses.load.foreign.draft import Draft, Left
from qpasses.load.foreign.node_parts import attribute, input_at
from qpasses.load.foreign.qonnx_quantizer import Quantizer
from qpasses.load.foreign.qonnx_rounding import ROUNDINGS, Floats


def write_real_ops(draft: Draft, node: NodeProto, quantizer: Quantizer) -> None:
    """Divide, add, clip, round, subtract, multiply."""
    scaled = draft.compute("Div", node.input[:2], node)
    zero = _float_zero(draft, node, quantizer)
    moved = draft.compute("Add", [scaled, zero], node) if zero else scaled
    if quantizer.is_bipolar:
        rounded = signs(draft, node, moved, np.ones((), np.float32))
    else:
        rounded = _round(draft, node, _bounded(draft, node, moved, quantizer), quantizer)
    back = draft.compute("Sub", [rounded, zero], node) if zero else rounded
    draft.add("Mul", [back, node.input[1]], node.output[0], node.name)


def _float_zero(draft: Draft, node: NodeProto, quantizer: Quantizer) -> str:
    """The zero point as float32; "" for 0."""
    if quantizer.zero is None:
        return input_at(node, 2)
    if not quantizer.zero.any():
        return ""
    return draft.constant(f"{node.input[2]}_real", quantizer.zero)


def _bounded(draft: Draft, node: NodeProto, x: str, quantizer: Quantizer) -> str:
    if draft.ledger.version < 11:
        ends = dict(zip(("min", "max"), map(float, quantizer.bounds), strict=True))
        return draft.compute("Clip", [x], node, **ends)
    names = [
        draft.constant(f"{node.output[0]}_bound", np.array(end, np.float32))
        for end in quantizer.bounds
    ]
    return draft.compute("Clip", [x, *names], node)


def _round(draft: Draft, node: NodeProto, x: str, quantizer: Quantizer) -> str:
    rounding = ROUNDINGS[quantizer.rounding]
    draft.need(11)  # Round
    found = draft.compute("Abs", [x], node) if rounding.by_magnitude else x
    for step in rounding.steps:
        if isinstance(step, str):
            found = draft.compute(step, [found], node)
        else:
            half = draft.constant(f"{node.output[0]}_half", np.array(step, np.float32))
            found = draft.compute("Add", [found, half], node)
    if not rounding.by_magnitude:
        return found
    return draft.compute("Mul", [found, draft.compute("Sign", [x], node)], node)


def signs(draft: Draft, node: NodeProto, x: str, size: NDArray[Any]) -> str:
    """``size`` where ``x`` is 0 or more, else its negative."""
    zero = draft.constant(f"{node.output[0]}_zero", np.zeros((), np.float32))
    below = draft.compute("Less", [x, zero], node)
    ends = [draft.constant(f"{node.output[0]}_sign", each) for each in (-size, size)]
    return draft.compute("Where", [below, *ends], node)


def truncate(draft: Draft, node: NodeProto) -> Left | None:
    """Integers without their lowest bits: of 5 inputs, or 7 from version 2 on."""
    draft.need(11)
    rounding = attribute(node, "rounding_mode", b"FLOOR").decode().upper()
    values = [draft.value(name) for name in node.input[1:]]
    if rounding not in ROUNDINGS or any(value is None for value in values):
        return Left("its parameters are not constant, or its rounding is unknown")
    numbers = [np.asarray(value, np.float32) for value in values]
    if len(numbers) not in (4, 6) or any(each.size != 1 for each in numbers):
        return Left("its parameters are not those of Trunc's versions 1 and 2")
    draft.note(node, "Trunc is written as float ops")
    _write_trunc(draft, node, numbers, rounding)
    return None


def _write_trunc(
    draft: Draft, node: NodeProto, numbers: Sequence[Floats], rounding: str
) -> None:
    scale, zero, bits = numbers[:3]
    if len(numbers) == 4:
        step, end, out_zero = np.exp2(bits - numbers[3]), scale, zero
        bounds = None
    else:
        end = numbers[3]
        step = np.exp2(np.rint(np.log2(end / scale)))
        out_zero, signed = zero / step, bool(attribute(node, "signed", 1))
        narrow = bool(attribute(node, "narrow", 0))
        bounds = Quantizer(scale, zero, int(numbers[5].item()), signed, narrow, rounding)
    exact = Quantizer(scale, zero, 32, True, False, "ROUND")

    def number(value: Floats) -> str:
        return draft.constant(f"{node.output[0]}_part", np.asarray(value, np.float32))

    x = draft.compute("Div", [node.input[0], number(scale)], node)
    x = draft.compute("Add", [x, number(zero)], node)
    x = draft.compute("Div", [_round(draft, node, x, exact), number(step)], node)
    if bounds is not None:
        x = _bounded(draft, node, x, bounds)
    last = Quantizer(scale, zero, 32, True, False, rounding)
    x = draft.compute("Sub", [_round(draft, node, x, last), number(out_zero)], node)
    draft.add("Mul", [x, number(end)], node.output[0], node.name)
