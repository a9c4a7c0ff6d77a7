"""UnbindToGather: the parts of a tensor are read from the tensor, and from no sequence."""

from typing import ClassVar

from qpasses.ir.graph import Graph, Node, constant, input_at, rank
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Declined, Outcome, Pass
from qpasses.prepare.recognition.sequences import Stacked


class UnbindToGather(Pass):
    """Read what SplitToSequence puts into a sequence one by one from the tensor it splits.

    before: ``s = SplitToSequence <keepdims = 0> (x); n = SequenceLength (s);
            x_t = SequenceAt (s, t)``
    after:  ``n = Gather (Shape (x), 0); x_t = Gather (x, t)``
    Scripted PyTorch writes ``x.unbind()`` so; what reads the sequence may stand in a body.
    **Exact:** no number changes. With ``split`` of 1 ONNX says that ``keepdims`` is ignored;
    PyTorch's exporter counts on it, and onnxruntime computes it so.
    """

    op_types: ClassVar = frozenset({"SplitToSequence"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Rewrite where all that reads the sequence takes its tensors or its length."""
        x, dims = node.inputs[0], rank(node.inputs[0])
        if dims is None or node.attrs.get("keepdims", 1) or not _by_one(node):
            return NOT_MINE
        stacked = Stacked(node.outputs[0], x, int(node.attrs.get("axis", 0)) % dims)
        reason = stacked.why_not(graph)
        if reason is not None:
            return Declined(f"SplitToSequence whose sequence {reason}")
        stacked.read_instead(graph, context)
        node.inputs.clear()
        return REWRITTEN


def _by_one(node: Node) -> bool:
    """Whether each part has a size of 1 of the axis: said by one number, or by none."""
    split = input_at(node, 1)
    parts = constant(split)
    return split is None or (parts is not None and parts.ndim == 0 and int(parts) == 1)
