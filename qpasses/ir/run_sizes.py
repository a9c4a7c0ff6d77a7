"""Sizes that no inference knows: those of tensors when the model runs, on made-up numbers."""

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
import onnx
from onnx import helper

from calibration import Session
from opsets.errors import ModelError
from qpasses.ir.runtime import Arrays

_MOST_NUMBERS = 1 << 26
"""A model with larger inputs is not run for sizes."""


def run_sizes(
    model: onnx.ModelProto, inputs: Mapping[str, Sequence[int]], names: Sequence[str]
) -> dict[str, list[int]]:
    """The sizes of the tensors ``names`` for inputs of these sizes, by name, where known.

    Inputs are made up: from -1 to 1, integers all 0, so that only what follows from sizes is
    found, and the same by whoever asks. A size of 0 comes of a number, and is not known; a
    model that does not run on such numbers says nothing.
    """
    feed = _made_up(model, inputs)
    if not names or feed is None:
        return {}
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    del watched.graph.output[:]
    watched.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    try:
        found = Session(watched, optimize=False).run(None, feed)
    except ModelError:
        return {}
    arrays = {n: each for n, each in zip(names, found, strict=True) if _is_sized(each)}
    return {name: list(array.shape) for name, array in arrays.items()}


def _is_sized(value: object) -> bool:
    return isinstance(value, np.ndarray) and value.size > 0


def _made_up(model: onnx.ModelProto, inputs: Mapping[str, Sequence[int]]) -> Arrays | None:
    feed = {}
    for value in model.graph.input:
        sizes = inputs.get(value.name)
        if sizes is None or prod(sizes) > _MOST_NUMBERS:
            return None
        dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        numbers = np.linspace(-1, 1, prod(sizes)) if dtype.kind == "f" else 0
        feed[value.name] = np.resize(numbers, sizes).astype(dtype)
    return feed
