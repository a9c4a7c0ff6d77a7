"""The record: what every tensor and node of an integer graph means in real numbers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from hashlib import sha256
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.declaration import BYTES as BYTES
from opsets.declaration import SIGNALS as SIGNALS
from opsets.real_scales import RealScales


def middle_code(dtype: str, bits: int) -> int:
    """The zero point of a symmetric range."""
    return 1 << (bits - 1) if dtype == "uint8" else 0


def code_limits(dtype: str, bits: int, narrow: bool = False) -> tuple[int, int]:
    """The smallest and the largest of the codes of so many bits, without the lowest or not."""
    low = middle_code(dtype, bits) - (1 << (bits - 1))
    return low + narrow, low + (1 << bits) - 1


@dataclass(frozen=True)
class Quantization:
    """Per-tensor parameters of an activation: real = (stored - zero_point) * scale.

    ``bits``, 2 to 8, are those of its codes, which are stored in 8; ``narrow``: without the
    lowest of them, so that as many lie below the middle as above it. Codes of int16, of
    residual streams and wide tables, are all of that type.
    """

    scale: float  # the exact value of a float32, or of the target's ``scale_type``
    zero_point: int
    dtype: str  # one of SIGNALS
    bits: int = 8
    narrow: bool = False

    def __post_init__(self) -> None:
        if self.dtype not in SIGNALS:
            raise ValueError(f"stored type {self.dtype!r}")
        if type(self.bits) is not int or not 2 <= self.bits <= 8:
            raise ValueError(f"{self.bits!r} bits")
        if not isinstance(self.narrow, bool):
            raise ValueError(f"narrow {self.narrow!r}")
        low, high = self.limits
        if type(self.zero_point) is not int or not low <= self.zero_point <= high:
            raise ValueError(f"zero point {self.zero_point!r} of {self.dtype}")
        if not _is_scale(self.scale):
            raise ValueError(f"scale {self.scale!r}")

    @property
    def zero(self) -> NDArray[Any]:
        """The zero point as a scalar of the stored type."""
        return np.array(self.zero_point, self.dtype)

    @property
    def limits(self) -> tuple[int, int]:
        """The smallest and the largest code: what is stored saturates there."""
        if self.dtype == "int16":
            return self.type_limits
        return code_limits(self.dtype, self.bits, self.narrow)

    @property
    def type_limits(self) -> tuple[int, int]:
        """The ends of the stored type: proofs cover what lies beyond ``limits`` too."""
        return code_limits(self.dtype, 16 if self.dtype == "int16" else 8)

    def as_json(self) -> dict[str, Any]:
        """The fields, those of narrower codes where they are narrower."""
        entries = dict(vars(self))
        if self.limits == self.type_limits:
            del entries["bits"], entries["narrow"]
        return entries

    def store(self, real: float) -> int:
        """QuantizeLinear of one number: round half to even, add the zero point, saturate.

        Infinite numbers saturate.
        """
        low, high = self.limits
        if np.isinf(real):
            return high if real > 0 else low
        level = round(Fraction(real) / Fraction(self.scale))
        return min(max(level + self.zero_point, low), high)

    def store_all(self, values: NDArray[np.float32]) -> NDArray[Any]:
        """``store`` of each number.

        A float64 quotient of two float32 numbers is a tie only where the exact one is: others
        are at least 2**-26 of the scale away. Of other scales a quotient near a tie is
        computed exactly.
        """
        with np.errstate(over="ignore"):  # it saturates
            quotients = values.astype(np.float64) / self.scale
        levels = np.clip(np.rint(quotients) + self.zero_point, *self.limits)
        codes = np.asarray(levels, self.dtype)
        if float(np.float32(self.scale)) != self.scale:
            inside = np.nan_to_num(quotients)
            near = np.abs(inside - np.floor(inside) - 1 / 2) < _NEAR_A_TIE
            codes[near] = [self.store(float(value)) for value in values[near]]
        return codes


SCALED = ("x", "w", "y", "a", "b", "factor")
"""What a node has scales of: inputs and output by the names of its op; ``factor`` is the
number that products are multiplied with."""


@dataclass
class NodeRecord:
    """Where an integer node comes from and which real scales its multipliers stand for.

    ``source``: the float nodes that it computes, in order, by name. ``scales`` holds real
    scales by names of SCALED: lists of one, but for ``w``, which has one for each output
    channel. ``overload`` is its body. ``cells``: how many numbers an average divides by, or
    a row has; ``macs``: the multiply-accumulates of the float node for the recorded sizes.
    ``bounds``: the real interval to which a table clamps. ``function`` is what a table
    tabulates (qpasses.ir.function), if it does more than that, and ``undefined`` the codes
    (of ``a``) that lack a result of it. ``requantizes``: multiplier and total right shift of a
    table that holds what these give. ``costs``: what bodies were estimated to cost in
    nanoseconds, None for one that gives other entries. ``bias``: the real biases of a
    quantized model, where they are no whole numbers in steps of the products. ``weights``: how
    they were rounded, by name, or the digest of those that samples chose; nothing where only
    the nearest could be.
    """

    source: Sequence[str]
    scales: dict[str, list[float]]
    overload: str = ""
    cells: int = 1
    macs: int = 0
    bounds: Sequence[float | None] = (None, None)
    function: str = ""
    undefined: Sequence[int] = ()
    requantizes: Sequence[int] = ()
    costs: dict[str, int | None] = field(default_factory=dict)
    bias: Sequence[float] = ()
    weights: str = ""

    def __post_init__(self) -> None:
        sound = {
            "source": isinstance(self.source, Sequence)
            and all(isinstance(name, str) for name in self.source),
            "scales": isinstance(self.scales, dict)
            and all(name in SCALED for name in self.scales)
            and all(_are_scales(each) for each in self.scales.values()),
            "cells": type(self.cells) is int and 0 < self.cells < _MANY,
            "macs": type(self.macs) is int and 0 <= self.macs < _MANY,
            "bounds": len(self.bounds) == 2
            and all(type(end) in (int, float, type(None)) for end in self.bounds),
            "function": isinstance(self.function, str),
            "undefined": all(type(code) is int for code in self.undefined),
            "requantizes": all(type(number) is int for number in self.requantizes),
            "costs": isinstance(self.costs, dict),
            "bias": isinstance(self.bias, Sequence)
            and all(isinstance(each, float) and isfinite(each) for each in self.bias),
            "weights": isinstance(self.weights, str),
        }
        if wrong := [name for name, is_sound in sound.items() if not is_sound]:
            raise ValueError(f"{', '.join(wrong)} of a node")

    def real_scales(self) -> RealScales:
        """x * w / (y * cells) per channel, exact; of two tensors a * b in place of x * w.

        Times ``factor``, if there is one.
        """
        (x,), (y,) = self.scales.get("x") or self.scales["a"], self.scales["y"]
        factor = Fraction(x) / (Fraction(y) * self.cells)
        if "factor" in self.scales:
            factor *= Fraction(self.scales["factor"][0])
        others = self.scales.get("w") or self.scales.get("b", [1.0])
        return RealScales(factor, others)

    def bias_rests(self, stored: NDArray[np.int32]) -> list[Fraction]:
        """What of each real bias the ``stored`` one lacks, in its steps; nothing if none."""
        if not self.bias:
            return []
        (x,), w = self.scales["x"], self.scales["w"]
        steps = [Fraction(x) * Fraction(each) for each in w] * (len(stored) // len(w))
        pairs = zip(self.bias, steps, stored.tolist(), strict=True)
        return [Fraction(real) / step - level for real, step, level in pairs]


@dataclass
class Record:
    """Everything the emitted model says of itself, by name.

    ``sizes``: those of the inputs for which ``macs`` are counted. ``kept``: the stored tensors
    whose scale the model gave itself.
    """

    tensors: dict[str, Quantization] = field(default_factory=dict)
    nodes: dict[str, NodeRecord] = field(default_factory=dict)
    declined: dict[str, str] = field(default_factory=dict)
    raised_weight_scales: dict[str, list[int]] = field(default_factory=dict)
    macs: dict[str, int] = field(default_factory=dict)
    sizes: dict[str, list[int]] = field(default_factory=dict)
    kept: list[str] = field(default_factory=list)


def digest_of(values: NDArray[Any]) -> str:
    """What a record says of stored weights: their bytes, rows first, by SHA-256."""
    return sha256(np.ascontiguousarray(values).tobytes()).hexdigest()


_NEAR_A_TIE = 1e-6
"""Quotients of codes, below 2**16, are wrong by less."""

_MANY = 1 << 53
"""Counts below are numbers of JSON everywhere."""


def _are_scales(values: Any) -> bool:
    return isinstance(values, list) and all(map(_is_scale, values))


def _is_scale(value: Any) -> bool:
    return isinstance(value, float) and 0 < value < np.inf
