"""Calibration tables of TPU-MLIR: one line a tensor, with a threshold and its extremes."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from calibration.statistics import Range
from calibration.table_reading import checked_range, damaged
from opsets.errors import UsageError

HEADER = "# op_name    threshold    min    max"

_BLOCK = re.compile(
    r"#\s*(int4_th|int4_op|asym_op|weight_scale\w*|tpu-mlir-fp8|mqbench-fp8)\b"
)
"""What a line begins with that ends the block before it; other such lines are comments."""

_NUMBER = re.compile(
    r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?|[-+]?(nan|inf|infinity)", re.A | re.I
)

_SMALLEST_THRESHOLD = 1e-5
"""TPU-MLIR writes no smaller one, and takes a line of zeros as none."""


@dataclass(frozen=True)
class Entry:
    """Real numbers: ``low`` to ``high`` occur, what lies beyond ``threshold`` saturates."""

    threshold: float
    low: float
    high: float

    @property
    def range(self) -> Range:
        """From ``low`` to ``high`` as far as the threshold reaches."""
        low, high = (
            min(max(value, -self.threshold), self.threshold) for value in (self.low, self.high)
        )
        return Range(low, high)

    @property
    def symmetric_range(self) -> Range:
        """As TPU-MLIR imports it for symmetric codes: what lies below zero has no other end.

        From -threshold, or from 0 where the lowest value is not negative, to the threshold.
        """
        return Range(-self.threshold if self.low < 0 else 0.0, self.threshold)


@dataclass(frozen=True)
class TpuMlirTable:
    """The int8 entries by tensor; which operators the table wants asymmetric, and of which it
    has the scales of weights.
    """

    entries: Mapping[str, Entry]
    asym_ops: tuple[str, ...]
    weight_scales: tuple[str, ...] = ()


def header_in(text: str) -> bool:
    """Whether a comment says that this is such a table."""
    found = (" ".join(line.split()) for line in text.split("\n"))
    return any(line == " ".join(HEADER.split()) for line in found)


def read_tpumlir(text: str, where: str) -> TpuMlirTable:
    """The table in ``text``, of a file that ``where`` names.

    Of the blocks behind the entries the names under ``#asym_op`` and ``#weight_scale`` are
    kept; those of other types than int8 are passed over. Raises DataError, with the number of
    the line, for entries that make no sense.
    """
    entries: dict[str, Entry] = {}
    asym_ops, weight_scales = [], []
    block = ""
    for number, line in enumerate(text.split("\n"), 1):
        found, columns = _BLOCK.match(line.strip()), line.split()
        if found:
            block = found[1]
        elif not columns or columns[0].startswith("#"):
            continue
        elif block == "":
            name = columns[0]
            entry = _entry(columns, f"{where}, line {number}")
            if name in entries:
                raise damaged(f"{where}, line {number}", f"tensor {name!r} occurs twice")
            entries[name] = entry
        elif block == "asym_op":
            asym_ops.append(columns[0])
        elif block.startswith("weight_scale"):
            weight_scales.append(columns[0])
    return TpuMlirTable(entries, tuple(asym_ops), tuple(weight_scales))


def _entry(columns: list[str], where: str) -> Entry:
    if len(columns) != 4:
        found = f"{len(columns)} columns, not name, threshold, min and max"
        raise damaged(where, f"{' '.join(columns)[:60]!r} has {found}")
    name, *texts = columns
    place = f"{where}: tensor {name!r}"
    threshold, low, high = (number(text, place) for text in texts)
    checked_range(low, high, place)
    if not 0 <= threshold < float("inf"):
        raise damaged(place, f"the threshold {threshold:g} must be finite and not negative")
    if threshold == 0 and (low or high):
        raise damaged(place, f"the threshold is 0, the values are from {low:g} to {high:g}")
    return Entry(threshold, low, high)


def is_number(text: str) -> bool:
    """Whether it is one, perhaps NaN or infinite."""
    return _NUMBER.fullmatch(text) is not None


def number(text: str, where: str) -> float:
    """A number in a table of text, perhaps NaN or infinite; else DataError."""
    if not is_number(text):
        raise damaged(where, f"{text[:60]!r} is not a number")
    return float(text)


def write_tpumlir(ranges: Mapping[str, Range]) -> bytes:
    """A table of these ranges, sorted by name, numbers with seven decimals.

    Raises UsageError for a name that such a table cannot hold.
    """
    return "".join(f"{line}\n" for line in [HEADER, *_lines(ranges)]).encode()


def _lines(ranges: Mapping[str, Range]) -> list[str]:
    lines = []
    for name in sorted(ranges):
        if name.split() != [name] or name.startswith("#"):
            raise UsageError(
                f"tensor {name!r}: names in a table of TPU-MLIR hold no white space and do "
                "not begin with #: rename it, or choose another format"
            )
        low, high = ranges[name].low, ranges[name].high
        threshold = max(abs(low), abs(high), _SMALLEST_THRESHOLD)
        columns = (f"{round(value, 7) + 0.0:.7f}" for value in (threshold, low, high))
        lines.append(" ".join((name, *columns)))
    return lines
