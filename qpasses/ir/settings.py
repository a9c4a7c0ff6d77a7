"""Settings: what a user may decide about a quantization; the emitted model records them."""

import re
from collections.abc import Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from sys import float_info
from typing import Any, get_args

from calibration.methods import Wanted
from calibration.rules import Override, Rules, checked_percentile
from opsets.errors import ModelError, UsageError
from opsets.forms import LEFT_SHIFTS
from opsets.op import Flavour
from opsets.realised import check_realised
from opsets.target import Target
from qpasses.ir.choices import (
    ActivationForm,
    ActivationType,
    Alignment,
    CalibrationMethod,
    Emit,
    GeluForm,
    LayerNormForm,
    ResidualType,
    SoftmaxForm,
    SoftmaxNodes,
    TableRanges,
    WeightType,
)
from qpasses.ir.record import BYTES, Quantization, code_limits, middle_code

LEAST_STREAM_BITS = 12
"""Of multipliers that share a shift, for sums of 8 and 16 bits."""

SOFTMAX_BITS = (16, 24, 32)
"""Widths of an accelerator's accumulator."""


@dataclass(frozen=True)
class Settings:
    """How a graph is quantized. Raises UsageError, naming the culprit, for what cannot be.

    ``activation_bits``: 2 to 8, of the codes in ``activation_type``; ``narrow_range``: without
    the lowest of them. ``residual_type``: of residual streams, that of other activations or
    int16 (see qpasses.place.residuals). ``per_channel``: False for one weight scale
    everywhere, True for one per channel where the target has them. ``activation_form``: what a
    LeakyRelu or PRelu on its own becomes, a table or multipliers. These two and ``symmetric``
    start, as None, from what the target has. ``alignment``: whose rules say which tensors
    share a range (see qpasses.place.alignment). ``table_ranges``: where the range of what a
    table gives comes from.
    ``softmax``, ``gelu`` and ``layernorm``: as what these become integer, which start, as
    None, from what the target has; ``softmax_nodes``: which Softmax do, those between
    integers, all behind integers, or none; ``softmax_bits``: 16, 24 or 32, of the sum of
    exponentials in tables.
    ``nodes_to_exclude``: regular expressions for whole names of nodes, or of tensors that they
    write. ``op_types_to_quantize``: empty stands for all. ``percentile``: of the values that
    the method of that name keeps. ``calibration_overrides``: ``REGEX=RULE`` for tensors (see
    calibration.rules). ``integer_io``: inputs and outputs are the stored integers.
    ``share_tables``: decibels that a tensor may lose so that chains share tables (see
    qpasses.place.sharing); None ties nothing for that.
    """

    target: Target
    bodies: Flavour = "onnxruntime"
    activation_type: ActivationType = "uint8"
    activation_bits: int = 8
    narrow_range: bool = False
    residual_type: ResidualType = "activation"
    weight_type: WeightType = "int8"
    per_channel: bool | None = None
    symmetric: bool | None = None
    activation_form: ActivationForm | None = None
    alignment: Alignment = "qpasses"
    table_ranges: TableRanges = "calibrated"
    softmax: SoftmaxForm | None = None
    softmax_nodes: SoftmaxNodes = "all"
    gelu: GeluForm | None = None
    layernorm: LayerNormForm | None = None
    softmax_bits: int = 32
    calibration_method: CalibrationMethod = "minmax"
    percentile: float = 99.999
    calibration_overrides: Sequence[str] = ()
    nodes_to_exclude: Sequence[str] = ()
    op_types_to_quantize: Sequence[str] = ()
    integer_io: bool = False
    share_tables: float | None = None
    emit: Emit = "integer"

    def __post_init__(self) -> None:
        for name, usual in usual_options(self.target).items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, usual)
        for name, kind in _CHOICES.items():
            given = getattr(self, name)
            if given not in get_args(kind):
                known = ", ".join(get_args(kind))
                raise UsageError(f"{name}: unknown {given!r}, use one of {known}")
        for name in ("nodes_to_exclude", "op_types_to_quantize", "calibration_overrides"):
            given = getattr(self, name)
            listed = isinstance(given, Sequence) and not isinstance(given, str)
            if not listed or not all(isinstance(each, str) for each in given):
                raise UsageError(f"{name}: a list of names is needed, got {given!r}")
            object.__setattr__(self, name, tuple(given))
        for name in ("narrow_range", "per_channel", "symmetric", "integer_io"):
            if not isinstance(getattr(self, name), bool):
                given = getattr(self, name)
                raise UsageError(f"{name}: True or False is needed, got {given!r}")
        if type(self.activation_bits) is not int or not 2 <= self.activation_bits <= 8:
            raise UsageError(
                f"activation_bits: a whole number from 2 to 8 is needed, got "
                f"{self.activation_bits!r}"
            )
        if type(self.softmax_bits) is not int or self.softmax_bits not in SOFTMAX_BITS:
            raise UsageError(
                "softmax_bits (--softmax-bits): one of 16, 24 and 32 is needed, got "
                f"{self.softmax_bits!r}"
            )
        if type(self.percentile) not in (int, float):
            raise UsageError(f"percentile: a number is needed, got {self.percentile!r}")
        checked_percentile(self.percentile)
        self._check_share_tables()
        _ = self.rules
        for pattern in self.nodes_to_exclude:
            try:
                re.compile(pattern)
            except (re.error, OverflowError, RecursionError) as error:
                raise UsageError(
                    f"nodes_to_exclude: {pattern!r} is no regular expression: {error}"
                ) from error
        check_realised(self.target)
        self._check_target()
        if self.residual_type == "int16" and LEFT_SHIFTS.get(self.target.add):
            raise UsageError(
                f"residual_type 'int16' (--residual-type) with target {self.target.name!r}, "
                f"whose sums ({self.target.add}) shift operands out of 32 bits: leave the "
                "option away, or take another target"
            )
        bits = self.target.elementwise_bits or self.target.multiplier_bits
        is_shared = self.target.add == "one_rounding"
        if self.residual_type == "int16" and is_shared and bits < LEAST_STREAM_BITS:
            raise UsageError(
                f"residual_type 'int16' (--residual-type) with target {self.target.name!r}: "
                f"multipliers of {bits} bits are too few for operands of 8 and of 16 bits at "
                f"one shift, {LEAST_STREAM_BITS} are needed"
            )
        if self.emit == "standard" and self.bodies != "portable":
            raise UsageError("emit 'standard' needs bodies 'portable': standard ops only")
        if self.emit == "qdq" and self.integer_io:
            raise UsageError(
                "emit 'qdq' with integer_io: a Q/DQ model has float inputs and outputs, leave "
                "one of the two away"
            )

    def _check_target(self) -> None:
        """Raise UsageError for options that contradict the target."""
        for name, start in _starts(self.target).items():
            given = getattr(self, name)
            if given not in (start.usual, *start.free):
                raise UsageError(
                    f"{name} {given!r} with target {self.target.name!r}, which has "
                    f"{start.rule}: leave the option away, or take another target"
                )

    def has_channels(self, op: str) -> bool:
        """Whether the weights of a float node of ``op`` have a scale per output channel."""
        target = self.target
        rule = target.conv_weights if op == "Conv" else target.matmul_weights
        return bool(self.per_channel) and rule == "per_channel"

    def is_symmetric(self, low: float) -> bool:
        """Whether a range from ``low`` on is stored around the middle code."""
        unsigned = self.target.non_negative == "unsigned" and low >= 0
        return bool(self.symmetric) and not unsigned

    def _check_share_tables(self) -> None:
        given = self.share_tables
        if given is None:
            return
        if type(given) not in (int, float) or not 0 <= given <= float_info.max:
            raise UsageError(
                "share_tables (--share-tables): a number of decibels from 0 on is needed, got "
                f"{given!r}"
            )
        object.__setattr__(self, "share_tables", float(given))

    @property
    def rules(self) -> Rules:
        """How ranges follow from statistics."""
        wanted = Wanted(
            self.activation_bits, bool(self.symmetric), self.percentile, self.narrow_range
        )
        overrides = [Override.parsed(text) for text in self.calibration_overrides]
        unsigned = self.target.non_negative == "unsigned"
        return Rules(self.calibration_method, wanted, overrides, unsigned)

    @property
    def middle(self) -> int:
        """The zero point of symmetric ranges."""
        return middle_code(self.activation_type, self.activation_bits)

    @property
    def limits(self) -> tuple[int, int]:
        """The smallest and the largest code."""
        return code_limits(self.activation_type, self.activation_bits, self.narrow_range)

    @property
    def codes(self) -> int:
        """How many there are."""
        low, high = self.limits
        return high - low + 1

    def quantization(self, scale: float, zero_point: int, dtype: str) -> Quantization:
        """What codes of these settings mean; of 16 bits all codes are used."""
        if dtype not in BYTES:
            return Quantization(scale, zero_point, dtype)
        return Quantization(scale, zero_point, dtype, self.activation_bits, self.narrow_range)

    def as_json(self) -> dict[str, Any]:
        """The settings for a report and for the record of a model."""
        return asdict(self) | {"target": self.target.rules()}

    @classmethod
    def from_json(cls, entries: Any) -> "Settings":
        """What ``as_json`` gave; other entries are passed over. Raises ModelError."""
        known = {field.name for field in fields(cls)}
        needed = {field.name for field in fields(cls) if field.default is MISSING}
        try:
            given = {name: value for name, value in entries.items() if name in known}
            if missing := needed - given.keys():
                raise TypeError(f"no {', '.join(sorted(missing))}")
            return cls(**{**given, "target": Target(**given["target"])})
        except (TypeError, AttributeError, UsageError) as error:
            raise ModelError(f"the recorded configuration is damaged: {error}") from error


