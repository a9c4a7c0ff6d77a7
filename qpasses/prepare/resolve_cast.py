"""ResolveCast: say what a cast does where the types are known."""

from typing import ClassVar

from onnx import helper

from qpasses.ir.graph import Graph, Node
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Outcome, Pass


class ResolveCast(Pass):
    """Turn CastLike into Cast, and a cast to the type that a tensor has into Identity.

    before: ``y = CastLike (x, z)``
    after:  ``y = Cast <to = the type of z> (x)``, or ``y = Identity (x)`` if x has it.
    **Exact:** the values of the same type are the same tensor.
    """

    op_types: ClassVar = frozenset({"Cast", "CastLike"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Ask for the type that the node casts to; not all are numpy's."""
        source = _elem_type(node.inputs[0].dtype)
        wanted = _elem_type(node.inputs[1].dtype) if len(node.inputs) > 1 else node.attrs["to"]
        if source is not None and source == wanted:
            node.op, node.attrs = "Identity", {}
        elif node.op == "CastLike" and wanted is not None:
            node.op, node.attrs["to"] = "Cast", wanted
        else:
            return NOT_MINE
        node.inputs = node.inputs[:1]
        return REWRITTEN


def _elem_type(dtype: object) -> int | None:
    """The number ONNX has for a type, as onnx-graphsurgeon gives it; None if not known."""
    if dtype is None or isinstance(dtype, int):
        return dtype
    return int(helper.np_dtype_to_tensor_dtype(dtype))
