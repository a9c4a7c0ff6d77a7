"""IntLayerNorm: a row less its mean, by its standard deviation, on stored integers."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import isqrt, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.attribute_kinds import ONCE, SWITCH, Axis, Integer
from opsets.declaration import (
    Constant,
    Constraint,
    Data,
    Scaling,
    Shape,
    Shift,
    ends,
    keeps_shape,
)
from opsets.double import STORE_DOUBLE, overload, rounded_double
from opsets.fixed_point import (
    ROUNDINGS,
    Int64,
    Rounding,
    rounding_shift,
    saturate,
)
from opsets.norm_bounds import (
    fits_double,
    fits_halves,
    keeps_int64,
    leaves_int64,
    root_fits_double,
    squares_fit_double,
    sums_fit_double,
)
from opsets.norm_fragments import (
    AXES,
    FACTOR,
    FIRST_BITS,
    IN_DOUBLE,
    NORMAL_IN_DOUBLE,
    RADICAND,
    RADICAND_IN_HALVES,
    REAL_FACTOR,
    ROOT_IN_DOUBLE,
    SQUARE_ROOT,
    SQUARES,
    SQUARES_AT_ONCE,
    SUM,
    TOTALS,
    VARIANCE,
    VARIANCE_IN_HALVES,
    newton,
    normal,
)
from opsets.op import Attributes, Body, Constants, Op, all_of
from opsets.portable import bodies_of_one_rounding, rounds


def _in_double(rounding: Rounding) -> Sequence[Body]:
    """All in double where the radicand fits it; else its root is made right in int64."""
    variance = SUM.having(dtype=11) + SQUARES_AT_ONCE + VARIANCE  # 11 is DOUBLE
    before = AXES + variance + IN_DOUBLE
    behind = NORMAL_IN_DOUBLE + rounded_double("value", "level", rounding) + STORE_DOUBLE
    exact = RADICAND + SQUARE_ROOT + FACTOR + REAL_FACTOR
    accepted = all_of(rounds(rounding), fits_double, sums_fit_double)
    sums = SUM.having(dtype=11) + SQUARES_AT_ONCE + TOTALS
    root = _IN_HALVES + SQUARE_ROOT + FACTOR + REAL_FACTOR
    by_row = IN_DOUBLE(drop_bits="drop_row")
    return [
        Body(
            overload(rounding),
            "onnxruntime",
            before + ROOT_IN_DOUBLE + behind,
            accepts=all_of(accepted, root_fits_double),
        ),
        Body(
            overload(rounding, "double_root"),
            "onnxruntime",
            before + exact + behind,
            accepts=all_of(accepted, keeps_int64),
        ),
        Body(
            overload(rounding, "double_in_halves"),
            "onnxruntime",
            AXES + sums + root + by_row + behind,
            accepts=all_of(
                *(rounds(rounding), leaves_int64, fits_halves),
                *(fits_double, squares_fit_double),
            ),
        ),
    ]


_IN_HALVES = VARIANCE_IN_HALVES + RADICAND_IN_HALVES + FIRST_BITS

_SUMS = AXES + SUM.having(dtype=7) + SQUARES  # 7 is INT64

_PORTABLE = _SUMS + VARIANCE + RADICAND + newton() + FACTOR + normal("drop_bits")

_PORTABLE_IN_HALVES = _SUMS + TOTALS + _IN_HALVES + newton() + FACTOR + normal("drop_row")


def _portable() -> Iterator[Body]:
    for body in bodies_of_one_rounding(_PORTABLE, "shift"):
        yield replace(body, accepts=all_of(body.accepts, keeps_int64))
    for body in bodies_of_one_rounding(_PORTABLE_IN_HALVES, "shift"):
        name = body.overload.replace("portable", "portable_in_halves")
        yield replace(body, overload=name, accepts=all_of(body.accepts, leaves_int64))


def reference(
    x: NDArray[Any],
    x_zero: NDArray[Any],
    multiplier: NDArray[np.int32],
    bias: Int64,
    shift: NDArray[np.int32],
    epsilon: Int64,
    y_zero: NDArray[Any],
    y_min: NDArray[Any],
    y_max: NDArray[Any],
    *,
    axis: int,
    cells: int,
    centered: int,
    root_bits: int,
    factor_bits: int,
    norm_bits: int,
    rounding: Rounding,
) -> NDArray[Any]:
    """Stored x, any shape; a row is what lies along ``axis`` (negative) and all behind it.

    It has ``cells`` codes. ``multiplier`` and ``bias`` broadcast to x, ``epsilon`` to rows;
    ``shift`` is a number.
    """
    axes = tuple(range(axis, 0))
    code = np.asarray(x).astype(np.int64) - x_zero
    total = code.sum(axis=axes, keepdims=True) * centered
    squares = (code * code).sum(axis=axes, keepdims=True)
    factors, left_out = [], []
    for t, q, e in np.nditer([total, squares, epsilon], ["zerosize_ok"], order="C"):
        radicand = (cells * int(q) - int(t) ** 2 << root_bits * 2) + int(e)
        left_out.append(max(radicand.bit_length() - 61, 0) // 2)
        factors.append((1 << factor_bits) // max(isqrt(radicand >> 2 * left_out[-1]), 1))
    factor, more = (np.array(n, np.int64).reshape(total.shape) for n in (factors, left_out))
    drop_bits = factor_bits - root_bits - norm_bits + more
    product = (cells * code - total) * factor
    normal = rounding_shift(product, drop_bits, "half_to_even")
    level = rounding_shift(normal * multiplier.astype(np.int64) + bias, shift, rounding)
    return saturate(level, y_zero, y_min, y_max).astype(y_zero.dtype)


def _a_constant_changes_nothing(
    x: NDArray[Any], x_zero: NDArray[Any], *args: Any, **attributes: Any
) -> None:
    attributes["centered"] = 1
    other = np.asarray(int(x_zero) ^ 1, x_zero.dtype)
    np.testing.assert_array_equal(
        reference(x, x_zero, *args, **attributes), reference(x, other, *args, **attributes)
    )


def _a_constant_row_gives_the_bias(
    x: NDArray[Any], x_zero: NDArray[Any], *args: Any, **attributes: Any
) -> None:
    attributes["centered"] = 1
    _multiplier, bias, shift, _epsilon, *ends = args
    still = np.full_like(x, x.flat[0] if x.size else x_zero)
    level = rounding_shift(bias, shift, attributes["rounding"])
    expected = np.broadcast_to(saturate(level, *ends), x.shape)
    np.testing.assert_array_equal(reference(still, x_zero, *args, **attributes), expected)


def _factors_are_of_rows(constants: Constants, attributes: Attributes, shape: Shape) -> bool:
    """One factor for each place of a row, or one for several; rows of x have ``cells``."""
    multiplier, axis, cells = constants["multiplier"], attributes["axis"], attributes["cells"]
    if multiplier.ndim < -axis or multiplier.size == 0:
        return False
    places = multiplier.shape[axis:]
    if cells % prod(places) or (1 not in places and prod(places) != cells):
        return False
    known = [] if shape is None else [size for size in shape[axis:] if isinstance(size, int)]
    is_row = len(known) < -axis or prod(known) == cells
    return is_row and (shape is None or keeps_shape(shape, multiplier))


def _factors_have_offsets(
    constants: Constants, _attributes: Attributes, _shape: Shape
) -> bool:
    return constants["bias"].shape == constants["multiplier"].shape


def _epsilons_are_of_rows(constants: Constants, attributes: Attributes, _shape: Shape) -> bool:
    """One for all rows, or one for each of those that have factors of their own."""
    epsilon, axis = constants["epsilon"], attributes["axis"]
    places = constants["multiplier"].shape
    return epsilon.shape in ((), (*places[:axis], *[1] * -axis))


def _bits_are_left(_constants: Constants, attributes: Attributes, _shape: Shape) -> bool:
    root, factor, norm = (attributes[f"{name}_bits"] for name in ("root", "factor", "norm"))
    return bool(norm < factor - root)


INT_LAYER_NORM = Op(
    name="IntLayerNorm",
    inputs={
        "x": Data("S"),
        "x_zero": Constant("S"),
        "multiplier": Constant("int32", (...,)),
        "bias": Constant("int64", (...,)),
        "shift": Shift(),
        "epsilon": Constant("int64", (...,), limits=range(1 << 62)),
        **ends("Y"),
    },
    outputs={"y": Data("Y")},
    attributes={
        "axis": Axis(),
        "cells": Integer(1),
        "centered": SWITCH,
        "root_bits": Integer(0, 31),
        "factor_bits": Integer(0, 62),
        "norm_bits": Integer(1),
        "rounding": ONCE,
    },
    reference=reference,
    bodies=[
        *(body for rounding in ROUNDINGS for body in _in_double(rounding)),
        *_portable(),
    ],
    evidence="bounded",
    scaling=Scaling.NORM,
    constraints=[
        Constraint("factors broadcast to x and to rows of `cells`", _factors_are_of_rows),
        Constraint("bias has the shape of multiplier", _factors_have_offsets),
        Constraint("epsilon is one number, or one for each row of it", _epsilons_are_of_rows),
        Constraint("norm_bits < factor_bits - root_bits", _bits_are_left),
    ],
    laws={
        "a constant added to all codes changes nothing": _a_constant_changes_nothing,
        "a constant row gives the bias": _a_constant_row_gives_the_bias,
    },
    formula="Over each row of n = `cells` codes, along `axis` and all behind it: d = n * (x - "
    "x_zero) - t, v = n * sum of (x - x_zero)**2 - t**2, t = sum of (x - x_zero) if "
    "`centered`, else 0; root = floor(sqrt(v * 4**root_bits + epsilon)), at least 1; normal "
    "= round(d * floor(2**factor_bits / root) / 2**(factor_bits - root_bits - norm_bits)), "
    "half to even; y = clamp(round((normal * multiplier + bias) / 2**shift) + y_zero, y_min, "
    "y_max). Of LayerNormalization, InstanceNormalization and, not centered, "
    "RMSNormalization.",
    note="Where v * 4**root_bits + epsilon has more than 62 bits, as of long rows of 16 bits, "
    "it is floored to a 4**k-th part of itself, k being the least with which it has no more; "
    "the product with its root is then divided by 2**k more.",
)
