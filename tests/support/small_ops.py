"""One very small node of every op, with fixed numbers: what its TOSA text is shown for."""

import numpy as np

from opsets.declaration import CLASSES
from opsets.gemmlowp import softmax_exponentials
from opsets.qpasses_v1 import OPS
from tests.support.op_cases import Case


def u8(*values):
    return np.array(values if len(values) != 1 else values[0], np.uint8)


def i32(*values):
    return np.array(values if len(values) != 1 else values[0], np.int32)


ENDS = {"y_zero": u8(100), "y_min": u8(0), "y_max": u8(255)}
SCALE = {"multiplier": i32(12345677), "shift": i32(30)}
ONE_SCALE = {"multiplier": i32([12345677]), "shift": i32([30])}
WEIGHTS = {
    "w": np.arange(-8, 8, dtype=np.int8).reshape(2, 2, 2, 2),
    "w_zero": np.int8(0),
    "bias": i32(5, -6),
    "multiplier": i32(12345677, 8388608),
    "shift": i32(30, 29),
}
FALLING = np.exp(-np.arange(256) / 16)
EVEN = {"rounding": "half_to_even"}
X, PAIR = {"x": (2, 3)}, {"a": (2, 3), "b": (3,)}
ZERO, ZEROS = {"x_zero": u8(10)}, {"a_zero": u8(10), "b_zero": u8(20)}
TURNED = np.arange(255, -1, -1, dtype=np.uint8)

