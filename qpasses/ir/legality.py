"""What a graph may contain at each stage, as tables, and the check behind each stage."""

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from opsets.errors import ModelError
from opsets.op import DOMAIN
from qpasses.ir.changes import described, neighbours
from qpasses.ir.graph import STORE, Graph, Node, Tensor, constant, is_float, producer
from qpasses.ir.moving import moved
from qpasses.ir.record import SIGNALS, Record
from qpasses.ir.stages import CLAMPING, COMPARING, LOCATING, MEASURING, QUANTIZING, Kind, kind

TAKEN_AWAY = frozenset(
    {"BatchNormalization", "ConvTranspose", "Dropout", "GlobalMaxPool", "Identity", "Sum"}
)
"""Ops that prepare leaves nowhere without a reason."""

_STANDARD = (None, "", "ai.onnx")


@dataclass(frozen=True)
class Grounds:
    """What a node may be judged by beside itself.

    ``apart``: the names of nodes that the user wants left alone. ``computing``: op types that
    become integer, or are listed as declined with a reason.
    """

    record: Record
    apart: Container[str] = ()
    computing: Container[str] = ()


@dataclass(frozen=True)
class Rule:
    """What no node of a kind may be: the end of a sentence, and whether a node is that."""

    fault: str
    is_broken: Callable[[Node, Grounds], bool]


@dataclass(frozen=True)
class Stage:
    """The kinds of nodes that may stand in a graph of this ``name``, with their rules."""

    name: str
    kinds: Mapping[Kind, Sequence[Rule]]


def _is_left_over(node: Node, grounds: Grounds) -> bool:
    is_taken = node.op in TAKEN_AWAY and node.domain in _STANDARD
    return is_taken and node.name not in grounds.record.declined and not _apart(node, grounds)


def _apart(node: Node, grounds: Grounds) -> bool:
    return node.name in grounds.apart


def _is_said_already(node: Node, grounds: Grounds) -> bool:
    known = grounds.record.tensors
    is_edge = node.inputs[0].name in known or node.outputs[0].name in known
    return node.name not in grounds.record.declined and not is_edge


def _has_free_parameters(node: Node, grounds: Grounds) -> bool:
    return node.op in QUANTIZING and node.name not in grounds.record.declined


def _mistypes(node: Node, grounds: Grounds) -> bool:
    if node.name in grounds.record.declined:
        return False  # as the model has it
    reads = node.op == "DequantizeLinear"
    real, stored = (node.outputs if reads else node.inputs)[0], node.inputs[0]
    types = (*SIGNALS, "int32") if reads else SIGNALS
    return not is_float(real) or _type(stored if reads else node.outputs[0]) not in types


def _type(tensor: Tensor) -> str:
    return _text(tensor.dtype)


@cache
def _text(dtype: Any) -> str:
    return str(dtype)


def _dequantizes_what_is_not_stored(node: Node, grounds: Grounds) -> bool:
    stored = node.inputs[0]
    writer = producer(stored)
    is_written = writer is not None and writer.op == "QuantizeLinear"
    is_known = is_written or stored.name in grounds.record.tensors
    is_known |= node.name in grounds.record.declined  # as the model has it
    return node.op == "DequantizeLinear" and constant(stored) is None and not is_known


def _stores_without_meaning(node: Node, grounds: Grounds) -> bool:
    name = node.outputs[0].name
    is_own = node.name in grounds.record.declined
    return node.op == "QuantizeLinear" and name not in grounds.record.tensors and not is_own


def _reads_codes(node: Node, grounds: Grounds) -> bool:
    writers = [producer(tensor) for tensor in node.inputs]
    stores = [each for each in writers if each is not None and each.op == "QuantizeLinear"]
    return any(each.name not in grounds.record.declined for each in stores)


def _is_ours(node: Node, _grounds: Grounds) -> bool:
    return bool(node.domain == DOMAIN)


