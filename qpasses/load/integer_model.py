"""Reading an emitted integer model: its graph, its record, and whether they are whole."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import prod
from typing import Any

import onnx
from numpy.typing import NDArray

from opsets.errors import ModelError
from opsets.fixed_point import LARGEST_SHIFT, ROUNDINGS
from opsets.forms import LEFT_SHIFTS
from opsets.op import DOMAIN, VERSION, Op
from opsets.portable import portable_overload
from opsets.qpasses_v1 import OPS
from opsets.qpasses_v1.int_log_softmax import OCTAVES, PIECES
from opsets.rounding import NODE_ROUNDINGS, node_shifts
from qpasses.evidence.bodies import body_of
from qpasses.evidence.prove import PROOFS
from qpasses.ir.function import Function
from qpasses.ir.graph import (
    Graph,
    Node,
    constant,
    import_graph,
    input_at,
    nested_graphs,
    rank,
)
from qpasses.ir.metadata import read_record
from qpasses.ir.record import BYTES, SIGNALS, NodeRecord, Record
from qpasses.ir.settings import Settings
from qpasses.ir.shapes import keeps_shape
from qpasses.ir.stages import SLOPED


@dataclass(frozen=True)
class IntegerModel:
    """An emitted model with its graph, its record, the settings it was made with.

    ``about`` holds all that the model says of itself.
    """

    model: onnx.ModelProto
    graph: Graph
    record: Record
    settings: Settings
    about: dict[str, Any]


def read_integer_model(model: onnx.ModelProto, name: str) -> IntegerModel:
    """``model``, called ``name`` in messages, with everything that its record must hold.

    Raises ModelError if it is no integer model of this tool, or its record is damaged.
    """
    try:
        record, about = read_record(model)
        graph = _imported(model)
        problem = _problem(graph, record, about) or _other_version(model)
        if problem:
            raise ModelError(
                "not an integer model of this tool, or its metadata was stripped: " + problem
            )
        if unfinished := _unfinished(about["configuration"]):
            raise ModelError(unfinished)
        settings = Settings.from_json(about["configuration"])
    except ModelError as error:
        raise ModelError(f"{name}: {error}") from error
    return IntegerModel(model, graph, record, settings, about)


def _imported(model: onnx.ModelProto) -> Graph:
    """The graph. Raises ModelError for parts that ONNX's checker lets pass."""
    graphs = list(nested_graphs(model.graph))
    for node in (node for graph in graphs for node in graph.node):
        names = [each.name for each in node.attribute]
        if len(set(names)) < len(names) or any(each.ref_attr_name for each in node.attribute):
            raise ModelError(f"node {node.name!r} is damaged: its attributes")
    try:
        return import_graph(model)
    except (LookupError, TypeError, ValueError) as error:  # types and texts that are none
        raise ModelError(f"the graph is damaged: {error}") from error


def _problem(graph: Graph, record: Record, about: dict[str, Any]) -> str:
    if not {"float_sha256", "configuration", "version"} <= about.keys():
        return "there is no record (are the two models swapped?)"
    if not all(isinstance(about[name], str) for name in ("float_sha256", "version")):
        return "what it was made from and with are no texts"
    if unlike := sorted(about["configuration"].keys() ^ _CONFIGURED):
        return f"its configuration lacks, or should not have, {', '.join(unlike)}"
    if any(not isinstance(about.get(name, {}), dict) for name in _BY_NAME):
        return f"{', '.join(_BY_NAME)} are not by name"
    nodes = [node for node in graph.nodes if node.domain == DOMAIN]
    for node in graph.nodes:
        if node.op == "Split" and _parts(node) != len(node.outputs):  # onnxruntime aborts
            return f"node {node.name!r} has other outputs than it splits into"
        if node.name in record.nodes and not all(map(_is_plain, node.attrs.values())):
            return f"the attributes of node {node.name!r} are no numbers and texts"
    return next(filter(None, (_node_problem(node, record) for node in nodes)), "")


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
    entry = record.nodes.get(node.name)
    if node.op not in PROOFS:
        return f"unknown op {node.op} in node {node.name!r}"
    if not _is_well_formed(node):
        return f"node {node.name!r} has not the inputs and attributes of {node.op}"
    if problem := _impossible_shift(node):
        return problem
    if entry is None:
        return f"node {node.name!r} has no record"
    if wide := _too_wide(node, record):
        return f"node {node.name!r} ({node.op}) takes no 16 bits, which {wide!r} has"
    try:
        inputs = len(Function.from_text(entry.function).model.graph.input)
    except ValueError:
        inputs = -1
    if inputs not in (0, 2 if node.op == "LutPair" else 1):
        return f"the record of node {node.name!r} is damaged: its function"
    if not _has_scales(node, entry, record):
        return f"the record of node {node.name!r} is damaged: its scales are not {node.op}'s"
    try:
        body_of(node, record)
    except LookupError:
        return f"node {node.name!r} has no known body, {entry.overload!r}"
    return ""


