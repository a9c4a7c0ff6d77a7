"""TOSA programs: validated, run by its reference model, the integers of onnxruntime."""

import re
import shutil
import sys
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper
from rich.console import Console

import qpasses
from calibration import input_specs, open_samples
from opsets.errors import ModelError, UsageError
from opsets.rounding import requantize
from qpasses import quantize, verify
from qpasses.api import export
from qpasses.checking.beside import other_programs, tools
from qpasses.checking.beside.tosa_tools import ReferenceModel
from qpasses.cli import cli
from qpasses.emit import mlir
from qpasses.emit.tosa.equal_rescales import (
    UnequalError,
    equal_rescale,
    same_ratios,
    ties,
)
from qpasses.emit.tosa.profile import PRO_INT_8K
from qpasses.evidence.thresholds import Interval, levels, meaning_thresholds
from qpasses.ir.progress import no_progress
from qpasses.report.terminal import print_report
from tests.support.channel_nets import channel_feeds, channel_net
from tests.support.small_models import model, numbers
from tests.support.thoroughness import thoroughly

BESIDE = Path(sys.executable).parent / "tosa-opt"
needs_tools = pytest.mark.skipif(
    not BESIDE.is_file() and shutil.which("tosa-opt") is None,
    reason="tosa-tools are not installed: pip install --no-deps tosa-tools",
)
needs_iree = pytest.mark.skipif(
    not (BESIDE.parent / "iree-compile").is_file() and shutil.which("iree-compile") is None,
    reason="IREE is not installed: pip install iree-base-compiler iree-base-runtime",
)
IMAGE = "float[1, 4, 7, 6]"
ROWS = "float[1, 6, 8]"

K = numbers(6, 4, 3, 3) / 3
D = numbers(8, 1, 3, 3) / 3
C6, C8 = numbers(6) / 4, numbers(8) / 4


def net(body, source=IMAGE, **weights):
    places = "int64" if "TopK" in body or "Arg" in body else "float"
    ends = "float[] y" if not re.search(r"\bz = ", body) else f"float[] y, {places}[] z"
    inputs = source if " x" in source else f"{source} x"
    return model(f"g ({inputs}) => ({ends}) {{ {body} }}", opset=18, **weights)


CONVOLUTIONS = {
    "as it is": ("y = Conv (x, k, c)", {"k": K, "c": C6}),
    "without a bias": ("y = Conv (x, k)", {"k": K}),
    "pads of their own": ("y = Conv <pads = [1, 0, 2, 1]> (x, k, c)", {"k": K, "c": C6}),
    "strides that leave rows": ("y = Conv <strides = [2, 2]> (x, k, c)", {"k": K, "c": C6}),
    "strides and pads that do": (
        "y = Conv <strides = [3, 2], pads = [1, 1, 1, 1]> (x, k, c)",
        {"k": K, "c": C6},
    ),
    "auto_pad": (
        'y = Conv <auto_pad = "SAME_UPPER", strides = [2, 2]> (x, k, c)',
        {"k": K, "c": C6},
    ),
    "dilations": ("y = Conv <dilations = [2, 1]> (x, k, c)", {"k": K, "c": C6}),
    "groups": (
        "y = Conv <group = 2> (x, k, c)",
        {"k": numbers(6, 2, 3, 3) / 3, "c": C6},
    ),
    "depthwise, two outputs each": (
        "y = Conv <group = 4, pads = [1, 1, 1, 1]> (x, d, c)",
        {"d": D, "c": C8},
    ),
    "a Relu behind": ("a = Conv (x, k, c) y = Relu (a)", {"k": K, "c": C6}),
    "a Relu6 behind": (
        "a = Conv (x, k, c) y = Clip (a, zero, six)",
        {"k": K, "c": C6, "zero": np.float32(0), "six": np.float32(0.6)},
    ),
    "one after the other": (
        "a = Conv (x, k, c) b = Relu (a) e = Conv <group = 6> (b, d, c) y = Add (e, e)",
        {"k": K, "c": C6, "d": numbers(6, 1, 1, 1)},
    ),
}

