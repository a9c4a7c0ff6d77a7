"""LSTM kernels: which recurrent nodes a target that has one takes, and why no others."""

from opsets.lstm_forms import KERNEL_ROUNDING, NEAREST
from opsets.target import Target
from qpasses.ir.graph import Node
from qpasses.ir.patterns import real_value_of
from qpasses.ir.recurrent_nodes import DEFAULTS, LENS, P, activations_of, given_inputs
from qpasses.lowering.numbers.recurrent_numbers import takes_recurrent


def has_kernel(node: Node, target: Target) -> bool:
    """Whether the node becomes what a kernel of the target computes, if it can."""
    return node.op == "LSTM" and target.lstm != NEAREST


def recurrent_objection(node: Node, target: Target) -> str:
    """Why a recurrent node stays in float with this target, or nothing."""
    reason = "has no form of recurrent nets"
    if has_kernel(node, target) and target.rounding != KERNEL_ROUNDING:
        reason = f"rounds {target.rounding}, its kernel of LSTM {KERNEL_ROUNDING}"
    elif has_kernel(node, target):
        reason = _what_no_kernel_has(node)
    elif takes_recurrent(target):
        return ""
    elif target.lstm != NEAREST:
        reason = "has a kernel of LSTM, of no other recurrent net"
    return f"{node.op}: target {target.name!r} {reason}" if reason else ""


def _what_no_kernel_has(node: Node) -> str:
    (functions,) = activations_of(node)
    if tuple(functions.names) != DEFAULTS["LSTM"]:
        return f"has no kernel with {', '.join(functions.names)}"
    if "clip" in node.attrs:
        return "has no kernel that clips sums of gates"
    if not given_inputs(node)[LENS].is_empty():
        return "has no kernel with lengths of sequences"
    holes = node.inputs[P] if len(node.inputs) > P else None
    values = None if holes is None or holes.is_empty() else real_value_of(holes)
    if values is not None and values.any():
        return "has no kernel with peepholes"
    return ""
