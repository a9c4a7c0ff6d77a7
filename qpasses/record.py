"""The record: what every tensor and node of an integer graph means in real numbers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Quantization:
    """Per-tensor parameters of an activation: real = (stored - zero_point) * scale."""

    scale: float  # the exact value of a float32
    zero_point: int
    dtype: str  # "uint8" or "int8"

    @property
    def zero(self) -> NDArray[Any]:
        """The zero point as a scalar of the stored type."""
        return np.array(self.zero_point, self.dtype)

    @property
    def limits(self) -> tuple[int, int]:
        """The smallest and the largest stored integer."""
        info = np.iinfo(np.dtype(self.dtype))
        return int(info.min), int(info.max)

    def store(self, real: float) -> int:
        """QuantizeLinear of one number: round half to even, add the zero point, saturate.

        Infinite numbers saturate.
        """
        low, high = self.limits
        if np.isinf(real):
            return high if real > 0 else low
        level = round(Fraction(real) / Fraction(self.scale))
        return min(max(level + self.zero_point, low), high)


@dataclass
class NodeRecord:
    """Where an integer node comes from and which real scales its multipliers stand for.

    ``scales`` holds the float32 scales by input name (``w_scale`` per output channel);
    ``cells`` is the number of cells an average divides by, ``bounds`` the real interval to
    which a table clamps.
    """

    source: Sequence[str]
    scales: dict[str, list[float]]
    rule: str = ""
    overload: str = ""
    cells: int = 1
    macs: int = 0
    bounds: Sequence[float | None] = (None, None)

    def real_scales(self) -> list[Fraction]:
        """x_scale * w_scale / (y_scale * cells) per channel, exact."""
        (x,), (y,) = self.scales["x"], self.scales["y"]
        factor = Fraction(x) / (Fraction(y) * self.cells)
        return [factor * Fraction(w) for w in self.scales.get("w", [1.0])]


@dataclass
class Record:
    """Everything the emitted model says of itself, by name."""

    tensors: dict[str, Quantization] = field(default_factory=dict)
    nodes: dict[str, NodeRecord] = field(default_factory=dict)
    declined: dict[str, str] = field(default_factory=dict)
    raised_weight_scales: dict[str, list[int]] = field(default_factory=dict)
    macs: dict[str, int] = field(default_factory=dict)
