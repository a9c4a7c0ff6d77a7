"""SequenceToScanOutput: what the steps of a Loop insert in a sequence, it gives stacked."""

from collections.abc import Collection, Iterator, Sequence
from typing import ClassVar

from qpasses.ir.graph import (
    Graph,
    Node,
    Tensor,
    add_node,
    is_graph,
    is_used,
    new_tensor,
    producer,
)
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Declined, Outcome, Pass
from qpasses.ir.unknown_sizes import is_unknown
from qpasses.prepare.recognition.gates import plain
from qpasses.prepare.recognition.sequences import CONCAT, Stacked


class SequenceToScanOutput(Pass):
    """Give what each step of a Loop inserts at the end of a sequence as a scan output.

    before: ``s = Loop (n, true, SequenceEmpty ()) <body: s_t = SequenceInsert (s, y_t)>;
            y = ConcatFromSequence <axis = 1, new_axis = 1> (s)``
    after:  ``all = Loop (n, true) <body: y_t>; y = Transpose <perm = 1, 0, ...> (all)``
    Scripted PyTorch writes a list so, to which a loop appends. Loops in bodies too.
    **Exact:** no number changes. Where the Loop has no step, the results have a size of 0,
    and joining a sequence without tensors was an error.
    """

    op_types: ClassVar = frozenset({"If", "Loop", "Scan"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Rewrite where all steps insert tensors of one shape, as far as is known."""
        reason, has_rewritten = None, False
        sizes = {size for each in graph.inputs for size in each.shape or ()}
        known = {size for size in sizes if not is_unknown(size)}  # inference makes such names
        for home, loop in _loops(graph, node):
            for place in reversed(range(len(loop.inputs) - 2)):
                found = _Listing.at(home, loop, place)
                why_not = found and found.why_not(known)
                if found and why_not is None:
                    found.rewrite(context)
                    has_rewritten = True
                reason = reason or why_not
        if has_rewritten:
            return REWRITTEN
        return NOT_MINE if reason is None else Declined(f"Loop whose sequence {reason}")


def _loops(home: Graph, node: Node) -> Iterator[tuple[Graph, Node]]:
    """``node``, if it is a Loop, and those in its bodies, each with the graph it stands in."""
    if node.op == "Loop" and not node.domain:
        yield home, node
    for body in filter(is_graph, node.attrs.values()):
        for each in list(body.nodes):
            yield from _loops(body, each)


class _Listing:
    """A state of a Loop to which each step adds a tensor; ``step``: the one it adds."""

    def __init__(self, home: Graph, loop: Node, place: int, insert: Node) -> None:
        self._home, self._loop, self._place = home, loop, place
        self._insert, self._step = insert, insert.inputs[1]
        self._whole = new_tensor(f"{loop.outputs[place].name}_stacked", self._step)
        sizes = self._step.shape
        self._whole.shape = None if sizes is None else [None, *sizes]
        self._stacked = Stacked(loop.outputs[place], self._whole, 0)

    @classmethod
    def at(cls, home: Graph, loop: Node, place: int) -> "_Listing | None":
        """That of the state ``place``, if each step but inserts at its end."""
        body = loop.attrs["body"]
        before, after = body.inputs[2 + place], body.outputs[1 + place]
        begin, insert = producer(plain(loop.inputs[2 + place])), producer(plain(after))
        if begin is None or begin.op != "SequenceEmpty" or insert is None:
            return None
        is_insert = insert.op == "SequenceInsert" and len(insert.inputs) == 2
        readers = [each for each in before.outputs if is_used(body, each.outputs[0])]
        is_only = is_insert and insert.inputs[0] is before and readers == [insert]
        return cls(home, loop, place, insert) if is_only and _is_unread(after, body) else None

    def why_not(self, known: Collection[int | str]) -> str | None:
        """Why it stays; ``known``: sizes of inputs, which are the same in all steps."""
        sizes, readers = self._step.shape, self._stacked.sequence.outputs
        if sizes is None:
            return "has tensors of a rank unknown"
        own = {id(each) for each in self._home.nodes}
        joins = [each for each in readers if id(each) in own]  # those in bodies may not run
        is_even = any(each.op == CONCAT and each.attrs.get("new_axis", 0) for each in joins)
        if not is_even and not _are_alike(sizes, joins, known):
            return "may have tensors of many sizes"
        return self._stacked.why_not(self._home)

    def rewrite(self, context: Context) -> None:
        """Take the state away and give the tensors instead."""
        loop, body = self._loop, self._loop.attrs["body"]
        self._whole.name = context.fresh(self._whole.name)
        self._stacked.read_instead(self._home, context)
        del loop.inputs[2 + self._place]
        del body.inputs[2 + self._place]
        del loop.outputs[self._place]
        del body.outputs[1 + self._place]
        self._insert.inputs.clear()
        body.outputs.append(self._given(body, context))
        loop.outputs.append(self._whole)

    def _given(self, body: Graph, context: Context) -> Tensor:
        """What is added, under a name that leaves the body once."""
        step = new_tensor(context.fresh(f"{self._step.name}_given"), self._step)
        name = context.fresh(f"{self._insert.name}_given")
        add_node(body, "Identity", name, [self._step], [step])
        return step


def _is_unread(after: Tensor, body: Graph) -> bool:
    """Whether nothing reads the longer sequence ``after`` in the step that makes it."""
    waiting = [plain(after)]
    ends = 0
    for tensor in waiting:
        ends += sum(tensor is each for each in body.outputs)
        if any(each.op != "Identity" for each in tensor.outputs):
            return False
        waiting += [each.outputs[0] for each in tensor.outputs if each.outputs]
    return ends == 1


def _are_alike(
    sizes: Sequence[int | str | None], joins: Sequence[Node], known: Collection[int | str]
) -> bool:
    """Whether tensors of ``sizes``, some of them free, are alike where they are joined.

    All sizes but the one that they are joined along have to be.
    """
    fixed = [isinstance(size, int) or (size is not None and size in known) for size in sizes]
    axes = {int(each.attrs["axis"]) % len(sizes) for each in joins if each.op == CONCAT}
    free = {place for place, is_fixed in enumerate(fixed) if not is_fixed}
    return not free or (bool(axes) and free.isdisjoint(axes))
