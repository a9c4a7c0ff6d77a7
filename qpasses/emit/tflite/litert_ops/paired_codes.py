"""Two tensors element by element: ADD, SUB, MUL; one at another scale: QUANTIZE, RELU."""

from typing import Any

import numpy as np

from opsets.fixed_point import Int64
from opsets.multipliers import Pair
from qpasses.emit.layouts import Order
from qpasses.emit.operations import RefusedError, Value
from qpasses.emit.tflite import litert_arithmetic as runtime
from qpasses.emit.tflite.flatbuffer import Scales
from qpasses.emit.tflite.tflite_lowering import (
    Given,
    TfliteLowering,
    UnlikeRuntimeError,
)
from qpasses.evidence.prove_pairs import all_pairs
from qpasses.ir.graph import Node


def _operands(to: TfliteLowering, node: Node) -> tuple[list[tuple[Value, Scales]], Order]:
    tensors = node.inputs[0], node.inputs[2]
    order = to.common_order(tensors)
    return [to.codes_of(node, name, order) for name in "ab"], order


def _written(to: TfliteLowering, node: Node, op: str, options: str) -> tuple[Value, Order]:
    (a, b), order = _operands(to, node)
    given, y = to.constants(node), to.written(node)
    name = to.fused(y, given)
    shape = tuple(max(one, other) for one, other in zip(a[0].shape, b[0].shape, strict=True))
    numbers: dict[str, Any] = {
        "fusedActivationFunction": f"ActivationFunctionType.{name or 'NONE'}"
    }
    if a[0].element == "i16" and op != "MUL":
        numbers["potScaleInt16"] = False
    codes = to.program.operator(
        *(op, 2, [a[0], b[0]], shape, a[0].element, options), meaning=y, **numbers
    )
    return to.bounded(codes, name, given), order


def _sum(to: TfliteLowering, node: Node, sign: int) -> None:
    given, (a, b) = to.constants(node), _operands(to, node)[0]
    has_words = to.has_words(node, *"aby")
    pairs = to.runtime.of_sum(a[1].scale, b[1].scale, to.written(node).scale, has_words)
    if has_words:
        if "left_shift" not in given:
            raise RefusedError("it rounds a sum of words once")
        numbers = {f"{n}_": [pair] for n, pair in zip("aby", pairs, strict=True)}
        to.check_numbers(node, numbers, runtime.ROUNDING)
    else:
        levels = to.runtime.sum_levels(*_levels(given), pairs, sign)
        to.check_pairs(node, given, levels, pairs)
    op = "ADD" if sign > 0 else "SUB"
    to.write(
        node.outputs[0], *_written(to, node, op, "AddOptions" if sign > 0 else "SubOptions")
    )


def _levels(given: Given) -> tuple[Int64, Int64]:
    """All levels of both, as a column and as a row."""
    a, b = (
        all_pairs(given[f"{n}_zero"].dtype.name)[k].astype(np.int64) - int(given[f"{n}_zero"])
        for k, n in enumerate("ab")
    )
    return a, b


def int_add(to: TfliteLowering, node: Node) -> None:
    """ADD: each side rescaled, their sum rescaled."""
    _sum(to, node, 1)


def int_sub(to: TfliteLowering, node: Node) -> None:
    """SUB."""
    _sum(to, node, -1)


def int_mul(to: TfliteLowering, node: Node) -> None:
    """MUL."""
    given, (a, b) = to.constants(node), _operands(to, node)[0]
    pair = to.runtime.pair("IntMul", (a[1].scale, b[1].scale), to.written(node).scale)
    if to.has_words(node, *"aby"):
        to.check_numbers(node, {"": [pair]}, runtime.ROUNDING)
    else:
        left, right = _levels(given)
        to.check_pairs(node, given, runtime.levels_of(left * right, pair), pair)
    to.write(node.outputs[0], *_written(to, node, "MUL", "MulOptions"))


def int_rescale(to: TfliteLowering, node: Node) -> None:
    """QUANTIZE, or RELU, of which multipliers may be derived in another type."""
    given, laid = to.constants(node), to.laid(node.inputs[0])
    (value, x), y = to.codes_of(node, "x", laid.order), to.written(node)
    operators = {"QUANTIZE": "Quantize"}
    if given["y_min"] >= given["y_zero"]:
        operators["RELU"] = "Relu"
    unlike = list[UnlikeRuntimeError]()
    for name, rule in operators.items():
        try:
            _check_rescaled(to, node, to.runtime.pair(rule, (x.scale,), y.scale))
        except UnlikeRuntimeError as error:
            unlike.append(error)
            continue
        element = to.element_of(given["y_zero"].dtype, "y")
        found = to.program.operator(name, 2, [value], value.shape, element, meaning=y)
        to.write(node.outputs[0], to.bounded(found, None, given), laid.order)
        return
    raise unlike[0]


def _check_rescaled(to: TfliteLowering, node: Node, pair: Pair) -> None:
    """Raise UnlikeRuntimeError unless these numbers give what the node does."""
    given = to.constants(node)
    if given["x_zero"].dtype.itemsize > 1:
        to.check_numbers(node, {"": [pair]}, runtime.ROUNDING)
        return
    codes = all_pairs(given["x_zero"].dtype.name)[1].astype(np.int64)
    to.check_codes(node, given, runtime.levels_of(codes - int(given["x_zero"]), pair), pair)


LOWERINGS = {
    "IntAdd": int_add,
    "IntMul": int_mul,
    "IntRescale": int_rescale,
    "IntRescaledAdd": int_add,
    "IntRescaledSub": int_sub,
    "IntSub": int_sub,
}