def _touches_floats(node: Node, _grounds: Grounds) -> bool:
    data = node.inputs if node.domain == DOMAIN or node.op in CLAMPING else moved(node)
    return any(is_float(tensor) for tensor in [*data, *node.outputs])


def _lacks_record(node: Node, grounds: Grounds) -> bool:
    return node.domain == DOMAIN and node.name not in grounds.record.nodes


def _gives_no_signal(node: Node, _grounds: Grounds) -> bool:
    return node.domain == DOMAIN and _type(node.outputs[0]) not in SIGNALS


def _stores_anew(node: Node, grounds: Grounds) -> bool:
    before = producer(node.inputs[0]) if node.op == "QuantizeLinear" else None
    is_direct = before is not None and before.op == "DequantizeLinear"
    is_own = before is not None and before.name in grounds.record.declined
    return is_direct and not is_own and node.name not in grounds.record.declined


def _is_unexplained(node: Node, grounds: Grounds) -> bool:
    is_wanted = node.op in grounds.computing and is_float(node.outputs[0])
    return is_wanted and node.name not in grounds.record.declined and not _apart(node, grounds)


def _is_store(node: Node, _grounds: Grounds) -> bool:
    return bool(node.op == STORE)


def _reckons_with_codes(node: Node, grounds: Grounds) -> bool:
    is_free = node.op in MEASURING | LOCATING | COMPARING
    return not is_free and any(t.name in grounds.record.tensors for t in node.inputs)


_OURS = Rule("is of domain qpasses", _is_ours)
_CODES = Rule("reads stored integers without a DequantizeLinear", _reads_codes)
_FREE = Rule("has a scale or zero point that is not constant", _has_free_parameters)
_TYPES = Rule("does not lead between float and stored integers", _mistypes)

CANONICAL = Stage(
    "canonical float graph",
    {
        Kind.FLOAT: [Rule("stays though prepare takes such nodes away", _is_left_over)],
        Kind.INTEGER: [_OURS],
        Kind.SHAPE: [],
        Kind.EDGE: [Rule("stays though what it says of a tensor is known", _is_said_already)],
    },
)
"""What ``prepare`` gives. Stored integers are the model's own: its images may be uint8."""

PLACED = Stage(
    "Q/DQ graph",
    {
        Kind.FLOAT: [_CODES, _FREE],
        Kind.INTEGER: [_OURS, _CODES],
        Kind.SHAPE: [_CODES],
        Kind.EDGE: [
            _TYPES,
            Rule("reads what no QuantizeLinear stored", _dequantizes_what_is_not_stored),
            Rule("stores what the record has no meaning for", _stores_without_meaning),
        ],
    },
)
"""What ``place`` gives: nodes compute in float, tensors between them are stored."""

INTEGER = Stage(
    "integer graph",
    {
        Kind.INTEGER: [
            Rule("computes with floats", _touches_floats),
            Rule("has no record of its scales", _lacks_record),
            Rule("gives another type than activations are stored in", _gives_no_signal),
        ],
        Kind.EDGE: [
            _TYPES,
            Rule("stores anew what was stored, and nothing says why", _stores_anew),
        ],
        Kind.FLOAT: [
            Rule("stays in float, and nothing says why", _is_unexplained),
            Rule("stays though its tensor is stored", _is_store),
            _FREE,
        ],
        Kind.SHAPE: [Rule("computes sizes or positions of codes", _reckons_with_codes)],
    },
)
"""What the passes of integerize give: integers, Q/DQ at their edge, and what is left."""


def check_stage(stage: Stage, graph: Graph, grounds: Grounds) -> None:
    """Raise ModelError, naming the rule, for a node that has no place in ``stage``."""
    for node in graph.nodes:
        found = kind(node)
        rules = stage.kinds.get(found)
        broken = [each.fault for each in rules or () if each.is_broken(node, grounds)]
        if rules is None:
            broken = [f"has no place: it is {found.value}"]
        if broken:
            raise ModelError(
                f"{stage.name}: {node.op} {node.name!r} {broken[0]}: please report this "
                f"model. Around it:\n{described(neighbours(node))}"
            )
