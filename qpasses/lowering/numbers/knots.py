"""Knots: a table of 16 bits as 513 entries with lines between them, or as all of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from opsets.errors import ModelError
from opsets.qpasses_v1 import OPS
from opsets.qpasses_v1.lut_interpolated import SEGMENT
from opsets.realised import quotient_rounding
from opsets.table_rules import NEAR, USUAL, TableRules
from opsets.target import Target
from qpasses.ir.edges import codes, dequantize, quantize_by
from qpasses.ir.function import Function
from qpasses.ir.record import Quantization
from qpasses.lowering.numbers.table_entries import tabulate

WORD_MAX = (1 << 15) - 1
_TINY = float(np.finfo(np.float32).tiny)

Knots = Literal["plain", "adjusted"]
Stored = NDArray[Any]


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
    table, missing = tabulate(function, x, y, target.table_rules)
    if len(missing) == table.size:
        raise ModelError(f"{', '.join(function.ops)}: not defined for any code of its input")
    undefined = _runs(missing)
    constants = knotted(function, x, y, rules=target.table_rules)
    attributes = {"rounding": quotient_rounding(target)}
    found = OPS["LutInterpolated"].reference(codes(x), **constants, **attributes)
    if np.abs(found.astype(np.int64) - table).max() <= NEAR[y.dtype]:
        return Lookup("LutInterpolated", constants, attributes, undefined)
    return Lookup("Lut16", {"table": table}, {}, undefined)


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
    low, high = y.type_limits
    fraction, middle = 8 * (2 - y.zero.itemsize), (low + high + 1) // 2
    zero_point = (y.zero_point - middle) << fraction
    finer = Quantization(y.scale / (1 << fraction), zero_point, "int16")
    entries = _entries(function, x, finer, knots, rules)
    numbers = {"y_zero": middle, "y_min": y.limits[0], "y_max": y.limits[1]}
    shift = np.array(SEGMENT.bit_length() - 1 + fraction, np.int32)
    ends = {name: np.array(value, y.dtype) for name, value in numbers.items()}
    return {"table": entries, "shift": shift, **ends}


def _entries(
    function: Function, x: Quantization, y: Quantization, knots: Knots, rules: TableRules
) -> NDArray[np.int16]:
    """The stored y of every 128th x, and of the first x that is no code any more, 32768."""
    by_bits, _ = tabulate(function, x, y, rules)
    in_order = by_bits[np.argsort(codes(x))]
    beyond = function.computed_by(rules, dequantize(np.array([1 << 15]), x, rules.floats))
    last = in_order[-1:] if np.isnan(beyond).any() else quantize_by(rules, beyond, y)
    plain = np.concatenate([in_order[::SEGMENT], last])
    if knots == "plain":
        return plain
    middles = in_order[SEGMENT // 2 :: SEGMENT]
    wrong = (plain[:-1].astype(np.int64) + plain[1:]) / 2 - middles
    around = np.pad(wrong, 1, mode="edge")
    moved = np.rint(plain - (around[:-1] + around[1:]) / 4)
    return np.asarray(np.clip(moved, *y.limits), np.int16)
