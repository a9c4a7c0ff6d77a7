"""The Python interface: what the command line calls and users import."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import onnx

from calibration import Preprocessing, Samples, Session, open_samples
from calibration.held_weights import holding, materialized, released
from calibration.inputs import InputSpec
from calibration.large_weights import weight_bytes
from calibration.memory import give_back
from calibration.table import Table
from opsets.argument_kinds import check_kind, check_path
from opsets.errors import DataError, ModelError, UsageError, VerificationError
from opsets.target import Target
from qpasses.checking.accuracy import compare
from qpasses.checking.compare_certificates import Compared, compare_certificate
from qpasses.checking.inspection import Inspection, inspect_model
from qpasses.checking.reference import Reference
from qpasses.checking.verification import Verification, recorded_preprocessing, verify_integer
from qpasses.emit.certificate import Certificate, certificate
from qpasses.emit.evidence_file import (
    place_to_read,
    place_to_write,
    read_certificate,
    write_outputs,
)
from qpasses.emit.model_file import expected_place, model_files, too_large, weights_place
from qpasses.emit.provenance import Provenance
from qpasses.emit.report_file import described, report_head, write_report
from qpasses.emit.whole_files import check_outputs, write_together, write_whole
from qpasses.evidence.node_evidence import NodeEvidence
from qpasses.evidence.summary import summarize
from qpasses.ir.commands import IntegerizeOptions, OptOptions, QuantizeOptions, VerifyOptions
from qpasses.ir.edges import Edges, RealSession
from qpasses.ir.graph import Graph
from qpasses.ir.input_names import as_pairs
from qpasses.ir.interchange import export_graph, import_graph
from qpasses.ir.keywords import takes
from qpasses.ir.record import Record
from qpasses.ir.rewriting import Context, Pass, Watch, run_passes
from qpasses.ir.settings import Settings
from qpasses.load.arguments import (
    Source,
    given_engine,
    given_model,
    given_paths,
    given_preprocessing,
    given_source,
    given_target,
    naming,
    tool_version,
)
from qpasses.load.external_data import external_files
from qpasses.load.graph_text import read_graph_file
from qpasses.load.integer_model import IntegerModel, read_integer_model
from qpasses.load.reading import digest
from qpasses.lowering import INTEGER_IO
from qpasses.pipeline import State, context_for, pass_table, passes_by_name, quantized
from qpasses.place.cautions import (
    code_warnings,
    constant_warnings,
    data_warnings,
    digit_warnings,
    graph_warnings,
    kept_warnings,
    range_warnings,
    translation_warnings,
)
from qpasses.place.ranges import Calibration, Given, Ranges, ranges_as_json, skipped_as_json
from qpasses.report.text import declined_lines, whole_text

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

    def save(
        self,
        output: str | Path,
        evidence_file: str | Path | None = None,
        save_as_external_data: bool = False,
    ) -> None:
        """Write model and certificate as ``quantize`` does: all that there is or nothing.

        ``evidence_file``: beside ``output`` where it is None. ``save_as_external_data``: the
        weights beside it too. Raises UsageError for a path that cannot be written, and for
        the result of ``verify``, which holds no model.
        """
        check_kind("output", output, "str | Path")
        check_path("evidence_file", evidence_file)
        if self.model is None:
            raise UsageError(f"{output}: the result of verify holds no model to write")
        made = self.report["configuration"]
        evidence = place_to_write(evidence_file, output, made["emit"], made["stop_after"])
        weights = weights_place(self.model, output, save_as_external_data)
        check_outputs(given_paths(output, evidence, weights), [])
        write_outputs(self.model, self.certificate, output, evidence, weights)


@takes(QuantizeOptions)
@holding()
def quantize(asked: QuantizeOptions) -> Result:
    """Turn a model into an integer model with evidence for every node.

    A model that is quantized already keeps its scales and codes, as ``integerize`` says.
    ``data``: a folder or file of samples, ``"random:N"``, an object with ``get_next()``, or an
    iterable of feeds (``calibration.open_samples``); ``samples`` limits how many are used,
    ``preprocessing``, or the name of one, says what pictures become. ``exact`` stands for the
    target ``exact``. ``after`` is called with name and graph after each pass; ``stop_after``
    ends behind one of them, with the graph as it is then. ``output`` is written with its
    certificate, in ``evidence_file`` or beside it, both or none, and ``json_file`` whole or
    not at all. Raises UsageError (paths, options, samples) or ModelError (the model).
    """
    return _run(_resolved("quantize", asked, given_source), asked)


@takes(IntegerizeOptions)
@holding()
def integerize(asked: IntegerizeOptions) -> Result:
    """Turn a model that is quantized already into an integer model, with evidence.

    It says itself how tensors are stored (QuantizeLinear and DequantizeLinear, QLinearConv and
    the like, QONNX): scales, zero points and the integers of weights are kept. ``data`` tells
    the rest; without them nodes at tensors that it says nothing of stay in float, declined by
    name. The other arguments, and what is raised, are those of ``quantize``.
    """
    return _run(_resolved("integerize", asked, _quantized_source), asked)


def _quantized_source(model: str | Path | onnx.ModelProto) -> Source:
    source = given_source(model)
    if not source.is_quantized:
        raise ModelError(
            f"{source.path}: is a float model, no node says how a tensor is stored: "
            "`qpasses quantize` finds scales"
        )
    return source


def _run(job: "_Job", asked: QuantizeOptions) -> Result:
    with naming(job.source.path):
        made = quantized(job.start)
        model = made.model
        weights = weights_place(model, asked.output, asked.save_as_external_data)
        written = given_paths(asked.output, job.evidence, asked.json_file, weights)
        check_outputs(written, job.inputs)
        result = _reported(job, made, too_large(weights, asked.save_as_external_data))
    write_outputs(model, result.certificate, asked.output, job.evidence, weights)
    del made  # its graph has the weights too
    released(model)
    done = f"{asked.output} is written and whole, with its evidence" if asked.output else ""
    write_report(asked.json_file, result.report, done)
    return result


def _resolved(
    command: str,
    asked: QuantizeOptions,
    read: Callable[[str | Path | onnx.ModelProto], Source],
) -> "_Job":
    """Everything read and checked. Raises UsageError or ModelError, nothing written."""
    rules = given_target(asked.target, asked.exact)
    settings = Settings.chosen(rules, asked)
    _check_stop(asked.stop_after, settings)
    evidence = place_to_write(
        asked.evidence_file, asked.output, settings.emit, asked.stop_after
    )
    runs_on = given_engine(asked.engine, asked.ray_address)
    source = read(asked.model).sized(settings.input_shape)
    if source.is_quantized:
        _check_free(settings)
    how, sha256, path = given_preprocessing(asked.preprocessing), source.sha256, source.path
    given = _table(asked, rules, sha256, how, source.is_quantized)
    usual = None if given is None else given.preprocessing
    if source.is_quantized and asked.data is None and given is None:
        _check_known(source)
    if asked.data is None and (free := _free_input(source)):
        raise UsageError(
            f"{source.path}: input {free} has free sizes: give them (--input-shape), or "
            "--data (in Python: data), one sample is enough to know them"
        )
    wanted = "random:1" if asked.data is None else asked.data
    names = as_pairs(asked.inputs)
    feeds = open_samples(wanted, source.specs, asked.samples, how, usual, names)
    if given is not None:
        given.check_preprocessing(feeds.preprocessing)
    inputs = [path, *external_files(path), *feeds.paths, *_files(asked)]
    weights = expected_place(source.model, asked.output, asked.save_as_external_data)
    check_outputs(given_paths(asked.output, evidence, asked.json_file, weights), inputs)
    shown_as = feeds.preprocessing or (usual if asked.data is None else None)
    configuration = settings.as_json() | {
        "calibration_table": given and given.as_json(),
        "samples": 0 if asked.data is None and given is None else len(feeds),
        "random_data": _is_random(asked, feeds, given),
        "stop_after": asked.stop_after,
        "preprocessing": shown_as and shown_as.as_json(),
    }
    start = State(
        source.model,
        feeds,
        context_for(settings),
        Provenance.of(source.reference, sha256, tool_version(), configuration),
        Calibration(runs_on, given, asked.on_bad_sample == "skip", asked.workers),
        asked.progress,
        Watch(asked.after, asked.stop_after),
        asked.data is None and given is None,
    )
    return _Job(command, start, source, configuration, evidence, inputs)


def _is_random(asked: QuantizeOptions, feeds: Samples, given: Given | None) -> bool:
    """Whether ranges come from made-up samples."""
    if given is not None:
        return given.random
    return asked.data is not None and feeds.random


def _table(
    asked: QuantizeOptions,
    rules: Target,
    sha256: str,
    how: Preprocessing | None,
    is_quantized: bool,
) -> Given | None:
    """The calibration table, if there is one; of a float model without data there must be."""
    given = None
    if asked.calibration_table is not None:
        given = Given.read(asked.calibration_table, sha256, tool_version(), rules)
    if asked.data is None:
        _check_dataless(given is not None or is_quantized, asked.samples, how)
        if asked.inputs:
            raise UsageError("inputs: is about data, and there are none: give --data too")
    return given


def _check_free(settings: Settings) -> None:
    """Raise UsageError for options on what a quantized model says itself."""
    usual = {"activation_bits": 8, "narrow_range": False, "share_tables": None}
    for name, value in usual.items():
        if getattr(settings, name) != value:
            flag = name.replace("_", "-")
            raise UsageError(
                f"{name} (--{flag}): the model is quantized already, its own scales and codes "
                "are kept: leave the option away"
            )


def _free_input(source: Source) -> InputSpec | None:
    """The first input with a free size behind the first dimension, which is 1 then."""
    return next((each for each in source.specs if None in each.shape[1:]), None)


def _check_known(source: Source) -> None:
    """Raise UsageError for a model that says of no activation how it is stored."""
    if any(node.op_type == "QuantizeLinear" for node in source.model.graph.node):
        return
    if source.dynamic:
        raise UsageError(
            f"{source.path}: quantizes {len(source.dynamic)} tensors at run time (node "
            f"{source.dynamic[0]!r} for one): integers need scales that are known, give "
            "--data (in Python: data), whose ranges they follow"
        )
    raise UsageError(
        f"{source.path}: only its weights are quantized, of no activation it says how it is "
        "stored: give --data (in Python: data), whose ranges the scales follow"
    )


def _files(asked: QuantizeOptions) -> list[Path]:
    """The files that table and target are read from."""
    table, target = asked.calibration_table, asked.target
    files = [] if isinstance(table, Table) else given_paths(table)
    rules = [] if isinstance(target, Target) else given_paths(target)
    return [*(each for each in rules if each.suffix == ".toml"), *files]


@dataclass(frozen=True)
class _Job:
    """A quantization before its first stage, and what its report says of it.

    ``command``: what was called; ``source``: the model as given; ``evidence``: where the
    certificate goes, if there is one; ``inputs``: the files that are read.
    """

    command: str
    start: State
    source: Source
    configuration: dict[str, Any]
    evidence: Path | None
    inputs: Sequence[Path]


def _reported(job: _Job, made: State, remarks: Sequence[str]) -> Result:
    """The emitted model beside the float model, the report about both, the certificate."""
    settings, feeds = made.settings, made.samples
    advance = made.progress("compare with float", 1)
    give_back(weight_bytes(made.model))
    compared, bad = _compared(feeds, made.ranges, made.calibration.skip_bad)
    ranges = replace(made.ranges, skipped={**made.ranges.skipped, **bad})
    reference = Reference(job.source, compared)
    edges = Edges.between(made.source, made.model, made.record)
    runner = RealSession(Session(made.model), edges)
    accuracy = compare(reference, runner, compared).as_json()
    del reference, runner  # sessions
    give_back(weight_bytes(made.model))
    advance()
    summary = summarize(made.graph, made.record, made.evidence, made.unfinished)
    source = job.source
    report = report_head(job.command, source.path, source.reference, job.configuration) | {
        "target": settings.target.name,
        "samples": described(feeds)
        | {
            "calibration": _calibrated_on(made, ranges),
            "skipped": skipped_as_json(ranges.skipped),
            "accuracy": len(compared),
        },
        "calibration": ranges_as_json(ranges),
        "summary": summary,
        "quantized_before": source.is_quantized,
        "kept": _kept(made) if source.is_quantized else None,
        "joins": [each.as_json() for each in made.aligned.joins],
        "sharing": made.sharing and made.sharing.as_json(),
        "evidence": {"nodes": [each.as_json() for each in made.evidence]},
        "accuracy": {"outputs": accuracy},
        "warnings": [
            *data_warnings(feeds, ranges.random, feeds.random),
            *digit_warnings(compared, source.narrowed),
            *range_warnings(ranges, settings.rules),
            *code_warnings(made.few_codes, settings),
            *constant_warnings(made.clipped),
            *source.remarks,
            *translation_warnings(source.notes),
            *kept_warnings(made.context.given.lost),
            *graph_warnings(made.graph, settings, summary, accuracy),
            *remarks,
        ],
    }
    certified = None
    if not made.unfinished:
        certified = certificate(
            made.model,
            made.provenance,
            made.graph,
            made.record,
            made.evidence,
            settings,
            summary,
        )
    return Result(made.model, report, made.evidence, certified)


@takes(VerifyOptions)
@holding()
def verify(asked: VerifyOptions) -> Result:
    """Check the integer model against its original on this machine.

    The evidence is recomputed, every node compared with the float nodes it stands for, and
    what a quantized original says of its tensors with how they are stored; the kernels are
    probed, both bodies and the original run on the samples. Pictures take the
    preprocessing that the integer model records where none is given. The verdict is
    ``failed`` if anything differs, also if ``evidence_file``, or the certificate beside
    ``integer`` if there is one, does not say what was recomputed; ``incomplete`` without
    ``against`` or ``data``. Raises UsageError, ModelError or VerificationError.
    """
    model, path = given_model(asked.integer)
    against, data = asked.against, asked.data
    original = None if against is None else given_source(against)
    if original is None and data is not None:
        raise UsageError("data are for the float model too: give it (--against, against)")
    if data is None and (asked.samples is not None or asked.preprocessing is not None):
        raise UsageError("samples and preprocessing are about data: give them (--data, data)")
    for name in ("input_shape", "inputs"):
        if data is None and getattr(asked, name):
            raise UsageError(f"{name} is about data: give them (--data, data)")
    read = read_integer_model(model, str(path))
    how, feeds = given_preprocessing(asked.preprocessing), None
    if original is not None:
        original = _sized_as(read, original)
    if original is not None and data is not None:
        usual = recorded_preprocessing(read)
        specs = original.sized(asked.input_shape).specs
        names = as_pairs(asked.inputs)
        feeds = open_samples(data, specs, asked.samples, how, usual, names)
    source = None if original is None else original.path
    models = [each for each in (path, source) if each is not None]
    files = [file for each in models for file in external_files(each)]
    beside = place_to_read(asked.evidence_file, asked.integer)
    kept = None if beside is None else read_certificate(beside)
    inputs = [*models, *files, *(feeds.paths if feeds else []), *given_paths(beside)]
    check_outputs(given_paths(asked.json_file), inputs)
    found = verify_integer(read, original, feeds, asked.progress, str(path))
    summary, recomputed, notes = _judged(found, read, original, beside, kept)
    count = len(feeds) if feeds else 0
    accuracy = found.accuracy.as_json() if feeds else []
    doubts = data_warnings(feeds, found.random_data, feeds.random) if feeds else []
    if original is not None:
        lost = digit_warnings(feeds, original.narrowed) if feeds else []
        doubts = [*doubts, *lost, *original.remarks]
    reference = None if original is None else original.reference
    report = report_head("verify", source, reference, {"samples": count}) | {
        "target": found.settings.target.name,
        "integer_model": {"path": str(path), "sha256": digest(model)},
        "samples": described(feeds) | {"accuracy": count},
        "summary": summary | {"problems": found.problems},
        "evidence": {"nodes": [each.as_json() for each in found.evidence]},
        "quantized_before": original is not None and original.is_quantized,
        "checks": found.checks,
        "accuracy": {"outputs": accuracy},
        "warnings": [
            *doubts,
            *found.warnings,
            *notes,
            *graph_warnings(found.graph, found.settings, summary, accuracy),
        ],
    }
    write_report(asked.json_file, report, f"the verdict is {summary['verdict']}")
    return Result(None, report, found.evidence, recomputed)


def _sized_as(read: IntegerModel, original: Source) -> Source:
    """``original`` with the sizes that were fixed when ``read`` was made of it.

    Raises VerificationError if it does not take them.
    """
    try:
        return original.sized(read.settings.input_shape)
    except UsageError as error:
        raise VerificationError(
            f"the integer model was not made from this float model: {error}"
        ) from error


def _judged(
    found: Verification,
    read: IntegerModel,
    original: Source | None,
    beside: Path | None,
    kept: Certificate | None,
) -> tuple[dict[str, Any], Certificate, list[str]]:
    """The summary with its verdict, the certificate as recomputed, and notes on what is kept.

    What ``kept``, read from ``beside``, says otherwise joins the problems that were found.
    """
    summary = summarize(found.graph, found.record, found.evidence)
    sha256 = read.about["float_sha256"] if original is None else original.sha256
    origin = Provenance(sha256, read.about["version"], {})
    recomputed = certificate(
        read.model, origin, found.graph, found.record, found.evidence, found.settings, summary
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
    return summary, recomputed, compared.notes


@holding()
def inspect(integer: str | Path | onnx.ModelProto) -> Inspection:
    """The nodes of an integer model with their numbers, and their evidence recomputed."""
    model, path = given_model(integer)
    return inspect_model(model, path)


@dataclass(frozen=True)
class Rewriting:
    """What single passes made of a graph; ``record``: what its integers mean."""

    model: onnx.ModelProto
    graph: Graph
    record: Record

    @property
    def declined(self) -> Mapping[str, str]:
        """By node, why a pass left it alone."""
        return self.record.declined

    def as_text(self) -> str:
        """The graph in ONNX's text syntax, and a comment for each node that was declined."""
        return whole_text(self.model) + declined_lines(self.declined)


