"""The kernel probe: onnxruntime's real kernels on this machine, at the places that matter."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.declaration import Probe
from opsets.either_layout import ATTRIBUTE, LAYOUTS, split
from opsets.fixed_point import saturate
from opsets.op import DOMAIN, Body, Constants
from opsets.qpasses_v1 import OPS
from opsets.rounding import requantize
from opsets.word_products import has_words
from qpasses.evidence.bodies import body_of, constants_of
from qpasses.evidence.prove import accumulator_interval, rests_of
from qpasses.evidence.prove_word_sums import some_steps
from qpasses.evidence.prove_words import operands_of, spread
from qpasses.evidence.thresholds import meaning_thresholds
from qpasses.ir.graph import Graph, Node
from qpasses.ir.record import NodeRecord, Record
from qpasses.ir.runtime import OPSET, run_op

_CHUNK = 1 << 16
"""So many accumulators are probed in one run."""

_INT32 = -(1 << 31), (1 << 31) - 1

_CELLS = 1 << 22
"""So many cells of windows are, at most."""


def probe_kernels(graph: Graph, record: Record) -> dict[str, tuple[int, int]]:
    """Per node that declares a probe: (accumulators probed, results unlike the meaning).

    Each node's body runs in onnxruntime, optimized and not, at every reachable threshold and
    its predecessor, which its probe brings to the kernel. Not those of words, whose evidence
    runs them.
    """
    return {
        node.name: _probed(node, record.nodes[node.name])
        for node in graph.nodes
        if node.domain == DOMAIN and OPS[node.op].probe is not None and not _of_words(node)
    }


def _of_words(node: Node) -> bool:
    return has_words(constants_of(node), node.attrs)


def _probed(node: Node, entry: NodeRecord) -> tuple[int, int]:
    return probe_node(node, constants_of(node), entry.overload, entry.layout)


def probe_node(
    node: Node, given: Constants, overload: str, layout: str = ""
) -> tuple[int, int]:
    """(accumulators probed, results that differ from the meaning) of one node.

    ``layout``: that of the body that runs.
    """
    op = OPS[node.op]
    body = op.laid(op.overload(overload), layout)
    reachable = accumulator_interval(node, given)
    channels = len(reachable.low)
    multiplier, shift = (
        np.broadcast_to(given[name].astype(np.int64), (channels,))
        for name in ("multiplier", "shift")
    )
    rounding, rest = node.attrs["rounding"], rests_of(node)
    thresholds = meaning_thresholds(multiplier, shift, some_steps(given), rounding, rest)
    points = np.concatenate([thresholds, thresholds - 1], axis=1)
    points = np.clip(points, reachable.low[:, None], reachable.high[:, None])
    points = np.clip(points, *_INT32)  # those of words go beyond, and come as biases
    columns = [points.astype(np.int32).ravel()]
    numbers = [multiplier, shift] if rest is None else [multiplier, shift, rest]
    columns += [np.repeat(v.astype(np.int32), points.shape[1]) for v in numbers]
    wrong = 0
    for start in range(0, columns[0].size, _CHUNK):
        part = [column[start : start + _CHUNK] for column in columns]
        acc, m, s, *rests = part
        level = requantize(acc, m, s, rounding, rests[0] if rests else None)
        expected = saturate(level, given["y_zero"], given["y_min"], given["y_max"])
        for optimize in (False, True):
            found = _run(node, body, given, part, optimize)
            wrong += int((found.ravel() != expected).sum())
    return columns[0].size, wrong


Columns = Sequence[NDArray[np.int32]]
"""Accumulators, and the multiplier, the shift and the rest, if there is one, of each."""


def _run(
    node: Node, body: Body, given: Constants, columns: Columns, optimize: bool
) -> NDArray[Any]:
    """What the kernel makes of each accumulator, brought there as the op declares."""
    probe = OPS[node.op].probe
    assert probe is not None, node.op
    return _PROBES[probe](node, body, given, columns, optimize)


def _run_filters(
    node: Node, body: Body, given: Constants, columns: Columns, optimize: bool
) -> NDArray[Any]:
    """One output position, weights of zero: each accumulator is the bias of its channel."""
    acc, multiplier, shift, *rests = columns
    kernel = list(given["w"].shape[2:])
    depthwise = node.attrs["group"] == len(given["w"]) and given["w"].shape[1] == 1
    depthwise |= given["x_zero"].ndim > 0
    dims, zero, ends = len(kernel), given["x_zero"].flat[0], _ends(given)
    x = np.full((1, acc.size if depthwise else 1, *kernel), zero)
    w = np.zeros((acc.size, 1, *kernel), np.int8)
    attributes = {
        "rounding": node.attrs["rounding"],
        "dilations": [1] * dims,
        "group": acc.size if depthwise else 1,
        "kernel_shape": kernel,
        "pads": [0] * (2 * dims),
        "strides": [1] * dims,
        **_given_rests(rests),
    }
    inputs = [x, zero, w, np.asarray(np.int8(0)), acc, multiplier, shift, *ends]
    if given["x_zero"].ndim:
        inputs[1] = np.full(acc.size, zero)
    return _of_pictures(node, body, inputs, attributes, optimize)


def _of_pictures(
    node: Node,
    body: Body,
    inputs: list[NDArray[Any]],
    attributes: dict[str, Any],
    optimize: bool,
) -> NDArray[Any]:
    """What ``body`` gives for x [N, C, spatial...], in its layout."""
    if split(body.overload)[1]:
        inputs = [np.moveaxis(inputs[0], 1, -1), *inputs[1:]]
        attributes = {**attributes, ATTRIBUTE: 1}
    return np.asarray(run_op(node.op, body, inputs, attributes, optimize=optimize))


def _run_window(
    node: Node, body: Body, given: Constants, columns: Columns, optimize: bool
) -> NDArray[Any]:
    """One window in a channel for each accumulator, of codes that give it."""
    zero, rest = given["x_zero"], [given["multiplier"], given["shift"], *_ends(given)]
    (name,) = {"kernel_shape", "spatial_shape"} & node.attrs.keys()
    window = list(node.attrs[name])
    attributes = {"rounding": node.attrs["rounding"], name: window}
    if name == "kernel_shape":
        dims = len(window)
        attributes |= {"dilations": [1] * dims, "pads": [0] * 2 * dims, "strides": [1] * dims}
    found = []
    for acc in np.array_split(columns[0], -(-columns[0].size * prod(window) // _CELLS)):
        codes = (spread(acc.astype(np.int64), prod(window)) + zero).astype(zero.dtype)
        x, channels = codes.T.reshape(1, acc.size, *window), {"channels": acc.size}
        inputs = [x, zero, *rest]
        found.append(_of_pictures(node, body, inputs, attributes | channels, optimize))
    return np.concatenate([each.ravel() for each in found])


def _run_columns(
    node: Node, body: Body, given: Constants, columns: Columns, optimize: bool
) -> NDArray[Any]:
    """One row, weights of zero: each accumulator is the bias of its column."""
    zero, size, rests = given["x_zero"], columns[0].size, columns[3:]
    x, w = np.full((1, 1), zero), np.zeros((1, size), np.int8)
    inputs = [x, zero, w, np.asarray(np.int8(0)), *columns[:3], *_ends(given)]
    attributes = {"rounding": node.attrs["rounding"], "leading": [1], **_given_rests(rests)}
    return np.asarray(run_op(node.op, body, inputs, attributes, optimize=optimize))


def _run_coefficients(
    node: Node, body: Body, given: Constants, columns: Columns, optimize: bool
) -> NDArray[Any]:
    """One place of level 1 or -1, and a height for each accumulator, its coefficient there."""
    zero, (acc, multiplier, shift, *_) = given["x_zero"], columns
    level = 1 if zero < np.iinfo(zero.dtype).max else -1
    rank = LAYOUTS.get(split(body.overload)[1], 2)
    x = np.full((1,) * rank, int(zero) + level, zero.dtype)
    tables = _column(acc * np.int32(level))
    attributes = {
        "rounding": node.attrs["rounding"],
        **{"dims": 2, "x_sizes": [1, 1, 1], "y_sizes": [1, acc.size, 1]},
    }
    inputs = [x, zero, *tables, multiplier[:1], shift[:1], *_ends(given)]
    return _of_pictures(node, body, inputs, attributes, optimize)


def _run_operands(
    node: Node, body: Body, given: Constants, columns: Columns, optimize: bool
) -> NDArray[Any]:
    """A row of a times a column of b for each accumulator."""
    acc, a_zero, b_zero = columns[0], given["a_zero"], given["b_zero"]
    rest = [given[name] for name in ("multiplier", "shift", "y_zero", "y_min", "y_max")]
    found = np.empty(acc.shape, given["y_zero"].dtype)
    for part in (acc >= 0, acc < 0):
        if part.any():
            row, factors = operands_of(acc[part], a_zero, b_zero, node.attrs["inner"])
            inputs = [row, a_zero, factors, b_zero, *rest]
            attributes = {name: node.attrs[name] for name in OPS[node.op].attributes}
            found[part] = run_op(node.op, body, inputs, attributes, optimize=optimize)[0]
    return found


_PROBES: Mapping[Probe, Callable[[Node, Body, Constants, Columns, bool], NDArray[Any]]] = {
    Probe.FILTERS: _run_filters,
    Probe.WINDOW: _run_window,
    Probe.COLUMNS: _run_columns,
    Probe.OPERANDS: _run_operands,
    Probe.COEFFICIENTS: _run_coefficients,
}


def _given_rests(rests: Columns) -> dict[str, list[int]]:
    return {"bias_rests": rests[0].tolist()} if rests else {}


def _ends(given: Constants) -> list[NDArray[Any]]:
    return [given[name] for name in ("y_zero", "y_min", "y_max")]


def _column(coefficients: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Taps that make of one place a height of these multiples of it."""
    one = np.ones(1, np.int32)
    before = np.concatenate([one, coefficients, one])
    return np.zeros((2, before.size), np.int32), np.stack([before, np.zeros_like(before)])


