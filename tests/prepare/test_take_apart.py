"""Quantized models: whatever form Q and DQ have, scales and integers are the model's."""

from fractions import Fraction

import numpy as np
import pytest
from onnx import numpy_helper

import qpasses
from opsets.target import target_names
from tests.support.quantized_nets import (
    BACK,
    CONV,
    INPUT,
    OUTPUT,
    PLAIN,
    SCALES,
    STORED,
    WEIGHTS,
    beside,
    codes,
    feeds,
    integerized,
    net,
    ops,
)
from tests.support.small_models import numbers


def conv_of(made):
    nodes = [node for node in made.model.graph.node if node.op_type == "IntConv"]
    tensors = {t.name: numpy_helper.to_array(t) for t in made.model.graph.initializer}
    return [[tensors.get(name) for name in node.input] for node in nodes]


def rests_of(made):
    (node,) = (each for each in made.model.graph.node if each.op_type == "IntConv")
    given = {each.name: list(each.ints) for each in node.attribute}
    return given.get("bias_rests", [0, 0, 0])


@pytest.fixture(scope="module")
def plain():
    original = net(PLAIN)
    return original, integerized(original)


def test_a_convolution_between_q_and_dq_is_integer_with_its_own_numbers(plain):
    original, made = plain
    assert ops(made) == ["QuantizeLinear", "IntConv", "DequantizeLinear"]
    assert made.verdict == "ok"
    ((_, x_zero, w, w_zero, bias, *_),) = conv_of(made)
    given = {t.name: numpy_helper.to_array(t) for t in original.graph.initializer}
    np.testing.assert_array_equal(w, given["w"])
    np.testing.assert_array_equal(bias, given["b"])
    assert (x_zero, w_zero) == (120, 0)
    assert made.report["kept"]["scales"] >= 2
    assert made.report["kept"]["weights"] == 1
    assert beside(made, original)[0][0] == 0


def test_quantize_does_the_same_of_such_a_model(plain):
    original, made = plain
    assert qpasses.quantize(original).model == made.model


FORMS = {
    "a DequantizeLinear for each reader": f"""{STORED} {WEIGHTS} {CONV}
        qy = QuantizeLinear (c, sy, zy) y = DequantizeLinear (qy, sy, zy)
        again = DequantizeLinear (qy, sy, zy) z = Relu (again)
        qz = QuantizeLinear (z, sy, zy) other = DequantizeLinear (qz, sy, zy)""",
    "rescaled on the way": f"""{STORED} {WEIGHTS} {CONV}
        qz = QuantizeLinear (c, sz, zz) z = DequantizeLinear (qz, sz, zz)
        qy = QuantizeLinear (z, sy, zy) y = DequantizeLinear (qy, sy, zy)""",
    "quantized twice": f"""{STORED} {WEIGHTS} {CONV}
        qy = QuantizeLinear (c, sy, zy) y = DequantizeLinear (qy, sy, zy)
        qz = QuantizeLinear (c, sz, zz) other = DequantizeLinear (qz, sz, zz)""",
    "read with another scale": f"""{STORED} {WEIGHTS} {CONV}
        qy = QuantizeLinear (c, sy, zy) y = DequantizeLinear (qy, sz, zz)""",
    "a clamp in the range of the quantizer": f"""{STORED} {WEIGHTS} {CONV}
        qy = QuantizeLinear (c, sy, none) y = DequantizeLinear (qy, sy, none)""",
    "a chain of functions": f"""{STORED} {WEIGHTS} {CONV}
        qz = QuantizeLinear (c, sz, zz) z = DequantizeLinear (qz, sz, zz)
        s = Sigmoid (z) m = Mul (z, s)
        qy = QuantizeLinear (m, sy, zy) y = DequantizeLinear (qy, sy, zy)""",
    "a sum": f"""{STORED} {WEIGHTS} {CONV}
        qz = QuantizeLinear (c, sz, zz) z = DequantizeLinear (qz, sz, zz)
        s = Sigmoid (z) qs = QuantizeLinear (s, unit, none)
        t = DequantizeLinear (qs, unit, none)
        m = Add (z, t) qy = QuantizeLinear (m, sy, zy) y = DequantizeLinear (qy, sy, zy)""",
}


