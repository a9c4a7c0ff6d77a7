"""Two tensors of one op: IntAdd, IntSub and IntMul; multipliers are judged on all pairs."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.fixed_point import ROUNDINGS
from opsets.realised import quotient_rounding, searched
from opsets.target import Target
from qpasses.checking.arithmetic import nearest, requantized, shifted
from qpasses.checking.meaning import (
    DifferenceError,
    Site,
    check_record,
    unlike,
    unlike_attributes,
)
from qpasses.checking.rules.check_clamps import check_end, clamps_behind
from qpasses.checking.rules.check_constants import operand
from qpasses.checking.rules.check_multipliers import (
    check_computes,
    expected_pairs,
    expected_rounding,
    word_pairs,
)
from qpasses.evidence.prove_pairs import (
    add_inputs,
    all_pairs,
    fast_overload,
    kernel_agrees,
    real_sum,
)
from qpasses.evidence.prove_products import mul_inputs, real_product
from qpasses.evidence.thresholds import Interval, levels
from qpasses.ir.record import Quantization


def int_add(site: Site) -> Iterator[str]:
    """Add or Sub of two tensors, or of a tensor and a constant."""
    site.is_op(site.node.op.removeprefix("Int"))
    clamps = clamps_behind(site)
    yield from check_end(site, clamps)
    bounds = int(site.given["y_min"]), int(site.given["y_max"])
    a, b, y = yield from operands(site)
    target = site.settings.target
    has_words = "int16" in (a.dtype, b.dtype, y.dtype)
    if ((has_words and target.word_add) or target.add) != "one_rounding":
        raise DifferenceError("its target rounds each operand of a sum")
    names = ("a_multiplier", "b_multiplier", "shift")
    expected = _sum_multipliers(a, b, y, bounds, target, site.node.op)
    yield from _unlike_numbers(site, names, expected)


def int_mul(site: Site) -> Iterator[str]:
    """Mul of two tensors, or of a tensor and a constant."""
    site.is_op("Mul")
    has_words = any(value.dtype == np.int16 for value in site.given.values())
    if len(site.chain) > 1 and not has_words:
        raise DifferenceError("its record names nodes behind the product")
    yield from check_end(site, clamps_behind(site))
    a, b, y = yield from operands(site)
    if has_words:
        expected = _word_multiplier(site, a, b, y)
    else:
        expected = _product_multiplier(a, b, y, site.settings.target)
    yield from _unlike_numbers(site, ("multiplier", "shift"), expected)


def operands(
    site: Site,
) -> Any:
    """Check operands, zero points, attributes and record; the meanings of a, b and y."""
    theirs = site.first.inputs
    if len(theirs) != 2:
        raise DifferenceError(f"{site.first.name!r} has {len(theirs)} operands")
    a, b = (operand(site, site.inputs[n], t) for n, t in zip("ab", theirs, strict=True))
    for name, meaning in (("a_zero", a), ("b_zero", b)):
        yield from unlike(name, site.given[name], meaning.zero)
    scales = {"a": [a.scale], "b": [b.scale], "y": [site.y.scale]}
    yield from check_record(site, scales)
    target = site.settings.target
    rounding = target.rounding
    if site.node.op == "IntMul":
        rounding = expected_rounding(target)
    elif site.node.op in ("IntAdd", "IntSub"):
        rounding = quotient_rounding(target)
    yield from unlike_attributes(site.node.attrs, {"rounding": rounding})
    types = {each.dtype for each in (a, b, site.y)}
    if len(types - {"int16"}) > 1:
        raise DifferenceError("its operands and its result are stored in different types")
    return a, b, site.y


def _unlike_numbers(
    site: Site, names: Sequence[str], expected: Sequence[int]
) -> Iterator[str]:
    for name, value in zip(names, expected, strict=True):
        yield from unlike(name, site.given[name], np.array(value, np.int32))


def _sum_multipliers(
    a: Quantization,
    b: Quantization,
    y: Quantization,
    bounds: tuple[int, int],
    target: Target,
    op: str,
) -> tuple[int, int, int]:
    """The first pair of multipliers, with their shift, that the kernel adds exactly.

    The larger is the nearest of the target's width, the other the nearest at its shift. First
    come changes of both that add up to 3 units at most, those that differ from real
    arithmetic on the fewest pairs before the others; then to 6; then by powers of two.
    """
    ratios = [Fraction(each.scale) / Fraction(y.scale) for each in (a, b)]
    if not searched(target) or "int16" in (a.dtype, b.dtype, y.dtype):
        return _ruled_sum(ratios, target)
    top, shift = nearest(max(ratios), target.multiplier_bits)
    start = [min(top, round(ratio * (1 << shift))) for ratio in ratios]
    start = [
        top if ratio == max(ratios) else m for ratio, m in zip(ratios, start, strict=True)
    ]
    column, row = (codes.astype(np.int64) for codes in all_pairs(a.dtype))
    first, second = column - a.zero_point, row - b.zero_point
    if op == "IntSub":
        second = -second
    widths = [
        max(abs(m - ratio * 2**shift) for m in (k - 3, k, k + 3))
        for k, ratio in zip(start, ratios, strict=True)
    ]
    sums = first * float(ratios[0]) + second * float(ratios[1])
    asked = _may_differ(sums, 255 * sum(widths) / 2**shift)
    real = real_sum(a, b, y, bounds, op)[asked]
    first, second = (np.broadcast_to(each, sums.shape)[asked] for each in (first, second))

    def differing(change: tuple[int, int]) -> int:
        total = first * (start[0] + change[0]) + second * (start[1] + change[1])
        found = shifted(total, shift, quotient_rounding(target)) + y.zero_point
        return int((np.clip(found, *bounds) != real).sum())

    def fits(change: tuple[int, int]) -> bool:
        pairs = zip(start, change, strict=True)
        return all(min(m, 1) <= m + c < 1 << target.multiplier_bits for m, c in pairs)

    near, far = (list(filter(fits, each)) for each in _changes(target.multiplier_bits))
    near.sort(key=differing)
    if not target.fast_kernels:
        return start[0] + near[0][0], start[1] + near[0][1], shift
    for change in (*near, *far):
        pair = start[0] + change[0], start[1] + change[1]
        given = add_inputs(a, b, y, bounds, *pair, shift)
        if kernel_agrees(given, fast_overload(given), quotient_rounding(target), op):
            return *pair, shift
    return start[0], start[1], shift


def _ruled_sum(ratios: Sequence[Fraction], target: Target) -> tuple[int, int, int]:
    """The larger by the target's rule, the other the nearest at its shift, at least 1."""
    top, shift = target.elementwise_multiplier(max(ratios))
    other = min(round(min(ratios) * Fraction(2) ** shift), top)
    scale = 1 << max(1 - shift, 0)
    first, second = (scale * (top if ratio == max(ratios) else other) for ratio in ratios)
    return first, second, max(shift, 1)


