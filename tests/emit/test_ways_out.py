"""--emit qdq and --emit standard, and that every way out gives the same bytes each time."""

import json
import os
import subprocess
import sys
from functools import cache

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

import qpasses
from tests.support.commands import MODEL, Desk, assert_refused, read_json, run
from tests.support.small_models import (
    DIGITS,
    cnn,
    convolutions_around,
    model,
    numbers,
    pictures,
    recorded,
    save,
    session,
)

RESIDUAL = """
residual (float[N, 1, 8, 8] x) => (float[N, 3] y, float[N, 4, 4, 4] z) {
    [conv1] a = Conv <pads = [1, 1, 1, 1]> (x, w1, b1)
    [norm] n = BatchNormalization (a, gamma, beta, mean, var)
    [relu] r = Relu (n)
    [conv2] b = Conv <pads = [1, 1, 1, 1]> (r, w2)
    [sum] s = Add (b, r)
    [pool] z = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (s)
    [mean] g = GlobalAveragePool (z)
    [flat] f = Flatten (g)
    [wide] t = Transpose <perm = [0, 1]> (f)
    [product] m = MatMul (t, w3)
    [bias] u = Add (m, b3)
    [clip] y = Clip (u, low, high)
}"""
"""Most kinds of nodes; two outputs, one of them inside."""

SEQUENCE = """
sequence (float[N, 5, 4] x, int64[N] ids) => (float[N, 5, 3] y, int64[N] next) {
    [product] m = MatMul (x, w)
    [bias] a = Add (m, b)
    [soft] y = Softmax <axis = -1> (a)
    [add] next = Add (ids, ids)
}"""
"""A product of rank 3 with float behind it, and an input of integers."""


@cache
def residual():
    return model(
        RESIDUAL,
        w1=numbers(4, 1, 3, 3),
        b1=numbers(4),
        gamma=np.array([1.5, 0.5, 1, 2], np.float32),
        beta=numbers(4, seed=1),
        mean=numbers(4, seed=2),
        var=np.array([0.5, 1, 2, 1.5], np.float32),
        w2=numbers(4, 4, 3, 3),
        w3=numbers(4, 3),
        b3=numbers(3),
        low=np.float32(-2),
        high=np.float32(3),
    )


@cache
def sequence():
    return model(SEQUENCE, w=numbers(4, 3), b=numbers(3))


MODELS = {
    "residual": (residual, [{"x": pictures(1, seed=i)} for i in range(6)]),
    "sequence": (
        sequence,
        [{"x": numbers(1, 5, 4, seed=i), "ids": np.array([i])} for i in range(6)],
    ),
}

OPTIONS = {
    "default": {},
    "symmetric int8": {"activation_type": "int8", "symmetric": True},
    "per tensor": {"per_channel": False},
}


@cache
def emitted(name, emit="integer", options="default"):
    made, data = MODELS[name]
    return qpasses.quantize(made(), data, emit=emit, **OPTIONS[options])


def constants(made):
    return {each.name: numpy_helper.to_array(each) for each in made.graph.initializer}


def node_scales(made, name):
    """The weight scales that the integer model records for a node."""
    (node,) = [node for node in made.graph.node if node.name == name]
    (entry,) = [each for each in node.metadata_props if each.key == "qpasses.scales"]
    return json.loads(entry.value)["w"]


def outputs(made, samples, *, optimize=True):
    """The outputs on each sample, one after the other."""
    runner = session(made, optimize=optimize)
    return [value for sample in samples for value in runner.run(None, sample)]


def domains(made):
    used = {node.domain for node in made.graph.node}
    return used | {each.domain for each in made.opset_import}


def assert_standard(made):
    """A sound model of ops of ai.onnx alone."""
    onnx.checker.check_model(made, full_check=True)
    assert domains(made) == {""}
    assert len(made.functions) == 0


# Q/DQ

BOTH = pytest.mark.parametrize("name", MODELS)
ALL_OPTIONS = pytest.mark.parametrize("options", OPTIONS)


@BOTH
@ALL_OPTIONS
def test_a_qdq_model_is_sound_and_of_standard_ops_alone(name, options):
    made = emitted(name, "qdq", options).model
    assert_standard(made)
    newest = 20 if "int8" in options else 21  # what onnxruntime optimizes soundly
    assert (made.ir_version, made.opset_import[0].version) == (10, newest)


@pytest.mark.thinned
@BOTH
@ALL_OPTIONS
def test_a_qdq_model_has_the_scales_and_zero_points_of_the_integer_model(name, options):
    qdq = emitted(name, "qdq", options).model
    values = constants(qdq)
    found = {
        node.output[0]: (float(values[node.input[1]]), int(values[node.input[2]]))
        for node in qdq.graph.node
        if node.op_type == "QuantizeLinear"
    }
    assert found == recorded(emitted(name, "integer", options).model)


