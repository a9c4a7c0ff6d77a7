"""CompareStored: what asks which of two numbers is larger asks their codes."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from qpasses.ir.graph import Graph, Node, constant
from qpasses.ir.patterns import Stored, stored_input
from qpasses.ir.record import SIGNALS, Quantization
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Declined, Outcome, Pass
from qpasses.ir.stages import COMPARING


class CompareStored(Pass):
    """Let Equal, Greater, Less and their like compare stored integers, with codes.

    before: ``b = Greater(DQ(x), c)``
    after:  ``b = Greater(x, code of c)``
    **Exact:** DequantizeLinear is monotone: of each number there is a code that as many codes
    lie above of as their numbers do; equal is only what a code stands for. Two tensors that
    are stored alike compare as they are.
    """

    op_types: ClassVar = COMPARING

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Compare a stored tensor with constants, or with another one."""
        ends = [stored_input(each, context.settings, SIGNALS) for each in node.inputs]
        numbers = [constant(each) for each in node.inputs]
        if numbers[0] is None and numbers[1] is None:
            return _both(node, ends)
        place = 1 if numbers[0] is None else 0
        stored, values = ends[1 - place], numbers[place]
        if stored is None or values is None:
            return NOT_MINE  # of a float tensor, or read there already
        codes = _codes_of(values, stored.quantization, _seen_from(node.op, place))
        if codes is None:
            return Declined(
                f"{node.op} with a number that no code stands for, or that lies beyond all"
            )
        node.inputs[1 - place] = stored.tensor
        node.inputs[place] = context.constant(f"{node.name}.codes", codes)
        return REWRITTEN


def _both(node: Node, ends: list[Stored | None]) -> Outcome:
    a, b = ends
    if a is None and b is None:
        return NOT_MINE
    if a is None or b is None or a.quantization != b.quantization:
        return Declined(f"{node.op} of two tensors that are not stored alike")
    node.inputs = [a.tensor, b.tensor]
    return REWRITTEN


_TURNED: Mapping[str, str] = {
    **{"Greater": "Less", "Less": "Greater"},
    **{"GreaterOrEqual": "LessOrEqual", "LessOrEqual": "GreaterOrEqual"},
}


def _seen_from(op: str, place: int) -> str:
    """What a tensor is asked by ``op``, where the constant is at ``place``."""
    return op if place else _TURNED.get(op, op)


def _codes_of(values: NDArray[Any], meaning: Quantization, op: str) -> NDArray[Any] | None:
    """The codes in the place of ``values``; None where one has none."""
    low, high = meaning.type_limits
    levels = np.arange(low, high + 1) - meaning.zero_point
    reals = levels.astype(np.float32) * np.float32(meaning.scale)
    if np.isnan(values).any():
        return None
    below, upto = (np.searchsorted(reals, values, side) for side in ("left", "right"))
    if op == "Equal" and (upto - below != 1).any():
        return None
    places = upto - 1 if op in ("Greater", "LessOrEqual") else below
    if (places < 0).any() or (places > high - low).any():
        return None
    return np.asarray(places + low, meaning.dtype)
