"""Weights: the named ways to choose the scales at which constant matrices are stored."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from opsets.fixed_point import Rounding

LARGEST = 127
"""int8 weights are symmetric: -127 to 127."""

Rows: TypeAlias = NDArray[np.floating[Any]]
"""Real weights [channels, n] with a scale for each row; one row where there is one scale."""


@dataclass(frozen=True)
class WeightRule:
    """``scales(op, rows, unsigned)``: float32 or float64 [channels], 0 where any will do.

    ``rounding``: how weights, and biases, become levels; ``unsigned_ops``: those whose weights
    are uint8 if none is negative and there is no bias, others int8. ``formula`` says it all.
    """

    formula: str
    source: str
    rounding: Rounding
    scales: Callable[[str, Rows, bool], NDArray[np.floating[Any]]]
    unsigned_ops: Sequence[str] = ()

    def dtype(self, op: str, rows: Rows, biased: bool) -> np.dtype[Any]:
        """The stored type of the weights of an op, which has a bias or not."""
        unsigned = op in self.unsigned_ops and not biased and bool((rows >= 0).all())
        return np.dtype(np.uint8 if unsigned else np.int8)


def _largest(rows: Rows) -> NDArray[np.float64]:
    ends = rows.max(axis=1, initial=0.0), -rows.min(axis=1, initial=0.0)
    return np.asarray(np.maximum(*ends), np.float64)


def _nearest(_op: str, rows: Rows, _unsigned: bool) -> NDArray[np.floating[Any]]:
    return np.asarray(_largest(rows) / LARGEST, np.float32)


_LEAST = np.float32(1e-5)
_POWERS = 7
"""TPU-MLIR tries scales from 1 to 2**-6."""


def _tpu_mlir(op: str, rows: Rows, unsigned: bool) -> NDArray[np.floating[Any]]:
    if op != "Conv":
        return np.asarray(_largest(rows) / 127)
    ends = (0, 255) if unsigned else (-128, 127)
    for power in range(_POWERS):
        levels = np.ldexp(rows, power)
        if (levels == np.clip(np.rint(levels), *ends)).all():
            return np.full(len(rows), 2.0**-power, np.float32)
    return np.asarray(np.maximum((_largest(rows) / ends[1]).astype(np.float32), _LEAST))


WEIGHTS: Mapping[str, WeightRule] = MappingProxyType(
    {
        "nearest": WeightRule(
            "max|w| / 127 in float32, levels half to even",
            "this project",
            "half_to_even",
            _nearest,
        ),
        "tpu_mlir": WeightRule(
            "of Conv 2**-n, the first n from 0 to 6 where all weights are int8, else max|w| / "
            "127 in float32, 1e-5 at least, uint8 and max / 255 where none is negative and "
            "there is no bias; of Gemm and MatMul max|w| / 127 in double; levels half away "
            "from zero",
            "TPU-MLIR LoweringBM1684X Conv.cpp, MatMul.cpp",
            "half_away",
            _tpu_mlir,
            unsigned_ops=("Conv",),
        ),
    }
)
"""Every rule by its name in a target file."""
