"""The original beside which an integer model is judged: its results, sample after sample."""

from collections.abc import Iterator, Sequence
from typing import Any

from numpy.typing import NDArray

from calibration import Samples, Session
from calibration.held_weights import are_many, weight_bytes
from calibration.inputs import Feed
from calibration.memory import give_back
from qpasses.load.arguments import Source


class Reference:
    """The results of the original on ``samples``, each asked for once, in their order.

    Where its weights are held it runs at once, and goes before others come.
    """

    def __init__(self, original: Source, samples: Samples) -> None:
        self._session: Session | None = original.session()
        self.outputs: Sequence[str] = self._session.outputs
        self._found: Iterator[list[NDArray[Any]]] = iter(())
        if are_many(original.reference):
            found = [self._session.run(None, feed, name) for name, feed in samples]
            self._found, self._session = iter(found), None
            give_back(weight_bytes(original.reference))

    def run(self, outputs: None, feed: Feed, sample: str) -> list[NDArray[Any]]:
        """All outputs, in order, on ``feed``, the next sample."""
        if self._session is None:
            return next(self._found)
        return self._session.run(outputs, feed, sample)