@pytest.mark.thinned
@pytest.mark.parametrize("name", FORMS)
def test_whatever_stands_between_q_and_dq_becomes_integer(name):
    body = FORMS[name]
    outputs = f"{OUTPUT}, float[N, 3, 6, 6] other" if "other" in body else OUTPUT
    extra = {"none": np.uint8(0), "unit": np.float32(1 / 255)}
    original = net(body, outputs=outputs, **extra)
    made = integerized(original)
    assert made.report["summary"]["integer_only"], made.report["summary"]["float_nodes"]
    for differing, gap, size in beside(made, original):
        assert gap <= 0.053 and differing <= size / 50, (differing, gap)


def test_what_is_between_two_marks_is_not_taken_across_them():
    """Sigmoid, Q, DQ, Mul is not one table: the model rounds in between."""
    body = f"""{STORED} s = Sigmoid (d)
        qs = QuantizeLinear (s, unit, none) t = DequantizeLinear (qs, unit, none)
        m = Mul (d, t) qy = QuantizeLinear (m, sy, zy) y = DequantizeLinear (qy, sy, zy)"""
    original = net(
        body,
        outputs="float[N, 2, 6, 6] y",
        none=np.uint8(0),
        unit=np.float32(1 / 255),
    )
    made = integerized(original)
    assert ops(made) == ["QuantizeLinear", "Lut", "IntMul", "DequantizeLinear"]


WEIGHT_FORMS = {
    "uint8 around 128": (
        "dw = DequantizeLinear (w, one, middle)",
        {"w": codes(3, 2, 3, 3, low=1, high=255, dtype=np.uint8), "middle": np.uint8(128)},
        lambda given: (given["w"].astype(int) - 128, np.int8, 0),
    ),
    "uint8 beside the middle": (
        "dw = DequantizeLinear (w, one, middle)",
        {"w": codes(3, 2, 3, 3, low=0, high=255, dtype=np.uint8), "middle": np.uint8(30)},
        lambda given: (given["w"].astype(int) - 30, np.uint8, 30),
    ),
    "int8 with a zero point": (
        "dw = DequantizeLinear (w, one, middle)",
        {"w": codes(3, 2, 3, 3, low=-90, high=90), "middle": np.int8(5)},
        lambda given: (given["w"].astype(int) - 5, np.int8, 0),
    ),
    "float behind Q and DQ": (
        "qw = QuantizeLinear <axis = 0> (w, sw, zw) "
        "dw = DequantizeLinear <axis = 0> (qw, sw, zw)",
        {"w": (np.random.default_rng(3).standard_normal((3, 2, 3, 3))).astype(np.float32)},
        lambda given: (
            np.clip(np.rint(given["w"] / given["sw"].reshape(-1, 1, 1, 1)), -128, 127),
            np.int8,
            0,
        ),
    ),
    "transposed on the way": (
        "t = DequantizeLinear <axis = 1> (w, sw, zw) dw = Transpose <perm = [1, 0, 2, 3]> (t)",
        {"w": codes(2, 3, 3, 3)},
        lambda given: (given["w"].transpose(1, 0, 2, 3), np.int8, 0),
    ),
    "reshaped on the way": (
        "t = DequantizeLinear <axis = 0> (w, sw, zw) dw = Reshape (t, shape)",
        {"w": codes(3, 18), "shape": np.array([3, 2, 3, 3])},
        lambda given: (given["w"].reshape(3, 2, 3, 3), np.int8, 0),
    ),
}


@pytest.mark.thinned
@pytest.mark.parametrize("name", WEIGHT_FORMS)
def test_the_integers_of_weights_are_kept(name):
    text, given, expected = WEIGHT_FORMS[name]
    body = f"{STORED} {text} c = Conv <pads = [1, 1, 1, 1]> (d, dw) {BACK}"
    original = net(body, one=np.float32(0.01), **given)
    made = integerized(original)
    ((_, _, w, zero, *_),) = conv_of(made)
    levels, dtype, least = expected({**SCALES, **given})
    np.testing.assert_array_equal(w.astype(int) - int(zero), levels)
    assert w.dtype == dtype and zero >= least
    assert made.report["kept"]["weights_not_kept"] == {}
    assert made.verdict == "ok" and beside(made, original)[0][1] <= 0.053


