"""What the commands share: option types, groups of options, the configuration file."""

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import click

from opsets.errors import UsageError
from qpasses.ir.choices import (
    ActivationType,
    Alignment,
    CalibrationMethod,
    EngineName,
    OnBadSample,
)

FILE = click.Path(path_type=Path)

CONFIG = "qpasses.config"
"""Under this key a command's context holds the path of its configuration file."""

_PREPROCESSING = ("scale", "mean", "std", "size", "layout", "channels", "resize")


class Numbers(click.ParamType[tuple[float, ...]]):
    """One number or several, as 0.5,0.5,0.5; 1/255 is a number."""

    name = "numbers"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[float, ...]:
        """The numbers, from a text or what a configuration file holds."""
        parts = value if isinstance(value, list | tuple) else [value]
        if isinstance(value, str):
            parts = re.split(r"\s*,\s*|\s+", value.strip("[] "))
        try:
            return tuple(map(_number, parts))
        except (TypeError, ValueError, ZeroDivisionError):
            self.fail(f"{value!r} is no number and no list as 0.5,0.5,0.5", param, ctx)


class Size(click.ParamType[tuple[int, int]]):
    """One side of a square, or HEIGHTxWIDTH."""

    name = "size"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[int, int]:
        """Height and width, from a text or what a configuration file holds."""
        parts = str(value).lower().split("x") if not isinstance(value, list | tuple) else value
        try:
            height, width = map(int, parts if len(parts) == 2 else [*parts, *parts])
        except ValueError:
            self.fail(f"{value!r} is neither a number nor HEIGHTxWIDTH", param, ctx)
        return height, width


def _number(text: Any) -> float:
    above, _, below = str(text).partition("/")
    return float(above) / float(below or 1)


def _read_config(ctx: click.Context, _param: click.Parameter, path: Path | None) -> None:
    """Let the entries of a TOML file stand for options that are not given."""
    if path is None:
        return
    try:
        entries = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"--config {path}: cannot be read as TOML: {error}") from error
    for command in ("quantize", "calibrate", "verify"):  # [quantize]: for that command alone
        if isinstance(entries.get(command), dict):
            section = entries.pop(command)
            entries |= section if command in (ctx.info_name, _name_above(ctx)) else {}
    known = {
        name.lstrip("-").replace("-", "_"): param
        for param in ctx.command.params
        for name in param.opts
        if name.startswith("--") and param.name not in ("config", "help")
    }
    defaults = {}
    for key, value in entries.items():
        param = known.get(key.replace("-", "_"))
        if param is None:
            options = ", ".join(sorted(known)).replace("_", "-")
            raise UsageError(f"--config {path}: unknown entry {key!r} (known: {options})")
        if str(param.name) in defaults:
            raise UsageError(f"--config {path}: {key} stands there twice")
        wanted = _mismatch(param, value)
        if wanted:
            raise UsageError(f"--config {path}: {key} = {value!r}: {wanted} is needed")
        defaults[str(param.name)] = value
    ctx.default_map = defaults
    ctx.meta[CONFIG] = path


def _name_above(ctx: click.Context) -> str | None:
    """What stands before the name of the command: ``calibrate MODEL`` has one of its own."""
    return None if ctx.parent is None else ctx.parent.info_name


def _mismatch(param: click.Parameter, value: Any) -> str:
    """What an entry of a configuration file must be, if ``value`` is something else."""
    if param.multiple:
        fits = isinstance(value, list) and all(isinstance(each, str) for each in value)
        return "" if fits else "a list of texts"
    if isinstance(param, click.Option) and param.is_flag:
        return "" if isinstance(value, bool) else "true or false"
    if isinstance(param.type, click.IntRange):
        return "" if type(value) is int else "a whole number"
    if isinstance(param.type, click.types.FloatParamType):
        return "" if type(value) in (int, float) else "a number"
    if isinstance(param.type, Numbers | Size):
        parts = value if isinstance(value, list) else [value]
        kinds = (int, str) if isinstance(param.type, Size) else (int, float, str)
        fits = len(parts) > 0 and all(type(each) in kinds for each in parts)
        return "" if fits else "a number, a list of numbers or a text"
    return "" if isinstance(value, str) else "a text"


