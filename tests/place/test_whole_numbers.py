"""Whole numbers that a model casts to floats: pictures of bytes, masks, lengths, labels."""

import numpy as np
import pytest
from onnx import helper, numpy_helper

from opsets.errors import UsageError
from qpasses import quantize, verify
from qpasses.ir.metadata import read_record
from tests.support.small_models import model, numbers

RNG = np.random.default_rng(5)
PICTURES = RNG.integers(0, 256, (6, 2, 3, 8, 8), np.uint8)
PICTURE = "uint8[N, 3, 8, 8] x"
W, Q = numbers(4, 3, 3, 3), numbers(8, 8, seed=2)


def made(text, feeds, *, verdict="ok", **options):
    """The result for a model of this text, verified, and the model."""
    consts = {
        "w": W,
        "q": Q,
        "one": np.array([1]),
        "two": np.array([2]),
        "zero": np.float32(0),
    }
    consts |= {"byte": np.float32(1 / 255), "mean": np.float32([[[0.4]], [[0.5]], [[0.6]]])}
    net = model(text, opset=18, **consts)
    result = quantize(net, feeds, **options)
    assert result.verdict == verdict, result.report["summary"]["float_nodes"]
    again = verify(result.model, net, feeds)
    assert again.verdict == verdict, again.report["summary"]["problems"]
    return result, net


def casts(result):
    """Body, scale and stored type of each IntCast, by the name of its node."""
    record, *_ = read_record(result.model)
    nodes = [node for node in result.model.graph.node if node.op_type == "IntCast"]
    meanings = {node.name: record.tensors[node.output[0]] for node in nodes}
    return {
        node.name: (node.overload, meanings[node.name].scale, meanings[node.name].dtype)
        for node in nodes
    }


def reasons(result):
    return {each["name"]: each["reason"] for each in result.report["summary"]["float_nodes"]}


def pictures(body, **options):
    text = f"g ({PICTURE}) => (float[] y) {{ [f] f = Cast <to = 1> (x) {body} }}"
    return made(text, [{"x": each} for each in PICTURES], **options)[0]


def test_a_picture_of_bytes_keeps_its_bytes():
    result = pictures("y = Conv (f, w)")
    assert casts(result) == {"f": ("same", 1.0, "uint8")} and not reasons(result)


def test_of_int8_and_symmetric_codes_too():
    result = pictures("y = Conv (f, w)", activation_type="int8")
    assert casts(result) == {"f": ("moved", 1.0, "int8")}
    result = pictures("y = Conv (f, w)", activation_type="int8", symmetric=True)
    ((_, scale, _),) = casts(result).values()
    assert scale > 1  # 127 codes for 255 numbers, as the user asked for


def test_what_is_done_to_a_picture_first_is_part_of_what_follows():
    result = pictures("s = Mul (f, byte) c = Sub (s, mean) y = Conv (c, w)")
    assert [*casts(result)] == ["f"] and not reasons(result)
    assert {row["name"]: row["sqnr_db"] for row in result.report["accuracy"]["outputs"]}


MASKED = """
g (float[N, 5, 8] x, int64[N, 5] mask) => (float[] y) {
    h = MatMul (x, q) m = Cast <to = 1> (mask) u = Unsqueeze (m, two)
    k = Mul (h, u) s = ReduceSum <keepdims = 0> (k, one)
    n = ReduceSum <keepdims = 0> (u, one) y = Div (s, n)
}"""
"""The mean of the rows that a mask keeps."""


def rows_and_masks():
    for count in (1, 3, 5):
        mask = (np.arange(5) < count).astype(np.int64)[None]
        yield {"x": numbers(1, 5, 8, seed=count), "mask": mask}


def test_a_mean_of_what_a_mask_keeps_is_integer():
    result, _ = made(MASKED, [*rows_and_masks()])
    ((_, scale, dtype),) = casts(result).values()
    assert (scale, dtype) == (np.float32(1 / 255), "uint8") and not reasons(result)


