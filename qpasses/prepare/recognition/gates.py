"""Gates: functions of affine rows, as recurrent nets have them, however they are cut."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from qpasses.ir.graph import Node, Tensor, input_at, producer
from qpasses.prepare.recognition.affine import Affine, Reading, added, columns_of, cut


@dataclass(frozen=True)
class Function:
    """An activation as recurrent nodes call it, with the numbers it takes."""

    name: str
    alpha: float | None = None
    beta: float | None = None


@dataclass(frozen=True)
class Gate:
    """``function`` of ``rows``."""

    function: Function
    rows: Affine


_TAKING: Mapping[str, Mapping[str, float]] = {
    "Elu": {"alpha": 1.0},
    "HardSigmoid": {"alpha": 0.2, "beta": 0.5},
    "LeakyRelu": {"alpha": 0.01},
    "Relu": {},
    "Sigmoid": {},
    "Softplus": {},
    "Softsign": {},
    "Tanh": {},
    "ThresholdedRelu": {"alpha": 1.0},
}
"""By op type: the attributes that are numbers of the function, with ONNX's defaults."""


def function_of(node: Node | None, reading: Reading) -> Function | None:
    """The activation that ``node`` is; None for other nodes. A clip to 0 and 1 is one too."""
    if node is None or node.domain:
        return None
    if node.op == "Clip":
        ends = [input_at(node, place) for place in (1, 2)]
        values = [None if each is None else reading.value(each) for each in ends]
        is_unit = all(v is not None and v.size == 1 for v in values) and [
            float(np.ravel(v)[0]) for v in values if v is not None
        ] == [0, 1]
        return Function("HardSigmoid", 1.0, 0.0) if is_unit else None
    taken = _TAKING.get(node.op)
    if taken is None:
        return None
    return Function(node.op, **{k: float(node.attrs.get(k, v)) for k, v in taken.items()})


def gate_of(tensor: Tensor, reading: Reading) -> Gate | None:
    """The gate that ``tensor`` is, a part of several or the complement of one; else None."""
    node = producer(tensor)
    if node is None or node.domain:
        return None
    if node.op == "Identity":
        return gate_of(node.inputs[0], reading)
    if node.op in ("Split", "Slice"):
        columns, whole = columns_of(node, tensor, reading.value), None
        if columns is not None:
            whole = gate_of(node.inputs[0], reading)
        rows = None if whole is None or columns is None else cut(whole.rows, columns)
        return None if whole is None or rows is None else replace(whole, rows=rows)
    if node.op == "Sub":
        one = number_of(node.inputs[0], reading)
        whole = gate_of(node.inputs[1], reading) if one == 1 else None
        return None if whole is None else complement(whole)
    function = function_of(node, reading)
    return None if function is None else Gate(function, reading.summed(node.inputs[0]))


def complement(gate: Gate) -> Gate | None:
    """1 minus ``gate``: it is the same function where that turns about a half."""
    function, turned = gate.function, gate.rows.by(np.array(-1, np.float32))
    if function.name == "Sigmoid":
        return Gate(function, turned)
    alpha, beta = function.alpha, function.beta
    if function.name != "HardSigmoid" or not alpha or beta is None:
        return None
    shift = np.array((1 - 2 * beta) / alpha, np.float32)
    rows = added(turned, Affine([], shift, ())) if shift else turned
    return None if rows is None else Gate(function, rows)


def number_of(tensor: Tensor, reading: Reading) -> float | None:
    """The one number that a constant holds; None for another tensor."""
    values = reading.value(tensor)
    if values is None or values.dtype.kind != "f" or not values.size:
        return None
    first = float(np.ravel(values)[0])
    return first if bool((values == first).all()) else None


def plain(tensor: Tensor) -> Tensor:
    """What ``tensor`` is another name of."""
    node = producer(tensor)
    while node is not None and node.op == "Identity" and not node.domain:
        tensor = node.inputs[0]
        node = producer(tensor)
    return tensor
