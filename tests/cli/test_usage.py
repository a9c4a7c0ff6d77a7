"""Every mistake on the command line ends in one line, exit code 2, and nothing written."""

import pytest

from tests.support.commands import USAGE, Desk, assert_refused, run, run_in_a_process
from tests.support.small_models import model, numbers

TINY = "g (float[N, 4] x) => (float[N, 3] y) { [product] y = MatMul (x, w) }"


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path, model(TINY, w=numbers(4, 3)), numbers(8, 4))


MISTAKES = {
    "unknown command": (["quantise"], "quantise"),
    "unknown option before the command": (["--colour", "quantize"], "--colour"),
    "unknown option": (["quantize", "MODEL", "--colour", "red"], "--colour"),
    "mistyped option": (["quantize", "MODEL", "--sampels", "3"], "--samples"),
    "no model": (["quantize", "--data", "DATA", "-o", "OUTPUT"], "MODEL"),
    "no data": (["quantize", "MODEL", "-o", "OUTPUT"], "--data"),
    "no output": (["quantize", "MODEL", "--data", "DATA"], "--output"),
    "two models": (["quantize", "MODEL", "MODEL", "--data", "DATA", "-o", "OUTPUT"], "float"),
    "an option without its value": (["quantize", "MODEL", "--data"], "--data"),
    "a switch with a value": (["quantize", "MODEL", "--symmetric=yes"], "--symmetric"),
    "calibrate nothing": (["calibrate"], "MODEL"),
    "calibrate without data": (["calibrate", "MODEL", "-o", "OUTPUT"], "--data"),
    "calibrate without a table": (["calibrate", "MODEL", "--data", "DATA"], "--output"),
    "calibrate two models": (
        ["calibrate", "MODEL", "MODEL", "--data", "DATA", "-o", "OUTPUT"],
        "float",
    ),
    "merge nothing": (["calibrate", "merge", "-o", "OUTPUT"], "TABLE"),
    "convert without a format": (["calibrate", "convert", "DATA", "-o", "OUTPUT"], "--format"),
    "verify nothing": (["verify"], "INTEGER"),
    "verify against nothing": (["verify", "MODEL", "--data", "DATA"], "--against"),
    "samples of no data": (
        ["verify", "MODEL", "--against", "MODEL", "--samples", "2"],
        "--data",
    ),
    "an option of quantize for verify": (["verify", "MODEL", "--symmetric"], "--symmetric"),
    "inspect nothing": (["inspect"], "MODEL"),
    "inspect with samples": (["inspect", "MODEL", "--data", "DATA"], "--data"),
    "passes of a model": (["passes", "MODEL"], "float.onnx"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_the_arguments_is_named(desk, name):
    arguments, culprit = MISTAKES[name]
    paths = {"MODEL": desk.model, "DATA": desk.data, "OUTPUT": desk.output}
    ended = run(*(paths.get(each, each) for each in arguments))
    assert_refused(ended, USAGE, culprit)
    assert not desk.output.exists()


BAD_VALUES = {
    "--samples": ["0", "-1", "1.5", "many", ""],
    "--scale": ["", "1/0", "a"],
    "--mean": ["1,,2"],
    "--size": ["0", "8x", "axb", "-8"],
    "--picture-layout": ["HWCN"],
    "--channels": ["CMYK"],
    "--resize": ["zoom"],
    "--preprocess": ["imagnet"],
    "--data": ["random:0", "random:", "random:-3", "random:x", "absent"],
    "--config": ["absent.toml"],
    "--json": ["absent/out.json"],
}


@pytest.mark.parametrize(
    ("option", "value"),
    [(name, value) for name, values in BAD_VALUES.items() for value in values],
)
def test_a_value_that_cannot_be_is_named(desk, option, value):
    message = desk.refused(option, value)
    assert value in message


@pytest.mark.parametrize("command", ["quantize", "verify", "inspect"])
@pytest.mark.parametrize("path", ["absent.onnx", "absent/model.onnx", "", "two\nlines.onnx"])
def test_a_model_that_is_not_there_is_named_in_one_line(desk, command, path):
    given = ["--data", desk.data]
    options = {"quantize": [*given, "-o", desk.output], "verify": [*given, "--against", path]}
    ended = run(command, path, *options.get(command, []))
    assert_refused(ended, USAGE, path.split("\n")[-1])


def test_a_folder_is_no_model(desk):
    assert_refused(run("inspect", desk.folder), USAGE, desk.folder)


def test_without_a_command_the_help_is_shown():
    ended = run()
    assert ended.err == ""
    assert ended.out == run("--help").out


def test_a_process_ends_without_traceback(desk):
    for arguments in (["quantize", desk.model], ["verify", "absent", "--data", "x"]):
        assert_refused(run_in_a_process(*arguments), USAGE)


def test_random_data_for_inputs_of_free_size_are_refused(tmp_path):
    made = model("g (float[N, C] x) => (float[N, M] y) { y = Sin (x) }")
    message = Desk(tmp_path, made, numbers(8, 4)).refused("--data", "random:3")
    assert "'x'" in message
