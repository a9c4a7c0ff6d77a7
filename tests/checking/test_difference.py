"""Two models beside one another: what is the same, what differs, what one has alone."""

import json

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import qpasses
from opsets.qpasses_v1 import OPS
from qpasses.checking.difference import Unlike
from tests.support.quantized_nets import PLAIN, net
from tests.support.small_models import cnn, layered, model, numbers, pictures, save

NAMED = """net (float[N, 1, 8, 8] x) => (float[N, 3] y) {
    [conv] a = Conv <pads = [1, 1, 1, 1]> (x, w1, b1)
    [relu] r = Relu (a)
    [other] b = Conv (x, w2)
    [sum] s = Add (r, b)
    [wave] t = Sigmoid (s)
    [pool] p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (t)
    [mean] g = GlobalAveragePool (p)
    [flat] f = Flatten (g)
    [scores] y = Gemm (f, w3, b3)
}"""


def named(text=NAMED, **more):
    weights = {"w1": numbers(4, 1, 3, 3), "b1": numbers(4), "w2": numbers(4, 1, 1, 1)}
    return model(text, **weights, w3=numbers(4, 3), b3=numbers(3), **more)


def integers(given=None, **options):
    return qpasses.quantize(given or named(), pictures(), **options).model


@pytest.fixture(scope="module")
def made():
    return integers()


def changed(made, name, change):
    """A copy in which the initializer of the node ``name`` that ends so is changed."""
    copy = onnx.ModelProto()
    copy.CopyFrom(made)
    node, place = name
    (found,) = [each for each in copy.graph.node if each.name == node]
    tensor = next(t for t in copy.graph.initializer if t.name == found.input[place])
    values = numpy_helper.to_array(tensor).copy()
    change(values)
    tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    return copy


def whats(found):
    return {node.one: [each.what for each in node.unlike] for node in found.nodes}


# The same


def test_a_model_is_the_same_as_itself(made):
    found = qpasses.diff(made, made)
    assert found.is_same and found.as_json()["same"]
    assert found.same_float_model is True
    assert found.one == found.other


def test_a_file_has_the_bytes_of_the_file(made, tmp_path):
    path = save(tmp_path, "made.onnx", made)
    found = qpasses.diff(path, path).one
    assert (found.file, found.path) == (path.stat().st_size, str(path))
    tables = {n.input[-1] for n in made.graph.node if n.op_type == "Lut"}
    assert found.tables == 256 * len(tables) > 0
    sizes = [numpy_helper.to_array(each).nbytes for each in made.graph.initializer]
    assert found.weights + found.tables <= sum(sizes)


def test_where_the_graph_lies_in_memory_changes_no_node():
    lying = [integers(layout=layout) for layout in ("nchw", "nhwc")]
    found = qpasses.diff(*lying)
    assert {what for each in whats(found).values() for what in each} <= {"body"}
    assert not found.alone


# What differs


def test_weights_of_other_codes_are_counted(made):
    def move(values):
        values.ravel()[:3] ^= 1

    place = 2  # x, x_zero, w
    (node,) = qpasses.diff(made, changed(made, ("conv", place), move)).nodes
    (unlike,) = node.unlike
    assert (node.one, unlike.what, unlike.differ, unlike.size) == ("conv", "w", 3, 36)
    assert unlike.one == unlike.other == "int8[4, 1, 3, 3]"


def test_a_clamp_a_multiplier_a_shift_and_a_table_are_named(made):
    for node, op, name in (
        ("conv", "IntConv", "multiplier"),
        ("conv", "IntConv", "y_min"),
        ("sum", "IntAdd", "a_multiplier"),
        ("scores", "IntGemm", "bias"),
    ):
        place = list(OPS[op].inputs).index(name)
        found = qpasses.diff(made, changed(made, (node, place), lambda v: v.__iadd__(1)))
        assert name in whats(found)[node]
        assert {what for each in whats(found).values() for what in each} == {name}


def test_other_scales_of_a_tensor_are_shown_where_it_is_written(made):
    found = qpasses.diff(made, integers(calibration_overrides=["r=0,3"]))
    assert "scale of y" in whats(found)["conv"]
    assert "a_multiplier" in whats(found)["sum"]
    assert not {"scale of a", "a_zero"} & {*whats(found)["sum"]}
    assert "ends of y" not in whats(found)["conv"]
    scales = {each.what: each for each in found.nodes[0].unlike}["scale of y"]
    assert scales.other == pytest.approx(3 / 255)


def test_another_body_is_named(made):
    found = whats(qpasses.diff(made, integers(bodies="portable")))
    assert all("body" in each for name, each in found.items() if name != "pool")
    assert {"conv", "sum", "wave", "scores"} <= found.keys()


def test_another_rounding_is_an_attribute_that_differs(made):
    found = qpasses.diff(made, integers(target="tflite"))
    assert "rounding" in whats(found)["conv"]


def test_a_node_that_reads_another_one_differs():
    made = integers(layout="nchw")
    wired = onnx.ModelProto()
    wired.CopyFrom(made)
    (total,) = [each for each in wired.graph.node if each.name == "sum"]
    a, b = (list(OPS["IntAdd"].inputs).index(name) for name in "ab")
    total.input[a], total.input[b] = total.input[b], total.input[a]
    (unlike,) = [each for each in qpasses.diff(made, wired).nodes if each.one == "sum"]
    assert Unlike("reads", ["conv", "other"], ["other", "conv"]) in unlike.unlike


def test_a_node_that_stays_in_float_has_another_op_and_its_neighbours_new_edges(made):
    found = qpasses.diff(made, integers(nodes_to_exclude=["scores"]))
    assert whats(found)["scores"][0] == "op"
    assert all(each.op.endswith("Linear") for each in found.alone)


