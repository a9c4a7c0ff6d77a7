"""Whole numbers: what a cast stores of them, each of them run."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.op import Constants
from opsets.qpasses_v1.int_cast import type_ends
from qpasses.evidence.node_evidence import NodeEvidence
from qpasses.evidence.prove_pairs import half_to_even
from qpasses.evidence.prove_streams import of_numbers
from qpasses.ir.graph import Node
from qpasses.ir.record import Record


def cast(node: Node, given: Constants, record: Record) -> NodeEvidence:
    """All numbers between those that x is clamped to; beyond them the ends of the type, and
    powers of two, for what is clamped first is one of the two.
    """
    scale = Fraction(record.nodes[node.name].scales["y"][0])
    x = _numbers(node.attrs["of"], int(given["x_min"]), int(given["x_max"]))
    levels = half_to_even(x.astype(object) * scale.denominator, scale.numerator)
    found = of_numbers(node, given, record, x, levels)
    return replace(found, problem=_other_type(node) or found.problem)


def _other_type(node: Node) -> str:
    """Whether x is of another type than the node says, on which its body goes by."""
    found = node.inputs[0].dtype
    if found is None or np.dtype(found) == np.dtype(node.attrs["of"]):
        return ""
    return f"x is {np.dtype(found)}, not {node.attrs['of']}"


def _numbers(of: str, x_min: int, x_max: int) -> NDArray[Any]:
    """In order, with one beyond either end, and some that are far."""
    least, most = type_ends(of)
    far = {sign << power for power in range(64) for sign in (1, -1)} | {least, most}
    near = range(max(x_min - 1, least), min(x_max + 1, most) + 1)
    return np.array(sorted({*near} | {each for each in far if least <= each <= most}), of)
