"""What commands take that ask something of a model: verify, bench, export, inspect and more.

As in commands.py: a class for the Python function, and one more for the command line.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opsets.argument_kinds import shown
from opsets.errors import UsageError
from qpasses.ir.choices import ExportFormat, OtherProgram
from qpasses.ir.command_options import DATA, DATA_METAVAR, Data, PageOptions, ReportOptions
from qpasses.ir.declared import (
    FILE,
    FILE_OR_NAME,
    THREADS,
    described,
    option,
)
from qpasses.ir.options import (
    OUTPUT,
    RUN,
    SAMPLES,
    SampleOptions,
    ShapeOptions,
    TfliteOptions,
    TosaOptions,
)
from qpasses.ir.progress import Progress, no_progress
from qpasses.ir.terminal_options import (
    PictureOptions,
    TerminalOptions,
)

if TYPE_CHECKING:
    import onnx


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
    data: Data = option(None, DATA, SAMPLES, metavar=DATA_METAVAR, kind=FILE_OR_NAME)
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
        f"{DATA} For vectors.",
        SAMPLES,
        metavar=DATA_METAVAR,
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
        f"{DATA} Those that the device was given.",
        SAMPLES,
        metavar=DATA_METAVAR,
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
        metadata=described(DATA, SAMPLES, metavar=DATA_METAVAR, kind=FILE_OR_NAME)
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
        f"{DATA} The first is run.",
        SAMPLES,
        metavar=DATA_METAVAR,
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
