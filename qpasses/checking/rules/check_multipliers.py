"""Multipliers of targets without fast kernels, restated: each is what its rule says."""

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from opsets.fixed_point import Int64
from opsets.rounding import NODE_ROUNDINGS, NodeRounding
from opsets.target import Target
from qpasses.checking.arithmetic import nearest
from qpasses.checking.meaning import DifferenceError
from qpasses.evidence.thresholds import Interval, meaning_thresholds
from qpasses.ir.record import in_channels

_MATRICES = ("IntConv", "IntConvPerChannel", "IntGemm", "IntMatMul")
_TWO_STEPS = ("tflite_double", "ruy")
_IN_FLOAT = {"half_to_even_in_double": np.float64, "half_to_even_in_float32": np.float32}
_NOTICED = Fraction(1, 1 << 32)
_OF_WORDS_OTHERWISE = (
    "quantize_multiplier",
    "quantize_multiplier_single",
    "quantize_multiplier_reduced",
    "tosa",
)


def has_word_rule(op: str, reads_words: bool, target: Target) -> bool:
    """Whether a sum of products is by the rules of its target for those that read 16 bits."""
    return op in _MATRICES and reads_words and target.word_multiplier is not None


def expected_rounding(target: Target, by_word_rule: bool = False) -> NodeRounding:
    """The attribute of nodes: products in floats are compared with half to even."""
    if by_word_rule and target.word_rounding is not None:
        return next(each for each in NODE_ROUNDINGS if each == target.word_rounding)
    if target.rounding in _IN_FLOAT:
        return "half_to_even"
    return next(each for each in NODE_ROUNDINGS if each == target.rounding)


def expected_pairs(
    op: str,
    scales: Mapping[str, Sequence[float]],
    y: Sequence[float],
    cells: int,
    target: Target,
    of_words: bool = False,
) -> tuple[Int64, Int64]:
    """Multiplier and shift of each channel. Raises DifferenceError where there are none."""
    channels = in_channels([*scales.values(), y])
    real = [real_scale(op, each, one, target) / cells for *each, one in channels]
    pairs = [expected_pair(each, target, op not in _MATRICES, of_words) for each in real]
    multiplier, shift = np.array(pairs, np.int64).reshape(-1, 2).T
    return multiplier, shift


def word_pairs(
    op: str,
    scales: Mapping[str, Sequence[float]],
    y: Sequence[float],
    cells: int,
    reach: int,
    target: Target,
    reads_words: bool = True,
) -> tuple[Int64, Int64]:
    """The same of products with 16 bits, whose sums are ``reach`` in size at most.

    The nearest of so many bits, of those of the target, that no product with such a sum is
    beyond 2**53, but 16 at least; by a rule of its own, unless a product is beyond 2**62.
    ``reads_words``: sums by the target's rule for these, if it has one, whose levels int32
    holds.
    """
    if target.word_multiplier is None and target.multiplier in _OF_WORDS_OTHERWISE:
        raise DifferenceError("its target multiplies 16 bits in another form")
    if has_word_rule(op, reads_words, target):
        multiplier, shift = expected_pairs(op, scales, y, cells, target, of_words=True)
        if any(
            (reach * m >> s) + 1 >= 1 << 31
            for m, s in zip(multiplier.tolist(), shift.tolist(), strict=True)
        ):
            raise DifferenceError("its scaled sums can leave int32")
        return multiplier, shift
    own = op not in _MATRICES and target.elementwise is not None
    if target.multiplier != "nearest" or _shifts(target) != range(1, 62) or own:
        multiplier, shift = expected_pairs(op, scales, y, cells, target)
        if reach * int(np.abs(multiplier).max()) > 1 << 62:
            raise DifferenceError("its products with the multiplier can leave 62 bits")
        return multiplier, shift
    bits = min(target.multiplier_bits, 53)
    while bits > 16 and reach << bits > 1 << 53:
        bits -= 1
    real = [
        real_scale(op, each, one, target) / cells
        for *each, one in in_channels([*scales.values(), y])
    ]
    if bits < 18 and max(real) >= 1 << bits - 2:
        raise DifferenceError(f"its scale is beyond multipliers of {bits} bits")
    multiplier, shift = np.array([nearest(each, bits) for each in real], np.int64).T
    return multiplier, shift


