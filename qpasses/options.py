"""What the commands share: option types, groups of options, the configuration file."""

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from opsets.errors import UsageError

FILE = click.Path(path_type=Path)

_PREPROCESSING = ("scale", "mean", "std", "size", "layout", "channels", "resize")


class _Numbers(click.ParamType[tuple[float, ...]]):
    """One number or several with commas between; 1/255 is a number."""

    name = "numbers"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[float, ...]:
        parts = value.split(",") if isinstance(value, str) else value
        parts = parts if isinstance(parts, list | tuple) else [parts]
        try:
            return tuple(map(_number, parts))
        except (TypeError, ValueError, ZeroDivisionError):
            self.fail(f"{value!r} is no number and no list of numbers", param, ctx)


class _Size(click.ParamType[tuple[int, int]]):
    """One side of a square, or HEIGHTxWIDTH."""

    name = "size"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[int, int]:
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
    known = {
        name.lstrip("-").replace("-", "_"): param.name
        for param in ctx.command.params
        for name in param.opts
        if name.startswith("--") and param.name not in ("config", "help")
    }
    defaults = {}
    for key, value in entries.items():
        name = known.get(key.replace("-", "_"))
        if name is None:
            options = ", ".join(sorted(known)).replace("_", "-")
            raise UsageError(f"--config {path}: unknown entry {key!r} (known: {options})")
        defaults[name] = value
    ctx.default_map = defaults


def _options(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Several options as one decorator, listed in the help in this order."""

    def decorate(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


SAMPLES = _options(
    click.option(
        "--data",
        required=True,
        metavar="PATH|random:N",
        help="Samples: a folder of .npy/.npz feeds or one file of stacked ones, a folder of "
        "pictures, or of test_data_set_*; random:N makes numbers up.",
    ),
    click.option(
        "--samples",
        type=click.IntRange(min=1),
        metavar="N",
        help="Use only N samples, spread evenly over the data.",
    ),
    click.option(
        "--preprocess",
        metavar="NAME",
        help="What pictures become: imagenet, caffe, inception, unit, raw, ... ; the options "
        "up to --resize replace parts of it.",
    ),
    click.option("--scale", type=_Numbers(), help="Factor for pixels of 0..255, say 1/255."),
    click.option("--mean", type=_Numbers(), help="Taken away after scaling, per channel."),
    click.option("--std", type=_Numbers(), help="Divided by after that, per channel."),
    click.option(
        "--size", type=_Size(), help="N or HEIGHTxWIDTH; default: that of the model's input."
    ),
    click.option(
        "--layout", type=click.Choice(["NCHW", "NHWC"]), help="Default: the model's."
    ),
    click.option(
        "--channels",
        type=click.Choice(["RGB", "BGR", "gray"]),
        help="Default: RGB, or gray where the model takes one channel.",
    ),
    click.option(
        "--resize",
        type=click.Choice(["crop", "stretch", "pad"]),
        help="How a picture of another size is made to fit.",
    ),
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
