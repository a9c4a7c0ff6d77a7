"""qpasses opt: passes alone, on models and texts; its mistakes end in one line."""

import onnx
import pytest

from qpasses.report.text import whole_text
from tests.support.commands import MODEL, USAGE, assert_refused, run
from tests.support.small_models import model, numbers, save

HEADER = '<ir_version: 10, opset_import: ["" : 21]>\n'

SUMS = HEADER + (
    "sums (float[2] x) => (float[2] y)\n{\n"
    "   [total] t = Sum (x, x, x)\n   [same] y = Identity (t)\n}\n"
)

ADDED = """<ir_version: 10, opset_import: ["" : 21]>
sums (float[2] x) => (float[2] y)
<
   float[] y_partial_1
>
{
   [total_1] y_partial_1 = Add (x, x)
   [total] y = Add (y_partial_1, x)
}
"""


def text_file(folder, content):
    return save(folder, "graph.txt", content.encode())


def test_passes_run_in_the_given_order(tmp_path):
    graph = text_file(tmp_path, SUMS)
    ended = run("opt", graph, "-p", "remove-identity", "-p", "sum-to-add")
    assert (ended.code, ended.out, ended.err) == (0, ADDED, "")
    turned = run("opt", graph, "-p", "sum-to-add", "-p", "remove-identity").out
    assert turned == ADDED.replace("y_partial", "t_partial")


def test_a_model_is_read_and_written(tmp_path):
    made = model("g (float[2, 4] x) => (float[2, 3] y) { y = MatMul (x, w) }", w=numbers(4, 3))
    given, output = save(tmp_path, "float.onnx", made), tmp_path / "out.onnx"
    ended = run("opt", given, "-p", "canonicalize-gemm", "-o", output)
    assert (ended.code, ended.out, ended.err) == (0, "", "")
    found = onnx.load(output)
    onnx.checker.check_model(found, full_check=True)
    assert [node.op_type for node in found.graph.node] == ["Gemm"]
    assert run("opt", given, "-p", "canonicalize-gemm").out == whole_text(found)


def test_a_written_text_is_read_again_with_all_its_numbers(tmp_path):
    made = model(
        "g (float[2, 300] x) => (float[2, 300] y) { y = MatMul (x, w) }", w=numbers(300, 300)
    )
    given, output = save(tmp_path, "float.onnx", made), tmp_path / "out.txt"
    assert run("opt", given, "-p", "canonicalize-gemm", "-o", output).code == 0
    assert "{90000 numbers, " in run("opt", output, "-p", "sum-to-add").out
    model_file = tmp_path / "again.onnx"
    assert run("opt", output, "-p", "sum-to-add", "-o", model_file).code == 0
    (weights,) = onnx.load(model_file).graph.initializer
    assert onnx.numpy_helper.to_array(weights).shape == (300, 300)


def test_functions_are_inlined(tmp_path):
    text = (
        '<ir_version: 10, opset_import: ["" : 21, "own" : 1]>\n'
        "g (float[2] x) => (float[2] y) { y = own.Twice (x) }\n"
        '<domain: "own", opset_import: ["" : 21]> Twice (a) => (b) { b = Sum (a, a) }'
    )
    assert "y = Add (x, x)" in run("opt", text_file(tmp_path, text), "-p", "sum-to-add").out


DECLINED = HEADER + (
    "g (float[2] x) => (float[2] y)\n"
    "<float half = {0.5}, bool yes = {1}>\n"
    "{ a = Abs (x) [drop] y = Dropout (a, half, yes) }"
)
REASON = "# declined: drop: Dropout in training mode: export the model for inference\n"


def test_what_is_declined_is_said_and_is_no_mistake(tmp_path):
    graph, output = text_file(tmp_path, DECLINED), tmp_path / "out.onnx"
    ended = run("opt", graph, "-p", "remove-identity")
    assert ended.code == 0 and ended.out.endswith("}\n" + REASON)
    ended = run("opt", graph, "-p", "remove-identity", "-o", output)
    assert (ended.code, ended.out) == (0, REASON)
    assert output.exists()


