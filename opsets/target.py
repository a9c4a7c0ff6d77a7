"""Targets: data files that name the integer rules of the machine a graph is made for."""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from fractions import Fraction
from functools import cache
from importlib import resources
from math import isfinite
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from opsets.errors import UsageError
from opsets.fixed_point import ROUNDINGS, Int64
from opsets.forms import ADD_FORMS, GEMM_FORMS, MEAN_FORMS, POOL_FORMS, SLOPE_FORMS
from opsets.lstm_forms import LSTM_FORMS, NEAREST
from opsets.multipliers import MULTIPLIERS, Pair, Scale, ScaleError
from opsets.rounding import ROUNDING_RULES, requantize
from opsets.scales import SCALES
from opsets.table_rules import TABLE_ROUNDINGS, TableRounding, TableRules
from opsets.weights import WEIGHTS

_SHIPPED = resources.files("opsets") / "targets"
_SAME = "same_as"


@dataclass(frozen=True)
class Target:
    """The rules by which scales become multipliers and accumulators become stored integers.

    ``multiplier`` names a rule of opsets.multipliers and ``multiplier_bits`` its width without
    the sign, with total right shifts from ``min_shift`` to ``max_shift``, negative to the
    left; ``elementwise`` and ``elementwise_bits`` are those of Add, Mul, pools and slopes,
    where they differ; ``word_multiplier`` and ``word_multiplier_bits`` those of sums of
    products that read 16 bits, whose levels fit int32, and ``word_add`` is the form of Add
    with 16 bits, where they differ; ``word_rounding`` is how these sums are rounded once,
    where all others are rounded as ``rounding`` says. ``word_ends``: a node may read 8 bits
    and write 16, or its tensors are ``alike``; ``word_tables``: functions of 16 bits have
    tables or not. ``byte_ops`` take 8 bits alone.
    ``scale_type``: the floats in which scales of activations are held and tables computed;
    ``scales`` names a rule of opsets.scales, ``weights`` one of opsets.weights, ``rounding``
    one of opsets.rounding; ``add``, ``average_pool``, ``mean``, ``slopes`` and ``gemm`` name
    forms of opsets.forms. ``activations`` are asymmetric or symmetric; those whose minimum is
    not negative are stored ``as_others`` or ``unsigned``; their scales may be per_channel or
    are per_tensor, and so are those of weights. Sums have ``accumulator_bits``; ``tables`` of
    256 entries may be used or not, and hold levels rounded by ``table_rounding``; ``softmax``,
    ``gelu`` and ``layernorm`` are what is computed of these. ``table_functions``,
    ``table_quotient`` and ``hard_swish`` say how what tables hold is computed and divided by
    its scale (opsets.table_rules). A Resize with mode linear has exact coefficients, or
    TFLite's of ten bits. An LSTM has tables nearest to its functions, or is that of a kernel
    (``lstm``, opsets.lstm_forms). The results of a Sigmoid have the range that samples give,
    or end at 255 / 256 (``sigmoid_range``). Where a tensor is stored anew at another scale,
    ``rescaling`` is real arithmetic, or requantized by the elementwise multiplier.
    ``alignment``: whose rules say which tensors share a range, unless a user says it
    (qpasses.place.alignment).

    ``fast_kernels``: multipliers are chosen so that onnxruntime's int8 kernels compute them
    exactly; without it they are those of the rule.
    """

    name: str
    description: str
    multiplier_bits: int
    rounding: str
    fast_kernels: bool = True
    multiplier: str = "nearest"
    min_shift: int = 1
    max_shift: int = 61
    scale_type: Literal["float32", "double"] = "float32"
    scales: str = "exact"
    elementwise: str | None = None
    elementwise_bits: int | None = None
    word_multiplier: str | None = None
    word_multiplier_bits: int | None = None
    word_rounding: str | None = None
    word_ends: str = "any"
    word_tables: bool = True
    byte_ops: Sequence[str] = ()
    add: str = "one_rounding"
    word_add: str | None = None
    average_pool: str = "requantized"
    mean: str = "requantized"
    slopes: str = "multipliers"
    gemm: str = "requantized"
    activations: str = "asymmetric"
    activation_scales: str = "per_channel"
    non_negative: str = "as_others"
    weights: str = "nearest"
    conv_weights: str = "per_channel"
    matmul_weights: str = "per_channel"
    accumulator_bits: int = 32
    tables: bool = True
    softmax: str = "table"
    gelu: str = "table"
    layernorm: str = "exact"
    resize: str = "exact"
    lstm: str = "nearest"
    sigmoid_range: str = "calibrated"
    hard_swish: str = "table"
    table_functions: str = "runtime"
    table_quotient: str = "divided"
    table_rounding: TableRounding = "half_to_even"
    rescaling: str = "real"
    alignment: Literal["qpasses", "tpu-mlir"] = "qpasses"

    def __post_init__(self) -> None:
        for name in ("name", "description"):
            if not isinstance(getattr(self, name), str):
                raise UsageError(f"{name} must be a text, got {getattr(self, name)!r}")
        for name, known in KNOWN.items():
            self._check_known(name, known)
        self._check_width(self.multiplier, "multiplier_bits")
        self._check_shifts()
        for name in ("elementwise", "word_multiplier"):
            if (rule := getattr(self, name)) is not None:
                self._check_known(name, MULTIPLIERS)
                self._check_width(rule, f"{name}_bits")
            elif getattr(self, f"{name}_bits") is not None:
                raise UsageError(f"{name}_bits is given without {name}, its rule")
        for name, forms in (("word_add", ADD_FORMS), ("word_rounding", ROUNDINGS)):
            if getattr(self, name) is not None:
                self._check_known(name, forms)
        if self.word_rounding is not None and self.word_multiplier is None:
            raise UsageError("word_rounding is given without word_multiplier")
        self._check_byte_ops()
        self._check_whole("accumulator_bits", range(16, 65))
        for name in ("fast_kernels", "tables", "word_tables"):
            if not isinstance(getattr(self, name), bool):
                raise UsageError(f"{name} must be true or false, got {getattr(self, name)!r}")

    def _check_known(self, name: str, known: Iterable[str]) -> None:
        given = getattr(self, name)
        if given not in tuple(known):
            raise UsageError(f"unknown {name} {given!r}: use one of {', '.join(known)}")

    def _check_whole(self, name: str, known: range, whose: str = "") -> None:
        given = getattr(self, name)
        if type(given) is not int or given not in known:
            raise UsageError(f"{name} must be {_named(known)}{whose}, got {given!r}")

    def _check_byte_ops(self) -> None:
        given = self.byte_ops
        if not isinstance(given, list | tuple) or any(type(op) is not str for op in given):
            raise UsageError(f"byte_ops must be a list of names of ops, got {given!r}")
        object.__setattr__(self, "byte_ops", tuple(given))

    def _check_width(self, rule: str, name: str) -> None:
        whose = "" if rule == "nearest" else f" with {rule!r}"
        self._check_whole(name, MULTIPLIERS[rule].bits, whose)

    def _check_shifts(self) -> None:
        low, high = MULTIPLIERS[self.multiplier].shifts
        for name in ("min_shift", "max_shift"):
            self._check_whole(name, range(low, high + 1), f" with {self.multiplier!r}")
        if self.min_shift > self.max_shift:
            raise UsageError(
                f"the shift range is empty: min_shift {self.min_shift} is above max_shift "
                f"{self.max_shift}"
            )

    @property
    def float_type(self) -> type[np.floating[Any]]:
        """numpy's of ``scale_type``."""
        return np.float32 if self.scale_type == "float32" else np.float64

    @property
    def table_rules(self) -> TableRules:
        """Those of its rules that tables follow."""
        return TableRules(
            self.float_type,
            self.table_functions,
            self.table_quotient,
            self.table_rounding,
            self.hard_swish,
        )

    def scale_to_multiplier(self, scale: Scale) -> Pair:
        """``(multiplier, shift)``: value = accumulator * multiplier / 2**shift.

        ``shift`` is the total right shift, negative to the left. Raises ScaleError, which is a
        UsageError, for scales that are negative or not finite, and for those that the target
        cannot express: larger than its largest, or 0 to it though an int32 accumulator would
        notice them.
        """
        shifts = self.min_shift, self.max_shift
        return self._derived(scale, self.multiplier, self.multiplier_bits, shifts)

    def add_form(self, has_words: bool) -> str:
        """The form of a sum, whether an end of it has 16 bits or none."""
        return self.word_add or self.add if has_words else self.add

    @property
    def seeks_real_sums(self) -> bool:
        """Whether a neighbour of the nearest multiplier may do for it: of 31 bits, where it
        gives more sums as real arithmetic does.
        """
        return self.multiplier == "nearest" and self.multiplier_bits == 31

    def elementwise_multiplier(self, scale: Scale) -> Pair:
        """The same for an operand of Add or Mul, a pool, a slope."""
        if self.elementwise is None or self.elementwise_bits is None:
            return self.scale_to_multiplier(scale)
        shifts = MULTIPLIERS[self.elementwise].shifts
        return self._derived(scale, self.elementwise, self.elementwise_bits, shifts)

    def word_sum_multiplier(self, scale: Scale) -> Pair:
        """The same for a sum of products that reads 16 bits."""
        if self.word_multiplier is None or self.word_multiplier_bits is None:
            return self.scale_to_multiplier(scale)
        shifts = MULTIPLIERS[self.word_multiplier].shifts
        return self._derived(scale, self.word_multiplier, self.word_multiplier_bits, shifts)

    def real_scale(self, op: str, operands: Sequence[float], y: float) -> Scale:
        """The product of the operands' scales over that of y, by the rule ``scales``.

        With ``scale_to_multiplier``, or ``elementwise_multiplier`` for all but Conv, Gemm and
        MatMul, it derives a node's multiplier from the float32 scales of tensors again, as a
        runtime does that reads a file: docs/targets.md says for which ``op``.
        """
        return SCALES[self.scales].derive(op, operands, y)

    def _derived(self, scale: Scale, rule: str, bits: int, shifts: tuple[int, int]) -> Pair:
        _check_scale(scale)
        low, high = shifts
        multiplier, shift = MULTIPLIERS[rule].derive(scale, bits, high)
        largest = Fraction((1 << bits) - 1) / Fraction(2) ** low
        smallest = max(Fraction(2) ** -high, SMALLEST)
        is_lost = multiplier == 0 and scale >= SMALLEST
        if not is_lost and low <= shift <= high and multiplier <= 1 << bits:
            return multiplier, shift
        if scale > largest:
            raise self._beyond(scale, "largest", largest)
        if scale < smallest:
            raise self._beyond(scale, "smallest", smallest)
        raise ScaleError(
            f"target {self.name!r} cannot express the scale {float(scale):.6g}: by {rule!r} "
            f"it is {multiplier} / 2**{shift}, shifts are {low} to {high}"
        )

    def _beyond(self, scale: Scale, which: str, end: Fraction) -> ScaleError:
        times = float(Fraction(scale) / end)
        digits = ".6g" if abs(times - 1) > 1e-3 else ".12g"
        return ScaleError(
            f"target {self.name!r} cannot express the scale {float(scale):.6g}: it is "
            f"{times:{digits}} times the {which}, {float(end):{digits}}"
        )

    def requantize(
        self, accumulator: ArrayLike, multiplier: ArrayLike, shift: ArrayLike
    ) -> Int64:
        """``opsets.rounding.requantize`` by the rounding of the target.

        Raises UsageError for what that does not take.
        """
        return requantize(accumulator, multiplier, shift, self.rounding)

    def rules(self) -> dict[str, Any]:
        """What a file of it says: the needed rules, fast_kernels, and all that is unusual."""
        usual = {field.name: field.default for field in fields(self)}
        given = {name: getattr(self, name) for name in usual}
        return {
            name: value
            for name, value in given.items()
            if name == "fast_kernels" or value != usual[name]
        }


