"""Regions: a float graph in pieces, each writing what others read or what is stored."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import onnx

from calibration.large_weights import names_read


@dataclass(frozen=True)
class Region:
    """Nodes, by their places in a graph, what varies of what they read, and what they write.

    Nothing else of what they write is read outside.
    """

    places: Sequence[int]
    reads: Sequence[str]
    writes: Sequence[str]


def regions_of(
    graph: onnx.GraphProto, ends: AbstractSet[str], given: AbstractSet[str]
) -> list[Region]:
    """The regions of ``graph``, in an order in which they can run; linear in its nodes.

    ``ends``: the tensors that are looked at, ``given``: those that it reads and does not
    write. What a single region reads, and nobody looks at, is inside of this; what nobody
    reads is in none.
    """
    varying = given | {name for node in graph.node for name in node.output}
    reads = [[n for n in names_read([node]) if n in varying] for node in graph.node]
    readers: dict[str, set[int]] = {}
    inside: dict[int, list[int]] = {}
    for place in reversed(range(len(graph.node))):
        written = [name for name in graph.node[place].output if name]
        found = {each for name in written for each in readers.get(name, ())}
        if not found and ends.isdisjoint(written):
            continue
        is_last = len(found) != 1 or not ends.isdisjoint(written)
        last = place if is_last else found.pop()
        inside.setdefault(last, []).append(place)
        for name in reads[place]:
            readers.setdefault(name, set()).add(last)
    return [
        _region(graph, places[::-1], reads, {*readers} | ends)
        for _, places in sorted(inside.items())
    ]


def _region(
    graph: onnx.GraphProto,
    places: Sequence[int],
    reads: Sequence[Sequence[str]],
    wanted: AbstractSet[str],
) -> Region:
    own = {name for place in places for name in graph.node[place].output}
    outer = dict.fromkeys(n for place in places for n in reads[place] if n not in own)
    written = [name for name in graph.node[places[-1]].output if name and name in wanted]
    return Region(places, [*outer], written)
