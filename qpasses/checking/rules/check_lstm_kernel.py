"""LSTM by a kernel of the target: every number of such an IntLstm again.

From the scales alone, as the kernels derive them: docs/decisions/0061.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from math import log2
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets import lstm_tables
from qpasses.checking.arithmetic import requantized
from qpasses.checking.meaning import DifferenceError, Site, float_constant, unlike
from qpasses.checking.rules.check_constants import Matrix, stored_matrix
from qpasses.checking.rules.check_multipliers import (
    expected_pair,
    expected_rounding,
    real_scale,
)
from qpasses.checking.rules.check_recurrent import Made, recurrent
from qpasses.ir.graph import input_at
from qpasses.ir.record import Quantization

_WORD = 1 << 15

_TABLES: Mapping[str, tuple[Callable[[], Any], Callable[[int], Any]]] = {
    "cmsis": (lstm_tables.chord_sigmoid, lstm_tables.chord_tanh),
    "litert": (lstm_tables.gemmlowp_sigmoid, lstm_tables.gemmlowp_tanh),
    "tflm": (lstm_tables.chord_sigmoid, lstm_tables.chord_tanh),
}


def lstm(site: Site) -> Iterator[str]:
    """One direction of an LSTM, by the kernel of its target if that has one."""
    if site.settings.target.lstm not in _TABLES:
        yield from recurrent(site)
        return
    if input_at(site.first, 4) is not None or "clip" in site.first.attrs:
        raise DifferenceError("its kernel has no lengths of sequences, and clips no sums")
    holes = float_constant(site.first, 7)
    if holes is not None and holes.any():
        raise DifferenceError("its kernel has no peepholes")
    yield from recurrent(site, KernelMade)


class KernelMade(Made):
    """What the numbers follow from: a scale for each gate, steps of 2**-12."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if [each.name for each in self.functions] != ["Sigmoid", "Tanh", "Tanh"]:
            raise DifferenceError("its kernel has Sigmoid, Tanh and Tanh alone")
        self.form = self.site.settings.target.lstm
        self.power = round(log2(self.cell.scale))
        highest = -9 if self.form == "litert" else 0
        if self.cell.scale != 2.0**self.power or not -15 <= self.power <= highest:
            raise DifferenceError(f"its kernel has no cells of {self.cell.scale:.6g}")
        wide = [each.dtype == "int16" for each in (self.x, self.y)]
        self.is_wide = wide[0]
        if wide[0] != wide[1] or (wide[0] and self.form == "litert"):
            raise DifferenceError("its kernel has no activations of such types")

    def _step(self, _far: NDArray[np.float64]) -> Fraction:
        return Fraction(1, 4096)

    def stored(
        self, values: NDArray[Any], bias: NDArray[Any], steps: NDArray[np.float64]
    ) -> Matrix:
        """Each gate by the rule of the target, with one scale."""
        rule, units = self.site.settings.target.weights, len(values) // 4
        gates = [
            stored_matrix(
                *(values[first : first + units], bias[first : first + units], 0, steps),
                *(False, "LSTM", rule, False),
            )
            for first in range(0, len(values), units)
        ]
        return replace(
            gates[0],
            weights=np.concatenate([each.weights for each in gates]),
            bias=np.concatenate([each.bias for each in gates]),
            scale=np.repeat(np.array([np.max(each.scale) for each in gates]), units),
        )

    def attributes(self) -> dict[str, Any]:
        """How sums and products are rounded, and whether those of states saturate alone."""
        target = self.site.settings.target
        found: dict[str, Any] = {"rounding": expected_rounding(target, self.is_wide)}
        if self.is_wide:
            found["product_rounding"] = expected_rounding(target)
        if self.form == "tflm" and self._reaches_beyond():
            found["saturates_state"] = 1
        return found

    def _reaches_beyond(self) -> bool:
        """Whether a sum of states, requantized, may be none of 16 bits."""
        rounding = expected_rounding(self.site.settings.target, self.is_wide)
        pairs = self._sums("r", self.y)
        for reach, multiplier, shift in zip(self.reaches["r"], *pairs, strict=True):
            ends = np.array([-reach, reach])
            low, high = requantized(ends, int(multiplier), int(shift), rounding)
            if low < -_WORD or high >= _WORD:
                return True
        return False

    def _sums(
        self, matrix: str, codes: Quantization
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Multipliers and shifts of sums of codes."""
        target, found = self.site.settings.target, []
        for each in self.scales(matrix):
            real = real_scale("IntLstm", (codes.scale, each), float(self.step), target)
            found.append(expected_pair(real, target, False, self.is_wide))
        multipliers, shifts = np.array(found, np.int32).T
        return multipliers, shifts

    def numbers(self) -> Mapping[str, NDArray[Any]]:
        """All but tables and the ends of y."""
        w, r, target = self.matrices["w"], self.matrices["r"], self.site.settings.target
        found: dict[str, NDArray[Any]] = {
            "x_zero": np.array(self.x.zero_point, self.x.dtype),
            "w": np.ascontiguousarray(w.weights.T),
            "r": np.ascontiguousarray(r.weights.T),
            "bias": np.asarray(w.bias, np.int32),
            "p_multiplier": np.zeros(3 * self.hidden, np.int32),
            "p_shift": np.ones(3 * self.hidden, np.int32),
        }
        found["x_multiplier"], found["x_shift"] = self._sums("w", self.x)
        found["h_multiplier"], found["h_shift"] = self._sums("r", self.y)
        shown = real_scale("IntLstm", (1 / _WORD, 1 / _WORD), self.y.scale, target)
        pair = expected_pair(shown, target, elementwise=False)
        found["y_multiplier"], found["y_shift"] = (np.array(n, np.int32) for n in pair)
        parts = 15, 30 + self.power
        if self.form == "litert":  # the first of two roundings leaves what is below 2**30
            found["c_multiplier"] = np.full(2, (1 << 31) - 1, np.int32)
            found["c_shift"] = np.array([31 + bits for bits in parts], np.int32)
        else:
            found["c_multiplier"] = np.full(2, 1 << 30, np.int32)
            found["c_shift"] = np.array([30 + bits for bits in parts], np.int32)
        ends = {"c_min": 1 - _WORD, "c_max": _WORD - 1}
        return found | {name: np.array(end, np.int16) for name, end in ends.items()}

    def tables(self) -> Iterator[str]:
        """Entries that are not the kernel's."""
        sigmoid, tanh = _TABLES[self.form]
        expected = {"f": sigmoid(), "g": tanh(-12), "h": tanh(self.power)}
        for name, table in expected.items():
            yield from unlike(f"{name}_table", self.site.given[f"{name}_table"], table)