@takes(OptOptions)
@holding()
def run_passes_alone(asked: OptOptions) -> Rewriting:
    """Run ``passes``, in the given order, on a graph as it is: no other stage is run.

    ``graph``: an ONNX model, or a text in ONNX's syntax (``qpasses.load.graph_text``), whose
    first line may name a target; ``target`` comes before that one. ``output``, an ``.onnx``
    file or a text, is written whole or not at all. Raises UsageError or ModelError.
    """
    chosen, place = [_pass_called(name) for name in asked.passes], Path(asked.graph)
    output = asked.output
    check_outputs(given_paths(output), [place, *external_files(place)])
    model, named = read_graph_file(place)
    rules = given_target(asked.target or named or "onnx", False)
    context = Context(
        Settings(rules, bodies="onnxruntime" if rules.fast_kernels else "portable")
    )
    made = import_graph(model)
    run_passes(chosen, made, context)
    found = Rewriting(materialized(export_graph(made)), made, context.record)
    if output is not None:
        _write_rewritten(found, Path(output))
    return found


def _write_rewritten(found: Rewriting, output: Path) -> None:
    if output.suffix == ".onnx":
        weights = weights_place(found.model, output, apart=False)
        write_together(model_files(found.model, output, weights))
    else:
        write_whole(output, found.as_text().encode())


