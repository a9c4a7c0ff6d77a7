"""RecognizeLayerNorm: a normalization over rows that is written out is one node again."""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from qpasses.graph import Graph, Node, Tensor, constant, producer, sole_consumer
from qpasses.passes.base import Context, Declined, Pass
from qpasses.recognition import are_inner, reduced_axes


class RecognizeLayerNorm(Pass):
    """Replace a row less its mean, over its standard deviation, by LayerNormalization.

    before: ``m = ReduceMean (x); d = Sub (x, m); v = ReduceMean (Pow (d, 2));
            n = Div (d, Sqrt (Add (v, epsilon))); y = Add (Mul (n, gamma), beta)``
    after:  ``y = LayerNormalization <axis, epsilon> (x, gamma, beta)``
    **Exact** in real arithmetic. The square may be a Mul, the difference taken twice; gamma
    and beta may be missing.
    """

    op_types: ClassVar = frozenset({"Div"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Declined | None:
        """Rewrite where nothing else reads what lies between, and the user excludes none."""
        found = _matched(node)
        if found is None:
            return None
        inside, x, axes, epsilon = found
        dims, shape = len(x.shape or ()), x.shape
        row = list(shape[axes[0] :]) if shape is not None else []
        if axes != tuple(range(axes[0], dims)):
            return Declined("a normalization over axes that are not the last")
        if not all(isinstance(size, int) for size in row):
            return Declined("a normalization over an axis whose size is not known")
        excluded = context.selection.excluded
        if not are_inner(graph, inside, node, excluded):
            return Declined("parts of a normalization are read by something else as well")
        gamma, beta, last = np.ones(row, np.float32), np.zeros(row, np.float32), node
        for op in ("Mul", "Add"):
            behind = sole_consumer(graph, last.outputs[0])
            factor = _factor(behind, last.outputs[0], op, row)
            if (
                behind is None
                or factor is None
                or not are_inner(graph, [last], behind, excluded)
            ):
                continue
            last = behind
            if op == "Mul":
                gamma = factor
            else:
                beta = factor
        last.op, last.domain = "LayerNormalization", ""
        last.attrs.clear()
        last.attrs.update(axis=axes[0] - dims, epsilon=epsilon)
        factors = (("gamma", gamma), ("beta", beta))
        last.inputs = [
            x,
            *(context.constant(f"{last.name}.{name}", value) for name, value in factors),
        ]
        if last is not node:
            node.outputs.clear()
        return None


def _matched(node: Node) -> tuple[list[Node], Tensor, tuple[int, ...], float] | None:
    """The nodes before ``node``, what they normalize, over which axes, and epsilon."""
    sub, root = (producer(tensor) for tensor in node.inputs)
    if sub is None or root is None or (sub.op, root.op) != ("Sub", "Sqrt"):
        return None
    total = producer(root.inputs[0])
    if total is None or total.op != "Add":
        return None
    varying = [tensor for tensor in total.inputs if constant(tensor) is None]
    given = [value for tensor in total.inputs if (value := constant(tensor)) is not None]
    variance = producer(varying[0]) if len(varying) == 1 else None
    if variance is None or variance.op != "ReduceMean" or given[0].size != 1:
        return None
    square, mean = producer(variance.inputs[0]), producer(sub.inputs[1])
    if square is None or mean is None or mean.op != "ReduceMean":
        return None
    other, axes = _squared(square), reduced_axes(mean)
    if other is None or other.op != "Sub" or axes is None or reduced_axes(variance) != axes:
        return None
    means = [producer(each.inputs[1]) for each in (sub, other)]
    if any(each is None or not _same_mean(each, mean) for each in means):
        return None
    x = sub.inputs[0]
    if other.inputs[0] is not x or mean.inputs[0] is not x:
        return None
    nodes = {id(each): each for each in (sub, root, total, variance, square, mean, other)}
    nodes |= {id(each): each for each in means if each is not None}
    return [*nodes.values()], x, axes, float(given[0].reshape(()))


def _same_mean(node: Node, mean: Node) -> bool:
    same = node.op == mean.op and node.inputs[0] is mean.inputs[0]
    return same and reduced_axes(node) == reduced_axes(mean)


def _squared(node: Node) -> Node | None:
    """What writes the tensor that ``node`` squares, if it does."""
    power = constant(node.inputs[1]) if node.op == "Pow" else None
    is_square = power is not None and power.size == 1 and float(power.reshape(())) == 2
    if node.op == "Mul" and node.inputs[0] is node.inputs[1]:
        is_square = True
    return producer(node.inputs[0]) if is_square else None


def _factor(
    node: Node | None, operand: Tensor, op: str, row: list[int]
) -> NDArray[np.float32] | None:
    """The constant with which ``node`` joins ``operand``, shaped as a row."""
    if node is None or node.op != op:
        return None
    others = [constant(tensor) for tensor in node.inputs if tensor is not operand]
    if len(others) != 1 or others[0] is None or others[0].dtype != np.float32:
        return None
    value = others[0]
    while value.ndim > len(row) and value.shape[0] == 1:
        value = value[0]
    try:
        return np.ascontiguousarray(np.broadcast_to(value, row))
    except ValueError:  # it differs along other axes
        return None
