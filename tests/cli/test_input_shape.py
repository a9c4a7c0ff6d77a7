"""--input-shape: free sizes of inputs, fixed by the user."""

import numpy as np
import onnx
import pytest

import qpasses
from tests.support.commands import USAGE, assert_refused, run
from tests.support.small_models import model, numbers, save

PICTURE = """
g (float[N, 1, H, W] x) => (float[N, 4, up, right] y) {
    [conv] a = Conv <pads = [1, 1, 1, 1]> (x, w)
    [resize] y = Resize <mode = "linear"> (a, , factors)
}"""

TWO = """
g (float[N, L] a, float[N, L] b) => (float[N, L] y) { s = Add (a, b) y = Relu (s) }"""


def picture():
    return model(PICTURE, w=numbers(4, 1, 3, 3), factors=np.float32([1, 1, 2, 2]))


def sizes(value):
    return [dim.dim_value or dim.dim_param for dim in value.type.tensor_type.shape.dim]


@pytest.fixture
def path(tmp_path):
    return save(tmp_path, "free.onnx", picture())


def quantize(path, *options, data="random:2"):
    output = path.parent / "out.onnx"
    ended = run("quantize", path, "--data", data, "-o", output, *options)
    if ended.code == 0:
        return ended, onnx.load(output)
    assert not output.exists()
    return ended, None


def test_free_sizes_are_fixed_and_what_needs_them_becomes_integer(path):
    ended, made = quantize(path, "--input-shape", "x:2,1,8,6")
    assert ended.code == 0, ended.err
    assert sizes(made.graph.input[0]) == [2, 1, 8, 6]
    assert sizes(made.graph.output[0]) == [2, 4, 16, 12]
    assert "IntResize" in {node.op_type for node in made.graph.node}
    ended = run("verify", path.parent / "out.onnx", "--against", path, "--data", "random:2")
    assert (ended.code, "verdict: proofs ok" in ended.out) == (0, True), ended.out


def test_without_them_the_reason_says_what_fixes_them(path):
    data = save(path.parent, "data.npy", numbers(3, 1, 8, 8))
    report = qpasses.quantize(path, data).report
    (left,) = report["summary"]["float_nodes"]
    assert (left["name"], "--input-shape" in left["reason"]) == ("resize", True)


def test_the_name_may_be_left_out_and_minus_one_leaves_a_size_free(path):
    ended, made = quantize(path, "--input-shape", "-1,1,8,8")
    assert ended.code == 0, ended.err
    assert sizes(made.graph.input[0]) == ["N", 1, 8, 8]


def test_sizes_of_one_name_are_the_same_number_in_all_inputs(tmp_path):
    made = qpasses.quantize(model(TWO), "random:2", input_shape={"a": (2, 5)}).model
    assert [sizes(each) for each in made.graph.input] == [[2, 5], [2, 5]]


def test_a_name_that_two_sizes_contradict_stands_for_none():
    square = model("g (float[N, any, any] x) => (float[N, any, any] y) { y = Relu (x) }")
    made = qpasses.quantize(square, "random:1", input_shape=["x:-1,4,6"]).model
    assert sizes(made.graph.input[0]) == ["N", 4, 6]


def test_a_calibration_takes_it_and_its_table_is_that_of_the_same_model(path):
    table = path.parent / "table.json"
    given = "--data", "random:2", "--input-shape", "x:1,1,8,8"
    ended = run("calibrate", path, *given, "-o", table)
    assert ended.code == 0, ended.err
    ended, _ = quantize(path, "--calibration-table", table, "--input-shape", "x:1,1,8,8")
    assert ended.code == 0, ended.err


def test_an_integer_model_of_free_sizes_is_verified_on_made_up_numbers_of_given_ones(path):
    data = save(path.parent, "data.npy", numbers(3, 1, 8, 8))
    assert quantize(path, data=data)[0].code == 0
    given = path.parent / "out.onnx", "--against", path, "--data", "random:2"
    assert_refused(run("verify", *given), USAGE, "--input-shape x:1,1,?,?")
    ended = run("verify", *given, "--input-shape", "1,1,10,8")
    assert ended.code == 0, ended.err


def test_made_up_pictures_take_their_size(path):
    assert quantize(path, "--size", "8x6")[0].code == 0
    (path.parent / "out.onnx").unlink()
    ended, _ = quantize(path, "--size", "8", "--mean", "3")
    assert_refused(ended, USAGE, "only pictures are preprocessed")


@pytest.mark.parametrize(
    ("given", "culprits"),
    [
        ("z:1,1,8,8", ["free.onnx", "no input 'z'", "'x'"]),
        ("x:1,8,8", ["'x'", "free.onnx", "4 dimensions", "1,8,8"]),
        ("x:1,3,8,8", ["'x'", "free.onnx", "[?, 1, ?, ?]", "1,3,8,8"]),
        ("x:1,1,a,8", ["'x:1,1,a,8'", "NAME:1,3,224,224"]),
        ("x:", ["'x:'", "NAME:1,3,224,224"]),
        ("x:1,1,0,8", ["'x:1,1,0,8'", "0 is no size"]),
        ("x:1,1,-2,8", ["-2 is no size"]),
        ("x:1,1,99999999999,8", ["99999999999 is no size"]),
    ],
)
def test_sizes_that_the_model_does_not_take_are_refused(path, given, culprits):
    ended, _ = quantize(path, "--input-shape", given)
    assert_refused(ended, USAGE, "--input-shape", *culprits)


def test_samples_of_other_sizes_are_refused_with_the_option(path):
    data = save(path.parent, "data.npy", numbers(3, 1, 8, 8))
    ended, _ = quantize(path, "--input-shape", "x:1,1,9,8", data=data)
    assert_refused(ended, USAGE, "data.npy[0]", "'x'", "[1, 1, 8, 8]", "--input-shape")


def test_two_inputs_need_names_and_each_is_given_once(tmp_path):
    path = save(tmp_path, "two.onnx", model(TWO))
    ended, _ = quantize(path, "--input-shape", "2,5")
    assert_refused(ended, USAGE, "two.onnx", "'a', 'b'", "NAME:2,5")
    ended, _ = quantize(path, "--input-shape", "a:2,5", "--input-shape", "a:2,6")
    assert_refused(ended, USAGE, "'a' is given twice")


@pytest.mark.parametrize("given", ["x:1,1,8,8", {"x": 3.5}, [3], 7, {"x": "8"}])
def test_another_kind_of_argument_is_a_usage_error(path, given):
    with pytest.raises(qpasses.UsageError, match="input_shape"):
        qpasses.quantize(path, "random:1", input_shape=given)
