"""The matrix of a discrete Fourier transform."""

import numpy as np
from numpy.typing import NDArray

_DECIMALS = 14
"""Of a sine: float64 is wrong beyond, float32 does not see it."""


def fourier(
    size: int, parts: int, length: int, *, inverse: bool, onesided: bool
) -> NDArray[np.float64]:
    """[size * parts, outputs * 2]: rows are cut off or filled with zeros to ``length``.

    Real and imaginary part stand one after the other, on both sides; ``parts`` is 1 for rows
    of real numbers. An inverse one divides by ``length``; a onesided one has the first half.
    """
    outputs = length // 2 + 1 if onesided else length
    used = np.arange(size)[:, None] < length
    turns = np.arange(size)[:, None] * np.arange(outputs) % length / length
    angles = (2 if inverse else -2) * np.pi * turns
    waves = np.exp(1j * angles) * used / (length if inverse else 1)
    real = np.stack([waves.real, waves.imag], -1)
    imaginary = np.stack([-waves.imag, waves.real], -1)
    whole = np.stack([real, imaginary][:parts], 1)
    exact = np.round(whole, _DECIMALS)  # quarter turns give 0, whatever pi is rounded to
    return np.asarray(exact.reshape(size * parts, -1), np.float64)
