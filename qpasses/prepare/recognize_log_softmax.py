"""RecognizeLogSoftmax: a LogSoftmax that is written out is one node again."""

from typing import ClassVar

from qpasses.ir.graph import Graph, Node, producer
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Declined, Outcome, Pass
from qpasses.prepare.recognition.written_out import are_inner, shift_of, single_axis


class RecognizeLogSoftmax(Pass):
    """Replace numbers less the logarithm of the sum of their exponentials by LogSoftmax.

    before: ``e = Exp (x); s = ReduceSum (e, axis); l = Log (s); y = Sub (x, l)``, or with
            ``m = ReduceMax (u, axis); x = Sub (u, m)`` in front
    after:  ``y = LogSoftmax <axis> (x)``, or ``(u)``
    **Exact** in real arithmetic: a constant added to a row cancels.
    """

    op_types: ClassVar = frozenset({"Sub"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Rewrite where nothing else reads what lies between, and the user excludes none."""
        x, excluded = node.inputs[0], context.selection.excluded
        log = producer(node.inputs[1])
        total = producer(log.inputs[0]) if log is not None and log.op == "Log" else None
        exp = producer(total.inputs[0]) if total is not None else None
        if log is None or total is None or exp is None or total.op != "ReduceSum":
            return NOT_MINE
        if exp.op != "Exp" or exp.inputs[0] is not x:
            return NOT_MINE
        axis = single_axis(total)
        if axis is None:
            return Declined("a logarithm of a sum along other than one known axis")
        if not are_inner(graph, [exp, total, log], node, excluded):
            return Declined("exponentials or their sum are read by something else as well")
        shift = shift_of(exp, axis)
        if shift and {id(each) for each in x.outputs} == {id(exp), id(node)}:
            x = shift[0].inputs[0]
        node.op, node.inputs = "LogSoftmax", [x]
        node.attrs.clear()
        node.attrs["axis"] = axis
        return REWRITTEN
