"""Sound models with odd parts: one clear line or warning for each, never a traceback."""

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from calibration import Session
from qpasses import quantize, verify
from tests.support.commands import MODEL, USAGE, run
from tests.support.small_models import model, numbers, pictures, recorded, save, session

WEIGHTS = {"w": numbers(4, 1, 3, 3), "v": numbers(3, 4, 1, 1)}
RING = np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64)


def int64(*values):
    return np.array(values, np.int64)


def around(body, **constants):
    """Two convolutions and between them ``body``, in ONNX's text, from a to b."""
    text = f"""g (float[N, 1, 8, 8] x) => (float[N, p, q, r] y) {{
        [first] a = Conv <pads = [1, 1, 1, 1]> (x, w)
        {body}
        [last] y = Conv (b, v)
    }}"""
    return model(text, opset=18, **WEIGHTS, **constants)


def beside(body, **constants):
    """A convolution, and beside it ``body`` from a to z."""
    text = f"""g (float[N, 1, 8, 8] x) => (float[N, p, q, r] y, float[N, s, t, u] z) {{
        [first] a = Conv <pads = [1, 1, 1, 1]> (x, w)
        {body}
        [last] y = Conv (a, v)
    }}"""
    return model(text, opset=18, **WEIGHTS, **constants)


class Ended:
    """A run of ``qpasses quantize``: how it ended, what it wrote."""

    def __init__(self, folder, made, *options, data=None):
        data = pictures(4) if data is None else data
        self.output, report = folder / "o.onnx", folder / "r.json"
        inputs = save(folder, "m.onnx", made), "--data", save(folder, "d.npy", data)
        ended = run("quantize", *inputs, "-o", self.output, "--json", report, *options)
        self.code, self.error = ended.code, ended.err.strip()
        self.report = json.loads(report.read_text()) if self.code == 0 else {}
        self.warnings = self.report.get("warnings")

    @property
    def summary(self):
        return self.report["summary"]


# What a Pad fills with


@pytest.mark.parametrize("fill", [100, -50, 0.5])
def test_the_range_is_widened_to_hold_what_is_filled_with(tmp_path, fill):
    made = around("b = Pad (a, ring, fill)", ring=RING, fill=np.float32(fill))
    ended = Ended(tmp_path, made)
    assert (ended.code, ended.warnings) == (0, [])
    scale, zero = recorded(onnx.load(ended.output))["b_quantized"]
    ends = (0 - zero) * scale - scale, (255 - zero) * scale + scale
    assert ends[0] <= fill <= ends[1]
    assert ended.summary["verdict"] == "ok"


def test_a_fill_that_leaves_few_codes_for_the_rest_is_a_warning(tmp_path):
    made = around("b = Pad (a, ring, fill)", ring=RING, fill=np.float32(-1e4))
    (warning,) = Ended(tmp_path, made).warnings
    assert "'a' uses 1 of 256 codes" in warning


@pytest.mark.parametrize("fill", [-np.inf, -3e38, -1e4])
def test_a_fill_that_no_pool_lets_through_widens_nothing(tmp_path, fill):
    body = "[pad] c = Pad (a, ring, fill) b = MaxPool <kernel_shape = [3, 3]> (c)"
    ended = Ended(tmp_path, around(body, ring=RING, fill=np.float32(fill)))
    assert (ended.code, ended.warnings) == (0, [])
    assert ended.summary["verdict"] == "ok"
    assert ended.report["accuracy"]["outputs"][0]["sqnr_db"] > 30


CONSTANTS = {
    "Pad": ("[odd] b = Pad (a, ring, high)", {"ring": RING, "high": np.float32(100)}),
    "Concat": (
        "[odd] b = Concat <axis = 2> (a, row)",
        {"row": np.full((1, 4, 1, 8), 100, np.float32)},
    ),
}


@pytest.mark.parametrize("op", CONSTANTS)
def test_a_constant_that_a_given_range_does_not_hold_is_a_warning(tmp_path, op):
    body, constants = CONSTANTS[op]
    made = around(body, **constants)
    data = pictures(1)
    ended = Ended(tmp_path, made, "--calibration-overrides", "[ab]=-3,3", data=data)
    assert ended.code == 0, ended.error
    assert any("'odd' moves in 100" in warning for warning in ended.warnings)


