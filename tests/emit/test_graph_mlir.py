"""Graphs as MLIR: programs that we did not write parse the text, and read the same numbers."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from qpasses.checking.beside.tosa_tools import program
from qpasses.emit import mlir
from qpasses.emit.graph_mlir import graph_as_mlir
from qpasses.pipeline import pass_table
from tests.bench.onnx_backend_cases import cases
from tests.support.commands import USAGE, Desk, assert_refused, run
from tests.support.small_models import DIGITS, cnn, model, numbers, pictures, save
from tests.support.thoroughness import only_thorough

PATH = Path(sys.executable).parent
TOOLS = [
    found
    for name in ("tosa-opt", "iree-opt")
    if (found := shutil.which(name, path=PATH) or shutil.which(name))
]


@pytest.fixture(params=TOOLS or [None], ids=lambda tool: tool and Path(tool).name)
def parsed(request):
    """What a program that knows no ONNX prints of a text it has read, in generic form."""
    if request.param is None:
        pytest.skip("no tosa-opt: pip install --no-deps tosa-tools, and no iree-opt")

    is_opt = Path(request.param).name == "tosa-opt"
    tool = program("tosa-opt") if is_opt else request.param

    def parse(text):
        options = "--allow-unregistered-dialect", "--mlir-print-op-generic"
        command = [tool, *options, "--mlir-print-debuginfo", "-"]
        ended = subprocess.run(command, input=text.encode(), capture_output=True, check=False)
        assert ended.returncode == 0, ended.stderr.decode()
        return ended.stdout.decode()

    return parse


SMALL = """
"a graph" (float[N, 3] x, bool c) => (float[M, 3] "y:0", int64 "größe")
<int64 "größe" = {2}>
{
    ["the \\"least\\""] r = Clip (x, , most)
    ["norm/1"] "y:0" = If <
        then_branch = yes () => (float[M, 3] t) {
            t = com.microsoft.FastGelu <f = [1.0, 2.5]> (r)
        },
        else_branch = no () => (float[M, 3] t) { t = LeakyRelu <alpha = 0.1> (r) }
    > (c)
}"""


def test_the_text_is_what_is_shown(parsed):
    made = model(SMALL, most=np.float32(1.5), domains=["com.microsoft"])
    text = graph_as_mlir(made)
    assert text == (Path(__file__).parent / "graph.mlir").read_text("utf-8")
    read = parsed(text)
    assert '"onnx.Clip"(%arg0, %0, %2) : (tensor<?x3xf32>, none, tensor<f32>)' in read
    assert 'loc("the \\22least\\22")' in read


# Numbers

DTYPES = {
    "i1": np.bool_,
    "bf16": ml_dtypes.bfloat16,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "f8E8M0FNU": ml_dtypes.float8_e8m0fnu,
    "f6E2M3FN": ml_dtypes.float6_e2m3fn,
    "f4E2M1FN": ml_dtypes.float4_e2m1fn,
    "i2": ml_dtypes.int2,
    "i4": ml_dtypes.int4,
    "ui4": ml_dtypes.uint4,
    "complex<f32>": np.complex64,
    **{f"i{bits}": np.dtype(f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"ui{bits}": np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64)},
    **{f"f{bits}": np.dtype(f"float{bits}") for bits in (16, 32, 64)},
}
"""What MLIR's types of elements are to numpy."""

DENSE = re.compile(r"value = dense<(.*?)> : tensor<((?:\d+x)*)([^!>]+>?|!onnx.String)>\}")
PARTS = re.compile(r'"(?:\\.|[^"\\])*"|[-\w.+]+')


def constants(text):
    """The arrays of all onnx.Constant in a text, in order: ours, or what a program prints."""
    return [_array(*found) for found in DENSE.findall(text)]


def _array(body, sizes, element):
    shape = [int(size) for size in sizes.split("x")[:-1]]
    if element == "!onnx.String":
        values = np.array([_string(part) for part in PARTS.findall(body)], object)
    elif body.startswith('"0x'):
        values = np.frombuffer(bytes.fromhex(body[3:-1]), DTYPES[element])
    else:
        element, pairs = re.subn(r"complex<(.*)>", r"\1", element)
        values = [_number(part, np.dtype(DTYPES[element])) for part in PARTS.findall(body)]
        values = np.array(values, DTYPES[element])
        values = values.view(np.complex64) if pairs else values
    is_splat = values.size == 1
    return np.full(shape, values[0], values.dtype) if is_splat else values.reshape(shape)


