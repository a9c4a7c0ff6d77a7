"""QONNX: the numbers of its reference, from Q/DQ where they can say them."""

import numpy as np
import pytest
from onnx import TensorProto

from opsets.errors import ModelError
from qpasses.load.foreign import is_quantized, standard_qdq
from tests.support.small_models import model, numbers
from tests.support.translations import PATH, operations, run, translated

TIES = [5.5, 2.5, 1.6, 1.1, 1.0, -1.0, -1.1, -1.6, -2.5, -5.5]

DOCUMENTED = {
    "ROUND": [6, 2, 2, 1, 1, -1, -1, -2, -2, -6],
    "CEIL": [6, 3, 2, 2, 1, -1, -1, -1, -2, -5],
    "FLOOR": [5, 2, 1, 1, 1, -1, -2, -2, -3, -6],
    "UP": [6, 3, 2, 2, 1, -1, -2, -2, -3, -6],
    "DOWN": [5, 2, 1, 1, 1, -1, -1, -1, -2, -5],
    "HALF_UP": [6, 3, 2, 1, 1, -1, -1, -2, -3, -6],
    "HALF_DOWN": [5, 2, 2, 1, 1, -1, -1, -2, -2, -5],
}
"""The table of QONNX's page on IntQuant, for the numbers above."""

ROUNDED = {
    "ROUND": np.rint,
    "CEIL": np.ceil,
    "FLOOR": np.floor,
    "UP": lambda x: np.copysign(np.ceil(np.abs(x)), x),
    "DOWN": np.trunc,
    "ROUND_TO_ZERO": np.trunc,
    "HALF_UP": lambda x: np.copysign(np.floor(np.abs(x) + np.float32(0.5)), x),
    "HALF_DOWN": lambda x: np.copysign(np.ceil(np.abs(x) - np.float32(0.5)), x),
}


def expected(x, scale, zero, bits, signed=1, narrow=0, rounding="ROUND"):
    """The sample implementation of that page, in float32."""
    highest = 2 ** (bits - 1) - 1 if signed else 2**bits - 1 - narrow
    lowest = -(2 ** (bits - 1)) + narrow if signed else 0
    moved = np.clip(np.float32(x) / scale + zero, np.float32(lowest), np.float32(highest))
    return (ROUNDED[rounding](moved) - zero) * scale


def quantizer(
    x, scale, zero, bits, *, opset=13, op="qonnx.custom_op.general.Quant", rank=2, **given
):
    """A Quant of the input x, or of a weight w which the model gives out."""
    given = {"signed": 1, "narrow": 0, "rounding_mode": '"ROUND"', **given}
    attributes = ", ".join(f"{name} = {value}" for name, value in given.items())
    dims = ",".join("ABCD"[:rank])
    constant = "x" if isinstance(x, str) else "w"
    text = f"""quant (float[{dims}] x) => (float[{dims}] y) {{
        [quant] r = {op} <{attributes}> ({constant}, scale, zero, bits)
        y = {"Identity (r)" if constant == "x" else "Add (x, r)"} }}"""
    made = model(
        text,
        opset=opset,
        domains=[op.rpartition(".")[0]],
        scale=np.asarray(scale, np.float32),
        zero=np.asarray(zero),
        bits=np.asarray(bits, np.float32),
    )
    if constant == "w":
        made.graph.initializer.append(numpy_tensor("w", x))
    return made


def numpy_tensor(name, values):
    import onnx

    return onnx.numpy_helper.from_array(np.asarray(values), name)


def weights_of(made, shape):
    """What the translated model reads for its weights, and its result."""
    result = translated(made)
    return run(result, {"x": np.zeros(shape, np.float32)})[0], result


WEIGHT = numbers(6, 8) * 3


@pytest.mark.thinned
@pytest.mark.parametrize("rounding", ROUNDED)
@pytest.mark.parametrize("bits", [2, 3, 4, 8])
@pytest.mark.parametrize("signed", [0, 1])
@pytest.mark.parametrize("narrow", [0, 1])
def test_weights_become_integers(rounding, bits, signed, narrow):
    scale = np.float32(6 / 2**bits)
    weight = WEIGHT.copy()
    weight.flat[: len(TIES)] = np.float32(TIES) * scale
    given = {"signed": signed, "narrow": narrow}
    made = quantizer(weight, scale, 0.0, bits, rounding_mode=f'"{rounding}"', **given)
    found, result = weights_of(made, weight.shape)
    np.testing.assert_array_equal(
        found, expected(weight, scale, np.float32(0), bits, rounding=rounding, **given)
    )
    assert operations(result) == ["DequantizeLinear", "Add"]
    kinds = {tensor.data_type for tensor in result.graph.initializer}
    assert (TensorProto.INT8 in kinds) == bool(signed)