def nearest_to_sums(
    multiplier: Int64,
    shift: Int64,
    real: Int64,
    steps: Int64,
    reachable: Interval,
    rests: Sequence[Fraction],
) -> Int64:
    """Each multiplier, or the one at most 8 away that steps most often where ``real`` does.

    Of several the nearest, of two of these the larger; none leaves 31 bits. ``rests``: what
    each sum lacks, which its product has, to the next integer; [] for nothing.
    """
    found, places = multiplier.copy(), reachable.clip(real)
    for channel, first in enumerate(multiplier.tolist()):
        low, high = (end[channel : channel + 1] for end in (reachable.low, reachable.high))
        near = Interval(low, high)
        tries = [first] + [first + way * n for n in range(1, 9) for way in (1, -1)]
        tries = [each for each in tries if 1 << 30 <= each < 1 << 31] or [first]
        lost = []
        for each in tries:
            pair = np.array([each]), shift[channel : channel + 1]
            more = np.array([round(rests[channel] * each)]) if rests else None
            ours = near.clip(meaning_thresholds(*pair, steps, "half_to_even", more))
            lost.append(int(np.abs(ours - places[channel]).sum()))
            if not lost[-1]:
                break
        found[channel] = tries[lost.index(min(lost))]
    return found


_PRODUCT_ONLY = {
    "product_in_float32": None,
    "tflite": ("IntGemm", "IntMatMul"),
    "litert": ("IntMatMul",),
}
"""By rule of scales: the ops, or all, whose product alone is in float32."""

_ALL_IN_FLOAT32 = {
    "float32": None,
    "tflite": ("IntMul",),
    "litert": ("IntLstm", "IntMul", "Relu", "LeakyRelu", "PRelu"),
}


def real_scale(op: str, operands: Sequence[float], y: float, target: Target) -> Fraction:
    """products / y, each step in the type of the system."""
    rule, narrow = target.scales, np.float32
    if rule == "exact":
        exact = Fraction(1)
        for each in operands:
            exact *= Fraction(each)
        return exact / Fraction(y)
    is_narrow, is_product = (
        rule in known and (known[rule] is None or op in (known[rule] or ()))
        for known in (_ALL_IN_FLOAT32, _PRODUCT_ONLY)
    )
    total = narrow(1) if is_narrow or is_product else 1.0
    for each in operands:
        total = total * (narrow(each) if is_narrow or is_product else each)
    return Fraction(float(total / narrow(y)) if is_narrow else float(total) / y)


def scaled_pairs(
    scales: Sequence[Fraction], steps: Int64, reachable: Interval
) -> tuple[Int64, Int64]:
    """The multiplier of 31 bits of each scale with the levels of a product in double.

    The nearest, or the nearest of its neighbours up to 8 away, of two the larger, with which
    each step is where sum * scale in double, ties away from zero, takes it. Raises
    DifferenceError where there is none.
    """
    found = []
    for channel, scale in enumerate(scales):
        first, shift = nearest(scale, 31)
        part = Interval(
            *(end[channel : channel + 1] for end in (reachable.low, reachable.high))
        )
        away = [first] + [first + way * n for n in range(1, 9) for way in (1, -1)]
        fitting = (
            each for each in away if _scales_alike(each, shift, float(scale), steps, part)
        )
        pair = next(fitting, None)
        reach = max(-int(part.low[0]), int(part.high[0])) * float(scale)
        if pair is None or reach >= (1 << 31) - 1:
            raise DifferenceError(f"no multiplier has the levels of {float(scale):.6g}")
        found.append((pair, shift))
    multiplier, shifts = np.array(found, np.int64).T
    return multiplier, shifts


