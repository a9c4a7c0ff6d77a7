"""What stands in both graphs: float nodes that were left, shape arithmetic, branches."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpasses.checking.meaning import DifferenceError, Pair, Site, same
from qpasses.checking.rules.check_compared import compared, is_of_codes
from qpasses.checking.rules.check_constants import stores_nearest
from qpasses.ir.graph import Graph, Node, Tensor, constant, dequantized, is_graph
from qpasses.ir.unknown_sizes import declared_sizes

_SHAPES = frozenset({"Shape", "Size"})
_PLACES = frozenset({"ArgMax", "ArgMin"})


def left(site: Site) -> Iterator[str]:
    """A node as it is in the float model: the same op, attributes and inputs.

    Or a comparison of codes in the place of one of numbers.
    """
    if not site.chain:
        raise DifferenceError("the float model has no such node")
    if is_of_codes(site):
        yield from compared(site)
        return
    yield from _same_node(site.node, site.first, site.pair, {})


def apart(site: Site) -> Iterator[str]:
    """A Max of one tensor, which is that tensor."""
    if site.pair.meaning(site.node.inputs[0]).stored is not None:
        yield "reads stored integers"


def _same_node(
    ours: Node, theirs: Node, pair: Pair, inside: Mapping[str, str]
) -> Iterator[str]:
    if (ours.op, ours.domain or "") != (theirs.op, theirs.domain or ""):
        yield f"the op should be {theirs.op}"
        return
    yield from _attributes(ours, theirs, pair, inside)
    if len(ours.inputs) != len(theirs.inputs) or len(ours.outputs) != len(theirs.outputs):
        yield f"has other numbers of inputs or outputs than {theirs.name!r}"
        return
    for mine, other in zip(ours.inputs, theirs.inputs, strict=True):
        if problem := _unlike_input(theirs.op, mine, other, pair, inside):
            yield problem


def _attributes(
    ours: Node, theirs: Node, pair: Pair, inside: Mapping[str, str]
) -> Iterator[str]:
    found, expected = _plain(ours), _plain(theirs)
    for name in sorted(found.keys() | expected.keys()):
        mine, other = found.get(name), expected.get(name)
        if is_graph(mine) and is_graph(other):
            yield from _branch(mine, other, pair, inside)
        elif mine is None or other is None or not same(mine, other):
            yield f"attribute {name} is {mine}, expected {other}"


def _plain(node: Node) -> dict[str, Any]:
    """The attributes; windows of pools without gaps say nothing of dilations."""
    found = dict(node.attrs)
    if node.op == "AveragePool" and all(n == 1 for n in found.get("dilations") or []):
        found.pop("dilations", None)
    return found


def _unlike_input(
    op: str, ours: Tensor, theirs: Tensor, pair: Pair, inside: Mapping[str, str]
) -> str:
    """How what ``ours`` stands for, to a node of ``op``, is not ``theirs``, or nothing."""
    if theirs.is_empty() or ours.is_empty():
        return "" if theirs.is_empty() and ours.is_empty() else f"reads {ours.name!r}"
    value = constant(theirs)
    if value is not None:
        given = constant(ours)
        if given is not None:
            is_same = same(given, value)
        else:
            kept = _is_kept(ours, theirs, pair)
            is_same = _dequantizes(ours, value, pair) if kept is None else kept
        return "" if is_same else f"{ours.name!r} is not the constant {theirs.name!r}"
    if ours.name in inside:
        return "" if inside[ours.name] == theirs.name else f"reads {ours.name!r}"
    found = pair.meaning(ours)
    if found.real != theirs.name:
        return f"reads {ours.name!r}, which is {found.real!r}, not {theirs.name!r}"
    if found.stored is not None and op not in _SHAPES | _PLACES:
        return f"reads the stored integers {ours.name!r} as numbers"
    return ""


def _is_kept(ours: Tensor, theirs: Tensor, pair: Pair) -> bool | None:
    """Whether ``ours``, in the integers that the original has for ``theirs``, means the same.

    None where it is in others, or has a record.
    """
    view, codes = dequantized(ours), pair.known.codes.get(theirs.name)
    stored = constant(view.stored) if view else None
    if view is None or stored is None or codes is None or stored.shape != codes.levels.shape:
        return None
    column = [1] * stored.ndim
    if view.scale.size > 1:
        column[view.axis] = -1
    zero, scale = (each.reshape(column) for each in (view.zero_point, view.scale))
    if not np.array_equal(stored.astype(np.int64) - zero.astype(np.int64), codes.stored):
        return None
    if view.stored.name in pair.record.tensors:
        return None
    return bool(np.all(scale == np.asarray(codes.scale, np.float32)))


def _dequantizes(ours: Tensor, value: NDArray[Any], pair: Pair) -> bool:
    """Whether ``ours`` is ``value``, stored and back: in 8 bits with codes up to the largest.

    So are weights, biases and operands of a node that was declined when they were stored
    already. A record of one must say the same.
    """
    view = dequantized(ours)
    stored = constant(view.stored) if view else None
    if view is None or stored is None:
        return False
    if not stores_nearest(value, stored, view.scale, view.zero_point, view.axis):
        return False
    recorded = pair.record.tensors.get(view.stored.name)
    if recorded is not None:
        expected = np.array(recorded.factors(0), np.float32), recorded.zero
        if not all(map(same, (view.scale, view.zero_point), expected)):
            return False
        pair.operands.add(view.stored.name)
    if stored.dtype == np.int32:
        return True
    size = np.abs(value.astype(np.float64))
    others = tuple(i for i in range(value.ndim) if i != view.axis % max(value.ndim, 1))
    largest = size.max(axis=others, initial=0) if view.scale.ndim else size.max(initial=0)
    return bool(np.all((view.scale * 126.99 <= largest) | (largest == 0)))


def _branch(
    ours: Graph, theirs: Graph, pair: Pair, outside: Mapping[str, str]
) -> Iterator[str]:
    """The body of an If or a Loop: its nodes in order, its inputs and outputs by place."""
    inside = dict(outside)
    ends = [
        (ours.inputs, theirs.inputs),
        (ours.outputs, theirs.outputs),
        (ours.nodes, theirs.nodes),
    ]
    if any(len(mine) != len(other) for mine, other in ends):
        yield "a branch has another number of nodes, inputs or outputs"
        return
    for mine, other in zip(ours.inputs, theirs.inputs, strict=True):
        inside[mine.name] = other.name
    for node, real in zip(_in_order(ours), _in_order(theirs), strict=True):
        for problem in _same_node(node, real, pair, inside):
            yield f"{node.op} {node.name!r} inside: {problem}"
        for mine, other in zip(node.outputs, real.outputs, strict=False):
            inside[mine.name] = other.name
    declared = [(ours.inputs, theirs.inputs), (ours.outputs, theirs.outputs)]
    pairs = zip(_in_order(ours), _in_order(theirs), strict=True)
    declared += [(node.outputs, real.outputs) for node, real in pairs]
    for mine, other in (pair for sides in declared for pair in zip(*sides, strict=False)):
        if (mine.dtype, declared_sizes(mine)) != (other.dtype, declared_sizes(other)):
            yield f"a branch declares {mine.name!r} in another way"
    for mine, other in zip(ours.outputs, theirs.outputs, strict=True):
        if problem := _unlike_input("", mine, other, pair, inside):
            yield f"a branch gives another output: {problem}"


def _in_order(graph: Graph) -> list[Node]:
    """The nodes of a branch in an order that follows from what reads what, not of the file."""
    own, found = {id(node) for node in graph.nodes}, dict[int, Node]()
    waiting = list(reversed(graph.nodes))
    waiting += [node for tensor in reversed(graph.outputs) for node in tensor.inputs]
    while waiting:
        node = waiting[-1]
        before = [each for tensor in _read(node) for each in tensor.inputs if id(each) in own]
        if missing := [each for each in before if id(each) not in found]:
            waiting += reversed(missing)
        else:
            found.setdefault(id(node), waiting.pop())
    return list(found.values())


def _read(node: Node) -> Iterator[Tensor]:
    """What a node reads, in its branches too."""
    yield from node.inputs
    for _, graph in sorted(node.attrs.items()):
        for inner in graph.nodes if is_graph(graph) else ():
            yield from _read(inner)
        yield from graph.outputs if is_graph(graph) else ()
