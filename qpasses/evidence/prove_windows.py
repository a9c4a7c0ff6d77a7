"""Means of windows that differ in size: onnxruntime itself at every step, for each size."""

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.fixed_point import Int64
from opsets.op import Body
from qpasses.evidence.prove_reductions import CONSTANTS, around, summing_to
from qpasses.evidence.thresholds import Interval
from qpasses.ir.runtime import run_op


def window_sizes(kernel: Sequence[int], uncounted_pads: Sequence[int]) -> list[int]:
    """How many cells a window of this kernel can have, for any size of what it reads.

    Along an axis without padding that does not count it is always the whole kernel.
    """
    pads = [*map(any, np.reshape(uncounted_pads, (2, -1)).T.tolist())]
    along = (range(1 if some else n, n + 1) for n, some in zip(kernel, pads, strict=True))
    return sorted({prod(each) for each in product(*along)})


def differing_means(
    body: Body,
    given: Mapping[str, NDArray[Any]],
    cells: int,
    attributes: Mapping[str, Any],
    thresholds: Int64,
    reachable: Interval,
) -> int:
    """At how many thresholds [1, K], or one below, onnxruntime gives another code.

    The one window of a row of ``cells`` cells is as large as those of the node; optimized and
    not.
    """
    points, steps = around(thresholds, reachable, cells)
    zero, widest = given["x_zero"], prod(attributes["kernel_shape"])
    x = summing_to(points, cells, int(zero)).astype(zero.dtype)[:, None, :]
    behind = [0, widest - 1]
    row = {"channels": 1, "dilations": [1], "kernel_shape": [widest], "strides": [widest]}
    row |= {"pads": behind, "uncounted_pads": behind, "rounding": attributes["rounding"]}
    inputs = [x, *(given[name] for name in CONSTANTS)]
    found = (
        run_op("IntCountedAveragePool", body, inputs, row, optimize=optimize)
        for optimize in (False, True)
    )
    expected = int(given["y_min"]) + steps
    return sum(int((codes.reshape(-1) != expected).sum()) for codes in found)
