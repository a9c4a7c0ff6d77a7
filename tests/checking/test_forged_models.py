"""Models that were made to deceive the checker, or to break it: each is one clear line."""

import json

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import qpasses
from opsets.errors import QPassesError
from qpasses import quantize
from qpasses.checking.rules.check_functions import POINTWISE
from qpasses.ir.edges import dequantize
from qpasses.ir.edges import quantize as store
from qpasses.ir.elementwise import ELEMENTWISE
from qpasses.ir.function import Function
from qpasses.ir.model_nodes import nested_graphs
from qpasses.ir.record import Quantization
from qpasses.load.reading import digest
from tests.support.recurrent_net import recurrent_feeds, recurrent_net
from tests.support.small_models import model, numbers
from tests.support.thoroughness import THOROUGH

WEIGHTS = {"w": numbers(2, 2, 3, 3), "v": numbers(2, 2, 3, 3, seed=1)}
FEEDS = [{"x": numbers(1, 2, 6, 6, seed=seed)} for seed in range(2)]


def between(body, **constants):
    """A model from x to y, of one size, whose first and last Conv make c of x and y of d."""
    return model(
        f"""g (float[N, 2, 6, 6] x) => (float[N, 2, 6, 6] y) {{
            [first] c = Conv <pads = [1, 1, 1, 1]> (x, w)
            {body}
            [last] y = Conv <pads = [1, 1, 1, 1]> (d, v)
        }}""",
        **WEIGHTS,
        **constants,
    )


def copy_of(made):
    copy = onnx.ModelProto()
    copy.CopyFrom(made)
    return copy


def node_of(made, name):
    return next(node for node in made.graph.node if node.name == name)


def entry_of(owner, key):
    return next(each for each in owner.metadata_props if each.key == f"qpasses.{key}")


def branch_of(made, name):
    return next(each.g for each in node_of(made, "choice").attribute if each.name == name)


def problems(integer, original, feeds=None):
    """What is wrong with a model, one line each; a refusal counts as one."""
    try:
        found = qpasses.verify(integer, original, feeds)
    except QPassesError as error:
        return [str(error)]
    return found.report["summary"]["problems"]


def refused(integer, original):
    found = problems(integer, original)
    assert found and not any("\n" in each for each in found)
    return found[0]


@pytest.fixture(scope="module")
def plain():
    original = between("[middle] d = Add (c, x)")
    return original, quantize(original, FEEDS).model


BRANCHES = """
    [mean] m = ReduceMean <keepdims = 0> (c)
    [above] t = Greater (m, zero)
    [choice] d = If (t) <
        then_branch = one () => (float[N, 2, 6, 6] e)
            { [a] p = Sin (c) [b] q = Cos (c) [c] e = Sub (p, q) },
        else_branch = two () => (float[N, 2, 6, 6] f) { [d] f = Neg (c) }
    >"""


@pytest.fixture(scope="module")
def branched():
    original = between(BRANCHES, zero=np.float32(0))
    return original, quantize(original, FEEDS, nodes_to_exclude=["choice/.*"]).model


def test_functions_of_single_numbers_are_those_that_tables_are_made_of():
    assert POINTWISE == ELEMENTWISE


def test_a_table_of_what_looks_at_more_than_one_number_is_found():
    claimed = between("[middle] d = Softmax (c)")
    made = copy_of(
        quantize(between("[middle] d = Sigmoid (c)"), FEEDS, bodies="portable").model
    )
    node = node_of(made, "middle")
    meanings = {
        value.name: Quantization(
            *(json.loads(entry_of(value, key).value) for key in ("scale", "zero_point")),
            "uint8",
        )
        for value in made.graph.value_info
        if value.metadata_props
    }
    x, y = meanings[node.input[0]], meanings[node.output[0]]
    function = Function.from_text(json.loads(entry_of(node, "function").value))
    function.model.graph.node[0].op_type = "Softmax"
    codes = np.arange(256, dtype=np.uint8)
    table = next(each for each in made.graph.initializer if each.name == node.input[1])
    entries = store(function.run(dequantize(codes, x)), y)
    table.CopyFrom(numpy_helper.from_array(entries, table.name))
    entry_of(node, "function").value = json.dumps(function.as_text())
    entry_of(made, "float_sha256").value = json.dumps(digest(claimed))
    assert any("more than one number" in each for each in problems(made, claimed))


def test_the_order_of_nodes_in_a_branch_says_nothing(branched):
    original, made = branched
    assert problems(made, original, FEEDS) == []
    changed = copy_of(made)
    branch = branch_of(changed, "then_branch")
    assert [node.op_type for node in branch.node] == ["Sin", "Cos", "Sub"]
    first = branch.node.pop(0)
    branch.node.insert(1, first)
    assert problems(changed, original, FEEDS) == []


