"""Tables of 16-bit integers: what they hold, how far interpolation goes, what is refused."""

import dataclasses

import numpy as np
import onnxruntime as ort
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import numpy_helper

from opsets import qpasses_v1
from opsets.errors import ModelError, UsageError
from opsets.fixed_point import ROUNDINGS
from opsets.op import Body
from opsets.qpasses_v1.lut_interpolated import interpolate
from qpasses import Quantization, quantize, wide_table
from qpasses.evidence.prove_pairs import all_pairs
from qpasses.ir.edges import byte_codes, codes
from qpasses.ir.elementwise import UNARY
from qpasses.ir.runtime import run_op
from qpasses.load.integer_model import read_integer_model
from qpasses.lowering.integerize_pair import tabulate_pairs
from tests.ir.test_function import CONSTANTS, OPS, function_of, of_op
from tests.support.small_models import model, numbers
from tests.support.thoroughness import thoroughly

CODES = np.arange(-32768, 32768).astype(np.int16)
INTERPOLATED = qpasses_v1.OPS["LutInterpolated"]
Y_ENDS = [np.array(end, np.int16) for end in (0, -32768, 32767)]

entries = st.integers(0, 2**32 - 1).map(np.random.default_rng)


def interpolated(table, rounding="half_up", shift=7):
    inputs = [CODES, np.asarray(table, np.int16), np.array(shift, np.int32), *Y_ENDS]
    return INTERPOLATED.reference(*inputs, rounding=rounding).astype(int)


def bodies_on_all_codes(table, shift=7):
    """What each body makes of all codes, with its rounding."""
    inputs = [CODES, np.asarray(table, np.int16), np.array(shift, np.int32), *Y_ENDS]
    for body in INTERPOLATED.bodies:
        for rounding in ROUNDINGS:
            if body.accepts({}, {"rounding": rounding}):
                for optimize in (False, True):
                    given = {"rounding": rounding}
                    yield (
                        rounding,
                        run_op("LutInterpolated", body, inputs, given, optimize=optimize),
                    )


def int16(scale, zero_point=0):
    return Quantization(float(np.float32(scale)), zero_point, "int16")


def covering(low, high, dtype="int16"):
    """The quantization of a range that holds zero."""
    limits = np.iinfo(dtype)
    scale = float(np.float32((high - low) / (limits.max - limits.min)))
    zero = int(np.clip(limits.min + round(-low / scale), limits.min, limits.max))
    return Quantization(scale, zero, dtype)


X = int16(8 / 32768)


# Interpolation


@thoroughly(40)
@given(entries, st.sampled_from(ROUNDINGS))
def test_a_line_is_interpolated_exactly(rng, rounding):
    step = int(rng.integers(-64, 65))
    table = step * np.arange(-256, 257) + rng.integers(-8, 9)
    places = CODES.astype(int) * step + 128 * int(table[256])  # in 128ths
    found = interpolated(table, rounding)
    assert (np.abs(128 * found - places) <= 64).all()
    np.testing.assert_array_equal(found[::128], table[:-1])


def test_the_identity_is_neutral_but_for_the_knot_beyond_the_codes():
    table = np.clip(128 * np.arange(-256, 257), -32768, 32767)
    found = interpolated(table)
    np.testing.assert_array_equal(found[:-128], CODES[:-128])
    assert set((CODES - found)[-128:].tolist()) == {0, 1}


@thoroughly(40)
@given(entries, st.sampled_from(ROUNDINGS))
def test_monotone_tables_give_monotone_results(rng, rounding):
    reach = rng.choice([3, 300, 32767])
    table = np.sort(rng.integers(-reach - 1, reach, 513, endpoint=True))
    assert (np.diff(interpolated(table, rounding)) >= 0).all()
    assert (np.diff(interpolated(-1 - table, rounding)) <= 0).all()


def test_32_bits_hold_every_step_of_the_interpolation():
    """Each is linear in both entries, so that it is largest where these are at their ends."""
    ends = (-32768, 32767)
    rises = {(b - a) * part for a in ends for b in ends for part in range(128)}
    totals = {128 * a + (b - a) * part for a in ends for b in ends for part in range(128)}
    assert max(map(abs, rises)) < 2**23
    assert (min(totals), max(totals)) == (-(2**22), 2**22 - 128)  # float32 holds 2**24