MEAN = (
    "g (float[1, 2, 4, 4] x) => (float[1, 2, 1, 1] y) <int64[2] axes = {2, 3}>"
    "{ y = ReduceMean (x, axes) }"
)


def test_a_target_is_named_by_the_first_line_or_by_the_option(tmp_path):
    plain, named = HEADER + MEAN, f"# target: tflite\n{HEADER}{MEAN}"
    ruled = f'# rules = {{mean = "folded"}}\n{HEADER}{MEAN}'
    asked = "-p", "mean-to-pool"
    reason = "# declined: ReduceMean: ReduceMean is no pool to target "
    assert "GlobalAveragePool" in run("opt", text_file(tmp_path, plain), *asked).out
    ruled_out = run("opt", text_file(tmp_path, ruled), *asked).out
    assert ruled_out.endswith(f"{reason}'golden'\n")
    graph = text_file(tmp_path, named)
    assert run("opt", graph, *asked).out.endswith(f"{reason}'tflm'\n")
    assert "GlobalAveragePool" in run("opt", graph, *asked, "--target", "onnx").out


MISTAKES = {
    "no pass": ([], SUMS, USAGE, "--pass"),
    "an unknown pass": (["-p", "sum-to-ad"], SUMS, USAGE, "did you mean 'sum-to-add'?"),
    "what is no pass of its own": (["-p", "place"], SUMS, USAGE, "'place' needs ranges"),
    "an unknown target": (["-p", "sum-to-add", "--target", "a"], SUMS, USAGE, "target 'a'"),
    "a target that the text names": (
        ["-p", "sum-to-add"],
        "# target: tflit\n" + SUMS,
        USAGE,
        "unknown target 'tflit'",
    ),
    "rules that are no TOML": (["-p", "sum-to-add"], "# rules = {\n" + SUMS, MODEL, "line 1"),
    "rules that are no table": (["-p", "sum-to-add"], "# rules = 5\n" + SUMS, MODEL, "line 1"),
    "an unknown rule": (
        ["-p", "sum-to-add"],
        "# rules = {tablets = false}\n" + SUMS,
        MODEL,
        "unknown rule 'tablets'",
    ),
    "an empty text": (["-p", "sum-to-add"], "", MODEL, "line 1, column 1"),
    "a text that stops": (["-p", "sum-to-add"], SUMS[:-3], MODEL, "line 5, column 27"),
    "no such op": (["-p", "sum-to-add"], SUMS.replace("Sum ", "Sums "), MODEL, "Sums"),
    "no such domain": (["-p", "sum-to-add"], SUMS.replace("Sum ", "a.Sum "), MODEL, "domain"),
    "nothing written": (["-p", "sum-to-add"], SUMS.replace("Sum (x", "Sum (z"), MODEL, "'z'"),
    "bytes": (["-p", "sum-to-add"], b"\xff\xfe\x00", MODEL, "is no text"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_line_that_names_it(tmp_path, name):
    options, content, code, culprit = MISTAKES[name]
    content = content if isinstance(content, bytes) else content.encode()
    graph, output = save(tmp_path, "graph.txt", content), tmp_path / "out.onnx"
    assert_refused(run("opt", graph, *options, "-o", output), code, culprit)
    assert not output.exists()


def test_files_that_are_none_or_are_in_the_way_are_refused(tmp_path):
    graph, asked = text_file(tmp_path, SUMS), ["-p", "sum-to-add"]
    assert_refused(run("opt", tmp_path / "none.txt", *asked), USAGE, "no such file")
    assert_refused(run("opt", tmp_path / "none.onnx", *asked), USAGE, "no such file")
    assert_refused(run("opt", tmp_path, *asked), USAGE, "is a directory")
    assert_refused(run("opt", graph, *asked, "-o", graph), USAGE, "is an input")
    assert_refused(run("opt", graph, *asked, "-o", tmp_path / "a" / "b"), USAGE, "folder")
    broken = save(tmp_path, "broken.onnx", b"\x00\x01")
    assert_refused(run("opt", broken, *asked), MODEL, "broken.onnx")
    assert graph.read_text("utf-8") == SUMS