def _string(part):
    plain = re.sub(r"\\(\\|..)", lambda found: _character(found[1]), part[1:-1])
    return plain.encode("latin-1")


def _character(escaped):
    return escaped if escaped == "\\" else chr(int(escaped, 16))


def _number(part, dtype):
    if part.startswith("0x"):
        return np.frombuffer(bytes.fromhex(part[2:])[::-1], dtype)[0]
    if dtype.kind == "b":
        return part == "true"
    return dtype.type(float(part) if "." in part else int(part))


def assert_same(found, expected):
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        same = one == other if one.dtype == object else one.tobytes() == other.tobytes()
        assert np.all(same), (one, other)


ODD = np.array([0, -0.0, 1.5, 1 / 3, 1e-5, -3e4, np.inf, -np.inf, np.nan])
WHOLE = np.arange(-4, 8)
ARRAYS = [
    *(ODD.astype(DTYPES[each]) for each in ("f16", "bf16", "f32", "f64")),
    *(ODD.astype(DTYPES[each]) for each in ("f8E4M3FN", "f8E5M2FNUZ")),
    *(
        ODD[2:6].clip(0.25, 2).astype(DTYPES[each])
        for each in ("f4E2M1FN", "f6E2M3FN", "f8E8M0FNU")
    ),
    ODD.astype(np.complex64) * np.complex64(1 - 2j),
    *(WHOLE.astype(DTYPES[each]).reshape(3, 4) for each in ("i8", "i16", "i32", "i64", "i4")),
    *(abs(WHOLE).astype(DTYPES[each]) for each in ("ui4", "ui8", "ui16", "ui32", "ui64")),
    np.uint64([0, 2**64 - 1]),
    np.int64([-(2**63), 2**63 - 1]),
    np.array([[True, False], [False, False]]),
    *(np.zeros((2, 0, 3), dtype) for dtype in (np.float32, bool, ml_dtypes.bfloat16)),
    *(
        np.array(7, dtype)
        for dtype in (np.float32, np.int64, np.uint8, ml_dtypes.bfloat16, bool)
    ),
    np.full((3, 5), np.nan, np.float32),
    np.full(300, -0.0, np.float16),
    *(
        numbers(150, 2).astype(DTYPES[each])
        for each in ("f16", "bf16", "f32", "f64", "f8E4M3FN")
    ),
    *(numbers(150).astype(DTYPES[each]) for each in ("i8", "ui8", "i64")),
    numbers(150) > 0,
    *(np.array([*"ab", 'quote " \\', "größe", ""], object)[:count] for count in (0, 1, 5)),
]


def tensor(values):
    return numpy_helper.from_array(np.asarray(values), "t")


def with_constants(arrays, largest=None):
    made = model("g (float[2] x) => (float[2] y) { y = Relu (x) }")
    for place, values in enumerate(arrays):
        made.graph.initializer.append(numpy_helper.from_array(values, f"c{place}"))
    return graph_as_mlir(made, largest)


def stored(arrays):
    """Strings as bytes, which is what files hold."""
    return [
        np.array([text.encode() for text in each], object) if each.dtype == object else each
        for each in arrays
    ]


def test_all_numbers_stand_in_the_text_and_are_read(parsed):
    text = with_constants(ARRAYS)
    assert_same(constants(text), stored(ARRAYS))
    read = constants(parsed(text))
    assert_same(read, stored(ARRAYS))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_every_number_of_16_bits_is_written_exactly(dtype):
    values = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    found = np.array([_number(mlir.real(each), np.dtype(dtype)) for each in values])
    assert_same([found], [values])


@given(st.integers(0, 2**32 - 1))
@example(0x7F800001)
@example(0xFFC00000)
@example(0x80000001)
def test_a_number_of_32_bits_is_written_exactly(bits):
    (value,) = np.uint32([bits]).view(np.float32)
    assert _number(mlir.real(value), np.dtype(np.float32)).tobytes() == value.tobytes()


