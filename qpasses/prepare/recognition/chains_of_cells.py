"""Chains: steps of a recurrent net that stand one behind the other, each written out."""

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from qpasses.ir.graph import (
    Graph,
    Node,
    Tensor,
    constant,
    is_graph_output,
    new_tensor,
    producer,
)
from qpasses.prepare.recognition.affine import Reading
from qpasses.prepare.recognition.cell import Cell
from qpasses.prepare.recognition.cells import CellReading
from qpasses.prepare.recognition.steps import Kept, Scanned

_NEAR = 160
"""So many nodes behind a state are looked at for the next one."""


@dataclass(frozen=True)
class Chain:
    """``cells`` of equal weights, each led on by the next, and their states ``hidden``.

    ``is_from_zero``: the first h is all zeros, and no tensor of the graph.
    """

    cells: Sequence[Cell]
    hidden: Sequence[Tensor]
    is_from_zero: bool = False

    def inner(self) -> list[Node]:
        """The nodes that compute the states from those before."""
        found: dict[int, Node] = {}
        for cell, h_new in zip(self.cells, self.hidden, strict=True):
            known = {id(cell.x): False, id(cell.h): True}
            if cell.c is not None:
                known[id(cell.c)] = True
            _collect(h_new, known, found)
        return [*found.values()]

    def joined(self, graph: Graph) -> Iterator[tuple[Kept, list[Node]]]:
        """Where all hidden states are joined along a new axis, and by which nodes."""
        for wide in self.hidden[0].outputs:
            for node in wide.outputs[0].outputs if wide.op in _RESIZING else []:
                steps = [producer(each) for each in node.inputs]
                named = [each for each in steps if each is not None and each.op in _RESIZING]
                read = [each.inputs[0] for each in named]
                axis = int(node.attrs.get("axis", 0))
                if node.op != "Concat" or len(named) < len(steps) or node.domain:
                    continue
                is_alone = not any(read_outside(graph, x, {id(node)}) for x in node.inputs)
                sizes = [*(self.hidden[0].shape or ())]
                sizes.insert(axis, 1)
                fits = all(list(each.shape or ()) == sizes for each in node.inputs)
                if not is_alone or not fits or not 0 <= axis < len(sizes) - 1:
                    continue
                for is_reversed in (False, True):
                    order = self.hidden[::-1] if is_reversed else self.hidden
                    if _same(read, order):
                        kept = Kept(self.hidden[0], node.outputs[0], axis, is_reversed)
                        yield kept, [*named, node]
                        break

    def x(self) -> Scanned | None:
        """The tensor of which the steps read one part after the other, if they do."""
        parts = [part_of(each.x) for each in self.cells]
        known = [each for each in parts if each is not None]
        if len(known) < len(parts):
            return None
        whole, axis, start = known[0]
        if any(each[0] is not whole or each[1] != axis for each in known):
            return None
        places, count = [each[2] for each in known], len(known)
        is_forward = places == [*range(start, start + count)]
        if not is_forward and places != [*range(start, start - count, -1)]:
            return None
        return Scanned(whole, axis, not is_forward, count, min(places))


class ChainReading:
    """Finds chains. Nothing of a graph may change while one is used."""

    def __init__(self) -> None:
        """Know of nothing yet."""
        self._cells = CellReading(Reading())

    def beginning_at(self, h_new: Tensor) -> Chain | None:
        """The longest chain whose first state is ``h_new``, of two steps at least.

        What comes in may be as wide as the state: which is which the next steps tell.
        """
        chains = [each for first in self._of(h_new) if (each := self._led_on(first, h_new))]
        return max(chains, key=lambda each: len(each.cells), default=None)

    def _led_on(self, first: Cell, h_new: Tensor) -> Chain | None:
        """The chain that begins with ``first``; none where it begins before."""
        if any(_follows(first, before) for before in self._of(first.h)):
            return None
        cells, hidden = [first], [h_new]
        while (after := self._after(cells[-1], hidden[-1])) is not None:
            cells.append(after[0])
            hidden.append(after[1])
        zero = self._from_zero(first)
        if zero is not None:
            return Chain([zero, *cells], [first.h, *hidden], is_from_zero=True)
        return Chain(cells, hidden) if len(cells) > 1 else None

    def _from_zero(self, after: Cell) -> Cell | None:
        """The step before, where its h is a constant of zeros, whose products are folded.

        That its bias is the same is to say so.
        """
        h_new = after.h
        zero = new_tensor(f"{h_new.name}_zero", h_new)
        cells = self._cells.of(h_new, zero), self._cells.gru_from_zero(h_new, zero)
        for found in chain.from_iterable(cells):
            alike = replace(found, r=after.r, p=after.p)
            if not found.r.any() and _follows(after, alike) and _sees_zero(found, after):
                return alike
        return None

    def _of(self, h_new: Tensor) -> Iterator[Cell]:
        """The cells that give ``h_new``, of whatever state."""
        for h in self._cells.old_states(h_new):
            yield from self._cells.of(h_new, h)

    def _after(self, cell: Cell, h_new: Tensor) -> tuple[Cell, Tensor] | None:
        """The next step, and its state."""
        writer = producer(h_new)
        for node in _behind(h_new):
            if writer is None or node.op != writer.op:
                continue
            for found in self._cells.of(node.outputs[0], h_new):
                if _follows(found, cell):
                    return found, node.outputs[0]
        return None


