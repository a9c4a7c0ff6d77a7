"""IntPad: codes of 16 bits, and more of them around."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from opsets.attribute_kinds import Integers, Text
from opsets.declaration import Constant, Constraint, Data, Scaling, Shape
from opsets.fragments import fragment
from opsets.op import Attributes, Body, Constants, Op

MODES = ("constant", "edge", "reflect")
"""What is added: ``fill``, the last code, or the codes mirrored at the last."""

_PADDED = fragment("""
padded <mode, pads> (x, fill) => (y) {
    wide      = Cast <to = 6> (x)                                          # 6 is INT32
    wide_fill = Cast <to = 6> (fill)
    all_pads  = Constant <value_ints: ints = @pads> ()
    padded    = Pad <mode: string = @mode> (wide, all_pads, wide_fill)
    y         = CastLike (padded, fill)
}
""")


def _two_for_each_axis(_constants: Constants, attributes: Attributes, shape: Shape) -> bool:
    return shape is None or len(attributes["pads"]) == 2 * len(shape)


def _fits_what_is_there(_constants: Constants, attributes: Attributes, shape: Shape) -> bool:
    if shape is None or attributes["mode"] == "constant":
        return True
    pads = np.reshape(attributes["pads"], (2, -1)).max(axis=0, initial=0)
    least = pads + 1 if attributes["mode"] == "reflect" else np.minimum(pads, 1)
    known = zip(shape, least, strict=True)
    return all(size >= some for size, some in known if isinstance(size, int))


def reference(
    x: NDArray[np.int16],
    fill: NDArray[np.int16],
    *,
    pads: Sequence[int],
    mode: Literal["constant", "edge", "reflect"],
) -> NDArray[np.int16]:
    """Stored x, any shape; ``pads``: how many are added before each axis, then behind."""
    widths = list(zip(*np.reshape(pads, (2, -1)), strict=True))
    more: dict[str, Any] = {"constant_values": fill} if mode == "constant" else {}
    return np.pad(x, widths, mode, **more) if widths else x.copy()


def _x_is_inside(
    x: NDArray[np.int16], fill: NDArray[np.int16], *, pads: Sequence[int], mode: Any
) -> None:
    y = reference(x, fill, pads=pads, mode=mode)
    inside = tuple(
        slice(begin, begin + size) for begin, size in zip(pads[: x.ndim], x.shape, strict=True)
    )
    np.testing.assert_array_equal(y[inside], x)


INT_PAD = Op(
    name="IntPad",
    inputs={"x": Data("int16"), "fill": Constant("int16")},
    outputs={"y": Data("int16")},
    attributes={"pads": Integers(0), "mode": Text(MODES)},
    reference=reference,
    bodies=[Body("portable", "portable", _PADDED)],
    evidence="exhaustive",
    scaling=Scaling.MOVED,
    constraints=[
        Constraint("pads has two numbers for each axis", _two_for_each_axis),
        Constraint("x has the codes that it is padded with", _fits_what_is_there),
    ],
    laws={"x is inside": _x_is_inside},
    formula="y = x with `pads` codes before and behind each axis: `fill`, the last code, or "
    "those mirrored at it. Of 8 bits it is ONNX's Pad, which onnxruntime has no kernel of 16 "
    "bits for.",
    source="Source: ONNX Pad.",
)
