"""How ranges spread from tensor to tensor, one function for each rule of TPU-MLIR.

A rule gets a view of the graph and a node of its op, and says whether it changed a range. All
conditions are those of TPU-MLIR lib/Conversion/TopToTpu/ConvertTopToTpu.cpp.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from calibration import Range
from qpasses.ir.graph import Graph, Node, Tensor, constant, is_graph_output, producer
from qpasses.ir.moving import moves
from qpasses.prepare.recognition.masks import DROPPING

BELOW_ZERO = -0.1
"""Times the maximum: the minimum of what must have a sign."""

OPS = {
    "AveragePool": "AvgPool",
    "DepthToSpace": "Depth2Space",
    "Equal": "Compare",
    "Expand": "Tile",
    "Flatten": "Reshape",
    "GlobalAveragePool": "AvgPool",
    "GlobalMaxPool": "MaxPool",
    "Greater": "Compare",
    "GreaterOrEqual": "Compare",
    "Less": "Compare",
    "LessOrEqual": "Compare",
    "SpaceToDepth": "Depth2Space",
    "Split": "Slice",
    "Transpose": "Permute",
}
"""ONNX's ops that are called otherwise; Resize that only picks is an Upsample."""

WITH_CONSTANT = frozenset({"Add", "Max", "Min", "Mul", "Sub"})
"""Ops that are called AddConst and so on where one of two inputs is a number."""


@dataclass(frozen=True)
class View:
    """A float graph and the ranges that rules change; other tensors have none."""

    graph: Graph
    ranges: dict[str, Range]

    def of(self, *tensors: Tensor) -> list[Range]:
        """The ranges of ``tensors``; none at all if one has none."""
        found = [self.ranges.get(tensor.name) for tensor in tensors]
        known = [each for each in found if each is not None]
        return known if len(known) == len(found) else []

    def set(self, tensor: Tensor, real: Range) -> bool:
        """Give ``tensor`` a range; whether it had another one."""
        changed = self.ranges.get(tensor.name) != real
        self.ranges[tensor.name] = real
        return changed

    def set_all(self, tensors: Sequence[Tensor], real: Range) -> bool:
        """Give all of ``tensors`` a range; whether one had another."""
        changed = [self.set(tensor, real) for tensor in tensors]
        return any(changed)

    def uses(self, tensor: Tensor) -> int:
        """How often it is read, as an output of the graph too."""
        return len(tensor.outputs) + is_graph_output(self.graph, tensor)


def called(node: Node) -> str:
    """What TPU-MLIR calls the op of ``node``."""
    if node.op in WITH_CONSTANT and _number(node) is not None:
        return f"{node.op}Const"
    if node.op == "Where" and sum(_value(each) is not None for each in node.inputs[1:]) == 1:
        return "MaskedFill"
    if node.op in ("Resize", "Upsample") and (node.op == "Upsample" or moves(node)):
        return "Upsample"
    return OPS.get(node.op, str(node.op))


def forward(view: View, node: Node) -> bool:
    """What a node writes takes the range of its first input that is not constant."""
    real = view.of(*[each for each in node.inputs if constant(each) is None][:1])
    changed = [_give(view, end, real[0]) for end in _known(view, node.outputs) if real]
    return any(changed)


def backward(view: View, node: Node) -> bool:
    """The first input, if nothing else reads it, takes the range of the output."""
    given, real = node.inputs[0], view.of(node.inputs[0], node.outputs[0])
    return bool(real) and view.uses(given) == 1 and _give_back(view, given, real[1])


def backward_maximum(view: View, node: Node) -> bool:
    """``backward``, but the input keeps its minimum."""
    given, real = node.inputs[0], view.of(node.inputs[0], node.outputs[0])
    if not real or view.uses(given) != 1 or real[0].high == real[1].high:
        return False
    return _give_back(view, given, Range(real[0].low, real[1].high))


def keep_sign(view: View, node: Node) -> bool:
    """What a node writes has a sign exactly if its first input has one."""
    real = view.of(node.inputs[0], node.outputs[0])
    return bool(real) and _give_sign(view, node.outputs[0], real[0].low < 0, _SIGNED_ON)


def keep_sum_sign(view: View, node: Node) -> bool:
    """What an Add writes has a sign exactly if one of its terms has one."""
    terms, total = _operands(view, node), view.of(node.outputs[0])
    if not terms or not total:
        return False
    signed = any(each.low < 0 or each.high < 0 for each in terms)
    return _give_sign(view, node.outputs[0], signed, _SAME_VALUES)


def keep_difference_sign(view: View, node: Node) -> bool:
    """What remains of a tensor without a sign, less a number, has one."""
    real = view.of(*(each for each in node.inputs if _value(each) is None), node.outputs[0])
    return (
        bool(real)
        and real[0].low >= 0
        and _give_sign(view, node.outputs[0], True, _SAME_VALUES)
    )


def difference_has_a_sign(view: View, node: Node) -> bool:
    """What a Sub writes has a sign."""
    real = view.of(node.outputs[0])
    return bool(real) and _give_sign(view, node.outputs[0], True, _SAME_VALUES)


def keep_product_sign(view: View, node: Node) -> bool:
    """The product of two tensors that have a sign has one."""
    real = view.of(*node.inputs, node.outputs[0])
    signed = bool(real) and all(each.low < 0 for each in real[:2])
    return signed and _give_sign(view, node.outputs[0], True, _SAME_VALUES)