def _options(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Several options as one decorator, listed in the help in this order."""

    def decorate(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


class Shard(click.ParamType[tuple[int, int]]):
    """I/N: the I-th of N parts."""

    name = "shard"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[int, int]:
        """Number and count, from a text."""
        if isinstance(value, tuple):
            return value
        try:
            number, parts = map(int, str(value).split("/"))
        except ValueError:
            self.fail(f"{value!r} is not I/N, as 2/4 for the second of four", param, ctx)
        return number, parts


_DATA_HELP = (
    "Samples: a folder of .npy/.npz feeds or one file of stacked ones, a folder of pictures, "
    "or of test_data_set_*; random:N makes numbers up."
)

DATA = click.option("--data", required=True, metavar="PATH|random:N", help=_DATA_HELP)
DATA_IF_WANTED = click.option("--data", metavar="PATH|random:N", help=_DATA_HELP)

DATA_OR_TABLE = click.option(
    "--data",
    metavar="PATH|random:N",
    help=f"{_DATA_HELP} Needed unless there is a calibration table.",
)

SAMPLES = _options(
    click.option(
        "--samples",
        type=click.IntRange(min=1),
        metavar="N",
        help="Use only N samples, spread evenly over the data.",
    ),
    click.option(
        "--preprocess",
        metavar="NAME",
        help="What pictures become: imagenet, caffe, inception, clip, cifar10, mnist, yolo, "
        "yolox, unit (0..1) or raw (0..255); the options up to --resize replace parts of it: "
        "(pixel * scale - mean) / std.",
    ),
    click.option(
        "--scale",
        type=Numbers(),
        help="Factor for pixels of 0..255: 1/255 where means are of 0..1; default: 1, or the "
        "preset's.",
    ),
    click.option("--mean", type=Numbers(), help="Taken away after scaling, per channel."),
    click.option("--std", type=Numbers(), help="Divided by after that, per channel."),
    click.option(
        "--size", type=Size(), help="N or HEIGHTxWIDTH; default: that of the model's input."
    ),
    click.option(
        "--layout",
        type=click.Choice(["NCHW", "NHWC"], case_sensitive=False),
        help="Default: the model's.",
    ),
    click.option(
        "--channels",
        type=click.Choice(["RGB", "BGR", "gray"], case_sensitive=False),
        help="Default: RGB, or gray where the model takes one channel.",
    ),
    click.option(
        "--resize",
        type=click.Choice(["crop", "stretch", "pad"]),
        help="How a picture of another size is made to fit.",
    ),
)

METHOD = _options(
    click.option(
        "--symmetric",
        is_flag=True,
        default=None,
        help="Activation ranges symmetric about a fixed zero point; so are those of some "
        "targets.",
    ),
    click.option(
        "--calibration-method",
        type=click.Choice(get_args(CalibrationMethod)),
        default="minmax",
        show_default=True,
        help="How ranges follow from samples; auto takes for each tensor the method with the "
        "least expected error.",
    ),
    click.option(
        "--percentile",
        type=float,
        default=99.999,
        show_default=True,
        help="Of the values that the method of this name keeps.",
    ),
    click.option(
        "--calibration-overrides",
        multiple=True,
        metavar="REGEX=RULE",
        help="What tensors do whose whole name matches: a method, percentile:P, or a range "
        "LOW,HIGH; may be repeated, the first that matches counts.",
    ),
)

SELECTION = _options(
    click.option(
        "--nodes-to-exclude",
        multiple=True,
        metavar="REGEX",
        help="Leave nodes in float whose whole name (or that of a tensor they write) matches; "
        "may be repeated.",
    ),
    click.option(
        "--op-types-to-quantize",
        multiple=True,
        metavar="TYPE",
        help="Make only nodes of this op type integer; several with commas, or repeated.",
    ),
)

ALIGNMENT = click.option(
    "--alignment",
    type=click.Choice(get_args(Alignment)),
    help="Which tensors share a range: by our rules, or by those of TPU-MLIR for BM1684X. "
    "[default: as the target says, mostly qpasses]",
)

SHARING = click.option(
    "--share-tables",
    type=float,
    metavar="DB",
    help="Tie the scales of activations of the same kind so that they share tables, where no "
    "tensor loses more than DB decibels of signal over rounding noise.",
)

ACTIVATIONS = click.option(
    "--activation-type",
    type=click.Choice(get_args(ActivationType)),
    default="uint8",
    show_default=True,
    help="What activations are stored as.",
)

CODES = _options(
    click.option(
        "--activation-bits",
        type=click.IntRange(2, 8),
        default=8,
        show_default=True,
        metavar="N",
        help="Bits of the codes of activations, 2 to 8, each stored in 8.",
    ),
    click.option(
        "--narrow-range",
        is_flag=True,
        help="Leave out the lowest code, so that as many lie below the middle as above it.",
    ),
)

ENGINE = _options(
    click.option(
        "--on-bad-sample",
        type=click.Choice(get_args(OnBadSample)),
        default="error",
        show_default=True,
        help="What to do with a sample that is damaged, does not fit, or makes a tensor NaN "
        "or infinite.",
    ),
    click.option(
        "--workers",
        type=click.IntRange(min=1),
        metavar="N",
        help="Samples calibrated at a time; default: one a core.",
    ),
    click.option(
        "--engine",
        type=click.Choice(get_args(EngineName)),
        default="local",
        show_default=True,
        help="Where samples are calibrated: in this process, or as tasks of Ray.",
    ),
    click.option(
        "--ray-address",
        metavar="ADDRESS",
        help="The Ray cluster to use; default: one is started on this machine.",
    ),
)

EVIDENCE = click.option(
    "--evidence",
    "evidence_file",
    type=FILE,
    metavar="FILE",
    help="What is known of every node, as JSON (docs/evidence.md); default: OUT.evidence.json "
    "beside OUT.onnx.",
)

KEPT_EVIDENCE = click.option(
    "--evidence",
    "evidence_file",
    type=FILE,
    metavar="FILE",
    help="What quantize wrote, to compare with what is recomputed; default: what lies beside "
    "INTEGER, if anything does.",
)

OUTPUT = _options(
    click.option(
        "--json",
        "json_file",
        type=FILE,
        metavar="FILE",
        help="Write the report as JSON (docs/report.md).",
    ),
    click.option(
        "--config",
        type=FILE,
        metavar="FILE.toml",
        is_eager=True,
        expose_value=False,
        callback=_read_config,
        help="Options from a file, under the same names; the command line wins.",
    ),
    click.option("--quiet", is_flag=True, help="Print errors and problems only."),
    click.option("--verbose", is_flag=True, help="Print what each stage and pass took."),
)


def without_idle_percentile(options: dict[str, Any]) -> dict[str, Any]:
    """The options to show: the percentile only where a method looks at it."""
    overrides = options.get("calibration_overrides", ())
    rules = {text.rpartition("=")[2] for text in overrides}
    if {options.get("calibration_method"), *rules} & {"percentile", "auto"}:
        return options
    return {name: value for name, value in options.items() if name != "percentile"}


def taken_preprocessing(options: dict[str, Any]) -> Any:
    """The preprocessing that the options describe, taken out of them; None for none."""
    name = options.pop("preprocess")
    parts = {part: options.pop(part) for part in _PREPROCESSING}
    if name is None and all(value is None for value in parts.values()):
        return None
    from calibration.presets import preprocessing

    if parts["scale"] is not None and len(parts["scale"]) != 1:
        raise UsageError("--scale takes one number for all channels: use --std")
    scale = None if parts["scale"] is None else parts["scale"][0]
    return preprocessing(name, **{**parts, "scale": scale})
