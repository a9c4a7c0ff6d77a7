"""All codes under all slopes: multipliers of IntPRelu are chosen, its kind judged, on them."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.fixed_point import Int64
from opsets.op import Body, Constants
from opsets.qpasses_v1 import OPS
from qpasses.evidence.table_places import code_places
from qpasses.ir.edges import codes
from qpasses.ir.record import Quantization
from qpasses.ir.runtime import op_runner

BLOCK = 4096
"""So many slopes are looked at together on 256 codes."""

_SATURATING = 1 << 20
"""Levels beyond this are the same to every stored type."""


def blocks(count: int, size: int = BLOCK) -> Iterator[slice]:
    """Parts of ``count`` slopes."""
    for start in range(0, count, size):
        yield slice(start, start + size)


@dataclass(frozen=True)
class Differences:
    """On how many codes and slopes the body is not the meaning, and that not the real."""

    mismatches: int
    moved: int
    max_lsb: int


def slope_differences(
    op: str,
    body: Body,
    given: Constants,
    rounding: str,
    x: Quantization,
    y: Quantization,
    slopes: NDArray[np.float64],
) -> Differences:
    """All codes under each of ``slopes``: onnxruntime, the meaning, real arithmetic.

    Slopes of equal multipliers are looked at once and counted as often as they are there.
    """
    content = (
        (name, value.tobytes(), value.dtype.name, value.shape) for name, value in given.items()
    )
    return _differences(op, body, tuple(content), rounding, x, y, tuple(slopes.tolist()))


@lru_cache(maxsize=64)
def _differences(
    op: str,
    body: Body,
    content: tuple[tuple[str, bytes, str, tuple[int, ...]], ...],
    rounding: str,
    x: Quantization,
    y: Quantization,
    real_slopes: tuple[float, ...],
) -> Differences:
    given = {
        name: np.frombuffer(value, dtype).reshape(shape)
        for name, value, dtype, shape in content
    }
    slopes = np.array(real_slopes)
    names = [name for name in given if name.startswith("slope")]
    shape = np.broadcast_shapes(*(given[name].shape for name in names))
    below = [np.broadcast_to(given[name], shape).ravel() for name in names]
    rows = np.stack([slopes, *(each.astype(np.float64) for each in below)])
    columns, counts = np.unique(rows, axis=1, return_counts=True)
    stored, bounds = codes(x), (int(given["y_min"]), int(given["y_max"]))
    mismatches, moved, max_lsb = 0, 0, 0
    for part in blocks(counts.size, BLOCK * 256 // stored.size):
        scales = {
            name: row[part].astype(np.int32)
            for name, row in zip(names, columns[1:], strict=True)
        }
        inputs = {"x": np.tile(stored[:, None], counts[part].size), **given, **scales}
        meaning = OPS[op].reference(*inputs.values(), rounding=rounding)
        real = np.clip(real_levels(x, y, columns[0, part]) + y.zero_point, *bounds)
        gaps = np.abs(meaning.astype(np.int64) - real)
        wrong = _wrong(op, body, inputs, meaning, rounding)
        mismatches += int((wrong.sum(axis=0) * counts[part]).sum())
        moved += int(((gaps > 0).sum(axis=0) * counts[part]).sum())
        max_lsb = max(max_lsb, int(gaps.max()))
    return Differences(mismatches, moved, max_lsb)


def _wrong(
    op: str,
    body: Body,
    inputs: Constants,
    meaning: NDArray[Any],
    rounding: str,
) -> NDArray[np.bool_]:
    """[codes, slopes]: where ``body`` differs, slopes across or down, optimized and not.

    Of bytes the first slope also with each code at every place of a vector and in every
    remainder.
    """
    attributes = {"rounding": rounding}
    wrong = np.zeros(meaning.shape, bool)
    turned = {
        name: value.reshape(-1, 1) if name.startswith("slope") else value
        for name, value in inputs.items()
    } | {"x": inputs["x"].T}
    first = {name: value[:1] for name, value in inputs.items() if name.startswith("slope")}
    for optimize in (False, True):
        run = op_runner(op, body, [*inputs.values()], attributes, optimize=optimize)
        wrong |= run([*inputs.values()]) != meaning
        wrong |= meaning != run([*turned.values()]).T
        is_short = len(meaning) == 256 and body.flavour == "onnxruntime"
        for places in code_places(meaning.shape[:1], is_short):
            found = run([*{**inputs, **first, "x": inputs["x"][places, 0]}.values()])
            wrong[places[found != meaning[places, 0]], 0] = True
    return wrong


def real_levels(x: Quantization, y: Quantization, slopes: NDArray[np.float64]) -> Int64:
    """[codes, slopes]: the level of y at each code in the order of bits, half to even."""
    level = codes(x).astype(np.int64)[:, None] - x.zero_point
    ratio = Fraction(x.scale) / Fraction(y.scale)
    scales = [ratio * Fraction(float(slope)) for slope in slopes]
    estimate = level * np.where(level < 0, [float(scale) for scale in scales], float(ratio))
    estimate = np.clip(estimate, -_SATURATING, _SATURATING)
    found = np.rint(estimate).astype(np.int64)
    ties = np.abs(estimate - np.floor(estimate) - 0.5) <= np.abs(estimate) * 2.0**-48
    for code, place in np.argwhere(ties):
        at = int(level[code, 0])
        found[code, place] = round(at * (scales[place] if at < 0 else ratio))
    return found
