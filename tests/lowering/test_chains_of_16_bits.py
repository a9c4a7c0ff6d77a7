"""Chains and clamps of tensors of 8 and 16 bits: what they become, and what is refused."""

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import numpy_helper

from opsets.table_rules import NEAR
from qpasses import quantize, verify
from qpasses.api import export
from qpasses.ir.edges import codes, dequantize
from qpasses.ir.edges import quantize as store
from qpasses.ir.record import Quantization
from tests.support.small_models import model, numbers, session
from tests.support.thoroughness import thoroughly

FEEDS = [{"x": numbers(2, 3, 4, seed=seed)} for seed in range(2)]
ENDS = {
    "uint8": Quantization(6 / 128, 128, "uint8"),
    "int8": Quantization(6 / 128, -3, "int8"),
    "int16": Quantization(6 / 32768, 0, "int16"),
}
TO_WORDS = [(x, y) for x in ENDS for y in ENDS if "int16" in (x, y)]
every_end = pytest.mark.parametrize(("x", "y"), TO_WORDS)

CURVES = {
    "Sigmoid": "[f] b = Sigmoid (d)",
    "Gelu": "[f] b = Gelu (d)",
    "LeakyRelu": "[f] b = LeakyRelu (d)",
    "HardSwish": "[f] b = HardSwish (d)",
    "SiLU": "s = Sigmoid (d) [f] b = Mul (d, s)",
    "Exp": "[f] b = Exp (d)",
    "Sqrt": "[f] b = Sqrt (d)",
    "Log": "[f] b = Log (d)",
    "none": "m = Sub (d, far) [f] b = Log (m)",
}
KNOTS = {"Sigmoid", "Gelu", "LeakyRelu", "HardSwish", "SiLU"}


def between(x, y, body, known=ENDS, **constants):
    """A model that is quantized already, of one node between stored x and y."""
    ends = {"x": known[x], "y": known[y]}
    numbers_of = {f"{n}_scale": np.float32(q.scale) for n, q in ends.items()}
    numbers_of |= {f"{n}_zero": q.zero for n, q in ends.items()}
    text = f"""g (float[N, 3, 4] x) => (float[N, 3, 4] y) {{
        q = QuantizeLinear (x, x_scale, x_zero) d = DequantizeLinear (q, x_scale, x_zero)
        {body}
        r = QuantizeLinear (b, y_scale, y_zero) y = DequantizeLinear (r, y_scale, y_zero)
    }}"""
    return model(text, opset=21, **numbers_of, **constants)


def middle(made):
    """The node that computes, and its constants by name."""
    (node,) = [each for each in made.graph.node if each.domain == "qpasses"]
    return node, {each.name: each for each in made.graph.initializer}


def on_all_codes(made, x):
    """What is stored for each code of x."""
    real = dequantize(codes(x), x).reshape(-1, 1, 1)
    real = np.broadcast_to(real, (real.size, 3, 4))
    (found,) = session(made).run(None, {"x": np.ascontiguousarray(real)})
    return found[:, 0, 0]


@pytest.mark.thinned
@every_end
@pytest.mark.parametrize("curve", [each for each in CURVES if each != "none"])
def test_a_chain_is_one_table_that_holds_what_float_computes(x, y, curve):
    original = between(x, y, CURVES[curve])
    result = quantize(original, FEEDS)
    node, constants = middle(result.model)
    (evidence,) = result.evidence
    assert result.verdict == "ok" and evidence.kind == "exhaustive"
    assert evidence.domain == (65536 if x == "int16" else 256)
    assert verify(result.model, original, FEEDS).verdict == "ok"
    wanted = {"Lut"} if x != "int16" else {"Lut16", "LutInterpolated"}
    assert node.op_type in wanted
    if x == y == "int16":
        assert (node.op_type == "LutInterpolated") == (curve in KNOTS)
    real, meaning = dequantize(codes(ENDS[x]), ENDS[x]), ENDS[y]
    stored = store(on_all_codes(result.model, ENDS[x]), meaning).astype(int)
    expected = on_all_codes(original, ENDS[x])
    near = NEAR[y] if node.op_type == "LutInterpolated" else 0
    known = np.ones(real.size, bool) if curve not in ("Sqrt", "Log") else real > 0
    assert np.abs(stored - store(expected, meaning))[known].max() <= near
    assert constants[node.input[1]].dims == [
        {"Lut": 256, "Lut16": 65536, "LutInterpolated": 513}[node.op_type]
    ]