@pytest.mark.parametrize("high", [7, 127, 255])
def test_weights_of_uint8_may_have_no_zero_point_and_a_float_bias(high):
    body = f"""{STORED} dw = DequantizeLinear (w, one)
        c = Conv <pads = [1, 1, 1, 1]> (d, dw, bias) {BACK}"""
    w = codes(3, 2, 3, 3, low=0, high=high, dtype=np.uint8)
    w[0, 0, 0, 0] = high
    bias = np.float32([0.01234, -0.3, 0.0777])
    made = integerized(net(body, w=w, bias=bias, one=np.float32(0.01)))
    assert made.verdict == "ok" and made.report["kept"]["weights"] == 1


def test_batch_normalization_behind_scales_the_scales_alone():
    body = f"""{STORED} {WEIGHTS} c0 = Conv <pads = [1, 1, 1, 1]> (d, dw, db)
        c1 = Div (c0, k) c = BatchNormalization (c1, gamma, beta, mean, var) {BACK}"""
    original = net(
        body,
        k=np.float32([2, 0.5, 1]).reshape(1, 3, 1, 1),
        gamma=np.float32([1, -2, 0.5]),
        beta=np.float32([0.1, 0, -0.3]),
        mean=np.float32([0, 0.2, 0]),
        var=np.float32([1, 2, 0.5]),
    )
    made = integerized(original)
    assert ops(made) == ["QuantizeLinear", "IntConv", "DequantizeLinear"]
    ((_, _, w, *_),) = conv_of(made)
    signs = np.array([1, -1, 1]).reshape(3, 1, 1, 1)
    np.testing.assert_array_equal(w, codes(3, 2, 3, 3) * signs)
    (found,) = made.evidence[:1]
    assert found.reference_moved > 0, "the bias is no whole number of steps: that is counted"


@pytest.mark.parametrize("exact", [False, True])
def test_what_a_float_bias_loses_is_counted_exactly_and_nothing_with_exact(exact):
    """By brute force: round((acc + rest) * scale) in fractions, over every sum."""
    bias = np.float32([0.01234, -0.3, 0.0777])
    body = f"""{STORED} dw = DequantizeLinear <axis = 0> (w, sw, zw)
        c = Conv <pads = [1, 1, 1, 1]> (d, dw, bias) {BACK}"""
    small = codes(3, 2, 3, 3, low=-40, high=40)
    made = integerized(net(body, bias=bias, w=small), exact=exact)
    ((_, _, w, _, stored, multiplier, shift, *_),) = conv_of(made)
    (found,), rests = made.evidence[:1], rests_of(made)
    assert bool(any(rests)) == exact
    moved = []
    for channel in range(3):
        rows = w[channel].astype(int).reshape(-1)
        low, high = -120, 135
        ends = [
            sum(max(r * low, r * high) for r in rows),
            sum(min(r * low, r * high) for r in rows),
        ]
        step = Fraction(float(SCALES["sx"])) * Fraction(float(SCALES["sw"][channel]))
        rest = Fraction(float(bias[channel])) / step - int(stored[channel])
        scale = step / Fraction(float(SCALES["sy"]))
        m, parts = int(multiplier[channel]), 1 << int(shift[channel])
        count = 0
        for acc in range(ends[1] + int(stored[channel]), ends[0] + int(stored[channel]) + 1):
            real = round((acc + rest) * scale)
            ours = round(Fraction(acc * m + rests[channel], parts))
            clip = [min(max(each, -131), 124) for each in (real, ours)]
            count += abs(clip[0] - clip[1])
        moved.append(count)
    assert found.reference_moved == sum(moved) and bool(sum(moved)) != exact
    assert list(found.moved_channels) == [k for k, n in enumerate(moved) if n]


