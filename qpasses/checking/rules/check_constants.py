"""How the constants of a float graph are stored: weights, biases and other operands."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.row_blocks import blocks
from qpasses.checking.meaning import DifferenceError, Site
from qpasses.checking.rules.check_rounding import keep_sums
from qpasses.ir.graph import Tensor, constant
from qpasses.ir.record import Quantization
from qpasses.ir.settings import Settings

_TINY = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True)
class Matrix:
    """Stored weights and bias with the scale of each channel, or the one of all of them.

    ``raised``: the channels whose scale is wider because of their bias; ``zero``: the one zero
    point; ``real_bias``: what a record says of biases that are no whole numbers.
    """

    weights: NDArray[Any]  # int8 or uint8
    bias: NDArray[np.int32]
    scale: NDArray[np.floating[Any]]
    raised: list[int]
    zero: int = 0
    real_bias: Sequence[float] = ()


def kept_matrix(
    site: Site, bias: Tensor | None, axis: int, x_scale: NDArray[np.float64], per_channel: bool
) -> Matrix | None:
    """Weights and bias as the original has them; None where no integer node can.

    A scale for each channel along ``axis``, if ``per_channel`` allows several; integers
    without their zero point that fit int8, or uint8 with a zero point as near to 128 as they
    allow; a bias that is no integer in steps of the products is the nearest, 2**30 at most,
    with weights of six bits shifted left as far as they fit int8.
    """
    codes = site.pair.known.codes.get(site.first.inputs[1].name)
    if codes is None:
        return None
    low, high = int(codes.levels.min(initial=0)), int(codes.levels.max(initial=0))
    if not codes.scale.size or high - low > 255:
        return None
    inner = tuple(each for each in range(codes.scale.ndim) if each != axis % codes.scale.ndim)
    steps = codes.scale.min(axis=inner)
    if (steps != codes.scale.max(axis=inner)).any():
        return None
    signed = low >= -128 and high <= 127
    zero = 0 if signed else max(-low, min(128, 255 - high))
    scale = steps if np.unique(steps).size > 1 else steps[:1]
    if scale.size > 1 and not per_channel:
        return None
    with np.errstate(over="ignore"):  # it is asked next
        narrow, channels = scale.astype(np.float32), codes.levels.shape[axis]
    if not np.isfinite(narrow).all() or not narrow.all():
        return None
    kind = np.int8 if signed else np.uint8
    whole = np.add(codes.levels, zero, dtype=np.int16) if zero else codes.levels
    if bias is None:
        levels = whole.astype(kind, copy=False)
        return Matrix(levels, np.zeros(channels, np.int32), narrow, [], zero)
    given = site.pair.known.codes.get(bias.name)
    products = np.broadcast_to(x_scale * narrow.astype(np.float64), channels)
    if given is not None and (np.abs(given.scale - products) <= 1e-6 * products).all():
        weights = whole.astype(kind, copy=False)
        return Matrix(weights, given.stored, narrow, [], zero)
    numbers = constant(bias) if given is None else given.stored * given.scale
    real = np.asarray(numbers, np.float64)
    if not zero and max(-low, high) <= 1 << 5:
        rows = np.moveaxis(np.abs(whole), axis, 0).reshape(channels, -1).max(axis=1, initial=1)
        largest = rows if narrow.size > 1 else rows.max(keepdims=True)
        finer = np.array([max(n for n in range(8) if m << n <= 127) for m in largest.tolist()])
        column = [-1 if k == axis else 1 for k in range(whole.ndim)]
        whole, narrow = whole * (1 << finer).reshape(column), np.ldexp(narrow, -finer)
        products = np.broadcast_to(x_scale * narrow.astype(np.float64), channels)
    quotients = real / products
    if np.abs(quotients).max(initial=0) > 1 << 30:
        return None
    weights = whole.astype(kind, copy=False)
    nearest = np.rint(quotients).astype(np.int32)
    return Matrix(weights, nearest, narrow, [], zero, tuple(real.tolist()))


def stored_matrix(
    weights: NDArray[Any],
    bias: NDArray[Any] | None,
    axis: int,
    x_scale: NDArray[np.float64],
    per_channel: bool,
    op: str,
    rule: str,
    keeps_sums: bool = False,
) -> Matrix:
    """Weights, most often int8, channels along ``axis``, and int32 biases in their steps.

    The largest weight is 127, unless ``rule`` says else, or the bias needs a wider scale to
    stay below 2**30. A channel of zeros stores its bias in 24 bits. The step of a bias is
    2**-120 at least. ``keeps_sums``: weights are not the nearest levels, see check_rounding.
    Raises DifferenceError.
    """
    channels = weights.shape[axis]
    if not per_channel and np.size(x_scale) > 1:
        raise DifferenceError(
            "channels of what it reads have scales of their own, its weights one for all"
        )
    others = tuple(k for k in range(weights.ndim) if k != axis % weights.ndim)
    tops = weights.max(axis=others, initial=0.0), -weights.min(axis=others, initial=0.0)
    largest = np.maximum(*tops).astype(np.float64)
    added = np.zeros(channels) if bias is None else bias.astype(np.float64)
    size = np.abs(added)
    if not per_channel:
        largest, worst = (
            largest.max(initial=0.0, keepdims=True),
            size.max(initial=0.0, keepdims=True),
        )
    else:
        worst = size
    needed = worst / (x_scale * 2.0**30) * (1 + 2.0**-20)
    unsigned = (
        rule != "nearest" and op == "Conv" and bias is None and weights.min(initial=0) >= 0
    )
    low, high = (0, 255) if unsigned else (-128, 127)
    wanted = _wanted(op, rule, weights, largest, (low, high))
    widened = (needed > wanted) & (wanted > 0)
    scale = np.where(wanted > 0, np.maximum(wanted, needed), worst / (x_scale * 2.0**24))
    scale = np.where(scale > 0, np.maximum(scale, 2.0**-120 / x_scale), 1.0)
    step = scale.astype(wanted.dtype)
    columns = [channels if per_channel and k == axis else 1 for k in range(weights.ndim)]
    nearest = np.rint if rule == "nearest" else _half_away
    steps = np.broadcast_to(step.astype(np.float64).reshape(columns), weights.shape)
    codes = np.empty(weights.shape, np.uint8 if unsigned else np.int8)
    real, per, whole = (np.moveaxis(each, axis, 0) for each in (weights, steps, codes))
    for part in blocks(real):
        quotients = real[part].astype(np.float64) / per[part]
        levels = np.clip(nearest(quotients), low, high)
        if keeps_sums:
            levels = keep_sums(quotients, levels.astype(np.int64), low, high)
        whole[part] = levels
    bias_levels = nearest(added / (np.float64(x_scale) * step.astype(np.float64)))
    raised = np.flatnonzero(widened & (size == worst)).tolist()
    return Matrix(
        codes,
        bias_levels.astype(np.int32),
        step,
        raised,
    )


def _wanted(
    op: str,
    rule: str,
    weights: NDArray[Any],
    largest: NDArray[np.float64],
    codes: tuple[int, int],
) -> NDArray[np.floating[Any]]:
    """The scales by ``rule``: 0 where it has none."""
    if rule == "nearest":
        return np.asarray(largest / 127, np.float32)
    if op != "Conv":
        return np.asarray(largest / 127)
    for times in (1, 2, 4, 8, 16, 32, 64):
        whole = weights.astype(np.float64) * times
        if not (whole % 1).any() and codes[0] <= whole.min() and whole.max() <= codes[1]:
            return np.full(largest.shape, 1 / times, np.float32)
    return np.maximum(largest / codes[1], np.float32(1e-5)).astype(np.float32)


def _half_away(quotients: NDArray[np.float64]) -> NDArray[np.float64]:
    rest, whole = np.modf(quotients)
    return np.asarray(whole + np.trunc(2 * rest))


def meaning_of_constant(values: NDArray[Any], settings: Settings) -> Quantization:
    """Its extremes and zero span all codes; symmetric settings: as far on both sides.

    But where the target stores unsigned what is never negative.
    """
    low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
    first, last = settings.limits
    middle = settings.middle
    unsigned = settings.target.non_negative == "unsigned" and low == 0
    symmetric = settings.symmetric and not unsigned
    span, codes = (max(-low, high), last - middle) if symmetric else (high - low, last - first)
    in_double = settings.target.scale_type == "double"
    scale = span / codes if in_double else float(np.float32(span / codes))
    scale = scale if scale >= _TINY else 1.0
    if not symmetric:
        middle = min(max(first + round(Fraction(-low) / Fraction(scale)), first), last)
    return settings.quantization(scale, middle, settings.activation_type)


def meaning_of_words(values: NDArray[Any], settings: Settings) -> Quantization:
    """Of 16 bits, as far on both sides of 0."""
    span = max(-min(float(values.min()), 0.0), max(float(values.max()), 0.0))
    in_double = settings.target.scale_type == "double"
    scale = span / 32767 if in_double else float(np.float32(span / 32767))
    return Quantization(scale if scale >= _TINY else 1.0, 0, "int16")


def operand(site: Site, ours: Tensor, theirs: Tensor) -> Quantization:
    """How an operand is stored, constants included. Raises DifferenceError, UnknownError."""
    values = constant(theirs)
    if values is None:
        return site.operand(ours, theirs)
    recorded = site.pair.record.tensors.get(ours.name)
    if recorded is not None and recorded.dtype == "int16":
        kept, meaning = None, meaning_of_words(values, site.settings)
    else:
        kept = _kept_operand(site, theirs)
        meaning = meaning_of_constant(values, site.settings) if kept is None else kept[0]
    levels = np.rint(values.astype(np.float64) / meaning.scale) + meaning.zero_point
    expected = np.clip(levels, *meaning.limits).astype(meaning.dtype)
    if kept is not None:
        expected = kept[1]
    found = constant(ours)
    if found is None or found.dtype != expected.dtype or not np.array_equal(found, expected):
        raise DifferenceError(f"{ours.name!r} does not store the constant {theirs.name!r}")
    if recorded != meaning:
        raise DifferenceError(f"the record of {ours.name!r} is not that of its constant")
    site.pair.operands.add(ours.name)
    return meaning


def _kept_operand(site: Site, theirs: Tensor) -> tuple[Quantization, NDArray[Any]] | None:
    """A constant as the original stores it, the zero point as near to the middle as it can."""
    codes, dtype = site.pair.known.codes.get(theirs.name), site.settings.activation_type
    if codes is None or not codes.levels.size or np.unique(codes.scale).size > 1:
        return None
    low, high = int(codes.levels.min(initial=0)), int(codes.levels.max(initial=0))
    if high - low > 255:
        return None
    first, last, middle = (0, 255, 128) if dtype == "uint8" else (-128, 127, 0)
    zero = max(first - low, min(middle, last - high))
    meaning = Quantization(float(codes.scale.flat[0]), zero, dtype)
    return meaning, (codes.stored + zero).astype(dtype)


def stores_nearest(
    real: NDArray[Any],
    stored: NDArray[Any],
    scale: NDArray[Any],
    zero: NDArray[Any],
    axis: int,
) -> bool:
    """Whether each number of ``real`` is stored as the nearest level, none saturated."""
    if stored.shape != real.shape:
        return False
    column = [1] * real.ndim
    if scale.ndim:
        column[axis] = -1
        scale, zero = scale.reshape(column), zero.reshape(column)
    with np.errstate(divide="ignore", invalid="ignore"):  # a scale of 0 stores nothing
        levels = np.rint(real.astype(np.float64) / scale.astype(np.float64))
    return bool(np.array_equal(stored.astype(np.int64) - zero.astype(np.int64), levels))