def test_a_fixed_size_is_a_difference_of_the_ends(made):
    found = qpasses.diff(made, integers(input_shape=["1,1,8,8"]))
    assert [each.what for each in found.ends] == ["input x", "output y"]


def test_another_seed_is_another_float_model():
    found = qpasses.diff(integers(cnn()), integers(cnn(seed=1)))
    assert found.same_float_model is False and not found.is_same


# Float and integer


def test_float_nodes_are_found_by_name_or_within_what_computes_them(made):
    found = qpasses.diff(named(), made)
    assert found.same_float_model is True
    ops = {each.one: (each.unlike[0].one, each.unlike[0].other) for each in found.nodes}
    assert ops["conv"] == ("Conv", "IntConv") and ops["sum"] == ("Add", "IntAdd")
    alone = {each.name: each for each in found.alone}
    assert (alone["relu"].side, alone["relu"].within) == ("one", "conv")
    assert alone["x_quantize"].side == "other"
    assert "pool" not in alone and "pool" not in ops


def test_a_bias_is_within_the_product_that_took_it_in_before_it_had_a_record():
    text = """net (float[2, 3] x) => (float[2, 3] y) {
        [product] a = MatMul (x, w) [bias] b = Add (a, c) [clamp] y = Relu (b) }"""
    original = model(text, w=numbers(3, 3), c=numbers(3))
    integer = qpasses.quantize(original, [{"x": numbers(2, 3)}] * 2).model
    alone = {each.name: each.within for each in qpasses.diff(original, integer).alone}
    assert alone["bias"] == alone["clamp"] == "product"
    assert alone["y_dequantize"] == ""


def test_either_may_come_first(made):
    forth, back = qpasses.diff(named(), made), qpasses.diff(made, named())
    assert {each.one for each in forth.nodes} == {each.other for each in back.nodes}
    sides = {"one": "other", "other": "one"}
    assert {(sides[each.side], each.name) for each in forth.alone} == {
        (each.side, each.name) for each in back.alone
    }


def test_nodes_of_other_names_are_found_by_their_source(made):
    other = onnx.ModelProto()
    other.CopyFrom(made)
    for node in other.graph.node:
        node.name = f"renamed/{node.name}"
    found = qpasses.diff(made, other)
    assert found.is_same is False
    assert {each.op for each in found.alone} <= {
        "QuantizeLinear",
        "DequantizeLinear",
        "MaxPool",
        "Flatten",
    }
    assert not found.nodes


def test_a_quantized_model_is_compared_with_what_becomes_of_it():
    quantized = net(PLAIN)
    found = qpasses.diff(quantized, qpasses.integerize(quantized).model)
    assert found.same_float_model is True
    assert found.other.is_integer and not found.one.is_integer


def test_two_float_models_are_compared_too():
    found = qpasses.diff(cnn(), cnn(seed=1))
    assert found.same_float_model is None
    assert {each.unlike[0].what for each in found.nodes} == {"input 1"}
    assert qpasses.diff(cnn(), cnn()).is_same


PARTS = """g (float[2, 4] x) => (float[2, 2] y, float[2, 2] z) {
    [split] a, b = Split <axis = 1, num_outputs = 2> (x)
    [up] y = Relu (FIRST)
    [down] z = Neg (SECOND)
}"""


def parts(first, second, text=PARTS):
    return model(text.replace("FIRST", first).replace("SECOND", second), opset=18)


def test_the_other_part_of_a_split_is_another_input():
    found = qpasses.diff(parts("a", "b"), parts("b", "a"))
    assert whats(found) == {"up": ["reads"], "down": ["reads"]}
    assert found.nodes[0].unlike[0].other == ["split:1"]


def test_an_output_that_another_node_writes_is_named():
    other = PARTS.replace("y = Relu", "z = Relu").replace("z = Neg", "y = Neg")
    found = qpasses.diff(parts("a", "b"), parts("a", "b", other))
    assert [each.what for each in found.ends] == ["output y is of", "output z is of"]


FILLED = """g (float[2, 4] x) => (float[2, 4] y) {
    n = Shape (x)
    [fill] c = ConstantOfShape <value = float[1] {VALUE}> (n)
    [pad] p = Pad (c, grow, least)
    [sum] y = Add (x, p)
}"""


def test_infinite_numbers_are_like_themselves_and_texts_in_json():
    def filled(value, least):
        text = FILLED.replace("VALUE", value)
        return model(text, grow=np.zeros(4, np.int64), least=np.float32(least))

    assert qpasses.diff(filled("1", -np.inf), filled("1", -np.inf)).is_same
    found = qpasses.diff(filled("1", np.inf), filled("2", -np.inf))
    assert whats(found) == {"fill": ["value"], "pad": ["input 2"]}
    json.dumps(found.as_json(), allow_nan=False)


# What cannot be compared


def test_models_without_a_node_in_common_are_an_error(made):
    with pytest.raises(qpasses.UsageError, match="no node in common"):
        qpasses.diff(made, integers_of_layers())


def integers_of_layers():
    given = layered()
    for node in given.graph.node:
        node.name = f"layer/{node.name}"
    return qpasses.quantize(given, numbers(3, 8, 6, 6)[:, None]).model


def test_an_integer_model_without_its_record_is_an_error(made):
    bare = onnx.ModelProto()
    bare.CopyFrom(made)
    for node in bare.graph.node:
        del node.metadata_props[:]
    with pytest.raises(qpasses.ModelError, match="no record"):
        qpasses.diff(made, bare)
