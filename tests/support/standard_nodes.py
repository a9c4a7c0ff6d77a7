"""Nodes of ONNX's own ops on stored integers, T, that move them: a few of each op, by kind."""

from functools import cache

import onnx
from onnx import compose, helper

from qpasses.ir.runtime import IR_VERSION
from tests.support.small_models import model

OPSET = 24
PICTURE, ROWS = "T[2, 4, 5, 3] x", "T[2, 3, 6] x"

STANDARD = {
    "ArgMax": {
        "channels": "(T[1, 3, 2, 2] x) => (int64[] y) { y = ArgMax <axis = 1> (x) }",
        "without them": "(T[2, 4, 5, 3] x) => (int64[] y)"
        " { y = ArgMax <axis = -2, keepdims = 0> (x) }",
        "the last of equal ones": "(T[3, 300] x) => (int64[] y)"
        " { y = ArgMax <axis = 1, select_last_index = 1> (x) }",
    },
    "ArgMin": {
        "channels": "(T[1, 3, 2, 2] x) => (int64[] y) { y = ArgMin <axis = 1> (x) }",
        "the last of equal ones": "(T[3, 300] x) => (int64[] y)"
        " { y = ArgMin <axis = 1, keepdims = 0, select_last_index = 1> (x) }",
    },
    **{
        op: {
            "two conditions": f"(bool[2, 3] a, bool[3] b) => (bool[] y) {{ y = {op} (a, b) }}",
            "that broadcast": "(bool[2, 4, 1, 3] a, bool[4, 5, 1] b) => (bool[] y)"
            f" {{ y = {op} (a, b) }}",
        }
        for op in ("And", "Or", "Xor")
    },
    **{
        op: {
            "codes": f"(T[2, 3] a, T[3] b) => (bool[] y) {{ y = {op} (a, b) }}",
            "codes and a constant": "(T[2, 4, 1, 3] a) => (bool[] y) <T[1, 3] c = {7, 9, 100}>"
            f" {{ y = {op} (a, c) }}",
            "int32": f"(int32[2, 1] a, int32[3] b) => (bool[] y) {{ y = {op} (a, b) }}",
            "places": "(T[2, 4, 5, 3] x) => (bool[] y) <int64[3] c = {1, 2, 0}>"
            f" {{ i = ArgMax <axis = 1> (x) y = {op} (i, c) }}",
        }
        for op in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
    },
    "Not": {
        "a condition": "(bool[2, 3] c) => (bool[] y) { y = Not (c) }",
        "of four axes": "(bool[2, 4, 5, 3] c) => (bool[] y) { y = Not (c) }",
    },
    "Cast": {
        "to int32": "(T[1, 3, 2] x) => (int32[] y) { y = Cast <to = 6> (x) }",
        "to int64": "(T[1, 3, 2] x) => (int64[] y) { y = Cast <to = 7> (x) }",
        "to a condition": "(T[2, 3, 60] x) => (bool[] y) { y = Cast <to = 9> (x) }",
        "of a condition": "(bool[2, 3, 6] x) => (int32[] y) { y = Cast <to = 6> (x) }",
    },
    "Clip": {
        "both ends": "(T[1, 3, 2] x) => (T[] y) <T low = {7}, T high = {90}>"
        " { y = Clip (x, low, high) }",
        "one end": "(T[2, 3, 6] x) => (T[] y) <T high = {90}> { y = Clip (x, , high) }",
    },
    "Compress": {
        "channels": "(T[1, 3, 2] x) => (T[] y) <bool[3] c = {1, 0, 1}>"
        " { y = Compress <axis = 1> (x, c) }",
        "flat": "(T[2, 3, 6] x) => (T[] y) <bool[5] c = {0, 1, 1, 0, 1}>"
        " { y = Compress (x, c) }",
    },
    "Concat": {
        "channels": "(T[1, 2, 2] a, T[1, 1, 2] b) => (T[] y) { y = Concat <axis = 1> (a, b) }",
        "the last axis, a constant": "(T[1, 2, 2] a, T[1, 2, 3] b) => (T[] y)"
        " <T[1, 2, 1] c = {5, 100}> { y = Concat <axis = -1> (a, c, b, a) }",
        "a hundred": "(T[2, 3, 6] x) => (T[] y) { y = Concat <axis = 1> ("
        + "x, " * 99
        + "x) }",
    },
    "DepthToSpace": {
        "depth first": "(T[1, 4, 1, 2] x) => (T[] y) { y = DepthToSpace <blocksize = 2> (x) }",
        "columns first": "(T[2, 8, 3, 2] x) => (T[] y)"
        ' { y = DepthToSpace <blocksize = 2, mode = "CRD"> (x) }',
        "depth first, of many": "(T[2, 12, 3, 2] x) => (T[] y)"
        " { y = DepthToSpace <blocksize = 2> (x) }",
    },
    "Expand": {
        "columns": "(T[1, 3, 1] x) => (T[] y) <int64[3] s = {1, 3, 2}> { y = Expand (x, s) }",
        "more axes": "(T[3, 1, 2] x) => (T[] y) <int64[4] s = {2, 1, 4, 1}>"
        " { y = Expand (x, s) }",
    },
    "Flatten": {
        "all but the first": "(T[1, 3, 2, 2] x) => (T[] y) { y = Flatten (x) }",
        "the first three": "(T[2, 4, 5, 3] x) => (T[] y) { y = Flatten <axis = -1> (x) }",
        "all": "(T[2, 4, 5, 3] x) => (T[] y) { y = Flatten <axis = 0> (x) }",
    },
    "Gather": {
        "channels": "(T[1, 3, 2] x) => (T[] y) <int64[2] i = {2, -3}>"
        " { y = Gather <axis = 1> (x, i) }",
        "one": "(T[2, 3, 6] x) => (T[] y) <int64 i = {-2}> { y = Gather <axis = 2> (x, i) }",
        "a matrix of places": "(T[2, 3, 6] x) => (T[] y)"
        " <int64[2, 5] i = {5, 0, 2, 4, 1, 3, 3, 0, -1, -6}> { y = Gather <axis = 2> (x, i) }",
        "each twice": "(T[2, 6, 3] x) => (T[] y) <int64[12] i ="
        " {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5}> { y = Gather <axis = 1> (x, i) }",
        "places that vary": "(T[2, 4, 3] x) => (T[] y)"
        " { i = ArgMax <axis = 1, keepdims = 0> (x) y = Gather <axis = 1> (x, i) }",
        "codes are places": "(T[256, 2] t, T[3, 2] x) => (T[] y) { i = Cast <to = 6> (x)"
        " y = Gather (t, i) }",
    },
    "GatherElements": {
        "rows": "(T[2, 3] x) => (T[] y) <int64[2, 2] i = {0, -1, 2, 2}>"
        " { y = GatherElements <axis = 1> (x, i) }",
        "columns": "(T[2, 3, 6] x) => (T[] y) <int64[3, 1, 2] i = {0, 1, 1, 1, 0, 0}>"
        " { y = GatherElements <axis = 0> (x, i) }",
    },
    "GatherND": {
        "elements": "(T[2, 3] x) => (T[] y) <int64[2, 2] i = {0, 1, 1, -1}>"
        " { y = GatherND (x, i) }",
        "rows of each": "(T[2, 3, 6] x) => (T[] y) <int64[2, 1] i = {2, 0}>"
        " { y = GatherND <batch_dims = 1> (x, i) }",
    },
    "Identity": {"it": "(T[1, 3, 2] x) => (T[] y) { y = Identity (x) }"},
    "MaxPool": {
        "two dimensions": "(T[1, 2, 3, 3] x) => (T[] y)"
        " { y = MaxPool <kernel_shape = [2, 2]> (x) }",
        "padded": "(T[2, 4, 5, 3] x) => (T[] y)"
        " { y = MaxPool <kernel_shape = [3, 2], pads = [1, 0, 1, 1], strides = [2, 2]> (x) }",
        "rounded up": "(T[2, 4, 5, 3] x) => (T[] y)"
        " { y = MaxPool <kernel_shape = [2, 2], strides = [2, 2], ceil_mode = 1> (x) }",
        "same": "(T[2, 4, 5, 3] x) => (T[] y)"
        ' { y = MaxPool <kernel_shape = [2, 3], auto_pad = "SAME_UPPER"> (x) }',
        "one dimension": "(T[2, 3, 6] x) => (T[] y)"
        " { y = MaxPool <kernel_shape = [3], strides = [2]> (x) }",
        "with positions": "(T[2, 3, 6] x) => (T[] y, int64[] i)"
        " { y, i = MaxPool <kernel_shape = [2]> (x) }",
        "dilated": "(T[2, 4, 5, 3] x) => (T[] y)"
        " { y = MaxPool <kernel_shape = [2, 2], dilations = [2, 1]> (x) }",
        "three dimensions": "(T[1, 2, 3, 3, 2] x) => (T[] y)"
        " { y = MaxPool <kernel_shape = [2, 2, 1]> (x) }",
    },
    "Pad": {
        "with a code": "(T[1, 2, 2] x) => (T[] y) <int64[6] p = {0, 0, 1, 0, 1, 0}, T c = {9}>"
        " { y = Pad (x, p, c) }",
        "with none": "(T[2, 3, 6] x) => (T[] y) <int64[6] p = {1, 0, 2, 0, 0, 1}>"
        " { y = Pad (x, p) }",
        "some axes, and less": "(T[2, 4, 5, 3] x) => (T[] y) <int64[4] p = {-1, 2, 1, -1},"
        " T c = {77}, int64[2] a = {1, -1}> { y = Pad (x, p, c, a) }",
        "edges": "(T[2, 3, 6] x) => (T[] y) <int64[6] p = {0, 2, 1, 0, 0, 2}>"
        ' { y = Pad <mode = "edge"> (x, p) }',
        "mirrored": "(T[2, 3, 6] x) => (T[] y) <int64[6] p = {0, 2, 1, 0, 0, 4}>"
        ' { y = Pad <mode = "reflect"> (x, p) }',
        "wrapped": "(T[2, 3, 6] x) => (T[] y) <int64[6] p = {0, 1, 1, 0, 2, 4}>"
        ' { y = Pad <mode = "wrap"> (x, p) }',
    },
    "ReduceMax": {
        "rows": "(T[1, 3, 2] x) => (T[] y) <int64[1] a = {1}>"
        " { y = ReduceMax <keepdims = 0> (x, a) }",
        "planes": "(T[2, 4, 5, 3] x) => (T[] y) <int64[2] a = {-1, 2}>"
        " { y = ReduceMax (x, a) }",
        "all": "(T[2, 4, 5, 3] x) => (T[] y) { y = ReduceMax (x) }",
    },
    "ReduceMin": {
        "rows": "(T[1, 3, 2] x) => (T[] y) <int64[1] a = {1}> { y = ReduceMin (x, a) }",
        "planes": "(T[2, 4, 5, 3] x) => (T[] y) <int64[2] a = {-3, 2}>"
        " { y = ReduceMin <keepdims = 0> (x, a) }",
    },
    "Reshape": {
        "two axes": "(T[1, 3, 2] x) => (T[] y) <int64[2] s = {3, 2}> { y = Reshape (x, s) }",
        "sizes kept and told": "(T[2, 4, 5, 3] x) => (T[] y) <int64[3] s = {0, -1, 6}>"
        " { y = Reshape (x, s) }",
        "heads": "(T[2, 6, 5, 3] x) => (T[] y) <int64[5] s = {2, 2, 3, 5, 3}>"
        " { y = Reshape (x, s) }",
    },
    "Resize": {
        "twice as large": "(T[1, 1, 2, 2] x) => (T[] y) <float[4] s = {1, 1, 2, 2}>"
        ' { y = Resize <mode = "nearest", coordinate_transformation_mode = "asymmetric",'
        ' nearest_mode = "floor"> (x, , s) }',
        "to sizes": "(T[2, 4, 5, 3] x) => (T[] y) <int64[4] s = {2, 4, 7, 2}>"
        ' { y = Resize <mode = "nearest"> (x, , , s) }',
    },
    "ReverseSequence": {
        "some of each": "(T[2, 3] x) => (T[] y) <int64[2] n = {3, 2}>"
        " { y = ReverseSequence <batch_axis = 0, time_axis = 1> (x, n) }",
    },
    "ScatterElements": {
        "rows": "(T[2, 3] x, T[2, 1] u) => (T[] y) <int64[2, 1] i = {2, -3}>"
        " { y = ScatterElements <axis = 1> (x, i, u) }",
        "the larger": "(T[2, 3] x, T[2, 1] u) => (T[] y) <int64[2, 1] i = {2, -3}>"
        ' { y = ScatterElements <axis = 1, reduction = "max"> (x, i, u) }',
    },
    "ScatterND": {
        "rows": "(T[3, 2] x, T[2, 2] u) => (T[] y) <int64[2, 1] i = {2, 0}>"
        " { y = ScatterND (x, i, u) }",
        "the smaller": "(T[3, 2] x, T[2, 2] u) => (T[] y) <int64[2, 1] i = {2, 0}>"
        ' { y = ScatterND <reduction = "min"> (x, i, u) }',
    },
    "Slice": {
        "every other": "(T[1, 2, 4] x) => (T[] y)"
        " <int64[1] s = {1}, int64[1] e = {4}, int64[1] a = {2}, int64[1] t = {2}>"
        " { y = Slice (x, s, e, a, t) }",
        "from behind": "(T[2, 4, 5, 3] x) => (T[] y) <int64[2] s = {-1, 4},"
        " int64[2] e = {-9, 0}, int64[2] a = {-1, 2}, int64[2] t = {-1, -2}>"
        " { y = Slice (x, s, e, a, t) }",
        "the first axes": "(T[2, 4, 5, 3] x) => (T[] y) <int64[2] s = {0, 1},"
        " int64[2] e = {1, 9223372036854775807}> { y = Slice (x, s, e) }",
        "nothing": "(T[2, 4, 5, 3] x) => (T[] y) <int64[1] s = {3}, int64[1] e = {3}>"
        " { y = Slice (x, s, e) }",
    },
    "SpaceToDepth": {
        "blocks of two": "(T[1, 1, 2, 4] x) => (T[] y)"
        " { y = SpaceToDepth <blocksize = 2> (x) }",
        "of channels": "(T[2, 3, 4, 6] x) => (T[] y) { y = SpaceToDepth <blocksize = 2> (x) }",
    },
    "Split": {
        "halves": "(T[1, 4, 2] x) => (T[] y, T[] z)"
        " { y, z = Split <axis = 1, num_outputs = 2> (x) }",
        "sizes": "(T[2, 4, 5, 3] x) => (T[] y, T[] z) <int64[2] s = {1, 4}>"
        " { y, z = Split <axis = -2> (x, s) }",
        "a smaller one": "(T[2, 4, 5, 3] x) => (T[] y, T[] z, T[] w)"
        " { y, z, w = Split <axis = 2, num_outputs = 3> (x) }",
    },
    "Squeeze": {
        "one axis": "(T[1, 3, 1, 2] x) => (T[] y) <int64[1] a = {-2}> { y = Squeeze (x, a) }",
        "all that can be": "(T[1, 3, 1, 2] x) => (T[] y) { y = Squeeze (x) }",
    },
    "TensorScatter": {
        "a cache": "(T[2, 4, 3] x, T[2, 1, 3] u) => (T[] y) <int64[2] i = {3, 0}>"
        " { y = TensorScatter (x, u, i) }",
    },
    "Tile": {
        "rows": "(T[1, 3, 2] x) => (T[] y) <int64[3] n = {2, 1, 3}> { y = Tile (x, n) }",
        "planes": "(T[2, 4, 5, 3] x) => (T[] y) <int64[4] n = {1, 1, 2, 3}>"
        " { y = Tile (x, n) }",
    },
    "TopK": {
        "two": "(T[1, 4] x) => (T[] y, int64[] i) <int64[1] k = {2}> { y, i = TopK (x, k) }",
        "the smallest": "(T[2, 3, 6] x) => (T[] y, int64[] i) <int64[1] k = {2}>"
        " { y, i = TopK <axis = 1, largest = 0> (x, k) }",
        "all of many": "(T[2, 40] x) => (T[] y, int64[] i) <int64[1] k = {40}>"
        " { y, i = TopK (x, k) }",
        "too many": "(T[2, 300] x) => (T[] y, int64[] i) <int64[1] k = {300}>"
        " { y, i = TopK (x, k) }",
    },
    "Transpose": {
        "channels": "(T[1, 2, 3] x) => (T[] y) { y = Transpose <perm = [0, 2, 1]> (x) }",
        "turned round": "(T[2, 4, 5, 3] x) => (T[] y) { y = Transpose (x) }",
    },
    "Unsqueeze": {
        "two axes": "(T[3, 2] x) => (T[] y) <int64[2] a = {0, -1}> { y = Unsqueeze (x, a) }",
        "one between": "(T[2, 4, 5, 3] x) => (T[] y) <int64[1] a = {2}>"
        " { y = Unsqueeze (x, a) }",
    },
    "Where": {
        "a condition": "(bool[2, 1] c, T[2, 3] a, T[2, 3] b) => (T[] y)"
        " { y = Where (c, a, b) }",
        "that broadcasts": "(bool[3, 1] c, T[2, 4, 3, 5] a, T[5] b) => (T[] y)"
        " { y = Where (c, a, b) }",
        "that is known": "(T[2, 3] a, T[3] b) => (T[] y)"
        " <bool[2, 3] c = {1, 0, 0, 1, 1, 0}> { y = Where (c, a, b) }",
    },
}