def _too_wide(node: Node, record: Record) -> str:
    """A tensor of more than 8 bits that a node reads or writes where it takes no more."""
    op = OPS[node.op]
    ends = [*zip(op.inputs.values(), node.inputs, strict=True)]
    ends += zip(op.outputs.values(), node.outputs, strict=True)
    for kind, tensor in ends:
        stored = record.tensors.get(tensor.name)
        if kind == "T" and stored is not None and stored.dtype not in BYTES:
            return str(tensor.name)
    return ""


def _is_well_formed(node: Node) -> bool:
    """Whether a qpasses node has every attribute, and constants of the right form."""
    op = OPS[node.op]
    if not all(_is_attribute(name, value) for name, value in node.attrs.items()):
        return False
    needed = set(op.attributes) - {"auto_pad", "pads"}
    if len(node.inputs) != len(op.inputs) or not needed <= node.attrs.keys():
        return False
    if node.attrs.get("rounding", "half_to_even") not in _roundings(op):
        return False
    if node.attrs.get("inner", 0) < 0 or not _has_axes(node) or not _has_windows(node):
        return False
    pairs = zip(op.inputs.items(), node.inputs, strict=True)
    given = {name: (kind, constant(t)) for (name, kind), t in pairs if name not in _DATA}
    stored = {str(getattr(v, "dtype", "")) for kind, v in given.values() if kind == "T"}
    return len(stored) <= 1 and all(
        value is not None and value.dtype.name in _TYPES[kind] and _has_rank(name, value, node)
        for name, (kind, value) in given.items()
    )


_TEXTS = ("rounding", "auto_pad")
_LISTS = (
    *("axes", "dilations", "kernel_shape", "leading", "pads", "spatial_shape", "strides"),
    *("uncounted_pads", "x_sizes", "y_sizes"),
)


_SIGNED = ("axis", "x0", "b", "c", "one")


def _is_attribute(name: str, value: Any) -> bool:
    """Whether it is a text, a list of numbers or a number, as its name wants, none large."""
    if name in _TEXTS:
        return isinstance(value, str)
    is_listed, numbers = name in _LISTS, value if isinstance(value, list) else [value]
    lowest = -_MANY if is_listed or name in _SIGNED else 0
    fits = all(type(n) is int and lowest <= n < _MANY for n in numbers)
    return fits and isinstance(value, list) == is_listed


def _has_axes(node: Node) -> bool:
    """Whether the axes are those of the tensor; a Softmax subtracts its codes."""
    dims = rank(node.inputs[0])
    last = _LARGEST_RANK if dims is None else dims
    if node.op == "LutPerChannel":
        return bool(0 <= node.attrs["axis"] < last)
    if node.op == "IntLayerNorm":
        return _has_rows(node, last)
    if node.op in PUBLISHED:
        return _has_published(node, last)
    if node.op == "TableSoftmax":
        return bool(-last <= node.attrs["axis"] < 0 and node.attrs["published"] == 0)
    if node.op == "IntLogSoftmax":
        return bool(-last <= node.attrs["axis"] < 0 < node.attrs["fraction_bits"] < 32)
    if node.op != "IntReduce":
        return True
    axes = node.attrs["axes"]
    in_order = axes == sorted(set(axes)) and axes != []
    return in_order and all(-last <= axis < 0 for axis in axes)


def _has_rows(node: Node, last: int) -> bool:
    """Whether factors broadcast to x and to rows of its size, and bits are of int64."""
    attributes, multiplier = node.attrs, constant(node.inputs[2])
    axis, cells = attributes["axis"], attributes["cells"]
    root, factor, norm = (attributes[f"{name}_bits"] for name in ("root", "factor", "norm"))
    if multiplier is None or not -last <= axis < 0 or multiplier.ndim < -axis:
        return False
    epsilon = constant(node.inputs[list(OPS[node.op].inputs).index("epsilon")])
    if epsilon is None or epsilon.size != 1 or not 0 <= epsilon.item() < 1 << 62:
        return False
    shape, places = node.inputs[0].shape, multiplier.shape[axis:]
    known = [] if shape is None else [n for n in shape[axis:] if isinstance(n, int)]
    is_row = multiplier.size > 0 and cells % prod(places) == 0
    is_row = is_row and (1 in places or prod(places) == cells)
    if shape is not None:
        is_row &= keeps_shape(shape, multiplier)
        is_row &= len(known) < -axis or prod(known) == cells
    in_range = attributes["centered"] in (0, 1) and root < 32 and factor < 63
    return is_row and 0 < cells < _MANY and in_range and 0 < norm < factor - root


