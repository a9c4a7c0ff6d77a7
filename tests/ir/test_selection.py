"""Which nodes the user leaves in float: --nodes-to-exclude and --op-types-to-quantize."""

from functools import cache

import numpy as np
import pytest
from onnx import numpy_helper

import qpasses
from opsets.op import DOMAIN
from tests.support.commands import Desk, read_json
from tests.support.small_models import (
    cnn,
    cnn_weights,
    convolutions_around,
    model,
    numbers,
    pictures,
)

FOLDED = """
folded (float[N, 1, 8, 8] x) => (float[N, 3] y) {
    [conv1] c = Conv <pads = [1, 1, 1, 1]> (x, w1, b1)
    [norm] n = BatchNormalization (c, gamma, beta, mean, var)
    [relu] r = Relu (n)
    [conv2] d = Conv (r, w2)
    [shift] e = Add (d, k)
    [conv3] f = Conv (r, w3)
    [sum] s = Sum (e, f, e)
    [pool] p = GlobalAveragePool (s)
    [flat] q = Flatten (p)
    [product] m = MatMul (q, w4)
    [bias] y = Add (m, b4)
}"""
"""A model in which prepare folds, rewrites or absorbs most nodes."""

EXCLUDED = {
    "conv1": "incomplete",
    "norm": "incomplete",
    "relu": "incomplete",
    "conv2": "incomplete",
    "shift": "incomplete",
    "sum": "incomplete",
    "pool": "incomplete",
    "flat": "incomplete",
    "product": "incomplete",
    "bias": "ok",  # the last node: no integers behind it
}
"""The verdict when a node of FOLDED is left in float."""


@cache
def folded():
    weights = {
        "w1": numbers(4, 1, 3, 3),
        "b1": numbers(4),
        "gamma": np.array([1.5, 0.5, 1, 2], np.float32),
        "beta": numbers(4, seed=1),
        "mean": numbers(4, seed=2),
        "var": np.array([0.5, 1, 2, 1.5], np.float32),
        "w2": numbers(4, 4, 3, 3, seed=3),
        "k": numbers(4, 1, 1),
        "w3": numbers(4, 4, 3, 3, seed=4),
        "w4": numbers(4, 3),
        "b4": numbers(3),
    }
    return model(FOLDED, **weights)


@cache
def without(*patterns):
    """FOLDED quantized without the nodes that match."""
    return qpasses.quantize(folded(), pictures(4), nodes_to_exclude=patterns)


def floats(result):
    """What is listed as left in float: names to op types."""
    listed = result.report["summary"]["float_nodes"]
    return {node["name"]: node["op_type"] for node in listed}


def reasons(result):
    return {node["name"]: node["reason"] for node in result.report["summary"]["float_nodes"]}


def node_called(name, made):
    (node,) = [node for node in made.graph.node if node.name == name]
    return node


def constants_of(node, made):
    """The constant inputs of a node of ``made``, in order."""
    values = {tensor.name: numpy_helper.to_array(tensor) for tensor in made.graph.initializer}
    return [values[name] for name in node.input if name in values]


def assert_verified(result, made=None):
    verified = qpasses.verify(result.model, made or folded(), pictures(2))
    assert verified.report["summary"]["problems"] == []
    assert verified.verdict == result.verdict


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path, folded(), pictures())


# Excluded by name


@pytest.mark.thinned
@pytest.mark.parametrize("name", EXCLUDED)
def test_an_excluded_node_is_listed_as_what_it_was_with_the_reason(name):
    result = without(name)
    assert floats(result)[name] == node_called(name, folded()).op_type
    assert reasons(result)[name] == f"excluded by {name!r}"
    assert result.verdict == EXCLUDED[name]


FOLDED_INTO = {"conv1", "conv2"}
"""Float Convs take in the BatchNormalization and the Add behind them, excluded or not."""


