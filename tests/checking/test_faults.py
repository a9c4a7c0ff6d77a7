"""Faults of many kinds in emitted models of many settings: none passes verify."""

import json

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from opsets.errors import ModelError, QPassesError, UsageError
from opsets.target import Target
from qpasses import quantize, verify
from tests.support.fault_finding import Floats, one_off
from tests.support.small_models import cnn, model, numbers, pictures

SETTINGS = {
    "default": {},
    "int8": {"activation_type": "int8"},
    "per tensor, symmetric": {"per_channel": False, "symmetric": True},
    "integer edges": {"integer_io": True},
    "exact": {"exact": True},
}

BRANCHES = """
branches (float[N, 1, 8, 8] x, bool q) => (float[N, 4, 8, 8] y, float[N, 4, 8, 8] z) {
    [conv] c = Conv <pads = [1, 1, 1, 1]> (x, w)
    y, z = If (q) <
        then_branch = t () => (float[N, 4, 8, 8] a, float[N, 4, 8, 8] b) {
            a = Sigmoid (c) b = Mul (c, captured)
        },
        else_branch = e () => (float[N, 4, 8, 8] d, float[N, 4, 8, 8] f) {
            d = Tanh (c) f = Neg (c)
        }
    >
}"""


def copy_of(made):
    copy = onnx.ModelProto()
    copy.CopyFrom(made)
    return copy


def problems(integer, original, feeds):
    """What verify finds; a refusal counts as one."""
    try:
        found = verify(integer, original, feeds)
    except QPassesError as error:
        return [str(error)]
    assert (found.verdict == "failed") == bool(found.report["summary"]["problems"])
    return found.report["summary"]["problems"]


@pytest.fixture(scope="module", params=SETTINGS)
def emitted(request):
    feeds = [{"x": picture[None]} for picture in pictures(4)]
    return cnn(), quantize(cnn(), feeds, **SETTINGS[request.param]).model, feeds


def constants_of(made):
    used = {name for node in made.graph.node for name in node.input}
    return [t.name for t in made.graph.initializer if t.name in used]


@pytest.mark.thinned
def test_no_constant_can_be_changed_in_a_model_of_any_settings(emitted):
    original, made, feeds = emitted
    assert problems(made, original, feeds) == []
    floats = Floats.of(made, original, feeds[0])
    assert floats.check(made).differences == []
    for name in constants_of(made):
        assert floats.differences(one_off(made, name)), name


@pytest.mark.thinned
def test_no_attribute_can_be_taken_away(emitted):
    original, made, feeds = emitted
    for i, node in enumerate(made.graph.node):
        for attribute in node.attribute:
            changed = copy_of(made)
            changed.graph.node[i].attribute.remove(attribute)
            assert problems(changed, original, feeds), (node.name, attribute.name)


@pytest.mark.thinned
def test_no_metadata_of_the_tool_can_be_changed(emitted):
    original, made, feeds = emitted
    unproved = {"qpasses.version", "qpasses.float_sha256", "qpasses.configuration"}
    for i, entry in enumerate(made.metadata_props):
        if entry.key not in unproved:
            changed = copy_of(made)
            changed.metadata_props[i].value = json.dumps({"mine": 1})
            assert problems(changed, original, feeds), entry.key


@pytest.mark.parametrize(
    ("key", "value"), [("activation_type", "int8"), ("symmetric", True), ("emit", "qdq")]
)
def test_other_settings_than_were_used_are_found(key, value):
    feeds = [{"x": picture[None]} for picture in pictures(4)]
    made = quantize(cnn(), feeds).model
    entry = next(e for e in made.metadata_props if e.key == "qpasses.configuration")
    entry.value = json.dumps(json.loads(entry.value) | {key: value})
    assert problems(made, cnn(), feeds)


