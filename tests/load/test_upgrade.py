"""Old models upgraded: the results they had, every name they had, and no weight moved."""

import re
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import qpasses
from opsets.errors import ModelError
from qpasses.load import upgrade as upgrading
from qpasses.load.upgrade import upgrade
from tests.support import zoo_models
from tests.support.releases import needs_opset_27
from tests.support.small_models import cnn, model, numbers, pictures, save, session

WEIGHTS = {
    "scale": numbers(3),
    "variance": np.abs(numbers(3)),
    "slope": numbers(3, 1, 1),
    "larger": np.float32([1, 1, 1.5, 2]),
    "smaller": np.float32([1, 1, 0.6, 0.5]),
    "thinner": np.float32([1, 1, 0.6, 2]),
    "empty": np.float32([]),
    "sizes": np.int64([2, 3, 7, 9]),
    "region": np.float32([0, 0, 0.1, 0.2, 1, 1, 0.8, 1.2]),
    "rank3": np.int64([2, 3, 16]),
    "parts": np.int64([1, 2]),
    "pads": np.int64([0, 0, 1, 2, 0, 0, 2, 1]),
    "fill": np.float32(1.5),
    "start": np.int64([3]),
    "end": np.int64([-100]),
    "axes": np.int64([2]),
    "step": np.int64([-2]),
    "four": np.int64(4),
    "bounds": np.float32([0, 1]),
    "places": np.int64([[[[2]]]]),
    "update": np.float32([[[[9]]]]),
    "matrix": numbers(5, 48),
    "bias": numbers(5),
    "grid": numbers(2, 5, 5, 2),
    "lstm_w": numbers(1, 12, 4),
    "lstm_r": numbers(1, 12, 3),
    "gru_w": numbers(1, 9, 4),
    "gru_r": numbers(1, 9, 3),
    "rnn_w": numbers(2, 3, 4),
    "rnn_r": numbers(2, 3, 3),
    "initial": numbers(2, 4, 3),
    "each": numbers(3, 4, 4),
    "each_variance": np.abs(numbers(3, 4, 4)),
    "lengths": np.int64([3, 3]),
}
"""What the lines below may call upon; a model holds those that it mentions."""

TYPES = {"float": np.float32, "double": np.float64, "float16": np.float16}


def old(line, opset, *, dtype="float", shape=(2, 3, 4, 4), **options):
    """The model of one line, x in and y out, and a sample."""
    used = {name: WEIGHTS[name] for name in WEIGHTS if re.search(rf"\b{name}\b(?! =)", line)}
    text = f"old ({dtype}[{', '.join(map(str, shape))}] x) => ({dtype} y) {{ {line} }}"
    sample = {"x": numbers(*shape).astype(TYPES[dtype])}
    return model(text, opset=opset, **options, **used), sample


def opset_of(made):
    return next(each.version for each in made.opset_import if each.domain == "")


def ops_of(made):
    return [node.op_type for node in made.graph.node if node.op_type != "Constant"]


def assert_same_results(made, upgraded, sample):
    runs = [session(each, optimize=False).run(None, sample) for each in (made, upgraded)]
    for expected, found in zip(*runs, strict=True):
        assert (expected.dtype, expected.shape) == (found.dtype, found.shape)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


PADS = "pads = [0, 0, 1, 2, 0, 0, 2, -1]"
POOL = "kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1"
ALIGNED = 'mode = "cubic", coordinate_transformation_mode = "align_corners"'
CROPPED = 'mode = "linear", coordinate_transformation_mode = "tf_crop_and_resize"'
NORMALIZED = "BatchNormalization <epsilon = 0.1> (x, scale, scale, scale, variance)"
NOTHING = "nothing = Constant <value = float[0] {}> ()"