def _scales_alike(
    multiplier: int, shift: int, scale: float, steps: Int64, reachable: Interval
) -> bool:
    """Whether both take each step at one place, or beyond what is reachable."""
    if multiplier >= 1 << 31:
        return False
    pair = np.array([multiplier]), np.array([shift])
    places = meaning_thresholds(*pair, steps, "half_away")
    for sums in (places, places - 1):
        inside = np.clip(sums, reachable.low[:, None], reachable.high[:, None])
        products = inside * np.float64(scale)
        rest, whole = np.modf(np.abs(products))
        theirs = np.copysign(whole + (rest >= 1 / 2), products)
        if ((theirs >= steps) != (inside >= places)).any():
            return False
    return True


def expected_pair(
    scale: Fraction, target: Target, elementwise: bool, of_words: bool = False
) -> tuple[int, int]:
    """The pair on a node. Raises DifferenceError if there is none."""
    multiplier, shift = rule_pair(scale, target, elementwise, of_words)
    rounding = expected_rounding(target, of_words)
    if rounding in _TWO_STEPS:
        return multiplier, shift
    if shift < 1:
        multiplier, shift = multiplier << (1 - shift), 1
    largest = 61 if rounding == "half_to_even" else 62
    while not multiplier % 2 and (multiplier >= 1 << 31 or shift > largest):
        multiplier, shift = multiplier // 2, shift - 1
    if multiplier >= 1 << 31 or not 1 <= shift <= largest:
        raise DifferenceError(f"no node can hold the scale {float(scale):.6g}")
    return multiplier, shift


def rule_pair(
    scale: Fraction | float,
    target: Target,
    elementwise: bool = False,
    of_words: bool = False,
) -> tuple[int, int]:
    """What the rule of the target gives, shifts to the left negative.

    ``elementwise``: that of its own for pools, products and tables, if it has one;
    ``of_words``: that for sums of products with 16 bits. Raises DifferenceError for what the
    target cannot express.
    """
    scale, rule, bits = Fraction(scale), target.multiplier, target.multiplier_bits
    shifts = _shifts(target)
    if elementwise and target.elementwise is not None and target.elementwise_bits is not None:
        rule, bits = target.elementwise, target.elementwise_bits
        shifts = _SHIFTS[rule]
    if of_words and target.word_multiplier and target.word_multiplier_bits:
        rule, bits = target.word_multiplier, target.word_multiplier_bits
        shifts = _SHIFTS[rule]
    if rule == "nearest" and shifts == range(1, 62) and scale >= Fraction(2) ** (bits - 2):
        return 1 << (bits - 1), 1
    multiplier, shift = _derived(scale, rule, bits, shifts)
    lost = multiplier == 0 and scale >= _NOTICED
    if shift > shifts[-1] and scale < _NOTICED:
        return 0, 1
    if lost or shift not in shifts or multiplier > 1 << bits:
        raise DifferenceError(f"its target cannot express the scale {float(scale):.6g}")
    return multiplier, shift


def _shifts(target: Target) -> range:
    return range(target.min_shift, target.max_shift + 1)


_SHIFTS = {
    "nearest": range(1, 62),
    "quantize_multiplier": range(63),
    "quantize_multiplier_single": range(1, 63),
    "quantize_multiplier_reduced": range(8, 47),
    "tosa": range(2, 63),
    "get_scale_and_shift": range(-32, 31),
    "get_scale_and_shift_positive": range(31),
    "rshift_and_multiplier": range(63),
    "rshift_and_multiplier_qdm": range(31, 63),
    "dyadic": range(-31, 63),
}


