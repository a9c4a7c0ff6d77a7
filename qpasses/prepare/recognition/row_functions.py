"""Row functions: what steps compute of their rows, which all rows together can be given to."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from qpasses.ir.elementwise import ELEMENTWISE
from qpasses.ir.graph import Graph, Node, Tensor, add_node, new_tensor, producer, rank
from qpasses.ir.rewriting import Context
from qpasses.prepare.recognition.affine import Numbers, width
from qpasses.prepare.recognition.gates import plain


@dataclass(frozen=True)
class RowFunction:
    """A tensor of [rows, size], the ``nodes`` that compute it of others of as many rows.

    ``sources``: these. ``value`` says what is constant.
    """

    result: Tensor
    nodes: Sequence[Node]
    sources: Sequence[Tensor]
    value: Callable[[Tensor], Numbers | None]

    @classmethod
    def of(
        cls,
        result: Tensor,
        is_source: Callable[[Tensor], bool],
        value: Callable[[Tensor], Numbers | None],
    ) -> "RowFunction | None":
        """What ``result`` is of tensors that are sources; None where other nodes are between.

        Each node comes behind those that it reads.
        """
        nodes, sources = dict[int, Node](), dict[int, Tensor]()
        waiting = [(plain(result), False)]
        while waiting:
            tensor, is_read = waiting.pop()
            node = producer(tensor)
            if is_source(tensor):
                sources[id(tensor)] = tensor
            elif value(tensor) is None and node is not None and id(node) not in nodes:
                if is_read:
                    nodes[id(node)] = node
                elif not _is_by_row(node, value):
                    return None
                else:
                    waiting.append((tensor, True))
                    waiting += [(plain(each), False) for each in _varying(node, value)]
            elif value(tensor) is None and node is None:
                return None
        return cls(plain(result), [*nodes.values()], [*sources.values()], value)

    def write(self, graph: Graph, wholes: Sequence[Tensor], context: Context) -> Tensor:
        """Compute all rows of ``wholes``, which are all rows of each source, at a time."""
        known = {id(k): whole for k, whole in zip(self.sources, wholes, strict=True)}
        for node in self.nodes:
            y = new_tensor(context.fresh(f"{node.outputs[0].name}_rows"), node.outputs[0])
            y.shape = [*(wholes[0].shape or ())[:-1], width(node.outputs[0])]
            inputs = [self._whole(each, known, context) for each in node.inputs]
            self._write(graph, node, inputs, y, context)
            known[id(node.outputs[0])] = y
        return known[id(self.result)]

    def _whole(self, tensor: Tensor, known: dict[int, Tensor], context: Context) -> Tensor:
        values = self.value(tensor)
        if values is not None:
            return context.table(tensor.name, values)
        return tensor if tensor.is_empty() else known[id(plain(tensor))]

    def _write(
        self, graph: Graph, node: Node, inputs: list[Tensor], y: Tensor, context: Context
    ) -> None:
        name, attributes = context.fresh(f"{node.name}_rows"), dict[str, Any](node.attrs)
        if "axis" in attributes:
            attributes["axis"] = -1
        if node.op != "Gemm":
            add_node(graph, node.op, name, inputs, [y], attributes=attributes)
            return
        x, w, *others = inputs
        matrix = self.value(node.inputs[1])
        assert matrix is not None, node.name
        if attributes.get("transB", 0):
            w = context.table(f"{w.name}_turned", np.ascontiguousarray(matrix.T))
        if not others:
            add_node(graph, "MatMul", name, [x, w], [y])
            return
        product = new_tensor(context.fresh(f"{y.name}_product"), y)
        add_node(graph, "MatMul", name, [x, w], [product])
        add_node(graph, "Add", context.fresh(f"{name}_bias"), [product, others[0]], [y])


def _varying(node: Node, value: Callable[[Tensor], Numbers | None]) -> list[Tensor]:
    return [each for each in node.inputs if not each.is_empty() and value(each) is None]


def _is_by_row(node: Node, value: Callable[[Tensor], Numbers | None]) -> bool:
    """Whether each row that ``node`` gives is made of one row of what it reads, and constants.

    The rows are those of matrices; so in a tensor of more dimensions they are made alike.
    """
    if node.domain or len(node.outputs) != 1 or rank(node.outputs[0]) != 2:
        return False
    if width(node.outputs[0]) is None or any(
        rank(each) != 2 for each in _varying(node, value)
    ):
        return False
    constants = [each for each in map(value, node.inputs) if each is not None]
    if node.op in ELEMENTWISE:
        return all(map(_is_row, constants))
    if node.op in _ALONG_ROWS:
        return not constants and int(node.attrs.get("axis", -1)) in (-1, 1)
    if node.op not in ("Gemm", "MatMul"):
        return False
    matrix, *rows = (value(each) for each in node.inputs[1:] if not each.is_empty())
    numbers = [node.attrs.get(name, default) for name, default in _PLAIN.items()]
    is_matrix = matrix is not None and matrix.ndim == 2
    return is_matrix and numbers == [*_PLAIN.values()] and all(map(_is_row, rows))


def _is_row(values: Numbers | None) -> bool:
    """Whether it is one number, or one row, for all rows of others."""
    return values is not None and (values.ndim < 2 or values.shape[0] == 1)


_ALONG_ROWS = frozenset({"Concat", "LogSoftmax", "Softmax"})
_PLAIN = {"alpha": 1.0, "beta": 1.0, "transA": 0}
"""Attributes of a Gemm that is a MatMul and an Add."""
