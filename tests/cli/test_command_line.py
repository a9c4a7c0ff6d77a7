"""The command line on sound input: what it prints, what it writes, how it ends."""

import json
import subprocess
import sys
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import helper, numpy_helper

import qpasses
from opsets.errors import ModelError, QPassesError, UsageError
from opsets.qpasses_v1 import OPS
from qpasses.cli import cli
from tests.support.small_models import DIGITS, cnn, model, numbers, pictures, save
from tests.support.thoroughness import slow

DOCS = Path(__file__).parents[2] / "docs"
FLOAT, CALIBRATION, TEST = (
    DIGITS / name for name in ("digits_cnn.onnx", "calibration.npz", "test.npz")
)

NUMBER = (int, float)
OPTIONAL_NUMBER = (int, float, type(None))

REPORT = {
    "schema": str,
    "model": {"sha256": str},
    "target": str,
    "summary": {
        "verdict": str,
        "integer_only": bool,
        "integer_node_share": NUMBER,
        "integer_mac_share": NUMBER,
        "fast_mac_share": NUMBER,
        "portable_nodes": [str],
        "accuracy": {
            "word": str,
            "sqnr_db": OPTIONAL_NUMBER,
            "agreement": OPTIONAL_NUMBER,
            "output": (str, type(None)),
        },
        "float_nodes": [{"name": str, "op_type": str, "reason": str}],
    },
    "size": {"before": OPTIONAL_NUMBER, "after": int},
    "evidence": {
        "nodes": [
            {
                "name": str,
                "op": str,
                "kind": str,
                "domain": int,
                "mismatches": int,
                "body": str,
                "reference_moved": int,
                "reference_max_lsb": int,
            }
        ]
    },
    "accuracy": {
        "outputs": [
            {
                "name": str,
                "word": str,
                "agreement": OPTIONAL_NUMBER,
                "sqnr_db": OPTIONAL_NUMBER,
                "cosine": OPTIONAL_NUMBER,
                "max_abs_error": NUMBER,
                "unlike_sizes": int,
            }
        ]
    },
}
"""What every report holds at least, with the types."""


def invoke(*arguments):
    """Run a command on a terminal wide enough for every line."""
    wide = {"COLUMNS": "300"}
    return CliRunner().invoke(cli, [*map(str, arguments)], env=wide, prog_name="qpasses")


