"""Integers of 4 and 2 bits, in 8: the values stay, a Clip says the bounds of what is written.

before:  QuantizeLinear to int4 -> DequantizeLinear
after:   QuantizeLinear to int8 -> Clip -> DequantizeLinear
"""

from collections.abc import Mapping

import numpy as np
from onnx import NodeProto, TensorProto

from qpasses.load.foreign.draft import Draft, Left
from qpasses.load.foreign.node_parts import Q, attribute
from qpasses.load.foreign.quantization import UNPACKED, Quantization

_BOUNDS: Mapping[int, tuple[int, int]] = {
    TensorProto.INT4: (-8, 7),
    TensorProto.UINT4: (0, 15),
    TensorProto.INT2: (-2, 1),
    TensorProto.UINT2: (0, 3),
}


def unpack(draft: Draft) -> None:
    """One pass: no tensor has fewer than 8 bits, unless one goes in or comes out."""
    kinds = {name: draft.elem_type(name) for name in draft.tensors()}
    few = {name: kind for name, kind in kinds.items() if kind in UNPACKED}
    if few.keys() & {value.name for value in (*draft.graph.input, *draft.graph.output)}:
        few = {}
    draft.forget_types(few)
    for name, kind in few.items():
        value = draft.value(name) if draft.is_constant(name) else None
        if value is not None:
            draft.replace(name, value.astype(UNPACKED[kind]))
            draft.changed = True

    def quantize(draft: Draft, node: NodeProto) -> Left | None:
        return _clipped(draft, node, few.get(node.output[0], TensorProto.UNDEFINED))

    def constant(_draft: Draft, node: NodeProto) -> Left | None:
        return None if node.output[0] in few else Left()

    draft.apply({("", Q): quantize, ("", "Constant"): constant})


def _clipped(draft: Draft, node: NodeProto, kind: int) -> Left | None:
    """QuantizeLinear to 8 bits with a Clip behind it."""
    if kind not in UNPACKED:
        return Left()
    given = draft.quantization(node, None, axis=int(attribute(node, "axis", 1)))
    zero = given.zero_point.astype(UNPACKED[kind])
    wide = draft.fresh(f"{node.output[0]}_wide")
    draft.store(node.input[0], wide, Quantization(given.scale, zero, given.axis), node.name)
    bounds = [draft.constant("bound", np.array(each, zero.dtype)) for each in _BOUNDS[kind]]
    name = draft.fresh(f"{node.name or wide}/Clip")
    draft.add("Clip", [wide, *bounds], node.output[0], name)
    return None
