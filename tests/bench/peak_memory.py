"""The peak memory of one process that calibrates, or only infers: a child of calibration.py.

Prints VmHWM of /proc/self/status in KiB. Each kind imports what it uses and nothing else.
"""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

STATUS = Path("/proc/self/status")


def bare(_model: Path, _samples: Path, _count: int) -> None:
    """Nothing but the imports that all have in common."""
    import numpy  # noqa: F401
    import onnxruntime  # noqa: F401


def plain(model: Path, samples: Path, count: int) -> None:
    """Float inference."""
    import onnx

    import qpasses.api  # noqa: F401
    from calibration import Session, input_specs, open_samples

    session = Session(model)
    specs = input_specs(onnx.load(model))
    for name, feed in open_samples(samples, specs, count):
        session.run(None, feed, name)


def ours(histograms: bool) -> Callable[[Path, Path, int], None]:
    """A table of qpasses."""

    def run(model: Path, samples: Path, count: int) -> None:
        from qpasses.place.calibrating import calibrate

        with tempfile.TemporaryDirectory() as folder:
            calibrate(
                model, samples, Path(folder) / "table", samples=count, histograms=histograms
            )

    return run


def theirs(method: str) -> Callable[[Path, Path, int], None]:
    """A calibrator of onnxruntime."""

    def run(model: Path, samples: Path, count: int) -> None:
        import onnx

        from calibration import input_specs, open_samples
        from tests.bench.onnxruntime_calibration import calibrate

        read = open_samples(samples, input_specs(onnx.load(model)), count)
        with tempfile.TemporaryDirectory() as folder:
            calibrate(model, method, (feed for _, feed in read), Path(folder))

    return run


KINDS: dict[str, Callable[[Path, Path, int], None]] = {
    "bare": bare,
    "plain": plain,
    "minmax": ours(histograms=False),
    "histograms": ours(histograms=True),
    "MinMax": theirs("MinMax"),
    "Percentile": theirs("Percentile"),
}


def main() -> None:
    """KIND MODEL SAMPLES COUNT: run, print the peak."""
    kind, model, samples, count = sys.argv[1:]
    KINDS[kind](Path(model), Path(samples), int(count))
    lines = STATUS.read_text("utf-8").splitlines()
    print(next(line.split()[1] for line in lines if line.startswith("VmHWM:")))


if __name__ == "__main__":
    main()
