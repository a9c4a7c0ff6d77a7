"""Quantization error: outputs of an integer graph beside those of its float original."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration import Session
from opsets.errors import ModelError
from qpasses.checking.reference import Expected
from qpasses.ir.edges import RealSession

SQNR_CAP_DB = 200.0


class Accuracy:
    """Float and integer outputs side by side, pooled over samples without keeping them."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._sums = np.zeros((len(names), 4))  # ref^2, error^2, ref*found, found^2
        self._largest = np.zeros(len(names))
        self._unlike = [0] * len(names)

    def update(self, expected: Sequence[NDArray[Any]], found: Sequence[NDArray[Any]]) -> None:
        """Take in the outputs of one sample; raises ModelError if they are not of one rank.

        Outputs that are no numbers (strings, sequences) are passed over. So are those of other
        sizes, as there are where sizes follow from values (NonZero, boxes that are kept); they
        are counted.
        """
        for i, (reference, other) in enumerate(zip(expected, found, strict=True)):
            if isinstance(reference, list):
                continue  # a sequence
            if np.ndim(reference) != np.ndim(other):
                raise ModelError(
                    f"output {self._names[i]!r} has shape {list(np.shape(other))}, "
                    f"{list(np.shape(reference))} in the float model"
                )
            if np.shape(reference) != np.shape(other):
                self._unlike[i] += 1
                continue
            if getattr(reference, "dtype", np.dtype(object)).kind not in "fiub":
                continue
            r, o = np.asarray(reference, np.float64), np.asarray(other, np.float64)
            with np.errstate(invalid="ignore", over="ignore"):  # infinite outputs end as null
                e = r - o
                self._sums[i] += (r * r).sum(), (e * e).sum(), (r * o).sum(), (o * o).sum()
                self._largest[i] = np.maximum(self._largest[i], np.abs(e).max(initial=0.0))

    def as_json(self) -> list[dict[str, Any]]:
        """``accuracy.outputs`` of a report: SQNR at most 200 dB, null where not finite."""
        rows = []
        for i, name in enumerate(self._names):
            signal, noise, product, other = self._sums[i].tolist()
            finite = np.isfinite(self._sums[i]).all() and signal * other > 0
            cosine = product / (signal * other) ** 0.5 if finite else None
            rows.append(
                {
                    "name": name,
                    "sqnr_db": _sqnr(signal, noise),
                    "cosine": _finite(cosine),
                    "max_abs_error": _finite(self._largest[i]),
                    "unlike_sizes": self._unlike[i],
                }
            )
        return rows


def compare(
    names: Sequence[str], runs: Iterable[Expected], other: Session | RealSession
) -> Accuracy:
    """Run a model on the samples of ``runs`` and compare its outputs with theirs, by name."""
    accuracy = Accuracy(names)
    for name, feed, expected in runs:
        accuracy.update(expected, other.run(None, feed, name))
    return accuracy


def _finite(value: float | None) -> float | None:
    return float(value) if value is not None and np.isfinite(value) else None


def _sqnr(signal: float, noise: float) -> float | None:
    if signal == 0 or not np.isfinite(signal + noise):
        return None
    if noise <= signal * 10 ** (-SQNR_CAP_DB / 10):
        return SQNR_CAP_DB
    return float(10 * np.log10(signal / noise))
