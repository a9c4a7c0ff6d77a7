"""RecognizeLayerNorm: a normalization over rows that is written out is one node again."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from qpasses.graph import (
    Graph,
    Node,
    add_node,
    constant,
    new_tensor,
    producer,
    rank,
    sole_consumer,
)
from qpasses.normalized import Reading, readings
from qpasses.passes.base import Context, Declined, Pass
from qpasses.recognition import are_inner


class RecognizeLayerNorm(Pass):
    """Replace a row less its mean, over its standard deviation, by LayerNormalization.

    before: ``m = ReduceMean (x); d = Sub (x, m); v = ReduceMean (Mul (d, d));
            n = Div (d, Sqrt (Add (v, epsilon))); y = Add (Mul (n, gamma), beta)``
    after:  ``y = LayerNormalization <axis, epsilon> (x, gamma, beta)``
    **Exact** in real arithmetic. However it is written: the variance as a mean of squares less
    a squared mean, or by sums; the inverse by Reciprocal or Pow, multiplied with gamma first;
    the end a BatchNormalization. Rows along other axes than the last are transposed.
    """

    op_types: ClassVar = frozenset({"BatchNormalization", "Pow", "Sqrt"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Declined | None:
        """Rewrite where nothing else reads what lies between, and the user excludes none."""
        reading = _read(node)
        if reading is None:
            return None
        rows = _rows(reading)
        if rows is None:
            return Declined("a normalization over an axis whose size is not known")
        last = _first_end(reading, node)
        if last is None:
            return None
        factors = _factors(reading, last, rows)
        if factors is None:
            return Declined("a normalization with factors that differ along other axes")
        excluded = context.selection.excluded
        if last.name in excluded or not are_inner(
            graph, _inside(reading, last), last, excluded
        ):
            return Declined("parts of a normalization are read by something else as well")
        while (behind := sole_consumer(graph, last.outputs[0])) is not None:
            more = _factors(reading, behind, rows)
            if more is None or not are_inner(graph, [last], behind, excluded):
                break
            if behind.name in excluded:
                break
            last, factors = behind, more
        _become(graph, last, reading, rows, factors, context)
        return None


@dataclass(frozen=True)
class _Rows:
    """The axes that are normalized, of ``sizes``, and the order of axes that has them last."""

    axes: tuple[int, ...]
    sizes: list[int]
    order: list[int]


def _read(node: Node) -> Reading | None:
    """What ``node`` takes the deviation of, if it does."""
    is_end = node.op == "BatchNormalization"
    if is_end and constant(node.inputs[4]) is not None:
        return None
    for reading in readings(node.inputs[4] if is_end else node.outputs[0]):
        found = reading.of(node.outputs[0])
        if found is not None and reading.epsilon is not None:
            return reading if reading.x.dtype == np.float32 else None
    return None


def _rows(reading: Reading) -> _Rows | None:
    """Axes of size 1 are normalized over or not as it suits."""
    shape, dims = list(reading.x.shape), len(reading.x.shape)
    axes = [axis for axis in reading.axes if shape[axis] != 1] or list(reading.axes)
    if all(axis in axes or shape[axis] == 1 for axis in range(axes[0], dims)):
        axes = list(range(axes[0], dims))
    sizes = [shape[axis] for axis in axes]
    if not all(isinstance(size, int) for size in sizes):
        return None
    order = [axis for axis in range(dims) if axis not in axes] + axes
    return _Rows(tuple(axes), sizes, order)


def _first_end(reading: Reading, node: Node) -> Node | None:
    """The node behind ``node`` that writes what is normalized."""
    waiting, seen = [node], set[int]()
    while waiting:
        each = waiting.pop(0)
        found = reading.of(each.outputs[0])
        if found is None or id(each) in seen:
            continue
        if found.affine() is not None:
            return each
        seen.add(id(each))
        waiting += each.outputs[0].outputs
    return None


def _factors(reading: Reading, node: Node, rows: _Rows) -> list[NDArray[np.float32]] | None:
    """Gamma and beta, shaped as a row, if ``node`` writes what is normalized with them."""
    found = reading.of(node.outputs[0])
    factors = found.affine() if found is not None else None
    if factors is None or rank(node.outputs[0]) != rank(reading.x):
        return None
    shaped = [_as_row(values, rows) for values in factors]
    return (
        None
        if any(each is None for each in shaped)
        else [each for each in shaped if each is not None]
    )


def _as_row(values: NDArray[Any], rows: _Rows) -> NDArray[np.float32] | None:
    full = values.reshape([1] * (len(rows.order) - values.ndim) + list(values.shape))
    if any(size != 1 and axis not in rows.axes for axis, size in enumerate(full.shape)):
        return None
    row = full.transpose(rows.order).reshape([full.shape[axis] for axis in rows.axes])
    return np.ascontiguousarray(np.broadcast_to(row, rows.sizes), np.float32)


def _inside(reading: Reading, last: Node) -> list[Node]:
    """The nodes between x and ``last``."""
    found: dict[int, Node] = {}
    waiting = list(last.inputs)
    while waiting:
        tensor = waiting.pop()
        node = producer(tensor)
        if tensor is reading.x or node is None or id(node) in found:
            continue
        if reading.of(tensor) is not None:
            found[id(node)] = node
            waiting += node.inputs
    return list(found.values())


def _become(
    graph: Graph,
    node: Node,
    reading: Reading,
    rows: _Rows,
    factors: list[NDArray[np.float32]],
    context: Context,
) -> None:
    """Turn ``node`` into LayerNormalization, between Transposes if rows are not last."""
    x, y = reading.x, node.outputs[0]
    if rows.order != sorted(rows.order):
        x, read = new_tensor(context.fresh(f"{y.name}_rows"), x), x
        y, written = new_tensor(context.fresh(f"{y.name}_normal"), x), y
        x.shape = y.shape = [read.shape[axis] for axis in rows.order]
        back = [rows.order.index(axis) for axis in range(len(rows.order))]
        for name, source, end, order in (
            ("to_rows", read, x, rows.order),
            ("from_rows", y, written, back),
        ):
            called = context.fresh(f"{node.name}_{name}")
            add_node(graph, "Transpose", called, [source], [end], attributes={"perm": order})
    node.op, node.domain = "LayerNormalization", ""
    node.attrs.clear()
    node.attrs.update(axis=-len(rows.axes), epsilon=reading.epsilon)
    names = f"{node.name}.gamma", f"{node.name}.beta"
    made = zip(names, factors, strict=True)
    node.inputs = [x, *(context.constant(name, value) for name, value in made)]
    node.outputs = [y]
