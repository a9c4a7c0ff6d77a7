"""What is warned of: outputs far from float, few codes, random data."""

import numpy as np
import onnx
import pytest

import qpasses
from tests.support.commands import Desk, read_json, run
from tests.support.small_models import cnn, model, numbers, pictures

NARROW = """
narrow (float[N, 4] x) => (float[N, 8] y) {
    [wide] a = MatMul (x, w1)
    [narrow] b = MatMul (x, w2)
    [join] y = Concat <axis = 1> (a, b)
}"""


def joined(ratio):
    """The Concat of two products, a ``ratio`` times as wide as b."""
    return model(NARROW, w1=numbers(4, 4), w2=numbers(4, 4) / np.float32(ratio))


def warnings_of(*arguments, **options):
    return qpasses.quantize(*arguments, **options).report["warnings"]


def test_a_sound_model_on_real_data_is_warned_of_nothing():
    assert warnings_of(cnn(), pictures()) == []
    assert warnings_of(joined(2), numbers(20, 4)) == []


def test_a_tensor_that_shares_the_scale_of_a_much_wider_one_is_named_with_its_codes():
    (warning,) = warnings_of(joined(50), numbers(20, 4), integer_io=True)
    assert "'b'" in warning
    assert "5 of 256 codes" in warning


@pytest.mark.parametrize(("ratio", "warned"), [(15, 0), (18, 1), (1e6, 1)])
def test_fewer_than_sixteen_codes_are_few(ratio, warned):
    assert len(warnings_of(joined(ratio), numbers(20, 4), integer_io=True)) == warned


def test_a_narrow_tensor_that_something_else_reads_too_has_a_scale_of_its_own():
    made = joined(50)
    info = onnx.helper.make_tensor_value_info("b", onnx.TensorProto.FLOAT, ["N", 4])
    made.graph.output.append(info)
    report = qpasses.quantize(made, numbers(20, 4)).report
    assert report["warnings"] == []
    assert [each["tensor"] for each in report["joins"] if each["table"]] == ["b"]


def test_a_relu_that_would_use_few_codes_gets_a_scale_of_its_own_and_no_warning():
    text = """g (float[N, 4] x) => (float[N, 4] y) {
        [conv] a = MatMul (x, w)
        [kept] b = Identity (a)
        [flat] c = Flatten (b)
        y = Clip (c, low, high)
    }"""
    ends = {"low": np.float32(0), "high": np.float32(0.01)}
    assert warnings_of(model(text, w=numbers(4, 4), **ends), numbers(20, 4)) == []


CANCELLED = """
cancelled (float[N, 4] x) => (float[N, 4] y, float[N, 4] z) {
    [first] z = MatMul (x, w1)
    [second] b = MatMul (x, w2)
    [difference] y = Add (z, b)
}"""


def cancelled():
    """y is a small difference of large tensors."""
    w1 = numbers(4, 4)
    return model(CANCELLED, w1=w1, w2=-w1 + np.float32(0.002) * numbers(4, 4, seed=1))


def test_an_output_below_10_db_is_named_with_its_distance():
    result = qpasses.quantize(cancelled(), numbers(20, 4))
    (low, high) = (each["sqnr_db"] for each in result.report["accuracy"]["outputs"])
    assert low < 10 < high
    assert result.report["warnings"] == [f"output 'y' is only {low:.1f} dB from float"]
    assert result.verdict == "ok"


def test_verify_warns_of_such_an_output_on_its_own_samples():
    made = qpasses.quantize(cancelled(), numbers(20, 4)).model
    report = qpasses.verify(made, cancelled(), numbers(30, 4, seed=5)).report
    low = report["accuracy"]["outputs"][0]["sqnr_db"]
    assert report["warnings"] == [f"output 'y' is only {low:.1f} dB from float"]


def test_warnings_are_printed_above_the_verdict(tmp_path):
    ended = Desk(tmp_path, cancelled(), numbers(20, 4)).quantize()
    lines = ended.out.splitlines()
    (place,) = [i for i, line in enumerate(lines) if line.startswith("warning: output 'y'")]
    assert lines[place + 1].startswith("verdict: proofs ok; accuracy poor (")
    assert ended.code == 0


# Random data


@pytest.fixture
def at_random(tmp_path):
    desk = Desk(tmp_path, cnn(), pictures())
    assert desk.quantize("--data", "random:8").code == 0
    return desk


def random_alone(warnings):
    """Whether there are warnings, all of them of random data."""
    return bool(warnings) and all("random" in warning for warning in warnings)


def test_random_data_are_warned_of_by_quantize_and_recorded(at_random):
    report = read_json(at_random.report)
    assert random_alone(report["warnings"])
    assert report["configuration"]["random_data"] is True
    assert "8 samples of random numbers" in report["samples"]["source"]


def test_verify_warns_of_a_model_made_of_random_data(at_random):
    ended = at_random.verify()
    assert ended.code == 0
    assert random_alone(read_json(at_random.report)["warnings"])
    assert "warning: " in ended.out


def test_verify_warns_of_random_data_of_its_own(tmp_path):
    desk = Desk(tmp_path, cnn(), pictures())
    desk.quantize()
    assert read_json(desk.report)["warnings"] == []
    assert desk.verify("--data", "random:4").code == 0
    assert random_alone(read_json(desk.report)["warnings"])


def test_inspect_warns_of_a_model_made_of_random_data(at_random):
    lines = run("inspect", at_random.output).out.splitlines()
    assert random_alone([line for line in lines if line.startswith("warning")])
    at_random.quantize()
    assert "random" not in run("inspect", at_random.output).out


def test_random_data_from_python_are_the_same_each_time():
    first, second = (qpasses.quantize(cnn(), "random:8") for _ in range(2))
    assert first.model == second.model
    assert random_alone(first.report["warnings"])
