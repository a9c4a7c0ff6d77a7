"""The emitted model: valid, self-describing, reproducible, the same numbers by either body."""

import hashlib
import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass

import numpy as np
import onnx
import pytest
from onnx import TensorProto, inliner, numpy_helper

import qpasses
from opsets.op import DOMAIN
from opsets.qpasses_v1 import OPS
from qpasses.emit.overloads import with_bodies
from qpasses.ir.metadata import read_record
from qpasses.ir.record import Record
from tests.support.small_models import (
    DIGITS,
    cnn,
    every_tensor,
    model,
    numbers,
    one_conv,
    pictures,
    save,
    session,
)

FLAVOURS = "onnxruntime", "portable"
EDGES = {"QuantizeLinear", "DequantizeLinear"}
FLOATS = {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16}

BRANCHES = """
branches (float[N, 8, 8, 1] x) => (float[N, 3, 8, 8] y, float[N, 96] z) {
    t = Transpose <perm = [0, 3, 1, 2]> (x)
    [left] l = Conv <pads = [1, 1, 1, 1]> (t, w1, b1)
    [right] m = Conv <dilations = [2, 2], pads = [2, 2, 2, 2]> (t, w1)
    [sum] s = Add (l, m)
    [joined] j = Concat <axis = 1> (s, l)
    [last] y = Conv (j, w2)
    [pool] a = AveragePool <kernel_shape = [2, 2], strides = [2, 2]> (s)
    [pad] p = Pad (a, around)
    z = Flatten (p)
}"""

DEAD = {
    "w": np.stack([numbers(1, 3, 3), np.zeros((1, 3, 3)), np.full((1, 3, 3), 1e-20)]),
    "b": [0.5, 40, -30],
}
"""Three channels: alive, without weights, with weights far too small for the bias."""

MODELS = {
    "digits": onnx.load(DIGITS / "digits_cnn.onnx"),
    "cnn": cnn(),
    "branches": model(
        BRANCHES,
        w1=numbers(2, 1, 3, 3),
        b1=numbers(2),
        w2=numbers(3, 4, 1, 1),
        around=np.int64([0, 0, 1, 1, 0, 0, 3, 1]),
    ),
    "Relu6": one_conv(
        numbers(4, 1, 3, 3),
        numbers(4),
        after="y = Clip (c, zero, six)",
        zero=np.float32(0),
        six=np.float32(6),
    ),
    "Relu behind MaxPool": one_conv(
        numbers(4, 1, 3, 3),
        numbers(4) - 3,
        after="""[pool] p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (c)
                 [relu] y = Relu (p)""",
    ),
    "dead channels": one_conv(**DEAD),
}


def samples_for(name):
    if name == "digits":
        return np.load(DIGITS / "calibration.npz")["image"]
    return pictures(20).reshape(-1, 8, 8, 1) if name == "branches" else pictures(20)


@dataclass(frozen=True)
class Emitted:
    """A float model, samples, and the integer models made of them."""

    float: onnx.ModelProto
    data: np.ndarray
    fast: onnx.ModelProto
    portable: onnx.ModelProto
    report: dict

    def feed(self, batch):
        return {self.float.graph.input[0].name: self.data[:batch]}

    @property
    def record(self) -> Record:
        return read_record(self.fast)[0]


@pytest.fixture(scope="module")
def emit(tmp_path_factory):
    folder, done = tmp_path_factory.mktemp("emitted"), {}

    def emit(name):
        if name not in done:
            path = save(folder, "float.onnx", MODELS[name])
            data = samples_for(name)
            source = save(folder, "data.npy", data)
            fast, portable = (
                qpasses.quantize(path, source, bodies=each, layout="nchw") for each in FLAVOURS
            )
            done[name] = Emitted(
                MODELS[name], data, fast.model, portable.model, fast.report["summary"]
            )
        return done[name]

    return emit


@pytest.fixture(params=MODELS)
def emitted(request, emit):
    return emit(request.param)


def written_in(made):
    return [name for node in made.graph.node for name in node.output]


def element_type(array):
    return onnx.helper.np_dtype_to_tensor_dtype(array.dtype)


# A valid ONNX model


def test_the_checker_accepts_it_in_full(emitted):
    for made in (emitted.fast, emitted.portable):
        onnx.checker.check_model(made, full_check=True)


