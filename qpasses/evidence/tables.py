"""Bodies of tables on all codes: where onnxruntime gives anything but the table's entries."""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.op import Body
from qpasses.runtime import run_op

REMAINDERS = (*range(1, 18), 33)
"""Sizes of small inputs: vector kernels have code of their own for what is left at the end."""

ROLLS = 65
"""Each code is tried at so many places in a row, beyond the width of every vector kernel."""


def table_differences(
    op: str,
    body: Body,
    table: NDArray[Any],
    types: Sequence[Any],
    attributes: Mapping[str, Any],
    rank: int = 0,
) -> NDArray[np.bool_]:
    """Where ``body`` differs from ``table``, in its shape: [256], [C, 256] or [65536].

    ``types``: of the stored inputs; ``rank``: of the input of LutPerChannel. A declared body
    looks entries up; a made one computes them, so it runs optimized and not, with each code at
    every place of a vector and in every remainder.
    """
    key = table.tobytes(), table.dtype.name, table.shape
    names = tuple(np.dtype(each).name for each in types)
    return _differences(op, body, key, names, tuple(sorted(attributes.items())), rank)


@lru_cache(maxsize=512)
def _differences(
    op: str,
    body: Body,
    key: tuple[bytes, str, tuple[int, ...]],
    types: tuple[str, ...],
    attributes: tuple[tuple[str, Any], ...],
    rank: int,
) -> NDArray[np.bool_]:
    content, dtype, shape = key
    table = np.frombuffer(content, dtype).reshape(shape)
    given = dict(attributes)
    wrong = np.zeros(shape, bool)
    for optimize in (False, True) if body.proto else (False,):
        for places in _PLACES[op](shape, bool(body.proto)):
            stored, entries = _stored(op, places, types, given, rank)
            found = run_op(op, body, [*stored, table], given, optimize=optimize)
            differs = found != table.reshape(-1)[entries]
            wrong.reshape(-1)[entries[differs]] = True
    wrong.setflags(write=False)
    return wrong


Places = NDArray[np.int64]
"""Entries of a flat table, in the shape in which an input asks for them."""


def _stored(
    op: str, places: Places, types: Sequence[str], given: Mapping[str, Any], rank: int
) -> tuple[list[NDArray[Any]], Places]:
    """The stored inputs that ask for ``places``, and these in the shape of the result."""
    if op == "LutPair":
        a, b = (
            codes.astype(np.uint8).view(dtype)
            for codes, dtype in zip((places // 256, places % 256), types, strict=True)
        )
        for axis in range(2):  # one operand may be broadcast
            if places.ndim == 2 and (a == a.take([0], axis)).all():
                a = a.take([0], axis)
            if places.ndim == 2 and (b == b.take([0], axis)).all():
                b = b.take([0], axis)
        return [a, b], places
    if op == "LutPerChannel":
        axis, rank = int(given["axis"]), max(rank, int(given["axis"]) + 1, 2)
        moved = places.reshape(*places.shape, *[1] * (rank - 2))  # [C, n, 1...]
        places = np.moveaxis(moved, (0, 1), (axis, rank - 1 if axis < rank - 1 else 0))
    return [(places % 256).astype(np.uint8).view(types[0])], places


def code_places(shape: Sequence[int], computed: bool) -> Iterator[Places]:
    """Places of a table of 256 for each of the channels that ``shape`` may have.

    If they are ``computed``, each at every place of a vector and in every remainder.
    """
    channels = 256 * np.arange(shape[0])[:, None] if len(shape) > 1 else np.int64(0)
    codes = np.arange(256)
    if not computed:
        yield channels + codes
        return
    yield channels + np.concatenate([np.roll(codes, shift) for shift in range(ROLLS)])
    for size in REMAINDERS:
        for start in range(0, 256, size):
            yield channels + codes[start : start + size]


def _pairs(shape: Sequence[int], computed: bool) -> Iterator[Places]:
    """Both operands whole; made bodies also with either one broadcast, and in odd rows."""
    everything = np.arange(*shape)
    yield everything
    if computed:
        yield everything.reshape(256, 256)
        yield everything.reshape(256, 256).T
        for start in range(0, everything.size, 9973):
            yield everything[start : start + 9973]


_PLACES = {"Lut": code_places, "LutPerChannel": code_places, "LutPair": _pairs}
