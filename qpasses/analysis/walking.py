"""Analyze: one walk over samples, and what came of it tensor by tensor."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from calibration import Samples
from calibration.collect import cores
from calibration.inputs import Feed
from calibration.memory import trim
from qpasses.analysis.inside import Codes, Inside
from qpasses.analysis.noise import Cost, Noise, Outputs
from qpasses.analysis.observed import Alone, Likeness, Observed, channel_axis
from qpasses.analysis.piece import Values
from qpasses.analysis.worlds import Rounding, Worlds
from qpasses.checking.accuracy import Accuracy
from qpasses.checking.meaning import Pair, is_integer
from qpasses.ir.edges import Edges, dequantize
from qpasses.ir.graph import Tensor, is_float, producer
from qpasses.ir.progress import Progress
from qpasses.load.integer_model import IntegerModel
from qpasses.recover.judge import judged

Item = TypeVar("Item")
Found = TypeVar("Found")


@dataclass(frozen=True)
class Example:
    """A sample, and the outputs that float and the integer graph give, in real numbers."""

    sample: str
    feed: Feed
    real: Mapping[str, Any]
    found: Mapping[str, Any]


_EXAMPLES = 3
"""So many samples are kept."""


@dataclass
class Analysis:
    """What was found of a pair of graphs.

    ``observed``: by stored tensor; ``constants``: by step that has some, what its result loses
    by them alone; ``costs``: by step that what is ``looked`` at depends on. ``accuracy``: of
    the integer graph's outputs; ``whole`` and ``by_sample``: at what is looked at.
    ``walked``: samples that were run; ``costed``: those of them that all costs were measured
    on; ``macs``: by float node; ``tensors``: of the integer graph.
    """

    pair: Pair
    worlds: Worlds
    observed: dict[str, Observed]
    constants: dict[int, Likeness]
    costs: dict[int, Cost]
    accuracy: Accuracy
    whole: Noise
    looked: list[str]
    by_sample: list[tuple[str, float | None]] = field(default_factory=list)
    examples: list[Example] = field(default_factory=list)
    macs: dict[str, int] = field(default_factory=dict)
    tensors: dict[str, Tensor] = field(init=False)
    walked: int = 0
    costed: int = 0

    def __post_init__(self) -> None:
        nodes = self.pair.integer.nodes
        self.tensors = {tensor.name: tensor for node in nodes for tensor in node.outputs}


def analyze(
    read: IntegerModel,
    pair: Pair,
    edges: Edges,
    samples: Samples,
    seconds: float,
    progress: Progress,
) -> Analysis:
    """Walk over ``samples``; for as many ``seconds`` measure what steps cost.

    Those whose nodes lose most by themselves come first. Raises ModelError where a graph
    cannot be run.
    """
    return _Walk(read, pair, edges, seconds).over(samples, progress)


def looked_at(pair: Pair) -> list[str]:
    """The float outputs, and of distributions and probabilities what these are made of too.

    A Softmax that is sure of itself hides all noise. In their place, where no output is float,
    what they are made of.
    """
    stored = {meaning.real for meaning in pair.meanings.values() if meaning.stored}
    found = []
    for tensor in filter(is_float, pair.real.outputs):
        found.append(tensor.name)
        node = producer(tensor)
        if node is not None and node.op in ("Softmax", "LogSoftmax", "Sigmoid"):
            found.append(node.inputs[0].name)
    ends = {tensor.name for tensor in pair.real.outputs}
    kept = [name for name in dict.fromkeys(found) if name in ends or name in stored]
    return kept or judged(pair.real, pair.sizes)


class _Walk:
    """A walk in progress. Each step is run on one thread, several of them at once."""

    def __init__(self, read: IntegerModel, pair: Pair, edges: Edges, seconds: float) -> None:
        self._began, self._seconds = monotonic(), seconds
        self._ends = [tensor.name for tensor in pair.real.outputs]
        looked = looked_at(pair)
        worlds = Worlds(pair, [*looked, *self._ends])
        self._looked = [name for name in looked if name in worlds.outputs]
        self._writers = {t.name: node for node in pair.integer.nodes for t in node.outputs}
        self._inside = Inside(read, edges, [*worlds.roundings])
        kept = [place for place, step in enumerate(worlds.steps) if step.has_constants]
        costly = {*kept, *(k for n, k in worlds.roundings.items() if self._computes(n))}
        self._found = Analysis(
            pair,
            worlds,
            {name: self._observed(pair, name) for name in self._inside.names},
            {place: Likeness() for place in kept},
            {
                place: Cost.of(len(self._looked))
                for place in sorted(costly & worlds.heard(self._looked))
            },
            Accuracy(self._ends),
            Noise(len(self._looked)),
            self._looked,
        )
        self._names = {
            pair.meanings[name].real: name for name in reversed([*worlds.roundings])
        }

    def _computes(self, stored: str) -> bool:
        """Whether the node that stores a tensor rounds: others move codes about."""
        node = self._writers.get(stored)
        return node is not None and (is_integer(node) or node.op == "QuantizeLinear")

    def _observed(self, pair: Pair, stored: str) -> Observed:
        node, how = self._writers[stored], pair.record.tensors[stored]
        shape = next(t.shape for t in node.outputs if t.name == stored)
        return Observed(how, channel_axis(how, node.op, len(shape or ())))

    def over(self, samples: Samples, progress: Progress) -> Analysis:
        """All of ``samples``."""
        found = self._found
        advance = progress("walk over the samples", len(samples))
        with ThreadPoolExecutor(cores()) as self._threads:
            for name, feed in samples:
                self._take(name, feed)
                advance()
        return found

    def _each(self, run: Callable[[Item], Found], items: Iterable[Item]) -> list[Found]:
        """Of each item; what was freed then goes back to the system."""
        found = [*self._threads.map(run, items)]
        trim()
        return found

    def _take(self, sample: str, feed: Feed) -> None:
        """One sample, in one world after the other: of each all tensors are held."""
        outputs = self._in_float(sample, feed)
        self._found.walked += 1
        if not self._is_over(1):
            self._in_integers(feed, outputs)

    def _in_float(self, sample: str, feed: Feed) -> Outputs:
        """All that starts from float's numbers."""
        worlds, found = self._worlds, self._found
        with worlds.walk(feed, is_on=False) as real:
            outputs = Outputs({name: real[worlds.outputs[name]] for name in self._looked})
            self._compare_whole(sample, feed, real, outputs)
            self._take_apart(feed, real)
            self._each(lambda place: self._compare_constants(place, real), found.constants)
            if all(self._each(lambda k: self._alone(k, real, outputs), self._by_loss())):
                found.costed += 1
        return outputs

    def _take_apart(self, feed: Feed, real: Values) -> None:
        """Each node by itself."""

        def codes(stored: str) -> NDArray[Any]:
            return self._codes(self._worlds.roundings[stored], real)

        with self._inside.apart(feed, codes) as written:

            def observe(stored: str) -> None:
                apart = {stored: written(stored)}
                self._observe(stored, real, apart)
                _trim_behind(apart[stored])

            self._each(observe, self._found.observed)

    def _compare_whole(self, sample: str, feed: Feed, real: Values, outputs: Outputs) -> None:
        """The integer graph as it is."""
        worlds, found = self._worlds, self._found
        whole, ends = self._inside.run(feed, sample)

        def compare(stored: str) -> None:
            expected = real[worlds.steps[worlds.roundings[stored]].writes[0]]
            found.observed[stored].add(expected, self._real(stored, whole))
            _trim_behind(expected)

        self._each(compare, found.observed)
        named = dict(zip(self._ends, ends, strict=True))
        ours = self._outputs(whole, named)
        noise = outputs.noise(ours)
        found.whole.add(outputs.signal, noise)
        found.by_sample.append((sample, outputs.sqnr_db(noise)))
        keys = worlds.outputs  # constants are in neither world, and the same
        expected = {n: real[keys[n]] if n in keys else each for n, each in named.items()}
        found.accuracy.update([*expected.values()], ends)
        if len(found.examples) < _EXAMPLES:
            found.examples.append(Example(sample, feed, expected, named))

    @property
    def _worlds(self) -> Worlds:
        return self._found.worlds

    def _codes(self, place: int, real: Values) -> NDArray[Any]:
        step = self._worlds.steps[place]
        assert isinstance(step.on, Rounding)
        return np.asarray(step.on.codes({step.reads[0]: real[step.writes[0]]}))

    def _outputs(self, codes: Codes, ends: dict[str, Any]) -> dict[str, Any]:
        """What the integer graph has for the tensors that are looked at."""
        return {
            name: ends[name] if name in ends else self._real(self._names[name], codes)
            for name in self._looked
        }

    def _real(self, stored: str, codes: Codes) -> NDArray[Any]:
        return dequantize(codes[stored], self._found.pair.record.tensors[stored])

    def _observe(self, stored: str, real: Values, apart: Codes) -> None:
        """The node that writes a stored tensor, by itself."""
        worlds = self._worlds
        step = worlds.steps[worlds.roundings[stored]]
        (raw,) = step.reads
        place = worlds.writer(raw)
        if place is not None and not worlds.steps[place].stored:
            wanted, constants = self._by_region(place, raw, real)
        else:  # an input, or a tensor that is stored a second time
            wanted = constants = self._as_stored(raw, real)
        (rounded,) = step.run({raw: constants}, is_on=True)
        alone = Alone(wanted, constants, rounded, self._real(stored, apart))
        self._found.observed[stored].take_apart(alone)

    def _by_region(self, place: int, name: str, real: Values) -> tuple[Any, Any]:
        """What a region writes of numbers that are stored, with either kind of constants."""
        worlds = self._worlds
        region = worlds.steps[place]
        at = region.writes.index(name)
        read = {each: self._as_stored(each, real) for each in region.reads}
        off = region.run(read, is_on=False)[at]
        return off, region.run(read, is_on=True)[at] if region.has_constants else off

    def _as_stored(self, name: str, real: Values) -> Any:
        """Float's numbers, rounded where that is what they are for."""
        worlds = self._worlds
        place = worlds.writer(name)
        step = None if place is None else worlds.steps[place]
        if step is None or not step.stored:
            return real[name]
        (before,) = step.reads
        given = self._as_stored(before, real) if before in real else real[name]
        return step.run({before: given}, is_on=True)[0]

    def _compare_constants(self, place: int, real: Values) -> None:
        """What a region's result loses by its constants alone."""
        step = self._worlds.steps[place]
        off, on = step.run(real, is_on=False)[0], step.run(real, is_on=True)[0]
        self._found.constants[place].add(off, on - off)

    def _alone(self, place: int, real: Values, outputs: Outputs) -> bool:
        """Measure a step alone as in integers, if there is time."""
        if self._is_over(_ALONE):
            return False
        changed = self._worlds.switched(place, real, is_on=False)
        self._found.costs[place].alone.add(outputs.signal, outputs.noise(changed))
        return True

    def _in_integers(self, feed: Feed, outputs: Outputs) -> None:
        """Measure the costliest steps alone as in float, as far as there is time."""
        worlds, costs = self._worlds, self._found.costs
        with worlds.walk(feed, is_on=True) as stored:
            ours = {name: stored[worlds.outputs[name]] for name in self._looked}
            noise = outputs.noise(ours)

            def gain(place: int) -> None:
                if not self._is_over(1):
                    changed = worlds.switched(place, stored, is_on=True)
                    without = outputs.noise({**ours, **changed})
                    costs[place].without.add(outputs.signal, without)
                    costs[place].whole.add(outputs.signal, noise)

            self._each(gain, self._by_cost()[:_GAINING])

    def _is_over(self, share: float) -> bool:
        """Whether this share of the time is."""
        return monotonic() - self._began >= share * self._seconds

    def _by_loss(self) -> list[int]:
        """The steps that have costs: first those whose nodes lose most by themselves."""
        found = self._found

        def left(place: int) -> float:
            stored = self._worlds.steps[place].stored
            seen = found.observed[stored].local if stored else found.constants[place]
            return np.inf if seen.sqnr_db is None else seen.sqnr_db

        return sorted(found.costs, key=left)

    def _by_cost(self) -> list[int]:
        """Those that were measured, first those that cost most."""
        ratios = {place: cost.alone.ratio for place, cost in self._found.costs.items()}
        known = {place: ratio for place, ratio in ratios.items() if ratio is not None}
        return sorted(known, key=known.__getitem__, reverse=True)


def _trim_behind(values: NDArray[Any]) -> None:
    """Give back what computing on a tensor left free, where that is much."""
    if values.size >= _LARGE:
        trim()


_LARGE = 1 << 18

_ALONE = 0.8
"""The share of the time in which steps are measured alone in integers."""

_GAINING = 32
"""So many of the costliest are measured alone in float too: others gain next to nothing."""