@pytest.mark.thinned
@every_end
@pytest.mark.parametrize(
    ("body", "low", "high"),
    [
        ("[f] b = Relu (d)", 0, 9),
        ("[f] b = Clip (d, , top)", -9, 2.5),
    ],
)
def test_clamps_are_a_multiplier_and_ends_of_codes(x, y, body, low, high):
    constants = {"top": np.float32(2.5)} if "top" in body else {}
    original = between(x, y, body, **constants)
    result = quantize(original, FEEDS)
    node, _ = middle(result.model)
    assert node.op_type == "IntRescale" and result.verdict == "ok"
    (evidence,) = result.evidence
    assert (evidence.kind, evidence.mismatches) == ("exhaustive", 0)
    assert verify(result.model, original, FEEDS).verdict == "ok"
    real = np.clip(dequantize(codes(ENDS[x]), ENDS[x]), low, high)
    stored = store(on_all_codes(result.model, ENDS[x]), ENDS[y])
    assert np.abs(stored.astype(int) - store(real, ENDS[y])).max() <= 1


@st.composite
def stored(draw):
    """Scales of any size and zero points, those of 16 bits at 0."""
    found = {}
    for dtype in ENDS:
        scale = float(np.float32(draw(st.floats(2**-20, 2**4)) / (1 if "8" in dtype else 256)))
        zero = draw(st.integers(0, 127)) if "8" in dtype else 0
        found[dtype] = Quantization(scale, zero, dtype)
    return found


@thoroughly(60)
@given(
    ends=st.sampled_from(TO_WORDS),
    known=stored(),
    curve=st.sampled_from([*(CURVES.keys() - {"none"}), "Relu", "PRelu"]),
    options=st.sampled_from([{}, {"target": "exact"}, {"target": "bm1684x"}]),
)
def test_whatever_the_scales_are_nodes_are_proved_and_verified(ends, known, curve, options):
    constants = {"slopes": numbers(3, 1)} if curve == "PRelu" else {}
    others = {"Relu": "[f] b = Relu (d)", "PRelu": SLOPES[0][0]}
    body = others[curve] if curve in others else CURVES[curve]
    original = between(*ends, body, known, **constants)
    result = quantize(original, FEEDS, **options)
    assert result.verdict in ("ok", "incomplete")
    for each in result.report["summary"]["float_nodes"]:
        assert each["reason"] and (curve in others or "express" in each["reason"])
    assert verify(result.model, original, FEEDS).verdict == result.verdict


SLOPES = [
    ("[f] b = PRelu (d, slopes)", numbers(3, 1), {}),
    ("[f] b = PRelu (d, slopes)", numbers(3, 4), {}),
    ("[f] b = PRelu (d, slopes)", numbers(3, 1), {"target": "exact"}),
    ("[f] b = LeakyRelu <alpha = 0.3> (d)", None, {"activation_form": "multiplier"}),
]


@pytest.mark.thinned
@every_end
@pytest.mark.parametrize(("body", "slopes", "options"), SLOPES)
def test_slopes_that_differ_are_the_nearest_multipliers(x, y, body, slopes, options):
    original = between(x, y, body, **({} if slopes is None else {"slopes": slopes}))
    result = quantize(original, FEEDS, **options)
    node, constants = middle(result.model)
    (evidence,) = result.evidence
    count = 1 if slopes is None else slopes.size
    assert node.op_type == "IntPRelu" and result.verdict == "ok"
    assert evidence.domain == count * (65536 if x == "int16" else 256)
    assert evidence.reference_max_lsb <= 1
    assert quantize(original, FEEDS, bodies="portable", **options).verdict == "ok"
    assert verify(result.model, original, FEEDS).verdict == "ok"
    found = numpy_helper.to_array(constants[node.input[4]])
    shifts = numpy_helper.to_array(constants[node.input[5]])
    real = ENDS[x].scale / ENDS[y].scale * (0.3 if slopes is None else slopes)
    np.testing.assert_allclose(np.ldexp(found.astype(float), -shifts), real, rtol=1e-7)


