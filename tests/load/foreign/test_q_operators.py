"""QLinear operators and their kin: onnxruntime's integers, from float ops between Q/DQ."""

import numpy as np
import onnx
import pytest

from opsets.errors import ModelError
from qpasses.load.foreign import is_quantized, standard_qdq
from tests.support.small_models import model, numbers
from tests.support.translations import (
    PATH,
    differences,
    operations,
    random_feed,
    run,
    translated,
)


def integers(*shape, dtype=np.int8, seed=0):
    info = np.iinfo(dtype)
    rng = np.random.default_rng([seed, *shape])
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


def scales(count, seed=0):
    return np.random.default_rng([seed, count]).uniform(0.002, 0.01, count).astype(np.float32)


WEIGHTS = {
    "xs": np.float32(0.031),
    "xz": np.uint8(117),
    "as": np.float32(0.023),
    "az": np.int8(-13),
    "ys": np.float32(0.173),
    "yz": np.uint8(121),
    "bs": np.float32(0.0567),
    "bz": np.int8(7),
    "fine": np.float32(1 / 256),
    "zero": np.uint8(0),
    "ws": np.float32(0.0041),
    "wz": np.int8(3),
    "wu": np.uint8(130),
    "each": scales(6),
    "zeros": np.zeros(6, np.int8),
    "offsets": np.int8([1, -2, 3, 0, 5, -6]),
    "one": np.float32([0.031]),
    "w": integers(6, 4, 3, 3),
    "wu8": integers(6, 4, 3, 3, dtype=np.uint8),
    "w1": integers(6, 4, 3),
    "depthwise": integers(4, 1, 3, 3),
    "bias": np.int32([-4000, 300, 0, 70000, -12, 5000]),
    "matrix": integers(4, 6),
    "turned": integers(6, 4),
    "rows": scales(3),
    "row_zeros": np.uint8([1, 2, 3]),
    "other": integers(2, 4, 8, 8, dtype=np.uint8, seed=5),
}
"""What the lines below may call upon."""


def made_of(line, opset, *, x="uint8[2,4,8,8]", y="uint8[A,B,C,D]", more=""):
    """The model of one line: x, and what ``more`` says, in, y out."""
    text = f"foreign ({x} x{more}) => ({y} y) {{ {line} }}"
    words = text.replace("(", " ").replace(")", " ").replace(",", " ").split()
    used = {name: value for name, value in WEIGHTS.items() if name in words}
    return model(text, opset=opset, domains=["com.microsoft"], **used)


CONV = "y = QLinearConv <kernel_shape = [3, 3]{}> (x, xs, xz, {}, ys, yz{})"
NHWC = (
    "y = com.microsoft.QLinearConv <channels_last = 1{}> (x, xs, xz, w, ws, wz, ys, yz, bias)"
)
POOL = "y = com.microsoft.QLinearAveragePool <kernel_shape = [3, 3]{}> (x, xs, xz, ys, yz)"
WIDE = "strides = [2, 2], pads = [1, 1, 1, 1]"
SOFTMAX = "y = com.microsoft.QLinearSoftmax <axis = {}, opset = {}> (x, bs, xz, fine, zero)"
MATRIX = {"x": "uint8[5,4]", "y": "uint8[A,B]"}
ROW = {"x": "uint8[2,4,30]", "y": "uint8[A,B,C]"}
CUBE = {"x": "uint8[2,3,4]", "y": "uint8[A,B,C]"}

