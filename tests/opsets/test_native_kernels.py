"""Compiled kernels: the integers of the references, on every instruction set that is here."""

import os
import platform
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import onnxruntime as ort
import pytest

import qpasses
from calibration import Session
from calibration.session import inference_session
from opsets import native
from opsets.errors import ModelError, UsageError
from opsets.qpasses_v1 import OPS
from qpasses.ir import native_sessions
from tests.support.op_cases import Case
from tests.support.recurrent_cases import Parts, Sizes, gru, lstm, rnn
from tests.support.small_models import model, numbers
from tests.support.thoroughness import THOROUGH
from tests.support.tosa_nodes import model_of_nodes

CODES = np.arange(64).astype(np.uint8).reshape(8, 8)
ROOT = Path(__file__).parents[2]
HAS_KERNELS = native.library() is not None
needs_kernels = pytest.mark.skipif(not HAS_KERNELS, reason="there was no compiler for kernels")

SETS = [
    "plain",
    *(["neon", "dotprod"] if platform.machine() == "aarch64" else ["avx2", "avx512"]),
]


def runs(sets, count, *names):
    return subprocess.run(
        [sys.executable, "-m", "tests.support.native_runs", f"{count}", *names],
        env={**os.environ, "QPASSES_ISA": ",".join(sets)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@needs_kernels
def test_kernels_give_the_integers_of_the_references():
    done = runs(SETS, 60 if THOROUGH else 3)
    lines = {tuple(line.split()[:2]): line.split()[2:] for line in done.stdout.splitlines()}
    missing = [isa for isa in SETS if not any(isa in line for line in lines)]
    assert done.stderr.count("QPASSES_ISA names") == len(missing), done.stderr
    assert bool(done.returncode) == bool(missing), done.stderr
    assert lines.keys() == {*product([s for s in SETS if s not in missing], native.KERNELS)}
    for line, said in lines.items():
        wrong, count = map(int, said)
        assert wrong == 0, line
        assert count > 500, line
    if missing:
        pytest.skip(f"this processor has no {' and no '.join(missing)}")


@needs_kernels
@pytest.mark.skipif(platform.machine() != "x86_64", reason="elsewhere it is smaller")
def test_the_library_is_below_a_megabyte():
    assert native.library().stat().st_size < 1 << 20


@needs_kernels
def test_an_instruction_set_that_is_not_there_is_an_error():
    done = runs(["sse9"], 1, "Lut")
    assert done.returncode != 0
    assert "QPASSES_ISA names an instruction set that this processor or library" in done.stderr


@needs_kernels
def test_pictures_that_no_memory_holds_are_refused():
    """Whose cells, padded, no int64 counts either: 2**24 of 2**40 each."""
    side, count = 1 << 20, 1 << 24
    code, number = np.int16(0), np.array([1], np.int32)
    numbers = [code, np.ones((1, 1, 2, 2), np.int8), np.int8(0), number, number, number]
    x = np.zeros((count, 1, 1, 1), np.int16)
    attributes = {
        **{"kernel_shape": [2, 2], "group": 1, "rounding": "half_up"},
        **{"pads": [side - 1, side - 1, 0, 0], "dilations": [side - 1, side - 1]},
    }
    case = Case([x, *map(np.asarray, (*numbers, code, code, code))], attributes)
    result = np.zeros((1, 1, 1, 1), np.int16)
    made = model_of_nodes(OPS["IntConv"], {"0": case}, [result])
    session = Session(made, operators=native.library(), arena=False, threads=1)
    with pytest.raises(ModelError, match="padded pictures"):
        session.run(None, {"x_0": x})


@needs_kernels
def test_sizes_of_which_nothing_is_known_are_not_taken_for_equal():
    """Else onnxruntime puts a larger tensor where a smaller one was."""
    pool = OPS["IntAveragePool"]
    numbers = {"x_zero": np.uint8(0), "multiplier": np.array([1 << 20], np.int32)}
    numbers |= {"shift": np.array([22], np.int32), "y_zero": np.uint8(0)}
    numbers |= {"y_min": np.uint8(0), "y_max": np.uint8(255)}
    nodes = [
        onnx.helper.make_node(
            *(pool.name, ["x", *numbers], [f"y{size}"]),
            domain="qpasses",
            channels=3,
            kernel_shape=[size, size],
            rounding="half_to_even",
        )
        for size in (2, 3)
    ]
    free = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.UINT8, [1, 3, None, None])
    graph = onnx.helper.make_graph(
        nodes,
        "pools",
        [free],
        [onnx.helper.make_empty_tensor_value_info(f"y{size}") for size in (2, 3)],
        [onnx.numpy_helper.from_array(np.asarray(v), name) for name, v in numbers.items()],
    )
    opsets = [onnx.helper.make_opsetid("", 21), onnx.helper.make_opsetid("qpasses", 1)]
    made = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)
    options = ort.SessionOptions()
    assert qpasses.register(options)
    session = ort.InferenceSession(made.SerializeToString(), options)
    unknown = [size for each in session.get_outputs() for size in each.shape[2:]]
    assert all(unknown) and len({*unknown}) == len(unknown) == 4


