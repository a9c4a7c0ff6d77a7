"""Moved words: bodies beside their meaning, on every code that is moved.

They compute nothing, so that real arithmetic gives the same codes. A body is a mistake away
from that where it loses a code, or takes another for the larger one.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import ceil, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.op import Constants
from opsets.qpasses_v1 import OPS
from qpasses.evidence.bodies import body_of
from qpasses.evidence.node_evidence import NodeEvidence
from qpasses.ir.graph import Node
from qpasses.ir.record import Record
from qpasses.ir.runtime import run_op

_CODES = np.arange(-(1 << 15), 1 << 15, dtype=np.int16)

_MOST = 1 << 22
"""So many cells the pictures of a pool have, unless one of each kind has more."""

Word = NDArray[np.int16]


def largest_words(node: Node, given: Constants, record: Record) -> NodeEvidence:
    """IntMaxPool: each code among lower ones, neighbours, both ends of the type.

    There are too many windows to run them all: they have the sizes of the node's own, two
    along each axis.
    """
    names = ("kernel_shape", "dilations", "strides")
    axes = zip(*(node.attrs[name] for name in names), strict=True)
    sizes = [(cells - 1) * gap + 1 + step for cells, gap, step in axes]
    pictures = [x.reshape(-1, 1, *sizes) for x in _rows(prod(sizes))]
    return _of_rows(node, given, record, pictures)


def extreme_words(node: Node, given: Constants, record: Record) -> NodeEvidence:
    """IntExtreme: the same, and each code among higher ones, of three along each axis."""
    axes = node.attrs["axes"]
    sizes = [3 if axis in axes else 1 for axis in range(axes[0], 0)]
    rows = [x.reshape(-1, *sizes) for x in _rows(prod(sizes))]
    return _of_rows(node, given, record, [*rows, *(np.invert(x) for x in rows)])


def _of_rows(
    node: Node, given: Constants, record: Record, inputs: Sequence[Word]
) -> NodeEvidence:
    count, wrong = _differing(node, given, record, [{"x": x} for x in inputs])
    return NodeEvidence(
        name=node.name,
        op=node.op,
        kind="bounded",
        domain=count,
        mismatches=wrong,
        body=record.nodes[node.name].overload,
        bound=0.0,
        problem=_problem(node, given, record),
    )


def padded_words(node: Node, given: Constants, record: Record) -> NodeEvidence:
    """IntPad: all codes, in a tensor that has as many as are mirrored."""
    pads = np.reshape(node.attrs["pads"], (2, -1)).max(axis=0) + 1
    rows = max(int(pads[0]), ceil(_CODES.size / prod(pads[1:].tolist())))
    return _of_all_codes(node, given, record, (rows, *pads[1:].tolist()))


def shuffled_words(node: Node, given: Constants, record: Record) -> NodeEvidence:
    """IntShuffle: all codes, in a tensor that is as large as the node's but for its first
    size.
    """
    sizes = node.attrs["split"][1:]
    shape = ceil(_CODES.size / prod(sizes)), *sizes
    return _of_all_codes(node, given, record, shape)


def chosen_words(node: Node, given: Constants, record: Record) -> NodeEvidence:
    """IntWhere: all codes of either operand, where the condition holds and where not."""
    holds = np.arange(2 * _CODES.size) % 2 == 0
    a, b = np.repeat(_CODES, 2), np.repeat(_CODES[::-1], 2)
    inputs = {"condition": holds, "a": a, "b": b}
    return _exhaustive(node, given, record, inputs)


def _of_all_codes(
    node: Node, given: Constants, record: Record, shape: Sequence[int]
) -> NodeEvidence:
    return _exhaustive(node, given, record, {"x": np.resize(_CODES, shape)})


def _exhaustive(
    node: Node, given: Constants, record: Record, data: Mapping[str, NDArray[Any]]
) -> NodeEvidence:
    _, wrong = _differing(node, given, record, [data])
    return NodeEvidence(
        name=node.name,
        op=node.op,
        kind="exhaustive",
        domain=_CODES.size,
        mismatches=wrong,
        body=record.nodes[node.name].overload,
        problem=_problem(node, given, record),
    )


def _differing(
    node: Node,
    given: Constants,
    record: Record,
    inputs: Sequence[Mapping[str, NDArray[Any]]],
) -> tuple[int, int]:
    """How many results there are, and how many of them a body gives otherwise."""
    op, body, count, wrong = OPS[node.op], body_of(node, record), 0, 0
    attributes = {name: node.attrs[name] for name in op.attributes if name in node.attrs}
    for data in inputs:
        arrays = [{**given, **data}[name] for name in op.inputs]
        meaning = op.reference(*arrays, **attributes)
        count += meaning.size
        for optimize in (False, True):
            found = run_op(node.op, body, arrays, attributes, optimize=optimize)
            is_alike = found.shape == meaning.shape
            wrong += int((found != meaning).sum()) if is_alike else meaning.size
    return count, wrong


def _rows(cells: int) -> Iterator[Word]:
    """[N, ``cells``]: each code in some place among lower ones, all in order, both ends.

    Of very many cells, every so many codes.
    """
    rng = np.random.default_rng(0)
    largest = _CODES[:: ceil(_CODES.size * cells / _MOST)][:, None].astype(np.int64)
    lower = rng.integers(-(1 << 15), largest, (len(largest), cells), endpoint=True)
    lower[np.arange(len(largest)), rng.integers(0, cells, len(largest))] = largest[:, 0]
    in_order = np.resize(_CODES, (ceil(_CODES.size / cells), cells))
    ends = np.repeat([[-(1 << 15)], [(1 << 15) - 1]], cells, axis=1)
    for each in (lower, in_order, in_order[:, ::-1], ends):
        yield np.ascontiguousarray(each, np.int16)


def _problem(node: Node, given: Constants, record: Record) -> str:
    op = OPS[node.op]
    around = [*node.inputs[: len(op.data)], *node.outputs]
    ends = dict(zip((*op.data, *op.outputs), around, strict=True))
    ends.pop("condition", None)
    if len({record.tensors.get(tensor.name) for tensor in ends.values()}) > 1:
        return "its stored tensors have different scales or zero points"
    body = body_of(node, record)
    if not body.accepts(given, node.attrs):
        return f"body {body.overload!r} does not compute such a node"
    return ""