SMALLEST = Fraction(1, 1 << 32)
"""Below it every product with an int32 accumulator is less than a half."""

_SCALED = ("per_channel", "per_tensor")

KNOWN: dict[str, Iterable[str]] = {
    "rounding": ROUNDING_RULES,
    "multiplier": MULTIPLIERS,
    "scale_type": ("float32", "double"),
    "scales": SCALES,
    "add": ADD_FORMS,
    "average_pool": POOL_FORMS,
    "mean": MEAN_FORMS,
    "slopes": SLOPE_FORMS,
    "gemm": GEMM_FORMS,
    "activations": ("asymmetric", "symmetric"),
    "activation_scales": _SCALED,
    "non_negative": ("as_others", "unsigned"),
    "weights": WEIGHTS,
    "conv_weights": _SCALED,
    "matmul_weights": _SCALED,
    "softmax": ("table", "shiftmax", "shiftmax8", "ibert", "gemmlowp"),
    "gelu": ("table", "shift", "ibert"),
    "layernorm": ("exact", "ivit", "ivit_short"),
    "resize": ("exact", "ten_bits"),
    "lstm": (NEAREST, *LSTM_FORMS),
    "word_ends": ("any", "alike"),
    "sigmoid_range": ("calibrated", "unit"),
    "hard_swish": ("table", "int16"),
    "table_functions": ("runtime", "legalized", "tflite"),
    "table_quotient": ("divided", "inverse"),
    "table_rounding": TABLE_ROUNDINGS,
    "rescaling": ("real", "requantized"),
    "alignment": ("qpasses", "tpu-mlir"),
}
"""The names that a rule may have, by rule."""


