"""RecognizeLoopedCell: a Loop whose steps are cells of a recurrent net is that net."""

from collections.abc import Sequence
from typing import ClassVar

from qpasses.ir.graph import (
    Graph,
    Node,
    Tensor,
    constant,
    is_float,
    is_used,
    producer,
)
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Declined, Outcome, Pass
from qpasses.prepare.recognition.affine import Numbers, Reading
from qpasses.prepare.recognition.body_sizes import BodySizes
from qpasses.prepare.recognition.gates import plain
from qpasses.prepare.recognition.resized import origin
from qpasses.prepare.recognition.steps import (
    Found,
    Kept,
    Scanned,
    State,
    Steps,
    found_cells,
    found_heads,
)
from qpasses.prepare.recognition.trips import Count, Length, Trips, is_as_long
from qpasses.prepare.recognition.write_cells import CellWriter, detached


class RecognizeLoopedCell(Pass):
    """Write a Loop whose steps are cells as LSTM, GRU and RNN.

    before: ``h, c, all = Loop (n, true, h0, c0) <body: x_t = Gather (x, k);
            s = Gemm (x_t, w, MatMul (h, r)); i, f, g, o = Split (s);
            c = Sigmoid (f) * c + Sigmoid (i) * Tanh (g); h = Sigmoid (o) * Tanh (c)>``
    after:  ``y, h, c = LSTM (x, W, R, B, "", h0, c0); all = Squeeze (y)``
    Which sum is of which gate follows from what is done with it, not from its place. A cell
    may read another one of the same Loop. The Loop runs a constant number of times, or as
    often as what it reads has steps.
    **Exact:** it is what the nodes mean, of one step at least; float32 rounds sums in another
    order.
    """

    op_types: ClassVar = frozenset({"Loop"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Rewrite where the cells are all that the Loop does."""
        loop = _Loop(node)
        found = found_cells(loop.steps)
        if found is None:
            return NOT_MINE
        if loop.length is None:
            return Declined(
                "Loop of a recurrent cell that runs as often as data says: give it a constant "
                "number of steps, or that of what it reads"
            )
        if any(each.below is None and each.x is None for each in found):
            return Declined(
                "Loop of a recurrent cell that does not read the steps of a tensor in order"
            )
        heads = found_heads(loop.steps, found, loop.other_results(graph, found))
        if heads is None or loop.is_count_read(graph):
            return Declined(
                "Loop of a recurrent cell that gives more of each step than its hidden state, "
                "and what follows row by row"
            )
        if any(each.name in context.selection.excluded for each in node.attrs["body"].nodes):
            return NOT_MINE
        writer = CellWriter(graph, node.name, context)
        writer.write_unchanged(loop.unchanged)
        writer.write(found, heads)
        detached(node)
        return REWRITTEN


class _Loop:
    """A Loop node as steps."""

    def __init__(self, node: Node) -> None:
        self._node, self._body = node, node.attrs["body"]
        self._trips = Trips(node)
        self.length: Length | None = self._trips.length()
        self._own = {id(each) for each in self._body.nodes}
        count = len(node.inputs) - 2
        ends = zip(
            self._body.inputs[2:],
            self._body.outputs[1 : 1 + count],
            node.inputs[2:],
            node.outputs[:count],
            strict=True,
        )
        self._all = [State(*each) for each in ends]
        self.unchanged = [each for each in self._all if plain(each.after) is each.before]
        pairs = zip(self._body.outputs[1 + count :], node.outputs[count:], strict=True)
        known = {id(each.before) for each in self.unchanged}
        changed = [each for each in self._all if id(each.before) not in known]
        kept = [Kept(*each) for each in pairs]
        reading = Reading(self._value, BodySizes(self._all).lead)
        self.steps = Steps(changed, kept, self._scanned, reading)

    def _outside(self, tensor: Tensor) -> Tensor:
        """What stands for it before the Loop, if it is the same in each step."""
        tensor = plain(tensor)
        same = (each.first for each in self.unchanged if each.before is tensor)
        return next(same, tensor)

    def _value(self, tensor: Tensor) -> Numbers | None:
        return constant(self._outside(tensor))

    def _scanned(self, tensor: Tensor) -> Scanned | None:
        """The tensor outside of which a Gather takes the part of each step, in order."""
        node = producer(origin(tensor))
        if node is None or node.op != "Gather" or self.length is None:
            return None
        x, index = self._outside(node.inputs[0]), node.inputs[1]
        writer, sizes = producer(x), x.shape
        is_outside = writer is None or id(writer) not in self._own
        is_outside &= not any(x is each for each in self._body.inputs)
        if not is_outside or sizes is None:
            return None
        axis, count = int(node.attrs.get("axis", 0)) % len(sizes), self._trips.count(index)
        if count is None or len(sizes) not in (2, 3) or axis > len(sizes) - 2:
            return None
        is_whole = is_as_long(self.length, x, axis)
        if count == Count(1, 0) and is_whole:
            return Scanned(x, axis)
        if is_whole and self._is_backward(count):
            return Scanned(x, axis, is_reversed=True)
        if isinstance(self.length, tuple):
            return None
        is_short = isinstance(sizes[axis], int) and sizes[axis] < self.length
        if is_short or count != Count(1, 0):
            return None
        return Scanned(x, axis, count=self.length)

    def _is_backward(self, count: Count) -> bool:
        """Whether it counts from the last step to the first, or from the end of an axis."""
        last = self.length - 1 if isinstance(self.length, int) else -1
        return count in (Count(-1, -1), Count(-1, last), Count(-1, -1, lengths=1))

    def other_results(self, graph: Graph, found: Sequence[Found]) -> list[Kept]:
        """What leaves the Loop of each step and is no hidden state."""
        given = [id(kept.whole) for each in found for kept in each.kept]
        used = [each for each in self.steps.kept if is_used(graph, each.whole)]
        return [each for each in used if id(each.whole) not in given]

    def is_count_read(self, graph: Graph) -> bool:
        """Whether anything reads where the counting ended."""
        counted = [each for each in self.steps.states if not is_float(each.before)]
        return any(is_used(graph, each.last) for each in counted)
