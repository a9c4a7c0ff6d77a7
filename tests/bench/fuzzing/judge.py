"""What is checked of each random graph."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

import qpasses
from calibration import Session
from calibration.inputs import tensors
from opsets.errors import DataError, QPassesError, UsageError
from qpasses.emit.overloads import with_bodies
from qpasses.ir.edges import Edges
from qpasses.ir.metadata import read_record
from tests.bench.fuzzing.builder import Arrays
from tests.bench.fuzzing.graphs import Case
from tests.bench.fuzzing.interpreter import WrongReferenceError, interpret, split
from tests.support.stage_checks import check_against_real_arithmetic, stages

STAGED = {
    *("activation_type", "symmetric", "per_channel", "activation_form", "tensor_types"),
    "residual_type",
}
"""Options under which single nodes are compared with real arithmetic."""

UNSURE = {
    *("Ceil", "Floor", "Round", "Sign", "ThresholdedRelu"),  # jump
    *("Cos", "Pow", "Sin"),  # steep where numbers are large
    *("Celu", "Elu", "Selu"),  # cancel where they are small
    *("Div", "Log", "Reciprocal", "Sqrt"),  # not defined for all codes
    *("GRU", "LSTM", "RNN"),  # feed on what they lost
    "Resize",  # corners are elsewhere where a size times its factor is no whole number
}
"""Ops of which onnx's evaluator in float64 is no judge."""

FAR = 100
"""So many times a sample is far outside of the calibrated range."""


@dataclass(frozen=True)
class Failure:
    """What is wrong: ``kind`` stays the same while a case is shrunk, ``detail`` need not."""

    kind: str
    detail: str


@dataclass
class Seen:
    """What was covered: op types of float and of integer graphs, verdicts, refusals."""

    float_ops: Counter[str] = field(default_factory=Counter)
    integer_ops: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    not_evaluated: Counter[str] = field(default_factory=Counter)
    compared: Counter[str] = field(default_factory=Counter)


def judge(case: Case, seen: Seen | None = None) -> Failure | None:
    """The first check that ``case`` fails."""
    seen = seen or Seen()
    seen.float_ops.update(node.op_type for node in case.model.graph.node)
    try:
        result = qpasses.quantize(case.model, list(case.feeds), **case.options)
    except DataError as error:
        seen.refusals[str(error)[:60]] += 1
        return None
    except UsageError as error:
        if "matches no tensor that is stored" in str(error):
            seen.refusals["no tensor of these types"] += 1
            return None
        return Failure("quantize refuses: UsageError", str(error))
    except QPassesError as error:
        return Failure(f"quantize refuses: {type(error).__name__}", str(error))
    except Exception as error:
        return Failure(f"quantize: {type(error).__name__}", str(error))
    made = result.model
    assert made is not None
    seen.verdicts[result.verdict] += 1
    seen.integer_ops.update(node.op_type for node in made.graph.node)
    if case.options.get("emit", "integer") != "integer":
        return reported(result) or _emitted_differs(case, made)
    return (
        reported(result)
        or bodies_differ(case, made)
        or verified(case, made, result.verdict)
        or _real(case, seen)
    )


def _emitted_differs(case: Case, made: onnx.ModelProto) -> Failure | None:
    """Whether what has no integer nodes runs, and in standard ops gives the same codes."""
    emit = case.options["emit"]
    try:
        found = Session(made, optimize=False, threads=1)
        options = {**case.options, "emit": "integer"}
        nodes = qpasses.quantize(case.model, list(case.feeds), **options).model
        assert nodes is not None
        meant = Session(nodes, optimize=False, threads=1)
        record, _ = read_record(nodes)
        edges = Edges.between(case.model, nodes, record)
        for feed in _stretched(case.feeds, np.random.default_rng(0)):
            given = tensors(edges.feed(feed))
            if emit == "standard":
                for one, other in zip(
                    found.run(None, given), meant.run(None, given), strict=True
                ):
                    if not _same(one, other):
                        return Failure("standard ops differ", _first(one, other))
            else:
                found.run(None, feed)
    except Exception as error:
        return Failure(f"{emit}: {type(error).__name__}", str(error))
    return None


def reported(result: qpasses.Result) -> Failure | None:
    """Never failed, incomplete for a reason, every float node with its own."""
    summary = result.report["summary"]
    if result.verdict == "failed":
        wrong = [e for e in result.evidence if e.mismatches or e.problem]
        return Failure("quantize: verdict failed", str(wrong[:1]))
    if result.verdict == "incomplete" and not summary["because"]:
        return Failure("incomplete without a reason", "")
    silent = [each["name"] for each in summary["float_nodes"] if not each["reason"]]
    return Failure("a float node without a reason", silent[0]) if silent else None


