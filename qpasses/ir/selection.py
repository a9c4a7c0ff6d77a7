"""Selection: which nodes the user wants left in float, by name or by op type."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from difflib import get_close_matches

import onnx

from opsets.errors import UsageError
from qpasses.ir.flow import ATTRIBUTES, FLOW, LEAVING
from qpasses.ir.graph import Graph, Node


@dataclass
class Selection:
    """Why a node stays in float although it could be made integer, by its name.

    ``excluded`` nodes are not rewritten at all; ``unlisted`` ones may still be folded away.
    """

    excluded: dict[str, str] = field(default_factory=dict)
    unlisted: dict[str, str] = field(default_factory=dict)

    def leave(self, node: Node, quantizable: bool) -> str | None:
        """Why the user wants ``node`` in float, or None; if so it counts as excluded now.

        Op types are listed among those that are ``quantizable``.
        """
        if quantizable and node.name in self.unlisted:
            self.excluded.setdefault(node.name, self.unlisted[node.name])
        return self.excluded.get(node.name)

    def inherit(self, new: Node, source: Node) -> None:
        """What holds for ``source`` holds for a node that a pass made of it."""
        for reasons in (self.excluded, self.unlisted):
            if source.name in reasons:
                reasons[new.name] = reasons[source.name]


def select(
    graph: Graph,
    nodes_to_exclude: Sequence[str],
    op_types: Sequence[str],
    known: Set[str] | None = None,
) -> Selection:
    """Find the nodes of ``graph`` that are excluded, and those of op types not listed.

    A pattern must match the whole name of a node, or of a tensor that it writes; an If, Loop
    or Scan so called is left with all that is inside. ``known`` are the op types that can
    become integer; None where they were asked for before. Raises UsageError for a pattern or
    op type that matches nothing.
    """
    selection, names = Selection(), _names(graph)
    for pattern in nodes_to_exclude:
        matched = _matched(pattern, names)
        if not matched:
            raise UsageError(_no_match(pattern, graph))
        selection.excluded |= dict.fromkeys(matched, f"excluded by {pattern!r}")
    present = {node.op for node in graph.nodes}
    for op_type in op_types:
        if known is not None and op_type not in known & present:
            raise UsageError(_no_such_type(op_type, present, known))
    if op_types:
        selection.unlisted = {
            node.name: f"{node.op} is not among the op types to quantize"
            for node in graph.nodes
            if node.op not in op_types
        }
    return selection


def excluded_early(graph: Graph, nodes_to_exclude: Sequence[str]) -> dict[str, str]:
    """By name, why nodes of a graph are excluded in which no pass was yet, and the Loops and
    Scans that these are inside of: a net that takes such a node in would take it away.
    """
    names, found = _names(graph) if nodes_to_exclude else {}, dict[str, str]()
    inside = {node.name: node for node in graph.nodes}
    for pattern in nodes_to_exclude:
        for name in _matched(pattern, names):
            around = dict.fromkeys(_around(inside[name]), f"{name!r} in it is excluded")
            found |= {name: f"excluded by {pattern!r}", **around}
    return found


def _matched(pattern: str, names: Mapping[str, Sequence[str]]) -> list[str]:
    wanted = re.compile(pattern)
    return [name for name, called in names.items() if any(map(wanted.fullmatch, called))]


def _names(graph: Graph) -> dict[str, list[str]]:
    """By node what it is called: by its name, what it writes, and what it is inside of."""
    wholes = dict[str, list[str]]()
    for node in (each for each in graph.nodes if each.op in LEAVING and each.domain == FLOW):
        whole = wholes.setdefault(node.attrs["of"], [node.attrs["of"]])
        whole += [tensor.name for tensor in node.outputs]
    found = {}
    for node in graph.nodes:
        found[node.name] = [node.name, *(tensor.name for tensor in node.outputs)]
        for around in _around(node) if wholes else ():
            found[node.name] += wholes.get(around, [])
    return found


def _around(node: Node) -> Iterator[str]:
    """What the nodes may be called that ``node`` is inside of."""
    inner = node.name
    if node.domain == FLOW:
        inner = node.attrs["of"]
        yield inner
    parts = inner.split("/")
    yield from ("/".join(parts[:k]) for k, part in enumerate(parts) if part in ATTRIBUTES)


def _no_match(pattern: str, graph: Graph) -> str:
    wholes = [node.attrs["of"] for node in graph.nodes if node.domain == FLOW]
    names = [*dict.fromkeys([*(node.name for node in graph.nodes), *wholes])]
    near = get_close_matches(pattern, names, n=3, cutoff=0.5)
    near = near or [name for name in names if pattern.lower() in name.lower()][:3]
    hint = _hint(near) or " (a regular expression for whole names, as in '/block1/.*')"
    return f"nodes_to_exclude: no node is called {pattern!r}{hint}"


def _no_such_type(op_type: str, present: Set[str], known: Set[str]) -> str:
    usable = sorted(present & known)
    near = get_close_matches(op_type, usable, n=1, cutoff=0.6)
    hint = _hint(near) or f" (in this model: {', '.join(usable) or 'none'})"
    if op_type not in {schema.name for schema in onnx.defs.get_all_schemas()}:
        return f"op_types_to_quantize: {op_type!r} is no ONNX operator{hint}"
    if op_type not in present:
        return f"op_types_to_quantize: the model has no {op_type}{hint}"
    return f"op_types_to_quantize: {op_type} has no integer form in this version{hint}"


def _hint(near: Iterable[str]) -> str:
    names = ", ".join(map(repr, near))
    return f" (did you mean {names}?)" if names else ""
