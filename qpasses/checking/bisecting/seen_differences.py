"""What differences look like, whatever made them: an offset, a bit, some channels, a clamp."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.fixed_point import Int64

_FEW = 8
"""So many channels are listed."""


def seen(found: NDArray[Any], expected: NDArray[Any], limits: tuple[int, int]) -> list[str]:
    """In words, what all codes of one sample have in common that differ.

    ``limits``: the smallest and the largest code of the tensor.
    """
    ours, theirs = expected.astype(np.int64), found.astype(np.int64)
    return [*_in_codes(theirs, ours, limits), *_in_channels(theirs, ours)]


def _in_codes(found: Int64, expected: Int64, limits: tuple[int, int]) -> Iterator[str]:
    differs = found != expected
    inside = differs & (found > limits[0]) & (found < limits[1])
    offsets = np.unique((found - expected)[inside])
    if len(offsets) == 1 and inside.sum() > 1:
        offset = int(offsets[0])
        if np.array_equal(np.clip(expected + offset, *limits), found):
            more = "more" if offset > 0 else "less"
            yield f"every code is {abs(offset)} {more}: another zero point, or bias"
            return
    low, high = int(found.min()), int(found.max())
    is_clamped = np.array_equal(np.clip(expected, low, high), found)
    if is_clamped and ((found == low) | (found == high))[differs].all():
        yield f"as if clamped to {low}..{high}"
    turned = np.unique((found ^ expected)[differs])
    if len(turned) == 1 and (bit := int(turned[0])).bit_count() == 1 and bit > 0:
        yield f"bit {bit.bit_length() - 1} is turned in {_counted(int(differs.sum()), 'code')}"


def _in_channels(found: Int64, expected: Int64) -> Iterator[str]:
    if found.ndim < 2:
        return
    axis = 1 if found.ndim > 2 else found.ndim - 1
    rows = [
        np.moveaxis(each, axis, 0).reshape(each.shape[axis], -1) for each in (found, expected)
    ]
    wrong = np.flatnonzero((rows[0] != rows[1]).any(axis=1)).tolist()
    count = len(rows[0])
    if moved := _moved(rows[0], rows[1], wrong):
        shown = [f"{ours} holds {theirs}" for ours, theirs in moved.items()]
        yield f"channels are swapped: {_listed(shown)}"
    elif 0 < len(wrong) <= count // 2:
        which = "channel" if len(wrong) == 1 else "channels"
        yield f"only in {which} {_listed(list(map(str, wrong)))} of {count}"


def _moved(found: Int64, expected: Int64, wrong: Sequence[int]) -> Mapping[int, int]:
    """The channel that each of ``wrong`` holds in place of its own; nothing if some hold none.

    Channels that are all alike tell nothing.
    """
    by_content = {expected[channel].tobytes(): channel for channel in wrong}
    held = {each: by_content.get(found[each].tobytes()) for each in wrong}
    whole = {ours: theirs for ours, theirs in held.items() if theirs is not None}
    are_told = len(by_content) == len(wrong) > 1 and len(whole) == len(wrong)
    return whole if are_told and len({*whole.values()}) == len(wrong) else {}


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _FEW
    return ", ".join(names[:_FEW]) + (f" and {more} more" if more > 0 else "")


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
