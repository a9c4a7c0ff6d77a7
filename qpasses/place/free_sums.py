"""Sums over sizes that a model leaves free: how long a row its proofs cover."""

from collections.abc import Iterator, Sequence

from qpasses.ir.graph import Graph, Node

_BY_AXIS = frozenset(
    {
        *("TableSoftmax", "TableSoftmax16", "GemmlowpSoftmax", "IntLogSoftmax"),
        *("Shiftmax", "IBertSoftmax"),
    }
)
"""Ops that sum what they make of the rows along an attribute ``axis``."""

_SHOWN = 5
"""So many nodes are listed where there are more."""


def free_sums(graph: Graph) -> list[str]:
    """The names of nodes of an integer graph that sum along an axis of free size.

    An accumulator is bounded for the sizes of the first sample, and so are what multipliers
    and tables are proved for.
    """
    return [node.name for node in graph.nodes if any(map(_is_free, _summed_sizes(node)))]


def free_sum_warnings(graph: Graph) -> list[str]:
    """One line that names them, if there are any."""
    names = free_sums(graph)
    if not names:
        return []
    shown = ", ".join(map(repr, names[:_SHOWN])) + ", ..." * (len(names) > _SHOWN)
    what = "node sums" if len(names) == 1 else "nodes sum"
    return [
        f"{len(names)} {what} along a size that the model leaves free ({shown}): the proofs "
        "cover the lengths of the first sample and below; fix the size (--input-shape), or "
        "let the first sample be the longest"
    ]


def _is_free(size: int | str | None) -> bool:
    return not isinstance(size, int) or size < 0


def _summed_sizes(node: Node) -> Iterator[int | str | None]:
    """The sizes of what is summed to one element, free ones by name or None."""
    if not node.inputs:
        return
    shape, axes = node.inputs[0].shape, _axes(node)
    if axes and shape is None:
        yield None
        return
    yield from (shape[axis] for axis in axes)
    if axes and node.op == "IntMatMul" and (other := node.inputs[2].shape) is not None:
        yield other[-2]


def _axes(node: Node) -> Sequence[int]:
    if node.op == "IntMatMul":
        return [-1]
    if node.op in _BY_AXIS:
        return [int(node.attrs["axis"])]
    if node.op == "IntReduce":
        return [int(axis) for axis in node.attrs["axes"]]
    if node.op == "IntGlobalAveragePool":
        return range(2, len(node.inputs[0].shape or ()))
    return []