OTHERS = {
    "three dimensions": (
        "y = Conv <pads = [1, 0, 1, 0, 1, 1], strides = [2, 1, 1]> (x, k)",
        "float[1, 2, 4, 5, 3]",
        {"k": numbers(3, 2, 3, 2, 2) / 3},
    ),
    "one dimension": ("y = Conv <pads = [1, 1]> (x, k)", ROWS, {"k": numbers(4, 6, 3) / 3}),
    "a matrix": ("y = MatMul (x, m)", ROWS, {"m": numbers(8, 5) / 3}),
    "a matrix with a bias": (
        "a = MatMul (x, m) y = Add (a, c)",
        ROWS,
        {"m": numbers(8, 5) / 3, "c": numbers(5)},
    ),
    "stacks of matrices": (
        "a = MatMul (x, m) t = Transpose <perm = [0, 2, 1]> (a) y = MatMul (a, t)",
        ROWS,
        {"m": numbers(8, 5) / 3},
    ),
    "sums": ("a = Sigmoid (x) y = Add (x, a)", IMAGE, {}),
    "sums with a row": ("y = Add (x, r)", IMAGE, {"r": numbers(6)}),
    "sums with channels": (
        "a = Conv (x, k) y = Add (a, r)",
        IMAGE,
        {"k": K, "r": numbers(6, 1, 1)},
    ),
    "halves, whose ties go to even": (
        "a = Relu (x) b = Add (a, a) y = Mul (b, h)",
        IMAGE,
        {"h": np.float32(0.25)},
    ),
    "differences": ("a = Sigmoid (x) y = Sub (x, a)", IMAGE, {}),
    "a logarithm of Softmax": ("y = LogSoftmax <axis = -1> (x)", ROWS, {}),
    "a norm of rows": (
        "y = LayerNormalization (x, g, b)",
        ROWS,
        {"g": numbers(8), "b": numbers(8) / 2},
    ),
    "a norm of channels": (
        "y = InstanceNormalization (x, g, b)",
        IMAGE,
        {"g": numbers(4), "b": numbers(4)},
    ),
    "a norm that is not centered": (
        "q = Mul (x, x) m = ReduceMean (q, last) e = Add (m, s) r = Sqrt (e) "
        "n = Div (x, r) y = Mul (n, g)",
        ROWS,
        {"s": np.float32(1e-5), "g": numbers(8), "last": np.array([-1])},
    ),
    "slopes of channels": ("y = PRelu (x, s)", IMAGE, {"s": numbers(4, 1, 1)}),
    "slopes of elements": ("y = PRelu (x, s)", ROWS, {"s": numbers(6, 8)}),
    "the largest and their places": ("y, z = TopK (x, n)", ROWS, {"n": np.array([3])}),
    "the least along another axis": (
        "y, z = TopK <axis = 1, largest = 0> (x, n)",
        IMAGE,
        {"n": np.array([2])},
    ),
    "the place of the least": (
        "a = Relu (x) z = ArgMin <axis = 1> (a) y = Relu (a)",
        IMAGE,
        {},
    ),
    "the last place of the largest": (
        "a = Relu (x) z = ArgMax <axis = -1, keepdims = 0, select_last_index = 1> (a) "
        "y = Relu (a)",
        IMAGE,
        {},
    ),
    "words between one end and none": (
        "c = Clip (i, n) e = Gather (t, c) f = MatMul (e, m) y = Add (x, f)",
        "float[2, 3, 3] x, int64[2, 3] i",
        {"n": np.array(0), "t": numbers(7, 4), "m": numbers(4, 3)},
    ),
    "the largest of all": ("y = ReduceMax (x, n)", ROWS, {"n": np.zeros(0, np.int64)}),
    "every other from behind": (
        "y = Slice (x, s, e, a, t)",
        ROWS,
        dict(zip("seat", (np.array([each]) for each in (5, 0, 2, -2)), strict=True)),
    ),
    "from before the first": (
        "y = Slice (x, s, e, a, t)",
        ROWS,
        dict(zip("seat", (np.array([each]) for each in (-10, -100, 2, -1)), strict=True)),
    ),
    "every other of six axes": (
        "y = Slice (x, s, e, a, t)",
        "float[1, 2, 1, 2, 4, 7]",
        dict(zip("seat", (np.array([each]) for each in (0, 7, 5, 2)), strict=True)),
    ),
    "an output by two names": ("y = Relu (x) z = Identity (y)", ROWS, {}),
    "slopes of many elements": (
        "y = PRelu (x, s)",
        "float[1, 8, 13, 11]",
        {"s": numbers(8, 13, 11)},
    ),
    "pads by what is beside": (
        'y = Pad <mode = "reflect"> (x, p)',
        IMAGE,
        {"p": np.array([0, 0, 2, 1, 0, 0, 1, 3])},
    ),
    "pads by the edge": (
        'y = Pad <mode = "edge"> (x, p)',
        IMAGE,
        {"p": np.array([0, 1, 2, 0, 0, 0, 1, 3])},
    ),
    "a resize by half pixels": (
        'y = Resize <mode = "nearest"> (x, , s)',
        IMAGE,
        {"s": np.float32([1, 1, 1.5, 2.3])},
    ),
    "a resize by corners": (
        'y = Resize <mode = "nearest", coordinate_transformation_mode = "align_corners"> '
        "(x, , , s)",
        IMAGE,
        {"s": np.array([1, 4, 10, 5])},
    ),
    "a resize of two axes": (
        'y = Resize <mode = "nearest", axes = [2, 3], nearest_mode = "floor", '
        'coordinate_transformation_mode = "asymmetric"> (x, , s)',
        IMAGE,
        {"s": np.float32([2, 2])},
    ),
    "space to depth": (
        "y = SpaceToDepth <blocksize = 2> (x)",
        "float[1, 3, 4, 6]",
        {},
    ),
    "elements of places": (
        "y = GatherElements <axis = 2> (x, i)",
        ROWS,
        {"i": np.array([[[7, 0, -1], [3, 3, 2]]])},
    ),
    "slices of places": ("y = GatherND (x, i)", ROWS, {"i": np.array([[0, 5], [0, -2]])}),
    "what is overwritten": (
        "y = ScatterND (x, i, x)",
        "float[1, 8]",
        {"i": np.array([[0]])},
    ),
    "one or the other": (
        "a = Sigmoid (x) y = Where (w, x, a)",
        ROWS,
        {"w": np.arange(8) % 3 == 0},
    ),
    "places that vary": (
        "a = Cast <to = 7> (i) y = Gather <axis = 1> (x, a)",
        "float[1, 6, 8] x, int32[2, 3] i",
        {},
    ),
    "a choice that varies": (
        "a = Sigmoid (x) y = Where (w, x, a)",
        "float[1, 6, 8] x, bool[6, 1] w",
        {},
    ),
    "a channel shuffle": (
        "a = Conv (x, k) b = Reshape (a, two) t = Transpose <perm = [0, 2, 1, 3, 4]> (b) "
        "r = Reshape (t, one) y = Conv (r, d)",
        IMAGE,
        {
            "k": K,
            "d": numbers(4, 6, 1, 1),
            "two": np.array([0, 2, 3, 5, 4]),
            "one": np.array([1, 6, 5, 4]),
        },
    ),
    "products": ("a = Tanh (x) y = Mul (x, a)", IMAGE, {}),
    "a squeeze and excitation": (
        "a = Conv (x, k) p = GlobalAveragePool (a) s = Sigmoid (p) y = Mul (a, s)",
        IMAGE,
        {"k": K},
    ),
    "a table": ("y = HardSwish (x)", IMAGE, {}),
    "a table of two": ("a = Sigmoid (x) b = Exp (x) y = Div (a, b)", IMAGE, {}),
    "max_pool2d": ("y = MaxPool <kernel_shape = [3, 2], strides = [2, 2]> (x)", IMAGE, {}),
    "max_pool2d, padded": (
        "a = Conv (x, k) y = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (a)",
        IMAGE,
        {"k": K},
    ),
    "an average": ("y = AveragePool <kernel_shape = [2, 2], strides = [2, 2]> (x)", IMAGE, {}),
    "an average with its pads": (
        "y = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1], count_include_pad = 1>"
        " (x)",
        IMAGE,
        {},
    ),
    "an average of all": ("y = GlobalAveragePool (x)", IMAGE, {}),
    "a mean": (
        "y = ReduceMean <keepdims = 0> (x, axes)",
        IMAGE,
        {"axes": np.array([1, 3])},
    ),
    "a sum": ("y = ReduceSum <keepdims = 1> (x, axes)", ROWS, {"axes": np.array([2])}),
    "joins": (
        "a = Conv (x, k) b = Sigmoid (a) y = Concat <axis = 1> (a, b, a)",
        IMAGE,
        {"k": K},
    ),
    "every other, from behind": (
        "y = Slice (x, s, e, axes, steps)",
        IMAGE,
        {
            "s": np.array([1, -1]),
            "e": np.array([7, -9]),
            "axes": np.array([2, 3]),
            "steps": np.array([2, -2]),
        },
    ),
    "parts": (
        "a = Conv (x, k) b, e = Split <axis = 1, num_outputs = 2> (a) y = Concat <axis = 1>"
        " (e, b)",
        IMAGE,
        {"k": K},
    ),
    "pads": (
        "y = Pad (x, p)",
        IMAGE,
        {"p": np.array([0, 0, 1, 2, 0, 0, 0, 3])},
    ),
    "places": ("y = Gather <axis = 1> (x, i)", IMAGE, {"i": np.array([[3, 0], [1, 1]])}),
    "flattened": (
        "a = Conv (x, k) f = Flatten (a) y = Gemm (f, m, c)",
        IMAGE,
        {"k": K, "m": numbers(120, 3) / 9, "c": numbers(3)},
    ),
    "reshaped by its size": (
        "s = Shape <end = 1> (x) t = Concat <axis = 0> (s, r) f = Reshape (x, t)"
        " y = MatMul (f, m)",
        IMAGE,
        {"r": np.array([-1]), "m": numbers(168, 3) / 9},
    ),
    "twice as large": (
        'y = Resize <mode = "nearest", coordinate_transformation_mode = "asymmetric",'
        ' nearest_mode = "floor"> (x, , scales)',
        IMAGE,
        {"scales": np.float32([1, 1, 2, 2])},
    ),
    "twice as large, linear": (
        'y = Resize <mode = "linear"> (x, , scales)',
        IMAGE,
        {"scales": np.float32([1, 1, 2, 2])},
    ),
    "depth to space": ("y = DepthToSpace <blocksize = 2> (x)", IMAGE, {}),
    "Softmax": ("y = Softmax <axis = -1> (x)", ROWS, {}),
    "Softmax of channels": (
        "a = Conv (x, k) y = Softmax <axis = 1> (a)",
        IMAGE,
        {"k": K},
    ),
    "the largest": ("a = Relu (x) y = ReduceMax (a, axes)", ROWS, {"axes": np.array([1])}),
    "wider": (
        "a = ReduceMean (x, axes) y = Expand (a, s)",
        ROWS,
        {"axes": np.array([1]), "s": np.array([1, 6, 8])},
    ),
}