@ALL_OPTIONS
def test_a_qdq_model_has_the_weights_and_weight_scales_of_the_integer_model(options):
    integer = emitted("residual", "integer", options).model
    ours, qdq = constants(integer), constants(emitted("residual", "qdq", options).model)
    for name in ("conv1", "conv2", "product"):
        np.testing.assert_array_equal(
            qdq[f"{name}.weight_quantized"], ours[f"{name}.weight_int8"]
        )
        scale = qdq[f"{name}.weight_scale"]
        assert scale.ravel().tolist() == node_scales(integer, name)


@BOTH
@ALL_OPTIONS
def test_a_qdq_model_gives_the_integer_models_outputs_up_to_two_steps(name, options):
    integer, qdq = (emitted(name, each, options).model for each in ("integer", "qdq"))
    scales = recorded(integer)
    steps = {"y": "a"} if name == "sequence" else {"y": "y", "z": "z"}  # Softmax adds no error
    data = MODELS[name][1]
    names = [output.name for output in integer.graph.output] * len(data)
    found = (outputs(each, data, optimize=False) for each in (integer, qdq))
    for output, ours, theirs in zip(names, *found, strict=True):
        step = scales[f"{steps[output]}_quantized"][0] if output in steps else 0
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=2.01 * step, strict=True)


def test_a_qdq_digits_model_is_within_two_steps_of_the_output():
    arguments = DIGITS / "digits_cnn.onnx", DIGITS / "calibration.npz"
    integer, qdq = (
        qpasses.quantize(*arguments, samples=10, emit=each).model
        for each in ("integer", "qdq")
    )
    scale, _ = recorded(integer)["logits_quantized"]
    feed = {"image": np.load(DIGITS / "test.npz")["image"][:100]}
    (ours,), (theirs,) = (outputs(each, [feed], optimize=False) for each in (integer, qdq))
    assert np.abs(ours - theirs).max() < 2.5 * scale
    assert np.mean(ours != theirs) < 0.05


@BOTH
def test_a_qdq_model_is_incomplete_and_claims_nothing(name):
    result = emitted(name, "qdq")
    summary = result.report["summary"]
    assert result.verdict == "incomplete"
    assert summary["integer_only"] is False
    assert result.report["evidence"]["nodes"] == []
    listed = {node["name"]: node["reason"] for node in summary["float_nodes"]}
    assert listed["product"] == "emitted as Q/DQ"


# Standard ONNX


@pytest.mark.thinned
@BOTH
@ALL_OPTIONS
def test_a_standard_model_is_sound_and_has_no_op_of_any_other_domain(name, options):
    made = emitted(name, "standard", options).model
    assert_standard(made)
    newest = 20 if "int8" in options else 21  # what onnxruntime optimizes soundly
    assert (made.ir_version, made.opset_import[0].version) == (10, newest)


@BOTH
@ALL_OPTIONS
@pytest.mark.parametrize("optimize", [False, True])
def test_a_standard_model_gives_the_very_outputs_of_the_integer_model(name, options, optimize):
    integer, standard = (emitted(name, e, options).model for e in ("integer", "standard"))
    data = MODELS[name][1]
    found = outputs(integer, data), outputs(standard, data, optimize=optimize)
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_array_equal(ours, theirs, strict=True)


FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16)


@ALL_OPTIONS
def test_no_float_tensor_lies_between_the_edges_of_a_standard_model(options):
    made = onnx.shape_inference.infer_shapes(emitted("residual", "standard", options).model)
    graph = made.graph
    types = {v.name: v.type.tensor_type.elem_type for v in [*graph.value_info, *graph.output]}
    written = [name for node in graph.node for name in node.output if name]
    assert set(written) <= types.keys()
    assert {name for name in written if types[name] in FLOATS} == {"y", "z"}
    scales = {node.input[1] for node in graph.node if node.op_type.endswith("izeLinear")}
    given = {each.name for each in graph.initializer if each.data_type in FLOATS}
    assert given == scales


def test_a_standard_model_keeps_the_verdict_and_evidence_of_its_integer_form():
    result = emitted("residual", "standard")
    portable = qpasses.quantize(residual(), MODELS["residual"][1], bodies="portable")
    assert result.verdict == "ok"
    assert result.report["evidence"] == portable.report["evidence"]
    assert result.report["accuracy"] == portable.report["accuracy"]
    assert result.report["configuration"]["bodies"] == "portable"


def test_a_standard_model_can_have_integers_at_its_edges():
    made, data = residual(), MODELS["residual"][1]
    standard = qpasses.quantize(made, data, emit="standard", integer_io=True)
    assert_standard(standard.model)
    types = {v.type.tensor_type.elem_type for v in standard.model.graph.output}
    assert types == {TensorProto.UINT8}
    assert standard.report["accuracy"] == emitted("residual", "standard").report["accuracy"]