def test_integers_at_the_edges_of_the_graph_stay_there():
    body = f"d = DequantizeLinear (q, sx, zi) {WEIGHTS} {CONV} y = QuantizeLinear (c, sy, zo)"
    original = net(
        body,
        inputs="int8[N, 2, 6, 6] q",
        outputs="int8[N, 3, 6, 6] y",
        zi=np.int8(-8),
        zo=np.int8(3),
    )
    samples = [{"q": codes(1, 2, 6, 6, seed=seed)} for seed in range(3)]
    made = qpasses.integerize(original)
    assert qpasses.verify(made.model, original, samples).verdict == "ok"
    assert "QuantizeLinear" not in ops(made)
    assert [v.type.tensor_type.elem_type for v in made.model.graph.output] == [3]
    assert beside(made, original, samples)[0][1] <= 1


def test_scales_for_each_channel_of_an_activation_are_declined_by_name():
    body = f"""q = QuantizeLinear <axis = 1> (x, two, zeros)
        d = DequantizeLinear <axis = 1> (q, two, zeros) {WEIGHTS} {CONV} {BACK}"""
    two = {"two": np.float32([0.1, 0.2]), "zeros": np.uint8([128, 128])}
    made = integerized(net(body, **two))
    reasons = {
        each["op_type"]: each["reason"] for each in made.report["summary"]["float_nodes"]
    }
    assert "2 scales" in reasons["Conv"]
    assert made.verdict == "incomplete"


CHANNELS = {"two": np.float32([0.1, 0.2]), "zeros": np.uint8([128, 128])}
FUSED = {
    "QLinearConv": f"""{STORED} dw = DequantizeLinear (w, sz, zs)
        c = Conv <pads = [1, 1, 1, 1]> (d, dw) q2 = QuantizeLinear <axis = 1> (c, two, zeros)
        y = DequantizeLinear <axis = 1> (q2, two, zeros)""",
    "none": f"""{STORED} q2 = QuantizeLinear <axis = 1> (d, two, zeros)
        e = DequantizeLinear <axis = 1> (q2, two, zeros)
        c = MaxPool <kernel_shape = [1, 1]> (e) {BACK}""",
    "MatMulIntegerToFloat": f"""{STORED} q2 = QuantizeLinear <axis = 1> (x, two, zeros)
        e = DequantizeLinear <axis = 1> (q2, two, zeros) y = MatMul (d, e)""",
}


@pytest.mark.parametrize("kernel", FUSED)
def test_onnxruntime_fuses_no_kernel_around_scales_for_each_channel(kernel):
    """Its kernels for activations take one scale, and it finds that out when they run."""
    given = {"w": codes(2, 2, 3, 3), "zs": np.int8(0), **CHANNELS}
    original = net(FUSED[kernel], outputs="float[N, 2, 6, 6] y", **given)
    made = integerized(original)
    assert beside(made, original)[0][0] == 0
    reasons = [each["reason"] for each in made.report["summary"]["float_nodes"]]
    assert "keeps onnxruntime from fusing nodes into a kernel that takes one scale" in reasons


def test_channels_of_zeros_and_a_scale_for_all():
    w = codes(3, 2, 3, 3)
    w[1] = 0
    original = net(PLAIN, w=w)
    made = integerized(original)
    assert made.verdict == "ok" and beside(made, original)[0][0] == 0


@pytest.mark.parametrize("activation", ["uint8", "int8"])
def test_int8_activations_are_the_same_integers(activation):
    signed = {"zx": np.int8(-8), "zy": np.int8(3)}
    original = net(PLAIN, **signed)
    made = integerized(original, activation_type=activation)
    ((_, zero, *_),) = conv_of(made)
    expected = {"uint8": 120, "int8": -8}[activation]
    assert (zero.dtype, int(zero)) == (np.dtype(activation), expected)
    assert beside(made, original)[0][0] == 0