def _derived(scale: Fraction, rule: str, bits: int, shifts: range) -> tuple[int, int]:
    if rule == "nearest":
        return _nearest(scale, bits, shifts[-1])
    if rule.startswith("get_scale_and_shift"):
        return _least_error(scale, bits, shifts[-1], -32 if rule.endswith("shift") else 0)
    if rule == "quantize_multiplier_reduced":
        whole, shift = _derived(scale, "quantize_multiplier", 31, range(63))
        upper = (whole + 2**15) // 2**16
        return upper - (upper == 2**15), shift - 16
    real = Fraction(float(scale))
    if rule == "rshift_and_multiplier":
        for shift in range(shifts.stop):
            if real * (2 << shift) >= (1 << bits) - 1:
                return int(real * (1 << shift)), shift
        return 0, 0
    if scale == 0:
        return 0, bits
    exponent = real.numerator.bit_length() - real.denominator.bit_length()
    exponent += real >= Fraction(2) ** exponent
    multiplier, shift = int(real * Fraction(2) ** (bits - exponent) + Fraction(1, 2)), bits
    shift -= exponent
    if multiplier == 1 << bits and rule != "dyadic":
        multiplier, shift = multiplier // 2, shift - 1
    if shift > shifts[-1] and rule == "tosa":
        return multiplier >> min(31, shift - shifts[-1]), shifts[-1]
    if shift > shifts[-1] and rule != "dyadic":
        return 0, bits
    if rule == "quantize_multiplier_single" and (multiplier, shift) == (1 << 30, 0):
        return (1 << 31) - 1, 1
    return multiplier, shift


def _nearest(scale: Fraction, bits: int, last: int) -> tuple[int, int]:
    if scale == 0:
        return 0, last
    shift = bits - scale.numerator.bit_length() + scale.denominator.bit_length()
    shift = min(shift - (scale * Fraction(2) ** shift >= 1 << bits), last)
    multiplier = round(scale * Fraction(2) ** shift)
    return (multiplier // 2, shift - 1) if multiplier == 1 << bits else (multiplier, shift)


def _least_error(scale: Fraction, bits: int, last: int, first: int) -> tuple[int, int]:
    """The first of the smallest errors, which are compared as float32."""
    top, bottom = float(np.float32(float(scale))).as_integer_ratio()
    found, least = (0, 0), np.float32(np.inf)
    for shift in range(first, last + 1):
        wanted, one = top << max(shift, 0), bottom << max(-shift, 0)
        multiplier = (2 * wanted + one) // (2 * one)
        if multiplier >= (1 << bits) - 1:
            break
        error = np.float32(abs(multiplier * one - wanted) / (bottom << max(shift, 0)))
        if error < least:
            found, least = (multiplier, shift), error
    return found


def check_computes(
    multiplier: Int64, shift: Int64, steps: Int64, reachable: Interval, target: Target
) -> None:
    """Raise DifferenceError where the target computes other levels than the node means.

    Two roundings: the left shift wraps. A product in floats: it is on the other side of a
    threshold. Both are monotone, so that the ends, and both sides of thresholds, say all.
    """
    if target.rounding in _TWO_STEPS:
        room = (1 << 31) >> np.maximum(31 - shift, 0)
        if (reachable.low < -room).any() or (reachable.high >= room).any():
            raise DifferenceError("its left shift can leave int32")
    real = _IN_FLOAT.get(target.rounding)
    if real is None:
        return
    low, high = reachable.low[:, None], reachable.high[:, None]
    thresholds = meaning_thresholds(multiplier, shift, steps, "half_to_even")
    factor = np.ldexp(multiplier.astype(real), -shift.astype(np.int32)).astype(real)[:, None]
    for offset in (0, -1):
        sums = np.clip(thresholds + offset, low, high)
        if ((np.rint(sums.astype(real) * factor) >= steps) != (sums >= thresholds)).any():
            raise DifferenceError(f"{target.rounding} gives other levels than integers do")
