"""Models of the zoo as onnxruntime's quantize_static quantizes them."""

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

from calibration import input_specs, open_samples
from qpasses.load.upgrade import opset_of, raised_to
from tests.bench.manifest import Entry

CALIBRATED_WITH = 4
"""So many samples are enough for scales."""

PER_CHANNEL_OPSET = 13
"""Older DequantizeLinear has no axis: quantize_static writes one all the same."""


@dataclass(frozen=True)
class Form:
    """How quantize_static is asked: format, types, scales of weights."""

    format: str
    activations: str
    per_channel: bool

    @property
    def name(self) -> str:
        """For files and tests."""
        types = "u8s8 per channel" if self.per_channel else "s8s8"
        return f"{self.format} {types}"


FORMS = {
    form.name: form
    for form in (
        Form("QDQ", "QUInt8", True),
        Form("QOperator", "QUInt8", True),
        Form("QDQ", "QInt8", False),
        Form("QOperator", "QInt8", False),
    )
}


class Feeds:
    """Feeds in the form that quantize_static reads."""

    def __init__(self, feeds: Iterable[Mapping[str, Any]]) -> None:
        self._feeds = iter(feeds)

    def get_next(self) -> dict[str, Any] | None:
        """The next feed, None at the end."""
        feed = next(self._feeds, None)
        return None if feed is None else dict(feed)


def feeds_of(entry: Entry, count: int, first: int = 0) -> list[dict[str, Any]]:
    """``count`` samples of a model of the manifest, from the ``first`` on."""
    specs = input_specs(onnx.load(entry.model))
    found = open_samples(entry.calibration, specs, first + count, entry.preprocessing)
    return [dict(feed) for _, feed in itertools.islice(iter(found), first, None)]


def quantized_static(entry: Entry, form: Form, folder: Path) -> Path:
    """The model of ``entry``, quantized, in a file of ``folder``."""
    ready, made = (
        folder / f"{entry.name}.ready.onnx",
        folder / f"{entry.name}.{form.name}.onnx",
    )
    source, model = entry.model, onnx.load(entry.model)
    if opset_of(model) < PER_CHANNEL_OPSET:
        source = folder / f"{entry.name}.raised.onnx"
        onnx.save(raised_to(model, PER_CHANNEL_OPSET, entry.model), source)
    quant_pre_process(source, ready, skip_symbolic_shape=True)
    quantize_static(
        ready,
        made,
        Feeds(feeds_of(entry, CALIBRATED_WITH)),
        quant_format=QuantFormat[form.format],
        activation_type=QuantType[form.activations],
        weight_type=QuantType.QInt8,
        per_channel=form.per_channel,
    )
    return made