OLDER = [
    (7, 'y = Upsample <mode = "nearest", scales = [1.0, 1.0, 2.0, 1.5]> (x)'),
    (7, 'y = Upsample <mode = "linear", scales = [1.0, 1.0, 2.0, 1.5]> (x)'),
    (9, 'y = Upsample <mode = "nearest"> (x, larger)'),
    (9, 'y = Upsample <mode = "linear"> (x, larger)'),
    (10, 'y = Resize <mode = "nearest"> (x, larger)'),
    (10, 'y = Resize <mode = "nearest"> (x, smaller)'),
    (10, 'y = Resize <mode = "linear"> (x, thinner)'),
    (11, f"{NOTHING} y = Resize <{ALIGNED}> (x, nothing, nothing, sizes)"),
    (11, f"y = Resize <{ALIGNED}> (x, empty, larger)"),
    (11, f"y = Resize <{CROPPED}> (x, region, larger)"),
    (13, 'y = Resize <mode = "nearest", nearest_mode = "ceil"> (x, empty, smaller)'),
    (7, "y = Softmax (x)"),
    (9, "y = Softmax <axis = 2> (x)"),
    (11, "y = Softmax <axis = -1> (x)"),
    (12, "y = LogSoftmax <axis = 0> (x)"),
    (7, "y = Hardmax (x)"),
    (12, "y = Hardmax <axis = -2> (x)"),
    (7, "y = ReduceMean <axes = [2, 3]> (x)"),
    (11, "y = ReduceMean <axes = [-1], keepdims = 0> (x)"),
    (12, "y = ReduceSum <axes = [1]> (x)"),
    (17, "y = ReduceMax <keepdims = 0> (x)"),
    (17, "y = ReduceL2 <axes = [0, -2]> (x)"),
    (7, "u = Unsqueeze <axes = [1, 3]> (x) y = Squeeze <axes = [1]> (u)"),
    (12, "u = Unsqueeze <axes = [-1]> (x) y = Squeeze (u)"),
    (7, "a, b = Split <axis = 1, split = [1, 2]> (x) y = Concat <axis = 1> (b, a)"),
    (12, "a, b, c = Split <axis = 1> (x) y = Concat <axis = 1> (b, a, c)"),
    (17, "a, b = Split <axis = 1> (x, parts) y = Concat <axis = 1> (b, a)"),
    (7, f"y = Pad <{PADS}, value = 2.5> (x)"),
    (10, f'y = Pad <{PADS}, mode = "reflect", value = 2.5> (x)'),
    (10, f'y = Pad <{PADS}, mode = "edge"> (x)'),
    (11, "y = Pad (x, pads, fill)"),
    (17, 'y = Pad <mode = "reflect"> (x, pads)'),
    (7, "y = Clip <min = -0.5, max = 0.5> (x)"),
    (7, "y = Clip <max = 0.5> (x)"),
    (10, "y = Clip <min = -0.5> (x)"),
    (10, "y = Clip (x)"),
    (7, "y = Dropout <ratio = 0.3> (x)"),
    (10, "y = Dropout (x)"),
    (12, "y = Dropout (x)"),
    (7, f"y = {NORMALIZED}"),
    (9, f"y, mean, var, saved_mean, saved_var = {NORMALIZED}"),
    (14, f"y = {NORMALIZED}"),
    (7, "y = Slice <starts = [1, -3], ends = [5, 100], axes = [1, 3]> (x)"),
    (9, "y = Slice <starts = [0, 1], ends = [1, 3]> (x)"),
    (10, "y = Slice (x, start, end, axes, step)"),
    (7, "y, i = TopK <k = 2, axis = 1> (x)"),
    (10, "y, i = TopK <axis = 2> (x, axes)"),
    (9, "i = Cast <to = 7> (x) y = OneHot <axis = 1> (i, four, bounds)"),
    (12, "k = Constant <value_float = 2.5> () y = Mul (x, k)"),
    (7, "f = Flatten (x) y = Gemm <transB = 1, alpha = 0.5> (f, matrix, bias)"),
    (7, "y = PRelu (x, slope)"),
    (9, "y = Scatter <axis = 1> (x, places, update)"),
    (7, "y = ThresholdedRelu <alpha = 0.5> (x)"),
    (8, "y, i = MaxPool <kernel_shape = [2, 2]> (x)"),
    (10, f"y = AveragePool <{POOL}, pads = [1, 1, 1, 1], count_include_pad = 1> (x)"),
    (11, f"y = MaxPool <{POOL}> (x)"),
    (7, "i = ArgMax <axis = 1> (x) y = Cast <to = 1> (i)"),
    (16, 'y = GridSample <mode = "bicubic"> (x, grid)'),
    (17, "y = LayerNormalization (x, slope)"),
]
"""Forms that a later opset no longer has, or reads in another way."""


