"""Reading an emitted integer model: its graph, its record, and whether they are whole."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import prod
from typing import Any

import onnx

from opsets import activations
from opsets.declaration import OF_ENDS, Constants, Scaling
from opsets.errors import ModelError
from opsets.faults import faults, impossible_shift
from opsets.op import DOMAIN, VERSION, Op
from opsets.qpasses_v1 import OPS
from qpasses.evidence.bodies import body_of, constants_of
from qpasses.evidence.prove import PROOFS
from qpasses.ir.function import Function
from qpasses.ir.graph import Graph, Node, Tensor, constant, input_at
from qpasses.ir.interchange import import_graph
from qpasses.ir.metadata import PREFIX, read_record
from qpasses.ir.model_nodes import nested_graphs, nodes_of
from qpasses.ir.record import NodeRecord, Record, scales_of
from qpasses.ir.settings import Settings
from qpasses.ir.splicing import spliced
from qpasses.load.restore_order import restore_order


@dataclass(frozen=True)
class IntegerModel:
    """An emitted model with its graph, its record, the settings it was made with.

    ``about`` holds all that the model says of itself; ``unlike``: what is wrong with the
    record of tensors that only lie otherwise, which the graph is without.
    """

    model: onnx.ModelProto
    graph: Graph
    record: Record
    settings: Settings
    about: dict[str, Any]
    unlike: Sequence[str] = ()


def read_integer_model(model: onnx.ModelProto, name: str) -> IntegerModel:
    """``model``, called ``name`` in messages, with everything that its record must hold.

    Raises ModelError if it is no integer model of this tool, or its record is damaged.
    """
    try:
        record, about = read_record(spliced(model))
        unlike: Sequence[str] = ()
        graph = _imported(model)
        problem = _unrecorded(about) or _other_version(model) or _without(graph, record)
        if not problem:
            unlike = restore_order(graph, record)
            problem = _problem(graph, record)
        if problem:
            raise ModelError(
                "not an integer model of this tool, or its metadata was stripped: " + problem
            )
        if unfinished := _unfinished(about["configuration"]):
            raise ModelError(unfinished)
        settings = Settings.from_json(about["configuration"])
    except ModelError as error:
        raise ModelError(f"{name}: {error}") from error
    return IntegerModel(model, graph, record, settings, about, unlike)


def claims_integers(model: onnx.ModelProto) -> bool:
    """Whether this tool made ``model`` and what it stores integers for is known to it alone.

    Its record may be damaged or gone; what ``--emit qdq`` writes is any tool's.
    """
    if any(node.domain == DOMAIN for node in nodes_of(model)):
        return True
    entries = {each.key: each.value for each in model.metadata_props}
    try:
        made = json.loads(entries.get(f"{PREFIX}configuration", "null"))
    except ValueError:
        return True
    return made is not None and not (isinstance(made, dict) and made.get("emit") == "qdq")


def _imported(model: onnx.ModelProto) -> Graph:
    """The graph. Raises ModelError for parts that ONNX's checker lets pass."""
    graphs = list(nested_graphs(model.graph))
    for node in (node for graph in graphs for node in graph.node):
        names = [each.name for each in node.attribute]
        if len(set(names)) < len(names) or any(each.ref_attr_name for each in node.attribute):
            raise ModelError(f"node {node.name!r} is damaged: its attributes")
    for function in model.functions:
        inside = onnx.GraphProto(node=function.node)
        for node in (node for graph in nested_graphs(inside) for node in graph.node):
            counts = [each.i for each in node.attribute if each.name == "num_outputs"]
            if any(count != len(node.output) for count in counts):  # onnxruntime aborts
                raise ModelError(
                    f"function {function.name!r}, overload {function.overload!r} is damaged: "
                    f"a {node.op_type} has other outputs than it splits into"
                )
    try:
        return import_graph(model)
    except (LookupError, TypeError, ValueError) as error:  # types and texts that are none
        raise ModelError(f"the graph is damaged: {error}") from error


def _unrecorded(about: dict[str, Any]) -> str:
    """What the model does not say of itself."""
    if not {"float_sha256", "configuration", "version"} <= about.keys():
        return "there is no record (are the two models swapped?)"
    if not all(isinstance(about[name], str) for name in ("float_sha256", "version")):
        return "what it was made from and with are no texts"
    if unlike := sorted(about["configuration"].keys() ^ _CONFIGURED):
        return f"its configuration lacks, or should not have, {', '.join(unlike)}"
    if any(not isinstance(about.get(name, {}), dict) for name in _BY_NAME):
        return f"{', '.join(_BY_NAME)} are not by name"
    return ""


