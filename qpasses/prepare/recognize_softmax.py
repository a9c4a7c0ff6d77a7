"""RecognizeSoftmax: a Softmax that is written out is one node again."""

from typing import ClassVar

from qpasses.ir.graph import Graph, Node, producer
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Declined, Outcome, Pass
from qpasses.prepare.recognition.written_out import are_inner, shift_of, single_axis


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
        axis = single_axis(total)
        if axis is None:
            return Declined("exponentials divided by a sum along other than one known axis")
        inside = [exp, total]
        if not are_inner(graph, inside, node, context.selection.excluded):
            return Declined("exponentials or their sum are read by something else as well")
        x, shift = exp.inputs[0], shift_of(exp, axis)
        if shift and are_inner(graph, shift, exp, context.selection.excluded):
            x = shift[0].inputs[0]
        node.op, node.inputs = "Softmax", [x]
        node.attrs.clear()
        node.attrs["axis"] = axis
        return REWRITTEN