def test_a_newer_opset_of_the_float_model_stays():
    made = cnn(opset=23, ir_version=11)
    for emit in ("qdq", "standard"):
        found = qpasses.quantize(made, pictures(), emit=emit).model
        assert [(each.domain, each.version) for each in found.opset_import] == [("", 23)]


@cache
def with_a_contrib_op():
    return convolutions_around("com.microsoft.SampleOp", domains=["com.microsoft"])


def test_a_contrib_op_of_the_float_model_is_named_where_standard_ops_are_wanted(tmp_path):
    desk = Desk(tmp_path, with_a_contrib_op(), pictures())
    ended = desk.quantize("--emit", "standard")
    assert_refused(ended, MODEL, "'middle'", "com.microsoft.SampleOp")
    assert not desk.output.exists()
    assert not desk.report.exists()


def test_a_contrib_op_inside_a_branch_is_named_too():
    made = model(
        """g (float[N, 4] x, bool cond) => (float[N, 3] y, float[N, 4] z) {
            y = MatMul (x, w)
            [choice] z = If (cond) <
                then_branch = t () => (float[N, 4] p) {
                    [inner] p = com.microsoft.SampleOp (x)
                },
                else_branch = e () => (float[N, 4] q) { q = Cos (x) }
            >
        }""",
        domains=["com.microsoft"],
        w=numbers(4, 3),
    )
    data = [{"x": numbers(1, 4, seed=i), "cond": np.array(i > 1)} for i in range(4)]
    with pytest.raises(qpasses.ModelError, match=r"com\.microsoft\.SampleOp"):
        qpasses.quantize(made, data, emit="standard")


def test_a_contrib_op_of_the_float_model_stays_in_the_qdq_model():
    result = qpasses.quantize(with_a_contrib_op(), pictures(), emit="qdq")
    onnx.checker.check_model(result.model, full_check=True)
    assert domains(result.model) == {"", "com.microsoft"}


CONFLICTS = {
    "standard with fast bodies": ["--emit", "standard", "--bodies", "onnxruntime"],
    "qdq with integers at the edges": ["--emit", "qdq", "--integer-io"],
}


@pytest.mark.parametrize("name", CONFLICTS)
def test_what_excludes_each_other_is_a_usage_error(tmp_path, name):
    message = Desk(tmp_path, cnn(), pictures()).refused(*CONFLICTS[name])
    assert "emit" in message


@pytest.mark.parametrize("emit", ["qdq", "standard"])
def test_verify_refuses_what_has_no_nodes_to_check(tmp_path, emit):
    desk = Desk(tmp_path, cnn(), pictures())
    assert desk.quantize("--emit", emit).code == 0
    assert read_json(desk.report)["configuration"]["emit"] == emit
    assert_refused(desk.verify(), MODEL, desk.output, f"--emit {emit}")


def test_what_was_written_out_is_not_quantized_again(tmp_path):
    desk = Desk(tmp_path, cnn(), pictures())
    desk.quantize("--emit", "standard")
    given = "--data", desk.data, "-o", tmp_path / "again.onnx"
    assert_refused(run("quantize", desk.output, *given), MODEL, "already")


# The same bytes

EMIT_ALL = """
import sys
import qpasses

for emit in ("integer", "qdq", "standard"):
    qpasses.quantize(*sys.argv[1:], emit + ".onnx", emit=emit, nodes_to_exclude=["mean|bias"])
"""


def test_two_processes_in_two_folders_write_the_same_bytes(tmp_path):
    folders = [tmp_path / "first", tmp_path / "second"]
    for seed, folder in enumerate(folders):
        folder.mkdir()
        model_file = save(folder, f"model_{seed}.onnx", residual())
        data = save(folder, f"data_{seed}.npy", pictures())
        arguments = [sys.executable, "-c", EMIT_ALL, model_file.name, data.name]
        environment = {**os.environ, "PYTHONHASHSEED": str(seed + 1)}
        subprocess.run(arguments, cwd=folder, env=environment, check=True)
    for emit in ("integer", "qdq", "standard"):
        first, second = ((folder / f"{emit}.onnx").read_bytes() for folder in folders)
        assert first == second


@pytest.mark.parametrize("emit", ["integer", "qdq", "standard"])
def test_neither_paths_nor_repetition_change_the_model(tmp_path, emit):
    desk = Desk(tmp_path, residual(), pictures())
    desk.quantize("--emit", emit)
    in_memory = qpasses.quantize(residual(), pictures(), emit=emit).model
    assert in_memory.SerializeToString(deterministic=True) == desk.output.read_bytes()
