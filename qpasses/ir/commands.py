"""What each command takes: a class for the Python function, and one more for the command line.

A field without an Option is for Python alone. The first fields are positional.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opsets.argument_kinds import shown
from opsets.errors import UsageError
from qpasses.ir.choices import Analyze, ExportFormat, ForeignFormat, OtherProgram, TableFormat
from qpasses.ir.declared import (
    FILE,
    FILE_OR_NAME,
    TEXT,
    THREADS,
    Kind,
    Options,
    described,
    option,
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
    ShapeOptions,
    TargetOptions,
    TensorOptions,
    TfliteOptions,
    TosaOptions,
)
from qpasses.ir.progress import Progress, no_progress
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

Data = Any
"""What ``calibration.open_samples`` takes: a path, "random:N", a reader, an iterable."""

_DATA = (
    "Samples: a folder of .npy/.npz feeds or one file of stacked ones, a folder of pictures, "
    "or of test_data_set_*; random:N makes numbers up."
)
_DATA_METAVAR = "PATH|random:N"
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


@dataclass(frozen=True, kw_only=True)
class ReportOptions(Options):
    """Who is told: a file of what was done, and whoever waits, of how far it is."""

    json_file: "str | Path | None" = option(
        None,
        "Write the report as JSON (docs/report.md).",
        OUTPUT,
        metavar="FILE",
        kind=FILE,
    )
    progress: Progress = no_progress


@dataclass(frozen=True, kw_only=True)
class PageOptions(ReportOptions):
    """A page for people besides. ``command_line``: what was typed, which the page shows."""

    command_line: str = ""
    detections: Any = option(
        None,
        "With --html, of a detector: draw over pictures the rows x1, y1, x2, y2, score, class "
        "that a function of your own makes of the outputs by name.",
        OUTPUT,
        metavar="MODULE:FUNCTION",
        kind=TEXT,
    )

    html_file: "str | Path | None" = option(
        None,
        "Write the report as one HTML page too (docs/report-page.md): pip install "
        "qpasses[report].",
        OUTPUT,
        metavar="FILE",
        kind=FILE,
    )


@dataclass(frozen=True)
class QuantizeOptions(PageOptions, RunOptions, GraphOptions, TargetOptions, SampleOptions):
    """``qpasses.quantize``. ``after`` is called with name and graph after each pass."""

    model: "str | Path | onnx.ModelProto"
    data: Data = option(
        None,
        f"{_DATA} Needed unless there is a calibration table.",
        SAMPLES,
        metavar=_DATA_METAVAR,
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
        f"{_DATA} For tensors of which the model does not say how they are stored.",
        SAMPLES,
        metavar=_DATA_METAVAR,
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
        metadata=described(_DATA, SAMPLES, metavar=_DATA_METAVAR, kind=FILE_OR_NAME)
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
class VerifyOptions(ReportOptions, TosaOptions, ShapeOptions, SampleOptions):
    """``qpasses.verify``."""

    integer: "str | Path | onnx.ModelProto"
    against: "str | Path | onnx.ModelProto | None" = option(
        None,
        "The float model INTEGER was made from. Without it each node is judged alone.",
        SAMPLES,
        metavar="MODEL",
        kind=FILE,
    )
    data: Data = option(None, _DATA, SAMPLES, metavar=_DATA_METAVAR, kind=FILE_OR_NAME)
    _: KW_ONLY
    evidence_file: "str | Path | None" = option(
        None,
        "What quantize wrote, to compare with what is recomputed.",
        OUTPUT,
        unset="what lies beside INTEGER, if anything does",
        metavar="FILE",
        kind=FILE,
    )
    other_programs: Sequence[OtherProgram] = option(
        (),
        "Run the samples in another program too, on the graph as `qpasses export` writes it, "
        "and compare its integers: TOSA's reference model, IREE, LiteRT, or TensorFlow "
        "Lite Micro. May be repeated.",
        RUN,
        flag="with",
        unset="none",
    )
    all_tensors: bool = option(
        False, "Compare with --with all stored tensors, not the outputs alone.", RUN
    )


@dataclass(frozen=True, kw_only=True)
class VerifyCommand(TerminalOptions, PictureOptions, VerifyOptions):
    """``qpasses verify``."""


@dataclass(frozen=True)
class ExportOptions(TosaOptions, TfliteOptions, ShapeOptions, SampleOptions):
    """``qpasses.export``."""

    integer: "str | Path | onnx.ModelProto"
    output: "str | Path | None" = option(
        None,
        "The file to write, of vectors the folder; without it nothing is written, as with "
        "--check.",
        OUTPUT,
        short="o",
        metavar="FILE",
        kind=FILE,
    )
    _: KW_ONLY
    to: ExportFormat | None = option(
        None,
        "TOSA as MLIR in generic form; a TFLite file that LiteRT's reference kernels run bit "
        "for bit; or vectors, a folder with samples and all that nodes store for them, for "
        "who brings up a device (docs/bisect.md).",
        OUTPUT,
        unset="as the file is called, .mlir or .tflite; tosa without one",
    )
    check: bool = option(False, "Say whether it can be exported, and write nothing.", OUTPUT)
    samples: int | None = option(
        None,
        "Use only N samples, spread evenly over the data.",
        SAMPLES,
        unset="4",
        metavar="N",
        least=1,
    )
    data: Data = option(
        None,
        f"{_DATA} For vectors.",
        SAMPLES,
        metavar=_DATA_METAVAR,
        kind=FILE_OR_NAME,
    )


@dataclass(frozen=True, kw_only=True)
class ExportCommand(PictureOptions, ExportOptions):
    """``qpasses export``."""


@dataclass(frozen=True)
class BisectOptions(ShapeOptions, SampleOptions):
    """``qpasses.bisect``."""

    integer: "str | Path | onnx.ModelProto"
    dump: "str | Path" = field(
        metadata=described(
            "What the device stored: a folder of .npy files named by tensor, with a folder or "
            "a .npz for each sample where there are several, or one .npz.",
            SAMPLES,
            metavar="PATH",
            kind=FILE,
        )
    )
    data: Data = option(
        None,
        f"{_DATA} Those that the device was given.",
        SAMPLES,
        metavar=_DATA_METAVAR,
        kind=FILE_OR_NAME,
        unset="what the device was fed is taken from its dump",
    )
    _: KW_ONLY
    json_file: "str | Path | None" = option(
        None,
        "Write the report as JSON (docs/bisect.md).",
        OUTPUT,
        metavar="FILE",
        kind=FILE,
    )
    progress: Progress = no_progress


@dataclass(frozen=True, kw_only=True)
class BisectCommand(PictureOptions, BisectOptions):
    """``qpasses bisect``."""


@dataclass(frozen=True)
class AnalyzeOptions(PageOptions, SampleOptions):
    """``qpasses analyze`` and ``qpasses.analyze``."""

    integer: "str | Path | onnx.ModelProto"
    against: "str | Path | onnx.ModelProto" = field(
        metadata=described(
            "The float model INTEGER was made from.", SAMPLES, metavar="MODEL", kind=FILE
        )
    )
    data: Data = field(
        metadata=described(_DATA, SAMPLES, metavar=_DATA_METAVAR, kind=FILE_OR_NAME)
    )
    _: KW_ONLY
    seconds: float = option(
        60.0,
        "So long what tensors cost is measured; what there was no time for is said.",
        RUN,
        unit="seconds",
        metavar="S",
        least=0,
    )
    try_options: bool = option(
        False,
        "Quantize again with the options that findings name, and usual ones, one by one on "
        "three quarters of the samples; keep what gains on those that are held back.",
        RUN,
        flag="try",
    )
    config_output: "str | Path | None" = option(
        None,
        "With --try: write the options that are left as a configuration file.",
        OUTPUT,
        metavar="FILE.toml",
        kind=FILE,
    )


@dataclass(frozen=True, kw_only=True)
class AnalyzeCommand(TerminalOptions, PictureOptions, AnalyzeOptions):
    """``qpasses analyze``."""

    tensors: int = option(
        10, "So many of the costliest tensors are shown.", OUTPUT, metavar="N", least=0
    )


def _threads(given: Any) -> tuple[int, ...]:
    """Numbers of threads, from "1,2" or a sequence of them."""
    parts = given.split(",") if isinstance(given, str) else given
    try:
        found = tuple(int(each) for each in parts)
    except (TypeError, ValueError) as error:
        raise UsageError(f"threads: numbers as 1,2 are needed, got {shown(given)}") from error
    if not found or not all(1 <= each <= MOST_THREADS for each in found):
        raise UsageError(f"threads: from 1 to {MOST_THREADS}, got {shown(given)}")
    return found


MOST_THREADS = 1024


@dataclass(frozen=True)
class BenchOptions(ReportOptions, ShapeOptions, SampleOptions):
    """``qpasses bench`` and ``qpasses.bench``."""

    integer: "str | Path | onnx.ModelProto"
    against: "str | Path | onnx.ModelProto | None" = option(
        None,
        "The float model INTEGER was made from, to be measured too.",
        SAMPLES,
        metavar="MODEL",
        kind=FILE,
    )
    data: Data = option(
        None,
        f"{_DATA} The first is run.",
        SAMPLES,
        metavar=_DATA_METAVAR,
        kind=FILE_OR_NAME,
        unset="made-up numbers of the sizes that quantize saw",
    )
    _: KW_ONLY
    qdq: "str | Path | onnx.ModelProto | None" = option(
        None,
        "A Q/DQ model with the inputs of the float one, to be measured too.",
        SAMPLES,
        metavar="MODEL",
        kind=FILE,
    )
    threads: "str | Sequence[int]" = option(
        "1",
        "Threads that a node runs on; several numbers with commas, one after the other.",
        RUN,
        metavar="N,N",
        kind=THREADS,
        kept=_threads,
    )
    seconds: float = option(
        2.0,
        "So long each model is run for each number of threads.",
        RUN,
        unit="seconds",
        metavar="S",
        least=0,
    )
    nodes: int = option(
        10, "So many of the slowest nodes are shown.", OUTPUT, metavar="N", least=0
    )


@dataclass(frozen=True, kw_only=True)
class BenchCommand(TerminalOptions, PictureOptions, BenchOptions):
    """``qpasses bench``."""


@dataclass(frozen=True)
class PreviewOptions(ShapeOptions):
    """``qpasses.preview``."""

    model: "str | Path | onnx.ModelProto"


@dataclass(frozen=True)
class InspectCommand(PreviewOptions):
    """``qpasses inspect``."""

    _: KW_ONLY
    node: str | None = option(
        None,
        "One node of an integer model: its formula and all its numbers.",
        OUTPUT,
        metavar="NAME",
    )
    text: bool = option(False, "The graph in ONNX's text syntax.", OUTPUT)
    as_json: bool = option(False, "Everything as JSON.", OUTPUT, flag="json")
    diff: "str | Path | None" = option(
        None,
        "Where MODEL and this one differ, node by node; exit code 0 if nowhere, else 1.",
        OUTPUT,
        metavar="OTHER",
        kind=FILE,
    )
    view: bool = option(
        False, "Show the graph in a browser, by Netron (pip install qpasses[view]).", OUTPUT
    )
    serve: int | None = option(
        None,
        "As --view, but open nothing: print the address, for a machine without a browser.",
        OUTPUT,
        metavar="PORT",
        least=1,
        most=65_535,
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