# What has no integer form, and what holds no data


RESIZES = {
    "cubic crop": (
        'mode = "cubic", coordinate_transformation_mode = "tf_crop_and_resize"',
        "mode cubic",
    ),
    "crop": ('coordinate_transformation_mode = "tf_crop_and_resize"', "tf_crop_and_resize"),
}


@pytest.mark.parametrize("name", RESIZES)
def test_a_resize_without_an_integer_form_is_listed_with_the_reason(tmp_path, name):
    attributes, reason = RESIZES[name]
    corners = np.array([0, 0, 0, 0, 1, 1, 1, 1], np.float32)
    scales = np.array([1, 1, *[2 if "cubic" in name else 0.5] * 2], np.float32)
    roi = {"roi": corners} if "crop" in name else {}
    body = f"[odd] b = Resize <{attributes}> (a, {''.join(roi)}, scales)"
    ended = Ended(tmp_path, around(body, scales=scales, **roi))
    (left,) = ended.summary["float_nodes"]
    assert (left["name"], left["op_type"]) == ("odd", "Resize")
    assert reason in left["reason"]
    assert ended.summary["verdict"] == "incomplete"


def test_shapes_that_are_joined_are_no_data(tmp_path):
    body = """s = Shape <start = 0, end = 1> (a) t = Concat <axis = 0> (s, rest)
        b = Reshape (a, t)"""
    ended = Ended(tmp_path, around(body, rest=int64(4, 4, 16)))
    assert ended.summary["verdict"] == "ok"
    assert ended.summary["float_nodes"] == []
    assert {each["name"] for each in ended.report["calibration"]["tensors"]} == {*"xaby"}


def test_a_slice_with_bounds_that_vary_moves_stored_integers(tmp_path):
    body = """s = Shape <start = 2, end = 3> (a) e = Sub (s, one)
        [odd] b = Slice (a, one, e, two)"""
    ended = Ended(tmp_path, around(body, one=int64(1), two=int64(2)))
    assert ended.summary["verdict"] == "ok"
    (proof,) = (n for n in ended.report["evidence"]["nodes"] if n["name"] == "odd")
    assert proof["kind"] == "structural"


def test_an_output_whose_size_follows_from_values_is_compared_where_it_is_the_same(tmp_path):
    body = """m = Greater (a, zero) n = NonZero (m) t = Transpose (n)
        z = GatherND (a, t)"""
    made = beside(body, zero=np.float32(0))
    made.graph.output[1].type.tensor_type.ClearField("shape")
    ended = Ended(tmp_path, made, data=pictures(8))
    found = {each["name"]: each for each in ended.report["accuracy"]["outputs"]}
    assert ended.summary["verdict"] == "ok"
    assert found["z"]["unlike_sizes"] > 0 == found["y"]["unlike_sizes"]
    assert any("'z' has other sizes" in warning for warning in ended.warnings)


# Tensors of size zero

NOTHING = {"zero": int64(0), "two": int64(2)}


METHODS = ["minmax", "mse"]


@pytest.mark.parametrize("method", METHODS)
def test_nothing_joined_to_something_takes_its_scale(tmp_path, method):
    body = """b0 = Slice (a, zero, zero, two) c = Sigmoid (b0)
        b = Concat <axis = 2> (a, c)"""
    ended = Ended(tmp_path, around(body, **NOTHING), "--calibration-method", method)
    assert ended.code == 0
    assert all("held no values" in warning for warning in ended.warnings)
    assert ended.summary["verdict"] == "ok"


EMPTY = {
    "Relu": "z = Relu (c)",
    "Add": "z = Add (c, c)",
    "Add a constant": "z = Add (c, none)",
    "Sigmoid": "z = Sigmoid (c)",
    "Concat": "z = Concat <axis = 2> (c, none)",
}


