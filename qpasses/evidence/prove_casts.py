"""Whole numbers: what a cast stores of them, each of them run."""

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.op import Constants
from opsets.qpasses_v1 import OPS
from opsets.qpasses_v1.int_cast import type_ends
from qpasses.evidence.bodies import body_of
from qpasses.evidence.node_evidence import NodeEvidence
from qpasses.evidence.problems import problem_of
from qpasses.evidence.prove_pairs import half_to_even
from qpasses.ir.graph import Node
from qpasses.ir.record import Record
from qpasses.ir.runtime import run_op


def cast(node: Node, given: Constants, record: Record) -> NodeEvidence:
    """All numbers between those that x is clamped to; beyond them the ends of the type, and
    powers of two, for what is clamped first is one of the two.
    """
    entry, body = record.nodes[node.name], body_of(node, record)
    scale, y_zero = Fraction(entry.scales["y"][0]), int(given["y_zero"])
    x = _numbers(node.attrs["of"], int(given["x_min"]), int(given["x_max"]))
    inputs = [{**given, "x": x}[name] for name in OPS[node.op].inputs]
    meaning = OPS[node.op].reference(*inputs, **node.attrs).astype(np.int64)
    levels = half_to_even(x.astype(object) * scale.denominator, scale.numerator) + y_zero
    real = np.clip(levels, int(given["y_min"]), int(given["y_max"])).astype(np.int64)
    gaps = np.abs(meaning - real)
    attributes = dict(node.attrs)
    runs = [run_op(node.op, body, inputs, attributes, optimize=e) for e in (False, True)]
    return NodeEvidence(
        name=node.name,
        op=node.op,
        kind="exhaustive",
        domain=len(x),
        mismatches=int(np.logical_or(*(found != meaning for found in runs)).sum()),
        body=body.overload,
        reference_moved=int((gaps > 0).sum()),
        reference_max_lsb=int(gaps.max()),
        problem=_other_type(node) or problem_of(node, given, record),
    )


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