def feeds(made, count=12, seed=1):
    return [
        {each.name: column[k] for each, column in zip(made.graph.input, columns, strict=True)}
        for columns in [[values(each, count, seed) for each in made.graph.input]]
        for k in range(count)
    ]


def values(end, count, seed):
    kind = end.type.tensor_type
    shape = count, *(each.dim_value for each in kind.shape.dim)
    if kind.elem_type == TensorProto.FLOAT:
        return numbers(*shape, seed=seed)
    dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
    return np.random.default_rng(seed).integers(-6, 6, shape).astype(dtype)


def check(made, samples, **options):
    """Exported, run on samples in the reference model: no integer differs."""
    integer = quantize(made, samples, accuracy="fast", **options).model
    runner = other_programs.runner_of("tosa-reference", PRO_INT_8K)
    feeds = open_samples(samples[:3], input_specs(made))
    found = other_programs.check_with(runner, integer, Path("m"), made, feeds, no_progress)
    assert not found.problems
    assert (found.samples, found.differences, found.first) == (3, 0, "")
    assert found.elements > 0
    return integer


@needs_tools
def test_the_report_says_what_the_reference_model_gave():
    made = net("a = Conv (x, k, c) y = HardSwish (a)", k=K, c=C6)
    integer = quantize(made, feeds(made), accuracy="fast").model
    found = verify(integer, made, feeds(made)[:3], other_programs=["tosa-reference"])
    written = StringIO()
    print_report(Console(file=written, width=400), found.report)
    assert "0 differ from onnxruntime's" in written.getvalue()
    assert found.verdict == "ok", found.report["summary"]["problems"]
    said = found.report["checks"]["tosa_reference"]
    assert (said["samples"], said["differences"], said["first"]) == (3, 0, "")
    assert said["elements"] > 0