def test_it_is_opset_21_and_ir_version_10(emitted):
    for made in (emitted.fast, emitted.portable):
        assert made.ir_version == 10
        imports = {each.domain: each.version for each in made.opset_import}
        assert imports.pop("com.microsoft", 1) == 1
        assert imports == {"": 21, DOMAIN: 1}
        assert {o.version for f in made.functions for o in f.opset_import} <= {21, 1}


def test_operator_sets_that_nothing_uses_are_left_out():
    made = cnn()
    made.opset_import.append(onnx.helper.make_opsetid("ai.onnx.ml", 2))
    result = qpasses.quantize(made, pictures(3))
    assert "ai.onnx.ml" not in {each.domain for each in result.model.opset_import}
    assert qpasses.verify(result.model, made, pictures(3)).verdict == "ok"


def test_it_keeps_the_interface_of_the_float_model(emitted):
    def interface(made):
        values = [*made.graph.input, *made.graph.output]
        types = [value.type.tensor_type for value in values]
        batches = [each.shape.dim[0].dim_param for each in types]
        return [
            (value.name, each.elem_type, len(each.shape.dim), batch)
            for value, each, batch in zip(values, types, batches, strict=True)
        ]

    assert interface(emitted.fast) == interface(emitted.float)


def test_every_tensor_is_declared_with_its_true_type_and_shape(emitted):
    made = emitted.fast
    declared = {
        v.name: v.type.tensor_type for v in [*made.graph.value_info, *made.graph.output]
    }
    found = every_tensor(made, emitted.feed(3))
    assert found.keys() == declared.keys()
    for name, array in found.items():
        assert declared[name].elem_type == element_type(array), name
        sizes = [d.dim_value or d.dim_param for d in declared[name].shape.dim]
        assert len(sizes) == array.ndim, name
        for size, true in zip(sizes, array.shape, strict=True):
            assert size == true or not isinstance(size, int), name


def test_only_bodies_in_use_are_attached_and_all_of_them(emitted):
    for made in (emitted.fast, emitted.portable):
        used = {(n.op_type, n.overload) for n in made.graph.node if n.domain == DOMAIN}
        attached = [(f.name, f.overload) for f in made.functions]
        assert Counter(attached) == Counter(used)


def test_zero_points_and_clamps_of_one_value_are_one_constant(emitted):
    made = emitted.fast
    values = {t.name: numpy_helper.to_array(t) for t in made.graph.initializer}
    scalars = {
        name
        for node in made.graph.node
        if node.domain == DOMAIN
        for name, formal in zip(node.input, OPS[node.op_type].inputs, strict=True)
        if formal.endswith(("_zero", "_min", "_max"))
    }
    kinds = Counter((values[name].dtype, int(values[name])) for name in scalars)
    assert kinds
    assert set(kinds.values()) == {1}


# The record


def test_the_record_survives_saving_and_loading(emitted, tmp_path):
    again = onnx.load(save(tmp_path, "m.onnx", emitted.fast))
    record, about = read_record(emitted.fast)
    assert record.nodes
    assert read_record(again) == (record, about)


def test_the_record_names_float_model_tool_and_configuration(emitted):
    about = read_record(emitted.fast)[1]
    float_bytes = emitted.float.SerializeToString(deterministic=True)
    assert about["float_sha256"] == hashlib.sha256(float_bytes).hexdigest()
    assert about["version"] == emitted.fast.producer_version
    assert emitted.fast.producer_name == "qpasses"
    configuration = about["configuration"]
    assert (configuration["bodies"], configuration["samples"]) == (
        FLAVOURS[0],
        len(emitted.data),
    )
    assert "onnx" in str(configuration["target"])


def test_the_record_has_every_integer_node_and_stored_tensor(emitted):
    made, record = emitted.fast, emitted.record
    integer = {node.name for node in made.graph.node if node.op_type not in EDGES}
    assert record.nodes.keys() == integer
    found = every_tensor(made, emitted.feed(1))
    stored = {name for name, array in found.items() if array.dtype in (np.uint8, np.int8)}
    assert stored <= record.tensors.keys()
    for name in stored:
        assert record.tensors[name].dtype == found[name].dtype.name


