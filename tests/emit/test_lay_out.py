"""Channels last: the same integers in another order of memory, and ONNX's order back."""

import itertools
import json
import re

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import pytest

import qpasses
from qpasses.emit.certificate import node_digest
from qpasses.load.integer_model import read_integer_model
from tests.support.commands import USAGE, Desk, assert_refused
from tests.support.small_models import (
    cnn,
    laid_copies,
    model,
    nodes_as_onnx,
    numbers,
    pictures,
    session,
)

WEIGHTS = {
    "w": numbers(6, 3, 3, 3),
    "v": numbers(6, 6, 1, 1),
    "deep": numbers(6, 1, 3, 3),
    "half": np.abs(numbers(6, 1, 1)) / 4,
    "quarter": np.float32(0.25),
    "rows_of": numbers(6, 11, 1) > 0,
    "third": np.full(1, 1 / 3, np.float32),
}
SIZES = {
    "shape": np.array([0, 2, 3, 8, 8]),
    "back": np.array([0, 6, 8, 8]),
    "rows": np.array([0, 6, 64]),
    "flat": np.array([0, -1]),
    "two": np.array([2, 2, 2]),
    "axes": np.array([1, -2, 3]),
    "zeros": np.array([0, 1, 0]),
    "ends": np.array([6, 7, 7]),
    "pads": np.array([0, 1, 2, 3, 0, 0, 1, 0]),
    "around": np.array([0, 0, 2, 3, 0, 0, 1, 0]),
    "parts": np.array([2, 4]),
    "scales": np.array([1, 1, 2, 2], np.float32),
    "last": np.array([2, 3]),
}

BODIES = {
    "convolutions": """
        c = Conv (a, v)  r = Relu (c)  y = Conv <pads = [1, 1, 1, 1], group = 6> (r, deep)""",
    "a sum": "c = Conv (a, v)  s = Add (a, c)  y = Conv (s, v)",
    "a product of channels": """
        m = GlobalAveragePool (a)  g = Conv (m, v)  h = Sigmoid (g)  p = Mul (a, h)
        y = Conv (p, v)""",
    "a mean": "m = ReduceMean <keepdims = 1> (a, last)  p = Mul (a, m)  y = Conv (p, v)",
    "a mean without axes": "m = ReduceMean <keepdims = 0> (a, last)  y = Softmax (m)",
    "slopes": "r = PRelu (a, half)  y = Conv (r, v)",
    "a slope": "r = PRelu (a, third)  y = Conv (r, v)",
    "pools": """
        p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (a)
        q = AveragePool <kernel_shape = [2, 2]> (p)  y = Conv (q, v)""",
    "padded averages": """
        q = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (a)  y = Conv (q, v)""",
    "a pool at the end": "y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (a)",
    "parts": """
        b, c = Split <axis = 1> (a, parts)  d = Concat <axis = -3> (c, b)  y = Conv (d, v)""",
    "slices": """
        s = Slice (a, zeros, ends, axes)  p = Pad <mode = "constant"> (s, pads)
        c = Concat <axis = 2> (p, p)  y = GlobalAveragePool (c)""",
    "nearest": """
        u = Resize <mode = "nearest"> (a, "", scales)  y = Conv <strides = [2, 2]> (u, v)""",
    "linear": """
        u = Resize <mode = "linear"> (a, "", scales)  y = Conv <strides = [2, 2]> (u, v)""",
    "a shuffle": """
        s = Reshape (a, shape)  t = Transpose <perm = [0, 2, 1, 3, 4]> (s)
        b = Reshape (t, back)  y = Conv (b, v)""",
    "rows": "r = Reshape (a, rows)  t = Transpose <perm = [0, 2, 1]> (r)  y = Softmax (t)",
    "mirrored": """
        p = Pad <mode = "reflect"> (a, around)  c = Conv (p, v)
        s = Where (rows_of, c, quarter)  y = Conv (s, v)""",
    "largest": """
        m = ReduceMax <keepdims = 1> (a, last)  p = Mul (a, m)  y = Conv (p, v)""",
    "a head": "m = GlobalAveragePool (a)  y = Flatten (m)",
    "a squeezed head": "m = GlobalAveragePool (a)  y = Squeeze (m, last)",
    "turned": "t = Transpose <perm = [0, 2, 3, 1]> (a)  y = Softmax (t)",
    "turned by nothing": "t = Transpose <perm = [0, 1, 2, 3]> (a)  y = Conv (t, v)",
    "turned and back": """
        t = Transpose <perm = [0, 2, 3, 1]> (a)  r = Sigmoid (t)
        b = Transpose <perm = [0, 3, 1, 2]> (r)  y = Conv (b, v)""",
    "two outputs": "y = Conv (a, v)  z = Sigmoid (y)",
    "a norm": "n = LayerNormalization (a, g, h)  y = Conv (n, v)",
}
OUTPUTS = {"two outputs": ("y", "z")}
RANKS = {
    "a head": 2, "a squeezed head": 2, "a mean without axes": 2, "rows": 3,
}  # fmt: skip


