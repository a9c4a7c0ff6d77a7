"""Recurrent nets: tables of their activations, multipliers and shifts of their sums."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, log2
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.activations import Activation, settle
from opsets.fixed_point import ROUNDINGS, saturating_multiplier
from opsets.multipliers import ScaleError
from opsets.target import Target
from opsets.word_products import furthest
from qpasses.ir.record import Quantization
from qpasses.ir.rewriting import States

FINEST = 15
"""Bits behind the point that an entry of a table has at most: 1 is 2**15."""

GATE_BITS = 11
"""Bits behind the point of sums of gates whose functions settle within -16 and 16."""

LEAST_BITS, DOUBLE_BITS = 16, 51
"""Multipliers have so many bits at least; their products so many at most, if they can."""

WORDS = np.arange(1 << 16).astype(np.uint16).view(np.int16)
"""The sums that a table has entries for, in its order."""


@dataclass(frozen=True)
class Table:
    """Entries, and what one step of them is."""

    entries: NDArray[Any]
    step: Fraction

    @property
    def largest(self) -> int:
        """The size of the largest entry."""
        return int(np.abs(self.entries.astype(np.int64)).max())


def takes_recurrent(target: Target) -> bool:
    """Whether its multipliers and roundings are those that these numbers follow."""
    is_nearest = target.multiplier == "nearest" and target.rounding in ROUNDINGS
    return is_nearest and target.tables and target.word_tables


def step_of_sums(functions: Sequence[Activation], reach: float) -> Fraction:
    """A power of two: the step of sums of gates, which reach no farther than ``reach``.

    Of functions that settle it is 2**-11, so that sums saturate beyond 16.
    """
    return Fraction(1, 1 << GATE_BITS) if settle(functions) else _step_to(reach)


def _step_to(reach: float) -> Fraction:
    """The power of two in which 16 bits reach so far, 2**-11 at least."""
    bits = ceil(log2(max(reach, 1.0) / 32767))
    return Fraction(2) ** max(bits, -GATE_BITS)


def table_of(function: Activation, step: Fraction | float, words: bool = False) -> Table:
    """``function`` of all sums in steps of ``step``, with as many bits as fit.

    uint16 for what is never negative, unless ``words``: int16.
    """
    real = function(WORDS.astype(np.float64) * float(step))
    is_unsigned = not words and real.min() >= 0
    dtype = np.dtype(np.uint16 if is_unsigned else np.int16)
    most = 65535 if is_unsigned else 32768  # one more than there is: rounded down
    largest = float(np.abs(real).max())
    bits = FINEST
    while largest * 2.0**bits > most:
        bits -= 1
    limits = np.iinfo(dtype)
    entries = np.clip(np.rint(real * 2.0**bits), limits.min, limits.max)
    return Table(entries.astype(dtype), Fraction(2) ** -bits)


def table_of_codes(function: Activation, step: Fraction, y: Quantization) -> NDArray[Any]:
    """``function`` of all sums as codes of y."""
    levels = np.rint(function(WORDS.astype(np.float64) * float(step)) / y.scale) + y.zero_point
    return np.asarray(np.clip(levels, *y.limits), y.dtype)


def pairs(
    scales: Iterable[Fraction], reaches: Iterable[int], target: Target
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Multipliers and shifts nearest to ``scales``, of integers that reach so far.

    Of as many bits as the target has, fewer where a product would leave 51.
    """
    found = []
    for scale, reach in zip(scales, reaches, strict=True):
        room = DOUBLE_BITS - max(reach - 1, 0).bit_length()
        bits = min(target.multiplier_bits, max(room, LEAST_BITS))
        found.append(saturating_multiplier(scale, bits))
    multipliers, shifts = zip(*found, strict=True)
    return np.array(multipliers, np.int32), np.array(shifts, np.int32)


def pair(scale: Fraction, reach: int, target: Target) -> tuple[NDArray[Any], NDArray[Any]]:
    """One multiplier and shift."""
    multiplier, shift = pairs([scale], [reach], target)
    return multiplier[0], shift[0]


@dataclass(frozen=True)
class Weights:
    """Stored weights w [I, rows] and r [H, rows] with a scale for each row, and real biases.

    ``r_bias`` is added to sums of states; ``peepholes``: [3 H], of an LSTM.
    """

    w: NDArray[np.int8]
    w_scales: list[float]
    r: NDArray[np.int8]
    r_scales: list[float]
    bias: NDArray[np.float64]
    r_bias: NDArray[np.float64]
    peepholes: NDArray[np.float64]


@dataclass(frozen=True)
class Numbers:
    """The constants of a node behind x_zero, before the ends of y, by name in order.

    ``shared``: those that nodes with equal ones share. ``steps``: of the sums of gates; of a
    GRU also that of the sums of its state that are reset, where it resets sums.
    ``attributes``: of the node.
    """

    own: Mapping[str, NDArray[Any]]
    shared: frozenset[str]
    steps: Sequence[Fraction]
    attributes: Mapping[str, Any] = field(default_factory=dict)