def test_the_record_has_the_scales_of_the_edges(emitted):
    values = {t.name: numpy_helper.to_array(t) for t in emitted.fast.graph.initializer}
    for node in emitted.fast.graph.node:
        if node.op_type in EDGES:
            name = node.output[0] if node.op_type == "QuantizeLinear" else node.input[0]
            stored = emitted.record.tensors[name]
            assert values[node.input[1]] == np.float32(stored.scale)
            assert values[node.input[2]] == stored.zero


def test_the_record_leads_back_to_nodes_of_the_float_model(emit):
    names = {node.name for node in emit("digits").float.graph.node}
    for name, entry in emit("digits").record.nodes.items():
        assert set(entry.source) <= names, name


# Reproducible


@pytest.mark.thinned
def test_the_same_input_gives_the_same_bytes(emitted, tmp_path):
    path, data = save(tmp_path, "m.onnx", emitted.float), save(tmp_path, "d.npy", emitted.data)
    again = qpasses.quantize(path, data, layout="nchw").model
    ours, theirs = (m.SerializeToString(deterministic=True) for m in (again, emitted.fast))
    assert ours == theirs


def test_processes_with_other_hash_seeds_write_the_same_bytes(tmp_path):
    written = []
    for seed in ("1", "2"):
        output, report = tmp_path / f"{seed}.onnx", tmp_path / f"{seed}.json"
        code = f"""
import qpasses
qpasses.quantize({str(DIGITS / "digits_cnn.onnx")!r}, {str(DIGITS / "calibration.npz")!r},
                 {str(output)!r}, json_file={str(report)!r})"""
        environment = os.environ | {"PYTHONHASHSEED": seed}
        subprocess.run([sys.executable, "-c", code], env=environment, check=True)
        files = output, output.with_suffix(".evidence.json"), report
        written.append([each.read_bytes() for each in files])
    assert written[0] == written[1]


def test_the_inputs_stay_as_they_were_and_nothing_else_is_written(tmp_path):
    path, data = save(tmp_path, "m.onnx", cnn()), save(tmp_path, "d.npy", pictures())
    before = {each: each.read_bytes() for each in (path, data)}
    made = qpasses.quantize(path, data, tmp_path / "o.onnx", json_file=tmp_path / "r.json")
    assert {each: each.read_bytes() for each in (path, data)} == before
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted(
        ["m.onnx", "d.npy", "o.onnx", "o.evidence.json", "r.json"]
    )
    assert onnx.load(tmp_path / "o.onnx") == made.model
    assert json.loads((tmp_path / "r.json").read_text()) == json.loads(json.dumps(made.report))


def test_how_the_float_model_stores_its_weights_makes_no_difference(tmp_path):
    together, apart = save(tmp_path, "together.onnx", cnn()), tmp_path / "apart.onnx"
    external = {"save_as_external_data": True, "location": "weights", "size_threshold": 0}
    onnx.save(cnn(), apart, **external)
    data = save(tmp_path, "d.npy", pictures())
    ours, theirs = (qpasses.quantize(path, data) for path in (together, apart))
    assert ours.report["model"]["sha256"] == theirs.report["model"]["sha256"]
    assert ours.model == theirs.model


# Both bodies


def inlined(made):
    flat = inliner.inline_local_functions(made)
    assert not flat.functions
    return flat


def test_the_portable_model_holds_no_float_tensor_between_its_edges(emitted):
    flat = inlined(emitted.portable)
    assert {node.domain for node in flat.graph.node} <= {"", "ai.onnx"}
    operators = Counter(node.op_type for node in flat.graph.node)
    assert operators["QuantizeLinear"] == len(flat.graph.input)
    assert operators["DequantizeLinear"] == len(flat.graph.output)

    typed = onnx.shape_inference.infer_shapes(flat, strict_mode=True).graph
    types = {v.name: v.type.tensor_type.elem_type for v in [*typed.value_info, *typed.output]}
    types |= {tensor.name: tensor.data_type for tensor in typed.initializer}
    assert set(written_in(flat)) <= types.keys()
    edges = {v.name for v in [*flat.graph.input, *flat.graph.output]}
    edges |= {node.input[1] for node in flat.graph.node if node.op_type in EDGES}
    assert {name for name, each in types.items() if each in FLOATS} - edges == set()