@needs_kernels
@pytest.mark.parametrize("ops", [",Lut,", ",IntAdd,Lut,", ",LutPair,", ",", None])
def test_a_session_that_names_its_ops_has_these_alone(ops):
    case = Case([CODES, np.arange(256)[::-1].astype(np.uint8)], {})
    made, options = model_of_nodes(OPS["Lut"], {"it": case}), ort.SessionOptions()
    if ops:
        options.add_session_config_entry("qpasses.ops", ops)
    assert qpasses.register(options)
    if ops and ",Lut," not in ops:
        with pytest.raises(ModelError, match="it has no operator Lut of domain qpasses"):
            inference_session(made.SerializeToString(), options)
    else:
        session = inference_session(made.SerializeToString(), options)
        np.testing.assert_array_equal(session.run(None, {"x_0": CODES})[0], 255 - CODES)


@pytest.fixture(scope="module")
def attention(tmp_path_factory):
    """An integer model with a norm and a Softmax, as a file, and a sample of its input."""
    body = """
        g (float[2, 40, 48] x) => (float[2, 40, 48] y) {
            n = LayerNormalization (x, g, b)  t = Transpose <perm = [0, 2, 1]> (n)
            s = MatMul (n, t)  p = Softmax <axis = -1> (s)  y = MatMul (p, n)
        }
    """
    made = model(body, opset=17, g=numbers(48), b=numbers(48))
    feeds = [{"x": each} for each in numbers(12, 2, 40, 48)]
    place = tmp_path_factory.mktemp("native") / "int.onnx"
    qpasses.quantize(made, feeds, place, accuracy="fast")
    return place, feeds[0]


@pytest.mark.parametrize("threads", [1, 2])
def test_a_session_with_kernels_gives_what_bodies_give(attention, threads):
    place, feed = attention
    usual = ort.InferenceSession(str(place), providers=["CPUExecutionProvider"])
    (expected,) = usual.run(None, feed)
    (found,) = qpasses.session(place, threads=threads).run(None, feed)
    np.testing.assert_array_equal(found, expected)


@needs_kernels
def test_options_that_were_given_are_registered_with(attention):
    place, feed = attention
    options = ort.SessionOptions()
    assert qpasses.register(options)
    assert qpasses.native_library() == native.library()
    session = ort.InferenceSession(str(place), options, providers=["CPUExecutionProvider"])
    assert session.run(None, feed)[0].shape == (2, 40, 48)


def test_registering_twice_is_registering_once(attention):
    options = ort.SessionOptions()
    assert qpasses.register(options) == qpasses.register(options)
    place, feed = attention
    session = ort.InferenceSession(str(place), options, providers=["CPUExecutionProvider"])
    assert session.run(None, feed)[0].shape == (2, 40, 48)


