"""HoistTranspose: branches of one tensor that are transposed alike are transposed once."""

from typing import ClassVar

from qpasses.ir.elementwise import differing_axes, is_elementwise
from qpasses.ir.graph import Graph, Node, add_node, new_tensor, producer, sole_consumer, varies
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Outcome, Pass, rename_between


class HoistTranspose(Pass):
    """Transpose a tensor before several elementwise branches instead of behind each.

    before: ``a = Mul (x, 0.5); b = Erf (x); c = Transpose (a); d = Transpose (b)``
    after:  ``t = Transpose (x); c = Mul (t, 0.5); d = Erf (t)``
    So the branches are one function of one tensor where they rejoin.
    **Exact:** each number is computed as before, at another place.
    """

    op_types: ClassVar = frozenset({"Transpose"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Rewrite where at least two branches of a tensor have the same Transpose."""
        first = producer(node.inputs[0])
        while first is not None and _is_function(first):
            (x,) = filter(varies, first.inputs)
            found = [_branch(graph, each) for each in x.outputs]
            branches = [
                each
                for each in found
                if each
                and each[-1].attrs == node.attrs
                and not any(one.name in context.selection.excluded for one in each)
            ]
            if len(branches) > 1:
                _hoist(graph, node, branches, context)
                return REWRITTEN
            first = producer(x)
        return NOT_MINE


def _is_function(node: Node) -> bool:
    """Whether ``node`` is elementwise, of one tensor that it reads once, and of numbers."""
    is_single = sum(map(varies, node.inputs)) == 1
    return is_single and is_elementwise(node) and not differing_axes([node])


def _branch(graph: Graph, node: Node) -> list[Node]:
    """``node`` and what follows, up to a Transpose; nothing where there is none."""
    found: list[Node] = []
    each: Node | None = node
    while each is not None and _is_function(each):
        found.append(each)
        each = sole_consumer(graph, each.outputs[0])
    return [*found, each] if found and each is not None and each.op == "Transpose" else []


def _hoist(graph: Graph, node: Node, branches: list[list[Node]], context: Context) -> None:
    (x,) = filter(varies, branches[0][0].inputs)
    transposed = new_tensor(context.fresh(f"{x.name}_transposed"), x)
    name = context.fresh(f"{node.name}_first")
    attributes = dict(node.attrs)
    for branch in branches:
        *functions, last = branch
        functions[0].inputs = [
            transposed if tensor is x else tensor for tensor in functions[0].inputs
        ]
        transposed.shape = last.outputs[0].shape
        for each in functions[:-1]:
            each.outputs[0].shape = transposed.shape
        (written,) = last.outputs
        last.inputs.clear()
        last.outputs.clear()
        functions[-1].outputs = [written]
        rename_between(functions[0], functions[-1], context)
    add_node(graph, "Transpose", name, [x], [transposed], attributes=attributes)