def test_a_change_in_a_branch_is_found(branched):
    original, made = branched
    changed = copy_of(made)
    inputs = branch_of(changed, "then_branch").node[2].input
    inputs[0], inputs[1] = inputs[1], inputs[0]
    assert "'choice/then/c'" in refused(changed, original)


def shadow(made):
    name = node_of(made, "choice").input[0]
    constant = numpy_helper.from_array(np.float32(3), "c_dequantized")
    assert "c_dequantized" in branch_of(made, "then_branch").node[0].input and name
    branch_of(made, "then_branch").initializer.append(constant)


def keep_idle(made):
    constant = numpy_helper.from_array(np.float32(3), "idle")
    branch_of(made, "then_branch").initializer.append(constant)


def note_inside(made):
    add_entries(branch_of(made, "then_branch").node[0], {"source": '["first"]'})


def call_inside(made):
    branch_of(made, "then_branch").node[0].overload = "other"


def declare_inside(made):
    output = branch_of(made, "then_branch").output[0]
    output.type.tensor_type.shape.dim[1].dim_value = 7


def declare_between(made):
    branch = branch_of(made, "then_branch")
    name = branch.node[0].output[0]
    del branch.value_info[:]
    branch.value_info.append(helper.make_tensor_value_info(name, 1, [9]))


@pytest.mark.parametrize(
    "change",
    [shadow, keep_idle, note_inside, call_inside, declare_inside, declare_between],
)
def test_what_a_branch_declares_is_compared(change, branched):
    original, made = branched
    changed = copy_of(made)
    change(changed)
    assert refused(changed, original)


@pytest.mark.parametrize(
    ("body", "made_with", "recorded"),
    [
        ("[middle] d = Softmax (c)", {}, {"softmax_nodes": "float"}),
        (
            "[middle] d = LeakyRelu (c)",
            {"activation_form": "multiplier"},
            {"activation_form": "table"},
        ),
    ],
)
def test_settings_that_the_graph_contradicts_are_found(body, made_with, recorded):
    original = between(body)
    made = copy_of(quantize(original, FEEDS, **made_with).model)
    entry = entry_of(made, "configuration")
    entry.value = json.dumps(json.loads(entry.value) | recorded)
    assert "recorded settings" in refused(made, original)


def test_weights_with_one_scale_behind_channels_with_their_own_are_no_crash():
    original = model(
        "g (float[1, 3, 5, 4] x) => (float[1, 3, 5, 4] y) {"
        "a = Conv (x, v) y = Conv <group = 3> (a, w) }",
        v=numbers(3, 3, 1, 1),
        w=numbers(3, 1, 1, 1),
    )
    feeds = [{"x": numbers(1, 3, 5, 4, seed=seed)} for seed in range(4)]
    made = copy_of(quantize(original, feeds, activation_scales="per-channel").model)
    entry = entry_of(made, "configuration")
    recorded = {"per_channel": False, "activation_scales": "auto"}
    entry.value = json.dumps(json.loads(entry.value) | recorded)
    assert "scales of its channels" in refused(made, original)


def test_a_branch_without_nodes_is_compared():
    body = """
        [mean] m = ReduceMean <keepdims = 0> (c)
        [above] t = Greater (m, zero)
        [choice] h = If (t) <
            then_branch = one () => (float e) { e = Constant <value = float {2.0}> () },
            else_branch = two () => (float f) { f = Constant <value = float {3.0}> () }
        >
        [scaled] d = Mul (c, h)"""
    original = between(body, zero=np.float32(0))
    made = quantize(original, FEEDS).model
    assert problems(made, original, FEEDS) == []
    changed = copy_of(made)
    given = branch_of(changed, "then_branch").node[0].input[0]
    tensor = next(each for each in changed.graph.initializer if each.name == given)
    values = numpy_helper.to_array(tensor)
    tensor.CopyFrom(numpy_helper.from_array(values + values.dtype.type(1), tensor.name))
    assert changed != made and refused(changed, original)


def test_constants_of_products_are_stored_in_the_simulation_too():
    """Stored, the two differ by half a step, which is more than a step of the result."""
    original = model(
        "g (float[1, 1, 2] x) => (float[1, 1, 1] y) { y = MatMul (x, w) }",
        w=np.array([[[-1.4915057e-30], [1.0733445e-30]]], np.float32),
    )
    feeds = [{"x": np.array([[[0.5, 0.5]]], np.float32)}]
    assert problems(quantize(original, feeds).model, original, feeds) == []


