"""The record: what every tensor and node of an integer graph means in real numbers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from hashlib import sha256
from math import isfinite
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from opsets.declaration import BYTES as BYTES
from opsets.declaration import SIGNALS as SIGNALS
from opsets.declaration import WORDS as WORDS
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

    def factors(self, _rank: int) -> float:
        """What levels are multiplied with: the scale."""
        return self.scale

    def zeros(self, _rank: int) -> int:
        """What is taken from codes: the zero point."""
        return self.zero_point

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


@dataclass(frozen=True)
class ChannelQuantization:
    """Parameters of an activation whose channels have their own.

    Along ``axis``: real = (stored - zero_points[channel]) * scales[channel]. All codes of
    ``dtype``, one of SIGNALS, are used; the zero points of int16 are 0.
    """

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    dtype: str
    axis: int

    def __post_init__(self) -> None:
        for name in ("scales", "zero_points"):  # lists of JSON
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if self.dtype not in SIGNALS or type(self.axis) is not int or self.axis < 0:
            raise ValueError(f"channels of {self.dtype!r} along axis {self.axis!r}")
        if not self.scales or len(self.scales) != len(self.zero_points):
            raise ValueError("channels without a scale and a zero point each")
        low, high = self.limits
        codes = (type(each) is int and low <= each <= high for each in self.zero_points)
        if not all(codes) or not all(map(_is_scale, self.scales)):
            raise ValueError("channels with a scale or zero point that is none")
        if self.dtype not in BYTES and any(self.zero_points):
            raise ValueError("channels of 16 bits with zero points")

    @classmethod
    def of(cls, channels: Sequence[Quantization], axis: int = 1) -> "ChannelQuantization":
        """Those of each channel, which have one type and all its codes."""
        scales, zeros = ([getattr(q, n) for q in channels] for n in ("scale", "zero_point"))
        return cls(tuple(scales), tuple(zeros), channels[0].dtype, axis)

    def channel(self, channel: int) -> Quantization:
        """Those of one channel."""
        return Quantization(self.scales[channel], self.zero_points[channel], self.dtype)

    def along(self, axis: int) -> "ChannelQuantization":
        """The same for a tensor that has its channels there."""
        return replace(self, axis=axis)

    @property
    def zero(self) -> NDArray[Any]:
        """The zero points in the stored type."""
        return np.array(self.zero_points, self.dtype)

    @property
    def zero_point(self) -> int:
        """What a Conv that writes the tensor adds to all channels; the rest is in the bias.

        The zero point of all, if it is the same, or the middle code.
        """
        first, *others = {*self.zero_points}
        return middle_code(self.dtype, 8) if others else first

    def factors(self, rank: int) -> NDArray[np.float64]:
        """The scales, shaped to broadcast with a tensor of ``rank``."""
        return self._column(np.array(self.scales, np.float64), rank)

    def zeros(self, rank: int) -> NDArray[np.int32]:
        """The zero points, shaped so."""
        return self._column(np.array(self.zero_points, np.int32), rank)

    def _column(self, values: NDArray[Any], rank: int) -> NDArray[Any]:
        return values.reshape(-1, *[1] * (rank - 1 - self.axis))

    @property
    def limits(self) -> tuple[int, int]:
        """The smallest and the largest code."""
        return code_limits(self.dtype, 16 if self.dtype == "int16" else 8)

    @property
    def type_limits(self) -> tuple[int, int]:
        """The same: all codes are used."""
        return self.limits

    def as_json(self) -> dict[str, Any]:
        """The fields."""
        return {**vars(self), "scales": [*self.scales], "zero_points": [*self.zero_points]}


AnyQuantization: TypeAlias = Quantization | ChannelQuantization
"""Parameters of an activation: for the tensor, or for each of its channels."""


def scales_of(meaning: AnyQuantization) -> list[float]:
    """The scale of a tensor, or those of its channels."""
    if isinstance(meaning, ChannelQuantization):
        return [*meaning.scales]
    return [meaning.scale]


def of_channel(meaning: AnyQuantization, channel: int) -> Quantization:
    """Those of one channel: its own, or the one of all."""
    return meaning if isinstance(meaning, Quantization) else meaning.channel(channel)


MOST_CORRECTED = 16
"""So many steps of a stored sum its mean is corrected by at most."""

SCALED = ("x", "w", "y", "a", "b", "factor", "r", "gates")
"""What a node has scales of: inputs and output by the names of its op; ``factor`` is the
number that products are multiplied with, ``r`` are recurrent weights, ``gates`` their sums."""


def in_channels(scales: Sequence[Sequence[Any]]) -> Iterator[tuple[Any, ...]]:
    """Those of each channel, together: one for all, or one for those made of each channel."""
    count = max(map(len, scales))
    rows = ([one for one in each for _ in range(count // len(each))] for each in scales)
    return zip(*rows, strict=True)


@dataclass
class NodeRecord:
    """Where an integer node comes from and which real scales its multipliers stand for.

    ``source``: the float nodes that it computes, in order, by name. ``scales`` holds real
    scales by names of SCALED: lists of one, but for ``w``, which has one for each output
    channel, and for ``x`` and ``y`` that have one for each channel. ``overload`` is its body.
    ``cells``: how many numbers an average divides by, or a row has; ``macs``: the
    multiply-accumulates of the float node for the recorded sizes.
    ``bounds``: the real interval to which a table clamps. ``function`` is what a table
    tabulates (qpasses.ir.function), if it does more than that, and ``undefined`` the codes (of
    ``a``) that lack a result of it, of 16 bits the first and the last of each run.
    ``requantizes``: multiplier and total right shift of a table that holds what these give.
    ``costs``: what bodies were estimated to cost in nanoseconds, None for one that gives other
    entries. ``bias``: the real biases of a quantized model, where they are no whole numbers in
    steps of the products. ``weights``: how they were rounded, by name, or the digest of those
    that samples chose; nothing where only the nearest could be. ``correction``: how many steps
    of the products each bias has more than the nearest, for what samples say of the mean of
    the sum; nothing where none has.
    ``layout``: that of its tensors, if channels come last.
    """

    source: Sequence[str]
    scales: dict[str, list[float]]
    overload: str = ""
    cells: int = 1
    macs: int = 0
    bounds: Sequence[float | None] = (None, None)
    function: str = ""
    undefined: Sequence[int] | Sequence[Sequence[int]] = ()
    requantizes: Sequence[int] = ()
    costs: dict[str, int | None] = field(default_factory=dict)
    bias: Sequence[float] = ()
    weights: str = ""
    correction: Sequence[int] = ()
    layout: str = ""

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
            "undefined": _are_codes_or_runs(self.undefined),
            "requantizes": all(type(number) is int for number in self.requantizes),
            "costs": isinstance(self.costs, dict),
            "bias": isinstance(self.bias, Sequence)
            and all(isinstance(each, float) and isfinite(each) for each in self.bias),
            "weights": isinstance(self.weights, str),
            "correction": isinstance(self.correction, Sequence)
            and all(type(each) is int and abs(each) < _MANY for each in self.correction),
        }
        if wrong := [name for name, is_sound in sound.items() if not is_sound]:
            raise ValueError(f"{', '.join(wrong)} of a node")

    def real_scales(self) -> RealScales:
        """x * w / (y * cells) per channel, exact; of two tensors a * b in place of x * w.

        Times ``factor``, if there is one. The scale of whole numbers is 1.
        """
        x, y = self.scales.get("x") or self.scales.get("a", [1.0]), self.scales["y"]
        others: Sequence[float | Fraction]
        others = self.scales.get("w") or self.scales.get("b", [1.0])
        if len(x) > 1 or len(y) > 1:
            others = [
                Fraction(w) * Fraction(a) / Fraction(b)
                for a, w, b in in_channels((x, others, y))
            ]
            x, y = [1.0], [1.0]
        factor = Fraction(x[0]) / (Fraction(y[0]) * self.cells)
        if "factor" in self.scales:
            factor *= Fraction(self.scales["factor"][0])
        return RealScales(factor, others)

    def quotient_scale(self) -> Fraction:
        """a / (b * y) of a quotient of two tensors, exact."""
        a, b, y = (Fraction(self.scales[name][0]) for name in "aby")
        return a / (b * y)

    def bias_rests(self, stored: NDArray[np.int32]) -> list[Fraction]:
        """What of each real bias the ``stored`` one lacks, in its steps; nothing if none."""
        if not self.bias:
            return []
        pairs = in_channels((self.scales["x"], self.scales["w"]))
        steps = [Fraction(a) * Fraction(b) for a, b in pairs]
        steps *= len(stored) // len(steps)
        pairs = zip(self.bias, steps, stored.tolist(), strict=True)
        return [Fraction(real) / step - level for real, step, level in pairs]


@dataclass
class Record:
    """Everything the emitted model says of itself, by name.

    ``macs``: multiply-accumulates of the float graph, in a model that was read those of its
    float nodes alone; ``sizes``: those of the inputs for which they are counted. ``kept``: the
    stored tensors whose scale the model gave itself. ``orders``: of tensors of the file whose
    axes do not lie in memory as ONNX has them, which does first, second and so on. ``states``:
    by their places, inputs and the outputs that are their next values and stored alike.
    """

    tensors: dict[str, AnyQuantization] = field(default_factory=dict)
    nodes: dict[str, NodeRecord] = field(default_factory=dict)
    declined: dict[str, str] = field(default_factory=dict)
    raised_weight_scales: dict[str, list[int]] = field(default_factory=dict)
    macs: dict[str, int] = field(default_factory=dict)
    sizes: dict[str, list[int]] = field(default_factory=dict)
    kept: list[str] = field(default_factory=list)
    orders: dict[str, tuple[int, ...]] = field(default_factory=dict)
    states: list[list[int]] = field(default_factory=list)

    def as_onnx(self, name: str, values: NDArray[Any]) -> NDArray[Any]:
        """What the file holds in tensor ``name``, its axes as ONNX has them.

        Of iterations, stacked, those of each; what lies flat has no axes.
        """
        order = self.orders.get(name)
        stacked = 0 if order is None else values.ndim - len(order)
        if order is None or stacked < 0:
            return values
        axes = [stacked + order.index(axis) for axis in range(len(order))]
        return np.transpose(values, [*range(stacked), *axes])

    def as_stored(self, name: str, values: NDArray[Any]) -> NDArray[Any]:
        """The other way: what lies as ONNX has it as the file has it in tensor ``name``."""
        order = self.orders.get(name)
        stacked = 0 if order is None else values.ndim - len(order)
        if order is None or stacked < 0:
            return values
        return np.transpose(values, [*range(stacked), *(stacked + axis for axis in order)])


def digest_of(values: NDArray[Any]) -> str:
    """What a record says of stored weights: their bytes, rows first, by SHA-256."""
    return sha256(np.ascontiguousarray(values).tobytes()).hexdigest()


_NEAR_A_TIE = 1e-6
"""Quotients of codes, below 2**16, are wrong by less."""

_MANY = 1 << 53
"""Counts below are numbers of JSON everywhere."""


def are_counts(values: Any) -> bool:
    """Whether it is an object of JSON that says how many, by name."""
    counts = values.values() if isinstance(values, dict) else [None]
    return all(type(each) is int and 0 <= each < _MANY for each in counts)


def _are_codes_or_runs(values: Sequence[Any]) -> bool:
    are_runs = all(isinstance(each, list) and len(each) == 2 for each in values)
    codes = [code for run in values for code in run] if are_runs else values
    return all(type(code) is int for code in codes)


def _are_scales(values: Any) -> bool:
    return isinstance(values, list) and all(map(_is_scale, values))


def _is_scale(value: Any) -> bool:
    return isinstance(value, float) and 0 < value < np.inf
