"""Bodies of tables on all codes: where onnxruntime gives anything but the table's entries."""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.errors import ModelError
from opsets.op import Body
from qpasses.evidence.table_places import REMAINDERS, Asked, Places, asked_of, code_places
from qpasses.evidence.tables_together import ANSWERS
from qpasses.ir.runtime import op_runner

CHANNEL_ROLLS = 17
"""The same under constants of channels: their kernels take up to 16 float32 at a time."""


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
    return differences(asked_of(op, body, table, types, attributes, rank))


def differences(asked: Asked) -> NDArray[np.bool_]:
    """``table_differences`` of a question that may have been asked before."""
    known = ANSWERS.get(asked)
    return _differences(asked) if known is None else known


@lru_cache(maxsize=512)
def _differences(asked: Asked) -> NDArray[np.bool_]:
    op, body, table, given = asked.op, asked.body, asked.table, dict(asked.attributes)
    wrong = np.zeros(table.shape, bool)
    runs = _PLACES[op](table.shape, bool(body.proto))
    if given.get("axis") == 0:  # no room for rows in front
        runs = (row for places in runs for row in np.split(places, places.shape[1], 1))
    parts = [_stored(op, each, asked.types, given, asked.rank) for each in runs]
    flat, wrong_at = table.reshape(-1), wrong.reshape(-1)
    expected = [flat[places].reshape(-1) for _, places in parts]
    for optimize in (False, True) if body.proto else (False,):
        try:
            run = op_runner(op, body, [*parts[0][0], table], given, optimize=optimize)
        except ModelError:  # a made body that onnxruntime refuses
            if not body.proto:
                raise
            return np.ones(table.shape, bool)
        for (stored, places), entries in zip(parts, expected, strict=True):
            unlike = run([*stored, table]).reshape(-1) != entries
            if unlike.any():
                wrong_at[places.reshape(-1)[unlike]] = True
    wrong.setflags(write=False)
    return wrong


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
        axis = int(given["axis"])
        places = laid_out(places, axis, max(rank, axis + 1, 2))
    bits = f"uint{np.iinfo(types[0]).bits}"  # modulo 256, of channels
    return [places.astype(bits).view(types[0])], places


def laid_out(places: Places, axis: int, rank: int) -> Places:
    """[C, rows, n] places with channels along ``axis``, n along the last if that is free."""
    channels, rows, count = places.shape
    shape = [rows, *[1] * (rank - 1)]
    if axis == rank - 1:
        shape[0] = rows * count
        order = places.transpose(1, 2, 0)
    else:
        shape[-1] = count
        order = places.transpose(1, 0, 2)
    shape[axis] = channels
    return order.reshape(shape)


def _channel_places(shape: Sequence[int], computed: bool) -> Iterator[Places]:
    """[C, rows, n]: the same for each of C channels, remainders of one size in rows.

    A kernel that broadcasts constants along the channels goes through each row by itself.
    """
    channels, codes = 256 * np.arange(shape[0])[:, None, None], np.arange(256)
    if not computed:
        yield channels + codes
        return
    yield channels + np.concatenate([np.roll(codes, shift) for shift in range(CHANNEL_ROLLS)])
    for size in REMAINDERS:
        yield channels + np.resize(codes, (-(-256 // size), size))


def _pairs(shape: Sequence[int], computed: bool) -> Iterator[Places]:
    """Both operands whole; made bodies also with either one broadcast, and in odd rows."""
    everything = np.arange(*shape)
    yield everything
    if computed:
        yield everything.reshape(256, 256)
        yield everything.reshape(256, 256).T
        for start in range(0, everything.size, 9973):
            yield everything[start : start + 9973]


_PLACES = {
    "Lut": code_places,
    "Lut16": code_places,
    "LutPerChannel": _channel_places,
    "LutPair": _pairs,
}