@pytest.mark.thinned
@pytest.mark.parametrize("mean", ["y = Div (s, n)", "r = Reciprocal (n) y = Mul (s, r)"])
def test_a_mean_of_few_in_a_long_row_is_near(mean):
    """Of 8 bits a sum of one in hundreds has a code or two, and so has their count."""
    text = MASKED.replace("5", "400").replace("y = Div (s, n)", mean)
    feeds = [
        {"x": numbers(1, 400, 8, seed=k), "mask": (np.arange(400) < k).astype(np.int64)[None]}
        for k in (400, 90, 3, 1)
    ]
    result, net = made(text, feeds)
    record, _ = read_record(result.model)
    assert {record.tensors[f"{name}_quantized"].dtype for name in "sn"} == {"int16"}
    for feed in feeds:
        assert (
            verify(result.model, net, [feed]).report["accuracy"]["outputs"][0]["sqnr_db"] > 15
        )
    short, _ = made(MASKED, [*rows_and_masks()])
    record, _ = read_record(short.model)
    assert {record.tensors[f"{name}_quantized"].dtype for name in "sn"} == {"uint8"}


TURNED = """
g (float[N, 6, 8] x, int64[N, 6] p) => (float[] y) {
    h = MatMul (x, q) t = Cast <to = 1> (p) u = Unsqueeze (t, two) a = Mul (u, slow)
    s = Sin (a) m = Mul (h, s) c = Cos (a) k = Mul (h, c) y = Add (m, k)
}"""
"""Rotary positions."""


def test_what_sines_read_of_positions_has_16_bits():
    slow = np.exp(-np.arange(8) / 2).astype(np.float32)
    places = [np.arange(k, k + 6)[None] for k in (0, 100, 500, 900)]
    feeds = [{"x": numbers(1, 6, 8, seed=k), "p": p} for k, p in enumerate(places)]
    net = model(TURNED, opset=18, q=Q, two=np.array([2]), slow=slow)
    result = quantize(net, feeds)
    record, _ = read_record(result.model)
    assert result.verdict == verify(result.model, net, feeds).verdict == "ok"
    assert {record.tensors[f"{name}_quantized"].dtype for name in "tua"} == {"int16"}
    assert result.report["accuracy"]["outputs"][0]["sqnr_db"] > 25
    narrow = quantize(net, feeds, tensor_types=["a=int8"])
    assert narrow.report["accuracy"]["outputs"][0]["sqnr_db"] < 15


def test_nothing_else_follows_a_mask():
    """A review found a norm that is written out on integers, for a mask far behind it."""
    text = """g (float[N, 8] x, bool[N, 1] b) => (float[] y) {
        m = ReduceMean <axes = [-1]> (x) d = Sub (x, m) a = Abs (d)
        e = ReduceMax <axes = [-1]> (a) n = Div (d, e) r = Add (n, x)
        h = MatMul (r, q) [mask] k = Cast <to = 1> (b) y = Mul (h, k) }"""
    net = model(text, opset=17, q=Q)
    feeds = [{"x": numbers(2, 8, seed=k), "b": np.array([[True], [k > 1]])} for k in range(4)]
    result = quantize(net, feeds)
    assert {"Sub", "Div", "ReduceMean"} <= {each["op_type"] for each in summary(result)}
    assert len(casts(result)) == 1


def summary(result):
    return result.report["summary"]["float_nodes"]


def test_a_softmax_of_a_sum_of_masks_follows_in_the_second_round():
    text = """g (float[N, 8] x, int64[N, 8] b, int64[N, 8] c) => (float[] y) {
        m = Cast <to = 1> (b) n = Cast <to = 1> (c) s = Add (m, n)
        h = MatMul (x, q) p = Mul (h, s) y = Softmax (p) }"""
    feeds = [
        {
            "x": numbers(2, 8, seed=k),
            "b": RNG.integers(0, 2, (2, 8)),
            "c": RNG.integers(0, 2, (2, 8)),
        }
        for k in range(4)
    ]
    result, _ = made(text, feeds)
    assert len(casts(result)) == 2 and not reasons(result)


