"""The tables of a LogSoftmax on stored integers."""

from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from functools import lru_cache
from math import frexp

import numpy as np
from numpy.typing import NDArray

from opsets.qpasses_v1.int_log_softmax import LARGEST_ENTRY, OCTAVES, PIECES
from qpasses.lowering.numbers.softmax_tables import softmax_tables

MOST_BITS = 24
"""Fraction bits of levels: more tell no codes apart."""

_DIGITS = 60


@dataclass(frozen=True)
class LogTables:
    """The constants of IntLogSoftmax: see its reference."""

    denominators: NDArray[np.int32]
    distances: NDArray[np.int64]
    octaves: NDArray[np.int64]
    logarithms: NDArray[np.int64]
    fraction_bits: int

    def inputs(self) -> dict[str, NDArray[np.int32] | NDArray[np.int64]]:
        """By the names of the op's signature."""
        return {
            "denominators": self.denominators,
            "distances": self.distances,
            "octaves": self.octaves,
            "logarithms": self.logarithms,
        }


def fraction_bits(y_scale: float) -> int:
    """As many as leave a logarithm of 1 to 2, in steps of y, below 2**40; at least 1."""
    return max(1, min(MOST_BITS, 39 + frexp(y_scale)[1] - 1))


def log_softmax_tables(x_scale: float, y_scale: float, largest: int) -> LogTables:
    """Of codes that lie 0 to 255 below the largest of a row, which counts ``largest``.

    In steps of y times ``2**fraction_bits``, to the nearest integer: ``x_scale * d``, and what
    the logarithm of a sum over ``largest`` is made of, that of powers of two and of 1 to 2.
    Distances end at LARGEST_ENTRY, which is below every y.
    """
    bits = fraction_bits(y_scale)
    with localcontext(Context(prec=_DIGITS)):
        unit = Decimal(1 << bits) / Decimal(y_scale)
        two, first = _logarithm(Decimal(2)), _logarithm(Decimal(largest))
        far = [Decimal(x_scale) * d * unit for d in range(256)]
        octaves = [(e * two - first) * unit for e in range(OCTAVES)]
        lines = [_logarithm(1 + Decimal(p) / PIECES) * unit for p in range(PIECES + 1)]
        rounded = [[_nearest(each) for each in part] for part in (far, octaves, lines)]
    terms, _ = softmax_tables(x_scale, 1.0, largest)
    distances, powers, logarithms = (np.array(each, np.int64) for each in rounded)
    return LogTables(terms, distances, powers, logarithms, bits)


@lru_cache(maxsize=1024)  # those of 1 to 2 are the same for every node
def _logarithm(number: Decimal) -> Decimal:
    with localcontext(Context(prec=_DIGITS)):
        return number.ln()


def _nearest(value: Decimal) -> int:
    return int(min(value, Decimal(LARGEST_ENTRY)).to_integral_value())
