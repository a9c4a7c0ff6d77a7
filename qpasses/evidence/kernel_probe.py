"""The kernel probe: onnxruntime's real kernels on this machine, at the places that matter."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.fixed_point import Int64
from opsets.op import DOMAIN
from opsets.qpasses_v1 import OPS
from qpasses.evidence.bodies import body_of, constants_of
from qpasses.evidence.problems import Constants
from qpasses.evidence.prove import accumulator_interval
from qpasses.evidence.thresholds import end_levels, levels, meaning_thresholds
from qpasses.ir.graph import Graph, Node
from qpasses.ir.record import Record
from qpasses.ir.runtime import OPSET, run_op

_CHUNK = 1 << 16
"""So many accumulators are probed in one run."""


def probe_kernels(graph: Graph, record: Record) -> dict[str, tuple[int, int]]:
    """Per node with thresholds: (accumulators probed, results unlike the meaning).

    Each node's body runs in onnxruntime, optimized and not, at every reachable threshold and
    its predecessor: its kernel shape, depthwise or not, weights of zero, the accumulator as
    bias. An average pool is probed as the convolution its fast body is, a product of two
    tensors with operands that multiply to the accumulator, IntResize with the accumulators as
    coefficients of its height.
    """
    return {
        node.name: probe_node(node, constants_of(node), record.nodes[node.name].overload)
        for node in graph.nodes
        if node.domain == DOMAIN and OPS[node.op].evidence == "thresholds"
    }


def probe_node(node: Node, given: Constants, overload: str) -> tuple[int, int]:
    """(accumulators probed, results that differ from the meaning) of one node."""
    reachable = accumulator_interval(node, given)
    channels = len(reachable.low)
    multiplier, shift = (
        np.broadcast_to(given[name].astype(np.int64), (channels,))
        for name in ("multiplier", "shift")
    )
    steps = levels(*(int(given[name]) for name in ("y_zero", "y_min", "y_max")))
    rounding = node.attrs["rounding"]
    thresholds = meaning_thresholds(multiplier, shift, steps, rounding)
    points = np.concatenate([thresholds, thresholds - 1], axis=1)
    points = np.clip(points, reachable.low[:, None], reachable.high[:, None])
    columns = [points.astype(np.int32).ravel()]
    columns += [np.repeat(v.astype(np.int32), points.shape[1]) for v in (multiplier, shift)]
    wrong = 0
    for start in range(0, columns[0].size, _CHUNK):
        acc, m, s = (column[start : start + _CHUNK] for column in columns)
        ends = given["y_zero"], given["y_min"], given["y_max"]
        expected = OPS["Requantize"].reference(
            acc[None], m, s, *ends, axis=1, rounding=rounding
        )
        for optimize in (False, True):
            found = _run(node, overload, given, (acc, m, s), optimize)
            wrong += int((found.ravel() != expected.ravel()).sum())
    return columns[0].size, wrong


def _run(
    node: Node,
    overload: str,
    given: Constants,
    columns: tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]],
    optimize: bool,
) -> NDArray[Any]:
    """One output position, weights of zero: each accumulator is the bias of its channel."""
    acc, multiplier, shift = columns
    if node.op == "IntMatMul":
        return _run_products(node, overload, given, acc, optimize)
    ends = [given[name] for name in ("y_zero", "y_min", "y_max")]
    zero, weight_zero = given["x_zero"], np.asarray(np.int8(0))
    attributes: dict[str, Any] = {"rounding": node.attrs["rounding"]}
    if node.op == "IntGemm":
        x, w = np.full((1, 1), zero), np.zeros((1, acc.size), np.int8)
        inputs = [x, zero, w, weight_zero, acc, multiplier, shift, *ends]
        attributes["leading"] = [1]
        return run_op("IntGemm", overload, inputs, attributes, optimize=optimize)
    if node.op == "IntResize":
        level = 1 if zero < np.iinfo(zero.dtype).max else -1
        x, tables = (
            np.full((1, 1), int(zero) + level, zero.dtype),
            _column(acc * np.int32(level)),
        )
        attributes |= {"dims": 2, "x_sizes": [1, 1, 1], "y_sizes": [1, acc.size, 1]}
        inputs = [x, zero, *tables, multiplier[:1], shift[:1], *ends]
        return run_op("IntResize", overload, inputs, attributes, optimize=optimize)
    kernel, depthwise = _kernel(node, given)
    dims = len(kernel)
    x = np.full((1, acc.size if depthwise else 1, *kernel), zero)
    w = np.zeros((acc.size, 1, *kernel), np.int8)
    attributes |= {
        "dilations": [1] * dims,
        "group": acc.size if depthwise else 1,
        "kernel_shape": kernel,
        "pads": [0] * (2 * dims),
        "strides": [1] * dims,
    }
    inputs = [x, zero, w, weight_zero, acc, multiplier, shift, *ends]
    return run_op("IntConv", overload, inputs, attributes, optimize=optimize)


def _run_products(
    node: Node, overload: str, given: Constants, acc: NDArray[np.int32], optimize: bool
) -> NDArray[Any]:
    """A row of a times a column of b for each accumulator."""
    a_zero, b_zero = given["a_zero"], given["b_zero"]
    rest = [given[name] for name in ("multiplier", "shift", "y_zero", "y_min", "y_max")]
    found = np.empty(acc.shape, given["y_zero"].dtype)
    for part in (acc >= 0, acc < 0):
        if part.any():
            row, columns = operands_of(acc[part], a_zero, b_zero, node.attrs["inner"])
            inputs = [row, a_zero, columns, b_zero, *rest]
            attributes = {name: node.attrs[name] for name in OPS[node.op].attributes}
            found[part] = run_op(node.op, overload, inputs, attributes, optimize=optimize)[0]
    return found


def operands_of(
    acc: NDArray[np.int32], a_zero: NDArray[Any], b_zero: NDArray[Any], inner: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Stored a [1, K] and b [K, N] whose product, less zero points, is ``acc`` [N].

    All of ``acc`` have one sign and are reached by ``inner`` products: by so many of the
    largest level of a, of those that give this sign, and more of its unit for the remainder.
    """
    sign = -1 if (acc < 0).any() else 1
    corners = sorted(
        (sign * a * b, a, b) for a in end_levels(a_zero) for b in end_levels(b_zero)
    )
    _, a, b = corners[-1]
    step = max(abs(a), 1)
    whole, remainder = np.divmod(np.abs(acc.astype(np.int64)), step)
    units = -(-(step - 1) // max(abs(b), 1))
    row = np.repeat([a, np.sign(a)], [inner, units])
    columns = np.sign(b) * np.concatenate([_spread(whole, inner), _spread(remainder, units)])
    return (row + a_zero).astype(a_zero.dtype)[None], (columns + b_zero).astype(b_zero.dtype)


def _spread(totals: Int64, count: int) -> Int64:
    """[count, N]: numbers as equal as they can be whose sums are ``totals``."""
    base, more = np.divmod(totals, max(count, 1))
    return base + (np.arange(count)[:, None] < more)


def _column(coefficients: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Taps that make of one place a height of these multiples of it."""
    one = np.ones(1, np.int32)
    before = np.concatenate([one, coefficients, one])
    return np.zeros((2, before.size), np.int32), np.stack([before, np.zeros_like(before)])


def _kernel(node: Node, given: Constants) -> tuple[list[int], bool]:
    """The kernel shape of a convolution or pool, and whether it has a filter per channel."""
    if node.op == "IntConv":
        depthwise = node.attrs["group"] == len(given["w"]) and given["w"].shape[1] == 1
        return list(given["w"].shape[2:]), depthwise
    shape = node.attrs["kernel_shape" if node.op == "IntAveragePool" else "spatial_shape"]
    return list(shape), True


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
        if node.op in ("IntConv", "IntGemm", "IntMatMul"):
            weights = constants_of(node).get("w")
            is_small = weights is not None and np.abs(weights.astype(np.int32)).max() <= 64
            statements = OPS[node.op].function(body_of(node, record), OPSET).node
            if not is_small and any(each.op_type in _PRODUCTS for each in statements):
                found.append(node.name)
    return found


_PRODUCTS = frozenset(
    {"QLinearConv", "QLinearMatMul", "QGemm", "ConvInteger", "MatMulInteger"}
)
"""Kernels of onnxruntime that add products of 8-bit integers."""
