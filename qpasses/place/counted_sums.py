"""Counted sums: a sum over what a mask keeps, and how many that are, which divides it."""

from collections.abc import Container, Mapping

from calibration import Range
from qpasses.ir.elementwise import ELEMENTWISE
from qpasses.ir.graph import Node, Tensor, producer, varies
from qpasses.ir.moving import moved, moves
from qpasses.ir.patterns import activations
from qpasses.ir.settings import Settings
from qpasses.ir.whole_numbers import casts_whole_numbers
from qpasses.place.planning import Plan

_FEW = 8
"""Counts up to that 8 bits hold, and sums of so many, beside those of one."""


def counted_sums(
    chosen: Plan, ranges: Mapping[str, Range], among: Container[str], settings: Settings
) -> list[str]:
    """The tensors ``among`` some that are such a sum or such a count, or one over it.

    A sum of one in a row of hundreds uses a code or two of those that all of them need.
    """
    found = dict[str, None]()
    for node in chosen.computing:
        places = {"Div": (1,), "Mul": (0, 1)}.get(node.op, ())
        for place in places if len(activations(node)) == len(node.inputs) == 2 else ():
            count = _count(node.inputs[place])
            known = [ranges[each.name].high for each in count if each.name in ranges]
            is_said = any(settings.rules.override(each.name) for each in count)
            if _FEW < max(known, default=0) <= _MANY and not is_said:
                names = [each.name for each in (*count, node.inputs[1 - place])]
                found |= dict.fromkeys(names)
    return [name for name in found if name in among and name in ranges]


_MANY = 21844
"""Those that 16 bits hold, with room for half as many again."""


def _count(tensor: Tensor) -> list[Tensor]:
    """From ``tensor`` up to a sum of whole numbers, or a cast; nothing if of others."""
    found, waiting = list[Tensor](), [tensor]
    while waiting:
        each = waiting.pop()
        found.append(each)
        node = producer(each)
        if node is None or len(found) > _LONGEST:
            return []
        if node.op == "ReduceSum" and _is_of_casts(node):
            continue
        if casts_whole_numbers(node):
            continue
        if not moves(node) and node.op not in ELEMENTWISE:
            return []
        waiting += [t for t in (moved(node) if moves(node) else node.inputs) if varies(t)]
    return found


_LONGEST = 16
"""So many nodes lie between at most."""


def _is_of_casts(node: Node) -> bool:
    """Whether whole numbers alone are added up, as they are or moved."""
    waiting, seen = [node.inputs[0]], 0
    while waiting:
        writer, seen = producer(waiting.pop()), seen + 1
        if writer is None or seen > _LONGEST:
            return False
        if casts_whole_numbers(writer):
            continue
        if not moves(writer) and writer.op != "Mul":
            return False
        waiting += [
            t for t in (moved(writer) if moves(writer) else writer.inputs) if varies(t)
        ]
    return True
