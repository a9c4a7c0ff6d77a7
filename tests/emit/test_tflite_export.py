"""`qpasses export --to tflite`: what is taken and given, what is refused, what is written."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from opsets.errors import ModelError, UsageError
from opsets.target import load_target
from qpasses import export, quantize
from qpasses.cli import cli
from qpasses.emit.tflite.flatbuffer import schema
from tests.support.litert import needs_litert
from tests.support.litert_nets import integer_of
from tests.support.tosa_nets import C6, D, K, feeds, net

CONV = "[conv] u = Conv (x, k, c) y = Relu (u)"


def conv():
    return net(CONV, k=K, c=C6)


def test_a_graph_of_another_target_is_refused_by_node_with_both_numbers():
    integer = integer_of(conv(), "onnx")
    with pytest.raises(
        ModelError,
        match=r"node '.*' \(IntConv\) as TFLite: its numbers are \d+ / 2\*\*\d+ half_to_even, "
        r"channel \d, LiteRT derives \(\d+, \d+\) .*: quantize with --target litert",
    ):
        export(integer, to="tflite")
    with pytest.raises(ModelError, match=r"TensorFlow Lite Micro derives .* --target tflm"):
        export(integer, to="tflite", tflite_runtime="tflm")


def test_tflite_micro_has_no_table_as_an_operator_and_few_of_int32():
    integer = integer_of(net("y = Sigmoid (x)"), "tflm")
    here, there = (
        export(integer, to="tflite", tflite_runtime=each).operations
        for each in ("litert", "tflm")
    )
    assert "LOGISTIC" in here
    assert there == {"CAST": 1, "ADD": 1, "GATHER": 1}
    total = integer_of(net("y = ReduceSum (x, r)", r=np.array([3])), "tflm")
    with pytest.raises(ModelError, match="TensorFlow Lite Micro has no SUM of int32"):
        export(total, to="tflite", tflite_runtime="tflm")


@pytest.mark.parametrize(
    ("body", "target", "said"),
    [
        ("u = Conv (x, k) v = Conv (x, k, c) y = Add (u, v)", "onnx", "IntConv|IntAdd"),
        ("y = AveragePool <kernel_shape = [2, 2]> (x)", "onnx", "AVERAGE_POOL_2D|no form"),
        (
            "y = AveragePool <kernel_shape = [3, 3], pads = [2, 2, 2, 2]> (x)",
            "tflite",
            "AVERAGE_POOL_2D has no padding like that",
        ),
    ],
)
def test_an_op_whose_arithmetic_is_not_the_runtimes_is_refused(body, target, said):
    used = {"k": K, "c": C6} if "Conv" in body else {}
    with pytest.raises(ModelError, match=said):
        export(integer_of(net(body, **used), target), to="tflite")


def test_what_is_left_in_float_is_named():
    made = net("[conv] u = Conv (x, k) [out] y = Det (u)", "float[1, 4, 5, 5]", k=K)
    with pytest.raises(ModelError, match=r"left in float, and the file has integers alone"):
        export(integer_of(made), to="tflite")


def test_free_sizes_are_asked_for():
    made = net("y = Conv (x, k)", 'float["N", 4, 7, 6]', k=K)
    samples = [{"x": np.ones((1, 4, 7, 6), np.float32)}]
    integer = quantize(made, samples, accuracy="fast", target="tflite").model
    with pytest.raises(UsageError, match=r"TFLite has fixed ones only: give --input-shape x:"):
        export(integer, to="tflite")
    assert export(integer, to="tflite", input_shape=["x:2,4,7,6"]).inputs[0].shape[0] == 2


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("y = Pad (x, pads)", "6 axes: PAD has 5 at most"),
        ("u = Tanh (x) y = MatMul (x, u)", "6 axes: BATCH_MATMUL has 5 at most"),
    ],
)
def test_more_axes_than_an_operator_has_are_refused(body, said):
    used = {"pads": np.array([1] * 12)} if "pads" in body else {}
    made = net(body, "float[1, 2, 1, 2, 3, 3]", **used)
    target = replace(load_target("tflite"), scales="product_in_float32")
    with pytest.raises(ModelError, match=said):
        export(integer_of(made, target), to="tflite")


def test_words_are_refused_in_a_line():
    made = net("u = Conv (x, k) v = Sigmoid (u) y = Add (u, v)", k=K)
    integer = integer_of(made, "onnx", residual_type="int16")
    with pytest.raises(ModelError) as found:
        export(integer, to="tflite")
    assert "\n" not in str(found.value)


# What it becomes


@pytest.mark.parametrize(("name", "starts"), [("m.mlir", b'"builtin.mod'), ("m.tflite", b"")])
def test_the_name_of_the_output_says_what_it_becomes(name, starts, tmp_path):
    if name.endswith(".tflite"):
        pytest.importorskip("ai_edge_litert")
    place = tmp_path / name
    export(integer_of(conv()), place)
    content = place.read_bytes()
    assert content.startswith(starts)
    assert (content[4:8] == b"TFL3") == name.endswith(".tflite")


def test_another_name_is_a_mistake_unless_it_is_said(tmp_path):
    integer, place = integer_of(conv()), tmp_path / "m.bin"
    with pytest.raises(UsageError, match=r"--to tosa, tflite or vectors, or call it .mlir"):
        export(integer, place)
    assert not place.exists()
    export(integer, place, to="tosa")
    assert place.exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"inference_input_type": "uint8"}, "inference_input_type .* is about TFLite"),
        ({"to": "tosa", "io_layout": "nchw"}, "io_layout .* is about TFLite"),
        (
            {"tflite_runtime": "tflm"},
            "tflite_runtime .* is about TFLite files: give --to tflite",
        ),
        ({"to": "tflite", "tosa_profile": "pro-int"}, "tosa_profile .* is about TOSA"),
        ({"to": "tflite", "inference_input_type": "int4"}, "inference_input_type"),
    ],
)
def test_what_is_asked_of_the_other_form_is_a_mistake(options, said):
    with pytest.raises(UsageError, match=said):
        export(integer_of(conv()), **options)


def test_without_the_extra_it_is_said_what_to_install_and_nothing_is_written(
    monkeypatch, tmp_path
):
    monkeypatch.setitem(sys.modules, "ai_edge_litert", None)
    place = tmp_path / "m.tflite"
    with pytest.raises(UsageError, match=r"pip install 'qpasses\[tflite\]'"):
        export(integer_of(conv()), place)
    assert [*tmp_path.iterdir()] == []
    assert export(integer_of(conv()), place, check=True).operations["CONV_2D"] == 1


def test_the_command_line_says_what_was_written(tmp_path):
    pytest.importorskip("ai_edge_litert")
    place, out = tmp_path / "int.onnx", tmp_path / "m.tflite"
    quantize(conv(), feeds(conv()), place, accuracy="fast", target="tflite")
    done = CliRunner().invoke(cli, ["export", str(place), "-o", str(out)])
    assert done.exit_code == 0, done.output
    assert "1 operations, 0 of them transposes: 1 CONV_2D" in done.output
    assert "input 0: x, 1x7x6x4, int8, 128 less than uint8, axes 0 2 3 1" in done.output
    assert f"{out} is written" in done.output
    quantize(conv(), feeds(conv()), place, accuracy="fast")
    done = CliRunner().invoke(cli, ["export", str(place), "-o", str(tmp_path / "n.tflite")])
    assert done.exit_code == 1
    assert "quantize with --target litert" in str(done.exception)
    assert not (tmp_path / "n.tflite").exists()


# What the file takes and gives


def loaded(made, types=(), **options):
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    content = b"".join(
        export(integer_of(made, tensor_types=types), to="tflite", **options).content()
    )
    resolver = OpResolverType.BUILTIN_REF
    found = Interpreter(model_content=content, experimental_op_resolver_type=resolver)
    found.allocate_tensors()
    return found, content


@needs_litert
@pytest.mark.parametrize("types", [[], [".*=int16"]], ids=["bytes", "words"])
@pytest.mark.parametrize("wanted", ["int8", "uint8", "float32"])
def test_ends_have_the_type_that_is_asked_for_and_mean_the_same(wanted, types):
    made, ends = conv(), {"inference_input_type": wanted, "inference_output_type": wanted}
    found, _ = loaded(made, types, **ends)
    (given,), (end,) = found.get_input_details(), found.get_output_details()
    wanted = "int16" if types and wanted != "float32" else wanted  # 16 bits have no other
    assert {given["dtype"], end["dtype"]} == {np.dtype(wanted).type}
    real = np.moveaxis(feeds(made)[0]["x"], 1, -1)
    scale, zero = given["quantization"]
    stored = real if wanted == "float32" else np.rint(real / scale) + zero
    limits = None if wanted == "float32" else np.iinfo(wanted)
    stored = stored if limits is None else np.clip(stored, limits.min, limits.max)
    found.set_tensor(given["index"], stored.astype(wanted))
    found.invoke()
    got = found.get_tensor(end["index"])
    scale, zero = end["quantization"]
    got = got if wanted == "float32" else (got.astype(np.float64) - zero) * scale
    from calibration import Session

    exact = np.moveaxis(Session(made).run(["y"], feeds(made)[0])[0], 1, -1)
    assert np.abs(got - exact).max() < 0.1 * np.abs(exact).max()


@needs_litert
def test_pictures_lie_channels_last_or_as_in_onnx():
    (first, _), (other, _) = loaded(conv()), loaded(conv(), io_layout="nchw")
    assert first.get_input_details()[0]["shape"].tolist() == [1, 7, 6, 4]
    assert other.get_input_details()[0]["shape"].tolist() == [1, 4, 7, 6]
    assert other.get_output_details()[0]["shape"].tolist() == [1, 6, 5, 4]


@needs_litert
def test_the_file_has_names_a_signature_and_the_record():
    found, content = loaded(conv())
    assert [each["name"] for each in found.get_input_details()] == ["x"]
    assert [each["name"] for each in found.get_output_details()] == ["y"]
    assert found.get_signature_list() == {
        "serving_default": {"inputs": ["x"], "outputs": ["y"]}
    }
    known = schema()
    model = known.ModelT.InitFromPackedBuf(bytearray(content))
    (note,) = [each for each in model.metadata if each.name == b"qpasses"]
    about = json.loads(bytes(model.buffers[note.buffer].data))
    assert "configuration" in " ".join(about)


@needs_litert
def test_equal_pictures_need_no_transposes_within():
    body = """
        u = Conv <pads = [1, 1, 1, 1]> (x, k, c)  v = Relu (u)  w = Conv <group = 6> (v, d)
        a = MaxPool <kernel_shape = [2, 2]> (w)  b = GlobalAveragePool (a)  y = Flatten (b)
    """
    made = export(integer_of(net(body, k=K, c=C6, d=D[:6])), to="tflite")
    assert made.transposes == 0
    assert made.operations["PAD" if "PAD" in made.operations else "CONV_2D"] == 1
