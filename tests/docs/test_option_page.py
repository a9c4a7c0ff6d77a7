"""docs/options.md: every option is in its tables, its configuration file works."""

import re
import shutil
from pathlib import Path

import pytest

from qpasses.ir.commands import COMMANDS
from qpasses.ir.declared import declared
from tests.support.commands import run

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "options.md").read_text("utf-8")
DIGITS = ROOT / "models" / "digits_cnn"
TABLES = re.split(r"^### (.*)$", PAGE.partition("<!-- end of options -->")[0], flags=re.M)[1:]


@pytest.mark.parametrize("path", COMMANDS)
def test_every_option_is_in_the_table_of_its_heading(path):
    tables = dict(zip(TABLES[::2], TABLES[1::2], strict=True))
    for each in declared(COMMANDS[path]).values():
        rows = tables[each.option.heading].splitlines()
        (row,) = [
            row.split(" | ")
            for row in rows
            if re.search(rf"`--{each.flag}`", row.split(" | ")[0])
            and path.split()[-1] in row.split(" | ")[-2].split(", ")
        ]
        assert all(f"`{choice}`" in row[0] for choice in each.option.choices)
        assert each.option.unset in row[1]
        assert each.option.help in row[2]


def test_the_configuration_file_shown_does_for_both_commands(tmp_path, monkeypatch):
    shutil.copy(DIGITS / "digits_cnn.onnx", tmp_path / "model.onnx")
    shutil.copy(DIGITS / "calibration.npz", tmp_path / "samples.npz")
    (tmp_path / "model.toml").write_text(PAGE.split("```toml\n")[1].partition("```")[0])
    monkeypatch.chdir(tmp_path)
    for line in re.findall(r"`qpasses (\w+ \S+ --config model.toml)`", PAGE):
        ended = run(*line.split())
        assert ended.code == 0, ended.err
        assert "verdict: proofs ok" in ended.out
    assert (tmp_path / "model.int8.onnx").exists()