def test_names_that_were_stripped_are_no_obstacle():
    original = net(PLAIN)
    renamed = {}
    for node in original.graph.node:
        node.name = ""
        node.input[:] = [renamed.get(name, name) for name in node.input]
        for place, name in enumerate(node.output):
            if name != "y":
                renamed[name] = f"{len(renamed)}"
                node.output[place] = renamed[name]
    assert integerized(original).verdict == "ok"


def test_a_kept_scale_that_is_changed_is_found(plain):
    """Consistently: another scale of y, with the multipliers that follow from it."""
    original, _ = plain
    other = qpasses.integerize(net(PLAIN, sy=np.float32(0.051)))
    checked = qpasses.verify(other.model, original, feeds())
    assert checked.verdict == "failed"
    told = " ".join(checked.report["summary"]["problems"])
    assert "the model that was given stores it as uint8 scale 0.0529" in told


def test_weights_that_are_changed_are_found(plain):
    original, _ = plain
    w = codes(3, 2, 3, 3)
    w[0, 0, 0, 0] += 1
    other = qpasses.integerize(net(PLAIN, w=w))
    assert qpasses.verify(other.model, original, feeds()).verdict == "failed"


def test_the_input_may_be_an_output_too():
    body = "q = QuantizeLinear (x, sx, zx) y = DequantizeLinear (q, sx, zx)"
    original = net(body, inputs=INPUT, outputs="float[N, 2, 6, 6] y")
    made = qpasses.integerize(original)
    np.testing.assert_array_equal(beside(made, original)[0][:2], 0)


def test_an_input_that_is_quantized_in_two_ways_is_rounded_once_for_each():
    body = f"""{STORED} {WEIGHTS} {CONV} {BACK}
        qz = QuantizeLinear (x, sz, zz) e = DequantizeLinear (qz, sz, zz)
        r = Relu (e) qr = QuantizeLinear (r, sz, zz) other = DequantizeLinear (qr, sz, zz)"""
    original = net(body, outputs=f"{OUTPUT}, float[N, 2, 6, 6] other")
    made = integerized(original)
    assert ops(made).count("QuantizeLinear") == 2 and "Lut" not in ops(made)
    assert beside(made, original)[1][0] == 0


def test_what_the_model_stores_in_two_ways_is_named():
    body = f"""{STORED} {WEIGHTS} {CONV} {BACK}
        qz = QuantizeLinear (c, sz, zz) other = DequantizeLinear (qz, sz, zz)"""
    made = integerized(net(body, outputs=f"{OUTPUT}, float[N, 3, 6, 6] other"))
    assert ops(made).count("IntConv") == 2
    assert made.report["kept"]["computed_twice"] == ["c"]


@pytest.mark.thinned
@pytest.mark.parametrize("opset", [10, 13, 16, 19, 21])
@pytest.mark.parametrize("kind", ["uint8", "int8"])
def test_every_opset_that_has_q_and_dq_is_read(opset, kind):
    given = {"sw": np.float32(0.0113), "zw": np.int8(0), "b": np.int32([3, -9, 70])}
    given |= {"sb": SCALES["sx"] * given["sw"], "zb": np.int32(0)}
    body = PLAIN.replace("<axis = 0>", "")
    if kind == "int8":
        given |= {"zx": np.int8(-8), "zy": np.int8(3)}
    original = net(body, opset=opset, **given)
    made = integerized(original)
    assert made.verdict == "ok" and made.report["kept"]["weights"] == 1
    assert beside(made, original)[0][0] == 0


@pytest.mark.thinned
@pytest.mark.parametrize("target", target_names())
def test_scales_and_integers_are_kept_for_every_target(target):
    body = PLAIN.replace("c = Conv", "c0 = Conv").replace("qy =", "c = Relu (c0) qy =")
    original = net(body, zx=np.uint8(128), zy=np.uint8(128))
    made = integerized(original, target=target)
    assert made.report["kept"]["weights"] == 1
    ((_, _, w, *_),) = conv_of(made)
    np.testing.assert_array_equal(w, codes(3, 2, 3, 3))


