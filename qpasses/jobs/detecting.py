"""Detections: what a user's function finds in outputs, to be drawn over pictures."""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration import Session
from opsets.errors import UsageError
from qpasses.analysis.walking import Example
from qpasses.ir.command_options import PageOptions
from qpasses.load.arguments import Source
from qpasses.load.functions import given_function

_MOST = 100
"""So many boxes of a picture are drawn, those of the largest scores."""

_ROW = ("x1", "y1", "x2", "y2", "score", "class")


def check_detections(asked: PageOptions) -> None:
    """Raise UsageError if what is asked for draws nothing, or is no function."""
    if asked.detections is not None:
        if asked.html_file is None:
            raise UsageError("detections are drawn on a page: give html_file (--html) too")
        given_function(asked.detections, "detections")


def check_pictures(source: Source) -> None:
    """Raise UsageError if there is nothing that detections could be drawn over."""
    if find_spec("PIL") is None:
        raise UsageError("detections are drawn over pictures: pip install 'qpasses[images]'")
    shapes = [spec.shape for spec in source.specs]
    if not any(len(shape) == 4 and {shape[1], shape[3]} & {1, 3, None} for shape in shapes):
        raise UsageError(
            f"detections are drawn over pictures [1, 1 or 3, H, W] or [1, H, W, 1 or 3]: "
            f"{source.path} takes none"
        )


class Detector:
    """``function`` takes the outputs of a sample by name, and gives rows of ``_ROW``.

    Coordinates are pixels of the picture as the model sees it. Raises UsageError.
    """

    def __init__(self, function: Any, source: Source) -> None:
        self._function = given_function(function, "detections")
        check_pictures(source)
        self._session = Session(source.reference)
        self._names = [value.name for value in source.reference.graph.output]

    def found(self, example: Example) -> dict[str, Any]:
        """Both, as an output of an example. Raises UsageError for what are no boxes."""
        real = self._session.run(self._names, example.feed, example.sample)
        pairs = {
            "float": dict(zip(self._names, real, strict=True)),
            "integer": {name: example.found[name] for name in self._names},
        }
        rows = {whose: self._rows(outputs, example) for whose, outputs in pairs.items()}
        return {"name": "detections", "kind": "detections", **rows}

    def _rows(self, outputs: Mapping[str, Any], example: Example) -> list[list[float]]:
        """The boxes, largest scores first."""
        try:
            rows = np.asarray(self._function(outputs), np.float64)
        except Exception as error:  # whatever a user's function raises
            raise UsageError(
                f"detections: on sample {example.sample}: {type(error).__name__}: {error}"
            ) from error
        if rows.size == 0:
            return []
        self._check(rows, example)
        first = np.argsort(-rows[:, 4], kind="stable")[:_MOST]
        return [[float(value) for value in row] for row in rows[first]]

    def _check(self, rows: NDArray[np.float64], example: Example) -> None:
        if rows.ndim != 2 or rows.shape[1] != len(_ROW):
            raise UsageError(
                f"detections: on sample {example.sample}: rows of {', '.join(_ROW)} are "
                f"needed, got an array of shape {list(rows.shape)}"
            )
        if not np.isfinite(rows).all():
            raise UsageError(f"detections: on sample {example.sample}: boxes are not finite")
