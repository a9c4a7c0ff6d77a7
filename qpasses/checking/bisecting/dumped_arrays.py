"""What a device dumped as stored integers of the model: other types, shapes and layouts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.errors import DataError
from qpasses.ir.record import AnyQuantization

Array = NDArray[Any]


@dataclass(frozen=True)
class Reading:
    """An array as stored integers; ``note`` says how it was read if not as it is."""

    values: Array
    note: str = ""


def as_stored(given: Array, expected: Array, meaning: AnyQuantization) -> Reading:
    """``given`` in the type and shape of ``expected``, the exact integers.

    Where it can be read in several ways, it is read in the one that is nearest to them.
    Raises DataError, which says what is wrong, where there is none.
    """
    codes = [Reading(given)]
    if given.dtype != expected.dtype:
        codes = [*_of_other_type(given, expected, meaning)]
    readings = [
        Reading(each.values, ", ".join(filter(None, (each.note, read.note))))
        for read in codes
        for each in _of_other_shape(read.values, expected.shape)
    ]
    if not readings:
        raise DataError(f"has the shape {_sizes(given.shape)}, not {_sizes(expected.shape)}")
    first, *others = readings
    usual = _distance(first.values, expected)
    best = min(others, key=lambda each: _distance(each.values, expected), default=first)
    is_nearer = _distance(best.values, expected) < usual / 2
    return best if is_nearer else first


def fits(given: Array, shape: Sequence[int | str], meaning: AnyQuantization) -> Reading:
    """``given`` as what a device was fed, where nothing is known but its ``shape``.

    Raises DataError, which says what is wrong.
    """
    read = next((each for each in _laid(given) if _is_like(each.values.shape, shape)), None)
    if read is None:
        raise DataError(f"has the shape {_sizes(given.shape)}, not {_sizes(shape)}")
    if given.dtype == meaning.dtype:
        return read
    if given.dtype.kind not in "iu" or not _are_within(given, np.iinfo(meaning.dtype)):
        raise DataError(f"is {given.dtype}, not {meaning.dtype}")
    return Reading(read.values.astype(meaning.dtype), f"read from {given.dtype}")


def _laid(given: Array) -> Iterator[Reading]:
    """As it is, with an axis for a batch of one, with channels last."""
    yield Reading(given)
    yield Reading(given[np.newaxis], f"shaped {_sizes(given.shape)}")
    if given.ndim > 2:
        axes = _orders(given.ndim)[0]
        yield Reading(np.transpose(given, axes), _named(axes))


def _is_like(sizes: Sequence[int], shape: Sequence[int | str]) -> bool:
    return len(sizes) == len(shape) and all(
        isinstance(wanted, str) or size == wanted
        for size, wanted in zip(sizes, shape, strict=True)
    )


def _sizes(shape: Sequence[int | str]) -> str:
    return f"[{', '.join(map(str, shape))}]"


def _distance(values: Array, expected: Array) -> float:
    apart = values.astype(np.int64) - expected.astype(np.int64)
    return float(np.abs(apart).mean()) if apart.size else 0.0


def _of_other_type(
    given: Array, expected: Array, meaning: AnyQuantization
) -> Iterator[Reading]:
    """The ways to read codes from another type. Raises DataError where there is none."""
    wanted = expected.dtype
    if given.dtype.kind not in "iuf":
        raise DataError(f"is {given.dtype}, not {wanted}")
    if given.dtype.kind == "f":
        yield from _of_reals(given, expected, meaning)
        return
    limits = np.iinfo(wanted)
    low, high = int(given.min(initial=0)), int(given.max(initial=0))
    is_inside = low >= limits.min and high <= limits.max
    if is_inside:
        yield Reading(given.astype(wanted), f"read from {given.dtype}")
    if given.dtype.itemsize == wanted.itemsize:
        yield Reading(given.view(wanted), f"the bits of {given.dtype} read as {wanted}")
        if wanted.itemsize == 1:
            turned = given.view(wanted) ^ np.uint8(128).astype(wanted)
            moved = "128 more" if wanted.kind == "u" else "128 less"
            yield Reading(turned, f"{given.dtype} whose codes are {moved} as {wanted}")
    elif not is_inside:
        raise DataError(f"has numbers from {low} to {high}, which {wanted} does not hold")


def _of_reals(given: Array, expected: Array, meaning: AnyQuantization) -> Iterator[Reading]:
    if not np.isfinite(given).all():
        raise DataError("holds NaN or infinity, stored integers are needed")
    limits, found = np.iinfo(expected.dtype), False
    if (given == np.rint(given)).all() and _are_within(given, limits):
        found = True
        yield Reading(given.astype(expected.dtype), f"read from {given.dtype}")
    if given.ndim == expected.ndim:
        steps = given.astype(np.float64) / meaning.factors(given.ndim)
        codes = np.rint(steps) + meaning.zeros(given.ndim)
        if (np.abs(steps - np.rint(steps)) < _NEAR).all() and _are_within(codes, limits):
            found = True
            yield Reading(
                codes.astype(expected.dtype),
                "real numbers, taken back to codes by scale and zero point",
            )
    if not found:
        raise DataError(
            f"is {given.dtype}, and neither codes nor multiples of the scale: stored integers "
            "are needed"
        )


_NEAR = 0.01
"""Multiples of a scale, as floats, are off by less of it."""


def _are_within(values: Array, limits: Any) -> bool:
    return bool(values.min(initial=0) >= limits.min and values.max(initial=0) <= limits.max)


def _of_other_shape(given: Array, shape: Sequence[int]) -> Iterator[Reading]:
    """The ways in which its elements may lie in ``shape``."""
    wanted = tuple(shape)
    if given.size != int(np.prod(wanted)):
        return
    has_same_axes = _long(given.shape) == _long(wanted)
    if has_same_axes or given.ndim == 1:
        note = "" if given.ndim == len(wanted) else f"shaped {_sizes(given.shape)}"
        yield Reading(given.reshape(wanted), note)
    if len(_long(wanted)) < 2:
        return
    if given.ndim == 1:
        last = given.reshape(_last(wanted))
        yield Reading(np.moveaxis(last, -1, 1), "laid out with channels last")
    elif given.ndim == len(wanted):
        for axes in _orders(len(wanted)):
            if tuple(given.shape[axis] for axis in axes) == wanted:
                yield Reading(np.transpose(given, axes), _named(axes))


def _long(shape: Sequence[int]) -> list[int]:
    return [size for size in shape if size != 1]


def _last(shape: Sequence[int]) -> list[int]:
    return [shape[0], *shape[2:], shape[1]]


def _orders(rank: int) -> list[tuple[int, ...]]:
    """Those of axes in which a device may have them: channels last, first, then any."""
    likely = [(0, rank - 1, *range(1, rank - 1)), (0, *range(2, rank), 1)]
    others = permutations(range(rank)) if rank <= _FEW else ()
    usual = tuple(range(rank))
    return [each for each in dict.fromkeys([*likely, *others]) if each != usual]


_FEW = 5


def _named(axes: tuple[int, ...]) -> str:
    rank = len(axes)
    if axes == (0, rank - 1, *range(1, rank - 1)):
        return {3: "laid out NWC", 4: "laid out NHWC", 5: "laid out NDHWC"}.get(
            rank, "laid out with channels last"
        )
    return f"its axes in another order, {list(axes)} of them are ONNX's"