def test_stored_weights_of_a_node_that_stayed_in_float_are_found():
    original = between("[middle] d = Relu (c)")
    made = copy_of(quantize(original, FEEDS, nodes_to_exclude=["last"]).model)
    node, shape = node_of(made, "last"), WEIGHTS["v"].shape
    weights = next(each for each in made.graph.initializer if each.name == node.input[1])
    weights.CopyFrom(numpy_helper.from_array(np.zeros(shape, np.int8), weights.name))
    scale, zero = np.float32(1e30), np.int8(0)
    made.graph.initializer.append(numpy_helper.from_array(scale, "huge"))
    made.graph.initializer.append(numpy_helper.from_array(zero, "zero"))
    inputs = [weights.name, "huge", "zero"]
    edge = helper.make_node("DequantizeLinear", inputs, ["real"], "edge")
    made.graph.node.insert(0, edge)
    made.graph.value_info.append(helper.make_tensor_value_info("real", 1, shape))
    node.input[1] = "real"
    assert any("'last'" in each for each in problems(made, original, FEEDS))


STORED = {"scale": "0.5", "zero_point": "3", "dtype": '"uint8"'}
NODE = {"source": "[]", "scales": "{}", "cells": "1", "macs": "0", "bounds": "[null, null]"}


def add_entries(owner, entries):
    for key, value in entries.items():
        owner.metadata_props.add(key=f"qpasses.{key}", value=value)


def test_what_is_recorded_of_floats_weights_and_edges_is_found(plain, branched):
    for original, made in (plain, branched):
        kinds = ("initializer", "value_info", "node")
        for kind, place in [(k, i) for k in kinds for i in range(len(getattr(made.graph, k)))]:
            changed = copy_of(made)
            owner = getattr(changed.graph, kind)[place]
            if not owner.metadata_props:
                add_entries(owner, NODE if kind == "node" else STORED)
                assert refused(changed, original), owner.name


def test_costs_of_what_has_one_body_are_found(plain):
    original, made = plain
    changed = copy_of(made)
    add_entries(node_of(changed, "first"), {"costs": '{"portable": 1}'})
    assert "costs" in refused(changed, original)


def test_an_edge_of_another_domain_is_found(plain):
    original, made = plain
    changed = copy_of(made)
    node = next(each for each in changed.graph.node if each.op_type == "QuantizeLinear")
    node.domain = "com.microsoft"
    assert repr(node.name) in refused(changed, original)


@pytest.mark.parametrize("key", ["cells", "macs", "bounds", "source", "scales"])
def test_a_record_that_lacks_an_entry_is_refused(key, plain):
    original, made = plain
    changed = copy_of(made)
    owner = node_of(changed, "first").metadata_props
    owner.remove(entry_of(node_of(changed, "first"), key))
    assert key in refused(changed, original)


@pytest.mark.parametrize("key", ["declined", "sizes", "inputs", "raised_weight_scales"])
def test_metadata_of_the_model_that_are_not_there_are_missed(key, plain):
    original, made = plain
    changed = copy_of(made)
    changed.metadata_props.remove(entry_of(changed, key))
    assert refused(changed, original)


@pytest.mark.parametrize("sizes", [[10**6] * 4, [0, 2, 6, 6], [1, 2, 7, 6], [1, 2, 6]])
def test_recorded_sizes_that_no_input_has_are_found(sizes, plain):
    original, made = plain
    changed = copy_of(made)
    entry_of(changed, "sizes").value = json.dumps({"x": sizes})
    if sizes[1:] != [2, 6, 6]:
        with pytest.raises(qpasses.VerificationError, match="sizes"):
            qpasses.verify(changed, original)
    assert refused(changed, original)


HUGE = "1" + "0" * 400
JSON = [
    *("NaN", "Infinity", "1e999", "true", "null", '"\\ud800"', HUGE, HUGE * 20),
    *(
        "[" * 100_000,
        "[" * 900 + "]" * 900,
        "1e-320",
        "1e300",
        "[1e-320]",
        '{"x": [1.0], "x": [2.0]}',
    ),
]


@pytest.mark.thinned
@pytest.mark.parametrize("text", JSON, ids=lambda text: text[:12])
def test_entries_that_no_record_has_are_one_line(text, plain):
    original, made = plain
    node = node_of(made, "first")
    value = next(each for each in made.graph.value_info if each.metadata_props)
    owners = [("node", node), ("value_info", value)]
    for kind, owner in owners:
        for place, entry in enumerate(owner.metadata_props):
            changed = copy_of(made)
            copies = getattr(changed.graph, kind)
            copy = next(each for each in copies if each.name == owner.name)
            copy.metadata_props[place].value = text
            assert refused(changed, original), entry.key
    for place, entry in enumerate(made.metadata_props):
        changed = copy_of(made)
        changed.metadata_props[place].value = text
        if not (entry.key == "qpasses.version" and text.startswith('"')):
            assert refused(changed, original), entry.key


EVERY = 1 if THOROUGH else 3
"""So many attributes of a model take turns with what is odd, and so do its constants."""