def _changes(bits: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The near changes of both multipliers, and the far ones, in order."""
    less = max(24 - bits, 0)
    everything = sorted((abs(i) + abs(j), i, j) for i, j in product(range(-6, 7), repeat=2))
    ring = [(total, (i, j)) for total, i, j in everything if total <= 6 >> less]
    near = [change for total, change in ring if total <= 3 >> less]
    far = [change for total, change in ring if total > 3 >> less]
    for power in range(3, 10):
        if 1 << power <= 512 >> less:
            signs = ((1, 1), (-1, -1), (1, 0), (0, 1), (-1, 0), (0, -1))
            far += [(i << power, j << power) for i, j in signs]
    return near, far


def _product_multiplier(
    a: Quantization, b: Quantization, y: Quantization, target: Target
) -> tuple[int, int]:
    """The first multiplier, with its shift, by which the kernel multiplies exactly.

    Without fast kernels that of the target's rule. Else up to 3 units from the nearest, those
    that differ from real arithmetic on the fewest pairs before the others; then 4, 8 ... 512
    units away.
    """
    if not target.fast_kernels:
        scales = {"a": [a.scale], "b": [b.scale]}
        numbers = expected_pairs("IntMul", scales, [y.scale], 1, target)
        ends = [p * q for p in _ends(a) for q in _ends(b)]
        reachable = Interval(np.array([min(ends)]), np.array([max(ends)]))
        check_computes(*numbers, levels(y.zero_point, *y.limits), reachable, target)
        return int(numbers[0][0]), int(numbers[1][0])
    rounding = expected_rounding(target)
    ratio = Fraction(a.scale) * Fraction(b.scale) / Fraction(y.scale)
    start, shift = nearest(ratio, target.multiplier_bits)
    column, row = (codes.astype(np.int64) for codes in all_pairs(a.dtype))
    products = (column - a.zero_point) * (row - b.zero_point)
    width = max(abs(start + change - ratio * 2**shift) for change in (-3, 3)) / 2**shift
    width += 0 if rounding in ROUNDINGS else 1  # two roundings
    steps = products.astype(np.float64) * float(ratio)
    asked = _may_differ(steps, 255 * 255 * width)
    real, products = real_product(a, b, y)[asked], products[asked]

    def differing(multiplier: int) -> int:
        found = requantized(products, multiplier, shift, rounding) + y.zero_point
        return int((np.clip(found, *y.limits) != real).sum())

    def fitting(changes: Sequence[int]) -> list[int]:
        near = [start + change for change in changes]
        return [m for m in near if 0 < m < 1 << target.multiplier_bits] or [start]

    less = max(24 - target.multiplier_bits, 0)
    width = 3 >> less
    near = sorted(fitting(sorted(range(-width, width + 1), key=abs)), key=differing)
    powers = [1 << k for k in range(2, 10) if 1 << k <= 512 >> less]
    far = fitting([sign * power for power in powers for sign in (1, -1)])
    for multiplier in (*near, *far):
        given: dict[str, NDArray[Any]] = mul_inputs(a, b, y, multiplier, shift)
        if kernel_agrees(given, fast_overload(given), rounding, "IntMul"):
            return multiplier, shift
    return near[0], shift


def _word_multiplier(
    site: Site, a: Quantization, b: Quantization, y: Quantization
) -> tuple[int, int]:
    """By the rule of products with 16 bits; the target computes what the node means."""
    target, scales = site.settings.target, {"a": [a.scale], "b": [b.scale]}
    ends = [p * q for p in _ends(a) for q in _ends(b)]
    numbers = word_pairs("IntMul", scales, [y.scale], 1, max(map(abs, ends)), target)
    reachable = Interval(np.array([min(ends)]), np.array([max(ends)]))
    steps = levels(*(int(site.given[name]) for name in ("y_zero", "y_min", "y_max")))
    check_computes(*numbers, steps, reachable, target)
    return int(numbers[0][0]), int(numbers[1][0])


def _may_differ(steps: NDArray[np.float64], width: Fraction) -> NDArray[np.bool_]:
    """Where numbers up to ``width`` from ``steps`` may be rounded to another integer."""
    room = float(width) * 1.001 + (np.abs(steps) + 1) * 2.0**-45
    return np.asarray(np.abs(steps - np.rint(steps)) >= 0.5 - room)


def _ends(meaning: Quantization) -> tuple[int, ...]:
    """The levels of the smallest and the largest stored integer."""
    return tuple(end - meaning.zero_point for end in meaning.type_limits)
