"""Calibrate: statistics of a model's tensors in a table, from which ranges can be chosen."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import reduce
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from calibration import Collected, Run, Samples, open_samples
from calibration.checkpoint import Checkpoint, fingerprint
from calibration.collect import NOTHING
from calibration.foreign_tables import table_kind, written
from calibration.held_weights import holding, weight_bytes
from calibration.inputs import elements
from calibration.memory import give_back
from calibration.methods import NEEDS_HISTOGRAM
from calibration.rules import Rules
from calibration.table import Table, read_table
from opsets.argument_kinds import check_kind, check_path, shown
from opsets.errors import DataError, UsageError
from opsets.target import load_target
from qpasses.emit.report_file import described, report_head, write_report
from qpasses.emit.whole_files import check_outputs, write_whole
from qpasses.ir.choices import TableFormat
from qpasses.ir.commands import CalibrateOptions, ConvertOptions
from qpasses.ir.input_names import as_pairs
from qpasses.ir.interchange import prepared_model
from qpasses.ir.keywords import takes
from qpasses.ir.options import TensorOptions
from qpasses.ir.rewriting import Context
from qpasses.ir.runtime import Arrays
from qpasses.ir.settings import Settings
from qpasses.load.arguments import (
    given_engine,
    given_float_model,
    given_paths,
    given_preprocessing,
    naming,
    tool_version,
)
from qpasses.load.external_data import external_files
from qpasses.load.state_ends import check_states
from qpasses.lowering import QUANTIZABLE
from qpasses.place.alignment import concerned, to_observe
from qpasses.place.cautions import data_warnings, range_warnings
from qpasses.place.endless import leave_endless
from qpasses.place.infinite import leave_infinite
from qpasses.place.placed_states import observable
from qpasses.place.planning import plan
from qpasses.place.ranges import Ranges, chosen, ranges_as_json, skipped_as_json
from qpasses.prepare.canonical import prepare

_LOOKED_AT = 8
"""So many samples that are no files must be the same for a run to be gone on with."""


@dataclass(frozen=True)
class CalibrationResult:
    """The table, in whatever format it was written, and the report about it."""

    table: Table
    report: dict[str, Any]

    def __repr__(self) -> str:
        table = self.table
        return f"CalibrationResult({table.samples} samples, {len(table.tensors)} tensors)"


@takes(CalibrateOptions)
@holding()
def calibrate(asked: CalibrateOptions) -> CalibrationResult:
    """Collect the statistics of all tensors of ``model`` that ``quantize`` gives a scale.

    The table holds histograms, so that every method, and symmetric or not, follows from it
    without another run; ``histograms`` False leaves them away, for minmax and moving-average,
    but for those that say where joins get tables (docs/decisions/0021).
    Method, percentile and overrides choose the ranges of the report, and those of a table in
    the format of ``tpumlir`` or ``onnxruntime``. ``shard`` (i, n) takes the i-th of n parts of
    the samples, from 1 on: ``merge_tables`` puts the tables together. A run with an ``output``
    that is stopped leaves OUTPUT.checkpoint and goes on from there when it is called again
    (not if ``restart``). Raises UsageError or ModelError.
    """
    settings = Settings.chosen(load_target("onnx"), asked)
    if not asked.histograms:
        _check_extremes_do(settings.rules)
    collect = given_engine(asked.engine, asked.ray_address)
    skip_bad, output, shard = asked.on_bad_sample == "skip", asked.output, asked.shard
    float_model = given_float_model(asked.model).sized(settings.input_shape)
    source, path = float_model.model, float_model.path
    check_states(source, settings.states, path)
    how = given_preprocessing(asked.preprocessing)
    names = as_pairs(asked.inputs)
    feeds = _shard(
        open_samples(
            asked.data,
            float_model.specs,
            asked.samples,
            how,
            names=names,
            excluded=asked.samples_to_exclude,
        ),
        shard,
    )
    file = None if output is None else Path(f"{output}.checkpoint")
    check_outputs(
        given_paths(output, asked.json_file, file),
        [path, *external_files(path), *feeds.paths],
    )
    entries = _configuration(settings, asked, feeds)
    report = report_head("calibrate", float_model, entries)
    blank = Table(report["model"]["sha256"], tool_version(), 1, {}, _kind_of(feeds))

    advance = asked.progress("prepare the graph", 1)
    sample = feeds.first(skip_bad)
    with naming(path):
        prepared, tensors, judged, feeds = _to_observe(source, feeds, sample, settings)
    weights = weight_bytes(source)
    del source
    give_back(weights)
    settings.rules.check(tensors)
    advance()

    run = Run(asked.histograms or judged, skip_bad, asked.workers)
    checkpoint = None if file is None else _checkpoint(file, blank, tensors, run, feeds)
    start = NOTHING if checkpoint is None or asked.restart else _start(checkpoint, skip_bad)
    if checkpoint is not None:
        run = replace(run, save=_saving(checkpoint))
    left = len(feeds) - sum(end - first for first, end in start.done)
    run = replace(run, progress=asked.progress("calibrate", left))
    found = collect(prepared, tensors, feeds, run, start)
    table = _table(found, tensors, blank)
    ranges = _ranges(table, settings)
    if output is not None:
        write_whole(Path(output), _content(table, ranges, asked.table_format))
    if checkpoint is not None:
        checkpoint.path.unlink(missing_ok=True)
    counts = {"calibration": table.samples, "resumed": start.samples}
    skipped = {"skipped": skipped_as_json(found.skipped)}
    warnings = [*float_model.remarks, *data_warnings(feeds, feeds.random, False)]
    report |= {
        "samples": described(feeds) | counts | skipped,
        "calibration": ranges_as_json(ranges),
        "warnings": [*warnings, *range_warnings(ranges, settings.rules)],
    }
    write_report(asked.json_file, report, f"{output} is written and whole" if output else "")
    return CalibrationResult(table, report)


def _kind_of(feeds: Samples) -> dict[str, Any]:
    """What tables that are merged must have in common in their samples."""
    used = feeds.preprocessing
    return {"random": feeds.random, "preprocessing": used and used.as_json()}


def _checkpoint(
    file: Path, blank: Table, tensors: list[str], run: Run, feeds: Samples
) -> Checkpoint:
    """Where a run is saved that is gone on with if model, options and samples are the same."""
    about: list[Any] = [
        blank.model,
        tool_version(),
        tensors,
        sorted(run.histograms_of(tensors)),
        _kind_of(feeds),
        feeds.names,
        [(path.stat().st_size, path.stat().st_mtime_ns) for path in feeds.paths],
        [] if feeds.paths else _looks(feeds.spread(_LOOKED_AT)),
    ]
    return Checkpoint(file, fingerprint(about), blank)


def _start(checkpoint: Checkpoint, skip_bad: bool) -> Collected:
    """What was counted before. Raises DataError if it leaves out what now may not be."""
    start = checkpoint.load()
    if start.skipped and not skip_bad:
        raise DataError(
            f"{checkpoint.path}: left out {len(start.skipped)} bad samples: go on with "
            "--on-bad-sample skip, or say --restart"
        )
    return start


def _table(found: Collected, tensors: Sequence[str], blank: Table) -> Table:
    """What was collected, as a table. Raises DataError for a tensor that held no values."""
    for name in tensors:
        if name not in found.tensors:
            raise DataError(
                f"tensor {name!r} held no values in any of {found.samples} samples: a table "
                "cannot tell, leave it to quantize"
            )
    return replace(
        blank,
        samples=found.samples,
        tensors=found.tensors,
        skipped=tuple(sorted(found.skipped)),
    )


def _to_observe(
    model: onnx.ModelProto, feeds: Samples, sample: Arrays, settings: Settings
) -> tuple[onnx.ModelProto, list[str], frozenset[str], Samples]:
    """The prepared model, its tensors that will carry a scale, and those joins are judged by.

    The last whatever the alignment is: the table may be used with another. And the samples,
    that have to be finite where they are stored.
    """
    context = Context(settings, quantizable=QUANTIZABLE)
    graph = prepare(model, sample, context)
    leave_endless(graph, feeds, sample, context)
    while True:
        planned = plan(graph, context)
        names = to_observe(graph, planned, settings)
        finite = feeds.bounded(planned.tensors)
        if not leave_infinite(graph, planned, names, finite, context):
            judged = frozenset(concerned(graph, planned))
            return observable(prepared_model(graph), planned), names, judged, finite


def merge_tables(tables: Sequence[str | Path], output: str | Path | None = None) -> Table:
    """The table of all samples of ``tables``, whose samples are different ones.

    Raises DataError if they do not belong together: made from different models, versions of
    the tool, options or kinds of samples.
    """
    if not isinstance(tables, Sequence) or isinstance(tables, str | bytes):
        raise UsageError(f"tables: a list of paths is needed, got {shown(tables)}")
    for each in tables:
        check_kind("tables", each, "str | Path")
    check_path("output", output)
    if len(tables) < 2:
        raise UsageError("merge: at least two tables are needed")
    paths = [Path(path) for path in tables]
    check_outputs(given_paths(output), paths)
    for first, second in _same(paths):
        raise UsageError(
            f"{second}: is the same file as {first}: its samples would count twice"
        )
    read = [(path, _own_table(path, "can be merged")) for path in paths]

    def join(whole: Table, other: tuple[Path, Table]) -> Table:
        try:
            return whole.merged(other[1])
        except DataError as error:
            raise DataError(f"{paths[0]} and {other[0]}: {error}") from error

    merged = reduce(join, read[1:], read[0][1])
    if output is not None:
        write_whole(Path(output), merged.encoded())
    return merged


@takes(ConvertOptions)
def convert_table(asked: ConvertOptions) -> bytes:
    """A table of this tool as ranges in the format of another one, chosen by a method."""
    path, output = Path(asked.table), asked.output
    check_outputs(given_paths(output), [path])
    settings = Settings.chosen(load_target("onnx"), asked)
    read = _own_table(path, "hold what ranges are chosen from")
    settings.rules.check(read.tensors)
    content = _content(read, _ranges(read, settings, str(path)), asked.table_format)
    if output is not None:
        write_whole(Path(output), content)
    return content


def _own_table(path: Path, only: str) -> Table:
    """The table at ``path``; UsageError, with what ``only`` ours do, for another tool's."""
    if table_kind(path) != "qpasses":
        raise UsageError(f"{path}: only tables of qpasses {only}")
    return read_table(path)