def net(name):
    axes = ", ".join("abcdef"[: RANKS.get(name, 4)]).replace("a", "n", 1)
    outputs = ", ".join(f"float[{axes}] {each}" for each in OUTPUTS.get(name, ("y",)))
    body = f"""g (float[N, 3, 8, 8] x) => ({outputs}) {{
        [stem] a = Conv <pads = [1, 1, 1, 1]> (x, w)  {BODIES[name]}
    }}"""
    read = set(re.split(r"\W+", body))
    given = {n: v for n, v in (WEIGHTS | SIZES).items() if n in read}
    given |= {"g": numbers(8), "h": numbers(8)} if name == "a norm" else {}
    return model(body, opset=21, ir_version=10, **given)


def feeds():
    return [{"x": each} for each in numbers(4, 2, 3, 8, 8)]


def both(name, **options):
    return [
        qpasses.quantize(net(name), feeds(), layout=each, **options).model
        for each in ("nchw", "nhwc")
    ]


def digests(made):
    read = read_integer_model(made, "the model")
    return {node.name: node_digest(node, read.record) for node in read.graph.nodes}


WORDS = {"tensor_types": [".*=int16"]}
MOVED_WORDS = ("pools", "a pool at the end", "slices", "nearest", "mirrored", "largest")


@pytest.mark.thinned
@pytest.mark.parametrize(
    ("name", "options"),
    [*((name, {}) for name in BODIES), *((name, WORDS) for name in MOVED_WORDS)],
)
def test_either_layout_gives_the_same_bits_and_means_the_same(name, options):
    first, last = both(name, **options)
    for feed, optimize in itertools.product(feeds()[:2], [False, True]):
        ours, theirs = (session(m, optimize=optimize).run(None, feed) for m in (last, first))
        for one, other in zip(ours, theirs, strict=True):
            assert one.tobytes() == other.tobytes()
    assert digests(first) == digests(last)
    assert qpasses.verify(last, net(name), feeds()).verdict == "ok"


@pytest.mark.thinned
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"activation_type": "int8"},
        {"target": "tflite"},
        {"activation_scales": "per-channel"},
    ],
)
def test_other_types_targets_and_scales_of_channels_may_lie_so_too(options):
    name = "a product of channels"
    first, last = both(name, **options)
    assert digests(first) == digests(last)
    assert qpasses.verify(last, net(name), feeds()).verdict == "ok"


@pytest.mark.thinned
@pytest.mark.parametrize("target", ["bm1684x", "ivit", "tflite"])
@pytest.mark.parametrize("name", ["slopes", "a slope"])
def test_slopes_that_are_integers_lie_as_what_is_around_them(name, target):
    first, last = both(name, target=target)
    relus = [node.op_type for node in last.graph.node if node.op_type.endswith("Relu")]
    assert relus == ["IntCodedPRelu"]
    assert sum(node.op_type == "Transpose" for node in last.graph.node) == 2
    assert digests(first) == digests(last)
    assert qpasses.verify(last, net(name), feeds()).verdict == "ok"


@pytest.mark.parametrize(("axes", "layout"), [("a, b", "nwc"), ("a, b, c, d", "ndhwc")])
def test_one_and_three_axes_have_their_layouts(axes, layout):
    dims = axes.count(",")
    body = f"g (float[1, 2, {', '.join(['9'] * dims)}] x) => (float[{axes}, e] y) {{"
    body += " a = Conv (x, w)  r = Relu (a)  y = Conv (r, v) }"
    made = model(body, w=numbers(3, 2, *[3] * dims), v=numbers(2, 3, *[1] * dims))
    data = [{"x": each} for each in numbers(3, 1, 2, *[9] * dims)]
    found = qpasses.quantize(made, data).model
    overloads = {node.overload for node in found.graph.node if node.op_type == "IntConv"}
    assert f"onnxruntime_{layout}" in overloads
    assert qpasses.verify(found, made, data).verdict == "ok"