SMALL = {
    "Requantize": ({"acc": (2, 2)}, {**SCALE, **ONE_SCALE, **ENDS}, {"axis": 1, **EVEN}),
    "Lut": (X, {"table": TURNED}, {}),
    "LutPerChannel": (X, {"tables": np.stack([TURNED, TURNED[::-1]])}, {"axis": 0}),
    "LutPair": (PAIR, {"table": np.full(1 << 16, 7, np.uint8)}, {}),
    "Lut16": (X, {"table": np.full(1 << 16, 7, np.uint8)}, {}),
    "LutInterpolated": (
        X,
        {"table": np.arange(513, dtype=np.int16), "shift": i32(7), **ENDS},
        EVEN,
    ),
    "LutInterpolatedPerChannel": (
        X,
        {
            "tables": np.stack([np.arange(513), np.arange(513, 0, -1)]).astype(np.int16),
            **{"shift": i32(7), **ENDS},
        },
        {"axis": 0, **EVEN},
    ),
    "IntConv": (
        {"x": (1, 2, 3, 3)},
        {**ZERO, **WEIGHTS, **ENDS},
        {"pads": [1, 1, 1, 1], "strides": [2, 2], **EVEN},
    ),
    "IntConvPerChannel": (
        {"x": (1, 2, 3, 3)},
        {"x_zero": u8(10, 20), **WEIGHTS, "w": WEIGHTS["w"][:, :1], **ENDS},
        {"group": 2, "kernel_shape": [2, 2], "pads": [1, 0, 0, 0], **EVEN},
    ),
    "IntGemm": (
        {"x": (2, 4)},
        {**ZERO, **WEIGHTS, "w": WEIGHTS["w"].reshape(8, 2)[:4], **ENDS},
        EVEN,
    ),
    "IntMatMul": (
        {"a": (2, 2, 3), "b": (3, 2)},
        {**ZEROS, **ONE_SCALE, **ENDS},
        {"inner": 3, **EVEN},
    ),
    "IntAdd": (
        PAIR,
        {
            **ZEROS,
            "a_multiplier": i32(12345677),
            "b_multiplier": i32(8388608),
            "shift": i32(24),
            **ENDS,
        },
        EVEN,
    ),
    "IntRescale": (X, {**ZERO, "multiplier": i32(12345677), "shift": i32(24), **ENDS}, EVEN),
    "IntCast": (
        X,
        {
            **{"x_min": i32(0), "x_max": i32(1), "multiplier": i32(255 << 22)},
            **{"shift": i32(22), **ENDS},
        },
        {"of": "bool", **EVEN},
    ),
    "IntRescaledAdd": (
        PAIR,
        {
            **ZEROS,
            "left_shift": i32(20),
            **{"a_multiplier": i32(1 << 30), "a_shift": i32(31)},
            **{"b_multiplier": i32(1234567890), "b_shift": i32(32)},
            **{"y_multiplier": i32(1987654321), "y_shift": i32(50)},
            **ENDS,
        },
        {"rounding": "half_up"},
    ),
    "IntDiv": (
        PAIR,
        {**ZEROS, "multiplier": i32(12345677), "shift": i32(18), **ENDS},
        EVEN,
    ),
    "IntMul": (PAIR, {**ZEROS, **SCALE, **ENDS}, EVEN),
    "IntPRelu": (
        X,
        {
            **ZERO,
            **{"multiplier": i32(12345677), "shift": i32(24)},
            **{"slope_multiplier": i32(12345677, 0, -77), "slope_shift": i32(26, 26, 8)},
            **ENDS,
        },
        EVEN,
    ),
    "IntCodedPRelu": (
        X,
        {
            **ZERO,
            **{"multiplier": i32(12345677), "shift": i32(24), "slope_codes": i32(25)},
            **{"slope_multiplier": i32(12345677), "slope_shift": i32(31)},
            **ENDS,
        },
        EVEN,
    ),
    "IntAveragePool": (
        {"x": (1, 2, 3, 3)},
        {**ZERO, **ONE_SCALE, **ENDS},
        {"channels": 2, "kernel_shape": [2, 2], "pads": [0, 0, 1, 1], **EVEN},
    ),
    "IntCountedAveragePool": (
        {"x": (1, 2, 3, 3)},
        {**ZERO, **SCALE, **ENDS},
        {
            **{"channels": 2, "kernel_shape": [2, 2], "pads": [0, 0, 1, 1]},
            **{"uncounted_pads": [0, 0, 1, 1], **EVEN},
        },
    ),
    "IntGlobalAveragePool": (
        {"x": (1, 2, 3, 3)},
        {**ZERO, **ONE_SCALE, **ENDS},
        {"channels": 2, "spatial_shape": [3, 3], **EVEN},
    ),
    "IntReduce": (
        {"x": (1, 2, 3)},
        {**ZERO, **SCALE, **ENDS},
        {"axes": [-2], "keepdims": 0, "mean": 0, **EVEN},
    ),
    "IntResize": (
        {"x": (1, 1, 2, 2)},
        {
            **ZERO,
            "indices": i32([0, 0, 0, 0, 1, 0, 0, 1], [0, 0, 1, 1, 1, 0, 1, 1]),
            "coefficients": i32([1, 4, 3, 1, 4, 4, 2, 4], [0, 0, 1, 3, 0, 0, 2, 0]),
            **ONE_SCALE,
            **ENDS,
        },
        {"dims": 2, "x_sizes": [1, 2, 2], "y_sizes": [1, 4, 3], **EVEN},
    ),
    "TableSoftmax": (
        X,
        {
            "denominators": np.rint(FALLING * (1 << 20)).astype(np.int32),
            "numerators": np.rint(FALLING * (255 << 20)).astype(np.int64),
            **ENDS,
            "y_zero": u8(0),
        },
        {"axis": -1, "published": 0, **EVEN},
    ),
    "TableSoftmax16": (
        X,
        {
            "high": np.rint(FALLING * (1 << 28)).astype(np.int32),
            "low": np.rint(FALLING ** (1 / 256) * (1 << 22)).astype(np.int32),
            "multiplier": np.array(255 << 14, np.int32),
            "shift": np.array(14, np.int32),
            **ENDS,
            "y_zero": u8(0),
        },
        {"axis": -1, **EVEN},
    ),
    "IntLogSoftmax": (
        X,
        {
            "denominators": np.rint(FALLING * (1 << 30)).astype(np.int32),
            "distances": np.arange(256) << 14,
            "octaves": np.rint(np.log(2) * np.arange(-30, 11) * (1 << 18)).astype(np.int64),
            "logarithms": np.rint(np.log1p(np.arange(257) / 256) * (1 << 18)).astype(np.int64),
            **ENDS,
            "y_zero": u8(255),
        },
        {"axis": -1, "fraction_bits": 14, **EVEN},
    ),
    "IntLayerNorm": (
        X,
        {
            **ZERO,
            **{"multiplier": i32(1000, -2000, 3000), "bias": np.array([1 << 20, 0, -5])},
            **{"shift": i32(17), "epsilon": np.array(99), **ENDS},
        },
        {
            **{"axis": -1, "cells": 3, "centered": 1, "root_bits": 4},
            **{"factor_bits": 40, "norm_bits": 12, **EVEN},
        },
    ),
    "GemmlowpSoftmax": (
        X,
        {"exponentials": np.array(softmax_exponentials(0.1), np.int32), **ENDS},
        {"axis": -1},
    ),
    "Shiftmax": (
        X,
        {**SCALE, **ENDS},
        {"axis": -1, "x0": -16, "fraction_bits": 15, "output_bits": 8, **EVEN},
    ),
    "ShiftGelu": (
        X,
        {**ZERO, **SCALE, **ENDS},
        {"axis": -1, "x0": -16, "fraction_bits": 23, "output_bits": 8, **EVEN},
    ),
    "ILayerNorm": (
        X,
        {
            **ZERO,
            "bias": np.array([1 << 20, 0, -5]),
            **{"multiplier": i32(1000, -2000, 3000), "shift": i32(30, 30, 31), **ENDS},
        },
        {"cells": 3, **EVEN},
    ),
    "IBertSoftmax": (
        X,
        {"exp_multiplier": i32(700), "exp_shift": i32(40), **SCALE, **ENDS},
        {
            **{"axis": -1, "x0": -12, "b": 43, "c": 714, "fraction_bits": 30},
            **{"output_bits": 8, **EVEN},
        },
    ),
    "IBertGelu": (
        X,
        {**ZERO, **SCALE, **ENDS},
        {"b": -50, "c": -2770, "one": -9, "fraction_bits": 14, **EVEN},
    ),
}
SMALL |= {
    "IntExtreme": (X, {}, {"axes": [-1], "keepdims": 1, "which": "smallest"}),
    "IntMaxPool": (
        {"x": (1, 1, 3, 3)},
        {},
        {"kernel_shape": [2, 2], "pads": [0, 1, 0, 1], "strides": [1, 2], "dilations": [1, 1]},
    ),
    "IntPad": (X, {"fill": np.int16(7)}, {"pads": [0, 1, 1, 0], "mode": "constant"}),
    "IntShuffle": (
        {"x": (1, 4, 2, 3)},
        {},
        {"split": [0, 2, 2, 1, 2, 3], "perm": [0, 3, 4, 1, 5, 2], "joined": [0, 1, 4, 6]},
    ),
    "IntWhere": ({"condition": (3,), "a": (2, 3), "b": (3,)}, {}, {}),
}
SMALL["IntSub"], SMALL["IntRescaledSub"] = SMALL["IntAdd"], SMALL["IntRescaledAdd"]


