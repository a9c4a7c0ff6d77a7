"""How far Q/DQ graphs are off, on samples that were held back from all choices."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from math import inf, prod
from typing import Any, TypeVar

import numpy as np
import onnx
from numpy.typing import NDArray

from calibration import Samples
from qpasses.ir.graph import Graph, Tensor, is_float, producer
from qpasses.ir.interchange import prepared_model
from qpasses.ir.progress import Progress, no_progress
from qpasses.recover.on_samples import each_of, session_of

HELD_BACK = 16
"""So many samples judge, or a quarter of them where there are few."""

NOISE_DB = 0.5
"""A gain of less is noise."""

TELLING = 512
"""The noise of so many numbers tells what noise is to be expected, to within a quarter dB."""

TOO_FEW = "too few different samples to hold any back: give more"

Found = Sequence[NDArray[Any]]

T = TypeVar("T")

Decibels = NDArray[np.float64]
"""On each of some samples."""


def held_back(samples: Samples, bad: Collection[str], most: int = HELD_BACK) -> Samples:
    """Those that judge, and choose nothing, but for ``bad`` ones. One alone judges nothing."""
    found = samples.spread(min(most, len(samples) // 4)).without(bad)
    return found if len(found) > 1 else samples.spread(0)


def judged(graph: Graph, sizes: Mapping[str, Sequence[int]]) -> list[str]:
    """The tensors of a float ``graph`` that tell how far its outputs are off.

    Outputs, and instead of those that hold less than ``TELLING`` numbers what they are made
    of: the nearest float tensors that hold as many, or most where none does. Behind the final
    layer of a classifier noise is left to chance, and a Softmax that is sure of itself hides
    it. ``sizes``: of tensors, as far as they are known.
    """
    found: dict[str, None] = {}
    for output in graph.outputs:
        most = max((numbers for _, numbers in _behind(output, sizes)), default=0)
        found |= dict.fromkeys(_nearest(output, sizes, min(most, TELLING)) or [output.name])
    return [*found]


def _nearest(output: Tensor, sizes: Mapping[str, Sequence[int]], enough: int) -> list[str]:
    found = _behind(output, sizes, enough)
    return [name for name, numbers in found if numbers >= max(enough, 1)]


def _behind(
    output: Tensor, sizes: Mapping[str, Sequence[int]], enough: float = inf
) -> Iterator[tuple[str, int]]:
    """Float tensors that ``output`` is made of, itself first, and how many numbers they hold.

    Not beyond those that hold ``enough``.
    """
    left, seen = [output], {output.name}
    while left:
        tensor = left.pop()
        node = producer(tensor)
        if node is None:
            continue
        numbers = _numbers(tensor, sizes) if is_float(tensor) else 0
        yield tensor.name, numbers
        if numbers < enough:
            real = [each for each in node.inputs if is_float(each) and each.name not in seen]
            seen.update(each.name for each in real)
            left += reversed(real)


def _numbers(tensor: Tensor, sizes: Mapping[str, Sequence[int]]) -> int:
    """How many it holds; of a Softmax one for each distribution."""
    shape = sizes.get(tensor.name)
    if shape is None:
        return 0
    node, count = tensor.inputs[0], prod(shape)
    along = int(shape[node.attrs.get("axis", -1)]) if node.op == "Softmax" else 1
    return count // max(along, 1)


class Judge:
    """Tells how far Q/DQ graphs are off what the float ``graph`` is, on ``samples``.

    It runs here: it may be rewritten by the time that others are judged. Where all samples
    give the same none of them judges: the others, which choose, are like them. ``sizes``: of
    its tensors, as far as they are known. Raises ModelError where it cannot be run.
    """

    def __init__(
        self,
        graph: Graph,
        sizes: Mapping[str, Sequence[int]],
        samples: Samples,
        progress: Progress = no_progress,
    ) -> None:
        self.samples, self._names = samples, judged(graph, sizes)
        self._progress = progress
        self._expected = self._map(prepared_model(graph), lambda _, found: found)
        if all(_are_equal(each, self._expected[0]) for each in self._expected):
            self.samples, self._expected = samples.spread(0), []
        self._left: Decibels | None = None

    def left(self, sqnr_db: Decibels | None) -> None:
        """A step left the graph so; None where that is not known."""
        self._left = sqnr_db

    def before(self, graph: Graph) -> Decibels | None:
        """``sqnr_db`` of the ``graph`` as the last step left it, which need not run again."""
        return self.sqnr_db(graph) if self._left is None else self._left

    def sqnr_db(self, graph: Graph) -> Decibels | None:
        """Signal over noise of each sample, the mean over float tensors; None without any.

        Of each sample, as of samples together those with the largest numbers would tell alone.
        Raises ModelError where the graph cannot be run.
        """
        rows = self._map(
            prepared_model(graph), lambda place, found: _sqnr_db(self._expected[place], found)
        )
        return np.array([np.mean(row) for row in rows]) if all(rows) and rows else None

    def _map(self, model: onnx.ModelProto, seen: Callable[[int, Found], T]) -> list[T]:
        """What is ``seen`` in the tensors of each sample, one for each core at once."""
        if not len(self.samples):
            return []
        advance = self._progress("run held-back samples", len(self.samples))
        session = session_of(model, self._names, threads=1)

        def run(place: int) -> T:
            feed, name = self.samples.read(place), self.samples.name(place)
            told = seen(place, session.run(self._names, feed, name))
            advance()
            return told

        return each_of(len(self.samples), run)


def _are_equal(one: Found, other: Found) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def _sqnr_db(expected: Found, found: Found) -> list[float]:
    """Of each float tensor that is not empty, zero or infinite, and as large as expected."""
    row = []
    for real, other in zip(expected, found, strict=True):
        is_real = getattr(real, "dtype", np.dtype(object)).kind == "f"
        if not is_real or not real.size or real.shape != other.shape:
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

    By half a dB so many ``times``, and by two standard errors of the mean gain: classifiers
    that are sure of themselves differ by several dB from sample to sample.
    """
    gained = behind - before
    chance = 2 * gained.std(ddof=1) / np.sqrt(gained.size)
    return bool(gained.mean() >= max(times * NOISE_DB, chance))
