"""What is wrong with an integer node before any arithmetic is compared."""

import numpy as np

from opsets.op import Constants
from opsets.qpasses_v1 import OPS
from opsets.qpasses_v1.int_reduce import DIVIDES
from qpasses.evidence.bodies import body_of
from qpasses.evidence.taps import taps_problem
from qpasses.ir.graph import Node
from qpasses.ir.record import Record, middle_code


def headroom(low: int, high: int) -> int:
    """How many bits of int32 the sums from ``low`` to ``high`` leave unused."""
    return 31 - max((~low).bit_length() if low < 0 else 0, high.bit_length())


def problem_of(node: Node, given: Constants, record: Record) -> str:
    """What is wrong with a node before any arithmetic, or nothing.

    Its body must be one that may compute it, its zero points those of the stored tensors.
    """
    entry, op = record.nodes[node.name], OPS[node.op]
    if node.op == "IntResize" and (wrong := taps_problem(given, node.attrs, entry.cells)):
        return wrong
    if not body_of(node, record).accepts(given, node.attrs):
        return f"body {entry.overload!r} does not compute such a node"
    tensors = dict(zip(op.inputs, node.inputs, strict=True)) | {"y": node.outputs[0]}
    stored = (name for name in ("x", "a", "b", "y") if f"{name}_zero" in given)
    for name in () if _leaves_zeros(node, given, record) else stored:
        zero = given[f"{name}_zero"]
        meaning = record.tensors.get(tensors[name].name)
        if meaning is None:
            continue
        expected = meaning.zero
        if name == "y" or node.op == "IntLayerNorm":  # the rest is in a bias, or taken away
            expected = np.array(meaning.zero_point, meaning.dtype)
        if zero.dtype != expected.dtype or (zero != expected).any():
            return f"{name}_zero is {zero}, the zero point of its tensor {expected}"
    if "y_min" not in given:  # a table has its codes
        ends = given["f_table"].min(), given["f_table"].max()
        return beyond(node, record, *map(int, ends))
    return beyond(node, record, int(given["y_min"]), int(given["y_max"]))


def _leaves_zeros(node: Node, given: Constants, record: Record) -> bool:
    """Whether a mean leaves the zero point in what it reads and writes, which is the same.

    That adds one number to all codes, as int8 ones, and to their mean; padding must not count.
    A mean with weights, an interpolation, has to be divided by what these add up to.
    """
    is_mixed = node.op == "IntResize"
    divides = node.attrs.get("mean") == DIVIDES or node.op == "IntCountedAveragePool"
    pads, uncounted = (node.attrs.get(name) for name in ("pads", "uncounted_pads"))
    x, y = (record.tensors.get(t.name) for t in (node.inputs[0], node.outputs[0]))
    if not (divides or is_mixed) or pads != uncounted or x is None or x != y:
        return False
    weights = record.nodes[node.name].cells if is_mixed else 1
    multiplier, shift = (given[name].astype(np.int64) for name in ("multiplier", "shift"))
    is_one = bool((multiplier * weights == np.left_shift(1, shift)).all())
    return is_one and int(given["x_zero"]) == int(given["y_zero"]) == middle_code(x.dtype, 8)


def beyond(node: Node, record: Record, lowest: int, highest: int) -> str:
    """What is wrong with a node that gives the codes ``lowest`` to ``highest``, or nothing."""
    meaning = record.tensors.get(node.outputs[0].name)
    if meaning is None or meaning.limits[0] <= lowest <= highest <= meaning.limits[1]:
        return ""
    low, high = meaning.limits
    return f"gives codes from {lowest} to {highest}, those of its tensor are {low} to {high}"
