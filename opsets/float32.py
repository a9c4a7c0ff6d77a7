"""The opening statements of the bodies that use onnxruntime's kernels, and their guards."""

from collections.abc import Sequence

import numpy as np

from opsets.kernels import float32_kernel
from opsets.op import (
    Attributes,
    Body,
    Constants,
    Guard,
    all_of,
    any_node,
    saturates_at_type_ends,
)

WEIGHT_SCALE = """
    # the scale is computed from the integers on the node; Pow(0.5, n) is exact
    m         = Cast <to = 1> (multiplier)                                 # 1 is FLOAT
    s         = Cast <to = 1> (shift)
    half      = Constant <value = float {0.5}> ()
    step      = Pow (half, s)
    scale     = Mul (m, step)
    one       = Constant <value = float {1.0}> ()
"""


def float32_bodies(
    text: str, name: str = "onnxruntime", also: Guard = any_node
) -> Sequence[Body]:
    """onnxruntime's kernel alone, and with a Clip where the clamp is not the type's range.

    ``text`` calls what the kernel writes RESULT; ``also`` is a further condition.
    """
    saturating = all_of(_has_kernel, also, saturates_at_type_ends)
    alone = text.replace("RESULT", "y")
    clamped = text.replace("RESULT", "saturated") + "y = Clip (saturated, y_min, y_max)"
    return [
        Body(name, "onnxruntime", alone, saturating, float32_kernel),
        Body(
            f"{name}_clamped",
            "onnxruntime",
            clamped,
            all_of(_has_kernel, also),
            float32_kernel,
        ),
    ]


def _has_kernel(constants: Constants, _attributes: Attributes) -> bool:
    """onnxruntime has no QLinearConv and no QGemm for int8 activations by uint8 weights."""
    unsigned_weights = "w_zero" in constants and constants["w_zero"].dtype == np.uint8
    return not (constants["y_min"].dtype == np.int8 and unsigned_weights)
