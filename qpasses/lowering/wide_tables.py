"""Tables of functions of a 16-bit integer: whole, or 513 knots with lines between them.

Their errors are counted on all 65,536 codes, never estimated.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np
import onnx
import onnx.parser
from numpy.typing import NDArray

from opsets.argument_kinds import shown
from opsets.errors import ModelError, UsageError
from opsets.fixed_point import ROUNDINGS, Rounding
from opsets.op import Flavour
from opsets.qpasses_v1 import OPS
from qpasses.evidence.node_evidence import NodeEvidence
from qpasses.evidence.prove_lookups import real_function
from qpasses.ir.edges import codes
from qpasses.ir.elementwise import ELEMENTWISE, UNARY
from qpasses.ir.folding import fold_constants
from qpasses.ir.function import Function
from qpasses.ir.graph import Graph
from qpasses.ir.interchange import import_graph, numbers_as_tensors
from qpasses.ir.record import Quantization
from qpasses.ir.runtime import IR_VERSION, OPSET, run_op
from qpasses.lowering.numbers.knots import Knots, Stored, knotted
from qpasses.lowering.numbers.table_entries import tabulate


@dataclass(frozen=True)
class Gap:
    """On how many of the 65,536 codes results differ, and by how many steps of y."""

    codes: int
    max_lsb: int
    mean_lsb: float

    @classmethod
    def between(cls, found: Stored, expected: Stored) -> "Gap":
        """The gap of results in the order of their codes."""
        steps = np.abs(found.astype(np.int64) - expected)
        return cls(int(np.count_nonzero(steps)), int(steps.max()), float(steps.mean()))


@dataclass(frozen=True)
class WideTable:
    """All that a node of ``op`` needs beside x, and what is known of it.

    ``constants`` are by the names of the op's signature. ``against_full``: its meaning against
    the table of 65,536 entries; ``against_real``: against the function in float64, stored half
    to even. ``evidence``: its body against its meaning, on all codes too.
    """

    op: str
    constants: Mapping[str, Stored]
    attributes: Mapping[str, Any]
    against_full: Gap
    against_real: Gap
    evidence: NodeEvidence

    @property
    def bytes(self) -> int:
        """The size of the table."""
        return self.constants["table"].nbytes

    def stored(self, x: NDArray[np.int16]) -> Stored:
        """The stored y of each stored ``x``, by the op's meaning."""
        return np.asarray(OPS[self.op].reference(x, **self.constants, **self.attributes))


@dataclass(frozen=True)
class WideTables:
    """Both tables of one function; ``undefined``: codes that lack a result of it.

    Those take the result of the nearest code that has one.
    """

    full: WideTable
    interpolated: WideTable
    undefined: Sequence[int]
    within: int

    @property
    def chosen(self) -> WideTable:
        """The interpolated one if it is within the bound of the full one, else that."""
        is_near = self.interpolated.against_full.max_lsb <= self.within
        return self.interpolated if is_near else self.full


