"""What each stored tensor costs at the outputs: alone in integers, and alone in float."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpasses.analysis.observed import decibels


class Noise:
    """Noise over signal of each output, added up over samples; both [outputs]."""

    def __init__(self, outputs: int) -> None:
        self._signal, self._noise = np.zeros(outputs), np.zeros(outputs)
        self.samples = 0

    def add(self, signal: NDArray[np.float64], noise: NDArray[np.float64]) -> None:
        """One sample."""
        self._signal += signal
        self._noise += noise
        self.samples += 1

    @property
    def ratio(self) -> float | None:
        """The mean over outputs that hold a signal; None where none does, or no sample was."""
        told = self._signal > 0
        if not told.any():
            return None
        return float(np.mean(self._noise[told] / self._signal[told]))

    @property
    def sqnr_db(self) -> float | None:
        """The same in decibels."""
        return None if self.ratio is None else decibels(1.0, self.ratio)


@dataclass
class Cost:
    """What a switched step does to the outputs.

    ``alone``: noise where it alone is as in integers; ``without``: where it alone is as in
    float; ``whole``: on the same samples, where all is as in integers.
    """

    alone: Noise
    without: Noise
    whole: Noise

    @classmethod
    def of(cls, outputs: int) -> "Cost":
        """Nothing yet."""
        return cls(*(Noise(outputs) for _ in range(3)))

    @property
    def gain_db(self) -> float | None:
        """What the outputs gain where it alone is as in float."""
        whole, without = self.whole.ratio, self.without.ratio
        if not whole or not without:
            return None
        return float(10 * np.log10(whole / without))


class Outputs:
    """What is looked at of one sample, by name as float has it: noise is measured against it.

    ``signal`` [outputs] is that of each. Numbers that float has not are no part of either.
    """

    def __init__(self, real: Mapping[str, Any]) -> None:
        self.real = real
        self.signal = np.array([_energy(values, values) for values in real.values()])

    def noise(self, found: Mapping[str, Any]) -> NDArray[np.float64]:
        """[outputs] where those in ``found`` are otherwise; other sizes are all noise.

        So much as 100 dB above the signal where numbers are infinite, or none.
        """
        pairs = zip(self.real, self.signal.tolist(), strict=True)
        return np.array([self._noise(name, signal, found) for name, signal in pairs])

    def _noise(self, name: str, signal: float, found: Mapping[str, Any]) -> float:
        real, other = self.real[name], found.get(name, self.real[name])
        if np.shape(other) != np.shape(real):
            return signal
        if other is real:
            return 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            noise = _energy(np.subtract(other, real, dtype=np.float64), real)
        return noise if np.isfinite(noise) else _ENDLESS * signal

    def sqnr_db(self, noise: NDArray[np.float64]) -> float | None:
        """Of this sample alone."""
        found = Noise(len(self.signal))
        found.add(self.signal, noise)
        return found.sqnr_db


def _energy(values: NDArray[Any], real: NDArray[Any]) -> float:
    """The sum of squares, where ``real`` is finite."""
    flat, known = values.reshape(-1).astype(np.float64), np.isfinite(real).reshape(-1)
    if not known.all():
        flat = flat[known]
    return float(np.dot(flat, flat))


_ENDLESS = 1e10
