"""Clips of real numbers at what stored integers stand for."""

import numpy as np
from onnx import NodeProto

from qpasses.load.foreign.draft import Draft, named
from qpasses.load.foreign.quantization import Quantization


def write_clip(
    draft: Draft, x: str, stored: tuple[int, int], meaning: Quantization, origin: NodeProto
) -> str:
    """Write a Clip of ``x`` at the integers ``stored``, named as ``origin``.

    Returns its result, ``x`` where the type of the integers has no others anyway.
    """
    limits = np.iinfo(meaning.zero_point.dtype)
    binding = (stored[0] > limits.min, stored[1] < limits.max)
    if not any(binding):
        return x
    bounds = meaning.real(np.array(stored, np.int32))
    result = draft.fresh(f"{origin.output[0]}_real")
    ends = [
        (name, bound)
        for name, bound, binds in zip(("min", "max"), bounds, binding, strict=True)
        if binds
    ]
    if draft.ledger.version < 11:
        given = named(**{name: float(bound) for name, bound in ends})
        draft.add("Clip", [x], result, origin.name, given)
        return result
    inputs = {
        name: draft.constant(f"{result}_{name}", np.asarray(bound)) for name, bound in ends
    }
    draft.add(
        "Clip", [x, *(inputs.get(end, "") for end in ("min", "max"))], result, origin.name
    )
    return result
