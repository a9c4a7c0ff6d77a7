"""Sequences whose tensors are those of one, along an axis: what reads them reads that one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from qpasses.ir.graph import Graph, Node, Tensor, add_node, is_graph_output, new_tensor, rank
from qpasses.ir.rewriting import Context


@dataclass(frozen=True)
class Stacked:
    """A sequence, and a tensor that has its tensors one behind the other along ``axis``."""

    sequence: Tensor
    whole: Tensor
    axis: int

    def why_not(self, home: Graph) -> str | None:
        """Why not all that reads the sequence, which ``home`` writes, can read ``whole``."""
        if is_graph_output(home, self.sequence):
            return "leaves as a sequence"
        found = [_why_not(each, self) for each in self.sequence.outputs]
        return next((each for each in found if each is not None), None)

    def read_instead(self, graph: Graph, context: Context) -> None:
        """Let all that reads the sequence, in ``graph`` or a body of it, read ``whole``."""
        for reader in list(self.sequence.outputs):
            home = _home(graph, reader)
            if reader.op == "SequenceAt":
                reader.op, reader.attrs = "Gather", {"axis": self.axis}
                reader.inputs[0] = self.whole
                reader.outputs[0].shape = _elements(self.whole.shape or (), self.axis)
                continue
            (result,) = reader.outputs
            reader.inputs.clear()
            reader.outputs.clear()
            Reader(home, reader, context).write(self, result)


def _why_not(reader: Node, stacked: Stacked) -> str | None:
    if reader.domain or reader.op not in ("SequenceAt", "SequenceLength", CONCAT):
        return f"is read by {reader.op}"
    if reader.op == "SequenceAt":
        return None if rank(reader.inputs[1]) == 0 else "is read at places of a rank unknown"
    if reader.op == CONCAT and not reader.attrs.get("new_axis", 0):
        whole = stacked.whole
        sizes = _elements(whole.shape or (), stacked.axis)
        axis = int(reader.attrs["axis"]) % len(sizes) if sizes else -1
        if axis < 0 or not all(isinstance(size, int) for size in sizes[axis:]):
            return "is joined along sizes that are not known"
    return None


CONCAT = "ConcatFromSequence"
T = TypeVar("T")


def _elements(sizes: Sequence[T], axis: int) -> list[T]:
    return [size for place, size in enumerate(sizes) if place != axis]


def _home(graph: Graph, node: Node) -> Graph:
    bodies = [graph, *graph.subgraphs(recursive=True)]
    return next(each for each in bodies if any(node is other for other in each.nodes))


@dataclass(frozen=True)
class Reader:
    """Writes, in ``home``, what ``node`` gave, under names like its own."""

    home: Graph
    node: Node
    context: Context

    def write(self, stacked: Stacked, result: Tensor) -> None:
        """Give ``result`` of the whole tensor."""
        if self.node.op == "SequenceLength":
            sizes = self._tensor("sizes", result, [rank(stacked.whole)])
            self._add("Shape", [stacked.whole], sizes)
            place = self.context.table(f"place_{stacked.axis}", np.array(stacked.axis))
            self._add("Gather", [sizes, place], result, axis=0)
            return
        whole, axis = stacked.whole, int(self.node.attrs["axis"])
        sizes = list(whole.shape or ())
        is_new = bool(self.node.attrs.get("new_axis", 0))
        place = axis % (len(sizes) - (not is_new))
        order = _elements(range(len(sizes)), stacked.axis)
        order.insert(place, stacked.axis)
        turned = [sizes[k] for k in order]
        if is_new:
            self._turn(whole, order, result)
            return
        x = self._turn(whole, order, self._tensor("turned", whole, turned))
        if turned[place + 1] == 1:
            axes = self.context.table(f"places_{place + 1}", np.array([place + 1]))
            self._add("Squeeze", [x, axes], result)
            return
        wanted = np.array([*[0] * place, -1, *turned[place + 2 :]], np.int64)
        shape = self.context.table(f"{self.node.name}_shape", wanted)
        self._add("Reshape", [x, shape], result)

    def _turn(self, x: Tensor, order: list[int], result: Tensor) -> Tensor:
        if order == sorted(order):
            return self._add("Identity", [x], result)
        return self._add("Transpose", [x], result, perm=order)

    def _tensor(self, what: str, like: Tensor, sizes: Sequence[object]) -> Tensor:
        made = new_tensor(self.context.fresh(f"{self.node.name}_{what}"), like)
        made.shape = list(sizes)
        return made

    def _add(
        self, op: str, inputs: Sequence[Tensor], y: Tensor, **attributes: object
    ) -> Tensor:
        name = self.context.fresh(f"{self.node.name}_{op.lower()}")
        add_node(self.home, op, name, inputs, [y], attributes=attributes)
        return y
