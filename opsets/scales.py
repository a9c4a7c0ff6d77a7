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

    ``op`` is that of a node, or what a table or slope stands for: ``Relu`` (and Clip),
    ``Quantize`` (a tensor stored anew), ``LeakyRelu`` or ``PRelu``. ``operands`` are the
    scales of what is multiplied, ``y`` that of the output, each of the target's
    ``scale_type``. ``formula`` says all of it.
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


def _in_float32(_op: str, operands: Sequence[float], y: float) -> Scale:
    return float(_float32_product(operands) / np.float32(y))


Derive = Callable[[str, Sequence[float], float], Scale]


def _by_op(rules: Mapping[str, Derive]) -> Derive:
    """Each op by its rule, all others in double."""
    return lambda op, operands, y: rules.get(op, _in_double)(op, operands, y)


_MIXED: Mapping[str, Derive] = {
    "IntGemm": _product_in_float32,
    "IntMatMul": _product_in_float32,
    "IntMul": _in_float32,
}
_LITERT: Mapping[str, Derive] = {
    "IntLstm": _in_float32,
    "IntMatMul": _product_in_float32,
    "IntMul": _in_float32,
    "LeakyRelu": _in_float32,
    "PRelu": _in_float32,
    "Relu": _in_float32,
}

SCALES: Mapping[str, ScaleRule] = MappingProxyType(
    {
        "exact": ScaleRule("the product over s_y, as real numbers", "this project", _exact),
        "double": ScaleRule(
            "the product over s_y, in double", "MLIR's TOSA, TPU-MLIR", _in_double
        ),
        "product_in_float32": ScaleRule(
            "the product in float32, over s_y in double", "I-ViT QuantAct", _product_in_float32
        ),
        "float32": ScaleRule(
            "the product over s_y, all in float32", "XNNPACK, onnxruntime", _in_float32
        ),
        "tflite": ScaleRule(
            "the product over s_y, in double; of Gemm and MatMul the product in float32; of "
            "Mul all in float32: what files and models of target tflite said before tflm",
            "TFLite Micro and LiteRT, mixed",
            _by_op(_MIXED),
        ),
        "litert": ScaleRule(
            "the product over s_y, in double; of MatMul the product in float32; of Mul, LSTM, "
            "Relu, LeakyRelu and PRelu all in float32",
            "LiteRT 2.3.0's reference kernels, told apart by scales in its interpreter",
            _by_op(_LITERT),
        ),
    }
)
"""Every rule by its name in a target file."""