def _real(case: Case, seen: Seen) -> Failure | None:
    """Each stored tensor from those before it, in float64: within what its evidence counts."""
    if UNSURE & {node.op_type for node in case.model.graph.node}:
        seen.not_evaluated["ops without a judge"] += 1
        return None
    options = {name: value for name, value in case.options.items() if name in STAGED}
    found = stages(case.model, case.feeds[0], **options)
    try:
        check_against_real_arithmetic(found, case.feeds[-1])
    except AssertionError as error:
        return Failure("real arithmetic", str(error))
    except Exception as error:  # onnx's evaluator lacks cases of some ops
        seen.not_evaluated[type(error).__name__] += 1
    return None


def verified(case: Case, made: onnx.ModelProto, verdict: str) -> Failure | None:
    """verify comes to the verdict of quantize."""
    try:
        found = qpasses.verify(made, case.model, list(case.feeds[:1]))
    except Exception as error:
        return Failure(f"verify: {type(error).__name__}", str(error))
    if found.verdict == verdict:
        return None
    problems = found.report["summary"]["problems"]
    return Failure(f"verify: verdict {found.verdict}", f"quantize: {verdict}; {problems[:2]}")


def bodies_differ(case: Case, made: onnx.ModelProto) -> Failure | None:
    """Both bodies, optimized or not, inside and far outside of the range, against meanings."""
    try:
        record, _ = read_record(made)
        edges = Edges.between(case.model, made, record)
        rng = np.random.default_rng(0)
        feeds = [tensors(edges.feed(feed)) for feed in _stretched(case.feeds, rng)]
        for name, model in {
            "as given": made,
            "portable": with_bodies(made, "portable"),
        }.items():
            names = [n for node in model.graph.node for n in node.output if n]
            every = _watching(model, names, optimize=False)
            several = [_run(every, names, feed) for feed in feeds]
            edge = [each for some in split(model, several[0] | feeds[0]) for each in some]
            best = _watching(model, edge, optimize=True)
            for feed, values in zip(feeds, several, strict=True):
                if failure := _unlike(f"{name}, unoptimized", model, feed, values, rng):
                    return failure
                fused = _run(best, edge, feed)
                if failure := _unlike(f"{name}, optimized", model, feed, fused, rng):
                    return failure
    except WrongReferenceError as error:
        return Failure("reference", str(error))
    except Exception as error:
        return Failure(f"bodies: {type(error).__name__}", str(error))
    return None


def _unlike(
    how: str, model: onnx.ModelProto, feed: Arrays, values: Arrays, rng: np.random.Generator
) -> Failure | None:
    """The first tensor of ``values`` that is not what the meanings make of the others."""
    found = interpret(model, {**feed, **values}, rng)
    writers = {name: node for node in model.graph.node for name in node.output}
    for name, expected in found.items():
        if name in values and not _same(values[name], expected):
            node = writers[name]
            return Failure(
                f"body differs: {node.op_type}, {how}",
                f"node {node.name!r} ({node.overload}): {_first(values[name], expected)}",
            )
    return None


def _run(session: Session, names: Sequence[str], feed: Arrays) -> Arrays:
    """The tensors ``names``; of no names onnxruntime would give every output."""
    return dict(zip(names, session.run(names, feed), strict=True)) if names else {}


def _same(one: NDArray[Any], other: NDArray[Any]) -> bool:
    return one.dtype == other.dtype and np.array_equal(one, other)


def _first(found: NDArray[Any], expected: NDArray[Any]) -> str:
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return f"{found.dtype}{found.shape}, should be {expected.dtype}{expected.shape}"
    at = tuple(np.argwhere(found != expected)[0].tolist())
    return f"at {at} {found[at]}, should be {expected[at]}"


def _stretched(feeds: Sequence[Arrays], rng: np.random.Generator) -> list[Arrays]:
    first = feeds[0]
    opposite: Arrays = {}
    far: Arrays = {}
    other: Arrays = {}
    for name, value in first.items():
        noise = rng.standard_normal(value.shape) * FAR
        if value.dtype == np.float32:
            opposite[name], far[name] = -value, value * np.float32(FAR)
        else:
            opposite[name], far[name] = ~value, value ^ value.dtype.type(1)
        other[name] = noise.astype(np.int64).astype(value.dtype)
    return [first, opposite, far, other]


def _watching(model: onnx.ModelProto, names: Sequence[str], *, optimize: bool) -> Session:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    present = {value.name for value in copy.graph.output}
    copy.graph.output.extend(
        onnx.ValueInfoProto(name=name) for name in dict.fromkeys(names) if name not in present
    )
    return Session(copy, optimize=optimize, threads=1)
