"""place and INTEGERIZE: Q/DQ graphs compute the same on stored integers."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from opsets.target import load_target
from qpasses.emit.integer import emit_integer
from qpasses.emit.provenance import Provenance
from qpasses.ir.interchange import import_graph
from qpasses.ir.rewriting import Context, run_passes
from qpasses.ir.runtime import IR_VERSION, OPSET
from qpasses.ir.settings import Settings
from qpasses.ir.shapes import infer_shapes
from qpasses.lowering import INTEGERIZE
from qpasses.lowering.numbers.interpolation import COORDINATES
from tests.support.small_models import model, numbers
from tests.support.stage_checks import (
    BOUNDS,
    check,
    check_single_op,
    check_tied_tensors,
    flags,
    float32,
    int64,
    net,
    networks,
    random_feeds,
    run,
    seeds,
    small,
    stages,
)
from tests.support.thoroughness import thoroughly

activation = st.sampled_from(
    [
        "y = Relu (c)",
        "y = Clip (c, low, high)",
        "r = Relu (c) y = Clip (r, , high)",
        "y = Clip (c)",
    ]
)


@thoroughly(40)
@given(
    seed=seeds,
    spatial=small,
    groups=small,
    bias=flags,
    pad=st.integers(0, 2),
    stride=small,
    dilation=st.integers(1, 2),
    then=activation,
)
def test_conv(seed, spatial, groups, bias, pad, stride, dilation, then):
    weights = {"w": numbers(2 * groups, 2, *[2] * spatial, seed=seed)}
    weights |= {"b": numbers(2 * groups, seed=seed)} if bias else {}
    made = net(
        [2, 2 * groups, *[5] * spatial],
        f"""c = Conv <dilations = {[dilation] * spatial}, strides = {[stride] * spatial},
            group = {groups}, pads = {[pad, 0] * spatial}> (x, {", ".join(weights)})
        {then}""",
        **weights,
        **BOUNDS,
    )
    check_single_op(made, seed, ["IntConv"])


@thoroughly(40)
@given(
    seed=seeds,
    leading=st.sampled_from([[2], [1, 3], [2, 1, 2]]),
    inner=st.sampled_from([1, 4, 60]),
    bias=flags,
    then=activation,
)
def test_matrix_product(seed, leading, inner, bias, then):
    product = "p = MatMul (x, w) c = Add (p, b)" if bias else "c = MatMul (x, w)"
    constants = {"w": numbers(inner, 3, seed=seed), "b": numbers(3, seed=seed), **BOUNDS}
    made = net([*leading, inner], f"{product} {then}", **constants)
    check_single_op(made, seed, ["IntGemm"])


@thoroughly(20)
@given(
    seed=seeds,
    shapes=st.sampled_from([[(2, 3), (2, 3)], [(3,), (2, 3)], [(2, 1), (3,)], [(), (2, 3)]]),
    constant=flags,
    scale=st.sampled_from([1e-3, 1, 77]),
    then=activation,
)
def test_add(seed, shapes, constant, scale, then):
    first, second = shapes
    tensor = f"float{list(second)} z" if second else "float z"
    text = f"g (float{list(first) or ''} x{'' if constant else ', ' + tensor}) => (float[] y)"
    made = model(
        f"{text} {{ s = Add (x, {'k' if constant else 'z'}) {then.replace('(c', '(s')} }}",
        opset=OPSET,
        ir_version=IR_VERSION,
        k=numbers(*second, seed=seed) * np.float32(scale),
        **BOUNDS,
    )
    check_single_op(made, seed, ["IntAdd"])


@thoroughly(10)
@given(seed=seeds)
def test_a_tensor_added_to_itself(seed):
    check_single_op(net([2, 3], "y = Add (x, x)"), seed, ["Lut"])


@thoroughly(40)
@given(
    seed=seeds,
    spatial=small,
    kernel=small,
    stride=small,
    pad=flags,
    whole=flags,
    then=activation,
)
def test_average_pool(seed, spatial, kernel, stride, pad, whole, then):
    pads = [int(pad and kernel > 1)] * spatial + [0] * spatial
    window = f"""AveragePool <count_include_pad = 1, kernel_shape = {[kernel] * spatial},
        pads = {pads}, strides = {[stride] * spatial}> (x)"""
    made = net(
        [2, 3, *[4] * spatial],
        f"c = {'GlobalAveragePool (x)' if whole else window} {then}",
        **BOUNDS,
    )
    check_single_op(made, seed, ["IntGlobalAveragePool" if whole else "IntAveragePool"])


sides = st.lists(st.integers(1, 6), min_size=1, max_size=3)


def factors(size):
    return st.sampled_from([f for f in (0.25, 0.5, 0.75, 1, 1.5, 2, 3, 8) if f * size >= 1])


@thoroughly(60)
@given(
    seed=seeds,
    before=sides,
    data=st.data(),
    mode=st.sampled_from([*COORDINATES]),
    stored=st.sampled_from(["uint8", "int8"]),
    then=activation,
)
def test_resize(seed, before, data, mode, stored, then):
    # onnx's reference evaluator takes scale * size for the size of the output
    by_size = mode in ("align_corners", "pytorch_half_pixel") or data.draw(flags)
    kinds = [st.integers(1, 9) if by_size else factors(size) for size in before]
    sides_after = [*map(data.draw, kinds)]
    changed = [a if by_size else int(a * b) for a, b in zip(sides_after, before, strict=True)]
    assume(changed != before)  # what changes no size copies
    wanted = [1, 2 if by_size else 1, *sides_after]
    attributes = f'mode = "linear", coordinate_transformation_mode = "{mode}"'
    made = net(
        [1, 2, *before],
        f"c = Resize <{attributes}> (x, , {', wanted' if by_size else 'wanted'}) {then}",
        wanted=int64(*wanted) if by_size else float32(*wanted),
        **BOUNDS,
    )
    check_single_op(made, seed, ["IntResize"], activation_type=stored)


MOVES = {
    "MaxPool <kernel_shape = [2, 3], pads = [1, 1, 0, 1], strides = [2, 1]> (x)": "MaxPool",
    "MaxPool <ceil_mode = 1, kernel_shape = [2, 2], strides = [3, 3]> (x)": "MaxPool",
    "Relu (x)": "Clip",
    "Clip (x, low)": "Clip",
    "Clip (x, , high)": "Clip",
    "Pad (x, ends)": "Pad",
    "Pad (x, ends, high)": "Pad",
    'Pad <mode = "reflect"> (x, ends)': "Pad",
    'Pad <mode = "edge"> (x, two_ends, , axis)': "Pad",
    "Slice (x, one, last, axis)": "Slice",
    "Concat <axis = 1> (x, x)": "Concat",
    "Transpose <perm = [0, 1, 3, 2]> (x)": "Transpose",
    "Reshape (x, shape)": "Reshape",
}
INDICES = {
    "ends": int64(0, 0, 1, 1, 0, 0, 1, 2),
    "two_ends": int64(1, 2),
    "axis": int64(2),
    "one": int64(1),
    "last": int64(-1),
    "shape": int64(0, 0, -1, 2),
}


@pytest.mark.thinned
@pytest.mark.parametrize("move", MOVES)
@thoroughly(5)
@given(seed=seeds)
def test_what_moves_in_front_of_a_conv(move, seed):
    made = net(
        [1, 2, 4, 4],
        f"m = {move} y = Conv (m, w)",
        w=numbers(3, 4 if "Concat" in move else 2, 1, 1, seed=seed),
        **INDICES,
        **BOUNDS,
    )
    check_single_op(made, seed, [MOVES[move], "IntConv"])


@thoroughly(5)
@given(seed=seeds)
def test_flatten_squeeze_and_unsqueeze_in_front_of_a_gemm(seed):
    made = net(
        [2, 3, 1, 2],
        "s = Squeeze (x, axis) u = Unsqueeze (s, axis) f = Flatten (u) y = Gemm (f, w)",
        axis=int64(2),
        w=numbers(6, 4, seed=seed),
    )
    check_single_op(made, seed, ["Squeeze", "Unsqueeze", "Flatten", "IntGemm"])


@thoroughly(100)
@given(made=networks(), seed=seeds)
def test_each_node_of_a_network_is_off_by_no_more_than_its_evidence_counts(made, seed):
    found = stages(made, random_feeds(made, seed))
    check(found, random_feeds(made, seed + 1))
    check_tied_tensors(found)


# Q/DQ graphs from elsewhere: declined, or computed the same

STORED = {
    **{"scale": np.float32(0.02), "zero": np.uint8(128), "signed": np.int8(0)},
    **{"w": numbers(2, 2).round().astype(np.int8) * 30, "two": float32(0.01, 0.1)},
    **{"w4": (numbers(2, 2, 1, 1) * 50).astype(np.int8), "no_zero": np.zeros(2, np.int8)},
    **{"row": numbers(1, 2), "column": numbers(2, 1), "matrix": numbers(2, 2)},
    **{"grow": int64(0, 1, 1, 0), "fill": np.uint8(7), "half": np.float32(0.5)},
}
FOREIGN = [
    "f = DequantizeLinear <axis = 1> (w, two, no_zero) c = MatMul (r, f)",
    "f = DequantizeLinear <axis = 0> (w, two, no_zero) c = MatMul (r, f)",
    "f = DequantizeLinear (w, scale, signed) c = Gemm (r, f, row)",
    "f = DequantizeLinear (w, scale, signed) c = Gemm (r, f, column)",
    "f = DequantizeLinear (w, scale, signed) c = Gemm (r, f, matrix)",
    "f = DequantizeLinear (fill, scale, zero) c = Pad (r, grow, f)",
    "f = DequantizeLinear (fill, scale, zero) c = Clip (r, f)",
    "f = Relu (r) c = Clip (f, , half)",
]


@pytest.mark.parametrize("body", FOREIGN)
def test_graphs_from_elsewhere_compute_the_same(body):
    text = f"""g (uint8[2, 2] x) => (uint8[] y) {{
        r = DequantizeLinear (x, scale, zero) {body} y = QuantizeLinear (c, scale, zero)
    }}"""
    made = model(text, opset=OPSET, ir_version=IR_VERSION, **STORED)
    feeds = {"x": np.array([[0, 100], [140, 255]], np.uint8)}
    graph, context = import_graph(infer_shapes(made)), Context(Settings(load_target("onnx")))
    run_passes(INTEGERIZE, graph, context)
    integer = emit_integer(graph, context.record, Provenance("", "", {}))
    (expected,), (found,) = run(made, feeds), run(integer, feeds)
    assert np.abs(expected.astype(int) - found).max() <= 1
