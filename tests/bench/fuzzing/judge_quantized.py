"""What is checked of each random graph that is quantized already."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

import qpasses
from calibration import Session
from opsets.errors import QPassesError
from opsets.qpasses_v1 import OPS
from qpasses.ir.edges import Edges, RealSession
from qpasses.ir.metadata import read_record
from tests.bench.fuzzing.builder import Arrays
from tests.bench.fuzzing.graphs import Case
from tests.bench.fuzzing.judge import (
    UNSURE,
    Failure,
    Seen,
    bodies_differ,
    reported,
    verified,
)
from tests.bench.fuzzing.quantizing import WEIGHTED
from tests.bench.fuzzing.real_meaning import DQ, Q, levels, meaning

REFUSALS = (
    "weights of .* have a scale for each channel, target",
    r"scales?.* must be positive and finite",
)
"""What qpasses may say of a graph instead of making integers of it."""

REFUSALS_ALONE = (
    "only its weights are quantized, of no activation it says how it is stored",
    r"cannot run the model on (the first sample|random\[0\])",  # a free batch is not 1
)
"""And without samples."""

FLOAT_NOISE = 1e-4
"""In LSB: nearer to a tie, float32 arithmetic may round to the other side."""

EXACT_NOISE = 1e-6
"""The scale of a bias is a product rounded to float32."""


def judge_quantized(case: Case, seen: Seen | None = None) -> Failure | None:
    """The first check that ``case`` fails, with its samples and without."""
    seen = seen or Seen()
    seen.float_ops.update(node.op_type for node in case.model.graph.node)
    return _judged(case, seen, True) or _judged(case, seen, False)


def _judged(case: Case, seen: Seen, sampled: bool) -> Failure | None:
    data = list(case.feeds) if sampled else None
    how = "with samples" if sampled else "alone"
    try:
        result = qpasses.integerize(case.model, data, **case.options)
    except QPassesError as error:
        said = re.sub(r"[\"'`<].*?[\"'`>]|\d+", "_", str(error))[:70]
        seen.refusals[said] += 1
        refusals = REFUSALS if sampled else [*REFUSALS, *REFUSALS_ALONE]
        is_known = any(re.search(each, str(error)) for each in refusals)
        is_known |= "onnxruntime cannot run" in str(error) and not _runs_optimized(case)
        return None if is_known else Failure(f"refused {how}: {said}", str(error))
    except Exception as error:
        return Failure(f"integerize {how}: {type(error).__name__}", str(error))
    made = result.model
    assert made is not None
    seen.verdicts[result.verdict] += 1
    seen.integer_ops.update(node.op_type for node in made.graph.node)
    try:
        return (
            reported(result)
            or verified(case, made, result.verdict)
            or bodies_differ(case, made)
            or _weights_changed(case, result)
            or _unlike_real(case, result, seen, sampled)
        )
    except QPassesError as error:
        return Failure(f"{how}: {type(error).__name__}", str(error))


def _runs_optimized(case: Case) -> bool:
    """Whether onnxruntime's optimizer can run the model as it is given."""
    try:
        Session(case.model, threads=1).run(None, case.feeds[0])
    except QPassesError:
        return False
    return True


def _weights_changed(case: Case, result: qpasses.Result) -> Failure | None:
    """Integers of weights, without their zero points, in the nodes that take their places.

    A factor below 0 that is folded into them changes their sign.
    """
    made = result.model
    assert made is not None
    raised = result.report["summary"]["raised_weight_scales"]
    ours = {each.name: numpy_helper.to_array(each) for each in made.graph.initializer}
    record, _ = read_record(made)
    levels = dict(_stored_weights(case.model))
    for node in made.graph.node:
        if "w" not in getattr(OPS.get(node.op_type), "inputs", ()):
            continue
        given = dict(zip(OPS[node.op_type].inputs, node.input, strict=False))
        known = [name for name in record.nodes[node.name].source if name in levels]
        stored = ours.get(given["w"])
        if len(known) != 1 or stored is None or {*known} & raised.keys():
            continue
        expected = np.sort(np.abs(levels[known[0]].reshape(-1)))
        zero = ours[given["w_zero"]].astype(np.int64)
        found = np.sort(np.abs(stored.astype(np.int64) - zero).reshape(-1))
        if not np.array_equal(expected, found):
            return Failure("weights changed", f"{node.name}: {expected[:9]}, now {found[:9]}")
    return None


def _stored_weights(model: onnx.ModelProto) -> Iterator[tuple[str, NDArray[np.int64]]]:
    """By float node, the integers of its weights."""
    values = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    writers = {name: node for node in model.graph.node for name in node.output}
    for node in model.graph.node:
        if node.op_type in WEIGHTED:
            source = writers.get(node.input[1])
            while source is not None and source.op_type in (
                "Transpose",
                "Reshape",
                "Identity",
            ):
                source = writers.get(source.input[0])
            if source is None or source.op_type != DQ or source.input[0] not in values:
                continue
            stored = values[source.input[0]].astype(np.int64)
            zero = values.get(source.input[2]) if len(source.input) > 2 else np.zeros(1)
            if zero is not None and zero.size == 1:
                yield node.name, stored - int(zero.reshape(()))