def test_one_scale_for_all_where_the_target_has_no_more_is_said():
    original = net(PLAIN)
    made = integerized(original, per_channel=False)
    assert made.report["kept"]["weights"] == 0
    (reason,) = made.report["kept"]["weights_not_kept"].values()
    assert "a scale for each channel" in reason
    assert any("could not be kept" in each for each in made.report["warnings"])


def test_excluded_nodes_stay_between_the_q_and_dq_that_the_model_has():
    original = net(PLAIN)
    made = integerized(original, nodes_to_exclude=["c|qy"])
    left = [each["reason"] for each in made.report["summary"]["float_nodes"]]
    assert left == ["excluded by 'c|qy'"]
    assert beside(made, original)[0][0] == 0


def test_a_scale_that_no_float32_holds_is_quantized_anew_or_declined():
    body = f"""{STORED} {WEIGHTS} c0 = Conv <pads = [1, 1, 1, 1]> (d, dw)
        c = Div (c0, tiny) {BACK}"""
    zeros = np.zeros((3, 2, 3, 3), np.int8)
    large = np.full(3, 1e30, np.float32)
    made = integerized(net(body, w=zeros, sw=large, tiny=np.float32(1e-20)))
    assert "beyond float32" in str(made.report["kept"]["weights_not_kept"])
    assert made.verdict == "ok"


def test_what_is_stored_may_be_stored_again_in_a_way_that_is_declined():
    body = f"""{STORED} qz = QuantizeLinear <axis = 1> (d, two, zeros)
        y = DequantizeLinear <axis = 1> (qz, two, zeros)"""
    two = {"two": np.float32([0.1, 0.2]), "zeros": np.uint8([128, 128])}
    original = net(body, outputs="float[N, 2, 6, 6] y", **two)
    assert beside(qpasses.integerize(original), original)[0][0] == 0


@pytest.mark.parametrize("end", ["y = Relu (d)", "c = Add (d, d) " + BACK])
def test_an_input_of_uint16_is_dequantized_as_in_the_model(end):
    original = net(
        f"d = DequantizeLinear (q, fine, mid) {end}",
        inputs="uint16[N, 2, 6, 6] q",
        outputs="float[N, 2, 6, 6] y",
        opset=21,
        fine=np.float32(1e-4),
        mid=np.uint16(32768),
    )
    samples = [{"q": codes(1, 2, 6, 6, low=0, high=65535, dtype=np.uint16)}]
    made = integerized(original, samples)
    assert ops(made)[0] == "DequantizeLinear"
    assert beside(made, original, samples)[0][0] == 0


@pytest.mark.parametrize("end", ["y = DequantizeLinear <axis = 1> (q, two, zeros)", ""])
def test_edges_stay_float_where_the_model_stores_them_with_a_scale_for_each_channel(end):
    text = "q = QuantizeLinear <axis = 1> (x, two, zeros)"
    two = {"two": np.float32([0.1, 0.2]), "zeros": np.uint8([128, 128])}
    output = "float[N, 2, 6, 6] y" if end else "uint8[N, 2, 6, 6] q"
    original = net(f"{text} {end}", outputs=output, **two)
    made = integerized(original, integer_io=True)
    assert beside(made, original)[0][0] == 0
    assert any("'x' stays float" in each for each in made.report["warnings"])


@pytest.mark.thinned
@pytest.mark.parametrize("operands", ["d, e", "e, d", "e, e", "d, x", "x, e"])
def test_a_node_that_stays_float_reads_each_operand_as_it_is_stored(operands):
    body = f"""{STORED} qz = QuantizeLinear (d, coarse, zz)
        e = DequantizeLinear (qz, coarse, zz) c = Mul ({operands}) {BACK}"""
    original = net(body, outputs="float[N, 2, 6, 6] y", coarse=np.float32(0.4))
    made = integerized(original, nodes_to_exclude=["c|qy"])
    assert beside(made, original)[0][0] == 0


WIDE = {"sx": np.float32(2e-4), "zx": np.int16(0), "sy": np.float32(3e-4), "zy": np.int16(0)}
NARROW = {name: SCALES[name] for name in ("sx", "zx", "sy", "zy")}


