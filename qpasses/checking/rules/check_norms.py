"""IntLayerNorm: its integers against the real normalization that they stand for.

The meaning, in codes c less the zero point: of a row of n, with t their sum or 0, d = n c - t,
v = n sum(c**2) - t**2, of k root bits, b factor bits, q norm bits and a shift s,

    root   = floor(sqrt(4**k v + epsilon))
    normal = d * floor(2**b / root) / 2**(b - k - q)     (about 2**q d / sqrt(v + e))
    y      = (normal * multiplier + bias) / 2**s

and what it is to be, in steps of y: gamma d / sqrt(v + e) + beta, e being the real epsilon in
units of v: epsilon (n / scale of x)**2. From the two follow the units of all numbers: they are
the nearest to 4**k e, gamma 2**(s - q) and beta 2**s. The bits k, b and s are as many as the
arithmetic holds for any row: wrong where they leave its widths, and where one more would not.
What no formula gives is restated: q, and how many bits multipliers and biases may have. Then
the meaning itself runs on some rows, and has to be within its proved bound of the real one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.fixed_point import Int64
from opsets.qpasses_v1 import OPS
from opsets.realised import quotient_rounding
from qpasses.checking.meaning import (
    DifferenceError,
    Site,
    check_record,
    float_constant,
    unlike,
    unlike_attributes,
)
from qpasses.checking.rules.check_clamps import check_end, clamps_behind
from qpasses.evidence.prove_norms import norm_bound, norm_rows
from qpasses.ir.graph import rank
from qpasses.ir.record import (
    AnyQuantization,
    ChannelQuantization,
    Quantization,
    scales_of,
)

_NORM_BITS, _MULTIPLIER_BITS, _BIAS_BITS, _LARGEST_SHIFT = 20, 24, 50, 61

_DOUBLE_BITS, _INT64_BITS, _ENOUGH_BITS = 52, 62, 10
"""What doubles and int64 hold; with so many root bits the root is taken in double."""

_MORE_FOR_WORDS = 8
"""Root bits that are asked for beyond those where the result has 16 bits."""

_FEWEST_ROOT_BITS = 4
"""Rows of 16 bits that leave fewer to a root in int64 are long ones too."""

_LONGEST_ROW, _HALVES_BITS, _LARGEST_RAISE = 1 << 28, 94, 15
"""Of long rows: how long, the bits of a radicand in two parts, and of its fraction by two."""

_PRODUCT_BITS, _LONG_ROOT_BITS, _ENOUGH_FACTOR_BITS = 61, 31, 14
"""The bits of a factor's products, of a root that 62 bits are left for, and of the factor
then: with so many products are in double."""

_ROWS = 8
"""Groups of rows of the proof, one of each kind, on which the meaning runs."""

_TINY = 1e-6
"""More than doubles are off by, in steps of y."""

_UNCENTERED = ("RMSNormalization", "SimplifiedLayerNormalization")


@dataclass(frozen=True)
class _Real:
    """A normalization in units of codes: ``gamma`` and ``beta``, of one shape, in steps of y.

    ``epsilon``, a fraction or one for each channel, is in units of v, ``row`` the sizes of the
    axes that are normalized over.
    """

    row: list[int]
    centered: bool
    gamma: NDArray[Any]  # of fractions
    beta: NDArray[Any]  # of fractions
    epsilon: NDArray[Any]  # of fractions

    @property
    def cells(self) -> int:
        return int(np.prod(self.row))

    @property
    def longest(self) -> int:
        """At least 2 |d| / sqrt(v), twice that for roots of 1 that stand for one below 2."""
        return 2 * (isqrt(self.cells - 1) + 1)

    def steps(self, code: Int64) -> NDArray[np.float64]:
        """The results of rows of codes, before they are rounded."""
        axes = tuple(range(-len(self.row), 0))
        total = code.sum(axis=axes, keepdims=True) * self.centered
        distance = self.cells * code - total
        variance = self.cells * (code * code).sum(axis=axes, keepdims=True) - total * total
        deviation = np.sqrt(variance + self.epsilon.astype(float))
        normal = distance / np.where(deviation > 0, deviation, 1)
        return np.asarray(normal * self.gamma.astype(float) + self.beta.astype(float))


def int_layer_norm(site: Site) -> Iterator[str]:
    """LayerNormalization over the last axes, with one gamma and beta for each place,
    InstanceNormalization over all positions, with one of them for each channel, and
    RMSNormalization, by onnxruntime's name too, without mean and beta.
    """
    site.is_op("LayerNormalization", "InstanceNormalization", *_UNCENTERED)
    clamps, source = clamps_behind(site), site.inputs["x"]
    x = site.any_operand(source, site.first.inputs[0])
    if site.first.op != "InstanceNormalization":
        x = site.operand(source, site.first.inputs[0])
    real = _real(site, x)
    yield from check_end(site, clamps)
    yield from unlike("x_zero", site.given["x_zero"], np.array(x.zero_point, x.dtype))
    yield from check_record(site, {"x": scales_of(x), "y": [site.y.scale]}, real.cells)
    expected = {
        "axis": -len(real.row),
        "cells": real.cells,
        "centered": int(real.centered),
        "norm_bits": _NORM_BITS,
        "rounding": quotient_rounding(site.settings.target),
    }
    free = {name: site.node.attrs.get(name) for name in ("root_bits", "factor_bits")}
    yield from unlike_attributes(site.node.attrs, {**expected, **free})
    found = [*_widths(site, real, x), *_numbers(site, real)]
    yield from found
    if not found:
        yield from _distance(site, real)


def _real(site: Site, x: AnyQuantization) -> _Real:
    """What the float node computes, on the codes of ``x``. Raises DifferenceError."""
    node, y = site.first, site.y
    by_channel = node.op == "InstanceNormalization"
    dims, shape = rank(node.inputs[0]), node.inputs[0].shape
    if not dims or shape is None:
        raise DifferenceError(f"the rank of what {node.name!r} reads is not known")
    row = list(shape[2 if by_channel else int(node.attrs.get("axis", -1)) % dims :])
    if not all(isinstance(size, int) and size > 0 for size in row):
        raise DifferenceError(f"how long the rows of {node.name!r} are is not known")
    gamma, beta = (float_constant(node, index) for index in (1, 2))
    if gamma is None:
        raise DifferenceError(f"gamma of {node.name!r} is not constant")
    if beta is None:
        beta = np.zeros(1, np.float32)
    places = [gamma.size, *[1] * len(row)] if by_channel else _places(row, gamma, beta)
    if by_channel:
        gamma, beta = gamma.reshape(places), beta.reshape(places)
    slopes, offsets = (_in_steps(np.broadcast_to(each, places), y) for each in (gamma, beta))
    epsilon = Fraction(float(np.float32(node.attrs.get("epsilon", 1e-5))))
    own = [epsilon * (int(np.prod(row)) / Fraction(each)) ** 2 for each in scales_of(x)]
    if isinstance(x, ChannelQuantization) and (x.axis != 1 or len(own) != gamma.size):
        raise DifferenceError(f"{node.name!r} has channels other than those of its scales")
    epsilons = np.array(own, object).reshape(places if len(own) > 1 else ())
    return _Real(row, node.op not in _UNCENTERED, slopes, offsets, epsilons)


def _places(
    row: list[int], gamma: NDArray[np.float32], beta: NDArray[np.float32]
) -> list[int]:
    """The axes of a row, or, where factors have more, those of the factors."""
    if list(np.broadcast_shapes(row, gamma.shape, beta.shape)) == row:
        return row
    return list(np.broadcast_shapes(gamma.shape, beta.shape))


def _in_steps(values: NDArray[np.float32], y: Quantization) -> NDArray[Any]:
    found = np.empty(values.shape, object)
    found.reshape(-1)[:] = [Fraction(v) / Fraction(y.scale) for v in values.ravel().tolist()]
    return found


def _numbers(site: Site, real: _Real) -> Iterator[str]:
    """Each number is the nearest in its unit."""
    step = Fraction(2) ** int(site.given["shift"])
    for name, exact, unit, dtype in (
        ("multiplier", real.gamma, step / 2**_NORM_BITS, np.int32),
        ("bias", real.beta, step, np.int64),
        ("epsilon", real.epsilon, 4 ** site.node.attrs["root_bits"], np.int64),
    ):
        nearest = [round(each * unit) for each in exact.ravel()]
        yield from unlike(
            name, site.given[name], np.array(nearest, dtype).reshape(exact.shape)
        )


def _widths(site: Site, real: _Real, x: AnyQuantization) -> Iterator[str]:
    """Bits of the root, the factor and the shift: what they hold, and one more would not."""
    root_bits, factor_bits = (site.node.attrs[f"{name}_bits"] for name in ("root", "factor"))
    shift = int(site.given["shift"])
    more = _MORE_FOR_WORDS if site.given["y_zero"].dtype == np.int16 else 0
    bits = (_Long if _is_long(real, x) else _Short)(real, x, more)
    steepest, furthest = (np.abs(each).max() for each in (real.gamma, real.beta))
    products = _DOUBLE_BITS - 1 - real.longest.bit_length()
    slopes = min(_MULTIPLIER_BITS + _NORM_BITS, products)

    def holds_shift(bits: int) -> bool:
        """Whether normal * multiplier stays below half of 52 bits, and biases do of that."""
        fits = steepest * 2**bits < 1 << slopes and furthest * 2**bits < 1 << _BIAS_BITS
        return bool(fits) and 0 < bits <= _LARGEST_SHIFT

    is_right = {
        "root_bits": bits.hold_root(root_bits) and not bits.hold_root(root_bits + 1, 2),
        "factor_bits": bits.hold_factor(factor_bits, root_bits)
        and not bits.hold_factor(factor_bits + 1, root_bits),
        "shift": holds_shift(shift) and not holds_shift(shift + 1),
    }
    wrong = [name for name, right in is_right.items() if not right]
    yield from (f"{name} is not the most that its arithmetic holds" for name in wrong)


@dataclass(frozen=True)
class _Short:
    """Rows whose radicands and products double or int64 holds. ``more`` bits of words."""

    real: _Real
    x: AnyQuantization
    more: int

    @property
    def largest(self) -> int:
        """The largest radicand without fraction bits."""
        return _largest_variance(self.real, self.x) + int(self.real.epsilon.max())

    @property
    def most(self) -> int:
        in_double = self.largest + 2 << 2 * (_ENOUGH_BITS + self.more) < 1 << _DOUBLE_BITS
        return _DOUBLE_BITS if in_double else _INT64_BITS

    def hold_root(self, bits: int, above: int = 1) -> bool:
        """Whether every radicand fits, which are less than one above the largest sum."""
        return self.largest + above << 2 * bits < 1 << self.most

    def hold_factor(self, bits: int, root_bits: int) -> bool:
        """Whether 2**bits fits, and so does |d| * factor, at most longest * 2**(b - k)."""
        product = Fraction(self.real.longest) * Fraction(2) ** (bits - root_bits)
        return bits <= self.most and product <= 1 << _DOUBLE_BITS


class _Long(_Short):
    """Rows of words of whose radicands, below 2**94, bits are left out."""

    def hold_root(self, bits: int, above: int = 1) -> bool:
        """Whether every radicand fits, and every epsilon: of int64, less than one above."""
        epsilon = int(self.real.epsilon.max()) + above << 2 * bits
        largest = self.largest + above << 2 * bits
        fits = largest < 1 << _HALVES_BITS and epsilon < 1 << _INT64_BITS
        return fits and bits <= _LARGEST_RAISE and self.real.cells <= _LONGEST_ROW

    def hold_factor(self, bits: int, root_bits: int) -> bool:
        """Whether |d| * factor fits, of roots of all bits and of those from 2**30 on."""
        farthest = _farthest(self.real, self.x)

        def holds(bits: int, most: int) -> bool:
            product = Fraction(self.real.longest) * Fraction(2) ** (bits - root_bits)
            return product <= 1 << most and farthest << bits <= 1 << most + 30

        enough = _LONG_ROOT_BITS + _ENOUGH_FACTOR_BITS + self.more
        is_double = enough <= _INT64_BITS and holds(enough, _DOUBLE_BITS)
        most = _DOUBLE_BITS if is_double else _PRODUCT_BITS
        return bits <= _INT64_BITS and holds(bits, most)


def _is_long(real: _Real, x: AnyQuantization) -> bool:
    """Whether x has 16 bits, and its rows no sums in double or few bits for the root."""
    if x.dtype != "int16":
        return False
    largest = _largest_variance(real, x) + int(real.epsilon.max())
    has_sums = (real.cells * -x.type_limits[0]) ** 2 < 1 << _DOUBLE_BITS
    return not has_sums or largest + 2 << 2 * _FEWEST_ROOT_BITS >= 1 << _INT64_BITS


def _largest_variance(real: _Real, x: AnyQuantization) -> int:
    """Of any row: (n * reach)**2 / 4, where half of the codes lie at either end."""
    return _farthest(real, x) ** 2 // 4


def _farthest(real: _Real, x: AnyQuantization) -> int:
    """n * reach, no less than any |d|.

    Without the mean codes count from the zero point: as if they reached as far on both sides.
    """
    low, high = x.type_limits
    farthest = max(high - x.zero_point, x.zero_point - low)
    return real.cells * (high - low if real.centered else 2 * farthest)


def _distance(site: Site, real: _Real) -> Iterator[str]:
    """The meaning on rows of all kinds: within half a step and its bound of the real one."""
    given, attributes = site.given, site.node.attrs
    rows = norm_rows(given, attributes)[:_ROWS]
    constants = [given[name] for name in list(site.inputs)[1:]]
    found = OPS[site.node.op].reference(rows, *constants, **attributes)
    steps = real.steps(rows.astype(np.int64) - int(given["x_zero"])) + int(given["y_zero"])
    off = np.abs(found - np.clip(steps, int(given["y_min"]), int(given["y_max"])))
    allowed = 1 / 2 + norm_bound(given, attributes)
    if not off.max() <= allowed + _TINY:
        yield f"it is up to {off.max():.3g} steps from the real one, {allowed:.3g} are proved"
