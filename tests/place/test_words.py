"""--tensor-types: which tensors have 16 bits, and what reads and writes them."""

import json

import numpy as np
import onnx
import pytest

import qpasses
from opsets.errors import UsageError
from qpasses.ir.tensor_types import types_of
from qpasses.place.tensor_parameters import HEADROOM
from tests.support.commands import USAGE, run
from tests.support.small_models import model, numbers

WEIGHTS = {
    "w1": numbers(8, 3, 3, 3),
    "w2": numbers(8, 8, 3, 3, seed=1) / 5,
    "w3": numbers(8, 8, 1, 1, seed=2) / 3,
    "b": numbers(8, seed=3),
}
NET = """g (float[N, 3, 9, 9] x) => (float[N, 8, 9, 9] y) {
    a = Conv <pads = [1, 1, 1, 1]> (x, w1, b) r = Relu (a)
    c = Conv <pads = [1, 1, 1, 1]> (r, w2, b) s = Add (c, r)
    t = Transpose <perm = [0, 1, 3, 2]> (s) y = Conv (t, w3, b) }"""
FEEDS = [{"x": numbers(2, 3, 9, 9, seed=seed)} for seed in range(6)]


def net():
    return model(NET, opset=21, **WEIGHTS)


def quantized(*types, made=None, **options):
    options = {"accuracy": "fast", "layout": "nchw", **options}
    return qpasses.quantize(made or net(), FEEDS, tensor_types=types, **options)


def words(result):
    """The stored tensors of 16 bits, by the names of float ones."""
    return {
        value.name.removesuffix("_quantized")
        for value in result.model.graph.value_info
        if value.type.tensor_type.elem_type == onnx.TensorProto.INT16
    }


@pytest.mark.thinned
@pytest.mark.parametrize("bodies", ["onnxruntime", "portable"])
@pytest.mark.parametrize("name", ["x", "r", "c", "y", ".*"])
def test_any_tensor_may_have_16_bits(name, bodies):
    found = quantized(f"{name}=int16", bodies=bodies)
    assert words(found) >= ({name} if name != ".*" else {"x", "r", "c", "s", "t", "y"})
    assert found.verdict == "ok"
    assert found.report["summary"]["integer_only"]
    checked = qpasses.verify(found.model, net(), FEEDS)
    assert checked.verdict == "ok", checked.report["summary"]["problems"]


def test_all_in_16_bits_leave_the_noise_of_weights():
    noise = {}
    for types in ([], [".*=int16"]):
        report = quantized(*types).report
        noise[bool(types)] = report["accuracy"]["outputs"][0]["sqnr_db"]
    assert noise[True] > noise[False] + 6


def test_what_moves_has_the_same_bits_on_both_sides():
    assert words(quantized("s=int16")) == words(quantized("t=int16")) == {"s", "t"}


def test_the_first_rule_that_matches_counts():
    assert words(quantized("[st]=int8", ".*=int16")) == {"x", "r", "c", "y"}
    assert types_of(["a=int8", ".*=int16"], ["a", "b"]) == {"a": "int8", "b": "int16"}


def test_a_rule_against_its_group_is_named():
    found = quantized("t=int8", "s=int16")
    assert words(found) == set()
    assert "'s' stays in 8 bits: 't', which holds the same" in found.report["warnings"][0]


def test_ranges_have_room_for_samples_that_were_not_seen():
    found = quantized("r=int16")
    (value,) = (v for v in found.model.graph.value_info if v.name == "r_quantized")
    said = {entry.key: json.loads(entry.value) for entry in value.metadata_props}
    tensors = {each["name"]: each for each in found.report["calibration"]["tensors"]}
    largest = np.float32(HEADROOM * max(np.abs(tensors["r"]["range"])) / 32767)
    assert (said["qpasses.scale"], said["qpasses.zero_point"]) == (float(largest), 0)


READ_BY = {
    "Softmax": ("b = Softmax (a)", "TableSoftmax16"),
    "slopes of channels": ("b = PRelu (a, c)", "IntPRelu"),
}
"""What reads a, and the op it becomes."""


def read_by(statement, **weights):
    text = f"""g (float[N, 4] x) => (float[N, 4] y) {{
        a = MatMul (x, w) {statement} y = MatMul (b, w) }}"""
    made = model(text, opset=21, w=numbers(4, 4), **weights)
    return made, [{"x": numbers(3, 4, seed=seed)} for seed in range(4)]