def test_large_tensors_are_elided_where_that_is_wanted(parsed):
    arrays = [numbers(4, 4), numbers(17), np.zeros(17, np.int8)]
    text = with_constants(arrays, largest=16)
    assert_same(constants(text), arrays[:1])
    assert "{value = dense_resource<__elided__> : tensor<17xf32>}" in text
    assert parsed(text).count("dense_resource<__elided__>") == 2


# Nodes

NESTED = """
nested (float[2, 1, 4] x, seq(float[2]) s, optional(float[]) o, float[] u, int64 n, bool c)
    => (float[K, 1, 3] h, float[] "1", seq(int64[]) e)
{
    [lstm] y, h = LSTM <activations = ["Sigmoid", "Tanh", "Tanh"]> (x, w, r, , , y_2)
    [loop] z, "1" = Loop <body = turn (int64 i, bool go, float[2] z)
        => (bool go_on, float[2] k, float[2] y) {
        go_on = And (go, c)
        y = Clip (z, , w)
        k = If (c) <
            then_branch = yes () => (float[2] k) { k = Neg (y) },
            else_branch = no () => (float[2] k) <float[2] w = {1, 2}> { k = Add (y, w) }
        >
    }> (n, c, x)
    e = SplitToSequence (n)
    q = ai.onnx.ml.Whatever (u, o, s, "1")
}"""
"""Bodies that read what is around them; names that are taken twice, or are none to MLIR."""


def test_bodies_are_regions_and_what_is_left_out_has_no_value(parsed):
    made = model(NESTED, w=np.float32(3), r=np.float32(4), y_2=np.float32(5))
    made.graph.node[0].output[0] = ""
    text = graph_as_mlir(made)
    for line in (
        '%none_2, %h = "onnx.LSTM"(%x, %w, %r, %none, %none, %y_2) ',
        "tensor<f32>) -> (none, tensor<?x1x3xf32>) ",
        '%z, %_1 = "onnx.Loop"(%n, %c, %x) ({\n',
        "    ^bb0(%i: tensor<i64>, %go: tensor<i1>, %z_2: tensor<2xf32>):\n",
        '%k_3 = "onnx.Add"(%y, %w_2) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>\n',
        '}) {graphs = ["body"]} : (tensor<i64>, tensor<i1>, tensor<2x1x4xf32>) -> ',
        '%e = "onnx.SplitToSequence"(%n) : (tensor<i64>) -> !onnx.Seq<tensor<*xi64>>\n',
        '"ai_onnx_ml.Whatever"(%u, %o, %s, %_1) : (tensor<*xf32>, !onnx.Opt<tensor<*xf32>>, ',
    ):
        assert line in text
    operations = re.compile(r'"(\w+\.\w+)"\(')
    assert operations.findall(parsed(text)) == operations.findall(text)


def test_a_graph_may_take_and_give_nothing(parsed):
    made = model("g () => () { y = Constant <value_floats = [1.0]> () }")
    assert "value_floats = array<f32: 1.000000e+00>" in parsed(graph_as_mlir(made))


SEQUENCE = helper.make_sequence_type_proto(
    helper.make_tensor_type_proto(TensorProto.BFLOAT16, [2, "N"])
)
OPTIONAL = helper.make_optional_type_proto(
    helper.make_tensor_type_proto(TensorProto.DOUBLE, None)
)
MAPS = helper.make_map_type_proto(
    TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.STRING, [])
)

