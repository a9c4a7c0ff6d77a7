"""Products of integers that are scaled behind: float products of what the integers stand for.

before:  DynamicQuantizeLinear (x) -> MatMulInteger (.., stored, ..) -> Cast -> Mul by scales
after:   MatMul (x, DequantizeLinear (stored))

What was quantized at run time is read as it was before; the scale of the weights is what the
product is multiplied by besides that of x, in any order and association.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto

from qpasses.load.foreign.draft import Draft, Left, Table
from qpasses.load.foreign.found_graph import AtRunTimeError
from qpasses.load.foreign.node_parts import Q, attribute, input_at, is_standard
from qpasses.load.foreign.quantization import Quantization, per_tensor

CONTRIB = "com.microsoft"


@dataclass(frozen=True)
class Operand:
    """A factor: ``real`` numbers where they are known, and the tensor that holds its scale.

    Of constant integers, neither is known: their scale is what is left over.
    """

    real: str = ""
    scale: str = ""
    number: NDArray[Any] | None = None


@dataclass
class Scaling:
    """What an integer product is multiplied by: tensors, up to the tensor ``end``."""

    end: str
    dynamic: list[str] = field(default_factory=list)
    numbers: list[NDArray[Any]] = field(default_factory=list)
    nodes: list[NodeProto] = field(default_factory=list)


def _product(draft: Draft, node: NodeProto) -> Left | None:
    found = [_operand(draft, node, index) for index in (0, 1)]
    for each in found:
        if isinstance(each, Left):
            return each
    operands = [each for each in found if isinstance(each, Operand)]
    scaling = _scaling(draft, node, operands)
    if isinstance(scaling, Left):
        return scaling
    reals = [each.real for each in operands]
    if constant := [index for index in (0, 1) if not reals[index]]:
        (index,) = constant
        meaning = _left_over(draft, node, index, operands, scaling)
        if isinstance(meaning, Left):
            return meaning
        reals[index] = draft.real(node.input[index], meaning)
    op = node.op_type.removesuffix("Integer")
    name = node.name or node.output[0]
    draft.add(op, reals, scaling.end, name, list(node.attribute))
    draft.skip(*scaling.nodes)
    if any(each.scale for each in operands):
        draft.say_dynamic(node)
    return None


def _operand(draft: Draft, node: NodeProto, index: int) -> Operand | Left:
    """Input ``index``: quantized at run time, or by a constant scale, or constant."""
    stored, zero = node.input[index], input_at(node, index + 2)
    if draft.value(stored) is not None:
        both = draft.value(node.input[1 - index]) is not None
        return Left("both of its factors are constants") if both else Operand()
    source = draft.producer(stored)
    if dynamic := draft.at_run_time(stored):
        if zero != dynamic.zero_point:
            return Left(f"it does not read the zero point that {stored!r} has")
        return Operand(dynamic.real, dynamic.scale)
    if source is None or not is_standard(source, Q):
        return Left(f"nothing says what the integers {stored!r} stand for")
    meaning = draft.quantization(source, None).of_type(draft.integers(stored))
    given = draft.value(zero) if zero else np.zeros((), np.uint8)
    if meaning.per_axis or given is None or np.any(given != meaning.zero_point):
        return Left(f"it does not read the zero point that {stored!r} has")
    return Operand(draft.real(stored, meaning), "", meaning.scale)


def _scaling(draft: Draft, node: NodeProto, operands: Sequence[Operand]) -> Scaling | Left:
    """The Cast behind a product, and the Mul nodes as far as they hold scales."""
    cast = draft.sole_reader(node.output[0])
    if cast is None or cast.op_type != "Cast" or attribute(cast, "to") != TensorProto.FLOAT:
        return Left("its integers are not just cast to float and scaled")
    wanted = [each.scale for each in operands if each.scale]
    found = Scaling(cast.output[0], nodes=[cast])
    while len(found.dynamic) < len(wanted) or _misses_weights(found, operands):
        reader = draft.sole_reader(found.end)
        if reader is None or not is_standard(reader, "Mul"):
            break
        other = reader.input[1 if reader.input[0] == found.end else 0]
        dynamic, numbers = _factors(draft, other, wanted)
        if dynamic is None or not _are_scales(numbers):
            break
        found.dynamic += dynamic
        found.numbers += numbers
        found.nodes.append(reader)
        found.end = reader.output[0]
    if sorted(found.dynamic) != sorted(wanted):
        return Left("its result is not multiplied by the scales of what it reads")
    return found


def _misses_weights(found: Scaling, operands: Sequence[Operand]) -> bool:
    """Whether no constant but the scale of what is no weight was found."""
    known = [each.number for each in operands if each.number is not None]
    return all(any(np.array_equal(n.ravel(), [k]) for k in known) for n in found.numbers)


def _are_scales(numbers: Sequence[NDArray[Any]]) -> bool:
    return all(np.all(np.isfinite(each) & (each > 0)) for each in numbers)


def _factors(
    draft: Draft, name: str, wanted: Sequence[str]
) -> tuple[list[str] | None, list[NDArray[Any]]]:
    """The scales of ``wanted`` and the constants that a tensor is the product of.

    None and nothing, where it holds anything else.
    """
    if name in wanted:
        return [name], []
    node = draft.producer(name)
    if node is None or not is_standard(node, "Mul"):
        value = draft.value(name)
        return ([], [value]) if value is not None else (None, [])
    dynamic: list[str] = []
    numbers: list[NDArray[Any]] = []
    for each in node.input:
        more, constants = _factors(draft, each, wanted)
        if more is None:
            return None, []
        dynamic += more
        numbers += constants
    return dynamic, numbers


def _left_over(
    draft: Draft, node: NodeProto, index: int, operands: Sequence[Operand], scaling: Scaling
) -> Quantization | Left:
    """What constant integers stand for: the constants, without the other factor's scale."""
    numbers = list(scaling.numbers)
    other = operands[1 - index].number
    if other is not None:
        equal = [k for k, each in enumerate(numbers) if np.array_equal(each.ravel(), [other])]
        if equal:
            del numbers[equal[0]]
        else:
            numbers.append(np.float32(1) / other)
            draft.note(node, "the scale of its weights is a quotient, rounded to float32")
    scale = reduce(np.multiply, numbers, np.ones((), np.float32)).astype(np.float32)
    axis, size = _own_axis(draft, node, index, scale)
    if axis is None:
        return Left("the scales of its result do not go along the results of its weights")
    zero = _zero_point(draft, node, index)
    count = max(size, zero.size)
    if count == 1:
        return per_tensor(scale, zero)
    scales, zeros = (np.broadcast_to(each.ravel(), count).copy() for each in (scale, zero))
    return Quantization(scales, zeros, axis)


