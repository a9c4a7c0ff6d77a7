"""Exact convolution of integers, and ONNX's rules for padding."""

from collections.abc import Sequence
from itertools import product
from math import ceil

import numpy as np

from opsets.declaration import Attributes, Constants, Constraint, Shape
from opsets.fixed_point import Int64


def _windows_fit(constants: Constants, attributes: Attributes, _shape: Shape) -> bool:
    outputs, _, *kernel = constants["w"].shape
    given = attributes.get("kernel_shape", kernel)
    return [*given] == kernel and outputs % attributes["group"] == 0


WINDOWS_FIT = Constraint(
    "`kernel_shape` is that of w, whose output channels `group` divides", _windows_fit
)


def convolve(
    data: Int64,
    weights: Int64,
    group: int,
    *,
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    auto_pad: str = "NOTSET",
    kernel_shape: Sequence[int] | None = None,
) -> Int64:
    """Exact convolution (ONNX Conv's geometry) of int64 [N, C, ...] by [M, C/group, ...]."""
    kernel = weights.shape[2:]
    assert kernel_shape is None or tuple(kernel_shape) == kernel
    dims = len(kernel)
    steps, gaps = strides or [1] * dims, dilations or [1] * dims
    begin, end = padding(data.shape[2:], kernel, steps, gaps, pads, auto_pad)
    padded = np.pad(data, [(0, 0), (0, 0), *zip(begin, end, strict=True)])
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, gaps, strict=True)]
    out = [(n - r) // s + 1 for n, r, s in zip(padded.shape[2:], reach, steps, strict=True)]
    by_group = padded.reshape(data.shape[0], group, -1, *padded.shape[2:])
    split = weights.reshape(group, -1, *weights.shape[1:])
    acc = np.zeros((data.shape[0], group, split.shape[1], *out), np.int64)
    for position in product(*map(range, kernel)):
        window = tuple(
            slice(p * d, p * d + (n - 1) * s + 1, s)
            for p, d, n, s in zip(position, gaps, out, steps, strict=True)
        )
        cells = by_group[(slice(None),) * 3 + window]
        taps = split[(slice(None),) * 3 + position]
        acc += np.asarray(np.einsum("ngc...,gmc->ngm...", cells, taps), np.int64)
    return acc.reshape(data.shape[0], len(weights), *out)


def padding(
    size: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int] | None,
    auto_pad: str,
) -> tuple[list[int], list[int]]:
    """Cells added before and after each spatial dimension, by ONNX's rules for auto_pad."""
    dims = len(kernel)
    if auto_pad in ("NOTSET", ""):
        explicit = list(pads or [0] * (2 * dims))
        return explicit[:dims], explicit[dims:]
    if auto_pad == "VALID":
        return [0] * dims, [0] * dims
    total = [
        max((ceil(n / s) - 1) * s + (k - 1) * d + 1 - n, 0)
        for n, k, s, d in zip(size, kernel, strides, dilations, strict=True)
    ]
    small, large = [t // 2 for t in total], [t - t // 2 for t in total]
    return (small, large) if auto_pad == "SAME_UPPER" else (large, small)