def exit_code_of_process(*arguments):
    command = [sys.executable, "-c", "from qpasses.cli import main; main()"]
    ended = subprocess.run(
        [*command, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    return ended.returncode, ended.stderr.strip()


def read_json(path):
    """Strict JSON: no NaN, no Infinity."""
    return json.loads(path.read_text(encoding="utf-8"), parse_constant=pytest.fail)


def line_with(output, start):
    """What follows ``start`` in the first line that starts so."""
    lines = (line.strip() for line in output.splitlines())
    return next(line for line in lines if line.startswith(start)).removeprefix(start).strip()


def assert_matches(value, schema, where="report"):
    if isinstance(schema, dict):
        for key, inner in schema.items():
            assert key in value, f"{where}.{key}"
            assert_matches(value[key], inner, f"{where}.{key}")
    elif isinstance(schema, list):
        assert isinstance(value, list), where
        for i, element in enumerate(value):
            assert_matches(element, schema[0], f"{where}[{i}]")
    else:
        assert isinstance(value, schema), where
        assert schema is bool or not isinstance(value, bool), where


@pytest.fixture(scope="module")
def quantized(tmp_path_factory):
    """The digits model quantized by the command line: the run, the model, the report."""
    folder = tmp_path_factory.mktemp("digits")
    output, report = folder / "digits.int8.onnx", folder / "report.json"
    written = "-o", output, "--json", report
    return invoke("quantize", FLOAT, "--data", CALIBRATION, *written), output, report


@pytest.fixture(scope="module")
def verified(quantized, tmp_path_factory):
    """The digits model verified by the command line: the run and the report."""
    report = tmp_path_factory.mktemp("verified") / "report.json"
    options = "--data", TEST, "--samples", 25, "--json", report
    return invoke("verify", quantized[1], "--against", FLOAT, *options), report


# Starting


HELP = {
    "": ["quantize", "calibrate", "verify", "--version"],
    "quantize": ["MODEL", "--data", "-o", "--json", "--target", "--bodies", "--samples"],
    "calibrate": [
        "qpasses calibrate [OPTIONS] MODEL",
        "--shard",
        "--restart",
        "  merge",
        "  convert",
    ],
    "verify": ["INTEGER", "--against", "--data", "--json", "--samples"],
}


@pytest.mark.parametrize("command", [[], ["quantize"], ["calibrate"], ["verify"]])
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_is_given_for_every_command(command, flag):
    ended = invoke(*command, flag)
    assert ended.exit_code == 0
    for word in HELP["".join(command)]:
        assert word in ended.output


def test_the_version_is_the_packages():
    ended = invoke("--version")
    assert (ended.exit_code, ended.output) == (0, f"qpasses, version {version('qpasses')}\n")


def test_help_needs_none_of_the_heavy_libraries():
    code = """
import sys
from qpasses.cli import main
sys.argv = ["qpasses", "quantize", "--help"]
try:
    main()
except SystemExit:
    pass
print("loaded:", *({"numpy", "onnx", "onnxruntime", "onnx_graphsurgeon"} & sys.modules.keys()))
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "Usage: qpasses quantize" in ended.stdout
    assert ended.stdout.endswith("\nloaded:\n"), ended.stdout


def test_the_configuration_is_shown_before_any_work(tmp_path):
    model_file, data = tmp_path / "absent.onnx", tmp_path / "absent.npz"
    output = tmp_path / "out.onnx"
    chosen = "--bodies", "portable", "--samples", 7
    given = "quantize", model_file, "--data", data, "-o", output, *chosen
    ended = invoke(*given)
    assert isinstance(ended.exception, UsageError)
    evidence = output.with_suffix(".evidence.json")
    assert ended.output.splitlines() == [
        f"qpasses quantize {model_file}",
        f"data {data}, output {output}, samples 7, bodies portable, evidence {evidence}",
    ]
    ended = invoke(*given, "--verbose")
    assert isinstance(ended.exception, UsageError)
    title, *lines = ended.stdout.strip().splitlines()
    assert title.strip() == "qpasses quantize"
    shown = dict(line.split() for line in lines)
    assert shown["model"] == str(model_file)
    assert shown["data"] == str(data)
    assert shown["output"] == str(output)
    assert (shown["target"], shown["bodies"], shown["samples"]) == ("onnx", "portable", "7")


# quantize


def test_quantize_ends_with_0_and_the_verdict_ok(quantized):
    ended, output, _ = quantized
    assert ended.exit_code == 0
    assert output.is_file()
    assert line_with(ended.output, "verdict:").startswith("proofs ok; accuracy good (3")


def test_quantize_prints_what_its_report_says(quantized):
    ended, output, path = quantized
    report = read_json(path)
    (logits,) = report["accuracy"]["outputs"]
    before, after = FLOAT.stat().st_size, output.stat().st_size
    run = report["latency"]["nodes_run"]
    assert report["size"] == {"before": before, "after": after}
    shown = " ".join(ended.output.split())
    for line in (
        f"logits {logits['sqnr_db']:.2f} {logits['cosine']:.6f}",
        f"size {before / 1e6:.3f} MB to {after / 1e6:.3f} MB, {after / before:.0%} of it",
        f"nodes that run {run['bodies']} at most, {run['kernels']} with compiled kernels",
        "integer 100.0% of nodes, 100.0% of multiply-accumulates",
        "left in float nothing",
    ):
        assert line in shown
    assert "Evidence" not in shown


def test_verbose_adds_the_evidence_by_kind_and_how_all_came_to_be(quantized, tmp_path):
    report = read_json(quantized[2])
    output = tmp_path / "out.onnx"
    ended = invoke("quantize", FLOAT, "--data", CALIBRATION, "-o", output, "--verbose")
    shown = " ".join(ended.stdout.split())
    nodes = report["evidence"]["nodes"]
    convs = [each for each in nodes if each["op"] == "IntConv"]
    covered, moved = (sum(n[key] for n in convs) for key in ("domain", "reference_moved"))
    counts = ", ".join(f"{count} {op}" for op, count in report["summary"]["nodes"].items())
    for line in (
        f"nodes {counts}",
        "integer only yes",
        f"multiply-accumulates {report['summary']['macs']:,}, 100.0% in fast bodies",
        f"IntConv thresholds onnxruntime {len(convs)} {covered:,} 0 {moved} 1",
        "weights rounded",
        "activation-type uint8",
    ):
        assert line in shown


def test_quantize_finds_the_digits_model_integer_and_proved(quantized):
    report = read_json(quantized[2])
    summary = report["summary"]
    assert summary["verdict"] == "ok"
    assert summary["integer_only"] is True
    shares = "integer_node_share", "integer_mac_share", "fast_mac_share"
    assert [summary[share] for share in shares] == [1, 1, 1]
    assert summary["float_nodes"] == []
    assert {node["mismatches"] for node in report["evidence"]["nodes"]} == {0}
    kinds = {node["kind"] for node in report["evidence"]["nodes"]}
    assert kinds == {"thresholds", "exhaustive", "structural"}
    assert report["accuracy"]["outputs"][0]["sqnr_db"] > 30


def test_the_report_names_the_model_and_the_configuration(quantized):
    report = read_json(quantized[2])
    assert report["command"] == "quantize"
    assert report["model"]["path"] == str(FLOAT)
    assert report["model"]["nodes"] == len(onnx.load(FLOAT).graph.node)
    assert report["target"] == "onnx"
    assert report["tool"] == {"name": "qpasses", "version": version("qpasses")}
    assert report["samples"]["calibration"] == len(np.load(CALIBRATION)["image"])


@pytest.mark.parametrize("which", ["quantized", "verified"])
def test_a_report_has_every_promised_field_in_strict_json(which, request):
    report = read_json(request.getfixturevalue(which)[-1])
    assert_matches(report, REPORT)
    assert report["evidence"]["nodes"]
    assert report["accuracy"]["outputs"]
    assert len(report["model"]["sha256"]) == 64


def test_a_report_of_a_model_with_float_nodes_has_their_fields(tmp_path):
    text = """g (float[N, 4] x) => (float[N, 1] y) {
        a = MatMul (x, w) y = ReduceProd <axes = [1]> (a)
    }"""
    made = save(tmp_path, "m.onnx", model(text, w=numbers(4, 3)))
    data, report = save(tmp_path, "d.npy", numbers(8, 4)), tmp_path / "r.json"
    ended = invoke(
        "quantize", made, "--data", data, "-o", tmp_path / "o.onnx", "--json", report
    )
    found = read_json(report)
    assert_matches(found, REPORT)
    (product,) = found["summary"]["float_nodes"]
    assert product["op_type"] == "ReduceProd"
    shown = line_with(ended.output, "left in float: 1 ReduceProd")
    assert shown == f"{product['name']}: {product['reason']}"


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory):
    """The digits model calibrated by the command line: the run and the report."""
    folder = tmp_path_factory.mktemp("calibrated")
    written = "-o", folder / "table.json", "--json", folder / "report.json"
    return invoke("calibrate", FLOAT, "--data", CALIBRATION, *written), folder / "report.json"


@pytest.mark.parametrize("which", ["quantized", "calibrated", "verified"])
def test_every_key_of_a_report_is_described_in_the_docs(which, request):
    described = (DOCS / "report.md").read_text(encoding="utf-8")

    def keys(value):
        if isinstance(value, dict):
            for key, inner in value.items():
                yield key
                yield from keys(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from keys(inner)

    report = read_json(request.getfixturevalue(which)[-1])
    report.get("summary", {}).pop("nodes", {})  # its keys are the names of ops
    report.get("latency", {}).update(kernels={}, bodies={})  # and theirs
    assert [key for key in dict.fromkeys(keys(report)) if key not in described] == []


def test_samples_limits_how_many_calibrate(tmp_path):
    report = tmp_path / "r.json"
    written = "-o", tmp_path / "o.onnx", "--json", report
    ended = invoke("quantize", FLOAT, "--data", CALIBRATION, *written, "--samples", 5)
    assert ended.exit_code == 0
    assert read_json(report)["samples"] | {"source": ""} == {
        "source": "",
        "preprocessing": None,
        "calibration": 5,
        "skipped": [],
        "accuracy": 5,
    }


def test_the_command_line_and_the_function_write_the_same_model(quantized, tmp_path):
    output = tmp_path / "digits.int8.onnx"
    result = qpasses.quantize(FLOAT, CALIBRATION, output)
    assert output.read_bytes() == quantized[1].read_bytes()
    assert result.verdict == "ok"
    assert result.model.SerializeToString(deterministic=True) == output.read_bytes()


# verify


def test_verify_ends_with_0_and_the_verdict_ok(verified):
    ended, path = verified
    report = read_json(path)
    assert ended.exit_code == 0
    assert line_with(ended.output, "verdict:").startswith("proofs ok; accuracy good (3")
    assert report["summary"]["verdict"] == "ok"
    assert report["summary"]["problems"] == []
    assert report["checks"]["bodies"]["samples"] == 25


def test_verify_recomputes_the_evidence_of_quantize(quantized, verified):
    made, found = read_json(quantized[2]), read_json(verified[1])
    assert found["evidence"] == made["evidence"]
    assert found["model"] == made["model"]
    unlike = {"problems", "accuracy"}
    ours, theirs = (
        {key: value for key, value in report["summary"].items() if key not in unlike}
        for report in (made, found)
    )
    assert ours == theirs


def test_verify_prints_the_probe_and_the_comparison_of_both_bodies(verified):
    ended, path = verified
    checks = read_json(path)["checks"]
    probe = checks["kernel_probe"]
    assert line_with(ended.output, "kernel probe") == (
        f"{probe['accumulators']:,} accumulators on {probe['nodes']} nodes: 0 differ"
    )
    assert line_with(ended.output, "both bodies") == (
        "25 samples: 0 elements differ unoptimized, 0 optimized"
    )


class Verified:
    """A tiny model with its integer form, to be spoiled and verified."""

    def __init__(self, folder, made):
        self.folder = folder
        self.float = save(folder, "float.onnx", made)
        self.data = save(folder, "data.npy", pictures())
        self.integer = folder / "integer.onnx"
        qpasses.quantize(self.float, self.data, self.integer)

    def after(self, spoil):
        """The verification of the integer model after ``spoil(model)``."""
        made = onnx.load(self.integer)
        spoil(made)
        spoiled = save(self.folder, "spoiled.onnx", made)
        return qpasses.verify(spoiled, self.float, self.data)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return Verified(tmp_path_factory.mktemp("tiny"), cnn())


def change_constant(made, name, change):
    """Replace the values of an initializer; metadata stay."""
    (tensor,) = [each for each in made.graph.initializer if each.name == name]
    values = change(numpy_helper.to_array(tensor).copy())
    tensor.raw_data = np.ascontiguousarray(values).tobytes()


def node_of(made, op_type):
    (node,) = [node for node in made.graph.node if node.op_type == op_type]
    return node


def test_verify_accepts_what_was_not_changed(tiny):
    assert tiny.after(lambda made: None).verdict == "ok"


def test_verify_ends_with_1_against_another_float_model(tiny):
    other = save(tiny.folder, "other.onnx", cnn(seed=1))
    ended = invoke("verify", tiny.integer, "--against", other, "--data", tiny.data)
    assert ended.exit_code == 1
    assert "another float model" in line_with(ended.output, "problem:")
    assert line_with(ended.output, "verdict:").startswith("proofs failed (")


@pytest.mark.parametrize("stripped", ["model", slow("nodes"), slow("everything")])
def test_verify_ends_with_3_if_the_record_was_stripped(tiny, stripped):
    made = onnx.load(tiny.integer)
    if stripped != "nodes":
        del made.metadata_props[:]
    if stripped != "model":
        for each in [*made.graph.node, *made.graph.value_info, *made.graph.output]:
            del each.metadata_props[:]
    path = save(tiny.folder, f"{stripped}.onnx", made)
    with pytest.raises(ModelError, match="record"):
        qpasses.verify(path, tiny.float, tiny.data)
    code, message = exit_code_of_process(
        "verify", path, "--against", tiny.float, "--data", tiny.data
    )
    assert code == 3
    assert message.startswith("error: ")
    assert "metadata was stripped" in message
    assert len(message.splitlines()) == 1


def test_verify_ends_with_3_for_a_float_model(tiny):
    code, message = exit_code_of_process(
        "verify", tiny.float, "--against", tiny.float, "--data", tiny.data
    )
    assert code == 3
    assert "not an integer model" in message


def test_verify_notices_a_bias_that_can_overflow(tiny):
    def spoil(made):
        name = node_of(made, "IntConv").input[4]
        change_constant(made, name, lambda bias: np.full_like(bias, np.iinfo(np.int32).max))

    result = tiny.after(spoil)
    assert result.verdict == "failed"
    assert "can leave int32" in "".join(result.report["summary"]["problems"])


def test_verify_notices_where_a_changed_multiplier_parts_meaning_and_kernel(
    quantized, tmp_path
):
    made = onnx.load(quantized[1])
    names = [node.input[5] for node in made.graph.node if node.op_type == "IntConv"]
    for name in names:
        change_constant(made, name, lambda multiplier: multiplier + 1)
    spoiled = save(tmp_path, "spoiled.onnx", made)
    ended = invoke("verify", spoiled, "--against", FLOAT, "--data", TEST, "--samples", 1)
    assert ended.exit_code == 1
    assert "mismatches of body and meaning" in ended.output


def test_verify_notices_a_clamp_that_the_nodes_body_does_not_apply(tiny):
    def spoil(made):
        y_max = node_of(made, "IntConv").input[-1]
        change_constant(made, y_max, lambda end: np.full_like(end, 100))

    result = tiny.after(spoil)
    assert result.verdict == "failed"
    assert "IntConv" in "".join(result.report["summary"]["problems"])


def test_verify_notices_a_changed_function_body(tiny):
    def spoil(made):
        (function,) = [each for each in made.functions if each.name == "IntGemm"]
        function.node[-1].output[0] = "unclamped"
        function.node.append(helper.make_node("Min", ["unclamped", "y_zero"], ["y"]))

    assert tiny.after(spoil).verdict == "failed"


CONSTANTS = [
    (name, formal)
    for name in ("IntConv", "IntGemm", "IntGlobalAveragePool")
    for formal in OPS[name].inputs
    if formal != "x"
]


@pytest.mark.thinned
@pytest.mark.parametrize(("op", "formal"), CONSTANTS)
def test_verify_notices_one_step_in_one_constant(tiny, op, formal):
    def one_step(values):
        values.flat[-1] ^= 1
        return values

    def spoil(made):
        node = node_of(made, op)
        change_constant(made, node.input[list(OPS[op].inputs).index(formal)], one_step)

    assert tiny.after(spoil).verdict == "failed"


def test_verify_notices_another_window(tiny):
    def spoil(made):
        (window,) = [a for a in node_of(made, "MaxPool").attribute if a.name == "kernel_shape"]
        window.ints[:] = [1, 1]

    assert tiny.after(spoil).verdict == "failed"


def test_verify_notices_a_scale_at_the_edge_that_is_not_the_records(tiny):
    def spoil(made):
        scale = node_of(made, "QuantizeLinear").input[1]
        change_constant(made, scale, lambda value: value * 2)

    assert tiny.after(spoil).verdict == "failed"


def test_verify_names_a_function_that_is_missing(tiny):
    def spoil(made):
        del made.functions[:]

    problems = tiny.after(spoil).report["summary"]["problems"]
    assert any("function qpasses.IntConv" in problem for problem in problems)


@pytest.mark.parametrize("spoiled", ["overload", "record"])
def test_verify_refuses_a_model_that_cannot_be_its_own(tiny, spoiled):
    def spoil(made):
        if spoiled == "overload":
            for each in [*made.functions, *made.graph.node]:
                each.overload = "mine" if each.overload else ""
        else:
            for entry in node_of(made, "IntConv").metadata_props:
                entry.value = "{"

    with pytest.raises(ModelError):
        tiny.after(spoil)


@pytest.mark.parametrize("other", ["names", "shapes", "number"])
def test_verify_refuses_a_float_model_with_other_outputs(tiny, other):
    made = cnn()
    if other == "names":
        made.graph.output[0].name = made.graph.node[-1].output[0] = "scores"
    elif other == "shapes":
        made = cnn(w2=numbers(4, 5), b2=numbers(5))
        made.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 5
    else:
        made.graph.output.append(onnx.ValueInfoProto(name="a"))
        made.graph.output[1].type.CopyFrom(made.graph.output[0].type)
        made.graph.output[1].type.tensor_type.ClearField("shape")
    path = save(tiny.folder, f"other_{other}.onnx", made)
    with suppress(QPassesError):
        assert qpasses.verify(tiny.integer, path, tiny.data).verdict == "failed"


def test_verify_handles_a_model_in_which_nothing_is_integer(tmp_path):
    text = "g (float[N, 1, 8, 8] x) => (float[N, 1, 8, 8] y) { y = LRN <size = 3> (x) }"
    result = Verified(tmp_path, model(text)).after(lambda made: None)
    assert result.verdict == "incomplete"


def test_verify_reports_the_target_the_model_was_made_for(tmp_path):
    target = tmp_path / "mine.toml"
    rules = 'name = "mine"', 'description = ""', "multiplier_bits = 31", 'rounding = "half_up"'
    target.write_text("\n".join(rules))
    made = save(tmp_path, "float.onnx", cnn())
    data, integer = save(tmp_path, "d.npy", pictures()), tmp_path / "integer.onnx"
    report = qpasses.quantize(made, data, integer, target=target).report
    assert report["target"] == "mine"
    verified = qpasses.verify(integer, made, data).report
    assert (verified["target"], verified["summary"]["verdict"]) == ("mine", "ok")