def _ranges(table: Table, settings: Settings, where: str = "the run") -> Ranges:
    random = table.data["random"] is True
    skipped = dict.fromkeys(table.skipped)
    return chosen(settings.rules, table.tensors, skipped, random, where)


def _content(table: Table, ranges: Ranges, table_format: TableFormat) -> bytes:
    return (
        table.encoded() if table_format == "qpasses" else written(ranges.ranges, table_format)
    )


def _configuration(
    settings: Settings, asked: CalibrateOptions, feeds: Samples
) -> dict[str, Any]:
    entries, kind, shard = settings.as_json(), _kind_of(feeds), asked.shard
    asked_for = {each.name for each in fields(TensorOptions)}
    return {name: entries[name] for name in entries if name in asked_for} | {
        "table_format": asked.table_format,
        "histograms": asked.histograms,
        "samples": len(feeds),
        "shard": shard and f"{shard[0]}/{shard[1]}",
        "random_data": kind["random"],
        "preprocessing": kind["preprocessing"],
    }


def _check_extremes_do(rules: Rules) -> None:
    """Raise UsageError, naming the first method, if one needs histograms."""
    for method in [rules.method, *(override.method for override in rules.overrides)]:
        if method in NEEDS_HISTOGRAM:
            raise UsageError(
                f"method {method!r} needs histograms: leave --no-histograms away, or use "
                "minmax or moving-average"
            )


