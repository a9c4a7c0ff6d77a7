"""LutPair: any function of two stored integers, as a table of its 65,536 values."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.declaration import Constant, Data, Scaling
from opsets.fragments import fragment
from opsets.op import Body, Op, looks_up_bytes

_UNSIGNED = fragment("""
unsigned (a, b) => (index) {
    size   = Constant <value = int32 {256}> ()
    byte_a = Cast <to = 6> (a)                                             # 6 is INT32
    byte_b = Cast <to = 6> (b)
    row    = Mul (byte_a, size)
    index  = Add (row, byte_b)
}
""")

_SIGNED = fragment("""
signed (a, b) => (index) {
    size   = Constant <value = int32 {256}> ()
    code_a = Cast <to = 6> (a)                                             # 6 is INT32
    code_b = Cast <to = 6> (b)
    byte_a = Mod (code_a, size)
    byte_b = Mod (code_b, size)
    row    = Mul (byte_a, size)
    index  = Add (row, byte_b)
}
""")

_PORTABLE = fragment("""
entry (table, index) => (y) {
    y      = Gather <axis = 0> (table, index)
}
""")

_ONNXRUNTIME = fragment("""
entry_of_flat (table, index) => (y) {
    minus_one = Constant <value = int64[1] {-1}> ()
    in_line   = Reshape (index, minus_one)
    looked_up = GatherElements <axis = 0> (table, in_line)
    shape     = Shape (index)
    y         = Reshape <allowzero = 1> (looked_up, shape)
}
""")


def reference(a: NDArray[Any], b: NDArray[Any], table: NDArray[Any]) -> NDArray[Any]:
    """``table`` [65536]: at 256 * byte of a + byte of b, which broadcast together."""
    rows = np.asarray(a).view(np.uint8).astype(np.int64)
    return np.asarray(table[256 * rows + np.asarray(b).view(np.uint8)])


def _a_transposed_table_swaps(a: NDArray[Any], b: NDArray[Any], table: NDArray[Any]) -> None:
    transposed = np.ascontiguousarray(table.reshape(256, 256).T).reshape(-1)
    np.testing.assert_array_equal(reference(a, b, table), reference(b, a, transposed))


LUT_PAIR = Op(
    name="LutPair",
    inputs={
        "a": Data("T"),
        "b": Data("T"),
        "table": Constant("T", (65536,)),
    },
    outputs={"y": Data("T")},
    attributes={},
    reference=reference,
    bodies=[
        Body("onnxruntime", "onnxruntime", _UNSIGNED + _ONNXRUNTIME, accepts=looks_up_bytes),
        Body("onnxruntime_signed", "onnxruntime", _SIGNED + _ONNXRUNTIME),
        Body("portable", "portable", _SIGNED + _PORTABLE),
    ],
    evidence="exhaustive",
    scaling=Scaling.TABLE,
    laws={"a transposed table swaps the operands": _a_transposed_table_swaps},
    formula="y = table[256 * byte of a + byte of b], with ONNX broadcasting. The byte of an "
    "int8 code c < 0 is 256 + c.",
)