@pytest.mark.parametrize(("opset", "line"), OLDER, ids=[f"{o}: {line}" for o, line in OLDER])
def test_an_older_form_has_the_same_results_at_opset_21(opset, line):
    made, sample = old(line, opset)
    for given in (sample, None):  # right without the check, too
        upgraded = upgrade(made, given)
        onnx.checker.check_model(upgraded)
        assert opset_of(upgraded) == 21 and upgraded.ir_version == 10
        assert_same_results(made, upgraded, sample)


@pytest.mark.parametrize("opset", [7, 13])
@pytest.mark.parametrize(
    "line",
    [
        'y, "", c = LSTM <hidden_size = 3> (x, lstm_w, lstm_r)',
        '"", y = GRU <hidden_size = 3, linear_before_reset = 1> (x, gru_w, gru_r)',
        'y = RNN <hidden_size = 3, direction = "bidirectional">'
        ' (x, rnn_w, rnn_r, "", "", initial)',
    ],
    ids=["LSTM", "GRU", "RNN"],
)
def test_recurrent_layers_keep_the_outputs_they_leave_out(opset, line):
    made, sample = old(line, opset, shape=(5, 4, 4))
    upgraded = upgrade(made, sample)
    assert [list(n.output) for n in upgraded.graph.node] == [list(made.graph.node[0].output)]
    assert_same_results(made, upgraded, sample)


@pytest.mark.parametrize("dtype", ["float16", "double"])
def test_constants_that_were_attributes_take_the_type_of_the_data(dtype):
    clipped = "" if dtype == "double" else "c = Clip <max = 0.5> (x)"  # not in onnxruntime
    line = f"{clipped} y = Pad <{PADS}, value = 2.5> ({'c' if clipped else 'x'})"
    made, sample = old(line, 7, dtype=dtype)
    assert_same_results(made, upgrade(made, sample), sample)


def test_normalization_without_positions_needs_no_spatial_attribute():
    line = "y = BatchNormalization <spatial = 0> (x, scale, scale, scale, variance)"
    made, sample = old(line, 8, shape=(5, 3))
    assert_same_results(made, upgrade(made, sample), sample)


@pytest.mark.parametrize(
    ("shape", "line", "axis"),
    [
        ((2, 3, 1, 1), "y = Softmax (x)", 1),
        ((2, 3, 4, 4), "y = Hardmax <axis = 3> (x)", 3),
        ((2, 3, 4, 4), "s = Shape (x) r = Reshape (x, s) y = Softmax <axis = 3> (r)", 3),
        ((2, 3, 4, 4), "g = com.microsoft.Gelu (x) y = Softmax <axis = 3> (g)", 3),
    ],
)
def test_softmax_over_one_dimension_stays_one_node(shape, line, axis):
    made, sample = old(line, 11, shape=shape, domains=["com.microsoft"])
    upgraded = upgrade(made, sample)
    assert ops_of(upgraded) == ops_of(made)
    (written,) = (a.i for a in upgraded.graph.node[-1].attribute if a.name == "axis")
    assert written == axis
    assert_same_results(made, upgraded, sample)


@pytest.mark.parametrize("opset", range(20, 27))
def test_a_model_of_opset_20_or_newer_stays_as_it_is(opset):
    made, sample = old("y = Relu (x)", opset)
    assert upgrade(made, sample) is made


@pytest.mark.parametrize("opset", [18, 19])
def test_a_model_of_opset_18_or_19_is_raised_or_stays(opset, monkeypatch):
    made, sample = old("y = Relu (x)", opset)
    assert opset_of(upgrade(made, sample)) == 21
    monkeypatch.setattr(upgrading, "_all_close", lambda *_: False)
    assert upgrade(made, sample) is made


@pytest.mark.thinned
@pytest.mark.parametrize("opset", [9, 13, 17, 18, 19, 20, 21, 23])
def test_a_gelu_is_recognized_at_every_opset(opset):
    text = """g (float[N, 8] x) => (float[N, 8] y) {
        m = MatMul (x, w) d = Div (m, root) e = Erf (d) a = Add (e, one) p = Mul (m, a)
        g = Mul (p, half) y = MatMul (g, w)
    }"""
    numbers_of = {"root": np.float32(2**0.5), "one": np.float32(1), "half": np.float32(0.5)}
    made = model(text, opset=opset, w=numbers(8, 8), **numbers_of)
    result = qpasses.quantize(made, [{"x": numbers(4, 8)}], gelu="shift")
    assert [n.op_type for n in result.model.graph.node if n.domain] == [
        *("IntGemm", "ShiftGelu", "IntGemm"),
    ]


