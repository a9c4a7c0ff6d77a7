"""Lut16: any function of one 16-bit stored integer, as a table of its 65,536 values."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.declaration import Constant, Data, Scaling
from opsets.op import Op
from opsets.qpasses_v1.lut import LUT


def reference(x: NDArray[np.int16], table: NDArray[Any]) -> NDArray[Any]:
    """``table`` [65536] is indexed by the code's 16 bits: 65536 + c for codes c < 0."""
    return np.asarray(table[np.asarray(x).view(np.uint16)])


def _identity_table_is_neutral(x: NDArray[np.int16], _table: NDArray[Any]) -> None:
    identity = np.arange(65536, dtype=np.uint16).view(np.int16)
    np.testing.assert_array_equal(reference(x, identity), x)


LUT16 = Op(
    name="Lut16",
    inputs={
        "x": Data("int16"),
        "table": Constant("Y", (65536,)),
    },
    outputs={"y": Data("Y")},
    attributes={},
    reference=reference,
    bodies=LUT.bodies,  # they look up codes of any width
    evidence="exhaustive",
    scaling=Scaling.WIDE_TABLE,
    laws={"the identity table is neutral": _identity_table_is_neutral},
    formula="y = table[the 16 bits of x]. The table is ordered by them, so that ONNX's "
    "negative indices find the entries of negative codes.",
)