def test_few_transposes_remain():
    last = both("convolutions")[1]
    copies = laid_copies(last)
    assert sum(node.op_type == "Transpose" for node in last.graph.node) <= 2
    assert len(last.graph.node) - len(nodes_as_onnx(last)) == len(copies) // 2


def test_auto_is_last_for_bodies_of_onnxruntime_alone():
    made = {bodies: qpasses.quantize(cnn(), pictures(), bodies=bodies).model
            for bodies in ("onnxruntime", "portable")}  # fmt: skip
    laid = {bodies: laid_copies(each) != set() for bodies, each in made.items()}
    assert laid == {"onnxruntime": True, "portable": False}


def test_inputs_and_outputs_lie_as_they_did():
    for made in both("turned and back"):
        assert [each.dim_value for each in _sizes(made.graph.input[0])][1:] == [3, 8, 8]
        assert len(_sizes(made.graph.output[0])) == 4


def _sizes(value):
    return value.type.tensor_type.shape.dim


# Files that were changed


@pytest.fixture(scope="module")
def laid():
    return both("a sum")[1]


def changed(made, key, value):
    copy = onnx.ModelProto()
    copy.CopyFrom(made)
    for entry in copy.metadata_props:
        if entry.key == f"qpasses.{key}":
            entry.value = json.dumps(value)
    return copy


def orders_of(made):
    (found,) = [e.value for e in made.metadata_props if e.key == "qpasses.orders"]
    return json.loads(found)


def names_in(orders):
    return [name for names in orders.values() for name in names]


FORGED = {
    "no order": lambda orders: {},
    "a tensor left out": lambda orders: {k: v[1:] for k, v in orders.items()},
    "another order": lambda orders: {"0 3 1 2": names_in(orders)},
    "an axis twice": lambda orders: {"0 1 1 2": names_in(orders)},
    "fewer axes": lambda orders: {"0 2 1": names_in(orders)},
    "an input": lambda orders: {k: [*v, "x"] for k, v in orders.items()},
    "a text": lambda orders: {"last": names_in(orders)},
    "a list": lambda orders: [1],
    "a number": lambda orders: dict.fromkeys(orders, 1),
}


@pytest.mark.parametrize("name", FORGED)
def test_orders_that_cannot_be_are_refused(laid, name):
    forged = changed(laid, "orders", FORGED[name](orders_of(laid)))
    with pytest.raises(qpasses.ModelError):
        qpasses.verify(forged, net("a sum"), feeds())


def test_a_convolution_that_does_not_say_its_layout_is_refused(laid):
    copy = onnx.ModelProto()
    copy.CopyFrom(laid)
    for node in copy.graph.node:
        kept = [each for each in node.attribute if each.name != "channels_last"]
        del node.attribute[:]
        node.attribute.extend(kept)
    with pytest.raises(qpasses.ModelError, match="does not say that channels are last"):
        qpasses.verify(copy, net("a sum"), feeds())


@pytest.mark.parametrize("key", ["qpasses.scale", "qpasses.zero_point"])
def test_a_copy_that_is_said_to_mean_something_else_is_found(key):
    made = both("pools")[1]
    copies = [v for v in made.graph.value_info if v.name.endswith("_transposed")]
    (entry,) = [each for each in copies[0].metadata_props if each.key == key]
    entry.value = json.dumps(json.loads(entry.value) + 1)
    problems = problems_of(made, "pools")
    assert any(f"{copies[0].name!r} is recorded unlike " in each for each in problems)


def test_a_copy_that_is_said_to_have_other_sizes_is_refused():
    made = both("pools")[1]
    copies = [v for v in made.graph.value_info if v.name.endswith("_transposed")]
    copies[0].type.tensor_type.shape.dim[-1].dim_value += 1
    with pytest.raises(qpasses.ModelError, match="said to have other sizes"):
        qpasses.verify(made, net("pools"), feeds())


def problems_of(made, name="a sum"):
    return qpasses.verify(made, net(name)).report["summary"]["problems"]