FORMS = {"onnx": {}, "tosa": {"target": "tosa"}, "int8": {"activation_type": "int8"}}


@needs_tools
@pytest.mark.thinned
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_give_the_same_integers(name, form):
    body, weights = CONVOLUTIONS[name]
    made = net(body, **weights)
    check(made, feeds(made), **FORMS[form])


@needs_tools
@pytest.mark.thinned
@pytest.mark.parametrize("form", ["onnx", "tosa"])
@pytest.mark.parametrize("name", OTHERS)
def test_other_nodes_give_the_same_integers(name, form):
    body, source, weights = OTHERS[name]
    made = net(body, source, **weights)
    check(made, feeds(made), **FORMS[form])


@needs_tools
def test_scales_of_channels_give_the_same_integers():
    made, samples = channel_net(), channel_feeds()
    integer = check(made, samples, activation_scales="per-channel")
    assert "IntConvPerChannel" in {node.op_type for node in integer.graph.node}


@needs_tools
@pytest.mark.parametrize("options", [{}, {"activation_type": "int8"}])
def test_integer_edges_are_fed_what_the_samples_are_stored_as(options):
    made = net("a = Conv (x, k, c) y = Relu (a)", k=K, c=C6)
    check(made, feeds(made), integer_io=True, **options)


@needs_tools
def test_one_result_may_be_two_outputs_and_an_input_may_be_read_by_nothing():
    body = "a = Relu (x) y = Identity (a) z = Reshape (a, s)"
    made = net(body, "float[1, 2] unread, float[1, 4]", s=np.array([1, 4]))
    samples = [
        {"unread": np.zeros((1, 2), np.float32), "x": each} for each in numbers(12, 1, 4)
    ]
    integer = check(made, samples)
    assert [end.name for end in export(integer).inputs] == ["x"]


