"""Faults in an original that is quantized already: the scales and integers that it gives."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from tests.bench.mutation.fault import Fault, Model, one_of

FACTORS = (0.5, 1.01, 1.37, 2.0)


def change_scale(model: Model, rng: np.random.Generator) -> Fault | None:
    """One tensor is stored at another scale."""
    found = one_of(list(_stored(model)), rng)
    if found is None:
        return None
    node, *readers = found
    old = _value(model, node.input[1])
    new = (old * rng.choice(FACTORS)).astype(old.dtype)
    name = _add(model, "scale", new)
    for each in (node, *readers):
        each.input[1] = name
    return Fault("kept scale", node.name, node.input[0], str(old), str(new))


def swap_scales(model: Model, rng: np.random.Generator) -> Fault | None:
    """Two tensors are stored as each other is."""
    stored = list(_stored(model))
    pairs = [
        (one, other)
        for place, one in enumerate(stored)
        for other in stored[:place]
        if _kind(model, one[0]) == _kind(model, other[0])
        and (_scale(model, one) != _scale(model, other)).any()
    ]
    found = one_of(pairs, rng)
    if found is None:
        return None
    one, other = found
    ways = [[_value(model, name) for name in nodes[0].input[1:]] for nodes in found]
    for nodes, way in ((one, ways[1]), (other, ways[0])):
        names = [_add(model, f"{nodes[0].name}_{k}", value) for k, value in enumerate(way)]
        for each in nodes:
            del each.input[1:]
            each.input.extend(names)
    return Fault("kept scales swapped", one[0].input[0], "", other[0].input[0], str(ways))


def change_weights(model: Model, rng: np.random.Generator) -> Fault | None:
    """A constant is stored as the integers nearest to it at another scale."""
    fixed = {tensor.name: tensor for tensor in model.graph.initializer}
    nodes = [
        node
        for node in model.graph.node
        if node.op_type == "DequantizeLinear"
        and node.input[0] in fixed
        and numpy_helper.to_array(fixed[node.input[0]]).dtype.itemsize == 1
    ]
    node = one_of(nodes, rng)
    if node is None:
        return None
    codes, scale = (_value(model, name) for name in node.input[:2])
    factor = rng.choice(FACTORS)
    zero = _value(model, node.input[2]) if len(node.input) > 2 else np.zeros((), codes.dtype)
    if zero.any():
        return None
    ends = np.iinfo(codes.dtype)
    levels = np.clip(np.rint(codes / factor), ends.min, ends.max).astype(codes.dtype)
    node.input[0] = _add(model, "codes", levels)
    node.input[1] = _add(model, "scale", (scale * factor).astype(scale.dtype))
    return Fault("kept weights", node.name, "scale times", "1", str(factor))


def _stored(model: Model) -> Iterator[list[onnx.NodeProto]]:
    """Each QuantizeLinear with the DequantizeLinear nodes behind it."""
    for node in model.graph.node:
        if node.op_type == "QuantizeLinear":
            readers = [each for each in model.graph.node if node.output[0] in each.input]
            yield [node, *(each for each in readers if each.op_type == "DequantizeLinear")]


def _scale(model: Model, stored: Sequence[onnx.NodeProto]) -> NDArray[Any]:
    return _value(model, stored[0].input[1])


def _kind(model: Model, node: onnx.NodeProto) -> tuple[Any, ...]:
    zero = _value(model, node.input[2]).dtype.str if len(node.input) > 2 else ""
    return zero, len(node.input), _value(model, node.input[1]).shape


def _value(model: Model, name: str) -> NDArray[Any]:
    """A constant, behind Identity nodes or not."""
    for tensor in model.graph.initializer:
        if tensor.name == name:
            return numpy_helper.to_array(tensor)
    node = next(each for each in model.graph.node if name in each.output)
    if node.op_type == "Constant":
        return numpy_helper.to_array(node.attribute[0].t)
    return _value(model, node.input[0])


def _add(model: Model, what: str, values: NDArray[Any]) -> str:
    name = f"forged_{what}"
    model.graph.initializer.append(numpy_helper.from_array(values, name))
    return name
