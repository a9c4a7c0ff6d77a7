"""Loading the toolkit leaves nothing in the user's folders."""

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["calibration", "qpasses.api"])
def test_onnxruntime_writes_nothing_beside_the_results(module, tmp_path):
    folders = {name: tmp_path / name for name in ("HOME", "TMPDIR")}
    for each in folders.values():
        each.mkdir()
    kept = {name: v for name, v in os.environ.items() if "TELEMETRY" not in name}
    given = kept | {name: str(path) for name, path in folders.items()}
    subprocess.run([sys.executable, "-c", f"import {module}"], env=given, check=True)
    assert [path for each in folders.values() for path in each.rglob("*")] == []