ATTRIBUTES = {
    "a float": (0.1, "0.1 : f32"),
    "infinity": (-np.inf, "0xFF800000 : f32"),
    "no number": (np.nan, "0x7FC00000 : f32"),
    "a small float": (1e-20, "1.0e-20 : f32"),
    "a large integer": (-(2**63), "-9223372036854775808 : i64"),
    "a string": ('Tänh "\n', r'"T\C3\A4nh \22\0A"'),
    "bytes": (b"\xff\x00", r'"\FF\00"'),
    "floats": ([0.5, np.nan, np.inf], "array<f32: 0.5, 0x7FC00000, 0x7F800000>"),
    "integers": ([1, -2], "array<i64: 1, -2>"),
    "strings": (["a", 'b"'], r'["a", "b\22"]'),
    "a scalar": (tensor(np.float16(2)), "dense<2.0> : tensor<f16>"),
    "an empty tensor": (tensor(np.zeros((0, 2), np.int8)), "dense<> : tensor<0x2xi8>"),
    "tensors": ([tensor(np.uint8([1, 2]))], "[dense<[1, 2]> : tensor<2xui8>]"),
    "a type": (SEQUENCE, "!onnx.Seq<tensor<2x?xbf16>>"),
    "types": (
        [OPTIONAL, MAPS],
        "[!onnx.Opt<tensor<*xf64>>, !onnx.Map<i64, tensor<!onnx.String>>]",
    ),
}


@pytest.mark.parametrize("what", ATTRIBUTES)
def test_attributes_are_typed(parsed, what):
    value, shown = ATTRIBUTES[what]
    made = model("g (float[2] x) => (float[2] y) { y = Relu (x) }")
    node = made.graph.node[0]
    node.attribute.append(helper.make_attribute("of it", value))
    node.attribute.append(helper.make_attribute("it.2", value))
    text = graph_as_mlir(made)
    assert f'"onnx.Relu"(%x) {{"of it" = {shown}, it.2 = {shown}}} : ' in text
    assert parsed(text).count("onnx.Relu") == 1


@only_thorough
def test_every_graph_of_onnxs_own_tests_is_parsed(parsed):
    read = parsed("\n".join(graph_as_mlir(case.model) for case in cases()))
    assert read.count('"func.func"') == len(cases()) > 1_000


# On the command line


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path, cnn(), pictures())


def test_the_graphs_on_the_way_are_parsed_as_they_are_printed(desk, parsed):
    passes = [row[0] for row in pass_table()]
    options = [part for name in passes for part in ("--print-after", name)]
    ended = desk.quantize("--quiet", "--integer-io", "--format", "mlir", *options)
    assert (ended.code, ended.err) == (0, "")
    assert re.findall("// after (.*)", ended.out) == passes
    read = parsed(ended.out)
    assert read.count("func.func") == len(passes)
    assert '"qpasses.IntConv"' in read and "dense_resource<__elided__>" in read


def test_a_real_model_is_parsed_with_all_its_weights(tmp_path, parsed):
    path, output = DIGITS / "digits_cnn.onnx", tmp_path / "digits.mlir"
    assert run("opt", path, "-p", "remove-identity", "-o", output).code == 0
    text, weights = output.read_text("utf-8"), onnx.load(path).graph.initializer
    expected = sorted(numpy_helper.to_array(each).tobytes() for each in weights)
    for each in (text, parsed(text)):
        assert sorted(found.tobytes() for found in constants(each)) == expected


def test_opt_prints_mlir_without_thousands_of_numbers_and_with_what_was_declined(
    tmp_path, parsed
):
    made = model(
        "g (float[2, 50] x) => (float[2, 50] y)"
        "{ a = MatMul (x, w) [drop] y = Dropout (a, h, t) }",
        w=numbers(50, 50),
        h=np.float32(0.5),
        t=np.array(True),
    )
    path = save(tmp_path, "float.onnx", made)
    ended = run("opt", path, "-p", "remove-identity", "--format", "mlir")
    assert (ended.code, ended.err) == (0, "")
    assert "dense_resource<__elided__> : tensor<50x50xf32>" in parsed(ended.out)
    assert "\n// declined: drop: Dropout in training mode" in ended.out


def test_a_format_without_a_graph_to_print_is_a_mistake(desk, tmp_path):
    message = desk.refused("--format", "mlir")
    assert "--format mlir" in message and "--print-after PASS" in message
    assert desk.quantize("--format", "onnx").code == 0
    output = tmp_path / "out.txt"
    options = ["-p", "sum-to-add", "--format", "mlir", "-o", output]
    assert_refused(run("opt", desk.model, *options), USAGE, "--format mlir", "OUT.mlir")
    assert not output.exists()
