"""The Python interface: what the command line calls and users import."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import onnx

from calibration import Preprocessing, Samples, Session, input_specs, open_samples
from calibration.table import Table
from opsets.errors import DataError, UsageError
from opsets.target import Target
from qpasses.checking.accuracy import compare
from qpasses.checking.compare_certificates import Compared, compare_certificate
from qpasses.checking.inspection import Inspection, inspect_model
from qpasses.checking.verification import recorded_preprocessing, verify_integer
from qpasses.emit.certificate import Certificate, certificate
from qpasses.emit.evidence_file import (
    place_to_read,
    place_to_write,
    read_certificate,
    write_outputs,
)
from qpasses.emit.provenance import Provenance
from qpasses.emit.report_file import described, report_head, write_report
from qpasses.emit.whole_files import check_outputs
from qpasses.evidence.node_evidence import NodeEvidence
from qpasses.evidence.summary import summarize
from qpasses.integerize import INTEGER_IO
from qpasses.ir.commands import QuantizeOptions, VerifyOptions
from qpasses.ir.edges import Edges, RealSession
from qpasses.ir.keywords import takes
from qpasses.ir.rewriting import Watch
from qpasses.ir.settings import Settings
from qpasses.load.arguments import (
    given_engine,
    given_float_model,
    given_model,
    given_paths,
    given_preprocessing,
    given_target,
    tool_version,
)
from qpasses.load.integer_model import read_integer_model
from qpasses.load.reading import digest, external_files
from qpasses.pipeline import integerize, pass_table
from qpasses.place.cautions import (
    code_warnings,
    constant_warnings,
    data_warnings,
    graph_warnings,
    range_warnings,
)
from qpasses.place.ranges import Calibration, Given, Ranges, ranges_as_json, skipped_as_json

ACCURACY_SAMPLES = 20
"""On so many samples ``quantize`` compares the integer with the float model."""


@dataclass(frozen=True)
class Result:
    """The emitted model (None from ``verify``), the report of docs/report.md, the evidence.

    ``certificate``: the evidence file of docs/evidence.md, by ``verify`` what it recomputed;
    None where no integer model was emitted.
    """

    model: onnx.ModelProto | None
    report: dict[str, Any]
    evidence: Sequence[NodeEvidence]
    certificate: Certificate | None = None

    def __repr__(self) -> str:
        return f"Result(verdict={self.verdict!r}, {len(self.evidence)} integer nodes)"

    @property
    def verdict(self) -> str:
        """``ok``, ``incomplete`` or ``failed``."""
        return str(self.report["summary"]["verdict"])

    def save(self, output: str | Path, evidence_file: str | Path | None = None) -> None:
        """Write model and certificate as ``quantize`` does: both or none of them.

        ``evidence_file``: beside ``output`` where it is None. Raises UsageError for a path
        that cannot be written, and for the result of ``verify``, which holds no model.
        """
        if self.model is None:
            raise UsageError(f"{output}: the result of verify holds no model to write")
        made = self.report["configuration"]
        evidence = place_to_write(evidence_file, output, made["emit"], made["stop_after"])
        check_outputs(given_paths(output, evidence), [])
        write_outputs(self.model, self.certificate, output, evidence)


@takes(QuantizeOptions)
def quantize(given: QuantizeOptions) -> Result:
    """Turn a float model into an integer model with evidence for every node.

    ``data``: a folder or file of samples, ``"random:N"``, an object with ``get_next()``, or an
    iterable of feeds (``calibration.open_samples``); ``samples`` limits how many are used,
    ``preprocessing``, or the name of one, says what pictures become. The settings are those of
    ``Settings``; ``exact`` stands for the target ``exact``. ``after`` is called with name
    and graph after each pass; ``stop_after`` ends behind one of them, with the graph as it is
    then. ``output`` is written with its certificate, in ``evidence_file`` or beside it, both
    or none, and ``json_file`` whole or not at all. Raises UsageError (paths, options, samples)
    or ModelError (the model).
    """
    rules = given_target(given.target, given.exact)
    settings = Settings.chosen(rules, given)
    _check_stop(given.stop_after, settings)
    evidence = place_to_write(
        given.evidence_file, given.output, settings.emit, given.stop_after
    )
    runs_on = given_engine(given.engine, given.ray_address)
    skip_bad = given.on_bad_sample == "skip"
    source, path = given_float_model(given.model)
    how = given_preprocessing(given.preprocessing)
    sha256, data, table = digest(source), given.data, None
    calibration_table, target = given.calibration_table, given.target
    if calibration_table is not None:
        table = Given.read(calibration_table, sha256, tool_version(), rules)
    if data is None:
        _check_dataless(table, given.samples, how)
    usual = None if table is None else table.preprocessing
    wanted = "random:1" if data is None else data
    feeds = open_samples(wanted, input_specs(source), given.samples, how, usual)
    if table is not None:
        table.check_preprocessing(feeds.preprocessing)
    table_file = [] if isinstance(calibration_table, Table) else given_paths(calibration_table)
    target_file = [] if isinstance(target, Target) else given_paths(target)
    target_file = [each for each in target_file if each.suffix == ".toml"]
    check_outputs(
        given_paths(given.output, evidence, given.json_file),
        [
            path,
            *external_files(path),
            *feeds.paths,
            *target_file,
            *table_file,
        ],
    )
    shown_as = feeds.preprocessing or (usual if data is None else None)
    configuration = settings.as_json() | {
        "calibration_table": table and table.as_json(),
        "samples": len(feeds),
        "random_data": feeds.random if table is None else table.random,
        "stop_after": given.stop_after,
        "preprocessing": shown_as and shown_as.as_json(),
    }
    origin = Provenance.of(source, sha256, tool_version(), configuration)
    calibration = Calibration(runs_on, table, skip_bad, given.workers)
    watch = Watch(given.after, given.stop_after)
    made = integerize(source, feeds, settings, origin, calibration, given.progress, watch)

    advance = given.progress("compare with float", 1)
    compared, bad = _compared(feeds, made.ranges, skip_bad)
    ranges = replace(made.ranges, skipped={**made.ranges.skipped, **bad})
    edges = Edges.between([spec.name for spec in feeds.specs], made.model, made.record)
    runner = RealSession(Session(made.model), edges)
    accuracy = compare(Session(source), runner, compared).as_json()
    advance()
    report = report_head("quantize", path, source, configuration)
    summary = summarize(made.graph, made.record, made.evidence, made.unfinished)
    report |= {
        "target": settings.target.name,
        "samples": described(feeds)
        | {
            "calibration": table.samples if table else len(feeds) - len(ranges.skipped),
            "skipped": skipped_as_json(ranges.skipped),
            "accuracy": len(compared),
        },
        "calibration": ranges_as_json(ranges),
        "summary": summary,
        "joins": [each.as_json() for each in made.joins],
        "sharing": made.sharing and made.sharing.as_json(),
        "evidence": {"nodes": [each.as_json() for each in made.evidence]},
        "accuracy": {"outputs": accuracy},
        "warnings": [
            *data_warnings(feeds, ranges.random, feeds.random),
            *range_warnings(ranges, settings.rules),
            *code_warnings(made.few_codes, settings),
            *constant_warnings(made.clipped),
            *graph_warnings(made.graph, settings, summary, accuracy),
        ],
    }
    certified = None
    if not made.unfinished:
        graph, record = made.graph, made.record
        certified = certificate(
            made.model, origin, graph, record, made.evidence, settings, summary
        )
    write_outputs(made.model, certified, given.output, evidence)
    write_report(given.json_file, report)
    return Result(made.model, report, made.evidence, certified)


@takes(VerifyOptions)
def verify(given: VerifyOptions) -> Result:
    """Check the integer model against its float original on this machine.

    The evidence is recomputed, every node compared with the float nodes it stands for, the
    kernels probed, both bodies and the float model run on the samples. Pictures take the
    preprocessing that the integer model records where none is given. The verdict is
    ``failed`` if anything differs, also if ``evidence_file``, or the certificate beside
    ``integer`` if there is one, does not say what was recomputed; ``incomplete`` without
    ``against`` or ``data``. Raises UsageError, ModelError or VerificationError.
    """
    model, path = given_model(given.integer)
    against, data = given.against, given.data
    original, source = (None, None) if against is None else given_float_model(against)
    if original is None and data is not None:
        raise UsageError("data are for the float model too: give it (--against, against)")
    if data is None and (given.samples is not None or given.preprocessing is not None):
        raise UsageError("samples and preprocessing are about data: give them (--data, data)")
    read = read_integer_model(model, str(path))
    how = given_preprocessing(given.preprocessing)
    usual = recorded_preprocessing(read)
    feeds = None
    if original is not None and data is not None:
        feeds = open_samples(data, input_specs(original), given.samples, how, usual)
    models = [each for each in (path, source) if each is not None]
    files = [file for each in models for file in external_files(each)]
    beside = place_to_read(given.evidence_file, given.integer)
    kept = None if beside is None else read_certificate(beside)
    inputs = [*models, *files, *(feeds.paths if feeds else []), *given_paths(beside)]
    check_outputs(given_paths(given.json_file), inputs)
    found = verify_integer(read, original, feeds, given.progress, str(path))
    summary = summarize(found.graph, found.record, found.evidence)
    sha256 = read.about["float_sha256"] if original is None else digest(original)
    origin = Provenance(sha256, read.about["version"], {})
    recomputed = certificate(
        model, origin, found.graph, found.record, found.evidence, found.settings, summary
    )
    compared = Compared()
    if kept is not None:
        compared = compare_certificate(kept, recomputed, str(beside))
    found.problems += compared.problems
    found.checks["evidence_file"] = beside and {
        "path": str(beside),
        "nodes": len(found.evidence),
        "differences": compared.differences,
    }
    if found.problems:
        summary |= {"verdict": "failed", "because": []}
    elif found.unchecked:
        because = [*summary["because"], *found.unchecked]
        summary |= {"verdict": "incomplete", "because": because}
    count = len(feeds) if feeds else 0
    report = report_head("verify", source, original, {"samples": count})
    accuracy = found.accuracy.as_json() if feeds else []
    doubts = data_warnings(feeds, found.random_data, feeds.random) if feeds else []
    doubts += found.warnings
    report |= {
        "target": found.settings.target.name,
        "integer_model": {"path": str(path), "sha256": digest(model)},
        "samples": described(feeds) | {"accuracy": count},
        "summary": summary | {"problems": found.problems},
        "evidence": {"nodes": [each.as_json() for each in found.evidence]},
        "checks": found.checks,
        "accuracy": {"outputs": accuracy},
        "warnings": [
            *doubts,
            *compared.notes,
            *graph_warnings(found.graph, found.settings, summary, accuracy),
        ],
    }
    write_report(given.json_file, report)
    return Result(None, report, found.evidence, recomputed)


def inspect(integer: str | Path | onnx.ModelProto) -> Inspection:
    """The nodes of an integer model with their numbers, and their evidence recomputed."""
    model, path = given_model(integer)
    return inspect_model(model, path)


def _check_dataless(
    table: Given | None, samples: int | None, how: Preprocessing | None
) -> None:
    """Raise UsageError if nothing says the ranges, or an option is for data."""
    if table is None:
        raise UsageError(
            "there is nothing to take ranges from: give --data or --calibration-table (in "
            "Python: data or calibration_table)"
        )
    if samples is not None or how is not None:
        what = "samples" if how is None else "preprocessing"
        raise UsageError(f"{what}: is about data, and there are none: give --data too")


def _compared(feeds: Samples, found: Ranges, skip_bad: bool) -> tuple[Samples, dict[str, str]]:
    """The samples to compare on, and those that were left out of them, with the reason.

    A run has left the bad ones out before; where ranges are from a table, none was read yet.
    """
    good = feeds.without(found.skipped)
    wanted = (good if len(good) else feeds).spread(ACCURACY_SAMPLES)
    bad = {}
    for position in range(len(wanted)) if skip_bad else ():
        try:
            wanted.read(position)
        except DataError as error:
            bad[wanted.name(position)] = str(error)
    if bad and len(bad) == len(wanted):
        raise DataError(f"none of {len(bad)} samples can be read: {next(iter(bad.values()))}")
    return wanted.without(bad), bad


def _check_stop(name: str | None, settings: Settings) -> None:
    check_pass(name)
    if name is not None and settings.emit != "integer":
        raise UsageError(f"stop_after {name!r} with emit {settings.emit!r}: leave one away")
    if name in [each.name for each in INTEGER_IO] and not settings.integer_io:
        raise UsageError(f"stop_after {name!r}: that pass runs with integer_io only")


def check_pass(name: str | None) -> None:
    """Raise UsageError if ``name`` is given and no pass is called so."""
    known = [row[0] for row in pass_table()]
    if name is None or name in known:
        return
    near = get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"they are {', '.join(known)}"
    raise UsageError(f"there is no pass {name!r}: {hint}")