_OF_ROWS = ("TableSoftmax", "IntLogSoftmax", "IntLayerNorm")

PUBLISHED = ("Shiftmax", "ShiftGelu", "IBertSoftmax", "IBertGelu", "ILayerNorm")
"""Ops whose row and attributes are those of an algorithm of I-ViT or I-BERT."""


def _has_published(node: Node, last: int) -> bool:
    """Whether axis, bits and polynomial are such as no step of 64 bits overflows."""
    given, shape = node.attrs, node.inputs[0].shape
    if node.op == "ILayerNorm":
        cells = given["cells"]
        known = None if shape is None or not shape else shape[-1]
        return 0 < cells < _MANY // 255**2 and (
            known in (None, cells) or isinstance(known, str)
        )
    bits = given["fraction_bits"], given.get("output_bits", 8)
    if not (0 < bits[0] < 31 and 0 < bits[1] <= 16 and -last <= given.get("axis", -1) < 0):
        return False
    if "x0" in given and not -(1 << 20) < given["x0"] < 0:
        return False
    if node.op == "IBertSoftmax":
        return bool(0 < given["c"] < 1 << 30 and 0 <= given["b"] < 1 << 20)
    return node.op != "IBertGelu" or bool(given["b"] < 0 and -_MANY < given["c"] < 0)


def _has_windows(node: Node) -> bool:
    """Whether sizes are of as many axes as there are, and none is below one."""
    attributes = node.attrs
    sizes = [attributes[name] for name in _SIZES if name in attributes]
    pads = [attributes[name] for name in ("pads", "uncounted_pads") if name in attributes]
    dims = {len(each) for each in sizes} | {len(each) / 2 for each in pads}
    wanted = 3 if node.op == "IntResize" else max(dims, default=0)
    is_positive = all(n > 0 for each in sizes for n in each)
    cells = [prod(attributes.get(name, [])) for name in ("kernel_shape", "spatial_shape")]
    if max(cells) > _MOST_CELLS:
        return False
    return is_positive and dims <= {wanted} and all(n >= 0 for each in pads for n in each)


_SIZES = ("dilations", "kernel_shape", "spatial_shape", "strides", "x_sizes", "y_sizes")

_LARGEST_RANK, _MANY = 64, 1 << 31

_MOST_CELLS = _MANY // 255
"""The sum of more codes leaves int32."""


def _roundings(op: Op) -> Sequence[str]:
    """How nodes of ``op`` may round: twice where it has bodies for that."""
    if op.name == "IntCodedPRelu" or op.name.startswith("IntRescaled"):
        return (*NODE_ROUNDINGS, "half_to_even_in_double")
    overloads = {body.overload for body in op.bodies}
    return NODE_ROUNDINGS if portable_overload("ruy") in overloads else ROUNDINGS


def _impossible_shift(node: Node) -> str:
    """What is wrong with a shift that no multiplier comes with: 2**shift might fill memory."""
    rounding = node.attrs.get("rounding", "half_to_even")
    usual = (
        node_shifts(rounding) if rounding in NODE_ROUNDINGS else range(1, LARGEST_SHIFT + 1)
    )
    for name, tensor in zip(OPS[node.op].inputs, node.inputs, strict=True):
        values = constant(tensor)
        shifts = range(max(LEFT_SHIFTS.values()) + 1) if name == "left_shift" else usual
        if name.endswith("shift") and values is not None:
            wrong = values[(values < shifts.start) | (values >= shifts.stop)].ravel()
            if len(wrong):
                return (
                    f"node {node.name!r} shifts by {wrong[0]}: shifts are {shifts.start} to "
                    f"{shifts.stop - 1}"
                )
    return ""


_BY_NAME = ("declined", "raised_weight_scales", "inputs", "outputs")
"""What a model says of its parts, each an object of JSON."""

_CONFIGURED = frozenset(each.name for each in fields(Settings)) | {
    *("calibration_table", "preprocessing", "random_data", "samples", "stop_after"),
}
"""What the configuration of every model says."""

