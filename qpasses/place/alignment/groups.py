"""Groups: tensors that moving ops tie together get one range."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration import Range
from qpasses.ir.flow import CARRIED
from qpasses.ir.graph import Graph, Node, Tensor, input_at, is_graph_output, producer
from qpasses.ir.moving import count_moved, moved, moves, results, tells_places
from qpasses.ir.patterns import data_inputs, value_of
from qpasses.ir.recurrent_nodes import GATES
from qpasses.ir.stages import CLAMPING
from qpasses.ir.whole_numbers import casts_whole_numbers
from qpasses.place.planning import Plan
from qpasses.place.ties import Ties


def observed(graph: Graph, chosen: Plan) -> list[str]:
    """The tensors whose range matters; one that is only moved takes that of its destination.

    So a Pad with minus infinity before a MaxPool, which never leaves the MaxPool, is no range.
    What a Relu or Clip writes always matters: its width decides whether it shares a scale.
    What is joined with others does too: it may be much narrower than they are. So may be what
    a state is at first. Whole numbers have steps of their own.
    """
    clamped = {y for _, y in chosen.clamps}
    return [
        name
        for name, tensor in chosen.tensors.items()
        if name in clamped
        or _is_joined(tensor)
        or is_graph_output(graph, tensor)
        or _has_own_range(tensor)
        or any(reader.op == CARRIED for reader in tensor.outputs)
        or not all(is_moved_by(graph, chosen, reader) for reader in tensor.outputs)
    ]


def _has_own_range(tensor: Tensor) -> bool:
    """Whether a recurrent node writes it, which computes with what others may only move, or a
    cast of whole numbers, whose steps are to be whole.
    """
    writer = producer(tensor)
    return writer is not None and (writer.op in GATES or casts_whole_numbers(writer))


def is_moved_by(graph: Graph, chosen: Plan, reader: Node) -> bool:
    """Whether ``reader`` is an integer node that moves what it reads to where it is used.

    Where it tells places too, what it drops must differ from what it keeps, as a narrower
    range would not let it; minus infinity of a Pad does in any range.
    """
    if not moves(reader) or id(reader) not in chosen.integer or not results(graph, reader):
        return False
    return not tells_places(graph, reader) or any(map(is_padded, data_inputs(reader)))


def _is_joined(tensor: Tensor) -> bool:
    """Whether a Concat, Where or Pad reads ``tensor``, which itself is no Pad's."""
    joined = any(joins(reader) or fill_of(reader).any() for reader in tensor.outputs)
    return joined and not is_padded(tensor)


def fill_of(node: Node) -> NDArray[Any]:
    """The constant that a Pad puts around its input, if it is one; nothing else."""
    value = value_of(input_at(node, 2)) if node.op == "Pad" else None
    return np.zeros(0) if value is None else value


def joins(node: Node) -> bool:
    """Whether a node moves several tensors into one: Concat and Where."""
    return moves(node) and count_moved(node) > 1


def is_padded(tensor: Tensor) -> bool:
    """Whether a Pad writes ``tensor``, or what moving nodes made it of.

    It may fill with minus infinity, which is no range.
    """
    waiting, seen = [tensor], set[int]()
    while waiting:
        each = waiting.pop()
        writer = producer(each)
        if id(each) in seen or writer is None or not moves(writer):
            continue
        if writer.op == "Pad":
            return True
        seen.add(id(each))
        waiting += moved(writer)
    return False


def align(
    graph: Graph,
    chosen: Plan,
    ranges: Mapping[str, Range],
    wanted: Collection[str] = (),
    apart: Collection[tuple[str, str]] = (),
) -> dict[str, Range]:
    """One range per group of tied tensors, given to each of its tensors.

    ``ranges`` holds at least the ``observed`` tensors, and those in ``wanted``. Of the ties
    those in ``apart`` do not count: what is read there keeps its range for its other readers.

    A group takes the union of what is read of it: of the tensors that something other than a
    moving node reads, of outputs, states and casts of whole numbers, and of those in
    ``wanted``. Another tensor that only moves on needs no more than its destinations keep, so
    a Relu behind a MaxPool narrows both. A Relu or Clip whose output would use less than three
    quarters of the shared range gets its own, by a table.
    """
    clamps, kept_apart = list(chosen.clamps), {*apart}
    ties = [pair for pair in chosen.ties if pair not in kept_apart]
    needed = {*wanted, *(name for name, _ in apart)}
    while True:
        found = _shared_ranges(graph, chosen, ranges, [*ties, *clamps], needed)
        narrow = [
            (x, y)
            for x, y in clamps
            if y in found and 4 * ranges[y].with_zero().width < 3 * found[y].with_zero().width
        ]
        if not narrow:
            return found
        clamps = [pair for pair in clamps if pair not in narrow]


def _shared_ranges(
    graph: Graph,
    chosen: Plan,
    ranges: Mapping[str, Range],
    pairs: Sequence[tuple[str, str]],
    wanted: Collection[str],
) -> dict[str, Range]:
    groups = Ties()
    for first, second in pairs:
        groups.tie(first, second)
    needed: dict[str, Range] = {}
    for name, tensor in chosen.tensors.items():
        group = groups.of(name)
        moves_on = tensor.outputs and not is_graph_output(graph, tensor)
        moves_on = moves_on and all(
            is_moved_by(graph, chosen, reader) or _clamps(chosen, reader, groups, group)
            for reader in tensor.outputs
        )
        if not moves_on or name in wanted or _has_own_range(tensor):
            own = ranges[name]
            needed[group] = needed[group].union(own) if group in needed else own
    return {name: needed[groups.of(name)] for name in chosen.tensors}


def _clamps(chosen: Plan, reader: Node, groups: Ties, group: str) -> bool:
    """Whether ``reader`` is an integer Relu or Clip within a group."""
    is_clamp = reader.op in CLAMPING and id(reader) in chosen.integer
    return is_clamp and groups.of(reader.outputs[0].name) == group


def few_codes(
    ranges: Mapping[str, Range], shared: Mapping[str, Range], codes: int
) -> dict[str, int]:
    """The tensors that lose half of their bits to the shared range, and what they use of it.

    ``codes``: how many there are. Of 256, less than 16 are few.
    """
    used = {
        name: round(codes * own.with_zero().width / shared[name].with_zero().width)
        for name, own in ranges.items()
        if name in shared and own.with_zero().width > 0 < shared[name].with_zero().width
    }
    return {name: max(count, 1) for name, count in used.items() if count**2 < codes}