def test_no_method_of_calibration_cuts_a_rare_label_off():
    text = """g (float[N, 8] x, int64[N, 1] b) => (float[] y) {
        h = MatMul (x, q) l = Cast <to = 1> (b) y = Add (h, l) }"""
    labels = [0, 1] * 50 + [10]
    feeds = [{"x": numbers(1, 8, seed=k), "b": np.array([[n]])} for k, n in enumerate(labels)]
    for method in ("entropy", "percentile"):
        result, _ = made(text, feeds, calibration_method=method)
        ((_, scale, _),) = casts(result).values()
        assert scale == np.float32(1 / 25)


def test_numbers_of_the_user_are_compared_as_they_are():
    """Codes would take what is near to zero for it: a review lost 40 dB."""
    text = """g (float[N, 8] x) => (float[] y) {
        b = Equal (x, zero) n = Not (b) m = Cast <to = 1> (n) h = MatMul (x, q)
        y = Mul (h, m) }"""
    feeds = []
    for k in range(4):
        x = numbers(4, 8, seed=k) ** 4
        x[:, k:] *= np.arange(8 - k) % 2
        feeds.append({"x": x})
    result, _ = made(text, feeds)
    assert [each["op_type"] for each in summary(result)] == ["Equal"]
    assert result.report["accuracy"]["outputs"][0]["sqnr_db"] > 25


def test_inspect_shows_the_ratio_of_a_cast():
    result = pictures("y = Conv (f, w)")
    record, _ = read_record(result.model)
    assert list(record.nodes["f"].real_scales()) == [1]


def test_conditions_are_numbers_too():
    text = """g (float[N, 8] x) => (float[] y) {
        h = MatMul (x, q) b = Greater (h, zero) m = Cast <to = 1> (b) y = Mul (h, m) }"""
    result, _ = made(text, [{"x": numbers(2, 8, seed=k)} for k in range(3)])
    assert len(casts(result)) == 1 and not reasons(result)


LENGTHS = """
g (float[N, 8] x, int64[N] n) => (float[] y) {
    h = MatMul (x, q) [l] l = Cast <to = 1> (n) u = Unsqueeze (l, one)
    s = Mul (u, byte) y = Add (h, s)
}"""


