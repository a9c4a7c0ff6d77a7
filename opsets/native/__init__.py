"""Compiled kernels: a library that onnxruntime loads, where it could be built."""

from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

KERNELS = (
    *(
        "GemmlowpSoftmax",
        "IBertGelu",
        "IBertSoftmax",
        "ILayerNorm",
        "IntAdd",
        "IntAveragePool",
        "IntCodedPRelu",
    ),
    *("IntConv", "IntConvPerChannel", "IntCountedAveragePool", "IntDiv", "IntGemm"),
    *("IntGlobalAveragePool", "IntGru", "IntLayerNorm", "IntLogSoftmax", "IntLstm"),
    *("IntMatMul", "IntMaxPool", "IntMul", "IntPad", "IntPRelu", "IntReduce", "IntRescale"),
    *("IntRescaledAdd", "IntRescaledSub", "IntResize", "IntRnn"),
    *("IntSub", "Lut", "Lut16", "LutInterpolated", "LutInterpolatedPerChannel", "LutPair"),
    *("LutPerChannel", "Requantize", "ShiftGelu", "Shiftmax", "TableSoftmax"),
    "TableSoftmax16",
)
"""The ops that have one; all others run their bodies."""


def library() -> Path | None:
    """The file, or None where there was no compiler."""
    folder = Path(__file__).parent
    places = (folder / f"_kernels{suffix}" for suffix in EXTENSION_SUFFIXES)
    return next((each for each in places if each.is_file()), None)
