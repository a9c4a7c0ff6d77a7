"""Calibration caches of onnxruntime: ranges as JSON, in three forms, or thresholds as text."""

import json
from collections.abc import Mapping
from reprlib import repr as shown
from typing import Any

import numpy as np

from calibration.statistics import Range
from calibration.table_reading import checked_range, damaged
from calibration.tpumlir_table import number


def holds_ranges(entries: Any) -> bool:
    """Whether a JSON value looks like one of the forms: see ``read_onnxruntime``."""
    if not isinstance(entries, dict):
        return False
    return entries.get("CLS") == "TensorsData" or any(map(_is_entry, entries.values()))


def _is_entry(value: Any) -> bool:
    if isinstance(value, dict):
        return value.get("CLS") == "TensorData" or {"lowest", "highest"} <= value.keys()
    return isinstance(value, list) and len(value) == 2


def read_onnxruntime(entries: Any, where: str) -> dict[str, Range]:
    """The ranges in a JSON value, of a file that ``where`` names.

    It is what ``save_tensors_data`` writes, or what ``write_calibration_table`` does (the same
    without the outer object), or ``{name: [lowest, highest]}``. Raises DataError, with the
    name of the tensor, for all else.
    """
    tensors = entries
    if isinstance(entries, dict) and entries.get("CLS") == "TensorsData":
        tensors = entries.get("data")
    if not isinstance(tensors, dict):
        raise damaged(where, f"the tensors must be a JSON object, not {shown(tensors)}")
    return {name: _range(tensors[name], f"{where}: tensor {name!r}") for name in tensors}


def _range(entry: Any, where: str) -> Range:
    if isinstance(entry, list) and len(entry) == 2:
        low, high = entry
    elif isinstance(entry, dict):
        for name in ("lowest", "highest"):
            if name not in entry:
                raise damaged(where, f"has no {name!r} value")
        low, high = entry["lowest"], entry["highest"]
    else:
        raise damaged(where, f"must be [lowest, highest], not {shown(entry)}")
    return checked_range(_real(low, where), _real(high, where), where)


def _real(value: Any, where: str) -> float:
    """A number, alone or in a numpy array of one; else DataError."""
    if isinstance(value, dict) and value.get("CLS") == "numpy.array":
        value = value.get("data")
    while isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, list) and value:
        raise damaged(where, f"has {len(value)} ranges, perhaps one a channel, not one")
    if type(value) not in (int, float):
        raise damaged(where, f"{shown(value)} is not a number")
    try:
        return float(value)
    except OverflowError as error:
        raise damaged(where, f"{shown(value)} is not finite") from error


def read_onnxruntime_text(text: str, where: str) -> dict[str, Range]:
    """The ranges in the lines ``name threshold`` of a ``calibration.cache``.

    They are symmetric, from -threshold to threshold. Raises DataError, with the number of
    the line, for entries that make no sense.
    """
    found: dict[str, Range] = {}
    for count, line in enumerate(text.split("\n"), 1):
        columns = line.rsplit(maxsplit=1)
        if not columns:
            continue
        if len(columns) != 2:
            raise damaged(f"{where}, line {count}", f"{line.strip()[:60]!r} has one column")
        name = columns[0]
        place = f"{where}, line {count}: tensor {name!r}"
        threshold = number(columns[1], place)
        if threshold < 0:
            raise damaged(place, f"the threshold {threshold:g} is negative")
        if name in found:
            raise damaged(place, "occurs twice")
        found[name] = checked_range(-threshold, threshold, place)
    return found


def write_onnxruntime(ranges: Mapping[str, Range]) -> bytes:
    """What ``load_tensors_data`` and ``quantize_static`` of onnxruntime read: a line a tensor.

    The method is MinMax, which is said to ``quantize_static`` too; the numbers are float32.
    """
    lines = [
        f"{json.dumps(name)}: {json.dumps(_tensor_data(ranges[name]))}"
        for name in sorted(ranges)
    ]
    method = {"CLS": "CalibrationMethod", "value": "CalibrationMethod.MinMax"}
    return (
        '{"CLS": "TensorsData", "data": {\n'
        + ",\n".join(lines)
        + f'\n}}, "calibration_method": {json.dumps(method)}, "smooth_quant": false}}\n'
    ).encode()


def _tensor_data(of: Range) -> dict[str, Any]:
    return {
        "lowest": _array(of.low),
        "highest": _array(of.high),
        "CLS": "TensorData",
    }


def _array(value: float) -> dict[str, Any]:
    return {"data": float(np.float32(value)) + 0.0, "dtype": "float32", "CLS": "numpy.array"}
