"""What the kernels of a runtime compute, derived from the float32 scales of a file.

LiteRT's reference kernels, or TensorFlow Lite Micro's: each multiplies and divides scales in
the types that its target says. Measured by running single operators against this arithmetic:
docs/decisions/0057-tflite.md.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import floor

import numpy as np
from numpy.typing import NDArray

from opsets.fixed_point import Int64
from opsets.forms import ADD_FORMS, MEAN_FORMS, SLOPE_FORMS, Pairs, Slopes, sloped
from opsets.multipliers import Pair, ScaleError
from opsets.realised import word_sum_multiplier, word_sum_rounding
from opsets.rounding import NodeRounding, requantize, wraps
from opsets.target import Target, load_target
from qpasses.emit.operations import RefusedError
from qpasses.evidence.thresholds import NEVER
from qpasses.ir.choices import TfliteRuntime

ROUNDING: NodeRounding = "tflite_double"

_TITLES: Mapping[TfliteRuntime, str] = {"litert": "LiteRT", "tflm": "TensorFlow Lite Micro"}


_LACKING: Mapping[TfliteRuntime, Mapping[str, Collection[str]]] = {
    "litert": {},
    "tflm": {
        **dict.fromkeys(("BATCH_MATMUL", "FLOOR_DIV", "FLOOR_MOD", "RIGHT_SHIFT"), ("i32",)),
        **dict.fromkeys(("SELECT_V2", "SUM"), ("i32",)),
        **dict.fromkeys(("ARG_MAX", "GATHER", "REDUCE_MAX", "REDUCE_MIN"), ("i16", "i32")),
        **{"EQUAL": ("i16",), "TRANSPOSE": ("i32", "i1")},
    },
}

_MOST_AXES: Mapping[TfliteRuntime, Mapping[str, int]] = {
    "litert": {"BATCH_MATMUL": 5, "PAD": 5, "PADV2": 5},
    "tflm": {"BATCH_MATMUL": 5, "PAD": 5, "PADV2": 5, "TRANSPOSE": 5},
}

_LONGEST_LIST: Mapping[TfliteRuntime, int] = {"litert": 64, "tflm": 10}


def single(value: float) -> float:
    """As a file holds it."""
    return float(np.float32(value))


@dataclass(frozen=True)
class Runtime:
    """Whose kernels give the integers of a file; ``target``: the rules by which it derives.

    Scales are those of a file. Methods raise RefusedError for what no multiplier expresses.
    """

    name: TfliteRuntime
    target: Target

    @property
    def title(self) -> str:
        """As messages call it."""
        return _TITLES[self.name]

    @property
    def scales_rows(self) -> bool:
        """Whether FULLY_CONNECTED multiplies with scales in double, not with multipliers."""
        return self.target.gemm == "scaled"

    @property
    def word_rounding(self) -> NodeRounding:
        """How sums of products of int16 are rounded, once."""
        return word_sum_rounding(self.target)

    @property
    def lacking(self) -> Mapping[str, Collection[str]]:
        """Operators of which it has no kernel for such elements, beside those of all files."""
        return _LACKING[self.name]

    @property
    def most_axes(self) -> Mapping[str, int]:
        """So many axes operators have at most, where there is a limit."""
        return _MOST_AXES[self.name]

    @property
    def longest_list(self) -> int:
        """So many tensors CONCATENATION takes."""
        return _LONGEST_LIST[self.name]

    @property
    def has_tile(self) -> bool:
        """Whether it has TILE."""
        return self.name == "litert"

    @property
    def tabulates_functions(self) -> bool:
        """Whether LOGISTIC and the like are tables of what float32 gives for each code."""
        return self.name == "litert"

    def scale(self, op: str, operands: Sequence[float], y: float) -> float:
        """The product of the operands' scales over that of y, in the types of the runtime."""
        return float(self.target.real_scale(op, [*map(single, operands)], single(y)))

    def pair(self, op: str, operands: Sequence[float], y: float) -> Pair:
        """QuantizeMultiplier of it."""
        with _refusing():
            return self.target.scale_to_multiplier(self.scale(op, operands, y))

    def of_weights(self, op: str, x: float, weights: Sequence[float], y: float) -> list[Pair]:
        """The same for each channel of weights."""
        return [self.pair(op, (x, each), y) for each in weights]

    def of_words(self, op: str, operands: Sequence[float], y: float) -> Pair:
        """The same of sums of products of int16: QuantizeMultiplier cut to 15 bits."""
        with _refusing():
            return word_sum_multiplier(self.scale(op, operands, y), self.target)

    def of_sum(self, a: float, b: float, y: float, has_words: bool = False) -> Pairs:
        """ADD and SUB of int8, or of int16."""
        with _refusing():
            form = ADD_FORMS[self.target.add_form(has_words)]
            return form.numbers(single(a), single(b), single(y), self.target)

    def sum_levels(self, a: Int64, b: Int64, pairs: Pairs, sign: int) -> Int64:
        """ADD, or SUB with sign -1, of levels."""
        _check_wraps(np.array([_LARGEST_SUM]), pairs[-1])
        return ADD_FORMS[self.target.add].levels(a, b, pairs, ROUNDING, sign)

    def of_mean(self, x: float, y: float, cells: int) -> Pair:
        """MEAN, of the sum of levels."""
        with _refusing():
            real = self.scale("IntReduce", (x,), y)
            return MEAN_FORMS[self.target.mean].numbers(real, cells, self.target)

    def of_slopes(
        self, op: str, x: float, y: float, codes: Sequence[int], slope: float
    ) -> Slopes:
        """PRELU with codes of this scale, LEAKY_RELU with it as alpha, by the name of ONNX."""
        with _refusing():
            form = SLOPE_FORMS[self.target.slopes]
            return form.numbers(op, single(x), single(y), codes, single(slope), self.target)