def _pass_called(name: str) -> Pass:
    check_pass(name)
    known = passes_by_name()
    if name not in known:
        raise UsageError(f"pass {name!r} needs ranges: it runs in `qpasses quantize` only")
    return known[name]


def _check_dataless(knows: bool, samples: int | None, how: Preprocessing | None) -> None:
    """Raise UsageError if nothing ``knows`` the ranges, or an option is for data."""
    if not knows:
        raise UsageError(
            "there is nothing to take ranges from: give --data or --calibration-table (in "
            "Python: data or calibration_table)"
        )
    if samples is not None or how is not None:
        what = "samples" if how is None else "preprocessing"
        raise UsageError(f"{what}: is about data, and there are none: give --data too")


def _calibrated_on(made: State, ranges: Ranges) -> int | None:
    """How many samples chose ranges; none if the model says all that is known."""
    given = made.calibration.given
    if given is not None:
        return given.samples
    return 0 if made.from_model_alone else len(made.samples) - len(ranges.skipped)


def _kept(made: State) -> dict[str, Any]:
    """``kept`` of a report: what of a quantized model is as it was."""
    given, chosen = made.context.given, made.plan
    return {
        "scales": len(made.kept),
        "from_samples": [name for name in chosen.tensors if name not in made.kept],
        "weights": len(given.kept),
        "weights_not_kept": dict(sorted(given.lost.items())),
        "read_before_stored": list(made.early),
        "computed_twice": list(dict.fromkeys(given.twice)),
    }


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
