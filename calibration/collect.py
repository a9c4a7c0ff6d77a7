"""The streaming run: each sample once through onnxruntime, every wanted tensor observed.

Workers take one sample after the other, each on one core from the file to the counts, so that
reading, inference and counting overlap. What they find is the same for any number of them.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import islice, pairwise
from threading import Event, Lock

import numpy as np
import onnx

from calibration.accumulator import Accumulator
from calibration.batching import are_alike, batch_size, is_the_same, joined_feed, signature
from calibration.counting import Values, fastest_counter
from calibration.inputs import Feed, InputSpec, tensors
from calibration.joined import joined
from calibration.observed_model import ObservedModel, ShownModel, observed_model
from calibration.rowwise import is_rowwise
from calibration.samples import Samples
from calibration.statistics import Statistics
from opsets.errors import DataError, ModelError, QPassesError

CHECKPOINT_SECONDS = 30.0
"""So much work is lost at most when a run is killed."""

Spans = Sequence[tuple[int, int]]
"""Positions of samples: from the first up to, but without, the second of each pair."""


@dataclass(frozen=True)
class Collected:
    """What was found: by tensor, over the samples at ``done``.

    ``skipped``: the names of bad samples among them, which are not counted, and why.
    """

    tensors: Mapping[str, Statistics] = field(default_factory=dict)
    done: Spans = ()
    skipped: Mapping[str, str] = field(default_factory=dict)

    @property
    def samples(self) -> int:
        """How many were counted."""
        return sum(end - start for start, end in self.done) - len(self.skipped)

    def merged(self, other: "Collected") -> "Collected":
        """Of the samples of both, which share none."""
        tensors = dict(self.tensors)
        for name, found in other.tensors.items():
            tensors[name] = found if name not in tensors else tensors[name].merged(found)
        done: list[tuple[int, int]] = []
        for start, end in sorted([*self.done, *other.done]):
            joins = done and done[-1][1] == start
            done.append((done.pop()[0] if joins else start, end))
        return Collected(tensors, done, {**self.skipped, **other.skipped})

    def checked(self, tensors: Sequence[str], specs: Sequence[InputSpec]) -> "Collected":
        """This; DataError if there are no samples, or no values of any of ``tensors``.

        Where all sizes of the inputs ``specs`` are fixed, no others would hold any.
        """
        if self.samples == 0:
            why = next(iter(sorted(self.skipped.items())), ("", "there are none"))[1]
            raise DataError(f"none of {len(self.skipped)} samples could be used: {why}")
        is_free = any(None in spec.shape for spec in specs)
        if is_free and tensors and not self.tensors:
            raise DataError(
                f"tensor {tensors[0]!r} held no values in any of {self.samples} samples, nor "
                "did any other"
            )
        return self


Save = Callable[[Collected], None]


NOTHING = Collected()


@dataclass(frozen=True)
class Run:
    """How samples are collected.

    ``histograms``: of which tensors not extremes alone: of all, or of those with these names
    and of what they are joined of. ``skip_bad``: go on without samples that are damaged,
    do not fit or make a tensor NaN or infinite; else the first is an error. ``workers``: None
    for one a core. ``save`` is given what was found so far every CHECKPOINT_SECONDS and when
    the run is interrupted. ``channels``: of which tensors those of each channel (axis 1) too,
    and how many they have, by name; by the samples called ``held_back`` apart.
    """

    histograms: bool | frozenset[str] = False
    skip_bad: bool = False
    workers: int | None = None
    progress: Callable[[], None] = lambda: None
    save: Save | None = None
    channels: Mapping[str, int] = field(default_factory=dict)
    held_back: frozenset[str] = frozenset()

    def histograms_of(self, tensors: Sequence[str]) -> frozenset[str]:
        """Those of ``tensors`` that histograms are wanted of."""
        if isinstance(self.histograms, bool):
            return frozenset(tensors if self.histograms else ())
        return self.histograms.intersection(tensors)


EXTREMES = Run()


def collect(
    model: onnx.ModelProto,
    tensors: Sequence[str],
    samples: Samples,
    run: Run = EXTREMES,
    start: Collected = NOTHING,
) -> Collected:
    """Statistics of each of ``tensors`` (names in ``model``) over ``samples``.

    Goes on from ``start``. One pass; memory does not grow with the number of samples. Raises
    DataError or ModelError for the first bad sample, DataError for want of any good one or of
    any value. A tensor that held no values is not among those that were found.
    """
    return collect_part(model, tensors, samples, run, start).checked(tensors, samples.specs)


def collect_part(
    model: onnx.ModelProto,
    tensors: Sequence[str],
    samples: Samples,
    run: Run,
    start: Collected = NOTHING,
) -> Collected:
    """``collect`` over samples that are but a part of all: there may be nothing in them."""
    counter = fastest_counter()
    parts = {n: own for n, own in joined(model, tensors).items() if n not in run.channels}
    inputs = {value.name for value in model.graph.input}
    fed = [name for name in tensors if name in inputs]
    known = {*fed, *parts}
    written = [name for name in tensors if name not in known]
    rows = {name: row for row, name in enumerate(tensors)}

    counted = run.histograms_of(tensors)

    def make() -> Accumulator:
        return Accumulator(tensors, parts, counter, counted, run.channels)

    with observed_model(model, written, counter, rows) as observed:
        crew = _Crew(observed, fed, samples, run, start, make)
        if is_rowwise(model):
            crew.batch(lambda: ShownModel(model, written))
        crew.work()
    return crew.found()  # when the memory of inference is free again


Engine = Callable[[onnx.ModelProto, Sequence[str], Samples, Run, Collected], Collected]
"""What has the arguments of ``collect`` and does its work."""


class _Crew:
    """Workers on one queue of samples, and what went wrong with those that are bad."""

    def __init__(
        self,
        observed: ObservedModel,
        fed: Sequence[str],
        samples: Samples,
        run: Run,
        start: Collected,
        make: Callable[[], Accumulator],
    ) -> None:
        self._make = make
        self._observed, self._fed, self._samples = observed, fed, samples
        self._run, self._start = run, start
        self._left = [
            at for first, end in outside(start.done, len(samples)) for at in range(first, end)
        ]
        self._queue = iter(self._left)
        self._batch = 1
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._lock, self._stop = Lock(), Event()
        self._done: list[int] = []
        self._bad: dict[int, QPassesError] = {}
        workers = min(run.workers or cores(), len(self._left))
        self._totals = [make() for _ in range(workers)]
        self._torn = False  # whether a sample may have been counted in part

    def batch(self, show: Callable[[], ShownModel]) -> None:
        """Run several samples at once from now on, if that pays and changes nothing.

        ``show`` loads the model, which treats rows by themselves.
        """
        free = all(spec.shape[:1] == (None,) for spec in self._samples.specs)
        if not free or batch_size(1, len(self._left)) < 2:
            return
        try:
            tried, first = self._make(), self._samples.read(self._left[0])
            self._observe(tried, first, self._left[:1])
            observed = 4 * int(tried.tally.values.sum())
            fed = sum(array.nbytes for array in tensors(first).values())
            size = batch_size(max(observed, fed), len(self._left))
            if size < 2:
                return
            feeds = [first, *(self._samples.read(at) for at in self._left[1:size])]
            if not are_alike(feeds):
                return
            with show() as model:
                if is_the_same(model, feeds):
                    self._batch, self._shapes = size, signature(first)
        except (DataError, ModelError, FloatingPointError):
            return  # a bad sample, which is reported when it is its turn

    def work(self) -> None:
        """Take in all samples that are left, and save now and then."""
        with ThreadPoolExecutor(max(len(self._totals), 1)) as pool:
            finished = False
            while not finished:
                jobs = [pool.submit(self._take_samples, total) for total in self._totals]
                try:
                    seconds = CHECKPOINT_SECONDS if self._run.save else None
                    left = wait(jobs, seconds, FIRST_EXCEPTION).not_done
                    finished = not left and not any(job.exception() for job in jobs)
                finally:
                    self._stop.set()
                    wait(jobs)
                    if self._run.save and not (finished or self._torn):
                        self._run.save(self.found())
                for job in jobs:
                    job.result()
                self._stop.clear()

    def found(self) -> Collected:
        """What all workers found, when none is at work; the first has it all then."""
        if self._bad and not self._run.skip_bad:
            raise self._bad[min(self._bad)]
        skipped = {self._samples.name(at): str(error) for at, error in self._bad.items()}
        found = self._start.merged(Collected({}, _spans(self._done), skipped))
        totals = self._totals
        for other in range(1, len(totals)):
            totals[0].absorb(totals[other])
            totals[other] = totals[0].beside()
        return found.merged(Collected(totals[0].statistics())) if totals else found

    def _take_samples(self, total: Accumulator) -> None:
        """Take in samples from the queue until it is empty or the work stops."""
        try:
            self._take_while_running(total)
        except BaseException:
            self._stop.set()  # the others end with the samples they are at
            raise

    def _take_while_running(self, total: Accumulator) -> None:
        while not self._stop.is_set():
            with self._lock:
                positions = list(islice(self._queue, self._batch))
            if not positions:
                return
            try:
                if len(positions) < self._batch or not self._take_batch(total, positions):
                    for position in positions:
                        self._take_one(total, position)
            except BaseException:
                self._torn = True
                raise
            with self._lock:
                self._done += positions
                for _ in positions:
                    self._run.progress()

    def _take_batch(self, total: Accumulator, positions: Sequence[int]) -> bool:
        """Take in samples in one run; False, and nothing done, where that cannot be."""
        if self._batch == 1:
            return False
        into = total.beside()
        try:
            feeds = [self._samples.read(position) for position in positions]
            if any(signature(feed) != self._shapes for feed in feeds):
                return False
            self._observe(into, joined_feed(feeds), positions)
        except (DataError, ModelError, FloatingPointError):
            return False  # one by one, the bad ones are found
        total.absorb(into)
        return True

    def _take_one(self, total: Accumulator, position: int) -> None:
        """Take in a sample, or note that it is bad; ``total`` is clean of skipped ones."""
        into = total.beside() if self._run.skip_bad else total
        name = self._samples.name(position)
        try:
            self._observe(into, self._samples.read(position), [position])
        except FloatingPointError as error:
            what = f"tensor {str(error)!r} holds NaN or infinite values"
            self._note(position, DataError(f"{name}: {what} in the float model"))
        except (DataError, ModelError) as error:
            self._note(position, error)
        else:
            if into is not total:
                total.absorb(into)

    def _observe(self, into: Accumulator, feed: Feed, positions: Sequence[int]) -> None:
        names = [self._samples.name(position) for position in positions]
        into.begin(len(names), [name in self._run.held_back for name in names])
        if self._fed:
            given = tensors(feed)
            arrays = [np.ascontiguousarray(given[name], np.float32) for name in self._fed]
            into.take(self._fed, list(map(Values.of, arrays)))
        self._observed.observe(feed, into, names[0] if len(names) == 1 else "")
        into.end_sample()

    def _note(self, position: int, error: QPassesError) -> None:
        with self._lock:
            self._bad[position] = error
        if not self._run.skip_bad:
            self._stop.set()


def cores() -> int:
    """Those this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def outside(spans: Spans, count: int) -> Spans:
    """The positions below ``count`` that are in none of ``spans``."""
    ends = [(0, 0), *sorted(spans), (count, count)]
    return [(a[1], b[0]) for a, b in pairwise(ends) if a[1] < b[0]]


def _spans(positions: Iterable[int]) -> Spans:
    spans: list[tuple[int, int]] = []
    for position in sorted(positions):
        first = spans.pop()[0] if spans and spans[-1][1] == position else position
        spans.append((first, position + 1))
    return spans
