"""Values of tensors that depend on constants alone."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import NodeProto, helper, numpy_helper

Value = Callable[[str], NDArray[Any] | None]

_NUMBERS: Mapping[str, type[Any]] = {
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
}

_COMPUTED = frozenset(
    {
        *("Abs", "Add", "Cast", "Ceil", "Clip", "Concat", "ConstantOfShape", "Div", "Exp"),
        *("Expand", "Flatten", "Floor", "Gather", "Identity", "Log", "Max", "Min", "Mul"),
        *("Neg", "Pow", "Reciprocal", "Reshape", "Round", "Shape", "Slice", "Sqrt"),
        *("Squeeze", "Sub", "Transpose", "Unsqueeze"),
    }
)
"""Ops that exporters leave between constants."""


def is_computed(node: NodeProto) -> bool:
    """Whether it is one of them, or a Constant."""
    return not node.domain and (node.op_type == "Constant" or node.op_type in _COMPUTED)


def computed(node: NodeProto, value: Value, opset: int) -> NDArray[Any] | None:
    """What a node for which ``is_computed`` holds writes; None where an input has no value."""
    if node.op_type == "Constant":
        return _constant(node)
    inputs = {name: value(name) for name in node.input if name}
    if any(each is None for each in inputs.values()):
        return None
    bag = helper.make_graph(
        [node],
        "constants",
        [onnx.ValueInfoProto(name=name) for name in inputs],
        [onnx.ValueInfoProto(name=node.output[0])],
    )
    imports = [helper.make_opsetid("", opset)]
    from onnx.reference import ReferenceEvaluator  # takes its time

    evaluator = ReferenceEvaluator(helper.make_model(bag, opset_imports=imports))
    results: Any = evaluator.run(None, inputs)
    return np.asarray(results[0])


def _constant(node: NodeProto) -> NDArray[Any] | None:
    given = node.attribute[0]
    if given.name == "value":
        return numpy_helper.to_array(given.t)
    kind = _NUMBERS.get(given.name)
    return None if kind is None else np.array(helper.get_attribute_value(given), kind)
