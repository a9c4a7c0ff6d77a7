"""Which models treat each row of a batch by itself, so that samples can be joined."""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import onnx
from numpy.typing import NDArray
from onnx import NodeProto, helper

from calibration.held_weights import values_of

_UNARY = frozenset(
    {
        "Abs",
        "Cast",
        "Ceil",
        "Celu",
        "Clip",
        "Cos",
        "Elu",
        "Erf",
        "Exp",
        "Floor",
        "Gelu",
        "HardSigmoid",
        "HardSwish",
        "Identity",
        "LeakyRelu",
        "Log",
        "Mish",
        "Neg",
        "Reciprocal",
        "Relu",
        "Round",
        "Selu",
        "Sigmoid",
        "Sign",
        "Sin",
        "Softplus",
        "Softsign",
        "Sqrt",
        "Tanh",
        "ThresholdedRelu",
    }
)
_SPATIAL = frozenset(
    {
        "AveragePool",
        "BatchNormalization",
        "Conv",
        "ConvTranspose",
        "DepthToSpace",
        "GlobalAveragePool",
        "GlobalMaxPool",
        "InstanceNormalization",
        "LRN",
        "MaxPool",
        "SpaceToDepth",
    }
)
"""Ops that work within each image; all but the first input are constants."""

_PAIRWISE = frozenset({"Add", "Div", "Max", "Min", "Mul", "Pow", "PRelu", "Sub", "Sum"})

_REDUCTIONS = frozenset(
    {"ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum"}
)


class _Facts:
    """What is known of a model's tensors: values of constants, ranks and sizes."""

    def __init__(self, model: onnx.ModelProto) -> None:
        graph = model.graph
        self.constants = {tensor.name: tensor for tensor in graph.initializer}
        ends = [*graph.input, *graph.value_info, *graph.output]
        self.sizes = {
            value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
            for value in ends
            if value.type.tensor_type.HasField("shape")
        }

    def ints(self, node: NodeProto, index: int) -> list[int] | None:
        """The values of a small constant that ``node`` reads; None for anything else."""
        name = node.input[index] if index < len(node.input) else ""
        tensor = self.constants.get(name)
        if tensor is None:
            return None
        values: NDArray[Any] = values_of(tensor)
        return [int(value) for value in values.ravel()]

    def has_no_rows(self, name: str, like: str) -> bool:
        """Whether a constant is the same for each row of the tensor ``like``."""
        dims, sizes = self.constants[name].dims, self.sizes.get(like)
        if sizes is None or len(dims) > len(sizes):  # more axes than rows have move theirs
            return len(dims) <= 1 and prod(dims) == 1
        return len(dims) < len(sizes) or list(dims[:1]) == [1]  # a scalar has no rows to keep


def is_rowwise(model: onnx.ModelProto) -> bool:
    """Whether every node of ``model`` is known to treat the rows of axis 0 by themselves.

    The inputs have the samples along axis 0. What is not known counts as no.
    """
    facts = _Facts(model)
    rows = {value.name for value in model.graph.input if value.name not in facts.constants}
    for node in model.graph.node:
        if node.domain not in ("", "ai.onnx") or not _keeps_rows(node, facts, rows):
            return False
        rows.update(node.output)
    return True


def _keeps_rows(node: NodeProto, facts: _Facts, rows: set[str]) -> bool:
    """Whether ``node`` reads tensors with rows and constants, and keeps the rows apart."""
    read = [name for name in node.input if name]
    varying = [name for name in read if name in rows]
    if not varying or any(name not in rows and name not in facts.constants for name in read):
        return False
    # indices of MaxPool count through the batch; BatchNormalization may take its statistics
    if sum(map(bool, node.output)) > 1 or _attribute(node, "training_mode", 0):
        return False
    if node.op_type in _PAIRWISE:
        ranks = {len(facts.sizes.get(name, ())) for name in varying}
        alike = len(set(varying)) == 1 or (len(ranks) == 1 and 0 not in ranks)
        still = [name for name in read if name not in rows]
        return alike and all(facts.has_no_rows(c, varying[0]) for c in still)
    if node.op_type == "Concat":
        axis = _axis(node, facts, varying[0], 0)
        return varying == read and axis != 0
    if varying != read[:1]:
        return False
    if node.op_type in _UNARY | _SPATIAL:
        return True
    rule = _RULES.get(node.op_type)
    return rule is not None and rule(node, facts)


def _axis(node: NodeProto, facts: _Facts, name: str, default: int) -> int:
    """The attribute ``axis``, from the front; 0 where that cannot be told."""
    axis = _attribute(node, "axis", default)
    return axis if axis >= 0 else _from_front([axis], facts, name)[0]


def _from_front(axes: Sequence[int], facts: _Facts, name: str) -> list[int]:
    rank = len(facts.sizes.get(name, ()))
    return [axis if axis >= 0 else max(axis + rank, 0) for axis in axes]


def _attribute(node: NodeProto, name: str, default: Any) -> Any:
    found = [a for a in node.attribute if a.name == name]
    return helper.get_attribute_value(found[0]) if found else default


def _axes_input(node: NodeProto, facts: _Facts, index: int) -> list[int]:
    """Constant axes from an input or the attribute; [0] where there are none."""
    given = _attribute(node, "axes", None)
    if given is None:
        given = facts.ints(node, index)
    return [0] if not given else _from_front(given, facts, node.input[0])


def _reshape(node: NodeProto, facts: _Facts) -> bool:
    shape, sizes = facts.ints(node, 1), facts.sizes.get(node.input[0])
    if not shape or _attribute(node, "allowzero", 0):
        return False
    if shape[0] == 0:
        return True
    inside = sizes is not None and all(sizes[1:]) and all(size > 0 for size in shape[1:])
    return shape[0] == -1 and inside and prod(shape[1:]) == prod((sizes or [])[1:])


def _pad(node: NodeProto, facts: _Facts) -> bool:
    pads = facts.ints(node, 1)
    if not pads or (len(node.input) > 3 and node.input[3]):
        return False
    return pads[0] == 0 and pads[len(pads) // 2] == 0


_RULES: Mapping[str, Callable[[NodeProto, _Facts], bool]] = {
    "Flatten": lambda node, _: _attribute(node, "axis", 1) == 1,
    "Gemm": lambda node, facts: (
        not _attribute(node, "transA", 0)
        and all(facts.has_no_rows(bias, node.input[0]) for bias in node.input[2:] if bias)
    ),
    "LogSoftmax": lambda node, facts: _axis(node, facts, node.input[0], -1) != 0,
    "MatMul": lambda node, facts: (
        len(facts.constants[node.input[1]].dims) == 2
        and len(facts.sizes.get(node.input[0], ())) > 1
    ),
    "Pad": _pad,
    "Reshape": _reshape,
    "Slice": lambda node, facts: len(node.input) > 3 and 0 not in _axes_input(node, facts, 3),
    "Softmax": lambda node, facts: _axis(node, facts, node.input[0], -1) != 0,
    "Squeeze": lambda node, facts: 0 not in _axes_input(node, facts, 1),
    "Transpose": lambda node, _: _attribute(node, "perm", [1])[0] == 0,
    "Unsqueeze": lambda node, facts: min(facts.ints(node, 1) or [0]) > 0,
    **{op: lambda node, facts: 0 not in _axes_input(node, facts, 1) for op in _REDUCTIONS},
}
"""For each other op whether one node of it keeps the rows apart."""