def _without(graph: Graph, record: Record) -> str:
    """The first node that the record says nothing of."""
    nodes = [each.name for each in graph.nodes if each.domain == DOMAIN]
    missing = [name for name in nodes if name not in record.nodes]
    return f"node {missing[0]!r} has no record" if missing else ""


def _problem(graph: Graph, record: Record) -> str:
    if damaged := _damaged_lists(record):
        return damaged
    nodes = [node for node in graph.nodes if node.domain == DOMAIN]
    for node in graph.nodes:
        if node.op == "Split" and _parts(node) != len(node.outputs):  # onnxruntime aborts
            return f"node {node.name!r} has other outputs than it splits into"
        if node.name in record.nodes and not all(map(_is_plain, node.attrs.values())):
            return f"the attributes of node {node.name!r} are no numbers and texts"
    return next(filter(None, (_node_problem(node, record) for node in nodes)), "")


def _damaged_lists(record: Record) -> str:
    """What is wrong with the lists of channels and of tensors, which reports show."""
    for name, channels in record.raised_weight_scales.items():
        if not isinstance(channels, list) or not all(type(each) is int for each in channels):
            return f"raised_weight_scales of {name!r} are no channels"
    if not isinstance(record.kept, list) or not all(isinstance(n, str) for n in record.kept):
        return "kept are no names of tensors"
    if not isinstance(record.states, list) or not all(map(_are_places, record.states)):
        return "states are no places of inputs and outputs"
    return ""


def _are_places(pair: Any) -> bool:
    is_pair = isinstance(pair, list) and len(pair) == 2
    return is_pair and all(type(place) is int and place >= 0 for place in pair)


def _parts(node: Node) -> object:
    """Into how many parts a Split says that it splits."""
    sizes = constant(input_at(node, 1))
    stated = node.attrs.get("num_outputs", len(node.outputs))
    return stated if sizes is None else sizes.size


def _is_plain(value: Any) -> bool:
    values = value if isinstance(value, list) else [value]
    return all(isinstance(each, int | float | str) for each in values)


def _other_version(model: onnx.ModelProto) -> str:
    versions = {each.domain: each.version for each in model.opset_import}
    if versions.get(DOMAIN, VERSION) == VERSION:
        return ""
    return f"it imports version {versions[DOMAIN]} of domain {DOMAIN}, this is {VERSION}"


def _unfinished(configuration: dict[str, Any]) -> str:
    emitted, stopped = configuration.get("emit", "integer"), configuration.get("stop_after")
    if emitted != "integer":
        return (
            f"written with --emit {emitted}, which keeps no nodes to check: use what --emit "
            "integer writes with the same options"
        )
    return f"written with --stop-after {stopped}, so unfinished" if stopped else ""


def _node_problem(node: Node, record: Record) -> str:
    if node.op not in PROOFS:
        return f"unknown op {node.op} in node {node.name!r}"
    op, entry = OPS[node.op], record.nodes[node.name]
    ends = len(node.inputs), len(node.outputs)
    if ends != (len(op.inputs), len(op.outputs)) or _is_unlike(node, op):
        return f"node {node.name!r} has not the inputs and attributes of {node.op}"
    if wrong := impossible_shift(op, constants_of(node), node.attrs):
        shift, shifts = wrong
        return (
            f"node {node.name!r} shifts by {shift}: shifts are {shifts.start} to "
            f"{shifts.stop - 1}"
        )
    if problem := _of_other_type(node, record):
        return f"node {node.name!r} ({node.op}) {problem}"
    if not _has_function(op, entry):
        return f"the record of node {node.name!r} is damaged: its function"
    if not _has_scales(node, entry, record):
        return f"the record of node {node.name!r} is damaged: its scales are not {node.op}'s"
    try:
        body_of(node, record)
    except LookupError:
        return f"node {node.name!r} has no known body, {entry.overload!r}"
    return ""