def joined(view: View, node: Node) -> bool:
    """All inputs take the range of the output; it takes theirs if they agree.

    Not if anything but the node and MaxPools reads one of them, nor, of a Concat, if some
    have a sign and others have none.
    """
    real, output = view.of(*node.inputs), view.of(node.outputs[0])
    if not real or not output or not all(_is_ready(view, node, t) for t in node.inputs):
        return False
    if node.op == "Concat" and len({each.low >= 0 for each in real}) > 1:
        return False
    if len(set(real)) == 1:
        return view.set(node.outputs[0], real[0])
    changed = [_give_back(view, tensor, output[0]) for tensor in node.inputs]
    return any(changed)


def sum_of_products(view: View, node: Node) -> bool:
    """The terms of an Add, if all are products that nothing else reads, take its range."""
    real, total = view.of(*node.inputs), view.of(node.outputs[0])
    writers = [producer(each) for each in node.inputs]
    products = all(each is not None and called(each) == "Mul" for each in writers)
    if not real or not total or not products or any(view.uses(t) != 1 for t in node.inputs):
        return False
    return view.set_all(node.inputs, total[0])


def compared(view: View, node: Node) -> bool:
    """Both sides of a comparison take the union of their ranges."""
    real = view.of(*node.inputs)
    return bool(real) and view.set_all(node.inputs, real[0].union(real[1]))


def where(view: View, node: Node) -> bool:
    """Both tensors that a Where selects from take the range of its output."""
    chosen, real = node.inputs[1:], view.of(*node.inputs[1:], node.outputs[0])
    return bool(real) and view.set_all(chosen, real[-1])


def masked_fill(view: View, node: Node) -> bool:
    """The output widens to the number it is filled with; if it holds it, the input follows.

    Unlike TPU-MLIR's, it keeps its range where the number drops scores, and the input follows.
    """
    (filled,) = [each for each in node.inputs[1:] if _value(each) is None]
    number = next(v for each in node.inputs[1:] if (v := _value(each)) is not None)
    real = view.of(filled, node.outputs[0])
    if not real or view.uses(filled) != 1:
        return False
    if real[1].high >= abs(number) or number <= DROPPING:
        return view.set(filled, real[1])
    signed = number < 0 or real[1].low < 0
    view.set(node.outputs[0], Range(BELOW_ZERO * abs(number) * signed, abs(number)))
    return False  # the input follows when the stage comes again


def forward_multiple(view: View, node: Node) -> bool:
    """The range of the tensor times the number; as it is where that is zero."""
    number = _number(node)
    real = view.of(*(each for each in node.inputs if _value(each) is None), node.outputs[0])
    if not real or number is None:
        return False
    ends = [real[0].low * (number or 1.0), real[0].high * (number or 1.0)]
    return _give(view, node.outputs[0], Range(min(ends), max(ends)))


_SAME_VALUES = frozenset({"Reshape", "Permute"})
_SIGNED_ON = _SAME_VALUES | {"AvgPool", "MaxPool", "Abs"}
_FROM = _SAME_VALUES | {"Depth2Space"}


def _give_sign(view: View, tensor: Tensor, signed: bool, ops: frozenset[str]) -> bool:
    """Let ``tensor`` reach below zero exactly if ``signed``, and what ``ops`` make of it."""
    (real,) = view.of(tensor)
    if signed == (real.low < 0):
        return False
    return _give(
        view, tensor, Range(BELOW_ZERO * real.high if signed else 0.0, real.high), ops
    )


def _give(view: View, tensor: Tensor, real: Range, ops: frozenset[str] = _SAME_VALUES) -> bool:
    """Give ``tensor`` a range, and, if it had another, what ``ops`` make of it: one step."""
    if not view.set(tensor, real):
        return False
    for reader in [each for each in tensor.outputs if called(each) in ops]:
        for end in _known(view, reader.outputs):
            view.set(end, real)
    return True


def _give_back(view: View, tensor: Tensor, real: Range) -> bool:
    """Give ``tensor`` a range, and, if it had another, what it is reshaped from: one step."""
    if not view.set(tensor, real):
        return False
    writer = producer(tensor)
    if writer is not None and called(writer) in _FROM and view.of(writer.inputs[0]):
        view.set(writer.inputs[0], real)
    return True


def _is_ready(view: View, node: Node, tensor: Tensor) -> bool:
    """Whether nothing but ``node`` and MaxPools, or one node alone, reads ``tensor``."""
    others = [each for each in tensor.outputs if each is not node]
    pools = all(called(each) == "MaxPool" for each in others)
    return view.uses(tensor) == 1 or (pools and not is_graph_output(view.graph, tensor))


def _known(view: View, tensors: Sequence[Tensor]) -> list[Tensor]:
    return [tensor for tensor in tensors if tensor.name in view.ranges]


def _operands(view: View, node: Node) -> list[Range]:
    """The ranges of all inputs, numbers too; none at all if one has none."""
    found = [
        view.of(each) if (value := _value(each)) is None else [Range(value, value)]
        for each in node.inputs
    ]
    return [real for each in found for real in each] if all(found) else []


def _number(node: Node) -> float | None:
    """The constant of an op of a tensor and one number."""
    values = [value for each in node.inputs if (value := _value(each)) is not None]
    return values[0] if len(node.inputs) == 2 and len(values) == 1 else None


def _value(tensor: Tensor) -> float | None:
    """The number that ``tensor`` is, if it is constant and of one element."""
    values = constant(tensor)
    return float(values.reshape(())) if values is not None and values.size == 1 else None
