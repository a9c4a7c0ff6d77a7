"""Options that the command line has alone: what pictures become, and what is printed."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from qpasses.ir.choices import GraphFormat
from qpasses.ir.declared import FILE, Kind, Options, option
from qpasses.ir.options import GENERAL, OUTPUT, SAMPLES


def _numbers(value: Any) -> tuple[float, ...]:
    """One number or several, as 0.5,0.5,0.5; 1/255 is a number."""
    parts = value if isinstance(value, list | tuple) else [value]
    if isinstance(value, str):
        parts = re.split(r"\s*,\s*|\s+", value.strip("[] "))
    try:
        return tuple(map(_number, parts))
    except (TypeError, ValueError, ZeroDivisionError) as error:
        raise ValueError(f"{value!r} is no number and no list as 0.5,0.5,0.5") from error


def _number(text: Any) -> float:
    above, _, below = str(text).partition("/")
    return float(above) / float(below or 1)


def _size(value: Any) -> tuple[int, int]:
    """Height and width: one side of a square, HEIGHTxWIDTH, or a list of both."""
    parts = value if isinstance(value, list | tuple) else str(value).lower().split("x")
    try:
        height, width = map(int, parts if len(parts) == 2 else [*parts, *parts])
    except ValueError as error:
        raise ValueError(f"{value!r} is neither a number nor HEIGHTxWIDTH") from error
    return height, width


def _are_parts(value: Any, *kinds: type) -> bool:
    parts = value if isinstance(value, list) else [value]
    return len(parts) > 0 and all(type(each) in kinds for each in parts)


_PARTS = "a number, a list of numbers or a text"

NUMBERS = Kind(_PARTS, lambda value: _are_parts(value, int, float, str), _numbers)
SIZE = Kind(_PARTS, lambda value: _are_parts(value, int, str), _size)


@dataclass(frozen=True, kw_only=True)
class PictureOptions(Options):
    """What makes the ``preprocessing`` of the Python interface: qpasses.preprocessing()."""

    preprocess: str | None = option(
        None,
        "What pictures become: imagenet, caffe, inception, clip, cifar10, mnist, yolo, yolox, "
        "unit (0..1) or raw (0..255); the options up to --resize replace parts of it: "
        "(pixel * scale - mean) / std.",
        SAMPLES,
        metavar="NAME",
    )
    scale: tuple[float, ...] | None = option(
        None,
        "Factor for pixels of 0..255: 1/255 where means are of 0..1.",
        SAMPLES,
        unset="1, or the preset's",
        metavar="NUMBER",
        kind=NUMBERS,
    )
    mean: tuple[float, ...] | None = option(
        None,
        "Taken away after scaling, per channel.",
        SAMPLES,
        unset="0, or the preset's",
        metavar="NUMBERS",
        kind=NUMBERS,
    )
    std: tuple[float, ...] | None = option(
        None,
        "Divided by after that, per channel.",
        SAMPLES,
        unset="1, or the preset's",
        metavar="NUMBERS",
        kind=NUMBERS,
    )
    size: tuple[int, int] | None = option(
        None,
        "N or HEIGHTxWIDTH.",
        SAMPLES,
        unset="that of the model's input",
        metavar="SIZE",
        kind=SIZE,
    )
    picture_layout: Literal["NCHW", "NHWC"] | None = option(
        None,
        "Where the channels of a picture are.",
        SAMPLES,
        unset="the preset's, else the model's",
        any_case=True,
    )
    channels: Literal["RGB", "BGR", "gray"] | None = option(
        None,
        "In which order, or gray.",
        SAMPLES,
        unset="the preset's, else RGB, or gray where the model takes one channel",
        any_case=True,
    )
    resize: Literal["crop", "stretch", "pad"] | None = option(
        None,
        "How a picture of another size is made to fit.",
        SAMPLES,
        unset="stretch, or the preset's",
    )


@dataclass(frozen=True, kw_only=True)
class TerminalOptions(Options):
    """The configuration file, and how much is printed."""

    config: Any = option(
        None,
        "Options from a file, under the same names; the command line wins.",
        GENERAL,
        metavar="FILE.toml",
        kind=FILE,
    )
    quiet: bool = option(False, "Print errors and problems only.", GENERAL)
    verbose: bool = option(
        False,
        "Print every setting, all that the report knows, and what each stage and pass took.",
        GENERAL,
    )


@dataclass(frozen=True, kw_only=True)
class FormatOptions(Options):
    """As what graphs are printed."""

    graph_format: GraphFormat = option(
        "onnx",
        "Print graphs in ONNX's text syntax, or as MLIR in generic form.",
        OUTPUT,
        flag="format",
    )


@dataclass(frozen=True, kw_only=True)
class PrintOptions(FormatOptions):
    """Which graphs are printed on the way, and as what."""

    print_after: Sequence[str] = option(
        (),
        "Print the graph after a pass (`qpasses passes` lists them); may be repeated.",
        OUTPUT,
        metavar="PASS",
    )