@needs_tools
def test_sums_that_are_far_larger_than_what_is_stored_are_clamped_before():
    """Of a range that an override makes small; RESCALE takes sums below 2**(shift - 1)."""
    made = net("y = Conv (x, k, c)", k=K * 300, c=C6)
    check(made, feeds(made), calibration_overrides=["y=-0.00001,0.00001"])


@needs_tools
def test_samples_of_another_size_get_a_program_of_their_own():
    made = channel_net(size="h")
    samples = channel_feeds()
    integer = quantize(made, samples, accuracy="fast").model
    others = [samples[0], {"x": samples[1]["x"][:, :, :6, :5]}]
    found = verify(integer, made, others, other_programs=["tosa-reference"])
    assert found.report["checks"]["tosa_reference"]["differences"] == 0
    assert found.report["checks"]["tosa_reference"]["samples"] == 2


@needs_tools
def test_a_program_that_differs_fails_and_the_first_node_is_named(monkeypatch):
    made = net(
        "[one] a = Conv (x, k, c) [two] b = HardSwish (a) [three] y = Conv (b, d)",
        k=K,
        c=C6,
        d=numbers(2, 6, 1, 1),
    )
    integer = quantize(made, feeds(made), accuracy="fast").model
    wrong_tables(monkeypatch)
    found = verify(integer, made, feeds(made)[:1], other_programs=["tosa-reference"])
    assert found.verdict == "failed"
    (problem,) = found.report["summary"]["problems"]
    assert "other integers than onnxruntime" in problem
    assert "first at node 'two'" in problem


def wrong_tables(monkeypatch):
    """Programs whose tables begin one entry later than they ought to."""
    right = other_programs.emit_tosa

    def wrong(graph, **options):
        for node in graph.nodes:
            if node.op == "Lut":
                node.inputs[1].values = np.roll(node.inputs[1].values, 1)
        return right(graph, **options)

    monkeypatch.setattr(other_programs, "emit_tosa", wrong)


@needs_tools
def test_what_the_first_node_that_differs_was_given_is_saved(monkeypatch, tmp_path):
    made = net("[one] a = Conv (x, k) [two] y = HardSwish (a)", k=K)
    place = tmp_path / "int.onnx"
    quantize(made, feeds(made), place, accuracy="fast")
    wrong_tables(monkeypatch)
    found = verify(place, made, feeds(made)[:1], other_programs=["tosa-reference"])
    said = found.report["checks"]["tosa_reference"]
    assert said["saved"] == str(tmp_path / "int.differing.npz")
    with np.load(said["saved"]) as saved:
        (ours,) = (saved[name] for name in saved if name.startswith("tosa_reference."))
        (theirs,) = (saved[name] for name in saved if name.startswith("onnxruntime."))
        assert (ours != theirs).any()
        assert len(saved.files) == 3  # and what it was given


@needs_tools
def test_a_program_that_crashes_is_said_and_its_inputs_are_saved(monkeypatch, tmp_path):
    made = net("y = HardSwish (x)")
    place = tmp_path / "int.onnx"
    quantize(made, feeds(made), place, accuracy="fast")

    def crashes(*_):
        raise ModelError("TOSA's reference model fails (exit 134): aborted")

    monkeypatch.setattr(ReferenceModel, "run", crashes)
    with pytest.raises(ModelError, match=r"exit 134.*what it was given is in .*differing"):
        verify(place, made, feeds(made)[:1], other_programs=["tosa-reference"])
    assert (tmp_path / "int.differing.npz").exists()


