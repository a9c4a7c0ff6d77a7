"""How well-known families of models expect their pictures."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from calibration.preprocessing import Channels, Layout, Preprocessing, Resize
from opsets.argument_kinds import shown
from opsets.errors import UsageError

_EVALUATION = 224 / 256
"""The crop of the usual evaluation on ImageNet: shorter side to 256, the middle 224."""

_TABLE: dict[str, tuple[str, Preprocessing]] = {
    "imagenet": (
        "RGB, 0 to 1, ImageNet's mean and deviation, centre crop (torchvision, timm)",
        Preprocessing(
            channels="RGB",
            resize="crop",
            crop_fraction=_EVALUATION,
            scale=1 / 255,
            mean=(0.485, 0.456, 0.406),
            std=(0.229, 0.224, 0.225),
        ),
    ),
    "caffe": (
        "BGR, 0 to 255 less ImageNet's mean, centre crop (Caffe, VGG, the first ResNets)",
        Preprocessing(
            channels="BGR",
            resize="crop",
            crop_fraction=_EVALUATION,
            mean=(104.0, 117.0, 123.0),
        ),
    ),
    "inception": (
        "RGB, -1 to 1, centre crop (Inception, MobileNet and EfficientNet from TensorFlow)",
        Preprocessing(
            channels="RGB",
            resize="crop",
            crop_fraction=_EVALUATION,
            scale=1 / 127.5,
            mean=(1.0,),
        ),
    ),
    "clip": (
        "RGB, 0 to 1, CLIP's mean and deviation, centre crop of the whole shorter side",
        Preprocessing(
            channels="RGB",
            resize="crop",
            scale=1 / 255,
            mean=(0.48145466, 0.4578275, 0.40821073),
            std=(0.26862954, 0.26130258, 0.27577711),
        ),
    ),
    "cifar10": (
        "RGB, 0 to 1, CIFAR-10's mean and deviation, stretched",
        Preprocessing(
            channels="RGB",
            scale=1 / 255,
            mean=(0.4914, 0.4822, 0.4465),
            std=(0.2023, 0.1994, 0.2010),
        ),
    ),
    "mnist": (
        "gray, 0 to 1, MNIST's mean and deviation, stretched",
        Preprocessing(channels="gray", scale=1 / 255, mean=(0.1307,), std=(0.3081,)),
    ),
    "yolo": (
        "RGB, 0 to 1, the whole picture with gray bars",
        Preprocessing(channels="RGB", resize="pad", scale=1 / 255),
    ),
    "yolox": (
        "BGR, 0 to 255, the whole picture with gray bars",
        Preprocessing(channels="BGR", resize="pad"),
    ),
    "unit": ("0 to 1, stretched", Preprocessing(scale=1 / 255)),
    "raw": ("0 to 255 as they are, stretched", Preprocessing()),
}

PRESETS: dict[str, Preprocessing] = {name: made for name, (_, made) in _TABLE.items()}
"""The preprocessing by name."""

PRESET_NOTES: dict[str, str] = {name: note for name, (note, _) in _TABLE.items()}
"""What each is, in a line."""


def parts_of(made: Preprocessing) -> dict[str, Any]:
    """What ``preprocessing`` is called with for ``made``: the nearest preset, other parts.

    Its name is under ``preprocess``. What is None, and so follows from a model's input, is
    left out.
    """

    def others(name: str) -> dict[str, Any]:
        usual = dict(vars(preprocessing(name, channels=made.channels)))
        if PRESETS[name].channels != made.channels:
            usual["channels"] = None
        parts = vars(made).items()
        return {part: value for part, value in parts if value not in (None, usual[part])}

    def distance(name: str) -> tuple[bool, int]:
        own = {part for part, value in vars(PRESETS[name]).items() if value is not None}
        free = {part for part, value in vars(made).items() if value is None}
        parts = others(name)
        return bool(own & free) or "crop_fraction" in parts, len(parts)

    nearest = min(PRESETS, key=distance)
    return {"preprocess": nearest, **others(nearest)}


def preprocessing(
    name: str | None = None,
    *,
    channels: Channels | None = None,
    layout: Layout | None = None,
    size: tuple[int, int] | None = None,
    resize: Resize | None = None,
    crop_fraction: float | None = None,
    scale: float | None = None,
    mean: float | Sequence[float] | None = None,
    std: float | Sequence[float] | None = None,
) -> Preprocessing:
    """A preset (``raw`` if none is named) with the parts that are given in place of its own.

    A preset's mean and std stay with their colours: they are turned round where ``channels``
    turns RGB into BGR or back. Raises UsageError for unknown names and for values that make
    no sense.
    """
    start = PRESETS.get(name) if isinstance(name, str) else PRESETS["raw"]
    if start is None or not isinstance(name, str | None):
        raise UsageError(
            f"unknown preprocessing {shown(name)}: use one of {', '.join(PRESETS)}"
        )
    if sorted(map(str, (start.channels, channels))) == ["BGR", "RGB"]:
        start = replace(start, mean=start.mean[::-1], std=start.std[::-1])
    given: dict[str, Any] = {
        "channels": channels,
        "layout": layout,
        "size": size,
        "resize": resize,
        "crop_fraction": crop_fraction,
        "scale": scale,
        "mean": mean,
        "std": std,
    }
    return replace(
        start, **{part: value for part, value in given.items() if value is not None}
    )