@pytest.mark.parametrize("first", [-32768, 32767])
def test_the_steepest_tables_do_not_overflow(first):
    table = np.where(np.arange(513) % 2, -1 - first, first).astype(np.int16)
    wanted = []
    for code in CODES.tolist():
        i, f = (code >> 7) + 256, code & 127
        wanted.append(int(table[i]) * 128 + (int(table[i + 1]) - int(table[i])) * f)
    assert interpolate(CODES, table).tolist() == wanted
    for rounding, found in bodies_on_all_codes(table):
        np.testing.assert_array_equal(found, interpolated(table, rounding))


@thoroughly(10)
@given(entries, st.sampled_from([1, 6, 7, 8, 15, 23, 61]))
def test_all_bodies_equal_the_meaning_on_all_codes(rng, shift):
    reach = rng.choice([3, 300, 32767])
    table = rng.integers(-reach - 1, reach, 513, endpoint=True)
    for rounding, found in bodies_on_all_codes(table, shift):
        np.testing.assert_array_equal(found, interpolated(table, rounding, shift))


# Both tables of a function


def run_in_onnxruntime(op, x, y):
    """DequantizeLinear, ``op``, QuantizeLinear on all codes, unoptimized; the float result."""
    used = {k: v for k, v in CONSTANTS.items() if k in op}
    text = f"""g (int16[N] x) => (int16[N] y, float[N] f) {{
        r = DequantizeLinear (x, x_scale, x_zero) f = {op}
        y = QuantizeLinear (f, y_scale, y_zero)
    }}""".replace("(x)", "(r)").replace("(x,", "(r,")
    for name, each in (("x", x), ("y", y)):
        used |= {f"{name}_scale": np.float32(each.scale), f"{name}_zero": each.zero}
    text = text.replace("DequantizeLinear (r,", "DequantizeLinear (x,")
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    made = model(text, opset=21, ir_version=10, **used).SerializeToString()
    return ort.InferenceSession(made, options).run(None, {"x": CODES})


UNARY_CASES = [op for op in OPS if op.split()[0] in UNARY]


def ranges(op):
    """x over the usual range of ``op`` with zero, and y over its results."""
    low, high = min(OPS[op].min(), 0), max(OPS[op].max(), 0)
    results = of_op(op).real(OPS[op].astype(np.float64))
    return covering(low, high), covering(min(results.min(), 0), max(results.max(), 0))


def test_every_unary_op_has_a_case():
    assert {op.split()[0] for op in UNARY_CASES} == UNARY


@pytest.mark.thinned
@pytest.mark.parametrize("op", UNARY_CASES)
def test_both_tables_of_every_unary_op_and_their_counted_errors(op):
    x, y = ranges(op)
    tables = wide_table(of_op(op), x, y, within=1)
    stored, real = run_in_onnxruntime(op, x, y)
    defined = ~np.isnan(real)
    full = tables.full.constants["table"][CODES.view(np.uint16)]
    np.testing.assert_array_equal(full[defined], stored[defined])
    assert tables.undefined == CODES[~defined].tolist()

    knots, table = np.arange(-32768, 32769, 128), tables.interpolated.constants["table"]
    np.testing.assert_array_equal(table[:-1], full[::128])
    line = np.floor(np.interp(CODES, knots, table.astype(float)) + 0.5)
    np.testing.assert_array_equal(tables.interpolated.stored(CODES), line)
    gaps = np.abs(line - full)
    counted = tables.interpolated.against_full
    assert (counted.codes, counted.max_lsb) == (np.count_nonzero(gaps), gaps.max())
    assert counted.mean_lsb == pytest.approx(gaps.mean(), rel=1e-12)

    for each, results in ((tables.full, full), (tables.interpolated, line)):
        assert each.evidence.proved and each.evidence.domain == 65536
        exact = of_op(op).real((CODES.astype(np.float64) - x.zero_point) * x.scale)
        with np.errstate(over="ignore"):
            levels = np.rint(exact / y.scale) + y.zero_point
        off = np.abs(results - np.clip(levels, -32768, 32767))[defined]
        assert each.against_real.max_lsb == each.evidence.reference_max_lsb >= off.max()
        assert each.against_real.codes == each.evidence.reference_moved
        if defined.all():
            assert each.against_real.max_lsb == off.max()
            assert each.against_real.codes == np.count_nonzero(off)
            assert each.against_real.mean_lsb == pytest.approx(off.mean(), rel=1e-12)


