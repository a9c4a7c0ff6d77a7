"""The Python interface: what the command line calls and users import."""

import json
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args

import onnx

from calibration import Session, input_specs, open_samples
from opsets.errors import UsageError, VerificationError
from opsets.op import Flavour
from opsets.target import Target, load_target
from qpasses.emit.files import check_outputs, write_whole
from qpasses.emit.integer import Provenance
from qpasses.evidence.certificate import NodeEvidence
from qpasses.load import check_float, digest, external_files, read_model
from qpasses.pipeline import Progress, integerize, no_progress
from qpasses.summary import compare, summarize
from qpasses.verification import verify_integer

SCHEMA = "qpasses.report/1"

ACCURACY_SAMPLES = 20
"""On so many samples ``quantize`` compares the integer with the float model."""


@dataclass(frozen=True)
class Result:
    """The integer model (None from ``verify``), the report of docs/report.md, the evidence."""

    model: onnx.ModelProto | None
    report: dict[str, Any]
    evidence: list[NodeEvidence]

    @property
    def verdict(self) -> str:
        """``ok``, ``incomplete`` or ``failed``."""
        return str(self.report["summary"]["verdict"])


def quantize(
    model: str | Path,
    data: str | Path,
    output: str | Path | None = None,
    *,
    json_file: str | Path | None = None,
    target: str | Path | Target = "onnx",
    bodies: Flavour = "onnxruntime",
    samples: int | None = None,
    progress: Progress = no_progress,
) -> Result:
    """Turn the float model at ``model`` into an integer model with evidence for every node.

    ``data``: a folder of .npy or .npz feeds, or one file with samples stacked along the first
    axis; ``samples`` limits how many are used. ``output`` and ``json_file`` are written whole
    or not at all. Raises UsageError (paths, options, samples) or ModelError (the model).
    """
    sources = [*_paths(model, data), *external_files(Path(model))]
    if not isinstance(target, Target):
        sources += _paths(target)
    check_outputs(_paths(output, json_file), sources)
    if bodies not in get_args(Flavour):
        known = ", ".join(get_args(Flavour))
        raise UsageError(f"unknown bodies {bodies!r}: use one of {known}")
    rules = target if isinstance(target, Target) else load_target(target)
    source = read_model(Path(model))
    check_float(source, Path(model))
    feeds = open_samples(Path(data), input_specs(source), samples)
    configuration = {"target": asdict(rules), "bodies": bodies, "samples": len(feeds)}
    origin = Provenance(digest(source), tool_version(), configuration)
    made = integerize(source, feeds, rules, bodies, origin, progress)

    compared = feeds.first(ACCURACY_SAMPLES)
    advance = progress("compare with float", 1)
    accuracy = compare(Session(source), Session(made.model), compared)
    advance()
    report = _report("quantize", Path(model), source, rules.name, configuration)
    report |= {
        "samples": {"source": str(data), "calibration": len(feeds), "accuracy": len(compared)},
        "summary": summarize(made.graph, made.record, made.evidence),
        "evidence": {"nodes": [each.as_json() for each in made.evidence]},
        "accuracy": {"outputs": accuracy.as_json()},
    }
    if output is not None:
        write_whole(Path(output), made.model.SerializeToString(deterministic=True))
    _write_report(json_file, report)
    return Result(made.model, report, made.evidence)


def verify(
    integer: str | Path,
    against: str | Path,
    data: str | Path,
    *,
    json_file: str | Path | None = None,
    samples: int | None = None,
    progress: Progress = no_progress,
) -> Result:
    """Check the integer model against its float original on this machine.

    The evidence is recomputed, the kernels probed, both bodies and the float model run on the
    samples. The verdict is ``failed`` if anything differs. Raises UsageError or ModelError.
    """
    check_outputs(_paths(json_file), _paths(integer, against, data))
    model, original = read_model(Path(integer)), read_model(Path(against))
    check_float(original, Path(against))
    feeds = open_samples(Path(data), input_specs(original), samples)
    if [spec.name for spec in input_specs(model)] != [spec.name for spec in feeds.specs]:
        raise VerificationError(
            f"{integer} was not made from {against}: they have other inputs"
        )
    found = verify_integer(model, original, feeds, progress, str(integer))
    summary = summarize(found.graph, found.derived, found.evidence)
    if found.problems:
        summary["verdict"] = "failed"
    report = _report(
        "verify", Path(against), original, found.target.name, {"samples": len(feeds)}
    )
    report |= {
        "integer_model": {"path": str(integer), "sha256": digest(model)},
        "samples": {"source": str(data), "accuracy": len(feeds)},
        "summary": summary | {"problems": found.problems},
        "evidence": {"nodes": [each.as_json() for each in found.evidence]},
        "checks": found.checks,
        "accuracy": {"outputs": found.accuracy.as_json()},
    }
    _write_report(json_file, report)
    return Result(None, report, found.evidence)


def _paths(*given: str | Path | None) -> list[Path]:
    return [Path(path) for path in given if path is not None]


def tool_version() -> str:
    """The installed version of this package."""
    return version("qpasses")


def _report(
    command: str,
    path: Path,
    model: onnx.ModelProto,
    target: str,
    configuration: dict[str, Any],
) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "tool": {"name": "qpasses", "version": tool_version()},
        "command": command,
        "configuration": configuration,
        "model": {"path": str(path), "sha256": digest(model), "nodes": len(model.graph.node)},
        "target": target,
    }


def _write_report(path: str | Path | None, report: dict[str, Any]) -> None:
    if path is not None:
        text = json.dumps(report, indent=2, allow_nan=False) + "\n"
        write_whole(Path(path), text.encode())