@cache
def standard_model(op, kind, dtype):
    """The node, with the types of all tensors, as emitted models have them."""
    text = STANDARD[op][kind].replace("T[", f"{dtype}[").replace("T ", f"{dtype} ")
    return typed(model(f"g {text}", opset=OPSET, ir_version=IR_VERSION))


def typed(made):
    return onnx.shape_inference.infer_shapes(made)


def moved_first(made):
    """The same, of inputs whose last axis a Transpose brings behind the first."""
    found = onnx.ModelProto()
    found.CopyFrom(made)
    moves = []
    for value in found.graph.input:
        sizes = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        if len(sizes) < 3:
            continue
        name, rank = value.name, len(sizes)
        perm = [0, rank - 1, *range(1, rank - 1)]
        value.name = f"{name}_before"
        for axis, dim in zip(perm, list(sizes), strict=True):
            value.type.tensor_type.shape.dim[axis].dim_value = dim
        moves.append(helper.make_node("Transpose", [value.name], [name], perm=perm))
    nodes = [*moves, *found.graph.node]
    del found.graph.node[:]
    found.graph.node.extend(nodes)
    return typed(found)


def side_by_side(models):
    """One model of all, by label; what is of one has its number before its name."""
    whole = onnx.ModelProto()
    for place, (label, made) in enumerate(models.items()):
        part = compose.add_prefix(made, f"{place}_")
        for node in part.graph.node:
            node.name = f"{label} ({node.output[0]})"
        if not place:
            whole.CopyFrom(part)
            continue
        for name in ("node", "input", "output", "initializer", "value_info"):
            getattr(whole.graph, name).extend(getattr(part.graph, name))
    return whole
