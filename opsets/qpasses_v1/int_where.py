"""IntWhere: codes of 16 bits of either of two tensors, as a condition says."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.declaration import Data, Scaling
from opsets.fragments import fragment
from opsets.op import Body, Op

_CHOSEN = fragment("""
chosen (condition, a, b) => (y) {
    wide_a    = Cast <to = 6> (a)                                          # 6 is INT32
    wide_b    = Cast <to = 6> (b)
    chosen    = Where (condition, wide_a, wide_b)
    y         = CastLike (chosen, a)
}
""")


def reference(
    condition: NDArray[np.bool_], a: NDArray[np.int16], b: NDArray[np.int16]
) -> NDArray[np.int16]:
    """A condition, stored a and b, which broadcast, -> stored y."""
    return np.where(condition, a, b)


def _turned_round(condition: NDArray[Any], a: NDArray[Any], b: NDArray[Any]) -> None:
    """The other one where the condition does not hold."""
    np.testing.assert_array_equal(
        reference(~condition, b, a), reference(condition, a, b), strict=True
    )


INT_WHERE = Op(
    name="IntWhere",
    inputs={"condition": Data("bool"), "a": Data("int16"), "b": Data("int16")},
    outputs={"y": Data("int16")},
    attributes={},
    reference=reference,
    bodies=[Body("portable", "portable", _CHOSEN)],
    evidence="exhaustive",
    scaling=Scaling.MOVED,
    laws={"turned round": _turned_round},
    formula="y = a where the condition holds, else b; all of them broadcast. Of 8 bits it is "
    "ONNX's Where, which onnxruntime has no kernel of 16 bits for.",
    source="Source: ONNX Where.",
)