NAMED = """
named (float[N, 3, H, 4] x, float[N, 3, H, 4] unused) => (float[N, 3, H2, 8] y, float s) {
    [up] u = Upsample <mode = "linear", scales = [1.0, 1.0, 2.0, 2.0]> (x)
    [s] s = Softmax <axis = 1> (u)
    [relu] "s/Shape" = Relu (s)
    y = Clip <min = 0.0> ("s/Shape")
}"""


def named():
    """A model with all that a user may have written down in it."""
    made = model(NAMED.replace('"s/Shape"', "clash"), opset=8)
    for node in made.graph.node:
        node.input[:] = ["s/Shape" if name == "clash" else name for name in node.input]
        node.output[:] = ["s/Shape" if name == "clash" else name for name in node.output]
        node.doc_string = f"what {node.name} is for"
        node.metadata_props.add(key="origin", value=node.op_type)
    made.producer_name, made.doc_string, made.graph.doc_string = "me", "model", "graph"
    made.metadata_props.add(key="licence", value="mine")
    made.graph.metadata_props.add(key="layer", value="all")
    made.graph.value_info.append(
        helper.make_tensor_value_info("u", TensorProto.FLOAT, ["N", 3, "H2", 8])
    )
    made.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return made


def test_names_texts_and_free_dimensions_are_kept():
    made = named()
    upgraded = upgrade(made, None)
    kept = {node.name: node for node in upgraded.graph.node}
    for node in made.graph.node:
        heir = kept[node.name]
        assert heir.doc_string == node.doc_string
        assert heir.metadata_props == node.metadata_props
        assert heir.op_type == {"Upsample": "Resize"}.get(node.op_type, node.op_type)
    for graph_part in ("input", "output", "value_info", "doc_string", "metadata_props"):
        assert getattr(upgraded.graph, graph_part) == getattr(made.graph, graph_part)
    for part in ("producer_name", "doc_string", "metadata_props"):
        assert getattr(upgraded, part) == getattr(made, part)
    assert [(o.domain, o.version) for o in upgraded.opset_import] == [
        ("", 21),
        ("com.microsoft", 1),
    ]


def test_new_nodes_and_tensors_have_names_of_their_own():
    upgraded = upgrade(named(), None)
    nodes = [node.name for node in upgraded.graph.node]
    tensors = [name for node in upgraded.graph.node for name in node.output]
    assert len(set(nodes)) == len(nodes) and len(set(tensors)) == len(tensors)
    assert {"up/Constant", "s/Flatten", "s/Reshape"} <= set(nodes)
    assert "s/Shape_2" in tensors  # the model had an s/Shape


IF = """
    first = Constant <value = int64[1] {0}> ()
    one = Constant <value = int64[1] {1}> ()
    size = Shape (x)
    batch = Gather (size, first)
    same = Equal (batch, one)
    flag = Squeeze <axes = [0]> (same)
    y = If (flag) <
        then_branch = t () => (float[A, B, C, D] z) { z = Softmax <axis = 1> (x) },
        else_branch = e () => (float[A, B, C, D] v) {
            u = Unsqueeze <axes = [0]> (x)
            c = Hardmax <axis = 1> (u)
            v = Squeeze <axes = [0]> (c)
        }>
"""
LOOP = """
    trips = Constant <value = int64 {3}> ()
    go = Constant <value = bool {1}> ()
    y = Loop (trips, go, x) <
        body = b (int64 i, bool on, float[A, B, C, D] v) => (bool more, float[A, B, C, D] w) {
            more = Identity (on)
            soft = Softmax <axis = 2> (v)
            mean = ReduceMean <axes = [1]> (soft)
            w = Add (soft, mean)
        }>
"""
SCAN = """
    y = Scan <num_scan_inputs = 1, body = b (float[B, C, D] v) => (float[E, C, D] w) {
        w = ReduceSum <axes = [0]> (v)
    }> (x)
"""


@pytest.mark.parametrize("opset", [9, 12])
@pytest.mark.parametrize("line", [IF, LOOP, SCAN], ids=["If", "Loop", "Scan"])
@pytest.mark.parametrize("batch", [1, 2])
def test_the_bodies_of_control_flow_are_upgraded_too(line, opset, batch):
    made, sample = old(line, opset, shape=(batch, 3, 4, 4))
    upgraded = upgrade(made, sample)
    assert opset_of(upgraded) == 21
    assert_same_results(made, upgraded, sample)