@pytest.mark.parametrize("y_type", ["uint8", "int8", "int16"])
@pytest.mark.parametrize("op", ["Tanh", "Gelu", "Exp"])
def test_results_of_every_type_stay_near(op, y_type):
    """A line between knots of 8 fraction bits, or none, is off by half a step and less."""
    x = covering(-3, 2)
    y = covering(-1, 8, y_type)
    tables = wide_table(op, x, y, within=1)
    assert tables.interpolated.against_full.max_lsb <= 1
    assert tables.full.against_real.max_lsb <= 1
    assert tables.chosen.stored(CODES).dtype == y_type
    assert tables.full.bytes == 65536 * np.dtype(y_type).itemsize
    assert tables.interpolated.bytes == 1026


@pytest.mark.parametrize(("dtype", "zero_point"), [("uint8", 3), ("int8", -2)])
@pytest.mark.parametrize(("bits", "narrow"), [(4, False), (4, True), (8, True)])
def test_both_tables_keep_to_the_codes_of_y(dtype, zero_point, bits, narrow):
    x = Quantization(16 / 65536, 0, "int16")
    y = Quantization(1 / 32, zero_point, dtype, bits, narrow)
    tables = wide_table("HardSwish", x, y, within=1)
    for each in (tables.full, tables.interpolated):
        found = each.stored(CODES)
        assert (found.min(), found.max()) == (max(y.limits[0], zero_point - 12), y.limits[1])
        assert each.evidence.mismatches == 0
    assert tables.interpolated.against_full.max_lsb <= 1


def test_results_beyond_the_type_saturate():
    tables = wide_table("Exp", X, Quantization(0.25, 3, "uint8"), within=0)
    exact = np.rint(np.exp(CODES * X.scale) / 0.25) + 3
    for each in (tables.full, tables.interpolated):
        found = each.stored(CODES).astype(int)
        assert np.abs(found - np.minimum(exact, 255)).max() <= 2
        assert found.max() == 255


@pytest.mark.filterwarnings("error")
def test_results_beyond_float32_saturate_in_silence():
    x, y = covering(-100, 100), covering(-0.001, 1)
    for op in ("Exp", "Cosh"):
        assert wide_table(op, x, y, within=0).full.stored(CODES)[-1] == 32767


HOLE = "m = Mul (x, x) n = Sub (m, two) r = Sqrt (n) y = Add (r, x)"
"""Not defined in the middle, and different on both sides of it."""


