"""Bad input through the real command line: the exit code, one clear line, nothing written."""

import json
import os

import numpy as np
import pytest

from tests.support.commands import MODEL, USAGE, run, run_in_a_process
from tests.support.small_models import (
    cnn,
    cnn_weights,
    convolutions_around,
    model,
    numbers,
    one_conv,
    pictures,
    save,
    session,
)
from tests.support.thoroughness import slow


def files_in(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class Bench:
    """A folder with a sound model, sound samples and places for the output."""

    def __init__(self, folder):
        self.folder = folder
        self.model = save(folder, "cnn.onnx", cnn())
        self.data = save(folder, "data.npy", pictures())
        self.output = folder / "out.onnx"
        self.report = folder / "out.json"

    def quantize(self, *, model=None, data=None, options=(), runner=run):
        """Run ``qpasses quantize``; models and samples may be paths or what goes into them."""
        model = self._path("bad.onnx", model, self.model)
        data = self._path("bad.npz" if isinstance(data, dict) else "bad.npy", data, self.data)
        written = "-o", self.output, "--json", self.report
        return runner("quantize", model, "--data", data, *written, *options)

    def refusal(self, code, **command):
        """The message of a command that fails: first with no older output, then with one."""
        for older in (False, True):
            if older:
                self.output.write_bytes(b"an older model")
                self.report.write_bytes(b"an older report")
            self.quantize(**command, runner=lambda *_: None)  # saves model and samples
            before = files_in(self.folder)
            ended = self.quantize(**command)
            assert ended.code == code, ended.err
            assert files_in(self.folder) == before
        return ended.err.strip()

    def _path(self, name, content, default):
        if content is None:
            return default
        return content if hasattr(content, "is_file") else save(self.folder, name, content)


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


def assert_one_line(message, *culprits):
    assert message.startswith("error: ")
    assert len(message.splitlines()) == 1
    for culprit in culprits:
        assert str(culprit) in message


# Samples


def test_missing_data_is_a_usage_error(bench):
    ended = run("quantize", bench.model, "-o", bench.output)
    assert ended.code == USAGE
    assert "--data" in ended.err
    assert not bench.output.exists()


def test_an_empty_folder_is_named(bench):
    folder = bench.folder / "empty"
    folder.mkdir()
    assert_one_line(bench.refusal(USAGE, data=folder), folder, ".npy")


def test_a_path_that_is_absent_is_named(bench):
    absent = bench.folder / "absent"
    assert_one_line(bench.refusal(USAGE, data=absent), absent, "no such file")


def test_a_file_that_holds_no_samples_by_its_name_is_refused(bench):
    assert_one_line(bench.refusal(USAGE, data=bench.model), bench.model, ".npy")


def with_nan(value=np.nan):
    data = pictures()
    data[5, 0, 3, 3] = value
    return data


BAD_SAMPLES = {
    "zero samples": (pictures(0), ["bad.npy", "no samples"]),
    "no arrays": ({}, ["bad.npz", "'x'"]),
    "wrong input names": (
        {"image": pictures(), "z": pictures()},
        ["bad.npz", "'image'", "'x'", "--inputs x=image"],
    ),
    "wrong size": (pictures()[..., :7], ["bad.npy[0]", "'x'", "[1, 1, 8, 7]", "8, 8]"]),
    "wrong rank": (pictures()[0, 0], ["bad.npy", "'x'", "[8, 8]", "8, 8]"]),
    "float64": (pictures().astype(np.float64), ["bad.npy[0]", "'x'", "float64", "float32"]),
    "uint8": (pictures().astype(np.uint8), ["bad.npy[0]", "'x'", "uint8", "float32"]),
    "NaN": (with_nan(), ["bad.npy[5]", "'x'", "NaN"]),
    "infinity": (with_nan(-np.inf), ["bad.npy[5]", "'x'", "infinite"]),
    "text": (b"these are no numbers", ["bad.npy", "cannot be read"]),
    "empty file": (b"", ["bad.npy", "cannot be read"]),
    "objects": (np.array([{}, []], dtype=object), ["bad.npy", "cannot be read"]),
}


@pytest.mark.parametrize("name", BAD_SAMPLES)
def test_samples_that_do_not_fit_are_refused_and_named(bench, name):
    data, culprits = BAD_SAMPLES[name]
    assert_one_line(bench.refusal(USAGE, data=data), *culprits)


def test_a_broken_file_in_a_folder_is_named(bench):
    folder = bench.folder / "samples"
    folder.mkdir()
    for i in range(3):
        save(folder, f"{i}.npy", pictures(1))
    whole = (folder / "2.npy").read_bytes()
    broken = save(folder, "2.npy", whole[: len(whole) // 2])
    assert_one_line(bench.refusal(USAGE, data=folder), broken, "cannot be read")


@pytest.mark.parametrize("sample", [0, 5])
@pytest.mark.parametrize("opset", [17, 21])
def test_a_sample_on_which_the_float_model_overflows_is_named_with_the_tensor(
    bench, sample, opset
):
    data = pictures()
    data[sample] *= np.float32(5e37)
    made = one_conv(numbers(4, 1, 3, 3), numbers(4), opset=opset)
    message = bench.refusal(USAGE, model=made, data=data)
    assert_one_line(message, f"bad.npy[{sample}]", "'y'", "infinite")


def test_an_output_that_overflows_in_the_float_part_is_refused_or_reported(bench):
    made = one_conv(numbers(4, 1, 3, 3), numbers(4), after="y = Exp (c)")
    data = pictures()
    data[5] *= 1000
    ended = bench.quantize(model=made, data=data)
    if ended.code == 0:
        json.loads(bench.report.read_text(), parse_constant=pytest.fail)
    else:
        assert ended.code == USAGE
        assert_one_line(ended.err.strip(), "bad.npy[5]", "'y'")


# Models


def test_a_model_that_is_absent_is_named(bench):
    absent = bench.folder / "absent.onnx"
    assert_one_line(bench.refusal(USAGE, model=absent), absent, "no such file")


def test_a_model_truncated_anywhere_is_refused(bench):
    whole = bench.model.read_bytes()
    path = bench.folder / "bad.onnx"
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        ended = bench.quantize(model=path)
        assert ended.code == MODEL, length
        assert_one_line(ended.err.strip(), path)
    assert not bench.output.exists()


def loose_end():
    made = cnn()
    made.graph.node[2].input[0] = "nowhere"
    return made


BAD_MODELS = {
    "text": (b"this is no model", ["bad.onnx", "not a valid ONNX model"]),
    "samples": (pictures(2).tobytes(), ["bad.onnx", "not a valid ONNX model"]),
    "no nodes": (
        model("g (float[N, 1, 8, 8] x) => (float[N, 1, 8, 8] x) {}"),
        ["bad.onnx", "no nodes"],
    ),
    "a node reads what nothing writes": (loose_end(), ["bad.onnx", "nowhere"]),
    "unknown standard op": (
        convolutions_around("Twist"),
        ["bad.onnx", "Twist"],
    ),
    "op of a domain onnxruntime does not have": (
        convolutions_around("mine.Twist", domains=["mine"]),
        ["Twist"],
    ),
    "opset newer than onnx": (cnn(opset=99, ir_version=10), ["99"]),
    "NaN in an initializer": (cnn(b1=np.float32([1, 2, np.nan, 4])), ["bad.onnx", "'b1'"]),
    "infinity in the weights of a Gemm": (
        cnn(w2=np.full((4, 3), np.inf, np.float32)),
        ["'w2'"],
    ),
    "NaN in a Constant": (
        one_conv(
            numbers(4, 1, 3, 3),
            numbers(4),
            after="""offset = Constant <value = float {nan}> ()
                     y = Add (c, offset)""",
        ),
        ["'offset'", "NaN"],
    ),
    "NaN in float16": (
        model(
            "g (float16[N, 4] x) => (float16[N, 3] y) { y = MatMul (x, w) }",
            w=np.full((4, 3), np.nan, np.float16),
        ),
        ["'w'", "NaN"],
    ),
}


@pytest.mark.parametrize("name", BAD_MODELS)
def test_a_model_that_cannot_be_treated_is_refused_and_the_reason_named(bench, name):
    bad, culprits = BAD_MODELS[name]
    assert_one_line(bench.refusal(MODEL, model=bad), *culprits)


BOTH_WAYS = """g (float[N, 1, 8, 8] x) => (float[N, 1, 8, 8] y) {
    q = QuantizeLinear (x, scale, zero)
    y = DequantizeLinear (q, scale, zero)
}"""

UNSAID = {
    "a scale of zero": (BOTH_WAYS, {"scale": np.float32(0)}, ["scale", "0"]),
    "a negative scale": (BOTH_WAYS, {"scale": np.float32(-1)}, ["scale", "-1"]),
    "a scale that is NaN": (BOTH_WAYS, {"scale": np.float32("nan")}, ["scale", "NaN"]),
    "an infinite scale": (BOTH_WAYS, {"scale": np.float32("inf")}, ["scale", "inf"]),
    "zero points of another type": (BOTH_WAYS, {"zero": np.int32(3)}, ["zero", "int32"]),
}


@pytest.mark.parametrize("name", UNSAID)
def test_a_quantized_model_with_scales_that_are_none_is_refused(bench, name):
    text, changed, culprits = UNSAID[name]
    constants = {"scale": np.float32(0.1), "zero": np.uint8(3)} | changed
    message = bench.refusal(MODEL, model=model(text, **constants))
    assert_one_line(message, "bad.onnx", *culprits)


def test_an_output_of_this_tool_is_not_quantized_again(bench):
    assert bench.quantize().code == 0
    integer = bench.output.rename(bench.folder / "integer.onnx")
    message = bench.refusal(MODEL, model=integer)
    assert_one_line(message, integer, "already", "made from")


# Options and outputs


@pytest.mark.parametrize(
    ("option", "value"),
    [("--bodies", "foo"), ("--samples", "0"), ("--samples", "-3"), ("--samples", "many")],
)
def test_an_option_value_that_is_unknown_is_a_usage_error(bench, option, value):
    message = bench.refusal(USAGE, options=[option, value])
    assert option in message
    assert value in message


def test_an_option_that_is_unknown_is_a_usage_error(bench):
    assert "--colour" in bench.refusal(USAGE, options=["--colour", "red"])


def test_a_target_that_is_unknown_is_a_usage_error_that_lists_the_known_ones(bench):
    message = bench.refusal(USAGE, options=["--target", "nope"])
    assert_one_line(message, "'nope'", "onnx")


@pytest.mark.parametrize("option", ["-o", "--json"])
def test_an_output_in_a_folder_that_is_absent_is_a_usage_error(bench, option):
    path = bench.folder / "absent" / "file"
    assert_one_line(bench.refusal(USAGE, options=[option, path]), path, "folder")


@pytest.mark.parametrize("option", ["-o", "--json"])
def test_an_output_that_is_a_folder_is_a_usage_error(bench, option):
    folder = bench.folder / "taken"
    folder.mkdir()
    assert_one_line(bench.refusal(USAGE, options=[option, folder]), folder, "folder")


@pytest.mark.parametrize("option", ["-o", "--json"])
def test_an_output_that_is_no_regular_file_is_a_usage_error(bench, option):
    pipe = bench.folder / "pipe"  # stands for /dev/null, which must not become a file
    os.mkfifo(pipe)
    assert_one_line(bench.refusal(USAGE, options=[option, pipe]), pipe)
    assert pipe.is_fifo()


@pytest.mark.parametrize("option", ["-o", "--json"])
@pytest.mark.parametrize("taken", ["model", "data"])
def test_an_input_is_never_written_to(bench, option, taken):
    path = getattr(bench, taken)
    assert_one_line(bench.refusal(USAGE, options=[option, path]), path)


def test_model_and_report_cannot_go_to_one_file(bench):
    assert_one_line(bench.refusal(USAGE, options=["--json", bench.output]), bench.output)


# What stays in float


def assert_runs_beside(bench, made, data):
    """The written model gives the float model's outputs, up to quantization."""
    ours, theirs = session(bench.output), session(made)
    feed = {"x": data}
    for found, expected in zip(ours.run(None, feed), theirs.run(None, feed), strict=True):
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        if expected.dtype.kind == "f":
            atol = 0.05 * np.abs(expected).max()
            np.testing.assert_allclose(found, expected, rtol=0, atol=atol)


UNKNOWN_OPS = {
    "LRN": ("LRN <size = 3>", {}),
    "SampleOp": ("com.microsoft.SampleOp", {"domains": ["com.microsoft"]}),
}


@pytest.mark.parametrize("op", UNKNOWN_OPS)
def test_an_op_the_toolkit_does_not_know_stays_float_and_its_neighbours_do_not(bench, op):
    operator, options = UNKNOWN_OPS[op]
    made = convolutions_around(operator, **options)
    ended = bench.quantize(model=made)
    assert ended.code == 0, ended.err
    report = json.loads(bench.report.read_text())
    (left,) = report["summary"]["float_nodes"]
    assert (left["name"], left["op_type"]) == ("middle", op)
    assert op in left["reason"]
    assert "middle" in ended.out
    assert report["summary"]["integer_only"] is False
    evidence = {node["name"]: node for node in report["evidence"]["nodes"]}
    assert evidence.keys() == {"first", "last"}
    for node in evidence.values():
        found = node["op"], node["kind"], node["mismatches"]
        assert found == ("IntConv", "thresholds", 0)
    assert_runs_beside(bench, made, pictures())


def test_a_model_of_unknown_ops_alone_is_incomplete(bench):
    text = """g (float[N, 1, 8, 8] x) => (float[N, 1, 8, 8] y) {
        [one] a = LRN <size = 3> (x)
        [two] y = Sin (a)
    }"""
    ended = bench.quantize(model=model(text))
    assert ended.code == 0
    summary = json.loads(bench.report.read_text())["summary"]
    assert summary["verdict"] == "incomplete"
    assert summary["integer_only"] is False
    assert summary["integer_node_share"] == summary["integer_mac_share"] == 0
    assert [node["name"] for node in summary["float_nodes"]] == ["one", "two"]
    assert "incomplete" in ended.out


def test_an_op_without_a_computing_neighbour_stays_float_for_that_reason(bench):
    text = """g (float[N, 1, 8, 8] x) => (float[N, 1, 8, 8] y) {
        n = LRN <size = 3> (x) [alone] y = Relu (n)
    }"""
    assert bench.quantize(model=model(text)).code == 0
    left = json.loads(bench.report.read_text())["summary"]["float_nodes"][-1]
    assert left["name"] == "alone"
    assert "no integer form" not in left["reason"]


SOUND_BUT_UNUSUAL = {
    "tensors are called as the toolkit's own": """
        g (float[N, 1, 8, 8] x) => (float[N, 4, 8, 8] y, float[N, 1, 8, 8] z) {
            y = Conv <pads = [1, 1, 1, 1]> (x, w1, b1)
            x_quantized = LRN <size = 3> (x)
            z = LRN <size = 3> (x_quantized)
        }""",
    "a tensor is called as a shared constant": """
        g (float[N, 1, 8, 8] x) => (float[N, 4, 8, 8] y, float[N, 1, 8, 8] z) {
            y = Conv <pads = [1, 1, 1, 1]> (x, w1, b1)
            int8_0 = LRN <size = 3> (x)
            z = LRN <size = 3> (int8_0)
        }""",
    "a node is called as the toolkit's own": """
        g (float[N, 1, 8, 8] x) => (float[N, 4, 8, 8] y) {
            [x_quantize] y = Conv <pads = [1, 1, 1, 1]> (x, w1, b1)
        }""",
    "MaxPool gives its indices": """
        g (float[N, 1, 8, 8] x) => (float[N, 4, 4, 4] y, int64[N, 4, 4, 4] i) {
            a = Conv <pads = [1, 1, 1, 1]> (x, w1, b1)
            y, i = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (a)
        }""",
    "Gemm adds a column": """
        g (float[4, 1, 8, 8] x) => (float[4, 3] y) {
            a = Conv <pads = [1, 1, 1, 1]> (x, w1, b1)
            p = GlobalAveragePool (a)
            f = Flatten (p)
            y = Gemm (f, w2, column)
        }""",
    "Clip has no upper end": """
        g (float[N, 1, 8, 8] x) => (float[N, 4, 8, 8] y) {
            a = Conv <pads = [1, 1, 1, 1]> (x, w1, b1)
            y = Clip (a, zero, infinity)
        }""",
}


@pytest.mark.parametrize("name", SOUND_BUT_UNUSUAL)
def test_a_sound_model_is_quantized_although(bench, name):
    ends = {"zero": np.float32(0), "infinity": np.float32(np.inf)}
    weights = cnn_weights() | {"column": numbers(4, 1)} | ends
    text = SOUND_BUT_UNUSUAL[name]
    made = model(text, **{key: value for key, value in weights.items() if key in text})
    ended = bench.quantize(model=made, data=pictures(4))
    assert ended.code == 0, ended.err
    assert_runs_beside(bench, made, pictures(4))


TWICE = """
<domain: "mine", opset_import: ["" : 17]>
Twice (x) => (y) { y = Add (x, x) }"""

MATMUL = "g ({0}[N, 4] x) => ({0}[N, 3] y) {{ y = MatMul (x, w) }}"

OUTSIDE_THE_CORE = {
    "float64": (
        model(MATMUL.format("double"), w=numbers(4, 3, dtype=np.float64)),
        numbers(8, 4, dtype=np.float64),
    ),
    "an IR version newer than onnxruntime": (cnn(ir_version=14), pictures()),
    "a model-local function": (
        convolutions_around("mine.Twice", domains=["mine"], functions=TWICE),
        pictures(),
    ),
    "a sequence of sequences as input": (
        model(
            """g (float[N, 4] x, seq(seq(float[N, 4])) s) => (float[N, 3] y) {
                y = MatMul (x, w)
            }""",
            w=numbers(4, 3),
        ),
        numbers(8, 4),
    ),
    "an output of strings": (
        model(
            """g (float[N, 1, 8, 8] x) => (float[N, 3, 6, 6] y, string[N, 3, 6, 6] s) {
                y = Conv (x, w)
                s = Cast <to = 8> (y)
            }""",
            w=numbers(3, 1, 3, 3),
        ),
        pictures(),
    ),
}


@pytest.mark.thinned
@pytest.mark.parametrize("name", OUTSIDE_THE_CORE)
def test_what_is_outside_the_core_ends_in_a_model_or_in_one_line(bench, name):
    made, data = OUTSIDE_THE_CORE[name]
    ended = bench.quantize(model=made, data=data)
    if ended.code == 0:
        assert_runs_beside(bench, made, data)
    else:
        assert ended.code == MODEL
        assert_one_line(ended.err.strip())
        assert not bench.output.exists()


# The process as a whole


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        ({"data": pictures(0)}, USAGE),
        slow({"data": with_nan()}, USAGE),
        ({"model": b"this is no model"}, MODEL),
    ],
    ids=["no samples", "NaN", "no model"],
)
def test_a_process_ends_with_the_code_and_one_line_alone(bench, bad, code):
    ended = bench.quantize(**bad, runner=run_in_a_process)
    assert ended.code == code
    assert_one_line(ended.err.strip())
    assert "Traceback" not in ended.out + ended.err
    assert not bench.output.exists()


def test_a_process_that_succeeds_says_nothing_on_standard_error(bench):
    ended = bench.quantize(runner=run_in_a_process)
    assert (ended.code, ended.err.strip()) == (0, "")
    assert bench.output.exists()
    assert bench.report.exists()
