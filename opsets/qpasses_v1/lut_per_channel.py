"""LutPerChannel: a function of one stored integer per channel, as tables of 256 values."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.attribute_kinds import Axis
from opsets.declaration import Constant, Data, Scaling
from opsets.fragments import fragment
from opsets.op import Body, Op, looks_up_bytes

STARTS = fragment("""
starts <axis, entries> (x, tables) => (minus_one, size, sizes, starts, flat) {
    # where the table of each channel begins, shaped to broadcast along x
    minus_one = Constant <value = int64[1] {-1}> ()
    one       = Constant <value = int64[1] {1}> ()
    size      = Constant <value = int64[1] {@entries}> ()
    channels  = Shape <start = 0, end = 1> (tables)
    each      = ConstantOfShape <value = int64[1] {1}> (channels)
    positions = NonZero (each)
    channel   = Reshape (positions, minus_one)
    start     = Mul (channel, size)
    sizes     = Shape (x)
    rank      = Shape (sizes)
    place     = Constant <value_int : int = @axis> ()
    after     = Sub (rank, place)
    behind    = Sub (after, one)
    ones      = ConstantOfShape <value = int64[1] {1}> (behind)
    column    = Concat <axis = 0> (minus_one, ones)
    starts    = Reshape (start, column)
    flat      = Reshape (tables, minus_one)
}
""")
"""Where tables of so many ``entries`` begin, one behind the other."""

_INDEX = STARTS.having(entries=256)

_UNSIGNED = fragment("""
unsigned (x, starts) => (index) {
    byte      = Cast <to = 7> (x)                                          # 7 is INT64
    index     = Add (byte, starts)
}
""")

_SIGNED = fragment("""
signed (x, size, starts) => (index) {
    code      = Cast <to = 7> (x)                                          # 7 is INT64
    byte      = Mod (code, size)
    index     = Add (byte, starts)
}
""")

_PORTABLE = fragment("""
entry (flat, index) => (y) {
    y         = Gather <axis = 0> (flat, index)
}
""")

_ONNXRUNTIME = fragment("""
entry_of_flat (flat, index, sizes, minus_one) => (y) {
    # on a flat tensor GatherElements is eight times as fast as Gather
    in_line   = Reshape (index, minus_one)
    looked_up = GatherElements <axis = 0> (flat, in_line)
    y         = Reshape <allowzero = 1> (looked_up, sizes)
}
""")


def reference(x: NDArray[Any], tables: NDArray[Any], *, axis: int) -> NDArray[Any]:
    """``tables`` [C, 256]: row c, indexed by the byte of the code, is for channel c."""
    channels = np.arange(tables.shape[0]).reshape(-1, *[1] * (np.ndim(x) - axis - 1))
    return np.asarray(tables[channels, np.asarray(x).view(np.uint8)])


def _identity_tables_are_neutral(x: NDArray[Any], tables: NDArray[Any], *, axis: int) -> None:
    identity = np.tile(np.arange(256, dtype=np.uint8).view(x.dtype), (len(tables), 1))
    np.testing.assert_array_equal(reference(x, identity, axis=axis), x)


LUT_PER_CHANNEL = Op(
    name="LutPerChannel",
    inputs={
        "x": Data("T"),
        "tables": Constant("Y", ("C", 256)),
    },
    outputs={"y": Data("Y")},
    attributes={
        "axis": Axis(from_end=False),
    },
    reference=reference,
    bodies=[
        Body(
            "onnxruntime",
            "onnxruntime",
            _INDEX + _UNSIGNED + _ONNXRUNTIME,
            accepts=looks_up_bytes,
        ),
        Body("onnxruntime_signed", "onnxruntime", _INDEX + _SIGNED + _ONNXRUNTIME),
        Body("portable", "portable", _INDEX + _SIGNED + _PORTABLE),
    ],
    evidence="exhaustive",
    scaling=Scaling.TABLE,
    laws={"identity tables are neutral": _identity_tables_are_neutral},
    formula="y = tables[channel, byte of x], channels along `axis` (from 0 on). Each table is "
    "ordered by byte: 256 + c for int8 codes c < 0.",
)
