"""RecognizeUnrolledCells: cells that are written out step by step are one recurrent net."""

from typing import ClassVar

from qpasses.ir.graph import Graph, Node, absent, is_float
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Declined, Outcome, Pass
from qpasses.prepare.recognition.chains_of_cells import (
    ChainReading,
    can_be_joined,
    read_outside,
)
from qpasses.prepare.recognition.steps import Found, State
from qpasses.prepare.recognition.write_cells import CellWriter


class RecognizeUnrolledCells(Pass):
    """Write the steps of an LSTM, GRU or RNN that stand one behind the other as one node.

    before: ``h1 = Tanh (Add (MatMul (x0, w), MatMul (h0, r)));
            h2 = Tanh (Add (MatMul (x1, w), MatMul (h1, r)))``, x0 and x1 parts of x
    after:  ``y, h2 = RNN (x, W, R, B, "", h0); h1 = Gather (y, 0)``
    Which sum is of which gate follows from what is done with it, not from its place; weights
    must be the same in each step. A single step stays as it is.
    **Exact:** it is what the nodes mean; float32 rounds sums in another order.
    """

    op_types: ClassVar = frozenset(
        {"Add", "Elu", "HardSigmoid", "LeakyRelu", "Mul", "Relu", "Sigmoid", "Softplus"}
        | {"Softsign", "Sub", "Tanh", "ThresholdedRelu"}
    )
    """What the last step of a cell may be."""

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Rewrite a chain that begins here, from which nothing but hidden states is read."""
        h_new = node.outputs[0]
        chain = ChainReading().beginning_at(h_new) if is_float(h_new) else None
        if chain is None:
            return NOT_MINE
        inner, joins = chain.inner(), [*chain.joined(graph)]
        joining = [each for _, nodes in joins for each in nodes]
        if any(each.name in context.selection.excluded for each in [*inner, *joining]):
            return NOT_MINE
        x, parts = chain.x(), [each.x for each in chain.cells]
        if x is None and not can_be_joined(parts, chain.hidden):
            return NOT_MINE  # each step reads what came of the one before
        last, first = chain.cells[-1], chain.cells[0]
        ends = {id(each) for each in (*chain.hidden, last.c_new)}
        written = [each for one in inner for each in one.outputs if id(each) not in ends]
        own = set(map(id, inner))
        if any(read_outside(graph, each, own) for each in written):
            return Declined(
                "step of a recurrent net of which more is read than the hidden states"
            )
        inner += joining
        own |= set(map(id, joining))
        used = {
            step: each
            for step, each in enumerate(chain.hidden)
            if read_outside(graph, each, own)
        }
        end = chain.hidden[-1]
        if len(used) > 1:  # the last one too is a part of all, for a net that reads them
            end = absent()
        else:
            used.pop(len(chain.hidden) - 1, None)
        c = None
        if first.c is not None and last.c_new is not None:
            c = State(first.c, last.c_new, first.c, last.c_new)
        start = absent() if chain.is_from_zero else first.h
        h = State(first.h, chain.hidden[-1], start, end)
        name = node.name
        found = Found(first, h, c, None, x, [kept for kept, _ in joins])
        for each in inner:
            each.inputs.clear()
            each.outputs.clear()
        CellWriter(graph, name, context).write_chain(found, parts, used)
        return REWRITTEN
