"""Settings: what a user may decide about a quantization; the emitted model records them."""

from collections.abc import Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any, get_args

from calibration.made_up import is_made_up
from calibration.methods import Wanted
from calibration.rules import Override, Rules
from opsets.errors import ModelError, UsageError
from opsets.forms import LEFT_SHIFTS
from opsets.op import Flavour
from opsets.realised import check_realised, takes_words
from opsets.target import Target
from qpasses.ir.choices import Accuracy, Alignment, GeluForm, LayerNormForm, SoftmaxForm
from qpasses.ir.declared import Options
from qpasses.ir.options import GraphOptions
from qpasses.ir.record import BYTES, Quantization, code_limits, middle_code
from qpasses.ir.tensor_types import asks_for_words

LEAST_STREAM_BITS = 12
"""Of multipliers that share a shift, for sums of 8 and 16 bits."""

MOST_LEFT = 15
"""Codes of 16 bits leave 32 where they are shifted farther."""

WIDE_RESCALE_BITS = 15
"""RESCALE of int48 multiplies by no more, without the sign."""

_FIRST = (
    *("target", "bodies", "activation_type", "activation_bits", "narrow_range"),
    *("residual_type", "weight_type", "per_channel", "symmetric", "activation_form"),
    *("alignment", "table_ranges", "softmax", "softmax_nodes", "gelu", "layernorm"),
    *("softmax_bits", "calibration_method", "percentile", "calibration_overrides"),
    *("nodes_to_exclude", "op_types_to_quantize", "integer_io", "share_tables", "emit"),
)
"""In this order reports have always shown them: files stay the same, byte by byte. A new
option needs no place here, it comes behind."""


