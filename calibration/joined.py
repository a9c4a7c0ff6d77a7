"""Tensors that hold the very values of others, which need not be counted twice."""

from collections.abc import Sequence

import onnx

_MOVING = frozenset(
    {"Concat", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}
)
"""Ops whose output holds each value of their data input (of all inputs: Concat) once."""


def joined(model: onnx.ModelProto, tensors: Sequence[str]) -> dict[str, list[str]]:
    """Those of ``tensors`` that consist of others of them, and of which.

    The others stand for themselves: none is a key. One is listed twice if its values are there
    twice.
    """
    wanted, found = set(tensors), dict[str, list[str]]()
    for node in model.graph.node:
        if node.op_type not in _MOVING or node.domain or node.output[0] not in wanted:
            continue
        parts = node.input if node.op_type == "Concat" else node.input[:1]
        if wanted.issuperset(parts):
            found[node.output[0]] = [own for part in parts for own in found.get(part, [part])]
    return found
