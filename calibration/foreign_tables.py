"""Tables of ranges that other tools read and write, recognised by what is in them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, assert_never

from calibration.onnxruntime_table import (
    holds_ranges,
    read_onnxruntime,
    read_onnxruntime_text,
    write_onnxruntime,
)
from calibration.statistics import Range
from calibration.table_reading import damaged, parsed, read_text
from calibration.tpumlir_table import header_in, is_number, read_tpumlir, write_tpumlir
from opsets.errors import DataError

ForeignKind = Literal["tpumlir", "onnxruntime"]
Kind = Literal["qpasses", ForeignKind]

_KNOWN = (
    "a calibration table of qpasses (JSON), of TPU-MLIR (lines of name, threshold, min and "
    "max), or of onnxruntime (JSON, or lines of name and threshold)"
)


def table_kind(path: Path) -> Kind:
    """Which tool the table in a file is for; DataError if it is none of the three."""
    return _recognised(read_text(path), str(path))[0]


def read_ranges(path: Path, symmetric: bool = False) -> tuple[ForeignKind, dict[str, Range]]:
    """Which other tool made the table in a file, and the ranges it gives to tensors.

    ``symmetric``: the codes are, so that those of TPU-MLIR follow from thresholds alone, and
    no operator may be asymmetric.
    Raises DataError for entries that make no sense, and for a table of qpasses itself: that
    holds statistics, from which ranges have yet to be chosen.
    """
    text, where = read_text(path), str(path)
    kind, entries = _recognised(text, where)
    if kind == "qpasses":
        raise DataError(
            f"{where}: is a table of qpasses, with statistics, where one with ranges is needed"
        )
    if kind == "tpumlir":
        table = read_tpumlir(text, where)
        if symmetric and table.asym_ops:
            raise DataError(
                f"{where}: wants {table.asym_ops[0]!r} asymmetric, which codes of this target "
                "are not: leave it away under #asym_op"
            )
        if symmetric and table.weight_scales:
            raise DataError(
                f"{where}: gives the scales of {table.weight_scales[0]!r}, where scales of "
                "weights follow from weights here: leave the block #weight_scale away"
            )
        ranges = {
            name: entry.symmetric_range if symmetric else entry.range
            for name, entry in table.entries.items()
        }
    elif entries is None:
        ranges = read_onnxruntime_text(text, where)
    else:
        ranges = read_onnxruntime(entries, where)
    if not ranges:
        raise damaged(where, "holds no range of any tensor for int8")
    return kind, ranges


def written(ranges: Mapping[str, Range], kind: ForeignKind) -> bytes:
    """A table of ranges for another tool, the same for any order of ``ranges``.

    Raises UsageError for a name that the format cannot hold.
    """
    match kind:
        case "tpumlir":
            return write_tpumlir(ranges)
        case "onnxruntime":
            return write_onnxruntime(ranges)
        case _:
            assert_never(kind)


def _recognised(text: str, where: str) -> tuple[Kind, Any]:
    """The kind of a table, and the JSON value that it is, if it is JSON."""
    if text.lstrip().startswith(("{", "[")):
        entries = parsed(text, where)
        if isinstance(entries, dict) and _is_own(entries):
            return "qpasses", entries
        if holds_ranges(entries):
            return "onnxruntime", entries
    elif header_in(text) or _numbers_in_first_line(text) == 3:
        return "tpumlir", None
    elif _numbers_in_first_line(text) == 1:
        return "onnxruntime", None
    raise DataError(f"{where}: is not {_KNOWN}")


def _is_own(entries: dict[str, Any]) -> bool:
    """Also of a table that lost its schema, so that its own reader says what is wrong."""
    schema = entries.get("schema")
    return isinstance(schema, str) or {"model", "tool", "tensors"} <= entries.keys()


def _numbers_in_first_line(text: str) -> int:
    """How many follow a name in the first line that is neither empty nor a comment."""
    rows = (line.split() for line in text.split("\n"))
    first = next((row for row in rows if row and not row[0].startswith("#")), [])
    return len(first) - 1 if all(map(is_number, first[1:])) else 0
