"""Q/DQ graphs on samples: what their matrices read, and how far their outputs are off."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import onnx
from numpy.typing import NDArray

from calibration import Samples, Session
from calibration.collect import cores
from qpasses.ir.graph import Graph
from qpasses.ir.interchange import prepared_model
from qpasses.ir.progress import Advance
from qpasses.recover.matrices import Matrix
from qpasses.recover.second_moments import Moments

AT_ONCE = 256 << 20
"""Moments of so many bytes are summed in one walk over the samples."""

HELD_BACK = 16
"""So many samples judge, or a quarter of them where there are few."""

NOISE_DB = 0.5
"""A gain of less is noise."""

Outputs = Sequence[NDArray[Any]]

T = TypeVar("T")

Decibels = NDArray[np.float64]
"""On each of some samples."""


def held_back(samples: Samples) -> Samples:
    """Those that judge, and choose nothing. One alone judges nothing."""
    count = min(HELD_BACK, len(samples) // 4)
    return samples.spread(count if count > 1 else 0)


def walks(matrices: Sequence[Matrix]) -> list[list[Matrix]]:
    """Those whose moments are summed at once."""
    found: list[list[Matrix]] = []
    left = 0
    for each in matrices:
        if each.moment_bytes > left:
            found.append([])
            left = AT_ONCE
        found[-1].append(each)
        left -= each.moment_bytes
    return found


def moments_on(
    graph: Graph, walk: Sequence[Matrix], samples: Samples, advance: Advance
) -> list[Moments]:
    """The second moments of what the matrices read; ``advance`` is told of each sample."""
    sums = [Moments(each.groups, each.size) for each in walk]
    for position, found in enumerate(_inputs(graph, walk, samples)):
        for each, moments in zip(walk, sums, strict=True):
            each.observe(found[each.node.inputs[0].name], position, moments)
        advance()
    return sums


def _inputs(
    graph: Graph, walk: Sequence[Matrix], samples: Samples
) -> Iterator[Mapping[str, NDArray[Any]]]:
    names = list(dict.fromkeys(each.node.inputs[0].name for each in walk))
    model = prepared_model(graph)
    known = {each.name: each for each in (*model.graph.value_info, *model.graph.input)}
    session = _session(model, outputs=[known[name] for name in names])
    for sample, feed in samples:
        yield dict(zip(names, session.run(names, feed, sample), strict=True))


def _session(model: onnx.ModelProto, **options: Any) -> Session:
    """With onnxruntime's int8 kernels, but for scales of channels and weights in float.

    Its optimizer makes kernels of these too: they refuse more scales than one, and have the
    weights rounded.
    """
    constants = {each.name for each in model.graph.initializer}
    plain = any(
        each.attribute if each.op_type == "QuantizeLinear" else each.input[1] in constants
        for each in model.graph.node
        if each.op_type in ("QuantizeLinear", *_MULTIPLYING)
    )
    config = {"session.disable_quant_qdq": "1"} if plain else {}
    return Session(model, config=config, **options)


_MULTIPLYING = ("Conv", "Gemm", "MatMul")


class Judge:
    """Tells how far models are off, on ``samples`` that were held back from all choices.

    ``source`` is the float model, which is right.
    """

    def __init__(self, source: onnx.ModelProto, samples: Samples) -> None:
        self.samples, self._source = samples, source

    @cached_property
    def _expected(self) -> Sequence[Outputs]:
        return self._map(self._source, lambda _, found: found)

    def sqnr_db(self, graph: Graph) -> Decibels | None:
        """Signal over noise of each sample, the mean over float outputs; None without any.

        Of each sample, as of samples together those with the largest numbers would tell alone.
        Raises ModelError where a model cannot be run.
        """
        expected = self._expected
        rows = self._map(
            prepared_model(graph), lambda place, found: _sqnr_db(expected[place], found)
        )
        return np.array([np.mean(row) for row in rows]) if all(rows) and rows else None

    def _map(self, model: onnx.ModelProto, seen: Callable[[int, Outputs], T]) -> list[T]:
        """What is ``seen`` in the outputs of each sample, one for each core at once."""
        session = _session(model, threads=1)

        def run(place: int) -> T:
            feed, name = self.samples.read(place), self.samples.name(place)
            return seen(place, session.run(None, feed, name))

        with ThreadPoolExecutor(cores()) as threads:
            return [*threads.map(run, range(len(self.samples)))]


def _sqnr_db(expected: Outputs, found: Outputs) -> list[float]:
    """Of each float output that is not empty, zero or infinite, and as large as expected."""
    row = []
    for real, other in zip(expected, found, strict=True):
        is_float = getattr(real, "dtype", np.dtype(object)).kind == "f"
        if not is_float or not real.size or real.shape != other.shape:
            continue
        wide = real.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):  # it is asked next
            signal, noise = (float(np.square(each).sum()) for each in (wide, wide - other))
        if np.isfinite([signal, noise]).all() and signal > 0:
            row.append(10 * np.log10(signal / max(noise, signal * _SILENCE)))
    return row


_SILENCE = 1e-5
"""Less noise than that of the signal is none: it is less than 8 bits round away."""


def gains(before: Decibels, behind: Decibels, times: int = 1) -> bool:
    """Whether ``behind`` is better on the mean, by more than is noise or chance.

    By half a dB so many ``times``, and by the standard error of the mean gain: classifiers
    that are sure of themselves differ by several dB from sample to sample.
    """
    gained = behind - before
    chance = gained.std(ddof=1) / np.sqrt(gained.size)
    return bool(gained.mean() >= max(times * NOISE_DB, chance))
