"""Verify: an emitted model, its float original and samples, checked on this machine."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx

from calibration import Preprocessing, Samples, Session, input_specs
from opsets.errors import ModelError, UsageError, VerificationError
from opsets.op import DOMAIN
from opsets.qpasses_v1 import OPS
from opsets.target import load_target, target_names
from qpasses.accuracy import Accuracy
from qpasses.bodies import constants_of
from qpasses.edges import Edges, RealSession
from qpasses.emit.integer import changed_bodies, emit_integer, with_bodies
from qpasses.emit.provenance import Provenance
from qpasses.evidence.certificate import NodeEvidence
from qpasses.evidence.probe import probe_kernels, probe_saturation
from qpasses.evidence.prove import prove, prove_node
from qpasses.graph import Graph
from qpasses.integer_model import IntegerModel
from qpasses.load import digest
from qpasses.passes.base import Context
from qpasses.pipeline import Progress
from qpasses.record import Record
from qpasses.rederivation import derive, differences, proto_differences
from qpasses.settings import Settings

MOST_DIFFERENCES = 10
"""So many differences from the derivation are listed; all are counted."""

INSIDE_SAMPLES = 5
"""On so many samples every stored tensor is compared, not the outputs alone."""


@dataclass
class Verification:
    """What was checked and what was found; ``problems`` is empty if all is well.

    ``record`` is what the file says of itself, ``derived`` what the float model says of it.
    """

    graph: Graph
    record: Record
    settings: Settings
    evidence: list[NodeEvidence]
    accuracy: Accuracy
    edges: Edges
    derived: Record = field(default_factory=Record)
    checks: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    random_data: bool = False


def verify_integer(
    read: IntegerModel,
    original: onnx.ModelProto,
    samples: Samples,
    progress: Progress,
    name: str = "the model",
) -> Verification:
    """Recompute the evidence, probe the kernels, run both bodies and the float model.

    Raises VerificationError, saying ``name``, if ``original`` has not the tensors that the
    record speaks of.
    """
    integer, about = read.model, read.about
    graph, record, settings = read.graph, read.record, read.settings
    edges = _edges(integer, original, record, name)
    evidence = list(prove(graph, record))
    accuracy = Accuracy([output.name for output in original.graph.output])
    result = Verification(graph, record, settings, evidence, accuracy, edges)
    result.random_data = about["configuration"].get("random_data", False)
    if about["float_sha256"] != digest(original):
        result.problems.append("the integer model was made from another float model")
    result.problems += _unlike_settings(record, settings)
    advance = progress("derive again", 1)
    try:
        derived = derive(original, next(iter(samples))[1], record, Context(settings))
    except UsageError as error:  # the recorded settings do not fit the float model
        raise VerificationError(
            f"{name} was not made from this float model: {error}"
        ) from error
    found = differences(graph, record, derived)
    origin = Provenance(about["float_sha256"], about["version"], about["configuration"])
    again = emit_integer(derived.graph, derived.record, origin)
    found = found or list(proto_differences(integer, again))
    result.derived = derived.record
    result.checks["derivation"] = {
        "nodes": len(derived.graph.nodes),
        "differences": len(found),
    }
    result.problems += found[:MOST_DIFFERENCES] + changed_bodies(integer, graph, record)
    advance()
    for each in evidence:
        if each.mismatches or each.problem:
            what = each.problem or f"{each.mismatches} mismatches of body and meaning"
            result.problems.append(f"node {each.name!r} ({each.op}): {what}")
    try:
        _probe(result, progress)
        _run_samples(result, integer, original, samples, progress)
    except ModelError as error:  # a graph that was changed need not run
        result.problems.append(str(error))
    return result


def _unlike_settings(record: Record, settings: Settings) -> list[str]:
    """Stored tensors that the recorded settings would not give."""
    wanted = settings.activation_type, settings.activation_bits, settings.narrow_range
    problems = []
    for name, stored in record.tensors.items():
        if (stored.dtype, stored.bits, stored.narrow) != wanted:
            problems.append(
                f"tensor {name!r} is {stored.dtype} from {stored.limits[0]} to "
                f"{stored.limits[1]}, unlike the recorded settings"
            )
        elif settings.symmetric and stored.zero_point != settings.middle:
            problems.append(f"tensor {name!r} is not symmetric, unlike the recorded settings")
    target = settings.target
    if target.name in target_names() and target != load_target(target.name):
        problems.append(f"the recorded rules are not those of target {target.name!r}")
    return problems


def recorded_preprocessing(integer: IntegerModel) -> Preprocessing | None:
    """What pictures became when ``integer`` was made, if it was made with pictures."""
    found = integer.about["configuration"].get("preprocessing")
    try:
        return None if found is None else Preprocessing.from_json(found)
    except UsageError as error:
        raise ModelError(f"the recorded configuration is damaged: {error}") from error


def _edges(
    integer: onnx.ModelProto, original: onnx.ModelProto, record: Record, name: str
) -> Edges:
    try:
        edges = Edges.between([s.name for s in input_specs(original)], integer, record)
    except ValueError as error:
        raise VerificationError(
            f"{name} was not made from this float model: they have other inputs"
        ) from error
    moved = [
        ours for real, (ours, stored) in edges.inputs.items() if not stored and ours != real
    ]
    if moved:
        raise VerificationError(
            f"{name} was not made from this float model, which has no input {moved[0]!r}"
        )
    return edges


def _probe(result: Verification, progress: Progress) -> None:
    advance = progress("probe kernels", 1)
    probed = probe_kernels(result.graph, result.record)
    wrong = {name: count for name, (_, count) in probed.items() if count}
    saturated = probe_saturation()
    result.checks["kernel_probe"] = {
        "nodes": len(probed),
        "accumulators": sum(count for count, _ in probed.values()),
        "mismatches": sum(wrong.values()),
        "saturated": saturated,
    }
    result.problems += [
        f"node {name!r}: onnxruntime's kernel differs from the meaning at "
        f"{count} thresholds on this machine"
        for name, count in wrong.items()
    ]
    fast = any(each.body.startswith("onnxruntime") for each in result.evidence)
    if saturated and fast:
        result.problems.append(
            "this machine's int8 kernels saturate in int16 (x86 without "
            "VNNI): bodies 'onnxruntime' are not exact here"
        )
    advance()


def _run_samples(
    result: Verification,
    integer: onnx.ModelProto,
    original: onnx.ModelProto,
    samples: Samples,
    progress: Progress,
) -> None:
    """Float against integer, and both bodies bit for bit at each optimization level."""
    fast = with_bodies(integer, "onnxruntime", only=_proved_fast(result))
    pair = fast, with_bodies(integer, "portable")
    reference = Session(original)
    as_given = RealSession(Session(integer), result.edges)
    runners = {
        optimize: [Session(model, optimize=optimize) for model in pair]
        for optimize in (False, True)
    }
    watched = _stored_tensors(result.graph)
    inside = [Session(_watch(model, watched), optimize=False) for model in pair]
    differing = {False: 0, True: 0}
    first = ""
    advance = progress("run samples", len(samples))
    for position, (name, feed) in enumerate(samples):
        result.accuracy.update(reference.run(None, feed), as_given.run(None, feed))
        given = result.edges.feed(feed)
        for optimize, sessions in runners.items():
            differing[optimize] += _differences(*(each.run(None, given) for each in sessions))
        if watched and position < INSIDE_SAMPLES and not first:
            found = zip(watched, *(each.run(watched, given) for each in inside), strict=True)
            unlike = [tensor for tensor, a, b in found if not np.array_equal(a, b)]
            first = f", first in tensor {unlike[0]!r} of {name}" if unlike else ""
        advance()
    result.checks["bodies"] = {
        "samples": len(samples),
        "elements_differing_unoptimized": differing[False],
        "elements_differing_optimized": differing[True],
        "tensors_compared": len(watched),
    }
    if any(differing.values()) or first:
        result.problems.append(
            f"the two bodies differ in {differing[False]} output elements unoptimized, "
            f"{differing[True]} optimized{first}"
        )


def _proved_fast(result: Verification) -> set[str]:
    """The nodes whose onnxruntime body is proved, in use or not: those it is right to run."""
    proved = {each.name for each in result.evidence if each.body.startswith("onnxruntime")}
    for node in result.graph.nodes:
        if node.domain != DOMAIN or node.name in proved:
            continue
        fast = OPS[node.op].body("onnxruntime", constants_of(node), node.attrs)
        entry = replace(result.record.nodes[node.name], overload=fast.overload)
        record = Record(tensors=result.record.tensors, nodes={node.name: entry})
        if fast.flavour == "onnxruntime" and prove_node(node, record).proved:
            proved.add(node.name)
    return proved


def _stored_tensors(graph: Graph) -> list[str]:
    return [node.outputs[0].name for node in graph.nodes if node.domain == DOMAIN]


def _watch(model: onnx.ModelProto, names: Sequence[str]) -> onnx.ModelProto:
    known = {value.name: value for value in model.graph.value_info}
    present = {value.name for value in model.graph.output}
    model.graph.output.extend(known[name] for name in names if name not in present)
    return model


def _differences(ours: Sequence[Any], theirs: Sequence[Any]) -> int:
    """How many elements differ; NaN, which a float tail may give, is like NaN."""
    return sum(
        int(((a != b) & ~((a != a) & (b != b))).sum())
        if a.shape == b.shape
        else max(a.size, b.size)
        for a, b in zip(ours, theirs, strict=True)
    )