@pytest.mark.parametrize("rounding", DOCUMENTED)
def test_the_roundings_are_those_of_the_documented_table(rounding):
    weight = np.float32([TIES])
    made = quantizer(weight, 1, 0.0, 8, rounding_mode=f'"{rounding.lower()}"')
    found, _ = weights_of(made, weight.shape)
    np.testing.assert_array_equal(found, [DOCUMENTED[rounding]])


@pytest.mark.parametrize("zero", [3.0, -2.0, 0.0])
@pytest.mark.parametrize("bits", [4, 8, 12, 16])
@pytest.mark.parametrize("kind", [np.float32, np.int64])
def test_zero_points_and_wide_integers_of_weights(zero, bits, kind):
    made = quantizer(WEIGHT, 0.01, kind(zero), bits)
    found, result = weights_of(made, WEIGHT.shape)
    wanted = expected(WEIGHT, np.float32(0.01), np.float32(zero), bits)
    np.testing.assert_array_equal(found, wanted)
    (opset,) = (each.version for each in result.opset_import if not each.domain)
    assert opset == (21 if bits > 8 else 13)


@pytest.mark.parametrize("bits", [17, 24, 32])
def test_biases_of_many_bits_are_int32(bits):
    found, result = weights_of(quantizer(WEIGHT, 1e-4, 0.0, bits), WEIGHT.shape)
    np.testing.assert_array_equal(found, expected(WEIGHT, np.float32(1e-4), 0, bits))
    assert TensorProto.INT32 in {tensor.data_type for tensor in result.graph.initializer}


CHANNELS = np.random.default_rng(0).uniform(0.05, 0.5, 6).astype(np.float32)


@pytest.mark.parametrize("opset", [9, 11, 13, 21])
@pytest.mark.parametrize(
    ("shape", "axis"), [((6, 1), 0), ((6,), 1), ((1, 6), 1), ((1, 1, 6)[1:], 1)]
)
def test_scales_of_channels_of_any_shape_become_an_axis(opset, shape, axis):
    weight = numbers(6, 6)
    made = quantizer(weight, CHANNELS.reshape(shape), 0.0, 4, opset=opset)
    found, result = weights_of(made, weight.shape)
    np.testing.assert_array_equal(found, expected(weight, CHANNELS.reshape(shape), 0, 4))
    (node,) = (n for n in result.graph.node if n.op_type == "DequantizeLinear")
    assert [(a.name, a.i) for a in node.attribute] == [("axis", axis)]


def test_scales_of_the_whole_shape_that_vary_along_one_axis_become_an_axis():
    weight = numbers(6, 6)
    whole = np.broadcast_to(CHANNELS[:, None], (6, 6))
    found, result = weights_of(quantizer(weight, whole, 0.0, 4), weight.shape)
    np.testing.assert_array_equal(found, expected(weight, whole, 0, 4))
    assert {tuple(t.dims) for t in result.graph.initializer} == {(6, 6), (6,)}


@pytest.mark.parametrize(
    ("scale", "zero", "bits", "reason"),
    [
        (np.float32([[0.1, 0.2], [0.3, 0.4]]), 0.0, 4, "its scales vary along several axes"),
        (0.1, 0.5, 4, "its integers or its zero point fit no type"),
        (0.1, 3.0, 24, "its integers or its zero point fit no type"),
    ],
)
def test_weights_that_q_dq_cannot_say_become_real_numbers(scale, zero, bits, reason):
    weight = numbers(2, 2)
    made = quantizer(weight, scale, zero, bits)
    found, result = weights_of(made, weight.shape)
    np.testing.assert_array_equal(
        found, expected(weight, np.float32(scale), np.float32(zero), bits)
    )
    assert operations(result) == ["Add"]
    assert standard_qdq(made, PATH).notes == {
        "quant": f"{reason}: its weights are real numbers"
    }


REALS = (numbers(40, 50) * 4).astype(np.float32)


