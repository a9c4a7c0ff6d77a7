"""IntLayerNorm: every integer from gamma, beta and epsilon again."""

from collections.abc import Iterator
from fractions import Fraction
from math import isqrt

import numpy as np
from numpy.typing import NDArray

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
from qpasses.ir.graph import rank
from qpasses.ir.record import Quantization

_NORM_BITS, _MULTIPLIER_BITS, _LARGEST_SHIFT = 20, 24, 61

_UNCENTERED = ("RMSNormalization", "SimplifiedLayerNormalization")


def int_layer_norm(site: Site) -> Iterator[str]:
    """LayerNormalization over the last axes, with one gamma and beta for each place,
    InstanceNormalization over all positions, with one of them for each channel, and
    RMSNormalization, by onnxruntime's name too, without mean and beta.
    """
    site.is_op("LayerNormalization", "InstanceNormalization", *_UNCENTERED)
    node, clamps = site.first, clamps_behind(site)
    by_channel = node.op == "InstanceNormalization"
    dims, shape = rank(node.inputs[0]), node.inputs[0].shape
    if not dims or shape is None:
        raise DifferenceError(f"the rank of what {node.name!r} reads is not known")
    row = list(shape[2 if by_channel else int(node.attrs.get("axis", -1)) % dims :])
    if not all(isinstance(size, int) and size > 0 for size in row):
        raise DifferenceError(f"how long the rows of {node.name!r} are is not known")
    x, y = site.operand(site.inputs["x"], node.inputs[0]), site.y
    yield from check_end(site, clamps)
    yield from unlike("x_zero", site.given["x_zero"], np.array(x.zero_point, x.dtype))
    cells = int(np.prod(row))
    yield from check_record(site, {"x": [x.scale], "y": [y.scale]}, cells)
    is_centered = node.op not in _UNCENTERED
    gamma, beta = (float_constant(node, index) for index in (1, 2))
    if gamma is None:
        raise DifferenceError(f"gamma of {node.name!r} is not constant")
    if beta is None:
        beta = np.zeros(1, np.float32)
    places = [gamma.size, *[1] * len(row)] if by_channel else _places(row, gamma, beta)
    factors = [each.reshape(places) if by_channel else each for each in (gamma, beta)]
    slopes, offsets = (
        [
            Fraction(v) / Fraction(y.scale)
            for v in np.broadcast_to(each, places).ravel().tolist()
        ]
        for each in factors
    )
    epsilon = Fraction(float(np.float32(node.attrs.get("epsilon", 1e-5))))
    in_codes = epsilon * cells**2 / Fraction(x.scale) ** 2
    largest = (cells * _reach(x, is_centered)) ** 2 // 4 + 1 + int(in_codes) + 1
    in_double = (52 - largest.bit_length()) // 2
    root_bits = in_double if in_double >= 10 else (62 - largest.bit_length()) // 2
    longest = 2 * (isqrt(cells - 1) + 1)
    most = 52 if in_double >= 10 else 62
    factor_bits = min(root_bits + 52 - (longest - 1).bit_length(), most)
    width = min(_MULTIPLIER_BITS, 51 - longest.bit_length() - _NORM_BITS)
    shift = _shift(max(map(abs, slopes)), max(map(abs, offsets)), width)
    expected = {
        "axis": -len(row),
        "cells": cells,
        "centered": int(is_centered),
        "root_bits": root_bits,
        "factor_bits": factor_bits,
        "norm_bits": _NORM_BITS,
        "rounding": quotient_rounding(site.settings.target),
    }
    yield from unlike_attributes(site.node.attrs, expected)
    unit = Fraction(1 << shift, 1 << _NORM_BITS)
    for name, value in (
        ("multiplier", np.array([round(s * unit) for s in slopes], np.int32).reshape(places)),
        ("bias", np.array([round(each * (1 << shift)) for each in offsets]).reshape(places)),
        ("shift", np.array(shift, np.int32)),
        ("epsilon", np.array(round(in_codes * 4**root_bits))),
    ):
        yield from unlike(name, site.given[name], value)


def _places(
    row: list[int], gamma: NDArray[np.float32], beta: NDArray[np.float32]
) -> list[int]:
    """The axes of a row, or, where factors have more, those of the factors."""
    if list(np.broadcast_shapes(row, gamma.shape, beta.shape)) == row:
        return row
    return list(np.broadcast_shapes(gamma.shape, beta.shape))


def _reach(x: Quantization, is_centered: bool) -> int:
    """How far apart codes are; or twice how far from the zero point."""
    low, high = x.type_limits
    return high - low if is_centered else 2 * max(high - x.zero_point, x.zero_point - low)


def _shift(slope: Fraction, offset: Fraction, width: int) -> int:
    """The most places that leave multipliers ``width`` bits, and biases 50."""
    for places in range(_LARGEST_SHIFT, 0, -1):
        in_unit = slope * 2**places / 2 ** (_NORM_BITS + width), offset * 2**places / 2**50
        if max(in_unit) < 1:
            return places
    raise DifferenceError("gamma or beta is too large for any shift")