@needs_tools
def test_all_tensors_are_compared_where_that_is_asked_for():
    made = net("a = Conv (x, k) b = HardSwish (a) y = Conv (b, d)", k=K, d=numbers(2, 6, 1, 1))
    integer = quantize(made, feeds(made), accuracy="fast").model
    some, every = (
        verify(
            *(integer, made, feeds(made)[:2]),
            other_programs=["tosa-reference"],
            all_tensors=each,
        ).report["checks"]["tosa_reference"]
        for each in (False, True)
    )
    assert some["tensors"] == 1
    assert every["tensors"] >= 3
    assert every["elements"] > some["elements"]
    assert every["differences"] == 0


@needs_iree
def test_iree_compiles_it_and_gives_the_same_integers():
    body = """
        a = Conv <pads = [1, 1, 1, 1]> (x, k, c)  b = HardSwish (a)  e = Add (b, b)
        f = GlobalAveragePool (e)  g = Flatten (f)  h = MatMul (g, m)  y = Softmax (h)
    """
    made = net(body, k=K, c=C6, m=numbers(6, 5))
    integer = quantize(made, feeds(made), accuracy="fast").model
    found = verify(integer, made, feeds(made)[:3], other_programs=["iree"], all_tensors=True)
    assert found.verdict == "ok", found.report["summary"]["problems"]
    said = found.report["checks"]["iree"]
    assert (said["samples"], said["differences"], said["program"]) == (3, 0, "IREE")
    assert said["tensors"] > 6


@needs_iree
def test_what_iree_gives_otherwise_is_found(monkeypatch):
    made = net("[one] y = HardSwish (x)")
    integer = quantize(made, feeds(made), accuracy="fast").model
    wrong_tables(monkeypatch)
    found = verify(integer, made, feeds(made)[:1], other_programs=["iree"])
    assert found.verdict == "failed"
    assert "IREE gives" in found.report["summary"]["problems"][0]


# Profiles


def long_kernel():
    made = net("y = Conv (x, k)", "float[1, 1, 8200]", k=numbers(1, 1, 8193))
    return made, quantize(made, feeds(made), accuracy="fast").model


def test_what_level_8k_has_not_is_refused_and_without_a_level_it_is_written():
    _, integer = long_kernel()
    with pytest.raises(ModelError, match="a kernel, stride or padding of more than 8192"):
        export(integer)
    assert export(integer, tosa_profile="pro-int").operations["depthwise_conv2d"] == 1


@needs_tools
def test_a_program_without_a_level_is_validated_as_such():
    made, integer = long_kernel()
    options = {"other_programs": ["tosa-reference"], "tosa_profile": "pro-int"}
    found = verify(integer, made, feeds(made)[:1], **options)
    assert found.report["checks"]["tosa_reference"]["differences"] == 0


def test_more_axes_than_level_8k_has_are_refused():
    made = net("y = HardSwish (x)", "float[1, 2, 1, 2, 1, 2, 2]")
    integer = quantize(made, feeds(made), accuracy="fast").model
    with pytest.raises(ModelError, match="7 axes: level 8K has 6 at most"):
        export(integer)


@needs_tools
def test_of_more_tensors_than_level_8k_joins_some_are_joined_before():
    names = [f"s{k}" for k in range(70)]
    parts, turned = ", ".join(names), ", ".join(reversed(names))
    body = f"{parts} = Split <axis = 1, num_outputs = 70> (x) y = Concat <axis = 2> ({turned})"
    made = net(body, "float[1, 70, 2]")
    check(made, feeds(made))


# Requantization


multipliers = st.integers(1, (1 << 24) - 1)


@thoroughly(150)
@given(st.lists(multipliers, min_size=1, max_size=4), st.integers(20, 40), st.integers(8, 20))
def test_an_equal_rescale_rounds_every_sum_as_the_node_does(factors, shift, bits):
    given = {"multiplier": np.array(factors), "shift": np.array([shift] * len(factors))}
    steps = levels(128, 0, 255)
    ends = (np.full(len(factors), end) for end in (-(1 << bits), 1 << bits))
    reachable = Interval(*ends)
    wanted = meaning_thresholds(
        given["multiplier"].astype(np.int64), given["shift"], steps, "half_to_even"
    )
    acc = np.arange(-(1 << min(bits, 14)), 1 << min(bits, 14), dtype=np.int64)
    try:
        found = equal_rescale(same_ratios(given, len(factors)), steps, reachable, wanted)
    except UnequalError:
        found = None
    masks, halves = ties(given, len(factors))
    start = same_ratios(given, len(factors))
    for channel, factor in enumerate(factors):
        real = requantize(acc, np.int64(factor), np.int64(shift), "half_to_even")
        expected = np.clip(real, -128, 127)
        if found is not None:
            assert (np.clip(rescaled(acc, found, channel), -128, 127) == expected).all()
        up = rescaled(acc, start, channel)
        is_tie = (acc & masks[channel]) == halves[channel]
        assert (up - (is_tie & (up % 2 == 1)) == real).all()


