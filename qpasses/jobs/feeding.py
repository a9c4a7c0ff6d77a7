"""Feeding an integer model without its original: samples in real numbers, as it takes them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibration import Samples, open_samples
from calibration.inputs import Feed, InputSpec, input_specs
from qpasses.checking.verification import recorded_preprocessing
from qpasses.ir.edges import Edges
from qpasses.ir.input_names import as_pairs
from qpasses.ir.options import SampleOptions
from qpasses.ir.record import AnyQuantization
from qpasses.load.arguments import given_preprocessing
from qpasses.load.integer_model import IntegerModel


@dataclass(frozen=True)
class RealSamples:
    """``samples`` of the float model that the integer one was made from, and its edges."""

    samples: Samples
    edges: Edges

    def __len__(self) -> int:
        return len(self.samples)

    def __iter__(self) -> Iterator[tuple[str, Feed, Feed]]:
        """Of each its name, its real numbers, and what the integer model is fed."""
        for name, real in self.samples:
            yield name, real, self.edges.feed(real)

    def fed(self, place: int) -> tuple[str, Feed]:
        """The name of one, and what the integer model is fed."""
        return self.samples.name(place), self.edges.feed(self.samples.read(place))


def real_samples(
    read: IntegerModel, data: Any, asked: SampleOptions, most: int | None = None
) -> RealSamples:
    """Those of ``data``, so many at ``most`` unless ``asked`` says it. Raises UsageError."""
    ends = [_end(read, spec) for spec in input_specs(read.model)]
    names = as_pairs(asked.inputs)
    samples = open_samples(
        *(data, [spec for spec, _, _ in ends], asked.samples or most),
        *(given_preprocessing(asked.preprocessing), recorded_preprocessing(read)),
        *(names, asked.samples_to_exclude),
    )
    inputs = {spec.name: (name, stored) for spec, name, stored in ends}
    return RealSamples(samples, Edges(inputs, ()))


def _end(read: IntegerModel, spec: InputSpec) -> tuple[InputSpec, str, AnyQuantization | None]:
    """What a sample holds for an input, which may be stored and was not before."""
    real = spec.name.removesuffix("_quantized")
    stored = read.record.tensors.get(spec.name)
    if stored is None or real == spec.name or real not in read.record.sizes:
        return spec, spec.name, None
    return replace(spec, name=real, dtype=np.dtype(np.float32)), spec.name, stored
