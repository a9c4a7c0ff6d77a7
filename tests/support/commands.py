"""The command line in this process or its own: how it ended, what it said, what it wrote."""

import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from unittest.mock import patch

import pytest

from qpasses.cli import main
from tests.support.small_models import save

USAGE, MODEL = 2, 3


@dataclass(frozen=True)
class Ended:
    """How a command ended: exit code, standard output, standard error."""

    code: int
    out: str
    err: str


def run(*arguments):
    """The entry point in this process."""
    out, err = io.StringIO(), io.StringIO()
    with (
        patch.object(sys, "argv", ["qpasses", *map(str, arguments)]),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
    return Ended(code, out.getvalue(), err.getvalue())


def run_in_a_process(*arguments, folder=None, **environment):
    """The entry point in a process of its own, in ``folder``, warnings included."""
    command = [sys.executable, "-c", "from qpasses.cli import main; main()"]
    ended = subprocess.run(
        [*command, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, **environment},
    )
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def assert_refused(ended, code, *culprits):
    """The command ended with ``code`` and one line that names the culprits."""
    assert ended.code == code, ended.err
    assert ended.err.startswith("error: ")
    assert len(ended.err.splitlines()) == 1, ended.err
    for culprit in culprits:
        assert str(culprit) in ended.err


def read_json(path):
    """Strict JSON: no NaN, no Infinity."""
    return json.loads(path.read_text(encoding="utf-8"), parse_constant=pytest.fail)


class Desk:
    """A folder with a float model, its samples, and places for what a command writes."""

    def __init__(self, folder, made, data):
        self.folder = folder
        self.model = save(folder, "float.onnx", made)
        self.data = save(folder, "data.npy", data)
        self.output = folder / "out.onnx"
        self.report = folder / "out.json"
        self.table = folder / "table.json"

    def quantize(self, *options, runner=run):
        """``qpasses quantize`` with model, samples and output; nothing older is there."""
        for path in (self.output, self.report):
            path.unlink(missing_ok=True)
        given = "--data", self.data, "-o", self.output, "--json", self.report
        return runner("quantize", self.model, *given, *options)

    def calibrate(self, *options, runner=run):
        """``qpasses calibrate`` with model, samples and table; nothing older is there."""
        for path in (self.table, self.report):
            path.unlink(missing_ok=True)
        given = "--data", self.data, "-o", self.table, "--json", self.report
        return runner("calibrate", self.model, *given, *options)

    def verify(self, *options, runner=run):
        """``qpasses verify`` of the output."""
        given = "--against", self.model, "--data", self.data, "--json", self.report
        return runner("verify", self.output, *given, *options)

    def refused(self, *options):
        """The one line that ``quantize`` ends with as a usage error, nothing written."""
        ended = self.quantize(*options)
        assert_refused(ended, USAGE)
        assert not self.output.exists()
        assert not self.report.exists()
        return ended.err
