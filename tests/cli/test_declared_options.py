"""What is declared is on the command line, by heading, in the file, and completed."""

import os
import re
from unittest.mock import patch

import pytest
from click.shell_completion import BashComplete

from qpasses.cli import cli
from qpasses.ir.commands import COMMANDS
from qpasses.ir.declared import declared
from qpasses.ir.options import HEADINGS
from tests.support.commands import USAGE, assert_refused, run

CONFIGURED = [path for path, options in COMMANDS.items() if "config" in declared(options)]

every_command = pytest.mark.parametrize("path", COMMANDS)


def help_of(path):
    with patch.dict(os.environ, COLUMNS="200"):
        return run(*path.split(), "--help").out


def sections(text):
    """Of a help the text under each heading, one line."""
    found = re.split(r"^(\S[^\n]*):$", text, flags=re.M)[1:]
    return {
        name: " ".join(body.split()) for name, body in zip(*[iter(found)] * 2, strict=True)
    }


@every_command
def test_every_option_stands_in_the_help_under_its_heading(path):
    shown = sections(help_of(path))
    for each in declared(COMMANDS[path]).values():
        under = shown[each.option.heading]
        assert re.search(rf"--{each.flag}(?![\w-])", under), each.flag
        assert each.option.help in under
        assert each.option.unset in under
        for choice in each.option.choices:
            assert str(choice) in under


@every_command
def test_the_headings_stand_in_their_order(path):
    shown = [name for name in sections(help_of(path)) if name in HEADINGS]
    assert shown == [name for name in HEADINGS if name in shown]
    assert {each.option.heading for each in declared(COMMANDS[path]).values()} <= {*shown}


@every_command
def test_a_default_that_is_a_value_is_shown(path):
    under = " ".join(sections(help_of(path)).values())
    for each in declared(COMMANDS[path]).values():
        if isinstance(each.default, int | float | str) and each.default is not False:
            shown = each.flag if each.default is True else each.default
            assert f"[default: {shown}" in under


def test_nothing_says_as_before():
    assert not any("as before" in help_of(path) for path in COMMANDS)


@pytest.mark.parametrize("path", CONFIGURED)
def test_every_option_may_stand_in_the_file(path, tmp_path):
    file = tmp_path / "options.toml"
    for each in declared(COMMANDS[path]).values():
        if each.name == "config" or each.flag in COMMANDS:  # a table is of the command
            continue
        for name in (each.flag, each.flag.replace("-", "_")):
            file.write_text(f"{name} = {{}}")
            ended = run(path, "model.onnx", "--config", file)
            assert_refused(ended, USAGE, f"{file}: {name} = {{}}: {each.kind.needed.lower()}")


def completed(*words):
    """What bash is offered for the last of ``words``."""
    asked = {"COMP_WORDS": " ".join(["qpasses", *words]), "COMP_CWORD": str(len(words))}
    with patch.dict(os.environ, asked):
        lines = BashComplete(cli, {}, "qpasses", "_QPASSES_COMPLETE").complete().splitlines()
    return {line.partition(",")[2] for line in lines}


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["q"], {"quantize"}),
        (["quantize", "--softmax-b"], {"--softmax-bits"}),
        (["quantize", "--softmax-bits", ""], {"16", "24", "32"}),
        (["quantize", "--calibration-method", "m"], {"minmax", "moving-average", "mse"}),
        (["calibrate", "m.onnx", "--fo"], {"--format"}),
        (["calibrate", "convert", "--format", "o"], {"onnxruntime"}),
    ],
)
def test_commands_options_and_choices_are_completed(words, offered):
    assert completed(*words) == offered