def rescaled(acc, pairs, channel):
    """As TOSA defines it; products of 14 and 31 bits."""
    multiplier, shift = (int(each[channel]) for each in pairs)
    return (acc * multiplier + (1 << (shift - 1))) >> shift


# Text


def test_the_text_of_a_convolution_is_what_is_shown():
    made = net(
        "[conv] y = Conv (x, k)", "float[1, 1, 2, 2]", k=np.ones((1, 1, 1, 1), np.float32)
    )
    samples = [{"x": np.float32([[[[-1, 0], [1, 2]]]])}]
    text = export(quantize(made, samples, accuracy="fast").model).text
    assert text == (Path(__file__).parent / "tosa_conv.mlir").read_text("utf-8")


def test_names_and_arrays_are_written_as_mlir_reads_them():
    assert mlir.text('a"b\\ü') == '"a\\22b\\5C\\C3\\BC"'
    assert mlir.dense(np.int8([1, 1])) == "dense<1> : tensor<2xi8>"
    assert mlir.dense(np.int32([1, -2])) == 'dense<"0x01000000FEFFFFFF"> : tensor<2xi32>'


# What cannot be


def test_free_sizes_are_asked_for_with_the_option():
    integer = quantize(channel_net(size="h"), channel_feeds(), accuracy="fast").model
    with pytest.raises(UsageError, match=r"--input-shape x:SIZE,3,SIZE,SIZE"):
        export(integer)
    fixed = export(integer, input_shape=["x:1,3,8,8"])
    assert fixed.inputs[0].shape == (1, 3, 8, 8)


def test_an_op_without_a_form_is_named_and_nothing_is_written(tmp_path):
    text = """
        g (float[1, 4] x, int32[2] i) => (float[] y, int32[] z) {
            y = HardSwish (x)  [rest] z = Mod (i, n)
        }
    """
    made = model(text, opset=18, n=np.array(3, np.int32))
    integer = quantize(made, feeds(made), accuracy="fast").model
    place = tmp_path / "model.mlir"
    with pytest.raises(ModelError, match=r"'rest' \(Mod\).*no form of this op"):
        export(integer, place)
    assert not place.exists()


