"""What reading a table of any kind needs: its text, JSON in it, numbers that make sense."""

import json
from collections.abc import Iterable
from math import isfinite
from pathlib import Path
from typing import Any

from calibration.statistics import LARGEST_FLOAT, Range
from opsets.errors import DataError
from opsets.ordinary_files import bytes_of


def damaged(where: str, what: str) -> DataError:
    """That a table is not as a tool wrote it; ``where`` names the file, and what in it."""
    return DataError(f"{where}: {what}: make the table again, or restore the file")


def read_text(path: Path) -> str:
    """The text of a file; DataError if there is none."""
    try:
        return bytes_of(path).decode("utf-8-sig")
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise damaged(str(path), f"is not UTF-8 text (byte {error.start})") from error
    except ValueError as error:  # a path with a zero byte
        raise DataError(f"{str(path)!r}: cannot be read: {error}") from error


def parsed(text: str, where: str) -> Any:
    """The JSON value that ``text`` is, NaN and infinity among its numbers; else DataError."""

    def unique(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in pairs:
            if name in found:
                raise damaged(where, f"{name!r} occurs twice")
            found[name] = value
        return found

    try:
        return json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise damaged(where, f"is not JSON ({place}: {error.msg}), or was cut off") from error
    except (ValueError, RecursionError) as error:  # thousands of digits or of brackets
        raise damaged(where, f"is not a table: {error}") from error


def checked_range(low: float, high: float, where: str) -> Range:
    """DataError unless both are finite, as float32 too, and in order."""
    for name, value in (("lowest", low), ("highest", high)):
        if not isfinite(value):
            raise damaged(where, f"the {name} value {value} is not finite")
        if abs(value) > LARGEST_FLOAT:
            raise damaged(where, f"the {name} value {value:g} is larger than any float32")
    if low > high:
        raise damaged(where, f"the lowest value {low:g} is above the highest, {high:g}")
    return Range(low, high)
