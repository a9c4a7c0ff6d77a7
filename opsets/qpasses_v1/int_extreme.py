"""IntExtreme: the largest or the smallest code along axes, of 16 bits."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from opsets.attribute_kinds import SWITCH, Axes, Text
from opsets.declaration import Data, Scaling
from opsets.fragments import fragment
from opsets.op import Attributes, Body, Constants, Op

_WIDE = fragment("""
wide <axes> (x) => (wide, along) {
    wide      = Cast <to = 6> (x)                                          # 6 is INT32
    along     = Constant <value_ints: ints = @axes> ()
}
""")

_LARGEST = fragment("""
largest <keepdims> (wide, along) => (found) {
    found     = ReduceMax <keepdims: int = @keepdims> (wide, along)
}
""")

_SMALLEST = fragment("""
smallest <keepdims> (wide, along) => (found) {
    found     = ReduceMin <keepdims: int = @keepdims> (wide, along)
}
""")

_STORED = fragment("""
stored (x, found) => (y) {
    y         = CastLike (found, x)
}
""")


def _is_largest(_constants: Constants, attributes: Attributes) -> bool:
    """Whether it is the largest."""
    return bool(attributes.get("which", "largest") == "largest")


def _is_smallest(constants: Constants, attributes: Attributes) -> bool:
    """Whether it is the smallest."""
    return not _is_largest(constants, attributes)


def reference(
    x: NDArray[np.int16],
    *,
    axes: Sequence[int],
    keepdims: int,
    which: Literal["largest", "smallest"],
) -> NDArray[np.int16]:
    """Stored x, any shape, no axis of none; ``axes`` are counted from the end."""
    found = np.max if which == "largest" else np.min
    return np.asarray(found(x, axis=tuple(axes), keepdims=bool(keepdims)), np.int16)


def _order_is_kept(
    x: NDArray[np.int16],
    *,
    axes: Sequence[int],
    keepdims: int,
    which: Literal["largest", "smallest"],
) -> None:
    """The largest code is the same code of whatever keeps the order."""
    halved = reference(x >> 1, axes=axes, keepdims=keepdims, which=which)
    whole = reference(x, axes=axes, keepdims=keepdims, which=which)
    np.testing.assert_array_equal(halved, whole >> 1)


INT_EXTREME = Op(
    name="IntExtreme",
    inputs={"x": Data("int16")},
    outputs={"y": Data("int16")},
    attributes={
        "axes": Axes(),
        "keepdims": SWITCH,
        "which": Text(("largest", "smallest")),
    },
    reference=reference,
    bodies=[
        Body("portable", "portable", _WIDE + _LARGEST + _STORED, _is_largest),
        Body("portable_smallest", "portable", _WIDE + _SMALLEST + _STORED, _is_smallest),
    ],
    evidence="bounded",
    scaling=Scaling.MOVED,
    laws={"order is kept": _order_is_kept},
    formula="y = the largest x along `axes`, counted from the end, or the smallest. Of 8 bits "
    "it is ONNX's ReduceMax or ReduceMin, which onnxruntime has no kernel of 16 bits for.",
    source="Source: ONNX ReduceMax, ReduceMin.",
)