def _check_scale(scale: Scale) -> None:
    try:
        is_scale = isfinite(scale) and scale >= 0
    except (TypeError, OverflowError):
        is_scale = False
    if not is_scale:
        raise ScaleError(f"a scale is a finite number from 0 on, got {scale!r}")


def _named(known: range) -> str:
    if len(known) < 3:
        return " or ".join(map(str, known))
    return f"{known.start} to {known.stop - 1}"


def target_names() -> list[str]:
    """The shipped targets, by name."""
    return sorted(_rules_of_shipped())


@cache
def _rules_of_shipped() -> Mapping[str, Mapping[str, Any]]:
    found = _shipped_files()
    return {name: rules for name, rules in found.items() if _SAME not in rules}


@cache
def other_names() -> Mapping[str, str]:
    """Names by which shipped targets are known too: a file that says ``same_as`` alone."""
    found = _shipped_files()
    return {name: rules[_SAME] for name, rules in found.items() if _SAME in rules}


def _shipped_files() -> Mapping[str, Mapping[str, Any]]:
    files = [each for each in _SHIPPED.iterdir() if each.name.endswith(".toml")]
    return {
        each.name.removesuffix(".toml"): tomllib.loads(each.read_text("utf-8"))
        for each in files
    }


def load_target(name_or_path: str | Path) -> Target:
    """Read a shipped target by name, or a user's own from a TOML file.

    Raises UsageError naming the file and the rule that is missing, unknown or impossible.
    """
    name = other_names().get(str(name_or_path), str(name_or_path))
    if name in target_names():
        return _checked(_rules_of_shipped()[name], name)
    source, content = _read(name_or_path)
    try:
        rules = tomllib.loads(content.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"target {source}: not valid TOML: {error}") from error
    return _checked(rules, source)


def _read(name_or_path: str | Path) -> tuple[str, bytes]:
    path = Path(name_or_path)
    if path.suffix == ".toml" and not path.is_file():
        raise UsageError(f"target {path}: {'no file' if path.exists() else 'no such file'}")
    if path.suffix != ".toml":
        known = ", ".join(sorted({*target_names(), *other_names()}))
        raise UsageError(
            f"unknown target {str(name_or_path)!r}: use one of {known}, "
            "or the path of a .toml file"
        )
    return str(path), path.read_bytes()


def _checked(rules: Mapping[str, Any], source: str) -> Target:
    known = {field.name for field in fields(Target)}
    needed = {field.name for field in fields(Target) if field.default is MISSING}
    for name in sorted((needed - rules.keys()) | (rules.keys() - known)):
        state = "missing" if name in needed else "unknown"
        raise UsageError(f"target {source}: {state} rule {name!r}")
    try:
        return Target(**rules)
    except UsageError as error:
        raise UsageError(f"target {source}: {error}") from error
