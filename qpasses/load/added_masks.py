"""Added masks: inputs whose minus infinity drops scores, where any low number is as good."""

from collections.abc import Collection, Mapping, Sequence

import onnx

_MOVING = frozenset(
    {"Cast", "Expand", "Flatten", "Identity", "Reshape", "Slice", "Squeeze", "Tile"}
    | {"Transpose", "Unsqueeze"}
)
"""Ops that move the values of their first input."""

Readers = Mapping[str, Sequence[tuple[onnx.NodeProto, int]]]
"""By tensor, who reads it, and as which input."""


def added_masks(model: onnx.ModelProto) -> frozenset[str]:
    """The float inputs of ``model`` that are added to what Softmax nodes read, and no more."""
    readers: dict[str, list[tuple[onnx.NodeProto, int]]] = {}
    for node in model.graph.node:
        for place, name in enumerate(node.input):
            readers.setdefault(name, []).append((node, place))
        if any(each.HasField("g") for each in node.attribute):
            return frozenset()  # bodies read what they like
    if not any(node.op_type == "Softmax" for node in model.graph.node):
        return frozenset()
    ends = {value.name for value in model.graph.output}
    return frozenset(
        value.name
        for value in model.graph.input
        if value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT
        and _reaches(value.name, readers, ends, ("Add", "Softmax"))
    )


def _reaches(name: str, readers: Readers, ends: Collection[str], ops: Sequence[str]) -> bool:
    """Whether all that read ``name``, moved or not, are the first of ``ops``, and so on."""
    waiting, seen = [name], {name}
    while waiting:
        each = waiting.pop()
        if each in ends or not readers.get(each):
            return False
        for node, place in readers[each]:
            result = node.output[0]
            if node.op_type == ops[0]:
                if ops[1:] and not _reaches(result, readers, ends, ops[1:]):
                    return False
            elif node.op_type not in _MOVING or place > 0:
                return False
            elif result not in seen:
                seen.add(result)
                waiting.append(result)
    return True