def test_a_changed_window_is_named_though_the_model_no_longer_runs():
    feeds = [{"x": picture[None]} for picture in pictures(4)]
    text = """g (float[N, 1, 8, 8] x) => (float[N, 5] y) {
        c = Conv <pads = [1, 1, 1, 1]> (x, w)
        [pool] p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (c)
        f = Flatten (p)
        y = Gemm (f, v)
    }"""
    original = model(text, w=numbers(4, 1, 3, 3), v=numbers(64, 5))
    made = quantize(original, feeds).model
    pool = next(node for node in made.graph.node if node.name == "pool")
    for attribute in pool.attribute:
        if attribute.name == "kernel_shape":
            attribute.CopyFrom(helper.make_attribute("kernel_shape", [3, 3]))
    assert any("'pool'" in problem for problem in problems(made, original, feeds))


@pytest.mark.parametrize("fault", ["op", "outputs", "captured"])
def test_subgraphs_of_nodes_without_names_are_compared(fault):
    weights = {"w": numbers(4, 1, 3, 3), "captured": np.float32(2.0)}
    original = model(BRANCHES, **weights)
    feeds = [{"x": picture[None], "q": np.array(True)} for picture in pictures(4)]
    made = quantize(original, feeds, nodes_to_exclude=["If/.*"]).model
    assert problems(made, original, feeds) == []
    branch = next(n for n in made.graph.node if n.op_type == "If").attribute
    body = next(a.g for a in branch if a.name == "then_branch")
    if fault == "op":
        next(n for n in body.node if n.op_type == "Sigmoid").op_type = "Exp"
    elif fault == "outputs":
        first, second = (value.name for value in body.output)
        body.output[0].name, body.output[1].name = second, first
    else:
        holders = [*made.graph.initializer, *body.initializer]
        tensor = next(t for t in holders if "captured" in t.name)
        tensor.CopyFrom(numpy_helper.from_array(np.float32(3.0), tensor.name))
    assert problems(made, original, feeds)


@pytest.mark.parametrize(
    "rules", [("t", "d", 24, "nope"), ("t", "d", 0, "half_up"), ("t", "d", "24", "half_up")]
)
def test_a_target_that_cannot_be_is_refused_when_it_is_made(rules):
    with pytest.raises(UsageError):
        Target(*rules)


def test_the_models_own_metadata_stay():
    original = cnn()
    original.doc_string = "what it is"
    original.metadata_props.add(key="names", value="cat, dog")
    feeds = [{"x": picture[None]} for picture in pictures(4)]
    for emit in ("integer", "qdq", "standard"):
        made = quantize(original, feeds, emit=emit).model
        assert made.doc_string == "what it is"
        assert ("names", "cat, dog") in [(e.key, e.value) for e in made.metadata_props]


@pytest.mark.parametrize("batch", ["N", 1])
def test_a_size_that_onnx_infers_wrongly_is_not_believed(batch):
    text = f"""g (float[{batch}, 3, 5, 5] x) => (float[A, B, C, D] y) {{
        c = Conv <pads = [1, 1, 1, 1]> (x, w)
        p = MaxPool <kernel_shape = [2, 2], strides = [2, 2], pads = [1, 1, 1, 1],
                     ceil_mode = 1> (c)
        y = GlobalAveragePool (p)
    }}"""
    original = model(text, w=numbers(4, 3, 3, 3))
    feeds = [{"x": numbers(1, 3, 5, 5, seed=seed)} for seed in range(4)]
    for exact in (False, True):
        made = quantize(original, feeds, exact=exact)
        assert made.report["accuracy"]["outputs"][0]["sqnr_db"] > 30
        assert verify(made.model, original, feeds).verdict == made.verdict == "ok"


def test_a_size_that_the_file_states_wrongly_is_not_believed():
    text = """g (float[N, 3, H, W] x) => (float[A, B, C, D] y) {
        c = Conv (x, w)
        y = GlobalAveragePool (c)
    }"""
    original = model(text, w=numbers(4, 3, 1, 1))
    original.graph.value_info.append(helper.make_tensor_value_info("c", 1, ["N", 4, 8, 8]))
    feeds = [{"x": numbers(1, 3, 4, 4, seed=seed)} for seed in range(4)]
    made = quantize(original, feeds, bodies="portable")
    assert made.report["accuracy"]["outputs"][0]["sqnr_db"] > 30