def odd_attributes(name):
    yield from (
        helper.make_attribute(name, value) for value in (-7, 1 << 40, 1.5, "x", b"\xff")
    )
    yield from (helper.make_attribute(name, value) for value in ([1.5], ["a"], [1 << 62]))
    yield helper.make_attribute(name, numpy_helper.from_array(np.zeros(3, np.float32)))
    yield helper.make_attribute(name, helper.make_graph([], "empty", [], []))
    yield helper.make_attribute(name, [-1] * 5)
    yield helper.make_attribute(name, [1 << 30, 2])
    yield onnx.AttributeProto(name=name, type=onnx.AttributeProto.INTS)
    yield onnx.AttributeProto(name=name, type=onnx.AttributeProto.INT, ref_attr_name="other")


@pytest.mark.parametrize("name", ["more", ""])
def test_a_split_into_more_than_its_sizes_is_refused_before_onnxruntime_aborts(name):
    original = between("[middle] e, f = Split <axis = 1> (c) d = Concat <axis = 1> (f, e)")
    made = copy_of(quantize(original, FEEDS).model)
    node_of(made, "middle").output.append(name)
    assert "'middle'" in refused(made, original)


def test_a_name_that_is_no_text_is_refused(plain, tmp_path):
    original, made = plain
    content = made.SerializeToString()
    assert b"c_quantized" in content
    path = tmp_path / "damaged.onnx"
    path.write_bytes(content.replace(b"c_quantized", b"c_\xff\xfeantized"))
    assert "no text" in refused(path, original)
    path.write_bytes(original.SerializeToString().replace(b"first", b"fi\xffst"))
    assert "no text" in refused(made, path)


BODIES = {
    "add": ("[middle] d = Add (c, x)", {}),
    "table": ("[middle] d = Mul (c, columns)", {"columns": numbers(2, 1, 1)}),
    "reduce": ("[middle] d = ReduceMean <axes = [2]> (c)", {}),
    "pool": (
        "[middle] d = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (c)",
        {},
    ),
    "resize": (
        """[middle] r = Resize <mode = "linear"> (c, , factors)
           [cut] d = Slice (r, none, six, last)""",
        {
            "factors": np.array([1, 1, 1, 2], np.float32),
            **{"none": np.array([0]), "six": np.array([6]), "last": np.array([3])},
        },
    ),
    "products": ("[turned] t = Transpose <perm = [0, 1, 3, 2]> (c) d = MatMul (c, t)", {}),
    "softmax": ("[middle] d = Softmax (c)", {}),
    "moved": ("[middle] d = Transpose <perm = [0, 1, 3, 2]> (c)", {}),
}


@pytest.mark.thinned
@pytest.mark.parametrize("body", BODIES)
def test_attributes_and_constants_of_other_kinds_are_one_line(body):
    text, constants = BODIES[body]
    original = between(text, **constants)
    made = quantize(original, FEEDS).model
    for place, node in enumerate(made.graph.node):
        for number, attribute in enumerate(node.attribute):
            for other in [*odd_attributes(attribute.name)][(place + number) % EVERY :: EVERY]:
                changed = copy_of(made)
                changed.graph.node[place].attribute[number].CopyFrom(other)
                assert refused(changed, original), (node.name, other)
            changed = copy_of(made)
            changed.graph.node[place].attribute.append(attribute)
            assert refused(changed, original), (node.name, attribute.name, "twice")
    for place, tensor in enumerate(made.graph.initializer):
        values = numpy_helper.to_array(tensor)
        dtypes = sorted({"int8", "uint8", "int32", "int64", "float32"} - {values.dtype.name})
        for dtype in dtypes[place % EVERY :: EVERY]:
            changed = copy_of(made)
            other = numpy_helper.from_array(values.astype(dtype), tensor.name)
            changed.graph.initializer[place].CopyFrom(other)
            assert refused(changed, original), (tensor.name, dtype)
        changed = copy_of(made)
        changed.graph.initializer[place].data_type = onnx.TensorProto.BFLOAT16
        assert refused(changed, original), tensor.name


def test_a_body_that_splits_into_other_parts_than_it_names_is_refused():
    """onnxruntime ends the process on such a function."""
    feeds = recurrent_feeds(2)
    made = copy_of(quantize(recurrent_net(), feeds).model)
    bodies = [onnx.GraphProto(node=each.node) for each in made.functions]
    places = [
        (place, node)
        for place, body in enumerate(bodies)
        for graph in nested_graphs(body)
        for node in graph.node
        if any(each.name == "num_outputs" for each in node.attribute)
    ]
    place, split = places[0]
    next(each for each in split.attribute if each.name == "num_outputs").i = 1
    del made.functions[place].node[:]
    made.functions[place].node.extend(bodies[place].node)
    with pytest.raises(QPassesError, match="a Split has other outputs than it splits into"):
        qpasses.verify(made, recurrent_net(), feeds)
