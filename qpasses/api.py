"""The Python interface: what the command line calls and users import."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import onnx

from calibration import open_samples
from calibration.held_weights import holding, materialized, released
from opsets.errors import ModelError, UsageError
from qpasses.checking.accuracy import rated
from qpasses.checking.beside.programs_by_name import checks_of
from qpasses.checking.bisecting.bisection import Bisection
from qpasses.checking.difference import Difference, difference
from qpasses.checking.inspection import Inspection, inspect_model
from qpasses.checking.reference import EarlyRuns
from qpasses.checking.verification import recorded_preprocessing, verify_integer
from qpasses.emit.evidence_file import place_to_read, read_certificate, write_outputs
from qpasses.emit.graph_mlir import graph_as_mlir
from qpasses.emit.model_file import model_files, too_large, weights_place
from qpasses.emit.report_file import described, layout_in, report_head, size_in, write_report
from qpasses.emit.tflite.emit_tflite import TfliteFile, emit_tflite
from qpasses.emit.tflite.flatbuffer import schema
from qpasses.emit.tosa.emit import TosaProgram, emit_tosa
from qpasses.emit.tosa.profile import Profile
from qpasses.emit.vectors.vector_folder import Vectors
from qpasses.emit.whole_files import check_outputs, write_together, write_whole
from qpasses.evidence.summary import summarize
from qpasses.ir.commands import IntegerizeOptions, OptOptions, QuantizeOptions
from qpasses.ir.edges import Edges
from qpasses.ir.graph import Graph
from qpasses.ir.input_names import as_pairs
from qpasses.ir.input_shape import as_texts
from qpasses.ir.integer_commands import (
    AnalyzeOptions,
    BenchOptions,
    BisectOptions,
    ExportOptions,
    PreviewOptions,
    VerifyOptions,
)
from qpasses.ir.interchange import export_graph, import_graph
from qpasses.ir.keywords import takes
from qpasses.ir.native_sessions import has_kernels
from qpasses.ir.record import Record
from qpasses.ir.rewriting import Context, run_passes
from qpasses.ir.settings import Settings
from qpasses.jobs.analyzing import (
    analyzed,
    as_json,
    given_detector,
    is_wanted,
    look_into,
    tried,
)
from qpasses.jobs.annotating import annotated
from qpasses.jobs.benching import Model, contenders_of, measured, sized_specs
from qpasses.jobs.bisecting_job import bisect_job
from qpasses.jobs.detecting import check_detections
from qpasses.jobs.exporting import export_format
from qpasses.jobs.judging import judged, sized_as
from qpasses.jobs.pass_names import pass_called
from qpasses.jobs.previewing import Preview, previewed
from qpasses.jobs.reporting import reported, to_compare
from qpasses.jobs.resolving import Job, resolved
from qpasses.jobs.result import Result, files_of
from qpasses.jobs.trying import Trials
from qpasses.jobs.vectors_job import check_no_samples, export_vectors
from qpasses.jobs.widening import made_by
from qpasses.load.arguments import (
    Shapes,
    Source,
    given_model,
    given_paths,
    given_preprocessing,
    given_source,
    given_target,
    naming,
)
from qpasses.load.external_data import external_files
from qpasses.load.graph_text import read_graph_file
from qpasses.load.input_sizes import with_input_shapes
from qpasses.load.integer_model import IntegerModel, claims_integers, read_integer_model
from qpasses.load.reading import check_not_ours, digest
from qpasses.pipeline import Stage, State, placed
from qpasses.place.cautions import data_warnings, digit_warnings, graph_warnings
from qpasses.prepare import APART
from qpasses.report.page import as_html, check_packages
from qpasses.report.text import declined_lines, whole_text


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
    return _run(resolved("quantize", asked, given_source), asked)


@takes(IntegerizeOptions)
@holding()
def integerize(asked: IntegerizeOptions) -> Result:
    """Turn a model that is quantized already into an integer model, with evidence.

    It says itself how tensors are stored (QuantizeLinear and DequantizeLinear, QLinearConv and
    the like, QONNX): scales, zero points and the integers of weights are kept. ``data`` tells
    the rest; without them nodes at tensors that it says nothing of stay in float, declined by
    name. The other arguments, and what is raised, are those of ``quantize``.
    """
    return _run(resolved("integerize", asked, _quantized_source), asked)


def _quantized_source(model: str | Path | onnx.ModelProto) -> Source:
    source = given_source(model)
    if not source.is_quantized:
        raise ModelError(
            f"{source.path}: is a float model, no node says how a tensor is stored: "
            "`qpasses quantize` finds scales"
        )
    return source


def _run(job: Job, asked: QuantizeOptions) -> Result:
    if asked.html_file is not None:
        check_packages()
    check_detections(asked)
    with naming(job.source.path), EarlyRuns(job.source) as early:

        def behind(stage: Stage, state: State) -> None:
            if stage is placed:  # the samples are known, and what follows leaves a core idle
                early.begin(to_compare(state)[0])

        job, made, widths = made_by(job, asked, behind)
        model = made.model
        weights = weights_place(model, asked.output, asked.save_as_external_data)
        written = given_paths(
            *(asked.output, job.evidence, asked.json_file, asked.html_file, weights)
        )
        check_outputs(written, job.inputs)
        remarks = too_large(weights, asked.save_as_external_data)
        result = reported(job, made, early, remarks, widths)
        files = files_of(model, asked.output, weights, job.start.settings.emit)
        samples = to_compare(made)[0]
    write_outputs(files, result.certificate, job.evidence)
    del made  # its graph has the weights too
    if is_wanted(asked, result):
        look_into(result, job.source, samples, asked)
    released(model)
    done = f"{asked.output} is written and whole, with its evidence" if asked.output else ""
    page = partial(as_html, command_line=asked.command_line)
    write_report(asked.json_file, result.report, done, asked.html_file, page)
    return result


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
        raise UsageError(
            "samples are compared with the float model: say where it is (--against, against)"
        )
    if data is None and (asked.samples is not None or asked.preprocessing is not None):
        raise UsageError("samples and preprocessing are about data: give them (--data, data)")
    for name in ("input_shape", "inputs"):
        if data is None and getattr(asked, name):
            raise UsageError(f"{name} is about data: give them (--data, data)")
    read = read_integer_model(model, str(path))
    how, feeds = given_preprocessing(asked.preprocessing), None
    if original is not None:
        original = sized_as(read, original)
    if original is not None and data is not None:
        usual = recorded_preprocessing(read)
        specs = original.sized(asked.input_shape).specs
        names = as_pairs(asked.inputs)
        feeds = open_samples(
            data, specs, asked.samples, how, usual, names, asked.samples_to_exclude
        )
    source = None if original is None else original.path
    models = [each for each in (path, source) if each is not None]
    files = [file for each in models for file in external_files(each)]
    beside = place_to_read(asked.evidence_file, asked.integer)
    kept = None if beside is None else read_certificate(beside)
    inputs = [*models, *files, *(feeds.paths if feeds else []), *given_paths(beside)]
    check_outputs(given_paths(asked.json_file), inputs)
    if asked.other_programs and feeds is None:
        raise UsageError("--with runs samples: give --data and --against too")
    checks = checks_of(asked.other_programs, Profile.called(asked.tosa_profile))
    if asked.all_tensors and not checks:
        raise UsageError("all_tensors is about what --with runs: give it too")
    found = verify_integer(read, original, feeds, asked.progress, str(path))
    for key, checked in checks.items():
        assert original is not None and feeds is not None
        given = model, path, original.reference, feeds, asked.progress
        with naming(path):
            other = checked(*given, all_tensors=asked.all_tensors)
        found.checks[key] = other.as_json()
        found.problems.extend(other.problems)
    summary, recomputed, notes = judged(found, read, original, beside, kept)
    count = len(feeds) if feeds else 0
    accuracy = found.accuracy.as_json() if feeds else []
    doubts = data_warnings(feeds, found.random_data, feeds.random) if feeds else []
    if original is not None:
        lost = digit_warnings(feeds, original.narrowed) if feeds else []
        doubts = [*doubts, *lost, *original.remarks]
    report = report_head("verify", original, {"samples": count}) | {
        "target": found.settings.target.name,
        "integer_model": {"path": str(path), "sha256": recomputed["integer_model"]["sha256"]},
        "samples": described(feeds) | {"accuracy": count},
        "summary": summary | {"problems": found.problems, "accuracy": rated(accuracy)},
        "evidence": {"nodes": [each.as_json() for each in found.evidence]},
        "quantized_before": original is not None and original.is_quantized,
        "size": size_in(original, model),
        "layout": layout_in(model, read.record),
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


@takes(AnalyzeOptions)
@holding()
def analyze(asked: AnalyzeOptions) -> Result:
    """Where an integer model loses accuracy, tensor by tensor, and what may help.

    The report has ``analysis``: of each stored tensor how far it is off the float model's and
    by what, what it costs at the outputs, and findings in words. Samples come one after the
    other. Raises UsageError, ModelError, or VerificationError where ``against`` is not the
    float model that ``integer`` was made from.
    """
    if asked.html_file is not None:
        check_packages()
    check_detections(asked)
    model, path = given_model(asked.integer)
    original = given_source(asked.against)
    read = read_integer_model(model, str(path))
    original = sized_as(read, original)
    how, usual = given_preprocessing(asked.preprocessing), recorded_preprocessing(read)
    names = as_pairs(asked.inputs)
    feeds = open_samples(
        asked.data, original.specs, asked.samples, how, usual, names, asked.samples_to_exclude
    )
    if asked.config_output is not None and not asked.try_options:
        raise UsageError("config_output (--config-output) is what --try finds: give it too")
    inputs = [path, original.path, *external_files(path), *feeds.paths]
    places = asked.json_file, asked.html_file, asked.config_output
    check_outputs(given_paths(*places), inputs)
    detector, trials = given_detector(asked, original), None
    if asked.try_options:
        trials = Trials(original, read.settings, asked, feeds, how or usual)
    with naming(path):
        found = analyzed(read, original, feeds, asked.seconds, asked.progress, str(path))
    looked = inspect_model(model, path)
    is_page = asked.html_file is not None
    analysis = as_json(found, read, looked, asked.seconds, is_page, detector)
    if trials is not None:
        analysis |= tried(trials, found, read, asked.progress)
    evidence = [row.proof for row in looked.rows if row.proof is not None]
    summary = summarize(read.graph, replace(read.record, macs=found.macs), evidence)
    outputs = analysis["outputs"]
    report = report_head("analyze", original, {"samples": len(feeds)}) | {
        "target": read.settings.target.name,
        "integer_model": {"path": str(path), "sha256": digest(model)},
        "samples": described(feeds) | {"accuracy": found.walked},
        "summary": summary | {"problems": [], "accuracy": rated(outputs)},
        "evidence": {"nodes": [each.as_json() for each in evidence]},
        "accuracy": {"outputs": outputs},
        "analysis": analysis,
        "warnings": data_warnings(
            feeds, read.about["configuration"]["random_data"], feeds.random
        ),
    }
    page, others = partial(as_html, command_line=asked.command_line), {}
    if asked.config_output is not None:
        text = f"# of {path}, by qpasses analyze --try\n{analysis['configuration']}"
        others[Path(asked.config_output)] = [text.encode()]
    write_report(asked.json_file, report, "", asked.html_file, page, others)
    return Result(None, report, evidence, {})


@takes(BenchOptions)
@holding()
def bench(asked: BenchOptions) -> Result:
    """How long the integer model takes in onnxruntime on this machine, beside others.

    With its bodies and with the compiled kernels, if there are any; ``against`` and ``qdq``
    are measured too if they are given: a few runs of each, in turns, each for
    ``seconds`` on each number of ``threads``. The report has ``benchmark.latencies`` and the
    ``slowest`` nodes of the last model; its verdict is ``failed`` if kernels give other
    integers than bodies. Raises UsageError or ModelError.
    """
    model, path = given_model(asked.integer)
    read = read_integer_model(model, str(path))
    original = None if asked.against is None else given_source(asked.against)
    other = None if asked.qdq is None else given_model(asked.qdq)
    files = [path, *([original.path] if original else []), *([other[1]] if other else [])]
    check_outputs(given_paths(asked.json_file), files)
    if original is not None:
        original = sized_as(read, original).sized(asked.input_shape)
    ours = with_input_shapes(model, as_texts(asked.input_shape), path)
    specs = original.specs if original else sized_specs(ours, read.record)
    how = given_preprocessing(asked.preprocessing)
    names = as_pairs(asked.inputs)
    usual = recorded_preprocessing(read)
    feeds = open_samples(
        asked.data or "random:1", specs, 1, how, usual, names, asked.samples_to_exclude
    )
    feed = feeds.first()
    edges = Edges.between(original.model, model, read.record) if original else None
    is_sized = bool(asked.input_shape)

    def runnable(given: Any, made: onnx.ModelProto) -> Model:
        return Path(given) if isinstance(given, str | Path) and not is_sized else made

    contenders = contenders_of(
        runnable(asked.integer, ours),
        None if original is None else runnable(asked.against, original.reference),
        None if other is None else runnable(asked.qdq, other[0]),
        feed,
        edges,
    )
    threads = [int(each) for each in asked.threads]
    with naming(path):
        found = measured(contenders, threads, asked.seconds, asked.nodes, asked.progress)
    wrong = f"kernels give {found.differing} elements of outputs otherwise than bodies"
    alone = "kernels were not compiled: bodies alone were measured (docs/deploying.md)"
    report = report_head("bench", original, {"threads": threads}) | {
        "integer_model": {"path": str(path)},
        "samples": described(feeds),
        "summary": {
            "verdict": "failed" if found.differing else "ok",
            "problems": [wrong] if found.differing else [],
        },
        "benchmark": found.as_json(),
        "warnings": [] if has_kernels() else [alone],
    }
    write_report(asked.json_file, report, "the models were measured")
    return Result(None, report, [], {})


@takes(ExportOptions)
@holding()
def export(asked: ExportOptions) -> TosaProgram | TfliteFile | Vectors:
    """The integer model in another form: TOSA, as MLIR that its tools read, TFLite, vectors.

    What a program gives are the integers of the model, or nothing is exported: TOSA says each
    arithmetic that a target asks for, TFLite that of LiteRT's reference kernels. Vectors are
    samples of ``data`` and all that is stored for them. ``output`` is written whole or not at
    all, not with ``check``; how it is called says what it becomes if ``to`` does not. Raises
    UsageError for free sizes, ModelError, naming the node, for what cannot be said.
    """
    to = export_format(asked)
    if to == "vectors":
        return _vectors(asked)
    check_no_samples(asked, f"to {to!r} (--to {to})")
    writes = asked.output is not None and not asked.check
    if to == "tflite" and writes:
        schema()
    read, path = _sized(asked)
    made: TosaProgram | TfliteFile
    with naming(path):
        if to == "tflite":
            made = emit_tflite(
                read,
                runtime=asked.tflite_runtime,
                input_type=asked.inference_input_type,
                output_type=asked.inference_output_type,
                io_layout=asked.io_layout,
            )
        else:
            made = emit_tosa(read.graph, profile=Profile.called(asked.tosa_profile))
    del read
    if writes:
        write_together({Path(str(asked.output)): made.content()})
    return made


def _vectors(asked: ExportOptions) -> Vectors:
    model, path = given_model(asked.integer)
    with naming(path):
        sized = with_input_shapes(model, as_texts(asked.input_shape), path)
        return export_vectors(read_integer_model(sized, str(path)), asked)


@takes(BisectOptions)
@holding()
def bisect(asked: BisectOptions) -> Bisection:
    """What a device stored beside the exact integers: which nodes differ, and by which rule.

    Each node is computed again from what the device has of its inputs, so that every node
    that differs is found, not the first alone. ``json_file`` is written whole or not at all.
    Raises UsageError or DataError for a dump or samples that cannot be read, ModelError.
    """
    model, path = given_model(asked.integer)
    check_outputs(given_paths(asked.json_file), [path, *external_files(path)])
    with naming(path):
        sized = with_input_shapes(model, as_texts(asked.input_shape), path)
        found = bisect_job(read_integer_model(sized, str(path)), asked)
    write_report(asked.json_file, found.as_json())
    return found


def _sized(asked: ExportOptions) -> tuple[IntegerModel, Path]:
    model, path = given_model(asked.integer)
    check_outputs(given_paths(asked.output), [path, *external_files(path)])
    with naming(path):
        sized = with_input_shapes(model, as_texts(asked.input_shape), path)
        return read_integer_model(sized, str(path)), path


@holding()
def inspect(integer: str | Path | onnx.ModelProto) -> Inspection:
    """The nodes of an integer model with their numbers, and their evidence recomputed."""
    model, path = given_model(integer)
    return inspect_model(model, path)


@takes(PreviewOptions)
@holding()
def preview(asked: PreviewOptions) -> Preview:
    """A float model, or one that another tool quantized, before it is made integer.

    What it holds, and which nodes would become integer, and which not and why, as far as
    made-up numbers tell: docs/inspect.md. Raises UsageError, or ModelError for a model that is
    integer already or no valid ONNX.
    """
    model, path = given_model(asked.model, lenient=True)
    check_not_ours(model, path)
    return previewed(model, path, asked.input_shape)


@takes(PreviewOptions)
@holding()
def look(asked: PreviewOptions) -> Inspection | Preview:
    """``inspect`` of a model that is integer, ``preview`` of any other."""
    model, path = given_model(asked.model, lenient=True)
    if not claims_integers(model):
        return previewed(model, path, asked.input_shape)
    if asked.input_shape:
        raise UsageError(
            f"{path}: is integer, input_shape (--input-shape) is for other models"
        )
    return inspect(asked.model)


@holding()
def annotate(model: str | Path, output: Path, *, input_shape: Shapes = ()) -> None:
    """Write ``model`` to ``output`` with what ``look`` finds in the metadata of its nodes."""
    made = annotated(look(model, input_shape=input_shape))
    write_together(model_files(made, output, weights_place(made, output, apart=False)))


@holding()
def diff(one: str | Path | onnx.ModelProto, other: str | Path | onnx.ModelProto) -> Difference:
    """Where two integer models differ, or a float model and an integer one, node by node.

    Raises UsageError if they have no node in common, ModelError for what cannot be read.
    """
    return difference(*(given_model(each, lenient=True) for each in (one, other)))


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

    def as_mlir(self, largest: int | None = None) -> str:
        """The same as MLIR; tensors of more than ``largest`` elements are elided."""
        return graph_as_mlir(self.model, largest) + declined_lines(self.declined, "//")


@takes(OptOptions)
@holding()
def run_passes_alone(asked: OptOptions) -> Rewriting:
    """Run ``passes``, in the given order, on a graph as it is: no other stage is run.

    ``graph``: an ONNX model, or a text in ONNX's syntax (``qpasses.load.graph_text``), whose
    first line may name a target; ``target`` comes before that one. ``output``, an ``.onnx``
    or ``.mlir`` file or a text, is written whole or not at all. Raises UsageError or
    ModelError.
    """
    chosen, place = [pass_called(name) for name in asked.passes], Path(asked.graph)
    output = asked.output
    check_outputs(given_paths(output), [place, *external_files(place)])
    are_apart = all(each in APART for each in chosen)
    model, named = read_graph_file(place, inside=not are_apart)
    rules = given_target(asked.target or named or "onnx", False)
    context = Context(
        Settings(rules, bodies="onnxruntime" if rules.fast_kernels else "portable")
    )
    made = import_graph(model, are_apart)
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
        text = found.as_mlir() if output.suffix == ".mlir" else found.as_text()
        write_whole(output, text.encode())
