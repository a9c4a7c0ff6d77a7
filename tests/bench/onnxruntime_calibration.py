"""onnxruntime's own calibrators, run as its quantize_static runs them."""

from collections.abc import Iterable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from time import perf_counter
from typing import Any

from onnxruntime.quantization.calibrate import CalibrationMethod, create_calibrator
from onnxruntime.quantization.registry import QDQRegistry, QLinearOpsRegistry

Feed = Mapping[str, Any]


class Reader:
    """Feeds in the form that the calibrators read."""

    def __init__(self, feeds: Iterable[Feed]) -> None:
        self._feeds = (dict(feed) for feed in feeds)

    def get_next(self) -> dict[str, Any] | None:
        """The next feed, None at the end."""
        return next(self._feeds, None)


@dataclass(frozen=True)
class Seconds:
    """Of getting ready (augmenting the model, loading it) and of the samples."""

    set_up: float
    run: float


def calibrate(model: Path, method: str, feeds: Iterable[Feed], work: Path) -> Seconds:
    """Ranges of all tensors that quantize_static wants, by ``method``, with its defaults."""
    start = perf_counter()
    calibrator = _calibrator(model, method, work)
    ready = perf_counter()
    with redirect_stdout(StringIO()):
        calibrator.collect_data(Reader(feeds))
        calibrator.compute_data()
    return Seconds(ready - start, perf_counter() - ready)


def bytes_kept(model: Path, feed: Feed, work: Path) -> int:
    """What the calibrators with histograms hold in memory of each sample until the last."""
    session = _calibrator(model, "Percentile", work).infer_session
    return sum(array.nbytes for array in session.run(None, dict(feed)))


def _calibrator(model: Path, method: str, work: Path) -> Any:
    op_types = sorted({*QLinearOpsRegistry, *QDQRegistry})
    made = work / "augmented.onnx"
    return create_calibrator(model, op_types, str(made), CalibrationMethod[method])
