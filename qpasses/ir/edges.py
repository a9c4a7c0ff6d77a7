"""The edges of an integer graph whose inputs or outputs are stored integers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import onnx
from numpy.typing import NDArray

from calibration import Session, input_specs
from calibration.inputs import Feed, Value, tensors
from calibration.pieces import Pieces
from opsets.table_rules import TableRounding, TableRules
from qpasses.ir.record import AnyQuantization, ChannelQuantization, Record

Floats: TypeAlias = type[np.floating[Any]]
"""In which values are computed: float32 or float64."""


@dataclass(frozen=True)
class Edges:
    """How to feed an integer graph, and read it, in the numbers of its original.

    ``inputs``: the original's input name to the integer graph's, with its parameters if it is
    stored and was not; ``outputs``: those of each such output, else None.
    """

    inputs: Mapping[str, tuple[str, AnyQuantization | None]]
    outputs: Sequence[AnyQuantization | None]

    @classmethod
    def between(
        cls, original: onnx.ModelProto, integer: onnx.ModelProto, record: Record
    ) -> "Edges":
        """The edges of ``integer``, which was made from ``original``.

        What has the name it has there is fed and read as there: it may be stored in both.
        Raises ValueError if the numbers of their inputs or outputs differ.
        """
        theirs = [spec.name for spec in input_specs(original)]
        ends = {value.name for value in original.graph.output} | {*theirs}
        inputs, outputs = integer.graph.input, integer.graph.output
        if len(outputs) != len(original.graph.output):
            raise ValueError(f"{len(outputs)} outputs, not {len(original.graph.output)}")
        known = {
            value.name: None if value.name in ends else _stored(value, record)
            for value in [*inputs, *outputs]
        }
        pairs = zip(theirs, [value.name for value in inputs], strict=True)
        return cls(
            {name: (given, known[given]) for name, given in pairs},
            [known[value.name] for value in outputs],
        )

    def feed(self, real: Feed) -> dict[str, Value]:
        """The feed of the integer graph for a feed of the float model."""
        given = tensors(real)
        return {
            name: real[original] if stored is None else quantize(given[original], stored)
            for original, (name, stored) in self.inputs.items()
        }

    def real(self, outputs: Sequence[Any]) -> list[Any]:
        """What the outputs of the integer graph mean."""
        pairs = zip(outputs, self.outputs, strict=True)
        return [
            value if stored is None else dequantize(value, stored) for value, stored in pairs
        ]


@dataclass(frozen=True)
class RealSession:
    """An integer graph that is run like its float original."""

    session: Session | Pieces
    edges: Edges

    def run(
        self,
        outputs: Sequence[str] | None,
        feed: Feed,
        sample: str = "",
    ) -> list[Any]:
        """All outputs in real numbers for one feed of the float model, called ``sample``."""
        return self.edges.real(self.session.run(outputs, self.edges.feed(feed), sample))


def codes(stored: AnyQuantization) -> NDArray[Any]:
    """All codes, [256] or [65536], ordered by their bits: negative ones behind the others."""
    bits = np.iinfo(stored.dtype).bits
    return np.arange(1 << bits, dtype=f"uint{bits}").view(stored.dtype)


def in_rows(meaning: AnyQuantization) -> AnyQuantization:
    """That of a row for each channel."""
    return meaning.along(0) if isinstance(meaning, ChannelQuantization) else meaning


def rows_of(*meanings: AnyQuantization) -> int:
    """How many channels have parameters of their own; 0 where none have."""
    return max(
        len(each.scales) if isinstance(each, ChannelQuantization) else 0 for each in meanings
    )


def byte_codes(stored: AnyQuantization) -> NDArray[Any]:
    """All 256 codes, ordered by their byte; raises ValueError if there are more."""
    if len(found := codes(stored)) != 256:
        raise ValueError(f"a table of bytes for {stored.dtype}")
    return found


def quantize(
    values: NDArray[Any],
    stored: AnyQuantization,
    rounding: TableRounding = "half_to_even",
    floats: Floats = np.float32,
    by_inverse: bool = False,
) -> NDArray[Any]:
    """QuantizeLinear in float32, as onnxruntime computes it; saturating.

    Or rounded otherwise, the quotient in other ``floats``, or a product ``by_inverse``: with
    the inverse of the scale, which is rounded itself.
    """
    given, scale = values.astype(floats), floats(stored.factors(values.ndim))
    rank = values.ndim
    with np.errstate(over="ignore", invalid="ignore"):  # it saturates
        quotients = given * (floats(1) / scale) if by_inverse else given / scale
        levels = rounded(quotients, rounding)
    found = np.clip(levels + stored.zeros(rank), *stored.limits)
    return np.asarray(found.astype(stored.dtype))


def quantize_by(
    rules: TableRules, values: NDArray[Any], stored: AnyQuantization
) -> NDArray[Any]:
    """Entries of a table, by the rules of a target."""
    by_inverse = rules.quotient == "inverse"
    return quantize(values, stored, rules.rounding, rules.floats, by_inverse)


def rounded(quotients: NDArray[Any], rounding: TableRounding) -> NDArray[Any]:
    """Whole numbers, as floats."""
    return _ROUNDED[rounding](quotients)


def _half_up(quotient: NDArray[Any]) -> NDArray[Any]:
    floor = np.floor(quotient)
    return np.asarray(floor + (quotient - floor >= _HALF))


def _half_away(quotient: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(np.copysign(_half_up(np.abs(quotient)), quotient))


_HALF = 0.5
_ROUNDED: Mapping[TableRounding, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "half_to_even": np.rint,
    "half_up": _half_up,
    "half_away": _half_away,
    "toward_zero": np.trunc,
}


def dequantize(
    values: NDArray[Any], stored: AnyQuantization, floats: Floats = np.float32
) -> NDArray[Any]:
    """DequantizeLinear in float32, as onnxruntime computes it, or in other ``floats``."""
    levels = values.astype(np.int32) - stored.zeros(values.ndim)
    return np.asarray(levels.astype(floats) * floats(stored.factors(values.ndim)))


def _stored(value: onnx.ValueInfoProto, record: Record) -> AnyQuantization | None:
    return record.tensors.get(value.name)