@pytest.mark.thinned
@pytest.mark.parametrize("opset", [9, 11, 13, 21])
@pytest.mark.parametrize("bits", [2, 4, 7, 8, 9, 16])
@pytest.mark.parametrize("signed", [0, 1])
@pytest.mark.parametrize("narrow", [0, 1])
def test_activations_get_a_clip_and_q_dq(opset, bits, signed, narrow):
    given = {"signed": signed, "narrow": narrow}
    scale = np.float32(7 / 2**bits)
    made = quantizer("x", scale, 0.0, bits, opset=opset, **given)
    result = translated(made)
    values = REALS.copy()
    values.flat[: len(TIES)] = np.float32(TIES) * scale
    (found,) = run(result, {"x": values})
    np.testing.assert_array_equal(found, expected(values, scale, 0, bits, **given))
    clip = [] if bits in (8, 16) and not narrow else ["Clip"]
    assert operations(result) == [*clip, "QuantizeLinear", "DequantizeLinear", "Identity"]
    assert not standard_qdq(made, PATH).notes


@pytest.mark.parametrize("op", ["IntQuant", "Quant"])
@pytest.mark.parametrize(
    "domain", ["qonnx.custom_op.general", "finn.custom_op.general", "onnx.brevitas"]
)
def test_all_names_of_the_op_are_known_and_its_domain_may_be_missing(op, domain):
    made = quantizer("x", 0.1, 0.0, 8, op=f"{domain}.{op}")
    del made.opset_import[1:]
    assert is_quantized(made)
    result = translated(made)
    assert [each.domain for each in result.opset_import] == [""]


def test_a_tie_at_an_odd_zero_point_is_noted():
    made = quantizer("x", 1.0, 3.0, 8, signed=0)
    result = standard_qdq(made, PATH)
    assert "ties" in result.notes["quant"]
    values = REALS.copy()
    (found,) = run(result.model, {"x": values})
    np.testing.assert_array_equal(found, expected(values, np.float32(1), 3, 8, signed=0))


@pytest.mark.parametrize("opset", [9, 11, 13, 21])
@pytest.mark.parametrize("rounding", [name for name in ROUNDED if name != "ROUND"])
def test_other_roundings_of_activations_are_float_ops(rounding, opset):
    made = quantizer("x", 0.25, 1.0, 5, opset=opset, rounding_mode=f'"{rounding}"')
    result = translated(made)
    (found,) = run(result, {"x": REALS})
    wanted = expected(REALS, np.float32(0.25), np.float32(1), 5, rounding=rounding)
    np.testing.assert_array_equal(found, wanted)
    assert standard_qdq(made, PATH).notes["quant"].endswith("written as float ops")


@pytest.mark.parametrize(
    ("scale", "zero", "bits"),
    [(CHANNELS, 0.0, 4), (0.1, 0.5, 4), (0.001, 0.0, 20), (0.1, 200.0, 4)],
)
def test_activations_that_q_dq_cannot_say_are_float_ops(scale, zero, bits):
    made = quantizer("x", scale, zero, bits)
    values = REALS[:, :6]
    (found,) = run(translated(made), {"x": values})
    wanted = expected(values, np.float32(scale), np.float32(zero), bits)
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


def test_one_bit_with_a_sign_is_bipolar():
    found, _ = weights_of(quantizer(WEIGHT, 0.3, 0.0, 1), WEIGHT.shape)
    np.testing.assert_array_equal(found, np.where(WEIGHT >= 0, 1, -1) * np.float32(0.3))
    (found,) = run(translated(quantizer("x", 0.5, 0.0, 1)), {"x": REALS})
    np.testing.assert_array_equal(found, np.where(REALS >= 0, 0.5, -0.5))


def bipolar(constant, scale, opset=13):
    text = f"""g (float[A,B] x) => (float[A,B] y) {{
        [quant] r = qonnx.custom_op.general.BipolarQuant ({constant}, scale)
        y = Add (x, r) }}"""
    made = model(
        text,
        opset=opset,
        domains=["qonnx.custom_op.general"],
        scale=np.asarray(scale, np.float32),
    )
    if constant == "w":
        made.graph.initializer.append(numpy_tensor("w", WEIGHT))
    return made


@pytest.mark.parametrize("scale", [0.3, 1.0, CHANNELS[:, None]])
def test_bipolar_weights_are_one_and_minus_one(scale):
    found, result = weights_of(bipolar("w", scale), WEIGHT.shape)
    np.testing.assert_array_equal(found, np.where(WEIGHT >= 0, 1, -1) * np.float32(scale))
    stored = next(t for t in result.graph.initializer if len(t.dims) == 2)
    assert {*np.unique(np.frombuffer(stored.raw_data, np.int8))} == {-1, 1}