def copied(made):
    copy = onnx.ModelProto()
    copy.CopyFrom(made)
    return copy


def test_a_body_for_the_other_layout_is_found_without_running_it(laid):
    """Both functions are in the file: what one node calls is another thing."""
    copy = copied(laid)
    node = next(each for each in copy.graph.node if each.overload == "onnxruntime_nhwc")
    function = next(each for each in copy.functions if each.overload == node.overload)
    plain = qpasses.quantize(net("a sum"), feeds(), layout="nchw").model
    if all(each.overload != "onnxruntime" for each in copy.functions):
        copy.functions.append(next(f for f in plain.functions if f.name == function.name))
    node.overload = "onnxruntime"
    said = f"node {node.name!r} calls body 'onnxruntime', expected 'onnxruntime_nhwc'"
    assert said in problems_of(copy)


def test_ops_without_layouts_have_no_bodies_for_them():
    copy = copied(both("a sum")[0])
    node = next(each for each in copy.graph.node if each.op_type == "IntAdd")
    node.overload += "_nhwc"
    with pytest.raises(qpasses.ModelError, match="its body is for nhwc"):
        problems_of(copy)


def test_a_constant_with_two_roles_is_refused():
    last = copied(both("slopes")[1])
    slopes = next(node for node in last.graph.node if node.op_type == "LutPerChannel")
    names = orders_of(last)
    key = next(iter(names))
    names[key].append(slopes.input[1])
    with pytest.raises(qpasses.ModelError, match="is read in another order too"):
        problems_of(changed(last, "orders", names), "slopes")


def test_nothing_lies_otherwise_beside_bodies(laid):
    copy = copied(laid)
    body = onnx.helper.make_graph(
        [onnx.helper.make_node("RandomUniform", [], ["inner"], shape=[1])],
        "body",
        [],
        [onnx.helper.make_tensor_value_info("inner", 1, None)],
    )
    condition = onnx.numpy_helper.from_array(np.array(True), "condition")
    copy.graph.initializer.append(condition)
    branches = {"then_branch": body, "else_branch": body}
    copy.graph.node.append(onnx.helper.make_node("If", ["condition"], ["z"], "if", **branches))
    copy.graph.output.append(onnx.helper.make_tensor_value_info("z", 1, None))
    with pytest.raises(qpasses.ModelError, match="has bodies, beside which"):
        read_integer_model(copy, "the model")


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_tables_of_channels_that_lie_elsewhere_are_refused(axis):
    last = copied(both("slopes")[1])
    node = next(node for node in last.graph.node if node.op_type == "LutPerChannel")
    (found,) = [each for each in node.attribute if each.name == "axis"]
    assert found.i == 3
    found.i = axis
    with pytest.raises(qpasses.ModelError, match="in orders that cannot be"):
        problems_of(last, "slopes")


@pytest.mark.parametrize("size", [3, 7])
def test_sizes_of_a_reshape_that_do_not_fit_are_refused(size):
    last = copied(both("rows")[1])
    node = next(node for node in last.graph.node if node.op_type == "Reshape")
    value = next(v for v in last.graph.value_info if v.name == node.input[0])
    _sizes(value)[1].dim_value = size
    with pytest.raises(qpasses.ModelError, match="in orders that cannot be"):
        problems_of(last, "rows")


def test_a_file_without_shapes_is_refused(laid):
    copy = onnx.ModelProto()
    copy.CopyFrom(laid)
    del copy.graph.value_info[:]
    with pytest.raises(qpasses.ModelError, match="does not say the shape of"):
        qpasses.verify(copy, net("a sum"), feeds())


def test_another_axis_of_a_join_is_found():
    last = both("parts")[1]
    for node in last.graph.node:
        if node.op_type in ("Split", "Concat"):
            (axis,) = [each for each in node.attribute if each.name == "axis"]
            axis.i = 1 if axis.i > 0 else -3
    assert qpasses.verify(last, net("parts"), feeds()).verdict == "failed"


# Options


def test_the_command_line_has_it(tmp_path):
    desk = Desk(tmp_path, cnn(), pictures())
    assert desk.quantize("--layout", "nchw").code == 0
    assert desk.verify().code == 0
    assert_refused(desk.quantize("--layout", "chwn"), USAGE, "--layout")
