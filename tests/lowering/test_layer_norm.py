"""IntLayerNorm against real arithmetic, in whole graphs, and when its numbers are changed."""

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import numpy_helper

import qpasses
from calibration import Session
from opsets.errors import ModelError
from opsets.norm_bounds import fits
from opsets.qpasses_v1 import OPS
from qpasses.emit.overloads import with_bodies
from qpasses.evidence.prove_norms import norm_bound
from qpasses.ir.record import Quantization
from qpasses.lowering.numbers.norm_numbers import Norm, norm_numbers
from tests.support import zoo_models
from tests.support.commands import run
from tests.support.small_models import model, numbers, save
from tests.support.thoroughness import slow, thoroughly

NET = """
net (float[N, 5, 16] x) => (float[N, 5, 16] y, float[N, 5, 8] z) {
    [double] a = Add (x, x)
    [norm] y = LayerNormalization <axis = AXIS, epsilon = 0.001> (a, gamma, beta)
    [last] z = MatMul (y, w)
}"""


def net(axis=-1, shape=(16,)):
    gamma, beta = numbers(*shape), numbers(*shape, seed=1)
    text = NET.replace("AXIS", str(axis))
    return model(text, gamma=gamma, beta=beta, w=numbers(16, 8))


def feeds(count=4):
    return [{"x": numbers(2, 5, 16, seed=seed)} for seed in range(count)]


def real(rows, x, norm):
    """LayerNormalization of what the codes mean, in float64."""
    levels = (rows.astype(np.float64) - x.zero_point) * x.scale
    centered = levels - levels.mean(axis=-1, keepdims=True) if norm.centered else levels
    deviation = np.sqrt((centered**2).mean(axis=-1, keepdims=True) + norm.epsilon)
    normal = np.divide(centered, deviation, out=np.zeros_like(levels), where=deviation > 0)
    return normal * norm.gamma + norm.beta


