"""Steps: what a Loop or Scan does in each, as cells of recurrent nets, each found once."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np

from qpasses.ir.graph import Tensor, is_float, rank
from qpasses.prepare.recognition.affine import Reading
from qpasses.prepare.recognition.cell import Cell
from qpasses.prepare.recognition.cells import CellReading
from qpasses.prepare.recognition.gates import plain
from qpasses.prepare.recognition.resized import is_resized, origin
from qpasses.prepare.recognition.row_functions import RowFunction
from qpasses.prepare.recognition.stepped_nodes import stepped_cell


@dataclass(frozen=True)
class State:
    """What a step finds and leaves, what it is at first, and who has it at last."""

    before: Tensor
    after: Tensor
    first: Tensor
    last: Tensor


@dataclass(frozen=True)
class Kept:
    """What each step gives, and the tensor of all of it, steps along ``axis``."""

    step: Tensor
    whole: Tensor
    axis: int = 0
    is_reversed: bool = False


@dataclass(frozen=True)
class Scanned:
    """A tensor of which each step reads one part, along ``axis``.

    ``count``: of so many, from ``start`` on; of all where it is None.
    """

    whole: Tensor
    axis: int
    is_reversed: bool = False
    count: int | None = None
    start: int = 0


@dataclass(frozen=True)
class Steps:
    """The steps of a node. ``scanned`` says what a tensor is a part of, if it is of any."""

    states: Sequence[State]
    kept: Sequence[Kept]
    scanned: Callable[[Tensor], Scanned | None]
    reading: Reading


@dataclass(frozen=True)
class Found:
    """A cell, the states that it leads on, and the cell before whose h is its x.

    ``kept``: what is given of its h in each step.
    """

    cell: Cell
    h: State
    c: State | None
    below: "Found | None"
    x: Scanned | None
    kept: Sequence[Kept]


@dataclass(frozen=True)
class Head:
    """What each step gives as a function of rows: of hidden states, and of what is scanned."""

    kept: Kept
    function: RowFunction
    sources: Sequence[Found | Scanned]


def found_heads(
    steps: Steps, found: Sequence[Found], wanted: Sequence[Kept]
) -> Sequence[Head] | None:
    """``wanted`` as functions of what the cells that were ``found`` read and give.

    None where one of them is made of something else.
    """
    states = {id(origin(each.h.after)): each for each in found}

    def source(tensor: Tensor) -> Found | Scanned | None:
        return states.get(id(origin(tensor))) or steps.scanned(tensor)

    heads = []
    for kept in wanted:
        function = RowFunction.of(
            kept.step, lambda tensor: source(tensor) is not None, steps.reading.value
        )
        if function is None or not function.nodes or not function.sources:
            return None
        sources = [source(each) for each in function.sources]
        heads.append(Head(kept, function, [each for each in sources if each is not None]))
    return heads


def found_cells(steps: Steps) -> Sequence[Found] | None:
    """The cells that ``steps`` are, each behind that which it reads; None for other steps.

    One whose x is part of nothing has neither ``below`` nor ``x``.
    """
    for state in steps.states:
        steps.reading.keep_whole(plain(state.after))
    waiting = _cells(steps)
    if waiting is None:
        return None
    found: list[Found] = []
    while waiting:
        ready = [each for each in waiting if not _waits(each[0], waiting, found)]
        if not ready:
            return None  # a cell that reads what follows from it
        for each in ready:
            cell, h, c = each
            below = next((f for f in found if plain(f.h.after) is cell.x), None)
            x = None if below else steps.scanned(cell.x)
            kept = [k for k in steps.kept if origin(k.step) is origin(h.after)]
            found.append(Found(cell, h, c, below, x, kept))
            waiting.remove(each)
    return found


_Cell = tuple[Cell, State, State | None]


def _waits(cell: Cell, waiting: Sequence[_Cell], found: Sequence[Found]) -> bool:
    known = any(plain(each.h.after) is cell.x for each in found)
    return not known and any(plain(h.after) is cell.x for _, h, _ in waiting)


def _cells(steps: Steps) -> list[_Cell] | None:
    """The cells of all states that are float; None where one is led on otherwise.

    Of float32, as onnxruntime has recurrent nodes, and of one rank from the first on.
    """
    left = [each for each in steps.states if is_float(each.before)]
    if not all(each.before.dtype == np.float32 and _keeps_rank(each) for each in left):
        return None
    ends = {id(plain(each.after)) for each in left}
    cells = CellReading(steps.reading)
    found: list[_Cell] = []
    for h in list(left):
        others = [each for each in left if each is not h]
        one = None
        if h in left:
            one = _one_node(h, others, ends, steps) or _one_cell(h, others, cells)
        if one is not None:
            found.append(one)
            left = [each for each in others if each is not one[2]]
    return None if left or not found else found


def _keeps_rank(state: State) -> bool:
    ranks = {rank(each) for each in (state.first, state.before, state.after)} - {None}
    return len(ranks) < 2 and all(each is None or each <= _MOST for each in ranks)


_MOST = 3
"""A state has at most the axes of one of a recurrent node."""


def _one_node(
    h: State, others: Sequence[State], ends: Collection[int], steps: Steps
) -> _Cell | None:
    """The cell that a node of one step is."""
    cell = stepped_cell(h.after, h.before, lambda x: id(x) in ends, steps.reading.value)
    if cell is None:
        return None
    if cell.op != "LSTM":
        return cell, h, None
    for c in others:
        if is_resized(cell.c, c.before) and is_resized(c.after, cell.c_new):
            return cell, h, c
    return None


def _one_cell(h: State, others: Sequence[State], cells: CellReading) -> _Cell | None:
    for c in others:
        lstm = cells.lstm(h.after, h.before, c.before, c.after)
        if lstm is not None:
            return lstm, h, c
    cell = cells.gru(h.after, h.before) or cells.rnn(h.after, h.before)
    return None if cell is None else (cell, h, None)
