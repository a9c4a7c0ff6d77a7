"""The README says what is true: the demo's output, the supported ops."""

import json
from dataclasses import fields
from pathlib import Path

import numpy as np
import onnxruntime
from click.testing import CliRunner

import qpasses
from calibration.methods import METHODS
from opsets.qpasses_v1 import OPS
from opsets.target import Target, target_names
from qpasses import quantize
from qpasses.cli import cli
from qpasses.ir.moving import MOVING
from qpasses.ir.stages import CLAMPING

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "models" / "digits_cnn"
README = (ROOT / "README.md").read_text("utf-8")


def test_every_op_stands_in_the_readme():
    assert [op for op in {*OPS, *MOVING, *CLAMPING} if op not in README] == []


def test_the_demo_prints_the_evidence_and_the_summary_of_the_readme(tmp_path):
    arguments = ["quantize", str(DIGITS / "digits_cnn.onnx")]
    arguments += ["--data", str(DIGITS / "calibration.npz"), "-o", str(tmp_path / "out.onnx")]
    printed = CliRunner().invoke(cli, arguments).output
    lines = [line.rstrip() for line in printed[printed.index("Evidence") :].splitlines()]
    proved = lines[: next(i for i, line in enumerate(lines) if line.startswith("Against"))]
    assert "\n".join(proved) in README
    assert lines[-1] in README
    shown = README[README.index("qpasses quantize\n model ") : README.index("Samples: 100")]
    configured = [line.split()[0] for line in printed[: printed.index("Samples")].splitlines()]
    assert [
        line.split()[0] for line in shown.splitlines() if "json " not in line
    ] == configured


def test_calibrate_prints_the_tensors_of_the_readme(tmp_path):
    arguments = ["calibrate", str(DIGITS / "digits_cnn.onnx"), "-o", str(tmp_path / "t.json")]
    arguments += ["--data", str(DIGITS / "calibration.npz"), "--calibration-method", "auto"]
    printed = CliRunner().invoke(cli, arguments).output
    shown = printed[printed.index("Tensors") :].rstrip().splitlines()
    assert "\n".join(line.rstrip() for line in shown) in README


def test_every_calibration_method_stands_in_the_readme():
    assert [name for name in METHODS if f"`{name}`" not in README] == []


def test_inspect_prints_what_the_readme_shows(tmp_path):
    written = str(tmp_path / "out.onnx")
    quantize(DIGITS / "digits_cnn.onnx", DIGITS / "calibration.npz", written)
    printed = CliRunner().invoke(cli, ["inspect", written, "--node", "down/add"]).output
    assert "\n".join(line.rstrip() for line in printed.rstrip().splitlines()) in README


def test_the_lines_that_feed_stored_integers_work(tmp_path):
    written = tmp_path / "model.int8.onnx"
    quantize(DIGITS / "digits_cnn.onnx", DIGITS / "calibration.npz", written, integer_io=True)
    start = README.index("session = onnxruntime.InferenceSession")
    code = README[start : README.index("```", start)].replace("model.int8.onnx", str(written))
    image = np.load(DIGITS / "calibration.npz")["image"][:1]
    names = {"onnxruntime": onnxruntime, "json": json, "numpy": np, "image": image}
    exec(code, names)
    (logits,) = names["session"].run(None, names["feed"])
    assert logits.dtype == np.uint8 and len(np.unique(logits)) > 5


def test_the_lines_that_read_the_evidence_print_every_node(tmp_path, capsys):
    written = tmp_path / "model.int8.onnx"
    quantize(DIGITS / "digits_cnn.onnx", DIGITS / "calibration.npz", written)
    start = README.index("evidence = json.loads")
    beside = str(tmp_path / "model.int8.evidence.json")
    code = README[start : README.index("```", start)].replace(
        "model.int8.evidence.json", beside
    )
    exec(code, {"json": json, "Path": Path})
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 12
    assert printed[0] == (
        "stem/conv thresholds 0 of 2269771 - the first onnxruntime body of IntConv that "
        "computes such a node"
    )


def test_the_lines_that_make_wide_tables_print_what_is_shown(capsys):
    start = README.index("x = qpasses.Quantization")
    end = README.index("```", start)
    exec(README[start:end], {"qpasses": qpasses})
    shown = f"```\n\n```\n{capsys.readouterr().out}```"
    assert README[end:].startswith(shown)


def test_the_arithmetic_of_a_target_is_what_the_readme_shows(capsys):
    shown = README[README.index("import opsets\n") :]
    code, printed = shown.split("```")[0], shown.split("```\n")[2]
    exec(code, {})
    assert capsys.readouterr().out == printed


def test_every_shipped_target_and_every_rule_stands_in_the_readme():
    names = {*target_names(), *(field.name for field in fields(Target))}
    assert [
        name for name in names if f"`{name}`" not in README and f"{name} =" not in README
    ] == []