@pytest.mark.parametrize("wide", ["reads", "writes"])
@pytest.mark.parametrize("data", [None, feeds()])
def test_weights_stay_real_where_the_model_stores_in_16_bits_what_their_node_reads_or_writes(
    wide, data
):
    body = f"{STORED} c = Conv <pads = [1, 1, 1, 1]> (d, real, bias) {BACK}"
    real = {"real": codes(3, 2, 3, 3) * np.float32(0.01), "bias": np.float32([3, -9, 70])}
    ends = ("sx", "zx") if wide == "reads" else ("sy", "zy")
    given = NARROW | {name: WIDE[name] for name in ends}
    original = net(body, opset=21, **real, **given)
    made = integerized(original, data)
    (left,) = made.report["summary"]["float_nodes"]
    assert left["reason"] == f"Conv takes 8 bits: the model stores what it {wide} in 16"
    constants = [numpy_helper.to_array(each) for each in made.model.graph.initializer]
    assert any(np.array_equal(each, real["real"]) for each in constants)


def test_sums_take_16_bits():
    body = f"""{STORED} qz = QuantizeLinear (x, sz, zz) z = DequantizeLinear (qz, sz, zz)
        c = Add (d, z) {BACK}"""
    original = net(body, outputs="float[N, 2, 6, 6] y", opset=21, **WIDE)
    assert ops(integerized(original)).count("IntAdd") == 1


def test_a_bias_that_needs_a_scale_beyond_float32_leaves_its_node_in_float():
    body = f"{STORED} c = Conv <pads = [1, 1, 1, 1]> (d, real, bias) {BACK}"
    real = {"real": numbers(3, 2, 3, 3), "bias": np.float32([1e25, 0, 1])}
    original = net(body, sx=np.float32(1e-32), sy=np.float32(1e23), **real)
    samples = [{"x": each["x"] * np.float32(1e-30)} for each in feeds()]
    made = integerized(original, samples)
    (left,) = made.report["summary"]["float_nodes"]
    assert left["reason"] == "Conv with a scale that is beyond float32"
    assert made.report["summary"]["raised_weight_scales"] == {}
    constants = [numpy_helper.to_array(each) for each in made.model.graph.initializer]
    assert any(np.array_equal(each, real["bias"]) for each in constants)


def test_numbers_that_only_the_ranges_of_the_model_keep_finite():
    """exp(300) is infinite; the clamp of the quantizer before it makes 4 of 300."""
    body = f"""{STORED} axes = Constant <value_ints = [1]> ()
        e = Exp (d) t = ReduceSum (e, axes) p = Div (e, t)
        qy = QuantizeLinear (p, unit, none) y = DequantizeLinear (qy, unit, none)"""
    original = net(
        body,
        outputs="float[N, 2, 6, 6] y",
        none=np.uint8(0),
        unit=np.float32(1 / 255),
    )
    wild = [{"x": each["x"] * np.float32(100)} for each in feeds()]
    assert max(float(np.abs(each["x"]).max()) for each in wild) > 100
    made = integerized(original, wild)
    assert ops(made) == ["QuantizeLinear", "TableSoftmax", "DequantizeLinear"]
    assert made.verdict == "ok"


def test_a_batch_normalization_of_rows_between_marks_is_a_table_for_each_channel():
    body = f"""{STORED} n = BatchNormalization (d, gamma, beta, mean, var)
        qy = QuantizeLinear (n, sy, zy) y = DequantizeLinear (qy, sy, zy)"""
    given = {
        name: numbers(3, seed=seed) for seed, name in enumerate(("gamma", "beta", "mean"))
    }
    original = net(
        body,
        inputs="float[N, 3] x",
        outputs="float[N, 3] y",
        var=np.float32([0.3, 1, 2]),
        **given,
    )
    samples = feeds(shape=(5, 3))
    made = integerized(original, samples)
    assert ops(made) == ["QuantizeLinear", "LutPerChannel", "DequantizeLinear"]
    ((differing, _, _),) = beside(made, original, samples)
    assert differing == 0
