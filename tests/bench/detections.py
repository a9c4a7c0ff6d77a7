"""Detections of the zoo's detectors drawn on its photos: float left, integers right.

`make detections` writes the pictures and prints how many boxes agree.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from rich.console import Console
from rich.table import Table

from calibration import Session, input_specs
from qpasses.api import quantize
from tests.bench.manifest import ROOT, ZOO, zoo_script

SIDE = 416
STRIDES = (8, 16, 32)
SAME = 0.5
"""Boxes of one class that overlap by so much show the same thing."""

Array = NDArray[Any]
COLOURS = ("#e6194b", "#3cb44b", "#4363d8", "#f58231", "#911eb4", "#008080", "#9a6324")


@dataclass(frozen=True)
class Box:
    """Corners in pixels of the network's input, class and score."""

    corners: Array
    label: int
    score: float


@dataclass(frozen=True)
class Detector:
    """How a model's picture is made and its outputs are read.

    ``decode``: outputs to corners [N, 4] and scores [N, classes]. ``keeps_shape``: pictures
    are scaled in proportion and padded with grey; else stretched.
    """

    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    keeps_shape: bool
    threshold: float
    decode: Callable[[Sequence[Array]], tuple[Array, Array]]

    def picture(self, photo: Image.Image) -> Image.Image:
        """The photo as the network sees it, SIDE by SIDE."""
        if not self.keeps_shape:
            return photo.resize((SIDE, SIDE), Image.Resampling.BILINEAR)
        factor = SIDE / max(photo.size)
        made = Image.new("RGB", (SIDE, SIDE), (114, 114, 114))
        width, height = (int(length * factor) for length in photo.size)
        made.paste(photo.resize((width, height), Image.Resampling.BILINEAR))
        return made

    def feed(self, picture: Image.Image) -> Array:
        """float32 [1, 3, SIDE, SIDE] in BGR."""
        values = np.asarray(picture, np.float32)[..., ::-1]
        mean, std = (np.array(each, np.float32) for each in (self.mean, self.std))
        return np.ascontiguousarray(((values - mean) / std).transpose(2, 0, 1)[None])


def centres(stride: int, offset: float) -> Array:
    """[cells, 2]: x and y of the cells of one level, row by row, in pixels."""
    count = -(-SIDE // stride)
    y, x = np.mgrid[:count, :count]
    return (np.stack([x, y], -1).reshape(-1, 2) + offset) * stride


def decode_yolox(outputs: Sequence[Array]) -> tuple[Array, Array]:
    """[1, cells, 85]: centre and log size in strides, objectness, classes."""
    (rows,) = outputs[0]
    strides = np.concatenate([np.full(len(centres(s, 0)), s) for s in STRIDES])[:, None]
    middle = np.concatenate([centres(s, 0) for s in STRIDES]) + rows[:, :2] * strides
    half = np.exp(np.minimum(rows[:, 2:4], 10)) * strides / 2
    return np.concatenate([middle - half, middle + half], 1), rows[:, 4:5] * rows[:, 5:]


def decode_nanodet(outputs: Sequence[Array]) -> tuple[Array, Array]:
    """Per stride classes [1, cells, 80]; per stride four distributions [1, cells, 4 * 8]."""
    corners = []
    for stride, (rows,) in zip(STRIDES, outputs[3:], strict=True):
        weights = np.exp(rows.reshape(-1, 4, 8) - rows.max())
        distance = (weights * np.arange(8)).sum(-1) / weights.sum(-1) * stride
        middle = centres(stride, 0.5)
        corners.append(np.concatenate([middle - distance[:, :2], middle + distance[:, 2:]], 1))
    return np.concatenate(corners), np.concatenate([rows for (rows,) in outputs[:3]])


DETECTORS = {
    "nanodet_m": Detector(
        (103.53, 116.28, 123.675), (57.375, 57.12, 58.395), False, 0.35, decode_nanodet
    ),
    "yolox_nano": Detector((0, 0, 0), (1, 1, 1), True, 0.3, decode_yolox),
}


def overlap(one: Array, others: Array) -> Array:
    """Intersection over union of corners [4] with each of [N, 4]."""
    sides = np.minimum(one[2:], others[:, 2:]) - np.maximum(one[:2], others[:, :2])
    shared = np.maximum(sides, 0).prod(1)
    areas = [(each[..., 2:] - each[..., :2]).prod(-1) for each in (one, others)]
    return np.asarray(shared / (areas[0] + areas[1] - shared))


def detect(detector: Detector, outputs: Sequence[Array]) -> list[Box]:
    """The boxes above the threshold, best first, without those that overlap a better one."""
    corners, scores = detector.decode(outputs)
    labels, best = scores.argmax(1), scores.max(1)
    found: list[Box] = []
    for index in np.argsort(-best, kind="stable"):
        if best[index] < detector.threshold:
            break
        rivals = [box.corners for box in found if box.label == labels[index]]
        if not rivals or overlap(corners[index], np.stack(rivals)).max() < 0.6:
            found.append(Box(corners[index], int(labels[index]), float(best[index])))
    return found


def agreeing(boxes: Sequence[Box], others: Sequence[Box]) -> int:
    """How many of ``boxes`` have a box of their class at their place among ``others``."""
    return sum(
        any(
            box.label == other.label and overlap(box.corners, other.corners[None])[0] > SAME
            for other in others
        )
        for box in boxes
    )


def drawn(picture: Image.Image, boxes: Sequence[Box], names: Sequence[str]) -> Image.Image:
    """A copy of ``picture`` with ``boxes``."""
    made = picture.copy()
    pen = ImageDraw.Draw(made)
    for box in boxes:
        colour = COLOURS[box.label % len(COLOURS)]
        pen.rectangle(box.corners.tolist(), outline=colour, width=2)
        pen.text(
            (box.corners[0], box.corners[1]),
            f"{names[box.label]} {box.score:.2f}",
            fill=colour,
        )
    return made


def compare(name: str, folder: Path, names: Sequence[str], table: Table) -> None:
    """Draw the detections of one model, float and integer, and count them."""
    detector = DETECTORS[name]
    model = onnx.load(ZOO / "models" / f"{name}.onnx")
    made = quantize(model, zoo_script().feeds(name, "calib", root=str(ZOO))).model
    assert made is not None
    sessions = [Session(model), Session(made)]
    (entrance,) = input_specs(model)
    for path in sorted((ZOO / "data" / "images").iterdir()):
        picture = detector.picture(Image.open(path).convert("RGB"))
        feed = {entrance.name: detector.feed(picture)}
        real, stored = (detect(detector, each.run(None, feed)) for each in sessions)
        both = Image.new("RGB", (2 * SIDE, SIDE))
        for index, boxes in enumerate((real, stored)):
            both.paste(drawn(picture, boxes, names), (index * SIDE, 0))
        both.save(folder / f"{name}-{path.stem}.png")
        agree = agreeing(real, stored), agreeing(stored, real)
        table.add_row(name, path.stem, *map(str, (len(real), len(stored), *agree)))


def main() -> None:
    """Draw on every photo."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=list(DETECTORS))
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "detections")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    names = (ZOO / "data" / "coco_classes.txt").read_text("utf-8").split("\n")
    heads = (
        "model",
        "photo",
        "float boxes",
        "integer boxes",
        "of float found",
        "of ours real",
    )
    table = Table(*heads)
    for name in arguments.models:
        compare(name, arguments.output, names, table)
    Console().print(table)
    print(f"float left, integers right: {arguments.output}")


if __name__ == "__main__":
    main()