@pytest.mark.thinned
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("op", EMPTY)
def test_a_tensor_that_is_always_empty_is_a_warning(tmp_path, op, method):
    constants = {"none": np.zeros((1, 4, 0, 8), np.float32)} if "none" in EMPTY[op] else {}
    body = f"c = Slice (a, zero, zero, two) {EMPTY[op]}"
    made = beside(body, **NOTHING, **constants)
    ended = Ended(tmp_path, made, "--calibration-method", method)
    assert ended.code == 0, ended.error
    assert any("'c' held no values" in warning for warning in ended.warnings)
    methods = {n["name"]: n["method"] for n in ended.report["calibration"]["tensors"]}
    assert methods["c"] == "empty"


def test_what_onnxruntime_cannot_compute_of_nothing_is_one_line(tmp_path):
    body = "c = Slice (a, zero, zero, two) z = Conv (c, v)"
    ended = Ended(tmp_path, beside(body, **NOTHING))
    assert ended.code == MODEL
    assert len(ended.error.splitlines()) == 1
    assert "first sample" in ended.error


@pytest.mark.parametrize("shape", [(4, 1, 0, 8), (4, 1, 8, 0)])
def test_samples_of_size_zero_are_one_line_that_shows_the_shape(tmp_path, shape):
    made = model(
        "g (float[N, 1, H, W] x) => (float[N, p, q, r] y) { y = Conv (x, w) }", w=WEIGHTS["w"]
    )
    ended = Ended(tmp_path, made, data=np.zeros(shape, np.float32))
    assert ended.code == MODEL
    assert len(ended.error.splitlines()) == 1
    assert str([1, *shape[1:]]) in ended.error


def test_samples_that_give_no_value_at_all_are_one_line(tmp_path):
    made = model(
        "g (float[N, T, 4] x) => (float[N, T, 3] y) { y = MatMul (x, m) }", m=numbers(4, 3)
    )
    ended = Ended(tmp_path, made, data=np.zeros((4, 0, 4), np.float32))
    assert ended.code == USAGE
    assert len(ended.error.splitlines()) == 1
    assert "held no values" in ended.error


@pytest.mark.parametrize(
    "body", ["y = Slice (x, two, two, zero)", "n = Neg (x) y = MatMul (n, m)"]
)
def test_a_model_that_never_holds_a_value_keeps_its_shapes(body):
    """Its sizes are fixed: no other samples would tell more."""
    size = 2 if "Slice" in body else 0
    text = f"g (float[{size}, 4] x) => (float[A, B] y) {{ {body} }}"
    constants = {name: each for name, each in NOTHING.items() if name in body}
    made = model(text, **constants, **({} if size else {"m": numbers(4, 3)}))
    feed = {"x": numbers(size, 4)}
    result = quantize(made, [feed])
    assert result.verdict == verify(result.model, made, [feed]).verdict == "ok"
    assert all("held no values" in warning for warning in result.report["warnings"])
    shapes = [session(each).run(None, feed)[0].shape for each in (made, result.model)]
    assert shapes[0] == shapes[1] and 0 in shapes[0]


@pytest.mark.parametrize("size", ["2", "N"])
def test_parts_of_a_shape_are_these_parts_when_they_are_folded(size):
    made = model(
        f"""g (float[{size}, 3, 4] x) => (float[A, B] y, int64[K] sizes) {{
            rest = Shape <start = 1> (x)
            first = Shape <end = -2> (x)
            one = Gather (rest, place)
            sizes = Concat <axis = 0> (first, rest, one)
            flat = Concat <axis = 0> (first, any)
            r = Reshape (x, flat)
            y = MatMul (r, w)
        }}""",
        w=numbers(12, 3),
        place=np.array([1]),
        any=np.array([-1]),
    )
    feed = {"x": numbers(2, 3, 4)}
    result = quantize(made, [feed])
    y, sizes = session(result.model).run(None, feed)
    assert sizes.tolist() == [2, 3, 4, 4] and y.shape == (2, 3)
    assert verify(result.model, made, [feed]).verdict == "ok"


