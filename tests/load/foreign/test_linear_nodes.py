"""QuantizeLinear and DequantizeLinear of other forms: the same numbers, in ONNX's own."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from opsets.errors import ModelError
from qpasses.load.foreign import is_quantized, standard_qdq
from qpasses.load.foreign.quantization import Quantization, per_tensor
from tests.support.small_models import model, numbers
from tests.support.translations import PATH, operations, random_feed, run, translated


def assert_same_results(made, tolerance=0.0):
    feed = random_feed(made)
    result = translated(made)
    for expected, found in zip(run(made, feed), run(result, feed), strict=True):
        assert expected.dtype == found.dtype
        np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)
    return result


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16, np.uint16])
@pytest.mark.parametrize("opset", [10, 13, 17, 21])
def test_contrib_nodes_become_standard_ones(kind, opset):
    text = """g (float[4,6] x) => (float[4,6] y) {
        q = com.microsoft.QuantizeLinear (x, s, z)
        y = com.microsoft.DequantizeLinear (q, s, z) }"""
    made = model(text, opset=opset, domains=["com.microsoft"], s=np.float32(0.01), z=kind(5))
    result = assert_same_results(made)
    assert operations(result) == ["QuantizeLinear", "DequantizeLinear"]
    (after,) = (each.version for each in result.opset_import if not each.domain)
    assert after == (21 if kind in (np.int16, np.uint16) else opset)


@pytest.mark.parametrize("opset", [11, 13, 21])
def test_contrib_nodes_keep_their_axis(opset):
    text = """g (float[2,3,4] x) => (float[2,3,4] y) {
        q = com.microsoft.QuantizeLinear <axis = 1> (x, s, z)
        y = com.microsoft.DequantizeLinear <axis = 1> (q, s, z) }"""
    scales = np.float32([0.1, 0.02, 0.03])
    made = model(
        text, opset=opset, domains=["com.microsoft"], s=scales, z=np.uint8([120, 128, 140])
    )
    assert_same_results(made)


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16, np.uint16])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_constants_become_the_integers_that_onnxruntime_makes_of_them(kind, axis):
    given = "" if axis is None else f"<axis = {axis}>"
    count = {None: (), 0: 40, 1: 50}[axis]
    scale = np.random.default_rng(3).uniform(0.001, 0.02, count).astype(np.float32)
    zero = np.full(np.shape(scale), 9, kind)
    weights = numbers(40, 50)
    weights.flat[:6] = np.ravel(scale)[0] * np.float32([0.5, 1.5, -0.5, 2.5, 1e9, -1e9])
    text = f"""g (float[3,40] x) => (float[A,B] y) {{
        q = QuantizeLinear {given} (w, s, z) r = DequantizeLinear {given} (q, s, z)
        y = MatMul (x, r) }}"""
    made = model(text, opset=21, ir_version=10, w=weights, s=scale, z=zero)
    result = assert_same_results(made)
    assert operations(result) == ["DequantizeLinear", "MatMul"]
    assert {t.name for t in result.graph.initializer} == {"q", "s", "z"}


@pytest.mark.parametrize("bounds", [(-8, 7), (-7, 7), (-128, 100), (0, 127), (-128, 127)])
@pytest.mark.parametrize("zero", [0, -3])
def test_a_clip_of_integers_becomes_one_of_real_numbers(bounds, zero):
    text = """g (float[50,60] x) => (float[50,60] y) {
        q = QuantizeLinear (x, s, z) [clip] c = Clip (q, low, high)
        y = DequantizeLinear (c, s, z) }"""
    made = model(
        text,
        opset=13,
        s=np.float32(0.0271),
        z=np.int8(zero),
        low=np.int8(bounds[0]),
        high=np.int8(bounds[1]),
    )
    result = assert_same_results(made)
    clips = [] if bounds == (-128, 127) else ["Clip"]
    assert operations(result) == [*clips, "QuantizeLinear", "DequantizeLinear"]
    assert "c" in result.graph.node[-1].input


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16, np.uint16])
def test_quantizing_gives_every_bound_back_for_what_it_stands_for(kind):
    limits, rng = np.iinfo(kind), np.random.default_rng(0)
    step = 1 if limits.bits == 8 else 97
    codes = np.arange(limits.min, limits.max + 1, step).astype(kind)
    tiny = [np.float32(1e-44), np.float32(3e-39)]  # subnormal
    for scale in [*tiny, *np.exp(rng.uniform(-60, 60, 500)).astype(np.float32)]:
        zero = kind(rng.integers(limits.min, limits.max + 1))
        meaning = per_tensor(scale, zero)
        np.testing.assert_array_equal(meaning.stored(meaning.real(codes)), codes)


def test_a_clip_of_constants_is_done():
    text = """g (float[3,8] x) => (float[A,B] y) {
        q = QuantizeLinear (w, s, z) c = Clip (q, low, high) r = DequantizeLinear (c, s, z)
        y = MatMul (x, r) }"""
    bounds = {"low": np.int8(-7), "high": np.int8(7)}
    made = model(text, opset=13, w=numbers(8, 5), s=np.float32(0.1), z=np.int8(0), **bounds)
    assert operations(assert_same_results(made)) == ["DequantizeLinear", "MatMul"]


def four_bits(name, kind, shape):
    info = {TensorProto.INT4: (-8, 8), TensorProto.UINT4: (0, 16)}[kind]
    values = np.random.default_rng(len(shape)).integers(*info, shape)
    return helper.make_tensor(name, kind, shape, values.ravel().tolist())


@pytest.mark.parametrize("kind", [TensorProto.INT4, TensorProto.UINT4])
@pytest.mark.parametrize("stored", ["initializer", "Constant"])
def test_weights_of_four_bits_are_read_from_eight(kind, stored):
    text = """g (float[3,8] x) => (float[A,B] y) {
        r = DequantizeLinear <axis = 1> (w, s, z) y = MatMul (x, r) }"""
    scale = np.random.default_rng(1).uniform(0.01, 0.1, 5).astype(np.float32)
    made = model(text, opset=21, ir_version=10, s=scale)
    constants = [four_bits("w", kind, [8, 5]), four_bits("z", kind, [5])]
    if stored == "initializer":
        made.graph.initializer.extend(constants)
    else:
        for tensor in constants:
            made.graph.node.insert(
                0, helper.make_node("Constant", [], [tensor.name], value=tensor)
            )
    result = assert_same_results(made)
    kinds = {tensor.name: tensor.data_type for tensor in result.graph.initializer}
    assert kinds["w"] == {TensorProto.INT4: TensorProto.INT8}.get(kind, TensorProto.UINT8)


@pytest.mark.parametrize("kind", [TensorProto.INT4, TensorProto.UINT4])
def test_activations_of_four_bits_are_clipped_before(kind):
    text = """g (float[3,8] x) => (float[3,8] y) {
        q = QuantizeLinear (x, s, z) t = Transpose (q) b = Transpose (t)
        y = DequantizeLinear (b, s, z) }"""
    made = model(text, opset=21, ir_version=10, s=np.float32(0.2))
    made.graph.initializer.append(helper.make_tensor("z", kind, [], [3]))
    kinds = operations(translated(made))
    assert kinds[:2] == ["Clip", "QuantizeLinear"] and "Transpose" in kinds
    assert_same_results(made)


def test_blocks_stay_and_their_integers_have_eight_bits():
    text = """g (float[3,8] x) => (float[A,B] y) {
        [read] r = DequantizeLinear <axis = 0, block_size = 4> (w, s) y = MatMul (x, r) }"""
    made = model(text, opset=21, ir_version=10, s=np.float32([[0.1] * 5, [0.2] * 5]))
    made.graph.initializer.append(four_bits("w", TensorProto.INT4, [8, 5]))
    result = standard_qdq(made, PATH)
    assert result.notes == {"read": "every block of numbers has a scale of its own"}
    assert_same_results(made)


def test_eight_bits_of_floating_point_stay():
    text = """g (float[3,8] x) => (float[3,8] y) {
        [write] q = QuantizeLinear (x, s, z) [read] y = DequantizeLinear (q, s, z) }"""
    made = model(text, opset=21, ir_version=10, s=np.float32(0.1))
    made.graph.initializer.append(helper.make_tensor("z", TensorProto.FLOAT8E4M3FN, [], [0.0]))
    result = standard_qdq(made, PATH)
    assert result.model is made and {*result.notes} == {"write", "read"}


def test_a_standard_model_is_the_same_object():
    text = """g (float[2,4] x) => (float[2,4] y) {
        q = QuantizeLinear (x, s, z) r = DequantizeLinear (q, s, z) y = Relu (r) }"""
    made = model(text, opset=13, s=np.float32(0.1), z=np.int8(0))
    assert is_quantized(made) and standard_qdq(made, PATH).model is made


@pytest.mark.parametrize("op", ["QuantizeLinear", "DequantizeLinear"])
@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_scales_of_standard_nodes_are_positive_numbers(op, value):
    kinds = ("float", "int8") if op == "QuantizeLinear" else ("int8", "float")
    text = f"g ({kinds[0]}[2] x) => ({kinds[1]}[2] y) {{ [odd] y = {op} (x, s, z) }}"
    made = model(text, opset=13, s=np.float32(value), z=np.int8(0))
    with pytest.raises(ModelError, match=f"foreign.onnx: {op} 'odd': scale 's' holds"):
        standard_qdq(made, PATH)


def test_a_zero_point_is_of_the_type_of_what_is_read():
    text = "g (int8[2] x) => (float[2] y) { [odd] y = DequantizeLinear (x, s, z) }"
    made = model(text, opset=13, s=np.float32(1), z=np.uint8(0))
    with pytest.raises(ModelError, match="zero point 'z' is uint8, but 'x' is int8"):
        standard_qdq(made, PATH)


def test_parameters_along_an_axis_are_those_of_its_slices():
    meaning = Quantization(np.float32([1, 2]), np.int8([0, 1]), axis=1)
    stored = np.int8([[4, 5], [6, 7]])
    np.testing.assert_array_equal(meaning.real(stored), [[4, 8], [6, 12]])
    np.testing.assert_array_equal(meaning.stored(meaning.real(stored)), stored)
