"""Lut: any function of one stored byte, as a table of its 256 values."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.declaration import Constant, Data, Scaling
from opsets.fragments import fragment
from opsets.op import Body, Op

_PORTABLE = fragment("""
entry (x, table) => (y) {
    code = Cast <to = 6> (x)                                               # 6 is INT32
    y    = Gather <axis = 0> (table, code)
}
""")

_ONNXRUNTIME = fragment("""
entry_of_flat (x, table) => (y) {
    # on a flat tensor GatherElements is nine times as fast as Gather
    flat_shape = Constant <value = int64[1] {-1}> ()
    flat       = Reshape (x, flat_shape)
    code       = Cast <to = 6> (flat)                                      # 6 is INT32
    looked_up  = GatherElements <axis = 0> (table, code)
    shape      = Shape (x)
    y          = Reshape <allowzero = 1> (looked_up, shape)
}
""")


def reference(x: NDArray[Any], table: NDArray[Any]) -> NDArray[Any]:
    """``table`` [256] is indexed by the byte of the code: 256 + c for int8 codes c < 0."""
    return np.asarray(table[np.asarray(x).view(np.uint8)])


def _identity_table_is_neutral(x: NDArray[Any], _table: NDArray[Any]) -> None:
    identity = np.arange(256, dtype=np.uint8).view(x.dtype)
    np.testing.assert_array_equal(reference(x, identity), x)


LUT = Op(
    name="Lut",
    inputs={
        "x": Data("T"),
        "table": Constant("Y", (256,)),
    },
    outputs={"y": Data("Y")},
    attributes={},
    reference=reference,
    bodies=[
        Body("onnxruntime", "onnxruntime", _ONNXRUNTIME),
        Body("portable", "portable", _PORTABLE),
    ],
    evidence="exhaustive",
    scaling=Scaling.TABLE,
    laws={"the identity table is neutral": _identity_table_is_neutral},
    formula="y = table[byte of x]. The table is ordered by byte, so that ONNX's negative "
    "indices find the entries of negative int8 codes.",
)
