"""Targets: data files that name the integer rules of the machine a graph is made for."""

import tomllib
from dataclasses import MISSING, dataclass, fields
from fractions import Fraction
from importlib import resources
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from opsets.errors import UsageError
from opsets.fixed_point import ROUNDINGS, Int64, Rounding, requantize, scale_to_multiplier

_SHIPPED = resources.files("opsets") / "targets"


@dataclass(frozen=True)
class Target:
    """The rules by which scales become multipliers and accumulators become stored integers.

    ``fast_kernels``: multipliers are chosen so that onnxruntime's kernels compute them
    exactly; without it they are the nearest to real arithmetic, and the bodies are portable.
    """

    name: str
    description: str
    multiplier_bits: int
    rounding: Rounding
    fast_kernels: bool = True

    def __post_init__(self) -> None:
        for name in ("name", "description"):
            if not isinstance(getattr(self, name), str):
                raise UsageError(f"{name} must be a text, got {getattr(self, name)!r}")
        bits = self.multiplier_bits
        if type(bits) is not int or not 1 <= bits <= 31:
            raise UsageError(f"multiplier_bits must be 1 to 31, got {bits!r}")
        if self.rounding not in ROUNDINGS:
            known = ", ".join(ROUNDINGS)
            raise UsageError(f"unknown rounding {self.rounding!r}: use one of {known}")
        if not isinstance(self.fast_kernels, bool):
            raise UsageError(f"fast_kernels must be true or false, got {self.fast_kernels!r}")

    def scale_to_multiplier(self, scale: Fraction | float) -> tuple[int, int]:
        """``(multiplier, shift)``: value = accumulator * multiplier / 2**shift."""
        return scale_to_multiplier(scale, self.multiplier_bits)

    def requantize(
        self, accumulator: ArrayLike, multiplier: ArrayLike, shift: ArrayLike
    ) -> Int64:
        """The rounded product on integer arrays, before zero point and clamp."""
        return requantize(accumulator, multiplier, shift, self.rounding)


def target_names() -> list[str]:
    """The shipped targets, by name."""
    return sorted(
        entry.name.removesuffix(".toml")
        for entry in _SHIPPED.iterdir()
        if entry.name.endswith(".toml")
    )


def load_target(name_or_path: str | Path) -> Target:
    """Read a shipped target by name, or a user's own from a TOML file.

    Raises UsageError naming the file and the rule that is missing, unknown or impossible.
    """
    source, content = _read(name_or_path)
    try:
        rules = tomllib.loads(content.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"target {source}: not valid TOML: {error}") from error
    return _checked(rules, source)


def _read(name_or_path: str | Path) -> tuple[str, bytes]:
    if str(name_or_path) in target_names():
        return str(name_or_path), (_SHIPPED / f"{name_or_path}.toml").read_bytes()
    path = Path(name_or_path)
    if path.suffix == ".toml" and not path.is_file():
        raise UsageError(f"target {path}: no such file")
    if path.suffix != ".toml":
        known = ", ".join(target_names())
        raise UsageError(
            f"unknown target {str(name_or_path)!r}: use one of {known}, "
            "or the path of a .toml file"
        )
    return str(path), path.read_bytes()


def _checked(rules: dict[str, Any], source: str) -> Target:
    known = {field.name for field in fields(Target)}
    needed = {field.name for field in fields(Target) if field.default is MISSING}
    for name in sorted((needed - rules.keys()) | (rules.keys() - known)):
        state = "missing" if name in needed else "unknown"
        raise UsageError(f"target {source}: {state} rule {name!r}")
    try:
        return Target(**rules)
    except UsageError as error:
        raise UsageError(f"target {source}: {error}") from error
