"""The stages in order: the table of contents of the toolkit."""

from collections.abc import Callable
from dataclasses import dataclass

import onnx

from calibration import Samples, collect
from opsets.op import Flavour
from opsets.target import Target
from qpasses.alignment import align, observed
from qpasses.emit.integer import Provenance, emit_integer
from qpasses.evidence.certificate import NodeEvidence
from qpasses.evidence.prove import prove
from qpasses.graph import Graph
from qpasses.macs import count_macs
from qpasses.passes import INTEGERIZE
from qpasses.passes.base import Context, run_passes
from qpasses.placement import place
from qpasses.planning import plan
from qpasses.prepare import prepare, prepared_model
from qpasses.record import Record

Advance = Callable[[], None]
Progress = Callable[[str, int], Advance]
"""(what is being done, how many steps) -> a function to call after each step."""


def no_progress(_stage: str, _steps: int) -> Advance:
    """Show nothing."""
    return lambda: None


@dataclass(frozen=True)
class Integerized:
    """An emitted integer model with the graph and record it was made from."""

    model: onnx.ModelProto
    graph: Graph
    record: Record
    evidence: list[NodeEvidence]


def integerize(
    model: onnx.ModelProto,
    samples: Samples,
    target: Target,
    flavour: Flavour,
    provenance: Provenance,
    progress: Progress = no_progress,
) -> Integerized:
    """Float model and samples to a proven integer model."""
    context = Context(target, flavour)
    sample = next(iter(samples))[1]

    advance = progress("prepare", 1)
    graph = prepare(model, sample, context)
    context.record.macs = count_macs(graph, sample)
    advance()

    chosen = plan(graph, context)
    advance = progress("calibrate", len(samples))
    watched = observed(graph, chosen)
    ranges = collect(prepared_model(graph), watched, samples, advance)

    advance = progress("integerize", 1)
    place(graph, chosen, align(graph, chosen, ranges), context)
    run_passes(INTEGERIZE, graph, context)
    advance()

    advance = progress("prove", len(context.record.nodes))
    evidence = []
    for each in prove(graph, context.record):
        evidence.append(each)
        advance()
    return Integerized(
        emit_integer(graph, context.record, provenance), graph, context.record, evidence
    )