@pytest.mark.parametrize(
    ("body", "low", "high"),
    [("y = Log (x)", -3, 5), ("y = Acos (x)", -2, 2), (HOLE, -4, 4)],
)
def test_codes_without_a_result_take_that_of_the_nearest_the_smaller_of_two(body, low, high):
    constants = {"two": np.float32(2)} if "two" in body else {}
    x, y = covering(low, high), covering(-12, 8)
    tables = wide_table(function_of(body, **constants), x, y, within=0)
    table, missing = tables.full.constants["table"], tables.undefined
    known = sorted(set(range(-32768, 32768)) - set(missing))
    assert missing and known
    for code in [*missing[::997], missing[len(missing) // 2]]:
        nearest = min(known, key=lambda each: (abs(each - code), each))
        assert table[code] == table[nearest]
    assert tables.full.against_real.max_lsb <= 1


def test_the_last_knot_is_the_function_where_no_code_is():
    y = int16(1 / 128)
    tables = wide_table("Exp", int16(4 / 32768), y, within=0)
    assert tables.interpolated.constants["table"][-1] == round(np.exp(4) / y.scale)
    beyond = wide_table("Acos", int16(1 / 32767), y, within=0)
    last = beyond.full.constants["table"][32767]
    assert beyond.interpolated.constants["table"][-1] == last


def test_adjusted_knots_halve_the_error_of_a_parabola():
    """A line over 128 codes misses it by h**2 / 4 in the middle: here 8 steps of y."""
    square, x, y = function_of("y = Mul (x, x)"), int16(1 / 2048), int16(1 / 8192)
    inside = CODES[np.abs(CODES.astype(int)) < 1.9 * 2048]  # where y does not saturate
    exact = (inside * x.scale) ** 2 / y.scale
    largest = (128 * x.scale) ** 2 / 4 / y.scale
    assert largest == 8
    for knots, expected in (("plain", largest), ("adjusted", largest / 2)):
        tables = wide_table(square, x, y, within=0, knots=knots)
        error = np.abs(tables.interpolated.stored(inside) - exact).max()
        assert expected - 1 <= error <= expected + 1


# Choosing


def test_the_bound_chooses_and_both_are_reported():
    x, y = covering(0, 16), covering(0, 4)
    error = wide_table("Sqrt", x, y, within=0).interpolated.against_full.max_lsb
    assert error > 100
    near, far = (wide_table("Sqrt", x, y, within=error - less) for less in (0, 1))
    assert near.chosen is near.interpolated and far.chosen is far.full
    assert (far.full.bytes, far.interpolated.bytes) == (131072, 1026)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("bodies", ["onnxruntime", "portable"])
def test_each_rounding_and_kind_of_body_is_proved(rounding, bodies):
    tables = wide_table("Tanh", X, X, within=9, rounding=rounding, bodies=bodies)
    assert tables.full.evidence.proved and tables.interpolated.evidence.proved
    slow = bodies == "portable" or rounding == "half_away"
    assert tables.interpolated.evidence.body.startswith("portable") == slow


def test_a_wrong_body_is_counted(monkeypatch):
    """One that rounds half up where the node says half to even."""
    half_up = INTERPOLATED.overload("onnxruntime_half_up")
    wrong = Body("onnxruntime", "onnxruntime", half_up.statements)
    broken = dataclasses.replace(INTERPOLATED, bodies=[wrong])
    monkeypatch.setitem(qpasses_v1.OPS, "LutInterpolated", broken)
    tables = wide_table("Tanh", X, X, within=9, rounding="half_to_even")
    inputs = CODES, *tables.interpolated.constants.values()
    up, even = (
        INTERPOLATED.reference(*inputs, rounding=rounding)
        for rounding in ("half_up", "half_to_even")
    )
    assert tables.interpolated.evidence.mismatches == np.count_nonzero(up != even) > 0
    assert not tables.interpolated.evidence.proved


# What may be given


def test_a_model_of_one_number_is_the_function_it_computes():
    written_out = model("g (float[N] x) => (float[N] y) { s = Sigmoid (x) y = Mul (x, s) }")
    found = wide_table(written_out, X, int16(8 / 32768), within=1)
    real = CODES.astype(np.float64) * X.scale
    exact = real / (1 + np.exp(-real))
    levels = np.minimum(exact * 32768 / 8, 32767)
    assert np.abs(found.full.stored(CODES) - levels).max() <= 0.51
    constant = "half = Constant <value_float = 0.5> ()"
    halved = model(f"g (float[N] v) => (float[N] w) {{ {constant} w = Mul (v, half) }}")
    assert wide_table(halved, X, X, within=0).full.stored(CODES[::2]).tolist() == [
        code // 2 for code in CODES[::2].tolist()
    ]


@pytest.mark.parametrize(
    "body",
    [
        "y = Softmax (x)",
        "y = CumSum (x, zero)",
        "y = com.microsoft.QuickGelu (x)",
        "s = Sigmoid (x) y = Add (s, both)",
    ],
)
def test_other_models_are_refused(body):
    weights = {"zero": np.array(0), "both": np.float32([1, 2])}
    used = {name: value for name, value in weights.items() if name in body}
    domains = ["com.microsoft"] if "microsoft" in body else []
    made = model(f"g (float[N] x) => (float[N] y) {{ {body} }}", domains=domains, **used)
    with pytest.raises(ModelError, match="no function of one number"):
        wide_table(made, X, X, within=0)


def test_models_of_two_numbers_and_of_none_are_refused():
    two = model("g (float[N] a, float[N] b) => (float[N] y) { y = Add (a, b) }")
    none = model("g (float[N] x) => (float[N] y) { y = Log (low) }", low=np.float32([3]))
    for made, reason in ((two, "2 inputs"), (none, "does not depend")):
        with pytest.raises(ModelError, match=reason):
            wide_table(made, X, X, within=0)


def test_functions_by_channel_are_refused():
    by_channel = function_of("y = Mul (x, k)", k=np.float32([[1], [2]]))
    with pytest.raises(ModelError, match="its constants differ"):
        wide_table(by_channel, X, X, within=0)


def test_a_function_that_is_nowhere_defined_is_refused():
    nowhere = function_of("m = Mul (x, x) n = Sub (low, m) y = Log (n)", low=np.float32(-1))
    with pytest.raises(ModelError, match="not defined for any code"):
        wide_table(nowhere, X, X, within=0)


@pytest.mark.parametrize(
    "given",
    [
        {"function": "Softmax"},
        {"function": "sigmoid"},
        {"function": 3},
        {"within": -1},
        {"within": "a"},
        {"x": Quantization(0.5, 0, "int8")},
        {"knots": "best"},
        {"rounding": "half_odd"},
        {"bodies": "fastest"},
    ],
)
def test_other_arguments_are_usage_errors(given):
    right = {"function": "Sigmoid", "x": X, "y": X, "within": 1}
    with pytest.raises(UsageError):
        wide_table(**right | given)


def test_scales_are_those_of_float32():
    tenth = Quantization(0.0001, 0, "int16")
    rounded = Quantization(float(np.float32(0.0001)), 0, "int16")
    found, wanted = (wide_table("Tanh", each, each, within=1) for each in (tenth, rounded))
    assert found.full.against_real == wanted.full.against_real


# 16 bits stay out of everything that is made for 8


def test_only_8_bits_have_byte_codes_and_pairs():
    assert codes(X).tolist() == [*range(32768), *range(-32768, 0)]
    assert byte_codes(Quantization(0.5, 0, "int8")).tolist() == [*range(128), *range(-128, 0)]
    with pytest.raises(ValueError, match="int16"):
        byte_codes(X)
    with pytest.raises(ValueError, match="int16"):
        all_pairs("int16")
    with pytest.raises(ValueError, match="int16"):
        tabulate_pairs(of_op("Sub (two, x)"), X, X, X)


def integer_model():
    text = "g (float[N, 3, 4, 4] x) => (float[N, 3, 4, 4] y) { a = Conv (x, w) y = Tanh (a) }"
    samples = [{"x": numbers(2, 3, 4, 4, seed=seed)} for seed in range(3)]
    return quantize(model(text, w=numbers(3, 3, 1, 1)), samples).model


def test_a_record_of_16_bits_is_refused():
    made = integer_model()
    read_integer_model(made, "m")
    for value in made.graph.value_info:
        for entry in value.metadata_props:
            replaced = {"qpasses.dtype": '"int16"', "qpasses.zero_point": "0"}
            entry.value = replaced.get(entry.key, entry.value)
    with pytest.raises(ModelError, match=r"takes no 16 bits, which '._quantized' has"):
        read_integer_model(made, "m")


def with_another_op(op, **constants):
    made = integer_model()
    node = next(node for node in made.graph.node if node.op_type == "Lut")
    node.op_type, node.input[1:] = op, list(constants)
    made.graph.initializer.extend(numpy_helper.from_array(v, k) for k, v in constants.items())
    return made


def test_an_op_that_no_pass_makes_is_refused_in_a_graph():
    made = with_another_op("Requantize", multiplier=np.array(1), shift=np.array(1))
    with pytest.raises(ModelError, match="unknown op Requantize"):
        read_integer_model(made, "m")


def test_a_table_of_16_bits_of_a_tensor_of_8_is_refused():
    made = with_another_op("Lut16", table=np.zeros(65536, np.uint8))
    with pytest.raises(ModelError, match="takes 16 bits, which 'a_quantized' has not"):
        read_integer_model(made, "m")
