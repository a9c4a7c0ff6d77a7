"""The README says what is true: the demo's output, the supported ops."""

from pathlib import Path

from click.testing import CliRunner

from opsets.qpasses_v1 import OPS
from qpasses.cli import cli
from qpasses.stages import CLAMPING, MOVING

ROOT = Path(__file__).parents[1]
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