@st.composite
def norms(draw):
    """A normalization, codes of rows, and how both ends are stored."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    cells = draw(st.sampled_from([1, 2, 3, 7, 64, 197, 768, 4096]))
    dtype = draw(st.sampled_from(["uint8", "int8"]))
    low, high = (0, 255) if dtype == "uint8" else (-128, 127)
    x, y = (
        Quantization(float(np.float32(10.0**power)), int(rng.integers(low, high + 1)), dtype)
        for power in (draw(st.integers(-5, 4)), draw(st.integers(-3, 0)))
    )
    if draw(st.booleans()):
        dtype, low, high = "int16", -32768, 32767
        x = Quantization(float(np.float32(x.scale / 64)), 0, dtype)
    if draw(st.booleans()):
        y = Quantization(float(np.float32(y.scale / 256)), 0, "int16")
    gamma = (rng.standard_normal(cells) * 10.0 ** rng.integers(-2, 2)).astype(np.float32)
    beta = rng.standard_normal(cells).astype(np.float32) * rng.choice([0, 1, 10])
    epsilon = float(np.float32(rng.choice([0, 1e-12, 1e-5, 0.1])))
    norm = Norm(-1, cells, gamma, beta.astype(np.float32), epsilon, draw(st.booleans()))
    level = rng.integers(low, high + 1)
    rows = np.stack(
        [
            rng.integers(low, high + 1, cells),
            np.full(cells, level),
            np.clip(level + rng.integers(0, 2, cells), low, high),
            np.where(np.arange(cells) == 0, high, low),
            np.where(rng.random(cells) < 0.5, low, high),
        ]
    )
    return norm, rows.astype(dtype), x, y


@given(norms())
@thoroughly(150)
def test_no_code_is_further_from_real_arithmetic_than_the_bound(case):
    norm, rows, x, y = case
    constants, attributes = norm_numbers(x, y, norm)
    ends = [np.array(v, y.dtype) for v in (y.zero_point, *y.limits)]
    given = {"x_zero": np.array(x.zero_point, x.dtype), **constants}
    given |= dict(zip(("y_zero", "y_min", "y_max"), ends, strict=True))
    assert fits(given, attributes)
    bound = norm_bound(given, attributes)
    attributes = {**attributes, "rounding": "half_to_even"}
    found = OPS["IntLayerNorm"].reference(rows, *given.values(), **attributes)
    steps = real(rows, x, norm) / y.scale + y.zero_point
    off = np.abs(found - np.clip(steps, *y.limits))
    assert off.max() <= 0.5 + bound + 1e-6
    furthest = float(np.abs(norm.beta).max()) / y.scale
    if np.abs(norm.gamma).max() < 1000 * y.scale and "int16" not in (x.dtype, y.dtype):
        assert bound < 6e-5 * (257 + furthest)


@pytest.mark.thinned
@pytest.mark.parametrize("variance", [0, 1e-4, 1, 100, 1000, 1e4])
def test_variances_at_which_ten_steps_from_2_to_the_16_do_not_converge(variance):
    rng = np.random.default_rng(0)
    samples = [
        {"x": (rng.standard_normal((2, 5, 16)) * variance**0.5).astype(np.float32)}
        for _ in range(6)
    ]
    result = qpasses.quantize(net(), samples)
    (proof,) = [each for each in result.evidence if each.op == "IntLayerNorm"]
    assert result.verdict == "ok" and proof.bound < 0.01
    assert qpasses.verify(result.model, net(), samples).verdict == "ok"


@pytest.mark.thinned
@pytest.mark.parametrize(
    "options", [{}, {"bodies": "portable"}, {"activation_type": "int8"}, {"target": "tflite"}]
)
@pytest.mark.parametrize(("axis", "shape"), [(-1, (16,)), (2, (16,)), (1, (5, 16))])
def test_a_norm_is_integer_proved_and_verified(options, axis, shape):
    result = qpasses.quantize(net(axis, shape), feeds(), **options)
    assert result.verdict == "ok"
    (proof,) = [each for each in result.evidence if each.name == "norm"]
    assert (proof.op, proof.kind, proof.mismatches) == ("IntLayerNorm", "bounded", 0)
    body = "portable" if "bodies" in options else "onnxruntime_double"
    assert proof.body.startswith(body) and proof.reference_max_lsb == 1
    assert qpasses.verify(result.model, net(axis, shape), feeds(2)).verdict == "ok"
    models = [with_bodies(result.model, each) for each in ("portable", "onnxruntime")]
    for optimize in (False, True):
        ours, theirs = (Session(m, optimize=optimize).run(None, feeds()[0]) for m in models)
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(one, other)


def rms_net(op, opset):
    text = NET.replace("AXIS", "-1").replace("LayerNormalization", op).replace(", beta)", ")")
    return model(text, opset=opset, ir_version=10, gamma=numbers(16), w=numbers(16, 8))


@pytest.mark.thinned
@pytest.mark.parametrize(
    "options", [{}, {"bodies": "portable"}, {"activation_type": "int8"}, {"target": "tflite"}]
)
@pytest.mark.parametrize(
    ("op", "opset"),
    [
        *(("SimplifiedLayerNormalization", opset) for opset in (13, 17, 21)),
        ("RMSNormalization", 23),
    ],
)
def test_a_norm_without_a_mean_is_integer_proved_and_verified(op, opset, options, tmp_path):
    made = rms_net(op, opset)
    path = save(tmp_path, "net.onnx", made)
    result = qpasses.quantize(path, feeds(), **options)
    assert result.verdict == "ok" and result.report["summary"]["integer_only"]
    (proof,) = [each for each in result.evidence if each.name == "norm"]
    assert (proof.op, proof.kind, proof.mismatches) == ("IntLayerNorm", "bounded", 0)
    assert proof.bound < 0.01
    assert qpasses.verify(result.model, path, feeds(2)).verdict == "ok"
    for feed in feeds():
        ours, theirs = (Session(each).run(None, feed) for each in (result.model, made))
        for one, other in zip(ours, theirs, strict=True):
            assert np.abs(one - other).max() < 0.04 * np.abs(other).max()


@pytest.mark.thinned
@pytest.mark.parametrize("name", ["multiplier", "shift", "epsilon", "x_zero", "y_max"])
def test_no_number_of_a_norm_without_a_mean_may_change(name):
    made = rms_net("RMSNormalization", 23)
    changed = qpasses.quantize(made, feeds()).model
    node = next(each for each in changed.graph.node if each.name == "norm")
    place = list(OPS["IntLayerNorm"].inputs).index(name)
    old = next(each for each in changed.graph.initializer if each.name == node.input[place])
    array = numpy_helper.to_array(old).copy()
    array.flat[-1] -= 1
    changed.graph.initializer.append(numpy_helper.from_array(array, "changed"))
    node.input[place] = "changed"
    assert qpasses.verify(changed, made, feeds(2)).verdict == "failed"


def test_a_norm_with_a_mean_is_none_without():
    made = rms_net("RMSNormalization", 23)
    changed = qpasses.quantize(made, feeds()).model
    node = next(each for each in changed.graph.node if each.name == "norm")
    next(each for each in node.attribute if each.name == "centered").i = 1
    assert qpasses.verify(changed, made, feeds(2)).verdict == "failed"


def test_a_second_result_of_a_norm_without_a_mean_keeps_it_in_float():
    text = """g (float[N, 5, 16] x) => (float[N, 5, 8] z, float[N, 5, 1] s) {
        [norm] y, s = SimplifiedLayerNormalization (x, gamma) z = MatMul (y, w) }"""
    made = model(text, gamma=numbers(16), w=numbers(16, 8))
    result = qpasses.quantize(made, feeds())
    assert "SimplifiedLayerNormalization" in [node.op_type for node in result.model.graph.node]


@pytest.mark.thinned
@pytest.mark.parametrize("name", ["multiplier", "bias", "shift", "epsilon", "x_zero", "y_max"])
def test_no_number_of_a_norm_may_change(name):
    result = qpasses.quantize(net(), feeds())
    changed = onnx.ModelProto.FromString(result.model.SerializeToString())
    node = next(each for each in changed.graph.node if each.name == "norm")
    place = list(OPS["IntLayerNorm"].inputs).index(name)
    old = next(each for each in changed.graph.initializer if each.name == node.input[place])
    array = numpy_helper.to_array(old).copy()
    array.flat[-1] -= 1
    changed.graph.initializer.append(numpy_helper.from_array(array, "changed"))
    node.input[place] = "changed"
    assert qpasses.verify(changed, net(), feeds(2)).verdict == "failed"


@pytest.mark.parametrize(
    "name", ["cells", "centered", "root_bits", "factor_bits", "norm_bits"]
)
def test_no_attribute_of_a_norm_may_change(name):
    result = qpasses.quantize(net(), feeds())
    changed = onnx.ModelProto.FromString(result.model.SerializeToString())
    node = next(each for each in changed.graph.node if each.name == "norm")
    (attribute,) = [each for each in node.attribute if each.name == name]
    attribute.i -= 1
    try:
        assert qpasses.verify(changed, net(), feeds(2)).verdict == "failed"
    except ModelError as error:
        assert name == "cells" and "has not the inputs and attributes" in str(error)


@pytest.mark.thinned
@pytest.mark.parametrize("options", [{}, {"activation_type": "int8"}])
@pytest.mark.parametrize("size", [[7], [5, 6], [3, 2, 4]])
def test_an_instance_normalization_is_the_same_op_by_channels(size, options):
    shape = ", ".join(map(str, ["N", 3, *size]))
    text = f"""g (float[{shape}] x) => (float[{shape}] y) {{
        a = Mul (x, two)
        [norm] n = InstanceNormalization <epsilon = 0.01> (a, gamma, beta)
        y = Relu (n)
    }}"""
    made = model(text, gamma=numbers(3), beta=numbers(3, seed=1), two=np.float32(2))
    samples = [{"x": numbers(2, 3, *size, seed=seed)} for seed in range(4)]
    result = qpasses.quantize(made, samples, **options)
    assert result.verdict == "ok"
    (proof,) = [each for each in result.evidence if each.name == "norm"]
    assert (proof.op, proof.kind, proof.mismatches) == ("IntLayerNorm", "bounded", 0)
    assert result.report["accuracy"]["outputs"][0]["sqnr_db"] > 30
    assert qpasses.verify(result.model, made, samples[:2]).verdict == "ok"


@pytest.mark.parametrize(("axis", "shape"), [(-1, (16,)), (1, (5, 16))])
def test_inspect_prints_a_norm(tmp_path, axis, shape):
    path = tmp_path / "norm.onnx"
    onnx.save(qpasses.quantize(net(axis, shape), feeds()).model, path)
    ended = run("inspect", path, "--node", "norm")
    assert ended.code == 0, ended.err
    assert "IntLayerNorm" in ended.out and "multiplier / 2**shift" in ended.out


def test_inspect_says_how_far_a_norm_may_be_off():
    row = qpasses.inspect(qpasses.quantize(net(), feeds()).model).node("norm")
    assert row.rule == ("root of 15 fraction bits, off by at most 0.00063")
    assert row.real_scale == [] and len(row.multiplier) == 16  # gamma's, not of x and y
    assert "floor(sqrt(v * 4**root_bits + epsilon))" in row.formula


def test_a_norm_that_is_written_out_is_the_same_node():
    text = """net (float[N, 5, 16] x) => (float[N, 5, 16] y, float[N, 5, 8] z) {
        a = Add (x, x)
        m = ReduceMean <axes = [-1]> (a)
        d = Sub (a, m)
        q = Pow (d, two)
        v = ReduceMean <axes = [-1]> (q)
        e = Add (v, epsilon)
        s = Sqrt (e)
        n = Div (d, s)
        g = Mul (n, gamma)
        [norm] y = Add (g, beta)
        [last] z = MatMul (y, w)
    }"""
    weights = {"gamma": numbers(16), "beta": numbers(16, seed=1), "w": numbers(16, 8)}
    weights |= {"two": np.float32(2), "epsilon": np.float32(0.001)}
    written = model(text, opset=11, **weights)
    result, single = qpasses.quantize(written, feeds()), qpasses.quantize(net(), feeds())
    assert result.verdict == "ok"
    assert qpasses.verify(result.model, written, feeds(2)).verdict == "ok"
    found, expected = (
        next(each for each in made.model.graph.node if each.name == "norm")
        for made in (result, single)
    )
    assert found.op_type == "IntLayerNorm"
    assert list(found.attribute) == list(expected.attribute)


def test_a_sequence_of_one_and_constant_rows_are_no_trap():
    text = "g (float[N, T, 4] x) => (float[N, T, 4] y) { y = LayerNormalization (x, one) }"
    made = model(text, one=np.ones(4, np.float32))
    samples = [{"x": np.full((1, 1, 4), v, np.float32)} for v in (-1, 0, 3)]
    result = qpasses.quantize(made, samples)
    assert result.verdict == "ok"
    assert qpasses.verify(result.model, made, samples).verdict == "ok"
    (found,) = Session(result.model).run(None, samples[0])
    assert (found == 0).all()


@zoo_models.NEEDS_ZOO[0]
@zoo_models.NEEDS_ZOO[1]
@pytest.mark.parametrize(
    ("name", "peer"), [slow("kwt1_transformer", 18.5), ("vit_pgd_2_3_16", 25.4)]
)
def test_transformers_of_the_zoo_are_integer_and_nearer_than_quantize_static(name, peer):
    result, path = zoo_models.quantized(name), zoo_models.path(name)
    summary = result.report["summary"]
    assert (result.verdict, summary["float_nodes"]) == ("ok", [])
    assert zoo_models.score(result.model, name)["sqnr_db"] > peer
    one = zoo_models.feeds(name, "calib")[:1]
    assert qpasses.verify(result.model, path, one).verdict == "ok"


def test_rows_that_are_alike_are_right_where_float_loses_its_digits():
    made = model(
        "g (float[1, 1, 2, 2] x) => (float[1, 1, 2, 2] y) "
        "{ a = Conv (x, w) y = InstanceNormalization <epsilon = 1e-12> (a, one, less) }",
        w=np.ones((1, 1, 1, 1), np.float32),
        one=np.ones(1, np.float32),
        less=np.float32([-0.2]),
    )
    samples = [{"x": np.full((1, 1, 2, 2), value, np.float32)} for value in (-1.7, 1.3)]
    result = qpasses.quantize(made, samples)
    assert result.verdict == "ok"
    assert qpasses.verify(result.model, made, samples).verdict == "ok"


@pytest.mark.parametrize("epsilon", [-1, -(2**63), 2**62, 2**63 - 1])
def test_an_epsilon_that_no_node_has_is_one_line(epsilon):
    samples = [{"x": numbers(2, 5, 16, seed=seed)} for seed in range(2)]
    made = qpasses.quantize(net(), samples).model
    (node,) = [each for each in made.graph.node if each.op_type == "IntLayerNorm"]
    name = node.input[list(OPS["IntLayerNorm"].inputs).index("epsilon")]
    (tensor,) = [each for each in made.graph.initializer if each.name == name]
    tensor.CopyFrom(numpy_helper.from_array(np.array(epsilon, np.int64), name))
    with pytest.raises(ModelError, match="has not the inputs and attributes"):
        qpasses.verify(made, net(), samples)
