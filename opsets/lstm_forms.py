"""LSTM forms: the kernels of LSTM that a target may have, by their published arithmetic.

A form says what the numbers of an IntLstm are, so that it computes the bits of that kernel:
weights have one scale for each gate; sums of gates have steps of 2**-12, their multipliers are
those of the target's rule, of the scale of codes times that of weights over 2**-12 (as the op
IntLstm of its rule ``scales``); gates have 15 bits behind the point; cells int16 with a power
of two, from -32767 to 32767; hidden states are requantized by 2**-30 over their scale.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from opsets.lstm_tables import (
    GATE_POWER,
    Table,
    chord_sigmoid,
    chord_tanh,
    gemmlowp_sigmoid,
    gemmlowp_tanh,
)
from opsets.multipliers import Pair

NEAREST = "nearest"
"""What targets say that have none of these kernels."""

KERNEL_ROUNDING = "tflite_double"
"""How targets round whose LSTM is one of these kernels; with others it stays in float."""

GATE_STEP = 2.0**GATE_POWER
"""The step of sums of gates."""

OPEN = 2.0**-15
"""The step of gates, and of what tables of cells give."""

CELL_END = 32767
"""The largest cell, and the least without its sign: the clip that files name."""


@dataclass(frozen=True)
class LstmForm:
    """One kernel.

    ``sigmoid()`` and ``tanh(power)``: its tables; ``powers``: of two, that a cell's step may
    be; ``cells(power)``: what f * c and i * g are requantized by; ``saturates_state``: whether
    what a state gives to sums saturates before it is added; ``words``: whether activations may
    have 16 bits.
    """

    formula: str
    source: str
    sigmoid: Callable[[], Table]
    tanh: Callable[[int], Table]
    powers: Sequence[int]
    cells: Callable[[int], tuple[Pair, Pair]]
    saturates_state: bool
    words: bool


def _halves(power: int) -> tuple[Pair, Pair]:
    """QuantizeMultiplier of 2**-15 and of 2**-(30 + power): 2**30 over powers of two."""
    return (1 << 30, 45), (1 << 30, 60 + power)


def _plain_shifts(power: int) -> tuple[Pair, Pair]:
    """RoundingDivideByPOT by 15 and 30 + power, as two roundings say it.

    ((2**31 - 1) x + 2**30) >> 31 is x where -2**30 < x < 2**30, as products of gates and
    cells are: the first of two roundings does nothing.
    """
    return ((1 << 31) - 1, 46), ((1 << 31) - 1, 61 + power)


_CHORDS = "Sigmoid and Tanh by chords between 256 values; f * c and i * g are rounded twice"

_by_chords = partial(
    LstmForm,
    sigmoid=chord_sigmoid,
    tanh=chord_tanh,
    powers=range(-15, 1),
    cells=_halves,
    words=True,
)

LSTM_FORMS: Mapping[str, LstmForm] = MappingProxyType(
    {
        "tflm": _by_chords(
            f"{_CHORDS}; what inputs and states give to sums saturates, and so does the sum",
            "TensorFlow Lite Micro lstm_eval.cc, its reference kernels",
            saturates_state=True,
        ),
        "cmsis": _by_chords(
            f"{_CHORDS}; what inputs give saturates, and so does the sum of both",
            "CMSIS-NN arm_lstm_unidirectional_s8 and _s16",
            saturates_state=False,
        ),
        "litert": LstmForm(
            "Sigmoid and Tanh by gemmlowp's fixed point of 16 bits; f * c and i * g are "
            "shifted, ties away from zero; sums saturate as those of cmsis; 8 bits alone",
            "TensorFlow Lite lstm_eval.cc, EvalInteger8x8_16",
            gemmlowp_sigmoid,
            gemmlowp_tanh,
            range(-15, -8),
            _plain_shifts,
            saturates_state=False,
            words=False,
        ),
    }
)