def test_nodes_of_other_domains_are_not_touched():
    made, sample = old("g = com.microsoft.Gelu (x) y = Clip <min = 0.0> (g)", 9,
                       domains=["com.microsoft"])  # fmt: skip
    upgraded = upgrade(made, sample)
    assert upgraded.graph.node[0] == made.graph.node[0]
    assert_same_results(made, upgraded, sample)


def test_the_import_of_the_standard_domain_may_be_spelled_out_or_left_out():
    made, sample = old("y = Clip <min = 0.0> (x)", 9)
    made.opset_import[0].domain = "ai.onnx"
    upgraded = upgrade(made, sample)
    assert opset_of(upgraded) == 21
    assert_same_results(made, upgraded, sample)
    only, sample = old("y = com.microsoft.Gelu (x)", 9, domains=["com.microsoft"])
    del only.opset_import[0]
    assert opset_of(upgrade(only, sample)) == 21


def test_weights_do_not_pass_through_the_converter(monkeypatch):
    sizes = []
    convert = onnx.version_converter.convert_version

    def weighed(model, wanted):
        sizes.append(model.ByteSize())
        return convert(model, wanted)

    monkeypatch.setattr(onnx.version_converter, "convert_version", weighed)
    held = "k = Constant <value = float[1] {1.0}> ()"
    made, sample = old(
        f"{held} m = MatMul (x, w) p = Mul (m, k) y = Softmax (p)", 7, shape=(1, 9)
    )
    made.graph.initializer.append(onnx.numpy_helper.from_array(numbers(9, 40_000), "w"))
    made.graph.node[0].attribute[0].t.CopyFrom(onnx.numpy_helper.from_array(numbers(40_000)))
    assert_same_results(made, upgrade(made, sample), sample)
    assert sizes and max(sizes) < 10_000


def test_five_thousand_nodes_take_seconds():
    layers = [
        f"c{i} = Conv <pads = [1, 1, 1, 1]> (y{i}, w)"
        f" n{i} = BatchNormalization (c{i}, s, s, s, s)"
        f" r{i} = Clip <min = 0.0> (n{i})"
        f" p{i} = Pad <pads = [0, 0, 0, 0, 0, 0, 0, 0]> (r{i})"
        f" y{i + 1} = Softmax (p{i})"
        for i in range(1000)
    ]
    text = f"deep (float[1, 2, 4, 4] y0) => (float[1, 2, 4, 4] y1000) {{ {' '.join(layers)} }}"
    made = model(text, opset=7, w=numbers(2, 2, 3, 3), s=np.abs(numbers(2)))
    before = time.process_time()
    assert opset_of(upgrade(made, {"y0": numbers(1, 2, 4, 4)})) == 21
    assert time.process_time() - before < 10


PER_POSITION = "BatchNormalization <spatial = 0> (x, each, each, each, each_variance)"
OLD_SCAN = """Scan <num_scan_inputs = 1, body = b (float[C, D] v) => (float[C, D] w) {
    w = Relu (v)
}> (lengths, x)"""


@pytest.mark.parametrize(
    ("opset", "line", "message"),
    [
        (
            8,
            f"y = {PER_POSITION}",
            "onnxruntime cannot load the model: .*BatchNormalization.*",
        ),
        (8, f"[steps] y = {OLD_SCAN}", "Scan 'steps': its sequence_lens have no counterpart"),
        (
            10,
            '[mixed] m = Resize <mode = "nearest"> (x, thinner) y = Relu (m)',
            "Resize 'mixed' has other results",
        ),
    ],
)
def test_what_stands_in_the_way_is_named_in_one_line(opset, line, message):
    made, sample = old(line, opset)
    session(made).run(None, sample)
    with pytest.raises(ModelError) as caught:
        upgrade(made, sample)
    start = f"the model's opset {opset} cannot be raised to 18 or above: "
    assert re.fullmatch(rf"{start}{message} \(at 21, 20, 19, 18\)", str(caught.value))