REFUSED = {
    "the order of what is not sorted": (
        "y, z = TopK <sorted = 0> (x, n)",
        {"n": np.array([3])},
    ),
    "the 0 largest": ("y, z = TopK (x, n)", {"n": np.array([0])}),
    "padding of more than 8192": (
        "y = Conv <pads = [10000, 0]> (x, k)",
        {"k": numbers(3, 6, 3)},
    ),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_tosa_has_not_is_refused_and_the_node_is_named(reason):
    body, weights = REFUSED[reason]
    made = net(f"[here] {body}", ROWS, **weights)
    integer = quantize(made, feeds(made), accuracy="fast").model
    with pytest.raises(ModelError, match=rf"'here.*{reason}"):
        export(integer)


def test_tensors_of_no_known_type_are_refused():
    made = net(
        "a = Conv (x, k) p = Pad (a, n) y = Conv (p, d)",
        k=K,
        d=numbers(2, 6, 1, 1),
        n=np.array([0, 0, 1, 1, 0, 0, 1, 1]),
    )
    integer = quantize(made, feeds(made), accuracy="fast", integer_io=True).model
    del integer.graph.value_info[:]
    with pytest.raises(ModelError, match=r"\(Pad\).*does not say the type of"):
        export(integer)


def test_words_beyond_32_bits_are_refused_not_clipped():
    text = """
        g (float[1, 4] x, bool[2] w, int64[2] i) => (float[] y, int64[] z) {
            y = HardSwish (x)  [here] z = Where (w, i, n)
        }
    """
    made = model(text, opset=18, n=np.array(1 << 40))
    integer = quantize(made, feeds(made), accuracy="fast").model
    with pytest.raises(ModelError, match=r"'here' \(Where\).*numbers beyond int32"):
        export(integer)


def test_a_program_that_is_not_known_is_a_mistake():
    made = net("y = Relu (x)")
    integer = quantize(made, feeds(made), accuracy="fast").model
    with pytest.raises(UsageError, match="use one of tosa-reference, iree"):
        verify(integer, made, feeds(made)[:1], other_programs=["tosa_reference"])


@needs_tools
def test_a_program_that_writes_nothing_is_said(monkeypatch):
    made = net("y = Relu (x)")
    integer = quantize(made, feeds(made), accuracy="fast").model
    usual = ReferenceModel.__init__

    def broken(self, profile):
        usual(self, profile)
        self._model = Path("/bin/true")

    monkeypatch.setattr(ReferenceModel, "__init__", broken)
    with pytest.raises(ModelError, match="ended well, and wrote no results"):
        verify(integer, made, feeds(made)[:1], other_programs=["tosa-reference"])


def test_what_is_left_in_float_is_named():
    made = net(
        "[one] a = Conv (x, k) [two] b = Sigmoid (a) [three] y = Conv (b, d)",
        k=K,
        d=numbers(2, 6, 1, 1),
    )
    integer = quantize(made, feeds(made), accuracy="fast", nodes_to_exclude=["two"]).model
    with pytest.raises(ModelError, match=r"left in float, and TOSA's integer profile"):
        export(integer)


def test_without_the_tools_it_is_said_what_to_install(monkeypatch):
    made = net("y = Relu (x)")
    integer = quantize(made, feeds(made), accuracy="fast").model
    monkeypatch.setattr(tools.sys, "executable", "/nowhere/python")
    monkeypatch.setattr(tools.shutil, "which", lambda _: None)
    with pytest.raises(
        UsageError, match=r"needs the program tosa-opt.*pip install --no-deps tosa-tools"
    ):
        verify(integer, made, feeds(made)[:1], other_programs=["tosa-reference"])


def test_without_iree_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setattr(tools.sys, "executable", "/nowhere/python")
    monkeypatch.setattr(tools.shutil, "which", lambda _: None)
    with pytest.raises(UsageError, match=r"iree-compile: pip install iree-base-compiler"):
        other_programs.runner_of("iree", PRO_INT_8K)


def test_all_tensors_without_another_program_are_a_mistake():
    made = net("y = Relu (x)")
    integer = quantize(made, feeds(made), accuracy="fast").model
    with pytest.raises(UsageError, match="all_tensors is about what --with runs"):
        verify(integer, made, feeds(made)[:1], all_tensors=True)


def test_without_samples_nothing_can_be_run():
    made = net("y = Relu (x)")
    integer = quantize(made, feeds(made), accuracy="fast").model
    with pytest.raises(UsageError, match="--with runs samples"):
        verify(integer, made, other_programs=["tosa-reference"])


def invoked(*arguments):
    found = CliRunner().invoke(cli, [*map(str, arguments)], catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return found.output


def test_the_command_writes_what_the_function_gives(tmp_path):
    made = net("y = Relu (x)")
    qpasses.quantize(made, feeds(made), tmp_path / "int.onnx", accuracy="fast")
    output = invoked("export", tmp_path / "int.onnx", "-o", tmp_path / "a.mlir")
    assert "is written" in output
    text = (tmp_path / "a.mlir").read_text("utf-8")
    assert text == export(tmp_path / "int.onnx").text
    output = invoked("export", tmp_path / "int.onnx", "--check", "-o", tmp_path / "b.mlir")
    assert "is written" not in output
    assert not (tmp_path / "b.mlir").exists()


def test_quantize_emits_tosa_at_once(tmp_path):
    made, place = net("a = Conv (x, k) y = Relu (a)", k=K), tmp_path / "a.mlir"
    done = qpasses.quantize(made, feeds(made), place, accuracy="fast", emit="tosa")
    assert place.read_text("utf-8") == export(done.model).text
    assert (tmp_path / "a.mlir.evidence.json").exists()
    done.save(tmp_path / "b.mlir")
    assert (tmp_path / "b.mlir").read_bytes() == place.read_bytes()


def test_quantize_emits_no_tosa_of_free_sizes_and_writes_nothing(tmp_path):
    made, samples = channel_net(size="h"), channel_feeds()
    options = {"accuracy": "fast", "emit": "tosa"}
    with pytest.raises(UsageError, match=r"--input-shape x:SIZE,3,SIZE,SIZE"):
        quantize(made, samples, tmp_path / "a.mlir", **options)
    assert not list(tmp_path.iterdir())
    quantize(made, samples, tmp_path / "a.mlir", input_shape=["x:1,3,8,8"], **options)
    assert (tmp_path / "a.mlir").exists()
