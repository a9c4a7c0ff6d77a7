"""What a random graph is made of: one function for each family of ops."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from onnx import TensorProto

from tests.bench.fuzzing.builder import Builder, Shape

Attributes = dict[str, Any]
Step = Callable[[Builder, str], object]
"""Append nodes that read a tensor; where its shape does not suit, nothing."""

UNARY = (
    *("Sigmoid", "Tanh", "Exp", "Erf", "Softplus", "Softsign", "Abs", "Neg", "Floor", "Ceil"),
    *("Sqrt", "Log", "Reciprocal", "Sin", "Cos", "Atan", "Elu", "Selu", "Round", "Sign"),
    *("Identity", "Dropout", "HardSigmoid", "ThresholdedRelu", "Celu", "LeakyRelu"),
)
LATER = {"HardSwish": 14, "Mish": 18, "Gelu": 20}
PAIRS = ("Add", "Add", "Add", "Mul", "Mul", "Sub", "Div", "Max", "Min", "Pow", "Mean", "Sum")


def _axes(b: Builder, shape: Shape) -> list[int]:
    count = b.whole(1, len(shape))
    chosen = sorted(b.rng.choice(len(shape), count, replace=False).tolist())
    return [axis - len(shape) if b.chance(0.3) else axis for axis in chosen]


def _geometry(
    b: Builder, shape: Shape, kernel: Sequence[int], dilated: bool = True
) -> Attributes:
    dims = len(kernel)
    geometry: Attributes = {"strides": [b.whole(1, 2) for _ in range(dims)]}
    if b.chance(0.2):
        geometry["auto_pad"] = b.one_of(["SAME_UPPER", "SAME_LOWER", "VALID"])
    else:
        geometry["pads"] = [b.whole(0, kernel[i % dims] - 1) for i in range(2 * dims)]
        if dilated and b.chance(0.25):
            geometry["dilations"] = [b.whole(1, 2) for _ in range(dims)]
    return geometry


def conv(b: Builder, x: str) -> object:
    """Conv of one to three dimensions: groups, strides, pads, dilations, with bias or not."""
    shape = b.shapes[x]
    if not 3 <= len(shape) <= 5:
        return None
    channels = shape[1]
    group = b.one_of([g for g in (1, 1, 2, 3, channels) if channels % g == 0])
    kernel = [b.whole(1, min(3, size)) for size in shape[2:]]
    made = group * b.whole(1, 4)
    inputs = [x, b.weights(made, channels // group, *kernel)]
    inputs += [b.weights(made)] if b.chance(0.6) else []
    return b.add("Conv", inputs, group=group, **_geometry(b, shape, kernel))


def conv_transpose(b: Builder, x: str) -> object:
    """ConvTranspose."""
    shape = b.shapes[x]
    if len(shape) != 4:
        return None
    return b.add("ConvTranspose", [x, b.weights(shape[1], 2, 2, 2)], strides=[2, 2])


def gemm(b: Builder, x: str) -> object:
    """Gemm with alpha, beta, transposed or not."""
    shape = b.shapes[x]
    if len(shape) != 2:
        return b.add("Flatten", [x], axis=b.whole(0, len(shape)))
    inner, columns, trans_b = shape[1], b.whole(1, 6), b.whole(0, 1)
    w = b.weights(columns, inner) if trans_b else b.weights(inner, columns)
    bias = [b.weights(*b.one_of([(), (columns,), (1, columns), (1, 1)]))]
    extra: Attributes = {"alpha": 0.5, "beta": 2.0} if b.chance(0.2) else {}
    return b.add("Gemm", [x, w, *(bias if b.chance(0.7) else [])], transB=trans_b, **extra)


def matmul(b: Builder, x: str) -> object:
    """MatMul with a constant matrix, a stack of them, or another tensor."""
    shape = b.shapes[x]
    if len(shape) < 2:
        return None
    kind = b.rng.random()
    if kind < 0.5:
        return b.add("MatMul", [x, b.weights(shape[-1], b.whole(1, 5))])
    if kind < 0.65:
        return b.add("MatMul", [x, b.weights(*shape[:-2], shape[-1], b.whole(1, 4))])
    others = [n for n, s in b.shapes.items() if len(s) == len(shape) and s[-2] == shape[-1]]
    if others:
        return b.add("MatMul", [x, b.one_of(others)])
    perm = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
    turned = b.add("Transpose", [x], perm=perm)
    return turned and b.add("MatMul", [x, list(b.shapes)[-1]])


def pair(b: Builder, x: str) -> object:
    """Two tensors, or a tensor and a constant, that broadcast; in either order."""
    shape, op = b.shapes[x], b.one_of(PAIRS)
    others = [name for name, other in b.shapes.items() if _broadcasts(shape, other)]
    if b.chance(0.6) and others:
        other = b.one_of(others)
    else:
        small = [b.one_of([1, size]) for size in shape][b.whole(0, len(shape)) :]
        other = b.weights(*small)
    operands = [x, other] if b.chance(0.6) else [other, x]
    if op in ("Sum", "Mean", "Max", "Min") and b.chance(0.2):
        operands.append(x)
    return b.add(op, operands)


def _broadcasts(one: Shape, other: Shape) -> bool:
    pairs = zip(one[::-1], other[::-1], strict=False)
    return all(a == b or 1 in (a, b) for a, b in pairs)


def unary(b: Builder, x: str) -> object:
    """An elementwise function of one number."""
    later = [op for op, first in LATER.items() if b.opset >= first]
    return b.add(b.one_of([*UNARY, *later]), [x])


def prelu(b: Builder, x: str) -> object:
    """PRelu with one slope, one per channel, or more."""
    small = [b.one_of([1, size]) for size in b.shapes[x]][b.whole(0, len(b.shapes[x])) :]
    return b.add("PRelu", [x, b.weights(*small)])


def relu(b: Builder, x: str) -> object:
    """Relu."""
    return b.add("Relu", [x])


def clip(b: Builder, x: str) -> object:
    """Clip with both bounds, or one."""
    low, high = sorted(b.rng.normal(0, 2, 2))
    bounds = [b.fixed(low, np.float32), b.fixed(high, np.float32)]
    if b.chance(0.3):
        bounds[b.whole(0, 1)] = ""
    return b.add("Clip", [x, *bounds])


def normalize(b: Builder, x: str) -> object:
    """BatchNormalization, LayerNormalization or InstanceNormalization."""
    shape = b.shapes[x]
    if len(shape) < 2:
        return None
    if b.opset >= 17 and b.chance(0.15):
        return _over_rows(b, x)
    channels = shape[1]
    variance = b.fixed(b.rng.random(channels) + 0.1, np.float32)
    given = [b.weights(channels) for _ in range(3)]
    return b.add("BatchNormalization", [x, *given, variance])


def _over_rows(b: Builder, x: str) -> object:
    shape, epsilon = b.shapes[x], b.one_of([1e-5, 1e-5, 0.5, 1e-12])
    if len(shape) > 2 and b.chance(0.4):
        factors = [b.weights(shape[1]), b.weights(shape[1])]
        return b.add("InstanceNormalization", [x, *factors], epsilon=epsilon)
    axis = b.whole(1, len(shape) - 1)
    bias = [b.weights(*shape[axis:])] if b.chance(0.5) else []
    factors = [b.weights(*shape[axis:]), *bias]
    given = axis - len(shape) if b.chance(0.5) else axis
    return b.add("LayerNormalization", [x, *factors], axis=given, epsilon=epsilon)


def pool(b: Builder, x: str) -> object:
    """MaxPool, AveragePool and the global ones."""
    shape = b.shapes[x]
    if not 3 <= len(shape) <= 5:
        return None
    if b.chance(0.25):
        return b.add(b.one_of(["GlobalAveragePool", "GlobalMaxPool"]), [x])
    op = b.one_of(["MaxPool", "AveragePool"])
    kernel = [b.whole(1, min(3, size)) for size in shape[2:]]
    geometry = _geometry(b, shape, kernel, op == "MaxPool" or b.opset >= 19)
    if b.chance(0.2):
        geometry["ceil_mode"] = 1
    if op == "AveragePool":
        geometry["count_include_pad"] = b.whole(0, 1)
    return b.add(op, [x], kernel_shape=kernel, **geometry)


def reduce(b: Builder, x: str) -> object:
    """ReduceMean, ReduceSum, ReduceMax, ReduceMin; axes as input or attribute by opset."""
    op = b.one_of(["ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin"])
    axes, keepdims = _axes(b, b.shapes[x]), b.whole(0, 1)
    if op == "ReduceSum" or b.opset >= 18:
        return b.add(op, [x, b.fixed(axes)], keepdims=keepdims)
    return b.add(op, [x], axes=axes, keepdims=keepdims)


def reshape(b: Builder, x: str) -> object:
    """Reshape, Flatten, Squeeze, Unsqueeze, Transpose."""
    shape, kind = b.shapes[x], b.whole(0, 4)
    if kind == 0:
        return b.add("Transpose", [x], perm=b.rng.permutation(len(shape)).tolist())
    if kind == 1 and len(shape) < 5:
        return b.add("Unsqueeze", [x, b.fixed([b.whole(0, len(shape))])])
    ones = [axis for axis, size in enumerate(shape) if size == 1]
    if kind == 2 and ones and len(shape) > 1:
        return b.add("Squeeze", [x, b.fixed([b.one_of(ones)])])
    if kind == 3:
        return b.add("Flatten", [x], axis=b.whole(0, len(shape)))
    total, target = prod(shape), []
    for _ in range(b.whole(0, 3)):
        target.append(b.one_of([n for n in range(1, 9) if total % n == 0]))
        total //= target[-1]
    return b.add("Reshape", [x, b.fixed([*target, b.one_of([total, -1])])])


def slices(b: Builder, x: str) -> object:
    """Slice, Split, Gather, GatherElements, GatherND, Compress, TopK."""
    shape, kind = b.shapes[x], b.whole(0, 6)
    axis = b.whole(0, len(shape) - 1)
    size = shape[axis]
    if kind == 0:
        step = b.one_of([1, 1, 2, -1])
        ends = [0, max(1, size - b.whole(0, 1))] if step > 0 else [size - 1, -size - 1]
        return b.add("Slice", [x, *(b.fixed([each]) for each in (*ends, axis, step))])
    if kind == 1 and size > 1:
        first = b.whole(1, size - 1)
        return b.add("Split", [x, b.fixed([first, size - first])], 2, axis=axis)
    if kind == 2:
        count = b.one_of([(), (1,), (2,), (2, 2)])
        return b.add("Gather", [x, b.fixed(b.rng.integers(-size, size, count))], axis=axis)
    if kind == 3:
        indices = b.rng.integers(0, size, [b.whole(1, n) for n in shape])
        return b.add("GatherElements", [x, b.fixed(indices)], axis=axis)
    if kind == 4:
        depth = b.whole(1, len(shape))
        rows = [b.rng.integers(0, shape[:depth]) for _ in range(b.whole(1, 3))]
        return b.add("GatherND", [x, b.fixed(rows)])
    if kind == 5:
        return b.add("TopK", [x, b.fixed([b.whole(1, size)])], 2, axis=axis)
    chosen = b.rng.random(size) < 0.6
    chosen[0] = True
    picked = np.flatnonzero(chosen)
    return b.add("Gather", [x, b.fixed(picked)], axis=axis)


def joins(b: Builder, x: str) -> object:
    """Concat and Where, of tensors and constants."""
    shape = b.shapes[x]
    alike = [name for name, other in b.shapes.items() if other == shape]
    other = b.one_of(alike) if b.chance(0.7) else b.weights(*shape)
    if b.chance(0.7):
        parts = [x, other] if b.chance(0.5) else [other, x, x]
        return b.add("Concat", parts, axis=b.whole(-len(shape), len(shape) - 1))
    condition = b.fixed(b.rng.random(shape) < 0.5, bool)
    return b.add("Where", [condition, x, other])


def grows(b: Builder, x: str) -> object:
    """Pad, Expand, Tile, Resize, DepthToSpace, SpaceToDepth."""
    shape, kind = b.shapes[x], b.whole(0, 5)
    if kind == 0:
        pads = [b.whole(0, 1) for _ in range(2 * len(shape))]
        mode = b.one_of(["constant", "constant", "edge", "reflect"])
        value = [b.fixed(b.rng.normal(), np.float32)] if b.chance(0.4) else []
        if mode == "reflect":
            pads, value = [min(p, shape[i % len(shape)] - 1) for i, p in enumerate(pads)], []
        return b.add("Pad", [x, b.fixed(pads), *value], mode=mode)
    if kind == 1:
        return b.add("Expand", [x, b.fixed([b.whole(1, 2), *shape])])
    if kind == 2:
        return b.add("Tile", [x, b.fixed([b.whole(1, 2) for _ in shape])])
    if kind == 3 and len(shape) == 4:
        if shape[1] % 4 == 0:
            return b.add("DepthToSpace", [x], blocksize=2, mode=b.one_of(["DCR", "CRD"]))
        return b.add("SpaceToDepth", [x], blocksize=2)
    if len(shape) < 3 or len(shape) > 5:
        return None
    mode = b.one_of(
        ["nearest", "linear", "linear", "cubic"] if len(shape) == 4 else ["nearest"]
    )
    ways = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]
    if b.chance(0.5):
        factors = [1, 1, *(b.one_of([1, 2, 0.5, 1.5]) for _ in shape[2:])]
        given = ["", b.fixed(factors, np.float32)]
    else:
        given = ["", "", b.fixed([*shape[:2], *(b.whole(1, 2 * n) for n in shape[2:])])]
    return b.add(
        "Resize", [x, *given], mode=mode, coordinate_transformation_mode=b.one_of(ways)
    )


def tells(b: Builder, x: str) -> object:
    """ArgMax, ArgMin, Shape, Size: what they give leaves the graph."""
    op = b.one_of(["ArgMax", "ArgMin", "Shape", "Size"])
    if op in ("Shape", "Size"):
        return b.add(op, [x])
    return b.add(op, [x], axis=b.whole(0, len(b.shapes[x]) - 1), keepdims=b.whole(0, 1))


def softmax(b: Builder, x: str) -> object:
    """Softmax."""
    return b.add("Softmax", [x], axis=b.whole(-len(b.shapes[x]), len(b.shapes[x]) - 1))


def quotient(b: Builder, x: str) -> object:
    """A tensor by what is made of another one, or of itself, and is never zero."""
    shape = b.shapes[x]
    other = b.one_of([name for name, found in b.shapes.items() if found == shape])
    steps = [b.one_of(["Exp", "Sigmoid", "Softplus"]), b.one_of(["", "Exp", "Add"])]
    for op in filter(None, steps):
        operands = [other, b.fixed(b.rng.random() + 0.01, np.float32)]
        if not b.add(op, operands if op == "Add" else operands[:1]):
            return None
        other = list(b.shapes)[-1]
    return b.add("Div", [x, other])


def attend(b: Builder, x: str) -> object:
    """Softmax of scores that a constant drops some of, or a wide tensor lowers."""
    shape = b.shapes[x]
    drops = np.where(b.rng.random(shape[-1:]) < 0.4, b.one_of([-1e9, -2000.0, -30.0]), 0.0)
    drops[b.whole(0, len(drops) - 1)] = b.rng.normal()
    mask = b.fixed(drops, np.float32)
    if b.chance(0.5):
        row = b.add("Mul", [x, b.fixed(0.0, np.float32)]) and list(b.shapes)[-1]
        mask = (row and b.add("Add", [row, mask]) and list(b.shapes)[-1]) or mask
    return b.add("Add", [x, mask]) and b.add("Softmax", [list(b.shapes)[-1]], axis=-1)


def beside(b: Builder, x: str) -> object:
    """Numbers of hundreds beside those of one."""
    wide = b.add("Mul", [x, b.fixed(b.one_of([20.0, 640.0]), np.float32)])
    parts = [list(b.shapes)[-1], x] if b.chance(0.5) else [x, list(b.shapes)[-1]]
    return wide and b.add("Concat", parts, axis=b.whole(0, len(b.shapes[x]) - 1))


def recurrent(b: Builder, x: str) -> object:
    """LSTM, GRU or RNN, of any direction, with states, lengths, peepholes, activations."""
    shape = b.shapes[x]
    if len(shape) != 3:
        return None
    op, gates, given = b.one_of([("LSTM", 4, 3), ("GRU", 3, 2), ("RNN", 1, 1)])
    direction = b.one_of(["forward", "forward", "reverse", "bidirectional"])
    steps, batch, size = shape
    hidden, sides = b.whole(1, 4), 2 if direction == "bidirectional" else 1
    inputs = [
        x,
        b.matrix(sides, gates * hidden, size),
        b.matrix(sides, gates * hidden, hidden),
    ]
    inputs.append(b.matrix(sides, 2 * gates * hidden) if b.chance(0.7) else "")
    lengths = b.rng.integers(0, steps, batch, endpoint=True)
    inputs.append(b.fixed(lengths, np.int32) if b.chance(0.2) else "")
    states = [name for name, found in b.shapes.items() if found == (sides, batch, hidden)]
    for _ in range(2 if op == "LSTM" else 1):
        state = b.one_of(states) if states and b.chance(0.5) else ""
        inputs.append(b.matrix(sides, batch, hidden) if not state and b.chance(0.2) else state)
    inputs += [b.matrix(sides, 3 * hidden)] if op == "LSTM" and b.chance(0.2) else []
    how: Attributes = {"linear_before_reset": b.whole(0, 1)} if op == "GRU" else {}
    if b.chance(0.2):
        functions = ["Sigmoid", "Tanh", "HardSigmoid", "Softsign", "Relu"]
        how["activations"] = [b.one_of(functions) for _ in range(given * sides)]
    if b.chance(0.1):
        how["clip"] = float(b.one_of([0.5, 3.0]))
    outputs = b.whole(1, 3 if op == "LSTM" else 2)
    return b.add(op, inputs, outputs, hidden_size=hidden, direction=direction, **how)


WHOLE = (TensorProto.BOOL, TensorProto.UINT8, TensorProto.INT32, TensorProto.INT64)


def whole_numbers(b: Builder, x: str) -> object:
    """Conditions, places and whole numbers as floats, beside a tensor."""
    shape, kind = b.shapes[x], b.whole(0, 3)
    if kind == 0:
        asks = b.one_of(["Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"])
        made = b.add(asks, [x, b.fixed(b.rng.normal(), np.float32)])
    elif kind == 1:
        made = b.add("ArgMax", [x], axis=b.whole(0, len(shape) - 1), keepdims=1)
    else:
        sizes = tuple(1 if b.chance(0.4) else size for size in shape)
        given = b.whole_input(sizes, b.one_of(WHOLE))
        made = b.add("Cast", [given], to=TensorProto.FLOAT)
    if kind < 2 and not (made and b.add("Cast", b.nodes[-1].output[:1], to=TensorProto.FLOAT)):
        return None
    if not made or b.chance(0.2):
        return made
    others = [b.nodes[-1].output[0], x]
    return b.add(b.one_of(["Add", "Mul", "Sub"]), others[:: b.one_of([1, -1])])


STEPS: Sequence[tuple[Step, int]] = (
    *((conv, 6), (gemm, 3), (matmul, 3), (pair, 5), (unary, 3), (prelu, 1), (relu, 2)),
    *((clip, 2), (normalize, 2), (pool, 3), (reduce, 2), (reshape, 2), (slices, 3)),
    *((joins, 2), (grows, 3), (tells, 1), (softmax, 1), (conv_transpose, 1)),
)
"""Steps with their weights."""

MORE_STEPS: Sequence[tuple[Step, int]] = (
    *STEPS,
    *((quotient, 1), (attend, 1), (beside, 1), (recurrent, 3), (whole_numbers, 3)),
)
"""Of float graphs."""
