"""Samples that nearly fit: other names, labels beside them, sizes that no model takes."""

import numpy as np
import pytest

import qpasses
from tests.support.commands import MODEL, USAGE, Desk, assert_refused, read_json
from tests.support.small_models import cnn, model, numbers, pictures, save

UNET = """
g (float[N, 1, H, W] x) => (float[N, 4, h, w] y) {
    a = Conv <pads = [1, 1, 1, 1]> (x, w1)
    b = MaxPool <kernel_shape = [4, 4], strides = [4, 4]> (a)
    c = Resize <mode = "nearest"> (b, , factors)
    y = Add (a, c)
}"""

TWO = "g (float[N, 4] a, float[N, 4] b) => (float[N, 4] y) { y = Sub (a, b) }"


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path, cnn(), pictures())


def quantized(desk, data, *options):
    desk.data = data
    ended = desk.quantize(*options)
    assert ended.code == 0, ended.err
    return read_json(desk.report)


def test_the_only_array_is_for_the_only_input_and_that_is_said(desk):
    data = save(desk.folder, "named.npz", {"image": pictures()})
    report = quantized(desk, data)
    assert "array 'image' is taken for input 'x'" in report["warnings"]
    same = quantized(desk, save(desk.folder, "data.npz", {"x": pictures()}))
    assert same["calibration"] == report["calibration"]


@pytest.mark.thinned
@pytest.mark.parametrize("place", ["a file", "a folder", "feeds", "feeds with plain numbers"])
def test_labels_are_left_out_and_that_is_said(desk, place):
    labels = np.arange(8)
    if place == "a file":
        data = save(desk.folder, "all.npz", {"x": pictures(), "label": labels})
    elif place == "a folder":
        data = desk.folder / "samples"
        data.mkdir()
        for i in range(8):
            save(data, f"{i}.npz", {"x": pictures()[i], "label": labels[i]})
    elif place == "feeds with plain numbers":
        data = [{"x": pictures()[i : i + 1], "label": int(labels[i])} for i in range(8)]
    else:
        data = [{"x": pictures()[i : i + 1], "label": labels[i]} for i in range(8)]
    result = qpasses.quantize(cnn(), data)
    said = "no inputs of the model, left out of samples: 'label'"
    assert said in result.report["warnings"]
    assert said in qpasses.calibrate(cnn(), data).report["warnings"]
    assert said in qpasses.verify(result.model, cnn(), data).report["warnings"]


def test_names_are_mapped(desk):
    data = save(desk.folder, "all.npz", {"image": pictures(), "other": pictures(seed=2)})
    report = quantized(desk, data, "--inputs", "x=image")
    assert "no inputs of the model, left out of samples: 'other'" in report["warnings"]
    assert desk.verify("--inputs", "x=image").code == 0
    assert desk.calibrate("--inputs", "x=image").code == 0


def test_two_names_may_be_swapped():
    feeds = {"a": numbers(6, 4), "b": numbers(6, 4, seed=1)}
    made, swapped = model(TWO), {"a": feeds["b"], "b": feeds["a"]}
    samples = [
        [{k: v[i : i + 1] for k, v in each.items()} for i in range(6)]
        for each in (feeds, swapped)
    ]
    plain = qpasses.quantize(made, samples[0]).report["calibration"]
    mapped = qpasses.quantize(made, samples[1], inputs={"a": "b", "b": "a"})
    assert mapped.report["calibration"] == plain


def test_of_other_names_the_error_says_how_to_map_them(desk):
    desk.data = save(desk.folder, "all.npz", {"image": pictures(), "label": np.arange(8)})
    ended = desk.quantize()
    assert_refused(ended, USAGE, "all.npz", "'x'", "'image', 'label'", "--inputs x=image")


@pytest.mark.parametrize("given", ["x=image", ["x"], {"x": 3}, 7, ["=a"]])
def test_names_of_another_kind_are_refused(given):
    with pytest.raises(qpasses.UsageError, match="INPUT=ARRAY"):
        qpasses.quantize(cnn(), [{"x": pictures(1)}], inputs=given)


def test_sizes_that_the_model_cannot_run_on_come_with_a_multiple_that_it_can(desk):
    save(
        desk.folder,
        "float.onnx",
        model(UNET, w1=numbers(4, 1, 3, 3), factors=np.float32([1, 1, 4, 4])),
    )
    desk.data = save(desk.folder, "odd.npy", numbers(3, 1, 9, 10))
    ended = desk.quantize()
    assert_refused(ended, MODEL, "multiples of 4", "--size", "--input-shape x:1,1,12,12")
