"""One sample: what a device has of it, the exact integers, what each node should give."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from calibration.inputs import Feed, tensors
from opsets.errors import DataError, UsageError
from qpasses.checking.bisecting.dump_files import DumpedSample
from qpasses.checking.bisecting.dumped_arrays import Reading, as_stored, fits
from qpasses.checking.bisecting.recomputed import Recomputed
from qpasses.checking.bisecting.stored_tensors import StoredTensors

Stored = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Compared:
    """``found``: what could be read of the dump, ``problems`` why others could not be.

    ``exact`` are the integers of the model, ``expected`` what each node gives for the inputs
    that the device has, where these are known. ``notes`` say how arrays were read.
    """

    sample: str
    found: Stored
    exact: Stored
    expected: Stored
    notes: Mapping[str, str]
    problems: Mapping[str, str]


@dataclass
class Comparing:
    """The sessions in which samples are compared; ``stored``: the tensors of their model."""

    stored: StoredTensors
    _sessions: dict[tuple[Sequence[str], Sequence[str]], Recomputed] = field(
        default_factory=dict
    )

    def compare(self, dumped: DumpedSample, sample: str, feed: Feed | None) -> Compared:
        """``dumped`` beside what the model makes of ``feed``.

        Without one what is dumped of the inputs takes its place. Raises UsageError where that
        is not there, ModelError.
        """
        stored, started = self.stored, dict[str, NDArray[Any]]()
        if feed is None:
            started = self._started(dumped)
        given = {} if feed is None else {n: tensors(feed)[n] for n in stored.inputs}
        wanted = [name for name in stored.writers if name not in started]
        ran = self._run((), [*wanted, *stored.control], feed, started, sample)
        turns = {name: ran[name] for name in stored.control}
        exact = {**ran, **started, **given}
        found, notes, problems = dict[str, NDArray[Any]](), dict[str, str](), dict[str, str]()
        for name in (each for each in stored.names if each in dumped.places):
            try:
                read = self._read(dumped, name, exact[name])
            except DataError as error:
                problems[name] = str(error)
                continue
            found[name] = read.values
            if read.note:
                notes[name] = read.note
        known = {**found, **turns}
        expected = {**self._run([*known], wanted, feed, known, sample), **started, **given}
        return Compared(sample, found, exact, expected, notes, problems)

    def _read(self, dumped: DumpedSample, name: str, exact: NDArray[Any]) -> Reading:
        return as_stored(dumped.load(name), exact, self.stored.meaning(name))

    def _started(self, dumped: DumpedSample) -> dict[str, NDArray[Any]]:
        """What the device was fed, as it dumped it. Raises UsageError where it did not."""
        found, shapes = dict[str, NDArray[Any]](), self.stored.starts
        if missing := [name for name in shapes if name not in dumped.places]:
            raise UsageError(
                f"sample {dumped.name!r}: the dump lacks {missing[0]!r}, what the device was "
                "fed: give the samples (--data, data), or dump it too"
            )
        for name, shape in shapes.items():
            try:
                meaning = self.stored.meaning(name)
                found[name] = fits(dumped.load(name), shape, meaning).values
            except DataError as error:
                raise DataError(f"sample {dumped.name!r}: {name!r} {error}") from error
        return found

    def _run(
        self,
        given: Collection[str],
        wanted: Sequence[str],
        feed: Feed | None,
        values: Stored,
        sample: str,
    ) -> Stored:
        names = tuple(sorted({*given, *(values if feed is None else ())}))
        key = names, tuple(wanted)
        if key not in self._sessions:
            self._sessions[key] = Recomputed(self.stored, *key)
        session = self._sessions[key]
        fed = {} if feed is None else feed
        if lacking := sorted({*session.needed} - {*fed} - {*names}):
            raise UsageError(
                f"input {lacking[0]!r} is needed too: give the samples (--data, data)"
            )
        return session.run(fed, values, sample)
