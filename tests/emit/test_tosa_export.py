"""qpasses export and --emit tosa: the text, profiles, what is refused."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import qpasses
from opsets.errors import ModelError, UsageError
from qpasses import quantize, verify
from qpasses.api import export
from qpasses.cli import cli
from qpasses.emit import mlir
from tests.support.channel_nets import channel_feeds, channel_net
from tests.support.small_models import model, numbers
from tests.support.tosa_nets import ROWS, K, check, feeds, net
from tests.support.tosa_nodes import needs_tools

# Text


def test_the_text_of_a_convolution_is_what_is_shown():
    made = net(
        "[conv] y = Conv (x, k)", "float[1, 1, 2, 2]", k=np.ones((1, 1, 1, 1), np.float32)
    )
    samples = [{"x": np.float32([[[[-1, 0], [1, 2]]]])}]
    text = export(quantize(made, samples, accuracy="fast").model).text
    assert text == (Path(__file__).parent / "tosa_conv.mlir").read_text("utf-8")


def test_names_and_arrays_are_written_as_mlir_reads_them():
    assert mlir.text('a"b\\ü') == '"a\\22b\\5C\\C3\\BC"'
    assert mlir.dense(np.int8([1, 1])) == "dense<1> : tensor<2xi8>"
    assert mlir.dense(np.int32([1, -2])) == 'dense<"0x01000000FEFFFFFF"> : tensor<2xi32>'


# Profiles


def long_kernel():
    made = net("y = Conv (x, k)", "float[1, 1, 8200]", k=numbers(1, 1, 8193))
    return made, quantize(made, feeds(made), accuracy="fast").model


def test_what_level_8k_has_not_is_refused_and_without_a_level_it_is_written():
    _, integer = long_kernel()
    with pytest.raises(ModelError, match="a kernel, stride or padding of more than 8192"):
        export(integer)
    assert export(integer, tosa_profile="pro-int").operations["depthwise_conv2d"] == 1


@needs_tools
def test_a_program_without_a_level_is_validated_as_such():
    made, integer = long_kernel()
    options = {"other_programs": ["tosa-reference"], "tosa_profile": "pro-int"}
    found = verify(integer, made, feeds(made)[:1], **options)
    assert found.report["checks"]["tosa_reference"]["differences"] == 0


def test_more_axes_than_level_8k_has_are_refused():
    made = net("y = HardSwish (x)", "float[1, 2, 1, 2, 1, 2, 2]")
    integer = quantize(made, feeds(made), accuracy="fast").model
    with pytest.raises(ModelError, match="7 axes: level 8K has 6 at most"):
        export(integer)


@needs_tools
def test_of_more_tensors_than_level_8k_joins_some_are_joined_before():
    names = [f"s{k}" for k in range(70)]
    parts, turned = ", ".join(names), ", ".join(reversed(names))
    body = f"{parts} = Split <axis = 1, num_outputs = 70> (x) y = Concat <axis = 2> ({turned})"
    made = net(body, "float[1, 70, 2]")
    check(made, feeds(made))


# What cannot be


def test_free_sizes_are_asked_for_with_the_option():
    integer = quantize(channel_net(size="h"), channel_feeds(), accuracy="fast").model
    with pytest.raises(UsageError, match=r"--input-shape x:SIZE,3,SIZE,SIZE"):
        export(integer)
    fixed = export(integer, input_shape=["x:1,3,8,8"])
    assert fixed.inputs[0].shape == (1, 3, 8, 8)


def test_an_op_without_a_form_is_named_and_nothing_is_written(tmp_path):
    text = """
        g (float[1, 4] x, int32[2] i) => (float[] y, int32[] z) {
            y = HardSwish (x)  [rest] z = Mod (i, n)
        }
    """
    made = model(text, opset=18, n=np.array(3, np.int32))
    integer = quantize(made, feeds(made), accuracy="fast").model
    place = tmp_path / "model.mlir"
    with pytest.raises(ModelError, match=r"'rest' \(Mod\).*no form of this op"):
        export(integer, place)
    assert not place.exists()


REFUSED = {
    "the order of what is not sorted": (
        "y, z = TopK <sorted = 0> (x, n)",
        {"n": np.array([3])},
    ),
    "the 0 largest": ("y, z = TopK (x, n)", {"n": np.array([0])}),
    "padding of more than 8192": (
        "y = Conv <pads = [10000, 0]> (x, k)",
        {"k": numbers(3, 6, 3)},
    ),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_tosa_has_not_is_refused_and_the_node_is_named(reason):
    body, weights = REFUSED[reason]
    made = net(f"[here] {body}", ROWS, **weights)
    integer = quantize(made, feeds(made), accuracy="fast").model
    with pytest.raises(ModelError, match=rf"'here.*{reason}"):
        export(integer)


def test_tensors_of_no_known_type_are_refused():
    made = net(
        "a = Conv (x, k) p = Pad (a, n) y = Conv (p, d)",
        k=K,
        d=numbers(2, 6, 1, 1),
        n=np.array([0, 0, 1, 1, 0, 0, 1, 1]),
    )
    options = {"accuracy": "fast", "integer_io": True, "layout": "nchw"}
    integer = quantize(made, feeds(made), **options).model
    del integer.graph.value_info[:]
    with pytest.raises(ModelError, match=r"\(Pad\).*does not say the type of"):
        export(integer)


def test_words_beyond_32_bits_are_refused_not_clipped():
    text = """
        g (float[1, 4] x, bool[2] w, int64[2] i) => (float[] y, int64[] z) {
            y = HardSwish (x)  [here] z = Where (w, i, n)
        }
    """
    made = model(text, opset=18, n=np.array(1 << 40))
    integer = quantize(made, feeds(made), accuracy="fast").model
    with pytest.raises(ModelError, match=r"'here' \(Where\).*numbers beyond int32"):
        export(integer)


def test_what_is_left_in_float_is_named():
    made = net(
        "[one] a = Conv (x, k) [two] b = Sigmoid (a) [three] y = Conv (b, d)",
        k=K,
        d=numbers(2, 6, 1, 1),
    )
    integer = quantize(made, feeds(made), accuracy="fast", nodes_to_exclude=["two"]).model
    with pytest.raises(ModelError, match=r"left in float, and TOSA's integer profile"):
        export(integer)


def invoked(*arguments):
    found = CliRunner().invoke(cli, [*map(str, arguments)], catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return found.output


def test_the_command_writes_what_the_function_gives(tmp_path):
    made = net("y = Relu (x)")
    qpasses.quantize(made, feeds(made), tmp_path / "int.onnx", accuracy="fast")
    output = invoked("export", tmp_path / "int.onnx", "-o", tmp_path / "a.mlir")
    assert "is written" in output
    text = (tmp_path / "a.mlir").read_text("utf-8")
    assert text == export(tmp_path / "int.onnx").text
    output = invoked("export", tmp_path / "int.onnx", "--check", "-o", tmp_path / "b.mlir")
    assert "is written" not in output
    assert not (tmp_path / "b.mlir").exists()


def test_quantize_emits_tosa_at_once(tmp_path):
    made, place = net("a = Conv (x, k) y = Relu (a)", k=K), tmp_path / "a.mlir"
    done = qpasses.quantize(made, feeds(made), place, accuracy="fast", emit="tosa")
    assert place.read_text("utf-8") == export(done.model).text
    assert (tmp_path / "a.mlir.evidence.json").exists()
    done.save(tmp_path / "b.mlir")
    assert (tmp_path / "b.mlir").read_bytes() == place.read_bytes()


def test_quantize_emits_no_tosa_of_free_sizes_and_writes_nothing(tmp_path):
    made, samples = channel_net(size="h"), channel_feeds()
    options = {"accuracy": "fast", "emit": "tosa"}
    with pytest.raises(UsageError, match=r"--input-shape x:SIZE,3,SIZE,SIZE"):
        quantize(made, samples, tmp_path / "a.mlir", **options)
    assert not list(tmp_path.iterdir())
    quantize(made, samples, tmp_path / "a.mlir", input_shape=["x:1,3,8,8"], **options)
    assert (tmp_path / "a.mlir").exists()