def test_weights_beside_a_model_are_never_overwritten(tmp_path):
    path, data = tmp_path / "m.onnx", tmp_path / "d.npy"
    original = cnn()
    onnx.save(original, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    np.save(data, pictures(4))
    before = (tmp_path / "w.bin").read_bytes()
    integer = tmp_path / "i.onnx"
    quantize(path, data, integer)
    for attempt in (
        lambda: quantize(path, data, tmp_path / "w.bin"),
        lambda: verify(integer, path, data, json_file=tmp_path / "w.bin"),
    ):
        with pytest.raises(UsageError, match=r"w\.bin: is an input"):
            attempt()
    assert (tmp_path / "w.bin").read_bytes() == before


def test_a_record_without_a_version_is_refused():
    feeds = [{"x": picture[None]} for picture in pictures(4)]
    made = quantize(cnn(), feeds).model
    made.metadata_props.remove(
        next(e for e in made.metadata_props if e.key == "qpasses.version")
    )
    with pytest.raises(ModelError):
        verify(made, cnn(), feeds)


@pytest.mark.thinned
@pytest.mark.parametrize(("batch", "side"), [(1, 8), (4, 8), (1, 12), (3, 6)])
def test_samples_of_other_sizes_than_calibrated_are_no_fault(batch, side):
    text = """g (float[N, 1, H, W] x) => (float[N, 4, A, B] y) {
        c = Conv <pads = [1, 1, 1, 1]> (x, w)
        y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (c)
    }"""
    original = model(text, w=numbers(4, 1, 3, 3))
    made = quantize(original, [{"x": numbers(1, 1, 8, 8, seed=s)} for s in range(3)])
    others = [{"x": numbers(batch, 1, side, side, seed=s)} for s in range(3)]
    found = verify(made.model, original, others)
    assert found.report["summary"]["problems"] == []
    assert found.report["summary"]["macs"] == made.report["summary"]["macs"] > 0


@pytest.mark.thinned
@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("a, b = Split <axis = 2> (x, sizes) y = Conv (a, w)", "float"),
        ("a, b = Split <axis = 2> (x, sizes) y = Conv (b, w)", "float"),
        ("c = Conv (x, w) v, y = TopK <axis = 1> (c, one)", "int64"),
        ("a, b = Split <axis = 2> (x, sizes) c = Conv (b, w) v, y = TopK (c, one)", "int64"),
    ],
)
def test_outputs_that_nothing_reads_need_no_record(body, kind):
    feeds = [{"x": picture[None]} for picture in pictures(4)]
    text = f"g (float[N, 1, 8, 8] x) => ({kind}[N, C, H, W] y) {{ {body} }}"
    constants = {"sizes": np.array([2, 6]), "one": np.array([1])}
    original = model(text, w=numbers(3, 1, 1, 1), **constants)
    made = quantize(original, feeds)
    assert made.verdict == "ok"
    assert problems(made.model, original, feeds) == []


def test_a_clip_whose_bounds_are_no_constants_is_a_problem():
    feeds = [{"x": picture[None]} for picture in pictures(4)]
    made = quantize(cnn(), feeds, activation_bits=5).model
    clip = next(node for node in made.graph.node if node.op_type == "Clip")
    clip.input[0], clip.input[1] = clip.input[1], clip.input[0]
    assert problems(made, cnn(), feeds)


def test_a_failed_verdict_gives_no_reasons_of_an_incomplete_one():
    text = """g (float[N, 1, 8, 8] x) => (float[N, 4, 8, 8] y) {
        c = Conv <pads = [1, 1, 1, 1]> (x, w)
        s = LRN <size = 3> (c)
        y = Conv (s, v)
    }"""
    original = model(text, w=numbers(4, 1, 3, 3), v=numbers(4, 4, 1, 1))
    feeds = [{"x": picture[None]} for picture in pictures(4)]
    made = quantize(original, feeds)
    assert made.report["summary"]["because"] == ["1 LRN in float"]
    tensor = next(t for t in made.model.graph.initializer if t.name.endswith("multiplier"))
    values = numpy_helper.to_array(tensor) + np.int32(1)
    tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    found = verify(made.model, original, feeds)
    assert (found.verdict, found.report["summary"]["because"]) == ("failed", [])
