"""The report of a quantization: the emitted model beside the float model."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from calibration import Samples
from calibration.held_weights import weight_bytes
from calibration.memory import give_back
from calibration.pieces import loaded
from opsets.errors import DataError
from qpasses.checking.accuracy import compare, rated
from qpasses.checking.reference import EarlyRuns
from qpasses.emit.certificate import certificate
from qpasses.emit.report_file import described, latency_in, layout_in, report_head, size_in
from qpasses.evidence.summary import summarize
from qpasses.ir.edges import Edges, RealSession
from qpasses.jobs.resolving import Job
from qpasses.jobs.result import Result
from qpasses.jobs.widths import Widths
from qpasses.pipeline import State
from qpasses.place.cautions import (
    code_warnings,
    constant_warnings,
    data_warnings,
    digit_warnings,
    graph_warnings,
    growth_warnings,
    kept_warnings,
    range_warnings,
    translation_warnings,
    width_warnings,
)
from qpasses.place.ranges import Ranges, ranges_as_json, skipped_as_json
from qpasses.place.told_states import likely_warnings, state_warnings, states_as_json

ACCURACY_SAMPLES = 20
"""On so many samples ``quantize`` compares the integer with the float model."""


def reported(
    job: Job,
    made: State,
    early: EarlyRuns,
    remarks: Sequence[str],
    widths: Widths | None = None,
) -> Result:
    """The emitted model beside the float model, the report about both, the certificate.

    ``widths``: how tensors got theirs, if they were chosen.
    """
    settings, feeds = made.settings, made.samples
    give_back(weight_bytes(made.model))
    compared, bad = to_compare(made)
    advance = made.progress("compare with float", len(compared))
    ranges = replace(made.ranges, skipped={**made.ranges.skipped, **bad})
    runs = early.on(compared)
    edges = Edges.between(made.source, made.model, made.record)
    runner = RealSession(loaded(made.model), edges)
    names = [value.name for value in job.source.reference.graph.output]
    accuracy = compare(names, runs, runner, advance).as_json()
    del runs, runner  # sessions
    give_back(weight_bytes(made.model))
    summary = summarize(made.graph, made.record, made.evidence, made.unfinished)
    source, states = job.source, states_as_json(made.plan, made.record.tensors)
    report = report_head(job.command, source, job.configuration) | {
        "target": settings.target.name,
        "samples": described(feeds)
        | {
            "calibration": _calibrated_on(made, ranges),
            "skipped": skipped_as_json(ranges.skipped),
            "accuracy": len(compared),
        },
        "calibration": ranges_as_json(ranges),
        "summary": summary | {"accuracy": rated(accuracy)},
        "quantized_before": source.is_quantized,
        "kept": _kept(made) if source.is_quantized else None,
        "size": size_in(source, made.model),
        "layout": layout_in(made.model, made.record),
        "latency": latency_in(made.model),
        "joins": [each.as_json() for each in made.aligned.joins],
        "states": states,
        "weight_rounding": made.rounded.as_json(),
        "bias_correction": made.corrected.as_json(),
        "activation_scales": made.scaled.as_json(),
        "widths": widths and widths.as_json(),
        "sharing": made.sharing and made.sharing.as_json(),
        "evidence": {"nodes": [each.as_json() for each in made.evidence]},
        "accuracy": {"outputs": accuracy},
        "warnings": [
            *data_warnings(feeds, ranges.random, feeds.random),
            *digit_warnings(compared, source.narrowed),
            *range_warnings(ranges, settings.rules),
            *code_warnings(made.few_codes, settings),
            *growth_warnings(made.growing, settings),
            *constant_warnings(made.clipped),
            *state_warnings(made.plan, states),
            *likely_warnings(made.plan, made.record.tensors),
            *_width_warnings(made, widths),
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


def _width_warnings(made: State, widths: Widths | None) -> list[str]:
    """What was asked for in 16 bits, or of the outputs, and is not there."""
    return width_warnings(made.words.narrow) if widths is None else widths.missed


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


def to_compare(state: State) -> tuple[Samples, dict[str, str]]:
    """The samples to compare on, and those that were left out of them, with the reason.

    A run has left the bad ones out before; where ranges are from a table, none was read yet.
    """
    good = state.samples.without(state.ranges.skipped)
    wanted = (good if len(good) else state.samples).spread(ACCURACY_SAMPLES)
    bad = {}
    for position in range(len(wanted)) if state.calibration.skip_bad else ():
        try:
            wanted.read(position)
        except DataError as error:
            bad[wanted.name(position)] = str(error)
    if bad and len(bad) == len(wanted):
        raise DataError(f"none of {len(bad)} samples can be read: {next(iter(bad.values()))}")
    return wanted.without(bad), bad
