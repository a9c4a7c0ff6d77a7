"""How each op of an integer graph becomes TFLite: operators of its own, or of int32.

What has an operator of TFLite's takes that, if it gives the integers of the node, and is
refused if not. What has none is exact arithmetic on int32, as it is for TOSA.
"""

from collections.abc import Callable, Mapping
from typing import Any

from qpasses.emit.tflite.litert_ops import (
    axis_means,
    cut_axes,
    flat_rows,
    gemmlowp_rows,
    linear_resizes,
    nearest_resizes,
    paired_codes,
    sequence_lstms,
    sloped_codes,
    table_lookups,
    weighted_sums,
    window_pools,
)
from qpasses.emit.tosa.lowerings import (
    casts,
    logic,
    movements,
    norms,
    places,
    published_algorithms,
    reductions,
    slopes,
    softmax,
)

LOWERINGS: Mapping[str, Callable[[Any, Any], None]] = {
    **casts.LOWERINGS,
    **logic.LOWERINGS,
    **movements.LOWERINGS,
    **norms.LOWERINGS,
    **places.LOWERINGS,
    **published_algorithms.LOWERINGS,
    **reductions.LOWERINGS,
    **slopes.LOWERINGS,
    **softmax.LOWERINGS,
    **axis_means.LOWERINGS,
    **cut_axes.LOWERINGS,
    **flat_rows.LOWERINGS,
    **gemmlowp_rows.LOWERINGS,
    **linear_resizes.LOWERINGS,
    **nearest_resizes.LOWERINGS,
    **paired_codes.LOWERINGS,
    **sequence_lstms.LOWERINGS,
    **sloped_codes.LOWERINGS,
    **table_lookups.LOWERINGS,
    **weighted_sums.LOWERINGS,
    **window_pools.LOWERINGS,
}