def lengths(most, dtype=np.int64):
    numbers_ = (1, most // 3, most)
    return [
        {"x": numbers(1, 8, seed=k), "n": np.array([n], dtype)} for k, n in enumerate(numbers_)
    ]


def test_numbers_that_8_bits_do_not_tell_apart_get_16():
    result, _ = made(LENGTHS, lengths(5000))
    ((_, scale, dtype),) = casts(result).values()
    assert dtype == "int16" and 1 / np.float32(scale) == 4
    result, _ = made(LENGTHS, lengths(200))
    ((_, scale, dtype),) = casts(result).values()
    assert (scale, dtype) == (1.0, "uint8")


def test_the_user_may_want_8_bits_all_the_same():
    result, _ = made(LENGTHS, lengths(5000), tensor_types=["l=int8"])
    ((_, scale, dtype),) = casts(result).values()
    assert dtype == "uint8" and scale == pytest.approx(5000 / 255)
    result, _ = made(LENGTHS, lengths(5000), calibration_overrides=["[lu]=0,255"])
    assert [each[1:] for each in casts(result).values()] == [(1.0, "uint8")]


@pytest.mark.parametrize(
    ("most", "options", "why"),
    [
        (5000, {"target": "tflite"}, "8 bits do not tell its whole numbers apart, and "),
        (5000, {"activation_type": "int8"}, "and opset 20 has no tensors of int16"),
        (100_000, {}, "8 bits do not tell its whole numbers apart, and 16 bits do not either"),
    ],
)
def test_numbers_that_no_codes_tell_apart_stay_in_float_by_name(most, options, why):
    result, _ = made(LENGTHS, lengths(most), verdict="incomplete", **options)
    assert not casts(result) and why in reasons(result)["l"]


def test_beyond_the_samples_numbers_are_the_last_as_those_of_other_tensors_are():
    result, net = made(LENGTHS, lengths(200))
    far = [
        {"x": numbers(1, 8), "n": np.array([n])} for n in (255, 256, 1 << 40, -(1 << 40), -1)
    ]
    assert verify(result.model, net, far).report["summary"]["problems"] == []


@pytest.mark.thinned
@pytest.mark.parametrize("kind", ["bool", "int8", "uint16", "int16", "uint32", "int32"])
def test_every_type_of_whole_numbers(kind):
    text = LENGTHS.replace("int64[N] n", f"{kind}[N] n")
    low = -3 if np.dtype(kind).kind == "i" else 0
    feeds = [
        {"x": numbers(1, 8, seed=k), "n": np.array([n]).astype(kind)}
        for k, n in enumerate((low, 0, 1, 1 if kind == "bool" else 100))
    ]
    result, _ = made(text, feeds)
    assert len(casts(result)) == 1


@pytest.mark.parametrize(
    "size",
    [
        "t = Shape (x) m = Gather (t, one)",
        "t = Shape (x) z = Size (x) m = Div (z, t)",
        """t = Shape (x) f = Cast <to = 1> (t) g = Mul (f, byte) i = Floor (g)
        m = Cast <to = 7> (i)""",
    ],
)
def test_sizes_stay_what_they_are(size):
    """Samples do not say how large they become."""
    text = f"""g (float[N, T, 8] x) => (float[] y) {{
        h = MatMul (x, q) {size} [cast] c = Cast <to = 1> (m)
        s = ReduceSum <keepdims = 0> (h, one) k = ReduceMax <keepdims = 0> (c)
        y = Div (s, k) }}"""
    result, _ = made(text, [{"x": numbers(1, 5, 8, seed=k)} for k in range(2)])
    assert "Cast of a size" in reasons(result)["cast"] and not casts(result)


def test_a_comparison_with_a_size_is_no_size():
    text = """g (float[N, 5, 8] x, int64[N] n) => (float[] y) {
        h = MatMul (x, q) t = Shape (x) e = Gather (t, one) k = Less (n, e)
        [m] m = Cast <to = 1> (k) y = Mul (h, m) }"""
    feeds = [{"x": numbers(1, 5, 8, seed=k), "n": np.array([k])} for k in (3, 7)]
    result, _ = made(text, feeds)
    assert [*casts(result)] == ["m"]


def test_what_sizes_only_move_is_no_size():
    text = """g (float[N, 5, 8] x, int64[N, 1, 1] n) => (float[] y) {
        h = MatMul (x, q) t = Shape (h) e = Expand (n, t) [m] m = Cast <to = 1> (e)
        y = Mul (h, m) }"""
    feeds = [{"x": numbers(1, 5, 8, seed=k), "n": np.array([[[k]]])} for k in (3, 7)]
    result, _ = made(text, feeds)
    assert [*casts(result)] == ["m"]


def test_what_nothing_on_integers_reads_stays():
    text = """g (float[N, 8] x, bool[N] b) => (float[] y, float[] z) {
        y = MatMul (x, q) z = Cast <to = 1> (b) }"""
    feeds = [{"x": numbers(1, 8, seed=k), "b": np.array([k > 0])} for k in range(2)]
    result, _ = made(text, feeds)
    assert not casts(result)


def test_nodes_may_be_excluded_and_op_types_listed():
    result = pictures("y = Conv (f, w)", verdict="incomplete", nodes_to_exclude=["f"])
    assert "f" in reasons(result) and not casts(result)
    turned = "t = Transpose (x) f = Cast <to = 1> (t) y = MatMul (f, q)"
    net = model(f"g (uint8[8, 4] x) => (float[] y) {{ {turned} }}", opset=18, q=Q)
    feeds = [{"x": RNG.integers(0, 256, (8, 4), np.uint8)} for _ in range(3)]
    result = quantize(net, feeds, nodes_to_exclude=["Transpose"])  # of bytes of the user's own
    assert result.verdict == verify(result.model, net, feeds).verdict == "ok"
    result = pictures("y = Conv (f, w)", op_types_to_quantize=["Cast", "Conv"])
    assert len(casts(result)) == 1
    with pytest.raises(UsageError, match="Casts"):
        pictures("y = Conv (f, w)", op_types_to_quantize=["Casts"])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (helper.make_attribute("of", "int32"), "attribute of is int32"),
        (helper.make_attribute("rounding", "half_up"), "attribute rounding is half_up"),
    ],
)
def test_verify_finds_another_type_and_another_rounding(change, says):
    result, net = made(LENGTHS, lengths(200))
    node = next(each for each in result.model.graph.node if each.op_type == "IntCast")
    place = next(k for k, each in enumerate(node.attribute) if each.name == change.name)
    node.attribute[place].CopyFrom(change)
    problems = verify(result.model, net, lengths(200)).report["summary"]["problems"]
    assert any(says in each for each in problems), problems


