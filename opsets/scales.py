"""Scales: the named ways to compute the real scale of an accumulator from those of tensors."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from types import MappingProxyType

import numpy as np

from opsets.multipliers import Scale


@dataclass(frozen=True)
class ScaleRule:
    """``derive(op, operands, y)``: the scale of a node of ``op``, before it is rounded.

    ``operands`` are the scales of what is multiplied, ``y`` that of the output, each of the
    target's ``scale_type``. ``formula`` says all of it.
    """

    formula: str
    source: str
    derive: Callable[[str, Sequence[float], float], Scale]


def _exact(_op: str, operands: Sequence[float], y: float) -> Scale:
    return prod(map(Fraction, operands), start=1 / Fraction(y))


def _in_double(_op: str, operands: Sequence[float], y: float) -> Scale:
    return prod(operands) / y


def _float32_product(operands: Sequence[float]) -> np.float32:
    return prod(map(np.float32, operands), start=np.float32(1))


def _product_in_float32(_op: str, operands: Sequence[float], y: float) -> Scale:
    return float(_float32_product(operands)) / y


def _tflite(op: str, operands: Sequence[float], y: float) -> Scale:
    if op == "IntMul":
        return float(_float32_product(operands) / np.float32(y))
    products = op in ("IntGemm", "IntMatMul")
    return (_product_in_float32 if products else _in_double)(op, operands, y)


SCALES: Mapping[str, ScaleRule] = MappingProxyType(
    {
        "exact": ScaleRule("the product over s_y, as real numbers", "this project", _exact),
        "double": ScaleRule(
            "the product over s_y, in double", "MLIR's TOSA, TPU-MLIR", _in_double
        ),
        "product_in_float32": ScaleRule(
            "the product in float32, over s_y in double", "I-ViT QuantAct", _product_in_float32
        ),
        "tflite": ScaleRule(
            "the product over s_y: of Conv in double; of Gemm and MatMul the product in "
            "float32; of Mul all in float32",
            "TFLite kernel_util.cc, mul.cc",
            _tflite,
        ),
    }
)
"""Every rule by its name in a target file."""