_DATA = ("x", "a", "b", "acc")
_TYPES = {
    "T": BYTES,
    "S": SIGNALS,
    "T[256]": BYTES,
    "T[C, 256]": BYTES,
    "T[65536]": BYTES,
    "W": BYTES,
    "int32": ("int32",),
    "int32[256]": ("int32",),
    "int64": ("int64",),
    "int64[256]": ("int64",),
    "int64[257]": ("int64",),
    "int64[41]": ("int64",),
}


_TABLES = {
    **{"denominators": 256, "numerators": 256, "distances": 256},
    **{"octaves": OCTAVES, "logarithms": PIECES + 1},
}
"""Entries of the tables of Softmax and LogSoftmax."""

_SCALAR_SCALED = (
    *("IntAdd", "IntCodedPRelu", "IntCountedAveragePool", "IntMul", "IntPRelu", "IntReduce"),
    *("IntRescale", "IntSub", "IntLayerNorm", "Shiftmax", "ShiftGelu"),
    *("IBertSoftmax", "IBertGelu"),
)
"""Ops with one multiplier for everything, a number."""


def _has_rank(name: str, value: NDArray[Any], node: Node) -> bool:
    """Weights of their rank, a table of 256 entries, else one number or one per channel."""
    if name == "w":
        return value.ndim == 2 if node.op == "IntGemm" else value.ndim > 2
    if name == "table":
        return value.shape == ((65536,) if node.op == "LutPair" else (256,))
    if name in _TABLES:
        return value.shape == (_TABLES[name],)
    if name in ("indices", "coefficients"):
        return value.shape == (2, sum(node.attrs["y_sizes"]))
    if name in ("slope_codes", "slope_multiplier", "slope_shift"):
        shape = node.inputs[0].shape
        return shape is None or keeps_shape(shape, value)
    if name == "tables":
        return value.ndim == 2 and value.shape[1] == 256
    if node.op == "IntLayerNorm" and name in ("multiplier", "bias"):
        factors = constant(node.inputs[2])
        return factors is not None and value.shape == factors.shape
    if node.op == "ILayerNorm" and name in ("bias", "multiplier", "shift"):
        return value.shape == (node.attrs["cells"],)
    if name == "bias":
        weights = constant(node.inputs[2])
        channels = weights.shape[node.op == "IntGemm"] if weights is not None else 0
        return value.shape == (channels,)
    scaled = name in ("multiplier", "shift") and node.op not in _SCALAR_SCALED
    return value.ndim == (1 if scaled else 0)


def _has_slopes(node: Node, entry: NodeRecord) -> bool:
    """Whether the record has a slope for each of the codes, multipliers and shifts below zero.

    Of an IntCodedPRelu some of these may be one number for all slopes.
    """
    function = Function.from_text(entry.function)
    pairs = zip(OPS[node.op].inputs, node.inputs, strict=True)
    below = [constant(tensor) for name, tensor in pairs if name.startswith("slope")]
    shapes = {value.shape for value in below if value is not None}
    if node.op == "IntCodedPRelu" and len(shapes) > 1:
        shapes -= {()}
    sizes = {prod(shape) for shape in shapes}
    wanted = {max(function.channels, 1)}
    return function.ops in (["LeakyRelu"], ["PRelu"]) and len(shapes) == 1 and sizes == wanted


def _has_scales(node: Node, entry: NodeRecord, record: Record) -> bool:
    """Whether the record says what the multipliers or the table of a node stand for."""
    counts = {name: len(scales) for name, scales in entry.scales.items()}
    single = ("a", "b", "y") if "a" in OPS[node.op].inputs else ("x", "y")
    if node.op == "LutPair":
        around = {tensor.name for tensor in [*node.inputs[:2], *node.outputs]}
        return around <= record.tensors.keys() and all(counts.get(n) == 1 for n in single)
    if node.op in ("Lut", "LutPerChannel", *_OF_ROWS, *PUBLISHED):
        known = {node.inputs[0].name, node.outputs[0].name} <= record.tensors.keys()
        return known and counts.get("x") == counts.get("y") == 1
    if node.op in SLOPED and not _has_slopes(node, entry):
        return False
    pairs = zip(OPS[node.op].inputs, node.inputs, strict=True)
    sizes = {name: value.size for name, t in pairs if (value := constant(t)) is not None}
    channels = sizes.get("bias", 1)
    return (
        all(counts.get(name) == 1 for name in single)
        and counts.get("factor", 1) == 1
        and counts.get("w", 1) in (1, channels)
        and {sizes.get("multiplier", 1), sizes.get("shift", 1)} <= {1, channels}
    )
