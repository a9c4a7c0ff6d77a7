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

    Inputs are made up, twice: numbers from -1 to 1 and integers of 0, then nothing but 1. So
    the same is found by whoever asks, and what follows from numbers, not from sizes alone, is
    not known: other rows than these would be longer. Nor is a size of 0; a model that does not
    run on such numbers says nothing. Of what bodies compute nothing is known this way.
    """
    given = {value.name for value in (*model.graph.input, *model.graph.output)}
    given |= {name for node in model.graph.node for name in node.output}
    names = [name for name in names if name in given]
    feeds = [_made_up(model, inputs, is_rising) for is_rising in (True, False)]
    if not names or not all(feeds):
        return {}
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    del watched.graph.output[:]
    watched.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    try:
        session = Session(watched, optimize=False)
        one, other = (session.run(None, feed) for feed in feeds)
    except ModelError:
        return {}
    found = zip(names, map(_size, one), map(_size, other), strict=True)
    return {name: size for name, size, again in found if size and size == again}


def _size(value: object) -> list[int] | None:
    """That of a tensor that holds values."""
    return list(value.shape) if isinstance(value, np.ndarray) and value.size else None


def _made_up(
    model: onnx.ModelProto, inputs: Mapping[str, Sequence[int]], is_rising: bool
) -> Arrays:
    """Numbers of these sizes; none where sizes are not known or too large, or of texts."""
    feed = {}
    for value in model.graph.input:
        sizes = inputs.get(value.name)
        if sizes is None or prod(sizes) > _MOST_NUMBERS:
            return {}
        dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        if dtype.kind not in "fiub":
            return {}
        rising = np.linspace(-1, 1, prod(sizes)) if dtype.kind == "f" else 0
        numbers = rising if is_rising else 1
        feed[value.name] = np.resize(numbers, sizes).astype(dtype)
    return feed