def _has_function(op: Op, entry: NodeRecord) -> bool:
    """Whether the record names functions of as many inputs as the op has, or none."""
    try:
        if op.scaling is Scaling.RECURRENT:
            tables = [name for name in op.inputs if name.endswith("_table")]
            return len(activations.read(entry.function)) == len(tables)
        inputs = len(Function.from_text(entry.function).model.graph.input)
    except ValueError:
        return False
    return inputs in (0, len(op.data) if op.scaling is Scaling.TABLE else 1)


def _is_unlike(node: Node, op: Op) -> bool:
    """Whether some constant or attribute of a node is not as its op declares it."""
    return any(faults(op, constants_of(node), node.attrs, node.inputs[0].shape))


def _of_other_type(node: Node, record: Record) -> str:
    """A tensor of 16 bits that a node reads or writes where it takes 8 alone, or of 8."""
    op = OPS[node.op]
    declared = [*op.inputs.values(), *op.outputs.values()]
    for each, tensor in zip(declared, [*node.inputs, *node.outputs], strict=True):
        stored = record.tensors.get(tensor.name)
        if stored is None or stored.dtype in each.types:
            continue
        if each.type == "T":
            return f"takes no 16 bits, which {tensor.name!r} has"
        if each.type == "int16":
            return f"takes 16 bits, which {tensor.name!r} has not"
    return ""


def _has_slopes(given: Constants, entry: NodeRecord) -> bool:
    """Whether the record has a slope for each of the codes, multipliers and shifts below zero.

    Where slopes have codes, what else they have may be one number for all of them.
    """
    function = Function.from_text(entry.function)
    shapes = {value.shape for name, value in given.items() if name.startswith("slope_")}
    if "slope_codes" in given and len(shapes) > 1:
        shapes -= {()}
    sizes = {prod(shape) for shape in shapes}
    wanted = {max(function.channels, 1)}
    return function.ops in (["LeakyRelu"], ["PRelu"]) and len(shapes) == 1 and sizes == wanted


def _has_scales(node: Node, entry: NodeRecord, record: Record) -> bool:
    """Whether the record says what the multipliers or the table of a node stand for."""
    op, given = OPS[node.op], constants_of(node)
    counts = {name: len(scales) for name, scales in entry.scales.items()}
    if op.scaling is Scaling.RECURRENT:
        rows = given["r"].shape[1]
        is_stored = all(each.name in record.tensors for each in node.outputs)
        steps = 2 if "reset_multiplier" in op.inputs else 1
        return is_stored and counts == {"x": 1, "w": rows, "r": rows, "y": 1, "gates": steps}
    ends = zip((*op.data, *op.outputs), _data_of(node, op), strict=True)
    stored = {name: tensor for name, tensor in ends if _holds_codes(op, name)}
    names, around = [*stored], [*stored.values()]
    wanted = [_scales_of(tensor, record) for tensor in around]
    if [counts.get(name) for name in names] != wanted:
        return False
    if op.scaling in OF_ENDS:
        return {tensor.name for tensor in around} <= record.tensors.keys()
    if op.scaling is Scaling.SLOPES and not _has_slopes(given, entry):
        return False
    sizes = {name: value.size for name, value in given.items()}
    channels = sizes.get("bias", 1)
    if any(channels % count for count in wanted):
        return False
    return (
        counts.get("factor", 1) == 1
        and counts.get("w", 1) in (1, channels)
        and {sizes.get("multiplier", 1), sizes.get("shift", 1)} <= {1, channels}
    )


def _data_of(node: Node, op: Op) -> list[Tensor]:
    """The tensors that flow in and out."""
    return [*node.inputs[: len(op.data)], *node.outputs]


def _holds_codes(op: Op, name: str) -> bool:
    """Whether an end holds stored integers: no condition, no whole numbers."""
    return name not in op.inputs or op.inputs[name].holds_codes


def _scales_of(tensor: Tensor, record: Record) -> int:
    """How many a stored tensor has."""
    stored = record.tensors.get(tensor.name)
    return 1 if stored is None else len(scales_of(stored))


_BY_NAME = ("declined", "raised_weight_scales", "inputs", "outputs")
"""What a model says of its parts, each an object of JSON."""

_CONFIGURED = frozenset(each.name for each in fields(Settings)) | {
    *("calibration_table", "preprocessing", "random_data", "samples", "stop_after"),
}
"""What the configuration of every model says."""
