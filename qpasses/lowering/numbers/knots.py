"""Knots: a table of 16 bits as 513 entries with lines between them, or as all of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from opsets.errors import ModelError
from opsets.qpasses_v1 import OPS
from opsets.qpasses_v1.lut_interpolated import SEGMENT
from opsets.realised import quotient_rounding
from opsets.table_rules import FAR, NEAR, NEAR_OF_CHANNELS, SEEN, USUAL, TableRules
from opsets.target import Target
from qpasses.ir.edges import codes, dequantize, quantize_by, rows_of
from qpasses.ir.function import Function
from qpasses.ir.record import AnyQuantization, Quantization, of_channel
from qpasses.lowering.numbers.table_entries import results, tabulate

WORD_MAX = (1 << 15) - 1
_TINY = float(np.finfo(np.float32).tiny)

Knots = Literal["plain", "adjusted"]
Stored = NDArray[Any]
Reals = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Lookup:
    """The op that looks codes up, what stands on its node, and which codes lack a result.

    Of bytes these codes, of 16 bits the first and the last of each run of them.
    """

    op: str
    constants: Mapping[str, Stored]
    attributes: Mapping[str, Any]
    undefined: Sequence[int] | Sequence[Sequence[int]]


def lookup(function: Function, x: Quantization, y: Quantization, target: Target) -> Lookup:
    """The table of one function of all codes of x, in the form that these ask for.

    Raises ModelError where onnx cannot evaluate it, or it is defined nowhere.
    """
    if x.dtype == "int16":
        return wide_lookup(function, x, y, target)
    table, undefined = tabulate(function, x, y, target.table_rules)
    low, high = x.limits
    if len(undefined) == high - low + 1:
        raise ModelError(f"{', '.join(function.ops)}: not defined for any code of its input")
    return Lookup("Lut", {"table": table}, {}, undefined)


def words_of_results(function: Function, x: Quantization, target: Target) -> Quantization:
    """16 bits for all results of a function of the codes of x that are finite, symmetric."""
    rules = target.table_rules
    stored = codes(x)
    low, high = x.limits
    inside = stored[(low <= stored) & (stored <= high)]
    real = function.computed_by(rules, dequantize(inside, x, rules.floats))
    largest = float(np.abs(real[np.isfinite(real)]).max(initial=0))
    scale = float(rules.floats(largest / WORD_MAX))
    return Quantization(scale if scale >= _TINY else 1.0, 0, "int16")


def wide_lookup(
    function: Function, x: Quantization, y: Quantization, target: Target
) -> Lookup:
    """Knots where they are ``NEAR`` the full table on all 65,536 codes of x, else that.

    Raises ModelError where onnx cannot evaluate the function, or it is defined nowhere.
    """
    real, missing = _results(function, x, target)
    table = quantize_by(target.table_rules, real, y)
    constants, gaps = _measured(function, x, y, real, target)
    if gaps.max() <= NEAR[y.dtype]:
        attributes = {"rounding": quotient_rounding(target)}
        return Lookup("LutInterpolated", constants, attributes, _runs(missing))
    return Lookup("Lut16", {"table": table}, {}, _runs(missing))


def channel_lookup(
    function: Function, x: AnyQuantization, y: AnyQuantization, axis: int, target: Target
) -> Lookup:
    """Knots of each channel along ``axis``, of a function or ends that differ by channel.

    They are adjusted, as no full table takes their place where lines are far from it.
    Raises ModelError where onnx cannot evaluate the function, or it is defined for no code of
    a channel, or lines between knots of a channel are further from its full table than
    ``NEAR_OF_CHANNELS`` and, on the mean, than ``FAR``.
    """
    rows, missing = list[Stored](), set[int]()
    for channel in range(function.channels or rows_of(x, y)):
        text = function.of_channel(channel).as_text()
        row = _row(text, of_channel(x, channel), of_channel(y, channel), target)
        if row.largest > NEAR_OF_CHANNELS[y.dtype] and row.noise > FAR[y.dtype]:
            raise ModelError(
                f"{', '.join(function.ops)}: lines between 513 knots are up to {row.largest} "
                f"steps from the table of channel {channel}, and no table of channels has more"
            )
        missing.update(row.missing)
        rows.append(row.constants["table"])
    attributes = {"axis": axis, "rounding": quotient_rounding(target)}
    numbers = {**row.constants, "tables": np.stack(rows)}
    ordered = {name: numbers[name] for name in OPS[_BY_CHANNEL].constants}
    return Lookup(_BY_CHANNEL, ordered, attributes, _runs(sorted(missing)))


_BY_CHANNEL = "LutInterpolatedPerChannel"


@dataclass(frozen=True)
class _Row:
    """The constants of a LutInterpolated, and on ``SEEN`` codes how far it is from the full
    table: by how many steps at most, and the mean of their squares; which have no result.
    """

    constants: Mapping[str, Stored]
    largest: int
    noise: float
    missing: Sequence[int]


@lru_cache(maxsize=1 << 14)
def _row(text: str, x: Quantization, y: Quantization, target: Target) -> _Row:
    """That of one channel: who places asks, and who integerizes."""
    function = Function.from_text(text)
    real, missing = _results(function, x, target)
    constants, gaps = _measured(function, x, y, real, target, "adjusted")
    seen = np.abs(codes(x).astype(np.int64)) <= SEEN
    if y.dtype == "int16":
        table = quantize_by(target.table_rules, real, y)
        seen &= np.abs(table.astype(np.int64)) <= SEEN
    gaps = gaps[seen] if seen.any() else gaps
    return _Row(constants, int(gaps.max()), float(np.square(gaps).mean()), missing)


def _results(function: Function, x: Quantization, target: Target) -> tuple[Reals, list[int]]:
    """Those of all codes, and the codes that have none. Raises ModelError if all have none."""
    real, missing = results(function, x, target.table_rules)
    if len(missing) == real.size:
        raise ModelError(f"{', '.join(function.ops)}: not defined for any code of its input")
    return real, missing


def _measured(
    function: Function,
    x: Quantization,
    y: Quantization,
    real: Reals,
    target: Target,
    knots: Knots = "plain",
) -> tuple[dict[str, Stored], NDArray[np.int64]]:
    """The constants of a LutInterpolated, and how far it is from all entries on each code."""
    rules, rounding = target.table_rules, quotient_rounding(target)
    constants = _knotted(function, x, y, real, knots, rules)
    found = OPS["LutInterpolated"].reference(codes(x), **constants, rounding=rounding)
    return constants, np.abs(found.astype(np.int64) - quantize_by(rules, real, y))


def _runs(numbers: Sequence[int]) -> list[list[int]]:
    """The first and the last of each run of ``numbers``, which are in order."""
    ends = np.flatnonzero(np.diff(numbers) > 1) + 1
    return [[int(run[0]), int(run[-1])] for run in np.split(numbers, ends) if run.size]


def knotted(
    function: Function,
    x: Quantization,
    y: Quantization,
    knots: Knots = "plain",
    rules: TableRules = USUAL,
) -> dict[str, Stored]:
    """The constants of a LutInterpolated.

    Entries are int16: those of y of 8 bits have 8 fraction bits, and are about ``y_zero``.
    """
    return _knotted(function, x, y, results(function, x, rules)[0], knots, rules)


def _knotted(
    function: Function,
    x: Quantization,
    y: Quantization,
    real: Reals,
    knots: Knots,
    rules: TableRules,
) -> dict[str, Stored]:
    low, high = y.type_limits
    fraction, middle = 8 * (2 - y.zero.itemsize), (low + high + 1) // 2
    zero_point = (y.zero_point - middle) << fraction
    finer = Quantization(y.scale / (1 << fraction), zero_point, "int16")
    entries = _entries(function, x, finer, real, knots, rules)
    numbers = {"y_zero": middle, "y_min": y.limits[0], "y_max": y.limits[1]}
    shift = np.array(SEGMENT.bit_length() - 1 + fraction, np.int32)
    ends = {name: np.array(value, y.dtype) for name, value in numbers.items()}
    return {"table": entries, "shift": shift, **ends}


def _entries(
    function: Function,
    x: Quantization,
    y: Quantization,
    real: Reals,
    knots: Knots,
    rules: TableRules,
) -> NDArray[np.int16]:
    """The stored y of every 128th x, and of the first x that is no code any more, 32768."""
    half = np.roll(real, 1 << 15)[:: SEGMENT // 2]  # from the lowest code on
    in_order = quantize_by(rules, half, y)
    beyond = function.computed_by(rules, dequantize(np.array([1 << 15]), x, rules.floats))
    last = np.roll(real, 1 << 15)[-1:] if np.isnan(beyond).any() else beyond
    plain = np.concatenate([in_order[::2], quantize_by(rules, last, y)])
    if knots == "plain":
        return plain
    middles = in_order[1::2]
    wrong = (plain[:-1].astype(np.int64) + plain[1:]) / 2 - middles
    around = np.pad(wrong, 1, mode="edge")
    moved = np.rint(plain - (around[:-1] + around[1:]) / 4)
    return np.asarray(np.clip(moved, *y.limits), np.int16)
