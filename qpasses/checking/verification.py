"""Verify: an emitted model, its float original and samples, checked on this machine."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from typing import Any

import numpy as np
import onnx

from calibration import Preprocessing, Samples, Session, input_specs
from calibration.draws import has_loops
from calibration.inputs import tensors
from calibration.silent import ort
from opsets.errors import ModelError, UsageError, VerificationError
from opsets.native import library
from opsets.op import DOMAIN
from qpasses.checking.accuracy import Accuracy
from qpasses.checking.known import Known
from qpasses.checking.recorded_settings import unlike_settings
from qpasses.checking.rules.check_bodies import proved_fast, unlike_bodies
from qpasses.checking.rules.check_file import unlike_file
from qpasses.checking.sample_runs import BothBodies, Simulation, differences
from qpasses.checking.side_by_side import SideBySide
from qpasses.checking.simulated import Simulated, simulated
from qpasses.checking.simulated_bodies import parts
from qpasses.checking.sizes import Counted
from qpasses.checking.translation import Checked, check
from qpasses.emit.overloads import changed_bodies
from qpasses.evidence.compiled_probe import probe_compiled
from qpasses.evidence.kernel_probe import probe_kernels, probe_saturation, saturating
from qpasses.evidence.node_evidence import NodeEvidence
from qpasses.evidence.prove import prove
from qpasses.ir.edges import Edges, dequantize
from qpasses.ir.graph import Graph, Node, producer
from qpasses.ir.macs import measure
from qpasses.ir.progress import Advance, Progress
from qpasses.ir.record import Record
from qpasses.ir.rewriting import Context
from qpasses.ir.runtime import Arrays
from qpasses.ir.settings import Settings
from qpasses.ir.stages import RECURRENT
from qpasses.load.arguments import Source
from qpasses.load.integer_model import IntegerModel
from qpasses.prepare.canonical import prepare

MOST_DIFFERENCES = 10
"""So many differences from the float model are listed; all are counted."""

_MOST_NUMBERS = 1 << 28
"""More than any input has; a record that says more is damaged."""


@dataclass
class Verification:
    """What was checked and what was found; ``problems`` is empty if all is well.

    ``record`` is what the file says of itself, with the multiply-accumulates of the float
    model. ``unchecked``: what could not be checked, for want of the float model or samples.
    ``fast``: by node, the onnxruntime body that is right to run. ``simulated``: the Q/DQ
    graph, or its parts, if the integer graph is that of the float model.
    """

    graph: Graph
    record: Record
    settings: Settings
    evidence: list[NodeEvidence]
    accuracy: Accuracy
    checks: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    fast: Mapping[str, str] = field(default_factory=dict)
    simulated: Sequence[Simulated] | None = None
    random_data: bool = False


def verify_integer(
    read: IntegerModel,
    original: Source | None,
    samples: Samples | None,
    progress: Progress,
    name: str = "the model",
) -> Verification:
    """Recompute the evidence, compare with the float model, probe kernels, run all of them.

    What needs ``original`` or ``samples`` is left out where there are none. Raises
    VerificationError, saying ``name``, if ``original`` has not the tensors that the record
    speaks of.
    """
    edges = None if original is None else _edges(read.model, original, read.record, name)
    changed = changed_bodies(read.model, read.graph, read.record)
    waits = has_loops([read.model.graph, *(read.model.functions if changed else ())])
    with ThreadPoolExecutor(1) as beside:
        if original is None or samples is None or edges is None:
            return _verified(read, original, samples, None, changed, beside, progress, name)
        with closing(SideBySide(read, original, edges, samples, waits)) as runs:
            return _verified(read, original, samples, runs, changed, beside, progress, name)


def _verified(
    read: IntegerModel,
    original: Source | None,
    samples: Samples | None,
    runs: SideBySide | None,
    changed: Sequence[str],
    beside: Executor,
    progress: Progress,
    name: str,
) -> Verification:
    """What ``verify_integer`` says, while ``runs`` runs samples if there are any.

    Kernels are probed ``beside`` what is said of the graph. ``changed``: which of the file's
    functions are other ones. What waits to be judged is run if nothing is wrong with it.
    """
    integer, about = read.model, read.about
    graph, record, settings = read.graph, read.record, read.settings
    ends = [] if original is None else [each.name for each in original.model.graph.output]
    advance, evidence = progress("prove nodes", len(record.nodes)), []
    for each in prove(graph, record):
        evidence.append(each)
        advance()
    fast = proved_fast(graph, record, evidence)
    if runs is not None and not runs.waits:
        runs.start(fast)
    probed = beside.submit(probe_kernels, graph, record)
    result = Verification(graph, record, settings, evidence, Accuracy(ends), fast=fast)
    result.random_data = about["configuration"].get("random_data", False)
    result.problems += [*read.unlike, *unlike_settings(read.graph, record, settings)]
    if original is None:
        result.unchecked.append("not compared with a float model (--against)")
        counts = {key: entry.macs for key, entry in record.nodes.items()}
        result.record = replace(record, macs={**record.macs, **counts})
    else:
        _check_sizes(record)
        advance = progress("compare with the float graph", len(graph.nodes) + 1)
        sample = _sample(original, samples, record)
        result.problems += _compare(result, read, original, sample, name, advance)
        advance()
    result.problems += changed
    result.problems += unlike_bodies(graph, record, settings, fast)
    for each in evidence:
        if each.mismatches or each.problem:
            what = each.problem or f"{each.mismatches} mismatches of body and meaning"
            result.problems.append(f"node {each.name!r} ({each.op}): {what}")
    if runs is not None and runs.waits and result.problems:
        result.warnings.append("not run on samples: loops of what was changed need not end")
        runs = None
    elif runs is not None and runs.waits:
        runs.start(fast)
    try:
        _load(result, integer, runs)
        _probe(result, probed, progress)
        _probe_compiled(result, progress)
        if original is None or runs is None:
            result.unchecked.append("not run on samples (--data)")
        else:
            _run_samples(result, runs, read, original, progress)
    except ModelError as error:  # a graph that was changed need not run
        result.problems.append(str(error))
    return result


def _compare(
    result: Verification,
    read: IntegerModel,
    original: Source,
    sample: Arrays | None,
    name: str,
    advance: Advance,
) -> list[str]:
    """How the integer graph is not that of ``original``; ``advance`` comes with each node."""
    found = []
    if read.about["float_sha256"] != original.sha256:
        found.append("the integer model was made from another float model")
    checked = compared(read, original, sample, name, advance)
    real = checked.pair.real
    result.record = replace(read.record, macs=checked.macs)
    found += _unlike_macs(read, checked.macs)
    if not checked.differences:
        result.simulated = parts(simulated(checked.pair), checked.pair)
    differences = [*checked.differences, *unlike_file(read.model, real.opset)]
    result.checks["float_graph"] = {
        "nodes": len(read.graph.nodes),
        "float_nodes": len(real.nodes),
        "differences": len(differences),
        "chosen_weights": sum(
            each.weights not in ("", "nearest", "sum-preserving")
            for each in read.record.nodes.values()
        ),
        "corrected_biases": sum(bool(each.correction) for each in read.record.nodes.values()),
        "rules": checked.coverage,
    }
    return found + differences[:MOST_DIFFERENCES]


def compared(
    read: IntegerModel,
    original: Source,
    sample: Arrays | None,
    name: str,
    advance: Advance = lambda: None,
) -> Checked:
    """The integer graph, called ``name``, beside ``original`` as it is prepared now.

    ``advance`` is called for each node. Raises VerificationError where it is certain to be of
    another model.
    """
    context = Context(read.settings)
    try:
        real = prepare(original.model, sample, context)
    except UsageError as error:  # the recorded settings do not fit the float model
        raise VerificationError(
            f"{name} was not made from this float model: {error}"
        ) from error
    context.record.sizes = read.record.sizes
    try:
        measure(real, context)
    except (AttributeError, TypeError, ValueError) as error:
        raise VerificationError(
            "the record has no sizes that fit the float model's inputs"
        ) from error
    left = context.selection.excluded, context.selection.unlisted
    known = Known.of(real, context.given)
    counted = Counted(context.times, context.record.macs)
    given = read.graph, read.record, read.settings, read.about, real
    checked = check(*given, *left, known, counted, advance)
    return replace(checked, macs=context.record.macs)


def _unlike_macs(read: IntegerModel, measured: Mapping[str, int]) -> list[str]:
    """Whether the record has other multiply-accumulates of float nodes than they do."""
    left = {node.name for node in read.graph.nodes} - read.record.nodes.keys()
    wanted = {name: macs for name, macs in measured.items() if name in left}
    if read.record.macs == wanted:
        return []
    return [
        "the recorded multiply-accumulates of float nodes are not those of the float model"
    ]


def _check_sizes(record: Record) -> None:
    """Raise VerificationError unless the record has sizes by input."""
    sizes = record.sizes.values() if isinstance(record.sizes, dict) else [None]
    for each in sizes:
        if not isinstance(each, list) or not all(type(n) is int and n >= 0 for n in each):
            raise VerificationError(
                "the record has no sizes that fit the float model's inputs"
            )


def _sample(original: Source, samples: Samples | None, record: Record) -> Arrays | None:
    """One feed of the float model: the first, or numbers of the recorded sizes.

    None where an input is no tensor: no sizes are recorded of it.
    """
    if samples is not None:
        return samples.first()
    made = {}
    specs = input_specs(original.model)
    if any(spec.holds != "tensor" for spec in specs):
        return None
    for spec in specs:
        sizes = record.sizes.get(spec.name)
        if sizes is None:
            raise VerificationError(f"the record has no sizes of input {spec.name!r}")
        fits = len(sizes) == len(spec.shape) and prod(sizes) <= _MOST_NUMBERS
        if not fits or any(b not in (None, a) for a, b in zip(sizes, spec.shape, strict=True)):
            raise VerificationError(f"the recorded sizes of input {spec.name!r} do not fit it")
        values = np.linspace(-1, 1, prod(sizes)) if spec.dtype.kind == "f" else 0
        made[spec.name] = np.resize(values, sizes).astype(spec.dtype)
    return made


def recorded_preprocessing(integer: IntegerModel) -> Preprocessing | None:
    """What pictures became when ``integer`` was made, if it was made with pictures."""
    found = integer.about["configuration"].get("preprocessing")
    try:
        return None if found is None else Preprocessing.from_json(found)
    except UsageError as error:
        raise ModelError(f"the recorded configuration is damaged: {error}") from error


def _edges(integer: onnx.ModelProto, original: Source, record: Record, name: str) -> Edges:
    try:
        edges = Edges.between(original.model, integer, record)
    except ValueError as error:
        raise VerificationError(
            f"{name} was not made from this float model: they have other inputs or outputs"
        ) from error
    moved = [
        ours for real, (ours, stored) in edges.inputs.items() if not stored and ours != real
    ]
    if moved:
        raise VerificationError(
            f"{name} was not made from this float model, which has no input {moved[0]!r}"
        )
    return edges


def _load(result: Verification, integer: onnx.ModelProto, runs: SideBySide | None) -> None:
    """Note what the model is written in, and load it in onnxruntime.

    Raises ModelError for versions that onnxruntime does not know.
    """
    opsets = {each.domain or "ai.onnx": each.version for each in integer.opset_import}
    result.checks["runtime"] = {
        "onnxruntime": ort.__version__,
        "ir_version": integer.ir_version,
        "opsets": opsets,
    }
    if runs is None:
        Session(integer)
    else:
        runs.session()


def _probe(
    result: Verification, found: Future[dict[str, tuple[int, int]]], progress: Progress
) -> None:
    advance = progress("probe kernels", 1)
    probed = found.result()
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
    if saturated:
        result.warnings.append(
            "this machine's int8 kernels saturate in int16 (x86 without VNNI): run the model "
            "where they do not"
        )
        result.problems += [
            f"node {name!r}: its products saturate on this machine"
            for name in saturating(result.graph, result.record)
        ]
    advance()


def _probe_compiled(result: Verification, progress: Progress) -> None:
    """The kernels that run in place of bodies where they are registered."""
    place = library()
    if place is None:
        return
    found = probe_compiled(result.graph, result.record, place, progress)
    result.checks["compiled_kernels"] = found.as_json()
    result.problems += [
        f"node {name!r}: its compiled kernel differs from the meaning in {count} results"
        for name, count in found.wrong.items()
    ]


def _run_samples(
    result: Verification,
    runs: SideBySide,
    read: IntegerModel,
    original: Source,
    progress: Progress,
) -> None:
    """Float against integer, the file and both bodies, the Q/DQ graph."""
    simulation = None
    if result.simulated is not None:
        allowed = _allowed(read, result.evidence)
        others = read.model, original.model, original.reference
        simulation = Simulation(result.simulated, allowed, others)
    bodies, outputs = BothBodies(runs.stored), [end.name for end in read.model.graph.output]
    compiled, unlike = runs.compiled(), 0
    advance = progress("run samples", len(runs.samples))
    for run, portable in runs:
        if compiled is not None:
            found = compiled.run(None, run.given, run.name)
            unlike += differences(found, [run.fast[name] for name in outputs])
        result.accuracy.update(run.expected, runs.edges.real(run.found))
        optimized = dict(zip(outputs, run.found, strict=True))
        bodies.compare(optimized, run.fast, portable, partial(runs.both_optimized, run))
        if run.is_inside:
            bodies.compare_inside(run.fast, portable, run.name)
        if simulation is not None and run.is_inside:
            codes = {**tensors(run.given), **run.fast}
            simulation.compare(_real(run.feed, read.record), codes, run.name)
        advance()
    result.checks["bodies"] = bodies.as_json(len(runs.samples))
    if simulation is not None:
        result.checks["qdq"] = simulation.as_json()
    problems = [bodies.problem, simulation.problem if simulation else ""]
    if compiled is not None:
        result.checks["compiled_kernels"]["elements_differing"] = unlike
        wrong = f"compiled kernels give {unlike} elements of outputs otherwise than bodies"
        problems += [wrong] if unlike else []
    result.problems += filter(None, problems)


def _real(feed: Arrays, record: Record) -> Arrays:
    """The numbers of inputs that are stored integers in the original too."""
    given = tensors(feed)
    stored = given.keys() & record.tensors.keys()
    return {**feed, **{n: dequantize(given[n], record.tensors[n]) for n in stored}}


def _stores_anew(node: Node, record: Record) -> bool:
    """Whether it computes nothing: its record names itself."""
    entry = record.nodes.get(node.name)
    return entry is not None and list(entry.source) == [node.name]


def _allowed(read: IntegerModel, evidence: Sequence[NodeEvidence]) -> Mapping[str, int]:
    """By tensor, how far it may be from float arithmetic: a tie, and what is proved.

    What is moved may be so far as it was when it was stored anew for that. Anything where the
    function of a table is not defined for some codes, and of a recurrent net over many steps,
    whose bound is that of one step.
    """
    farthest = {each.name: each.reference_max_lsb for each in evidence}
    for node in read.graph.nodes:
        if node.domain != DOMAIN:
            writers = [each for each in map(producer, node.inputs) if each is not None]
            anew = [each.name for each in writers if _stores_anew(each, read.record)]
            farthest[node.name] = max((farthest.get(name, 0) for name in anew), default=0)
    undefined = {name for name, entry in read.record.nodes.items() if entry.undefined}
    return {
        tensor.name: 65535
        if node.name in undefined or node.op in RECURRENT
        else 1 + farthest.get(node.name, 0)
        for node in read.graph.nodes
        for tensor in node.outputs
    }
