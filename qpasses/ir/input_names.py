"""Which array of a sample is for which input: what ``--inputs`` says."""

from collections.abc import Mapping, Sequence
from typing import Any

from opsets.argument_kinds import shown
from opsets.errors import UsageError


def as_pairs(given: Any) -> Mapping[str, str]:
    """By input the name of an array, of texts INPUT=ARRAY or a dict.

    Raises UsageError for anything else.
    """
    if isinstance(given, Mapping):
        pairs: list[Any] = list(given.items())
    elif isinstance(given, Sequence) and not isinstance(given, str | bytes):
        pairs = [each.split("=", 1) if isinstance(each, str) else each for each in given]
    else:
        pairs = [given]
    found: dict[str, str] = {}
    for pair in pairs:
        is_pair = isinstance(pair, list | tuple) and len(pair) == 2
        if not is_pair or not all(isinstance(each, str) and each for each in pair):
            text = pair[0] if isinstance(pair, list) and pair else pair
            raise UsageError(
                f"inputs (--inputs): {shown(text)} is not INPUT=ARRAY, an input of the model "
                "and the array that is for it (in Python a dict of them)"
            )
        if pair[0] in found:
            raise UsageError(f"inputs (--inputs): {pair[0]!r} is given twice")
        found[pair[0]] = pair[1]
    return found
