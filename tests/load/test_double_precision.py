"""Models in float64: float32 but for what needs more digits, between the same edges."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

import qpasses
from opsets.errors import ModelError
from qpasses.load.arguments import given_source
from qpasses.load.digits import lost_in_float32
from tests.support.double_rows import feeds, rows
from tests.support.small_models import cnn, pictures

DOUBLE = TensorProto.DOUBLE


def doubled():
    """The network with all numbers in float64."""
    made = cnn()
    for tensor in made.graph.initializer:
        values = numpy_helper.to_array(tensor).astype(np.float64)
        tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    for value in (*made.graph.input, *made.graph.output):
        value.type.tensor_type.elem_type = DOUBLE
    return made


def kinds(values):
    return [(each.name, each.type.tensor_type.elem_type) for each in values]


def remark(result):
    (found,) = [each for each in result.report["warnings"] if "in float64 as before" in each]
    return found


def test_a_model_in_float64_becomes_integer_and_keeps_its_inputs_and_outputs():
    given, data = doubled(), pictures().astype(np.float64)
    result = qpasses.quantize(given, data)
    assert result.verdict == "ok"
    assert any("is float64: between its inputs" in w for w in result.report["warnings"])
    for ends in ("input", "output"):
        ours, theirs = (kinds(getattr(each.graph, ends)) for each in (result.model, given))
        assert ours == theirs
    left = {each["op_type"] for each in result.report["summary"]["float_nodes"]}
    assert left == {"Cast"}
    verified = qpasses.verify(result.model, given, data)
    assert verified.verdict == "ok"
    assert any("is float64: between its inputs" in w for w in verified.report["warnings"])
    plain = qpasses.quantize(cnn(), pictures())
    assert recorded_integers(result.model) == recorded_integers(plain.model)


def recorded_integers(made):
    """The 8-bit weights."""
    return sorted(
        numpy_helper.to_array(each).tobytes()
        for each in made.graph.initializer
        if each.data_type == TensorProto.INT8 and len(each.dims) > 1
    )


def test_samples_in_float32_are_widened_for_it():
    result = qpasses.quantize(doubled(), pictures())
    assert result.verdict == "ok"


def test_the_model_that_was_given_stays_as_it_is():
    given = doubled()
    before = given.SerializeToString(deterministic=True)
    source = given_source(given)
    assert given.SerializeToString(deterministic=True) == before
    onnx.checker.check_model(source.model, full_check=True)


def test_a_constant_that_float32_has_not_keeps_its_node_in_float64():
    start = 1_700_000_001.0
    made = rows("[since] t = Sub (x, start)", "t", start=np.array(start))
    result = qpasses.quantize(made, feeds(start))
    assert "node 'since': 'start' holds 1700000001.0, which float32 does not" in remark(result)
    left = [each["name"] for each in result.report["summary"]["float_nodes"]]
    assert "since" in left
    assert result.report["summary"]["integer_mac_share"] == 1.0
    assert result.report["accuracy"]["outputs"][0]["sqnr_db"] > 25
    assert qpasses.verify(result.model, made, feeds(start)).verdict == "incomplete"


def test_what_a_kept_node_reads_is_kept_back_to_the_input():
    before = """
        [half] h = Mul (x, two)
        [since] t = Sub (h, start)
        [beside] s = Add (h, t)"""
    made = rows(before, "s", start=np.array(2.0**25 + 1), two=np.array(2.0))
    found = {node.name: node for node in given_source(made).model.graph.node}
    assert list(found["half"].input) == ["x", "two"]
    assert list(found["since"].input) == ["h", "start"]
    assert list(found["beside"].input) == ["h_float32", "t_float32"]


@pytest.mark.parametrize("value", [2.0**25, 2.0**24 + 1, -16777217.0])
def test_sums_with_large_numbers_are_kept(value):
    made = rows("[shift] t = Add (x, c)", "t", c=np.full(8, value))
    assert "shift" in remark(qpasses.quantize(made, feeds(-value)))


def test_integers_of_64_bits_that_are_subtracted_from_are_kept():
    before = """
        [cast] t = Cast <to = 11> (x)
        [since] d = Sub (t, one)"""
    made = rows(before, "d", inputs="int64[N, 8] x", one=np.array(1.0))
    result = qpasses.quantize(made, feeds(1 << 30, np.int64))
    assert "node 'since': the integers in 't' may be above 2**24" in remark(result)


def test_a_mask_is_no_number_that_needs_digits():
    mask = np.where(np.arange(8) > 6, -1e9, 0.0)
    found = given_source(rows("[mask] t = Add (x, mask)", "t", mask=mask))
    assert not any("as before" in each for each in found.remarks)


@pytest.mark.parametrize(
    ("values", "lost"),
    [
        ([0.1, 1e9, -16777218.0], None),
        ([1.0, 16777217.0], 16777217.0),
        ([1.0, 1e39], 1e39),
        ([np.inf, 0.0], None),
        ([1e-300], 1e-300),
        ([1e-300, 1.0], None),
        ([], None),
    ],
)
def test_what_float32_does_not_hold(values, lost):
    assert lost_in_float32(np.array(values, np.float64)) == lost


def test_constants_of_both_are_there_in_both():
    before = """
        [big] t = Sub (x, large)
        [scale] s = Mul (t, k)
        [again] u = Mod <fmod = 1> (s, large)
        [other] v = Mul (u, k)"""
    made = rows(before, "v", large=np.array(16777217.0), k=np.array(0.5))
    source = given_source(made)
    onnx.checker.check_model(source.model, full_check=True)
    nodes = {node.name: list(node.input) for node in source.model.graph.node}
    assert nodes["scale"] == ["t", "k"]
    assert nodes["other"] == ["u_float32", "k_float32"]


def test_bodies_that_compute_in_float64_are_kept():
    branch = "then_branch = g () => (double[N, 8] p) { p = Neg (x) }"
    other = "else_branch = h () => (double[N, 8] q) { q = Identity (x) }"
    before = f"[flip] t = If <{branch}, {other}> (yes)"
    made = rows(before, "t", yes=np.array(True))
    yes = next(each for each in made.graph.initializer if each.name == "yes")
    made.graph.input.append(onnx.helper.make_tensor_value_info("yes", TensorProto.BOOL, []))
    made.graph.initializer.remove(yes)
    source = given_source(made)
    assert any("node 'flip': has a body" in each for each in source.remarks)
    onnx.checker.check_model(source.model, full_check=True)


def test_a_model_that_needs_all_of_it_is_refused_by_name():
    made = rows()
    for tensor in made.graph.initializer:
        values = np.array(numpy_helper.to_array(tensor))
        values.flat[0] = 16777217.0
        tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    with pytest.raises(ModelError, match=r"node 'one': 'w1' holds 16777217\.0, which float32"):
        qpasses.quantize(made, feeds())


def test_calibration_says_it_too():
    warnings = qpasses.calibrate(doubled(), pictures()).report["warnings"]
    assert warnings[0].startswith("the model is float64")
