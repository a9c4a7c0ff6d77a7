"""The options: each declared once, as a field, in a class of those the same commands have.

What a field says is on the command line (``--help``, by heading), in the configuration file,
in the signatures of ``qpasses.quantize`` and ``qpasses.calibrate``, in Settings and in
docs/options.md. Which command has which class: qpasses.ir.commands.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from opsets.errors import UsageError
from qpasses.ir.choices import (
    Accuracy,
    ActivationForm,
    ActivationScales,
    ActivationType,
    Alignment,
    BiasCorrection,
    Bodies,
    CalibrationMethod,
    Emit,
    EngineName,
    GeluForm,
    InferenceType,
    IoLayout,
    LayerNormForm,
    Layout,
    OnBadSample,
    ResidualType,
    SoftmaxBits,
    SoftmaxForm,
    SoftmaxNodes,
    TableRanges,
    TfliteRuntime,
    TosaProfile,
    WeightRounding,
    WeightType,
)
from qpasses.ir.declared import FILE_OR_NAME, TEXTS, Declared, Options, option
from qpasses.ir.input_names import as_pairs
from qpasses.ir.input_shape import as_texts
from qpasses.ir.state_names import checked_states

if TYPE_CHECKING:
    from pathlib import Path

    from calibration import Preprocessing
    from opsets.target import Target

SAMPLES = "Samples"
ARITHMETIC = "Target and arithmetic"
TYPES = "Types and weights"
RANGES = "Codes and ranges"
OPERATORS = "Operators and tables"
SELECTION = "Selection of nodes"
RUN = "Run over the samples"
OUTPUT = "Output"
GENERAL = "General"

HEADINGS = (
    *(SAMPLES, OUTPUT, TYPES, ARITHMETIC, RANGES),
    *(OPERATORS, SELECTION, RUN, GENERAL),
)
"""In this order ``--help`` and docs/options.md show them."""


def by_heading(found: Iterable[Declared]) -> dict[str, list[Declared]]:
    """The options under their headings, those that have none left out."""
    given = tuple(found)
    lists = {
        name: [each for each in given if each.option.heading == name] for name in HEADINGS
    }
    return {heading: listed for heading, listed in lists.items() if listed}


def _percentile(value: float) -> float:
    from calibration.rules import checked_percentile

    return checked_percentile(value)


def _overrides(texts: Sequence[str]) -> Sequence[str]:
    from calibration.rules import Override

    for text in texts:
        Override.parsed(text)
    return texts


def _tensor_types(texts: Sequence[str]) -> Sequence[str]:
    from qpasses.ir.tensor_types import TensorType

    for text in texts:
        TensorType.parsed(text)
    return texts


def _patterns(name: str, texts: Sequence[str]) -> Sequence[str]:
    for text in texts:
        try:
            re.compile(text)
        except (re.error, OverflowError, RecursionError) as error:
            raise UsageError(f"{name}: {text!r} is no regular expression: {error}") from error
    return texts


def _separated(texts: Sequence[str]) -> Sequence[str]:
    return tuple(each for text in texts for each in text.split(","))


@dataclass(frozen=True, kw_only=True)
class TargetOptions(Options):
    """Whose arithmetic it is."""

    target: "str | Path | Target" = option(
        "onnx",
        "Whose integer arithmetic to use.",
        ARITHMETIC,
        metavar="NAME|FILE.toml",
        kind=FILE_OR_NAME,
    )
    exact: bool = option(
        False,
        "31-bit multipliers, nearest to real arithmetic: slower in onnxruntime.",
        ARITHMETIC,
    )


@dataclass(frozen=True, kw_only=True)
class RangeOptions(Options):
    """Which codes there are and how ranges follow from statistics."""

    activation_bits: int = option(
        8,
        "Bits of the codes of activations, 2 to 8, each stored in 8.",
        RANGES,
        metavar="N",
        least=2,
        most=8,
    )
    narrow_range: bool = option(
        False,
        "Leave out the lowest code, so that as many lie below the middle as above it.",
        RANGES,
    )
    symmetric: bool | None = option(
        None,
        "Activation ranges symmetric about a fixed zero point; so are those of some targets.",
        RANGES,
        unset="as the target's are",
    )
    calibration_method: CalibrationMethod = option(
        "minmax",
        "How ranges follow from samples; auto takes for each tensor the method with the least "
        "expected error.",
        RANGES,
    )
    percentile: float = option(
        99.999,
        "Of the values that the method of this name keeps.",
        RANGES,
        metavar="P",
        kept=_percentile,
    )
    calibration_overrides: Sequence[str] = option(
        (),
        "What tensors do whose whole name matches: a method, percentile:P, or a range "
        "LOW,HIGH; may be repeated, the first that matches counts.",
        RANGES,
        metavar="REGEX=RULE",
        kept=_overrides,
    )


@dataclass(frozen=True, kw_only=True)
class ShapeOptions(Options):
    """Sizes of inputs that the model leaves free; Python may say them as a dict too."""

    input_shape: "Sequence[str] | Mapping[str, Sequence[int]]" = option(
        (),
        "Fix free sizes of an input (batch, height, width, length), also where other inputs "
        "have them by the same name; -1 leaves one free. NAME may be left out where there is "
        "one input; may be repeated.",
        SAMPLES,
        metavar="NAME:1,3,224,224",
        kind=TEXTS,
        kept=as_texts,
    )


@dataclass(frozen=True, kw_only=True)
class TensorOptions(RangeOptions, ShapeOptions):
    """Those that say besides which tensors carry a scale, and which share it."""

    activation_type: ActivationType = option("uint8", "What activations are stored as.", TYPES)
    alignment: Alignment | None = option(
        None,
        "Which tensors share a range: by our rules, or by those of TPU-MLIR for BM1684X.",
        RANGES,
        unset="as the target says, mostly qpasses",
    )
    states: Sequence[str] = option(
        (),
        "An input that is a state, and the output that is its next value: both get one scale "
        "and type, so that the stored output can be fed back. States of recurrent nodes and "
        "caches that are joined and cut are seen without it; may be repeated.",
        RANGES,
        metavar="INPUT=OUTPUT",
        kept=checked_states,
    )
    nodes_to_exclude: Sequence[str] = option(
        (),
        "Leave nodes in float whose whole name (or that of a tensor they write) matches, an "
        "If, Loop or Scan with all that is inside; may be repeated.",
        SELECTION,
        metavar="REGEX",
        kept=partial(_patterns, "nodes_to_exclude"),
    )
    op_types_to_quantize: Sequence[str] = option(
        (),
        "Make only nodes of this op type integer; several with commas, or repeated.",
        SELECTION,
        metavar="TYPE",
        kept=_separated,
    )


@dataclass(frozen=True, kw_only=True)
class GraphOptions(TensorOptions):
    """All that decide what integer graph comes of a float one, but for the target."""

    bodies: Bodies | None = option(
        None,
        "How runtimes compute the nodes: the fastest way of onnxruntime that is proved, or "
        "standard integer ops only.",
        ARITHMETIC,
        unset="onnxruntime, but portable for --emit standard",
    )
    accuracy: Accuracy | None = option(
        None,
        "How much is tried to lose less: nothing; what takes little time and gains on samples "
        "that are held back (--weight-rounding auto, --bias-correction auto, "
        "--activation-scales auto); or besides 16 bits for tensors that cost most.",
        TYPES,
        unset="balanced, but fast without samples and with random ones",
    )
    weight_type: WeightType = option("int8", "What weights are stored as.", TYPES)
    weight_rounding: WeightRounding | None = option(
        None,
        "Weights become the nearest codes, those that keep the sums of kernels and channels, "
        "or those that lose least on the samples; auto: what samples held back say.",
        TYPES,
        unset="auto with --accuracy balanced, else nearest",
    )
    bias_correction: BiasCorrection | None = option(
        None,
        "What channels are off on the mean, as samples say, is taken out of biases, node by "
        "node; auto: unless samples held back lose by it.",
        TYPES,
        unset="auto with --accuracy balanced, else none",
    )
    activation_scales: ActivationScales | None = option(
        None,
        "One scale and zero point for a tensor, or for each channel where nothing that reads "
        "it sums channels; auto: what samples held back say.",
        TYPES,
        unset="auto with --accuracy balanced, else per-tensor",
    )
    residual_type: ResidualType = option(
        "activation",
        "What residual streams, sums that a branch joins again, are stored as: as other "
        "activations are, or in 16 bits.",
        TYPES,
    )
    tensor_types: Sequence[str] = option(
        (),
        "What tensors are stored in whose whole name matches: 16 bits, with all that moving "
        "nodes make of them, or 8; may be repeated, the first that matches counts.",
        TYPES,
        metavar="REGEX=int16|int8",
        kept=_tensor_types,
    )
    per_channel: bool | None = option(
        None,
        "A weight scale per output channel, where the target has them, or one per tensor.",
        TYPES,
        unset="per-channel, where the target has it",
        opposite=True,
    )
    activation_form: ActivationForm | None = option(
        None,
        "A LeakyRelu or PRelu on its own: a table, or a multiplier on each side of zero.",
        OPERATORS,
        unset="table, if the target has tables",
    )
    table_ranges: TableRanges = option(
        "calibrated",
        "The range of what a table gives: as calibration saw it, or from the smallest to the "
        "largest result of its function over the codes of its input.",
        OPERATORS,
    )
    softmax: SoftmaxForm | None = option(
        None,
        "Softmax as two tables and a division, I-ViT's Shiftmax with results of 16 bits "
        "or of 8, I-BERT's polynomial, or TFLite's fixed point by gemmlowp.",
        OPERATORS,
        unset="what the target has, mostly table",
    )
    gelu: GeluForm | None = option(
        None,
        "GELU as a table, I-ViT's ShiftGELU, or I-BERT's polynomial.",
        OPERATORS,
        unset="what the target has, mostly table",
    )
    layernorm: LayerNormForm | None = option(
        None,
        "LayerNorm with an exact square root, or I-ViT's with 31-bit or short multipliers.",
        OPERATORS,
        unset="what the target has, mostly exact",
    )
    softmax_nodes: SoftmaxNodes = option(
        "all",
        "Which Softmax become integer: those between integers, all behind integers, or none.",
        OPERATORS,
    )
    softmax_bits: SoftmaxBits = option(
        32,
        "The width of the accumulator that sums the exponentials of a Softmax.",
        OPERATORS,
    )
    share_tables: float | None = option(
        None,
        "Tie the scales of activations of the same kind so that they share tables, where no "
        "tensor loses more than DB decibels of signal over rounding noise.",
        OPERATORS,
        unset="nothing is tied for that",
        metavar="DB",
        unit="decibels",
        least=0,
        kept=float,
    )
    integer_io: bool = option(False, "Inputs and outputs are stored integers.", OUTPUT)
    emit: Emit = option(
        "integer",
        "Integer nodes with bodies; the Q/DQ model with the same scales; everything written "
        "out in standard ops; or TOSA as MLIR, as `qpasses export` writes it.",
        OUTPUT,
    )
    layout: Layout = option(
        "auto",
        "How pictures lie in memory inside the graph: as ONNX has them, or channels last, as "
        "convolutions read them; auto: last where bodies are onnxruntime's. Inputs and "
        "outputs stay as they are.",
        OUTPUT,
    )


@dataclass(frozen=True, kw_only=True)
class TosaOptions(Options):
    """What a TOSA program may be."""

    tosa_profile: TosaProfile = option(
        "pro-int-8k",
        "What TOSA is held to: its integer profile, at level 8K or without a level's limits.",
        OUTPUT,
    )


@dataclass(frozen=True, kw_only=True)
class TfliteOptions(Options):
    """What a TFLite file takes and gives, and whose kernels run it."""

    tflite_runtime: TfliteRuntime = option(
        "litert",
        "Whose kernels give the integers of a TFLite file: LiteRT's reference kernels, or "
        "TensorFlow Lite Micro's, of graphs quantized with the target of that name.",
        OUTPUT,
    )
    inference_input_type: InferenceType = option(
        "int8",
        "What a TFLite file takes: the stored integers, as int8 or uint8, or floats that it "
        "quantizes itself.",
        OUTPUT,
    )
    inference_output_type: InferenceType = option(
        "int8",
        "What a TFLite file gives: the stored integers, as int8 or uint8, or floats.",
        OUTPUT,
    )
    io_layout: IoLayout = option(
        "nhwc",
        "How pictures lie that a TFLite file takes and gives: channels last, as its operators "
        "read them, or as in ONNX, by a TRANSPOSE.",
        OUTPUT,
    )


@dataclass(frozen=True, kw_only=True)
class SampleOptions(Options):
    """Which samples are used, and what pictures become.

    ``preprocessing``: of pictures, or the name of a preset; the command line has the
    PictureOptions for it.
    """

    samples: int | None = option(
        None,
        "Use only N samples, spread evenly over the data.",
        SAMPLES,
        unset="all",
        metavar="N",
        least=1,
    )
    samples_to_exclude: Sequence[str] = option(
        (),
        "Leave out samples whose whole name matches (reports name them so); may be repeated.",
        SAMPLES,
        metavar="REGEX",
        kept=partial(_patterns, "samples_to_exclude"),
    )
    inputs: "Sequence[str] | Mapping[str, str]" = option(
        (),
        "Which array of the samples is for an input that is called otherwise; may be "
        "repeated. The only array is for the only input, what is for none is left out.",
        SAMPLES,
        metavar="INPUT=ARRAY",
        kind=TEXTS,
        kept=as_pairs,
    )
    preprocessing: "Preprocessing | str | None" = None


@dataclass(frozen=True, kw_only=True)
class RunOptions(Options):
    """How statistics are collected over the samples."""

    on_bad_sample: OnBadSample = option(
        "error",
        "What to do with a sample that is damaged, does not fit, or makes a tensor NaN or "
        "infinite.",
        RUN,
    )
    workers: int | None = option(
        None,
        "Samples calibrated at a time.",
        RUN,
        unset="one a core",
        metavar="N",
        least=1,
    )
    engine: EngineName = option(
        "local",
        "Where samples are calibrated: in this process, or as tasks of Ray.",
        RUN,
    )
    ray_address: str | None = option(
        None,
        "The Ray cluster to use.",
        RUN,
        unset="one is started on this machine",
        metavar="ADDRESS",
    )
