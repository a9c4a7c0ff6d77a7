"""Quantization error: outputs of an integer graph beside those of its float original."""

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration import Session
from opsets.errors import ModelError
from qpasses.checking.reference import Expected
from qpasses.ir.edges import RealSession
from qpasses.ir.progress import Advance, no_advance

SQNR_CAP_DB = 200.0

GOOD, FAIR, POOR, NOT_MEASURED = "good", "fair", "poor", "not measured"

_BOUNDS_DB = {GOOD: 20.0, FAIR: 10.0}
"""From so many decibels on; docs/verification.md says what they mean."""

_BOUNDS_SHARE = {GOOD: 0.98, FAIR: 0.90}
"""Of labels that are the same."""

_WORDS = POOR, FAIR, GOOD, NOT_MEASURED

_NOTHING = {"name": None, "word": NOT_MEASURED, "sqnr_db": None, "agreement": None}

_NUMBERS, _LABELS = {*"fiub"}, {*"iubOSU"}
"""The kinds of numpy's types."""


class Accuracy:
    """Float and integer outputs side by side, pooled over samples without keeping them."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._sums = np.zeros((len(names), 4))  # ref^2, error^2, ref*found, found^2
        self._largest = np.zeros(len(names))
        self._unlike = [0] * len(names)
        self._labels = np.zeros((len(names), 2), np.int64)  # those that are the same, and all

    def update(self, expected: Sequence[NDArray[Any]], found: Sequence[NDArray[Any]]) -> None:
        """Take in the outputs of one sample; raises ModelError if they are not of one rank.

        Outputs that are no arrays are passed over. So are those of other sizes, as there are
        where sizes follow from values (NonZero, boxes that are kept); they are counted. What
        is not float are labels: how many are the same is counted too.
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
            kind = reference.dtype.kind if hasattr(reference, "dtype") else ""
            if kind in _LABELS:
                self._labels[i] += np.count_nonzero(reference == other), np.size(reference)
            if kind not in _NUMBERS:
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
            same, labels = self._labels[i].tolist()
            agreement, decibels = same / labels if labels else None, _sqnr(signal, noise)
            rows.append(
                {
                    "name": name,
                    "word": _word(agreement, decibels),
                    "sqnr_db": decibels,
                    "cosine": _finite(cosine),
                    "max_abs_error": _finite(self._largest[i]),
                    "agreement": agreement,
                    "unlike_sizes": self._unlike[i],
                }
            )
        return rows


def rated(outputs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """``summary.accuracy`` of a report: the worst of ``accuracy.outputs``."""
    worst = min(outputs, key=_worst_first, default=_NOTHING)
    is_real = worst["agreement"] is None
    is_known = worst["word"] != NOT_MEASURED
    return {
        "word": worst["word"],
        "sqnr_db": worst["sqnr_db"] if is_real else None,
        "agreement": worst["agreement"],
        "output": worst["name"] if is_known else None,
    }


def _worst_first(output: Mapping[str, Any]) -> tuple[int, float]:
    """By the word; of labels that have the same one as numbers, the labels."""
    share, decibels = output["agreement"], output["sqnr_db"]
    figure = share - 1 if share is not None else decibels
    return _WORDS.index(output["word"]), inf if figure is None else figure


def _word(agreement: float | None, decibels: float | None) -> str:
    is_real = agreement is None
    figure, bounds = (decibels, _BOUNDS_DB) if is_real else (agreement, _BOUNDS_SHARE)
    if figure is None:
        return NOT_MEASURED
    return next((word for word, bound in bounds.items() if figure >= bound), POOR)


def compare(
    names: Sequence[str],
    runs: Iterable[Expected],
    other: Session | RealSession,
    advance: Advance = no_advance,
) -> Accuracy:
    """Run a model on the samples of ``runs`` and compare its outputs with theirs, by name.

    ``advance`` is called after each.
    """
    accuracy = Accuracy(names)
    for name, feed, expected in runs:
        accuracy.update(expected, other.run(None, feed, name))
        advance()
    return accuracy


def _finite(value: float | None) -> float | None:
    return float(value) if value is not None and np.isfinite(value) else None


def _sqnr(signal: float, noise: float) -> float | None:
    if signal == 0 or not np.isfinite(signal + noise):
        return None
    if noise <= signal * 10 ** (-SQNR_CAP_DB / 10):
        return SQNR_CAP_DB
    return float(10 * np.log10(signal / noise))
