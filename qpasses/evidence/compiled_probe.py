"""The compiled kernels, if there are any, beside the references: on each node that has one.

A kernel that is registered runs in place of the body. What looks at one code, or at two, is
run on all of them, with the numbers of its node; what looks at rows on rows that are drawn.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from calibration.session import Session
from opsets.either_layout import ATTRIBUTE
from opsets.native import KERNELS
from opsets.op import DOMAIN, Constants
from opsets.qpasses_v1 import OPS
from qpasses.evidence.bodies import BY_CHANNEL, constants_of
from qpasses.evidence.prove_recurrent import sequence
from qpasses.ir.graph import Graph, Node
from qpasses.ir.progress import Progress, no_progress
from qpasses.ir.record import Record
from qpasses.ir.runtime import IR_VERSION, OPSET, opset_imports
from qpasses.ir.stages import RECURRENT

_AT_ONCE = 32
"""So many nodes are in one model."""

_FEW, _MOST = 4, 1 << 16
"""So many rows along an axis, and pairs, are drawn where not all inputs are run."""

_MOST_SLOPES = 1024
"""So many are run on all 256 codes, fewer on 65,536."""

_MOST_WORDS = 1 << 23
"""So many codes of all channels are run, of more some are drawn."""

_ROWS, _COLUMNS = 7, 256
"""Of products of matrices: rows that are drawn, and columns that are looked at."""

_LARGEST = 1 << 26
"""So many cells a picture that is drawn has at most."""

_ON_CODES = frozenset({"IBertGelu", "IntRescale", "Lut", "Lut16", "LutInterpolated"})
_ON_PAIRS = frozenset(
    {"IntAdd", "IntDiv", "IntMul", "IntRescaledAdd", "IntRescaledSub", "IntSub", "LutPair"}
)
_ON_SLOPES = frozenset({"IntCodedPRelu", "IntPRelu"})
_ON_PICTURES = frozenset(
    {
        *("IntAveragePool", "IntCountedAveragePool", "IntGlobalAveragePool", "IntMaxPool"),
        "IntResize",
    }
)


@dataclass
class CompiledProbe:
    """Of ``nodes`` with a kernel, those run on all inputs and those on some; what differs.

    ``not_run``: further nodes, which need pictures that are too large; ``elements``: results
    that were compared; ``wrong``: by node, how many of its are others.
    """

    nodes: int = 0
    not_run: int = 0
    exhaustive: int = 0
    elements: int = 0
    wrong: dict[str, int] = field(default_factory=dict)

    def as_json(self) -> dict[str, int]:
        """``checks.compiled_kernels`` of a report."""
        return {
            "nodes": self.nodes,
            "not_run": self.not_run,
            "exhaustive": self.exhaustive,
            "sampled": self.nodes - self.exhaustive,
            "elements": self.elements,
            "mismatches": sum(self.wrong.values()),
        }


@dataclass(frozen=True)
class _Case:
    """What a node is run on; ``is_all``: on all that there is."""

    node: Node
    inputs: Sequence[NDArray[Any]]
    attributes: Mapping[str, Any]
    is_all: bool


def probe_compiled(
    graph: Graph, record: Record, library: Path, progress: Progress = no_progress
) -> CompiledProbe:
    """Run the kernels of ``library`` on the nodes of ``graph`` that have one."""
    nodes = [each for each in graph.nodes if each.domain == DOMAIN and each.op in KERNELS]
    fitting = [node for node in nodes if not _is_too_large(node)]
    found = CompiledProbe(not_run=len(nodes) - len(fitting))
    starts = range(0, len(fitting), _AT_ONCE)
    advance = progress("probe compiled kernels", len(starts))
    for start in starts:
        cases = [_case(node, record) for node in fitting[start : start + _AT_ONCE]]
        _run(cases, library, found)
        advance()
    return found


def _run(cases: Sequence[_Case], library: Path, found: CompiledProbe) -> None:
    nodes, given, constants, results, feed = [], [], [], [], {}
    for place, case in enumerate(cases):
        op = OPS[case.node.op]
        names = [f"{name}_{place}" for name in op.inputs]
        for formal, name, array in zip(op.inputs, names, case.inputs, strict=True):
            if formal in op.data:
                feed[name] = array
                given.append(_declared(name, array))
            else:
                constants.append(numpy_helper.from_array(np.asarray(array), name))
        ends = [f"{name}_{place}" for name in op.outputs]
        nodes.append(helper.make_node(op.name, names, ends, domain=DOMAIN, **case.attributes))
        expected = op.reference(*case.inputs, **case.attributes)
        arrays = expected if isinstance(expected, tuple) else (expected,)
        results += [(case, name, each) for name, each in zip(ends, arrays, strict=True)]
    outputs = [_declared(name, each) for _, name, each in results]
    made = helper.make_graph(nodes, "kernels", given, outputs, constants)
    model = helper.make_model(made, opset_imports=opset_imports(OPSET), ir_version=IR_VERSION)
    answers = Session(model, threads=1, operators=library).run(None, feed)
    found.nodes += len(cases)
    found.exhaustive += sum(case.is_all for case in cases)
    for (case, _, expected), answer in zip(results, answers, strict=True):
        found.elements += expected.size
        if count := int((np.asarray(answer) != expected).sum()):
            found.wrong[case.node.name] = found.wrong.get(case.node.name, 0) + count


def _declared(name: str, array: NDArray[Any]) -> Any:
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, kind, array.shape)


def _case(node: Node, record: Record) -> _Case:
    """The node with its own constants, on as many inputs as there are, or some."""
    op = OPS[node.op]
    given: Constants = constants_of(node)
    types = [
        np.dtype(record.tensors.get(tensor.name, tensor).dtype)
        for name, tensor in zip(op.inputs, node.inputs, strict=True)
        if name in op.data
    ]
    attributes, rng, is_all = dict(node.attrs), np.random.default_rng(0), True
    if node.op in _ON_PAIRS:
        data, is_all = _pairs(types, rng)
    elif node.op in BY_CHANNEL:
        rows, attributes["axis"] = np.tile(_codes(types[0]), (len(given["tables"]), 1)), 0
        if rows.size > _MOST_WORDS:
            rows, is_all = _drawn(types[0], [len(rows), _MOST_WORDS // len(rows)], rng), False
        data = [rows]
        if record.nodes[node.name].layout:
            data, attributes["axis"] = [np.ascontiguousarray(data[0].T)], 1
    elif node.op in _ON_CODES:
        data = [_codes(types[0])]
    elif node.op in _ON_SLOPES:
        data, is_all = _sloped(types[0], given, rng)
    elif node.op in _ON_PICTURES:
        sizes = _picture_sizes(node)
        if "channels" in attributes:
            attributes["channels"] = sizes[1]
        data, is_all = [_drawn(types[0], sizes, rng)], False
        if record.nodes[node.name].layout:
            data, attributes[ATTRIBUTE] = (
                [np.ascontiguousarray(np.moveaxis(data[0], 1, -1))],
                1,
            )
    elif node.op == "Requantize":
        attributes["axis"], is_all = -1, False
        sums = _drawn(types[0], [256, len(given["multiplier"])], rng)
        data = [sums >> rng.integers(0, 32, sums.shape, np.int32)]
    elif node.op == "IntGemm":
        given, attributes = _some_columns(given, attributes)
        attributes["leading"] = [_ROWS]
        data, is_all = [_drawn(types[0], [_ROWS, len(given["w"])], rng)], False
    elif node.op == "IntMatMul":
        inner, columns = _inner_sizes(node)
        sides = [_ROWS, inner], [inner, columns]
        data = [_drawn(dtype, sizes, rng) for dtype, sizes in zip(types, sides, strict=True)]
        is_all = False
    elif node.op in RECURRENT:
        drawn = sequence(op.data, given, "anywhere", rng)
        data, is_all = [drawn[name] for name in op.data], False
    elif node.op == "IntPad":
        data, is_all = [_drawn(types[0], _padded_sizes(node), rng)], False
    elif "kernel_shape" in attributes:
        x = _drawn(types[0], _window_sizes(node, given), rng)
        if record.nodes[node.name].layout:
            x, attributes[ATTRIBUTE] = np.ascontiguousarray(np.moveaxis(x, 1, -1)), 1
        data, is_all = [x], False
    else:
        data, is_all = [_drawn(types[0], _sizes(node, given), rng)], False
    inputs = dict(given) | dict(zip(op.data, data, strict=True))
    return _Case(node, [inputs[name] for name in op.inputs], attributes, is_all)


def _sloped(
    dtype: np.dtype[Any], given: Constants, rng: np.random.Generator
) -> tuple[list[NDArray[Any]], bool]:
    """All codes beside each slope, or, of slopes that are very many, one."""
    slopes = [value.shape for name, value in given.items() if name.startswith("slope_")]
    shape = np.broadcast_shapes(*slopes)
    codes = _codes(dtype)
    if prod(shape) * codes.size > _MOST_SLOPES * 256:
        return [_drawn(dtype, [_FEW, *shape], rng)], False
    column = codes.reshape(-1, *[1] * len(shape))
    return [np.ascontiguousarray(np.broadcast_to(column, (codes.size, *shape)))], True


def _picture_sizes(node: Node) -> list[int]:
    """Of a picture with few channels; as large as it is, where that is known.

    As its attributes say where they do: what the graph says may be another.
    """
    attributes = node.attrs
    window = attributes.get("kernel_shape") or attributes.get("spatial_shape")
    if window is None:
        window = attributes["x_sizes"][3 - attributes["dims"] :]
    steps = attributes.get("dilations") or [1] * len(window)
    least = [(size - 1) * step + 1 for size, step in zip(window, steps, strict=True)]
    shape = node.inputs[0].shape or [_FEW] * (2 + len(least))
    leading = len(shape) - len(least)
    few = [min(size, _FEW) if isinstance(size, int) else _FEW for size in shape[:leading]]
    if "spatial_shape" in attributes:
        return few + least
    known = zip(shape[leading:], least, strict=True)
    return few + [
        max(size, needed) if isinstance(size, int) else needed for size, needed in known
    ]


def _padded_sizes(node: Node) -> list[int]:
    """Of a tensor with as many codes along each axis as are mirrored."""
    pads = np.reshape(node.attrs["pads"], (2, -1)).max(axis=0).tolist()
    return [max(size + 1, _FEW) for size in pads]


def _some_columns(
    given: Constants, attributes: Mapping[str, Any]
) -> tuple[Constants, dict[str, Any]]:
    """The first columns of weights, with all that is of them."""
    found = dict(given) | {"w": given["w"][:, :_COLUMNS], "bias": given["bias"][:_COLUMNS]}
    for name in ("multiplier", "shift"):
        found[name] = given[name][:_COLUMNS]
    rests = attributes.get("bias_rests")
    some = {} if rests is None else {"bias_rests": rests[:_COLUMNS]}
    return found, {**attributes, **some}


def _inner_sizes(node: Node) -> tuple[int, int]:
    """How many products a sum has, and how many columns there are, where that is known."""
    shape = node.inputs[2].shape or [_FEW, _FEW]
    inner, columns = (size if isinstance(size, int) else _FEW for size in shape[-2:])
    return inner, min(columns, _COLUMNS)


def _is_too_large(node: Node) -> bool:
    """Whether only a picture of more than _LARGEST cells has room for its window."""
    if node.op in _ON_PICTURES:
        return prod(_picture_sizes(node)) > _LARGEST
    is_window = "kernel_shape" in node.attrs and "w" in OPS[node.op].inputs
    return is_window and prod(_window_sizes(node, constants_of(node))) > _LARGEST


def _window_sizes(node: Node, given: Constants) -> list[int]:
    """Of a picture that windows have two places on along each axis, or one if it is small."""
    cells, axes = node.attrs["kernel_shape"], len(node.attrs["kernel_shape"])
    steps = node.attrs.get("strides") or [1] * axes
    gaps = node.attrs.get("dilations") or [1] * axes
    channels = given["w"].shape[1] * node.attrs.get("group", 1)
    reach = [(cell - 1) * gap + 1 for cell, gap in zip(cells, gaps, strict=True)]
    known = (node.inputs[0].shape or [None] * (2 + axes))[2:]
    sizes = [
        max(size, min(size + step, most)) if isinstance(most, int) else size + step
        for size, step, most in zip(reach, steps, known, strict=True)
    ]
    return [1, channels, *sizes]


def _codes(dtype: np.dtype[Any]) -> NDArray[Any]:
    limits = np.iinfo(dtype)
    return np.arange(limits.min, limits.max + 1).astype(dtype)


def _pairs(
    types: Sequence[np.dtype[Any]], rng: np.random.Generator
) -> tuple[list[NDArray[Any]], bool]:
    """All pairs of codes of 8 bits; of words some."""
    if all(each.itemsize == 1 for each in types):
        first, second = (np.ravel(each) for each in np.indices((256, 256)))
        sides = zip(types, (first, second), strict=True)
        return [_codes(dtype)[side] for dtype, side in sides], True
    return [_drawn(dtype, [_MOST], rng) for dtype in types], False


def _drawn(
    dtype: np.dtype[Any], sizes: Sequence[int], rng: np.random.Generator
) -> NDArray[Any]:
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, sizes, dtype, endpoint=True)


def _sizes(node: Node, given: Constants) -> list[int]:
    """Whole rows, and of them few, where nothing is of each of them."""
    sizes = [
        size if isinstance(size, int) and size > 0 else _FEW
        for size in node.inputs[0].shape or [_FEW] * 4
    ]
    rank = len(sizes)
    axis = node.attrs.get("axis", -1)
    rows = range(rank + axis, rank) if node.op == "IntLayerNorm" else [axis % rank]
    kept = [each % rank for each in node.attrs.get("axes", rows)]
    for place in set(range(rank)) - {*kept}:
        ends = [
            each.shape[place - rank] for each in given.values() if each.ndim >= rank - place
        ]
        if all(size == 1 for size in ends):
            sizes[place] = min(sizes[place], _FEW)
    return sizes