WORD_ENDS = {"y_zero": np.int16(0), "y_min": np.int16(-32768), "y_max": np.int16(32767)}
SHORT = {"multiplier": i32([24577]), "shift": i32([30])}
WORDS = {
    "IntConv": (
        {"x": (1, 2, 3, 3)},
        {**WEIGHTS, **SHORT, "x_zero": np.int16(0), **WORD_ENDS},
        {"pads": [1, 1, 0, 0], "rounding": "half_up"},
    ),
    "IntMatMul": (
        {"a": (2, 3), "b": (3, 2)},
        {"a_zero": np.int16(0), "b_zero": np.int16(0), **SHORT, **WORD_ENDS},
        {"inner": 3, "rounding": "half_up"},
    ),
}
"""Products of 16 bits, with numbers of target tosa."""


def small_case(name, of_words=False):
    """The node, its activations zeros."""
    shapes, constants, attributes = (WORDS if of_words else SMALL)[name]
    op = OPS[name]
    types = {n: CLASSES.get(op.inputs[n].type, [op.inputs[n].type])[0] for n in shapes}
    lines = {"LutInterpolated": np.int16, "LutInterpolatedPerChannel": np.int16}
    wide = {"Requantize": np.int32, **lines}
    wide |= dict.fromkeys(("Lut16", "TableSoftmax16"), np.int16)
    if of_words:
        wide = {name: np.int16}
    data = {n: np.zeros(shape, wide.get(name, types[n])) for n, shape in shapes.items()}
    assert data.keys() | constants.keys() == {*op.inputs}, {*op.inputs} ^ {*data, *constants}
    return Case([np.asarray((data | constants)[n]) for n in op.inputs], attributes)
