"""RecognizeLayerNorm: a normalization over rows that is written out is one node again."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from qpasses.ir.graph import (
    Graph,
    Node,
    add_node,
    constant,
    new_tensor,
    producer,
    rank,
    sole_consumer,
)
from qpasses.ir.model_nodes import SIMPLIFIED
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Declined, Outcome, Pass
from qpasses.prepare.recognition.normalized import Reading, readings
from qpasses.prepare.recognition.written_out import are_inner


class RecognizeLayerNorm(Pass):
    """Replace a row less its mean, over its standard deviation, by LayerNormalization.

    before: ``m = ReduceMean (x); d = Sub (x, m); v = ReduceMean (Mul (d, d));
            n = Div (d, Sqrt (Add (v, epsilon))); y = Add (Mul (n, gamma), beta)``
    after:  ``y = LayerNormalization <axis, epsilon> (x, gamma, beta)``
    **Exact** in real arithmetic. However it is written: the variance as a mean of squares less
    a squared mean, or by sums; the inverse by Reciprocal or Pow, multiplied with gamma first;
    the end a BatchNormalization. Rows along other axes than the last are transposed; factors
    that differ by channel instead of along rows make it an InstanceNormalization. A row over
    the root of its mean of squares, its mean not taken away, is an RMSNormalization; below
    opset 23 onnxruntime has it as SimplifiedLayerNormalization.
    """

    op_types: ClassVar = frozenset({"BatchNormalization", "Pow", "Sqrt"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Rewrite where nothing else reads what lies between, and the user excludes none."""
        found = _read(node)
        if found is None:
            return NOT_MINE
        reading, last = found
        rows = _rows(reading)
        if rows is None:
            return Declined("a normalization over an axis whose size is not known")
        if not reading.centered and not _stays_standard(graph, context):
            return NOT_MINE
        form = _form(reading, last, rows)
        if form is None:
            return Declined("a normalization with factors that differ along other axes")
        excluded = context.selection.excluded
        inside = _inside(reading, last)
        if last.name in excluded or not are_inner(graph, inside, last, excluded):
            return Declined("parts of a normalization are read by something else as well")
        while (behind := sole_consumer(graph, last.outputs[0])) is not None:
            more = _form(reading, behind, rows)
            if more is None or {last.name, behind.name} & excluded.keys():
                break
            last, form = behind, more
        _become(graph, last, reading, form, context)
        return REWRITTEN


@dataclass(frozen=True)
class _Rows:
    """The axes that are normalized, of ``sizes``, and all others."""

    axes: list[int]
    sizes: list[int]
    others: list[int]


@dataclass(frozen=True)
class _Form:
    """The op that normalizes, its axes in ``order``, its gamma and beta."""

    op: str
    order: list[int]
    gamma: NDArray[np.float32]
    beta: NDArray[np.float32]


def _read(node: Node) -> tuple[Reading, Node] | None:
    """What ``node`` takes the deviation of, and the first node that is what is normalized."""
    is_end = node.op == "BatchNormalization"
    if is_end and constant(node.inputs[4]) is not None:
        return None
    for reading in readings(node.inputs[4] if is_end else node.outputs[0]):
        found = reading.of(node.outputs[0])
        if found is None or reading.epsilon is None or reading.x.dtype != np.float32:
            continue
        if (last := _first_end(reading, node)) is not None:
            return reading, last
    return None


def _stays_standard(graph: Graph, context: Context) -> bool:
    """Whether no op is left that only onnxruntime has: from opset 23 on, or on integers."""
    is_integer = context.settings.emit != "qdq" and not context.selection.unlisted
    return graph.opset >= 23 or is_integer


def _rows(reading: Reading) -> _Rows | None:
    """Axes of size 1 are normalized over or not as it suits."""
    shape, dims = list(reading.x.shape), len(reading.x.shape)
    axes = [axis for axis in reading.axes if shape[axis] != 1] or list(reading.axes)
    if all(axis in axes or shape[axis] == 1 for axis in range(axes[0], dims)):
        axes = list(range(axes[0], dims))
    sizes = [shape[axis] for axis in axes]
    if not all(isinstance(size, int) for size in sizes):
        return None
    return _Rows(axes, sizes, [axis for axis in range(dims) if axis not in axes])


def _first_end(reading: Reading, node: Node) -> Node | None:
    """The node behind ``node`` that writes what is normalized."""
    waiting, seen = [node], set[int]()
    while waiting:
        each = waiting.pop(0)
        found = reading.of(each.outputs[0])
        if found is None or id(each) in seen:
            continue
        if found.affine(reading.centered) is not None:
            return each
        seen.add(id(each))
        waiting += each.outputs[0].outputs
    return None


def _form(reading: Reading, node: Node, rows: _Rows) -> _Form | None:
    """What ``node`` is the end of: factors differ along rows, or by channel."""
    found = reading.of(node.outputs[0])
    factors = found.affine(reading.centered) if found is not None else None
    shape = list(reading.x.shape)
    if factors is None or rank(node.outputs[0]) != len(shape):
        return None
    gamma, beta = np.broadcast_arrays(*factors)
    if not reading.centered and (beta.any() or not np.isfinite(gamma).all()):
        return None
    full = (1,) * (len(shape) - gamma.ndim) + gamma.shape
    differing = [axis for axis, size in enumerate(full) if size != 1]
    if any(full[axis] != shape[axis] for axis in differing):
        return None
    if not set(differing) & set(rows.others):
        op = "LayerNormalization" if reading.centered else "RMSNormalization"
        order, sizes, kept = [*rows.others, *rows.axes], rows.sizes, rows.axes
    elif reading.centered and len(differing) == 1 and len(rows.others) == 2:
        batch = [axis for axis in rows.others if axis not in differing]
        order, op = [*batch, *differing, *rows.axes], "InstanceNormalization"
        sizes, kept = [full[differing[0]]], differing
    else:
        return None
    gamma, beta = (
        np.broadcast_to(each.reshape([full[axis] for axis in kept]), sizes)
        for each in (gamma, beta)
    )
    return _Form(op, order, gamma.astype(np.float32), beta.astype(np.float32))


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


def _become(graph: Graph, node: Node, reading: Reading, form: _Form, context: Context) -> None:
    """Turn ``node`` into what ``form`` says, between Transposes where order differs."""
    x, y = reading.x, node.outputs[0]
    if form.order != sorted(form.order):
        x, read = new_tensor(context.fresh(f"{y.name}_rows"), x), x
        y, written = new_tensor(context.fresh(f"{y.name}_normal"), x), y
        x.shape = y.shape = [read.shape[axis] for axis in form.order]
        back = np.argsort(form.order).tolist()
        for name, source, end, order in (
            ("to_rows", read, x, form.order),
            ("from_rows", y, written, back),
        ):
            called = context.fresh(f"{node.name}_{name}")
            add_node(graph, "Transpose", called, [source], [end], attributes={"perm": order})
    node.op, node.domain = form.op, ""
    if form.op == "RMSNormalization" and graph.opset < 23:
        node.op = SIMPLIFIED
    node.attrs.clear()
    if form.op != "InstanceNormalization":
        node.attrs["axis"] = -form.gamma.ndim
    node.attrs["epsilon"] = reading.epsilon
    factors = {"gamma": form.gamma} | ({"beta": form.beta} if reading.centered else {})
    node.inputs = [
        x,
        *(context.constant(f"{node.name}.{key}", value) for key, value in factors.items()),
    ]
    node.outputs = [y]
