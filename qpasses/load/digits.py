"""Digits: which nodes of a graph in float64 need more of them than float32 has."""

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto

from calibration.held_weights import values_of
from qpasses.ir.model_nodes import nested_graphs

DOUBLE = TensorProto.DOUBLE

Constants = Mapping[str, TensorProto]
"""Initializers, and what Constant nodes give, by name."""

MOST_WHOLE = 1 << 24
"""Up to here float32 has every whole number."""

_EXACT = frozenset({"Add", "Sub", "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"})
"""Ops that bring small differences of large numbers to light."""

_WIDE = (TensorProto.INT32, TensorProto.INT64, TensorProto.UINT32, TensorProto.UINT64)

_CASTS = frozenset({"Cast", "CastLike"})

_COUNTS = frozenset({"Shape", "Size", "NonZero", "ArgMax", "ArgMin"})
"""Ops whose integers are sizes and places, never large."""


def needing_double(
    graph: GraphProto, kinds: Mapping[str, int], constants: Constants
) -> dict[int, str]:
    """The places of the nodes of ``graph`` that need float64, each with the reason.

    ``kinds``: the types of elements by tensor, as far as they are known.
    """
    wide = _wide_integers(graph, kinds, constants)
    reasons = {
        place: _reason(node, kinds, constants, wide)
        for place, node in enumerate(graph.node)
        if node.op_type != "Constant" and _is_double(node, kinds)
    }
    return {place: reason for place, reason in reasons.items() if reason}


def read_by(node: NodeProto) -> Iterator[str]:
    """The names that a node reads, in its bodies too."""
    yield from filter(None, node.input)
    for body in _bodies(node):
        for inner in body.node:
            yield from filter(None, inner.input)
        yield from (value.name for value in body.output)


def _reason(
    node: NodeProto, kinds: Mapping[str, int], constants: Constants, wide: set[str]
) -> str:
    """Why a node that computes in float64 needs it, or nothing."""
    if node.domain not in ("", "ai.onnx"):
        return f"what {node.domain}.{node.op_type} makes of float32 is not known"
    if any(_bodies(node)):
        return "has a body that computes in float64"
    if any(name and name not in kinds for name in node.output):
        return "the type of what it gives is not known"
    if any(name and name not in kinds for name in node.input):
        return "the type of what it reads is not known"
    if TensorProto.STRING in [kinds.get(name) for name in (*node.input, *node.output)]:
        return "numbers are texts there"
    if node.op_type == "Mod":
        return "what is left of a large number needs all its digits"
    given = {name: constants[name] for name in node.input if name in constants}
    held = {name: tensor for name, tensor in given.items() if tensor.data_type == DOUBLE}
    held |= {each.name: each.t for each in node.attribute if each.t.data_type == DOUBLE}
    for name, tensor in held.items():
        values = values_of(tensor)
        if (lost := lost_in_float32(values)) is not None:
            return f"{name!r} holds {lost!r}, which float32 does not"
        if node.op_type in _EXACT and _all_large(values):
            large = float(values.flat[0])
            return f"{name!r} holds {large!r}: float32 has not each number around it"
    if node.op_type in _EXACT and (unknown := wide.intersection(node.input)):
        return f"the integers in {min(unknown)!r} may be above 2**24"
    return ""


def lost_in_float32(values: NDArray[np.float64]) -> float | None:
    """One of ``values`` beyond the range of float32, or a whole number that it rounds.

    Or any, where all are too small for it.
    """
    with np.errstate(over="ignore", under="ignore"):
        narrow = values.astype(np.float32)
    large = np.isfinite(values) & (np.abs(values) > MOST_WHOLE)
    lost = large & (narrow != values) & (~np.isfinite(narrow) | (values == np.rint(values)))
    if lost.any():
        return float(values[lost].flat[0])
    largest = np.abs(values).max(initial=0.0)
    return float(largest) if 0 < largest < np.finfo(np.float32).tiny else None


def large_and_rounded(values: NDArray[np.float64]) -> float | None:
    """One of ``values`` above 2**24 that float32 does not have, as times in seconds are."""
    with np.errstate(over="ignore", under="ignore"):
        lost = (np.abs(values) > MOST_WHOLE) & (values.astype(np.float32) != values)
    return float(values[lost].flat[0]) if lost.any() else None


def _all_large(values: NDArray[np.float64]) -> bool:
    """Whether no number is up to 2**24 from zero, as 0 is that stands beside -1e9 in masks."""
    return bool(values.size and (np.abs(values) > MOST_WHOLE).all())


def _wide_integers(
    graph: GraphProto, kinds: Mapping[str, int], constants: Constants
) -> set[str]:
    """Tensors cast to float64 from integers of 32 or 64 bits that are no sizes."""
    small, wide = {*constants}, set()
    for node in graph.node:
        read = {name for name in node.input if name}
        if node.op_type in _COUNTS or (read and read <= small):
            small.update(node.output)
        is_wide = node.op_type in _CASTS and kinds.get(node.input[0]) in _WIDE
        if is_wide and node.input[0] not in small and kinds.get(node.output[0]) == DOUBLE:
            wide.add(node.output[0])
    return wide


def _is_double(node: NodeProto, kinds: Mapping[str, int]) -> bool:
    """Whether a node reads or gives float64, outside of its bodies or inside."""
    ends = [*read_by(node), *node.output]
    if any(kinds.get(name) == DOUBLE for name in ends):
        return True
    inner = [each for body in _bodies(node) for each in nested_graphs(body)]
    tensors = [tensor for each in inner for tensor in each.initializer]
    attributes = [a for each in inner for one in each.node for a in one.attribute]
    held = [each.t for each in attributes if each.HasField("t")]
    return any(each.data_type == DOUBLE for each in (*tensors, *held)) or any(
        each.name == "to" and each.i == DOUBLE for each in attributes
    )


def _bodies(node: NodeProto) -> list[GraphProto]:
    """The graphs among the attributes of a node, and those in them."""
    held = (AttributeProto.GRAPH, AttributeProto.GRAPHS)
    own = [each for each in node.attribute if each.type in held]
    outer = [
        body for each in own for body in ([each.g] if each.HasField("g") else each.graphs)
    ]
    return [inner for body in outer for inner in nested_graphs(body)]