def test_where_an_opset_changes_results_the_next_lower_one_is_taken(monkeypatch):
    made, sample = old("y = ReduceMean <axes = [1]> (x)", 13)
    answers = iter([False, False, True])
    monkeypatch.setattr(upgrading, "_all_close", lambda *_: next(answers))
    assert opset_of(upgrade(made, sample)) == 19


@pytest.mark.thinned
@pytest.mark.parametrize(
    ("opset", "ir_version"),
    [(7, 3), (8, 4), (9, 13), (11, 6), (13, 7), (17, 8), (18, 3), (19, 9), (20, 10), (26, 13)],
)
@pytest.mark.parametrize("bodies", ["onnxruntime", "portable"])
def test_the_whole_way_holds_at_every_opset_and_ir(opset, ir_version, bodies, tmp_path):
    made = cnn(opset=opset, ir_version=ir_version)
    if ir_version == 3:  # initializers are inputs as well
        made.graph.input.extend(
            helper.make_tensor_value_info(t.name, t.data_type, t.dims)
            for t in made.graph.initializer
        )
    source, data = save(tmp_path, "m.onnx", made), save(tmp_path, "x.npy", pictures())
    emitted = tmp_path / "integer.onnx"
    assert qpasses.quantize(source, data, emitted, bodies=bodies).verdict == "ok"
    assert qpasses.verify(emitted, source, data).verdict == "ok"
    written = onnx.load(emitted)
    assert opset_of(written) == (opset if opset >= 20 else 21) and written.ir_version == 10
    session(written)


TOO_NEW = """
net (float[4, 4] x) => (float[4, 4] y, bool[4] b) {
    r = Celu (x)
    y = REST
    b = Cast <to = 9> (places)
}"""
"""Celu and Cast are others at opset 28 than at 27."""


def too_new(rest):
    return model(TOO_NEW.replace("REST", rest), opset=28, ir_version=10, places=np.arange(4))


@needs_opset_27
def test_a_model_newer_than_what_is_emitted_is_lowered_with_its_results():
    made, sample = too_new("Neg (r)"), {"x": numbers(4, 4)}
    lowered = upgrade(made, sample)
    assert (opset_of(lowered), ops_of(lowered)) == (27, ops_of(made))
    assert_same_results(made, lowered, sample)
    result = qpasses.quantize(made, [sample])
    assert result.verdict == qpasses.verify(result.model, made, [sample]).verdict == "ok"


@needs_opset_27
def test_a_node_that_keeps_a_model_at_too_new_an_opset_is_named():
    with pytest.raises(ModelError, match=r"opset 28, .*lowered to 27: Mod 'y': .*fmod=0"):
        qpasses.quantize(too_new("Mod (x, r)"), [{"x": numbers(4, 4)}])


LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


@pytest.mark.thinned
@pytest.mark.parametrize(
    "name", ["bvlc_alexnet", "inception_v2", "resnet50", "shufflenet", "squeezenet"]
)
def test_known_structures_keep_their_results_and_their_number_of_nodes(name):
    made = onnx.load(LIGHT / f"light_{name}.onnx")
    (given,) = (v for v in made.graph.input if v.name not in weights_of(made))
    sample = {
        given.name: numbers(*(dim.dim_value for dim in given.type.tensor_type.shape.dim))
    }
    upgraded = upgrade(made, sample)
    assert ops_of(upgraded) == ops_of(made)
    assert_same_results(made, upgraded, sample)


def weights_of(made):
    return {tensor.name for tensor in made.graph.initializer}


ZOO = ["candy_op13_224", "fsanet_1x1", "g2pm_bilstm", "magika_standard_v2_1", "mnist-8",
       "mtcnn_rnet", "nanodet_m", "squeezenet1.1_fp32_from_fp16", "vit_pgd_2_3_16",
       "yolox_nano"]  # fmt: skip


@pytest.mark.parametrize("name", zoo_models.networks(ZOO))
def test_real_networks_keep_their_results_and_every_node_its_name(name):
    made = onnx.load(zoo_models.path(name))
    first, second, *_ = zoo_models.feeds(name, "calib")
    upgraded = upgrade(made, first)
    assert opset_of(upgraded) == 21
    assert ops_of(upgraded) == ops_of(made)
    assert [n.name for n in made.graph.node if n.op_type != "Constant"] == [
        n.name for n in upgraded.graph.node if n.op_type != "Constant"
    ]
    assert_same_results(made, upgraded, second)
