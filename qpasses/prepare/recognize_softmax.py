"""RecognizeSoftmax: a Softmax that is written out is one node again."""

from typing import ClassVar

from qpasses.ir.graph import Graph, Node, producer
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Declined, Outcome, Pass
from qpasses.prepare.recognition.written_out import are_inner, reduced_axes


class RecognizeSoftmax(Pass):
    """Replace exponentials divided by their sum along one axis by Softmax.

    before: ``e = Exp (x); s = ReduceSum (e, axis); y = Div (e, s)``, or with
            ``m = ReduceMax (u, axis); x = Sub (u, m)`` in front
    after:  ``y = Softmax <axis> (x)``, or ``(u)``
    **Exact** in real arithmetic: a constant added to a row cancels.
    """

    op_types: ClassVar = frozenset({"Div"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Rewrite where nothing else reads what lies between, and the user excludes none."""
        exp, total = (producer(tensor) for tensor in node.inputs)
        if exp is None or total is None or (exp.op, total.op) != ("Exp", "ReduceSum"):
            return NOT_MINE
        if total.inputs[0] is not exp.outputs[0]:
            return NOT_MINE
        axis = _axis(total)
        if axis is None:
            return Declined("exponentials divided by a sum along other than one known axis")
        inside = [exp, total]
        if not are_inner(graph, inside, node, context.selection.excluded):
            return Declined("exponentials or their sum are read by something else as well")
        x, shift = exp.inputs[0], _shift(exp, axis)
        if shift and are_inner(graph, shift, exp, context.selection.excluded):
            x = shift[0].inputs[0]
        node.op, node.inputs = "Softmax", [x]
        node.attrs.clear()
        node.attrs["axis"] = axis
        return REWRITTEN


def _axis(node: Node) -> int | None:
    """The one axis that ``node`` reduces and keeps, from 0 on; None if it is another node."""
    axes = reduced_axes(node)
    return axes[0] if axes is not None and len(axes) == 1 else None


def _shift(exp: Node, axis: int) -> list[Node]:
    """The nodes that subtract the largest number of each row before ``exp``, if there are."""
    sub = producer(exp.inputs[0])
    largest = producer(sub.inputs[1]) if sub is not None and sub.op == "Sub" else None
    if sub is None or largest is None or largest.op != "ReduceMax":
        return []
    is_same = largest.inputs[0] is sub.inputs[0] and _axis(largest) == axis
    return [sub, largest] if is_same else []
