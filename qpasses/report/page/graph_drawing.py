"""Where the nodes and edges of a graph lie in its drawing."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

_ACROSS, _DOWN = 226, 78
"""From one node to the next."""

WIDTH, HEIGHT = 200, 48
"""Of a node."""


@dataclass(frozen=True)
class Box:
    """A node in the drawing: its upper left corner, and what it costs.

    ``share`` is that of the noise that its tensors cause, ``strength`` how strong its colour
    is, from 0 to 1; both are None if nothing was measured.
    """

    left: float
    top: float
    name: str
    op: str
    kind: str
    share: float | None
    strength: float | None


@dataclass(frozen=True)
class Line:
    """An edge: the numbers of the nodes it joins, and its path in SVG's notation."""

    start: int
    end: int
    path: str


@dataclass(frozen=True)
class Drawing:
    """All boxes and lines, the size they take, and the largest share."""

    boxes: Sequence[Box]
    lines: Sequence[Line]
    width: float
    height: float
    largest: float


def drawn(graph: list[dict[str, Any]], tensors: list[dict[str, Any]]) -> Drawing:
    """``graph`` of an analysis in layers, inputs above, and what its ``tensors`` cost."""
    import igraph

    edges = _edges(graph)
    layout = igraph.Graph(len(graph), edges, directed=True).layout_sugiyama(
        hgap=_ACROSS, vgap=_DOWN
    )
    places, bends = [*layout], layout.edge_routing
    everywhere = [*places, *(bend for each in bends for bend in each)]
    _move_apart(everywhere)
    shares = _shares(tensors)
    largest = max(shares.values(), default=0.0)
    boxes = [
        Box(
            left,
            top,
            node["name"],
            node["op"],
            node["kind"],
            share := shares.get(node["name"]),
            None if share is None else _strength(share, largest),
        )
        for node, (left, top) in zip(graph, places, strict=True)
    ]
    lines = [
        Line(start, end, _path(boxes[start], between, boxes[end]))
        for (start, end), between in zip(edges, bends, strict=True)
    ]
    return Drawing(
        boxes,
        lines,
        max((left for left, _ in everywhere), default=0) + WIDTH,
        max((top for _, top in everywhere), default=0) + HEIGHT,
        largest,
    )


def _move_apart(places: list[list[float]]) -> None:
    """Move to the right what overlaps in its layer; igraph keeps the order, not the gap.

    The leftmost is at 0 then: igraph begins anywhere.
    """
    free: dict[float, float] = {}
    begin = min((left for left, _ in places), default=0)
    for place in sorted(places):
        left, top = place[0] - begin, place[1]
        place[0] = max(left, free.get(top, left))
        free[top] = place[0] + _ACROSS


def _edges(graph: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """From each node to those that read what it writes, once."""
    writer = {name: index for index, node in enumerate(graph) for name in node["outputs"]}
    found = {
        (writer[name], index): None
        for index, node in enumerate(graph)
        for name in node["inputs"]
        if name in writer
    }
    return list(found)


def _shares(tensors: list[dict[str, Any]]) -> dict[str, float]:
    """By name of node, of the noise that all tensors cause, what its own do."""
    found: dict[str, float] = defaultdict(float)
    for tensor in tensors:
        share = (tensor.get("cost") or {}).get("share")
        if share is not None:
            found[tensor["node"]] += share
    return found


def _strength(share: float, largest: float) -> float:
    """The root, so that a quarter of the largest share still shows."""
    return sqrt(max(share, 0) / largest) if largest > 0 else 0


def _path(start: Box, bends: list[list[float]], end: Box) -> str:
    """A line that leaves each layer downwards and comes to the next from above."""
    middle = WIDTH / 2
    x, y = start.left + middle, start.top + HEIGHT
    path = f"M{x:g} {y:g}"
    for left, top in (*bends, (end.left, end.top)):
        to_x, half = left + middle, (y + top) / 2
        if to_x == x:
            path += f"V{top:g}"
        else:
            path += f"C{x:g} {half:g} {to_x:g} {half:g} {to_x:g} {top:g}"
        x, y = to_x, top + HEIGHT
        path += f"V{y:g}"  # of the last one, its box hides it
    return path