def lstm_numbers(
    weights: Weights,
    functions: Sequence[Activation],
    x: Quantization,
    states: States,
    target: Target,
) -> Numbers:
    """Those of IntLstm: i, o and f of the first function, g of the second, h of the third."""
    cell, y = states.cell, states.hidden
    unit = Fraction(cell.scale)
    sums, (step, _) = _sums(weights, functions[:2], x, y, target)
    f, g = table_of(functions[0], step), table_of(functions[1], step, True)
    h = table_of(functions[2], unit, True)
    seen = [Fraction(float(each)) * unit / step for each in weights.peepholes]
    holes = pairs(map(abs, seen), [_WORD] * len(seen), target)
    signs = np.array([-1 if each < 0 else 1 for each in seen], np.int32)
    kept = pairs(
        [f.step, f.step * g.step / unit],
        [f.largest * _WORD, f.largest * g.largest],
        target,
    )
    shown = pair(f.step * h.step / Fraction(y.scale), f.largest * h.largest, target)
    own = {
        **sums,
        **named("p", (holes[0] * signs, holes[1])),
        **{"f_table": f.entries, "g_table": g.entries, "h_table": h.entries},
        **named("c", kept),
        **dict(zip(("c_min", "c_max"), np.array([-32768, 32767], np.int16), strict=True)),
        **named("y", shown),
    }
    return Numbers(own, frozenset({"f_table", "g_table", "h_table"}), [step])


def gru_numbers(
    weights: Weights,
    functions: Sequence[Activation],
    x: Quantization,
    states: States,
    target: Target,
    last: bool = False,
) -> Numbers:
    """Those of IntGru: z and r of the first function, n of the second.

    ``last``: whether what is reset are the sums of the state.
    """
    cell, y = states.cell, states.hidden
    apart = weights.r.shape[0] if last else 0
    sums, (step, own_step) = _sums(weights, functions, x, y, target, apart=apart)
    unit = Fraction(cell.scale)
    f, g = table_of(functions[0], step), table_of(functions[1], step, True)
    r_steps = [y.scale * each for each in weights.r_scales]
    reset = f.step * (own_step / step if last else unit / Fraction(y.scale))
    rest = int(1 / f.step)
    if not rest:
        raise ScaleError("its gates reach so far that 1 is no step of their 16 bits")
    blend = pairs(
        [f.step * g.step / unit, f.step],
        [(rest + f.largest) * g.largest, f.largest * _WORD],
        target,
    )
    own = {
        **sums,
        "r_bias": stored_bias(weights.r_bias, np.array(r_steps)),
        **{"f_table": f.entries, "g_table": g.entries, "one": np.array(rest, np.int32)},
        **named("reset", pair(reset, f.largest * _WORD, target)),
        **named("b", blend),
        **named("y", pair(unit / Fraction(y.scale), _WORD, target)),
    }
    return Numbers(own, frozenset({"f_table", "g_table"}), [step, own_step])


def rnn_numbers(
    weights: Weights,
    functions: Sequence[Activation],
    x: Quantization,
    states: States,
    target: Target,
) -> Numbers:
    """Those of IntRnn: its table gives codes of y."""
    sums, (step, _) = _sums(weights, functions, x, states.hidden, target)
    table = table_of_codes(functions[0], step, states.hidden)
    return Numbers({**sums, "f_table": table}, frozenset({"f_table"}), [step])


_WORD = 1 << 15


def named(name: str, scale: tuple[NDArray[Any], NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """A multiplier and a shift by their names."""
    return {f"{name}_multiplier": scale[0], f"{name}_shift": scale[1]}


def _sums(
    weights: Weights,
    functions: Sequence[Activation],
    x: Quantization,
    y: Quantization,
    target: Target,
    apart: int = 0,
) -> tuple[dict[str, NDArray[Any]], tuple[Fraction, Fraction]]:
    """What makes the sums of gates, by name, and their step.

    What peepholes add is not asked for: a coarser step loses more. The last ``apart`` rows of
    the state have a step of their own, in which no sum saturates; it comes second.
    """
    x_steps = np.array([x.scale * each for each in weights.w_scales])
    h_steps = np.array([y.scale * each for each in weights.r_scales])
    bias = stored_bias(weights.bias, x_steps)
    r_bias = stored_bias(weights.r_bias, h_steps)
    of_x, of_h = _reaches(weights.w, bias, x), _reaches(weights.r, r_bias, y)
    reach_x, reach_h = of_x * x_steps, of_h * h_steps
    step = step_of_sums(functions, float(np.max(reach_x + reach_h, initial=0)))
    shared = len(h_steps) - apart
    own_step = max(step, _step_to(float(np.max(reach_h[shared:], initial=0))))
    steps = [step] * shared + [own_step] * apart
    x_scales = [Fraction(x.scale) * Fraction(each) / step for each in weights.w_scales]
    h_scales = [
        Fraction(y.scale) * Fraction(each) / own
        for each, own in zip(weights.r_scales, steps, strict=True)
    ]
    found: dict[str, NDArray[Any]] = {
        **{"w": weights.w, "r": weights.r, "bias": bias},
        **named("x", pairs(x_scales, of_x.tolist(), target)),
        **named("h", pairs(h_scales, of_h.tolist(), target)),
    }
    return found, (step, own_step)


def _reaches(
    weights: NDArray[np.int8], bias: NDArray[np.int32], codes: Quantization
) -> NDArray[np.int64]:
    """How far the sum of each column of stored ``weights`` [K, N] can reach."""
    sizes = np.abs(weights.astype(np.int64)).sum(axis=0) * furthest(codes.zero)
    return np.asarray(sizes + np.abs(bias.astype(np.int64)))


def stored_bias(bias: NDArray[Any], steps: NDArray[np.float64]) -> NDArray[np.int32]:
    """Real biases in ``steps`` of their sums, rounded half to even."""
    levels = np.rint(bias / steps)
    return np.asarray(np.clip(levels, -(1 << 30), 1 << 30), np.int32)
