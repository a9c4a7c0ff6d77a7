"""Which tensors get 16 bits: by added noise, and by trying each (`make widths`).

By trying: a model for each tensor, in which it alone has 8 bits and all others 16, and by how
much more noise its outputs have. Both choose by noise over time what leaves activations so
much of the noise of weights. Models are made with either set; their SQNR in dB, on samples by
which neither was chosen, is beside its size.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from rich.progress import track

import qpasses
from calibration import Session, open_samples
from qpasses.checking.verification import compared
from qpasses.ir.progress import no_progress
from qpasses.jobs.pricing import Prices
from qpasses.load.arguments import given_source
from qpasses.load.integer_model import read_integer_model
from tests.bench.manifest import Entry

MODELS = "digits_cnn", "cifar10_resnet20", "digits_vit"

SHARES = 4.0, 1.0, 0.25
"""Of the noise of weights; with less all tensors have 16 bits."""

HEAD = [
    *("model", "tensors", "noise over that of weights", "by added noise", "SQNR dB"),
    *("by trying each", "SQNR dB", "in both", "time of the walk / of trying"),
]

_PARTS = slice(0, 64), slice(64, 192)
"""Samples by which is chosen, and by which sets are judged."""


@dataclass(frozen=True)
class Row:
    """One model and share: the sets, and how long both took."""

    model: str
    tensors: int
    share: float
    added: frozenset[str]
    tried: frozenset[str]
    sqnr_db: tuple[float, float]
    seconds: tuple[float, float]

    def cells(self) -> list[str]:
        """Its line in a table."""
        ours, theirs = (f"{each:.2f}" for each in self.sqnr_db)
        return [
            *(self.model, str(self.tensors), f"{self.share:g}"),
            *(str(len(self.added)), ours, str(len(self.tried)), theirs),
            *(str(len(self.added & self.tried)), f"{self.seconds[0] / self.seconds[1]:.4f}"),
        ]


def outputs_of(
    model: Path | onnx.ModelProto, feeds: Sequence[Mapping[str, Any]]
) -> NDArray[np.float64]:
    """All of them, in a row."""
    session = Session(model)
    ends = (np.ravel(each) for feed in feeds for each in session.run(None, feed))
    return np.concatenate([*ends]).astype(np.float64)


def noise_over(real: NDArray[np.float64], found: NDArray[np.float64]) -> float:
    """Of ``found``, over the signal."""
    return float(np.square(real - found).sum() / np.square(real).sum())


def made(entry: Entry, *types: str) -> onnx.ModelProto:
    """In 8 bits but for ``types``."""
    result = qpasses.quantize(
        entry.model,
        entry.calibration,
        samples=entry.samples,
        preprocessing=entry.preprocessing,
        accuracy="fast",
        weight_rounding="second-order",
        tensor_types=types,
    )
    assert result.model is not None
    return result.model


def choose(entry: Entry) -> list[Row]:
    """Both ways, for each share."""
    feeds, others = (list(entry.test_feeds[part]) for part in _PARTS)
    source, integer = given_source(entry.model), made(entry)
    samples = open_samples(feeds, source.specs)
    read = read_integer_model(integer, entry.name)
    pair = compared(read, source, samples.first(), entry.name).pair
    began, prices = perf_counter(), Prices()
    priced = prices.of(pair, samples, no_progress)
    walked = perf_counter() - began
    wide = made(entry, ".*=int16")
    record = read_integer_model(wide, entry.name).record
    stored = {name for name, each in record.tensors.items() if each.dtype == "int16"}
    kept = {each.real for name, each in pair.meanings.items() if name in stored}
    names = [name for name, noise in priced.narrow.items() if noise and name in kept]
    began, tried, real = perf_counter(), dict[str, float](), outputs_of(entry.model, feeds)
    plain = noise_over(real, outputs_of(wide, feeds))
    for name in track(names, entry.name, transient=True):
        model = made(entry, f"{re.escape(name)}=int8", ".*=int16")
        tried[name] = max(noise_over(real, outputs_of(model, feeds)) - plain, 0.0)
    seconds = walked, perf_counter() - began
    by_trying = Prices()
    by_trying.noise, by_trying.time = tried, prices.time
    real, rows = outputs_of(entry.model, others), list[Row]()
    for share in SHARES:
        allowed = share * priced.constants
        sets = [frozenset(each.cheapest(names, allowed)) for each in (prices, by_trying)]
        found = [
            made(entry, *(f"{re.escape(t)}=int16" for t in sorted(each))) for each in sets
        ]
        noise = [noise_over(real, outputs_of(each, others)) for each in found]
        ours, theirs = (-10 * np.log10(each) for each in noise)
        added, by_each = sets
        row = Row(entry.name, len(names), share, added, by_each, (ours, theirs), seconds)
        rows.append(row)
    return rows