EXACT = [
    (CONV.format("", "w, ws, wz", ""), {}),
    (CONV.format("", "w, ws, wz", ", bias"), {}),
    (CONV.format(f", {WIDE}", "wu8, ws, wu", ", bias"), {}),
    (CONV.format(", dilations = [2, 1]", "w, each, zeros", ", bias"), {}),
    (CONV.format("", "w, each, offsets", ""), {}),
    (CONV.format(', auto_pad = "SAME_UPPER", group = 4', "depthwise, ws, wz", ""), {}),
    ("y = QLinearConv (x, xs, xz, w1, each, zeros, ys, yz, bias)", ROW),
    ("y = QLinearConv (x, one, xz, w, ws, wz, ys, yz)", {}),
    ("y = QLinearMatMul (x, xs, xz, matrix, ws, wz, ys, yz)", MATRIX),
    ("y = QLinearMatMul (x, xs, xz, matrix, each, offsets, ys, yz)", CUBE),
    ("y = com.microsoft.QGemm (x, xs, xz, matrix, ws, wz, bias, ys, yz)", MATRIX),
    ("y = com.microsoft.QGemm <transB = 1> (x, xs, xz, turned, each, offsets, bias, ys, yz)",
     MATRIX),
    ("y = com.microsoft.QGemm <alpha = 0.5> (x, xs, xz, matrix, ws, wz, , ys, yz)", MATRIX),
    ("y = com.microsoft.QLinearMul (x, xs, xz, other, ws, wu, fine, yz)", {}),
    ("y = com.microsoft.QLinearAdd (x, xs, xz, other, xs, xz, xs, xz)", {}),
    ("y = com.microsoft.QLinearSigmoid (x, xs, xz, fine, zero)", {}),
    ("y = com.microsoft.QLinearLeakyRelu <alpha = 0.2> (x, xs, xz, xs, yz)", {}),
    ("y = com.microsoft.QLinearConcat <axis = 1> (ys, yz, x, xs, xz, other, ws, wu)", {}),
    (POOL.format(""), {}),
    (POOL.format(f", {WIDE}"), {}),
    (POOL.format(f", {WIDE}, count_include_pad = 1"), {}),
    (POOL.format(", strides = [2, 2], ceil_mode = 1"), {}),
    (POOL.format(f", {WIDE}, channels_last = 1"), {}),
    ("y = com.microsoft.QLinearGlobalAveragePool (x, xs, xz, bs, yz)", {}),
    ("y = com.microsoft.QLinearGlobalAveragePool <channels_last = 1> (x, xs, xz, bs, yz)", {}),
    (SOFTMAX.format(-1, 13), {}),
    (SOFTMAX.format(1, 13), {}),
    (SOFTMAX.format(1, 11), {}),
    (SOFTMAX.format(3, 11), {}),
    ("y = com.microsoft.QLinearWhere (c, x, xs, xz, other, ws, wu, ys, yz)",
     {"more": ", bool[2,4,8,8] c"}),
    (NHWC.format(f", {WIDE}"), {"x": "uint8[2,8,8,4]"}),
]  # fmt: skip
"""Operators whose integers all stay."""


@pytest.mark.thinned
@pytest.mark.parametrize("opset", [10, 11, 13, 17, 21])
@pytest.mark.parametrize(("line", "options"), EXACT, ids=[line for line, _ in EXACT])
def test_an_operator_on_integers_keeps_them(line, options, opset):
    different, _, _ = differences(made_of(line, opset, **options))
    assert different == 0


def test_a_sum_rounds_few_ties_in_another_way():
    # onnxruntime adds a * (a_scale / y_scale) and b * (b_scale / y_scale), both rounded
    line = "y = com.microsoft.QLinearAdd (x, xs, xz, other, ws, wu, ys, yz)"
    different, largest, count = differences(made_of(line, 17), seeds=20)
    assert count == 10240 and different == 4 and largest == 1


@pytest.mark.parametrize("opset", [11, 13, 18])
@pytest.mark.parametrize("given", ["axes = [2, 3]", "axes = [-1], keepdims = 0"])
def test_a_mean_that_onnxruntime_only_declares_is_that_of_numpy(opset, given):
    line = f"y = com.microsoft.QLinearReduceMean <{given}> (x, xs, xz, fine, yz)"
    rank = "A,B,C" if "keepdims" in given else "A,B,C,D"
    made = made_of(line, opset, y=f"uint8[{rank}]")
    feed = random_feed(made)
    keepdims, axes = "keepdims" not in given, (2, 3) if "keepdims" not in given else (-1,)
    real = (feed["x"].astype(np.float64) - 117) * 0.031
    mean = real.mean(axes, keepdims=keepdims) * 256
    (found,) = run(translated(made), feed)
    assert np.abs(np.clip(np.rint(mean) + 121, 0, 255) - found).max() <= 1


def test_zero_points_that_are_left_out_are_zero_of_the_type_that_comes_in():
    line = "y = com.microsoft.QLinearAdd (x, xs, , x, ws, , ys)"
    made = made_of(line, 17, x="int8[2,4,8,8]", y="int8[A,B,C,D]")
    feed = random_feed(made)
    (found,) = run(translated(made), feed)
    assert found.dtype == np.int8
    expected = feed["x"].astype(np.float64) * (0.031 + 0.0041) / 0.173
    assert np.abs(np.clip(np.rint(expected), -128, 127) - found).max() <= 1


FLOAT = [
    ("y = com.microsoft.QGemm (x, xs, xz, matrix, each, offsets, bias)",
     {"x": "uint8[5,4]", "y": "float[A,B]"}),
    ("y = com.microsoft.QGemm <alpha = 2.0, transA = 1> (x, xs, xz, matrix, ws, wz, bias)",
     {"x": "uint8[4,5]", "y": "float[A,B]"}),
    ("y = com.microsoft.MatMulIntegerToFloat (x, matrix, xs, each, xz, offsets, each)",
     {"x": "uint8[3,5,4]", "y": "float[A,B,C]"}),
    ("y = com.microsoft.MatMulIntegerToFloat (x, matrix, xs, ws)",
     {"x": "uint8[5,4]", "y": "float[A,B]"}),
]  # fmt: skip
"""Operators that read integers and write real numbers."""