@pytest.mark.parametrize("sizes", ["", "5, ", "N, ", "N, 5, ", "N, M, ", "K, 2, 3, "])
def test_a_product_with_a_matrix_takes_any_leading_sizes(sizes):
    made = model(
        f"g (float[{sizes}4] x) => (float[{sizes}3] y) {{ a = MatMul (x, w) y = Add (a, b) }}",
        w=numbers(4, 3),
        b=numbers(3),
    )
    known = {"N": 2, "M": 3, "K": 2}
    leading = [known.get(n) or int(n) for n in sizes.replace(" ", "").split(",") if n]
    feeds = [{"x": numbers(*leading, 4, seed=seed)} for seed in range(3)]
    result = quantize(made, feeds)
    assert [n.op_type for n in result.model.graph.node].count("IntGemm") == 1
    assert session(result.model).run(None, feeds[0])[0].shape == (*leading, 3)
    assert verify(result.model, made, feeds).verdict == "ok"
    if "N" in sizes or "K" in sizes:
        other = [{"N": 4, "M": 1, "K": 0}.get(n) for n in sizes.replace(" ", "").split(",")]
        wider = [b if b is not None else a for a, b in zip(leading, other, strict=False)]
        feed = {"x": numbers(*wider, 4)}
        assert session(result.model).run(None, feed)[0].shape == (*wider, 3)


def test_a_constant_that_was_stored_for_a_sum_that_stays_float_is_verified():
    made = model("g (float[1] x) => (float[1] y) { y = Add (one, x) }", one=np.float32([1]))
    feeds = [{"x": np.float32([-1.7e12])}]
    result = quantize(made, feeds, target="ivit")
    (left,) = result.report["summary"]["float_nodes"]
    assert left["op_type"] == "Add" and "cannot express the scale" in left["reason"]
    assert verify(result.model, made, feeds).verdict == "incomplete"
    for entry in result.model.graph.initializer:
        for each in entry.metadata_props:
            each.value = each.value if each.key != "qpasses.zero_point" else "7"
    assert verify(result.model, made, feeds).verdict == "failed"


# What is no tensor


def of_maps(output):
    """A list of a map for each row, as exporters of classifiers write it."""
    zipped = helper.make_node("ZipMap", ["s"], ["z"], domain="ai.onnx.ml")
    zipped.attribute.append(helper.make_attribute("classlabels_int64s", [7, 8, 9]))
    made = model(
        "g (float[N, 4] x) => (float[N, 3] s) { m = MatMul (x, w) s = Softmax (m) }",
        w=numbers(4, 3),
    )
    made.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    made.graph.node.append(zipped)
    made.graph.output[0].CopyFrom(helper.make_value_info("z", output))
    return made


def test_an_output_of_maps_keeps_its_type():
    row = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(1, []))
    made = of_maps(helper.make_sequence_type_proto(row))
    feed = {"x": numbers(5, 4)}
    result = quantize(made, [feed])
    assert result.model.graph.output[0] == made.graph.output[0]
    (real,), (found,) = (session(each).run(None, feed) for each in (made, result.model))
    for row, other in zip(real, found, strict=True):
        assert other == pytest.approx(row, abs=0.02)
    assert verify(result.model, made, [feed]).verdict == "ok"


CHOICE = """
g (bool c, float[2, 3] x, float[3, 3] w) => (OUTPUT y) {
    y = If (c) <
        then_branch = then () => (OUTPUT t) { t = Optional (x) },
        else_branch = other () => (OUTPUT e) { e = ELSE }
    >
}"""


def of_choice(other):
    text = CHOICE.replace("OUTPUT", "optional(float[2, 3])").replace("ELSE", other)
    return model(text, opset=18)


FEED = {"c": np.array(True), "x": numbers(2, 3), "w": numbers(3, 3)}


def test_an_optional_output_of_a_branch_keeps_its_type():
    made = of_choice("Optional (x)")
    result = quantize(made, [FEED])
    assert result.model.graph.output[0].type == made.graph.output[0].type


def test_an_empty_optional_keeps_its_type():
    empty = of_choice("Optional (x)")
    (other,) = (a.g for a in empty.graph.node[0].attribute if a.name == "else_branch")
    kind = helper.make_tensor_type_proto(TensorProto.FLOAT, [2, 3])
    other.node[0].CopyFrom(helper.make_node("Optional", [], ["e"], type=kind))
    found = Session(quantize(empty, [FEED]).model)
    assert found.run(None, FEED | {"c": np.array(False)}) == [None]
