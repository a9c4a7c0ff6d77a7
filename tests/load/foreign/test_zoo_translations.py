"""Quantized models as people publish them: translated, they give what they gave."""

from pathlib import Path

import numpy as np
import onnx
import pytest

from qpasses.load.foreign import is_quantized, standard_qdq
from qpasses.load.reading import read_model
from tests.bench.manifest import ZOO
from tests.support.small_models import session
from tests.support.translations import quantizing_at_run_time, run, translated

FOLDER = ZOO / "more" / "quantized"

pytestmark = [
    pytest.mark.zoo,
    pytest.mark.skipif(
        not FOLDER.is_dir(),
        reason=f"no quantized models at {FOLDER}: set QPASSES_ZOO to the folder of the zoo",
    ),
]

TRANSLATED = [
    *("espcn_nnresize_brevitas_qcdq", "jettagging_qkeras_qcdq", "tfc_2w2a_brevitas_qcdq"),
    *("micro_kws_m_qoperator", "micro_kws_m_qoperator_softmax", "tinycnn_esp_qoperator"),
    *("ssd_mobilenet_st_qdq", "tflite_mlperf_kws_int8", "tflite_mlperf_resnet8_int8"),
    *("tflite_mobilenetv2_imagenet_qat_u8", "tflite_movenet_lightning_int8"),
]
"""Those that are said in another way, and give the very same numbers."""

STANDARD = [
    *("ece_cnn_v1_qdq", "micro_kws_m_qdq", "mobilenetv2_imagenet_qdq_s8s8"),
    *("motor_fault_1dcnn_qdq", "ort_conv_convtranspose_s8", "ort_qdq16_op21_block"),
    *("ort_qdq_axis_snps", "ort_qdq_u8_block", "tflite_toycar_weightonly_int8"),
    *("tinyml_mobilenetv3_cifar_qdq_s8", "yolo_lpr_qdq_u8s8"),
]
"""Those that are standard already."""

QONNX = ["espcn_nnresize_brevitas", "jettagging_qkeras", "tfc_2w2a_brevitas"]
"""Those that onnxruntime does not load, each beside its twin with Q/DQ."""


def load(name):
    return onnx.load(FOLDER / f"{name}.onnx")


def feed_of(made, seed=0):
    rng, feed = np.random.default_rng(seed), {}
    for value in session(made, optimize=False).get_inputs():
        shape = [size if isinstance(size, int) else 1 for size in value.shape]
        if value.type == "tensor(float)":
            feed[value.name] = rng.random(shape).astype(np.float32)
        else:
            kind = np.dtype(value.type[7:-1])
            info = np.iinfo(kind)
            feed[value.name] = rng.integers(info.min, info.max + 1, shape).astype(kind)
    return feed


def decibels(expected, found):
    noise = np.square(expected.astype(np.float64) - found).sum()
    return 10 * np.log10(np.square(expected.astype(np.float64)).sum() / max(noise, 1e-30))


@pytest.mark.thinned
@pytest.mark.parametrize("name", TRANSLATED)
def test_a_translated_model_gives_the_same_numbers(name):
    made = load(name)
    result = translated(made)
    assert result is not made
    feed = feed_of(made)
    for expected, found in zip(run(made, feed), run(result, feed), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.thinned
@pytest.mark.parametrize("name", STANDARD)
def test_a_standard_model_is_the_same_object(name):
    made = load(name)
    assert is_quantized(made) and standard_qdq(made, Path(name)).model is made


@pytest.mark.parametrize("name", QONNX)
def test_a_qonnx_model_gives_what_its_twin_with_q_dq_gives(name):
    result, twin = translated(load(name)), load(f"{name}_qcdq")
    feed = feed_of(twin)
    (own,) = (value.name for value in session(result).get_inputs())
    (expected,), (found,) = run(twin, feed), run(result, {own: next(iter(feed.values()))})
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", QONNX)
def test_a_qonnx_model_is_read_without_the_import_of_its_domain(name):
    path = FOLDER / f"{name}.onnx"
    assert read_model(path) == onnx.load(path)


@pytest.mark.parametrize(
    ("name", "count", "least"),
    [("tinyml_mobilenetv3_cifar_dyn", 37, 100), ("yolov8n_320_dyn_s8", 64, 40)],
)
def test_what_was_quantized_at_run_time_is_all_that_changes(name, count, least):
    # ties that round in another way are quantized again in every layer behind: hence decibels
    made = load(name)
    result = standard_qdq(made, Path(name))
    assert len(result.dynamic) == count and not result.notes
    feed = feed_of(made)
    (expected,), (found,) = run(made, feed), run(quantizing_at_run_time(result), feed)
    assert decibels(expected, found) > least


def test_each_layer_of_a_mobilenet_gives_the_same_integers_but_few_at_ties():
    made = load("mobilenetv2_imagenet_qoperator")
    names = [node.output[0] for node in made.graph.node]
    found = run(exposing(made, names), feed_of(made))
    values = {**feed_of(made), **dict(zip(names, found, strict=True))}
    different = count = 0
    for node in made.graph.node:
        if not node.op_type.startswith("QLinear"):
            continue
        part = alone(made, node, values)
        feed = {value.name: values[value.name] for value in part.graph.input}
        gap = np.abs(run(part, feed)[0].astype(int) - run(translated(part), feed)[0])
        assert gap.max() <= 1
        different, count = different + np.count_nonzero(gap), count + gap.size
    assert different <= 8 and count > 6_000_000


def exposing(made, names):
    exposed = onnx.ModelProto()
    exposed.CopyFrom(made)
    del exposed.graph.output[:]
    exposed.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    return exposed


def alone(made, node, values):
    """The model of one node."""
    stored = {tensor.name: tensor for tensor in made.graph.initializer}
    part = onnx.ModelProto(ir_version=8, opset_import=made.opset_import)
    part.graph.name = "part"
    part.graph.node.append(node)
    for name in dict.fromkeys(node.input):
        if name in stored:
            part.graph.initializer.append(stored[name])
        elif name:
            part.graph.input.append(typed_as(name, values[name]))
    part.graph.output.append(typed_as(node.output[0], values[node.output[0]]))
    return part


def typed_as(name, value):
    kind = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
    return onnx.helper.make_tensor_value_info(name, kind, value.shape)
