"""Results are files and exit codes: where nothing can be printed, they are the same."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.small_models import model, numbers

FULL = Path("/dev/full")
NET = "g (float[1, 2, 5, 5] x) => (float[1, 3, 5, 5] y) { y = Conv (x, w) }"


def run(folder, *flags, shell="", **streams):
    """Quantize a convolution in ``folder`` in a process of its own."""
    source = folder / "net.onnx"
    source.write_bytes(model(NET, opset=17, w=numbers(3, 2, 1, 1)).SerializeToString())
    asked = ("quantize", str(source), "--data", "random:2", "-o", str(folder / "out.onnx"))
    command = [sys.executable, *flags, "-m", "qpasses", *asked]
    if shell:
        command = ["sh", "-c", f'"$@" {shell}', "sh", *command]
    root = {"PYTHONPATH": str(Path(__file__).parents[2])}
    given = {"stderr": subprocess.PIPE, "text": True, "env": os.environ | root} | streams
    ended = subprocess.run(command, check=False, **given)
    assert "Traceback" not in ended.stderr
    assert (folder / "out.onnx").is_file()
    return ended


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
def test_a_full_disk_behind_the_report_costs_a_warning(tmp_path):
    with FULL.open("w") as stdout:
        ended = run(tmp_path, stdout=stdout)
    assert ended.returncode == 0
    assert "the report cannot be printed: No space left" in ended.stderr


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("name, code", [("no.onnx", 2), ("text.onnx", 3)])
def test_an_error_that_cannot_be_printed_has_its_exit_code(tmp_path, name, code):
    (tmp_path / "text.onnx").write_text("no model")
    command = ["quantize", name, "--data", "random:1", "-o", "out.onnx"]
    with FULL.open("w") as nowhere:
        ended = subprocess.run(
            [sys.executable, "-m", "qpasses", *command],
            check=False,
            cwd=tmp_path,
            stderr=nowhere,
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        )
    assert ended.returncode == code


def test_a_reader_that_stops_or_is_not_there_changes_nothing(tmp_path):
    reading, writing = os.pipe()
    os.close(reading)
    try:
        assert run(tmp_path, stdout=writing).returncode == 0
    finally:
        os.close(writing)
    assert run(tmp_path, shell=">&-").returncode == 0


def test_without_asserts_and_docstrings_it_works_as_well(tmp_path):
    ended = run(tmp_path, "-OO", stdout=subprocess.PIPE)
    assert ended.returncode == 0 and "verdict: proofs ok" in ended.stdout