def _same(tensors: Sequence[Tensor], others: Sequence[Tensor]) -> bool:
    return [*map(id, tensors)] == [*map(id, others)]


def _follows(after: Cell, before: Cell) -> bool:
    """Whether ``after`` is the step behind ``before``, if its h is."""
    return after.weighs_as(before) and after.c is before.c_new


def _sees_zero(found: Cell, after: Cell) -> bool:
    """Whether the peepholes are those of ``after``, as far as they see anything but zeros."""
    size = found.hidden
    are_same = found.p == after.p
    c = constant(found.c)
    if c is not None and not c.any():
        are_same[:, :size] = are_same[:, 2 * size :] = True
    return bool(are_same.all())


def _behind(tensor: Tensor) -> Iterator[Node]:
    """The nodes behind ``tensor``, the nearest first, so many of them."""
    waiting, seen = [*tensor.outputs], set[int]()
    while waiting and len(seen) < _NEAR:
        node = waiting.pop(0)
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        waiting += [reader for each in node.outputs for reader in each.outputs]


def _collect(tensor: Tensor, known: dict[int, bool], found: dict[int, Node]) -> bool:
    """Add the nodes on ways to ``tensor`` from what is ``known`` to be one; whether it is."""
    if id(tensor) not in known:
        node = producer(tensor)
        read = [] if node is None else [_collect(each, known, found) for each in node.inputs]
        known[id(tensor)] = any(read)
        if node is not None and any(read):
            found[id(node)] = node
    return known[id(tensor)]


def part_of(tensor: Tensor) -> tuple[Tensor, int, int] | None:
    """The tensor that ``tensor`` is one part of, along which axis, and at which place."""
    node, y = producer(tensor), tensor
    while node is not None and node.op in _RESIZING and not node.domain:
        y = node.inputs[0]
        node = producer(y)
    if node is None or node.domain or node.op not in ("Gather", "Slice", "Split"):
        return None
    whole = node.inputs[0]
    if whole.shape is None or len(whole.shape) not in (2, 3):
        return None
    dims = len(whole.shape)
    found = _place(node, y, dims)
    if found is None or found[0] > dims - 2:
        return None
    axis, place = found
    if place < 0:
        if not isinstance(whole.shape[axis], int):
            return None
        place += whole.shape[axis]
    rest = [size for k, size in enumerate(whole.shape) if k != axis and size != 1]
    is_part = tensor.shape is not None and [n for n in tensor.shape if n != 1] == rest
    return (whole, axis, place) if is_part else None


_RESIZING = frozenset({"Identity", "Reshape", "Squeeze", "Unsqueeze"})


def _place(node: Node, y: Tensor, dims: int) -> tuple[int, int] | None:
    """The axis and place at which ``node`` takes the one part ``y``."""
    axis = int(node.attrs.get("axis", 0)) % dims
    if node.op == "Gather":
        index = constant(node.inputs[1])
        return None if index is None or index.size != 1 else (axis, int(np.ravel(index)[0]))
    if node.op == "Split":
        sizes = [None if each.shape is None else each.shape[axis] for each in node.outputs]
        place = next(k for k, each in enumerate(node.outputs) if each is y)
        return (axis, place) if all(size == 1 for size in sizes[: place + 1]) else None
    given = [constant(each) for each in node.inputs[1:]]
    if len(given) < 3 or any(each is None or each.size != 1 for each in given):
        return None
    start, end, axis, *step = (int(np.ravel(each)[0]) for each in given if each is not None)
    is_last = start == -1 and end > 2**30
    is_one = (end == start + 1 and (start >= 0 or end < 0)) or is_last
    return (axis % dims, start) if is_one and step in ([], [1]) else None


def can_be_joined(parts: Sequence[Tensor], hidden: Sequence[Tensor]) -> bool:
    """Whether ``parts`` are rows alike, none of which follows from a state of the chain."""
    sizes = [list(each.shape or ()) for each in parts]
    if len(sizes[0]) != 2 or any(each != sizes[0] for each in sizes):
        return False
    wanted = {id(producer(each)) for each in parts if producer(each) is not None}
    waiting, seen = [node for each in hidden for node in each.outputs], set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        waiting += [reader for each in node.outputs for reader in each.outputs]
    return not wanted & seen


def read_outside(graph: Graph, tensor: Tensor, inner: Set[int]) -> bool:
    """Whether ``tensor`` leaves the graph, or a node whose id is not ``inner`` reads it."""
    return is_graph_output(graph, tensor) or any(id(n) not in inner for n in tensor.outputs)