@dataclass(frozen=True)
class Settings(GraphOptions):
    """How a graph is quantized: the options of a graph, decided for ``target``.

    None stands for what target and accuracy ask for (``usual_options``), of ``accuracy`` for
    fast, of ``bodies`` for what ``emit`` needs, of ``share_tables`` for nothing tied. Raises
    UsageError, naming the culprit, for what cannot be, alone or with the target.
    """

    target: Target

    @classmethod
    def chosen(cls, target: Target, options: Options) -> "Settings":
        """With those ``options`` that decide about a graph, and the defaults of the others."""
        names = [each.name for each in fields(GraphOptions)]
        given = {name: getattr(options, name) for name in names if hasattr(options, name)}
        return cls(target, **given)

    def __post_init__(self) -> None:
        accuracy = self.accuracy or "fast"
        usual = usual_options(self.target, accuracy)
        usual |= {"accuracy": accuracy, "bodies": self.flavour}
        for name, value in usual.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)
        super().__post_init__()
        check_realised(self.target)
        self._check_target()
        self._check_streams()
        self._check_channels()
        self._check_percentile()
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

    def _check_streams(self) -> None:
        """Raise UsageError for residual streams in 16 bits that the target cannot sum."""
        asked = ["accuracy 'best' (--accuracy)"] if self.accuracy == "best" else []
        if asks_for_words(self.tensor_types):
            asked.append("tensor_types with int16 (--tensor-types)")
        if asked and not takes_words(self.target):
            raise UsageError(
                f"{asked[0]} with target {self.target.name!r}, which has no sums of 16 bits: "
                "leave the option away, or take another target"
            )
        if self.accuracy == "best" and self.emit == "tosa" and not self.has_wide_rescales:
            raise UsageError(
                "accuracy 'best' (--accuracy) with emit 'tosa' (--emit) and target "
                f"{self.target.name!r}, whose sums of 16 bits RESCALE does not scale: leave "
                "one of them away, or take target 'tosa'"
            )
        if self.residual_type != "int16":
            return
        form = self.target.add_form(has_words=True)
        if LEFT_SHIFTS.get(form, 0) > MOST_LEFT:
            raise UsageError(
                f"residual_type 'int16' (--residual-type) with target {self.target.name!r}, "
                f"whose sums ({form}) shift operands out of 32 bits: leave the "
                "option away, or take another target"
            )
        bits = self.target.elementwise_bits or self.target.multiplier_bits
        if form == "one_rounding" and bits < LEAST_STREAM_BITS:
            raise UsageError(
                f"residual_type 'int16' (--residual-type) with target {self.target.name!r}: "
                f"multipliers of {bits} bits are too few for operands of 8 and of 16 bits at "
                f"one shift, {LEAST_STREAM_BITS} are needed"
            )

    def _check_channels(self) -> None:
        """Raise UsageError for scales of channels that cannot be."""
        if self.activation_scales == "per-channel" and self.why_no_channels:
            raise UsageError(
                "activation_scales 'per-channel' (--activation-scales) cannot be: "
                f"{self.why_no_channels}: leave it away, or ask for 'auto'"
            )

    def _check_percentile(self) -> None:
        """Raise UsageError for a percentile that no method looks at."""
        rules = {text.rpartition("=")[2] for text in self.calibration_overrides}
        asked = {self.calibration_method, *rules} & {"percentile", "auto"}
        if self.percentile != Settings.percentile and not asked:
            raise UsageError(
                f"percentile {self.percentile} (--percentile) with calibration_method "
                f"{self.calibration_method!r}, which has none: give --calibration-method "
                "percentile too"
            )

    @property
    def flavour(self) -> Flavour:
        """The wanted bodies."""
        return self.bodies or ("portable" if self.emit == "standard" else "onnxruntime")

    @property
    def has_words(self) -> bool:
        """Whether tensors may have 16 bits."""
        return self.residual_type == "int16" or asks_for_words(self.tensor_types)

    @property
    def has_wide_rescales(self) -> bool:
        """Whether sums of 16 bits have multipliers that TOSA's RESCALE takes, and round as it
        does.
        """
        bits = self.target.word_multiplier_bits
        return (
            bits is not None
            and bits <= WIDE_RESCALE_BITS
            and self.target.rounding == "half_up"
        )

    @property
    def channels_last(self) -> bool:
        """Whether pictures lie so in the integer graph."""
        if self.layout == "auto":
            return self.flavour == "onnxruntime" and self.emit == "integer"
        return self.layout == "nhwc"

    def has_channels(self, op: str) -> bool:
        """Whether the weights of a float node of ``op`` have a scale per output channel."""
        target = self.target
        rule = target.conv_weights if op == "Conv" else target.matmul_weights
        return bool(self.per_channel) and rule == "per_channel"

    @property
    def why_no_channels(self) -> str:
        """Why no activation can have a scale for each channel, or nothing."""
        target = self.target
        if target.activation_scales != "per_channel":
            return f"target {target.name!r} has one scale for a tensor"
        if not self.has_channels("Conv"):
            return "weights have one scale for all channels"
        if self.emit == "qdq":
            return "onnxruntime runs no Conv between Q/DQ nodes of channels"
        if self.activation_bits != 8 or self.narrow_range:
            return "activations have fewer codes than 256"
        if self.residual_type == "int16":
            return "residual streams have 16 bits"
        return "" if target.tables else f"target {target.name!r} has no tables"

    def is_symmetric(self, low: float) -> bool:
        """Whether a range from ``low`` on is stored around the middle code."""
        unsigned = self.target.non_negative == "unsigned" and low >= 0
        return bool(self.symmetric) and not unsigned

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
        entries = asdict(self) | {"target": self.target.rules()}
        return {name: entries[name] for name in (*_FIRST, *entries) if name in entries}

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


def usual_accuracy(data: Any) -> Accuracy:
    """What is tried where nobody says it: what samples can judge, if ``data`` has any."""
    return (
        "fast" if data is None or (isinstance(data, str) and is_made_up(data)) else "balanced"
    )


def usual_options(target: Target, accuracy: Accuracy = "fast") -> dict[str, bool | str]:
    """The options that start from others, and what they are where nobody says more."""
    tries = accuracy != "fast"
    return {name: start.usual for name, start in _starts(target).items()} | {
        "weight_rounding": "auto" if tries else "nearest",
        "bias_correction": "auto" if tries else "none",
        "activation_scales": "auto" if tries else "per-tensor",
    }


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
        "alignment": _Start(target.alignment, get_args(Alignment), ""),
    }


def _computed(forms: Any, target: Target) -> Sequence[str]:
    """What may be asked of any target with tables, and without."""
    return [each for each in get_args(forms) if each != "table" or target.tables]
