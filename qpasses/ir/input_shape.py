"""Sizes of inputs that a user fixes: what ``--input-shape`` says, read and written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from opsets.errors import UsageError

FREE = -1
"""Stands for a size that stays as the model has it."""

_LARGEST = (1 << 31) - 1
"""No dimension of a tensor that a kernel takes is longer."""


@dataclass(frozen=True)
class InputShape:
    """The sizes of one input; ``name`` is empty where the only one is meant."""

    name: str
    sizes: Sequence[int]

    @classmethod
    def parsed(cls, text: str) -> Self:
        """What NAME:1,3,224,224 or 1,3,224,224 says; UsageError for anything else."""
        name, _, listed = text.rpartition(":")
        try:
            sizes = [int(each) for each in listed.strip("[] ").split(",")]
        except ValueError as error:
            raise UsageError(
                f"input_shape (--input-shape): {text!r} is not NAME:1,3,224,224, sizes with "
                "commas behind the name of an input"
            ) from error
        wrong = [n for n in sizes if n != FREE and not 1 <= n <= _LARGEST]
        if wrong:
            raise UsageError(
                f"input_shape (--input-shape): {text!r}: {wrong[0]} is no size, use a whole "
                f"number from 1 to {_LARGEST}, or {FREE} for one that stays as it is"
            )
        return cls(name, sizes)


def as_texts(given: Any) -> Sequence[str]:
    """The texts that say ``given``: a list of them, or sizes by input name.

    Raises UsageError for what says no sizes.
    """
    if isinstance(given, Mapping):
        given = [f"{name}:{_listed(sizes)}" for name, sizes in given.items()]
    is_list = isinstance(given, Sequence) and not isinstance(given, str | bytes)
    if not is_list or not all(isinstance(each, str) for each in given):
        raise UsageError(
            "input_shape: a list of texts 'NAME:1,3,224,224', or a dict of sizes by input "
            f"name, is needed, got {given!r}"
        )
    for text in given:
        InputShape.parsed(text)
    return tuple(given)


def _listed(sizes: Any) -> str:
    many = isinstance(sizes, Sequence) and not isinstance(sizes, str | bytes)
    return ",".join(map(str, sizes)) if many else str(sizes)
