"""Recorded functions: whether they are the float nodes they are said to be."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from qpasses.checking.meaning import DifferenceError, Site, is_standard, same
from qpasses.ir.function import Function
from qpasses.ir.graph import Node, Tensor, constant
from qpasses.ir.shapes import keeps_shape

POINTWISE = frozenset(
    {
        *("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Celu", "Clip"),
        *("Cos", "Cosh", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish"),
        *("LeakyRelu", "Log", "Mish", "Neg", "Reciprocal", "Relu", "Round", "Selu", "Shrink"),
        *("Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh"),
        *("ThresholdedRelu", "Add", "Div", "Max", "Mean", "Min", "Mod", "Mul", "PRelu", "Pow"),
        *("Sub", "Sum"),
    }
)
"""Standard ops whose every result is made of the numbers at its own place."""


def recorded_function(site: Site, sources: Sequence[Tensor]) -> Function:
    """The recorded function, if it is ``site.chain`` of ``sources``, else DifferenceError."""
    function = Function.from_text(site.entry.function)
    for problem in _unlike_nodes(function.model.graph, site.chain, sources):
        raise DifferenceError(f"its recorded function is not the float nodes: {problem}")
    opsets = [each.version for each in function.model.opset_import if not each.domain]
    if opsets != [site.pair.real.opset]:
        raise DifferenceError(f"its recorded function is of opset {opsets}")
    return function


def _unlike_nodes(
    graph: onnx.GraphProto, chain: Sequence[Node], sources: Sequence[Tensor]
) -> Iterator[str]:
    numbers = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    ends = [(graph.node, chain), (graph.input, sources), (graph.output, [None])]
    if any(len(ours) != len(theirs) for ours, theirs in ends):
        yield "their number differs"
        return
    for node in chain:
        if node.op not in POINTWISE or not is_standard(node):
            yield f"{node.op} {node.name!r} looks at more than one number"
        others = [t for t in node.inputs if not any(t is each for each in sources)]
        values = [value for value in map(constant, others) if value is not None]
        if not all(keeps_shape(each.shape, value) for each in sources for value in values):
            yield f"a constant of {node.name!r} changes the shape"
    known = dict(zip((value.name for value in graph.input), sources, strict=True))
    for ours, theirs in zip(graph.node, chain, strict=True):
        if (ours.op_type, ours.domain) != (theirs.op, theirs.domain or ""):
            yield f"{theirs.name!r} is {theirs.op}, not {ours.op_type}"
        attributes = {each.name: helper.get_attribute_value(each) for each in ours.attribute}
        if not _same_attributes(attributes, theirs.attrs):
            yield f"{theirs.name!r} has other attributes"
        if (len(ours.input), len(ours.output)) != (len(theirs.inputs), 1):
            yield f"{theirs.name!r} has {len(theirs.inputs)} inputs"
            return
        for name, tensor in zip(ours.input, theirs.inputs, strict=True):
            if not _is_same(name, tensor, known, numbers):
                yield f"{theirs.name!r} reads {tensor.name!r}"
        known[ours.output[0]] = theirs.outputs[0]
    if known.get(graph.output[0].name) is not chain[-1].outputs[0]:
        yield f"it does not end in {chain[-1].name!r}"


def _same_attributes(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    texts = {k: v.decode() if isinstance(v, bytes) else v for k, v in ours.items()}
    return texts.keys() == theirs.keys() and all(same(texts[k], theirs[k]) for k in texts)


def _is_same(
    name: str, tensor: Tensor, known: Mapping[str, Tensor], numbers: Mapping[str, Any]
) -> bool:
    value = constant(tensor)
    if value is None or name in known:
        return (name == "" and tensor.is_empty()) or known.get(name) is tensor
    found = numbers.get(name)
    form = () if value.size == 1 else (-1, 1)
    return found is not None and same(found, np.reshape(value, form))