def _own_axis(
    draft: Draft, node: NodeProto, index: int, scale: NDArray[Any]
) -> tuple[int | None, int]:
    """The axis of the constant along which its scales go, and their number."""
    rank = draft.rank(node.input[index]) or 2
    own, behind = (0, rank - 2) if node.op_type == "ConvInteger" else (rank - 1, 0)
    if index == 0:  # the rows of a matrix
        own, behind = rank - 2, 1
    wide = [scale.ndim - 1 - at for at, size in enumerate(scale.shape) if size > 1]
    if wide in ([], [behind]):
        return own, scale.size
    return None, 0


def _zero_point(draft: Draft, node: NodeProto, index: int) -> NDArray[Any]:
    name = input_at(node, index + 2)
    kind = draft.integers(node.input[index])
    found = draft.value(name) if name else np.zeros((), kind)
    if found is None:
        raise AtRunTimeError(f"its zero point {name!r} is not constant")
    return found


def _to_float(draft: Draft, node: NodeProto) -> Left | None:
    """MatMulIntegerToFloat: its scales are its inputs."""
    weight = draft.quantization(node, 1, (3, 5), _last(draft, node.input[1]))
    if dynamic := draft.at_run_time(node.input[0]):
        if (node.input[2], input_at(node, 4)) != dynamic[1:]:
            return Left("it does not read the scale that its integers have")
        x = dynamic.real
        draft.say_dynamic(node)
    else:
        x = draft.real(node.input[0], draft.quantization(node, 0, (2, 4)))
    _with_bias(draft, node, [x, draft.real(node.input[1], weight)], input_at(node, 6))
    return None


def _dynamic_mat_mul(draft: Draft, node: NodeProto) -> None:
    """DynamicQuantizeMatMul: it quantizes what it reads."""
    weight = draft.quantization(node, 1, (2, 3), _last(draft, node.input[1]))
    inputs = [node.input[0], draft.real(node.input[1], weight)]
    _with_bias(draft, node, inputs, input_at(node, 4))
    draft.say_dynamic(node)


def _last(draft: Draft, name: str) -> int:
    return (draft.rank(name) or 2) - 1


def _with_bias(draft: Draft, node: NodeProto, inputs: Sequence[str], bias: str) -> None:
    name = node.name or node.output[0]
    if not bias:
        draft.add("MatMul", inputs, node.output[0], name)
        return
    product = draft.fresh(f"{node.output[0]}/MatMul")
    draft.add("MatMul", inputs, product, name)
    draft.add("Add", [product, bias], node.output[0], draft.fresh(f"{name}/Add"))


def _lstm(draft: Draft, node: NodeProto) -> Left:
    draft.say_dynamic(node)
    return Left("a recurrent layer that quantizes at run time has no form with Q/DQ here")


INTEGER_PRODUCTS: Table = {
    ("", "MatMulInteger"): _product,
    ("", "ConvInteger"): _product,
    (CONTRIB, "MatMulIntegerToFloat"): _to_float,
    (CONTRIB, "DynamicQuantizeMatMul"): _dynamic_mat_mul,
    (CONTRIB, "DynamicQuantizeLSTM"): _lstm,
}
"""What they become: by domain and op."""