@pytest.mark.parametrize("name", EXCLUDED)
def test_an_excluded_node_stands_in_the_emitted_graph_as_it_was(name):
    result, original = without(name), node_called(name, folded())
    found = node_called(name, result.model)
    assert (found.domain, found.op_type) == ("", original.op_type)
    assert list(found.attribute) == list(original.attribute)
    if name in FOLDED_INTO:
        return
    kept = constants_of(found, result.model)
    expected = constants_of(original, folded())
    assert len(kept) == len(expected)
    for ours, theirs in zip(kept, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


LEFT_WITH = {"product": {"bias"}}
"""Behind a float MatMul its bias would only be rounded."""


@pytest.mark.parametrize("name", EXCLUDED)
def test_nothing_but_the_excluded_node_is_left_in_float(name):
    assert floats(without(name)).keys() == {name, *LEFT_WITH.get(name, ())}
    assert without(name).report["accuracy"]["outputs"][0]["sqnr_db"] > 30


@pytest.mark.thinned
@pytest.mark.parametrize("name", EXCLUDED)
def test_verify_agrees_on_a_model_with_an_excluded_node(name):
    assert_verified(without(name))


@pytest.mark.parametrize(("tensor", "name"), [("c", "conv1"), ("s", "sum"), ("y", "bias")])
def test_a_node_is_excluded_by_the_tensor_it_writes_as_well(tensor, name):
    assert floats(without(tensor)) == floats(without(name))
    assert reasons(without(tensor))[name] == f"excluded by {tensor!r}"


def test_nodes_without_a_name_are_excluded_by_the_tensor_they_write():
    result = qpasses.quantize(cnn(), pictures(), nodes_to_exclude=["g"])
    assert list(floats(result).values()) == ["GlobalAveragePool"]
    assert_verified(result, cnn())


def test_a_moving_node_without_a_name_can_be_excluded():
    result = qpasses.quantize(cnn(), pictures(), nodes_to_exclude=["p"])
    assert list(floats(result).values()) == ["MaxPool"]
    assert_verified(result, cnn())


def test_a_pattern_is_a_regular_expression_for_whole_names():
    assert floats(without("conv[13]")).keys() == {"conv1", "conv3"}
    assert floats(without("o?conv3|.*uct")).keys() == {"conv3", "product", "bias"}
    assert floats(without(".*onv1", "prod.*")).keys() == {"conv1", "product", "bias"}


def test_the_reason_names_the_pattern_that_matched():
    found = reasons(without(".*onv1", "prod.*"))
    assert found["conv1"] == "excluded by '.*onv1'"
    assert found["product"] == "excluded by 'prod.*'"


def test_with_every_node_excluded_the_float_model_comes_out():
    result = without(".*")
    assert result.verdict == "incomplete"
    assert result.report["evidence"]["nodes"] == []
    assert floats(result) == {node.name: node.op_type for node in folded().graph.node}
    assert result.report["accuracy"]["outputs"][0]["max_abs_error"] < 1e-5
    assert_verified(result)


def test_excluded_nodes_stay_in_float_whatever_else_is_asked_for():
    options = {"integer_io": True, "activation_type": "int8", "emit": "standard"}
    result = qpasses.quantize(folded(), pictures(), nodes_to_exclude=["norm"], **options)
    assert floats(result) == {"norm": "BatchNormalization"}
    assert node_called("norm", result.model).op_type == "BatchNormalization"


def test_the_option_may_be_repeated_and_is_reported(desk):
    both = "--nodes-to-exclude", "conv3", "--nodes-to-exclude", "product"
    ended = desk.quantize(*both)
    assert ended.code == 0, ended.err
    report = read_json(desk.report)
    assert report["configuration"]["nodes_to_exclude"] == ["conv3", "product"]
    for line in ("left in float: 1 Conv", "left in float: 1 MatMul"):
        assert line in ended.out
    for name in ("conv3", "product"):
        assert f"{name}: excluded by {name!r}" in ended.out
    assert desk.verify().code == 0


NO_MATCH = {
    "conv": "'conv1'",  # whole names only
    "produkt": "'product'",
    "CONV2": "'conv2'",
    "(conv1": "regular expression",
    "[": "regular expression",
    "nothing like it": "nodes_to_exclude",
}


@pytest.mark.parametrize("pattern", NO_MATCH)
def test_a_pattern_that_matches_nothing_is_named_with_a_hint(desk, pattern):
    message = desk.refused("--nodes-to-exclude", "conv2", "--nodes-to-exclude", pattern)
    assert repr(pattern) in message
    assert NO_MATCH[pattern] in message


def test_a_text_instead_of_a_list_of_patterns_is_refused_as_a_whole():
    for option in ("nodes_to_exclude", "op_types_to_quantize"):
        with pytest.raises(qpasses.UsageError, match=f"{option}.*'conv1'"):
            qpasses.quantize(folded(), pictures(), **{option: "conv1"})


# Listed by op type


@cache
def only(*op_types):
    """FOLDED quantized in nodes of ``op_types``."""
    return qpasses.quantize(folded(), pictures(4), op_types_to_quantize=op_types)


def integers(result):
    """The names of integer nodes of this tool's own ops."""
    return {node.name for node in result.model.graph.node if node.domain == DOMAIN}


LISTED = {
    ("Conv",): {"conv1", "conv2", "conv3"},
    ("Conv", "MatMul"): {"conv1", "conv2", "conv3", "product"},
    ("MatMul",): {"product"},
    ("GlobalAveragePool",): {"pool"},
    ("Sum",): {"sum", "sum_1"},
    ("Relu", "Flatten"): set(),
}


@pytest.mark.thinned
@pytest.mark.parametrize("listed", LISTED)
def test_only_nodes_of_the_listed_types_become_integer(listed):
    result = only(*listed)
    assert integers(result) == LISTED[listed]
    assert result.verdict == "incomplete"
    assert_verified(result)


def test_a_node_of_another_type_is_listed_with_the_type_it_had_in_the_file():
    found = reasons(only("Conv"))
    assert found["product"] == "MatMul is not among the op types to quantize"
    assert found["sum"] == "Sum is not among the op types to quantize"
    assert found["pool"] == "GlobalAveragePool is not among the op types to quantize"


def test_what_costs_nothing_is_folded_although_its_type_is_not_listed():
    assert floats(only("Conv")).keys().isdisjoint({"norm", "relu", "shift"})
    assert floats(only("MatMul")).keys().isdisjoint({"norm", "bias"})


def test_all_types_listed_is_the_same_as_none():
    types = {node.op_type for node in folded().graph.node}
    everything = only(*sorted(types))
    assert everything.verdict == "ok"
    plain = qpasses.quantize(folded(), pictures(4))
    assert list(everything.model.graph.node) == list(plain.model.graph.node)


def test_listed_nodes_can_be_excluded_by_name():
    options = {"op_types_to_quantize": ["Conv"], "nodes_to_exclude": ["conv2"]}
    result = qpasses.quantize(folded(), pictures(), **options)
    assert integers(result) == {"conv1", "conv3"}
    assert reasons(result)["conv2"] == "excluded by 'conv2'"


def test_op_types_may_be_repeated_on_the_command_line(desk):
    both = "--op-types-to-quantize", "Conv", "--op-types-to-quantize", "MatMul"
    assert desk.quantize(*both).code == 0
    report = read_json(desk.report)
    assert report["configuration"]["op_types_to_quantize"] == ["Conv", "MatMul"]
    assert report["summary"]["nodes"]["IntGemm"] == 1


BAD_TYPES = {
    "Cnov": ["no ONNX operator", "'Conv'"],
    "conv": ["no ONNX operator", "'Conv'"],
    "Gemm": ["the model has no Gemm", "MatMul"],
    "MaxPool": ["the model has no MaxPool", "GlobalAveragePool"],
    "Softmax": ["the model has no Softmax"],
    "QuantizeLinear": ["QuantizeLinear"],
}


@pytest.mark.parametrize("op_type", BAD_TYPES)
def test_an_op_type_that_fits_nothing_is_named_with_a_hint(desk, op_type):
    message = desk.refused("--op-types-to-quantize", "Conv", "--op-types-to-quantize", op_type)
    assert op_type in message
    for words in BAD_TYPES[op_type]:
        assert words in message


def test_an_op_type_without_integer_form_is_named_as_such():
    made = convolutions_around("LRN <size = 3>")
    with pytest.raises(qpasses.UsageError, match=r"LRN has no integer form.*Conv"):
        qpasses.quantize(made, pictures(), op_types_to_quantize=["LRN"])


def test_the_second_of_two_relus_behind_a_conv_can_be_excluded():
    text = """g (float[N, 1, 8, 8] x) => (float[N, 4, 6, 6] y, float[N, 4, 6, 6] z) {
        [conv] a = Conv (x, w1, b1)
        [first] y = Relu (a)
        [second] z = Relu (y)
    }"""
    weights = {name: cnn_weights()[name] for name in ("w1", "b1")}
    made = model(text, **weights)
    result = qpasses.quantize(made, pictures(), nodes_to_exclude=["second"])
    assert floats(result) == {"second": "Relu"}
    assert_verified(result, made)