def test_verify_finds_numbers_that_another_node_casts():
    text = """g (float[N, 8] x, int64[N] n, int64[N] m) => (float[] y) {
        h = MatMul (x, q) l = Cast <to = 1> (n) k = Cast <to = 1> (m)
        a = Mul (h, l) y = Mul (a, k) }"""
    feeds = [dict(each, m=each["n"]) for each in lengths(200)]
    result, net = made(text, feeds)
    node = next(each for each in result.model.graph.node if each.op_type == "IntCast")
    node.input[0] = "m" if node.input[0] == "n" else "n"
    problems = verify(result.model, net, feeds).report["summary"]["problems"]
    assert any("casts 'm', the float model 'n'" in each for each in problems), problems


def test_stored_inputs_are_the_bytes_of_the_picture():
    """With integer ends nothing is left of the cast but a copy."""
    result = pictures("y = Conv (f, w)", integer_io=True)
    assert [each.name for each in result.model.graph.input] == ["x"]
    held = {each.name for each in result.model.graph.initializer}
    first = result.model.graph.node[0]
    assert first.input[0] == "x" and {*first.input[1:]} <= held
    body = next(f for f in result.model.functions if f.name == "IntCast")
    assert [node.op_type for node in body.node] == ["CastLike"]
    assert numpy_helper.to_array(result.model.graph.initializer[0]).size


def test_what_a_coarse_multiplier_stores_anew_may_be_so_far_off():
    """verify asked for a code at most, though the table's own evidence says 2."""
    text = """g (float[N, 8] x, int64[N, 8] n, bool[N, 8] b) => (float[] y) {
        f = MatMul (x, q) h = Relu (f) c = Cast <to = 1> (n) d = Concat <axis = 1> (h, c)
        e = MatMul (d, wide) g = MatMul (e, q) y = Where (b, h, g) }"""
    net = model(text, opset=18, q=Q, wide=numbers(16, 8, seed=9))
    feeds = []
    for k in range(6):
        rng = np.random.default_rng(k)
        whole = {"n": rng.integers(0, 100, (4, 8)), "b": rng.random((4, 8)) < 0.5}
        feeds.append({"x": numbers(4, 8, seed=k), **whole})
    result = quantize(net, feeds, target="bm1684x")
    assert max(each.reference_max_lsb for each in result.evidence if each.op == "Lut") == 2
    assert result.verdict == verify(result.model, net, feeds).verdict == "ok"
