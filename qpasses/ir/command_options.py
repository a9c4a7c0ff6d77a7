"""What several commands take: samples, and who is told of what was done."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qpasses.ir.declared import (
    FILE,
    TEXT,
    Options,
    option,
)
from qpasses.ir.options import (
    OUTPUT,
)
from qpasses.ir.progress import Progress, no_progress

Data = Any
"""What ``calibration.open_samples`` takes: a path, "random:N", a reader, an iterable."""

DATA = (
    "Samples: a folder of .npy/.npz feeds or one file of stacked ones, a folder of pictures, "
    "or of test_data_set_*; random:N makes numbers up."
)
"""Of an option that takes samples."""

DATA_METAVAR = "PATH|random:N"


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
