"""--integer-io: inputs and outputs of the emitted graph are the stored integers."""

import json
from functools import cache

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import qpasses
from tests.support.commands import Desk, read_json
from tests.support.small_models import (
    cnn,
    every_tensor,
    model,
    numbers,
    pictures,
    recorded,
    session,
)

TYPES = {"uint8": TensorProto.UINT8, "int8": TensorProto.INT8}


def stored(real, made, name, dtype="uint8"):
    """``real`` in the codes of an input of ``made``."""
    scale, zero_point = recorded(made)[name]
    ends = np.iinfo(dtype)
    codes = np.rint(real / np.float32(scale)) + zero_point
    return np.clip(codes, ends.min, ends.max).astype(dtype)


def interface(values):
    """Names of inputs or outputs, with their types."""
    return {value.name: value.type.tensor_type.elem_type for value in values}


def op_types(made):
    return [node.op_type for node in made.graph.node]


def assert_verified(result, made, data):
    verified = qpasses.verify(result.model, made, data)
    assert verified.report["summary"]["problems"] == []
    assert verified.verdict == result.verdict
    assert verified.report["accuracy"]["outputs"] == result.report["accuracy"]["outputs"]


# One input, one output


@pytest.mark.parametrize("dtype", TYPES)
def test_inputs_and_outputs_are_integers_and_nothing_converts_them(dtype):
    result = qpasses.quantize(cnn(), pictures(), integer_io=True, activation_type=dtype)
    assert interface(result.model.graph.input) == {"x_quantized": TYPES[dtype]}
    assert interface(result.model.graph.output) == {"y_quantized": TYPES[dtype]}
    assert {"QuantizeLinear", "DequantizeLinear"}.isdisjoint(op_types(result.model))
    assert result.verdict == "ok"
    assert result.report["warnings"] == []
    onnx.checker.check_model(result.model)


@pytest.mark.thinned
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("symmetric", [False, True])
def test_codes_fed_by_hand_give_the_integers_inside_the_ordinary_model(dtype, symmetric):
    options = {"activation_type": dtype, "symmetric": symmetric}
    ordinary = qpasses.quantize(cnn(), pictures(), **options).model
    made = qpasses.quantize(cnn(), pictures(), integer_io=True, **options).model
    inside = every_tensor(ordinary, {"x": pictures()})
    codes = stored(pictures(), made, "x_quantized", dtype)
    np.testing.assert_array_equal(codes, inside["x_quantized"])
    found = every_tensor(made, {"x_quantized": codes})
    assert set(found) == {name for name in inside if name not in ("x_quantized", "y")}
    for name, values in found.items():
        np.testing.assert_array_equal(values, inside[name], strict=True)


def test_the_outputs_mean_what_the_ordinary_model_puts_out():
    ordinary = qpasses.quantize(cnn(), pictures()).model
    made = qpasses.quantize(cnn(), pictures(), integer_io=True).model
    codes = stored(pictures(), made, "x_quantized")
    scale, zero_point = recorded(made)["y_quantized"]
    (found,) = session(made).run(None, {"x_quantized": codes})
    (expected,) = session(ordinary).run(None, {"x": pictures()})
    real = (found.astype(np.float32) - zero_point) * np.float32(scale)
    np.testing.assert_array_equal(real, expected)


def test_the_accuracy_is_that_of_the_ordinary_model_and_verify_agrees():
    ordinary = qpasses.quantize(cnn(), pictures())
    result = qpasses.quantize(cnn(), pictures(), integer_io=True)
    assert result.report["accuracy"] == ordinary.report["accuracy"]
    assert result.report["evidence"] == ordinary.report["evidence"]
    assert_verified(result, cnn(), pictures())


def test_the_command_line_makes_and_verifies_such_a_model(tmp_path):
    desk = Desk(tmp_path, cnn(), pictures())
    assert desk.quantize("--integer-io").code == 0
    assert read_json(desk.report)["configuration"]["integer_io"] is True
    assert interface(onnx.load(desk.output).graph.input) == {"x_quantized": TensorProto.UINT8}
    assert desk.verify().code == 0
    assert read_json(desk.report)["summary"]["verdict"] == "ok"


