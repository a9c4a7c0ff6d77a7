"""Codes of 16 bits behind MaxPool, Pad and nearest Resize: moved as real numbers are."""

from collections import Counter
from functools import cache
from math import prod

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

import qpasses
from calibration import Session
from opsets.target import load_target
from qpasses.emit.integer import emit_integer
from qpasses.emit.provenance import Provenance
from qpasses.evidence.prove import prove
from qpasses.ir.interchange import import_graph
from qpasses.ir.rewriting import Context, run_passes
from qpasses.ir.settings import Settings
from qpasses.lowering import INTEGERIZE
from tests.support.fault_finding import Floats, one_off
from tests.support.op_cases import CASES
from tests.support.small_models import model, numbers
from tests.support.thoroughness import thoroughly

CODES = np.arange(-(1 << 15), 1 << 15, dtype=np.int16)


def around(node, shape, **constants):
    """``node`` between a DequantizeLinear and a QuantizeLinear of 16 bits, of all codes."""
    sizes = [-(-CODES.size // prod(shape[1:])), *shape[1:]]
    text = (
        f"g (int16[{', '.join(map(str, sizes))}] x) => (int16[] y)"
        f" {{ a = DequantizeLinear (x, s, z) [it] b = {node} y = QuantizeLinear (b, s, z) }}"
    )
    scale = {"s": np.float32(0.003), "z": np.int16(0)}
    made = model(text, opset=21, ir_version=10, **scale, **constants)
    return onnx.shape_inference.infer_shapes(made)


def lowered(made, bodies):
    """The integer model; its one node is proved."""
    context = Context(Settings(load_target("onnx"), bodies=bodies))
    graph = import_graph(made)
    run_passes(INTEGERIZE, graph, context)
    assert context.record.declined == {}
    (evidence,) = prove(graph, context.record)
    assert evidence.proved and evidence.reference_max_lsb <= 1, evidence
    return emit_integer(graph, context.record, Provenance("", "", {}))


def check_all_codes(made, bodies):
    """Every code in some place, and what onnxruntime's float kernel makes of it."""
    shape = [dim.dim_value for dim in made.graph.input[0].type.tensor_type.shape.dim]
    x = np.resize(np.random.default_rng(0).permutation(CODES), shape)
    integer = lowered(made, bodies)
    assert {node.domain for node in integer.graph.node} == {"qpasses"}
    for optimize in (False, True):
        (ours,) = Session(integer, optimize=optimize).run(None, {"x": x})
        (theirs,) = Session(made, optimize=False).run(None, {"x": x})
        np.testing.assert_array_equal(ours, theirs, strict=True)


both_bodies = pytest.mark.parametrize("bodies", ["portable", "onnxruntime"])


@both_bodies
@thoroughly(30)
@given(case=CASES["IntMaxPool"])
def test_a_max_pool_is_that_of_real_numbers(bodies, case):
    attributes = ", ".join(f"{name} = {value}" for name, value in case.attributes.items())
    made = around(f"MaxPool <{attributes}> (a)", case.inputs[0].shape)
    check_all_codes(made, bodies)


@both_bodies
@thoroughly(30)
@given(case=CASES["IntPad"], by_axes=st.booleans())
def test_a_pad_is_that_of_real_numbers(bodies, case, by_axes):
    (x, fill), pads = case.inputs, case.attributes["pads"]
    pads = [0, *pads[1 : x.ndim], 0, *pads[x.ndim + 1 :]]  # the first axis is as long as it is
    constants = {"f": np.float32(0.003) * fill.astype(np.float32)}
    axes = ""
    if by_axes and x.ndim > 1:
        axes = ", axes"
        constants["axes"] = np.arange(1, x.ndim) - x.ndim
        pads = [*pads[1 : x.ndim], *pads[x.ndim + 1 :]]
    node = f'Pad <mode = "{case.attributes["mode"]}"> (a, p, f{axes})'
    check_all_codes(around(node, x.shape, p=np.array(pads), **constants), bodies)


COORDINATES = "asymmetric", "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel"
ROUNDINGS = "round_prefer_floor", "round_prefer_ceil", "floor", "ceil"


@both_bodies
@thoroughly(30)
@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    factors=st.lists(st.integers(1, 4), min_size=3, max_size=3),
    coordinates=st.sampled_from(COORDINATES),
    rounding=st.sampled_from(ROUNDINGS),
    by_sizes=st.booleans(),
)
def test_a_nearest_resize_is_that_of_real_numbers(
    bodies, sizes, factors, coordinates, rounding, by_sizes
):
    shape, factors = (1, 2, *sizes), factors[: len(sizes)]
    attributes = (
        f'mode = "nearest", coordinate_transformation_mode = "{coordinates}",'
        f' nearest_mode = "{rounding}"'
    )
    if by_sizes:
        attributes += f", axes = {[*range(2, len(shape))]}"
        given_as, n = "a, , , n", np.multiply(sizes, factors)
    else:
        given_as, n = "a, , n", np.array([1, 1, *factors], np.float32)
    made = around(f"Resize <{attributes}> ({given_as})", shape, n=n)
    check_all_codes(made, bodies)


@both_bodies
@thoroughly(20)
@given(
    kind=st.sampled_from(['DepthToSpace <mode = "DCR"', 'DepthToSpace <mode = "CRD"', "S"]),
    block=st.integers(1, 3),
    sizes=st.lists(st.integers(1, 3), min_size=3, max_size=3),
)
def test_blocks_are_moved_as_real_numbers_are(bodies, kind, block, sizes):
    channels, rows, columns = sizes
    shape = (1, channels * block**2, rows, columns)
    node = f"{kind}, blocksize = {block}> (a)"
    if kind == "S":
        shape = (1, channels, rows * block, columns * block)
        node = f"SpaceToDepth <blocksize = {block}> (a)"
    check_all_codes(around(node, shape), bodies)


@both_bodies
@thoroughly(20)
@given(case=CASES["IntExtreme"])
def test_an_extreme_is_that_of_real_numbers(bodies, case):
    shape, attributes = case.inputs[0].shape, case.attributes
    axes = [axis for axis in attributes["axes"] if axis != -len(shape)]
    if not axes:  # the first axis is as long as it is
        shape, axes = (1, *shape), attributes["axes"]
    op = {"largest": "ReduceMax", "smallest": "ReduceMin"}[attributes["which"]]
    node = f"{op} <keepdims = {attributes['keepdims']}> (a, axes)"
    check_all_codes(around(node, shape, axes=np.array(axes[::-1])), bodies)


MODEL = """
    g (float[N, 4, 9, 10] x)
        => (float[] y, float[] z, float[] u, float[] t, float[] s, float[] r) {
        a = Conv <pads = [1, 1, 1, 1]> (x, w)
        [pool] b = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [2, 2]> (a)
        [mirror] c = Pad <mode = "reflect"> (b, around)
        d = Conv (c, v)
        [largest] y = GlobalMaxPool (d)
        [twice] e = Resize <mode = "nearest"> (d, , factors)
        [pad] f = Pad <mode = "constant"> (e, behind)
        z = Conv (f, v)
        [wide] u = MaxPool <kernel_shape = [5, 5], pads = [2, 2, 2, 2]> (d)
        [shuffle] g = DepthToSpace <blocksize = 2> (d)
        t = Relu (g)
        [smallest] h = ReduceMin <axes = [2]> (b)
        s = Relu (h)
        [either] k = Where (mask, b, quarter)
        [neither] l = Where (rows, quarter, k)
        r = Relu (l)
    }
"""
FEEDS = [{"x": each} for each in numbers(4, 1, 4, 9, 10)]
MOVED = {"IntMaxPool": 3, "IntPad": 2, "IntResize": 1, "IntShuffle": 1}
MOVED |= {"IntExtreme": 1, "IntWhere": 2}


@cache
def original():
    weights = {"w": numbers(8, 4, 3, 3), "v": numbers(8, 8, 2, 2, seed=1)}
    around = np.array([0, 0, 1, 1, 0, 0, 1, 2])
    behind = np.array([0, 0, 0, 0, 0, 0, 1, 1])
    factors = np.array([1, 1, 2, 3], np.float32)
    weights |= {"around": around, "behind": behind, "factors": factors}
    chosen = {"mask": numbers(5, 5) > 0, "rows": numbers(5, 1, seed=2) > 0}
    return model(MODEL, opset=17, quarter=np.float32(0.25), **chosen, **weights)


@cache
def made(**options):
    asked = {"tensor_types": [".*=int16"], **options}
    return qpasses.quantize(original(), FEEDS, accuracy="fast", **asked)


LAYOUTS = {
    "channels first": {"layout": "nchw"},
    "channels last": {"layout": "nhwc"},
    "portable": {"bodies": "portable"},
}


@pytest.mark.parametrize("how", LAYOUTS)
def test_a_model_of_words_moves_them_in_integers_and_is_verified(how):
    found = made(**LAYOUTS[how])
    ops = Counter(node.op_type for node in found.model.graph.node)
    assert (found.verdict, found.report["summary"]["float_nodes"]) == ("ok", [])
    assert {op: ops[op] for op in MOVED} == MOVED
    judged = qpasses.verify(found.model, original(), FEEDS)
    assert (judged.verdict, judged.report["summary"]["problems"]) == ("ok", [])


def test_all_layouts_give_the_same_numbers():
    first, *others = (
        Session(made(**options).model).run(None, FEEDS[0]) for options in LAYOUTS.values()
    )
    for each in others:
        for ours, theirs in zip(first, each, strict=True):
            np.testing.assert_array_equal(ours, theirs)


FORGED = {
    "pads of a pool": ("IntMaxPool", "pads", lambda pads: [2, *pads[1:]]),
    "the strides of a pool": ("IntMaxPool", "strides", lambda strides: [1, *strides[1:]]),
    "a window": ("IntMaxPool", "kernel_shape", lambda kernel: [kernel[0] - 1, *kernel[1:]]),
    "gaps": ("IntMaxPool", "dilations", lambda gaps: [2, *gaps[1:]]),
    "pads": ("IntPad", "pads", lambda pads: [*pads[4:], *pads[:4]]),
    "axes": ("IntExtreme", "axes", lambda axes: [-1]),
    "the largest": ("IntExtreme", "which", lambda which: b"largest"),
    "parts": ("IntShuffle", "split", lambda split: [0, split[2] * 2, 1, *split[3:]]),
    "the order of parts": ("IntShuffle", "perm", lambda perm: [0, 2, 5, 1, 4, 3]),
    "what is joined": ("IntShuffle", "joined", lambda sizes: [0, *sizes[:0:-1]]),
    "the mode of a pad": ("IntPad", "mode", lambda mode: b"edge"),
}


@pytest.mark.thinned
@pytest.mark.parametrize("fault", FORGED)
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_a_forged_attribute_is_found(fault, layout):
    op, name, change = FORGED[fault]
    true = made(layout=layout).model
    floats = Floats.of(true, original(), FEEDS[0])
    assert floats.differences(true) == []
    forged = onnx.ModelProto.FromString(true.SerializeToString())
    node = next(each for each in forged.graph.node if each.op_type == op)
    (attribute,) = (each for each in node.attribute if each.name == name)
    value = change(helper.get_attribute_value(attribute))
    assert value != helper.get_attribute_value(attribute)
    attribute.CopyFrom(helper.make_attribute(name, value))
    assert floats.differences(forged)


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_a_forged_constant_or_swapped_operands_are_found(layout):
    true = made(layout=layout).model
    floats = Floats.of(true, original(), FEEDS[0])
    moving = [node for node in true.graph.node if node.op_type in MOVED]
    constants = {each.name for each in true.graph.initializer}
    names = {name for node in moving for name in node.input} & constants
    assert len(names) > 5
    for name in names:
        assert floats.differences(one_off(true, name)), name
    forged = onnx.ModelProto.FromString(true.SerializeToString())
    node = next(each for each in forged.graph.node if each.op_type == "IntWhere")
    node.input[1:] = [node.input[2], node.input[1]]
    assert floats.differences(forged)


def test_a_node_without_a_form_as_tosa_is_refused_by_name():
    text = """g (float[1, 2, 6, 6] x) => (float[] y) {
        m = MaxPool <kernel_shape = [2, 2], dilations = [2, 2]> (x) y = Sigmoid (m) }"""
    feeds = [{"x": numbers(1, 2, 6, 6, seed=seed)} for seed in range(3)]
    wide = qpasses.quantize(model(text, opset=21), feeds, tensor_types=[".*=int16"]).model
    with pytest.raises(qpasses.QPassesError, match=r"IntMaxPool.*have no gaps"):
        qpasses.export(wide, to="tosa", check=True)