@pytest.mark.parametrize("opset", [9, 13, 21])
@pytest.mark.parametrize("scale", [0.25, CHANNELS])
def test_bipolar_activations_are_steps(scale, opset):
    values = REALS[:, :6].copy()
    values[0, :2] = [0, -0.0]
    result = translated(bipolar("x", scale, opset))
    (found,) = run(result, {"x": values})
    steps = np.where(values >= 0, np.float32(scale), -np.float32(scale))
    np.testing.assert_array_equal(found, values + steps)
    assert ("QuantizeLinear" in operations(result)) == (np.size(scale) == 1)


def truncation(inputs, given, **values):
    text = f"""g (float[A,B] x) => (float[A,B] y) {{
        [cut] y = qonnx.custom_op.general.Trunc <{given}> (x, {inputs}) }}"""
    numbers_of = {name: np.float32(value) for name, value in values.items()}
    return model(text, opset=13, domains=["qonnx.custom_op.general"], **numbers_of)


def test_trunc_of_both_versions_is_float_ops():
    stored = np.float32([[-100, -3, 0, 7, 18, 100]])
    first = truncation("s, z, a, b", 'rounding_mode = "FLOOR"', s=0.5, z=0, a=8, b=4)
    (found,) = run(translated(first), {"x": stored * 0.5})
    np.testing.assert_array_equal(found, np.floor(stored / 16) * 0.5)
    given = 'rounding_mode = "ROUND", signed = 1, narrow = 1'
    second = truncation("s, z, a, t, z, b", given, s=0.5, z=0, a=8, t=2.0, b=4)
    (found,) = run(translated(second), {"x": stored * 0.5})
    np.testing.assert_array_equal(found, np.clip(np.rint(stored / 4), -7, 7) * 2)
    assert standard_qdq(first, PATH).notes == {"cut": "Trunc is written as float ops"}


def test_what_has_no_integers_stays_with_a_reason():
    text = """g (float[A,B] x) => (float[A,B] y) {
        [odd] y = qonnx.custom_op.general.FloatQuant (x) }"""
    made = model(text, domains=["qonnx.custom_op.general"])
    result = standard_qdq(made, PATH)
    assert result.model is made and "no form with Q/DQ" in result.notes["odd"]


def test_weights_and_scales_that_are_computed_from_constants_are_constants():
    text = """g (float[A,B] x) => (float[A,B] y) {
        t = Transpose (w) s = Div (one, eight) b = Add (one, one)
        r = onnx.brevitas.Quant <signed = 1, narrow = 0> (t, s, zero, b)
        y = Add (x, r) }"""
    made = model(
        text,
        opset=9,
        domains=["onnx.brevitas"],
        w=WEIGHT,
        zero=np.float32(0),
        one=np.float32(1),
        eight=np.float32(8),
    )
    found, result = weights_of(made, WEIGHT.T.shape)
    np.testing.assert_array_equal(found, expected(WEIGHT.T, np.float32(0.125), 0, 2))
    assert operations(result) == ["DequantizeLinear", "Add"]


WRONG = [
    ({"scale": 0.0}, "scale 'scale' holds 0.0"),
    ({"scale": -1.0}, "scale 'scale' holds -1.0"),
    ({"scale": np.nan}, "scale 'scale' holds nan"),
    ({"zero": np.float32(np.inf)}, "zero point 'zero' holds what is no number"),
    ({"bits": 0}, "bit width 'bits' is not a constant whole number"),
    ({"bits": 2.5}, "bit width 'bits' is not a constant whole number"),
    ({"bits": [4.0, 2.0]}, "bit width 'bits' is not a constant whole number"),
    ({"rounding_mode": '"NEAREST"'}, "unknown rounding_mode 'NEAREST'"),
    ({"scale": [0.1, 0.2]}, r"of shape \[2\] does not fit weights 'w' of shape \[6, 8\]"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "message"), WRONG)
def test_a_malformed_quantizer_is_an_error_that_names_it(change, message):
    given = {"scale": 0.1, "zero": 0.0, "bits": 4, **change}
    made = quantizer(WEIGHT, **given)
    with pytest.raises(ModelError, match=f"foreign.onnx: Quant 'quant': .*{message}"):
        standard_qdq(made, PATH)


def test_weights_that_are_no_numbers_are_an_error():
    weight = WEIGHT.copy()
    weight[0, 0] = np.nan
    with pytest.raises(ModelError, match="weights 'w' hold what is no number"):
        standard_qdq(quantizer(weight, 0.1, 0.0, 4), PATH)
