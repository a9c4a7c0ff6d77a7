"""The smallest and the largest value of each channel of a tensor, over samples."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from calibration.collect import cores
from calibration.samples import Samples
from calibration.session import Session

Floats = NDArray[np.float32]

CHANNELS = 1
"""The axis along which they lie."""

_AXES_READ = 18
"""From this opset on reductions read their axes."""


@dataclass(frozen=True)
class Extremes:
    """Of each channel (float32 [C]) the smallest and the largest value."""

    low: Floats
    high: Floats

    def with_those(self, others: "Extremes") -> "Extremes":
        """Those of these values and the ``others``."""
        return Extremes(np.minimum(self.low, others.low), np.maximum(self.high, others.high))


def channel_extremes(
    model: onnx.ModelProto,
    ranks: Mapping[str, int],
    samples: Samples,
    advance: Callable[[], None],
) -> dict[str, Extremes]:
    """Those of the float32 tensors whose ``ranks`` are given by name, in one run a sample.

    onnxruntime reduces each tensor where it is: none leaves it. As many samples run at once as
    there are cores. Without those in which a number is not finite, or that are empty. Raises
    ModelError for a model that cannot be run.
    """
    found: dict[str, Extremes] = {}
    if not ranks:
        return {}
    reducing = _reducing(model, ranks)
    session = Session(reducing, threads=1)
    names = [value.name for value in reducing.graph.output]

    def run(position: int) -> list[Floats]:
        return session.run(names, samples.read(position), samples.name(position))

    with ThreadPoolExecutor(cores()) as threads:
        for rows in threads.map(run, range(len(samples))):
            for name, low, high in zip(ranks, rows[::2], rows[1::2], strict=True):
                seen = Extremes(low, high)
                found[name] = found[name].with_those(seen) if name in found else seen
            advance()
    return {
        name: each
        for name, each in found.items()
        if each.low.size and np.isfinite([each.low, each.high]).all()
    }


def _reducing(model: onnx.ModelProto, ranks: Mapping[str, int]) -> onnx.ModelProto:
    """``model`` with the extremes of channels as its outputs, in turns."""
    reducing = onnx.ModelProto()
    reducing.CopyFrom(model)
    graph = reducing.graph
    del graph.output[:]
    opset = next(each.version for each in model.opset_import if each.domain == "")
    for place, (name, rank) in enumerate(ranks.items()):
        axes = [axis for axis in range(rank) if axis != CHANNELS]
        inputs, attributes = [name], dict[str, Any](axes=axes)
        if opset >= _AXES_READ:
            inputs, attributes = [name, f"qpasses::axes_{place}"], {}
            graph.initializer.append(numpy_helper.from_array(np.array(axes), inputs[1]))
        for op in ("ReduceMin", "ReduceMax"):
            made = f"qpasses::{op}_{place}"
            graph.node.append(helper.make_node(op, inputs, [made], keepdims=0, **attributes))
            graph.output.append(helper.make_tensor_value_info(made, TensorProto.FLOAT, None))
    return reducing
