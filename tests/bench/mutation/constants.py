"""Faults in the numbers of a graph: multipliers, shifts, tables, weights and the like."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from opsets.op import DOMAIN
from opsets.qpasses_v1 import OPS
from tests.bench.mutation.fault import Fault, Model, one_of

KINDS_OF_INPUTS = {
    "multiplier": (
        *("multiplier", "a_multiplier", "b_multiplier", "y_multiplier", "slope_multiplier"),
        "slope_codes",
    ),
    "shift": ("shift", "slope_shift", "left_shift", "a_shift", "b_shift", "y_shift"),
    "zero point": ("x_zero", "w_zero", "a_zero", "b_zero", "y_zero", "zero_point"),
    "clamp": ("y_min", "y_max", "min", "max"),
    "table": ("table", "tables"),
    "weight": ("w",),
    "bias": ("bias",),
    "scale": ("scale",),
    "index": ("index",),
}
"""By kind of fault: what the inputs of nodes are called that it changes."""

STANDARD = {
    "QuantizeLinear": ("x", "scale", "zero_point"),
    "DequantizeLinear": ("x", "scale", "zero_point"),
    "Clip": ("x", "min", "max"),
}
"""Inputs of standard ops; those of others are indices, sizes, axes."""


def change_constant(kind: str, model: Model, rng: np.random.Generator) -> Fault | None:
    """Change one element of one constant of ``kind``, where it stands: all readers see it."""
    found = one_of(list(_places(kind, model)), rng)
    if found is None:
        return None
    node, called, tensor = found
    values = numpy_helper.to_array(tensor).copy()
    flat = values.reshape(-1)
    at = int(rng.integers(flat.size))
    old = flat[at].copy()
    flat[at] = _other(old, rng)
    tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    return Fault(kind, node.name, f"{called} {tensor.name!r} [{at}]", str(old), str(flat[at]))


def _places(kind: str, model: Model) -> Iterator[tuple[onnx.NodeProto, str, onnx.TensorProto]]:
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        named = (
            OPS[node.op_type].inputs if node.domain == DOMAIN else STANDARD.get(node.op_type)
        )
        for position, name in enumerate(node.input):
            called = "index" if named is None else list(named)[position]
            tensor = constants.get(name)
            if called in KINDS_OF_INPUTS[kind] and tensor is not None and all(tensor.dims):
                yield node, called, tensor


def _other(old: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
    """Another value of the type of ``old``: a bit flipped, its neighbour, an end or any."""
    if old.dtype.kind == "b":
        return ~old
    if old.dtype.kind == "f":
        factor = rng.choice([0.0, -1.0, 0.5, 2.0, 1 + 1e-6, 1e-30])
        changed = np.asarray(old * factor, old.dtype)
        return changed if changed != old else np.nextafter(old, np.inf, dtype=old.dtype)
    limits, number = np.iinfo(old.dtype), int(old)
    bit = 1 << int(rng.integers(limits.bits - (limits.min < 0)))
    anything = int(rng.integers(limits.min, limits.max, endpoint=True))
    near, ends = [number - 1, number + 1], [limits.min, limits.max, 0]
    wanted = [*near, *near, number ^ bit, number ^ bit, anything, *ends]
    fitting = [each for each in wanted if limits.min <= each <= limits.max and each != number]
    return np.array(fitting[rng.integers(len(fitting))], old.dtype)
