"""GELU and Sigmoid in steps of one type of floats, as TFLite's kernels write them."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

_Floats = NDArray[np.floating[Any]]


def gelu(x: _Floats, approximate: str = "none") -> _Floats:
    """GELU of each x, every step rounded to their type.

    ``none``: 0.5 x erfc(-x sqrt(1/2)); ``tanh``: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715
    x^3))). Source: TensorFlow, lite/kernels/internal/reference/gelu.h. erfc and tanh are the
    nearest there are; those of C's libraries in float may be one of the two next to them.
    """
    of = x.dtype.type
    with np.errstate(over="ignore", invalid="ignore"):
        if approximate == "tanh":
            inner = of(math.sqrt(2 / math.pi)) * (x + of(0.044715) * x * x * x)
            bent = of(1) + np.tanh(inner.astype(np.float64)).astype(of)
        else:
            bent = _erfc(x * of(-math.sqrt(1 / 2))).astype(of)
        return np.asarray(of(0.5) * x * bent, of)


def sigmoid(x: _Floats) -> _Floats:
    """1 / (1 + exp(-x)) of each x, every step rounded to their type; exp is the nearest.

    Source: TensorFlow, SigmoidPrepare in lite/kernels/activations.cc.
    """
    of = x.dtype.type
    with np.errstate(over="ignore"):
        return np.asarray(of(1) / (of(1) + np.exp(-x.astype(np.float64)).astype(of)), of)


def _erfc(x: _Floats) -> NDArray[np.float64]:
    return np.array([math.erfc(each) for each in x.ravel().tolist()]).reshape(x.shape)