def wide_table(
    function: str | onnx.ModelProto | Function,
    x: Quantization,
    y: Quantization,
    *,
    within: int,
    knots: Knots = "plain",
    rounding: Rounding = "half_up",
    bodies: Flavour = "onnxruntime",
) -> WideTables:
    """Both tables of ``function``, their errors, and which of them to take.

    ``function``: an elementwise op of one input, its attributes by default, or a model of one
    number. ``x`` is int16, ``y`` of any stored type; scales are rounded to float32, as ONNX
    holds them. ``within``: by how many steps of y the interpolated table may differ from the
    full one. ``knots``: ``plain``, results of the function, or ``adjusted``,
    moved by half of what the lines around them are wrong by in their middles.

    Raises UsageError for other arguments, ModelError if the model is of another kind or its
    function is not defined for any code.
    """
    for name, end in (("x", x), ("y", y)):
        if not isinstance(end, Quantization):
            raise UsageError(f"{name}: a qpasses.Quantization is needed, got {shown(end)}")
    if x.dtype != "int16":
        raise UsageError(f"x is {x.dtype}: wide tables are of int16")
    for name, value, known in (
        ("knots", knots, get_args(Knots)),
        ("rounding", rounding, ROUNDINGS),
        ("bodies", bodies, get_args(Flavour)),
    ):
        if value not in known:
            raise UsageError(f"{name} {value!r}: one of {', '.join(known)}")
    if type(within) is not int or within < 0:
        raise UsageError(f"within {within!r}: a whole number of steps of y from 0 on")
    x, y = (replace(each, scale=float(np.float32(each.scale))) for each in (x, y))
    given = function if isinstance(function, Function) else _as_function(function)
    if given.channels:
        raise ModelError("the model is no function of one number: its constants differ")
    table, undefined = tabulate(given, x, y)
    if len(undefined) == table.size:
        raise ModelError(f"{', '.join(given.ops)}: not defined for any code of its input")
    judge = _Judge(
        ", ".join(given.ops), codes(x), table, real_function(given, x, y, codes(x)), bodies
    )
    line = knotted(given, x, y, knots)
    return WideTables(
        judge.measured("Lut16", {"table": table}, {}),
        judge.measured("LutInterpolated", line, {"rounding": rounding}),
        undefined,
        within,
    )


@dataclass(frozen=True)
class _Judge:
    """What tables are measured against: of each stored x, the full table's y and the real."""

    name: str
    x: Stored
    full: Stored
    real: Stored
    bodies: Flavour

    def measured(
        self, op: str, constants: Mapping[str, Stored], attributes: Mapping[str, Any]
    ) -> WideTable:
        """The node with these constants, its body run on all codes, optimized and not."""
        meaning = OPS[op].reference(self.x, **constants, **attributes)
        against_real = Gap.between(meaning, self.real)
        body = OPS[op].body(self.bodies, constants, attributes)
        inputs = [self.x, *constants.values()]
        wrong = [
            run_op(op, body, inputs, attributes, optimize=optimize) != meaning
            for optimize in (False, True)
        ]
        evidence = NodeEvidence(
            name=self.name,
            op=op,
            kind="exhaustive",
            domain=meaning.size,
            mismatches=int(np.logical_or(*wrong).sum()),
            body=body.overload,
            reference_moved=against_real.codes,
            reference_max_lsb=against_real.max_lsb,
        )
        against_full = Gap.between(meaning, self.full)
        return WideTable(op, constants, attributes, against_full, against_real, evidence)


def _as_function(given: str | onnx.ModelProto) -> Function:
    if isinstance(given, str):
        if given not in UNARY:
            raise UsageError(f"{given!r} is no function of one number: give a model")
        header = f'<ir_version: {IR_VERSION}, opset_import: ["" : {OPSET}]>'
        text = f"{header} g (float[N] x) => (float[N] y) {{ y = {given} (x) }}"
        given = onnx.parser.parse_model(text)
    if not isinstance(given, onnx.ModelProto):
        raise UsageError(f"function {given!r}: the name of an op, or an onnx.ModelProto")
    plain = onnx.ModelProto()
    plain.CopyFrom(given)
    numbers_as_tensors(plain)
    graph = import_graph(plain)
    fold_constants(graph)
    if objection := _objection(graph):
        raise ModelError(f"the model is no function of one number: {objection}")
    return Function.of(graph.nodes, graph.inputs, graph.outputs[0], graph.opset)


def _objection(graph: Graph) -> str:
    for node in graph.nodes:
        if node.op not in ELEMENTWISE or node.domain not in (None, "", "ai.onnx"):
            return f"it has {node.op}"
    if len(graph.inputs) != 1 or len(graph.outputs) != 1:
        return f"it has {len(graph.inputs)} inputs and {len(graph.outputs)} outputs"
    return "" if graph.inputs[0].outputs else "it does not depend on its input"
