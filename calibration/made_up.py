"""Samples of made-up numbers, for trying things out where there are no data."""

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.inputs import Arrays, InputSpec, only_input
from calibration.memory import beyond_memory
from calibration.preprocessing import Preprocessing
from calibration.source import Source
from opsets.errors import DataError, UsageError

_PREFIX = "random:"

_DRAWN = 8
"""Bytes of a number as it is drawn."""


@dataclass(frozen=True)
class MadeUp(Source):
    """``count`` samples; each depends on its number and the input alone.

    Floats are standard normal, integers 0 or 1 (valid ids everywhere), a free first
    dimension is 1. What is optional is absent.
    """

    count: int
    specs: Sequence[InputSpec]

    @property
    def place(self) -> str:
        """That they are nowhere."""
        return "of random numbers"

    def __len__(self) -> int:
        return self.count

    def name(self, index: int) -> str:
        """``random[3]``."""
        return f"random[{index}]"

    def read(self, index: int) -> Arrays:
        """The same numbers every time."""
        return {
            spec.name: None if spec.is_optional else _numbers(spec, index)
            for spec in self.specs
        }


def is_made_up(data: str) -> bool:
    """Whether ``data`` asks for numbers instead of naming files."""
    return data.startswith(_PREFIX)


def is_size_alone(how: Preprocessing) -> bool:
    """Whether nothing else is said of pictures than their size, and where channels are."""
    alone = Preprocessing(size=how.size, layout=how.layout)
    return how.size is not None and how == alone


def made_up(data: str, specs: Sequence[InputSpec], size: Preprocessing | None) -> MadeUp:
    """The samples that ``random:N`` asks for, pictures of ``size`` where the model leaves it.

    Raises UsageError if N is no number of samples, DataError for an input that no numbers
    can be made up for.
    """
    if not re.fullmatch(r"[1-9][0-9]{0,5}", data.removeprefix(_PREFIX)):
        raise UsageError(f"{data}: write random:N for N samples, N from 1 to 999999")
    if size is not None:
        specs = [_of_size(only_input(specs, data, "--input-shape"), size)]
    for spec in specs:
        if spec.is_sequence and not spec.is_optional:
            raise DataError(f"{data}: random data are tensors, not input {spec}")
        if None in spec.shape[1:]:
            raise DataError(
                f"{data}: random data need fixed sizes, not input {spec}: give {spec.advice}"
            )
        count = prod(size or 1 for size in spec.shape)
        if beyond := beyond_memory(count, max(spec.dtype.itemsize, _DRAWN)):
            raise DataError(f"{data}: input {spec} holds {beyond}: give smaller sizes")
        if spec.dtype.kind not in "fiub":
            raise DataError(f"{data}: random data are numbers or bool, not input {spec}")
    return MadeUp(int(data.removeprefix(_PREFIX)), specs)


def _of_size(spec: InputSpec, how: Preprocessing) -> InputSpec:
    """``spec`` with the sides that pictures have."""
    found = how.resolved(spec)
    first = -2 if found.layout == "NCHW" else -3
    shape, sides = [*spec.shape], found.size or ()
    for axis, side in enumerate(sides, len(shape) + first):
        shape[axis] = side
    return replace(spec, shape=tuple(shape))


def _numbers(spec: InputSpec, index: int) -> NDArray[Any]:
    shape = [1 if size is None else size for size in spec.shape]
    generator = np.random.default_rng([index, zlib.crc32(str(spec).encode())])
    if spec.dtype.kind == "f":
        return generator.standard_normal(shape).astype(spec.dtype)
    return generator.integers(0, 2, shape).astype(spec.dtype)