@cache
def runtime_of(name: TfliteRuntime) -> Runtime:
    """The runtime whose target has the same name."""
    return Runtime(name, load_target(name))


@contextmanager
def _refusing() -> Iterator[None]:
    try:
        yield
    except ScaleError as error:
        raise RefusedError(str(error)) from error


def slope_levels(x: Int64, numbers: Slopes) -> Int64:
    """PRELU, LEAKY_RELU of levels. Raises RefusedError where they wrap."""
    (multiplier, shift), codes = numbers.below[0], np.asarray(numbers.codes)
    _check_wraps(np.maximum(x, 0), numbers.above)
    _check_wraps(np.minimum(x, 0) * codes, (abs(multiplier), shift))
    return sloped(x, numbers, ROUNDING)


def levels_of(acc: Int64, numbers: Pair) -> Int64:
    """MultiplyByQuantizedMultiplier. Raises RefusedError where it wraps."""
    _check_wraps(acc, numbers)
    return requantize(acc, *numbers, ROUNDING)


def _check_wraps(acc: Int64, numbers: Pair) -> None:
    if wraps(acc, numbers[1], ROUNDING).any():
        raise RefusedError("its sums wrap in the runtime as they are shifted to the left")


_LARGEST_SUM = 2 * 255 << 20
"""Of two levels, shifted."""


def fully_connected_thresholds(scales: Sequence[float], steps: Int64) -> Int64:
    """[C, K]: the smallest accumulator whose product with the scale, in double, rounds to the
    step or more, ties away from zero: FULLY_CONNECTED [d].
    """
    found = np.empty((len(scales), len(steps)), np.int64)
    for channel, scale in enumerate(scales):
        for place, step in enumerate(steps.tolist()):
            found[channel, place] = _threshold(scale, step)
    return np.clip(found, -NEVER, NEVER)


def _threshold(scale: float, step: int) -> int:
    """A product in double is off by less than two accumulators: those around are tried."""
    if scale <= 0 or scale < 2.0**-40:
        return int(NEVER if step > 0 else -NEVER)
    near = floor((Fraction(step) - Fraction(1, 2)) / Fraction(scale))
    for acc in range(near - 2, near + 4):
        product = float(acc) * scale
        level = floor(abs(product) + 0.5) * (1 if product >= 0 else -1)
        if level >= step:
            return acc
    return int(NEVER)


_ACTIVATIONS = {
    "NONE": (None, None),
    "RELU": (0.0, None),
    "RELU6": (0.0, 6.0),
    "RELU_N1_TO_1": (-1.0, 1.0),
}


def activation(scale: float, zero: int, low: int, high: int, limits: range) -> str | None:
    """The fused activation that keeps codes from ``low`` to ``high``, if there is one."""
    for name, ends in _ACTIVATIONS.items():
        codes = [None if end is None else _code(end, scale, zero) for end in ends]
        least = limits[0] if codes[0] is None else max(limits[0], codes[0])
        most = limits[-1] if codes[1] is None else min(limits[-1], codes[1])
        if (least, most) == (low, high):
            return name
    return None


def _code(real: float, scale: float, zero: int) -> int:
    """CalculateActivationRangeQuantized: a quotient in float32, ties away from zero."""
    level = float(np.float32(real) / np.float32(scale))
    return zero + (floor(level + 0.5) if level >= 0 else -floor(-level + 0.5))


RESIZE_STEPS = 1 << 10
"""RESIZE_BILINEAR's coefficients are whole numbers of so many."""


def resize_rows(
    size: int, wanted: int, *, align_corners: bool, half_pixel: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of RESIZE_BILINEAR along an axis: two places [2, wanted], and their coefficients."""
    if align_corners and wanted > 1:
        step = ((size - 1) * RESIZE_STEPS + (wanted - 1) // 2) // (wanted - 1)
    else:
        step = (size * RESIZE_STEPS + wanted // 2) // wanted
    at = np.arange(wanted, dtype=np.int64) * step
    if half_pixel:
        at = at + step // 2 - RESIZE_STEPS // 2
    floors = at // RESIZE_STEPS
    low = np.maximum(floors, 0)
    high = np.minimum((at + RESIZE_STEPS - 1) // RESIZE_STEPS, size - 1)
    part = at - RESIZE_STEPS * low
    return np.stack([low, high]), np.stack([RESIZE_STEPS - part, part])
