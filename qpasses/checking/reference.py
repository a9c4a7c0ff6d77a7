"""The original beside which an integer model is judged: its results, sample after sample."""

from collections.abc import Iterator, Sequence
from typing import Any

from calibration import Samples
from calibration.held_weights import are_many, weight_bytes
from calibration.inputs import Feed, tensors
from calibration.memory import give_back
from qpasses.checking.running_ahead import Ahead
from qpasses.load.arguments import Source

Expected = tuple[str, Feed, Sequence[Any]]
"""A sample's name, what it feeds, and all outputs of the original on it, in order."""


def reference_runs(original: Source, samples: Samples) -> Iterator[Expected]:
    """The results of the original on all ``samples``, sample after sample.

    Where its weights are many all runs are made at once, before other sessions come. Raises
    ModelError, also where a run is asked for.
    """
    session = original.session()
    if not are_many(original.reference):
        return ((name, feed, session.run(None, feed, name)) for name, feed in samples)
    found = [session.run(None, feed, name) for name, feed in samples]
    del session
    give_back(weight_bytes(original.reference))
    pairs = zip(samples, found, strict=True)
    return ((name, feed, outputs) for (name, feed), outputs in pairs)


class EarlyRuns:
    """``reference_runs`` that may begin long before they are asked for; a context manager.

    Unless the weights are many: then the original has memory for itself.
    """

    def __init__(self, original: Source) -> None:
        self._original = original
        self._ahead: Ahead[Expected] | None = None

    def begin(self, samples: Samples) -> None:
        """Run on ``samples`` from now on, in a thread."""
        if not are_many(self._original.reference):
            self._ahead = Ahead(self._all(samples), _bytes_of)

    def on(self, samples: Samples) -> Iterator[Expected]:
        """Those on ``samples``, which are what it began with, if it did."""
        return self._ahead or reference_runs(self._original, samples)

    def _all(self, samples: Samples) -> Iterator[Expected]:
        yield from reference_runs(self._original, samples)

    def __enter__(self) -> "EarlyRuns":
        return self

    def __exit__(self, *_: object) -> None:
        if self._ahead is not None:
            self._ahead.close()


def _bytes_of(run: Expected) -> int:
    """Those of arrays that wait to be asked for."""
    _, feed, outputs = run
    return sum(getattr(each, "nbytes", 0) for each in (*tensors(feed).values(), *outputs))
