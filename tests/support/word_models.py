"""Float models placed with tensors of 16 bits, whatever the place stage would choose."""

from collections.abc import Mapping
from dataclasses import dataclass

import onnx

from calibration import collect, input_specs, open_samples
from opsets.target import load_target
from qpasses.emit.integer import emit_integer
from qpasses.emit.provenance import Provenance
from qpasses.evidence.node_evidence import NodeEvidence
from qpasses.evidence.prove import prove
from qpasses.ir.interchange import prepared_model
from qpasses.ir.order import tidy
from qpasses.ir.rewriting import Context, run_passes
from qpasses.ir.settings import Settings
from qpasses.lowering import INTEGERIZE
from qpasses.place.placement import place_parameters
from qpasses.place.planning import plan
from qpasses.place.tensor_parameters import activation_parameters, word_parameters
from qpasses.prepare.canonical import prepare
from tests.support.fault_finding import Floats

_OF_A_RUN = "calibration_table", "preprocessing", "random_data", "samples", "stop_after"


@dataclass(frozen=True)
class WordModel:
    """The Q/DQ graph, what the passes make of it, the evidence, and why nodes were left."""

    placed: onnx.ModelProto
    integer: onnx.ModelProto
    evidence: Mapping[str, NodeEvidence]
    declined: Mapping[str, str]
    floats: Floats


def of_words(made, feed, in_bytes=(), target="onnx", **options):
    """``made``, opset 21, with all of its tensors in 16 bits but those ``in_bytes``.

    Its scales are from ``feed`` alone.
    """
    settings = Settings(load_target(target), **options)
    context = Context(settings)
    graph = prepare(made, feed, context)
    chosen = plan(graph, context)
    samples = open_samples([feed], input_specs(made))
    found = collect(prepared_model(graph), list(chosen.tensors), samples).tensors
    parameters = {
        name: (activation_parameters if name in in_bytes else word_parameters)(
            found[name].range, settings
        )
        for name in chosen.tensors
    }
    place_parameters(graph, chosen, parameters, {}, context)
    tidy(graph)
    context.record.sizes = {name: [*values.shape] for name, values in feed.items()}
    placed = prepared_model(graph)
    run_passes(INTEGERIZE, graph, context)
    evidence = {each.name: each for each in prove(graph, context.record)}
    origin = Provenance("", "", settings.as_json() | dict.fromkeys(_OF_A_RUN))
    integer = emit_integer(graph, context.record, origin)
    floats = Floats(prepare(made, feed, Context(settings)), context.selection.excluded)
    return WordModel(placed, integer, evidence, context.record.declined, floats)
