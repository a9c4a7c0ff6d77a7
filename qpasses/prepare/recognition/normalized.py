"""Normalizations that are written out: what ops make of a tensor and its moments."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import TypeAlias

import numpy as np

from qpasses.ir.graph import Node, Tensor, constant, input_at, producer
from qpasses.prepare.recognition.moment_terms import NEAR, Expression, itself
from qpasses.prepare.recognition.written_out import axes_of

_MOST_NODES = 64
"""More than any way to write a normalization takes."""


@dataclass
class Reading:
    """What tensors are in terms of ``x`` and its moments over ``axes``.

    ``centered``: whether the deviation is that from the mean, else that from 0. ``epsilon``:
    what was found to be added to the variance.
    """

    x: Tensor
    axes: tuple[int, ...]
    centered: bool = True
    epsilon: float | None = None
    _known: dict[int, Expression | None] = field(default_factory=dict)

    def of(self, tensor: Tensor | None) -> Expression | None:
        """What ``tensor`` is, if it is made of x by the ops of this module."""
        if tensor is None:
            return None
        if tensor is self.x:
            return itself()
        values = constant(tensor)
        if values is not None:
            return Expression.of(values) if values.dtype.kind == "f" else None
        if id(tensor) not in self._known:
            node = producer(tensor)
            if node is None or node.op not in _RULES or len(self._known) >= _MOST_NODES:
                return None
            self._known[id(tensor)] = None
            self._known[id(tensor)] = _RULES[node.op](self, node)
        return self._known[id(tensor)]

    def root(self, found: Expression | None) -> Expression | None:
        """The square root of a multiple of the variance, epsilon added."""
        variance = found.variance(self.centered) if found is not None else None
        if found is None or variance is None:
            return None
        k, c = variance
        if self.epsilon is None:
            self.epsilon = c / k
        if not np.isclose(self.epsilon, c / k, NEAR, 0):
            return None
        return found.root(k)


def readings(tensor: Tensor) -> Iterator[Reading]:
    """What may be normalized where ``tensor`` is made of its variance.

    First less its mean, then as it is: a row less its mean is one that has a mean of squares.
    """
    reduced, before = _reduced(tensor)
    for x, axes in reduced:
        yield Reading(x, axes)
    for row, axes in reduced:
        alike = [each for each in before if each.shape == row.shape]
        yield from (Reading(each, axes, centered=False) for each in alike)


def _reduced(tensor: Tensor) -> tuple[list[tuple[Tensor, tuple[int, ...]]], list[Tensor]]:
    """What is reduced before ``tensor`` along which axes, and all else that is before it."""
    found: list[tuple[Tensor, tuple[int, ...]]] = []
    before: list[Tensor] = []
    waiting, seen = [tensor], set[int]()
    while waiting and len(seen) < _MOST_NODES:
        node = producer(waiting.pop(0))
        if node is None or id(node) in seen or node.op not in _RULES:
            continue
        seen.add(id(node))
        waiting += node.inputs
        before += [each for each in node.inputs if constant(each) is None]
        axes = axes_of(node) if node.op.startswith("Reduce") else None
        if axes is not None:
            found.append((node.inputs[0], axes))
    return found, before


Rule: TypeAlias = Callable[[Reading, Node], Expression | None]


def _both(reading: Reading, node: Node) -> tuple[Expression, Expression] | None:
    if len(node.inputs) != 2:
        return None
    first, second = (reading.of(tensor) for tensor in node.inputs)
    return (first, second) if first is not None and second is not None else None


def _add(reading: Reading, node: Node) -> Expression | None:
    both = _both(reading, node)
    return both[0].plus(both[1]) if both else None


def _sub(reading: Reading, node: Node) -> Expression | None:
    both = _both(reading, node)
    return both[0].plus(both[1].scaled(-1)) if both else None


def _mul(reading: Reading, node: Node) -> Expression | None:
    both = _both(reading, node)
    return both[0].times(both[1]) if both else None


def _div(reading: Reading, node: Node) -> Expression | None:
    both = _both(reading, node)
    inverse = both[1].inverse() if both else None
    return both[0].times(inverse) if both and inverse is not None else None


def _neg(reading: Reading, node: Node) -> Expression | None:
    found = reading.of(node.inputs[0])
    return found.scaled(-1) if found is not None else None


def _reciprocal(reading: Reading, node: Node) -> Expression | None:
    found = reading.of(node.inputs[0])
    return found.inverse() if found is not None else None


def _sqrt(reading: Reading, node: Node) -> Expression | None:
    return reading.root(reading.of(node.inputs[0]))


def _pow(reading: Reading, node: Node) -> Expression | None:
    power, found = constant(node.inputs[1]), reading.of(node.inputs[0])
    if power is None or power.size != 1 or found is None:
        return None
    match float(power.reshape(())):
        case 2.0:
            return found.times(found)
        case 0.5:
            return reading.root(found)
        case -0.5:
            root = reading.root(found)
            return root.inverse() if root is not None else None
    return None


def _not_negative(reading: Reading, node: Node) -> Expression | None:
    """What keeps rounding from making a variance negative changes nothing."""
    given = [tensor for tensor in node.inputs if not tensor.is_empty()]
    values = [constant(tensor) for tensor in given]
    bounds = [value for value in values if value is not None]
    is_limited = node.op == "Clip" and input_at(node, 2) is not None
    if len(given) != 1 + len(bounds) or is_limited or any(map(np.any, bounds)):
        return None
    if not bounds and node.op not in ("Abs", "Relu"):
        return None
    found = reading.of(given[values.index(None)])
    return found if found is not None and found.variance(reading.centered) else None


def _reduce(reading: Reading, node: Node) -> Expression | None:
    found = reading.of(node.inputs[0])
    if found is not None and node.op == "ReduceSumSquare":
        found = found.times(found)
    if found is None or axes_of(node) != reading.axes:
        return None
    result = found.mean(bool(node.attrs.get("keepdims", 1)))
    if result is None or node.op == "ReduceMean":
        return result
    sizes = [reading.x.shape[axis] for axis in reading.axes]
    is_known = all(isinstance(size, int) for size in sizes)
    return result.scaled(prod(sizes)) if is_known else None


def _squeeze(reading: Reading, node: Node) -> Expression | None:
    """Takes the reduced axes away, or gives them back."""
    found, axes = reading.of(node.inputs[0]), constant(input_at(node, 1))
    is_squeeze, dims = node.op == "Squeeze", len(reading.x.shape)
    if found is None or axes is None or found.kept is not is_squeeze:
        return None
    are_same = tuple(sorted(int(axis) % dims for axis in axes.ravel())) == reading.axes
    if not found.is_moment or not are_same:
        return None
    return Expression(found.terms, not is_squeeze)


def _batch_normalization(reading: Reading, node: Node) -> Expression | None:
    """Of x with its own moments: those over all axes but that of the channels."""
    gamma, beta = (_repeated(tensor) for tensor in node.inputs[1:3])
    mean, variance = (reading.of(tensor) for tensor in node.inputs[3:5])
    is_all = reading.axes == (0, *range(2, len(reading.x.shape)))
    if node.inputs[0] is not reading.x or not is_all or gamma is None or beta is None:
        return None
    if mean is None or variance is None or mean.kept is None or mean.kept:
        return None
    epsilon = np.full(1, np.float32(node.attrs.get("epsilon", 1e-5)))
    root = reading.root(variance.plus(Expression.of(epsilon)))
    inverse = root.inverse() if root is not None else None
    x = Expression(itself().terms)  # moments lack the other axes, which is as it should be
    centered = x.plus(mean.scaled(-1))
    normal = centered.times(inverse) if centered is not None and inverse is not None else None
    result = normal.scaled(gamma).plus(Expression.of(np.full(1, beta))) if normal else None
    return Expression(result.terms, True) if result is not None else None


def _repeated(tensor: Tensor) -> float | None:
    """The number that ``tensor`` repeats, by Expand or as a constant."""
    node = producer(tensor)
    values = constant(node.inputs[0] if node is not None and node.op == "Expand" else tensor)
    if values is None or not values.size or (values != values.flat[0]).any():
        return None
    return float(values.flat[0])


_RULES: Mapping[str, Rule] = {
    "Abs": _not_negative,
    "Add": _add,
    "BatchNormalization": _batch_normalization,
    "Clip": _not_negative,
    "Div": _div,
    "Max": _not_negative,
    "Mul": _mul,
    "Neg": _neg,
    "Pow": _pow,
    "Reciprocal": _reciprocal,
    "ReduceMean": _reduce,
    "ReduceSum": _reduce,
    "ReduceSumSquare": _reduce,
    "Relu": _not_negative,
    "Sqrt": _sqrt,
    "Squeeze": _squeeze,
    "Sub": _sub,
    "Unsqueeze": _squeeze,
}