def test_without_a_compiler_it_is_built_without_kernels(tmp_path):
    pytest.importorskip("setuptools", minversion="77")
    build = "from setuptools import setup; setup()"
    folders = ["--build-lib", str(tmp_path / "lib"), "--build-temp", str(tmp_path / "temp")]
    done = subprocess.run(
        [sys.executable, "-c", build, "--quiet", "build_ext", *folders],
        env={**os.environ, "CC": "no-compiler", "CXX": "no-compiler"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.rglob("*.so")) == []


SUMS = CODES.astype(np.int32)
ENDS = 3 * [np.uint8(0)]
SCALE = [np.ones(1, np.int32), np.full(1, 9, np.int32)]
SINGLE = [*map(np.int32, (1 << 20, 22))]
PICTURE = CODES.reshape(1, 1, 8, 8)
WINDOW = {"channels": 1, "kernel_shape": [2, 2], "rounding": "half_up"}
PLACES = [np.ones((2, 17), np.int32)] * 2
SIZES = {"dims": 2, "x_sizes": [1, 8, 8], "y_sizes": [1, 8, 8], "rounding": "half_up"}
EXPONENTIAL = {"axis": -1, "x0": -5, "fraction_bits": 15, "output_bits": 8}
EXPONENTIAL |= {"rounding": "half_up"}

MALFORMED = {
    "multipliers of other channels": (
        "Requantize",
        [SUMS, np.ones(3, np.int32), np.full(3, 9, np.int32), *ENDS],
        {"axis": -1, "rounding": "half_up"},
    ),
    "sums of codes": ("Requantize", [CODES, *SCALE, *ENDS], {"axis": -1, "rounding": "ruy"}),
    "a negative shift": (
        "Requantize",
        [SUMS, SCALE[0], np.full(1, -1, np.int32), *ENDS],
        {"axis": -1, "rounding": "half_up"},
    ),
    "a left shift of 40": (
        "IntRescaledAdd",
        [CODES, np.uint8(0), CODES, np.uint8(0), np.int32(40), *3 * SINGLE, *ENDS],
        {"rounding": "half_up"},
    ),
    "an operand of another type than its zero point": (
        "IntRescaledSub",
        [CODES, np.int8(0), CODES, np.uint8(0), np.int32(0), *3 * SINGLE, *ENDS],
        {"rounding": "half_up"},
    ),
    "slopes that make x larger": (
        "IntPRelu",
        [CODES, np.uint8(0), *SINGLE, *(np.full((2, 1, 8), 9, np.int32) for _ in "ms"), *ENDS],
        {"rounding": "half_up"},
    ),
    "slopes of floats": (
        "IntCodedPRelu",
        [CODES, np.uint8(0), *SINGLE, np.float32(1), *SINGLE, *ENDS],
        {"rounding": "half_up"},
    ),
    "a window of another number of axes": (
        "IntAveragePool",
        [PICTURE, np.uint8(0), *SCALE, *ENDS],
        {**WINDOW, "kernel_shape": [2, 2, 2]},
    ),
    "a stride of zero": (
        "IntAveragePool",
        [PICTURE, np.uint8(0), *SCALE, *ENDS],
        {**WINDOW, "strides": [0, 1]},
    ),
    "pads of one axis": (
        "IntAveragePool",
        [PICTURE, np.uint8(0), *SCALE, *ENDS],
        {**WINDOW, "pads": [1, 1]},
    ),
    "a window of very many cells": (
        "IntAveragePool",
        [PICTURE, np.uint8(0), *SCALE, *ENDS],
        {**WINDOW, "kernel_shape": [1 << 30, 1 << 30]},
    ),
    "channels that are last but not said to be": (
        "IntAveragePool",
        [PICTURE.reshape(1, 8, 8, 1), np.uint8(0), *SCALE, *ENDS],
        WINDOW,
    ),
    "pads that are not counted of one axis": (
        "IntCountedAveragePool",
        [PICTURE, np.uint8(0), *SINGLE, *ENDS],
        {**WINDOW, "uncounted_pads": [1, 1]},
    ),
    "the largest of bytes": ("IntMaxPool", [PICTURE], {"kernel_shape": [2, 2]}),
    "the largest of no axis": (
        "IntMaxPool",
        [CODES.astype(np.int16)],
        {"kernel_shape": [2, 2]},
    ),
    "padding of some axes": (
        "IntPad",
        [CODES.astype(np.int16), np.int16(0)],
        {"pads": [1, 1], "mode": "constant"},
    ),
    "padding with codes that x has not": (
        "IntPad",
        [CODES.astype(np.int16), np.int16(0)],
        {"pads": [8, 0, 0, 0], "mode": "reflect"},
    ),
    "padding that takes away": (
        "IntPad",
        [CODES.astype(np.int16), np.int16(0)],
        {"pads": [0, -1, 0, 0], "mode": "constant"},
    ),
    "padding that fills memory": (
        "IntPad",
        [CODES.astype(np.int16), np.int16(0)],
        {"pads": [1 << 31, 0, 0, 0], "mode": "constant"},
    ),
    "a picture of another size": (
        "IntGlobalAveragePool",
        [PICTURE, np.uint8(0), *SCALE, *ENDS],
        {"channels": 1, "spatial_shape": [8, 9], "rounding": "half_up"},
    ),
    "places that x has not": (
        "IntResize",
        [PICTURE, np.uint8(0), PLACES[0] * 8, PLACES[1], *SCALE, *ENDS],
        SIZES,
    ),
    "coefficients beyond int32": (
        "IntResize",
        [PICTURE, np.uint8(0), PLACES[0] * 0, PLACES[1] << 30, *SCALE, *ENDS],
        SIZES,
    ),
    "sizes of other places": (
        "IntResize",
        [PICTURE, np.uint8(0), PLACES[0] * 0, PLACES[1], *SCALE, *ENDS],
        {**SIZES, "y_sizes": [1, 8, 9]},
    ),
    "logarithms that are few": (
        "IntLogSoftmax",
        [
            *(CODES, np.zeros(256, np.int32), np.zeros(256, np.int64)),
            *(np.zeros(41, np.int64), np.zeros(9, np.int64), *ENDS),
        ],
        {"axis": -1, "fraction_bits": 9, "rounding": "half_up"},
    ),
    "an x0 of zero": ("Shiftmax", [CODES, *SINGLE, *ENDS], {**EXPONENTIAL, "x0": 0}),
    "exponentials below zero": (
        "IBertSoftmax",
        [CODES, np.int32(-9), np.int32(3), *SINGLE, *ENDS],
        {**EXPONENTIAL, "b": 9, "c": 100},
    ),
    "output bits beyond 16": (
        "ShiftGelu",
        [CODES, np.uint8(0), *SINGLE, *ENDS],
        {**EXPONENTIAL, "output_bits": 40},
    ),
    "a parabola that is turned": (
        "IBertGelu",
        [CODES, np.uint8(0), *SINGLE, *ENDS],
        {"b": 3, "c": -9, "one": 1, "fraction_bits": 3, "rounding": "half_up"},
    ),
    "rows of other cells": (
        "ILayerNorm",
        [
            *(CODES, np.uint8(0), np.zeros(9, np.int64)),
            *(np.zeros(9, np.int32), np.zeros(9, np.int32), *ENDS),
        ],
        {"cells": 9, "rounding": "half_up"},
    ),
    "codes of 8 bits for a table of words": ("Lut16", [CODES, np.zeros(65536, np.uint8)], {}),
    "knots that are few": (
        "LutInterpolated",
        [CODES.astype(np.int16), np.zeros(9, np.int16), np.int32(7), *ENDS],
        {"rounding": "half_up"},
    ),
    "a table that is short": ("Lut", [CODES, np.zeros(9, np.uint8)], {}),
    "tables of other channels": (
        "LutPerChannel",
        [CODES, np.zeros((3, 256), np.uint8)],
        {"axis": 1},
    ),
    "an axis that there is not": (
        "LutPerChannel",
        [CODES, np.zeros((8, 256), np.uint8)],
        {"axis": 7},
    ),
    "knots of other channels": (
        "LutInterpolatedPerChannel",
        [CODES.astype(np.int16), np.zeros((3, 513), np.int16), np.int32(7), *ENDS],
        {"axis": 1, "rounding": "half_up"},
    ),
    "knots of channels that are few": (
        "LutInterpolatedPerChannel",
        [CODES.astype(np.int16), np.zeros((8, 9), np.int16), np.int32(7), *ENDS],
        {"axis": 1, "rounding": "half_up"},
    ),
    "bytes between knots of channels": (
        "LutInterpolatedPerChannel",
        [CODES, np.zeros((8, 513), np.int16), np.int32(7), *ENDS],
        {"axis": 1, "rounding": "half_up"},
    ),
    "words in tables of channels": (
        "LutPerChannel",
        [CODES.astype(np.int16), np.zeros((8, 256), np.int16)],
        {"axis": 1},
    ),
    "a negative axis": ("LutPerChannel", [CODES, np.zeros((8, 256), np.uint8)], {"axis": -9}),
    "operands that do not broadcast": (
        "LutPair",
        [CODES, CODES[:3, :3], np.zeros(65536, np.uint8)],
        {},
    ),
    "codes that are floats": ("Lut", [CODES.astype(np.float32), np.zeros(256, np.uint8)], {}),
    "words": ("Lut", [CODES.astype(np.int16), np.zeros(256, np.uint8)], {}),
    "an empty zero point": (
        "IntRescale",
        [CODES, np.zeros(0, np.uint8), *map(np.int32, (1 << 20, 22)), *3 * [np.uint8(0)]],
        {"rounding": "half_to_even"},
    ),
    "a shift of 70": (
        "IntRescale",
        [CODES, np.uint8(0), *map(np.int32, (1 << 20, 70)), *3 * [np.uint8(0)]],
        {"rounding": "half_to_even"},
    ),
    "a rounding that there is not": (
        "IntRescale",
        [CODES, np.uint8(0), *map(np.int32, (1 << 20, 22)), *3 * [np.uint8(0)]],
        {"rounding": "up"},
    ),
    "results of another type": (
        "IntReduce",
        [CODES, np.uint8(0), *map(np.int32, (1 << 20, 22)), *3 * [np.int8(0)]],
        {"axes": [-1], "keepdims": 1, "mean": 0, "rounding": "half_to_even"},
    ),
    "a divisor beyond int64": (
        "IntReduce",
        [CODES, np.uint8(0), *map(np.int32, (1 << 20, 62)), *3 * [np.uint8(0)]],
        {"axes": [-1], "keepdims": 1, "mean": 1, "rounding": "half_to_even"},
    ),
    "weights of other rows": (
        "IntGemm",
        [
            *(
                CODES,
                np.uint8(0),
                np.zeros((3, 2), np.int8),
                np.int8(0),
                np.zeros(2, np.int32),
            ),
            *(np.ones(1, np.int32), np.full(1, 9, np.int32), *3 * [np.uint8(0)]),
        ],
        {"leading": [8], "rounding": "half_to_even"},
    ),
    "tables of Softmax that are short": (
        "TableSoftmax",
        [CODES, np.zeros(3, np.int32), np.zeros(3, np.int64), *3 * [np.uint8(0)]],
        {"axis": -1, "published": 0, "rounding": "half_to_even"},
    ),
}


def _spoiled(name, place, array):
    """A recurrent node, one of its inputs exchanged."""
    rng = np.random.default_rng(0)
    gates, make = {"IntLstm": (4, lstm), "IntGru": (3, gru), "IntRnn": (1, rnn)}[name]
    types = np.dtype(np.uint8), np.dtype(np.uint8)
    case = make(Parts(rng, gates, Sizes(3, 2, 4, 5), types), {"rounding": "half_up"})
    inputs = [*case.inputs]
    inputs[[*OPS[name].inputs].index(place)] = array
    return name, inputs, case.attributes


MALFORMED |= {
    "sequences of other inputs": _spoiled("IntLstm", "x", np.zeros((3, 2, 5), np.uint8)),
    "sequences of another type": _spoiled("IntGru", "x", np.zeros((3, 2, 4), np.int8)),
    "sequences without steps or rows": _spoiled("IntRnn", "x", np.zeros(4, np.uint8)),
    "lengths of other sequences": _spoiled("IntRnn", "sequence_lens", np.zeros(3, np.int32)),
    "a state of other units": _spoiled("IntRnn", "initial_h", np.zeros((1, 2, 4), np.uint8)),
    "cells of bytes": _spoiled("IntLstm", "initial_c", np.zeros((1, 2, 5), np.int8)),
    "a table of gates that is short": _spoiled("IntLstm", "f_table", np.zeros(9, np.uint16)),
    "weights of a state of other units": _spoiled("IntGru", "r", np.zeros((4, 15), np.int8)),
    "weights of gates that are not four": _spoiled("IntLstm", "w", np.zeros((4, 18), np.int8)),
    "weights of nothing": _spoiled("IntRnn", "r", np.zeros((0, 0), np.int8)),
    "one scale of two": _spoiled("IntGru", "b_multiplier", np.ones(1, np.int32)),
    "shifts of other gates": _spoiled("IntGru", "h_shift", np.ones(7, np.int32)),
    "a shift of gates of 63": _spoiled("IntLstm", "x_shift", np.full(20, 63, np.int32)),
    "peepholes of other units": _spoiled("IntLstm", "p_shift", np.ones(14, np.int32)),
    "a bias of bytes": _spoiled("IntLstm", "bias", np.ones(20, np.int8)),
    "a bias of a state of other units": _spoiled("IntGru", "r_bias", np.ones(14, np.int32)),
    "a one that is negative": _spoiled("IntGru", "one", np.int32(-1)),
    "codes of another type than y's": _spoiled("IntRnn", "f_table", np.ones(65536, np.int16)),
}


@needs_kernels
@pytest.mark.parametrize("name", MALFORMED)
def test_what_no_tool_of_ours_writes_is_an_error(name):
    op, inputs, attributes = MALFORMED[name]
    names = [f"in{place}" for place in range(len(inputs))]
    given, ends = [np.asarray(each) for each in inputs], [*OPS[op].outputs]
    made = onnx.helper.make_model(
        onnx.helper.make_graph(
            [onnx.helper.make_node(op, names, ends, domain="qpasses", **attributes)],
            "g",
            [
                onnx.helper.make_tensor_value_info(
                    each, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
                )
                for each, array in zip(names, given, strict=True)
            ],
            [onnx.ValueInfoProto(name=end) for end in ends],
        ),
        opset_imports=[
            onnx.helper.make_opsetid("", 21),
            onnx.helper.make_opsetid("qpasses", 1),
        ],
        ir_version=10,
    )
    with pytest.raises(ModelError):
        Session(made, operators=native.library()).run(
            None, dict(zip(names, given, strict=True))
        )


def test_a_file_that_is_no_model_is_a_model_error(tmp_path):
    (tmp_path / "cut.onnx").write_bytes(b"\x08\x0a\x12\xff")
    with pytest.raises(ModelError, match="onnxruntime cannot load the model"):
        qpasses.session(tmp_path / "cut.onnx")


def test_without_a_compiler_bodies_run_and_the_library_is_asked_for(attention, monkeypatch):
    monkeypatch.setattr(native_sessions, "library", lambda: None)
    place, feed = attention
    assert not qpasses.register(ort.SessionOptions())
    assert qpasses.session(place).run(None, feed)[0].shape == (2, 40, 48)
    with pytest.raises(UsageError, match=r"install a C\+\+ compiler"):
        qpasses.native_library()