def test_inlining_changes_no_output(emitted):
    for made in (emitted.fast, emitted.portable):
        ours, theirs = (
            session(each, optimize=False).run(None, emitted.feed(7))
            for each in (inlined(made), made)
        )
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(a, b)


def test_switching_bodies_gives_what_emitting_with_them_gives(emitted):
    for flavour, wanted in zip(FLAVOURS, (emitted.fast, emitted.portable), strict=True):
        for made in (emitted.fast, emitted.portable):
            switched = with_bodies(made, flavour)
            assert switched.graph == wanted.graph
            assert list(switched.functions) == list(wanted.functions)


@pytest.mark.parametrize("optimize", [False, True])
@pytest.mark.parametrize("batch", [1, 7])
def test_both_bodies_give_the_same_bits(emitted, optimize, batch):
    feed = emitted.feed(batch)
    fast, portable = (
        session(made, optimize=optimize).run(None, feed)
        for made in (emitted.fast, emitted.portable)
    )
    for ours, theirs, output in zip(fast, portable, emitted.float.graph.output, strict=True):
        assert ours.tobytes() == theirs.tobytes(), output.name
        assert len(ours) == batch


def test_both_bodies_give_the_same_bits_in_every_tensor(emitted):
    fast, portable = (
        every_tensor(made, emitted.feed(7)) for made in (emitted.fast, emitted.portable)
    )
    assert fast.keys() == portable.keys()
    for name in fast:
        np.testing.assert_array_equal(fast[name], portable[name], name)


def test_it_stays_near_the_float_model(emitted):
    feed = emitted.feed(len(emitted.data))
    found, expected = (session(m).run(None, feed) for m in (emitted.fast, emitted.float))
    for ours, theirs in zip(found, expected, strict=True):
        assert np.abs(ours - theirs).max() < 0.03 * np.abs(theirs).max()


# Activations and dead channels


def test_relu6_becomes_the_clamp_of_its_conv(emit):
    relu6 = emit("Relu6")
    operators = [node.op_type for node in relu6.fast.graph.node]
    assert operators == ["QuantizeLinear", "IntConv", "DequantizeLinear"]
    (y,) = session(relu6.fast).run(None, {"x": 10 * relu6.data})
    assert y.min() == 0
    assert abs(y.max() - 6) <= relu6.record.tensors["y_quantized"].scale / 2


def test_a_clip_inside_the_range_of_its_output_clamps_there(tmp_path):
    made = one_conv(
        numbers(4, 1, 3, 3),
        numbers(4),
        after="y = Clip (c, low, high)",
        low=np.float32(1),
        high=np.float32(2),
    )
    path, data = save(tmp_path, "m.onnx", made), save(tmp_path, "d.npy", pictures())
    for bodies in FLAVOURS:
        integer = qpasses.quantize(path, data, bodies=bodies).model
        (y,) = session(integer).run(None, {"x": pictures()})
        step = read_record(integer)[0].tensors["y_quantized"].scale
        assert abs(y.min() - 1) <= step / 2
        assert abs(y.max() - 2) <= step / 2


def test_relu_behind_max_pool_becomes_a_clip_of_stored_integers(emit):
    made = emit("Relu behind MaxPool")
    operators = [node.op_type for node in made.fast.graph.node]
    edges = "QuantizeLinear", "DequantizeLinear"
    assert operators == [edges[0], "IntConv", "MaxPool", "Clip", edges[1]]
    found = every_tensor(made.fast, made.feed(5))
    pooled, clipped, y = (found[name] for name in ("p_quantized", "y_quantized", "y"))
    zero = made.record.tensors["y_quantized"].zero
    np.testing.assert_array_equal(clipped, np.maximum(pooled, zero), strict=True)
    assert y.min() == 0 < y.max()


def test_dead_channels_give_their_bias_and_the_raised_scale_is_listed(emit):
    made = emit("dead channels")
    assert made.report["raised_weight_scales"] == {"conv": [2]}
    assert made.record.raised_weight_scales == {"conv": [2]}
    (y,) = session(made.fast).run(None, made.feed(5))
    step = made.record.tensors["y_quantized"].scale
    for channel in (1, 2):
        assert np.abs(y[:, channel] - DEAD["b"][channel]).max() <= 0.5001 * step


def test_no_scale_is_raised_where_every_bias_fits(emit):
    assert emit("cnn").report["raised_weight_scales"] == {}
