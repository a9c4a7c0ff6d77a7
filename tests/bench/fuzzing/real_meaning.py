"""What a Q/DQ graph means: real arithmetic in float64, rounded where it stores tensors.

Nothing of qpasses computes here: onnx's evaluator runs the float nodes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tests.bench.fuzzing.builder import Arrays
from tests.bench.fuzzing.codes import Array, Stored

Q, DQ = "QuantizeLinear", "DequantizeLinear"

MOVES = {
    *("Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements", "GatherND"),
    *("Identity", "MaxPool", "ReduceMax", "ReduceMin", "Reshape", "Slice", "SpaceToDepth"),
    *("Split", "Squeeze", "Tile", "TopK", "Transpose", "Unsqueeze", "Where", "Relu", "Max"),
    *("Min", "Clip", "Abs", "Neg", "GlobalMaxPool", "Dropout", "Pad"),
}
"""Their results are float32 numbers if what they read is: any machine gives the same."""


class WrongSizeError(Exception):
    """onnx's evaluator gives a result of another size than ONNX says.

    Of onnx 1.23: MaxPool along one axis with more pads behind than before.
    """


@dataclass
class Meaning:
    """``values``: by tensor; ``nearest``: how near, in LSB, a stored number comes to a tie,
    those that float32 gives exactly apart; ``seen``: the numbers of each tensor as a value.
    """

    values: Arrays = field(default_factory=dict)
    nearest: float = 0.5


def meaning(model: onnx.ModelProto, feed: Arrays) -> Meaning:
    """``model`` on ``feed``. Raises whatever onnx's evaluator has for what it lacks."""
    found = Meaning({t.name: numpy_helper.to_array(t) for t in model.graph.initializer})
    found.values |= feed
    version = model.opset_import[0].version
    for node in model.graph.node:
        inputs = [found.values[name] if name else None for name in node.input]
        if node.op_type == Q:
            codes, nearest = _codes(inputs, _how(node, inputs, np.uint8))
            found.nearest = min(found.nearest, nearest)
            found.values[node.output[0]] = codes
        elif node.op_type == DQ:
            wide, how = levels(node, found.values)
            real = wide * how.along(how.scale.astype(np.float64), wide.ndim)
            found.values[node.output[0]] = real
        else:
            found.values |= _computed(node, inputs, version)
    return found


def levels(node: onnx.NodeProto, values: Arrays) -> tuple[Array, Stored]:
    """The integers that a DequantizeLinear reads, without their zero points, and how."""
    inputs = [values[name] if name else None for name in node.input]
    stored = values[node.input[0]]
    how = _how(node, inputs, stored.dtype)
    return stored.astype(np.float64) - how.along(how.zero, stored.ndim), how


def _how(node: onnx.NodeProto, inputs: Sequence[Array | None], dtype: object) -> Stored:
    scale = np.asarray(inputs[1])
    zero = inputs[2] if len(inputs) > 2 else None
    axis = next((each.i for each in node.attribute if each.name == "axis"), 1)
    return Stored(
        scale,
        np.zeros(scale.shape, dtype) if zero is None else zero,  # type: ignore[call-overload]
        axis if scale.size > 1 else None,
    )


def _codes(inputs: Sequence[Array | None], how: Stored) -> tuple[Array, float]:
    """Integers, and how near to a tie; of float32 numbers they are those of float32."""
    real = np.asarray(inputs[0])
    if real.dtype == np.float32:
        return how.codes(real), 0.5
    ends = np.iinfo(how.dtype)
    level = real / how.along(how.scale.astype(np.float64), real.ndim)
    wide = np.rint(level) + how.along(how.zero.astype(np.float64), real.ndim)
    codes = np.clip(wide, ends.min, ends.max)
    inside = (wide >= ends.min) & (wide <= ends.max)
    gap = np.abs(np.abs(level - np.floor(level)) - 0.5)
    noise = np.maximum(1, np.abs(level))  # in float32 it grows with the level
    return codes.astype(how.dtype), float((gap / noise)[inside].min(initial=0.5))


def _computed(node: onnx.NodeProto, inputs: Sequence[Array | None], version: int) -> Arrays:
    is_exact = node.op_type in MOVES
    given = {
        name: value.astype(np.float64) if value.dtype == np.float32 and not is_exact else value
        for name, value in zip(node.input, inputs, strict=True)
        if value is not None
    }
    if is_exact and any(each.dtype == np.float64 for each in given.values()):
        given = {
            name: each.astype(np.float64) if each.dtype == np.float32 else each
            for name, each in given.items()
        }
    graph = helper.make_graph(
        [node],
        "one",
        [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(each.dtype), each.shape
            )
            for name, each in given.items()
        ],
        [onnx.ValueInfoProto(name=name) for name in node.output if name],
    )
    bag = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)])
    results = map(np.asarray, ReferenceEvaluator(bag).run(None, given))
    found = dict(zip(filter(None, node.output), results, strict=True))
    for value in onnx.shape_inference.infer_shapes(bag).graph.output:
        sizes = [each.dim_value for each in value.type.tensor_type.shape.dim]
        if sizes and all(sizes) and sizes != [*found[value.name].shape]:
            raise WrongSizeError(f"{node.op_type}: {found[value.name].shape}, not {sizes}")
    return found
