"""Products of two stored tensors: the multiplier with which the fast kernel is exact."""

from dataclasses import dataclass
from fractions import Fraction
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.fixed_point import ROUNDINGS
from opsets.qpasses_v1 import OPS
from opsets.realised import node_multiplier, node_rounding
from opsets.target import Target
from qpasses.evidence.prove_pairs import all_pairs, fast_overload, kernel_agrees
from qpasses.evidence.prove_products import mul_inputs, products_near_ties, real_product
from qpasses.ir.record import Quantization
from qpasses.lowering.numbers.add_numbers import LARGEST_CHANGE, NEAR


@dataclass(frozen=True)
class MulChoice:
    """Multiplier and shift (int32 scalars), and whether a fast kernel is exact with them."""

    multiplier: NDArray[np.int32]
    shift: NDArray[np.int32]
    exact: bool


def choose_mul(a: Quantization, b: Quantization, y: Quantization, target: Target) -> MulChoice:
    """The multiplier of a * b with which onnxruntime's kernel is the meaning on all pairs.

    Near neighbours of the scale are asked first, those that differ from real arithmetic on the
    fewest pairs before the others, then some further away. Where none is exact the nearest
    stays. Where the target wants no fast kernels the multiplier is that of its rule. Raises
    ScaleError for a scale that the target cannot express.
    """
    if not target.fast_kernels:
        ruled = target.real_scale("IntMul", (a.scale, b.scale), y.scale)
        return _choice(*node_multiplier(ruled, target, elementwise=True), False)
    ratio = Fraction(a.scale) * Fraction(b.scale) / Fraction(y.scale)
    start, shift = node_multiplier(ratio, target, elementwise=True)
    limit, scale = 1 << target.multiplier_bits, max(24 - target.multiplier_bits, 0)

    def inputs(multiplier: int) -> dict[str, NDArray[Any]]:
        return mul_inputs(a, b, y, multiplier, shift)

    def valid(changes: list[int]) -> list[int]:
        return [start + each for each in changes if 0 < start + each < limit] or [start]

    near = valid(sorted(range(-(NEAR >> scale), (NEAR >> scale) + 1), key=abs))
    steps = [1 << k for k in range(2, 10) if 1 << k <= LARGEST_CHANGE >> scale]
    far = valid([sign * step for step in steps for sign in (1, -1)])
    off = max(abs(m - ratio * (1 << shift)) for m in near) / (1 << shift)
    largest = 255 * 255  # of a product of levels
    slack = float(largest * off) + 2.0**-40 * (largest * float(ratio) + 1)
    slack += node_rounding(target) not in ROUNDINGS  # two roundings: on any pair
    rows, columns = np.nonzero(products_near_ties(a, b, y, slack))
    codes = all_pairs(a.dtype)[0].reshape(-1)
    doubtful = {"a": codes[rows], "b": codes[columns]}  # on all others the meaning is real
    real, op, rounding = (
        real_product(a, b, y)[rows, columns],
        OPS["IntMul"],
        node_rounding(target),
    )
    meanings = (
        op.reference(*{**inputs(m), **doubtful}.values(), rounding=rounding) for m in near
    )
    moved = [int((meaning != real).sum()) for meaning in meanings]
    ranked = [m for _, m in sorted(zip(moved, near, strict=True), key=itemgetter(0))]
    for each in (*ranked, *far):
        given = inputs(each)
        if kernel_agrees(given, fast_overload(given), rounding, "IntMul"):
            return _choice(each, shift, True)
    return _choice(ranked[0], shift, False)


def _choice(multiplier: int, shift: int, exact: bool) -> MulChoice:
    return MulChoice(np.array(multiplier, np.int32), np.array(shift, np.int32), exact)
