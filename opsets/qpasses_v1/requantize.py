"""Requantize: int32 accumulators to stored integers by a multiplier and a right shift."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.attribute_kinds import TWICE, Axis
from opsets.declaration import PER_CHANNEL, Constant, Data, Scaling, Shift, ends
from opsets.double import accumulator_bodies
from opsets.fixed_point import saturate
from opsets.float32 import WEIGHT_SCALE, float32_bodies
from opsets.fragments import NOTHING, fragment
from opsets.op import Op
from opsets.portable import columns, portable_bodies
from opsets.rounding import NodeRounding, requantize, wraps

_TRAILING = fragment("""
trailing <axis> (acc) => (trailing) {
    # behind an axis counted from the front there are rank - 1 - axis dimensions, from the back
    # -1 - axis: both are (rank - 1 - axis) mod rank
    acc_shape  = Shape (acc)
    acc_rank   = Shape (acc_shape)
    axis_value = Constant <value_int: int = @axis> ()
    single     = Constant <value = int64[1] {1}> ()
    from_axis  = Sub (acc_rank, axis_value)
    behind     = Sub (from_axis, single)
    trailing   = Mod (behind, acc_rank)
}
""")

_SCALED = fragment("""
scaled (acc, scale, one, y_zero) => (y) {
    real       = Cast <to = 1> (acc)                                       # 1 is FLOAT
    scaled     = Mul (real, scale)
    y          = QuantizeLinear (scaled, one, y_zero)
}
""")

_ONNXRUNTIME = (
    columns(_TRAILING) + WEIGHT_SCALE(multiplier="m_column", shift="s_column") + _SCALED
)


def reference(
    acc: NDArray[np.int32],
    multiplier: NDArray[np.int32],
    shift: NDArray[np.int32],
    y_zero: NDArray[Any],
    y_min: NDArray[Any],
    y_max: NDArray[Any],
    *,
    axis: int,
    rounding: NodeRounding,
) -> NDArray[Any]:
    """Stored integers of the type of ``y_zero``, shaped as ``acc`` (any rank >= 1).

    ``multiplier`` and ``shift`` have one entry, or one per index of ``axis``.
    """
    column = [1] * acc.ndim
    column[axis] = -1
    level = requantize(acc, multiplier.reshape(column), shift.reshape(column), rounding)
    return saturate(level, y_zero, y_min, y_max).astype(y_zero.dtype)


def _zero_maps_to_zero_point(acc: NDArray[np.int32], *args: Any, **attributes: Any) -> None:
    y_zero, y_min, y_max = args[2:]
    stored = reference(np.zeros_like(acc), *args, **attributes)
    assert (stored == np.clip(y_zero, y_min, y_max)).all()


def _monotone_in_the_accumulator(
    acc: NDArray[np.int32], *args: Any, **attributes: Any
) -> None:
    axis, (_, shift, *_) = attributes["axis"], args
    kept = np.sort(acc[~wraps(acc, shift.min(), attributes["rounding"])])
    rows = np.broadcast_to(kept[:, None], (kept.size, acc.shape[axis]))
    stored = reference(rows, *args, **{**attributes, "axis": 1})
    assert (np.diff(stored.astype(np.int64), axis=0) >= 0).all()


REQUANTIZE = Op(
    name="Requantize",
    inputs={
        "acc": Data("int32"),
        "multiplier": Constant("int32", PER_CHANNEL),
        "shift": Shift(dims=PER_CHANNEL),
        **ends("T"),
    },
    outputs={"y": Data("T")},
    attributes={
        "axis": Axis(),
        "rounding": TWICE,
    },
    reference=reference,
    bodies=[
        *float32_bodies(_ONNXRUNTIME),
        *accumulator_bodies(NOTHING, _TRAILING),
        *portable_bodies(NOTHING, _TRAILING),
    ],
    evidence="thresholds",
    scaling=Scaling.RATIO,
    laws={
        "zero maps to the zero point": _zero_maps_to_zero_point,
        "monotone in the accumulator": _monotone_in_the_accumulator,
    },
    formula="y = clamp(round(acc * multiplier / 2**shift) + y_zero, y_min, y_max).",
    source="Source: ONNX's specification of QuantizeLinear (round, then add the zero point), "
    "with the scale as multiplier and shift.",
)
