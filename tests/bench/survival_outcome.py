"""What becomes of one model in `qpasses.quantize`, and how what comes out is unlike it."""

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import qpasses
from calibration import Session
from tests.bench.manifest import ROOT
from tests.bench.onnx_backend_cases import Case

NOT_RUN = "not run"
"""By onnxruntime: says nothing of quantizing."""

VERDICTS = ("ok", "incomplete", "failed")
"""A model came through."""

BROKEN = ("traceback", "hang", "crash")

CLOSE_DB = 20.0
"""Outputs are called close where the noise is a tenth of the signal, or less."""

EQUAL_DB = 200.0

SAMPLES = 8
"""A case has few: they are given over and over, that some can be held back to judge."""

REFUSALS = (qpasses.ModelError, qpasses.UsageError, qpasses.DataError)


@dataclass
class Row:
    """What became of a case.

    ``outcome``: one of ``VERDICTS``, "refused", one of ``BROKEN`` or ``NOT_RUN``; ``reason``:
    what the message says, or which exception was raised where; ``left``: op and reason of the
    float nodes; ``wrong``: what is unlike the original; ``sqnr_db``: of the worst float
    output, None where there is none.
    """

    name: str
    family: str
    op: str
    float_inputs: bool = False
    outcome: str = ""
    reason: str = ""
    left: list[tuple[str, str]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    sqnr_db: float | None = None


def runs(case: Case) -> str:
    """Why onnxruntime does not run it, in a line; empty where it does."""
    try:
        _outputs(case.model, case.feeds)
    except (
        Exception
    ) as error:  # numpy's and the interface's too: whatever keeps it from running
        return _line(error)
    return ""


def outcome(case: Case) -> Row:
    """What becomes of a case that onnxruntime runs."""
    row = Row(case.name, case.family, case.op, case.has_float_inputs)
    try:
        result = qpasses.quantize(case.model, [*islice(cycle(case.feeds), SAMPLES)])
    except REFUSALS as error:
        row.outcome, row.reason = "refused", _line(error).removeprefix("<ModelProto>: ")
    except Exception as error:
        row.outcome, row.reason = "traceback", _place(error)
    else:
        assert result.model is not None
        row.outcome = result.verdict
        left = result.report["summary"]["float_nodes"]
        row.left = [(node["op_type"], node["reason"]) for node in left]
        row.wrong, row.sqnr_db = unlike(case, result.model)
    return row


def _line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


def _place(error: Exception) -> str:
    """The exception, and the last line of the project's own that it went through."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [each for each in frames if Path(each.filename).is_relative_to(ROOT)]
    path = Path(ours[-1].filename).relative_to(ROOT).as_posix()
    return f"{type(error).__name__} in {path}:{ours[-1].lineno}: {_line(error)}"


# The result beside the original


def unlike(case: Case, made: onnx.ModelProto) -> tuple[list[str], float | None]:
    """What is not as in the original, and the SQNR of the worst float output."""
    wrong = _declared_unlike(case.model.graph, made.graph)
    try:
        found = _outputs(made, case.feeds, optimize=True)
    except Exception as error:
        return [*wrong, f"onnxruntime does not run it: {_line(error)}"], None
    real, again = _outputs(case.model, case.feeds), _outputs(case.model, case.feeds)
    worst = None
    for feed in range(len(case.feeds)):
        for at, value in enumerate(case.model.graph.output):
            three = (each[feed][at] for each in (real, again, found))
            problem, decibels = _compared(*three)
            if problem:
                wrong.append(f"output {value.name!r}: {problem}")
            if decibels is not None:
                worst = decibels if worst is None else min(worst, decibels)
    return wrong, worst


def _declared_unlike(real: onnx.GraphProto, made: onnx.GraphProto) -> list[str]:
    weights = {tensor.name for tensor in real.initializer}
    inputs = [value for value in real.input if value.name not in weights]
    wrong = []
    for kind, ours, theirs in (
        ("inputs", made.input, inputs),
        ("outputs", made.output, real.output),
    ):
        if [each.name for each in ours] != [each.name for each in theirs]:
            wrong.append(f"names of {kind}")
            continue
        for one, other in zip(ours, theirs, strict=True):
            problem = _type_unlike(one.type, other.type)
            wrong += [f"{problem} declared of {one.name!r}"] if problem else []
    return wrong


def _type_unlike(made: onnx.TypeProto, real: onnx.TypeProto) -> str:
    kind = real.WhichOneof("value")
    if made.WhichOneof("value") != kind:
        return "type"
    if kind in ("sequence_type", "optional_type"):
        return _type_unlike(getattr(made, kind).elem_type, getattr(real, kind).elem_type)
    if kind != "tensor_type":
        return "" if made == real else "type"
    ours, theirs = made.tensor_type, real.tensor_type
    if ours.elem_type != theirs.elem_type:
        return "type"
    if not theirs.HasField("shape"):
        return ""
    if not ours.HasField("shape") or len(ours.shape.dim) != len(theirs.shape.dim):
        return "rank"
    for one, other in zip(ours.shape.dim, theirs.shape.dim, strict=True):
        if other.HasField("dim_value") and one.dim_value != other.dim_value:
            return "shape"
    return ""


def _outputs(
    model: onnx.ModelProto, feeds: Sequence[Mapping[str, Any]], optimize: bool = False
) -> list[list[Any]]:
    session = Session(model, optimize=optimize, threads=1)
    return [list(session.run(None, feed)) for feed in feeds]


def _compared(real: Any, again: Any, found: Any) -> tuple[str, float | None]:
    """What is wrong with an output, and its SQNR in dB where it is float.

    ``again``: the original's, run once more. What it draws anew each time is not compared.
    """
    if real is None or found is None:
        return ("" if real is found else "None"), None
    if isinstance(real, list):
        return _lists_compared(real, again, found)
    real, again, found = (np.asarray(each) for each in (real, again, found))
    if real.dtype != found.dtype:
        return f"type {found.dtype}, not {real.dtype}", None
    if real.shape != found.shape:
        return f"shape {list(found.shape)}, not {list(real.shape)}", None
    if not _equal(real, again):
        return "", None
    if real.dtype.kind in "fc" or real.dtype.name == "bfloat16":
        return "", decibels(real, found)
    if _equal(real, found):
        return "", None
    return f"{np.sum(real != found)} of {real.size} elements of {real.dtype}", None


def _lists_compared(real: list[Any], again: list[Any], found: Any) -> tuple[str, float | None]:
    if not isinstance(found, list) or len(real) != len(found):
        return "length of the sequence", None
    each = [_compared(*three) for three in zip(real, again, found, strict=True)]
    known = [noise for _, noise in each if noise is not None]
    problems = [problem for problem, _ in each if problem]
    return (problems[0] if problems else ""), min(known, default=None)


def _equal(one: Any, other: Any) -> bool:
    """NaN included."""
    if one.dtype.kind in "fc":
        return bool(np.array_equal(one, other, equal_nan=True))
    return bool(np.array_equal(one, other))


def decibels(real: Any, found: Any) -> float:
    """The SQNR over what is finite in the original; -``EQUAL_DB`` if it is not in ours."""
    real, found = (np.asarray(each, np.float64).ravel() for each in (real, found))
    finite = np.isfinite(real)
    real, found = real[finite], found[finite]
    if not np.isfinite(found).all():
        return -EQUAL_DB
    noise, signal = (float(np.square(each).sum()) for each in (real - found, real))
    if noise == 0:
        return EQUAL_DB
    if signal == 0:
        return -EQUAL_DB
    return float(np.clip(10 * np.log10(signal / noise), -EQUAL_DB, EQUAL_DB))