@pytest.mark.parametrize(("line", "options"), FLOAT, ids=[line for line, _ in FLOAT])
def test_an_operator_that_writes_real_numbers_keeps_them(line, options):
    made = made_of(line, 17, **options)
    feed = random_feed(made)
    (expected,), (found,) = run(made, feed), run(translated(made), feed)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


def attention():
    text = """attention (uint8[2,5,8] x) => (float[A,B,C] y) {
        y = com.microsoft.QAttention <num_heads = 2> (x, w, b, xs, ws, , xz, wz) }"""
    return model(
        text,
        domains=["com.microsoft"],
        w=integers(8, 24),
        b=numbers(24),
        xs=np.float32(0.02),
        ws=scales(24),
        xz=np.uint8(120),
        wz=np.zeros(24, np.int8),
    )


def embedding():
    text = """embedding (int32[2,5] i) => (float[A,B,C] y, int32[D] m) {
        y, m = com.microsoft.QEmbedLayerNormalization
            (i, , w, p, , g, b, , s, s, , s, s, z, z, , z, z) }"""
    return model(
        text,
        domains=["com.microsoft"],
        w=integers(300, 8, dtype=np.uint8),
        p=integers(5, 8, dtype=np.uint8, seed=1),
        g=integers(8, dtype=np.uint8),
        b=integers(8, dtype=np.uint8, seed=1),
        s=np.float32(0.01),
        z=np.uint8(100),
    )


@pytest.mark.parametrize(
    ("made", "op"),
    [(attention(), "Attention"), (embedding(), "EmbedLayerNormalization")],
    ids=["QAttention", "QEmbedLayerNormalization"],
)
def test_a_fused_operator_of_transformers_becomes_that_of_real_numbers(made, op):
    feed = random_feed(made)
    feed = {
        name: np.abs(value) % 300 if name == "i" else value for name, value in feed.items()
    }
    result = standard_qdq(made, PATH).model
    assert {*operations(result)} == {"DequantizeLinear", op}
    expected, found = run(made, feed)[0], run(result, feed)[0]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def two_convs(opset=17):
    line = """
        [first] "a:0" = QLinearConv (x, xs, xz, w, each, zeros, ys, yz, bias)
        [sum] s = com.microsoft.QLinearAdd ("a:0", ys, yz, "a:0", ys, yz, bs, yz)
        [last] y = com.microsoft.QLinearMul ("a:0", ys, yz, s, bs, yz, ys, yz)"""
    made = made_of(line.replace('"a:0"', "a"), opset)
    made.graph.value_info.append(
        onnx.helper.make_tensor_value_info("a", onnx.TensorProto.UINT8, [2, 6, 6, 6])
    )
    return made


def test_names_of_operators_and_of_integers_stay():
    made = two_convs()
    result = translated(made)
    named = {node.name: node.op_type for node in result.graph.node}
    assert {name: named[name] for name in ("first", "sum", "last")} == {
        "first": "Conv",
        "sum": "Add",
        "last": "Mul",
    }
    writers = {node.output[0]: node.op_type for node in result.graph.node}
    assert [writers[name] for name in "asy"] == ["QuantizeLinear"] * 3
    assert [value.name for value in result.graph.value_info] == ["a"]
    names = [node.name for node in result.graph.node]
    assert len({*names}) == len(names)


def test_constants_that_nothing_reads_are_gone_and_none_is_there_twice():
    result = translated(two_convs())
    read = {name for node in result.graph.node for name in node.input}
    stored = [tensor.name for tensor in result.graph.initializer]
    assert {*stored} <= read
    values = [(t.data_type, tuple(t.dims), t.raw_data) for t in result.graph.initializer]
    assert len({*values}) == len(values)


@pytest.mark.parametrize(("opset", "after"), [(10, 13), (12, 13), (13, 13), (17, 17)])
def test_the_opset_stays_unless_scales_of_channels_need_a_newer_one(opset, after):
    (found,) = (o.version for o in translated(two_convs(opset)).opset_import if not o.domain)
    assert found == after
    line = CONV.format("", "w, ws, wz", ", bias")
    (found,) = (
        o.version for o in translated(made_of(line, opset)).opset_import if not o.domain
    )
    assert found == opset


def test_a_reader_with_another_scale_gets_a_reading_of_its_own():
    line = """[first] a = QLinearConv (x, xs, xz, w, ws, wz, ys, yz)
              [second] y = com.microsoft.QLinearSigmoid (a, bs, zero, fine, zero)"""
    made = made_of(line, 17)
    result = translated(made)
    assert operations(result).count("DequantizeLinear") == 3  # x, w, a as the second reads it
    assert differences(made)[0] == 0


