"""By how much a metric may fall: what ``--max-drop`` says."""

from collections.abc import Mapping
from numbers import Real
from sys import float_info
from typing import Any

from opsets.argument_kinds import shown
from opsets.errors import UsageError


def as_drop(given: Any) -> Mapping[str, float]:
    """By the name of the metric its largest drop, of a text METRIC=VALUE or a dict of one.

    Raises UsageError for anything else.
    """
    pairs: list[Any] = []
    if isinstance(given, str):
        pairs = [given.rpartition("=")[::2]]
    elif isinstance(given, Mapping):
        pairs = [*given.items()]
    if len(pairs) != 1 or not isinstance(pairs[0][0], str) or not pairs[0][0].strip():
        raise UsageError(
            f"max_drop (--max-drop): {shown(given)} is not METRIC=VALUE, as top1=0.01 (in "
            "Python a dict of one metric too)"
        )
    ((name, value),) = pairs
    return {name.strip(): _most(name.strip(), value)}


def _most(name: str, given: Any) -> float:
    value = given
    if isinstance(given, str):
        try:
            value = float(given)
        except ValueError:
            value = None
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= float_info.max:
        raise UsageError(
            f"max_drop (--max-drop): {name!r} may fall by a number of at least 0, as 0.01, "
            f"got {shown(given)}"
        )
    return float(value)
