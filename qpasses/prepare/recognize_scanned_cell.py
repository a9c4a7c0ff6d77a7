"""RecognizeScannedCell: a Scan whose steps are cells of a recurrent net is that net."""

from typing import ClassVar

from qpasses.ir.graph import Graph, Node, Tensor, constant, is_used
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Declined, Outcome, Pass
from qpasses.prepare.recognition.affine import Numbers, Reading
from qpasses.prepare.recognition.body_sizes import BodySizes
from qpasses.prepare.recognition.gates import plain
from qpasses.prepare.recognition.steps import (
    Kept,
    Scanned,
    State,
    Steps,
    found_cells,
    found_heads,
)
from qpasses.prepare.recognition.write_cells import CellWriter, detached


class RecognizeScannedCell(Pass):
    """Write a Scan whose steps are cells as LSTM, GRU and RNN.

    before: ``h, all = Scan (h0, x) <body: s = Add (MatMul (x_t, w), MatMul (h, r));
            h = Tanh (s)>``
    after:  ``y, h = RNN (x, W, R, B, "", h0); all = Squeeze (y)``
    Which sum is of which gate follows from what is done with it, not from its place. A cell
    may read another one of the same Scan. What is scanned backward is turned first.
    **Exact:** it is what the nodes mean, of one step at least; float32 rounds sums in another
    order.
    """

    op_types: ClassVar = frozenset({"Scan"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Rewrite where the cells are all that the Scan does."""
        steps, unchanged = _steps(node)
        found = found_cells(steps)
        excluded = context.selection.excluded
        if found is None or any(each.name in excluded for each in node.attrs["body"].nodes):
            return NOT_MINE
        if any(each.below is None and each.x is None for each in found):
            return Declined("Scan of a recurrent cell that reads none of the steps it scans")
        given = [id(kept.whole) for each in found for kept in each.kept]
        used = [each for each in steps.kept if is_used(graph, each.whole)]
        others = [each for each in used if id(each.whole) not in given]
        heads = found_heads(steps, found, others)
        if heads is None:
            return Declined(
                "Scan of a recurrent cell that gives more of each step than its hidden state, "
                "and what follows row by row"
            )
        writer = CellWriter(graph, node.name, context)
        writer.write_unchanged(unchanged)
        writer.write(found, heads)
        detached(node)
        return REWRITTEN


def _steps(node: Node) -> tuple[Steps, list[State]]:
    """The steps of a Scan, and its states that never change."""
    body = node.attrs["body"]
    scans = int(node.attrs["num_scan_inputs"])
    count = len(node.inputs) - scans
    ends = zip(
        body.inputs[:count],
        body.outputs[:count],
        node.inputs[:count],
        node.outputs[:count],
        strict=True,
    )
    states = [State(*each) for each in ends]
    unchanged = [each for each in states if plain(each.after) is each.before]
    axes = _listed(node, "scan_input_axes", scans)
    turns = _listed(node, "scan_input_directions", scans)
    parts = {
        id(part): Scanned(whole, axis, is_reversed=bool(turn))
        for part, whole, axis, turn in zip(
            body.inputs[count:], node.inputs[count:], axes, turns, strict=True
        )
        if whole.shape is not None and len(whole.shape) == 3
    }
    ways = len(body.outputs) - count
    kept = [
        Kept(step, whole, axis % (len(step.shape or ()) + 1), bool(turn))
        for step, whole, axis, turn in zip(
            body.outputs[count:],
            node.outputs[count:],
            _listed(node, "scan_output_axes", ways),
            _listed(node, "scan_output_directions", ways),
            strict=True,
        )
    ]

    def value(tensor: Tensor) -> Numbers | None:
        same = (each.first for each in unchanged if each.before is plain(tensor))
        return constant(next(same, plain(tensor)))

    reading = Reading(value, BodySizes(states).lead)
    changed = [each for each in states if not any(each is other for other in unchanged)]
    return Steps(changed, kept, lambda x: parts.get(id(x)), reading), unchanged


def _listed(node: Node, name: str, count: int) -> list[int]:
    return [int(each) for each in node.attrs.get(name) or [0] * count]
