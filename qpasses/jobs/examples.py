"""Examples: a few samples with what float and integers make of them, for people to look at."""

import base64
import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpasses.analysis.walking import Example

_CLASSES = 5
_SHOWN = 8
"""So many numbers of other outputs."""

_LARGEST = 512
"""Pictures are shown no larger, on either side."""


def example_json(example: Example) -> dict[str, Any]:
    """An example as reports have it: a picture of its first input that is one, its outputs."""
    pictures = [_picture(value) for value in example.feed.values()]
    return {
        "sample": example.sample,
        "picture": next(filter(None, pictures), None),
        "outputs": [
            _output(name, real, example.found[name]) for name, real in example.real.items()
        ],
    }


def _output(name: str, real: NDArray[Any], found: NDArray[Any]) -> dict[str, Any]:
    shape = real.shape
    pictures = _picture(real), _picture(found, real)
    if all(pictures):
        return {"name": name, "kind": "image", "float": pictures[0], "integer": pictures[1]}
    if len(shape) == 2 and shape[0] == 1 and shape[1] >= _CLASSES:
        tops = _top(real[0]), _top(found[0])
        return {"name": name, "kind": "top-5", "float": tops[0], "integer": tops[1]}
    numbers = (np.ravel(each)[:_SHOWN].astype(float).tolist() for each in (real, found))
    return {"name": name, "kind": "values"} | dict(
        zip(("float", "integer"), numbers, strict=True)
    )


def _top(scores: NDArray[Any]) -> list[list[float]]:
    """The first classes with their probabilities, those of logits by a Softmax."""
    values = scores.astype(np.float64)
    if values.min() < 0 or abs(values.sum() - 1) > 0.01:
        values = np.exp(values - values.max())
        values /= values.sum()
    order = np.argsort(-values, kind="stable")[:_CLASSES]
    return [[int(place), float(values[place])] for place in order]


def _picture(values: Any, like: NDArray[Any] | None = None) -> str | None:
    """[1, 1 or 3, H, W] as PNG, from black to white as ``like`` reaches; None for others.

    None too where Pillow is not installed (``pip install qpasses[images]``).
    """
    is_picture = getattr(values, "ndim", 0) == 4 and values.shape[:2] in ((1, 1), (1, 3))
    if not is_picture or min(values.shape[2:]) < _SHOWN or values.dtype.kind not in "fu":
        return None
    try:
        from PIL import Image
    except ImportError:
        return None
    known = values if like is None else like
    low, high = float(known.min()), float(known.max())
    levels = (values[0].astype(np.float64) - low) * (255 / max(high - low, 1e-9))
    pixels = np.moveaxis(np.clip(levels, 0, 255).astype(np.uint8), 0, -1)
    image = Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)
    image.thumbnail((_LARGEST, _LARGEST))
    content = io.BytesIO()
    image.save(content, "PNG", optimize=False)
    return f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode()}"