def _shard(feeds: Samples, shard: tuple[int, int] | None) -> Samples:
    if shard is None:
        return feeds
    number, parts = shard
    if not 1 <= number <= parts:
        known = f"number them from 1/{parts} to {parts}/{parts}" if parts > 0 else "of none"
        raise UsageError(f"shard {number}/{parts}: {known}")
    first, end = ((number - k) * len(feeds) // parts for k in (1, 0))
    if first == end:
        raise DataError(f"shard {number}/{parts}: holds none of the {len(feeds)} samples")
    return feeds.between(first, end)


def _looks(feeds: Samples) -> list[str]:
    """What tells samples of Python objects from others of the same names: their hashes."""
    found = []
    for position in range(len(feeds)):
        content = sha256()
        try:
            feed = feeds.read(position)
        except DataError as error:
            feed = {}
            content.update(str(error).encode())
        for name in sorted(feed):
            content.update(name.encode() if not isinstance(feed[name], np.ndarray) else b"")
            for array in elements(feed[name]):
                content.update(f"{name} {array.dtype} {array.shape}".encode())
                is_text = array.dtype == np.dtype(object)  # whose bytes are addresses
                values = str(array.tolist()).encode() if is_text else None
                content.update(values or np.ascontiguousarray(array).tobytes())
        found.append(content.hexdigest())
    return found


def _saving(checkpoint: Checkpoint) -> Callable[[Collected], None]:
    def save(found: Collected) -> None:
        if found.samples:
            write_whole(checkpoint.path, checkpoint.encoded(found))

    return save


def _same(paths: Sequence[Path]) -> list[tuple[Path, Path]]:
    """Pairs of paths to one file."""
    seen: dict[Path, Path] = {}
    pairs = []
    for path in paths:
        real = path.resolve()
        if real in seen:
            pairs.append((seen[real], path))
        seen[real] = path
    return pairs
