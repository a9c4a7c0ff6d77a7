"""Sizes that a model leaves free and does not take: which multiples it does, found by runs."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from calibration import Session, input_specs
from calibration.inputs import tensors
from opsets.errors import ModelError
from qpasses.ir.runtime import Arrays

_MULTIPLES = (2, 4, 8, 16, 32, 64, 128)
"""Strides of networks are powers of two."""

_MOST_NUMBERS = 1 << 24
"""With larger inputs nothing is tried out."""


def advised(error: ModelError, model: onnx.ModelProto, sample: Arrays) -> ModelError:
    """``error``, that ``model`` cannot run on ``sample``, with what to try, if that is known.

    Sizes behind the first of an input that are free are raised to multiples; those are advised
    of which two run, on made-up numbers.
    """
    free = {
        spec.name: [axis for axis, size in enumerate(spec.shape) if axis and size is None]
        for spec in input_specs(model)
    }
    given = tensors(sample)
    is_large = sum(values.size for values in given.values()) > _MOST_NUMBERS
    if not any(free.values()) or is_large or len(given) < len(sample):
        return error
    session = Session(model, optimize=False)
    for multiple in _MULTIPLES:
        raised, more = (_raised(given, free, multiple, further) for further in (0, 1))
        if _runs(session, given, raised) and _runs(session, given, more):
            shown = ", ".join(
                f"--input-shape {name}:{','.join(map(str, raised[name]))}"
                for name, axes in free.items()
                if axes
            )
            return ModelError(
                f"{error}: it runs where free sizes are multiples of {multiple}: give samples "
                f"of such sizes (of pictures --size says it), as {shown}"
            )
    return error


def _raised(
    sample: Mapping[str, NDArray[Any]],
    free: Mapping[str, Sequence[int]],
    multiple: int,
    more: int,
) -> dict[str, list[int]]:
    """By input, its sizes, with free ones raised to a multiple and ``more`` of them."""
    return {
        name: [
            (-(-size // multiple) + more) * multiple if axis in free[name] else size
            for axis, size in enumerate(values.shape)
        ]
        for name, values in sample.items()
    }


def _runs(
    session: Session, sample: Mapping[str, NDArray[Any]], sizes: Mapping[str, Sequence[int]]
) -> bool:
    """Whether the model runs on the numbers of ``sample``, repeated to other sizes."""
    if sum(map(prod, sizes.values())) > _MOST_NUMBERS:
        return False
    try:
        session.run(
            None, {name: np.resize(sample[name], each) for name, each in sizes.items()}
        )
    except ModelError:
        return False
    return True