@pytest.mark.thinned
@pytest.mark.parametrize("place", [1, 2, 3, 4, 5, 7])
def test_a_forged_slope_is_refused(place):
    original = between("int16", "int16", SLOPES[0][0], slopes=numbers(3, 1))
    made = quantize(original, FEEDS).model
    found = verify(forged(made, with_values(place, lambda number: number + 1)), original)
    assert found.verdict == "failed"


def test_slopes_of_16_bits_that_are_too_many_to_prove_stay_in_float(monkeypatch):
    monkeypatch.setattr("qpasses.lowering.integerize_p_relu.MOST_WIDE_SLOPES", 11)
    original = between("int16", "int16", SLOPES[1][0], slopes=numbers(3, 4))
    (left,) = quantize(original, FEEDS).report["summary"]["float_nodes"]
    assert "12 slopes of 16 bits: no more than 11" in left["reason"]


@pytest.mark.parametrize("form", ["shift", "ibert"])
def test_a_gelu_of_16_bits_is_a_table_whatever_form_is_wanted(form):
    original = between("int16", "int16", CURVES["Gelu"])
    result = quantize(original, FEEDS, gelu=form)
    assert middle(result.model)[0].op_type == "LutInterpolated"
    assert verify(result.model, original, FEEDS).verdict == "ok"


def test_nodes_of_one_function_share_a_table():
    body = "[f] b = Sigmoid (d) [g] c = Sigmoid (d)"
    original = between("int16", "int16", body)
    ends = [original.graph.node[-2], original.graph.node[-1]]
    for end, read, written in ((ends[0], "c", "r_2"), (ends[1], "r_2", "z")):
        copy = original.graph.node.add()
        copy.CopyFrom(end)
        copy.input[0], copy.output[0] = read, written
        copy.name = ""
    other = original.graph.output.add()
    other.CopyFrom(original.graph.output[0])
    other.name = "z"
    result = quantize(original, FEEDS)
    tables = [n.input[1] for n in result.model.graph.node if n.op_type == "LutInterpolated"]
    assert len(tables) == 2 and len(set(tables)) == 1
    assert result.report["summary"]["tables"]["bytes"] == 1026


@pytest.mark.thinned
@every_end
@pytest.mark.parametrize("bodies", ["onnxruntime", "portable"])
def test_a_function_that_differs_by_channel_is_a_table_for_each(x, y, bodies):
    body = "s = Sigmoid (d) m = Mul (s, d) [f] b = Mul (m, factors)"
    original = between(x, y, body, factors=numbers(3, 1))
    result = quantize(original, FEEDS, bodies=bodies)
    node, _ = middle(result.model)
    by_line = x == "int16"
    assert node.op_type == ("LutInterpolatedPerChannel" if by_line else "LutPerChannel")
    (evidence,) = result.evidence
    assert evidence.domain == 3 * (65536 if by_line else 256) and evidence.channels == 3
    assert evidence.reference_max_lsb <= (NEAR[y] + 2 if by_line else 1)
    assert result.verdict == verify(result.model, original, FEEDS).verdict == "ok"
    exported = quantize(original, FEEDS, integer_io=True).model
    assert export(exported, input_shape=["2,3,4"]).operations["gather"] > 0


@pytest.mark.parametrize("y", ENDS)
def test_lines_of_a_channel_that_are_far_from_its_table_stay_in_float_and_say_so(y):
    original = between("int16", y, "m = Sqrt (d) [f] b = Mul (m, k)", k=50 * numbers(3, 1))
    result = quantize(original, FEEDS)
    reasons = [each["reason"] for each in result.report["summary"]["float_nodes"]]
    assert reasons and all("no table of channels has more" in each for each in reasons)
    assert verify(result.model, original, FEEDS).verdict == "incomplete"


@pytest.mark.parametrize("target", ["tflm", "litert", "tflite-single"])
def test_targets_with_a_form_of_their_own_have_no_tables_of_16_bits(target):
    result = quantize(between("int16", "int16", CURVES["Sigmoid"]), FEEDS, target=target)
    (left,) = result.report["summary"]["float_nodes"]
    assert left["name"] == "f" and f"{target!r} has no tables of 16 bits" in left["reason"]


@pytest.mark.thinned
@pytest.mark.parametrize("target", ["exact", "bm1684x", "tosa"])
@every_end
def test_other_targets_have_them_by_their_own_rules(target, x, y):
    original = between(x, y, CURVES["SiLU"])
    result = quantize(original, FEEDS, target=target)
    assert result.verdict == "ok" and middle(result.model)[0].op_type.startswith("Lut")
    assert verify(result.model, original, FEEDS).verdict == "ok"