@cache
def probe_saturation() -> int:
    """How many outputs of a convolution of the largest products are wrong on this machine.

    x86 without VNNI adds pairs of u8 x s8 products in int16, which saturates: 0 means sound.
    Both bodies are run: that of portable ops multiplies by the same kernels.
    """
    rng = np.random.default_rng(0)
    x = rng.choice(np.array([0, 255], np.uint8), (1, 64, 8, 8), p=[0.1, 0.9])
    w = rng.choice(np.array([-127, 127], np.int8), (32, 64, 3, 3), p=[0.1, 0.9])
    inputs = [
        x,
        np.uint8(0),
        w,
        np.int8(0),
        np.zeros(32, np.int32),
        np.full(32, 1 << 23, np.int32),
        np.full(32, 39, np.int32),
        np.uint8(0),
        np.uint8(0),
        np.uint8(255),
    ]
    attributes = {
        "dilations": [1, 1],
        "group": 1,
        "kernel_shape": [3, 3],
        "pads": [1] * 4,
        "strides": [1, 1],
        "rounding": "half_to_even",
    }
    arrays = [np.asarray(each) for each in inputs]
    expected = OPS["IntConv"].reference(*arrays, **attributes)
    return sum(
        int((run_op("IntConv", body, arrays, attributes, optimize=True) != expected).sum())
        for body in ("onnxruntime", "portable")
    )


def saturating(graph: Graph, record: Record) -> list[str]:
    """The nodes that are wrong for some inputs where pairs of products saturate in int16.

    Those whose body multiplies by an 8-bit kernel, unless two products of any codes with
    its weights fit: 2 * 255 * 64 does.
    """
    found = []
    for node in graph.nodes:
        if node.domain == DOMAIN and OPS[node.op].probe in _MULTIPLYING:
            weights = constants_of(node).get("w")
            is_small = weights is not None and np.abs(weights.astype(np.int32)).max() <= 64
            statements = OPS[node.op].function(body_of(node, record), OPSET).node
            if not is_small and any(each.op_type in _PRODUCTS for each in statements):
                found.append(node.name)
    return found


_MULTIPLYING = frozenset({Probe.FILTERS, Probe.COLUMNS, Probe.OPERANDS})
"""How ops are probed that multiply codes by codes."""

_PRODUCTS = frozenset(
    {"QLinearConv", "QLinearMatMul", "QGemm", "ConvInteger", "MatMulInteger"}
)
"""Kernels of onnxruntime that add products of 8-bit integers."""
