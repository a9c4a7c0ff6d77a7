"""The LSTM of TensorFlow Lite Micro, CMSIS-NN and LiteRT in plain loops, as it is published.

It judges, so it shares no code with the product: Python's integers, one number at a time.
Sources: tflite-micro, tensorflow/lite/micro/kernels/lstm_eval.cc and lstm_eval_common.cc;
CMSIS-NN, arm_nn_lstm_step_s8.c and _s16.c, arm_nn_vec_mat_mul_result_acc_s8_s16.c,
arm_nn_activation_s16.c; TensorFlow, lite/kernels/lstm_eval.cc,
unidirectional_sequence_lstm.cc and internal/reference/portable_tensor_utils.cc; gemmlowp,
fixedpoint/fixedpoint.h.
"""

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

GATES = "ifgo"
"""Input, forget, cell and output gate, as the operator has them in order."""

Row = Sequence[int]
Rows = Sequence[Row]


@dataclass(frozen=True)
class Gate:
    """Stored weights of a gate, a row for each unit, with a scale each, and its bias."""

    w: Rows
    r: Rows
    bias: Row
    w_scale: float
    r_scale: float


@dataclass(frozen=True)
class Lstm:
    """What an operator has: gates by letter, scales and zero points of what it reads and
    gives, the power of two of its cells, and the largest cell; ``wide``: 16 bits in and out,
    ``unsigned``: codes of 8 bits from 0 on.
    """

    gates: dict[str, Gate]
    x_scale: float
    x_zero: int
    h_scale: float
    h_zero: int
    cell_power: int
    clip: int
    wide: bool = False
    unsigned: bool = False


def float32(value: float) -> float:
    """``value`` as float32."""
    found: float = struct.unpack("f", struct.pack("f", value))[0]
    return found


def quantize_multiplier(real: float) -> tuple[int, int]:
    """A multiplier with 31 bits and a left shift."""
    if real == 0:
        return 0, 0
    part, shift = math.frexp(real)
    whole = math.floor(part * 2.0**31 + 0.5)
    if whole == 1 << 31:
        whole, shift = whole >> 1, shift + 1
    return (0, 0) if shift < -31 else (whole, shift)


def clamp(value: int, low: int, high: int) -> int:
    """Within these ends."""
    return max(low, min(high, value))


def word(value: int) -> int:
    """Saturated to 16 bits."""
    return clamp(value, -32768, 32767)


def divided_by_power(value: int, power: int) -> int:
    """Rounded to the nearest, ties away from zero."""
    if power == 0:
        return value
    size = (abs(value) + (1 << power - 1)) >> power
    return size if value >= 0 else -size


def times(value: int, pair: tuple[int, int]) -> int:
    """MultiplyByQuantizedMultiplier of int32, with its two roundings."""
    multiplier, shift = pair
    moved = (value << max(shift, 0)) + (1 << 31) & 0xFFFFFFFF
    high = ((moved - (1 << 31)) * multiplier + (1 << 30)) >> 31
    return divided_by_power(high, max(-shift, 0))


def wide_times(value: int, pair: tuple[int, int]) -> int:
    """The same of int64: with 15 bits of the multiplier, rounded once, ties up."""
    multiplier, shift = pair
    short = (multiplier + (1 << 15)) >> 16 if multiplier < 0x7FFF0000 else 0x7FFF
    right = 15 - shift
    return (value * short + (1 << right - 1)) >> right


@cache
def sigmoid_steps() -> Sequence[int]:
    """sigmoid(k / 24) in steps of 2**-16, raised by half of what a chord is too low."""
    found = []
    for k in range(255):
        s = 1 / (1 + math.exp(-k / 24))
        bend = s * (1 - s) * (1 - 2 * s) / 576
        found.append(round(65536 * (s - bend / 16)))
    return [*found, 65535]


def by_steps(value: int, left: int, is_tanh: bool) -> int:
    """Sigmoid, or Tanh, of value * 2**left in steps of 2**-12: 15 bits behind the point."""
    half = 1 << -left - 1 if left < 0 else 0
    value = (3 * value << max(left, 0)) + half >> max(-left, 0)
    size, bits = abs(value), 8 if is_tanh else 9
    place = size >> bits
    if place >= 255:
        level = 0xFFFF << 8 if is_tanh else 0x7FFF << 10
    else:
        steps = sigmoid_steps()
        rest = size & (1 << bits) - 1
        level = (steps[place] << bits) + rest * (steps[place + 1] - steps[place])
    if is_tanh:
        rounded = level - (1 << 23) + 128 if value >= 0 else (1 << 23) - level + 127
        return rounded >> 8
    return (level + 512 if value >= 0 else (1 << 25) - level + 511) >> 10


def _short(constant: int) -> int:
    """A constant of 32 bits with 16."""
    return divided_by_power(constant, 16)


def _high(a: int, b: int) -> int:
    """SaturatingRoundingDoublingHighMul of int16."""
    return min((a * b + (1 << 14)) >> 15, 32767)


def _exp_near_zero(a: int) -> int:
    x = a + (1 << 12)
    x2 = _high(x, x)
    x3, x4 = _high(x2, x), _high(x2, x2)
    third = _high(word(divided_by_power(x4, 2) + x3), _short(715827883))
    rest = divided_by_power(word(third + x2), 1)
    term = _short(1895147668)
    return word(term + _high(term, word(x + rest)))


_POWERS = 1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242