def test_codes_without_a_result_are_recorded_as_runs():
    original = between("int16", "int16", CURVES["Log"])
    result = quantize(original, FEEDS)
    assert result.report["summary"]["undefined_codes"] == {"f": [[-32768, -1]]}
    entry = next(
        each for each in middle(result.model)[0].metadata_props if "undefined" in each.key
    )
    assert entry.value == "[[-32768, -1]]"
    for other in ("[[-32768, -2]]", "[]", "[-32768, -1]"):
        copy = onnx.ModelProto()
        copy.CopyFrom(result.model)
        for each in middle(copy)[0].metadata_props:
            each.value = other if each.key == entry.key else each.value
        assert verify(copy, original).verdict == "failed"


def test_a_function_of_no_code_at_all_is_declined():
    far = {"far": np.float32(1000)}
    result = quantize(between("int16", "int16", CURVES["none"], **far), FEEDS)
    assert "not defined for any code" in result.report["summary"]["float_nodes"][0]["reason"]


# The checker


def forged(made, change):
    copy = onnx.ModelProto()
    copy.CopyFrom(made)
    change(*middle(copy))
    return copy


def with_values(name, change):
    """What changes the constant at this input of the node."""

    def apply(node, constants):
        tensor = constants[node.input[name]]
        values = numpy_helper.to_array(tensor).copy()
        tensor.CopyFrom(numpy_helper.from_array(np.asarray(change(values)), tensor.name))

    return apply


def with_one_entry_more(values):
    values[200] += 1
    return values


FORGERIES = [
    ("uint8", "int16", "Sigmoid", with_values(1, with_one_entry_more)),
    ("uint8", "int16", "Sigmoid", with_values(1, lambda table: (table >> 8).astype(np.int8))),
    ("int16", "uint8", "Sqrt", with_values(1, with_one_entry_more)),
    ("int16", "int16", "Sqrt", with_values(1, with_one_entry_more)),
    ("int16", "int16", "Sigmoid", with_values(1, with_one_entry_more)),
    ("int16", "int16", "Sigmoid", with_values(2, lambda shift: shift + 1)),
    ("int16", "int16", "Sigmoid", with_values(3, lambda zero: zero + 1)),
    ("int16", "int16", "Sigmoid", with_values(5, lambda last: last - 1)),
]


@pytest.mark.parametrize(("x", "y", "curve", "change"), FORGERIES)
def test_a_forged_table_is_refused(x, y, curve, change):
    original = between(x, y, CURVES[curve])
    made = quantize(original, FEEDS).model
    found = verify(forged(made, change), original)
    assert found.verdict == "failed" and found.report["summary"]["problems"]


@pytest.mark.parametrize("place", [2, 3, 5, 6])
def test_a_forged_clamp_is_refused(place):
    original = between("int16", "int16", "[f] b = Clip (d, , top)", top=np.float32(2.5))
    made = quantize(original, FEEDS).model
    found = verify(forged(made, with_values(place, lambda number: number - 1)), original)
    assert found.verdict == "failed"


@pytest.mark.parametrize(("curve", "bound"), [("Sigmoid", 0), ("Exp", 1 << 16)])
def test_the_other_of_both_tables_is_refused(monkeypatch, curve, bound):
    original = between("int16", "int16", CURVES[curve])
    right = middle(quantize(original, FEEDS).model)[0].op_type
    monkeypatch.setattr("qpasses.lowering.numbers.knots.NEAR", dict.fromkeys(ENDS, bound))
    result = quantize(original, FEEDS)
    assert {middle(result.model)[0].op_type, right} == {"Lut16", "LutInterpolated"}
    assert result.verdict == "ok"  # the table itself is sound
    found = verify(result.model, original)
    assert found.verdict == "failed"
    assert f"should be a {right}" in found.report["summary"]["problems"][0]


def test_tosa_has_tables_of_16_bits_as_gathered_numbers():
    for x, y in TO_WORDS:
        made = quantize(between(x, y, CURVES["Sigmoid"]), FEEDS, integer_io=True)
        assert export(made.model, input_shape=["2,3,4"]).operations["gather"] > 0