@pytest.mark.thinned
@pytest.mark.parametrize("edge", ["input", "output"])
@pytest.mark.parametrize("key", ["qpasses.scale", "qpasses.zero_point"])
def test_verify_notices_a_changed_record_at_an_edge(edge, key):
    made = qpasses.quantize(cnn(), pictures(), integer_io=True).model
    (value,) = getattr(made.graph, edge)
    (entry,) = [each for each in value.metadata_props if each.key == key]
    entry.value = json.dumps(json.loads(entry.value) + 1)
    assert qpasses.verify(made, cnn(), pictures()).verdict == "failed"


# Many inputs and outputs

MIXED = """
mixed (float[N, 4] a, int64[N, 2] ids, float[N, 4] b, bool[N, 2] mask)
    => (float[N, 3] y, int64[N, 2] twice, bool[N, 2] unlike, float[N, 4] total) {
    total = Add (a, b)
    y = MatMul (total, w)
    twice = Add (ids, ids)
    unlike = Not (mask)
}"""


@cache
def mixed():
    return model(MIXED, w=numbers(4, 3))


def mixed_samples(count=8):
    return [
        {
            "a": numbers(1, 4, seed=i),
            "ids": np.array([[i, -i]]),
            "b": 3 * numbers(1, 4, seed=i + 100),
            "mask": np.array([[True, i % 2 == 0]]),
        }
        for i in range(count)
    ]


def test_inputs_and_outputs_that_are_no_floats_pass_untouched():
    result = qpasses.quantize(mixed(), mixed_samples(), integer_io=True)
    inputs, outputs = result.model.graph.input, result.model.graph.output
    assert interface(inputs) == {
        "a_quantized": TensorProto.UINT8,
        "ids": TensorProto.INT64,
        "b_quantized": TensorProto.UINT8,
        "mask": TensorProto.BOOL,
    }
    assert interface(outputs) == {
        "y_quantized": TensorProto.UINT8,
        "twice": TensorProto.INT64,
        "unlike": TensorProto.BOOL,
        "total_quantized": TensorProto.UINT8,
    }
    assert [each.name for each in inputs] == ["a_quantized", "ids", "b_quantized", "mask"]
    assert result.report["warnings"] == []


def test_each_of_several_inputs_is_stored_at_its_own_scale():
    ordinary = qpasses.quantize(mixed(), mixed_samples()).model
    made = qpasses.quantize(mixed(), mixed_samples(), integer_io=True).model
    assert recorded(made)["a_quantized"] != recorded(made)["b_quantized"]
    for sample in mixed_samples():
        codes = {f"{n}_quantized": stored(sample[n], made, f"{n}_quantized") for n in "ab"}
        inside = every_tensor(ordinary, sample)
        names = [each.name for each in made.graph.output]
        found = session(made).run(
            names, {"ids": sample["ids"], "mask": sample["mask"], **codes}
        )
        for name, values in zip(names, found, strict=True):
            np.testing.assert_array_equal(values, inside[name], strict=True)


def test_verify_feeds_each_of_several_inputs():
    result = qpasses.quantize(mixed(), mixed_samples(), integer_io=True)
    assert_verified(result, mixed(), mixed_samples())


SHAPES = """
shapes (float[N, 2, 4] x) => (float[N, 2, 3] y, int64 size) {
    sizes = Shape (x)
    size = Size (x)
    batch = Slice (sizes, zero, one)
    flat = Concat <axis = 0> (batch, eight)
    rows = Reshape (x, flat)
    product = MatMul (rows, w)
    square = Concat <axis = 0> (batch, two_by_three)
    y = Reshape (product, square)
}"""