@dataclass(frozen=True)
class _Start:
    """What an option is by a ``rule`` of the target, and what it may be with any target."""

    usual: bool | str
    free: Sequence[bool | str]
    rule: str


def usual_options(target: Target) -> dict[str, bool | str]:
    """The options that start from ``target``, and what they are where nobody says more."""
    return {name: start.usual for name, start in _starts(target).items()}


def _starts(target: Target) -> dict[str, _Start]:
    weights = {target.conv_weights, target.matmul_weights}
    table, none = "table" if target.tables else "multiplier", "no tables"
    return {
        "per_channel": _Start("per_channel" in weights, [False], "no weights per channel"),
        "symmetric": _Start(
            target.activations == "symmetric", [True], "symmetric activations"
        ),
        "activation_form": _Start(table, ["multiplier"], none),
        "softmax": _Start(target.softmax, _computed(SoftmaxForm, target), none),
        "gelu": _Start(target.gelu, _computed(GeluForm, target), none),
        "layernorm": _Start(target.layernorm, get_args(LayerNormForm), ""),
    }


def _computed(forms: Any, target: Target) -> Sequence[str]:
    """What may be asked of any target with tables, and without."""
    return [each for each in get_args(forms) if each != "table" or target.tables]


_CHOICES: dict[str, Any] = {
    "bodies": Flavour,
    "activation_type": ActivationType,
    "residual_type": ResidualType,
    "weight_type": WeightType,
    "activation_form": ActivationForm,
    "alignment": Alignment,
    "table_ranges": TableRanges,
    "softmax": SoftmaxForm,
    "softmax_nodes": SoftmaxNodes,
    "gelu": GeluForm,
    "layernorm": LayerNormForm,
    "calibration_method": CalibrationMethod,
    "emit": Emit,
}