@pytest.mark.thinned
@pytest.mark.parametrize("bodies", ["onnxruntime", "portable"])
@pytest.mark.parametrize("name", READ_BY)
def test_what_a_row_or_slopes_read_may_have_16_bits(name, bodies):
    statement, op = READ_BY[name]
    made, feeds = read_by(statement, c=np.abs(numbers(4)))
    options = {"tensor_types": [".*=int16"], "accuracy": "fast", "bodies": bodies}
    found = qpasses.quantize(made, feeds, **options)
    assert op in [node.op_type for node in found.model.graph.node]
    assert words(found) == {"x", "a", "b", "y"}
    assert qpasses.verify(found.model, made, feeds).verdict == "ok"


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("b = LogSoftmax (a)", "LogSoftmax takes 8 bits"),
        ("p = PRelu (a, many) b = Slice (p, from, to, axes)", "PRelu takes 8 bits"),
    ],
)
def test_a_tensor_that_nothing_reads_in_16_bits_has_8(statement, said):
    ends = {"from": np.array([0]), "to": np.array([4]), "axes": np.array([-1])}
    made, feeds = read_by(statement, many=np.abs(numbers(1025, 1)) + 1, **ends)
    if "many" in statement:
        feeds = [{"x": numbers(1025, 4, seed=seed)} for seed in range(4)]
    found = qpasses.quantize(made, feeds, tensor_types=["a=int16"], accuracy="fast")
    assert any(f"'a' stays in 8 bits: {said}" in each for each in found.report["warnings"])
    assert qpasses.verify(found.model, made, feeds).verdict == "ok"


def test_places_are_found_among_8_bits():
    text = """g (float[N, 4] x) => (int64[N] n) {
        a = MatMul (x, w) n = ArgMax <axis = 1, keepdims = 0> (a) }"""
    made = model(text, opset=21, w=numbers(4, 4))
    feeds = [{"x": numbers(3, 4, seed=seed)} for seed in range(4)]
    found = qpasses.quantize(made, feeds, tensor_types=[".*=int16"], accuracy="fast")
    assert found.verdict == "ok"
    assert words(found) == {"x"}
    assert any("ArgMax finds places" in each for each in found.report["warnings"])


@pytest.mark.parametrize(
    ("types", "said"),
    [
        ("nothing=int16", "matches no tensor"),
        ("rr=int16", "did you mean 'r'"),
        ("r=int12", "no type of tensors"),
        ("r", "write REGEX=int16"),
        ("=int16", "write REGEX=int16"),
        ("r(=int16", "no regular expression"),
    ],
)
def test_a_rule_that_says_nothing_is_an_error(types, said):
    with pytest.raises(UsageError, match=said):
        quantized(types)


@pytest.mark.parametrize("target", ["tflite-single", "bm1684x"])
def test_a_target_without_sums_of_16_bits_has_none(target):
    with pytest.raises(UsageError, match=f"tensor_types.*{target}"):
        quantized("r=int16", target=target)


def test_a_forged_configuration_is_found():
    forged = quantized("r=int16").model
    entry = next(e for e in forged.metadata_props if e.key == "qpasses.configuration")
    entry.value = json.dumps(json.loads(entry.value) | {"tensor_types": []})
    problems = qpasses.verify(forged, net(), FEEDS).report["summary"]["problems"]
    assert any("is int16" in each and "recorded settings" in each for each in problems)


def test_the_command_takes_rules(tmp_path):
    onnx.save(net(), tmp_path / "m.onnx")
    np.savez(tmp_path / "s.npz", **FEEDS[0])
    options = ["--data", tmp_path / "s.npz", "-o", tmp_path / "o.onnx", "--quiet"]
    asked = ["quantize", tmp_path / "m.onnx", *options, "--tensor-types"]
    assert run(*asked, "[rc]=int16").code == 0
    types = {
        v.type.tensor_type.elem_type for v in onnx.load(tmp_path / "o.onnx").graph.value_info
    }
    assert onnx.TensorProto.INT16 in types
    refused = run(*asked, "z=int16")
    assert refused.code == USAGE
    assert "--tensor-types" in refused.err
