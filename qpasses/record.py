"""The record: what every tensor and node of an integer graph means in real numbers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

IN_GRAPHS = ("uint8", "int8")
"""The stored types of activations that a graph may hold."""


@dataclass(frozen=True)
class Quantization:
    """Per-tensor parameters of an activation: real = (stored - zero_point) * scale."""

    scale: float  # the exact value of a float32
    zero_point: int
    dtype: str  # "uint8", "int8" or, for tables of 16 bits, "int16"

    def __post_init__(self) -> None:
        if self.dtype not in (*IN_GRAPHS, "int16"):
            raise ValueError(f"stored type {self.dtype!r}")
        low, high = self.limits
        if not isinstance(self.zero_point, int) or not low <= self.zero_point <= high:
            raise ValueError(f"zero point {self.zero_point!r} of {self.dtype}")
        if not _is_scale(self.scale):
            raise ValueError(f"scale {self.scale!r}")

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
    which a table clamps. ``function`` is what a table tabulates (function.py), if it does more
    than that, and ``undefined`` the codes (of ``a``) that lack a result of it. ``costs``: what
    bodies were estimated to cost in nanoseconds, None for one that gives other entries.
    """

    source: Sequence[str]
    scales: dict[str, list[float]]
    rule: str = ""
    overload: str = ""
    cells: int = 1
    macs: int = 0
    bounds: Sequence[float | None] = (None, None)
    function: str = ""
    undefined: Sequence[int] = ()
    costs: dict[str, int | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        lists = [*self.scales.values()] if isinstance(self.scales, dict) else [None]
        sound = all(isinstance(each, list) and all(map(_is_scale, each)) for each in lists)
        sound = sound and all(isinstance(each, int) for each in (self.cells, self.macs))
        sound = sound and self.cells > 0 and isinstance(self.source, Sequence)
        sound = sound and all(isinstance(code, int) for code in self.undefined)
        sound = sound and isinstance(self.costs, dict)
        if not sound or len(self.bounds) != 2 or not isinstance(self.function, str):
            raise ValueError("scales, cells, macs, source, bounds or function of a node")

    def real_scales(self) -> list[Fraction]:
        """x_scale * w_scale / (y_scale * cells) per channel, exact."""
        (x,), (y,) = self.scales["x"], self.scales["y"]
        factor = Fraction(x) / (Fraction(y) * self.cells)
        return [factor * Fraction(w) for w in self.scales.get("w", [1.0])]


@dataclass
class Record:
    """Everything the emitted model says of itself, by name.

    ``sizes``: those of the inputs for which ``macs`` are counted.
    """

    tensors: dict[str, Quantization] = field(default_factory=dict)
    nodes: dict[str, NodeRecord] = field(default_factory=dict)
    declined: dict[str, str] = field(default_factory=dict)
    raised_weight_scales: dict[str, list[int]] = field(default_factory=dict)
    macs: dict[str, int] = field(default_factory=dict)
    sizes: dict[str, list[int]] = field(default_factory=dict)


def _is_scale(value: Any) -> bool:
    return isinstance(value, float) and 0 < value < np.inf