def _exp(a: int, bits: int) -> int:
    """exp of a <= 0 with ``bits`` before the point."""
    behind = 15 - bits
    if a == 0:
        return 32767
    quarter = 1 << behind - 2
    low = (a & quarter - 1) - quarter
    found, rest = _exp_near_zero(low << bits), low - a
    for place, constant in zip(range(-2, bits), _POWERS, strict=False):
        if rest & 1 << behind + place:
            found = _high(found, _short(constant))
    return 0 if bits > 5 and a < -(1 << 36 - bits >> 16) else found


def _newton(a: int) -> int:
    """2 / (1 + a), two bits before the point, of a from 0 to 1."""
    half = (a + 32767 + 1) // 2
    x = word(_short(1515870810) + _high(half, _short(-1010580540)))
    for _ in range(3):
        error = word(8192 - _high(half, x))
        x = word(x + word(_high(x, error) << 2))
    return x


def gemmlowp_logistic(a: int, bits: int = 3) -> int:
    """15 bits behind the point, of a with ``bits`` before it."""
    if a == 0:
        return 16384
    found = word(_newton(_exp(-abs(a), bits)) << 1)
    return found if a > 0 else 32767 - found


def gemmlowp_tanh(a: int, bits: int) -> int:
    """The same."""
    if a == 0:
        return 0
    doubled = max(-abs(a), -32768)
    found = word((_newton(_exp(doubled, bits + 1)) - 8192) << 2)
    return found if a > 0 else -found


def run(lstm: Lstm, x: Sequence[Rows], kernel: str) -> list[list[list[int]]]:
    """Stored x [T][B][I] -> [T][B][H], as ``kernel`` computes it: tflm, cmsis or litert.

    A name with ``in float32`` or ``in double`` derives multipliers as that kernel does not.
    """
    return run_with_cells(lstm, x, kernel)[0]


def run_with_cells(
    lstm: Lstm, x: Sequence[Rows], kernel: str
) -> tuple[list[list[list[int]]], list[list[int]]]:
    """The same, and the cells after the last step."""
    batch, hidden = len(x[0]), len(lstm.gates["i"].w)
    h = [[lstm.h_zero] * hidden for _ in range(batch)]
    c = [[0] * hidden for _ in range(batch)]
    found = []
    numbers = _Numbers(lstm, kernel)
    for rows in x:
        for b, row in enumerate(rows):
            h[b], c[b] = numbers.step(row, h[b], c[b])
        found.append([list(each) for each in h])
    return found, c


class _Numbers:
    """What a kernel derives from scales, and one step."""

    def __init__(self, lstm: Lstm, kernel: str) -> None:
        self.lstm, self.kernel = lstm, kernel.split()[0]
        is_single = kernel == "litert" or kernel.endswith("float32")
        held = float32 if is_single else float
        self.pairs = {
            name: [
                quantize_multiplier(held(codes * scale) * 4096.0)
                for codes, scale in (
                    (lstm.x_scale, gate.w_scale),
                    (lstm.h_scale, gate.r_scale),
                )
            ]
            for name, gate in lstm.gates.items()
        }
        self.shown = quantize_multiplier(held(2.0**-30 / lstm.h_scale))

    def sums(self, name: str, x: Row, h: Row) -> list[int]:
        lstm, gate = self.lstm, self.lstm.gates[name]
        scaled = wide_times if lstm.wide else times
        found = []
        for w, r, bias in zip(gate.w, gate.r, gate.bias, strict=True):
            of_x = sum(a * (b - lstm.x_zero) for a, b in zip(w, x, strict=True)) + bias
            of_h = sum(a * (b - lstm.h_zero) for a, b in zip(r, h, strict=True))
            first = word(scaled(of_x, self.pairs[name][0]))
            second = scaled(of_h, self.pairs[name][1])
            found.append(word(first + (word(second) if self.kernel == "tflm" else second)))
        return found

    def function(self, value: int, is_tanh: bool, power: int = -12) -> int:
        if self.kernel != "litert":
            return by_steps(value, power + 12, is_tanh)
        return gemmlowp_tanh(value, 15 + power) if is_tanh else gemmlowp_logistic(value)

    def step(self, x: Row, h: Row, c: Row) -> tuple[list[int], list[int]]:
        lstm, power = self.lstm, self.lstm.cell_power
        gates = {
            name: [self.function(each, name == "g") for each in self.sums(name, x, h)]
            for name in GATES
        }
        new_h, new_c = [], []
        for k, old in enumerate(c):
            cell = self.cell(gates["f"][k] * old, gates["i"][k] * gates["g"][k])
            level = times(gates["o"][k] * self.function(cell, True, power), self.shown)
            ends = (-32768, 32767) if lstm.wide else (-128, 127)
            ends = (0, 255) if lstm.unsigned else ends
            new_c.append(cell)
            new_h.append(clamp(level + lstm.h_zero, *ends))
        return new_h, new_c

    def cell(self, kept: int, made: int) -> int:
        power = self.lstm.cell_power
        if self.kernel == "litert":
            parts = divided_by_power(kept, 15), divided_by_power(made, 30 + power)
        else:
            old, new = (quantize_multiplier(each) for each in (2.0**-15, 2.0 ** (-30 - power)))
            parts = word(times(kept, old)), times(made, new)
            if self.kernel == "tflm":
                parts = parts[0], word(parts[1])
        total = word(parts[0] + parts[1])
        return clamp(total, -self.lstm.clip, self.lstm.clip)