def test_shape_and_size_of_an_input_are_those_of_its_integers():
    ints = {"zero": [0], "one": [1], "eight": [8], "two_by_three": [2, 3]}
    constants = {name: np.array(value) for name, value in ints.items()}
    made = model(SHAPES, w=numbers(8, 6), **constants)
    result = qpasses.quantize(made, numbers(8, 2, 4), integer_io=True)
    assert interface(result.model.graph.input) == {"x_quantized": TensorProto.UINT8}
    y, size = session(result.model).run(None, {"x_quantized": np.zeros((5, 2, 4), np.uint8)})
    assert y.shape == (5, 2, 3)
    assert size == 40
    assert_verified(result, made, numbers(8, 2, 4))


# Edges that stay in float

FLOAT_EDGES = {
    "y = MatMul (x, w) z = Softmax (y)": {"output 'y'", "output 'z'"},
    "m = MatMul (x, w) y = Identity (m) z = Softmax (m)": {"output 'y'", "output 'z'"},
    "s = Softmax (x) y = MatMul (s, w) z = Relu (y)": {"input 'x'"},
    "y = MatMul (x, w) z = Softmax (x)": {"input 'x'", "output 'z'"},
    "y = MatMul (x, w) z = Identity (x)": {"input 'x'", "output 'z'"},
    "y = MatMul (x, w) z = MatMul (y, v)": set(),
    "y = MatMul (x, w) z = Relu (y)": set(),
}


@pytest.mark.thinned
@pytest.mark.parametrize("body", FLOAT_EDGES)
def test_an_edge_next_to_float_stays_float_and_is_warned_of(body):
    weights = {"w": numbers(4, 4), "v": numbers(4, 4, seed=1)}
    used = {name: each for name, each in weights.items() if f"{name})" in body}
    made = model(f"g (float[N, 4] x) => (float[N, 4] y, float[N, 4] z) {{ {body} }}", **used)
    result = qpasses.quantize(made, numbers(8, 4), integer_io=True, softmax_nodes="inner")
    warned = {" ".join(line.split()[:2]) for line in result.report["warnings"]}
    assert warned == FLOAT_EDGES[body]
    graph = result.model.graph
    for kind, values in (("input", graph.input), ("output", graph.output)):
        for name, elem_type in interface(values).items():
            still_float = f"{kind} {name!r}" in warned
            assert elem_type == (TensorProto.FLOAT if still_float else TensorProto.UINT8)
    assert_verified(result, made, numbers(8, 4))


def test_an_edge_beside_an_excluded_node_stays_float():
    made = model(
        """g (float[N, 4] x) => (float[N, 4] y) {
            [one] m = MatMul (x, w)
            [two] y = Add (m, m)
        }""",
        w=numbers(4, 4),
    )
    options = {"integer_io": True, "nodes_to_exclude": ["two"]}
    result = qpasses.quantize(made, numbers(8, 4), **options)
    (warning,) = result.report["warnings"]
    assert "output 'y'" in warning
    assert_verified(result, made, numbers(8, 4))


def test_names_that_clash_with_those_of_stored_tensors_are_kept_apart():
    made = model(
        "g (float[N, 4] x, float[N, 4] x_quantized) => (float[N, 4] y) {"
        " y = Add (x, x_quantized) }"
    )
    data = [{"x": numbers(1, 4, seed=i), "x_quantized": 5 * numbers(1, 4)} for i in range(4)]
    result = qpasses.quantize(made, data, integer_io=True)
    names = list(interface(result.model.graph.input))
    assert len(set(names)) == 2
    assert {"x", "x_quantized"}.isdisjoint(names)
    assert_verified(result, made, data)


def test_an_input_that_nothing_reads_is_left_alone():
    made = model(
        "g (float[N, 4] x, float[N, 2] spare) => (float[N, 3] y) { y = MatMul (x, w) }",
        w=numbers(4, 3),
    )
    data = [{"x": numbers(1, 4, seed=i), "spare": numbers(1, 2)} for i in range(4)]
    result = qpasses.quantize(made, data, integer_io=True)
    types = {"x_quantized": TensorProto.UINT8, "spare": TensorProto.FLOAT}
    assert interface(result.model.graph.input) == types
    assert_verified(result, made, data)