def _unlike_real(
    case: Case, result: qpasses.Result, seen: Seen, sampled: bool
) -> Failure | None:
    """Outputs beside real arithmetic, where no stored number is near a tie."""
    if UNSURE & {node.op_type for node in case.model.graph.node}:
        seen.not_evaluated["ops without a judge"] += 1
        return None
    made = result.model
    assert made is not None
    record, _ = read_record(made)
    runner = RealSession(Session(made), Edges.between(case.model, made, record))
    theirs = Session(case.model, optimize=False, threads=1)
    moved = any(each.reference_moved for each in result.evidence)
    own = [name for name in record.tensors if name not in record.kept]
    is_mixed = _also_read_unstored(case.model)
    ends = _stored_outputs(case.model)
    is_float = bool(result.report["summary"]["float_nodes"])
    for feed in case.feeds:
        try:
            real = meaning(case.model, feed)
        except Exception as error:  # onnx's evaluator lacks cases of some ops
            seen.not_evaluated[type(error).__name__] += 1
            return None
        wanted = [real.values[each.name] for each in case.model.graph.output]
        as_given, found = theirs.run(None, feed), runner.run(None, feed)
        if real.nearest > FLOAT_NOISE and _apart(case.model, as_given, wanted):
            seen.not_evaluated["onnxruntime is not like the evaluator"] += 1
            return None
        seen.compared["elements"] += sum(each.size for each in found)
        seen.compared["unlike onnxruntime"] += sum(
            int((np.abs(a - b.astype(np.float64)) > 1e-4 * np.abs(b)).sum())
            for a, b in zip(found, as_given, strict=True)
        )
        mixed = is_mixed or _has_own_constants(case.model, real.values)
        noise = FLOAT_NOISE if is_float else EXACT_NOISE
        if moved or own or mixed or real.nearest < noise:
            why = "moved" if moved else "own scales" if own else "mixed" if mixed else "ties"
            seen.compared[f"graphs left out for {why}"] += 1
            return None
        seen.compared["graphs compared"] += 1
        if bad := _apart(case.model, found, wanted, ends):
            twice = ", stored twice" if _is_stored_twice(case.model) else ""
            return Failure(f"real arithmetic{twice}", bad)
    return None


def _also_read_unstored(model: onnx.ModelProto) -> bool:
    """Whether something that is stored for one is read as it was by another.

    Integer nodes read it as it is stored, all of them.
    """
    nodes, ends = model.graph.node, {value.name for value in model.graph.output}
    stored = {node.input[0] for node in nodes if node.op_type == Q}
    read = {name for node in nodes if node.op_type != Q for name in node.input}
    return bool(stored & (read | ends))


def _has_own_constants(model: onnx.ModelProto, values: Arrays) -> bool:
    """Whether integers of weights, or of biases in steps of the products, are not the model's.

    Biases are rounded to these steps. A BatchNormalization that stands alone is a convolution
    with weights of its own, and weights that take more than 8 bits without their zero points,
    of which a node has one for all channels, are quantized anew.
    """
    writers = {name: node for node in model.graph.node for name in node.output}
    for node in model.graph.node:
        if node.op_type == "BatchNormalization":
            before = writers.get(node.input[0])
            if before is None or before.op_type not in WEIGHTED:
                return True
        if node.op_type not in WEIGHTED:
            continue
        x, w, *more = (_behind(name, writers, values) for name in node.input)
        if w is None or w[0].max(initial=0) - w[0].min(initial=0) > 255:
            return True
        for bias in more:
            if x is None or bias is None or w[1].size not in (1, bias[1].size):
                return True
            if not np.allclose(x[1] * w[1], bias[1], rtol=1e-5, atol=0):
                return True
    return False


def _behind(
    name: str, writers: Mapping[str, onnx.NodeProto], values: Arrays
) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Integers without their zero points, and scales, of what is dequantized to ``name``.

    Before they are moved, if they are.
    """
    node = writers.get(name)
    while node is not None and node.op_type in ("Transpose", "Reshape", "Identity"):
        node = writers.get(node.input[0])
    if node is None or node.op_type != DQ:
        return None
    found, how = levels(node, values)
    return found, how.scale


def _is_stored_twice(model: onnx.ModelProto) -> bool:
    """Whether two QuantizeLinear read one tensor."""
    read = [node.input[0] for node in model.graph.node if node.op_type == Q]
    return len({*read}) < len(read)


def _stored_outputs(model: onnx.ModelProto) -> set[str]:
    """Outputs that are integers, or what integers stand for: others are stored somehow."""
    ends = {n for node in model.graph.node if node.op_type in (Q, DQ) for n in node.output}
    return ends & {value.name for value in model.graph.output}


def _apart(
    model: onnx.ModelProto,
    found: Sequence[Any],
    wanted: Sequence[Any],
    names: set[str] | None = None,
) -> str:
    """The first output, of ``names``, that differs by more than float32 noise."""
    for value, ours, real in zip(model.graph.output, found, wanted, strict=True):
        if names is not None and value.name not in names:
            continue
        if ours.shape != real.shape:
            return f"{value.name}: {ours.shape}, should be {real.shape}"
        gap = np.abs(ours.astype(np.float64) - real.astype(np.float64))
        limit = 1e-5 * max(1e-30, float(np.abs(real.astype(np.float64)).max(initial=0)))
        if (gap > limit).any():
            at = tuple(np.argwhere(gap > limit)[0].tolist())
            return f"{value.name} at {at}: {ours[at]}, should be {real[at]}"
    return ""
