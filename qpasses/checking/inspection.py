"""Inspection: an integer model as rows of numbers, with its evidence recomputed."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from opsets.argument_kinds import shown
from opsets.declaration import Scaling
from opsets.errors import UsageError
from opsets.op import DOMAIN
from opsets.qpasses_v1 import OPS
from qpasses.evidence.bodies import constants_of
from qpasses.evidence.node_evidence import NodeEvidence
from qpasses.evidence.prove import prove
from qpasses.evidence.prove_log_softmax import log_softmax_bound
from qpasses.evidence.prove_norms import norm_bound
from qpasses.evidence.summary import reason
from qpasses.ir.function import Function
from qpasses.ir.graph import Node
from qpasses.ir.record import ChannelQuantization, NodeRecord, Record
from qpasses.ir.stages import Kind, kind
from qpasses.load.integer_model import read_integer_model


@dataclass(frozen=True)
class StoredTensor:
    """A stored activation at a node: real = (stored - zero_point) * scale.

    ``scale`` and ``zero_point`` are lists where channels, along ``axis``, have their own.
    ``codes``: the smallest and the largest that are stored; ``origin``: where the scale comes
    from if the model was quantized before, it (``model``) or ``calibration``; else nothing.
    ``order``: in which its axes lie in the file, if not as ONNX has them, as ``shape`` does.
    """

    input: str
    tensor: str
    type: str
    shape: Sequence[int | str] | None
    scale: float | Sequence[float]
    zero_point: int | Sequence[int]
    codes: tuple[int, int]
    origin: str = ""
    axis: int | None = None
    order: Sequence[int] | None = None


@dataclass(frozen=True)
class Row:
    """One node of an integer graph.

    ``inputs`` and ``outputs``: the stored tensors around it. ``multiplier`` and ``shift`` per
    channel (IntAdd: of a and of b; IntRescaledAdd: of their sum too; IntPRelu: above zero,
    then of each slope, with its code), ``real_scale`` what multiplier / 2**shift stands for.
    ``rule``: how far from it they are. ``clamp``: stored bounds of the output.
    ``constants``: by name of the op's signature.
    ``proof`` is None for nodes that are not integer, ``reason`` says why those are float.
    ``writes`` names all its outputs.
    """

    name: str
    domain: str
    op: str
    formula: str
    source: Sequence[str]
    inputs: Sequence[StoredTensor]
    outputs: Sequence[StoredTensor]
    multiplier: Sequence[int]
    shift: Sequence[int]
    real_scale: Sequence[float]
    clamp: tuple[int, int] | None
    rule: str
    attributes: dict[str, Any]
    constants: Mapping[str, NDArray[Any]]
    proof: NodeEvidence | None
    reason: str = ""
    writes: Sequence[str] = ()

    def as_json(self) -> dict[str, Any]:
        """The fields, ready for JSON."""
        values = {name: value.tolist() for name, value in self.constants.items()}
        return asdict(replace(self, constants={})) | {"constants": values}


@dataclass(frozen=True)
class Inspection:
    """An integer model, what it says of itself, and its rows in graph order."""

    model: onnx.ModelProto
    about: dict[str, Any]
    rows: Sequence[Row]

    def __repr__(self) -> str:
        return f"Inspection({len(self.rows)} nodes)"

    def node(self, name: str) -> Row:
        """The node called ``name``, or that writes the tensor ``name``.

        Raises UsageError if there is none.
        """
        if not isinstance(name, str):
            raise UsageError(f"name: the name of a node is needed, got {shown(name)}")
        for row in self.rows:
            if name in (row.name, *row.writes):
                return row
        near = get_close_matches(name, [row.name for row in self.rows], n=3, cutoff=0.4)
        hint = f" (did you mean {', '.join(map(repr, near))}?)" if near else ""
        raise UsageError(f"the model has no node {name!r}{hint}")

    def as_json(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {"record": self.about, "nodes": [row.as_json() for row in self.rows]}


def inspect_model(model: onnx.ModelProto, path: Path) -> Inspection:
    """Read ``model``, called ``path`` in messages, and prove its nodes again.

    Raises ModelError if it is not an integer model of this tool with its record.
    """
    read = read_integer_model(model, str(path))
    graph, record, about = read.graph, read.record, read.about
    evidence = {each.name: each for each in prove(graph, record)}
    rows = [_row(node, record, evidence.get(node.name)) for node in graph.nodes]
    return Inspection(model, about, rows)


def _row(node: Node, record: Record, proof: NodeEvidence | None) -> Row:
    entry = record.nodes.get(node.name, NodeRecord([node.name], {}))
    is_op = node.domain == DOMAIN
    given = constants_of(node) if is_op else {}
    names = list(OPS[node.op].inputs) if is_op else [str(i) for i in range(len(node.inputs))]
    ends = [int(given[name]) for name in ("y_min", "y_max") if name in given]
    attributes = {} if kind(node) is Kind.FLOAT else _plain(node.attrs)
    return Row(
        name=node.name,
        domain=node.domain or "",
        op=node.op,
        formula=OPS[node.op].doc if is_op else "",
        source=list(entry.source),
        inputs=_stored(names, node.inputs, record),
        outputs=_stored(["y"] * len(node.outputs), node.outputs, record),
        multiplier=_multipliers(given),
        shift=_numbers(given, _SHIFTS),
        real_scale=_real_scales(node, entry),
        clamp=(ends[0], ends[1]) if ends else None,
        rule=_rule(node, entry, given),
        attributes=attributes,
        constants=given,
        proof=proof,
        reason=reason(node, record) if kind(node) is Kind.FLOAT else "",
        writes=[tensor.name for tensor in node.outputs],
    )


_MULTIPLIERS = (
    *("multiplier", "slope_multiplier", "a_multiplier", "b_multiplier"),
    "y_multiplier",
)
_WITHOUT_RATIOS = frozenset(
    {
        *(Scaling.TABLE, Scaling.WIDE_TABLE, Scaling.NORM, Scaling.ALGORITHM),
        Scaling.MOVED,
    }
)
_SHIFTS = "shift", "slope_shift", "a_shift", "b_shift", "y_shift"


def _multipliers(given: Mapping[str, NDArray[Any]]) -> list[int]:
    """Those of a node, in order; of slopes times their codes."""
    if "slope_codes" not in given:
        return _numbers(given, _MULTIPLIERS)
    coded = given["slope_codes"].astype(np.int64) * given["slope_multiplier"]
    return [int(given["multiplier"]), *map(int, np.ravel(coded))]


def _numbers(given: Mapping[str, NDArray[Any]], names: Sequence[str]) -> list[int]:
    """Those of all inputs with one of ``names``, one input after the other."""
    return [int(v) for name in names if name in given for v in np.ravel(given[name])]


def _real_scales(node: Node, entry: NodeRecord) -> list[float]:
    if node.domain != DOMAIN or not entry.scales:
        return []
    scaling = OPS[node.op].scaling
    if scaling is Scaling.QUOTIENT:
        return [float(entry.quotient_scale())]
    if "a" in entry.scales and scaling is not Scaling.RATIO:
        a, b, y = (entry.scales[name][0] for name in "aby")
        if scaling is not Scaling.RESCALED_SUM:
            return [a / y, b / y]
        left = int(constants_of(node)["left_shift"])
        middle = 2 * max(a, b) if left else y
        return [a / middle, b / middle, middle / (2**left * y)]
    if scaling in _WITHOUT_RATIOS:
        return []
    scales = [float(scale) for scale in entry.real_scales()]
    if scaling is Scaling.SLOPES:
        slopes = Function.from_text(entry.function).slopes
        return [*scales, *(scales[0] * slopes).tolist()]
    return scales


def _rule(node: Node, entry: NodeRecord, given: Mapping[str, NDArray[Any]]) -> str:
    """How the multipliers or the table of a node follow from its scales."""
    scaling = OPS[node.op].scaling if node.domain == DOMAIN else None
    if scaling in (Scaling.TABLE, Scaling.WIDE_TABLE):
        ops = Function.from_text(entry.function).ops if entry.function else []
        return f"{', '.join(ops) or 'another scale'} of every code"
    if scaling is Scaling.NORM:
        bound = norm_bound(given, node.attrs)
        return f"root of {node.attrs['root_bits']} fraction bits, off by at most {bound:.2g}"
    if scaling is Scaling.LOGARITHM:
        (x,), (y,) = entry.scales["x"], entry.scales["y"]
        bits = node.attrs["fraction_bits"]
        bound = log_softmax_bound(given, x, y, entry.cells, bits)
        return f"logarithm of {bits} fraction bits, off by at most {bound:.2g}"
    if scaling is Scaling.ALGORITHM:
        names = [each for each in ("x0", "b", "c", "one") if each in node.attrs]
        return (
            ", ".join(f"{each} {node.attrs[each]}" for each in names) or "ten steps of Newton"
        )
    multipliers, shifts = _multipliers(given), _numbers(given, _SHIFTS)
    if not multipliers:
        return ""
    if "slope_codes" in given:
        size = int(np.abs(given["slope_codes"]).max())
        return f"codes of slopes up to {size}, {node.attrs['rounding']}"
    scales, count = _real_scales(node, entry), len(multipliers)
    away = max(
        abs(multipliers[i] - round(Fraction(scales[i % len(scales)]) * (1 << shift)))
        for i, shift in enumerate(shifts * (count // len(shifts)))
    )
    if "left_shift" in given and not given["left_shift"].any():
        multipliers = multipliers[:2]  # the sum is kept as it is
    bits = max(each.bit_length() for each in multipliers)
    distance = f"within {away} of the nearest" if away else "the nearest"
    return f"{bits}-bit multipliers, {distance}, {node.attrs['rounding']}"


def _stored(
    names: Sequence[str], tensors: Sequence[Any], record: Record
) -> list[StoredTensor]:
    found = []
    for name, tensor in zip(names, tensors, strict=True):
        meaning = record.tensors.get(tensor.name)
        if meaning is not None:
            shape = None if tensor.shape is None else list(tensor.shape)
            axis = meaning.axis if isinstance(meaning, ChannelQuantization) else None
            parameters = (
                meaning.dtype,
                shape,
                np.asarray(meaning.factors(0 if axis is None else axis + 1)).tolist(),
                meaning.zero.tolist(),
            )
            origin = "model" if tensor.name in record.kept else "calibration"
            origin = origin if record.kept else ""
            ends = meaning.limits, origin, axis, record.orders.get(tensor.name)
            found.append(StoredTensor(name, tensor.name, *parameters, *ends))
    return found


def _plain(attributes: dict[str, Any]) -> dict[str, Any]:
    """Attributes that are numbers, texts or lists of them."""
    return {
        name: list(value) if isinstance(value, list | tuple) else value
        for name, value in attributes.items()
        if isinstance(value, int | float | str | list | tuple)
    }
