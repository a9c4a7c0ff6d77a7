"""The stages in order: the table of contents of the toolkit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from inspect import getdoc

import onnx

from calibration import Run, Samples
from qpasses.emit.integer import emit_integer
from qpasses.emit.provenance import Provenance
from qpasses.emit.qdq import emit_qdq
from qpasses.emit.standard import emit_standard
from qpasses.evidence.choose_bodies import choose_bodies
from qpasses.evidence.node_evidence import NodeEvidence
from qpasses.integerize import CLIP_CODES, INTEGER_IO, INTEGERIZE, QUANTIZABLE, integerizing
from qpasses.ir.graph import Graph, prepared_model
from qpasses.ir.macs import measure
from qpasses.ir.progress import Progress, no_progress
from qpasses.ir.record import Record
from qpasses.ir.rewriting import UNWATCHED, Context, Watch, run_passes
from qpasses.ir.settings import Settings
from qpasses.place.alignment import (
    Join,
    aligned,
    clipped_constants,
    concerned,
    few_codes,
    to_observe,
)
from qpasses.place.masked_scores import with_masked_ranges
from qpasses.place.placement import place
from qpasses.place.planning import plan
from qpasses.place.ranges import HERE, Calibration, Ranges, find_ranges
from qpasses.place.sharing import Sharing, share
from qpasses.place.table_ranges import with_function_ranges
from qpasses.place.ties import stand_ins
from qpasses.prepare import PREPARE
from qpasses.prepare.canonical import check_masks, prepare


@dataclass(frozen=True)
class Integerized:
    """An emitted model with the graph, record and evidence it was made from.

    ``ranges``: what was calibrated, if that was reached. ``few_codes``: by tensor, the codes
    it uses where they are few. ``unfinished``: why the graph is not integer yet, or nothing.
    ``sharing``: what came of tying scales for tables, where that was asked for. ``joins``:
    what was decided at the inputs of Concat and Where. ``clipped``: by node, a constant
    beyond the range it is moved into.
    """

    model: onnx.ModelProto
    graph: Graph
    record: Record
    evidence: Sequence[NodeEvidence] = ()
    ranges: Ranges = field(default_factory=lambda: Ranges({}, {}))
    few_codes: Mapping[str, int] = field(default_factory=dict)
    unfinished: str = ""
    sharing: Sharing | None = None
    joins: Sequence[Join] = ()
    clipped: Mapping[str, float] = field(default_factory=dict)


PLACE = "place"
"""The name under which the Q/DQ graph can be watched, between prepare and integerize."""


def pass_table() -> list[tuple[str, str, str]]:
    """What can be watched or stopped after, in order: name, stage, what it does."""
    stages = {"prepare": PREPARE, "integerize": INTEGERIZE + CLIP_CODES + INTEGER_IO}
    rows = [
        (each.name, stage, (getdoc(each) or "").splitlines()[0])
        for stage, passes in stages.items()
        for each in passes
    ]
    rows.insert(len(PREPARE), (PLACE, "place", "Insert QuantizeLinear and DequantizeLinear."))
    return rows


def integerize(
    model: onnx.ModelProto,
    samples: Samples,
    settings: Settings,
    provenance: Provenance,
    calibration: Calibration = HERE,
    progress: Progress = no_progress,
    watch: Watch = UNWATCHED,
) -> Integerized:
    """Float model and samples to a proven integer model, or what ``settings.emit`` names."""
    context = Context(settings, quantizable=QUANTIZABLE)
    sample = samples.first(calibration.skip_bad)

    advance = progress("prepare", 1)
    graph = prepare(model, sample, context, watch)
    if not samples.random:
        check_masks(context, sample)
    record = context.record
    record.sizes = {name: list(values.shape) for name, values in sample.items()}
    measure(graph, context)
    advance()
    stopped = f"stopped after {watch.stop_after}" if watch.stop_after else ""
    if watch.stops_in(PREPARE):
        return Integerized(prepared_model(graph), graph, record, unfinished=stopped)

    chosen = plan(graph, context)
    advance = progress("calibrate", 1 if calibration.given else len(samples))
    rules = settings.rules
    judged = concerned(graph, chosen) if settings.alignment == "qpasses" else ()
    histograms = rules.histograms or frozenset(judged)
    run = Run(histograms, calibration.skip_bad, calibration.workers, advance)
    names = to_observe(graph, chosen, settings)
    original = {t for node in model.graph.node for t in node.output}
    held = stand_ins(names, chosen.ties, original | sample.keys())
    found = find_ranges(prepared_model(graph), names, samples, rules, calibration, run, held)

    advance = progress("integerize", 1)
    found = with_masked_ranges(graph, chosen, found, context)
    if settings.table_ranges == "function":
        found = with_function_ranges(graph, chosen, found, settings)
    alignment, tying = aligned(graph, chosen, found, settings), None
    shared, joins = alignment.ranges, alignment.joins
    if settings.share_tables is not None:
        shared, tying = share(graph, chosen, shared, settings.share_tables, context)
    few = few_codes(found.ranges, shared, settings.codes)
    clipped = clipped_constants(graph, chosen, found, shared)
    place(graph, chosen, shared, context)
    watch.after(PLACE, graph)
    if settings.emit == "qdq" or watch.stop_after == PLACE:
        if settings.emit == "qdq":
            run_passes(CLIP_CODES, graph, context, watch)
        advance()
        qdq = emit_qdq(graph, provenance)
        why = stopped or "emitted as Q/DQ"
        return Integerized(qdq, graph, record, (), found, few, why, tying, joins, clipped)
    run_passes(integerizing(settings), graph, context, watch)
    advance()
    evidence, advance = [], progress("prove", len(record.nodes))
    for each in choose_bodies(graph, context):
        evidence.append(each)
        advance()
    if stopped:
        partial = emit_integer(graph, record, provenance)
        return Integerized(
            partial, graph, record, (), found, few, stopped, tying, joins, clipped
        )

    made = emit_integer(graph, record, provenance)
    if settings.emit == "standard":
        made = emit_standard(made)
    return Integerized(made, graph, record, evidence, found, few, "", tying, joins, clipped)
