"""Examples: a few samples with what float and integers make of them, for people to look at."""

import base64
import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpasses.analysis.walking import Example
from qpasses.jobs.detecting import Detector

_CLASSES = 5
_SHOWN = 8
"""So many numbers of other outputs."""

_LARGEST = 512
"""Pictures are shown no larger, on either side."""


def example_json(example: Example, detector: Detector | None = None) -> dict[str, Any]:
    """An example as reports have it: a picture of its first input that is one, its outputs.

    Where there is a ``detector``, what it finds comes first. Raises UsageError.
    """
    pictures = [each for each in map(_channels_first, example.feed.values()) if _is_one(each)]
    outputs = [
        _output(name, real, example.found[name])
        for name, real in example.real.items()
        if isinstance(real, np.ndarray) and real.dtype.kind in "fiub"
    ]
    if detector is not None and pictures:
        factor = min(1.0, _LARGEST / max(pictures[0].shape[2:]))
        outputs.insert(0, _shrunk(detector.found(example), factor))
    return {
        "sample": example.sample,
        "picture": _picture(pictures[0]) if pictures else None,
        "outputs": outputs,
    }


def _shrunk(found: dict[str, Any], factor: float) -> dict[str, Any]:
    """Boxes in pixels of what is shown."""
    for whose in ("float", "integer"):
        for box in found[whose]:
            box[:4] = [round(end * factor, 2) for end in box[:4]]
    return found


def _channels_first(values: Any) -> Any:
    """[1, H, W, 1 or 3] as [1, 1 or 3, H, W]; others as they are."""
    shape = np.shape(values)
    is_last = len(shape) == 4 and shape[1] not in (1, 3) and shape[3] in (1, 3)
    return np.moveaxis(values, 3, 1) if is_last else values


def _is_one(values: Any) -> bool:
    """Whether it is a picture [1, 1 or 3, H, W]."""
    return (
        isinstance(values, np.ndarray)
        and values.ndim == 4
        and values.shape[:2] in ((1, 1), (1, 3))
        and min(values.shape[2:]) >= _SHOWN
        and values.dtype.kind in "fu"
    )


def _output(name: str, real: NDArray[Any], found: NDArray[Any]) -> dict[str, Any]:
    shape, ends = real.shape, [_channels_first(real), _channels_first(found)]
    if all(map(_is_one, ends)):
        pictures = [_picture(each, ends[0]) for each in ends]
        if all(pictures):
            return {"name": name, "kind": "image"} | dict(
                zip(("float", "integer"), pictures, strict=True)
            )
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
    """[1, 1 or 3, H, W] as PNG, from black to white as ``like`` reaches.

    None where Pillow is not installed (``pip install qpasses[images]``).
    """
    try:
        from PIL import Image
    except ImportError:
        return None
    known = values if like is None else like
    finite = known[np.isfinite(known)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    shown = np.nan_to_num(values[0].astype(np.float64), nan=low, posinf=high, neginf=low)
    levels = (shown - low) * (255 / max(high - low, 1e-9))
    pixels = np.moveaxis(np.clip(levels, 0, 255).astype(np.uint8), 0, -1)
    image = Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)
    image.thumbnail((_LARGEST, _LARGEST))
    content = io.BytesIO()
    image.save(content, "PNG", optimize=False)
    return f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode()}"
