"""Side by side: the original, the integer model as it is, its bodies, on the same samples."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import onnx

from calibration import Samples, Session
from calibration.held_weights import are_many, weight_bytes
from calibration.inputs import Feed, tensors
from calibration.memory import give_back
from opsets.native import library
from opsets.op import Flavour
from qpasses.checking.reference import reference_runs
from qpasses.checking.running_ahead import Ahead
from qpasses.checking.sample_runs import Tensors, Watched, threads_beside
from qpasses.checking.simulated_bodies import passing
from qpasses.emit.overloads import with_bodies
from qpasses.ir.edges import Edges
from qpasses.load.arguments import Source
from qpasses.load.integer_model import IntegerModel

INSIDE_SAMPLES = 5
"""On so many samples every stored tensor is compared, not the outputs alone."""

Item = TypeVar("Item", "Run", Tensors)


@dataclass(frozen=True)
class Run:
    """One sample: what the original gives, and the integer model as it is, optimized.

    ``given`` is what the integer model is fed; ``fast``: what its onnxruntime bodies give,
    unoptimized: outputs, and stored tensors where these are compared (``is_inside``).
    """

    name: str
    feed: Feed
    given: Feed
    expected: Sequence[Any]
    found: Sequence[Any]
    fast: Tensors
    is_inside: bool


class SideBySide:
    """Runs of all samples, which threads make ahead of who asks for them.

    The portable bodies run at once, unless the model ``waits`` to be judged; what needs to
    know the fast ones from ``start`` on. Where weights are so many that they are held,
    sessions come one after the other, when they are asked for.
    """

    def __init__(
        self,
        read: IntegerModel,
        original: Source,
        edges: Edges,
        samples: Samples,
        waits: bool = False,
    ) -> None:
        readers = [node for node in read.graph.nodes if node.op == "QuantizeLinear"]
        self.samples = samples.bounded({node.inputs[0].name for node in readers})
        self._read, self._original, self.edges = read, original, edges
        self._is_held = are_many(original.reference) or are_many(read.model)
        self._threads: list[Ahead[Any]] = []
        self._loader = ThreadPoolExecutor(1)
        self._session: Future[Session] | None = None
        if not self._is_held:
            self._session = self._loader.submit(Session, read.model)
        self.waits = waits
        self._portable: Iterator[Tensors] | None = None
        if not waits:
            self._portable = self._ahead(self._portable_runs())
        self._runs: Iterator[Run] = iter(())
        self._fast: Mapping[str, str] = {}

    @property
    def stored(self) -> Sequence[str]:
        """The tensors inside of the graph that are compared."""
        written = [tensor.name for node in self._read.graph.nodes for tensor in node.outputs]
        return [name for name in written if name in self._read.record.tensors]

    @property
    def _inside(self) -> Sequence[str]:
        """What is looked at on some samples: it is stored, or passes to a body as it is."""
        return [*self.stored, *passing(self._read.graph, self._read.record)]

    def session(self) -> Session:
        """The integer model as it is. Raises ModelError if onnxruntime cannot load it."""
        if self._session is None:
            self._session = self._loader.submit(Session, self._read.model)
        return self._session.result()

    def compiled(self) -> Session | None:
        """The same with the compiled kernels, not optimized, if there are any.

        None for a model whose weights are held: it would take their memory once more.
        """
        place = library()
        if place is None or self._is_held:
            return None
        threads = threads_beside()
        return Session(self._read.model, optimize=False, threads=threads, operators=place)

    def start(self, fast: Mapping[str, str]) -> None:
        """Run the rest too; ``fast``: by node, the onnxruntime body that is right to run."""
        if self._portable is None:
            self._portable = self._ahead(self._portable_runs())
        self._fast, self._runs = fast, self._ahead(self._file_runs(fast))

    def __iter__(self) -> Iterator[tuple[Run, Tensors]]:
        """Each sample, and what the portable bodies give for it. Raises ModelError."""
        assert self._portable is not None, "not started"
        return zip(self._runs, self._portable, strict=True)

    def both_optimized(self, run: Run) -> Sequence[Sequence[Any]]:
        """The outputs of onnxruntime's bodies and of the portable ones, both optimized."""
        return [each.run(None, run.given, run.name) for each in self._optimized]

    @cached_property
    def _optimized(self) -> Sequence[Session]:
        integer, session = self._read.model, self.session()
        pair = self._with(self._fast), self._with("portable")
        return [session if each == integer else Session(each) for each in pair]

    def close(self) -> None:
        """End all threads."""
        for each in self._threads:
            each.close()
        self._loader.shutdown()

    def _with(self, bodies: Flavour | Mapping[str, str]) -> onnx.ModelProto:
        read = self._read
        return with_bodies(read.model, bodies, (read.graph, read.record))

    def _watched(self, bodies: Flavour | Mapping[str, str]) -> Watched:
        model, is_beside = self._with(bodies), not self._is_held
        return Watched(model, self._inside, self._read.record, is_beside)

    def _ahead(self, items: Iterable[Item]) -> Iterator[Item]:
        if self._is_held:
            return iter(items)
        self._threads.append(Ahead(items, _bytes_of))
        return self._threads[-1]

    def _portable_runs(self) -> Iterator[Tensors]:
        watched = Watched(
            self._with("portable"), self.stored, self._read.record, not self._is_held
        )
        for position, (name, feed) in enumerate(self.samples):
            given = self.edges.feed(feed)
            yield watched.run(given, name, position < INSIDE_SAMPLES)

    def _file_runs(self, fast: Mapping[str, str]) -> Iterator[Run]:
        runs = reference_runs(self._original, self.samples)
        session = self.session()
        watched = self._watched(fast)
        if self._is_held:
            give_back(weight_bytes(self._original.reference))
        for position, (name, feed, expected) in enumerate(runs):
            given, is_inside = self.edges.feed(feed), position < INSIDE_SAMPLES
            found = session.run(None, given, name)
            ours = watched.run(given, name, is_inside)
            yield Run(name, feed, given, expected, found, ours, is_inside)


def _bytes_of(item: Run | Tensors) -> int:
    """Those of arrays that wait to be asked for."""
    if isinstance(item, Run):
        return _bytes_of(tensors(item.feed)) + _bytes_of(item.fast)
    return sum(array.nbytes for array in item.values() if hasattr(array, "nbytes"))
