"""Arguments: what the functions of the Python interface take, checked and read."""

from functools import cache, partial
from importlib.metadata import version
from pathlib import Path

import onnx

from calibration import Engine, Preprocessing, presets
from calibration.collect import collect
from opsets.errors import UsageError
from opsets.target import Target, load_target
from qpasses.ir.choices import EngineName
from qpasses.load.reading import check_float, checked_model, read_model
from qpasses.load.upgrade import runnable


def given_paths(*given: str | Path | None) -> list[Path]:
    """Those that are not None."""
    return [Path(path) for path in given if path is not None]


def given_model(model: str | Path | onnx.ModelProto) -> tuple[onnx.ModelProto, Path]:
    """The checked model, and its path or what stands for one in messages."""
    if isinstance(model, onnx.ModelProto):
        path = Path("<ModelProto>")
        return checked_model(model, path), path
    return read_model(Path(model)), Path(model)


def given_float_model(model: str | Path | onnx.ModelProto) -> tuple[onnx.ModelProto, Path]:
    """``given_model`` of a float model, at an opset that onnxruntime runs."""
    source, path = given_model(model)
    check_float(source, path)
    return runnable(source, path), path


def given_preprocessing(given: Preprocessing | str | None) -> Preprocessing | None:
    """It, or that of its name."""
    if given is None or isinstance(given, Preprocessing):
        return given
    if isinstance(given, str):
        return presets.preprocessing(given)
    raise UsageError(
        f"preprocessing: a name or a qpasses.Preprocessing is needed, got {given!r}"
    )


def given_target(target: str | Path | Target, exact: bool) -> Target:
    """Its rules; ``exact`` stands for the target of that name."""
    if not isinstance(target, str | Path | Target):
        raise UsageError(f"target: a name, a path or a Target is needed, got {target!r}")
    rules = target if isinstance(target, Target) else load_target(target)
    if not exact:
        return rules
    if target not in ("onnx", "exact"):
        raise UsageError(f"exact with target {rules.name!r}: they choose the arithmetic both")
    return load_target("exact")


def given_engine(name: EngineName, address: str | None) -> Engine:
    """What collects statistics, here or on a Ray cluster at ``address``."""
    if name == "ray":
        from calibration.ray_engine import collect_on_ray

        return partial(collect_on_ray, address=address)
    if address is not None:
        raise UsageError(f"ray_address {address!r} is for engine 'ray'")
    return collect


@cache
def tool_version() -> str:
    """The installed version of this package."""
    return version("qpasses")
