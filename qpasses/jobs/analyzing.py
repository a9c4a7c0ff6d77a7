"""``analysis`` of a report: an integer model beside its float model, on samples."""

from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from calibration import Samples
from opsets.errors import ModelError, QPassesError, VerificationError
from opsets.realised import takes_words
from qpasses.analysis.findings import Finding, costly_in_float, costly_in_words, findings
from qpasses.analysis.rows import left_out, rows_of
from qpasses.analysis.walking import Analysis, analyze
from qpasses.checking.inspection import Inspection, Row, inspect_model
from qpasses.checking.verification import compared
from qpasses.ir.choices import Analyze
from qpasses.ir.command_options import PageOptions
from qpasses.ir.commands import QuantizeOptions
from qpasses.ir.edges import Edges
from qpasses.ir.graph import Node, varies
from qpasses.ir.progress import Progress
from qpasses.ir.stages import Kind, kind
from qpasses.jobs.detecting import Detector
from qpasses.jobs.examples import example_json
from qpasses.jobs.judging import sized_as
from qpasses.jobs.result import Result
from qpasses.jobs.trying import Trials, as_toml
from qpasses.load.arguments import Source
from qpasses.load.integer_model import IntegerModel, read_integer_model


def analyzed(
    read: IntegerModel,
    original: Source,
    feeds: Samples,
    seconds: float,
    progress: Progress,
    name: str,
) -> Analysis:
    """The integer model, called ``name``, tensor by tensor on ``feeds``.

    Raises ModelError where ``original`` was quantized before, VerificationError where it is
    not what ``read`` was made from.
    """
    if original.is_quantized:
        raise ModelError(
            f"{original.path}: is quantized already, and its own rounding cannot be told from "
            "ours: tensors are analyzed beside float models (`qpasses verify` compares both)"
        )
    try:
        edges = Edges.between(original.model, read.model, read.record)
    except ValueError as error:
        raise VerificationError(
            f"{name} was not made from {original.path}: they have other inputs or outputs"
        ) from error
    checked = compared(read, original, feeds.first(), name)
    if checked.differences:
        raise VerificationError(
            f"{name} is not what {original.path} becomes, so what its tensors lose cannot be "
            f"told: {checked.differences[0]} (`qpasses verify` says more)"
        )
    found = analyze(read, checked.pair, edges, feeds, seconds, progress)
    found.macs = checked.macs
    return found


def as_json(
    found: Analysis,
    read: IntegerModel,
    looked: Inspection,
    seconds: float,
    pictures: bool,
    detector: Detector | None = None,
) -> dict[str, Any]:
    """``analysis`` of a report (docs/report.md). ``looked``: into the same model.

    ``pictures``: with a few samples and their outputs, as a page shows them, and what
    ``detector`` finds. Raises UsageError where that cannot.
    """
    rows = rows_of(found)
    told = _told(found, read, rows)
    pairs = zip(looked.rows, read.graph.nodes, strict=True)
    made = {
        "samples": {"walked": found.walked, "costed": found.costed},
        "seconds": seconds,
        "sqnr_db": found.whole.sqnr_db,
        "looked_at": found.looked,
        "outputs": found.accuracy.as_json(),
        "tensors": rows,
        "left_out": left_out(rows),
        "findings": [each.as_json() for each in told],
        "by_sample": [{"name": name, "sqnr_db": db} for name, db in found.by_sample],
        "examples": [example_json(each, detector) for each in found.examples if pictures],
        "graph": [_drawn(row, node) for row, node in pairs],
    }
    return dict(_finite(made))


def _finite(value: Any) -> Any:
    """``value`` with None for numbers that JSON has not."""
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    return [*map(_finite, value)] if isinstance(value, list | tuple) else value


def _told(
    found: Analysis, read: IntegerModel, rows: Sequence[dict[str, Any]]
) -> list[Finding]:
    has_words, configuration = takes_words(read.settings.target), read.about["configuration"]
    return findings(rows, found.observed, found.by_sample, configuration, has_words)


def tried(
    trials: Trials, found: Analysis, read: IntegerModel, progress: Progress
) -> dict[str, Any]:
    """What of an analysis is of options that were tried."""
    rows = rows_of(found)
    has_words = takes_words(read.settings.target)
    costly = [*(costly_in_words(rows) if has_words else []), *costly_in_float(rows)]
    options = trials.run(_told(found, read, rows), costly, progress)
    return {
        "tried": [each.as_json() for each in trials.tried],
        "tried_on": trials.begin,
        "configuration": as_toml(options, trials.preprocessing),
    }


SHORT, FULL = 10.0, 60.0
"""So many seconds costs are measured."""

_FEW = 4
"""Samples of a short look."""


def extent_of(asked: QuantizeOptions) -> Analyze:
    """What is wanted where nobody says it: all that a page shows, or nothing."""
    return asked.analyze or ("no" if asked.html_file is None else "full")


def is_wanted(asked: QuantizeOptions, made: Result) -> bool:
    """Whether what was made is to be looked into: short looks are for poor outputs.

    Those of models that were quantized before have nothing to be told from.
    """
    extent = extent_of(asked)
    if extent == "no" or made.certificate is None:
        return False
    if extent == "short" and made.report["quantized_before"]:
        return False
    is_whole = made.report["configuration"]["emit"] == "integer"
    worst = made.report["summary"]["accuracy"]["word"]
    return is_whole and (extent == "full" or worst in ("fair", "poor"))


def given_detector(asked: PageOptions, original: Source) -> Detector | None:
    """What draws detections, if one is asked for. Raises UsageError."""
    if asked.detections is None:
        return None
    return Detector(asked.detections, original)


def look_into(
    made: Result, original: Source, samples: Samples, asked: QuantizeOptions
) -> None:
    """Add ``analysis`` to the report of what was just made; where that fails, a warning."""
    assert made.model is not None
    is_full = extent_of(asked) == "full"
    seconds = FULL if is_full else SHORT
    some = samples if is_full else samples.spread(_FEW)
    name = str(asked.output or original.path)
    try:
        detector = given_detector(asked, original)
        read = read_integer_model(made.model, name)
        found = analyzed(read, sized_as(read, original), some, seconds, asked.progress, name)
        looked = inspect_model(made.model, Path(name))
        made.report["analysis"] = as_json(
            *(found, read, looked, seconds, asked.html_file is not None, detector)
        )
    except QPassesError as error:
        made.report["warnings"].append(f"where accuracy goes could not be told: {error}")


def _drawn(row: Row, node: Node) -> dict[str, Any]:
    """A node as a drawing of the graph has it."""
    return {
        "name": row.name,
        "op": row.op,
        "inputs": [tensor.name for tensor in node.inputs if varies(tensor)],
        "outputs": [*row.writes],
        "kind": _KINDS[kind(node)],
        "formula": row.formula,
        "reason": row.reason,
        "multiplier": [*row.multiplier[:_SHOWN]],
        "shift": [*row.shift[:_SHOWN]],
        "rule": row.rule,
        "evidence": row.proof and row.proof.as_json(),
    }


_SHOWN = 8
"""So many multipliers are in a drawing; `qpasses inspect` has all."""

_KINDS = {
    Kind.INTEGER: "integer",
    Kind.EDGE: "boundary",
    Kind.FLOAT: "float",
    Kind.SHAPE: "other",
}
