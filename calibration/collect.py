"""The streaming run: each sample once through onnxruntime, every wanted tensor observed."""

from collections.abc import Callable, Sequence

import onnx

from calibration.observers import MinMax, Range
from calibration.samples import Samples
from calibration.session import Session
from opsets.errors import DataError


def collect(
    model: onnx.ModelProto,
    tensors: Sequence[str],
    samples: Samples,
    progress: Callable[[], None] = lambda: None,
) -> dict[str, Range]:
    """The range of each of ``tensors`` (names in ``model``) over ``samples``.

    One pass; memory does not grow with the number of samples. ``progress`` is called after
    each sample. Raises DataError if a sample makes a tensor NaN or infinite.
    """
    inputs = {value.name for value in model.graph.input}
    observed = [name for name in tensors if name not in inputs]
    runner = Session(_with_outputs(model, observed))
    observers = {name: MinMax() for name in tensors}
    for sample, feed in samples:
        outputs = runner.run(observed, feed, sample) if observed else []
        values = dict(zip(observed, outputs, strict=True))
        for name, observer in observers.items():
            try:
                observer.update(values[name] if name in values else feed[name])
            except FloatingPointError as error:
                raise DataError(
                    f"{sample}: tensor {name!r} {error} in the float model"
                ) from error
        progress()
    empty = [name for name, observer in observers.items() if observer.low > observer.high]
    if empty:
        raise DataError(f"tensor {empty[0]!r} held no values in any of {len(samples)} samples")
    return {name: observer.range() for name, observer in observers.items()}


def _with_outputs(model: onnx.ModelProto, names: Sequence[str]) -> onnx.ModelProto:
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    present = {value.name for value in watched.graph.output}
    known = {value.name: value for value in watched.graph.value_info}
    for name in names:
        if name not in present:
            watched.graph.output.append(known.get(name, onnx.ValueInfoProto(name=name)))
    return watched
