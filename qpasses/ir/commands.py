"""What each command takes: a class for the Python function, and one more for the command line.

A field without an Option is for Python alone. The first fields are positional. Those of
commands that take a model and make no other stand in integer_commands.py.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opsets.argument_kinds import shown
from opsets.errors import UsageError
from qpasses.ir.choices import Analyze, ForeignFormat, TableFormat
from qpasses.ir.command_options import DATA, DATA_METAVAR, Data, PageOptions, ReportOptions
from qpasses.ir.declared import (
    FILE,
    FILE_OR_NAME,
    TEXT,
    Kind,
    Options,
    described,
    option,
)
from qpasses.ir.integer_commands import (
    AnalyzeCommand,
    BenchCommand,
    BisectCommand,
    ExportCommand,
    InspectCommand,
    VerifyCommand,
)
from qpasses.ir.max_drop import as_drop
from qpasses.ir.options import (
    ARITHMETIC,
    OUTPUT,
    RANGES,
    RUN,
    SAMPLES,
    SELECTION,
    TYPES,
    GraphOptions,
    RangeOptions,
    RunOptions,
    SampleOptions,
    TargetOptions,
    TensorOptions,
)
from qpasses.ir.terminal_options import (
    FormatOptions,
    PictureOptions,
    PrintOptions,
    TerminalOptions,
)

if TYPE_CHECKING:
    import onnx

    from calibration.table import Table
    from opsets.target import Target
    from qpasses.ir.graph import Graph

_TABLE_METAVAR = "TABLE"


def _shard(value: Any) -> tuple[int, int]:
    """The I-th of N parts, from I/N."""
    try:
        number, parts = value if isinstance(value, tuple) else map(int, str(value).split("/"))
    except ValueError as error:
        raise ValueError(f"{value!r} is not I/N, as 2/4 for the second of four") from error
    return number, parts


def _checked_shard(given: Any) -> tuple[int, int]:
    """It, if it is a pair of whole numbers. Raises UsageError."""
    is_pair = isinstance(given, tuple | list) and [type(n) for n in given] == [int, int]
    if not is_pair:
        raise UsageError(f"shard: a pair (i, n) is needed, got {shown(given)}")
    return given[0], given[1]


SHARD = Kind("a text", lambda value: isinstance(value, str), _shard)


def no_watch(_name: str, _graph: Any) -> None:
    """Look at no graph."""


@dataclass(frozen=True)
class QuantizeOptions(PageOptions, RunOptions, GraphOptions, TargetOptions, SampleOptions):
    """``qpasses.quantize``. ``after`` is called with name and graph after each pass."""

    model: "str | Path | onnx.ModelProto"
    data: Data = option(
        None,
        f"{DATA} Needed unless there is a calibration table.",
        SAMPLES,
        metavar=DATA_METAVAR,
        kind=FILE_OR_NAME,
    )
    output: "str | Path | None" = option(
        None,
        "The model to write.",
        OUTPUT,
        short="o",
        metavar="OUT",
        kind=FILE,
        required=True,
    )
    _: KW_ONLY
    calibration_table: "str | Path | Table | None" = option(
        None,
        "Ranges from a table of `qpasses calibrate`, TPU-MLIR or onnxruntime instead of a run "
        "over the samples.",
        RANGES,
        metavar="FILE",
        kind=FILE,
    )
    stop_after: str | None = option(
        None,
        "Stop after a pass and write the graph as it is.",
        OUTPUT,
        metavar="PASS",
    )
    evidence_file: "str | Path | None" = option(
        None,
        "What is known of every node, as JSON (docs/evidence.md).",
        OUTPUT,
        unset="OUT.evidence.json beside OUT.onnx",
        metavar="FILE",
        kind=FILE,
    )
    save_as_external_data: bool = option(
        False,
        "Write the weights beside the model, to OUT.onnx.data, as is done anyway where both "
        "would be larger than 2 GB.",
        OUTPUT,
    )
    min_sqnr: float | None = option(
        None,
        "Store so many tensors in 16 bits that each output has DB decibels of signal over "
        "quantization noise on samples that are held back, those that cost least time.",
        TYPES,
        unset="none is asked for",
        metavar="DB",
        unit="decibels",
        least=0,
        kept=float,
    )
    max_drop: "str | Mapping[str, float] | None" = option(
        None,
        "Store so many tensors in 16 bits that a metric falls by VALUE at most from the float "
        "model to the integer one, on samples that are held back: top1, agreement (of arg-max "
        "with float), cosine (with float), or metric, that of --metric.",
        TYPES,
        unset="none is asked for",
        metavar="METRIC=VALUE",
        kind=TEXT,
        kept=as_drop,
    )
    metric: Any = option(
        None,
        "With --max-drop: a function of your own, (outputs, labels) to a number, higher is "
        "better; outputs: for each sample a dict of arrays by name, labels: as --labels gives "
        "them, or None.",
        TYPES,
        metavar="MODULE:FUNCTION",
        kind=TEXT,
    )
    labels: Any = option(
        None,
        "What a metric is to find: a .npy with an entry for each sample of the data, a .npz "
        "with an array called labels, or folders, for pictures in class folders.",
        SAMPLES,
        metavar="FILE|folders",
        kind=FILE_OR_NAME,
    )
    analyze: Analyze | None = option(
        None,
        "Look where accuracy goes, as `qpasses analyze` does: for ten seconds if outputs have "
        "less than 20 dB, for a minute in any case, or not.",
        RUN,
        unset="full with --html, else short, in Python no",
    )
    after: "Callable[[str, Graph], None]" = no_watch


@dataclass(frozen=True, kw_only=True)
class QuantizeCommand(PrintOptions, TerminalOptions, PictureOptions, QuantizeOptions):
    """``qpasses quantize``."""


@dataclass(frozen=True)
class IntegerizeOptions(QuantizeOptions):
    """``qpasses.integerize``."""

    data: Data = option(
        None,
        f"{DATA} For tensors of which the model does not say how they are stored.",
        SAMPLES,
        metavar=DATA_METAVAR,
        kind=FILE_OR_NAME,
    )


@dataclass(frozen=True, kw_only=True)
class IntegerizeCommand(PrintOptions, TerminalOptions, PictureOptions, IntegerizeOptions):
    """``qpasses integerize``."""


@dataclass(frozen=True)
class CalibrateOptions(ReportOptions, RunOptions, TensorOptions, SampleOptions):
    """``qpasses.calibrate``."""

    model: "str | Path | onnx.ModelProto"
    data: Data = field(
        metadata=described(DATA, SAMPLES, metavar=DATA_METAVAR, kind=FILE_OR_NAME)
    )
    output: "str | Path | None" = option(
        None,
        "The table to write.",
        OUTPUT,
        short="o",
        metavar=_TABLE_METAVAR,
        kind=FILE,
        required=True,
    )
    _: KW_ONLY
    shard: tuple[int, int] | None = option(
        None,
        "Only the I-th of N parts of the samples; `qpasses calibrate merge` joins the tables.",
        RUN,
        metavar="I/N",
        kind=SHARD,
        kept=_checked_shard,
    )
    restart: bool = option(False, "Begin anew where a stopped run could be gone on with.", RUN)
    table_format: TableFormat = option(
        "qpasses",
        "qpasses keeps histograms, from which every method's ranges follow; the others hold "
        "the ranges of one.",
        OUTPUT,
        flag="format",
    )
    histograms: bool = option(
        True,
        "Without them: extremes only, for minmax and moving-average, but of tensors that a "
        "Concat or Where may get tables for.",
        OUTPUT,
        opposite=True,
    )


@dataclass(frozen=True, kw_only=True)
class CalibrateCommand(TerminalOptions, PictureOptions, CalibrateOptions):
    """``qpasses calibrate``."""


@dataclass(frozen=True)
class MergeOptions(Options):
    """``qpasses calibrate merge`` and ``qpasses.merge_tables``."""

    output: "str | Path | None" = option(
        None,
        "The table to write.",
        OUTPUT,
        short="o",
        metavar=_TABLE_METAVAR,
        kind=FILE,
        required=True,
    )


@dataclass(frozen=True)
class ConvertOptions(RangeOptions):
    """``qpasses calibrate convert`` and ``qpasses.convert_table``."""

    table: "str | Path"
    output: "str | Path | None" = option(
        None,
        "The table to write.",
        OUTPUT,
        short="o",
        metavar="FILE",
        kind=FILE,
        required=True,
    )
    _: KW_ONLY
    table_format: ForeignFormat = field(
        metadata=described("The tool that is to read it.", OUTPUT, flag="format")
    )


@dataclass(frozen=True)
class OptOptions(Options):
    """``qpasses.api.run_passes_alone``."""

    graph: "str | Path"
    passes: Sequence[str] = field(
        metadata=described(
            "The pass to run (`qpasses passes` lists them); may be repeated, they run in the "
            "given order.",
            SELECTION,
            flag="pass",
            short="p",
            metavar="PASS",
        )
    )
    _: KW_ONLY
    target: "str | Path | Target | None" = option(
        None,
        "Whose integer arithmetic to use.",
        ARITHMETIC,
        unset="what the first line of the text names, `# target: NAME`, or onnx",
        metavar="NAME|FILE.toml",
        kind=FILE_OR_NAME,
    )
    output: "str | Path | None" = option(
        None,
        "Write the graph there, as a model if it ends in .onnx, as MLIR if in .mlir, else in "
        "ONNX's text syntax, instead of printing it.",
        OUTPUT,
        short="o",
        metavar="OUT",
        kind=FILE,
    )


@dataclass(frozen=True, kw_only=True)
class OptCommand(FormatOptions, OptOptions):
    """``qpasses opt``."""


COMMANDS: Mapping[str, type[Options]] = {
    "quantize": QuantizeCommand,
    "integerize": IntegerizeCommand,
    "calibrate": CalibrateCommand,
    "calibrate merge": MergeOptions,
    "calibrate convert": ConvertOptions,
    "verify": VerifyCommand,
    "analyze": AnalyzeCommand,
    "bench": BenchCommand,
    "export": ExportCommand,
    "bisect": BisectCommand,
    "inspect": InspectCommand,
    "opt": OptCommand,
}
"""Every command that has options."""