def test_old_files_whose_constants_are_inputs_keep_the_others():
    made = two_convs()
    made.ir_version = 3
    for tensor in made.graph.initializer:
        made.graph.input.append(
            onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        )
    result = translated(made)
    stored = {tensor.name for tensor in result.graph.initializer}
    assert {value.name for value in result.graph.input} <= stored | {"x"}


def test_bodies_of_control_flow_are_translated_and_read_constants_outside():
    line = """y = If (c) <
        then_branch = t () => (uint8[A,B,C,D] z) {
            z = com.microsoft.QLinearSigmoid (x, xs, xz, fine, zero) },
        else_branch = e () => (uint8[A,B,C,D] v) {
            v = com.microsoft.QLinearLeakyRelu <alpha = 0.1> (x, xs, xz, xs, xz) }>"""
    made = made_of(line, 17, more=", bool c")
    assert is_quantized(made)
    for choice in (True, False):
        feed = {**random_feed(made), "c": np.array(choice)}
        (expected,), (found,) = run(made, feed), run(translated(made), feed)
        np.testing.assert_array_equal(found, expected)


def test_functions_of_the_model_are_translated_too():
    functions = """<domain: "mine", opset_import: ["" : 17, "com.microsoft" : 1]>
        Soft (x, xs, xz, fine, zero) => (y) {
            y = com.microsoft.QLinearSigmoid (x, xs, xz, fine, zero) }"""
    names = ("xs", "xz", "fine", "zero")
    made = model(
        "g (uint8[2,4] x) => (uint8[2,4] y) { y = mine.Soft (x, xs, xz, fine, zero) }",
        domains=["com.microsoft", "mine"],
        functions=functions,
        **{name: WEIGHTS[name] for name in names},
    )
    assert is_quantized(made)
    assert differences(made)[0] == 0


LEFT = [
    ("y = QLinearMatMul (x, xs, xz, matrix, ws, wz, rows, row_zeros)",
     "its result has more than one scale", MATRIX),
    ("y = com.microsoft.QLinearSoftmax <axis = 1, opset = 13> (x, bs, xz, fine, zero)",
     "it is over one dimension, which needs a known rank before opset 13", {"opset": 12}),
]  # fmt: skip


@pytest.mark.parametrize(("line", "reason", "options"), LEFT)
def test_what_cannot_be_said_stays_with_a_reason(line, reason, options):
    made = made_of(f"[odd] {line}", **{"opset": 17, **options})
    made.graph.input[0].type.tensor_type.ClearField("shape")
    result = standard_qdq(made, PATH)
    assert result.notes == {"odd": reason}
    assert result.model is made


WRONG = [
    ("y = QLinearConv (x, xs, xz, w, {}, wz, ys, yz)", "scale 'bad' holds {}"),
    ("y = com.microsoft.QLinearAdd (x, {}, xz, x, xs, xz, ys, yz)", "scale 'bad' holds {}"),
]


@pytest.mark.parametrize("value", [0.0, -0.5, np.nan, np.inf])
@pytest.mark.parametrize(("line", "message"), WRONG)
def test_a_scale_that_is_no_positive_number_is_an_error(line, message, value):
    made = made_of("[odd] " + line.format("bad"), 17)
    made.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(value), "bad"))
    with pytest.raises(ModelError, match=message.format(value)) as raised:
        standard_qdq(made, PATH)
    assert str(PATH) in str(raised.value) and "odd" in str(raised.value)


def test_a_node_whose_scale_is_computed_is_left_as_it_is():
    made = made_of("[odd] y = com.microsoft.QLinearSigmoid (x, s, xz, fine, zero)", 17,
                   more=", float s")  # fmt: skip
    result = standard_qdq(made, PATH)
    assert result.notes == {"odd": "its scale 's' is not constant"}
    assert result.model is made


def test_a_zero_point_of_another_type_is_an_error():
    made = made_of("y = QLinearConv (x, xs, az, w, ws, wz, ys, yz)", 17)
    message = "zero point 'az' is int8, but 'x' is uint8"
    with pytest.raises(ModelError, match=message):
        standard_qdq(made, PATH)


def test_scales_and_zero_points_of_different_lengths_are_an_error():
    made = made_of("y = QLinearConv (x, xs, xz, w, each, wu, ys, yz)", 17)
    made.graph.initializer.append(onnx.numpy_helper.from_array(np.int8([1, 2]), "two"))
    made.graph.node[0].input[5] = "two"
    with pytest.raises(
        ModelError, match=r"of shape \[6\] and zero point 'two' of shape \[2\]"
    ):
        standard_qdq(made, PATH)


def test_a_float_model_is_the_same_object():
    made = model("g (float[2] x) => (float[2] y) { y = Relu (x) }")
    assert standard_qdq(made, PATH).model is made
    assert not is_quantized(made)
