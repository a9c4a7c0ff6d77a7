"""Large classics with light weights, which the onnx package holds, and numbers for them."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from tests.support.onnx_package import classic

CLASSICS = ("resnet50", "squeezenet")


def classics(
    wanted: Sequence[str], folder: Path, samples: int
) -> Iterator[tuple[Path, list[dict[str, NDArray[Any]]]]]:
    """Each model, of those of ``wanted`` if any are named, written to ``folder``; feeds."""
    for name in CLASSICS:
        if wanted and f"light_{name}" not in wanted:
            continue
        model, rng = classic(name), np.random.default_rng(0)
        weights = {tensor.name for tensor in model.graph.initializer}
        (value,) = (each for each in model.graph.input if each.name not in weights)
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        path = folder / f"light_{name}.onnx"
        onnx.save(model, path)
        numbers = rng.standard_normal((samples, *shape)).astype(np.float32)
        yield path, [{value.name: each} for each in numbers]
