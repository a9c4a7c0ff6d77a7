"""Results from 0 to 1 of targets with TFLite's kernels: steps of 1 / 256."""

import pytest

from qpasses import quantize
from tests.support.small_models import model, numbers

NET = "g (float[2, 8] x) => (float[2, 8] s, float[2, 8] p) { s = Sigmoid (x) p = Softmax (x) }"


def made(**options):
    result = quantize(
        model(NET), [{"x": numbers(2, 8, seed=seed)} for seed in range(3)], **options
    )
    tensors = {each["name"]: each for each in result.report["calibration"]["tensors"]}
    left = {each["name"]: each["reason"] for each in result.report["summary"]["float_nodes"]}
    return tensors, left


@pytest.mark.parametrize("stored_as", ["uint8", "int8"])
@pytest.mark.parametrize("target", ["litert", "tflm", "tflite-single"])
def test_sigmoid_and_softmax_end_at_255_of_256(target, stored_as):
    tensors, left = made(target=target, activation_type=stored_as)
    assert left == {}
    for name in "sp":
        assert tensors[name]["method"] == "unit"
        assert tensors[name]["range"] == [0.0, 255 / 256]


def test_other_targets_keep_what_samples_give():
    tensors, _ = made()
    assert all(tensors[name]["method"] != "unit" for name in "sp")
    tensors, left = made(softmax="gemmlowp")
    assert left == {} and tensors["p"]["method"] == "unit" != tensors["s"]["method"]


def test_an_override_is_kept_and_a_softmax_with_it_stays_float():
    tensors, left = made(target="litert", calibration_overrides=["[sp]=0,1"])
    assert [tensors[name]["range"] for name in "sp"] == [[0.0, 1.0]] * 2
    (reason,) = left.values()
    assert (
        "has the scale 0.00392157 and the zero point 0: TFLite's kernel has 1 / 256" in reason
    )


def test_fewer_codes_have_no_steps_of_1_over_256():
    tensors, left = made(target="litert", activation_bits=6)
    assert all(tensors[name]["method"] != "unit" for name in "sp")
    assert "Softmax by gemmlowp" in str(left)
